/* quant/reference/binary.h — two-valued tensors on plain arrays: signs with and without a scale, XNOR-Net.
 *
 * sign is qg_sign_of: +1 at both zeros, -1 for NaN.  Operators take F32 views of any rank unless a rank is given.
 * Outputs must not overlap inputs.  If an operator fails, with QG_EARG or QG_ESHAPE, it has written nothing.  In a
 * gradient, the surrogate s {0} is that of the source.
 */
#ifndef QG_BINARY_H
#define QG_BINARY_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/quant.h"

#include <stdbool.h>
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

/* XNOR-Net: one scale per filter, and the scale map of a binary input.                      [1603.05279]
 *
 * Weights, for each filter of n elements:
 *
 *     alpha = mean|w|,   q(w) = alpha sign(w)
 *
 * and four backward rules, where 1[|w| <= 1] is the slope of the surrogate and may be replaced:
 *
 *     QG_XNOR_EXACT     dw_i = dq_i alpha 1[|w_i| <= 1] + sign(w_i)/n sum_j dq_j sign(w_j)
 *     QG_XNOR_PAPER     dw   = dq (alpha 1[|w| <= 1] + 1/n)              keeps j = i of that sum
 *     QG_XNOR_AUTHORS   dw   = dq (alpha 1[|w| < 1] + 1/n) (1 - 1/c_in) n         as released, SGD
 *     QG_XNOR_AUTHORS_ADAM    the same without the factor n                      as released, Adam
 *     QG_XNOR_IDENTITY  dw   = dq                                                  Blueoil
 *
 * Range    A filter without elements has alpha = 0.  sign is qg_sign_of; NaN makes alpha NaN.
 * Differs  The released code also centres the weights over c_in and clamps them to [-1, 1] before
 *          it binarizes them (qg_xnor_spec.centred), multiplies the whole gradient by 1e9 for Adam, and
 *          omits K; torch.sign gives 0 at 0. */

/* y = q(x); each index of dimension axis is a filter (0 in OIHW and OHWI, 3 in HWIO).  x, y F32 of
 * one shape, rank 1 or more; alpha [dims[axis]] or NULL. */
QG_MUST_CHECK
qg_status qg_xnor_weight_quantizer(const qg_array *x, int axis, qg_array *y,
                                   qg_array *alpha);

typedef struct qg_xnor_attrs {
    int          axis;          /* of the filters */
    int          input_axis;    /* of the input channels, c_in; read by the authors' rules only */
    qg_xnor_rule rule;
    qg_surrogate surrogate;     /* {0}: the indicator of the rule */
} qg_xnor_attrs;

QG_MUST_CHECK
qg_status qg_xnor_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                            qg_xnor_attrs attrs,
                                            qg_array *dx);

/* Activations: sign = sign(x) and the map K that scales the binary convolution,
 *
 *     A = mean over channels of |x|,   K = A (*) box of 1 / (kernel_h kernel_w)
 *
 * so that conv(x, w) is close to conv(sign(x), sign(w)) K alpha.  Padding is 0 in A and in sign(x).
 * same_padding is TensorFlow's SAME: OH = ceil(H / stride), the smaller half at the top.  Without it all windows
 * lie inside the image.  x, sign [N,H,W,C]; K [N,OH,OW,1]. */
typedef struct qg_xnor_window {
    int  kernel_h, kernel_w, stride;        /* each 1 or more */
    bool same_padding;
} qg_xnor_window;

QG_MUST_CHECK
qg_status qg_xnor_activation_quantizer(const qg_array *x, qg_xnor_window window,
                                       qg_array *sign, qg_array *K);

#endif
