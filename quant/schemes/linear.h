/* quant/schemes/linear.h — Blueoil's activation quantizer, linear mid tread half.
 *
 *     n    = 2^bit - 1,  M = max_value
 *     q(x) = floor(clip(x, 0, M) / M * n + 0.5) / n * M        float32, in this order
 *     s(x) = clip(x, 0, M), with slope 0 at both ends:  dx = dy 1[0 < x < M]
 *
 * Range    bit 1 .. 32, M finite and above 0; q in { 0, M/n, .., M }.  Ties go up, in training and
 *          when deployed.  NaN stays NaN.  bit = 32 clips without rounding.  With 24 bits n + 0.5 is not a
 *          float32, so the highest level is one ulp above M, infinite for M = FLT_MAX.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 * Source   Blueoil, quantizations/linear.py.
 * Differs  Blueoil's documentation says that 32 bits return x, but its code has no such branch.  Its
 *          compiled runtime breaks ties in three ways, one per instruction set.
 */
#ifndef QG_LINEAR_H
#define QG_LINEAR_H

#include "core/io/array.h"
#include "core/kernels/cpu.h"
#include "core/status.h"
#include "quant/surrogate.h"

/* y = q(x).  x, y F32 of one shape, any rank. */
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
