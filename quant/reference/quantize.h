/* quant/reference/quantize.h — TensorFlow's conversions between floats and integer codes with a range.
 *
 * Formulas are evaluated in float32 and in the order written, unless stated otherwise.  T is the type of
 * the codes, int8 uint8 int16 uint16 or int32, and comes from the array that holds them; Tmin and Tmax are
 * its limits, B its bits.  Reals are rounded and saturated before they are cast to integers; NaN becomes 0,
 * clamped to the codes.  Finite operands give finite results or an error that names the range, never an
 * infinity.  For training use quant/schemes/fake_quant.h or quantize_and_dequantize below; the other
 * operators have no gradient.
 *
 * Memory   The caller owns the outputs, which must not overlap an input.  Nothing is allocated.
 * Fails    QG_EARG for a wrong dtype and for attributes and ranges as stated at each operator; QG_ESHAPE for
 *          a wrong rank or wrong dims.  No output is written then.
 */
#ifndef QG_QUANTIZE_H
#define QG_QUANTIZE_H

#include "core/io/array.h"
#include "core/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qg_quantize_mode {
    QG_MIN_COMBINED,        /* the range is divided into Tmax - Tmin steps; 0 need not be a code */
    QG_MIN_FIRST,           /* the same, but 0 is close to a code; not per channel */
    QG_SCALED               /* a factor without offset, so 0 is code 0 */
} qg_quantize_mode;

typedef enum qg_round_mode {
    QG_HALF_AWAY_FROM_ZERO,
    QG_HALF_TO_EVEN,
    QG_HALF_UP              /* floor(v + 0.5f) */
} qg_round_mode;

typedef enum qg_scaled_variant {
    QG_SCALED_TF2,          /* the larger side of the range determines the scale; all codes of T */
    QG_SCALED_R14           /* TensorFlow 1.4: symmetric codes, or 0 .. Tmax if unsigned */
} qg_scaled_variant;

typedef struct qg_quantize_v2_attrs {
    qg_quantize_mode  mode;
    qg_round_mode     round_mode;           /* HALF_AWAY; with SCALED also HALF_TO_EVEN */
    bool              narrow_range;         /* SCALED only: leave out Tmin */
    int               axis;                 /* -1: one range; else one per index of this axis */
    float             ensure_minimum_range; /* >= 0; 0: none.  TensorFlow's default is 0.01 */
    qg_scaled_variant scaled_variant;
} qg_quantize_v2_attrs;

/* Codes of input, and the range to dequantize them with, which differs from the range passed.
 *
 *     lo  = min(0, min_range)    eps = max(1, |min_range|, |max_range|) * ensure_minimum_range
 *     hi  = max(0, max_range, lo + eps)
 *
 *     MIN_COMBINED   t = (clamp(x, lo, hi) - lo) * s,  s = (Tmax - Tmin) / (hi - lo) in double, 0 if
 *                    hi = lo;  q = trunc(t + 0.5), or half away (t - 2^(B-1)) if T is signed
 *     MIN_FIRST      q = half away (x * s) - (half away (lo * s) - Tmin), clamped to T and to
 *                    2^31 - 128; s = (2^B - 1) / (hi - lo) in double, 0 if hi = lo
 *     SCALED, TF2    s = min(qlo / lo, qhi / hi) over the sides of positive product, else FLT_MAX;
 *                    qlo = Tmin + narrow_range, qhi = Tmax; (lo, hi) = (qlo / s, qhi / s)
 *                    q = R(clamp(x, lo, hi) * s)
 *     SCALED, R14    m = max(|lo|, |hi|); codes and range +-(2^(B-1) - 1), +-m if T is signed, else
 *                    0 .. Tmax, 0 .. m; s = largest code / m, 0 if m = 0; q as before
 *
 * Shapes   input any; output the same.  min_range, max_range: one element of any rank if axis is
 *          -1, else [dim axis].  output_min, output_max: of rank 0, or [dim axis] if that is not 1.
 * Fails    min_range > max_range, or either not finite; HALF_TO_EVEN with a mode other than SCALED; HALF_UP;
 *          MIN_FIRST with more than one range; axis outside -1 .. rank - 1; lo, hi or (except with SCALED)
 *          hi - lo beyond float32, as with -3e38 .. 3e38; s beyond float32, as with 0 .. 7e-37 in 8 bits and
 *          ensure_minimum_range 0.
 * Differs  From TensorFlow's kernels: int32 codes of 2^31 saturate here and wrap to INT_MIN there; a range
 *          that is too wide fails here and gives equal codes for all values there.
 *          From TensorFlow's documentation, which its kernels do not follow either.  MIN_COMBINED and
 *          MIN_FIRST subtract lo, not min_range, so with min_range > 0 the range begins at 0.  MIN_COMBINED
 *          shifts every signed T by half its codes, not only qint8.  The documentation defines MIN_FIRST as
 *          qg_float_to_quantized_unclamped below.  It promises that SCALED can represent all of
 *          min_range .. max_range, but with an unsigned T the kernel uses max_range only, s = Tmax / hi;
 *          negative values become code 0, and output_min is 0.  The documentation of TensorFlow 1.4 has R14
 *          with s = (max_fixed - min_fixed) / (2 m) for every T; with an unsigned T that is half of Tmax / m,
 *          the value used here. */
