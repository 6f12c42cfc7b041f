#include "quant/schemes/binary.h"

#include "quant/operand.h"
#include "quant/scheme.h"

qg_constants qg_mean_signs(qg_quant q, qg_span w, const float *learned)
{
    (void)q, (void)learned;
    return (qg_constants){ .sign = { qg_span_mean_abs(w) } };
}

static const qg_key keys[] = { QG_AS_KEY, QG_SURROGATE_KEYS(QG_SURROGATE_IDENTITY), { .name = NULL } };

static const char explain_binary[] =
    "Binary weights with one scale, per tensor or per output channel.\n"
    "          Rastegari et al. 2016, arXiv:1603.05279, as Binary-Weight-Network (per channel)\n"
    "\n"
    "    a    = mean|w|                          over the tensor, or over one output channel\n"
    "    q(w) = +a if w >= 0, else -a            so sign(0) = +1\n"
    "    s(w) = w                                the gradient passes unchanged; a is a constant\n"
    "\n"
    "Learns nothing.  If all weights are zero, q = 0.\n"
    "Other implementations: XNOR-Net's own backward pass scales and masks the gradient.  The binary mode\n"
    "of TWN's Caffe code has no a, which makes it binaryconnect without the clip; TWN's PyTorch code has\n"
    "one a per filter.  torch.sign gives 0 at 0.\n";

const qg_scheme qg_binary_scheme = {
    .name        = "binary",
    .about       = "{-a, +a}, one a per layer",
    .keys        = keys,
    .bits        = 1,
    .roles       = QG_WEIGHT,
    .granularity = QG_EITHER_SCALE,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("binary"),
    .constants   = qg_mean_signs,
    .explain     = explain_binary,
};

/* The same with a scale per channel; on the command line it has a name of its own. */
const qg_scheme qg_binary_channel_scheme = {
    .name        = "binary-channel",
    .about       = "{-a, +a}, one a per output channel",
    .keys        = keys,
    .bits        = 1,
    .roles       = QG_WEIGHT,
    .granularity = QG_CHANNEL_SCALE,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("binary"),
    .constants   = qg_mean_signs,
    .explain     = explain_binary,
};

qg_quant qg_binary(qg_binary_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = spec.per_channel ? &qg_binary_channel_scheme : &qg_binary_scheme,
                                         .surrogate = spec.surrogate });
}

/* --- on arrays ------------------------------------------------------------------------------- */

static void scaled_signs(const qg_array *x, int axis, qg_array *y, float *scale)
{
    qg_form_forward((qg_quant){ .scheme = &qg_binary_scheme }, qg__split_at(x, axis), qg__floats(x), NULL,
                    qg__floats(y), NULL, scale);
}

qg_status qg_binary_mean_scaling_quantizer(const qg_array *x, qg_array *y, float *scale)
{
    const qg_status s = qg__check_forward("binary_mean_scaling_quantizer", x, y);
    if (!s) scaled_signs(x, -1, y, scale);
    return s;
}

qg_status qg_binary_mean_scaling_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s,
                                                    qg_array *dx)
{
    return qg__surrogate_gradient("binary_mean_scaling_quantizer_gradient", x, dy,
                                  qg__surrogate_or(s, qg_surrogate_identity()), dx);
}

qg_status qg__scaled_sign_axis(const char *op, const char *name, const qg_array *x, int axis, qg_array *y,
                               const char *scale_name, qg_array *scale)
{
    qg_split c = { 0 };
    qg_status s = qg__check_channels(op, name, axis, x, &c);
    if (!s) s = qg__check_optional_vector(op, scale_name, scale, c.depth);
    if (!s) scaled_signs(x, axis, y, qg__floats(scale));
    return s;
}

qg_status qg_binary_channel_wise_mean_scaling_quantizer(const qg_array *x, qg_array *y, qg_array *scale)
{
    const char *op = "binary_channel_wise_mean_scaling_quantizer";
    const qg__operand rows[] = { { "x", x, .dtypes = QG__F32, .rank = 4 },
                                 { "y", y, .dtypes = QG__F32, .like = "x" } };
    const qg_status   s      = QG__CHECK_OPERANDS(op, rows);
    return s ? s : qg__scaled_sign_axis(op, "last axis", x, x->rank - 1, y, "scale", scale);
}

qg_status qg_binary_channel_wise_mean_scaling_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                                                 qg_surrogate s, qg_array *dx)
{
    const char       *op     = "binary_channel_wise_mean_scaling_quantizer_gradient";
    const qg__operand rows[] = { { "x", x, .dtypes = QG__F32, .rank = 4 } };
    const qg_status   status = QG__CHECK_OPERANDS(op, rows);
    return status ? status : qg__surrogate_gradient(op, x, dy, qg__surrogate_or(s, qg_surrogate_identity()), dx);
}
