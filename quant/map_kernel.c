#include "quant/map.h"

#include <math.h>
#include <string.h>

#include "core/kernels/simd.h"
#include "core/rng.h"
#include "quant/round.h"
#include "quant/smooth.h"

static void ternary_kernel(size_t n, const float *x, float delta, float positive, float negative,
                           float *y)
{
    for (size_t i = 0; i < n; i++) {
        const float w = x[i];
        const float below = w < -delta ? -negative : 0.0f;
        y[i] = w > delta ? positive : below;
    }
}

static void tanh_kernel(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i += QG_TANH_RUN)
        qg__tanh_run(n - i < QG_TANH_RUN ? n - i : QG_TANH_RUN, x + i, y + i);
}

static void tanh_codes_kernel(size_t n, float m, float steps, float *t)
{
    const float twice = 2.0f * m;
    for (size_t i = 0; i < n; i++) {
        const float u = m == 0.0f ? 0.5f : qg_clamp(t[i] / twice + 0.5f, 0.0f, 1.0f);
        t[i] = 2.0f * (qg_round_even(u * steps) / steps) - 1.0f;
    }
}

static void scaled_sign_kernel(size_t n, const float *x, float scale, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] >= 0.0f ? scale : -scale;
}

static void linear_kernel(size_t n, const float *x, float max_value, float steps, float *y)
{
    for (size_t i = 0; i < n; i++) {
        const float v = qg_clamp(x[i], 0.0f, max_value) / max_value * steps;
        y[i] = qg_round_up(v) / steps * max_value;
    }
}

static void dorefa_even_kernel(size_t n, const float *x, float steps, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i], 0.0f, 1.0f) * steps) / steps;
}

static void dorefa_up_kernel(size_t n, const float *x, float steps, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_round_up(qg_clamp(x[i], 0.0f, 1.0f) * steps) / steps;
}

static void pact_kernel(size_t n, const float *x, float alpha, float steps, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = qg_round_even(qg_clamp(x[i], 0.0f, alpha) * steps / alpha) * alpha / steps;
}

static void lsq_kernel(size_t n, const float *x, float step, float lo, float hi, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i] / step, lo, hi)) * step;
}

static void scaled_even_kernel(size_t n, const float *x, float lo, float hi, float scale, float step, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i], lo, hi) * scale) * step;
}

static void scaled_up_kernel(size_t n, const float *x, float lo, float hi, float scale, float step, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_round_up(qg_clamp(x[i], lo, hi) * scale) * step;
}

/* qg_uniform of the counter key + (i + 1) * step, by the steps of qg_bits but for the last, which
 * leaves the 24 bits that count as they are.  They fit an int32_t, which every machine turns into
 * floats by the vector. */
static const uint64_t counter_step = 0x9E3779B97F4A7C15u;

static inline float uniform_at(uint64_t counter)
{
    uint64_t z = counter;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (float)(int32_t)(z >> 40) * 0x1p-24f;
}

static void uniform_kernel(size_t n, uint64_t key, size_t first, float *u)
{
    uint64_t counter = key + (first + 1) * counter_step;
    for (size_t i = 0; i < n; i++, counter += counter_step) u[i] = uniform_at(counter);
}

static void stochastic_sign_kernel(size_t n, const float *x, uint64_t key, size_t first, float *y)
{
    /* No clip is needed: draws lie in [0, 1). */
    uint64_t counter = key + (first + 1) * counter_step;
    for (size_t i = 0; i < n; i++, counter += counter_step)
        y[i] = uniform_at(counter) < (x[i] + 1.0f) * 0.5f ? 1.0f : -1.0f;
}

/* --- slopes --------------------------------------------------------------------------------- */

/* dy is read in any case: a load behind a condition does not vectorise. */

static void clip_slope(float bound, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += fabsf(x[i]) <= bound ? g : 0.0f;
    }
}

static void open_clip_slope(float bound, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += fabsf(x[i]) < bound ? g : 0.0f;
    }
}

static void approx_sign_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    (void)arg;
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]), g = dy[i] * (2.0f - 2.0f * a);
        dx[i] += a <= 1.0f ? g : 0.0f;
    }
}

static void swish_slope(float beta, size_t n, const float *x, const float *dy, float *dx)
{
    /* With u = exp(-|b x|):  tanh(|b x| / 2) = (1 - u) / (1 + u),  1 / (1 + cosh) = 2u / (1 + u)^2.
     * One exponential that cannot overflow, where the formula as printed is inf / inf. */
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(beta * x[i]);
        const float z = a > 80.0f ? 80.0f : a; /* there the slope is below 1e-32 */
        const float u = qg__exp(-(z == z ? z : 0.0f));
        const float v = 1.0f + u;
        const float g = dy[i] * (beta * (2.0f - z * (1.0f - u) / v) * (2.0f * u / (v * v)));
        dx[i] += a > 80.0f ? 0.0f : g;
    }
}

