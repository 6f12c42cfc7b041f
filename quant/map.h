/* quant/map.h — the element by element loops of quantizers, for each instruction set (internal).
 *
 * Every weight and every activation passes through them in each step.  Each operation is a single IEEE one, nothing
 * is contracted and sums have lanes of their own: the same bits on every instruction set.  Backward loops add to dx,
 * which overlaps nothing; y may be x.
 */
#ifndef QG_MAP_H
#define QG_MAP_H

#include "core/kernels/cpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/reference/fake_quant.h"

/* Ranges of channels that lie inmost.  They are taken in chunks whose ranges fit the stack, with the rows in the
 * outer loop, so that the innermost loop runs over adjacent floats. */
enum { QG_CHANNEL_RANGES = 64 };

typedef struct qg_channel_ranges {
    size_t n;
    float  scale[QG_CHANNEL_RANGES], inv[QG_CHANNEL_RANGES];
    float  nmin[QG_CHANNEL_RANGES], nmax[QG_CHANNEL_RANGES], q0[QG_CHANNEL_RANGES];
} qg_channel_ranges;

/* The signature of qg_surrogate.slope. */
typedef void (*qg_slope_of)(float arg, size_t n, const float *x, const float *dy, float *dx);

typedef struct qg_map_kernels {
    /* --- forward --- */
    /* y = positive if x > delta, -negative if x < -delta, else 0 */
    void (*ternary)(size_t n, const float *x, float delta, float positive, float negative,
                    float *y);
    /* y = qg__tanh(x), quant/smooth.h */
    void (*tanh)(size_t n, const float *x, float *y);
    /* t = 2 quantize_k(t / (2m) + 1/2) - 1, quant/reference/dorefa.h; t = tanh(w), steps = 2^k - 1 */
    void (*tanh_codes)(size_t n, float m, float steps, float *t);
    /* y = scale if x >= 0, else -scale */
    void (*scaled_sign)(size_t n, const float *x, float scale, float *y);
    /* y[i] = 1 if qg_uniform(key, first + i) < (x[i] + 1) / 2, else -1 */
    void (*stochastic_sign)(size_t n, const float *x, uint64_t key, size_t first, float *y);
    /* Activations, by the formulas of their headers; steps = 2^bits - 1, codes lo .. hi. */
    void (*linear)(size_t n, const float *x, float max_value, float steps, float *y);
    void (*dorefa_even)(size_t n, const float *x, float steps, float *y);
    void (*dorefa_up)(size_t n, const float *x, float steps, float *y);
    void (*pact)(size_t n, const float *x, float alpha, float steps, float *y);
    void (*lsq)(size_t n, const float *x, float step, float lo, float hi, float *y);
    /* y = R(clip(x, lo, hi) scale) step, quant/reference/qdq.h */
    void (*scaled_even)(size_t n, const float *x, float lo, float hi, float scale, float step, float *y);
    void (*scaled_up)(size_t n, const float *x, float lo, float hi, float scale, float step, float *y);
    /* u[i] = qg_uniform(key, first + i) */
    void (*uniform)(size_t n, uint64_t key, size_t first, float *u);

    /* --- backward --- */
    qg_slope_of clip_slope;         /* 1 where |x| <= arg */
    qg_slope_of open_clip_slope;    /* 1 where |x| < arg */
    qg_slope_of approx_sign_slope, swish_slope, tanh_slope;     /* quant/surrogate.h */
    /* dx += dy (1 - tanh^2 x) / m */
    void (*tanh_codes_slope)(size_t n, const float *x, const float *dy, float m, float *dx);
    /* dx += dy positive where x > delta, dy negative where x < -delta, else dy; above and below are
     * dy on the first and the second set, else 0 */
    void (*ternary_slope)(size_t n, const float *x, const float *dy, float delta, float positive,
                          float negative, float *dx, float *above, float *below);
    /* signed_dy = dy sign(x) */
    void (*by_sign)(size_t n, const float *x, const float *dy, float *signed_dy);
    /* dx += direct dy + coupled sign(x),  scaled = through dy */
    void (*mix)(size_t n, const float *x, const float *dy, float direct, float coupled,
                float through, float *dx, float *scaled);
    /* dx, and the terms of ds: quant/reference/uniform.h */
    void (*lsq_slope)(size_t n, const float *x, const float *dy, float step, float lo, float hi, float *dx,
                      float *term);

    /* --- fake_quant: quant/reference/fake_quant.h --- */
    void (*fake_quant_divide)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    void (*fake_quant_multiply)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    void (*fake_quant_backward)(const qg_fake_quant_range *r, size_t n, const float *x, const float *g, float *dx,
                                double *dmin, double *dmax);
    /* Rows of k->n channels, `stride` apart; dmin and dmax [k->n]. */
    void (*fake_quant_rows)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x, float *y);
    void (*fake_quant_rows_backward)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x,
                                     const float *g, float *dx, double *dmin, double *dmax);
} qg_map_kernels;

QG_DECLARE_KERNELS(qg_map_kernels, qg__map);

#endif
