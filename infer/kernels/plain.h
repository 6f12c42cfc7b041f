/* infer/kernels/plain.h — products as kernels compute them: without groups, sides and padding by a value,
 * which infer/product.h adds.
 *
 *     acc[n][oh][ow][oc] = sum over the taps inside the image of w * x
 *
 * Four kinds of kernels have one interface:
 *
 *     bits    x is packed bits of its alphabet (infer/kernels/codes.h), w are codes of an alphabet, and acc
 *             is an exact int32.
 *     int8    x is bytes, each a value minus the lowest one, which is within -255 .. 0; w are 1 to 256
 *             codes, and acc is an exact int32: nothing saturates (infer/kernels/lanes.h).
 *     real    x is floats, w are floats or codes, and acc is floats.  Every output is one chain of additions
 *             that begins with 0, in the order kernel row, column, channel, for any batch and any tile.
 *             Each product is fused with its addition (core/kernels/fma.h).  A weight of 0 adds 0 * x, which
 *             is NaN for an infinite x.
 *     each    x has one channel per output, g.c = g.oc: codes as of int8, or reals, summed as those of real.
 *
 * Packed weights have a layout that depends on the kernel: whoever loads a net packs its rows once, with the
 * kernels that then run it.
 *
 *     bits    A bit per plane.  Channels and outputs are filled up to full groups: channels to 8 and outputs
 *             to 32 ("lookup"), or channels, or the taps of a row together, to 64 and outputs to two vectors
 *             of words, 4 or 16 ("popcount").  Signs have two planes where taps share words.
 *     int8    1, 2 or 4 bits if an alphabet has all codes, else a byte; dense products of the former need 4
 *             bytes more for each output.  Channels are filled up to an even number (AVX-512: to fours),
 *             packed ones to 16, and outputs to two vectors: 32 (AVX-512), 16 (AVX2) or 8.
 *     real    1, 2 or 4 bits, which fill words of 32, if an alphabet has all codes; else a byte; with more
 *             than 256 codes or without codes a float.  Outputs are filled up as those of int8, the last
 *             ones to one vector if they fit.
 *     each    A bit per plane, or a byte, and channels are filled up to 16; or a float.
 *
 * Kernels are single-threaded, allocate nothing and assume what qg__product_fits accepts.  The caller owns
 * all memory.  Packed weights and scratch, whose contents do not matter, are aligned to 64 bytes, all else
 * to its type.  Two calls may run at the same time if they share neither y nor scratch.  Images do not
 * influence each other.
 */
#ifndef QG_INFER_PLAIN_H
#define QG_INFER_PLAIN_H

#include <stdbool.h>

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"
#include "infer/kernels/requantize.h"

typedef struct qg__plain_product {
    qg__geometry      g;
    qg__codes         x, w;         /* .count 0: floats */
    qg__alphabet      xa, wa;       /* that have all of these codes; .bits 0: none has */
    bool              zeros;        /* w[o] stands for w[o] - zero[o]; not of bits */
    const int32_t    *zero;         /* [oc], with zeros; read by run */
    const qg__finish *finish;       /* of int8, read by run: y is floats, or a code in a byte, that are made
                                       of sums while they are at hand; NULL: y is acc */
} qg__plain_product;

/* With the alphabets of the codes. */
qg__plain_product qg__plain_of(qg__geometry g, qg__codes x, qg__codes w);

/* Every group of outputs that kernels pack together ends at a multiple of these, except in depthwise ones. */
enum { QG__PACKED = 32, QG__PACKED_BITS = 64 };

typedef struct qg__plain_kernels {
    size_t (*weight_bytes)(const qg__plain_product *p);

    /* Packs n weights of output o, from number `first` of its row [kh][kw][c] on: floats, or integers that
     * are codes.  The outputs of a group must be packed in order, and each from its first weight on, which
     * clears the group. */
    void (*pack_weights)(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed);

    /* Of run for n images. */
    size_t (*scratch_bytes)(const qg__plain_product *p, int n);
    void (*run)(const qg__plain_product *p, int n, const void *x, const void *packed, void *y, void *scratch);
} qg__plain_kernels;

typedef struct qg__bit_kernels {
    qg__plain_kernels plain;
    const char       *name;         /* the method: "lookup" or "popcount" */
    int               outputs;      /* of a group of weights */

    /* What infer/choose.c counts: how often a group of outputs of a pixel passes over the weights, and its
     * steps in all. */
    int   (*passes)(const qg__plain_product *p);
    float (*steps)(const qg__plain_product *p);
} qg__bit_kernels;

QG_DECLARE_KERNELS(qg__bit_kernels, qg__bit_kernels);
QG_DECLARE_KERNELS(qg__plain_kernels, qg__int8_kernels);
QG_DECLARE_KERNELS(qg__plain_kernels, qg__real_kernels);
QG_DECLARE_KERNELS(qg__plain_kernels, qg__each_code_kernels);
QG_DECLARE_KERNELS(qg__plain_kernels, qg__each_real_kernels);

/* Patches of 4 x 4 results of an image, on which Winograd's algorithm computes products of int8.  For as few
 * patches as these, transforming the weights takes longer than the multiplications that it saves. */
enum { QG__TOO_FEW_PATCHES = 3 };
static inline int qg__int8_patches(const qg__geometry *g) { return (g->oh + 3) / 4 * ((g->ow + 3) / 4); }

/* Whether that may save time for n images, with kernels of this shape and c channels. */
static inline bool qg__int8_may_save(const qg__geometry *g, int c, int n)
{
    enum { FEWEST_CHANNELS = 8 };
    return g->stride == 1 && g->kh == g->kw && (g->kh == 3 || g->kh == 5) && c >= FEWEST_CHANNELS &&
           (int64_t)n * qg__int8_patches(g) > QG__TOO_FEW_PATCHES;
}

#endif
