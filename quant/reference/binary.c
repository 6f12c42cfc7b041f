#include "quant/reference/binary.h"

#include "quant/operand.h"
#include "quant/reference/code_array.h"
#include "quant/schemes/formulas.h"

/* --- without a scale -------------------------------------------------------------------------- */

qg_status qg_sign_quantizer(const qg_array *x, qg_array *y)
{
    return qg__form_operator("sign_quantizer", &qg__sign_scheme, (qg_constants){ .sign = { 1.0f } }, x, y);
}

qg_status qg_sign_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    return qg__surrogate_gradient("sign_quantizer_gradient", x, dy, s, qg_surrogate_clip(1.0f), dx);
}

qg_status qg_stochastic_sign_quantizer(const qg_array *x, uint64_t key, qg_array *y)
{
    const qg_status s = qg__check_forward("stochastic_sign_quantizer", x, y);
    if (!s) qg__stochastic_signs(qg_array_count(x), qg__floats(x), key, qg__floats(y));
    return s;
}

qg_status qg_stochastic_sign_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx)
{
    return qg__surrogate_gradient("stochastic_sign_quantizer_gradient", x, dy, s, qg_surrogate_identity(), dx);
}

/* --- with the mean as the scale --------------------------------------------------------------- */

static void scaled_signs(const qg_array *x, int axis, qg_array *y, float *scale)
{
    qg__form_forward(&(qg_binding){ .q = { .scheme = &qg__binary_scheme } }, qg__split_at(x, axis), qg__floats(x), NULL,
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
    return qg__surrogate_gradient("binary_mean_scaling_quantizer_gradient", x, dy, s, qg_surrogate_identity(), dx);
}

/* y = sign(x) mean|x| per index of an axis; name is the axis in messages. */
static qg_status scaled_sign_axis(const char *op, const char *name, const qg_array *x, int axis, qg_array *y,
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
    return s ? s : scaled_sign_axis(op, "last axis", x, x->rank - 1, y, "scale", scale);
}

qg_status qg_binary_channel_wise_mean_scaling_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                                                 qg_surrogate s, qg_array *dx)
{
    const char       *op     = "binary_channel_wise_mean_scaling_quantizer_gradient";
    const qg__operand rows[] = { { "x", x, .dtypes = QG__F32, .rank = 4 } };
    const qg_status   status = QG__CHECK_OPERANDS(op, rows);
    return status ? status : qg__surrogate_gradient(op, x, dy, s, qg_surrogate_identity(), dx);
}

qg_status qg_magnitude_aware_sign_quantizer(const qg_array *x, qg_array *y, qg_array *scale)
{
    const char     *op = "magnitude_aware_sign_quantizer";
    const qg_status s  = qg__check_forward(op, x, y);
    return s ? s : scaled_sign_axis(op, "last axis", x, x->rank - 1, y, "scale", scale);
}

qg_status qg_magnitude_aware_sign_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s,
                                                     qg_array *dx)
{
    const char *op     = "magnitude_aware_sign_quantizer_gradient";
    qg_split   c      = { 0 };
    qg_status   status = qg__check_backward(op, x, dy, dx);
    if (!status) status = qg__check_channels(op, "last axis", x->rank - 1, x, &c);
    if (!status && s.whole) status = qg_fail(QG_EARG, "%s: the surrogate must be a slope", op);
    if (status) return status;
    qg__zero(dx);
    const qg_binding b = { .q = qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true }) };
    qg__form_gradient(&b, s, c, NULL, qg__floats(x), qg__floats(dy), qg__floats(dx), NULL);
    return QG_OK;
}

/* --- XNOR-Net --------------------------------------------------------------------------------- */

qg_status qg_xnor_weight_quantizer(const qg_array *x, int axis, qg_array *y, qg_array *alpha)
{
    const char     *op = "xnor_weight_quantizer";
    const qg_status s  = qg__check_forward(op, x, y);
    return s ? s : scaled_sign_axis(op, "axis", x, axis, y, "alpha", alpha);
}

qg_status qg_xnor_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                            qg_xnor_attrs attrs, qg_array *dx)
{
    const char        *op = "xnor_weight_quantizer_gradient";
    const qg_xnor_rule rule = attrs.rule ? attrs.rule : QG_XNOR_EXACT;
    const bool         authors = rule == QG_XNOR_AUTHORS || rule == QG_XNOR_AUTHORS_ADAM;
    qg_split          c = { 0 };
    qg_split          in = { 1, 1, 1 };
    qg_status          s = qg__check_int(op, "rule", (int)attrs.rule, QG_XNOR_DEFAULT, QG_XNOR_IDENTITY);
    if (!s) s = qg__check_backward(op, x, dy, dx);
    if (!s) s = qg__check_channels(op, "axis", attrs.axis, x, &c);
    if (!s && authors) s = qg__check_channels(op, "input_axis", attrs.input_axis, x, &in);
    if (!s && attrs.surrogate.whole) s = qg_fail(QG_EARG, "%s: the surrogate must be a slope", op);
    if (s) return s;
    const qg_binding b = { .q = qg_xnor((qg_xnor_spec){ .rule = rule }), .inputs = in.depth };
    qg__zero(dx);
    qg__form_gradient(&b, attrs.surrogate, c, NULL, qg__floats(x), qg__floats(dy), qg__floats(dx), NULL);
    return QG_OK;
}

static qg_status check_window(const char *op, qg_xnor_window window)
{
    const qg__attribute attrs[] = { { "kernel_h", window.kernel_h, 1, INT32_MAX, NULL },
                                    { "kernel_w", window.kernel_w, 1, INT32_MAX, NULL },
                                    { "stride", window.stride, 1, INT32_MAX, NULL } };
    return QG__CHECK_ATTRIBUTES(op, attrs);
}

qg_status qg_xnor_activation_quantizer(const qg_array *x, qg_xnor_window window, qg_array *sign,
                                       qg_array *K)
{
    const char       *op     = "xnor_activation_quantizer";
    const qg__operand rows[] = { { "x", x, .dtypes = QG__F32, .rank = 4 },
                                 { "sign", sign, .dtypes = QG__F32, .like = "x" } };
    qg_status         s      = check_window(op, window);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;

    qg__xnor_windows g = { .n        = x->dims[0],
                           .h        = x->dims[1],
                           .w        = x->dims[2],
                           .c        = x->dims[3],
                           .kernel_h = (size_t)window.kernel_h,
                           .kernel_w = (size_t)window.kernel_w,
                           .stride   = (size_t)window.stride };
    const qg_padding padding = window.same_padding ? QG_PADDING_SAME : QG_PADDING_VALID;
    g.oh       = qg_conv_extent(padding, g.h, g.kernel_h, g.stride);
    g.ow       = qg_conv_extent(padding, g.w, g.kernel_w, g.stride);
    g.pad_top  = qg__padding_before(padding, g.h, g.oh, g.kernel_h, g.stride);
    g.pad_left = qg__padding_before(padding, g.w, g.ow, g.kernel_w, g.stride);
    const qg_array model = { .dtype = QG_F32, .rank = 4, .dims = { g.n, g.oh, g.ow, 1 } };
    s = qg__check_same_shape(op, "K", K, "the windows over x", &model);
    if (!s) s = qg_sign_quantizer(x, sign);
    if (s) return s;
    qg__xnor_map(g, qg__floats(x), qg__floats(K));
    return QG_OK;
}
