#include "core/rng.h"

#include <math.h>

#include "core/kernels/functions.h"

float qg_normal(uint64_t key, uint64_t i)
{
    /* Box-Muller; u1 in (0, 1] keeps the logarithm finite.  Two draws per value, so that value i
     * stays a function of (key, i) alone. */
    const double u1 = ((double)(qg_bits(key, 2 * i) >> 11) + 1.0) * 0x1p-53;
    const double u2 = (double)(qg_bits(key, 2 * i + 1) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * qg__log(u1)) * qg__cos_pi(2 * u2));
}
