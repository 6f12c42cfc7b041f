/* infer/product.h — a convolution or dense product of any operands, as evaluation and the engine compute it
 * (internal).
 *
 *     acc[n][oh][ow][oc] = sum over the taps inside the image of w * x
 *
 * An operand is floats or codes.  The code u = 0, 1, .. stands for the integer lowest + step * u.  Where both
 * operands are codes, acc is int32 and exact; else it is float, in an order that depends neither on the
 * batch nor on the tile.  Each output may have a zero point of its own (zeros): its weights are then the
 * numbers 0 .. count - 1 of codes minus that, and of integers acc = sum of code * x - zero * sum of x.  The
 * kernels (infer/kernels/plain.h) are chosen by the operands:
 *
 *     x stored as    w                                       kernels
 *     bits           codes of an alphabet, without zeros     bits
 *     bytes          codes of an alphabet, or of 8 bits      int8
 *     floats         anything                                real
 *
 * Most products of bits can be computed on bytes as well, with the same sums: x_bytes asks for that.
 *
 * Kernels know no groups: each group runs on a copy of its channels, and products with one channel per
 * group have loops of their own.  An image that a dense layer reads is one pixel.  Memory belongs to the
 * caller; weights and scratch are aligned to 64 bytes.  Nothing here is parallel: threads run different
 * images.
 *
 * isa says whose kernels (infer/kernels/isa.h).  Packed weights and sizes depend on it, so it must be the
 * same in all calls for one product.
 */
#ifndef QG_INFER_PRODUCT_H
#define QG_INFER_PRODUCT_H

#include <stdbool.h>

#include "infer/kernels/plain.h"

typedef enum qg__coding {
    QG__AS_FLOATS,      /* float [n][h][w][c] */
    QG__AS_BITS,        /* packed bits of qg__alphabet_of (infer/kernels/codes.h) */
    QG__AS_BYTES        /* uint8_t [n][h][w][c], value - lowest */
} qg__coding;

/* Bytes of an image of this size. */
size_t qg__image_bytes(qg__coding coding, qg__codes codes, int h, int w, int c);

typedef struct qg__product {
    qg__geometry g;     /* c and oc: of all groups together */
    int          groups;
    qg__codes    x, w;
    bool         two_sided;     /* w is -1, 0, 1, and acc has the sums of positive weights for n images,
                                   then those of negative weights, not negated */
    bool         zeros;         /* w is { 0, 1, count }, at most 256, and stands for w - zero, where the
                                   zero point of each output is one of these codes, too */
    float        pad;   /* what taps outside the image read; a value of x */
    bool         x_bytes;       /* x is bytes, not bits; qg__product_may_be_bytes */
} qg__product;

/* How x must be stored.  Floats if one operand is floats, or if no kernel has the codes; their values are
 * then not codes but the quantized numbers, or any others. */
qg__coding qg__product_coding(const qg__product *p);
bool       qg__product_may_be_bytes(const qg__product *p);
bool       qg__product_is_depthwise(const qg__product *p);     /* a channel per group */
bool       qg__product_is_exact(const qg__product *p);     /* acc is int32 */

/* What the kernels compute of a group, and of one side. */
qg__plain_product qg__product_plain(const qg__product *p);

/* Whether all sizes are legal and all sums of integers fit. */
bool   qg__product_fits(const qg__product *p);

size_t qg__product_weight_bytes(qg_isa isa, const qg__product *p);
/* row[kh][kw][c / groups] of output o: floats, or integers that w has.  With zeros, the zero point comes
 * first.  The outputs of a unit, which begins at a multiple of qg__product_pack_unit, must be packed in
 * order; threads may share the units. */
void   qg__product_pack(qg_isa isa, const qg__product *p, int o, const float *row, void *packed);
int    qg__product_pack_unit(const qg__product *p);
size_t qg__product_scratch_bytes(qg_isa isa, const qg__product *p, int n);
void   qg__product_run(qg_isa isa, const qg__product *p, int n, const void *x, const void *packed, void *acc,
                       void *scratch);

/* Whether the kernel can finish its sums itself; and the same as qg__product_run with what follows, so that
 * y has no sums but floats or codes [n][oh][ow][oc].  The numbers are those of qg__product_scale and of
 * qg__requantize_kernels.find. */
bool   qg__product_finishes(const qg__product *p);
void   qg__product_run_finished(qg_isa isa, const qg__product *p, int n, const void *x, const void *packed,
                                const qg__finish *finish, void *y, void *scratch);

/* z = fl(fl(a acc) + b), or two-sided fl(fl(fl(a accP) - fl(an accN)) + b), for so many pixels of [oc], none
 * contracted on any instruction set.  a, an and b have [oc] numbers. */
typedef struct qg__scales {
    const float *a, *an, *b;
} qg__scales;
void   qg__product_scale(qg_isa isa, const qg__product *p, qg__scales k, size_t pixels, const void *acc,
                         float *z);

/* Of an exact product that is not two-sided: z of acc[n], a sum of each channel from `first` on. */
void   qg__product_scale_channels(qg_isa isa, qg__scales k, int first, int n, const int32_t *acc, float *z);

/* Likewise, the largest |acc|, less than INT32_MAX; and least[n], the smallest v such that acc = v ^ flip[n]
 * gives z >= bound, of at most QG__MOST_CHANNELS channels.  flip is 0, or -1 where a is negative. */
enum { QG__MOST_CHANNELS = 256 };
int32_t qg__product_largest_sum(const qg__product *p);
void    qg__product_least_sums(qg_isa isa, const qg__product *p, qg__scales k, int first, int n, float bound,
                               const int32_t *flip, int32_t *least);

#endif
