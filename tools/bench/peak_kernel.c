#include "tools/bench/peak_kernel.h"

#include "core/kernels/fma.h"

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* A core starts two multiply-adds per cycle, each taking four or five cycles, so ten chains keep it
 * busy; where product and sum are two instructions they use different units.  Twelve and the two
 * operands fit into sixteen registers.
 *
 * The sum is a factor in the next turn: s + factor * term would be an addition, since a compiler
 * moves the product out of the loop.  The chains come from memory because it would also see that
 * equal ones stay equal. */
static void multiply_add(long turns, float factor, float term, float *s)
{
    const vf f = splat(factor), t = splat(term);
    vf       chain[QG_PEAK_CHAINS];
    UNROLL
    for (int c = 0; c < QG_PEAK_CHAINS; c++) chain[c] = load(s + c * VL, VL);
    for (long turn = 0; turn < turns; turn++)
        UNROLL
        for (int c = 0; c < QG_PEAK_CHAINS; c++) chain[c] = fma_of(chain[c], f, t);
    UNROLL
    for (int c = 0; c < QG_PEAK_CHAINS; c++) store(s + c * VL, chain[c], VL);
}

static void triad(size_t n, const float *b, float factor, const float *c, float *a)
{
    const vf f = splat(factor);
    size_t   i = 0;
    for (; i + VL <= n; i += VL) store(a + i, fma_of(f, load(c + i, VL), load(b + i, VL)), VL);
    for (; i < n; i++) a[i] = fma_of_floats(factor, c[i], b[i]);
}

const qg__peak_kernels QG_PER_ISA(qg__peak_kernels) = {
    .lanes        = VL,
    .multiply_add = multiply_add,
    .triad        = triad,
};
