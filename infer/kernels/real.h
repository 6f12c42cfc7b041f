/* infer/kernels/real.h — products of float activations with signs or ternary weights, which stay packed.
 *
 *     y[n][oh][ow][oc] = sum over the taps inside the image of w * x,   w in { -1, 1 } or { -1, 0, 1 }
 *
 * Every output is one chain of additions that begins with 0, in the order kernel row, column, channel.  A product w * x is
 * exact, so each addition rounds once whether or not the machine fuses it with the product: results have the same bits on
 * every instruction set, for any batch and for any tile.  A weight of 0 adds 0 * x, which is NaN for an infinite x, as in a
 * product of floats.
 *
 * Packed weights take one bit per plane, with outputs filled up to two vectors: 32 (AVX-512), 16 (AVX2) or 8.  Memory,
 * alignment and threads are as in infer/kernels/bits.h; x and y need the alignment of a float.  Scratch, of any contents,
 * holds the weights of two vectors of outputs as floats; it does not depend on the batch.
 */
#ifndef QG_INFER_REAL_H
#define QG_INFER_REAL_H

#include <stdbool.h>

#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qg__real_product {
    qg__geometry g;
    qg__alphabet w;         /* qg__signs() or qg__ternary() */
} qg__real_product;

/* Whether sizes and the alphabet are legal. */
bool qg__real_fits(const qg__real_product *p);

typedef struct qg__real_kernels {
    size_t (*weight_bytes)(const qg__real_product *p);

    /* Packs the weights of output o, values[kh][kw][c].  Rows must be packed in the order o = 0, 1, .., oc - 1. */
    void (*pack_weights)(const qg__real_product *p, int o, const int8_t *values, void *packed);

    size_t (*scratch_bytes)(const qg__real_product *p);
    void   (*run)(const qg__real_product *p, int n, const float *x, const void *packed, float *y, void *scratch);
} qg__real_kernels;

QG_DECLARE_KERNELS(qg__real_kernels, qg__real_kernels);

#ifdef __cplusplus
}
#endif

#endif
