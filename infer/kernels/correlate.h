/* infer/kernels/correlate.h — sums over the pixels of an image of products of two of its codes, as in the
 * gradient of the weights of a convolution (internal).
 *
 *     acc[o][i][j][k] += scale * sum over r, q of dy[r][q][o] * x[r stride + i - top][q stride + j - left][k]
 *
 * x and dy are codes, uint8_t [h][w][c] and [oh][ow][oc], which hold a value minus the lowest one.  Outside
 * of the image x is 0.  The sum of an image is an exact integer, rounded to a float, multiplied by the scale
 * and added, each rounded.
 *
 * Both operands are packed once and then read by all units, pieces of acc that callers may divide among
 * threads; the bits depend neither on units nor on the instruction set.  Packed arrays are aligned to 64
 * bytes, and nothing is allocated.
 */
#ifndef QG_INFER_CORRELATE_H
#define QG_INFER_CORRELATE_H

#include <stdbool.h>

#include "core/kernels/cpu.h"
#include "infer/kernels/codes.h"
#include "infer/kernels/geometry.h"

/* Of x, 0 is a value; values of x differ by at most 255, and those of dy are within -127 .. 127. */
typedef struct qg__correlation {
    qg__geometry g;
    qg__codes    x, dy;
} qg__correlation;

/* All of this, and sums fit into int32. */
static inline bool qg__correlation_fits(const qg__correlation *p)
{
    const int64_t span = qg__highest(p->x) - p->x.lowest, reach = qg__reach(p->dy);
    return qg__geometry_valid(&p->g) && p->x.lowest <= 0 && qg__highest(p->x) >= 0 && span <= 255 &&
           reach <= 127 && span * reach * p->g.oh * p->g.ow <= INT32_MAX;
}

typedef struct qg__correlate_kernels {
    size_t (*x_bytes)(const qg__correlation *p);            /* of a packed image */
    size_t (*dy_bytes)(const qg__correlation *p);
    size_t (*frame_bytes)(const qg__correlation *p);        /* scratch of pack_x */
    void   (*pack_x)(const qg__correlation *p, const uint8_t *x, uint8_t *frame, uint8_t *packed);
    void   (*pack_dy)(const qg__correlation *p, const uint8_t *dy, uint8_t *packed);

    int    (*units)(const qg__correlation *p);
    size_t (*unit_floats)(const qg__correlation *p);        /* of the largest unit */

    /* acc: of the unit. */
    void   (*add)(const qg__correlation *p, int unit, const uint8_t *x, const uint8_t *dy, float scale,
                  float *acc);

    /* dw[oc][kh][kw][c], those weights that belong to the unit: set, or added to. */
    void   (*unpack)(const qg__correlation *p, int unit, const float *acc, bool adds, float *dw);
} qg__correlate_kernels;

QG_DECLARE_KERNELS(qg__correlate_kernels, qg__correlate_kernels);

#endif
