#include <string.h>

#include "core/kernels/functions.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/rng.h"
#include "core/slices.h"

/* Elements from .. end-1 of an op whose result is y: their values, or their gradients.  The op's constants are
 * in y->saved. */
typedef void (*stretch)(const qg_var *y, size_t from, size_t end);

/* An op that is computed element by element. */
typedef struct elementwise {
    qg_op   op;
    stretch value, gradient;
} elementwise;

typedef struct job {
    const qg_var *y;
    stretch       run;
} job;

static void run_block(void *context, int block, int worker)
{
    const job   *j = context;
    const size_t n = qg_count(j->y->shape);
    j->run(j->y, qg_block(n, block), qg_block(n, block + 1));
}

static void in_blocks(const qg_var *y, stretch run)
{
    qg_parallel(qg_blocks(qg_count(y->shape)), run_block, &(job){ y, run });
}

static void backward(qg_tape *t, qg_var *y)
{
    in_blocks(y, ((const elementwise *)(const void *)y->op)->gradient);
}

/* dL/dx[i] is dx, or dx more than it was. */
static void give(const qg_var *x, bool fresh, size_t i, float dx) { x->grad[i] = fresh ? dx : x->grad[i] + dx; }

/* Records y = f(x, z), computes it, and keeps the op's constants if there will be a gradient. */
static qg_var *record(qg_tape *t, const elementwise *e, qg_shape shape, qg_var *x, qg_var *z, void *constants,
                      size_t bytes)
{
    qg_var *y = qg_record(t, &e->op, shape, x, z, NULL);
    if (!y) return NULL;
    y->saved = constants;
    in_blocks(y, e->value);
    y->saved = NULL;
    if (bytes == 0 || !y->needs_grad) return y;
    if (!qg_save(t, y, bytes)) return NULL;
    memcpy(y->saved, constants, bytes);
    return y;
}

/* --- relu --------------------------------------------------------------------------------- */

/* y = max(x, 0):  dx = dy where x > 0, which is where y > 0.  Not y > 0 ? dy : 0, which would lose a NaN.  dy is read
 * everywhere: a loop that reads it on a condition is not vectorised. */
static void relu_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    for (; i < end; i++) {
        const float dy = y->grad[i];
        give(x, x->fresh, i, y->data[i] <= 0.0f ? 0.0f : dy);
    }
}

static void relu_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    for (; i < end; i++) y->data[i] = x[i] < 0.0f ? 0.0f : x[i];      /* this way round, NaN survives */
}

static const elementwise relu = { { "relu", backward, .assigns = true }, relu_value, relu_gradient };

qg_var *qg_relu(qg_tape *t, qg_var *x)
{
    return x ? record(t, &relu, x->shape, x, NULL, NULL, 0) : NULL;
}

/* --- clip, hardtanh ----------------------------------------------------------------------- */

typedef struct bounds {
    float lo, hi;
} bounds;

/* y = min(max(x, lo), hi):  dx = dy where lo <= x <= hi. */
static void clip_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    const bounds  b = *(const bounds *)y->saved;
    for (; i < end; i++) {
        const float v = x->data[i], dy = y->grad[i], above = v < b.lo ? 0.0f : dy;
        give(x, x->fresh, i, v > b.hi ? 0.0f : above);
    }
}

static void clip_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    const bounds b = *(const bounds *)y->saved;
    for (; i < end; i++) {
        const float v = x[i], above = v < b.lo ? b.lo : v;
        y->data[i] = v > b.hi ? b.hi : above;
    }
}

static const elementwise clip     = { { "clip", backward, .assigns = true }, clip_value, clip_gradient };
static const elementwise hardtanh = { { "hardtanh", backward, .assigns = true }, clip_value, clip_gradient };

static qg_var *record_clip(qg_tape *t, const elementwise *e, qg_var *x, float lo, float hi)
{
    bounds b = { lo, hi };
    return record(t, e, x->shape, x, NULL, &b, sizeof b);
}

qg_var *qg_clip(qg_tape *t, qg_var *x, float lo, float hi)
{
    if (!x) return NULL;
    if (!(lo < hi))
        return qg_reject(t, QG_EARG, "clip: lo %g is not below hi %g, x " QG_SHAPE_FMT, (double)lo, (double)hi,
                         QG_SHAPE_ARGS(x->shape));
    return record_clip(t, &clip, x, lo, hi);
}

qg_var *qg_hardtanh(qg_tape *t, qg_var *x) { return x ? record_clip(t, &hardtanh, x, -1.0f, 1.0f) : NULL; }

/* --- sigmoid, tanh ------------------------------------------------------------------------ */

/* Both functions are computed in double and rounded once.  Their slopes come from y. */

/* y = 1 / (1 + exp(-x)):  dx = y (1 - y) dy. */
static void sigmoid_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    for (; i < end; i++) give(x, x->fresh, i, y->data[i] * (1.0f - y->data[i]) * y->grad[i]);
}

static void sigmoid_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    QG_KERNELS(qg__function_kernels)->sigmoid(end - i, x + i, y->data + i);
}

