#include "quant/reference/integer_conv.h"

#include "quant/operand.h"
#include "quant/reference/code_array.h"
#include "quant/reference/quantize.h"
#include "quant/round.h"

/* Strides beyond 2^16 are refused, so that sums of positions stay far from overflow. */
enum { MAX_STRIDE = 1 << 16 };

/* ---- the sum that every convolution of codes is, for any layout ---- */

/* The extents of a rank-4 array and the steps between neighbours, in elements. */
typedef struct axes {
    size_t n, h, w, c;                  /* images or output channels, rows, columns, channels */
    size_t step_n, step_h, step_w, step_c;
} axes;

typedef struct conv {
    const qg_array *x, *w;
    axes            x_axes, w_axes, y_axes;
    size_t          stride_h, stride_w;
    size_t          top, left;          /* rows and columns of padding */
    size_t          groups;
    int64_t         x_zero;
} conv;

/* How the sums of one output channel become codes. */
typedef struct channel {
    int64_t             w_zero, bias;
    qg_multiplier       m;
    qg_requant_rounding rounding;
    int64_t             zero, lo, hi;       /* of the output */
} channel;

static axes axes_of(const qg_array *a, int n, int h, int w, int c)
{
    size_t step[4];
    size_t size = 1;
    for (int i = 3; i >= 0; i--) {
        step[i] = size;
        size *= a->dims[i];
    }
    return (axes){ a->dims[n], a->dims[h], a->dims[w], a->dims[c],
                   step[n],    step[h],    step[w],    step[c] };
}

size_t qg_conv_extent(qg_padding padding, size_t in, size_t kernel, size_t stride)
{
    if (stride == 0) return 0;
    if (padding == QG_PADDING_SAME) return in / stride + (in % stride ? 1 : 0);
    return in < kernel ? 0 : (in - kernel) / stride + 1;
}

size_t qg__padding_before(qg_padding padding, size_t in, size_t out, size_t kernel, size_t stride)
{
    if (padding == QG_PADDING_VALID || out == 0) return 0;
    const size_t reach = (out - 1) * stride + kernel;
    return reach > in ? (reach - in) / 2 : 0;
}

/* Checks that the operands agree and fills top and left; all else is set. */
static qg_status fit(const char *op, conv *k, qg_padding padding)
{
    const axes x = k->x_axes;
    const axes w = k->w_axes;
    const axes y = k->y_axes;
    if (w.h == 0 || w.w == 0)
        return qg_fail(QG_ESHAPE, "%s: the filter is %zu x %zu, must not be empty", op, w.h, w.w);
    if (w.c * k->groups != x.c || w.n % k->groups != 0)
        return qg_fail(QG_ESHAPE,
                       "%s: the filter has %zu input and %zu output channels in %zu groups, the "
                       "input has %zu channels", op, w.c, w.n, k->groups, x.c);
    if (padding == QG_PADDING_VALID && (x.h < w.h || x.w < w.w))
        return qg_fail(QG_ESHAPE, "%s: the filter is %zu x %zu, the input only %zu x %zu", op, w.h,
                       w.w, x.h, x.w);
    const size_t oh = qg_conv_extent(padding, x.h, w.h, k->stride_h);
    const size_t ow = qg_conv_extent(padding, x.w, w.w, k->stride_w);
    if (y.n != x.n || y.h != oh || y.w != ow || y.c != w.n)
        return qg_fail(QG_ESHAPE,
                       "%s: output has n,h,w,c = %zu,%zu,%zu,%zu, must be %zu,%zu,%zu,%zu", op, y.n,
                       y.h, y.w, y.c, x.n, oh, ow, w.n);
    k->top  = qg__padding_before(padding, x.h, oh, w.h, k->stride_h);
    k->left = qg__padding_before(padding, x.w, ow, w.w, k->stride_w);
    return QG_OK;
}

