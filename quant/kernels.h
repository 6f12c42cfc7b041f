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
#include "quant/reference/fake_quant.h"

/* quant/form_kernel.c */
typedef struct qg__form_kernels {
    qg_form_loops sign, ternary, lsq, pact, linear, dorefa, tanh, unit, scaled;

    /* dx += direct dy + coupled sign(x),  scaled = through dy */
    void (*mix)(size_t n, const float *x, const float *dy, qg_mix m, float *dx, float *scaled);
    void (*tanh_of)(size_t n, const float *x, float *y);        /* y = qg__tanh(x), quant/smooth.h */
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

/* quant/noise_kernel.c: u[i] = qg_uniform(key, first + i), and y[i] = 1 if that is below (x[i] + 1) / 2, else -1. */
typedef struct qg__noise_kernels {
    void (*uniform)(size_t n, uint64_t key, size_t first, float *u);
    void (*stochastic_sign)(size_t n, const float *x, uint64_t key, size_t first, float *y);
} qg__noise_kernels;

QG_DECLARE_KERNELS(qg__noise_kernels, qg__noise);

/* quant/fake_quant_kernel.c.  Ranges of channels that lie inmost are taken in chunks that fit the stack, with the rows in the
 * outer loop, so that the innermost loop runs over adjacent floats. */
enum { QG_CHANNEL_RANGES = 64 };

typedef struct qg_channel_ranges {
    size_t n;
    float  scale[QG_CHANNEL_RANGES], inv[QG_CHANNEL_RANGES];
    float  nmin[QG_CHANNEL_RANGES], nmax[QG_CHANNEL_RANGES], q0[QG_CHANNEL_RANGES];
} qg_channel_ranges;

typedef struct qg__fake_quant_kernels {
    void (*divide)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    void (*multiply)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    void (*backward)(const qg_fake_quant_range *r, size_t n, const float *x, const float *g, float *dx, double *dmin,
                     double *dmax);
    /* Rows of k->n channels, `stride` apart; dmin and dmax [k->n]. */
    void (*rows)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x, float *y);
    void (*rows_backward)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x, const float *g, float *dx,
                          double *dmin, double *dmax);
} qg__fake_quant_kernels;

QG_DECLARE_KERNELS(qg__fake_quant_kernels, qg__fake_quant);

#endif
