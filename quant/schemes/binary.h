/* quant/schemes/binary.h — two-valued tensors: sign activations, binary weights with and without a scale.
 *
 * sign is qg_sign: +1 at both zeros, -1 for NaN.  Operators take F32 views of any rank unless a rank is given.
 * Outputs must not overlap inputs.  If an operator fails, with QG_EARG or QG_ESHAPE, it has written nothing.  In a
 * gradient, the surrogate s {0} is that of the source.
 */
#ifndef QG_BINARY_H
#define QG_BINARY_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/surrogate.h"

#include <stdint.h>

/* y = sign(x).  Own surrogate: clip at 1, dx = dy 1[|x| <= 1].                   [BNN, 1602.02830]
 * With the surrogate of that name this is Larq's SteSign, ApproxSign or SwishSign; with
 * qg_surrogate_identity it gives the deterministic weights of BinaryConnect. */
QG_MUST_CHECK
qg_status qg_sign_quantizer(const qg_array *x, qg_array *y);
QG_MUST_CHECK
qg_status qg_sign_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_surrogate s,
                                     qg_array *dx);

/* y = +1 with probability clip((x + 1) / 2, 0, 1), else -1.            [BinaryConnect, 1511.00363]
 * Element i uses qg_uniform(key, i), so draws do not depend on threads; a new key in each step gives
 * new weights.  NaN gives -1.  Own surrogate: the identity; the optimizer keeps w in [-1, 1].  The
 * released code evaluates nets trained this way with the latent weights, not with 1-bit weights. */
QG_MUST_CHECK
qg_status qg_stochastic_sign_quantizer(const qg_array *x, uint64_t key, qg_array *y);
QG_MUST_CHECK
qg_status qg_stochastic_sign_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                                qg_surrogate s, qg_array *dx);

/* y = sign(x) E, E = mean|x| over the whole tensor, 0 if it is empty; *scale = E unless NULL.
 * Own surrogate: the identity; E is a constant of the backward pass.                  [Blueoil] */
QG_MUST_CHECK
qg_status qg_binary_mean_scaling_quantizer(const qg_array *x, qg_array *y,
                                           float *scale);
QG_MUST_CHECK
qg_status qg_binary_mean_scaling_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                                    qg_surrogate s, qg_array *dx);

/* The same with one E per output channel: x [kh,kw,in,out], scale [out] or NULL.      [Blueoil] */
QG_MUST_CHECK
qg_status qg_binary_channel_wise_mean_scaling_quantizer(const qg_array *x,
                                                        qg_array *y,
                                                        qg_array *scale);
QG_MUST_CHECK
qg_status qg_binary_channel_wise_mean_scaling_quantizer_gradient(const qg_array *x,
                                                                 const qg_array *dy,
                                                                 qg_surrogate s,
                                                                 qg_array *dx);

/* y = sign(x) m, m = mean|x| per index of the last axis; dx = dy s'(x) m, m a constant.  Rank 1 or
 * more; scale [last] or NULL.  Own surrogate: clip at 1.        [Bi-Real Net, 1808.00278; Larq] */
QG_MUST_CHECK
qg_status qg_magnitude_aware_sign_quantizer(const qg_array *x, qg_array *y,
                                            qg_array *scale);
QG_MUST_CHECK
qg_status qg_magnitude_aware_sign_quantizer_gradient(const qg_array *x,
                                                     const qg_array *dy, qg_surrogate s,
                                                     qg_array *dx);

/* y = sign(x) mean|x| per index of an axis (internal); name is the axis in messages. */
QG_MUST_CHECK
qg_status qg__scaled_sign_axis(const char *op, const char *name, const qg_array *x, int axis, qg_array *y,
                               const char *scale_name, qg_array *scale);

#endif
