#include <math.h>

#include "core/kernels/cpu.h"
#include "optim/rule.h"

QG_DECLARE_KERNELS(qg_rule, qg__adam);

qg_status qg__adam_defaults(qg_adam_spec *spec)
{
    if (spec->beta1 == 0) spec->beta1 = 0.9f;
    if (spec->beta2 == 0) spec->beta2 = 0.999f;
    if (spec->eps == 0) spec->eps = 1e-8f;
    if (!(spec->beta1 > 0 && spec->beta1 < 1))
        return qg_fail(QG_EARG, "adam: beta1 is %g, must be 0 (for 0.9) to less than 1",
                       (double)spec->beta1);
    if (!(spec->beta2 > 0 && spec->beta2 < 1))
        return qg_fail(QG_EARG, "adam: beta2 is %g, must be 0 (for 0.999) to less than 1",
                       (double)spec->beta2);
    if (!(spec->eps > 0 && isfinite(spec->eps)))
        return qg_fail(QG_EARG, "adam: eps is %g, must be 0 (for 1e-8) or more", (double)spec->eps);
    return QG_OK;
}

qg_optim *qg_adam(qg_params *p, qg_adam_spec spec)
{
    if (!p || qg__adam_defaults(&spec)) return NULL;
    return qg_optim_new(p, QG_KERNELS(qg__adam), &spec, sizeof spec, spec.lr, spec.weight_decay);
}
