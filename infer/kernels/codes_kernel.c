#include "infer/kernels/codes.h"

#include <math.h>

#include "infer/kernels/lanes.h"
#include "infer/kernels/planes.h"

/* Bits of x[k] >= threshold, k < n <= 64. */
INLINE uint64_t compare(const float *x, int n, float threshold)
{
    const vf t    = splat(threshold);
    uint64_t bits = 0;
    int      k    = 0;
    for (; k + VL <= n; k += VL) bits |= (uint64_t)at_least(*(const vf *)(x + k), t) << k;
    for (; k < n; k++) bits |= (uint64_t)(x[k] >= threshold) << k;
    return bits;
}

INLINE void compare_all(const float *x, int n, int count, const float *threshold, uint64_t *bits)
{
    for (int t = 0; t < count; t++) bits[t] = compare(x, n, threshold[t]);
}

static void by_thresholds(qg__alphabet a, const float *threshold, size_t pixels, int c, const float *x,
                          uint64_t *packed)
{
    const size_t plane_words = qg__words(c);
    const int    count = qg__values(a) - 1;
    for (size_t i = 0; i < pixels; i++, x += c, packed += (size_t)a.bits * plane_words)
        for (size_t w = 0; w < plane_words; w++) {
            const int      n = w + 1 < plane_words ? 64 : c - (int)(64 * w);
            const uint64_t all = ~(uint64_t)0 >> (64 - n);
            uint64_t       bits[QG__MOST_THRESHOLDS];
            /* With constant numbers of vectors where they are usual. */
            if (n == 64) compare_all(x + 64 * w, 64, count, threshold, bits);
            else if (n == 32) compare_all(x + 64 * w, 32, count, threshold, bits);
            else if (n == 16) compare_all(x + 64 * w, 16, count, threshold, bits);
            else compare_all(x + 64 * w, n, count, threshold, bits);
            for (int j = 0; j < a.bits; j++)
                packed[(size_t)j * plane_words + w] = qg__plane_of(a, j, bits) & all;
        }
}

static void to_grid(qg__grid grid, size_t n, const float *x, uint8_t *codes)
{
    const float lowest = (float)grid.lowest, highest = (float)grid.highest;
    for (size_t i = 0; i < n; i++) {
        /* The sum of rint and the zero point is exact wherever it is not clipped. */
        float code = rintf(x[i] / grid.scale) + (float)grid.zero;
        code       = code > lowest ? code : lowest;
        code       = code < highest ? code : highest;
        codes[i]   = (uint8_t)(int)code;
    }
}

const qg__pack_kernels QG_PER_ISA(qg__pack_kernels) = {
    .by_thresholds = by_thresholds,
    .to_grid       = to_grid,
};
