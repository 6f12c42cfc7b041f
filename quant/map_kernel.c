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

static void uniform_kernel(size_t n, uint64_t key, size_t first, float *u)
{
    /* 24 bits fit an int32_t, which every machine turns into floats by the vector. */
    for (size_t i = 0; i < n; i++)
        u[i] = (float)(int32_t)(qg_bits(key, first + i) >> 40) * 0x1p-24f;
}

const qg_map_kernels QG_PER_ISA(qg__map) = {
    ternary_kernel, tanh_kernel, tanh_codes_kernel, tanh_slope_kernel, uniform_kernel,
};
