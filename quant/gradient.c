/* What schemes for gradients share: values pass, and what comes back is rounded. */
#include "core/slices.h"
#include "core/walk.h"
#include "quant/engine.h"

qg_var *qg__gradient_apply(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    if (!x->needs_grad) return x;
    qg_var            *y = qg__record_view(t, &b->q.scheme->ops[0], x);
    qg_gradient_coder *g = y ? qg_save(t, y, sizeof *g) : NULL;
    if (!g) return NULL;
    *g = (qg_gradient_coder){ .q = b->q, .y = y, .key = qg_tape_key(t) };
    return y;
}

double qg__gradient_surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return to->x[i];
}

size_t qg__gradient_draw(const qg_gradient_coder *g, int image)
{
    return (size_t)(qg__slices_of(g->y).first + image) * qg_row(g->y->shape);
}
