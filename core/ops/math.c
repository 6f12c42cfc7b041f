#include "core/kernels/block.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* --- add ---------------------------------------------------------------------------------- */

static void add_gradient(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context;
    const size_t  m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (int k = 0; k < 2; k++) {
        const qg_var *x = y->in[k];
        if (!x->grad) continue;
        /* In x + x the second half adds to what the first has just assigned. */
        const bool fresh = x->fresh && !(k == 1 && x == y->in[0]);
        for (size_t i = qg_block(m, block); i < end; i++)
            x->grad[i] = fresh ? y->grad[i] : x->grad[i] + y->grad[i];
    }
}

static void add_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(qg_blocks(qg_count(y->shape)), add_gradient, y);
}

static const qg_op add = { "add", add_backward, .assigns = true };

static void add_value(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context;
    const float  *x = y->in[0]->data, *z = y->in[1]->data;
    const size_t  m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) y->data[i] = x[i] + z[i];
}

qg_var *qg_add(qg_tape *t, qg_var *x, qg_var *z)
{
    if (!x || !z) return NULL;
    if (!qg_shape_equal(x->shape, z->shape))
        return qg_reject(t, QG_ESHAPE, "add: x " QG_SHAPE_FMT " and z " QG_SHAPE_FMT " differ",
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(z->shape));
    qg_var *y = qg_record(t, &add, x->shape, x, z, NULL);
    if (!y) return NULL;
    qg_parallel(qg_blocks(qg_count(y->shape)), add_value, y);
    return y;
}

/* --- scale, affine ------------------------------------------------------------------------ */

typedef struct line {
    const qg_var *y;
    float         a, b;
} line;

static void affine_gradient(void *context, int block, int worker)
{
    (void)worker;
    const line   *s = context;
    const qg_var *y = s->y, *x = y->in[0];
    const size_t  m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) {
        const float dx = s->a * y->grad[i];
        x->grad[i]     = x->fresh ? dx : x->grad[i] + dx;
    }
}

static void affine_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(qg_blocks(qg_count(y->shape)), affine_gradient, y->saved);
}

static const qg_op scale  = { "scale", affine_backward, .assigns = true };
static const qg_op affine = { "affine", affine_backward, .assigns = true };

static void affine_value(void *context, int block, int worker)
{
    (void)worker;
    const line  *s = context;
    const float *x = s->y->in[0]->data;
    const size_t m = qg_count(s->y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++) s->y->data[i] = s->a * x[i] + s->b;
}

static qg_var *record_line(qg_tape *t, const qg_op *op, qg_var *x, float a, float b)
{
    if (!x) return NULL;
    qg_var *y = qg_record(t, op, x->shape, x, NULL, NULL);
    if (!y) return NULL;
    line s = { y, a, b };
    if (y->needs_grad) {
        line *saved = qg_save(t, y, sizeof *saved);
        if (!saved) return NULL;
        *saved = s;
    }
    qg_parallel(qg_blocks(qg_count(y->shape)), affine_value, &s);
    return y;
}

/* Adding -0 leaves every number as it is, the zeros too. */
qg_var *qg_scale(qg_tape *t, qg_var *x, float a) { return record_line(t, &scale, x, a, -0.0f); }

qg_var *qg_affine(qg_tape *t, qg_var *x, float a, float b) { return record_line(t, &affine, x, a, b); }

/* --- bias --------------------------------------------------------------------------------- */

/* Pixels of c channels in a block: whole ones, so that a block begins at channel 0. */
static size_t block_pixels(int c) { return c < QG_BLOCK ? (size_t)(QG_BLOCK / c) : 1; }

static int pixel_blocks(qg_shape s)
{
    const size_t per = block_pixels(s.c), pixels = qg_count(s) / (size_t)s.c;
    return (int)((pixels + per - 1) / per);
}

static size_t pixel_block(qg_shape s, int block)
{
    const size_t at = (size_t)block * block_pixels(s.c), pixels = qg_count(s) / (size_t)s.c;
    return at < pixels ? at : pixels;
}

typedef struct bias_sums {
    const qg_var *y;
    double       *part;     /* [QG_SLICES][c] */
} bias_sums;

/* Slices of the image rows, so that one large image is shared out too. */
static void bias_slice(void *context, int slice, int worker)
{
    (void)worker;
    const bias_sums *s   = context;
    const qg_shape   y   = s->y->shape;
    const size_t     c   = (size_t)y.c, row = (size_t)y.w * c;
    double          *sum = s->part + (size_t)slice * c;
    const float     *dy  = s->y->grad + (size_t)qg_slice(y.n * y.h, slice) * row;
    const float     *end = s->y->grad + (size_t)qg_slice(y.n * y.h, slice + 1) * row;
    for (size_t k = 0; k < c; k++) sum[k] = 0;
    for (; dy < end; dy += c)
        for (size_t k = 0; k < c; k++) sum[k] += (double)dy[k];
}

static void bias_gradient(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context, *x = y->in[0];
    const size_t  m = qg_count(y->shape), end = qg_block(m, block + 1);
    for (size_t i = qg_block(m, block); i < end; i++)
        x->grad[i] = x->fresh ? y->grad[i] : x->grad[i] + y->grad[i];
}

/* y = x + b[c]:  dx = dy,  db[c] = sum over n h w of dy. */
static void bias_backward(qg_tape *t, qg_var *y)
{
    const qg_var *x = y->in[0], *b = y->in[1];
    if (x->grad) qg_parallel(qg_blocks(qg_count(y->shape)), bias_gradient, y);
    if (!b->grad) return;
    const size_t c = (size_t)y->shape.c;
    bias_sums    s = { y, qg_scratch(t, QG_SLICES * c * sizeof(double)) };
    if (!s.part) return;
    qg_parallel(QG_SLICES, bias_slice, &s);
    /* b may be x, when both are [1,1,1,c]: then x has just been assigned. */
    const bool fresh = b->fresh && b != x;
    for (size_t k = 0; k < c; k++) {
        double sum = 0;
        for (size_t p = 0; p < QG_SLICES; p++) sum += s.part[p * c + k];
        b->grad[k] = fresh ? (float)sum : b->grad[k] + (float)sum;
    }
}

static const qg_op bias = { "bias", bias_backward, .assigns = true };

static void bias_value(void *context, int block, int worker)
{
    (void)worker;
    const qg_var *y = context;
    const size_t  c = (size_t)y->shape.c, end = pixel_block(y->shape, block + 1);
    const float  *b = y->in[1]->data;
    for (size_t p = pixel_block(y->shape, block); p < end; p++)
        for (size_t k = 0; k < c; k++) y->data[p * c + k] = y->in[0]->data[p * c + k] + b[k];
}

qg_var *qg_bias(qg_tape *t, qg_var *x, qg_var *b)
{
    if (!x || !b) return NULL;
    if (!qg_shape_equal(b->shape, (qg_shape){ 1, 1, 1, x->shape.c }))
        return qg_reject(t, QG_ESHAPE, "bias: x " QG_SHAPE_FMT " and b " QG_SHAPE_FMT
                         ", which is not [1,1,1,%d]", QG_SHAPE_ARGS(x->shape),
                         QG_SHAPE_ARGS(b->shape), x->shape.c);
    qg_var *y = qg_record(t, &bias, x->shape, x, b, NULL);
    if (!y) return NULL;
    qg_parallel(pixel_blocks(y->shape), bias_value, y);
    return y;
}
