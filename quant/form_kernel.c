/* The loops of forms (quant/form.h). */
#include "quant/kernels.h"

#include <math.h>
#include <string.h>

#include "core/kernels/simd.h"
#include "quant/engine.h"
#include "quant/reduce.h"
#include "quant/round.h"
#include "quant/smooth.h"

#define REDUCE QG_PER_ISA(qg__reduce)

/* dy is read in any case: a load behind a condition does not vectorise. */

/* --- sign ------------------------------------------------------------------------------------- */

static void sign_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const float t = k->sign.threshold, high = k->sign.scale + k->sign.offset, low = -(k->sign.scale - k->sign.offset);
    for (size_t i = 0; i < n; i++) y[i] = x[i] >= t ? high : low;
}

static void sign_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float scale = k->sign.scale, t = k->sign.threshold;
    float       term[QG_CHUNK];
    for (size_t i = 0; dx && i < n; i++) dx[i] += dy[i] * scale;
    if (!sum) return;
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        term[i] = x[i] >= t ? g : -g;
    }
    sum[0] += REDUCE.sum(n, term);
    sum[1] += REDUCE.sum(n, dy);
}

static void sign_codes(const qg_constants *k, size_t n, const float *x, int32_t *code)
{
    const float t = k->sign.threshold;
    for (size_t i = 0; i < n; i++) code[i] = x[i] >= t ? 1 : -1;
}

/* --- ternary ---------------------------------------------------------------------------------- */

static void ternary_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_ternary f = k->ternary;
    for (size_t i = 0; i < n; i++) {
        const float w = x[i];
        const float below = w < -f.delta ? -f.negative : 0.0f;
        y[i] = w > f.delta ? f.positive : below;
    }
}

/* Reads x and dy once for all three outputs. */
static void ternary_slope(qg_ternary f, size_t n, const float *x, const float *dy, float *restrict dx,
                          float *restrict above, float *restrict below)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        const float other = x[i] < -f.delta ? f.negative : 1.0f;
        dx[i] += g * (x[i] > f.delta ? f.positive : other);
        above[i] = x[i] > f.delta ? g : 0.0f;
        below[i] = x[i] < -f.delta ? g : 0.0f;
    }
}

static void ternary_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    float above[QG_CHUNK], below[QG_CHUNK], unused[QG_CHUNK] = { 0.0f };
    ternary_slope(k->ternary, n, x, dy, dx ? dx : unused, above, below);
    if (!sum) return;
    sum[0] += REDUCE.sum(n, above);
    sum[1] += REDUCE.sum(n, below);
}

static void ternary_codes(const qg_constants *k, size_t n, const float *x, int32_t *code)
{
    const float d = k->ternary.delta;
    for (size_t i = 0; i < n; i++) code[i] = (x[i] > d) - (x[i] < -d);
}

/* --- uniform ---------------------------------------------------------------------------------- */

static void clip_values(const qg_levels *u, size_t n, const float *x, float *y)
{
    const float lo = u->lo, hi = u->hi;
    for (size_t i = 0; i < n; i++) y[i] = qg_clamp(x[i], lo, hi);
}

/* round(clip(x / step, lo, hi)) step: lo and hi are codes. */
static void lsq_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i] / u.step, u.lo, u.hi)) * u.step;
}

/* q = s round(v): at fixed codes dq/ds = round(v) + s dround/dv dv/ds, with slope 1 for round and
 * dv/ds = -v / s; outside the range the code is a constant and only the first term is left. */
static void lsq_slope(qg_levels u, size_t n, const float *x, const float *dy, float *restrict dx, float *restrict term)
{
    const float lo = u.lo, hi = u.hi;
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] / u.step;
        const float g = dy[i];
        const float inside = qg_round_even(v) - v;
        const float below = v <= lo ? lo : inside;
        const float above = v > lo ? g : 0.0f;
        term[i] = g * (v >= hi ? hi : below);
        dx[i] += v < hi ? above : 0.0f;
    }
}

static void lsq_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    float term[QG_CHUNK], unused[QG_CHUNK] = { 0.0f };
    lsq_slope(k->uniform, n, x, dy, dx ? dx : unused, term);
    if (sum) sum[0] += REDUCE.sum(n, term);
}

/* round(clip(x, 0, hi) steps / hi) hi / steps */
static void pact_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else
        for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i], 0.0f, u.hi) * u.steps / u.hi) * u.hi / u.steps;
}

