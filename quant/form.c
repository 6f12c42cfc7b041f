#include "quant/form.h"

#include "quant/map.h"
#include "quant/reduce.h"
#include "quant/round.h"
#include "quant/scheme.h"
#include "quant/smooth.h"

/* --- sign ------------------------------------------------------------------------------------- */

static void sign_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    QG_KERNELS_OF(isa, qg__map)->scaled_sign(n, x, k->sign.scale, y);
}

static void sign_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                          double *sum)
{
    float term[QG_CHUNK];
    for (size_t i = 0; dx && i < n; i++) dx[i] += dy[i] * k->sign.scale;
    if (!sum) return;
    QG_KERNELS_OF(isa, qg__map)->by_sign(n, x, dy, term);
    sum[0] += QG_KERNELS_OF(isa, qg__reduce)->sum(n, term);
}

static void sign_codes(qg_isa isa, const qg_constants *k, size_t n, const float *x, int32_t *code)
{
    (void)isa, (void)k;
    for (size_t i = 0; i < n; i++) code[i] = x[i] >= 0.0f ? 1 : -1;
}

static void sign_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = *negative = k->sign.scale;
}

static qg_code_set sign_set(const qg_constants *k)
{
    (void)k;
    return (qg_code_set){ -1, 2, 2, 0 };
}

const qg_form qg_sign_form = { sign_values, sign_backward, sign_codes, sign_scales, sign_set };

/* --- ternary ---------------------------------------------------------------------------------- */

static void ternary_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_ternary f = k->ternary;
    QG_KERNELS_OF(isa, qg__map)->ternary(n, x, f.delta, f.positive, f.negative, y);
}

/* Reads x and dy once for all three outputs. */
static void ternary_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                             double *sum)
{
    const qg_ternary f = k->ternary;
    float            above[QG_CHUNK], below[QG_CHUNK], unused[QG_CHUNK] = { 0.0f };
    QG_KERNELS_OF(isa, qg__map)->ternary_slope(n, x, dy, f.delta, f.positive, f.negative, dx ? dx : unused, above,
                                               below);
    if (!sum) return;
    sum[0] += QG_KERNELS_OF(isa, qg__reduce)->sum(n, above);
    sum[1] += QG_KERNELS_OF(isa, qg__reduce)->sum(n, below);
}

static void ternary_codes(qg_isa isa, const qg_constants *k, size_t n, const float *x, int32_t *code)
{
    const float d = k->ternary.delta;
    (void)isa;
    for (size_t i = 0; i < n; i++) code[i] = (x[i] > d) - (x[i] < -d);
}

static void ternary_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = k->ternary.positive;
    *negative = k->ternary.negative;
}

static qg_code_set ternary_set(const qg_constants *k)
{
    (void)k;
    return (qg_code_set){ -1, 1, 3, 0 };
}

const qg_form qg_ternary_form = { ternary_values, ternary_backward, ternary_codes, ternary_scales, ternary_set };

/* --- uniform ---------------------------------------------------------------------------------- */

static void uniform_scales(const qg_constants *k, float *positive, float *negative)
{
    *positive = *negative = k->uniform.step;
}

/* 0 .. steps, and the odd numbers -steps .. steps. */
static qg_code_set counted_set(const qg_constants *k) { return (qg_code_set){ 0, 1, (int)k->uniform.steps + 1, 0 }; }

static qg_code_set odd_set(const qg_constants *k)
{
    return (qg_code_set){ -(int)k->uniform.steps, 2, (int)k->uniform.steps + 1, 0 };
}

static void clip_values(const qg_levels *u, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = qg_clamp(x[i], u->lo, u->hi);
}

/* round(clip(x / step, lo, hi)) step: lo and hi are codes. */
static void lsq_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    QG_KERNELS_OF(isa, qg__map)->lsq(n, x, u.step, u.lo, u.hi, y);
}

static void lsq_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                         double *sum)
{
    const qg_levels u = k->uniform;
    float            term[QG_CHUNK], unused[QG_CHUNK] = { 0.0f };
    QG_KERNELS_OF(isa, qg__map)->lsq_slope(n, x, dy, u.step, u.lo, u.hi, dx ? dx : unused, term);
    if (sum) sum[0] += QG_KERNELS_OF(isa, qg__reduce)->sum(n, term);
}

static qg_code_set lsq_set(const qg_constants *k)
{
    const int lo = (int)k->uniform.lo, hi = (int)k->uniform.hi;
    return (qg_code_set){ lo, 1, hi - lo + 1, 0 };
}

const qg_form qg_lsq_form = { lsq_values, lsq_backward, NULL, uniform_scales, lsq_set };

/* round(clip(x, 0, hi) steps / hi) hi / steps */
static void pact_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else QG_KERNELS_OF(isa, qg__map)->pact(n, x, u.hi, u.steps, y);
}

static void pact_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                          double *sum)
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
    sum[0] += QG_KERNELS_OF(isa, qg__reduce)->sum(n, term);
}

const qg_form qg_pact_form = { pact_values, pact_backward, NULL, uniform_scales, counted_set };

/* floor(clip(x, 0, hi) / hi steps + 0.5) / steps hi */
static void linear_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else QG_KERNELS_OF(isa, qg__map)->linear(n, x, u.hi, u.steps, y);
}

