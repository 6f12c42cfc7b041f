/* quant/schemes/ttq.h — trained ternary quantization.                                  [TTQ, 1612.01064]
 *
 *     D    = threshold * max|w|               threshold 0.05 in the paper, over the whole tensor
 *     q(w) = +Wp if w > D (set P),  -Wn if w < -D (set N),  else 0     strict on both sides
 *     dw   = Wp dq on P,  Wn dq on N,  dq elsewhere                                       (eq. 8)
 *     dWp  = sum of dq over P
 *     dWn  = -sum of dq over N                since q = -Wn there
 *
 * Wp and Wn are learned scalars that start at 1; the threshold is a constant.  The operator accepts scales of either
 * sign; the scheme keeps them at 2^-30 or above.
 *
 * Range    threshold finite, 0 or more.  All zeros: D = 0, both sets are empty, q = 0.  A NaN
 *          weight makes D NaN and both sets empty.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 * Differs  Eq. 7 as printed, Blueoil and several ports use dWn = +sum, which moves Wn uphill
 *          (QG_TTQ_AS_PRINTED).  The authors' TensorFlow code has the minus, by automatic
 *          differentiation, but gives sign(w) at |w| = D.
 */
#ifndef QG_TTQ_H
#define QG_TTQ_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/surrogate.h"

/* The sign of dWn. */
typedef enum qg_ttq_rule {
    QG_TTQ_EXACT,           /* -sum: the derivative of q */
    QG_TTQ_AS_PRINTED       /* +sum: eq. 7, Blueoil */
} qg_ttq_rule;

typedef struct qg_ttq_attrs {
    float        threshold;             /* of max|x| */
    float        positive, negative;    /* Wp, Wn */
    qg_ttq_rule  rule;                  /* read by the gradient */
    qg_surrogate surrogate;             /* {0}: eq. 8; else dx = dy s'(x); read by the gradient */
} qg_ttq_attrs;

/* y = q(x).  x, y F32 of one shape, any rank. */
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
