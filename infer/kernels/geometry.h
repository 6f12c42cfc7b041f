/* infer/kernels/geometry.h — the shape of a product of the engine, and the order in which kernels visit its
 * outputs.
 *
 * A product is a convolution of n NHWC images or, with one pixel and a kernel of 1 x 1, a dense layer:
 *
 *     y[r][q][o] = sum over i, j, c of  x[r * stride + i - top][q * stride + j - left][c] * w[o][i][j][c]
 *
 * Taps outside the image contribute nothing, so padding is a real zero in every alphabet, also where the
 * codes have no zero, as signs, or another code for it, as int8 with a zero point.  Kernels leave these
 * taps out and need no padded copy.
 */
#ifndef QG_INFER_GEOMETRY_H
#define QG_INFER_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* oh and ow need not follow from the other sizes: windows may lie partly or completely outside of the image
 * on every side. */
typedef struct qg__geometry {
    int h, w, c;            /* input image */
    int oh, ow, oc;         /* output image */
    int kh, kw, stride;
    int top, left;          /* rows and columns of padding before the image */
} qg__geometry;

/* Whether all sizes are at least 1, top and left at least 0, and all of them and oh * stride + kh, ow *
 * stride + kw at most 2^30; and whether pixels * c, outputs * oc and weights, all of one image, are at most
 * 2^31 - 1. */
bool qg__geometry_valid(const qg__geometry *g);

static inline size_t qg__pixels(const qg__geometry *g)  { return (size_t)g->h * (size_t)g->w; }
static inline size_t qg__results(const qg__geometry *g) { return (size_t)g->oh * (size_t)g->ow; }
static inline size_t qg__taps(const qg__geometry *g)    { return (size_t)g->kh * (size_t)g->kw; }

/* Weights of one output. */
static inline size_t qg__row(const qg__geometry *g) { return qg__taps(g) * (size_t)g->c; }

/* Whether each output reads the pixel at its place and no other, as in a dense layer. */
static inline bool qg__is_pointwise(const qg__geometry *g)
{
    return qg__taps(g) == 1 && !g->top && !g->left && g->oh == g->h && g->ow == g->w;
}

/* Bytes rounded up to lines of the cache. */
static inline size_t qg__lines_of(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Scratch for codes covers this many of n images: all of a batch whose images have one output, so that a
 * tile finds pixels there, too, and a single large image. */
static inline int qg__images_at_once(const qg__geometry *g, int n)
{
    const size_t tile = 42,
                 most = (tile + qg__results(g) - 1) / qg__results(g); /* 42: tiles of 6 and of 14 */
    return (size_t)n < most ? n : (int)most;
}

/* Outputs a constant distance apart, which read the same taps [i0, i1) x [j0, j1), none of them outside of
 * the image.
 */
typedef struct qg__line {
    int       outputs;
    size_t    x, y;             /* the first: its pixel under tap (i0, j0), and its number, both over all
                                   images */
    ptrdiff_t x_step, y_step;   /* from one output to the next, in pixels and outputs */
    int       i0, i1, j0, j1;
} qg__line;

/* Calls visit for lines that together contain each output of n images once.  A line runs along the longest
 * axis of a rectangle of outputs with the same taps: along a row, a column, or from image to image. */
void qg__lines(const qg__geometry *g, int n, void (*visit)(void *context, const qg__line *line),
               void *context);

/* sums[y] = sum over the taps of output y that are inside the image of x[pixel]; x and sums have n images. */
void qg__window_sums(const qg__geometry *g, int n, const int32_t *x, int32_t *sums);

#endif
