#include "quant/reference/ternary.h"

#include "quant/operand.h"
#include "quant/schemes/formulas.h"

/* --- TWN -------------------------------------------------------------------------------------- */

/* Not by the constructor, to which a threshold of 0 means its default. */
static qg_quant twn(float threshold) { return (qg_quant){ .scheme = &qg__twn_scheme, .arg = { threshold } }; }

qg_status qg_twn_weight_quantizer(const qg_array *x, float threshold, qg_array *y, float *delta, float *alpha)
{
    const char *op = "twn_weight_quantizer";
    qg_status   s  = qg__check_threshold(op, "threshold", threshold);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    qg_constants k;
    qg__form_forward(&(qg_binding){ .q = twn(threshold) }, qg__split_at(x, -1), qg__floats(x), NULL, qg__floats(y), &k, NULL);
    if (delta) *delta = k.ternary.delta;
    if (alpha) *alpha = k.ternary.positive;
    return QG_OK;
}

qg_status qg_twn_per_channel_weight_quantizer(const qg_array *x, int axis, float threshold, qg_array *y,
                                              qg_array *alpha)
{
    const char *op = "twn_per_channel_weight_quantizer";
    qg_split   c  = { 0 };
    qg_status   s  = qg__check_threshold(op, "threshold", threshold);
    if (!s) s = qg__check_forward(op, x, y);
    if (!s) s = qg__check_channels(op, "axis", axis, x, &c);
    if (!s) s = qg__check_optional_vector(op, "alpha", alpha, c.depth);
    if (s) return s;
    qg__form_forward(&(qg_binding){ .q = twn(threshold) }, c, qg__floats(x), NULL, qg__floats(y), NULL, qg__floats(alpha));
    return QG_OK;
}

qg_status qg_twn_weight_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    return qg__surrogate_gradient("twn_weight_quantizer_gradient", x, dy, s, qg_surrogate_identity(), dx);
}

/* --- SteTern ---------------------------------------------------------------------------------- */

qg_status qg_ste_tern_quantizer(const qg_array *x, qg_ste_tern_attrs attrs, qg_array *y)
{
    const char *op       = "ste_tern_quantizer";
    const bool  relative = attrs.ternary_weight_networks;
    qg_status   s        = qg__check_forward(op, x, y);
    if (!s && !relative) s = qg__check_threshold(op, "threshold_value", attrs.threshold_value);
    if (s) return s;
    /* Nor here. */
    const qg_span      w = qg__span_at(qg__isa(), qg__split_at(x, -1), 0, qg__floats(x));
    const qg_constants k = { .ternary = { relative ? qg__twn_delta(w, 0.7f) : attrs.threshold_value, 1.0f, 1.0f } };
    qg__form_values(&qg_ternary_form, &k, w.n, w.x, qg__floats(y));
    return QG_OK;
}

qg_status qg_ste_tern_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    return qg__surrogate_gradient("ste_tern_quantizer_gradient", x, dy, s, qg_surrogate_clip(1.0f), dx);
}

/* --- TTQ -------------------------------------------------------------------------------------- */

static qg_quant ttq(qg_ttq_attrs attrs)
{
    return (qg_quant){ .scheme = &qg__ttq_scheme, .surrogate = attrs.surrogate, .arg = { attrs.threshold, attrs.rule } };
}

/* The scheme keeps its scales positive; here they may have either sign. */
static qg_constants ttq_constants(qg_ttq_attrs attrs, const qg_array *x)
{
    const qg_span w = qg__span_at(qg__isa(), qg__split_at(x, -1), 0, qg__floats(x));
    return qg__ttq_scheme.constants(ttq(attrs), w, (const float[]){ attrs.positive, attrs.negative });
}

static qg_status check_ttq(const char *op, qg_ttq_attrs attrs)
{
    const qg_status s = qg__check_threshold(op, "threshold", attrs.threshold);
    return s ? s : qg__check_int(op, "rule", (int)attrs.rule, QG_TTQ_EXACT, QG_TTQ_AS_PRINTED);
}

qg_status qg_ttq_weight_quantizer(const qg_array *x, qg_ttq_attrs attrs, qg_array *y)
{
    const char *op = "ttq_weight_quantizer";
    qg_status   s  = check_ttq(op, attrs);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const qg_constants k = ttq_constants(attrs, x);
    qg__form_values(&qg_ternary_form, &k, qg_array_count(x), qg__floats(x), qg__floats(y));
    return QG_OK;
}

qg_status qg_ttq_weight_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_ttq_attrs attrs, qg_array *dx,
                                           float *grad_positive, float *grad_negative)
{
    const char *op = "ttq_weight_quantizer_gradient";
    qg_status   s  = check_ttq(op, attrs);
    if (!s) s = qg__check_backward(op, x, dy, dx);
    if (s) return s;
    const qg_constants k = ttq_constants(attrs, x);
    const qg_split    c = qg__split_at(x, -1);
    double             sum[1][QG_FORM_SUMS];
    qg__zero(dx);
    const qg_binding b = { .q = ttq(attrs) };
    qg__form_gradient(&b, b.q.surrogate, c, &k, qg__floats(x), qg__floats(dy), qg__floats(dx), sum);
    if (grad_positive) *grad_positive = (float)((double)k.gain[0] * sum[0][0]);
    if (grad_negative) *grad_negative = (float)((double)k.gain[1] * sum[0][1]);
    return QG_OK;
}
