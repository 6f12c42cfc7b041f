#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* Windows may overlap, so a piece of the forward is a row of y, and a piece of the backward some rows of x: it collects
 * what the windows of each pixel contribute, in the order of the windows. */
typedef struct pooling {
    const qg_var *y;
    int           h, w;         /* of a window */
    int           stride, pad;
    bool          exclude_pad;
    int32_t      *at;           /* max: [y], the pixel of its image, row by row; NULL for means and in QG_EVAL */
    float        *part;         /* mean: [threads][c], for windows summed in parts; NULL: each window is one part */
} pooling;

/* --- windows ------------------------------------------------------------------------------ */

typedef struct range {
    int begin, end;             /* begin .. end - 1 */
} range;

/* The pixels, of n along an axis, that window i reads.  There is at least one, because pad is less than size. */
static range pixels_of(const pooling *s, int i, int size, int n)
{
    const int begin = i * s->stride - s->pad, end = begin + size;
    return (range){ begin > 0 ? begin : 0, end < n ? end : n };
}

/* The windows, of m along an axis, that read pixel i. */
static range windows_of(const pooling *s, int i, int size, int m)
{
    const int before = i + s->pad - size, end = (i + s->pad) / s->stride + 1;
    return (range){ before < 0 ? 0 : before / s->stride + 1, end < m ? end : m };
}

/* What a mean divides by. */
static float divisor(const pooling *s, range rows, range columns)
{
    const long long pixels = (long long)(rows.end - rows.begin) * (columns.end - columns.begin);
    return s->exclude_pad ? (float)pixels : (float)((long long)s->h * s->w);
}

/* --- gradients ---------------------------------------------------------------------------- */

/* y = x[at]:  dx[at] = dy. */
static void pass_max(bool fresh, size_t c, int32_t pixel, const int32_t *at, const float *dy, float *dx)
{
    for (size_t k = 0; k < c; k++) {
        const float d = dy[k], here = at[k] == pixel ? d : 0.0f;
        dx[k]         = fresh ? here : dx[k] + here;
    }
}

/* y = mean of a window:  dx = dy / divisor. */
static void pass_mean(bool fresh, size_t c, float divide, const float *dy, float *dx)
{
    for (size_t k = 0; k < c; k++) dx[k] = fresh ? dy[k] / divide : dx[k] + dy[k] / divide;
}

/* Zeros the gradients of columns begin .. end - 1 of a row. */
static void clear(float *dx, int begin, int end, size_t c)
{
    if (begin < end) memset(dx + (size_t)begin * c, 0, (size_t)(end - begin) * c * sizeof *dx);
}

/* What row p of the windows adds to a row of dx; if fresh, it assigns to what no window before has reached. */
static void gradient_row(const pooling *s, bool fresh, int row, int p, float *dx)
{
    const qg_shape x = s->y->in[0]->shape, y = s->y->shape;
    const size_t   c    = (size_t)x.c;
    const range    rows = pixels_of(s, p, s->h, x.h);
    size_t         o    = ((size_t)(row / x.h) * (size_t)y.h + (size_t)p) * (size_t)y.w * c;
    int            done = 0;
    for (int q = 0; q < y.w; q++, o += c) {
        const range  columns = pixels_of(s, q, s->w, x.w);
        const float  divide  = divisor(s, rows, columns);
        const float *dy      = s->y->grad + o;
        if (fresh) clear(dx, done, columns.begin, c);
        for (int j = columns.begin; j < columns.end; j++) {
            float *to = dx + (size_t)j * c;
            if (s->at) pass_max(fresh && j >= done, c, row % x.h * x.w + j, s->at + o, dy, to);
            else pass_mean(fresh && j >= done, c, divide, dy, to);
        }
        done = columns.end;
    }
    if (fresh) clear(dx, done, x.w, c);
}

/* Pieces of an image are stride rows, which mostly read the same windows. */
static int pieces(const pooling *s) { return (s->y->in[0]->shape.h - 1) / s->stride + 1; }

