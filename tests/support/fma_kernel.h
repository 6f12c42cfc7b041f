/* tests/support/fma_kernel.h — the multiply-adds of core/kernels/fma.h, for each instruction set. */
#ifndef FMA_KERNEL_H
#define FMA_KERNEL_H

#include <stddef.h>

#include "core/kernels/cpu.h"

typedef struct fma_kernels {
    /* y = a b + c in each element; n is a multiple of 16. */
    void (*vectors)(size_t n, const float *a, const float *b, const float *c, float *y);
    void (*floats)(size_t n, const float *a, const float *b, const float *c, float *y);
} fma_kernels;

QG_DECLARE_KERNELS(fma_kernels, fma_kernels);

#endif
