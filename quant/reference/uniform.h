/* quant/reference/uniform.h — uniform quantizers of activations on plain arrays: LSQ, PACT, Blueoil's.
 *
 * x, y, dy and dx are F32 of one shape and any rank.  Outputs must not overlap inputs.  Nothing is allocated.  NaN stays NaN.
 *
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 */
#ifndef QG_UNIFORM_H
#define QG_UNIFORM_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/surrogate.h"

/* Learned step size.                                                                  [LSQ, 1902.08153]
 *
 *     v    = x / s,   q(x) = s round(clip(v, -qn, qp))                   ties to even
 *     dx   = dq 1[-qn < v < qp]                                          open on both sides
 *     ds   = grad_scale * sum dq d,   d = -qn      if v <= -qn
 *                                         qp       if v >= qp
 *                                         round(v) - v  between
 *
 * Signed b bits: qn = 2^(b-1), qp = 2^(b-1) - 1; unsigned: qn = 0, qp = 2^b - 1.
 *
 * Range    s above 0 (the optimizer must keep it there), s qn and s qp finite; qn, qp 0 or more.
 * Differs  PyTorch's learnable fake quantization also passes dx at the clamp values. */

typedef struct qg_lsq_attrs {
    float        step;          /* s */
    int          qn, qp;        /* codes are -qn .. qp; each 0 .. 2^24, as far as float counts */
    double       grad_scale;    /* factor of ds; 1 / sqrt(n qp) in the paper; 0 is not replaced by it */
    qg_surrogate surrogate;     /* of dx, {0}: the open mask; read by the gradient */
} qg_lsq_attrs;

/* y = q(x). */
QG_MUST_CHECK
qg_status qg_lsq_quantizer(const qg_array *x, qg_lsq_attrs attrs,
                           qg_array *y);

/* dx, and *grad_step = ds unless NULL. */
QG_MUST_CHECK
qg_status qg_lsq_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                    qg_lsq_attrs attrs, qg_array *dx,
                                    float *grad_step);

/* Activations with a learned clip.                                                    [PACT, 1805.06085]
 *
 *     n    = 2^k - 1,  a = alpha
 *     q(x) = round(clip(x, 0, a) * n / a) * a / n                       ties to even, in this order
 *     dx   = dq 1[0 <= x < a]
 *     da   = sum of dq over x >= a
 *
 * The paper's L2 penalty on alpha is left to the optimizer.
 *
 * Range    k 1 .. 32, alpha above 0, a n finite, or a if k = 32; q in { 0, a/n, .., a }.  k = 32
 *          clips without rounding. */

/* y = q(x). */
QG_MUST_CHECK
qg_status qg_pact_quantizer(const qg_array *x, int k, float alpha, qg_array *y);

/* dx, with s {0}: the mask above; and *grad_alpha = da unless NULL. */
QG_MUST_CHECK
qg_status qg_pact_quantizer_gradient(const qg_array *x, const qg_array *dy, int k,
                                     float alpha, qg_surrogate s, qg_array *dx,
                                     float *grad_alpha);

/* Blueoil's activation quantizer, linear mid tread half.
 *
 *     n    = 2^bit - 1,  M = max_value
 *     q(x) = floor(clip(x, 0, M) / M * n + 0.5) / n * M        float32, in this order
 *     s(x) = clip(x, 0, M), with slope 0 at both ends:  dx = dy 1[0 < x < M]
 *
 * Range    bit 1 .. 32, M finite and above 0; q in { 0, M/n, .., M }.  Ties go up, in training and
 *          when deployed.  bit = 32 clips without rounding.  With 24 bits n + 0.5 is not a
 *          float32, so the highest level is one ulp above M, infinite for M = FLT_MAX.
 * Source   Blueoil, quantizations/linear.py.
 * Differs  Blueoil's documentation says that 32 bits return x, but its code has no such branch.  Its
 *          compiled runtime breaks ties in three ways, one per instruction set. */

/* y = q(x). */
QG_MUST_CHECK
qg_status qg_linear_mid_tread_half_quantizer(const qg_array *x, int bit, float max_value,
                                             qg_array *y);

/* dx = dy s'(x); s {0}: the open mask above. */
QG_MUST_CHECK
qg_status qg_linear_mid_tread_half_quantizer_gradient(const qg_array *x,
                                                      const qg_array *dy, int bit,
                                                      float max_value, qg_surrogate s,
                                                      qg_array *dx);

#endif
