#include "cli/gradcheck/gradcheck_op.h"

#include "core/rng.h"

static qg_status declare(const op_row *row, qg_params *p)
{
    for (int i = 0; i < OPERANDS && row->operand[i].name; i++)
        if (!qg_params_declare(p, (qg_param){ .name = row->operand[i].name, .shape = row->operand[i].shape }))
            return QG_EMEM;
    return qg_params_allocate(p);
}

qg_status op_check(const op_row *row, void *context, gradcheck_line *line)
{
    qg_params p = { 0 };
    *line       = (gradcheck_line){ .name = row->name, .against = "differences" };
    qg_status s = declare(row, &p);
    for (int i = 0; i < p.count && !s; i++) {
        const float spread = row->operand[i].spread;
        gradcheck_fill(p.item[i]->value, qg_count(p.item[i]->shape), row->operand[i].centre,
                       spread == 0 ? 1 : spread, qg_rng_fork(OP_KEY, (uint64_t)i));
    }
    if (!s)
        s = qg_gradcheck((qg_gradcheck_spec){ .name = row->name, .params = &p, .build = row->build,
                                              .context = context }, &line->result);
    qg_params_release(&p);
    return s;
}
