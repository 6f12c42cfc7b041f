/* cli/gradcheck/gradcheck_op.h — rows about an op, whose operands are parameters. */
#ifndef CLI_GRADCHECK_OP_H
#define CLI_GRADCHECK_OP_H

#include "cli/gradcheck/gradcheck.h"
#include "core/ops/ops.h"

enum { OPERANDS = 4, OP_KEY = 11 };     /* most of a row; of all values that are drawn */

typedef struct op_row {
    const char *name;
    qg_var   *(*build)(qg_tape *t, const qg_params *p, void *context);
    struct {
        const char *name;
        qg_shape    shape;
        float       centre, spread;     /* as gradcheck_fill; spread 0: 1 */
    } operand[OPERANDS];                /* ends with a NULL name, or is full */
} op_row;

/* Operand i; NULL if there is none. */
static inline qg_var *op_in(qg_tape *t, const qg_params *p, int i)
{
    return i < p->count ? qg_parameter(t, p->item[i]) : NULL;
}

/* context is for build. */
qg_status op_check(const op_row *row, void *context, gradcheck_line *line);

#endif
