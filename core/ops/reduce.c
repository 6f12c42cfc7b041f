/* Sums and means over axes, and the transpose, broadcast.  A large tensor [n,h,w,c] meets a small one, whose extents
 * are 1 along the axes that are summed and those of the large one along the others. */
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

typedef struct job {
    qg_shape     big, small;
    const float *x;
    float       *y;
    bool         fresh;     /* assign to y, else add */
    double       divisor;   /* of what is written: 1 of a sum */
    bool         images;    /* are summed */
    qg__slices   at;        /* images of the large one */
    double      *part;      /* [images][a row of small], if images are not summed */
} job;

/* Whether small has one row for all images of big.  A rank has only some images of a batch, so sizes alone do not tell;
 * the result of one image has a batch of 1. */
static bool sums_images(const qg_var *big, const qg_var *small)
{
    return small->shape.n == 1 && (big->batch ? small->batch < big->batch : big->shape.n > 1);
}

/* How far apart in the small tensor rows, columns and channels of the large one are; 0 along a summed axis. */
typedef struct strides {
    size_t h, w, c;
} strides;

static strides strides_of(qg_shape small)
{
    const size_t w = (size_t)small.w, c = (size_t)small.c;
    return (strides){ small.h > 1 ? w * c : 0, small.w > 1 ? c : 0, small.c > 1 };
}

static void write(const job *j, size_t at, double value)
{
    const float v = (float)(value / j->divisor);
    j->y[at]      = j->fresh ? v : j->y[at] + v;
}

/* --- from large to small ------------------------------------------------------------------ */

static void add_image(const job *j, int image, double *sum)
{
    const strides s = strides_of(j->small);
    const int     c = j->big.c;
    const float  *x = j->x + (size_t)image * qg_row(j->big);
    for (int h = 0; h < j->big.h; h++)
        for (int w = 0; w < j->big.w; w++, x += c) {
            double *to = sum + (size_t)h * s.h + (size_t)w * s.w;
            if (s.c)
                for (int k = 0; k < c; k++) to[k] += (double)x[k];
            else
                for (int k = 0; k < c; k++) *to += (double)x[k];
        }
}

static void sum_image(void *context, int image, int worker)
{
    const job   *j   = context;
    const size_t row = qg_row(j->small);
    double      *sum = j->part + (size_t)image * row;
    for (size_t i = 0; i < row; i++) sum[i] = 0;
    add_image(j, image, sum);
    for (size_t i = 0; i < row; i++) write(j, (size_t)image * row + i, sum[i]);
}

static void sum_images(void *context, int first, int end, double *sum)
{
    for (int i = first; i < end; i++) add_image(context, i, sum);
}

static void reduce(qg_tape *t, job j)
{
    const size_t row = qg_row(j.small);
    if (j.images) {
        const double *sum = qg__sum_slices(t, j.at, row, sum_images, &j);
        for (size_t i = 0; sum && i < row; i++) write(&j, i, sum[i]);
        return;
    }
    j.part = qg_scratch(t, (size_t)j.big.n * row * sizeof *j.part);
    if (j.part) qg_parallel(j.big.n, sum_image, &j);
}

/* --- from small to large ------------------------------------------------------------------ */

static void spread_image(void *context, int image, int worker)
{
    const job    *j  = context;
    const strides s  = strides_of(j->small);
    const float  *x  = j->x + (j->small.n > 1 ? (size_t)image * qg_row(j->small) : 0);
    size_t        at = (size_t)image * qg_row(j->big);
    for (int h = 0; h < j->big.h; h++)
        for (int w = 0; w < j->big.w; w++) {
            const float *from = x + (size_t)h * s.h + (size_t)w * s.w;
            for (int k = 0; k < j->big.c; k++) write(j, at++, (double)from[s.c ? k : 0]);
        }
}

static void spread(job j) { qg_parallel(j.big.n, spread_image, &j); }

/* --- sum, mean ---------------------------------------------------------------------------- */

