#include "infer/kernels/scale.h"

#include <stdbool.h>

#include "infer/kernels/lanes.h"

/* n <= VL sums as floats; integers have the size of floats. */
INLINE vf sums_of(bool exact, const void *acc, size_t at, int n)
{
    const vf raw = load((const float *)acc + at, n);
    return exact ? __builtin_convertvector((vi)raw, vf) : raw;
}

INLINE void scale(bool exact, const float *a, const float *an, const float *b, const void *acc,
                  const void *negative, size_t at, int k, int n, float *z)
{
    vf sum = load(a + k, n) * sums_of(exact, acc, at, n);
    if (negative) sum -= load(an + k, n) * sums_of(exact, negative, at, n);
    store(z + at, sum + load(b + k, n), n);
}

INLINE void scale_all(bool exact, size_t pixels, int c, const float *a, const float *an, const float *b,
                      const void *acc, const void *negative, float *z)
{
    for (size_t i = 0; i < pixels; i++) {
        const size_t at = i * (size_t)c;
        int          k  = 0;
        for (; k + VL <= c; k += VL) scale(exact, a, an, b, acc, negative, at + (size_t)k, k, VL, z);
        if (k < c) scale(exact, a, an, b, acc, negative, at + (size_t)k, k, c - k, z);
    }
}

static void reals(size_t pixels, int c, const float *a, const float *b, const float *acc, float *z)
{
    scale_all(false, pixels, c, a, NULL, b, acc, NULL, z);
}

static void integers(size_t pixels, int c, const float *a, const float *b, const int32_t *acc, float *z)
{
    scale_all(true, pixels, c, a, NULL, b, acc, NULL, z);
}

static void two_reals(size_t pixels, int c, const float *a, const float *an, const float *b, const float *acc,
                      const float *negative, float *z)
{
    scale_all(false, pixels, c, a, an, b, acc, negative, z);
}

static void two_integers(size_t pixels, int c, const float *a, const float *an, const float *b,
                         const int32_t *acc, const int32_t *negative, float *z)
{
    scale_all(true, pixels, c, a, an, b, acc, negative, z);
}

const qg__scale_kernels QG_PER_ISA(qg__scale_kernels) = {
    .reals        = reals,
    .integers     = integers,
    .two_reals    = two_reals,
    .two_integers = two_integers,
};
