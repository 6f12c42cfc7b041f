/* core/ops/norm_spec.h — what qg_norm and the ops that fold a batch norm have in common.  Internal. */
#ifndef QG_NORM_H
#define QG_NORM_H

#include <math.h>

#include "core/ops/ops.h"

static inline double qg__norm_eps(qg_norm_spec spec) { return spec.eps == 0 ? 1e-5 : (double)spec.eps; }

/* sqrt(var + eps) of the running variance. */
static inline double qg__norm_deviation(qg_norm_spec spec, size_t k)
{
    return sqrt((double)spec.var[k] + qg__norm_eps(spec));
}

/* The running statistics of channel k move towards those of m numbers, whose variance is biased.  A
 * batch that is not finite leaves them alone: its loss is refused. */
void qg__norm_track(qg_norm_spec spec, size_t k, double m, double mean, double var);

/* x, called name in messages, has c channels: the statistics are there, the constants legal, and gamma
 * and beta, where there are such, have as many.  If not, t is rejected with QG_ESHAPE or QG_EARG. */
bool qg__norm_fits(qg_tape *t, const char *op, const char *name, const qg_var *x, int c, const qg_var *gamma,
                   const qg_var *beta, qg_norm_spec spec);

#endif
