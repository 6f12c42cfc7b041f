/* tools/bench/peak_kernel.h — what this machine can do at most: the limits that measured speeds are held
 * against.
 *
 * Single-threaded pieces for qg_parallel; whoever calls them reads the clock.  They allocate
 * nothing.  Compiled per instruction set like every kernel, so QGRAD_CPU lowers the limit together
 * with what it limits.
 */
#ifndef TOOLS_BENCH_PEAK_KERNEL_H
#define TOOLS_BENCH_PEAK_KERNEL_H

#include <stddef.h>

#include "core/kernels/cpu.h"

/* Independent chains of multiply-adds, each one vector wide. */
enum { QG_PEAK_CHAINS = 12 };

typedef struct qg__peak_kernels {
    int lanes;              /* floats in a vector: 16, 8 or 4 */

    /* s = s * factor + term, `turns` times, for every s of s[QG_PEAK_CHAINS * lanes]: so many
     * multiply-adds per turn, with no load or store between them.  With factor in [0, 1) every s
     * tends to term / (1 - factor). */
    void (*multiply_add)(long turns, float factor, float term, float *s);

    /* a[i] = b[i] + factor * c[i], i < n: two floats read and one written for each i.  The arrays
     * do not overlap. */
    void (*triad)(size_t n, const float *b, float factor, const float *c, float *a);
} qg__peak_kernels;

QG_DECLARE_KERNELS(qg__peak_kernels, qg__peak_kernels);

#endif
