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
    for (size_t i = 0; i < n; i++) y[i] = qg__tanh(x[i]);
}

static void tanh_codes_kernel(size_t n, float m, float steps, float *t)
{
    const float twice = 2.0f * m;
    for (size_t i = 0; i < n; i++) {
        const float u = m == 0.0f ? 0.5f : qg_clamp(t[i] / twice + 0.5f, 0.0f, 1.0f);
        t[i] = 2.0f * (qg_round_even(u * steps) / steps) - 1.0f;
    }
}

static void tanh_slope_kernel(size_t n, const float *x, const float *dy, float m, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        const float t = qg__tanh(x[i]);
        dx[i] += dy[i] * (1.0f - t * t) / m;
    }
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

static void uniform_kernel(size_t n, uint64_t key, size_t first, float *u)
{
    /* 24 bits fit an int32_t, which every machine turns into floats by the vector. */
    for (size_t i = 0; i < n; i++)
        u[i] = (float)(int32_t)(qg_bits(key, first + i) >> 40) * 0x1p-24f;
}

const qg_map_kernels QG_PER_ISA(qg__map) = {
    .ternary     = ternary_kernel,
    .tanh        = tanh_kernel,
    .tanh_codes  = tanh_codes_kernel,
    .tanh_slope  = tanh_slope_kernel,
    .linear      = linear_kernel,
    .dorefa_even = dorefa_even_kernel,
    .dorefa_up   = dorefa_up_kernel,
    .pact        = pact_kernel,
    .lsq         = lsq_kernel,
    .uniform     = uniform_kernel,
};
