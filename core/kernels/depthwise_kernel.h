/* core/kernels/depthwise_kernel.h — convolution of each channel of an NHWC image with a kernel of its own.
 *
 *     y[r][q][k] = bias[k] + sum over i, j of
 *                            x[r * stride + i - top][q * stride + j - left][k] * w[i][j][k]
 *
 * and its two derivatives.  Vectors run over channels.  There are few multiply-adds for each number that is read, so the
 * kernels read images where they are, without a copy that contains the padding.  They are single-threaded, allocate
 * nothing and assume that sizes were checked: every size >= 1, top and left >= 0.  No array needs more than a float's
 * alignment.
 *
 * Every sum is one chain of multiply-adds in an order that the geometry fixes (y: kernel row, column; dx: the same from
 * the last to the first; dw: image, row, column), so results do not depend on the length of vectors, where the machine
 * has FMA.  What lies outside x adds nothing to a chain if pad is 0.
 */
#ifndef QG_DEPTHWISE_KERNEL_H
#define QG_DEPTHWISE_KERNEL_H

#include <stdbool.h>

#include "core/kernels/cpu.h"

typedef struct qg__depthwise {
    int   h, w, c;              /* x; y has as many channels */
    int   oh, ow;
    int   kh, kw, stride;
    int   top, left;            /* rows above x and columns left of it */
    float pad;                  /* what lies there, and below and on the right */
} qg__depthwise;

typedef struct qg__depthwise_kernels {
    /* y = x * w + bias; w [kh][kw][c], bias [c] or NULL. */
    void (*forward)(const qg__depthwise *g, const float *x, const float *w, const float *bias, float *y);

    /* dx = the derivative, or dx += it. */
    void (*input_gradient)(const qg__depthwise *g, const float *dy, const float *w, bool add, float *dx);

    /* acc [kh][kw][c] += the derivative of channels [k0, k1).  From k0 to c there are 16 channels or more, or k0 is 0. */
    void (*weight_gradient)(const qg__depthwise *g, int k0, int k1, const float *x, const float *dy, float *acc);
} qg__depthwise_kernels;

QG_DECLARE_KERNELS(qg__depthwise_kernels, qg__depthwise_kernels);

#endif
