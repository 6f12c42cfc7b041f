#include "tests/support/fma_kernel.h"

#include "core/kernels/fma.h"

static void vectors(size_t n, const float *a, const float *b, const float *c, float *y)
{
    for (size_t i = 0; i < n; i += VL)
        store(y + i, fma_of(load(a + i, VL), load(b + i, VL), load(c + i, VL)), VL);
}

static void floats(size_t n, const float *a, const float *b, const float *c, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = fma_of_floats(a[i], b[i], c[i]);
}

const fma_kernels QG_PER_ISA(fma_kernels) = { vectors, floats };
