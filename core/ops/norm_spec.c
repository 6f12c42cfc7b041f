#include "core/ops/norm_spec.h"

#include <math.h>

/* The variance is tracked unbiased.  After a batch that is not finite they would never recover. */
void qg__norm_track(qg_norm_spec spec, size_t k, double m, double mean, double var)
{
    const float momentum = spec.momentum == 0 ? 0.1f : spec.momentum;
    const float centre = (float)mean, unbiased = (float)(m > 1 ? var * m / (m - 1) : var);
    if (!isfinite(centre) || !isfinite(unbiased)) return;
    spec.mean[k] += momentum * (centre - spec.mean[k]);
    spec.var[k] += momentum * (unbiased - spec.var[k]);
}

bool qg__norm_fits(qg_tape *t, const char *op, const char *name, const qg_var *x, int c, const qg_var *gamma,
                   const qg_var *beta, qg_norm_spec spec)
{
    const bool    scale = gamma && qg_count(gamma->shape) != (size_t)c;
    const qg_var *v     = scale ? gamma : beta;
    if (v && qg_count(v->shape) != (size_t)c)
        qg_reject(t, QG_ESHAPE, "%s: %s " QG_SHAPE_FMT " has %d channels, %s is " QG_SHAPE_FMT, op, name,
                  QG_SHAPE_ARGS(x->shape), c, scale ? "gamma" : "beta", QG_SHAPE_ARGS(v->shape));
    else if (!spec.mean || !spec.var)
        qg_reject(t, QG_EARG, "%s: running mean and var are required", op);
    else if (!(spec.eps >= 0))
        qg_reject(t, QG_EARG, "%s: eps is %g, not above 0", op, (double)spec.eps);
    else if (!(spec.momentum >= 0 && spec.momentum <= 1))
        qg_reject(t, QG_EARG, "%s: momentum is %g, not in 0..1", op, (double)spec.momentum);
    else return true;
    return false;
}
