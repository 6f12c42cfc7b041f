/* infer/kernels/int8.h — products of 8-bit activations with weights of 8 bits, or of 1 to 4 bits that stay
 * packed.
 *
 *     acc[o] = sum over the taps inside the image of (x - x_zero) * w
 *
 * x is uint8_t [n][h][w][c], w are codes [oc][kh][kw][c], acc is int32 [n][oh][ow][oc].  Padding
 * is a real zero, as if it had the code x_zero.  Sums are scaled and quantized while they are at hand, if
 * the caller asks for that, so they need no memory.
 *
 * Results are exact.  |x - x_zero| is at most 255, so 255 * max|w| * kh * kw * c must be within int32.
 * Nothing saturates on any instruction set (infer/kernels/lanes.h).
 *
 * Packed weights take a byte per weight, or 1, 2 or 4 bits if an alphabet has all codes; dense products of
 * such need 4 bytes more for each output.  Channels are filled up to an even number (AVX-512: to fours), the
 * packed ones of an output to 16, and outputs to two vectors: 32 (AVX-512), 16 (AVX2) or 8.  Packed weights
 * become bytes in scratch, one block of outputs at a time, or in registers, in dense products of few results
 * and with AVX2 of any number.  Without AVX-512 those of kernels of 3 x 3 and 5 x 5 become Winograd's
 * (infer/kernels/winograd.h).  Memory, alignment and threads are as in infer/kernels/bits.h; x needs no
 * alignment.
 */
#ifndef QG_INFER_INT8_H
#define QG_INFER_INT8_H

#include <stdbool.h>

#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"
#include "infer/kernels/requantize.h"

typedef struct qg__int8_product {
    qg__geometry   g;
    int            x_zero;      /* 0 .. 255 */
    qg__codes      w;           /* 1 .. 256 of them */
    bool           zeros;       /* w[o] stands for w[o] - zero[o] */
    const int32_t *zero;        /* [oc], with zeros; read by run */
} qg__int8_product;

typedef struct qg__int8_kernels {
    size_t (*weight_bytes)(const qg__int8_product *p);

    /* As in infer/kernels/bits.h, of integers that are codes. */
    void (*pack_weights)(const qg__int8_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed);

    size_t (*scratch_bytes)(const qg__int8_product *p, int n);

    /* y: acc, or with a finish floats or codes of as many numbers, a code in a byte. */
    void (*run)(const qg__int8_product *p, int n, const void *x, const void *packed, const qg__finish *finish,
                void *y, void *scratch);
} qg__int8_kernels;

/* Whether Winograd's algorithm may save multiplications, of kernels of this shape and c channels. */
static inline bool qg__int8_may_save(const qg__geometry *g, int c)
{
    enum { FEWEST_CHANNELS = 8 };
    return g->stride == 1 && g->kh == g->kw && (g->kh == 3 || g->kh == 5) && c >= FEWEST_CHANNELS;
}

QG_DECLARE_KERNELS(qg__int8_kernels, qg__int8_kernels);

#endif
