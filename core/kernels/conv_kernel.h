/* core/kernels/conv_kernel.h — convolution of one NHWC image by register tiles: directly, or 3 x 3 by Winograd's
 * algorithm.
 *
 *     y[r][q][o] = bias[o] + sum over i, j, c of
 *                            x[r * stride + i][q * stride + j][c] * w[o][i][j][c]
 *
 * and its two derivatives.  The image already carries its padding (qg__pad), so the kernels
 * compute a valid convolution: oh = (h - kh) / stride + 1, ow likewise, every size >= 1.  They are
 * single-threaded, allocate nothing and assume that sizes were checked.
 *
 * Weights are packed once per step into blocks of channels, the last block filled up with zeros:
 *     forward    [blocks of oc][points][c][block]
 *     backward   [blocks of c][points][oc][block], the kernel turned by half a turn
 * and their gradient is collected in the layout of the former.  The points are the kh * kw weights of
 * a kernel; Winograd's algorithm has 16 (core/kernels/winograd_kernel.c).  Packed arrays and scratch are 64-byte
 * aligned; images, bias and w need no more than a float's alignment.
 *
 * Every sum, Winograd's at each point, is one chain of multiply-adds, in an order that the geometry
 * fixes (y: kernel row, column, channel; dw: image, row, column), whatever tile it falls into.  So
 * results depend neither on how a caller cuts blocks, units or images, nor, where the machine has FMA,
 * on the length of its vectors.
 */
#ifndef QG_CONV_KERNEL_H
#define QG_CONV_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "core/kernels/cpu.h"

typedef struct qg__conv {
    int h, w, c;            /* input image, padding included */
    int oh, ow, oc;         /* output image */
    int kh, kw, stride;
} qg__conv;

static inline float *qg__fill(float *to, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) to[i] = value;
    return to + n;
}

/* Rows and columns around an image, and what lies there. */
typedef struct qg__frame {
    int   top, left, bottom, right;
    float value;
} qg__frame;

/* padded[top + h + bottom][left + w + right][c] = x[h][w][c] inside its frame. */
static inline void qg__pad(int h, int w, int c, qg__frame f, const float *x, float *padded)
{
    const size_t inside = (size_t)w * (size_t)c, line = inside + (size_t)(f.left + f.right) * (size_t)c;
    const size_t left = (size_t)f.left * (size_t)c, right = (size_t)f.right * (size_t)c;
    /* What is right of one row and left of the next lies side by side. */
    float *to = qg__fill(padded, (size_t)f.top * line + left, f.value);
    for (int r = 0; r < h; r++, x += inside) {
        memcpy(to, x, inside * sizeof *x);
        to = qg__fill(to + inside, r + 1 < h ? right + left : right, f.value);
    }
    qg__fill(to, (size_t)f.bottom * line, f.value);
}

typedef struct qg__conv_kernels {
    int lanes;              /* floats in a vector: 16, 8 or 4 */
    int points;             /* of a packed kernel; 0: kh * kw */
    int gap;                /* floats after each point's [c][block], so that points do not share the same
                             * few lines of the cache */

    /* Block b of w; blocks may be packed in any order. */
    void (*pack_forward)(const qg__conv *g, int b, const float *w, float *wf);
    void (*pack_backward)(const qg__conv *g, int b, const float *w, float *wb);

    /* Floats of scratch that forward and weight_gradient need, for g and for its mirror.
     * One array per thread; its contents do not matter. */
    size_t (*scratch)(const qg__conv *g);

    /* Pieces that weight_gradient can be cut into. */
    int (*units)(const qg__conv *g);

    /* y = x * w + bias, all of it; bias may be NULL.  add: y += x * w */
    void (*forward)(const qg__conv *g, const float *x, const float *wf, const float *bias, bool add, float *y,
                    float *scratch);

    /* dx = the derivative for the whole padded image, overwritten.  Exact work for any stride.
     * Where the output is as large as the input, qg__conv_mirror is faster.  Winograd's algorithm is
     * defined for no other case and leaves this NULL. */
    void (*input_gradient)(const qg__conv *g, const float *dy, const float *wb, float *dx);

    /* The numbers of acc that unit u sums: run i begins at *at and has as many as the result says, 0 after the last. */
    size_t (*unit_run)(const qg__conv *g, int u, int i, size_t *at);

    /* acc += the derivative summed over n images, x [n][h][w][c] and dy [n][oh][ow][oc], for units
     * [u0, u1) of the weights.  Small weights: every unit of one image after another.  Large weights: pieces of units,
     * each over a slice of the batch. */
    void (*weight_gradient)(const qg__conv *g, int u0, int u1, int n, const float *x,
                            const float *dy, float *acc, float *scratch);

    /* dw[oc][kh][kw][c] += block b of acc. */
    void (*add_weight_gradient)(const qg__conv *g, int b, const float *acc, float *dw);
} qg__conv_kernels;

QG_DECLARE_KERNELS(qg__conv_kernels, qg__conv_kernels);
QG_DECLARE_KERNELS(qg__conv_kernels, qg__winograd_kernels);

/* Whether Winograd's algorithm is defined for g and was measured to be faster than the direct one.  Above 256
 * channels the gathered inputs and the weights, 16 / 9 times as large, no longer fit a cache; below 16 outputs
 * up to half of the results may be discarded. */
static inline bool qg__winograd_fits(const qg__conv *g)
{
    return g->kh == 3 && g->kw == 3 && g->stride == 1 && g->oh % 2 == 0 && g->ow % 2 == 0 &&
           g->c % 16 == 0 && g->oc % 16 == 0 && g->c <= 256 && g->oc <= 256 &&
           g->oh * g->ow >= 16;
}

/* With stride 1 and kh - 1 rows and kw - 1 columns of padding, where y is as large as the unpadded x, the
 * derivative is such a convolution itself, of dy with the turned kernel.  Pad dy with zeros, above as x is padded
 * below, left as it is on the right and so on; forward of this geometry, with the weights of
 * pack_backward, yields the derivative for the unpadded image: the same work, up to a quarter faster. */
static inline qg__conv qg__conv_mirror(const qg__conv *g)
{
    qg__conv m = *g;
    m.c        = g->oc;
    m.oc       = g->c;
    return m;
}

/* Channels in a block: two vectors, or one where it holds them all. */
static inline int qg__conv_block(const qg__conv_kernels *k, int channels)
{
    return channels <= k->lanes ? k->lanes : 2 * k->lanes;
}

static inline int qg__conv_blocks(const qg__conv_kernels *k, int channels)
{
    const int block = qg__conv_block(k, channels);
    return (channels + block - 1) / block;
}

static inline size_t qg__conv_points(const qg__conv_kernels *k, const qg__conv *g)
{
    return k->points ? (size_t)k->points : (size_t)(g->kh * g->kw);
}

/* Sizes in floats: of wf and of acc, and of wb. */
static inline size_t qg__conv_packed(const qg__conv_kernels *k, const qg__conv *g, int lanes, int rows)
{
    const int block = qg__conv_block(k, lanes);
    return (size_t)qg__conv_blocks(k, lanes) * qg__conv_points(k, g) * ((size_t)rows * (size_t)block + (size_t)k->gap);
}

static inline size_t qg__conv_forward_size(const qg__conv_kernels *k, const qg__conv *g)
{
    return qg__conv_packed(k, g, g->oc, g->c);
}

static inline size_t qg__conv_backward_size(const qg__conv_kernels *k, const qg__conv *g)
{
    return qg__conv_packed(k, g, g->c, g->oc);
}

#endif
