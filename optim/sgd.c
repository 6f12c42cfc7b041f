/* SGD: checks its spec and chooses a rule, one of the loops of optim/sgd_kernel.c. */
#include "core/kernels/cpu.h"
#include "optim/rule.h"

/* One copy of each rule for each instruction set. */
QG_DECLARE_KERNELS(qg_rule, qg__sgd_plain);
QG_DECLARE_KERNELS(qg_rule, qg__sgd_momentum);

qg_optim *qg_sgd(qg_params *p, qg_sgd_spec spec)
{
    if (!p) return NULL;
    if (!(spec.momentum >= 0 && spec.momentum < 1))
        return qg__refuse(QG_EARG, "sgd: momentum is %g, must be 0 to less than 1", (double)spec.momentum);
    if (spec.nesterov && spec.momentum == 0)
        return qg__refuse(QG_EARG, "sgd: nesterov needs a momentum greater than 0");
    const qg_rule *rule = spec.momentum > 0 ? QG_KERNELS(qg__sgd_momentum) : QG_KERNELS(qg__sgd_plain);
    return qg_optim_new(p, rule, &spec, sizeof spec, spec.lr, spec.weight_decay);
}
