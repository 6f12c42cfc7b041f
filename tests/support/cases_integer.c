#include "tests/support/cases.h"

#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"
#include "quant/reference/quantize.h"
#include "quant/round.h"

/* ---- uniform operators ---- */

static void uniform_quantize(test_case *c)
{
    const qg_uniform_quantize_attrs attrs = {
        .quantization_axis    = case_int(c, "quantization_axis"),
        .quantization_min_val = case_int(c, "quantization_min_val"),
        .quantization_max_val = case_int(c, "quantization_max_val"),
    };
    qg_dtype dtype = attrs.quantization_max_val > INT8_MAX ? QG_U8 : QG_I8;
    case_expects(c, "output", &dtype);      /* 0 .. 127 may be meant as either */
    const qg_array *x = case_input(c, "input");
    const qg_array *s = case_input(c, "scales");
    const qg_array *z = case_input(c, "zero_points");
    qg_array       *y = case_output_like(c, "output", dtype, x);
    if (case_ready(c)) case_result(c, qg_uniform_quantize(attrs, x, s, z, y));
}

static void uniform_dequantize(test_case *c)
{
    const int       axis = case_int(c, "quantization_axis");
    const qg_array *q    = case_input(c, "input");
    const qg_array *s    = case_input(c, "scales");
    const qg_array *z    = case_input(c, "zero_points");
    qg_array       *y    = case_output_like(c, "output", QG_F32, q);
    if (case_ready(c)) case_result(c, qg_uniform_dequantize(axis, q, s, z, y));
}

static void uniform_requantize(test_case *c)
{
    const qg_uniform_requantize_attrs attrs = {
        .input_quantization_axis     = case_int(c, "input_quantization_axis"),
        .output_quantization_axis    = case_int(c, "output_quantization_axis"),
        .output_quantization_min_val = case_int(c, "output_quantization_min_val"),
        .output_quantization_max_val = case_int(c, "output_quantization_max_val"),
    };
    const qg_array *q  = case_input(c, "input");
    const qg_array *si = case_input(c, "input_scales");
    const qg_array *zi = case_input(c, "input_zero_points");
    const qg_array *so = case_input(c, "output_scales");
    const qg_array *zo = case_input(c, "output_zero_points");
    qg_array       *y  = case_output_like(c, "output", QG_I8, q);
    if (case_ready(c)) case_result(c, qg_uniform_requantize(attrs, q, si, zi, so, zo, y));
}

/* ---- convolutions ---- */

static const char *const paddings[] = { "VALID", "SAME", NULL }; /* in the order of qg_padding */

/* A rank-4 output n x h x w x c of a convolution at these places; empty if an operand has another
 * rank or a stride is nonsense, which the operator then refuses. */
typedef struct conv_places {
    int x_h, x_w, w_o, w_h, w_w;
} conv_places;

static const conv_places nhwc_hwio = { 1, 2, 3, 0, 1 };
static const conv_places nhwc_ohwi = { 1, 2, 0, 1, 2 };
static const conv_places nchw_oihw = { 2, 3, 0, 2, 3 };

static qg_array *conv_output(test_case *c, const char *name, qg_dtype dtype, qg_padding padding,
                             int down, int right, const qg_array *x, const qg_array *w,
                             conv_places at)
{
    size_t dims[4] = { 0 };
    if (x->rank == 4 && w->rank == 4 && down > 0 && right > 0) {
        dims[0]       = x->dims[0];
        dims[at.x_h]  = qg_conv_extent(padding, x->dims[at.x_h], w->dims[at.w_h], (size_t)down);
        dims[at.x_w]  = qg_conv_extent(padding, x->dims[at.x_w], w->dims[at.w_w], (size_t)right);
        const int y_c = 1 + 2 + 3 - at.x_h - at.x_w;
        dims[y_c]     = w->dims[at.w_o];
    }
    return case_output(c, name, dtype, 4, dims);
}

/* A local array of rank 0 over one float. */
static qg_array scalar_view(float *value)
{
    return (qg_array){ .dtype = QG_F32, .data = value };
}

static float first(const qg_array *a)
{
    return a->data ? *(const float *)a->data : 0.0f;
}

