/* quant/schemes/lsq.h — learned step size.                                             [LSQ, 1902.08153]
 *
 *     v    = x / s,   q(x) = s round(clip(v, -qn, qp))                   ties to even
 *     dx   = dq 1[-qn < v < qp]                                          open on both sides
 *     ds   = grad_scale * sum dq d,   d = -qn      if v <= -qn
 *                                         qp       if v >= qp
 *                                         round(v) - v  between
 *
 * Signed b bits: qn = 2^(b-1), qp = 2^(b-1) - 1; unsigned: qn = 0, qp = 2^b - 1.
 *
 * Range    s above 0 (the optimizer must keep it there), s qn and s qp finite; qn, qp 0 or more.  NaN stays NaN.
 * Fails    QG_EARG, QG_ESHAPE; then nothing is written.
 * Differs  PyTorch's learnable fake quantization also passes dx at the clamp values.
 */
#ifndef QG_LSQ_H
#define QG_LSQ_H

#include "core/io/array.h"
#include "core/kernels/cpu.h"
#include "core/status.h"
#include "quant/surrogate.h"

typedef struct qg_lsq_attrs {
    float        step;          /* s */
    int          qn, qp;        /* codes are -qn .. qp; each 0 .. 2^24, as far as float counts */
    double       grad_scale;    /* factor of ds; 1 / sqrt(n qp) in the paper; 0 is not replaced by it */
    qg_surrogate surrogate;     /* of dx, {0}: the open mask; read by the gradient */
} qg_lsq_attrs;

/* y = q(x).  x, y F32 of one shape, any rank. */
QG_MUST_CHECK
qg_status qg_lsq_quantizer(const qg_array *x, qg_lsq_attrs attrs,
                           qg_array *y);

/* dx, and *grad_step = ds unless NULL. */
QG_MUST_CHECK
qg_status qg_lsq_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                    qg_lsq_attrs attrs, qg_array *dx,
                                    float *grad_step);

#endif
