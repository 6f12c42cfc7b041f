#include "quant/integer_conv.h"

#include "quant/check.h"
#include "quant/code_array.h"
#include "quant/quantize.h"
#include "quant/round.h"
#include "quant/scales.h"

/* ---- geometry: any layout is a list of extents and strides ---- */

typedef struct axes {
    size_t n, h, w, c;                  /* images or output channels, rows, columns, channels */
    size_t step_n, step_h, step_w, step_c;
} axes;

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
    if (padding == QG_PADDING_SAME) return in / stride + (in % stride ? 1 : 0);
    return in < kernel ? 0 : (in - kernel) / stride + 1;
}

/* Rows of padding before the first. */
static size_t before(qg_padding padding, size_t in, size_t out, size_t kernel, size_t stride)
{
    if (padding == QG_PADDING_VALID || out == 0) return 0;
    const size_t reach = (out - 1) * stride + kernel;
    return reach > in ? (reach - in) / 2 : 0;
}

typedef struct conv {
    const qg_array *x, *w;
    axes            x_axes, w_axes, y_axes;
    size_t          stride_h, stride_w, top, left, groups;
    int64_t         x_zero;
} conv;

/* Fills the geometry of k, whose axes and strides are set, and checks that the operands agree. */
static qg_status fit(const char *op, conv *k, qg_padding padding)
{
    const axes x = k->x_axes;
    const axes w = k->w_axes;
    const axes y = k->y_axes;
    if ((unsigned)padding > QG_PADDING_SAME)
        return qg_fail(QG_EARG, "%s: padding is %d, must be VALID or SAME", op, (int)padding);
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
    k->top  = before(padding, x.h, oh, w.h, k->stride_h);
    k->left = before(padding, x.w, ow, w.w, k->stride_w);
    return QG_OK;
}

/* ---- the sum, and what becomes of it ---- */

static int64_t accumulate(const conv *k, size_t n, size_t oy, size_t ox, size_t o, int64_t w_zero)
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

/* How the sums of one output channel become codes. */
typedef struct channel {
    int64_t             w_zero, bias;
    qg_multiplier       m;
    qg_requant_rounding rounding;
    int64_t             zero, lo, hi;       /* of the output */
} channel;

static void run_channel(const conv *k, size_t o, channel ch, qg_array *out)
{
    const axes y = k->y_axes;
    for (size_t n = 0; n < y.n; n++)
        for (size_t oy = 0; oy < y.h; oy++)
            for (size_t ox = 0; ox < y.w; ox++) {
                const int32_t acc =
                    qg_saturate_i32(accumulate(k, n, oy, ox, o, ch.w_zero) + ch.bias);
                const int64_t q =
                    qg_multiply_by_quantized_multiplier(acc, ch.m, ch.rounding) + ch.zero;
                qg__set_code(out, n * y.step_n + oy * y.step_h + ox * y.step_w + o * y.step_c,
                             qg_clamp_int(q, ch.lo, ch.hi));
            }
}

static qg_status check_rank4(const char *op, const char *name, const qg_array *a, qg_dtype dtype)
{
    const qg_status s = qg__check_array(op, name, a, dtype);
    return s ? s : qg__check_rank(op, name, a, 4);
}

/* Strides beyond 2^16 are nobody's; the bound keeps sums of positions far from overflow. */
static qg_status check_strides(const char *op, int down, int right)
{
    enum { MOST = 1 << 16 };
    if (down >= 1 && right >= 1 && down <= MOST && right <= MOST) return QG_OK;
    return qg_fail(QG_EARG, "%s: strides are %d and %d, must be 1 .. %d", op, down, right,
                   (int)MOST);
}

/* ---- quantized_conv2d ---- */

/* A range of rank 0, its zero point and level. */
static qg_status check_range(const char *op, const char *name, const qg_array *min,
                             const qg_array *max, int64_t *zero, float *level)
{
    qg_status s = qg__check_array(op, name, min, QG_F32);
    if (!s) s = qg__check_rank(op, name, min, 0);
    if (!s) s = qg__check_array(op, name, max, QG_F32);
    if (!s) s = qg__check_rank(op, name, max, 0);
    if (s) return s;
    const float lo = *(const float *)min->data;
    const float hi = *(const float *)max->data;
    if (!isfinite(lo) || !isfinite(hi) || lo > hi)
        return qg_fail(QG_EARG, "%s: %s are %.9g and %.9g, must be finite and ordered", op, name,
                       (double)lo, (double)hi);
    *zero  = qg_float_to_quantized_unclamped(QG_U8, 0.0f, lo, hi);
    *level = (hi - lo) / 255.0f;
    /* Further away the products of 64 bits could overflow; no range of real data comes near. */
    if (*zero > INT32_MAX || *zero < INT32_MIN)
        return qg_fail(QG_EARG, "%s: %s are %.9g and %.9g, too close for their distance from 0", op,
                       name, (double)lo, (double)hi);
    return QG_OK;
}

