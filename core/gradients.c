/* Gradients of activations exist from the backward of the first op that adds to them to that of the op that they are of.
 * Then their memory serves others. */
#include "core/walk.h"

#include <string.h>

/* A buffer that is free; the record is written into the buffer itself. */
typedef struct qg__spare {
    struct qg__spare *next;
    size_t            bytes;
} spare;

/* The smallest free buffer that is large enough, else new memory. */
void *qg__lend(qg_tape *t, size_t *bytes)
{
    spare **best = NULL;
    for (spare **s = &qg__tape_walk(t)->spares; *s; s = &(*s)->next)
        if ((*s)->bytes >= *bytes && (!best || (*s)->bytes < (*best)->bytes)) best = s;
    if (!best) return qg__tape_take(t, *bytes);
    spare *s = *best;
    *bytes   = s->bytes;
    *best    = s->next;
    return s;
}

void qg__give(qg_tape *t, void *memory, size_t bytes)
{
    if (bytes < sizeof(spare)) return;
    spare    *s = memory;
    qg__walk *w = qg__tape_walk(t);
    *s          = (spare){ w->spares, bytes };
    w->spares   = s;
}

static size_t value_bytes(const qg_var *v) { return qg_count(v->shape) * sizeof(float); }

/* The record fits, too. */
static size_t gradient_bytes(const qg_var *v)
{
    return value_bytes(v) < sizeof(spare) ? sizeof(spare) : value_bytes(v);
}

bool qg__gradient_take(qg_tape *t, qg_var *v)
{
    v->room = gradient_bytes(v);
    v->grad = qg__lend(t, &v->room);
    return v->grad;
}

/* --- gradients and values that share memory -------------------------------------------------- */

void qg_share_gradient(qg_var *y)
{
    const qg_var *x = y->in[0];
    if (x && !x->op) y->grad = x->grad;
}

bool qg__gradient_shared(const qg_var *v) { return v->in[0] && v->grad == v->in[0]->grad; }

/* A product that only a batch norm reads: these are the larger half of the activations of a step. */
static bool gives_value(const qg_op *reader, const qg_var *x)
{
    return reader->in_place && x->marks & QG__IS_PRODUCT && x->readers == 1 && value_bytes(x) >= sizeof(spare);
}

/* w was computed from a parameter alone, and only the product y has read it. */
static bool is_copy_of_weight(const qg_var *y, const qg_var *w)
{
    if (!(y->marks & QG__IS_PRODUCT) || !w || !w->op || w->readers > 1) return false;
    const qg_var *from = w->in[0];
    return from && !from->op && from->grad && from->data != w->data;
}

/* --- around an op ---------------------------------------------------------------------------- */

static qg_status ready_operand(qg_tape *t, const qg_op *reader, qg_var *x, bool first)
{
    if (!x || !x->needs_grad || x->grad) return QG_OK;
    if (first && gives_value(reader, x) && !qg__tape_walk(t)->retained) {
        x->grad  = x->data;
        x->room  = gradient_bytes(x);
        x->fresh = true;
        return QG_OK;
    }
    if (!qg__gradient_take(t, x)) return qg_tape_status(t);
    x->fresh = reader->assigns;
    if (!x->fresh) memset(x->grad, 0, value_bytes(x));
    return QG_OK;
}

qg_status qg__gradients_ready(qg_tape *t, const qg_var *y)
{
    for (int i = 0; i < QG_OPERANDS; i++)
        if (ready_operand(t, y->op, y->in[i], i == 0)) return qg_tape_status(t);
    return QG_OK;
}

static void give_gradient(qg_tape *t, qg_var *y)
{
    if (!qg__gradient_shared(y)) {
        qg__give(t, y->grad, y->room);
        if (y->grad == y->data) y->data = NULL;         /* it has replaced the value */
    }
    y->grad = NULL;
}

void qg__gradients_done(qg_tape *t, qg_var *y)
{
    for (int i = 0; i < QG_OPERANDS; i++)
        if (y->in[i]) y->in[i]->fresh = false;
    if (is_copy_of_weight(y, y->in[1])) y->in[1]->marks |= QG__IS_SPENT;
    if (qg__tape_walk(t)->retained) return;
    give_gradient(t, y);
    if (!(y->marks & QG__IS_SPENT)) return;
    qg__give(t, y->data, value_bytes(y));
    y->data = NULL;
}