static void linear_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                            double *sum)
{
    const float hi = k->uniform.hi;
    (void)isa, (void)sum;
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i];
        const float above = x[i] > 0.0f ? g : 0.0f;
        dx[i] += x[i] < hi ? above : 0.0f;
    }
}

const qg_form qg_linear_form = { linear_values, linear_backward, NULL, uniform_scales, counted_set };

/* round(clip(x, 0, 1) steps) / steps */
static void dorefa_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels u = k->uniform;
    const qg_map_kernels *kernels = QG_KERNELS_OF(isa, qg__map);
    if (u.steps == 0.0f) clip_values(&u, n, x, y);
    else (u.variant != 0.0f ? kernels->dorefa_up : kernels->dorefa_even)(n, x, u.steps, y);
}

static void dorefa_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                            double *sum)
{
    (void)isa, (void)k, (void)sum;
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i];
        const float above = x[i] >= 0.0f ? g : 0.0f;
        dx[i] += x[i] <= 1.0f ? above : 0.0f;
    }
}

const qg_form qg_dorefa_form = { dorefa_values, dorefa_backward, NULL, uniform_scales, counted_set };

/* 2 quantize(tanh(x) / (2 hi) + 1/2) - 1, by chunks, so that the second loop finds what the first left in the
 * nearest cache; codes are the odd numbers -steps .. steps */
static void tanh_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_map_kernels *kernels = QG_KERNELS_OF(isa, qg__map);
    for (size_t i = 0; i < n; i += QG_CHUNK) {
        const size_t m = qg__smaller(n - i, QG_CHUNK);
        kernels->tanh(m, x + i, y + i);
        kernels->tanh_codes(m, k->uniform.hi, k->uniform.steps, y + i);
    }
}

static void tanh_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                          double *sum)
{
    (void)sum;
    if (dx && k->uniform.hi != 0.0f) QG_KERNELS_OF(isa, qg__map)->tanh_codes_slope(n, x, dy, k->uniform.hi, dx);
}

const qg_form qg_tanh_form = { tanh_values, tanh_backward, NULL, uniform_scales, odd_set };

/* Levels are code / steps: codes -m .. m, m = steps, where 0 is a level, else the odd numbers -steps .. steps. */
/* x is multiplied by from = 1 / hi first, which is exact where hi is 1. */
static void unit_values(qg_isa isa, const qg_constants *k, size_t count, const float *x, float *y)
{
    const float n = k->uniform.steps, f = k->uniform.from;
    (void)isa;
    if (k->uniform.variant != 0.0f)
        for (size_t i = 0; i < count; i++) y[i] = qg_round_even(qg_clamp(x[i] * f, -1.0f, 1.0f) * n) / n;
    else if (n == 1.0f)                         /* half of the smallest float would lose its sign */
        for (size_t i = 0; i < count; i++) y[i] = x[i] < 0.0f ? -1.0f : x[i] >= 0.0f ? 1.0f : x[i];
    else
        for (size_t i = 0; i < count; i++)
            y[i] = (2.0f * qg_floor(qg_clamp(x[i] * f, -1.0f, 1.0f) * (0.5f * n)) + 1.0f) / n;
}

static void unit_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                          double *sum)
{
    const float end = k->uniform.hi, f = k->uniform.from;
    (void)isa, (void)sum;
    for (size_t i = 0; dx && i < n; i++) {
        const float g = dy[i] * f;
        dx[i] += fabsf(x[i]) <= end ? g : 0.0f;
    }
}

static qg_code_set unit_set(const qg_constants *k)
{
    const int n = (int)k->uniform.steps;
    return k->uniform.variant != 0.0f ? (qg_code_set){ -n, 1, 2 * n + 1, 0 } : odd_set(k);
}

const qg_form qg_unit_form = { unit_values, unit_backward, NULL, uniform_scales, unit_set };

/* round(clip(x, lo, hi) steps) step.  An infinite x times 0 is no number, so without steps there is no product. */
static void scaled_values(qg_isa isa, const qg_constants *k, size_t n, const float *x, float *y)
{
    const qg_levels       u       = k->uniform;
    const qg_map_kernels *kernels = QG_KERNELS_OF(isa, qg__map);
    if (u.steps == 0.0f && u.step == 0.0f)
        for (size_t i = 0; i < n; i++) y[i] = x[i] != x[i] ? x[i] : 0.0f;
    else (u.variant != 0.0f ? kernels->scaled_up : kernels->scaled_even)(n, x, u.lo, u.hi, u.steps, u.step, y);
}

static void scaled_backward(qg_isa isa, const qg_constants *k, size_t n, const float *x, const float *dy, float *dx,
                            double *sum)
{
    const float from = k->uniform.from, to = k->uniform.to;
    (void)isa, (void)sum;
    for (size_t i = 0; dx && i < n; i++) {
        const float g     = dy[i];
        const float above = x[i] >= from ? g : 0.0f;
        dx[i] += x[i] <= to ? above : 0.0f;
    }
}

const qg_form qg_scaled_form = { scaled_values, scaled_backward, NULL, uniform_scales, NULL };