qg_status qg_quantized_conv2d(qg_quantized_conv2d_attrs attrs, const qg_array *input,
                              const qg_array *filter, const qg_array *min_input,
                              const qg_array *max_input, const qg_array *min_filter,
                              const qg_array *max_filter, qg_array *output, qg_array *output_min,
                              qg_array *output_max)
{
    const char *op = "quantized_conv2d";
    int64_t     x_zero;
    int64_t     w_zero;
    float       level_x;
    float       level_w;
    qg_status   s = check_rank4(op, "input", input, QG_U8);
    if (!s) s = check_rank4(op, "filter", filter, QG_U8);
    if (!s) s = check_rank4(op, "output", output, QG_I32);
    if (!s) s = check_range(op, "min_input and max_input", min_input, max_input, &x_zero, &level_x);
    if (!s)
        s = check_range(op, "min_filter and max_filter", min_filter, max_filter, &w_zero, &level_w);
    if (!s) s = qg__check_pair(op, "output_min", output_min, "min_input", min_input);
    if (!s) s = qg__check_pair(op, "output_max", output_max, "max_input", max_input);
    if (!s) s = check_strides(op, attrs.strides[1], attrs.strides[2]);
    if (s) return s;
    if (attrs.strides[0] != 1 || attrs.strides[3] != 1)
        return qg_fail(QG_EARG, "%s: strides of batch and channel are %d and %d, must be 1", op,
                       attrs.strides[0], attrs.strides[3]);
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
    if (s) return s;
    /* One, so that the sum is the code. */
    const channel ch = { .w_zero   = w_zero,
                         .m        = { 1 << 30, 1 },
                         .rounding = QG_SINGLE_ROUNDING,
                         .lo       = INT32_MIN,
                         .hi       = INT32_MAX };
    for (size_t o = 0; o < k.w_axes.n; o++) run_channel(&k, o, ch, output);
    *(float *)output_min->data = level_x * level_w * (float)INT32_MIN;
    *(float *)output_max->data = level_x * level_w * 2147483648.0f;    /* (float)INT32_MAX */
    return QG_OK;
}

/* ---- uniform_quantized_convolution ---- */

static qg_status check_uniform_axes(const char *op, qg_uniform_convolution_attrs a, int rhs_axis,
                                    int output_axis)
{
    if (a.rhs_quantization_axis != -1 && a.rhs_quantization_axis != rhs_axis)
        return qg_fail(QG_EARG, "%s: rhs_quantization_axis is %d, must be -1 or %d", op,
                       a.rhs_quantization_axis, rhs_axis);
    if (a.output_quantization_axis != -1 && a.output_quantization_axis != output_axis)
        return qg_fail(QG_EARG, "%s: output_quantization_axis is %d, must be -1 or %d", op,
                       a.output_quantization_axis, output_axis);
    if (a.feature_group_count < 1)
        return qg_fail(QG_EARG, "%s: feature_group_count is %d, must be >= 1", op,
                       a.feature_group_count);
    return QG_OK;
}

qg_status qg_uniform_quantized_convolution(qg_uniform_convolution_attrs attrs, const qg_array *lhs,
                                           const qg_array *rhs, const qg_array *lhs_scale,
                                           const qg_array *lhs_zp, const qg_array *rhs_scale,
                                           const qg_array *rhs_zp, const qg_array *output_scale,
                                           const qg_array *output_zp, qg_array *output)
{
    const char *op = "uniform_quantized_convolution";
    if ((unsigned)attrs.layout > QG_NHWC_HWIO)
        return qg_fail(QG_EARG, "%s: layout is %d, must be NCHW_OIHW or NHWC_HWIO", op,
                       (int)attrs.layout);
    const bool nchw = attrs.layout == QG_NCHW_OIHW;
    qg_status  s    = check_rank4(op, "lhs", lhs, QG_I8);
    if (!s) s = check_rank4(op, "rhs", rhs, QG_I8);
    if (!s) s = check_rank4(op, "output", output, QG_I32);
    if (!s) s = check_uniform_axes(op, attrs, nchw ? 0 : 3, nchw ? 1 : 3);
    if (!s) s = qg__check_scales(op, "lhs_scale", lhs_scale, "lhs_zp", lhs_zp, -1, lhs);
    if (!s)
        s = qg__check_scales(op, "rhs_scale", rhs_scale, "rhs_zp", rhs_zp,
                             attrs.rhs_quantization_axis, rhs);
    if (!s)
        s = qg__check_scales(op, "output_scale", output_scale, "output_zp", output_zp,
                             attrs.output_quantization_axis, output);
    if (!s)
        s = qg__check_limits(op, "output_quantization", attrs.output_quantization_min_val,
                             attrs.output_quantization_max_val, QG_I32);
    if (s) return s;
    const qg__scale x = qg__scale_at(lhs_scale, lhs_zp, 0);
    conv            k = { .x        = lhs,
                          .w        = rhs,
                          .x_axes   = nchw ? axes_of(lhs, 0, 2, 3, 1) : axes_of(lhs, 0, 1, 2, 3),
                          .w_axes   = nchw ? axes_of(rhs, 0, 2, 3, 1) : axes_of(rhs, 3, 0, 1, 2),
                          .y_axes = nchw ? axes_of(output, 0, 2, 3, 1) : axes_of(output, 0, 1, 2, 3),
                          .stride_h = 1,
                          .stride_w = 1,
                          .groups   = (size_t)attrs.feature_group_count,
                          .x_zero   = x.zero_point };
    s = fit(op, &k, attrs.padding);
    for (size_t o = 0; !s && o < k.w_axes.n; o++) {
        const qg__scale w  = qg__scale_at(rhs_scale, rhs_zp, o);
        const qg__scale y  = qg__scale_at(output_scale, output_zp, o);
        channel         ch = { .w_zero   = w.zero_point,
                               .rounding = QG_SINGLE_ROUNDING,
                               .zero     = y.zero_point,
                               .lo       = attrs.output_quantization_min_val,
                               .hi       = attrs.output_quantization_max_val };
        s = qg_quantize_multiplier((double)x.scale * (double)w.scale / (double)y.scale, &ch.m);
        if (!s) run_channel(&k, o, ch, output);
    }
    return s;
}

