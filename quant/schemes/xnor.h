/* quant/schemes/xnor.h — XNOR-Net: one scale per filter, and the scale map of a binary input.  [1603.05279]
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
 * Range    A filter without elements has alpha = 0.  sign is qg_sign; NaN makes alpha NaN.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 * Differs  The released code also centres the weights over c_in and clamps them to [-1, 1] before
 *          it binarizes them (qg_xnor_spec.centred), multiplies the whole gradient by 1e9 for Adam, and
 *          omits K; torch.sign gives 0 at 0.
 */
#ifndef QG_XNOR_H
#define QG_XNOR_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/surrogate.h"

#include <stdbool.h>

typedef enum qg_xnor_rule {
    QG_XNOR_DEFAULT,        /* of the scheme: identity; of the operators: exact */
    QG_XNOR_EXACT,          /* the chain rule */
    QG_XNOR_PAPER,
    QG_XNOR_AUTHORS,
    QG_XNOR_AUTHORS_ADAM,
    QG_XNOR_IDENTITY
} qg_xnor_rule;

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

extern const char qg__xnor_explain[];       /* of weights and inputs (internal) */

#endif
