/* core/kernels/norm_kernel.h — the passes of batch norm over one block of rows.
 *
 * A block is one image ([h][w] rows of c channels) or, for vectors, a slice of the batch.  Sums are taken over
 * parts of a block, in float lanes relative to the part's first row, so that little is lost when the mean is
 * large compared with the deviation; parts are combined in double.
 */
#ifndef QG_NORM_KERNEL_H
#define QG_NORM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/kernels/cpu.h"

/* A whole block: h x w rows of x, pool x pool windows, the remainder unused.
 * pool 1 means none, and which is then NULL. */
typedef struct qg__window {
    int h, w, c, pool;
} qg__window;

/* Rows in a part, except a block's last: an unusual first row costs accuracy in its part alone. */
enum { QG__NORM_PART = 1024 };

static inline size_t qg__norm_parts(size_t rows) { return (rows + QG__NORM_PART - 1) / QG__NORM_PART; }

typedef struct qg__norm_kernels {
    /* For each part, sums [parts][3][c]:
     * sums[0][k] = x[0][k];  sums[1][k] = sum of (x - sums[0]);  sums[2][k] = sum of its square */
    void (*sums)(size_t rows, int c, const float *x, float *sums);

    /* y = max over the window of (a (x - mean) + b), not below lo;  which = index of the maximum,
     * row-major in the window, the first of equals.  add, with pool 1 only and else NULL, joins before
     * lo. */
    void (*forward)(qg__window g, const float *x, const float *mean, const float *a, const float *b,
                    const float *add, float lo, float *y, uint8_t *which);

    /* sums[0][k] = sum of dz;  sums[1][k] = sum of dz (x - mean), x at the window's maximum */
    void (*grad_sums)(qg__window g, const float *x, const float *dz, const uint8_t *which,
                      const float *mean, float *sums);

    /* dx = a dz + (p (x - mean) + q), or +=, by two fused multiply-adds; without a dz where x is not the maximum
     * of its window. */
    void (*grad_input)(qg__window g, const float *x, const float *dz, const uint8_t *which,
                       const float *mean, const float *a, const float *p, const float *q,
                       bool accumulate, float *dx);
} qg__norm_kernels;

QG_DECLARE_KERNELS(qg__norm_kernels, qg__norm_kernels);

#endif
