#include "quant/reference/integer_conv.h"

#include "quant/check.h"
#include "quant/reference/code_conv.h"
#include "quant/code_array.h"
#include "quant/operand.h"
#include "quant/reference/quantize.h"
#include "quant/round.h"
#include "quant/reference/scales.h"

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
    s = qg__check_width(op, name, lo, hi);
    if (s) return s;
    *zero  = qg_float_to_quantized_unclamped(QG_U8, 0.0f, lo, hi);
    *level = (hi - lo) / 255.0f;
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
    const float most = level_x * level_w * 2147483648.0f;   /* (float)INT32_MAX */
    if (!isfinite(most))
        return qg_fail(QG_EARG, "%s: levels of %g and %g make an output_max of %g, must be finite", op,
                       (double)level_x, (double)level_w, (double)most);
    if (attrs.strides[0] != 1 || attrs.strides[3] != 1)
        return qg_fail(QG_EARG, "%s: strides of batch and channel are %d and %d, must be 1", op,
                       attrs.strides[0], attrs.strides[3]);
    qg__code_conv k = { .x        = input,
                        .w        = filter,
                        .x_axes   = qg__axes_of(input, 0, 1, 2, 3),
                        .w_axes   = qg__axes_of(filter, 3, 0, 1, 2),
                        .y_axes   = qg__axes_of(output, 0, 1, 2, 3),
                        .stride_h = (size_t)attrs.strides[1],
                        .stride_w = (size_t)attrs.strides[2],
                        .groups   = 1,
                        .x_zero   = x_zero };
    s = qg__code_conv_fit(op, &k, attrs.padding);
    if (!s) s = qg__code_conv_check_zero(op, &k, w_zero);
    if (s) return s;
    /* One, so that the sum is the code. */
    const qg__code_conv_channel ch = { .w_zero   = w_zero,
                                       .m        = { 1 << 30, 1 },
                                       .rounding = QG_SINGLE_ROUNDING,
                                       .lo       = INT32_MIN,
                                       .hi       = INT32_MAX };
    for (size_t o = 0; o < k.w_axes.n; o++) qg__code_conv_run(&k, o, &ch, output);
    *(float *)output_min->data = -most;
    *(float *)output_max->data = most;
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

/* The operands but for their agreement, which qg__code_conv_fit checks. */
static qg_status check_uniform(const char *op, qg_uniform_convolution_attrs a, const qg_array *lhs,
                               const qg_array *rhs, const qg_array *output)
{
    if ((unsigned)a.layout > QG_NHWC_HWIO)
        return qg_fail(QG_EARG, "%s: layout is %d, must be NCHW_OIHW or NHWC_HWIO", op, (int)a.layout);
    const bool nchw = a.layout == QG_NCHW_OIHW;
    qg_status  s    = check_rank4(op, "lhs", lhs, QG_I8);
    if (!s) s = check_rank4(op, "rhs", rhs, QG_I8);
    if (!s) s = check_rank4(op, "output", output, QG_I32);
    return s ? s : check_uniform_axes(op, a, nchw ? 0 : 3, nchw ? 1 : 3);
}

static qg__code_conv uniform_conv(qg_uniform_convolution_attrs a, const qg_array *lhs, const qg_array *rhs,
                                  const qg_array *output, int64_t lhs_zero)
{
    const bool nchw = a.layout == QG_NCHW_OIHW;
    const int  h    = nchw ? 2 : 1;         /* of lhs and output; the columns follow */
    const int  c    = nchw ? 1 : 3;
    return (qg__code_conv){ .x        = lhs,
                            .w        = rhs,
                            .x_axes   = qg__axes_of(lhs, 0, h, h + 1, c),
                            .w_axes   = nchw ? qg__axes_of(rhs, 0, 2, 3, 1) : qg__axes_of(rhs, 3, 0, 1, 2),
                            .y_axes   = qg__axes_of(output, 0, h, h + 1, c),
                            .stride_h = 1,
                            .stride_w = 1,
                            .groups   = (size_t)a.feature_group_count,
                            .x_zero   = lhs_zero };
}