static void run_quantized_conv2d(test_case *c, qg_quantized_conv2d_attrs attrs, const qg_array *x,
                                 const qg_array *w, qg_array *q, qg_array *real)
{
    const qg_array *min_x = case_input_of(c, "min_input", QG_F32);
    const qg_array *max_x = case_input_of(c, "max_input", QG_F32);
    const qg_array *min_w = case_input_of(c, "min_filter", QG_F32);
    const qg_array *max_w = case_input_of(c, "max_filter", QG_F32);
    float           ends[2];
    qg_array        lo = scalar_view(&ends[0]);
    qg_array        hi = scalar_view(&ends[1]);
    if (!case_ready(c)) return;
    case_result(c, qg_quantized_conv2d(attrs, x, w, min_x, max_x, min_w, max_w, q, &lo, &hi));
    if (!case_ready(c)) return;
    const float level_x = (first(max_x) - first(min_x)) / 255.0f;
    const float level_w = (first(max_w) - first(min_w)) / 255.0f;
    for (size_t i = 0; i < qg_array_count(q); i++)
        ((float *)real->data)[i] = (float)((const int32_t *)q->data)[i] * level_x * level_w;
}

static qg_quantized_conv2d_attrs conv2d_attrs(test_case *c)
{
    qg_quantized_conv2d_attrs attrs = { 0 };
    case_ints(c, "strides", 4, attrs.strides);
    attrs.padding = (qg_padding)case_choice(c, "padding", paddings);
    return attrs;
}

static void quantized_conv2d(test_case *c)
{
    const qg_quantized_conv2d_attrs a = conv2d_attrs(c);
    const qg_array                 *x = case_input(c, "input");
    const qg_array                 *w = case_input(c, "filter");
    qg_array *q = conv_output(c, "output", QG_I32, a.padding, a.strides[1], a.strides[2], x, w,
                              nhwc_hwio);
    qg_array *real = case_output_like(c, "output_dequantized", QG_F32, q);
    run_quantized_conv2d(c, a, x, w, q, real);
}

/* Codes of float data in an array that the case owns. */
static qg_array *quint8_of(test_case *c, const qg_array *x, const qg_array *min,
                           const qg_array *max)
{
    qg_array *q = case_scratch(c, QG_U8, x);
    for (size_t i = 0; case_ready(c) && i < qg_array_count(x); i++) {
        const int64_t code = qg_float_to_quantized_unclamped(QG_U8, ((const float *)x->data)[i],
                                                             first(min), first(max));
        ((uint8_t *)q->data)[i] = (uint8_t)qg_clamp_int(code, 0, UINT8_MAX);
    }
    return q;
}

static void quantized_conv2d_from_float(test_case *c)
{
    const qg_quantized_conv2d_attrs a = conv2d_attrs(c);
    const qg_array *image  = case_input_of(c, "image", QG_F32);
    const qg_array *filter = case_input_of(c, "filter", QG_F32);
    const qg_array *x = quint8_of(c, image, case_input_of(c, "min_input", QG_F32),
                                  case_input_of(c, "max_input", QG_F32));
    const qg_array *w = quint8_of(c, filter, case_input_of(c, "min_filter", QG_F32),
                                  case_input_of(c, "max_filter", QG_F32));
    qg_array *q = conv_output(c, "output", QG_I32, a.padding, a.strides[1], a.strides[2], image,
                              filter, nhwc_hwio);
    qg_array *real = case_output_like(c, "output_dequantized", QG_F32, q);
    run_quantized_conv2d(c, a, x, w, q, real);
}