static void gradient_piece(void *context, int piece, int worker)
{
    const pooling *s = context;
    const qg_shape x = s->y->in[0]->shape;
    const bool     fresh = s->y->in[0]->fresh;
    const int      image = piece / pieces(s), begin = piece % pieces(s) * s->stride;
    const int      end   = x.h - begin < s->stride ? x.h : begin + s->stride;
    for (int i = begin; i < end; i++) {
        const int   row  = image * x.h + i;
        const range rows = windows_of(s, i, s->h, s->y->shape.h);
        float      *dx   = s->y->in[0]->grad + (size_t)row * (size_t)x.w * (size_t)x.c;
        for (int p = rows.begin; p < rows.end; p++) gradient_row(s, fresh && p == rows.begin, row, p, dx);
        if (fresh && rows.begin >= rows.end) clear(dx, 0, x.w, (size_t)x.c);
    }
}

static void pool_backward(qg_tape *t, qg_var *y)
{
    qg_parallel(y->shape.n * pieces(y->saved), gradient_piece, y->saved);
}

static const qg_op maxpool        = { "maxpool", pool_backward, .assigns = true };
static const qg_op avgpool        = { "avgpool", pool_backward, .assigns = true };
static const qg_op global_avgpool = { "global_avgpool", pool_backward, .assigns = true };

/* --- values ------------------------------------------------------------------------------- */

/* The first of equal elements wins, and so does a NaN. */
static bool wins(float v, float best) { return (v > best) | (v != v); }

static void max_value(void *context, int row, int worker)
{
    const pooling *s = context;
    const qg_shape x = s->y->in[0]->shape, y = s->y->shape;
    const size_t   c    = (size_t)y.c;
    const float   *in   = s->y->in[0]->data + (size_t)(row / y.h) * qg_row(x);
    const range    rows = pixels_of(s, row % y.h, s->h, x.h);
    for (int j = 0; j < y.w; j++) {
        const size_t o       = ((size_t)row * (size_t)y.w + (size_t)j) * c;
        const range  columns = pixels_of(s, j, s->w, x.w);
        const int    first   = rows.begin * x.w + columns.begin;
        float       *best    = s->y->data + o;
        int32_t     *at      = s->at ? s->at + o : NULL;
        memcpy(best, in + (size_t)first * c, c * sizeof *best);
        if (at)
            for (size_t k = 0; k < c; k++) at[k] = first;
        for (int p = rows.begin; p < rows.end; p++)
            for (int q = columns.begin; q < columns.end; q++) {
                const int32_t pixel = p * x.w + q;
                const float  *v     = in + (size_t)pixel * c;
                if (pixel == first) continue;
                if (at)
                    for (size_t k = 0; k < c; k++) at[k] = wins(v[k], best[k]) ? pixel : at[k];
                for (size_t k = 0; k < c; k++) best[k] = wins(v[k], best[k]) ? v[k] : best[k];
            }
    }
}

/* A float sum that is much larger than its terms loses digits: 0.25 % over 512 x 512 equal pixels.  So a window of
 * more elements than this is summed in parts. */
enum { PART = 1024 };

static void mean_value(void *context, int row, int worker)
{
    const pooling *s = context;
    const qg_shape x = s->y->in[0]->shape, y = s->y->shape;
    const size_t   c    = (size_t)y.c;
    const float   *in   = s->y->in[0]->data + (size_t)(row / y.h) * qg_row(x);
    const range    rows = pixels_of(s, row % y.h, s->h, x.h);
    for (int j = 0; j < y.w; j++) {
        const range columns = pixels_of(s, j, s->w, x.w);
        const int   width = columns.end - columns.begin, n = (rows.end - rows.begin) * width;
        const float divide = divisor(s, rows, columns);
        float      *sum    = s->y->data + ((size_t)row * (size_t)y.w + (size_t)j) * c;
        for (int begin = 0, end; begin < n; begin = end) {
            float *part = begin ? s->part + (size_t)worker * c : sum;
            end         = n - begin < PART ? n : begin + PART;
            memset(part, 0, c * sizeof *part);
            for (int q = begin; q < end; q++) {
                const float *v = in + (size_t)((rows.begin + q / width) * x.w + columns.begin + q % width) * c;
                for (size_t k = 0; k < c; k++) part[k] += v[k];
            }
            for (size_t k = 0; k < c && begin; k++) sum[k] += part[k];
        }
        for (size_t k = 0; k < c; k++) sum[k] /= divide;
    }
}

