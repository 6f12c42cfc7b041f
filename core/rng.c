#include "core/rng.h"

#include <math.h>

float qg_normal(uint64_t key, uint64_t i)
{
    /* Box-Muller; u1 in (0, 1] keeps the logarithm finite.  Two draws per value, so that value i
     * stays a function of (key, i) alone. */
    const double u1 = ((double)(qg_bits(key, 2 * i) >> 11) + 1.0) * 0x1p-53;
    const double u2 = (double)(qg_bits(key, 2 * i + 1) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u1)) * cos(6.283185307179586 * u2));
}

void qg_permutation(uint64_t key, size_t n, uint32_t *order)
{
    for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
    /* Fisher-Yates.  The modulo bias is below n / 2^64. */
    for (size_t i = n; i > 1; i--) {
        const size_t   j = (size_t)(qg_bits(key, i) % i);
        const uint32_t o = order[i - 1];
        order[i - 1]     = order[j];
        order[j]         = o;
    }
}
