#include <string.h>

#include "core/ops/ops.h"

/* Vectors of scores are reshaped, not images: one thread is enough. */
static void reshape_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_var      *x = y->in[0];
    const size_t m = qg_count(y->shape);
    for (size_t i = 0; i < m; i++) x->grad[i] = x->fresh ? y->grad[i] : x->grad[i] + y->grad[i];
}

static const qg_op reshape = { "reshape", reshape_backward, .assigns = true };

qg_var *qg_reshape(qg_tape *t, qg_var *x, qg_shape shape)
{
    if (!x) return NULL;
    shape.n = x->shape.n;
    if (shape.h < 1 || shape.w < 1 || shape.c < 1 || qg_row(shape) != qg_row(x->shape))
        return qg_reject(t, QG_ESHAPE, "reshape: x " QG_SHAPE_FMT " does not fill " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(shape));
    qg_var *y = qg_record(t, &reshape, shape, x, NULL, NULL);
    if (!y) return NULL;
    memcpy(y->data, x->data, qg_count(shape) * sizeof *y->data);
    return y;
}