static int64_t accumulate(const conv *k, size_t n, size_t oy, size_t ox, size_t o,
                          int64_t w_zero)
{
    const axes   x     = k->x_axes;
    const axes   w     = k->w_axes;
    const size_t first = o / (w.n / k->groups) * w.c;      /* input channel of the group */
    int64_t      sum   = 0;
    for (size_t ky = 0; ky < w.h; ky++) {
        const size_t iy = oy * k->stride_h + ky - k->top;  /* wraps to beyond x.h above the image */
        if (iy >= x.h) continue;
        for (size_t kx = 0; kx < w.w; kx++) {
            const size_t ix = ox * k->stride_w + kx - k->left;
            if (ix >= x.w) continue;
            const size_t at_x = n * x.step_n + iy * x.step_h + ix * x.step_w + first * x.step_c;
            const size_t at_w = o * w.step_n + ky * w.step_h + kx * w.step_w;
            for (size_t c = 0; c < w.c; c++)
                sum += (qg__code(k->x, at_x + c * x.step_c) - k->x_zero) *
                       (qg__code(k->w, at_w + c * w.step_c) - w_zero);
        }
    }
    return sum;
}

/* Refuses zero points with which a sum could leave 64 bits. */
static qg_status check_zero(const char *op, const conv *k, int64_t w_zero)
{
    enum { CODE = 256 };
    const axes   w      = k->w_axes;
    const double   x_far  = fabs((double)k->x_zero) + CODE;
    const double   w_far  = fabs((double)w_zero) + CODE;
    const double   window = (double)w.h * (double)w.w * (double)w.c;
    if (x_far * w_far * window < 0x1p62) return QG_OK;
    return qg_fail(QG_EARG,
                   "%s: zero points of %.0f and %.0f are too far for sums of %.0f products", op,
                   (double)k->x_zero, (double)w_zero, window);
}

/* Output channel o of y. */
static void run(const conv *k, size_t o, const channel *ch, qg_array *y)
{
    const axes a = k->y_axes;
    for (size_t n = 0; n < a.n; n++)
        for (size_t oy = 0; oy < a.h; oy++)
            for (size_t ox = 0; ox < a.w; ox++) {
                const int32_t acc =
                    qg_saturate_i32(accumulate(k, n, oy, ox, o, ch->w_zero) + ch->bias);
                const int64_t q =
                    qg_multiply_by_quantized_multiplier(acc, ch->m, ch->rounding) + ch->zero;
                qg__set_code(y, n * a.step_n + oy * a.step_h + ox * a.step_w + o * a.step_c,
                             qg_clamp_int(q, ch->lo, ch->hi));
            }
}

/* ---- quantized_conv2d ---- */

/* The zero point and level of a range of scalars. */
static qg_status check_range(const char *op, const char *name, const qg_array *min,
                             const qg_array *max, int64_t *zero, float *level)
{
    const float     lo = qg__float_at(min, 0);
    const float     hi = qg__float_at(max, 0);
    const qg_status s  = qg__check_width(op, name, lo, hi);
    if (s) return s;
    *zero  = qg_float_to_quantized_unclamped(QG_U8, 0.0f, lo, hi);
    *level = (hi - lo) / 255.0f;
    return QG_OK;
}

static qg_status check_quantized_conv2d(const char *op, qg_quantized_conv2d_attrs a)
{
    const qg__attribute attrs[] = {
        { "padding", (int)a.padding, QG_PADDING_VALID, QG_PADDING_SAME, "VALID or SAME" },
        { "strides[0]", a.strides[0], 1, 1, "1" },
        { "strides[1]", a.strides[1], 1, MAX_STRIDE, NULL },
        { "strides[2]", a.strides[2], 1, MAX_STRIDE, NULL },
        { "strides[3]", a.strides[3], 1, 1, "1" },
    };
    return QG__CHECK_ATTRIBUTES(op, attrs);
}

