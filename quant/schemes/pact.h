/* quant/schemes/pact.h — activations with a learned clip.                              [PACT, 1805.06085]
 *
 *     n    = 2^k - 1,  a = alpha
 *     q(x) = round(clip(x, 0, a) * n / a) * a / n                       ties to even, in this order
 *     dx   = dq 1[0 <= x < a]
 *     da   = sum of dq over x >= a
 *
 * The paper's L2 penalty on alpha is left to the optimizer.
 *
 * Range    k 1 .. 32, alpha above 0, a n finite, or a if k = 32; q in { 0, a/n, .., a }.  NaN stays NaN.  k = 32
 *          clips without rounding.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 */
#ifndef QG_PACT_H
#define QG_PACT_H

#include "core/io/array.h"
#include "core/kernels/cpu.h"
#include "core/status.h"
#include "quant/surrogate.h"

/* y = q(x).  x, y F32 of one shape, any rank. */
QG_MUST_CHECK
qg_status qg_pact_quantizer(const qg_array *x, int k, float alpha, qg_array *y);

/* dx, with s {0}: the mask above; and *grad_alpha = da unless NULL. */
QG_MUST_CHECK
qg_status qg_pact_quantizer_gradient(const qg_array *x, const qg_array *dy, int k,
                                     float alpha, qg_surrogate s, qg_array *dx,
                                     float *grad_alpha);

#endif
