/* quant/reference/fake_quant.h — TensorFlow's fake quantization: floats that take 2^b values, and the
 * gradients that train the range.
 *
 * The three operators of tf.quantization.fake_quant_with_min_max_{args,vars,vars_per_channel} in
 * the form of TensorFlow 2, evaluated in float32 in the written order.  b is num_bits, 2 .. 16;
 * codes run from qmin = narrow_range ? 1 : 0 to qmax = 2^b - 1.  First the range is shifted so that
 * the real 0 has a code:
 *
 *     scale = (max - min) / (qmax - qmin)          inv = (qmax - qmin) / (max - min)
 *     z     = qmin - min / scale                   zp  = z clamped to qmin .. qmax, ties away
 *     nmin  = (qmin - zp) * scale                  nmax = (qmax - zp) * scale
 *
 * Then, with q0 = floor(-nmin * inv + 0.5), c = clamp(x, nmin, nmax) and t = c - nmin,
 *
 *     y     = floor((t / scale - q0) + 0.5) * scale       vars
 *     y     = floor((t * inv   - q0) + 0.5) * scale       args, per channel
 *     dx    = g * 1[nmin <= x <= nmax]
 *     dmin  = sum g * 1[x < nmin]                  dmax = sum g * 1[x > nmax]
 *
 * Range    y(0) = 0 and y(y(x)) = y(x) exactly.  NaN stays NaN and has gradient zero everywhere;
 *          +-inf become nmax and nmin.  A gradient outside the range is dropped, not multiplied by 0,
 *          so an infinite gradient does not become NaN.  Sums are computed in double and rounded once.
 *          min = max = 0: y = 0, dx = g, dmin = dmax = 0 (an error for args, as in TensorFlow).
 * Memory   The caller owns the outputs, which must not overlap an input.  Nothing is allocated.
 * Fails    QG_EARG   num_bits outside 2 .. 16; min or max not finite; min > max; min = max but not
 *                    0; a range that exceeds float32, before or after the shift, or whose step has
 *                    no float32 inverse; wrong dtype.
 *          QG_ESHAPE wrong rank or dims.  No output is written then.
 * Differs  From TensorFlow's kernels: they do not check the range of vars and per_channel and then
 *          return NaN or a constant; and those for CPUs multiply the gradient by the mask.
 *          From TensorFlow's documentation, which its kernels do not follow either: its masks use min
 *          and max as passed, while here and in the kernels they use nmin and nmax; and its scale with
 *          narrow_range is still (max - min) / (2^b - 1), although qmax - qmin is 2^b - 2.
 */
#ifndef QG_FAKE_QUANT_H
#define QG_FAKE_QUANT_H

#include "core/io/array.h"
#include "core/status.h"
#include "core/tape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* num_bits 0 is an error.  TensorFlow's defaults are constants: 8 bits, no narrow range, and -6 .. 6. */
typedef struct qg_fake_quant_attrs {
    int  num_bits;          /* 2 .. 16 */
    bool narrow_range;      /* omit the lowest code, so that symmetric ranges have a centre */
} qg_fake_quant_attrs;

typedef struct qg_fake_quant_args {
    float min, max;         /* min < max */
    int   num_bits;         /* 2 .. 16 */
    bool  narrow_range;
} qg_fake_quant_args;

extern const qg_fake_quant_attrs qg_fake_quant_defaults;
extern const qg_fake_quant_args  qg_fake_quant_args_defaults;

/* ---- on arrays: inputs of any rank, float32 ---- */

QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_args(qg_fake_quant_args attrs, const qg_array *inputs,
                                          qg_array *outputs);
QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_args_gradient(qg_fake_quant_args attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, qg_array *backprops);

/* min, max and their gradients of rank 0. */
QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_vars(qg_fake_quant_attrs attrs, const qg_array *inputs,
                                          const qg_array *min, const qg_array *max,
                                          qg_array *outputs);
QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_vars_gradient(qg_fake_quant_attrs attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, const qg_array *min,
                                                   const qg_array *max,
                                                   qg_array *backprops_wrt_input,
                                                   qg_array *backprop_wrt_min,
                                                   qg_array *backprop_wrt_max);

/* inputs [.., d] of rank 1 or more; min, max and their gradients [d].  Always the last axis, which
 * is the output channel of an HWIO kernel and of no other layout. */
QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_vars_per_channel(qg_fake_quant_attrs attrs,
                                                      const qg_array *inputs, const qg_array *min,
                                                      const qg_array *max, qg_array *outputs);
QG_MUST_CHECK
qg_status qg_fake_quant_with_min_max_vars_per_channel_gradient(
    qg_fake_quant_attrs attrs, const qg_array *gradients, const qg_array *inputs,
    const qg_array *min, const qg_array *max, qg_array *backprops_wrt_input,
    qg_array *backprop_wrt_min, qg_array *backprop_wrt_max);

/* ---- on n floats, by all threads: the forward parts of the operators above ---- */

/* A nudged range. */
typedef struct qg_fake_quant_range {
    float   scale, inv;     /* width of a step, steps per unit; both 0 if min = max = 0 */
    float   nmin, nmax;     /* the range with 0 on a code */
    float   q0;             /* steps between nmin and 0 */
    int32_t zero_point;     /* the code of 0, qmin .. qmax; qmin if min = max = 0 */
} qg_fake_quant_range;

QG_MUST_CHECK
qg_status qg_fake_quant_nudge(qg_fake_quant_attrs attrs, float min, float max,
                              qg_fake_quant_range *range);

/* The two forward rules above; they differ at ties.  y may be x. */
void qg_fake_quant_divide(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
void qg_fake_quant_multiply(const qg_fake_quant_range *r, size_t n, const float *x, float *y);

/* The codes of the results of these two functions, for 8 bits or fewer:
 *     code = round(y / scale) + zero_point;  the zero point for NaN */
void qg_fake_quant_codes(const qg_fake_quant_range *r, size_t n, const float *y, uint8_t *code);

#endif
