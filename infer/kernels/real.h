/* infer/kernels/real.h — products of float activations with weights that are floats, or codes that stay
 * packed.
 *
 *     y[n][oh][ow][oc] = sum over the taps inside the image of w * x
 *
 * Every output is one chain of additions that begins with 0, in the order kernel row, column, channel, for
 * any batch and any tile.  Each product is fused with its addition (core/kernels/fma.h).  A weight of 0 adds
 * 0 * x, which is NaN for an infinite x.
 *
 * Packed weights take 1, 2 or 4 bits if an alphabet has all codes, and fill words of 32 bits; else a byte,
 * with more than 256 codes or without codes a float.  Outputs are filled up to two vectors: 32 (AVX-512), 16
 * (AVX2) or 8, the last ones to one vector if they fit.
 * Memory, alignment and threads are as in infer/kernels/bits.h; x and y need the alignment of a float.
 * Scratch, of any contents, holds the weights of two vectors of outputs as floats; it does not depend on the
 * batch.
 */
#ifndef QG_INFER_REAL_H
#define QG_INFER_REAL_H

#include <stdbool.h>

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"

typedef struct qg__real_product {
    qg__geometry   g;
    qg__codes      w;
    const int32_t *zero;        /* [oc]: codes w[o], at most 256, stand for w[o] - zero[o]; read by run.
                                   NULL: for themselves */
} qg__real_product;

typedef struct qg__real_kernels {
    size_t (*weight_bytes)(const qg__real_product *p);

    /* As in infer/kernels/bits.h, of floats, or of integers that are codes. */
    void (*pack_weights)(const qg__real_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed);

    size_t (*scratch_bytes)(const qg__real_product *p);
    void   (*run)(const qg__real_product *p, int n, const float *x, const void *packed, float *y,
                  void *scratch);
} qg__real_kernels;

QG_DECLARE_KERNELS(qg__real_kernels, qg__real_kernels);

#endif
