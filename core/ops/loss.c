#include <math.h>

#include "core/ops/ops.h"

/* Both losses save dL/dx for a gradient of 1, [n][classes], so labels need not outlive the call.  They run on one
 * thread because a loss is a single sum. */
static void loss_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    qg_var      *x     = y->in[0];
    const float *slope = y->saved, dy = y->grad[0];
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++)
        x->grad[i] = x->fresh ? dy * slope[i] : x->grad[i] + dy * slope[i];
}

static const qg_op cross_entropy = { "cross_entropy", loss_backward, .assigns = true };
static const qg_op squared_hinge = { "squared_hinge", loss_backward, .assigns = true };

/* Computes weight times the loss of one row, in double; slope is [classes] or NULL. */
typedef double (*row_loss)(const float *x, size_t classes, size_t label, double weight,
                           float *slope);

/*     -log softmax(x)[label] = log(sum exp(x - m)) + m - x[label],   m = max x
 *     d/dx[k] = softmax(x)[k] - 1[k = label] */
static double cross_entropy_row(const float *x, size_t classes, size_t label, double weight,
                                float *slope)
{
    double m = (double)x[0], sum = 0;
    for (size_t k = 1; k < classes; k++)
        if ((double)x[k] > m) m = (double)x[k];
    for (size_t k = 0; k < classes; k++) sum += exp((double)x[k] - m);
    if (slope)
        for (size_t k = 0; k < classes; k++)
            slope[k] = (float)(weight * (exp((double)x[k] - m) / sum - (k == label ? 1.0 : 0.0)));
    return weight * (log(sum) + m - (double)x[label]);
}

/*     mean over k of max(0, 1 - s x[k])^2,   s = +1 at the label and -1 elsewhere
 *     d/dx[k] = -2 s max(0, 1 - s x[k]) / classes */
static double squared_hinge_row(const float *x, size_t classes, size_t label, double weight,
                                float *slope)
{
    double sum = 0;
    weight /= (double)classes;
    for (size_t k = 0; k < classes; k++) {
        const double s    = k == label ? 1.0 : -1.0;
        const double gap  = 1.0 - s * (double)x[k];
        const double miss = gap < 0 ? 0 : gap;
        sum += miss * miss;
        if (slope) slope[k] = (float)(weight * -2.0 * s * miss);
    }
    return weight * sum;
}

static qg_var *record_loss(qg_tape *t, const qg_op *op, row_loss row, qg_var *x,
                           const uint8_t *labels)
{
    if (!x) return NULL;
    const size_t n = (size_t)x->shape.n, classes = qg_row(x->shape);
    if (x->shape.h != 1 || x->shape.w != 1)
        return qg_reject(t, QG_ESHAPE, "%s: x " QG_SHAPE_FMT " has scores at %d x %d places of an image, not one row; "
                         "pool them, or make them one row: a dense layer, qg_reshape", op->name, QG_SHAPE_ARGS(x->shape), x->shape.h,
                         x->shape.w);
    if (!labels)
        return qg_reject(t, QG_EARG, "%s: labels are NULL, x " QG_SHAPE_FMT, op->name,
                         QG_SHAPE_ARGS(x->shape));
    qg_var *y = qg_record(t, op, (qg_shape){ 1, 1, 1, 1 }, x, NULL, NULL);
    if (!y) return NULL;
    for (size_t i = 0; i < n; i++)
        if (labels[i] >= classes)
            return qg_reject(t, QG_EARG, "%s: label %d at index %zu is not in 0..%zu, x "
                             QG_SHAPE_FMT, op->name, labels[i], i, classes - 1,
                             QG_SHAPE_ARGS(x->shape));
    float *slope = y->needs_grad ? qg_save(t, y, n * classes * sizeof *slope) : NULL;
    if (y->needs_grad && !slope) return NULL;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += row(x->data + i * classes, classes, labels[i], 1.0 / (double)n,
                   slope ? slope + i * classes : NULL);
    y->data[0] = (float)sum;
    return y;
}

qg_var *qg_cross_entropy(qg_tape *t, qg_var *x, const uint8_t *labels)
{
    return record_loss(t, &cross_entropy, cross_entropy_row, x, labels);
}

qg_var *qg_squared_hinge(qg_tape *t, qg_var *x, const uint8_t *labels)
{
    return record_loss(t, &squared_hinge, squared_hinge_row, x, labels);
}

int qg_correct(const qg_var *x, const uint8_t *labels)
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
    return correct;
}
