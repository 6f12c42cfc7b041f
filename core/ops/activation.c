#include "core/kernels/block.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* --- relu --------------------------------------------------------------------------------- */

/* y = max(x, 0):  dx = dy where x > 0, which is where y > 0.  Not y > 0 ? dy : 0, which would lose
 * a NaN. */
static void relu_gradient(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context, *x = y->in[0];
    const size_t  m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) {
        const float dy = y->grad[i], dx = y->data[i] <= 0.0f ? 0.0f : dy;
        x->grad[i] = x->fresh ? dx : x->grad[i] + dx;
    }
}

static void relu_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(qg_blocks(qg_count(y->shape)), relu_gradient, y);
}

static const qg_op relu = { "relu", relu_backward, .assigns = true };

static void relu_value(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context;
    const float  *x = y->in[0]->data;
    const size_t  m = qg_count(y->shape);
    for (size_t i = qg_block(m, block), end = qg_block(m, block + 1); i < end; i++)
        y->data[i] = x[i] < 0.0f ? 0.0f : x[i];             /* this way round, NaN survives */
}

qg_var *qg_relu(qg_tape *t, qg_var *x)
{
    if (!x) return NULL;
    qg_var *y = qg_record(t, &relu, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    qg_parallel(qg_blocks(qg_count(y->shape)), relu_value, y);
    return y;
}

/* --- clip, hardtanh ----------------------------------------------------------------------- */

typedef struct clipping {
    const qg_var *y;
    float         lo, hi;
} clipping;

/* y = min(max(x, lo), hi):  dx = dy where lo <= x <= hi. */
static void clip_gradient(void *context, int block, int worker)
{
    (void)worker;
    const clipping *s = context;
    const qg_var   *y = s->y, *x = y->in[0];
    const size_t    m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) {
        const float dy = y->grad[i], v = x->data[i];
        const float above = v < s->lo ? 0.0f : dy, dx = v > s->hi ? 0.0f : above;
        x->grad[i] = x->fresh ? dx : x->grad[i] + dx;
    }
}

static void clip_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(qg_blocks(qg_count(y->shape)), clip_gradient, y->saved);
}

static const qg_op clip     = { "clip", clip_backward, .assigns = true };
static const qg_op hardtanh = { "hardtanh", clip_backward, .assigns = true };

static void clip_value(void *context, int block, int worker)
{
    (void)worker;
    const clipping *s = context;
    const float    *x = s->y->in[0]->data;
    const size_t    m = qg_count(s->y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) {
        const float v = x[i], above = v < s->lo ? s->lo : v;
        s->y->data[i] = v > s->hi ? s->hi : above;
    }
}

static qg_var *record_clip(qg_tape *t, const qg_op *op, qg_var *x, float lo, float hi)
{
    qg_var *y = qg_record(t, op, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    clipping s = { y, lo, hi };
    if (y->needs_grad) {
        clipping *saved = qg_save(t, y, sizeof *saved);
        if (!saved) return NULL;
        *saved = s;
    }
    qg_parallel(qg_blocks(qg_count(y->shape)), clip_value, &s);
    return y;
}

qg_var *qg_clip(qg_tape *t, qg_var *x, float lo, float hi)
{
    if (!x) return NULL;
    if (!(lo < hi))
        return qg_reject(t, QG_EARG, "clip: lo %g is not below hi %g, x " QG_SHAPE_FMT, (double)lo,
                         (double)hi, QG_SHAPE_ARGS(x->shape));
    return record_clip(t, &clip, x, lo, hi);
}

qg_var *qg_hardtanh(qg_tape *t, qg_var *x)
{
    return x ? record_clip(t, &hardtanh, x, -1.0f, 1.0f) : NULL;
}
