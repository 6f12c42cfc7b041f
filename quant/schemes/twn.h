/* quant/schemes/twn.h — ternary weights with one scale.                                [TWN, 1605.04711]
 *
 *     D    = threshold * mean|w|              threshold 0.7 in the paper, over the whole tensor
 *     a    = mean{ |w_i| : |w_i| > D }        the least-squares scale for that threshold
 *     q(w) = +a if w > D,  -a if w < -D,  else 0                       strict on both sides
 *     s(w) = w                                dw = dq everywhere, unclipped; D and a are constants
 *
 * Range    threshold finite, 0 or more.  If nothing exceeds D (all zeros, or a large threshold),
 *          or w is empty, a = 0 and q = 0.  A NaN or infinite weight makes D NaN or infinite; then
 *          nothing exceeds it.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 * Differs  The authors' Caffe fork adds 1e-6 to the denominator of a, on the GPU path only, and
 *          clips D to [-100, 100].  TensorFlow versions return NaN for a tensor of zeros.
 */
#ifndef QG_TWN_H
#define QG_TWN_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/form.h"
#include "quant/surrogate.h"

#include <stdbool.h>

/* y = q(x).  x, y F32 of one shape, any rank; *delta = D and *alpha = a unless NULL. */
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

/* threshold mean|w| (internal). */
float qg__twn_delta(qg_span w, float threshold);

#endif