/* --- record ------------------------------------------------------------------------------- */

static bool valid(qg_tape *t, const char *op, const qg_var *x, qg_pool_spec s)
{
    const qg_shape  in   = x->shape;
    const long long most = (in.h < in.w ? in.h : in.w) + 2LL * (s.pad > 0 ? s.pad : 0);
    if (s.size < 1 || s.size > most)
        return qg_reject(t, QG_EARG, "%s: size %d is not in 1..%lld, x " QG_SHAPE_FMT " padded by %d", op, s.size, most,
                         QG_SHAPE_ARGS(in), s.pad);
    if (s.stride < 1 || s.pad < 0 || s.pad >= s.size)
        return qg_reject(t, QG_EARG, "%s: stride %d must be at least 1 and padding %d in 0..%d, less than the size", op, s.stride,
                         s.pad, s.size - 1);
    if (!qg__row_fits(in.h + 2LL * s.pad, in.w + 2LL * s.pad, in.c))
        return qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " padded by %d is too large", op, QG_SHAPE_ARGS(in), s.pad);
    return true;
}

/* s without its y. */
static qg_var *record(qg_tape *t, const qg_op *op, qg_var *x, pooling s)
{
    const qg_shape in    = x->shape;
    const qg_shape shape = { in.n, (in.h + 2 * s.pad - s.h) / s.stride + 1, (in.w + 2 * s.pad - s.w) / s.stride + 1, in.c };
    const bool     max   = op == &maxpool;
    qg_var        *y     = qg_record(t, op, shape, x, NULL, NULL);
    if (!y) return NULL;
    s.y = y;
    if (y->needs_grad) {
        pooling *saved = qg_save(t, y, sizeof *saved + (max ? qg_count(shape) * sizeof *saved->at : 0));
        if (!saved) return NULL;
        if (max) s.at = (int32_t *)(void *)(saved + 1);
        *saved = s;
    }
    if (!max && (long long)s.h * s.w > PART) {
        s.part = qg_scratch(t, (size_t)qg_threads() * (size_t)shape.c * sizeof *s.part);
        if (!s.part) return NULL;
    }
    qg_parallel(shape.n * shape.h, max ? max_value : mean_value, &s);
    return y;
}

static qg_var *pool(qg_tape *t, const qg_op *op, qg_var *x, qg_pool_spec s)
{
    if (!x) return NULL;
    if (s.stride == 0) s.stride = s.size;
    if (!valid(t, op->name, x, s)) return NULL;
    return record(t, op, x, (pooling){ .h = s.size, .w = s.size, .stride = s.stride, .pad = s.pad,
                                       .exclude_pad = s.exclude_pad });
}

qg_var *qg_maxpool(qg_tape *t, qg_var *x, int size) { return pool(t, &maxpool, x, (qg_pool_spec){ .size = size }); }
qg_var *qg_avgpool(qg_tape *t, qg_var *x, int size) { return pool(t, &avgpool, x, (qg_pool_spec){ .size = size }); }
qg_var *qg_maxpool_with(qg_tape *t, qg_var *x, qg_pool_spec spec) { return pool(t, &maxpool, x, spec); }
qg_var *qg_avgpool_with(qg_tape *t, qg_var *x, qg_pool_spec spec) { return pool(t, &avgpool, x, spec); }

qg_var *qg_global_avgpool(qg_tape *t, qg_var *x)
{
    return x ? record(t, &global_avgpool, x, (pooling){ .h = x->shape.h, .w = x->shape.w, .stride = 1 }) : NULL;
}
