#include <math.h>
#include <string.h>

#include "core/tape_parts.h"

static size_t grad_bytes(const qg_var *v)
{
    const size_t bytes = qg_count(v->shape) * sizeof(float);
    return bytes < sizeof(qg__spare) ? sizeof(qg__spare) : bytes;
}

/* The smallest waiting buffer that is large enough, else new memory. */
static bool grad_take(qg_tape *t, qg_var *v)
{
    const size_t bytes = grad_bytes(v);
    qg__spare  **best  = NULL;
    for (qg__spare **s = &t->spares; *s; s = &(*s)->next)
        if ((*s)->bytes >= bytes && (!best || (*s)->bytes < (*best)->bytes)) best = s;
    v->room = best ? (*best)->bytes : bytes;
    v->grad = best ? (float *)(void *)*best : qg__tape_take(t, &t->step, bytes);
    if (best) *best = (*best)->next;
    return v->grad;
}

static void give(qg_tape *t, float *buffer, size_t bytes)
{
    if (bytes < sizeof(qg__spare)) return;
    qg__spare *s = (qg__spare *)(void *)buffer;
    *s           = (qg__spare){ t->spares, bytes };
    t->spares    = s;
}

static bool shares_grad(const qg_var *v)
{
    return v->op && v->op->straight_through && !v->in[0]->op && v->in[0]->grad;
}

/* w was computed from a parameter alone, and only the product y has read it. */
static bool is_copy_of_weight(const qg_var *y, const qg_var *w)
{
    if (!y->op->value_unused || !w || !w->op || w->readers > 1) return false;
    const qg_var *from = w->in[0];
    return from && !from->op && from->grad && from->data != w->data;
}

/* A product that only a batch norm reads: half of the activations of a step, and the larger half. */
static bool gives_value(const qg_op *reader, const qg_var *x)
{
    return reader->in_place && x->op && x->op->value_unused && x->readers == 1;
}

static qg_status ready_operand(qg_tape *t, const qg_var *y, int i)
{
    qg_var    *x       = y->in[i];
    const bool assigns = y->op->assigns;
    if (!x || !x->needs_grad || x->grad) return QG_OK;
    if (shares_grad(x)) {
        x->grad = x->in[0]->grad;
        return QG_OK;
    }
    if (i == 0 && gives_value(y->op, x) && qg_count(x->shape) * sizeof(float) >= sizeof(qg__spare)) {
        x->grad  = x->data;
        x->room  = grad_bytes(x);
        x->fresh = true;
        return QG_OK;
    }
    if (!grad_take(t, x)) return t->status;
    x->fresh = assigns;
    if (!assigns) memset(x->grad, 0, qg_count(x->shape) * sizeof(float));
    return QG_OK;
}

static qg_status run_backward(qg_tape *t, qg_var *y)
{
    t->taker = y->op->name;
    for (int i = 0; i < QG_OPERANDS; i++)
        if (ready_operand(t, y, i)) return t->status;
    qg_arena_merge(&t->scratch);
    qg__watch_backward(&t->watch, t, y);
    for (int i = 0; i < QG_OPERANDS; i++)
        if (y->in[i]) y->in[i]->fresh = false;
    if (is_copy_of_weight(y, y->in[1])) y->in[1]->spent = true;
    give(t, y->grad, y->room);
    if (y->grad == y->data) y->data = NULL;         /* its gradient had taken its place */
    y->grad = NULL;
    return t->status;
}

/* Backward has passed v: what it held may serve gradients of vars that are older, and who looks for it
 * finds nothing. */
static void pass(qg_tape *t, qg_var *v)
{
    if (!v->spent) return;
    give(t, v->data, qg_count(v->shape) * sizeof(float));
    v->data = NULL;
}

static bool is_of_step(const qg_tape *t, const qg_var *wanted)
{
    const qg_var *v = t->newest;
    while (v && v != wanted) v = v->older;
    return v;
}

qg_status qg_backward(qg_tape *t, qg_var *loss)
{
    if (!t) return qg_fail_null(QG_ESTATE, "tape");
    if (t->status) return qg_fail(t->status, "%s", t->why);
    if (!loss) return qg_fail(QG_ESTATE, "backward: the loss is NULL, and no op of this step has failed: one was given NULL");
    if (!is_of_step(t, loss)) return qg_fail(QG_ESTATE, "backward: the loss is of another tape, or of an earlier step");
    qg__watch_forward(&t->watch, NULL);
    if (t->mode != QG_TRAIN) return qg_fail(QG_ESTATE, "backward: the tape was begun in QG_EVAL");
    if (qg_count(loss->shape) != 1)
        return qg_fail(QG_ESHAPE, "backward: the loss is " QG_SHAPE_FMT ", not [1,1,1,1]",
                       QG_SHAPE_ARGS(loss->shape));
    if (t->walked && loss->needs_grad)
        return qg_fail(QG_ESTATE, "backward: the tape was walked before; add the losses, or begin again");
    if (!isfinite(loss->data[0])) return qg_fail(QG_ENAN, "backward: the loss is %g", loss->data[0]);
    if (!loss->needs_grad) return QG_OK;
    t->walked = true;
    if (!loss->op) {                        /* a parameter itself */
        loss->grad[0] += 1.0f;
        return QG_OK;
    }
    if (!grad_take(t, loss)) return t->status;
    loss->grad[0] = 1.0f;
    for (qg_var *v = t->newest; v; v = v->older) {
        if (!v->op || !v->grad) continue;
        if (shares_grad(v) && v->grad == v->in[0]->grad) v->grad = NULL;
        else if (run_backward(t, v)) return qg_fail(t->status, "%s", t->why);
        pass(t, v);
    }
    qg_arena_merge(&t->scratch);
    qg__watch_forward(&t->watch, "-");
    return QG_OK;
}
