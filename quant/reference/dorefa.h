/* quant/reference/dorefa.h — DoReFa-Net on plain arrays: k-bit weights, activations and gradients.  [1606.06160]
 *
 *     quantize_k(r) = round((2^k - 1) r) / (2^k - 1),  r in [0, 1], ties to even; slope 1
 *
 * k is 1 .. 32; 32 does not quantize.  Operators take F32 views.  An operator that fails, with QG_EARG or QG_ESHAPE,
 * writes nothing.  Outputs must not overlap inputs.
 */
#ifndef QG_DOREFA_H
#define QG_DOREFA_H

#include "core/io/array.h"
#include "core/status.h"
#include "quant/surrogate.h"

#include <stdbool.h>
#include <stdint.h>

/* Weights, one scale for the tensor.
 *
 *     k = 1    q(w) = sign(w) mean|w|                               dw = dq, the mean is a constant
 *     k > 1    t = tanh(w), m = max|t|,  q(w) = 2 quantize_k(t / (2 m) + 1/2) - 1
 *              dw = dq (1 - t^2) / m                                m a constant            (Larq)
 *              dw_j -= (1 - t_j^2) sign(t_j) / |S| sum_i dq_i t_i / m^2   on S = { j : |t_j| = m }
 *                                               with through_max    (the paper's graph, tensorpack)
 *     k = 32   q(w) = w
 *
 * Range    k > 1: q is an odd multiple of 1 / (2^k - 1) and never 0; w = 0 is a tie and gives
 *          +1 / (2^k - 1).  Above 23 bits these are closer than floats, and q may be 0.  If all
 *          weights are 0, dw = 0.  NaN in w makes q NaN.
 * Differs  One widely used port multiplies q by m again. */
typedef struct qg_dorefa_weight_attrs {
    int          k;
    bool         through_max;   /* differentiate m as well; read by the gradient, for 1 < k < 32 */
    qg_surrogate surrogate;     /* {0}: the above; else dx = dy s'(x); read by the gradient */
} qg_dorefa_weight_attrs;

QG_MUST_CHECK
qg_status qg_dorefa_weight_quantizer(const qg_array *x, int k, qg_array *y);
QG_MUST_CHECK
qg_status qg_dorefa_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                              qg_dorefa_weight_attrs attrs,
                                              qg_array *dx);

typedef enum qg_dorefa_ties {
    QG_TIES_EVEN,           /* the paper's code and Larq */
    QG_TIES_UP              /* floor(v + 0.5) */
} qg_dorefa_ties;

/* Activations: y = quantize_k(clip(x, 0, 1)), dx = dy 1[0 <= x <= 1], which includes both ends; ties as given.
 * NaN stays NaN.  k = 32 clips without rounding.  With 24 bits 2^k - 1/2 is not a float32, so with ties up
 * the highest level is one ulp above 1.  s {0}: that closed mask. */
QG_MUST_CHECK
qg_status qg_dorefa_activation_quantizer(const qg_array *x, int k, qg_dorefa_ties ties,
                                         qg_array *y);
QG_MUST_CHECK
qg_status qg_dorefa_activation_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                                  int k, qg_surrogate s,
                                                  qg_array *dx);

/* Gradients: the identity forward; backward, with m = max|dr| of each sample (index of axis 0),
 *
 *     y = 2 m (quantize_k(clip(dr / (2 m) + 1/2 + noise, 0, 1)) - 1/2)
 *
 * dr, noise, y [n, ..], rank 1 or more; noise NULL: none.  A sample of zeros gives zeros.  The clip
 * is in the authors' code, not in the equation: without it, m plus noise exceeds the codes. */
QG_MUST_CHECK
qg_status qg_dorefa_gradient_quantizer(const qg_array *dr, int k, const qg_array *noise,
                                       qg_array *y);

/* noise[i] = (qg_uniform_fast(key, i) - 1/2) fl(1 / (2^k - 1)), the noise for the quantizer above. */
QG_MUST_CHECK
qg_status qg_dorefa_gradient_noise(uint64_t key, int k, qg_array *noise);

#endif
