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

/* v - floor(v) is exact, or 1 for v just below 0; v + u would be rounded, so floor(v + u) could miss -most. */
static void draw_codes(const qg__stochastic *f, size_t n, size_t first, float *v)
{
    float u[QG_CHUNK];
    uniform_kernel(n, f->key, first, u);
    for (size_t i = 0; i < n; i++) {
        const float below = qg_floor(v[i]);
        v[i] = below + (u[i] < v[i] - below ? 1.0f : 0.0f);
    }
}

static void stochastic_kernel(const qg__stochastic *f, size_t n, const float *x, size_t first, float *y)
{
    const float range = f->range, most = f->most, step = f->step;
    float       v[QG_CHUNK];
    for (size_t at = 0; at < n; at += QG_CHUNK) {
        const size_t m = qg__smaller(n - at, QG_CHUNK);
        for (size_t i = 0; i < m; i++) v[i] = qg_clamp(x[at + i] / range * most, -most, most);
        if (f->draws) draw_codes(f, m, first + at, v);
        else
            for (size_t i = 0; i < m; i++) v[i] = qg_round_even(v[i]) + 0.0f;       /* of -0 too: +0 */
        if (f->adds)
            for (size_t i = 0; i < m; i++) y[at + i] += v[i] * step;
        else
            for (size_t i = 0; i < m; i++) y[at + i] = v[i] * step;
    }
}

const qg__noise_kernels QG_PER_ISA(qg__noise) = { .uniform         = uniform_kernel,
                                                  .stochastic_sign = stochastic_sign_kernel,
                                                  .stochastic      = stochastic_kernel };