/* ---- conv2d_per_channel ---- */

static qg_status check_byte_codes(const char *op, const char *name, const qg_array *a)
{
    qg_status s = qg__check_codes(op, name, a);
    if (!s) s = qg__check_rank(op, name, a, 4);
    if (!s && qg__code_type_of(a->dtype).bits != 8)
        s = qg_fail(QG_EARG, "%s: dtype of %s is %s, must be I8 or U8", op, name,
                    qg_dtype_name(a->dtype));
    return s;
}

static qg_status check_per_channel(const char *op, qg_conv2d_per_channel_attrs a,
                                   const qg_array *input, const qg_array *filter,
                                   const qg_array *scales, const qg_array *zeros,
                                   const qg_array *bias, const qg_array *output)
{
    qg_status s = check_byte_codes(op, "input", input);
    if (!s) s = check_byte_codes(op, "filter", filter);
    if (!s) s = check_byte_codes(op, "output", output);
    if (!s) s = check_strides(op, a.strides[0], a.strides[1]);
    if (!s) s = qg__check_limits(op, "output", a.output_min, a.output_max, output->dtype);
    if (!s && bias) s = qg__check_array(op, "bias", bias, QG_I32);
    if (!s && bias) s = qg__check_vector(op, "bias", bias, filter->dims[0]);
    if (!s && zeros) s = qg__check_array(op, "filter_zero_points", zeros, QG_I32);
    if (!s && zeros) s = qg__check_vector(op, "filter_zero_points", zeros, filter->dims[0]);
    if (!s) s = qg__check_positive(op, "filter_scales", scales);
    if (!s) s = qg__check_vector(op, "filter_scales", scales, filter->dims[0]);
    if (s) return s;
    if (!isfinite(a.input_scale) || a.input_scale <= 0.0f || !isfinite(a.output_scale) ||
        a.output_scale <= 0.0f)
        return qg_fail(QG_EARG, "%s: input_scale is %g and output_scale %g, must be > 0 and finite",
                       op, (double)a.input_scale, (double)a.output_scale);
    return QG_OK;
}

qg_status qg_conv2d_per_channel(qg_conv2d_per_channel_attrs attrs, const qg_array *input,
                                const qg_array *filter, const qg_array *filter_scales,
                                const qg_array *filter_zero_points, const qg_array *bias,
                                qg_array *output)
{
    const char *op = "conv2d_per_channel";
    qg_status   s  = check_per_channel(op, attrs, input, filter, filter_scales, filter_zero_points,
                                       bias, output);
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
    s = fit(op, &k, attrs.padding);
    for (size_t o = 0; !s && o < k.w_axes.n; o++) {
        const float scale = ((const float *)filter_scales->data)[o];
        channel     ch    = { .w_zero = filter_zero_points
                                            ? ((const int32_t *)filter_zero_points->data)[o]
                                            : 0,
                              .bias     = bias ? ((const int32_t *)bias->data)[o] : 0,
                              .rounding = attrs.rounding,
                              .zero     = attrs.output_zero_point,
                              .lo       = attrs.output_min,
                              .hi       = attrs.output_max };
        s = qg_quantize_multiplier(
            (double)attrs.input_scale * (double)scale / (double)attrs.output_scale, &ch.m);
        if (!s) run_channel(&k, o, ch, output);
    }
    return s;
}
