#include "quant/map.h"

#include "core/rng.h"
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

static void uniform_kernel(size_t n, uint64_t key, size_t first, float *u)
{
    /* 24 bits fit an int32_t, which every machine turns into floats by the vector. */
    for (size_t i = 0; i < n; i++)
        u[i] = (float)(int32_t)(qg_bits(key, first + i) >> 40) * 0x1p-24f;
}

const qg_map_kernels QG_PER_ISA(qg__map) = {
    ternary_kernel,
    tanh_kernel,
    uniform_kernel,
};