static size_t run_at(size_t n, size_t at) { return n - at < QG_TANH_RUN ? n - at : QG_TANH_RUN; }

static void tanh_slope(float t, size_t n, const float *x, const float *dy, float *dx)
{
    const float height = t > 1.0f ? t : 1.0f; /* k t = max(1/t, 1) t, without the 1/0 */
    float       s[QG_TANH_RUN];
    for (size_t at = 0; at < n; at += QG_TANH_RUN) {
        const size_t m = run_at(n, at);
        for (size_t i = 0; i < m; i++) s[i] = t * x[at + i];
        qg__tanh_run(m, s, s);
        for (size_t i = 0; i < m; i++) dx[at + i] += dy[at + i] * (height * (1.0f - s[i] * s[i]));
    }
}

static void tanh_codes_slope(size_t n, const float *x, const float *dy, float m, float *dx)
{
    float t[QG_TANH_RUN];
    for (size_t at = 0; at < n; at += QG_TANH_RUN) {
        const size_t run = run_at(n, at);
        qg__tanh_run(run, x + at, t);
        for (size_t i = 0; i < run; i++) dx[at + i] += dy[at + i] * (1.0f - t[i] * t[i]) / m;
    }
}

static void ternary_slope(size_t n, const float *x, const float *dy, float delta, float positive,
                       float negative, float *restrict dx, float *restrict above,
                       float *restrict below)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        const float other = x[i] < -delta ? negative : 1.0f;
        dx[i] += g * (x[i] > delta ? positive : other);
        above[i] = x[i] > delta ? g : 0.0f;
        below[i] = x[i] < -delta ? g : 0.0f;
    }
}

static void by_sign_kernel(size_t n, const float *x, const float *dy, float *signed_dy)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        signed_dy[i] = x[i] >= 0.0f ? g : -g;
    }
}

static void mix_kernel(size_t n, const float *x, const float *dy, float direct, float coupled,
                        float through, float *restrict dx, float *restrict scaled)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += direct * g + (x[i] >= 0.0f ? coupled : -coupled);
        scaled[i] = through * g;
    }
}

/* q = s round(v): at fixed codes dq/ds = round(v) + s dround/dv dv/ds, with slope 1 for round and
 * dv/ds = -v / s; outside the range the code is a constant and only the first term is left. */
static void lsq_slope(size_t n, const float *x, const float *dy, float step, float lo, float hi,
                      float *restrict dx, float *restrict term)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] / step;
        const float g = dy[i];
        const float inside = qg_round_even(v) - v;
        const float below = v <= lo ? lo : inside;
        const float above = v > lo ? g : 0.0f;
        term[i] = g * (v >= hi ? hi : below);
        dx[i] += v < hi ? above : 0.0f;
    }
}

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

const qg_map_kernels QG_PER_ISA(qg__map) = {
    .ternary         = ternary_kernel,
    .tanh            = tanh_kernel,
    .tanh_codes      = tanh_codes_kernel,
    .scaled_sign     = scaled_sign_kernel,
    .stochastic_sign = stochastic_sign_kernel,
    .linear          = linear_kernel,
    .dorefa_even     = dorefa_even_kernel,
    .dorefa_up       = dorefa_up_kernel,
    .pact            = pact_kernel,
    .lsq             = lsq_kernel,
    .scaled_even     = scaled_even_kernel,
    .scaled_up       = scaled_up_kernel,
    .uniform         = uniform_kernel,

    .clip_slope        = clip_slope,
    .open_clip_slope   = open_clip_slope,
    .approx_sign_slope = approx_sign_slope,
    .swish_slope       = swish_slope,
    .tanh_slope        = tanh_slope,
    .tanh_codes_slope  = tanh_codes_slope,
    .ternary_slope     = ternary_slope,
    .by_sign           = by_sign_kernel,
    .mix               = mix_kernel,
    .lsq_slope         = lsq_slope,

    .fake_quant_divide        = fake_quant_divide,
    .fake_quant_multiply      = fake_quant_multiply,
    .fake_quant_backward      = fake_quant_backward,
    .fake_quant_rows          = fake_quant_rows,
    .fake_quant_rows_backward = fake_quant_rows_backward,
};