static void uniform_quantized_convolution(test_case *c)
{
    static const char *const layouts[] = { "NCHW_OIHW", "NHWC_HWIO", NULL };

    const qg_uniform_convolution_attrs attrs = {
        .layout                   = (qg_uniform_layout)case_choice(c, "layout", layouts),
        .padding                  = (qg_padding)case_choice(c, "padding", paddings),
        .rhs_quantization_axis    = case_int(c, "rhs_quantization_axis"),
        .output_quantization_axis = case_int(c, "output_quantization_axis"),
        .feature_group_count      = case_int(c, "feature_group_count"),
        .output_quantization_min_val = case_int(c, "output_quantization_min_val"),
        .output_quantization_max_val = case_int(c, "output_quantization_max_val"),
    };
    const qg_array *x  = case_input(c, "lhs");
    const qg_array *w  = case_input(c, "rhs");
    const qg_array *sx = case_input(c, "lhs_scale");
    const qg_array *zx = case_input(c, "lhs_zp");
    const qg_array *sw = case_input(c, "rhs_scale");
    const qg_array *zw = case_input(c, "rhs_zp");
    const qg_array *sy = case_input(c, "output_scale");
    const qg_array *zy = case_input(c, "output_zp");
    qg_array *y = conv_output(c, "output", QG_I32, attrs.padding, 1, 1, x, w,
                              attrs.layout == QG_NCHW_OIHW ? nchw_oihw : nhwc_hwio);
    if (case_ready(c))
        case_result(c, qg_uniform_quantized_convolution(attrs, x, w, sx, zx, sw, zw, sy, zy, y));
}

/* RHA(x / scale) + zero, or RHA(w * (1 / scale[o])) of a filter whose outermost dimension is o. */
static void input_codes(const qg_array *x, float scale, int zero, int8_t *q)
{
    for (size_t i = 0; i < qg_array_count(x); i++) {
        const double v = (double)qg_round_away(((const float *)x->data)[i] / scale) + zero;
        q[i]           = (int8_t)qg_to_int(v, INT8_MIN, INT8_MAX);
    }
}

static void filter_codes(const qg_array *w, const float *scale, int8_t *q)
{
    const size_t row = w->dims[0] ? qg_array_count(w) / w->dims[0] : 0;
    for (size_t i = 0; i < w->dims[0] * row; i++) {
        const float v = ((const float *)w->data)[i] * (1.0f / scale[i / row]);
        q[i]          = (int8_t)qg_to_int((double)qg_round_away(v), -INT8_MAX, INT8_MAX);
    }
}

static void conv2d_per_channel_from_float(test_case *c)
{
    const int                         stride = case_int(c, "stride");
    const qg_conv2d_per_channel_attrs attrs  = {
         .strides           = { stride, stride },
         .padding           = (qg_padding)case_choice(c, "padding", paddings),
         .input_scale       = case_float(c, "input_scale"),
         .input_zero_point  = case_int(c, "input_zero_point"),
         .output_scale      = case_float(c, "output_scale"),
         .output_zero_point = case_int(c, "output_zero_point"),
         .output_min        = INT8_MIN,
         .output_max        = INT8_MAX,
         .rounding          = QG_DOUBLE_ROUNDING,
    };
    const qg_array *x      = case_input_of(c, "input", QG_F32);
    const qg_array *w      = case_input_of(c, "filter", QG_F32);
    const qg_array *scales = case_input_of(c, "filter_scales", QG_F32);
    const qg_array *bias   = case_input_of(c, "bias", QG_F32);
    qg_array       *xq     = case_scratch(c, QG_I8, x);
    qg_array       *wq     = case_scratch(c, QG_I8, w);
    qg_array       *bq     = case_scratch(c, QG_I32, bias);
    qg_array *y = conv_output(c, "output", QG_I8, attrs.padding, stride, stride, x, w, nhwc_ohwi);
    qg_array *real = case_output_like(c, "output_dequantized", QG_F32, y);
    if (!case_ready(c)) return;
    const size_t o = w->rank ? w->dims[0] : 0;
    if (qg_array_count(scales) != o || qg_array_count(bias) != o) {
        case_result(c, qg_fail(QG_ESHAPE, "filter_scales and bias must have %zu elements", o));
        return;
    }
    input_codes(x, attrs.input_scale, attrs.input_zero_point, xq->data);
    filter_codes(w, scales->data, wq->data);
    for (size_t i = 0; i < o; i++) {
        const float v = ((const float *)bias->data)[i] /
                        (attrs.input_scale * ((const float *)scales->data)[i]);
        ((int32_t *)bq->data)[i] =
            (int32_t)qg_to_int((double)qg_round_away(v), INT32_MIN, INT32_MAX);
    }
    case_result(c, qg_conv2d_per_channel(attrs, xq, wq, scales, NULL, bq, y));
    for (size_t i = 0; case_ready(c) && i < qg_array_count(y); i++)
        ((float *)real->data)[i] =
            (float)(((const int8_t *)y->data)[i] - attrs.output_zero_point) * attrs.output_scale;
}

