#include "core/kernels/block.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"

/* The mask is a pure function of key and index, so it is drawn twice rather than kept. */
typedef struct dropping {
    const qg_var *y;
    uint64_t      key;
    float         rate;
    float         factor[2];    /* of what is dropped, 0, and of what is kept, 1 / (1 - rate) */
} dropping;

/* What element i is multiplied by: a product lets a NaN survive being dropped.  Looked up, not
 * branched to, since no branch predictor can guess it. */
static float factor(const dropping *s, size_t i)
{
    return s->factor[qg_uniform(s->key, i) >= s->rate];
}

static void dropout_gradient(void *context, int block, int worker)
{
    (void)worker;
    const dropping *s = context;
    const qg_var   *y = s->y, *x = y->in[0];
    const size_t    m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) {
        const float dx = y->grad[i] * factor(s, i);
        x->grad[i]     = x->fresh ? dx : x->grad[i] + dx;
    }
}

static void dropout_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(qg_blocks(qg_count(y->shape)), dropout_gradient, y->saved);
}

static const qg_op dropout = { "dropout", dropout_backward, .assigns = true };

static void dropout_value(void *context, int block, int worker)
{
    (void)worker;
    const dropping *s = context;
    const float    *x = s->y->in[0]->data;
    const size_t    m = qg_count(s->y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) s->y->data[i] = x[i] * factor(s, i);
}

qg_var *qg_dropout(qg_tape *t, qg_var *x, float rate)
{
    if (!t || !x) return NULL;
    if (!(rate >= 0.0f && rate < 1.0f))
        return qg_reject(t, QG_EARG, "dropout: rate %g is not in [0, 1), x " QG_SHAPE_FMT,
                         (double)rate, QG_SHAPE_ARGS(x->shape));
    if (qg_tape_mode(t) == QG_EVAL) return x;
    /* A rate of 0 draws a key too: what other ops draw then does not depend on the rate. */
    const uint64_t key = qg_tape_key(t);
    if (rate == 0.0f) return x;
    qg_var *y = qg_record(t, &dropout, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    dropping s = { y, key, rate, { 0.0f, 1.0f / (1.0f - rate) } };
    if (y->needs_grad) {
        dropping *saved = qg_save(t, y, sizeof *saved);
        if (!saved) return NULL;
        *saved = s;
    }
    qg_parallel(qg_blocks(qg_count(y->shape)), dropout_value, &s);
    return y;
}
