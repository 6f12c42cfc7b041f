#include <math.h>

#include "core/kernels/cpu.h"
#include "optim/rule.h"

QG_DECLARE_KERNELS(qg_rule, qg__adam);
QG_DECLARE_KERNELS(qg_rule, qg__bop);

typedef struct bop {
    qg_bop_spec    spec;
    const qg_rule *flips, *rest;
} bop;

static void update(const void *context, const qg_stretch *s)
{
    const bop *b = context;
    if (s->param->flips) b->flips->update(&b->spec, s);
    else b->rest->update(&b->spec.rest, s);
}

/* m is the average of the gradient in both; v stays 0 where weights flip. */
static const qg_rule rule = { "bop", 2, { "m", "v" }, update, true };

qg_optim *qg_bop(qg_params *p, qg_bop_spec spec)
{
    if (!p) return NULL;
    if (spec.gamma == 0) spec.gamma = 1e-4f;
    if (spec.threshold == 0) spec.threshold = 1e-8f;
    if (!(spec.gamma > 0 && spec.gamma <= 1))
        return qg__refuse(QG_EARG, "bop: gamma is %g, must be 0 (for 1e-4) to 1", (double)spec.gamma);
    if (!(spec.threshold > 0 && isfinite(spec.threshold)))
        return qg__refuse(QG_EARG, "bop: threshold is %g, must be 0 (for 1e-8) or more",
                          (double)spec.threshold);
    if (!qg__first_that_flips(p))
        return qg__refuse(QG_EARG, "bop: no parameter flips; give a weight the scheme bop");
    if (qg__adam_defaults(&spec.rest)) return NULL;
    const bop b = { spec, QG_KERNELS(qg__bop), QG_KERNELS(qg__adam) };
    return qg_optim_new(p, &rule, &b, sizeof b, spec.rest.lr, spec.rest.weight_decay);
}
