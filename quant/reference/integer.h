/* quant/reference/integer.h — real factors in integer arithmetic, and the conversions built on them.
 *
 * A real value is S * (q - Z): a float32 scale, an integer code, an int32 zero point.  An
 * accumulator in one scale becomes a code in another through a factor M, held as a 31-bit fraction
 * and a power of two, so that the result has the same bits on every machine.
 *
 * Every function of this file is total: results saturate where the arithmetic of the sources
 * overflows or is undefined.  Operators on arrays fail with QG_EARG or QG_ESHAPE as stated, before
 * any output is written; outputs are the caller's and overlap no input.
 */
#ifndef QG_INTEGER_H
#define QG_INTEGER_H

#include "core/io/array.h"
#include "core/status.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- factors ---- */

/* M ~ fraction * 2^(shift - 31), with 2^30 <= |fraction| < 2^31, or 0 and 0; -2^31 for a negative M whose
 * fraction rounds to it. */
typedef struct qg_multiplier {
    int32_t fraction;
    int     shift;
} qg_multiplier;

/* The nearest one, ties away from zero; 0 below 2^-32.
 * Fails    QG_EARG if m is not finite. */
QG_MUST_CHECK
qg_status qg_quantize_multiplier(double m, qg_multiplier *multiplier);

typedef enum qg_requant_rounding {
    QG_DOUBLE_ROUNDING,     /* gemmlowp, TFLite: the high half first, ties toward +inf, then the
                               shift, ties away from zero; within 3/4 of the exact product */
    QG_SINGLE_ROUNDING      /* ruy, TensorFlow's uniform operators: one rounding, ties toward +inf;
                               within 1/2 */
} qg_requant_rounding;

/* x * M as an integer, saturated.  -6 * 0.25 is -2 with double rounding and -1 with single. */
int32_t qg_multiply_by_quantized_multiplier(int32_t x, qg_multiplier m,
                                            qg_requant_rounding rounding);

/* Scale and zero point for codes qmin .. qmax of the reals rmin .. rmax, in double:
 *
 *     scale = (rmax - rmin) / (qmax - qmin)
 *     zero_point = qmin - rmin / scale or qmax - rmax / scale, of the two the one with the smaller
 *                  |code| + |real / scale|, the second at a tie; clamped, ties away from zero
 *
 * so 0 is a code.  rmin = rmax = 0 gives 0 and 0.
 * Fails    QG_EARG unless rmin <= 0 <= rmax, both finite, and qmin < qmax. */
QG_MUST_CHECK
qg_status qg_choose_quantization_params(int32_t qmin, int32_t qmax, double rmin, double rmax,
                                        double *scale, int32_t *zero_point);

/* ---- uniform operators: an axis of -1 means one scale and zero point of rank 0, else they have
 *      the shape [dim axis].  Scales are finite and positive. ---- */

typedef struct qg_uniform_quantize_attrs {
    int     quantization_axis;
    int32_t quantization_min_val, quantization_max_val;     /* within the type of the output */
} qg_uniform_quantize_attrs;

/* q = clamp(floor(x * (1/s) + 0.5) + z), all of x * (1/s) + 0.5 in float32; NaN gives z, clamped.
 *
 * Shapes   input any, float32; scales float32, zero_points int32; output like input: int8, uint8,
 *          int16, uint16 or int32.
 * Fails    also: 1/s is no finite float32 (s below 2.9e-39). */
QG_MUST_CHECK
qg_status qg_uniform_quantize(qg_uniform_quantize_attrs attrs, const qg_array *input,
                              const qg_array *scales, const qg_array *zero_points,
                              qg_array *output);

/* y = (q - z) * s, an infinity where that is beyond float32.
 *
 * Shapes   input any, of integers; output like input, float32.
 * Differs  TensorFlow 2.15 rounds int32 codes to float32 before it subtracts z. */
QG_MUST_CHECK
qg_status qg_uniform_dequantize(int quantization_axis, const qg_array *input,
                                const qg_array *scales, const qg_array *zero_points,
                                qg_array *output);

typedef struct qg_uniform_requantize_attrs {
    int     input_quantization_axis;
    int     output_quantization_axis;       /* equal if neither is -1 */
    int32_t output_quantization_min_val, output_quantization_max_val;
} qg_uniform_requantize_attrs;

/* q' = clamp(round((q - z) * (s / s')) + z'), s / s' divided in double, single rounding.
 *
 * Shapes   input any, of integers; output like input, of integers. */
QG_MUST_CHECK
qg_status qg_uniform_requantize(qg_uniform_requantize_attrs attrs, const qg_array *input,
                                const qg_array *input_scales, const qg_array *input_zero_points,
                                const qg_array *output_scales, const qg_array *output_zero_points,
                                qg_array *output);

/* ---- TensorFlow's Requantize: int32 codes of one float range to uint8 codes of another ---- */

/* With 16 bits of fraction and width = max - min, mid = (min + max) / 2:
 *
 *     scale  = trunc(255 2^16 width_in / width_out)                  in double
 *     offset = trunc(mid_in (255 / width_out) 2^16)                  in float32
 *            - half away (2^16 255 min_out / width_out) + 2^15       in double
 *     q'     = (((q scale) >> 32) + offset) >> 16, clamped to 0 .. 255
 *
 * An empty output range gives code 0.  The formula is that of the kernel which TensorFlow 2 runs,
 * RequantizeManyInNewRangeUsingEigen<qint32, quint8> of tensorflow/core/kernels/quantization_utils.h, and
 * of the loop that is its reference there.  For its float32 term a code may be one off the nearest.
 *
 * Shapes   input any, int32; the ranges float32 of rank 0; output like input, uint8; output_min and
 *          output_max of rank 0 return the output range.
 * Range    Products and sums are those of unbounded integers.  Where scale or a term of offset does not
 *          fit 64 bits, with ranges of a ratio from 2^39 on, the same line is evaluated in double.
 * Fails    a range that is not finite, not ordered or wider than float32; requested_output_min > 0.
 * Differs  TensorFlow's products wrap at 2^63, and casts of what does not fit are undefined; its q are
 *          rounded to float32 first, from 2^24 on.  TensorFlow 1 truncates min_out's term in place of
 *          rounding it.  Its kernels for ARM (meta::Requantize) and for qint8 compute in float32. */
QG_MUST_CHECK
qg_status qg_requantize(const qg_array *input, const qg_array *input_min,
                        const qg_array *input_max, const qg_array *requested_output_min,
                        const qg_array *requested_output_max, qg_array *output,
                        qg_array *output_min, qg_array *output_max);

#endif
