/* Random draws, keyed by the index of the number (core/rng.h). */
#include "quant/kernels.h"

#include "core/rng.h"

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

const qg__noise_kernels QG_PER_ISA(qg__noise) = { .uniform = uniform_kernel, .stochastic_sign = stochastic_sign_kernel };
