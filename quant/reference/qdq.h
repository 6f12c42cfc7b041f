/* quant/reference/qdq.h — TensorFlow's quantize_and_dequantize on plain arrays: floats that take the values of codes, by a
 * factor without an offset.
 *
 * The scheme `qdq` (qg_qdq in quant/quant.h) computes the same bits on a tape.  Formulas are evaluated in float32 and in the
 * order written.
 *
 * Memory   The caller owns the outputs, which must not overlap an input.  Nothing is allocated.
 * Fails    QG_EARG for a wrong dtype and as stated at each operator; QG_ESHAPE for a wrong rank or wrong dims.  No output is
 *          written then.
 */
#ifndef QG_QDQ_H
#define QG_QDQ_H

#include "core/io/array.h"
#include "core/status.h"

#include <stdbool.h>

typedef enum qg_round_mode {
    QG_HALF_AWAY_FROM_ZERO,
    QG_HALF_TO_EVEN,
    QG_HALF_UP              /* floor(v + 0.5f) */
} qg_round_mode;

typedef enum qg_qdq_version {
    QG_QDQ_V2,              /* QG_NO_AXIS <= axis < rank */
    QG_QDQ_V3,              /* -rank <= axis < rank; QG_NO_AXIS means one range, other negative axes count from
                               the end; always rounds half to even and ignores round_mode */
    QG_QDQ_V4               /* as V2, but its gradient has a mask */
} qg_qdq_version;

typedef struct qg_quantize_and_dequantize_attrs {
    qg_qdq_version version;
    bool           signed_input;
    int            num_bits;        /* 2 .. 61 signed, 1 .. 62 unsigned */
    bool           range_given;     /* false: use the minimum and maximum of the input */
    qg_round_mode  round_mode;      /* HALF_TO_EVEN or HALF_UP */
    bool           narrow_range;    /* signed only: leave out the lowest code */
    int            axis;            /* QG_NO_AXIS: one range; else one per index of this dimension */
} qg_quantize_and_dequantize_attrs;

/* TensorFlow's defaults: V2, signed, 8 bits, the range of the input, half to even, no axis.  The default of V3 is
 * range_given. */
extern const qg_quantize_and_dequantize_attrs qg_quantize_and_dequantize_defaults;

/* Floats limited to the values of b = num_bits bits, which include 0.
 *
 *     qlo   = signed ? -2^(b-1) + narrow_range : 0      qhi = signed ? 2^(b-1) - 1 : 2^b - 1
 *     scale = min(qlo / lo, qhi / hi) over the sides whose product is positive, else FLT_MAX
 *     inv   = lo / qlo or hi / qhi, from the side chosen; the other side becomes inv * its code
 *     y     = R(clamp(x, lo, hi) * scale) * inv         range given: the adjusted lo and hi
 *     y     = R(x * scale) * inv                        otherwise
 *
 * Shapes   input any; output the same.  input_min, input_max: of rank 0, or [dim axis]; ignored if the range is
 *          not given.
 * Range    Values are clamped to the adjusted range: with signed 8 bits, [-10, 5] reaches up to 9.921875.
 *          An adjusted end that is not a finite float32 clips nothing, so an infinity beyond it stays.
 *          Unsigned with hi <= 0 gives zeros.  A measured range clips nothing, so negative x of unsigned
 *          input remain negative multiples of inv.  NaN stays NaN and does not affect a measured range; an
 *          infinity makes its slice NaN, except -inf in unsigned input, which stays.
 * Fails    num_bits or axis out of range; input_min > input_max or not finite; an illegal round mode; a
 *          range, given or measured, that would make some finite x infinite or NaN because scale or inv is
 *          not a finite float32, as with -1e-37 .. 1e-37 in 8 bits.
 * Differs  From TensorFlow's kernels: they divide by zero for signed 1 bit, return huge values for
 *          unsigned input that is all negative, and infinities and NaN for ranges that fail here; there,
 *          the effect of a NaN on a measured range depends on its position.
 *          From TensorFlow's documentation, which divides by scale: the kernel multiplies by inv, that is
 *          lo / qlo or hi / qhi, rounded separately.
 *          From TensorFlow's Python functions: axis is the attribute of the kernels, where -1 is one range.  In
 *          Python, -1 is the last axis, which here is input->rank - 1, and None is QG_NO_AXIS. */
QG_MUST_CHECK
qg_status qg_quantize_and_dequantize(qg_quantize_and_dequantize_attrs attrs, const qg_array *input,
                                     const qg_array *input_min, const qg_array *input_max,
                                     qg_array *output);

/* The gradient of each version; that of V4 is the TensorFlow operator of this name.
 *
 *     V4        dx = g * 1[input_min <= x <= input_max]     the range as passed, not as adjusted
 *               dx = g                                      if the range is not given
 *     V2, V3    dx = g                                      whatever the range
 *
 * The gradient of the range is zero.
 *
 * Shapes   as above; input_min_backprop and input_max_backprop like input_min.
 * Range    NaN in x counts as outside a given range.
 * Differs  TensorFlow compares with input_min and input_max even when the forward pass ignored them; with
 *          the customary zeros nothing would be learned.  Its documentation says 1 within the quantization
 *          range; the kernel uses the range as passed, and the forward pass reaches beyond it. */
QG_MUST_CHECK
qg_status qg_quantize_and_dequantize_v4_gradient(qg_quantize_and_dequantize_attrs attrs,
                                                 const qg_array *gradients, const qg_array *input,
                                                 const qg_array *input_min,
                                                 const qg_array *input_max,
                                                 qg_array *input_backprop,
                                                 qg_array *input_min_backprop,
                                                 qg_array *input_max_backprop);

#endif