static void pact_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float hi = k->uniform.hi;
    float       term[QG_CHUNK];
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i];
        const float above = x[i] >= 0.0f ? g : 0.0f;
        dx[i] += x[i] < hi ? above : 0.0f;
    }
    if (!sum) return;
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        term[i] = x[i] >= hi ? g : 0.0f;
    }
    sum[0] += REDUCE.sum(n, term);
}

/* floor(clip(x, 0, hi) / hi steps + 0.5) / steps hi */
static void linear_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else
        for (size_t i = 0; i < n; i++) {
            const float v = qg_clamp(x[i], 0.0f, u.hi) / u.hi * u.steps;
            y[i] = qg_round_up(v) / u.steps * u.hi;
        }
}

static void linear_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float hi = k->uniform.hi;
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i];
        const float above = x[i] > 0.0f ? g : 0.0f;
        dx[i] += x[i] < hi ? above : 0.0f;
    }
}

/* round(clip(x, 0, 1) steps) / steps */
static void dorefa_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else if (u.variant != 0.0f)
        for (size_t i = 0; i < n; i++) y[i] = qg_round_up(qg_clamp(x[i], 0.0f, 1.0f) * u.steps) / u.steps;
    else
        for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i], 0.0f, 1.0f) * u.steps) / u.steps;
}

static void dorefa_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i];
        const float above = x[i] >= 0.0f ? g : 0.0f;
        dx[i] += x[i] <= 1.0f ? above : 0.0f;
    }
}

/* 2 quantize(tanh(x) / (2 hi) + 1/2) - 1, with variant times hi; codes are the odd numbers -steps .. steps. */
static void tanh_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const float m = k->uniform.hi, steps = k->uniform.steps, twice = 2.0f * m, scale = k->uniform.variant != 0.0f ? m : 1.0f;
    for (size_t at = 0; at < n; at += QG_TANH_RUN) {
        const size_t run = qg__smaller(n - at, QG_TANH_RUN);
        float       *t   = y + at;
        qg__tanhf_run(run, x + at, t);
        for (size_t i = 0; i < run; i++) {
            const float u = m == 0.0f ? 0.5f : qg_clamp(t[i] / twice + 0.5f, 0.0f, 1.0f);
            t[i] = (2.0f * (qg_round_even(u * steps) / steps) - 1.0f) * scale;
        }
    }
}

static void tanh_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float m = k->uniform.hi, divisor = k->uniform.variant != 0.0f ? 1.0f : m;
    float       t[QG_TANH_RUN];
    for (size_t at = 0; dx && m != 0.0f && at < n; at += QG_TANH_RUN) {
        const size_t run = qg__smaller(n - at, QG_TANH_RUN);
        qg__tanhf_run(run, x + at, t);
        for (size_t i = 0; i < run; i++) dx[at + i] += dy[at + i] * (1.0f - t[i] * t[i]) / divisor;
    }
}

/* Of the values without hi, which may be 0. */
static void tanh_codes(const qg_constants *k, size_t n, const float *x, int32_t *code)
{
    qg_constants unscaled = *k;
    float        y[QG_CHUNK];
    unscaled.uniform.variant = 0.0f;
    tanh_values(&unscaled, n, x, y);
    qg__codes_from(n, y, 1.0f / k->uniform.steps, code);
}

/* Levels are code / steps: codes -m .. m, m = steps, where 0 is a level, else the odd numbers -steps .. steps.
 * x is multiplied by from = 1 / hi first, which is exact where hi is 1. */
static void unit_values(const qg_constants *k, size_t count, const float *x, float *y)
{
    const float n = k->uniform.steps, f = k->uniform.from;
    if (k->uniform.variant != 0.0f)
        for (size_t i = 0; i < count; i++) y[i] = qg_round_even(qg_clamp(x[i] * f, -1.0f, 1.0f) * n) / n;
    else if (n == 1.0f)                         /* half of the smallest float would lose its sign */
        for (size_t i = 0; i < count; i++) y[i] = x[i] < 0.0f ? -1.0f : x[i] >= 0.0f ? 1.0f : x[i];
    else
        for (size_t i = 0; i < count; i++)
            y[i] = (2.0f * qg_floor(qg_clamp(x[i] * f, -1.0f, 1.0f) * (0.5f * n)) + 1.0f) / n;
}

static void unit_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float end = k->uniform.hi, f = k->uniform.from;
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i] * f;
        dx[i] += fabsf(x[i]) <= end ? g : 0.0f;
    }
}

