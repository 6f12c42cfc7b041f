#include <math.h>
#include <string.h>

#include "core/kernels/functions.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

/* --- rows and labels ---------------------------------------------------------------------- */

/* y, a scalar, becomes the sum of the losses of the images of x, in their order, over divisor.  here: those of the images
 * that are here. */
static qg_var *sum_losses(qg_tape *t, const qg_var *x, const double *here, double divisor, qg_var *y)
{
    const qg__slices at   = qg__slices_of(x);
    double          *loss = qg_scratch(t, (size_t)at.n * sizeof *loss), sum = 0;
    if (!loss) return NULL;
    memcpy(loss + at.first, here, (size_t)at.count * sizeof *loss);
    if (!qg__images_gather(t, at, loss, sizeof *loss)) return NULL;
    for (int i = 0; i < at.n; i++) sum += loss[i];
    y->data[0] = (float)(sum / divisor);
    return y;
}

static qg_var *record_scalar(qg_tape *t, const qg_op *op, qg_var *x, qg_var *z)
{
    qg_var *y = qg_record(t, op, (qg_shape){ 1, 1, 1, 1 }, x, z, NULL);
    if (y) qg_drop_batch(y);
    return y;
}

/* Losses of rows save the slopes by x, then those by z if there is one, for a gradient of 1, [n][classes] each, so labels need
 * not outlive the call.  They run on one thread because there are few numbers. */
static void loss_backward(qg_tape *t, qg_var *y)
{
    const float *slope = y->saved, dy = y->grad[0];
    for (int k = 0; k < 2 && y->in[k]; k++) {
        const qg_var *x     = y->in[k];
        const bool    fresh = x->fresh && !(k == 1 && x == y->in[0]);   /* x may be z */
        for (size_t i = 0, m = qg_count(x->shape); i < m; i++, slope++)
            if (x->grad) x->grad[i] = fresh ? dy * *slope : x->grad[i] + dy * *slope;
    }
}

static const qg_op cross_entropy = { "cross_entropy", loss_backward, .assigns = true };
static const qg_op squared_hinge = { "squared_hinge", loss_backward, .assigns = true };
static const qg_op kl            = { "kl", loss_backward, .assigns = true };

/* The rows of a loss, and what computing one takes. */
typedef struct rows rows;
struct rows {
    /* Computes weight times the loss of row i, in double; dx is [classes], and dz follows `all` numbers later; or NULL. */
    double        (*loss)(const rows *r, size_t i, const float *x, float *dx);
    const uint16_t *labels;
    const qg_var   *z;
    double          smoothing, temperature;     /* of cross entropy, of KL */
    size_t          classes, all;
    double          weight;
    const qg__function_kernels *kernels;
    double         *scratch;        /* [4][classes] */
};

static bool are_rows(qg_tape *t, const qg_op *op, const qg_var *x)
{
    return (x->shape.h == 1 && x->shape.w == 1) ||
           qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " has scores at %d x %d places of an image, not one row; "
                     "pool them, or make them one row: a dense layer, qg_reshape", op->name, QG_SHAPE_ARGS(x->shape),
                     x->shape.h, x->shape.w);
}

/* x, and z if there is one, fit.  r: up to temperature. */
static qg_var *record_rows(qg_tape *t, const qg_op *op, qg_var *x, qg_var *z, rows r)
{
    qg_var *y = record_scalar(t, op, x, z);
    if (!y) return NULL;
    const size_t n = (size_t)x->shape.n;
    r.classes = (size_t)x->shape.c;
    r.all     = n * r.classes;
    r.weight  = 1.0 / (double)qg__slices_of(x).n;
    r.kernels = QG_KERNELS(qg__function_kernels);
    r.scratch = qg_scratch(t, 4 * r.classes * sizeof *r.scratch);
    float  *slope = y->needs_grad ? qg_save(t, y, (z ? 2 : 1) * r.all * sizeof *slope) : NULL;
    double *loss  = qg_scratch(t, n * sizeof *loss);
    if ((y->needs_grad && !slope) || !loss || !r.scratch) return NULL;
    for (size_t i = 0; i < n; i++)
        loss[i] = r.loss(&r, i, x->data + i * r.classes, slope ? slope + i * r.classes : NULL);
    return sum_losses(t, x, loss, 1, y);
}

/* --- labels ------------------------------------------------------------------------------- */

/*     -log softmax(x)[k] = log(sum exp(x - m)) + m - x[k],   m = max x;  times the targets
 *     d/dx[k] = softmax(x)[k] - target[k],   target[k] = (1 - smoothing) 1[k = label] + smoothing / classes */