qg_status qg_quantized_conv2d(qg_quantized_conv2d_attrs attrs, const qg_array *input,
                              const qg_array *filter, const qg_array *min_input,
                              const qg_array *max_input, const qg_array *min_filter,
                              const qg_array *max_filter, qg_array *output, qg_array *output_min,
                              qg_array *output_max)
{
    const char       *op     = "quantized_conv2d";
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__U8, .rank = 4 },
        { "filter", filter, .dtypes = QG__U8, .rank = 4 },
        { "output", output, .dtypes = QG__I32, .rank = 4 },
        { "min_input", min_input, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "max_input", max_input, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE, .least = "min_input" },
        { "min_filter", min_filter, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "max_filter", max_filter, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE, .least = "min_filter" },
        { "output_min", output_min, .dtypes = QG__F32, .scalar = true },
        { "output_max", output_max, .dtypes = QG__F32, .scalar = true },
    };
    int64_t   x_zero, w_zero;
    float     level_x, level_w;
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_range(op, "min_input .. max_input", min_input, max_input, &x_zero, &level_x);
    if (!s) s = check_range(op, "min_filter .. max_filter", min_filter, max_filter, &w_zero, &level_w);
    if (!s) s = check_quantized_conv2d(op, attrs);
    if (s) return s;
    const float most = level_x * level_w * 2147483648.0f;   /* (float)INT32_MAX */
    if (!isfinite(most))
        return qg_fail(QG_EARG, "%s: levels of %g and %g make an output_max of %g, must be finite", op,
                       (double)level_x, (double)level_w, (double)most);
    conv k = { .x        = input,
               .w        = filter,
               .x_axes   = axes_of(input, 0, 1, 2, 3),
               .w_axes   = axes_of(filter, 3, 0, 1, 2),
               .y_axes   = axes_of(output, 0, 1, 2, 3),
               .stride_h = (size_t)attrs.strides[1],
               .stride_w = (size_t)attrs.strides[2],
               .groups   = 1,
               .x_zero   = x_zero };
    s = fit(op, &k, attrs.padding);
    if (!s) s = check_zero(op, &k, w_zero);
    if (s) return s;
    /* The factor is 1, so that the sum is the code. */
    const channel ch = { .w_zero   = w_zero,
                         .m        = { 1 << 30, 1 },
                         .rounding = QG_SINGLE_ROUNDING,
                         .lo       = INT32_MIN,
                         .hi       = INT32_MAX };
    for (size_t o = 0; o < k.w_axes.n; o++) run(&k, o, &ch, output);
    *(float *)output_min->data = -most;
    *(float *)output_max->data = most;
    return QG_OK;
}

/* ---- convolutions whose sums are requantized ---- */

/* Scales and zero points of the filter and the output, per tensor or per output channel. */
typedef struct requantized {
    float               x_scale;
    const qg_array     *w_scale, *w_zero;       /* w_zero and bias: NULL for zeros */
    const qg_array     *y_scale, *y_zero, *bias;
    qg_requant_rounding rounding;
    int64_t             lo, hi;
} requantized;

static int64_t int_or_zero(const qg_array *a, size_t i)
{
    return a ? qg__int_at(a, i) : 0;
}

static qg_status convolve(const char *op, conv *k, qg_padding padding, const requantized *r, qg_array *y)
{
    qg_status s = fit(op, k, padding);
    for (size_t o = 0; !s && o < k->w_axes.n; o++) s = check_zero(op, k, int_or_zero(r->w_zero, o));
    for (size_t o = 0; !s && o < k->w_axes.n; o++) {
        const double factor = (double)r->x_scale * (double)qg__float_at(r->w_scale, o);
        channel      ch     = { .w_zero   = int_or_zero(r->w_zero, o),
                                .bias     = int_or_zero(r->bias, o),
                                .rounding = r->rounding,
                                .zero     = qg__int_at(r->y_zero, o),
                                .lo       = r->lo,
                                .hi       = r->hi };
        s = qg_quantize_multiplier(factor / (double)qg__float_at(r->y_scale, o), &ch.m);
        if (!s) run(k, o, &ch, y);
    }
    return s;
}

