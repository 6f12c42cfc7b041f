/* quant/reference/integer.h — real factors in integer arithmetic, and the conversions built on them.
 *
 * A real value is S * (q - Z) with a float32 scale S, an integer code q and an int32 zero point Z.
 * A factor M converts an accumulator in one scale to a code in another.  M is stored as a 31-bit
 * fraction and a power of two, so the result has the same bits on every machine.
 *
 * Every function of this file is defined for all inputs: results saturate where the arithmetic of the
 * sources overflows or is undefined.  Operators on arrays fail with QG_EARG or QG_ESHAPE as stated,
 * before they write any output.  The caller owns the outputs, which must not overlap an input.
 */
#ifndef QG_INTEGER_H
#define QG_INTEGER_H

#include "core/io/array.h"
#include "core/status.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- factors ---- */

/* M ~ fraction * 2^(shift - 31) with 2^30 <= |fraction| < 2^31.  For M = 0 both fields are 0.  The fraction of a
 * negative M can round to -2^31. */
typedef struct qg_multiplier {
    int32_t fraction;
    int     shift;
} qg_multiplier;

/* The multiplier nearest to m, ties away from zero; 0 if |m| is below 2^-32.
 * Fails    QG_EARG if m is not finite. */
QG_MUST_CHECK
qg_status qg_quantize_multiplier(double m, qg_multiplier *multiplier);

typedef enum qg_requant_rounding {
    QG_DOUBLE_ROUNDING,     /* gemmlowp, TFLite: round the high half, ties toward +inf, then the
                               shift, ties away from zero; error at most 3/4 */
    QG_SINGLE_ROUNDING      /* ruy, TensorFlow's uniform operators: one rounding, ties toward +inf;
                               error at most 1/2 */
} qg_requant_rounding;

/* x * M as an integer, saturated.  -6 * 0.25 is -2 with double rounding and -1 with single. */
int32_t qg_multiply_by_quantized_multiplier(int32_t x, qg_multiplier m,
                                            qg_requant_rounding rounding);

/* Scale and zero point of codes qmin .. qmax for the reals rmin .. rmax, in double:
 *
 *     scale = (rmax - rmin) / (qmax - qmin)
 *     zero_point = qmin - rmin / scale or qmax - rmax / scale, whichever has the smaller
 *                  |code| + |real / scale| (the second at a tie); rounded, ties away from zero, and
 *                  clamped
 *
 * The real 0 therefore has a code.  rmin = rmax = 0 gives scale 0 and zero point 0.
 * Fails    QG_EARG unless rmin <= 0 <= rmax, both finite, and qmin < qmax. */
QG_MUST_CHECK
qg_status qg_choose_quantization_params(int32_t qmin, int32_t qmax, double rmin, double rmax,
                                        double *scale, int32_t *zero_point);

/* ---- uniform operators: with axis QG_NO_AXIS there is one scale and one zero point, of rank 0; otherwise both
 *      have the shape [dim axis].  -1 does not count from the end: the last axis is input->rank - 1.  Scales must
 *      be finite and positive.  Of the attributes TensorFlow has defaults for axes; the codes of the constants
 *      are those of int8. ---- */

typedef struct qg_uniform_quantize_attrs {
    int     quantization_axis;
    int32_t quantization_min_val, quantization_max_val;     /* within the type of the output */
} qg_uniform_quantize_attrs;

extern const qg_uniform_quantize_attrs qg_uniform_quantize_defaults;

/* q = clamp(floor(x * (1/s) + 0.5) + z), all of x * (1/s) + 0.5 in float32; NaN gives z, clamped.
 *
 * Shapes   input any, float32; scales float32, zero_points int32; output like input: int8, uint8,
 *          int16, uint16 or int32.
 * Fails    also if 1/s is not a finite float32 (s below 2.9e-39). */
QG_MUST_CHECK
qg_status qg_uniform_quantize(qg_uniform_quantize_attrs attrs, const qg_array *input,
                              const qg_array *scales, const qg_array *zero_points,
                              qg_array *output);

/* y = (q - z) * s; infinite where that exceeds float32.
 *
 * Shapes   input any, of integers; output like input, float32.
 * Differs  TensorFlow 2.15 rounds int32 codes to float32 before it subtracts z. */
QG_MUST_CHECK
qg_status qg_uniform_dequantize(int quantization_axis, const qg_array *input,
                                const qg_array *scales, const qg_array *zero_points,
                                qg_array *output);

typedef struct qg_uniform_requantize_attrs {
    int     input_quantization_axis;
    int     output_quantization_axis;       /* must equal the input's unless one is QG_NO_AXIS */
    int32_t output_quantization_min_val, output_quantization_max_val;
} qg_uniform_requantize_attrs;

extern const qg_uniform_requantize_attrs qg_uniform_requantize_defaults;

/* q' = clamp(round((q - z) * (s / s')) + z') with s / s' in double and QG_SINGLE_ROUNDING.
 *
 * Shapes   input any, of integers; output like input, of integers. */
QG_MUST_CHECK
qg_status qg_uniform_requantize(qg_uniform_requantize_attrs attrs, const qg_array *input,
                                const qg_array *input_scales, const qg_array *input_zero_points,
                                const qg_array *output_scales, const qg_array *output_zero_points,
                                qg_array *output);

/* ---- TensorFlow's Requantize: int32 codes of one float range to uint8 codes of another ---- */

/* With 16 fractional bits, width = max - min and mid = (min + max) / 2:
 *
 *     scale  = trunc(255 2^16 width_in / width_out)                  in double
 *     offset = trunc(mid_in (255 / width_out) 2^16)                  in float32
 *            - half away (2^16 255 min_out / width_out) + 2^15       in double
 *     q'     = (((q scale) >> 32) + offset) >> 16, clamped to 0 .. 255
 *
 * An empty output range gives code 0.  TensorFlow 2 computes this formula in
 * RequantizeManyInNewRangeUsingEigen<qint32, quint8> (tensorflow/core/kernels/quantization_utils.h) and in the
 * reference loop of that file.  Because of the float32 term a code may differ by one from the nearest.
 *
 * Shapes   input any, int32; the ranges float32 of rank 0; output like input, uint8; output_min and
 *          output_max of rank 0 return the output range.
 * Range    Products and sums behave as unbounded integers.  Where scale or a term of offset does not fit
 *          64 bits, which needs ranges with a ratio of 2^39 or more, that line is evaluated in double.
 * Fails    if a range is not finite, not ordered or wider than float32, or if requested_output_min > 0.
 * Differs  TensorFlow's products wrap at 2^63, and its casts are undefined where a value does not fit.  It
 *          rounds q of 2^24 and more to float32 first.  TensorFlow 1 truncates the term of min_out instead
 *          of rounding it.  Its kernels for ARM (meta::Requantize) and for qint8 compute in float32. */
QG_MUST_CHECK
qg_status qg_requantize(const qg_array *input, const qg_array *input_min,
                        const qg_array *input_max, const qg_array *requested_output_min,
                        const qg_array *requested_output_max, qg_array *output,
                        qg_array *output_min, qg_array *output_max);

#endif