static const elementwise sigmoid = { { "sigmoid", backward, .assigns = true }, sigmoid_value, sigmoid_gradient };

qg_var *qg_sigmoid(qg_tape *t, qg_var *x)
{
    return x ? record(t, &sigmoid, x->shape, x, NULL, NULL, 0) : NULL;
}

/* y = tanh(x):  dx = (1 - y^2) dy. */
static void tanh_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    for (; i < end; i++) give(x, x->fresh, i, (1.0f - y->data[i]) * (1.0f + y->data[i]) * y->grad[i]);
}

static void tanh_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    QG_KERNELS(qg__function_kernels)->tanh(end - i, x + i, y->data + i);
}

static const elementwise tanh_op = { { "tanh", backward, .assigns = true }, tanh_value, tanh_gradient };

qg_var *qg_tanh(qg_tape *t, qg_var *x)
{
    return x ? record(t, &tanh_op, x->shape, x, NULL, NULL, 0) : NULL;
}

/* --- add, sub, mul ------------------------------------------------------------------------ */

/* Whether the gradient of operand k is to be assigned.  If x is both operands, the second adds to what the first has
 * just assigned. */
static bool is_fresh(const qg_var *y, int k) { return y->in[k]->fresh && !(k == 1 && y->in[1] == y->in[0]); }

static const elementwise sub;

static float sign_of(const qg_var *y) { return y->op == &sub.op ? -1.0f : 1.0f; }

/* y = x + sign z:  dx = dy,  dz = sign dy. */
static void sum_gradient(const qg_var *y, size_t from, size_t end)
{
    for (int k = 0; k < 2; k++) {
        const qg_var *x = y->in[k];
        if (!x->grad) continue;
        const bool  fresh = is_fresh(y, k);
        const float sign  = k ? sign_of(y) : 1.0f;
        for (size_t i = from; i < end; i++) give(x, fresh, i, sign * y->grad[i]);
    }
}

static void sum_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data, *z = y->in[1]->data, sign = sign_of(y);
    for (; i < end; i++) y->data[i] = x[i] + sign * z[i];
}

static const elementwise add = { { "add", backward, .assigns = true }, sum_value, sum_gradient };
static const elementwise sub = { { "sub", backward, .assigns = true }, sum_value, sum_gradient };

/* y = x z:  dx = dy z,  dz = dy x. */
static void mul_gradient(const qg_var *y, size_t from, size_t end)
{
    for (int k = 0; k < 2; k++) {
        const qg_var *x = y->in[k], *z = y->in[1 - k];
        if (!x->grad) continue;
        const bool fresh = is_fresh(y, k);
        for (size_t i = from; i < end; i++) give(x, fresh, i, y->grad[i] * z->data[i]);
    }
}

static void mul_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data, *z = y->in[1]->data;
    for (; i < end; i++) y->data[i] = x[i] * z[i];
}

static const elementwise mul = { { "mul", backward, .assigns = true }, mul_value, mul_gradient };

static qg_var *record_pair(qg_tape *t, const elementwise *e, qg_var *x, qg_var *z)
{
    if (!x || !z) return NULL;
    if (!qg_shape_equal(x->shape, z->shape))
        return qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " and z " QG_SHAPE_FMT " differ", e->op.name,
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(z->shape));
    return record(t, e, x->shape, x, z, NULL, 0);
}

qg_var *qg_add(qg_tape *t, qg_var *x, qg_var *z) { return record_pair(t, &add, x, z); }
qg_var *qg_sub(qg_tape *t, qg_var *x, qg_var *z) { return record_pair(t, &sub, x, z); }
qg_var *qg_mul(qg_tape *t, qg_var *x, qg_var *z) { return record_pair(t, &mul, x, z); }

/* --- scale, affine ------------------------------------------------------------------------ */

typedef struct line {
    float a, b;
} line;

/* y = a x + b:  dx = a dy. */
static void affine_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    const float   a = ((const line *)y->saved)->a;
    for (; i < end; i++) give(x, x->fresh, i, a * y->grad[i]);
}

static void affine_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    const line   l = *(const line *)y->saved;
    for (; i < end; i++) y->data[i] = l.a * x[i] + l.b;
}

static const elementwise scale  = { { "scale", backward, .assigns = true }, affine_value, affine_gradient };
static const elementwise affine = { { "affine", backward, .assigns = true }, affine_value, affine_gradient };

static qg_var *record_line(qg_tape *t, const elementwise *e, qg_var *x, float a, float b)
{
    line l = { a, b };
    return x ? record(t, e, x->shape, x, NULL, &l, sizeof l) : NULL;
}

/* Adding -0 leaves every number as it is, the zeros too. */
qg_var *qg_scale(qg_tape *t, qg_var *x, float a) { return record_line(t, &scale, x, a, -0.0f); }

qg_var *qg_affine(qg_tape *t, qg_var *x, float a, float b) { return record_line(t, &affine, x, a, b); }

/* --- bias --------------------------------------------------------------------------------- */

/* y = x + b[c]:  dx = dy. */
static void pass_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    for (; i < end; i++) give(x, x->fresh, i, y->grad[i]);
}

