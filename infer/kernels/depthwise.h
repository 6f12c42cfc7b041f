/* infer/kernels/depthwise.h — convolutions of one channel per output, whose vectors run over channels.
 *
 *     y[n][oh][ow][k] = sum over the taps inside the image of w[i][j][k] * x[k]
 *
 * g.c and g.oc are equal.  Floats are summed as in infer/kernels/real.h.  Sums of codes must fit into int32.
 *
 * Packed weights take a bit per plane of the alphabet that has all codes, else a byte, and channels are
 * filled up to groups of 16; with more than 256 codes or without codes they are floats.  Each call of reals
 * or codes first makes numbers of them in scratch, which takes about as long as using each weight once or
 * twice.  Packed weights and scratch are aligned to 64 bytes, all else to its type.  Scratch may hold
 * anything before; threads and memory are as in infer/kernels/bits.h.
 */
#ifndef QG_INFER_DEPTHWISE_H
#define QG_INFER_DEPTHWISE_H

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"

typedef struct qg__each_product {
    qg__geometry   g;
    qg__codes      w;           /* at most 256 for codes */
    int            x_zero;        /* codes are the values x - x_zero */
    const int32_t *zero;        /* [oc]: codes w[o], at most 256, stand for w[o] - zero[o]; read by reals
                                   and codes.  NULL: for themselves */
} qg__each_product;

typedef struct qg__each_kernels {
    size_t (*weight_bytes)(const qg__each_product *p);

    /* As in infer/kernels/bits.h, of floats, or of integers that are codes: n weights of channel o, from
     * tap `first` on. */
    void (*pack_weights)(const qg__each_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed);

    size_t (*scratch_bytes)(const qg__each_product *p);
    void (*reals)(const qg__each_product *p, int n, const float *x, const void *packed, float *y,
                  void *scratch);
    void (*codes)(const qg__each_product *p, int n, const uint8_t *x, const void *packed, int32_t *acc,
                  void *scratch);
} qg__each_kernels;

QG_DECLARE_KERNELS(qg__each_kernels, qg__each_kernels);

#endif