const qg_uniform_convolution_attrs qg_uniform_convolution_defaults = { .layout                      = QG_NCHW_OIHW,
                                                                       .rhs_quantization_axis       = QG_NO_AXIS,
                                                                       .output_quantization_axis    = QG_NO_AXIS,
                                                                       .feature_group_count         = 1,
                                                                       .output_quantization_min_val = INT32_MIN,
                                                                       .output_quantization_max_val = INT32_MAX };

static qg_status check_uniform_attrs(const char *op, qg_uniform_convolution_attrs a)
{
    const bool          nchw     = a.layout == QG_NCHW_OIHW;
    const int           w_axis   = a.rhs_quantization_axis == QG_NO_AXIS ? QG_NO_AXIS : nchw ? 0 : 3;
    const int           y_axis   = a.output_quantization_axis == QG_NO_AXIS ? QG_NO_AXIS : nchw ? 1 : 3;
    const int32_t       lo       = a.output_quantization_min_val;
    const int32_t       hi       = a.output_quantization_max_val;
    const qg__attribute attrs[]  = {
        { "layout", (int)a.layout, QG_NCHW_OIHW, QG_NHWC_HWIO, "NCHW_OIHW or NHWC_HWIO" },
        { "padding", (int)a.padding, QG_PADDING_VALID, QG_PADDING_SAME, "VALID or SAME" },
        { "rhs_quantization_axis", a.rhs_quantization_axis, w_axis, w_axis, nchw ? "-1 or 0" : "-1 or 3" },
        { "output_quantization_axis", a.output_quantization_axis, y_axis, y_axis, nchw ? "-1 or 1" : "-1 or 3" },
        { "feature_group_count", a.feature_group_count, 1, INT32_MAX, "1 or more" },
        { "output_quantization_min_val", lo, INT32_MIN, hi, NULL },
    };
    return QG__CHECK_ATTRIBUTES(op, attrs);
}

qg_status qg_uniform_quantized_convolution(qg_uniform_convolution_attrs attrs, const qg_array *lhs,
                                           const qg_array *rhs, const qg_array *lhs_scale,
                                           const qg_array *lhs_zp, const qg_array *rhs_scale,
                                           const qg_array *rhs_zp, const qg_array *output_scale,
                                           const qg_array *output_zp, qg_array *output)
{
    const char       *op     = "uniform_quantized_convolution";
    const int         w_axis = attrs.rhs_quantization_axis;
    const int         y_axis = attrs.output_quantization_axis;
    const qg__operand rows[] = {
        { "lhs", lhs, .dtypes = QG__I8, .rank = 4 },
        { "rhs", rhs, .dtypes = QG__I8, .rank = 4 },
        { "output", output, .dtypes = QG__I32, .rank = 4 },
        { "lhs_scale", lhs_scale, .dtypes = QG__F32, .scalar = true, .values = QG__POSITIVE },
        { "lhs_zp", lhs_zp, .dtypes = QG__I32, .scalar = true },
        { "rhs_scale", rhs_scale, .dtypes = QG__F32, .along = "rhs", .axis = w_axis, .values = QG__POSITIVE },
        { "rhs_zp", rhs_zp, .dtypes = QG__I32, .along = "rhs", .axis = w_axis },
        { "output_scale", output_scale, .dtypes = QG__F32, .along = "output", .axis = y_axis, .values = QG__POSITIVE },
        { "output_zp", output_zp, .dtypes = QG__I32, .along = "output", .axis = y_axis },
    };
    qg_status s = check_uniform_attrs(op, attrs);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    const bool nchw = attrs.layout == QG_NCHW_OIHW;
    const int  h    = nchw ? 2 : 1;         /* of lhs and output; the columns follow */
    const int  c    = nchw ? 1 : 3;
    conv       k    = { .x        = lhs,
                        .w        = rhs,
                        .x_axes   = axes_of(lhs, 0, h, h + 1, c),
                        .w_axes   = nchw ? axes_of(rhs, 0, 2, 3, 1) : axes_of(rhs, 3, 0, 1, 2),
                        .y_axes   = axes_of(output, 0, h, h + 1, c),
                        .stride_h = 1,
                        .stride_w = 1,
                        .groups   = (size_t)attrs.feature_group_count,
                        .x_zero   = qg__int_at(lhs_zp, 0) };
    const requantized r = { .x_scale  = qg__float_at(lhs_scale, 0),
                            .w_scale  = rhs_scale,
                            .w_zero   = rhs_zp,
                            .y_scale  = output_scale,
                            .y_zero   = output_zp,
                            .rounding = QG_SINGLE_ROUNDING,
                            .lo       = attrs.output_quantization_min_val,
                            .hi       = attrs.output_quantization_max_val };
    return convolve(op, &k, attrs.padding, &r, output);
}