/* round(clip(x, lo, hi) steps) step.  An infinite x times 0 is no number, so without steps there is no product. */
static void scaled_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f && u.step == 0.0f)
        for (size_t i = 0; i < n; i++) y[i] = x[i] != x[i] ? x[i] : 0.0f;
    else if (u.variant != 0.0f)
        for (size_t i = 0; i < n; i++) y[i] = qg_round_up(qg_clamp(x[i], u.lo, u.hi) * u.steps) * u.step;
    else
        for (size_t i = 0; i < n; i++) y[i] = qg_round_even(qg_clamp(x[i], u.lo, u.hi) * u.steps) * u.step;
}

static void scaled_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float from = k->uniform.from, to = k->uniform.to;
    for (size_t i = 0; dx && i < n; i++) {
        const float g     = dy[i];
        const float above = x[i] >= from ? g : 0.0f;
        dx[i] += x[i] <= to ? above : 0.0f;
    }
}

/* round((clip(x, lo, hi) - lo) / step - zero) step, halves up, or with * steps in place of / step.  The range is empty if step
 * is 0. */
static void nudged_values(const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.step == 0.0f)
        for (size_t i = 0; i < n; i++) y[i] = 0.0f;
    else if (u.variant != 0.0f)
        for (size_t i = 0; i < n; i++) {
            const float t = qg_clamp(x[i], u.lo, u.hi) - u.lo;
            y[i]          = qg_round_up(t / u.step - u.zero) * u.step;
        }
    else
        for (size_t i = 0; i < n; i++) {
            const float t = qg_clamp(x[i], u.lo, u.hi) - u.lo;
            y[i]          = qg_round_up(t * u.steps - u.zero) * u.step;
        }
}

/* The sums of what lies outside. */
static void add_outside(const qg_levels *u, size_t n, const float *x, const float *dy, double *sum)
{
    float below[QG_CHUNK], above[QG_CHUNK];
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i];
        below[i] = x[i] < u->lo ? g : 0.0f;
        above[i] = x[i] > u->hi ? g : 0.0f;
    }
    sum[0] += REDUCE.sum(n, below);
    sum[1] += REDUCE.sum(n, above);
}

/* An empty range passes everything. */
static void nudged_backward(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum)
{
    const float lo = k->uniform.lo, hi = k->uniform.hi;
    int         outside = !dx;
    if (k->uniform.step == 0.0f) {
        for (size_t i = 0; dx && i < n; i++) dx[i] += dy[i];
        return;
    }
    for (size_t i = 0; dx && i < n; i++) {
        const float through = dy[i];
        const float above   = x[i] >= lo ? through : 0.0f;
        dx[i] += x[i] <= hi ? above : 0.0f;
        outside |= (x[i] < lo) | (x[i] > hi);
    }
    if (outside && sum) add_outside(&k->uniform, n, x, dy, sum);
}

/* --- what schemes add to a form --------------------------------------------------------------- */

/* A term with a factor of 0 is left out: an infinite gradient times 0 would be NaN. */
static void mix(size_t n, const float *x, const float *dy, qg_mix m, float *restrict dx, float *restrict scaled)
{
    if (m.direct != 0.0f || m.coupled != 0.0f)
        for (size_t i = 0; i < n; i++) dx[i] += m.direct * dy[i] + (x[i] >= 0.0f ? m.coupled : -m.coupled);
    for (size_t i = 0; i < n; i++) scaled[i] = m.through * dy[i];
}

static void tanh_kernel(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i += QG_TANH_RUN) qg__tanhf_run(qg__smaller(n - i, QG_TANH_RUN), x + i, y + i);
}

const qg__form_kernels QG_PER_ISA(qg__form) = {
    .sign    = { .values = sign_values, .backward = sign_backward, .codes = sign_codes },
    .ternary = { .values = ternary_values, .backward = ternary_backward, .codes = ternary_codes },
    .lsq     = { .values = lsq_values, .backward = lsq_backward },
    .pact    = { .values = pact_values, .backward = pact_backward },
    .linear  = { .values = linear_values, .backward = linear_backward },
    .dorefa  = { .values = dorefa_values, .backward = dorefa_backward },
    .tanh    = { .values = tanh_values, .backward = tanh_backward, .codes = tanh_codes },
    .unit    = { .values = unit_values, .backward = unit_backward },
    .scaled  = { .values = scaled_values, .backward = scaled_backward },
    .nudged  = { .values = nudged_values, .backward = nudged_backward },
    .mix     = mix,
    .tanh_of = tanh_kernel,
};
