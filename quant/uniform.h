/* quant/uniform.h — loops of fake_quant, and the backward of LSQ, for each instruction set (internal).
 *
 * quant/schemes/fake_quant.h and lsq.h say what they compute; forwards of other schemes are in quant/map.h.
 * Every operation is a single IEEE one, nothing is contracted and sums have lanes of their own: the
 * same bits on every instruction set.  dx is added to; y may be x.
 */
#ifndef QG_UNIFORM_H
#define QG_UNIFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/kernels/cpu.h"
#include "quant/schemes/fake_quant.h"

/* Ranges of channels that lie inmost.  They are taken in chunks whose ranges fit the stack, the rows of
 * each inside, so that the innermost loop runs over adjacent floats. */
enum { QG_CHANNEL_RANGES = 64 };

typedef struct qg_channel_ranges {
    size_t n;
    float  scale[QG_CHANNEL_RANGES], inv[QG_CHANNEL_RANGES];
    float  nmin[QG_CHANNEL_RANGES], nmax[QG_CHANNEL_RANGES], q0[QG_CHANNEL_RANGES];
} qg_channel_ranges;

typedef struct qg_uniform_kernels {
    void (*fake_quant_divide)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    void (*fake_quant_multiply)(const qg_fake_quant_range *r, size_t n, const float *x, float *y);
    /* Whether some x lies outside: below nmin or above nmax. */
    bool (*fake_quant_mask)(const qg_fake_quant_range *r, size_t n, const float *x, const float *g, float *dx);
    /* *dmin += sum of g below nmin, *dmax += sum of g above nmax */
    void (*fake_quant_outside)(const qg_fake_quant_range *r, size_t n, const float *x, const float *g,
                               double *dmin, double *dmax);
    /* Rows of k->n channels, `stride` apart; dmin and dmax [k->n] as above. */
    void (*fake_quant_rows)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x, float *y);
    void (*fake_quant_rows_backward)(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x,
                                     const float *g, float *dx, double *dmin, double *dmax);
    /* dx, and the terms of ds. */
    void (*lsq_backward)(size_t n, const float *x, const float *dy, float step, float lo, float hi, float *dx,
                         float *term);
} qg_uniform_kernels;

QG_DECLARE_KERNELS(qg_uniform_kernels, qg__uniform);

#endif