QG_MUST_CHECK
qg_status qg_quantize_v2(qg_quantize_v2_attrs attrs, const qg_array *input,
                         const qg_array *min_range, const qg_array *max_range, qg_array *output,
                         qg_array *output_min, qg_array *output_max);

typedef struct qg_dequantize_attrs {
    qg_quantize_mode mode;
    bool             narrow_range;      /* SCALED of a signed T only */
    int              axis;
    bool             drift_free;        /* MIN_FIRST only: see below */
} qg_dequantize_attrs;

/* The floats that codes q stand for; (min, max) is the range that quantize_v2 returned.
 *
 *     MIN_COMBINED   y = (q + half) * ((max - min) / (Tmax - Tmin)) + min,  half = 2^(B-1) or 0
 *     MIN_FIRST      s = (max - min) / (2^B - 1);  m = half away (min / s) * s, min if min = max
 *                    y = (m - Tmin * s) + q * s
 *     SCALED         y = q * s,  s = max / Tmax, or if larger min / (Tmin + narrow_range)
 *
 * MIN_FIRST rounds min / s, while quantize_v2 rounds min * (1/s).  At a tie, as for [-1, 1], the two
 * differ, and each round trip adds one code.  drift_free uses the rounding of quantize_v2 instead:
 * y = (q - Tmin + half away (min * s')) / s',  s' = (2^B - 1) / (max - min).
 *
 * Shapes   input any; output the same, float32.  min_range, max_range: one element of any rank if
 *          axis is -1 or its dimension 1, else [dim axis].
 * Fails    a range that is not finite; MIN_FIRST with more than one range; axis outside
 *          -1 .. rank - 1; a code in input whose y is not finite, because max - min or s is too large or
 *          too small.  min > max is legal: the formulas remain valid.
 * Differs  TensorFlow's documentation omits the rounding of min in MIN_FIRST and, in MIN_COMBINED, the shift
 *          of every signed T except qint8 by half its codes; its kernels have both. */
QG_MUST_CHECK
qg_status qg_dequantize(qg_dequantize_attrs attrs, const qg_array *input,
                        const qg_array *min_range, const qg_array *max_range, qg_array *output);

/* The code of x by the scalar form of MIN_FIRST, in double and not clamped to T:
 *
 *     s = N / ((max - min) * (N / (N - 1))),  N = 2^B
 *     q = half away (x * s) - half away (min * s) + Tmin;  Tmin if min = max
 *
 * max - min is computed in float32, everything else in double.  If max - min exceeds float32, 0.0 has code
 * Tmin.  The result may differ from quantize_v2 by one code.  With min > 0, 0.0 has a code below Tmin. */
int64_t qg_float_to_quantized_unclamped(qg_dtype t, float x, float min, float max);

typedef enum qg_qdq_version {
    QG_QDQ_V2,              /* -1 <= axis < rank */
    QG_QDQ_V3,              /* -rank <= axis < rank; -1 means one range, other negative axes count from
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
    int            axis;            /* -1: one range; else one per index of this dimension */
} qg_quantize_and_dequantize_attrs;

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
 *          lo / qlo or hi / qhi, rounded separately. */
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
