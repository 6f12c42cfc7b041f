/* Random draws, keyed by the index of the number (core/rng.h). */
#include "quant/kernels.h"

#include "core/rng.h"
#include "quant/reduce.h"
#include "quant/round.h"

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

static void stochastic_sign_kernel(size_t n, const float *x, uint64_t key, size_t first, float *y)
{
    /* No clip is needed: draws lie in [0, 1). */
    uint64_t counter = key + (first + 1) * counter_step;
    for (size_t i = 0; i < n; i++, counter += counter_step)
        y[i] = uniform_at(counter) < (x[i] + 1.0f) * 0.5f ? 1.0f : -1.0f;
}

/* --- gradients ------------------------------------------------------------------------------ */

static void uniform_fast(size_t n, uint64_t key, size_t first, float *u)
{
    for (size_t i = 0; i < n; i++) u[i] = qg_uniform_fast(key, first + i);
}

/* v - floor(v) is exact, or 1 for v just below 0.  v + u would be rounded, and floor(v + u) could miss -most. */
static void stochastic_codes(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *v)
{
    const float range = f->range, most = f->most;
    float       u[QG_CHUNK];
    for (size_t i = 0; i < n; i++) v[i] = qg_clamp(x[i] / range * most, -most, most);
    if (f->draws) {
        uniform_fast(n, f->key, first, u);
        for (size_t i = 0; i < n; i++) {
            const float below = qg_floor(v[i]);
            v[i] = below + (u[i] < v[i] - below ? 1.0f : 0.0f);
        }
    } else
        for (size_t i = 0; i < n; i++) v[i] = qg_round_even(v[i]) + 0.0f;       /* of -0 too: +0 */
}

static void dorefa_codes(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *v)
{
    const float range = f->range, most = f->most, each = 1.0f / most;
    float       u[QG_CHUNK];
    for (size_t i = 0; i < n; i++) v[i] = x[i] / range * 0.5f + 0.5f;
    if (f->draws) {
        uniform_fast(n, f->key, first, u);
        for (size_t i = 0; i < n; i++) v[i] += (u[i] - 0.5f) * each;
    }
    for (size_t i = 0; i < n; i++) v[i] = qg_round_even(qg_clamp(v[i], 0.0f, 1.0f) * most);
}

/* The codes of n numbers of x in chunks, and what becomes of them. */
#define IN_CHUNKS(codes, ...)                                             \
    float v[QG_CHUNK];                                                    \
    for (size_t at = 0; at < n; at += QG_CHUNK) {                         \
        const size_t m = qg__smaller(n - at, QG_CHUNK);                   \
        codes(f, m, x + at, first + at, v);                               \
        for (size_t i = 0; i < m; i++) __VA_ARGS__;                       \
    }

static void stochastic_kernel(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *y)
{
    const float step = f->step;
    if (f->adds) { IN_CHUNKS(stochastic_codes, y[at + i] += v[i] * step) }
    else { IN_CHUNKS(stochastic_codes, y[at + i] = v[i] * step) }
}

/* The factor 2 is not multiplied with the range, because 2 range may be infinite; it is exact in any place. */
static void dorefa_kernel(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, float *y)
{
    const float range = f->range, most = f->most;
    if (f->adds) { IN_CHUNKS(dorefa_codes, y[at + i] += range * (2.0f * (v[i] / most - 0.5f))) }
    else { IN_CHUNKS(dorefa_codes, y[at + i] = range * (2.0f * (v[i] / most - 0.5f))) }
}

static void stochastic_bytes_kernel(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, uint8_t *y)
{
    const float most = f->most;
    IN_CHUNKS(stochastic_codes, y[at + i] = (uint8_t)(int32_t)(v[i] + most))
}

static void dorefa_bytes_kernel(const qg__gradient_rounding *f, size_t n, const float *x, size_t first, uint8_t *y)
{
    IN_CHUNKS(dorefa_codes, y[at + i] = (uint8_t)(2 * (int32_t)v[i]))
}

const qg__noise_kernels QG_PER_ISA(qg__noise) = {
    .stochastic_sign  = stochastic_sign_kernel,
    .stochastic       = stochastic_kernel,
    .dorefa           = dorefa_kernel,
    .stochastic_bytes = stochastic_bytes_kernel,
    .dorefa_bytes     = dorefa_bytes_kernel,
};
