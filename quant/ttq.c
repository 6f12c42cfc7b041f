#include "quant/ttq.h"

#include "quant/operand.h"
#include "quant/reduce.h"
#include "quant/slope.h"
#include "quant/twn.h"

float qg__ttq_delta(size_t n, const float *x, float threshold)
{
    return threshold * qg__max_abs(n, x);
}

struct backward {
    const float            *x, *dy;
    float                   delta, positive, negative;
    float                  *dx;
    const qg_slope_kernels *kernels;
};

/* The slope on the way: one reading of x and dy. */
static void backward_terms(const void *context, size_t first, size_t n, float *above, float *below)
{
    const struct backward *k = context;
    float                  unused[QG_CHUNK] = { 0.0f };
    k->kernels->ttq(n, k->x + first, k->dy + first, k->delta, k->positive, k->negative,
                    k->dx ? k->dx + first : unused, above, below);
}

void qg__ttq_backward(size_t n, const float *x, const float *dy, float delta, float positive,
                      float negative, qg_surrogate s, float *dx, double sum[2])
{
    const struct backward k = { x, dy, delta, positive, negative, s.slope ? NULL : dx, QG_KERNELS(qg__slope) };
    if (dx && s.slope) qg_surrogate_slope(s, n, x, dy, dx);
    qg__sum_term_pairs(n, backward_terms, &k, sum);
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
    double       sum[2];
    qg__zero(dx);
    qg__ttq_backward(n, w, dq, delta, attrs.positive, attrs.negative, attrs.surrogate, qg__floats(dx), sum);

    /* q = -Wn on N, so dWn = -sum dq.  The formula as printed drops the minus; the chain rule does
     * not. */
    const float sign = attrs.rule == QG_TTQ_AS_PRINTED ? 1.0f : -1.0f;
    if (grad_positive) *grad_positive = (float)sum[0];
    if (grad_negative) *grad_negative = sign * (float)sum[1];
    return QG_OK;
}