qg_status qg_uniform_quantized_convolution(qg_uniform_convolution_attrs attrs, const qg_array *lhs,
                                           const qg_array *rhs, const qg_array *lhs_scale,
                                           const qg_array *lhs_zp, const qg_array *rhs_scale,
                                           const qg_array *rhs_zp, const qg_array *output_scale,
                                           const qg_array *output_zp, qg_array *output)
{
    const char *op = "uniform_quantized_convolution";
    qg_status   s  = check_uniform(op, attrs, lhs, rhs, output);
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
    qg__code_conv   k = uniform_conv(attrs, lhs, rhs, output, x.zero_point);
    s                 = qg__code_conv_fit(op, &k, attrs.padding);
    for (size_t o = 0; !s && o < k.w_axes.n; o++)
        s = qg__code_conv_check_zero(op, &k, qg__scale_at(rhs_scale, rhs_zp, o).zero_point);
    for (size_t o = 0; !s && o < k.w_axes.n; o++) {
        const qg__scale       w  = qg__scale_at(rhs_scale, rhs_zp, o);
        const qg__scale       y  = qg__scale_at(output_scale, output_zp, o);
        qg__code_conv_channel ch = { .w_zero   = w.zero_point,
                                     .rounding = QG_SINGLE_ROUNDING,
                                     .zero     = y.zero_point,
                                     .lo       = attrs.output_quantization_min_val,
                                     .hi       = attrs.output_quantization_max_val };
        s = qg_quantize_multiplier((double)x.scale * (double)w.scale / (double)y.scale, &ch.m);
        if (!s) qg__code_conv_run(&k, o, &ch, output);
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
    if (!s) s = qg__check_all_positive(op, "filter_scales", scales);
    if (!s) s = qg__check_vector(op, "filter_scales", scales, filter->dims[0]);
    if (s) return s;
    if (!isfinite(a.input_scale) || a.input_scale <= 0.0f || !isfinite(a.output_scale) ||
        a.output_scale <= 0.0f)
        return qg_fail(QG_EARG, "%s: input_scale is %g and output_scale %g, must be > 0 and finite",
                       op, (double)a.input_scale, (double)a.output_scale);
    return qg__check_int(op, "rounding", (int)a.rounding, QG_DOUBLE_ROUNDING, QG_SINGLE_ROUNDING);
}

/* Of an int32 vector that may be absent. */
static int32_t element(const qg_array *a, size_t i)
{
    return a ? ((const int32_t *)a->data)[i] : 0;
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
    qg__code_conv k = { .x        = input,
                        .w        = filter,
                        .x_axes   = qg__axes_of(input, 0, 1, 2, 3),
                        .w_axes   = qg__axes_of(filter, 0, 1, 2, 3),
                        .y_axes   = qg__axes_of(output, 0, 1, 2, 3),
                        .stride_h = (size_t)attrs.strides[0],
                        .stride_w = (size_t)attrs.strides[1],
                        .groups   = 1,
                        .x_zero   = attrs.input_zero_point };
    s = qg__code_conv_fit(op, &k, attrs.padding);
    for (size_t o = 0; !s && o < k.w_axes.n; o++)
        s = qg__code_conv_check_zero(op, &k, element(filter_zero_points, o));
    for (size_t o = 0; !s && o < k.w_axes.n; o++) {
        const double          scale = (double)((const float *)filter_scales->data)[o];
        qg__code_conv_channel ch    = { .w_zero   = element(filter_zero_points, o),
                                        .bias     = element(bias, o),
                                        .rounding = attrs.rounding,
                                        .zero     = attrs.output_zero_point,
                                        .lo       = attrs.output_min,
                                        .hi       = attrs.output_max };
        s = qg_quantize_multiplier(
            (double)attrs.input_scale * scale / (double)attrs.output_scale, &ch.m);
        if (!s) qg__code_conv_run(&k, o, &ch, output);
    }
    return s;
}