static double cross_entropy_row(const rows *r, size_t i, const float *x, float *dx)
{
    const size_t classes = r->classes, label = r->labels[i];
    const double even    = r->smoothing / (double)classes;
    double      *e = r->scratch, m, rest = 0;
    const double sum = qg__softmax_terms(r->kernels, classes, x, 1, e, &m), log_sum = qg__log(sum);
    for (size_t k = 0; k < classes && dx; k++)
        dx[k] = (float)(r->weight * (e[k] / sum - (k == label ? 1.0 - r->smoothing + even : even)));
    const double loss = log_sum + m - (double)x[label];
    if (even == 0) return r->weight * loss;         /* 0 times an infinite loss of another class would be NaN */
    for (size_t k = 0; k < classes; k++) rest += log_sum + m - (double)x[k];
    return r->weight * ((1.0 - r->smoothing) * loss + even * rest);
}

/*     mean over k of max(0, 1 - s x[k])^2,   s = +1 at the label and -1 elsewhere
 *     d/dx[k] = -2 s max(0, 1 - s x[k]) / classes */
static double squared_hinge_row(const rows *r, size_t i, const float *x, float *dx)
{
    const double weight = r->weight / (double)r->classes;
    double       sum    = 0;
    for (size_t k = 0; k < r->classes; k++) {
        const double s    = k == r->labels[i] ? 1.0 : -1.0;
        const double gap  = 1.0 - s * (double)x[k];
        const double miss = gap < 0 ? 0 : gap;
        sum += miss * miss;
        if (dx) dx[k] = (float)(weight * -2.0 * s * miss);
    }
    return weight * sum;
}

static qg_var *record_labels(qg_tape *t, const qg_op *op, qg_var *x, rows r)
{
    if (!x || !are_rows(t, op, x)) return NULL;
    if (!r.labels)
        return qg_reject(t, QG_EARG, "%s: labels are NULL, x " QG_SHAPE_FMT, op->name, QG_SHAPE_ARGS(x->shape));
    for (int i = 0; i < x->shape.n; i++)
        if (r.labels[i] >= x->shape.c)
            return qg_reject(t, QG_EARG, "%s: label %d at index %d is not in 0..%d, x " QG_SHAPE_FMT, op->name, r.labels[i], i,
                             x->shape.c - 1, QG_SHAPE_ARGS(x->shape));
    return record_rows(t, op, x, NULL, r);
}

qg_var *qg_cross_entropy(qg_tape *t, qg_var *x, const uint16_t *labels)
{
    return qg_cross_entropy_with(t, x, labels, (qg_cross_entropy_spec){ 0 });
}

qg_var *qg_cross_entropy_with(qg_tape *t, qg_var *x, const uint16_t *labels, qg_cross_entropy_spec spec)
{
    if (x && !(spec.smoothing >= 0 && spec.smoothing < 1))
        return qg_reject(t, QG_EARG, "cross_entropy: smoothing %g is not in [0, 1), x " QG_SHAPE_FMT,
                         (double)spec.smoothing, QG_SHAPE_ARGS(x->shape));
    const rows r = { .loss = cross_entropy_row, .labels = labels, .smoothing = (double)spec.smoothing };
    return record_labels(t, &cross_entropy, x, r);
}

qg_var *qg_squared_hinge(qg_tape *t, qg_var *x, const uint16_t *labels)
{
    return record_labels(t, &squared_hinge, x, (rows){ .loss = squared_hinge_row, .labels = labels });
}

/* --- KL ----------------------------------------------------------------------------------- */

/* p = softmax(x / T) and its logarithm, (x - m) / T - log(sum exp((x - m) / T)). */
static void softmax_of(const rows *r, const float *x, double *p, double *log_p)
{
    double       m;
    const double sum = qg__softmax_terms(r->kernels, r->classes, x, r->temperature, p, &m), log_sum = qg__log(sum);
    for (size_t k = 0; k < r->classes; k++) p[k] /= sum, log_p[k] = ((double)x[k] - m) / r->temperature - log_sum;
}

/* With l[k] = log p[k] - log q[k] and D = sum of p l:
 *     T^2 D;   d/dx[k] = T (q[k] - p[k]),   d/dz[k] = T p[k] (l[k] - D)
 * Where p is 0, p l is 0 in the limit. */
static double kl_row(const rows *r, size_t i, const float *x, float *dx)
{
    const size_t classes = r->classes;
    const double slope   = r->weight * r->temperature;
    double      *q = r->scratch, *log_q = q + classes, *p = q + 2 * classes, *log_p = q + 3 * classes, sum = 0;
    softmax_of(r, x, q, log_q);
    softmax_of(r, r->z->data + i * classes, p, log_p);
    for (size_t k = 0; k < classes; k++) sum += p[k] == 0 ? 0 : p[k] * (log_p[k] - log_q[k]);
    for (size_t k = 0; k < classes && dx; k++) {
        dx[k] = (float)(slope * (q[k] - p[k]));
        dx[r->all + k] = p[k] == 0 ? 0 : (float)(slope * p[k] * (log_p[k] - log_q[k] - sum));
    }
    return slope * r->temperature * sum;
}