/* ---- factors ---- */

static const char *const roundings[] = { "double", "single", NULL };   /* of qg_requant_rounding */

/* The only element of an input of shape [1]. */
static double single(test_case *c, const char *name, qg_dtype dtype)
{
    const qg_array *a = case_input_of(c, name, dtype);
    if (!case_ready(c)) return 0.0;
    if (a->rank != 1 || a->dims[0] != 1) {
        case_complain(c, "input %s is not of shape [1]", name);
        return 0.0;
    }
    return dtype == QG_I32 ? (double)*(const int32_t *)a->data : *(const double *)a->data;
}

static const size_t one[] = { 1 };

static void quantize_multiplier(test_case *c)
{
    const double  multiplier = single(c, "multiplier", QG_F64);
    qg_array     *fraction   = case_output(c, "quantized_multiplier", QG_I32, 1, one);
    qg_array     *shift      = case_output(c, "shift", QG_I32, 1, one);
    qg_multiplier m          = { 0, 0 };
    if (!case_ready(c)) return;
    case_result(c, qg_quantize_multiplier(multiplier, &m));
    if (!case_ready(c)) return;
    *(int32_t *)fraction->data = m.fraction;
    *(int32_t *)shift->data    = m.shift;
}

static void apply_multiplier(test_case *c, qg_multiplier m, qg_requant_rounding rounding)
{
    const int32_t x = (int32_t)single(c, "x", QG_I32);
    qg_array     *y = case_output(c, "y", QG_I32, 1, one);
    if (!case_ready(c)) return;
    *(int32_t *)y->data = qg_multiply_by_quantized_multiplier(x, m, rounding);
    case_result(c, QG_OK);
}

static void multiply(test_case *c)
{
    const double multiplier = case_double(c, "multiplier");
    const int    rounding   = case_choice(c, "rounding", roundings);
    qg_multiplier m         = { 0, 0 };
    if (!case_ready(c)) return;
    case_result(c, qg_quantize_multiplier(multiplier, &m));
    apply_multiplier(c, m, (qg_requant_rounding)rounding);
}

static void multiply_raw(test_case *c)
{
    const qg_multiplier m        = { .fraction = case_int(c, "quantized_multiplier"),
                                     .shift    = case_int(c, "shift") };
    const int           rounding = case_choice(c, "rounding", roundings);
    apply_multiplier(c, m, (qg_requant_rounding)rounding);
}

static void choose_quantization_params(test_case *c)
{
    static const char *const types[] = { "quint8", NULL };

    case_choice(c, "T", types);
    const int    qmin  = case_bool(c, "narrow_range") ? 1 : 0;
    const double rmin  = single(c, "rmin", QG_F64);
    const double rmax  = single(c, "rmax", QG_F64);
    qg_array    *scale = case_output(c, "scale", QG_F64, 1, one);
    qg_array    *zero  = case_output(c, "zero_point", QG_I32, 1, one);
    if (case_ready(c))
        case_result(c, qg_choose_quantization_params(qmin, UINT8_MAX, rmin, rmax, scale->data,
                                                     zero->data));
}

const case_op integer_cases[] = {
    { "quantized_conv2d", quantized_conv2d },
    { "quantized_conv2d_from_float", quantized_conv2d_from_float },
    { "uniform_quantize", uniform_quantize },
    { "uniform_dequantize", uniform_dequantize },
    { "uniform_requantize", uniform_requantize },
    { "uniform_quantized_convolution", uniform_quantized_convolution },
    { "tflite_quantize_multiplier", quantize_multiplier },
    { "tflite_multiply_by_quantized_multiplier", multiply },
    { "tflite_multiply_by_quantized_multiplier_raw", multiply_raw },
    { "tflite_choose_quantization_params", choose_quantization_params },
    { "tflite_conv2d_per_channel_int8_from_float", conv2d_per_channel_from_float },
    { NULL, NULL },
};
