/* infer/kernels/bits.h — products of codes of 1 to 4 bits (infer/kernels/codes.h), computed on their bits.
 *
 * Packed weights have a layout that depends on the kernel: whoever loads a net packs its rows once, with
 * the kernels that then run it.  A weight takes one bit per plane, and channels and outputs are filled up
 * to full groups: channels to 8 and outputs to 32 ("lookup"), or channels, or the taps of a row together, to
 * 64 and outputs to two vectors of words, 4 or 16 ("popcount").  Signs have two planes where taps share
 * words.
 *
 * Results are exact: int32 acc[n][oh][ow][oc] = sum of w * x over the taps inside the image, all values
 * integers of the alphabets.  qg__bits_fit checks that 4 * 2^(planes of w + planes of x) * kh * kw * (c
 * rounded up to 64), which no intermediate sum exceeds, is within int32: 3 x 3 kernels may have 14.9
 * million channels of signs, or 233 thousand of 4 bits.
 *
 * Kernels are single-threaded, allocate nothing and assume what qg__bits_fit accepts.  The caller owns all
 * memory.  Packed weights and scratch are aligned to 64 bytes, x to 8 and acc to 4.  Two calls may run at
 * the same time if they share neither acc nor scratch.  Images do not influence each other.
 */
#ifndef QG_INFER_BITS_H
#define QG_INFER_BITS_H

#include <stdbool.h>

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"

typedef struct qg__bit_product {
    qg__geometry g;
    qg__alphabet w, x;
} qg__bit_product;

/* Whether sizes and alphabets are legal and all sums fit. */
bool qg__bits_fit(const qg__bit_product *p);

typedef struct qg__bit_kernels {
    const char *name;           /* the method: "lookup" or "popcount" */
    int         outputs;        /* of a group of weights */

    /* What infer/choose.c counts: how often a group of outputs of a pixel passes over the weights, and its
     * steps in all. */
    int   (*passes)(const qg__bit_product *p);
    float (*steps)(const qg__bit_product *p);

    /* Bytes of packed weights. */
    size_t (*weight_bytes)(const qg__bit_product *p);

    /* Packs n weights of output o, from number `first` of its row [kh][kw][c] on: integers of the alphabet.
     * Outputs must be packed in the order o = 0, 1, .., oc - 1, and each from its first weight on, which
     * clears a group. */
    void (*pack_weights)(const qg__bit_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed);

    /* Bytes of scratch that run needs for n images.  Its contents do not matter. */
    size_t (*scratch_bytes)(const qg__bit_product *p, int n);

    /* x is packed [n][h][w][planes][words]. */
    void (*run)(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc,
                void *scratch);
} qg__bit_kernels;

QG_DECLARE_KERNELS(qg__bit_kernels, qg__bit_kernels);

/* For kernels, whose run this is: calls part, with the arguments of run, for qg__images_at_once of the n
 * images at a time, since scratch has room for no more. */
typedef void qg__bits_part(const qg__bit_product *p, int n, const uint64_t *x, const void *packed,
                           int32_t *acc, void *scratch);
void qg__bits_in_parts(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc,
                       void *scratch, qg__bits_part *part);

#endif