static void sum_images(void *context, int first, int end, double *sum)
{
    const qg_var *y = context;
    const size_t  c = (size_t)y->shape.c, row = qg_row(y->shape);
    for (const float *dy = y->grad + (size_t)first * row; dy < y->grad + (size_t)end * row; dy += c)
        for (size_t k = 0; k < c; k++) sum[k] += (double)dy[k];
}

/* db[c] = sum over n h w of dy. */
static void bias_backward(qg_tape *t, qg_var *y)
{
    const qg_var *x = y->in[0], *b = y->in[1];
    if (x->grad) in_blocks(y, pass_gradient);
    if (!b->grad) return;
    const size_t  c   = (size_t)y->shape.c;
    const double *sum = qg__sum_slices(t, qg__slices_of(y), c, sum_images, y);
    /* b may be x, when both are [1,1,1,c]: then x has just been assigned. */
    const bool fresh = b->fresh && b != x;
    for (size_t k = 0; sum && k < c; k++) b->grad[k] = fresh ? (float)sum[k] : b->grad[k] + (float)sum[k];
}

static void bias_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data, *b = y->in[1]->data;
    const size_t c = (size_t)y->shape.c;
    for (size_t k = i % c, n; i < end; i += n, k = 0) {         /* a stretch may begin inside a pixel */
        n = end - i < c - k ? end - i : c - k;
        for (size_t j = 0; j < n; j++) y->data[i + j] = x[i + j] + b[k + j];
    }
}

static const elementwise bias = { { "bias", bias_backward, .assigns = true }, bias_value, pass_gradient };

qg_var *qg_bias(qg_tape *t, qg_var *x, qg_var *b)
{
    if (!x || !b) return NULL;
    if (!qg_shape_equal(b->shape, (qg_shape){ 1, 1, 1, x->shape.c }))
        return qg_reject(t, QG_ESHAPE, "bias: x " QG_SHAPE_FMT " and b " QG_SHAPE_FMT ", which is not [1,1,1,%d]",
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(b->shape), x->shape.c);
    return record(t, &bias, x->shape, x, b, NULL, 0);
}

/* --- reshape ------------------------------------------------------------------------------ */

/* y = x:  dx = dy. */
static void reshape_value(const qg_var *y, size_t i, size_t end)
{
    memcpy(y->data + i, y->in[0]->data + i, (end - i) * sizeof *y->data);
}

static const elementwise reshape = { { "reshape", backward, .assigns = true }, reshape_value, pass_gradient };

qg_var *qg_reshape(qg_tape *t, qg_var *x, qg_shape shape)
{
    if (!x) return NULL;
    shape.n = x->shape.n;
    if (shape.h < 1 || shape.w < 1 || shape.c < 1 || qg_row(shape) != qg_row(x->shape))
        return qg_reject(t, QG_ESHAPE, "reshape: x " QG_SHAPE_FMT " does not fill " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(shape));
    return record(t, &reshape, shape, x, NULL, NULL, 0);
}

/* --- dropout ------------------------------------------------------------------------------ */

/* The mask is a pure function of key and index, so it is drawn twice rather than kept. */
typedef struct mask {
    uint64_t key;
    size_t   first;         /* index in the batch of the first element that is here */
    float    rate;
    float    factor[2];     /* of a dropped element, 0, and of a kept one, 1 / (1 - rate) */
} mask;

/* A product lets a NaN survive being dropped.  The factor is looked up, since no branch predictor can guess it. */
static float factor(const mask *m, size_t i) { return m->factor[qg_uniform(m->key, m->first + i) >= m->rate]; }

/* y = x f:  dx = dy f. */
static void dropout_gradient(const qg_var *y, size_t i, size_t end)
{
    const qg_var *x = y->in[0];
    const mask    m = *(const mask *)y->saved;
    for (; i < end; i++) give(x, x->fresh, i, y->grad[i] * factor(&m, i));
}

static void dropout_value(const qg_var *y, size_t i, size_t end)
{
    const float *x = y->in[0]->data;
    const mask   m = *(const mask *)y->saved;
    for (; i < end; i++) y->data[i] = x[i] * factor(&m, i);
}

static const elementwise dropout = { { "dropout", backward, .assigns = true }, dropout_value, dropout_gradient };

qg_var *qg_dropout(qg_tape *t, qg_var *x, float rate)
{
    if (!t || !x) return NULL;
    if (!(rate >= 0.0f && rate < 1.0f))
        return qg_reject(t, QG_EARG, "dropout: rate %g is not in [0, 1), x " QG_SHAPE_FMT, (double)rate,
                         QG_SHAPE_ARGS(x->shape));
    if (qg_tape_mode(t) != QG_TRAIN) return x;
    /* A rate of 0 draws a key too: what other ops draw then does not depend on the rate. */
    const uint64_t key = qg_tape_key(t);
    if (rate == 0.0f) return x;
    mask m = { key, (size_t)qg__slices_of(x).first * qg_row(x->shape), rate, { 0.0f, 1.0f / (1.0f - rate) } };
    return record(t, &dropout, x->shape, x, NULL, &m, sizeof m);
}