static bool same_shapes(qg_tape *t, const qg_op *op, const qg_var *x, const qg_var *z)
{
    return qg_shape_equal(x->shape, z->shape) ||
           qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " and z " QG_SHAPE_FMT " differ", op->name,
                     QG_SHAPE_ARGS(x->shape), QG_SHAPE_ARGS(z->shape));
}

qg_var *qg_kl(qg_tape *t, qg_var *x, qg_var *z, float temperature)
{
    if (!x || !z || !same_shapes(t, &kl, x, z) || !are_rows(t, &kl, x)) return NULL;
    if (!(temperature > 0 && isfinite(temperature)))
        return qg_reject(t, QG_EARG, "kl: temperature %g must be positive and finite, x " QG_SHAPE_FMT,
                         (double)temperature, QG_SHAPE_ARGS(x->shape));
    return record_rows(t, &kl, x, z, (rows){ .loss = kl_row, .z = z, .temperature = (double)temperature });
}

/* --- mean squared error ------------------------------------------------------------------- */

typedef struct squares {
    const qg_var *y;
    double       *part;     /* [n] */
} squares;

/* The numbers of x in the whole batch. */
static double count_of(const qg_var *x) { return (double)qg__slices_of(x).n * (double)qg_row(x->shape); }

/* y = mean of (x - z)^2:   dx = 2 / count (x - z) dy,   dz = -dx. */
static void mse_gradient(void *context, int block, int worker)
{
    const qg_var *y = context, *x = y->in[0], *z = y->in[1];
    const size_t  m = qg_count(x->shape);
    const double  slope = 2.0 * (double)y->grad[0] / count_of(x);
    for (size_t i = qg_block(m, block), end = qg_block(m, block + 1); i < end; i++) {
        const float dx = (float)(slope * ((double)x->data[i] - (double)z->data[i]));
        if (x->grad) x->grad[i] = x->fresh ? dx : x->grad[i] + dx;
        if (z->grad) z->grad[i] = z->fresh ? -dx : z->grad[i] - dx;    /* dx is 0 if z is x */
    }
}

static void mse_backward(qg_tape *t, qg_var *y)
{
    qg_parallel(qg_blocks(qg_count(y->in[0]->shape)), mse_gradient, y);
}

static const qg_op mse = { "mse", mse_backward, .assigns = true };

static void sum_squares(void *context, int image, int worker)
{
    const squares *s   = context;
    const float   *x   = s->y->in[0]->data, *z = s->y->in[1]->data;
    const size_t   row = qg_row(s->y->in[0]->shape), from = (size_t)image * row;
    double         sum = 0;
    for (size_t i = from; i < from + row; i++) {
        const double d = (double)x[i] - (double)z[i];
        sum += d * d;
    }
    s->part[image] = sum;
}

qg_var *qg_mse(qg_tape *t, qg_var *x, qg_var *z)
{
    if (!x || !z || !same_shapes(t, &mse, x, z)) return NULL;
    qg_var *y = record_scalar(t, &mse, x, z);
    if (!y) return NULL;
    squares s = { y, qg_scratch(t, (size_t)x->shape.n * sizeof *s.part) };
    if (!s.part) return NULL;
    qg_parallel(x->shape.n, sum_squares, &s);
    return sum_losses(t, x, s.part, count_of(x), y);
}

/* --- counting ----------------------------------------------------------------------------- */

int qg_count_correct(const qg_var *x, const uint16_t *labels)
{
    if (!x || !x->data || !labels || x->shape.h != 1 || x->shape.w != 1) return 0;
    const size_t classes = qg_row(x->shape);
    int          correct = 0;
    for (int i = 0; i < x->shape.n; i++) {
        const float *score = x->data + (size_t)i * classes;
        size_t       lower = 0;
        /* With these comparisons a row with NaN, or with a label out of range, never counts as correct. */
        if (labels[i] >= classes) continue;
        for (size_t k = 0; k < classes; k++)
            lower += k < labels[i] ? score[k] < score[labels[i]] : score[k] <= score[labels[i]];
        correct += lower == classes;
    }
    const qg__slices at               = qg__slices_of(x);
    int              part[QG_SLICES]  = { 0 };
    part[at.from]                     = correct;
    if (!qg__slices_gather(x->tape, at, part, sizeof *part)) return 0;
    for (int s = 0; s < QG_SLICES; s++) correct += s == at.from ? 0 : part[s];
    return correct;
}
