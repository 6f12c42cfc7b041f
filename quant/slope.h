/* quant/slope.h — backward loops of weights, for each instruction set (internal).
 *
 * The slopes of quant/surrogate.h, and those of schemes that have one of their own; what belongs to a
 * range or a step is in quant/uniform.h.  Every operation is a single IEEE one and nothing is
 * contracted: the same bits on every instruction set.  dx is added to and overlaps nothing.
 */
#ifndef QG_SLOPE_H
#define QG_SLOPE_H

#include "core/kernels/cpu.h"

#include <stddef.h>

/* The signature of qg_surrogate.slope. */
typedef void (*qg_slope_of)(float arg, size_t n, const float *x, const float *dy, float *dx);

typedef struct qg_slope_kernels {
    qg_slope_of clip;           /* 1 where |x| <= arg */
    qg_slope_of open_clip;      /* 1 where |x| < arg */
    qg_slope_of approx_sign, swish, tanh;       /* quant/surrogate.h */
    /* dx += dy (1 - tanh^2 x) / m */
    void (*dorefa)(size_t n, const float *x, const float *dy, float m, float *dx);
    /* dx += dy positive where x > delta, dy negative where x < -delta, else dy; above and below are
     * dy on the first and the second set, else 0 */
    void (*ternary)(size_t n, const float *x, const float *dy, float delta, float positive,
                float negative, float *dx, float *above, float *below);
    /* signed_dy = dy sign(x) */
    void (*by_sign)(size_t n, const float *x, const float *dy, float *signed_dy);
    /* dx += direct dy + coupled sign(x),  scaled = through dy */
    void (*mix)(size_t n, const float *x, const float *dy, float direct, float coupled,
                 float through, float *dx, float *scaled);
} qg_slope_kernels;

QG_DECLARE_KERNELS(qg_slope_kernels, qg__slope);

#endif