static qg_status check_per_channel(const char *op, qg_conv2d_per_channel_attrs a, qg_dtype output)
{
    const qg__code_type t       = qg__code_type_of(output);
    const qg__attribute attrs[] = {
        { "padding", (int)a.padding, QG_PADDING_VALID, QG_PADDING_SAME, "VALID or SAME" },
        { "strides[0]", a.strides[0], 1, MAX_STRIDE, NULL },
        { "strides[1]", a.strides[1], 1, MAX_STRIDE, NULL },
        { "output_min", a.output_min, t.lo, a.output_max, NULL },
        { "output_max", a.output_max, a.output_min, t.hi, NULL },
        { "rounding", (int)a.rounding, QG_DOUBLE_ROUNDING, QG_SINGLE_ROUNDING, "DOUBLE_ROUNDING or SINGLE_ROUNDING" },
    };
    qg_status s = QG__CHECK_ATTRIBUTES(op, attrs);
    if (!s) s = qg__check_above_zero(op, "input_scale", a.input_scale);
    return s ? s : qg__check_above_zero(op, "output_scale", a.output_scale);
}

qg_status qg_conv2d_per_channel(qg_conv2d_per_channel_attrs attrs, const qg_array *input,
                                const qg_array *filter, const qg_array *filter_scales,
                                const qg_array *filter_zero_points, const qg_array *bias,
                                qg_array *output)
{
    const char       *op     = "conv2d_per_channel";
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__BYTES, .rank = 4 },
        { "filter", filter, .dtypes = QG__BYTES, .rank = 4 },
        { "output", output, .dtypes = QG__BYTES, .rank = 4 },
        { "bias", bias, .dtypes = QG__I32, .along = "filter", .axis = 0, .optional = true },
        { "filter_zero_points", filter_zero_points, .dtypes = QG__I32, .along = "filter", .axis = 0, .optional = true },
        { "filter_scales", filter_scales, .dtypes = QG__F32, .along = "filter", .axis = 0, .values = QG__POSITIVE },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = check_per_channel(op, attrs, output->dtype);
    if (s) return s;
    conv k = { .x        = input,
               .w        = filter,
               .x_axes   = axes_of(input, 0, 1, 2, 3),
               .w_axes   = axes_of(filter, 0, 1, 2, 3),
               .y_axes   = axes_of(output, 0, 1, 2, 3),
               .stride_h = (size_t)attrs.strides[0],
               .stride_w = (size_t)attrs.strides[1],
               .groups   = 1,
               .x_zero   = attrs.input_zero_point };
    const qg_array    y_scale = { .dtype = QG_F32, .data = &attrs.output_scale };
    const qg_array    y_zero  = { .dtype = QG_I32, .data = &attrs.output_zero_point };
    const requantized r       = { .x_scale  = attrs.input_scale,
                                  .w_scale  = filter_scales,
                                  .w_zero   = filter_zero_points,
                                  .y_scale  = &y_scale,
                                  .y_zero   = &y_zero,
                                  .bias     = bias,
                                  .rounding = attrs.rounding,
                                  .lo       = attrs.output_min,
                                  .hi       = attrs.output_max };
    return convolve(op, &k, attrs.padding, &r, output);
}
