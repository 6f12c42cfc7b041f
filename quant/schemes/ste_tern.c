#include "quant/operand.h"
#include "quant/scheme.h"
#include "quant/schemes/twn.h"

enum { THRESHOLD, RELATIVE };       /* in arg; the first as in quant/schemes/twn.c */

static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    (void)learned;
    const float d = q.arg[RELATIVE] != 0 ? qg__twn_delta(w, q.arg[THRESHOLD]) : q.arg[THRESHOLD];
    return (qg_constants){ .ternary = { d, 1.0f, 1.0f } };
}

static const qg_scheme scheme = {
    .name      = "ste-tern",
    .roles     = QG_WEIGHT,
    .scales    = QG_UNSCALED,
    .form      = &qg_ternary_form,
    .ops       = QG_FORM_OPS("ste_tern"),
    .own       = qg_clip_at_1,
    .check     = qg__check_ternary_threshold,
    .constants = constants,
    .explain =
        "Ternary weights without a scale: SteTern of the Larq library.\n"
        "\n"
        "    D    = threshold, 0.05 by default\n"
        "           threshold * mean|w|, 0.7 by default, with relative=yes\n"
        "    q(w) = +1 if w > D, -1 if w < -D, else 0\n"
        "    s(w) = clip(w, -1, 1)                   dw = dq where |w| <= 1, else 0\n"
        "\n"
        "Learns nothing.  All weights zero: q = 0.  The threshold 0.7 is that of Li, Zhang, Liu 2016,\n"
        "arXiv:1605.04711, whose quantizer has a scale besides: that is twn.\n",
};

qg_quant qg_ste_tern(qg_ste_tern_spec spec)
{
    const float own = spec.relative ? 0.7f : 0.05f;
    return (qg_quant){ .scheme    = &scheme,
                       .bits      = 2,
                       .surrogate = spec.surrogate,
                       .arg       = { [THRESHOLD] = spec.threshold == 0 ? own : spec.threshold,
                                      [RELATIVE]  = spec.relative } };
}

/* --- on arrays ------------------------------------------------------------------------------- */

qg_status qg_ste_tern_quantizer(const qg_array *x, qg_ste_tern_attrs attrs, qg_array *y)
{
    const char *op       = "ste_tern_quantizer";
    const bool  relative = attrs.ternary_weight_networks;
    qg_status   s        = qg__check_forward(op, x, y);
    if (!s && !relative) s = qg__check_threshold(op, "threshold_value", attrs.threshold_value);
    if (s) return s;
    const qg_quant q = { .scheme = &scheme,
                         .arg    = { [THRESHOLD] = relative ? 0.7f : attrs.threshold_value, [RELATIVE] = relative } };
    qg_form_forward(q, qg__split_at(x, -1), qg__floats(x), NULL, qg__floats(y), NULL, NULL);
    return QG_OK;
}

qg_status qg_ste_tern_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    return qg__surrogate_gradient("ste_tern_quantizer_gradient", x, dy, qg__surrogate_or(s, qg_surrogate_clip(1.0f)), dx);
}
