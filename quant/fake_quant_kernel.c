/* The loops of fake quantization. */
#include "quant/kernels.h"

#include <math.h>
#include <string.h>

#include "core/kernels/simd.h"
#include "quant/round.h"

/* --- fake quantization --------------------------------------------------------------------- */

/* An empty range.  An empty tensor has no y, which memset must not get. */
static void zero(size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = 0.0f;
}

static void fake_quant_divide(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    const qg_fake_quant_range k = *r;
    if (k.scale == 0.0f) {
        zero(n, y);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float t = qg_clamp(x[i], k.nmin, k.nmax) - k.nmin;
        y[i]          = qg_round_up(t / k.scale - k.q0) * k.scale;
    }
}

static void fake_quant_multiply(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    const qg_fake_quant_range k = *r;
    if (k.scale == 0.0f) {
        zero(n, y);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float t = qg_clamp(x[i], k.nmin, k.nmax) - k.nmin;
        y[i]          = qg_round_up(t * k.inv - k.q0) * k.scale;
    }
}

/* Sums in interleaved lanes, whatever the width of the machine: lane l sums elements l, l + 16, .. */
enum { LANES = 16, VECTORS = LANES / VD };

static void outside_step(const float *x, const float *g, float nmin, float nmax, f64 low[VECTORS],
                         f64 high[VECTORS])
{
    for (int v = 0; v < VECTORS; v++) {
        f32 e;
        i32 d;
        memcpy(&e, x + v * VD, sizeof e);
        memcpy(&d, g + v * VD, sizeof d);
        low[v] += __builtin_convertvector((f32)(d & (e < nmin)), f64);
        high[v] += __builtin_convertvector((f32)(d & (e > nmax)), f64);
    }
}

static void add_outside(const qg_fake_quant_range *r, size_t n, const float *x, const float *g,
                        double *dmin, double *dmax)
{
    f64    low[VECTORS] = { { 0 } }, high[VECTORS] = { { 0 } };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) outside_step(x + i, g + i, r->nmin, r->nmax, low, high);
    if (i < n) {
        /* Filled up with NaN, which is on neither side. */
        float tail[LANES], tail_g[LANES] = { 0.0f };
        for (size_t k = 0; k < LANES; k++) tail[k] = NAN;
        memcpy(tail, x + i, (n - i) * sizeof *tail);
        memcpy(tail_g, g + i, (n - i) * sizeof *tail_g);
        outside_step(tail, tail_g, r->nmin, r->nmax, low, high);
    }
    double lane[2][LANES];
    memcpy(lane[0], low, sizeof low);
    memcpy(lane[1], high, sizeof high);
    for (int k = 0; k < LANES; k++) {
        *dmin += lane[0][k];
        *dmax += lane[1][k];
    }
}

static void fake_quant_backward(const qg_fake_quant_range *r, size_t n, const float *x, const float *g, float *dx,
                                double *dmin, double *dmax)
{
    const float nmin = r->nmin, nmax = r->nmax;
    int         outside = 0;
    if (r->scale == 0.0f) {
        for (size_t i = 0; i < n; i++) dx[i] += g[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float through = g[i];
        const float above   = x[i] >= nmin ? through : 0.0f;
        dx[i] += x[i] <= nmax ? above : 0.0f;
        outside |= (x[i] < nmin) | (x[i] > nmax);
    }
    if (outside && dmin) add_outside(r, n, x, g, dmin, dmax);
}

/* --- a range per channel ------------------------------------------------------------------- */

static void fake_quant_rows(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x, float *y)
{
    for (size_t at = 0; at < rows * stride; at += stride)
        for (size_t c = 0; c < k->n; c++) {
            const float t = qg_clamp(x[at + c], k->nmin[c], k->nmax[c]) - k->nmin[c];
            const float v = qg_round_up(t * k->inv[c] - k->q0[c]) * k->scale[c];
            y[at + c]     = k->scale[c] == 0.0f ? 0.0f : v;
        }
}

/* dx of a row, and whether some x lies outside.  An empty range is 0 .. 0 and passes everything. */
static bool row_mask(const qg_channel_ranges *k, const float *x, const float *g, float *dx)
{
    int outside = 0;
    for (size_t c = 0; c < k->n; c++) {
        /* Selects, not branches, or the loop stays scalar. */
        const int   all = k->scale[c] == 0.0f;
        const int   inside = ((x[c] >= k->nmin[c]) & (x[c] <= k->nmax[c])) | all;
        const float through = g[c];
        dx[c] += inside ? through : 0.0f;
        outside |= !inside;
    }
    return outside != 0;
}

static void row_outside(const qg_channel_ranges *k, const float *x, const float *g, double *dmin, double *dmax)
{
    for (size_t c = 0; c < k->n; c++) {
        const int   some = k->scale[c] != 0.0f;
        const int   below = (x[c] < k->nmin[c]) & some;
        const int   above = (x[c] > k->nmax[c]) & some;
        const float d = g[c];
        dmin[c] += (double)(below ? d : 0.0f);
        dmax[c] += (double)(above ? d : 0.0f);
    }
}

static void fake_quant_rows_backward(const qg_channel_ranges *k, size_t rows, size_t stride, const float *x,
                                     const float *g, float *dx, double *dmin, double *dmax)
{
    for (size_t at = 0; at < rows * stride; at += stride)
        if (row_mask(k, x + at, g + at, dx + at)) row_outside(k, x + at, g + at, dmin, dmax);
}

const qg__fake_quant_kernels QG_PER_ISA(qg__fake_quant) = {
    .divide        = fake_quant_divide,
    .multiply      = fake_quant_multiply,
    .backward      = fake_quant_backward,
    .rows          = fake_quant_rows,
    .rows_backward = fake_quant_rows_backward,
};
