/* quant/reference/ternary.h — ternary weights on plain arrays: TWN, Larq's SteTern, TTQ.
 *
 * x, y, dy and dx are F32 of one shape and any rank.  Outputs must not overlap inputs.  Nothing is allocated.
 *
 * Range    A threshold is finite and 0 or more.  A NaN weight makes D NaN, and nothing exceeds that.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 */
#ifndef QG_TERNARY_H
#define QG_TERNARY_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/quant.h"

#include <stdbool.h>

/* One scale.                                                                          [TWN, 1605.04711]
 *
 *     D    = threshold * mean|w|              threshold 0.7 in the paper, over the whole tensor
 *     a    = mean{ |w_i| : |w_i| > D }        the least-squares scale for that threshold
 *     q(w) = +a if w > D,  -a if w < -D,  else 0                       strict on both sides
 *     s(w) = w                                dw = dq everywhere, unclipped; D and a are constants
 *
 * Range    If nothing exceeds D (all zeros, or a large threshold), or w is empty, a = 0 and q = 0.
 * Differs  The authors' Caffe fork adds 1e-6 to the denominator of a, on the GPU path only, and
 *          clips D to [-100, 100].  TensorFlow versions return NaN for a tensor of zeros. */

/* y = q(x); *delta = D and *alpha = a unless NULL. */
QG_MUST_CHECK
qg_status qg_twn_weight_quantizer(const qg_array *x, float threshold, qg_array *y,
                                  float *delta, float *alpha);

/* dx = dy s'(x); s {0}: the identity.  For both granularities. */
QG_MUST_CHECK
qg_status qg_twn_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                           qg_surrogate s, qg_array *dx);

/* The same formulas, applied separately to each index of dimension axis; alpha [dims[axis]] or NULL. */
QG_MUST_CHECK
qg_status qg_twn_per_channel_weight_quantizer(const qg_array *x, int axis,
                                              float threshold, qg_array *y,
                                              qg_array *alpha);

/* Larq's SteTern: q in {-1, 0, +1}, without a.  Threshold as given, or 0.7 mean|x| of the tensor.
 * Own surrogate: clip at 1. */
typedef struct qg_ste_tern_attrs {
    float threshold_value;          /* finite, 0 or more; Larq's default is 0.05 */
    bool  ternary_weight_networks;  /* 0.7 mean|x| instead of threshold_value */
} qg_ste_tern_attrs;

QG_MUST_CHECK
qg_status qg_ste_tern_quantizer(const qg_array *x, qg_ste_tern_attrs attrs,
                                qg_array *y);
QG_MUST_CHECK
qg_status qg_ste_tern_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                         qg_surrogate s, qg_array *dx);

/* Trained scales.                                                                     [TTQ, 1612.01064]
 *
 *     D    = threshold * max|w|               threshold 0.05 in the paper, over the whole tensor
 *     q(w) = +Wp if w > D (set P),  -Wn if w < -D (set N),  else 0     strict on both sides
 *     dw   = Wp dq on P,  Wn dq on N,  dq elsewhere                                       (eq. 8)
 *     dWp  = sum of dq over P
 *     dWn  = -sum of dq over N                since q = -Wn there
 *
 * Range    Wp and Wn of either sign; the scheme ttq keeps them at 2^-30 or above.  All zeros: D = 0, both sets are
 *          empty, q = 0.
 * Differs  Eq. 7 as printed, Blueoil and several ports use dWn = +sum, which moves Wn uphill
 *          (QG_TTQ_AS_PRINTED).  The authors' TensorFlow code has the minus, by automatic
 *          differentiation, but gives sign(w) at |w| = D. */
typedef struct qg_ttq_attrs {
    float        threshold;             /* of max|x| */
    float        positive, negative;    /* Wp, Wn */
    qg_ttq_rule  rule;                  /* read by the gradient */
    qg_surrogate surrogate;             /* {0}: eq. 8; else dx = dy s'(x); read by the gradient */
} qg_ttq_attrs;

/* y = q(x). */
QG_MUST_CHECK
qg_status qg_ttq_weight_quantizer(const qg_array *x, qg_ttq_attrs attrs,
                                  qg_array *y);

/* dx, *grad_positive = dWp, *grad_negative = dWn; either pointer may be NULL. */
QG_MUST_CHECK
qg_status qg_ttq_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                           qg_ttq_attrs attrs,
                                           qg_array *dx, float *grad_positive,
                                           float *grad_negative);

#endif
