#include "quant/map.h"

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
    .uniform         = uniform_kernel,
};
