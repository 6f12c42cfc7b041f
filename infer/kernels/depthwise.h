/* infer/kernels/depthwise.h — convolutions of one channel per output, whose vectors run over channels.
 *
 *     y[n][oh][ow][k] = sum over the taps inside the image of w[i][j][k] * x[k]
 *
 * g.c and g.oc are equal.  Weights are [kh][kw][c] floats or integers.  Floats are summed as in infer/kernels/real.h.  Sums of
 * codes must fit into int32.  Nothing needs more alignment than its type, and there is no scratch.
 */
#ifndef QG_INFER_DEPTHWISE_H
#define QG_INFER_DEPTHWISE_H

#include "core/kernels/cpu.h"
#include "infer/kernels/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qg__each_kernels {
    void (*reals)(const qg__geometry *g, int n, const float *x, const float *w, float *y);

    /* Of the values x - x_zero. */
    void (*codes)(const qg__geometry *g, int x_zero, int n, const uint8_t *x, const int32_t *w, int32_t *acc);
} qg__each_kernels;

QG_DECLARE_KERNELS(qg__each_kernels, qg__each_kernels);

#ifdef __cplusplus
}
#endif

#endif
