#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* A piece is one row of the result.  Windows do not overlap, so no other piece reads or writes its rows of x.  Rows
 * and columns that no window reaches get no gradient. */
typedef struct pooling {
    const qg_var *y;
    int           h, w;     /* of a window */
    int32_t      *at;       /* max: [y], the index of the element in its window, row by row; NULL in QG_EVAL */
    float        *part;     /* average: [threads][c], for windows summed in parts; NULL: each window is one part */
} pooling;

/* The offset in x of the first window of this row of the result. */
static size_t corner(const pooling *s, int row)
{
    const qg_shape x = s->y->in[0]->shape, y = s->y->shape;
    const size_t   i = (size_t)(row / y.h) * (size_t)x.h + (size_t)(row % y.h) * (size_t)s->h;
    return i * (size_t)x.w * (size_t)x.c;
}

/* The offset from there of the channels of element q of window j. */
static size_t element(const pooling *s, size_t j, int q)
{
    const qg_shape x = s->y->in[0]->shape;
    const size_t   w = j * (size_t)s->w + (size_t)(q % s->w);
    return ((size_t)(q / s->w) * (size_t)x.w + w) * (size_t)x.c;
}

/* Zeros the gradient right of the last window of this row, and below the windows if the row is the last of its
 * image. */
static void clear_rest(const pooling *s, int row)
{
    const qg_shape x = s->y->in[0]->shape, y = s->y->shape;
    float         *dx    = s->y->in[0]->grad + corner(s, row);
    const size_t   line  = (size_t)x.w * (size_t)x.c, used = (size_t)(y.w * s->w) * (size_t)x.c;
    const int      below = row % y.h == y.h - 1 ? x.h - y.h * s->h : 0;
    for (int p = 0; p < s->h; p++)
        memset(dx + (size_t)p * line + used, 0, (line - used) * sizeof *dx);
    memset(dx + (size_t)s->h * line, 0, (size_t)below * line * sizeof *dx);
}

static qg_var *reject_size(qg_tape *t, const char *op, const qg_var *x, int size)
{
    const int most = x->shape.h < x->shape.w ? x->shape.h : x->shape.w;
    return qg_reject(t, QG_EARG, "%s: size %d is not in 1..%d, x " QG_SHAPE_FMT, op, size, most,
                     QG_SHAPE_ARGS(x->shape));
}

static bool size_fits(const qg_var *x, int size)
{
    return size >= 1 && size <= x->shape.h && size <= x->shape.w;
}

/* --- max ---------------------------------------------------------------------------------- */

/* y = x[at]:  dx[at] = dy, and 0 elsewhere in the window. */
static void max_gradient(void *context, int row, int worker)
{
    (void)worker;
    const pooling *s = context;
    const qg_var  *y = s->y, *x = y->in[0];
    const size_t   c = (size_t)x->shape.c;
    for (size_t j = 0; j < (size_t)y->shape.w; j++) {
        const size_t   o  = ((size_t)row * (size_t)y->shape.w + j) * c;
        const float   *dy = y->grad + o;
        const int32_t *at = s->at + o;
        for (int q = 0; q < s->h * s->w; q++) {
            float *dx = x->grad + corner(s, row) + element(s, j, q);
            for (size_t k = 0; k < c; k++) {
                const float d = dy[k], here = at[k] == q ? d : 0.0f;
                dx[k]         = x->fresh ? here : dx[k] + here;
            }
        }
    }
    if (x->fresh) clear_rest(s, row);
}

static void maxpool_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(y->shape.n * y->shape.h, max_gradient, y->saved);
}

static const qg_op maxpool = { "maxpool", maxpool_backward, .assigns = true };

/* The first of equal elements wins, and so does a NaN. */
static bool wins(float v, float best) { return (v > best) | (v != v); }

static void max_value(void *context, int row, int worker)
{
    (void)worker;
    const pooling *s = context;
    const qg_var  *y = s->y;
    const size_t   c = (size_t)y->shape.c;
    for (size_t j = 0; j < (size_t)y->shape.w; j++) {
        const size_t o    = ((size_t)row * (size_t)y->shape.w + j) * c;
        const float *x    = y->in[0]->data + corner(s, row);
        float       *best = y->data + o;
        int32_t     *at   = s->at ? s->at + o : NULL;
        memcpy(best, x + element(s, j, 0), c * sizeof *best);
        if (at) memset(at, 0, c * sizeof *at);
        for (int q = 1; q < s->h * s->w; q++) {
            const float *v = x + element(s, j, q);
            if (at)
                for (size_t k = 0; k < c; k++) at[k] = wins(v[k], best[k]) ? q : at[k];
            for (size_t k = 0; k < c; k++) best[k] = wins(v[k], best[k]) ? v[k] : best[k];
        }
    }
}

