/* quant/reference/integer_conv.h — convolutions of codes, as TensorFlow and TFLite define them.
 *
 * Reference implementations on plain arrays, exact in integers and written for clarity, not speed.  The kernel is
 * not flipped.  Padding SAME gives ceil(in / stride) outputs and adds max((out - 1) * stride + k - in, 0) rows,
 * the smaller half first.  The padding is the real 0, whose code is the zero point, so it adds nothing.  The
 * accumulator, with zero points Zx and Zw,
 *
 *     acc[n,y,x,o] = sum (x - Zx) * (w - Zw[o])
 *
 * is a 64-bit sum that saturates to int32, where the sources would wrap.
 *
 * Memory   The caller owns the outputs, which must not overlap an input.  Nothing is allocated.
 * Fails    QG_EARG for illegal attributes, scales or dtypes; QG_ESHAPE for a wrong rank or wrong dims, and
 *          for a filter that is empty or, with VALID, larger than the input.  No output is written then.
 */
#ifndef QG_INTEGER_CONV_H
#define QG_INTEGER_CONV_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/reference/integer.h"

#include <stddef.h>
#include <stdint.h>

typedef enum qg_padding { QG_PADDING_VALID, QG_PADDING_SAME } qg_padding;

/* Outputs along one dimension; 0 if the kernel does not fit.  stride >= 1. */
size_t qg_conv_extent(qg_padding padding, size_t in, size_t kernel, size_t stride);

typedef struct qg_quantized_conv2d_attrs {
    int        strides[4];      /* 1, down, right, 1 */
    qg_padding padding;
} qg_quantized_conv2d_attrs;

/* TensorFlow's quantized_conv2d: one float range per operand.  Its zero point is the code of 0.0 by
 * qg_float_to_quantized_unclamped, so a range above 0 has a negative zero point.
 *
 *     output = acc              level = (max - min) / 255
 *     output_min = level_a * level_b * -2^31,  output_max = level_a * level_b * (2^31 - 1)
 *
 * Shapes   input uint8 [n,h,w,c], filter uint8 [kh,kw,c,o], ranges float32 of rank 0;
 *          output int32 [n,oh,ow,o], output_min and output_max of rank 0.
 * Fails    also for illegal strides, a range that is not finite or has min > max, and max - min or output_max
 *          beyond float32.
 * Differs  An input range below 0 has a zero point above 255; TensorFlow drops its high bits when it pads. */
QG_MUST_CHECK
qg_status qg_quantized_conv2d(qg_quantized_conv2d_attrs attrs, const qg_array *input,
                              const qg_array *filter, const qg_array *min_input,
                              const qg_array *max_input, const qg_array *min_filter,
                              const qg_array *max_filter, qg_array *output, qg_array *output_min,
                              qg_array *output_max);

typedef enum qg_uniform_layout { QG_NCHW_OIHW, QG_NHWC_HWIO } qg_uniform_layout;

typedef struct qg_uniform_convolution_attrs {
    qg_uniform_layout layout;               /* of lhs and output, and of rhs */
    qg_padding        padding;              /* strides are 1 */
    int               rhs_quantization_axis;        /* QG_NO_AXIS or the O axis: 0 in OIHW, 3 in HWIO */
    int               output_quantization_axis;     /* QG_NO_AXIS or the C axis: 1 in NCHW, 3 in NHWC */
    int               feature_group_count;  /* g >= 1 divides C and O */
    int32_t           output_quantization_min_val, output_quantization_max_val;
} qg_uniform_convolution_attrs;

/* TensorFlow's defaults: NCHW, no axes, one group.  It has none for the padding and the codes of the output, which
 * here are VALID and those of int32. */
extern const qg_uniform_convolution_attrs qg_uniform_convolution_defaults;

/* TensorFlow's uniform_quantized_convolution: per tensor or per output channel,
 *
 *     output = clamp(round(acc * (s_lhs * s_rhs[o] / s_out[o])) + z_out[o])
 *
 * with the factor in double and QG_SINGLE_ROUNDING.  Output channels form g consecutive groups; each group
 * reads its own C/g input channels.
 *
 * Shapes   lhs int8 [n,c,h,w] or [n,h,w,c]; rhs int8 [o,c/g,kh,kw] or [kh,kw,c/g,o]; output int32
 *          in the layout of lhs.  lhs_scale, lhs_zp of rank 0; the others of rank 0 or [o]. */
QG_MUST_CHECK
qg_status qg_uniform_quantized_convolution(qg_uniform_convolution_attrs attrs, const qg_array *lhs,
                                           const qg_array *rhs, const qg_array *lhs_scale,
                                           const qg_array *lhs_zp, const qg_array *rhs_scale,
                                           const qg_array *rhs_zp, const qg_array *output_scale,
                                           const qg_array *output_zp, qg_array *output);

typedef struct qg_conv2d_per_channel_attrs {
    int                 strides[2];     /* down, right */
    qg_padding          padding;
    float               input_scale, output_scale;
    int32_t             input_zero_point, output_zero_point;
    int32_t             output_min, output_max;     /* codes; a fused relu raises the lower one */
    qg_requant_rounding rounding;       /* TFLite: double */
} qg_conv2d_per_channel_attrs;

/* TFLite's per-channel convolution: the filter has one scale per output channel, the activations have
 * one scale:
 *
 *     output = clamp(round((acc + bias[o]) * (s_in * s[o] / s_out)) + z_out)
 *
 * with the factor in double.  bias has the scale s_in * s[o] and zero point 0.
 *
 * Shapes   input int8 or uint8 [n,h,w,c]; filter int8 or uint8 [o,kh,kw,c]; filter_scales float32
 *          [o]; filter_zero_points int32 [o], or NULL for zeros; bias int32 [o], or NULL for none;
 *          output int8 or uint8 [n,oh,ow,o]. */
QG_MUST_CHECK
qg_status qg_conv2d_per_channel(qg_conv2d_per_channel_attrs attrs, const qg_array *input,
                                const qg_array *filter, const qg_array *filter_scales,
                                const qg_array *filter_zero_points, const qg_array *bias,
                                qg_array *output);

#endif
