#include "quant/ttq.h"

#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/twn.h"

float qg__ttq_delta(size_t n, const float *x, float threshold)
{
    return threshold * qg__max_abs(n, x);
}

struct backward {
    const float *x, *dy;
    float        delta, positive, negative;
    float       *dx;
};

static void slope_block(void *context, size_t at, size_t n)
{
    const struct backward b = *(const struct backward *)context;
    const float          *x = b.x + at;
    const float          *dy = b.dy + at;
    float                *dx = b.dx + at;
    for (size_t i = 0; i < n; i++) {
        const float other = x[i] < -b.delta ? b.negative : 1.0f;
        dx[i] += dy[i] * (x[i] > b.delta ? b.positive : other);
    }
}

void qg__ttq_slope(size_t n, const float *x, const float *dy, float delta, float positive,
                   float negative, float *dx)
{
    struct backward k = { x, dy, delta, positive, negative, dx };
    qg__in_blocks(n, QG_BLOCK, slope_block, &k);
}

static void positive_terms(const void *context, size_t first, size_t n, float *term)
{
    const struct backward b = *(const struct backward *)context;
    for (size_t i = 0; i < n; i++) {
        const float g = b.dy[first + i];
        term[i] = b.x[first + i] > b.delta ? g : 0.0f;
    }
}

static void negative_terms(const void *context, size_t first, size_t n, float *term)
{
    const struct backward b = *(const struct backward *)context;
    for (size_t i = 0; i < n; i++) {
        const float g = b.dy[first + i];
        term[i] = b.x[first + i] < -b.delta ? g : 0.0f;
    }
}

float qg__ttq_sum_positive(size_t n, const float *x, const float *dy, float delta)
{
    const struct backward k = { .x = x, .dy = dy, .delta = delta };
    return (float)qg__sum_terms(n, positive_terms, &k);
}

float qg__ttq_sum_negative(size_t n, const float *x, const float *dy, float delta)
{
    const struct backward k = { .x = x, .dy = dy, .delta = delta };
    return (float)qg__sum_terms(n, negative_terms, &k);
}

static qg_status check_attrs(const char *op, qg_ttq_attrs attrs)
{
    const qg_status s = qg__check_threshold(op, "threshold", attrs.threshold);
    return s ? s : qg__check_int(op, "rule", (int)attrs.rule, QG_TTQ_EXACT, QG_TTQ_AS_PRINTED);
}

qg_status qg_ttq_weight_quantizer(const qg_array *x, qg_ttq_attrs attrs, qg_array *y)
{
    const char *op = "ttq_weight_quantizer";
    qg_status   s = check_attrs(op, attrs);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const size_t n = qg_array_count(x);
    const float  delta = qg__ttq_delta(n, qg__floats(x), attrs.threshold);
    qg__ternarize(n, qg__floats(x), delta, attrs.positive, attrs.negative, qg__floats(y));
    return QG_OK;
}

qg_status qg_ttq_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                           qg_ttq_attrs attrs, qg_array *dx, float *grad_positive,
                                           float *grad_negative)
{
    const char *op = "ttq_weight_quantizer_gradient";
    qg_status   s = check_attrs(op, attrs);
    if (!s) s = qg__check_backward(op, x, dy, dx);
    if (s) return s;

    const size_t n = qg_array_count(x);
    const float *w = qg__floats(x);
    const float *dq = qg__floats(dy);
    const float  delta = qg__ttq_delta(n, w, attrs.threshold);
    qg__zero(dx);
    if (attrs.surrogate.slope) qg_surrogate_slope(attrs.surrogate, n, w, dq, qg__floats(dx));
    else qg__ttq_slope(n, w, dq, delta, attrs.positive, attrs.negative, qg__floats(dx));

    /* q = -Wn on N, so dWn = -sum dq.  The formula as printed drops the minus; the chain rule does
     * not. */
    const float sign = attrs.rule == QG_TTQ_AS_PRINTED ? 1.0f : -1.0f;
    if (grad_positive) *grad_positive = qg__ttq_sum_positive(n, w, dq, delta);
    if (grad_negative) *grad_negative = sign * qg__ttq_sum_negative(n, w, dq, delta);
    return QG_OK;
}