qg_var *qg_maxpool(qg_tape *t, qg_var *x, int size)
{
    if (!x) return NULL;
    if (!size_fits(x, size)) return reject_size(t, "maxpool", x, size);
    const qg_shape shape = { x->shape.n, x->shape.h / size, x->shape.w / size, x->shape.c };
    qg_var        *y     = qg_record(t, &maxpool, shape, x, NULL, NULL);
    if (!y) return NULL;
    pooling s = { .y = y, .h = size, .w = size };
    if (y->needs_grad) {
        pooling *saved = qg_save(t, y, sizeof *saved + qg_count(shape) * sizeof *saved->at);
        if (!saved) return NULL;
        s.at   = (int32_t *)(void *)(saved + 1);
        *saved = s;
    }
    qg_parallel(shape.n * shape.h, max_value, &s);
    return y;
}

/* --- average ------------------------------------------------------------------------------ */

/* y = mean of a window:  dx = dy / elements. */
static void mean_gradient(void *context, int row, int worker)
{
    (void)worker;
    const pooling *s = context;
    const qg_var  *y = s->y, *x = y->in[0];
    const size_t   c        = (size_t)x->shape.c;
    const float    elements = (float)s->h * (float)s->w;
    for (size_t j = 0; j < (size_t)y->shape.w; j++) {
        const float *dy = y->grad + ((size_t)row * (size_t)y->shape.w + j) * c;
        for (int q = 0; q < s->h * s->w; q++) {
            float *dx = x->grad + corner(s, row) + element(s, j, q);
            for (size_t k = 0; k < c; k++)
                dx[k] = x->fresh ? dy[k] / elements : dx[k] + dy[k] / elements;
        }
    }
    if (x->fresh) clear_rest(s, row);
}

static void mean_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_parallel(y->shape.n * y->shape.h, mean_gradient, y->saved);
}

static const qg_op avgpool        = { "avgpool", mean_backward, .assigns = true };
static const qg_op global_avgpool = { "global_avgpool", mean_backward, .assigns = true };

/* A float sum that is much larger than its terms loses digits: 0.25 % over 512 x 512 equal pixels.  So a window of
 * more elements than this is summed in parts. */
enum { PART = 1024 };

static void mean_value(void *context, int row, int worker)
{
    const pooling *s = context;
    const qg_var  *y = s->y;
    const size_t   c        = (size_t)y->shape.c;
    const float    elements = (float)s->h * (float)s->w;
    for (size_t j = 0; j < (size_t)y->shape.w; j++) {
        const float *x   = y->in[0]->data + corner(s, row);
        float       *sum = y->data + ((size_t)row * (size_t)y->shape.w + j) * c;
        for (int begin = 0, n = s->h * s->w; begin < n; begin += PART) {
            float    *part = begin ? s->part + (size_t)worker * c : sum;
            const int end  = n - begin < PART ? n : begin + PART;
            memset(part, 0, c * sizeof *part);
            for (int q = begin; q < end; q++) {
                const float *v = x + element(s, j, q);
                for (size_t k = 0; k < c; k++) part[k] += v[k];
            }
            for (size_t k = 0; k < c && begin; k++) sum[k] += part[k];
        }
        for (size_t k = 0; k < c; k++) sum[k] /= elements;
    }
}

static qg_var *record_mean(qg_tape *t, const qg_op *op, qg_var *x, int h, int w)
{
    const qg_shape shape = { x->shape.n, x->shape.h / h, x->shape.w / w, x->shape.c };
    qg_var        *y     = qg_record(t, op, shape, x, NULL, NULL);
    if (!y) return NULL;
    pooling s = { .y = y, .h = h, .w = w };
    if (y->needs_grad) {
        pooling *saved = qg_save(t, y, sizeof *saved);
        if (!saved) return NULL;
        *saved = s;
    }
    if (h * w > PART) {
        s.part = qg_scratch(t, (size_t)qg_threads() * (size_t)shape.c * sizeof *s.part);
        if (!s.part) return NULL;
    }
    qg_parallel(shape.n * shape.h, mean_value, &s);
    return y;
}

qg_var *qg_avgpool(qg_tape *t, qg_var *x, int size)
{
    if (!x) return NULL;
    if (!size_fits(x, size)) return reject_size(t, "avgpool", x, size);
    return record_mean(t, &avgpool, x, size, size);
}

qg_var *qg_global_avgpool(qg_tape *t, qg_var *x)
{
    return x ? record_mean(t, &global_avgpool, x, x->shape.h, x->shape.w) : NULL;
}