static const qg_op mean_op;

/* Of a sum 1, of a mean the number of terms. */
static double divisor_of(const qg_var *x, const qg_var *y)
{
    const double images = sums_images(x, y) ? (double)qg__slices_of(x).n : 1;
    return y->op == &mean_op ? images * (double)(qg_row(x->shape) / qg_row(y->shape)) : 1;
}

/* y = sum of x / divisor:  dx = dy / divisor. */
static void backward(qg_tape *t, qg_var *y)
{
    const qg_var *x = y->in[0];
    spread((job){ .big = x->shape, .small = y->shape, .x = y->grad, .y = x->grad, .fresh = x->fresh,
                  .divisor = divisor_of(x, y) });
}

static const qg_op sum_op  = { "sum", backward, .assigns = true };
static const qg_op mean_op = { "mean", backward, .assigns = true };

static qg_var *record(qg_tape *t, const qg_op *op, qg_var *x, unsigned axes)
{
    if (!x) return NULL;
    if (axes == 0 || axes > QG_AXES)
        return qg_reject(t, QG_EARG, "%s: axes %u are not a sum of QG_AXIS_N, _H, _W and _C, x " QG_SHAPE_FMT, op->name,
                         axes, QG_SHAPE_ARGS(x->shape));
    qg_shape s = x->shape;
    if (axes & QG_AXIS_N) s.n = 1;
    if (axes & QG_AXIS_H) s.h = 1;
    if (axes & QG_AXIS_W) s.w = 1;
    if (axes & QG_AXIS_C) s.c = 1;
    qg_var *y = qg_record(t, op, s, x, NULL, NULL);
    if (!y) return NULL;
    if (axes & QG_AXIS_N) qg_drop_batch(y);
    reduce(t, (job){ .big = x->shape, .small = s, .images = sums_images(x, y), .at = qg__slices_of(x), .x = x->data,
                     .y = y->data, .fresh = true, .divisor = divisor_of(x, y) });
    return qg_tape_status(t) ? NULL : y;
}

qg_var *qg_sum(qg_tape *t, qg_var *x, unsigned axes)  { return record(t, &sum_op, x, axes); }
qg_var *qg_mean(qg_tape *t, qg_var *x, unsigned axes) { return record(t, &mean_op, x, axes); }

/* --- broadcast ---------------------------------------------------------------------------- */

/* y[n,h,w,c] = x[n or 0, h or 0, w or 0, c or 0]:  dx = sum of dy. */
static void broadcast_backward(qg_tape *t, qg_var *y)
{
    const qg_var *x = y->in[0];
    reduce(t, (job){ .big = y->shape, .small = x->shape, .images = sums_images(y, x), .at = qg__slices_of(y),
                     .x = y->grad, .y = x->grad, .fresh = x->fresh, .divisor = 1 });
}

static const qg_op broadcast = { "broadcast", broadcast_backward, .assigns = true };

static bool fits(int small, int big) { return small == big || (small == 1 && big > 0); }

qg_var *qg_broadcast(qg_tape *t, qg_var *x, qg_shape shape)
{
    if (!x) return NULL;
    const qg_shape s = x->shape;
    if (!fits(s.n, shape.n) || !fits(s.h, shape.h) || !fits(s.w, shape.w) || !fits(s.c, shape.c))
        return qg_reject(t, QG_ESHAPE, "broadcast: x " QG_SHAPE_FMT " does not spread over " QG_SHAPE_FMT ": each extent "
                         "of x must be 1 or the same", QG_SHAPE_ARGS(s), QG_SHAPE_ARGS(shape));
    qg_var *y = qg_record(t, &broadcast, shape, x, NULL, NULL);
    if (!y) return NULL;
    if (x->batch <= 1) qg_restore_batch(y);
    spread((job){ .big = shape, .small = s, .x = x->data, .y = y->data, .fresh = true, .divisor = 1 });
    return y;
}
