/* quant/reference/quantize.h — TensorFlow's conversions between floats and integer codes with a range.
 *
 * Formulas are evaluated in float32 and in the order written, unless stated otherwise.  T is the type of
 * the codes, int8 uint8 int16 uint16 or int32, and comes from the array that holds them; Tmin and Tmax are
 * its limits, B its bits.  Reals are rounded and saturated before they are cast to integers; NaN becomes 0,
 * clamped to the codes.  Finite operands give finite results or an error that names the range, never an
 * infinity.  These operators have no gradient; for training use quant/reference/fake_quant.h or
 * quant/reference/qdq.h, which also has the roundings.
 *
 * Memory   The caller owns the outputs, which must not overlap an input.  Nothing is allocated.
 * Fails    QG_EARG for a wrong dtype and for attributes and ranges as stated at each operator; QG_ESHAPE for
 *          a wrong rank or wrong dims.  No output is written then.
 */
#ifndef QG_QUANTIZE_H
#define QG_QUANTIZE_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/reference/qdq.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qg_quantize_mode {
    QG_MIN_COMBINED,        /* the range is divided into Tmax - Tmin steps; 0 need not be a code */
    QG_MIN_FIRST,           /* the same, but 0 is close to a code; not per channel */
    QG_SCALED               /* a factor without offset, so 0 is code 0 */
} qg_quantize_mode;

typedef enum qg_scaled_variant {
    QG_SCALED_TF2,          /* the larger side of the range determines the scale; all codes of T */
    QG_SCALED_R14           /* TensorFlow 1.4: symmetric codes, or 0 .. Tmax if unsigned */
} qg_scaled_variant;

typedef struct qg_quantize_v2_attrs {
    qg_quantize_mode  mode;
    qg_round_mode     round_mode;           /* HALF_AWAY; with SCALED also HALF_TO_EVEN */
    bool              narrow_range;         /* SCALED only: leave out Tmin */
    int               axis;                 /* QG_NO_AXIS: one range; else one per index of this axis */
    float             ensure_minimum_range; /* >= 0; 0: none */
    qg_scaled_variant scaled_variant;
} qg_quantize_v2_attrs;

/* TensorFlow's defaults: MIN_COMBINED, half away, no axis, 0.01. */
extern const qg_quantize_v2_attrs qg_quantize_v2_defaults;

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
 *          QG_NO_AXIS, else [dim axis].  output_min, output_max: of rank 0, or [dim axis] if that is not 1.
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
 *          the value used here.
 *          From TensorFlow's Python function: axis is the attribute of the kernel, where -1 is one range.  In Python,
 *          -1 is the last axis, which here is input->rank - 1, and None is QG_NO_AXIS. */
QG_MUST_CHECK
qg_status qg_quantize_v2(qg_quantize_v2_attrs attrs, const qg_array *input,
                         const qg_array *min_range, const qg_array *max_range, qg_array *output,
                         qg_array *output_min, qg_array *output_max);

typedef struct qg_dequantize_attrs {
    qg_quantize_mode mode;
    bool             narrow_range;      /* SCALED of a signed T only */
    int              axis;              /* QG_NO_AXIS: one range; else one per index of this axis */
    bool             drift_free;        /* MIN_FIRST only: see below */
} qg_dequantize_attrs;

/* TensorFlow's defaults: MIN_COMBINED, no axis. */
extern const qg_dequantize_attrs qg_dequantize_defaults;

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
 *          axis is QG_NO_AXIS or its dimension 1, else [dim axis].
 * Fails    a range that is not finite; MIN_FIRST with more than one range; axis outside
 *          -1 .. rank - 1; a code in input whose y is not finite, because max - min or s is too large or
 *          too small.  min > max is legal: the formulas remain valid.
 * Differs  TensorFlow's documentation omits the rounding of min in MIN_FIRST and, in MIN_COMBINED, the shift
 *          of every signed T except qint8 by half its codes; its kernels have both.
 *          axis as in quantize_v2: Python's -1, the last axis, is input->rank - 1 here. */
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

#endif
