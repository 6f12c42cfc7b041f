/* quant/kernels.h — the element by element loops of quantizers, for each instruction set (internal).
 *
 * Every weight and every activation passes through them in each step.  Each operation is a single IEEE one, nothing
 * is contracted and sums have lanes of their own: the same bits on every instruction set.  Backward loops add to dx,
 * which overlaps nothing; y may be x.
 */
#ifndef QG_QUANT_KERNELS_H
#define QG_QUANT_KERNELS_H

#include "core/kernels/cpu.h"
#include "quant/form.h"

/* quant/form_kernel.c */
typedef struct qg__form_kernels {
    qg_form_loops sign, ternary, lsq, pact, linear, dorefa, tanh, unit, scaled, nudged;

    /* dx += direct dy + coupled sign(x),  scaled = through dy */
    void (*mix)(size_t n, const float *x, const float *dy, qg_mix m, float *dx, float *scaled);
    void (*tanh_of)(size_t n, const float *x, float *y);        /* y = qg__tanhf(x), quant/smooth.h */
} qg__form_kernels;

QG_DECLARE_KERNELS(qg__form_kernels, qg__form);

/* quant/surrogate_kernel.c: the functions of qg_surrogate.slope, see quant/surrogate.h. */
typedef struct qg__surrogate_kernels {
    void (*clip)(float bound, size_t n, const float *x, const float *dy, float *dx);
    void (*open_clip)(float bound, size_t n, const float *x, const float *dy, float *dx);   /* 1 where |x| < bound */
    void (*approx_sign)(float arg, size_t n, const float *x, const float *dy, float *dx);
    void (*swish)(float beta, size_t n, const float *x, const float *dy, float *dx);
    void (*tanh)(float t, size_t n, const float *x, const float *dy, float *dx);
} qg__surrogate_kernels;

QG_DECLARE_KERNELS(qg__surrogate_kernels, qg__surrogate);

/* How a gradient x becomes a code; draws: u = qg_uniform_fast(key, index of the number), else none.
 *
 *     stochastic    v = clip(x / range most, -most, most), code = floor(v) + (u < v - floor(v)), or round(v); never -0
 *     dorefa        code = round(clip(x / range / 2 + 1/2 + (u - 1/2) fl(1 / most), 0, 1) most)
 *
 * Rounding is to nearest, ties to even.  The values are code step, and range (2 (code / most - 1/2)). */
typedef struct qg__gradient_rounding {
    float    range, most;       /* range > 0; if it is not finite, nor are values */
    float    step;
    bool     draws, adds;       /* adds: y += */
    uint64_t key;
} qg__gradient_rounding;

/* quant/noise_kernel.c: y[i] = 1 if qg_uniform(key, first + i) is below (x[i] + 1) / 2, else -1; and the above, as values or as
 * bytes: code + most, and 2 code. */
typedef struct qg__noise_kernels {
    void (*stochastic_sign)(size_t n, const float *x, uint64_t key, size_t first, float *y);
    void (*stochastic)(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *y);
    void (*dorefa)(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *y);
    void (*stochastic_bytes)(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, uint8_t *y);
    void (*dorefa_bytes)(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, uint8_t *y);
} qg__noise_kernels;

QG_DECLARE_KERNELS(qg__noise_kernels, qg__noise);

#endif
