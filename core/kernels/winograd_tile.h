/* core/kernels/winograd_tile.h — transforms and products of Winograd's tiles.  For core/kernels/winograd_kernel.c only.
 */
#ifndef QG_WINOGRAD_TILE_H
#define QG_WINOGRAD_TILE_H

#include "core/kernels/conv_tile.h"

/* Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv:1509.09308v2, section 4.1).  A tile of
 * 4 x 4 inputs d, two apart from the next, gives 2 x 2 outputs with 16 multiplications for 36:
 *
 *     Y = At [ (G g Gt) . (Bt d B) ] A        summed over channels before At .. A
 *
 *          1  0 -1  0          1    0    0
 *     Bt = 0  1  1  0     G =  1/2  1/2  1/2     At = 1  1  1  0
 *          0 -1  1  0          1/2 -1/2  1/2          0  1 -1 -1
 *          0  1  0 -1          0    0    1
 *
 * and for the weights, transposed: dg = Gt [ sum over tiles (Bt d B) . (A dY At) ] G.  The sums over
 * channels, or over tiles, are a matrix product at each of the 16 points.  Everything but G is sums and
 * differences, and G halves, so small integers stay exact.  Each input meets the points of those outputs
 * whose windows hold it and no others, so a NaN spreads as it does in the direct way. */
enum { POINTS = 16, SIDE = 4, TAPS = 9 };

/* Channels lie in groups of 16 floats, so that the tiles of a product are a constant apart whatever the
 * number of channels. */
enum { GROUP = 16 };

/* v = Bt d B of one vector of channels. */
INLINE void transform_input(const float *d, ptrdiff_t row, ptrdiff_t col, float *v, ptrdiff_t pitch)
{
    vec r[SIDE][SIDE];
    UNROLL
    for (int j = 0; j < SIDE; j++) {
        const vec d0 = *(const loose *)(d + j * col), d1 = *(const loose *)(d + row + j * col);
        const vec d2 = *(const loose *)(d + 2 * row + j * col), d3 = *(const loose *)(d + 3 * row + j * col);
        r[0][j] = d0 - d2, r[1][j] = d1 + d2, r[2][j] = d2 - d1, r[3][j] = d1 - d3;
    }
    UNROLL
    for (int i = 0; i < SIDE; i++) {
        *(vec *)(v + (SIDE * i + 0) * pitch) = r[i][0] - r[i][2];
        *(vec *)(v + (SIDE * i + 1) * pitch) = r[i][1] + r[i][2];
        *(vec *)(v + (SIDE * i + 2) * pitch) = r[i][2] - r[i][1];
        *(vec *)(v + (SIDE * i + 3) * pitch) = r[i][1] - r[i][3];
    }
}

/* y = At m A + start, or y += At m A. */
INLINE void transform_output(const float *m, ptrdiff_t pitch, const float *start, float *y, ptrdiff_t row,
                             ptrdiff_t col)
{
    vec top[SIDE], low[SIDE];
    UNROLL
    for (int j = 0; j < SIDE; j++) {
        const vec m1 = *(const vec *)(m + (SIDE + j) * pitch), m2 = *(const vec *)(m + (2 * SIDE + j) * pitch);
        top[j] = *(const vec *)(m + j * pitch) + m1 + m2;
        low[j] = m1 - m2 - *(const vec *)(m + (3 * SIDE + j) * pitch);
    }
    float *at[4] = { y, y + col, y + row, y + row + col };
    vec    out[4] = { top[0] + top[1] + top[2], top[1] - top[2] - top[3],
                      low[0] + low[1] + low[2], low[1] - low[2] - low[3] };
    UNROLL
    for (int p = 0; p < 4; p++) *(loose *)at[p] = out[p] + *(const loose *)(start ? start : at[p]);
}

/* Tiles x one block of outputs at one point: the tile of core/kernels/conv_tile.h, its inputs GROUP apart. */
INLINE void multiply_tile(int tiles, int vectors, const float *x, ptrdiff_t x_group, int groups,
                          const float *w, float *y)
{
    vec sum[MOST][2] = { { { 0 } } };
    for (int n = 0; n < groups; n++, x += x_group)
        for (int i = 0; i < GROUP; i++, w += vectors * LANES) {
            vec wv[2];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = *(const vec *)(w + v * LANES);
            UNROLL
            for (int p = 0; p < tiles; p++)
                UNROLL
                for (int v = 0; v < vectors; v++) sum[p][v] += x[p * GROUP + i] * wv[v];
        }
    UNROLL
    for (int p = 0; p < tiles; p++)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vec *)(y + (p * vectors + v) * LANES) = sum[p][v];
}

/* v = A dy At */
INLINE void transform_gradient(const float *dy, ptrdiff_t row, ptrdiff_t col, float *v, ptrdiff_t pitch)
{
    vec r[SIDE][2];
    UNROLL
    for (int j = 0; j < 2; j++) {
        const vec a = *(const loose *)(dy + j * col), b = *(const loose *)(dy + row + j * col);
        r[0][j] = a, r[1][j] = a + b, r[2][j] = a - b, r[3][j] = -b;
    }
    UNROLL
    for (int i = 0; i < SIDE; i++) {
        *(vec *)(v + (SIDE * i + 0) * pitch) = r[i][0];
        *(vec *)(v + (SIDE * i + 1) * pitch) = r[i][0] + r[i][1];
        *(vec *)(v + (SIDE * i + 2) * pitch) = r[i][0] - r[i][1];
        *(vec *)(v + (SIDE * i + 3) * pitch) = -r[i][1];
    }
}

/* Rows of weights x one block of outputs at one point, over the tiles; as weight_tile of the direct kernel. */
INLINE void correlate_tile(int rows, int vectors, const float *x, const float *d, int tiles, float *acc)
{
    vec sum[GROUP][2];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) sum[r][v] = *(const vec *)(acc + (r * vectors + v) * LANES);
    for (int t = 0; t < tiles; t++, x += GROUP, d += vectors * LANES) {
        vec dv[2];
        UNROLL
        for (int v = 0; v < vectors; v++) dv[v] = *(const vec *)(d + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++)
            UNROLL
            for (int v = 0; v < vectors; v++) sum[r][v] += x[r] * dv[v];
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vec *)(acc + (r * vectors + v) * LANES) = sum[r][v];
}

/* u = G g Gt of one vector of channel pairs. */
INLINE void transform_weights(const vec g[TAPS], float *u, ptrdiff_t pitch)
{
    vec r[SIDE][3];
    UNROLL
    for (int j = 0; j < 3; j++) {
        const vec a = g[j], b = g[3 + j], c = g[6 + j];
        r[0][j] = a, r[1][j] = 0.5f * (a + b + c), r[2][j] = 0.5f * (a - b + c), r[3][j] = c;
    }
    UNROLL
    for (int i = 0; i < SIDE; i++) {
        *(vec *)(u + (SIDE * i + 0) * pitch) = r[i][0];
        *(vec *)(u + (SIDE * i + 1) * pitch) = 0.5f * (r[i][0] + r[i][1] + r[i][2]);
        *(vec *)(u + (SIDE * i + 2) * pitch) = 0.5f * (r[i][0] - r[i][1] + r[i][2]);
        *(vec *)(u + (SIDE * i + 3) * pitch) = r[i][2];
    }
}

/* dg = Gt s G */
INLINE void transform_sums(const float *s, ptrdiff_t pitch, vec dg[TAPS])
{
    vec r[3][SIDE];
    UNROLL
    for (int j = 0; j < SIDE; j++) {
        const vec a = *(const vec *)(s + j * pitch), b = 0.5f * *(const vec *)(s + (SIDE + j) * pitch);
        const vec c = 0.5f * *(const vec *)(s + (2 * SIDE + j) * pitch);
        r[0][j] = a + b + c, r[1][j] = b - c, r[2][j] = b + c + *(const vec *)(s + (3 * SIDE + j) * pitch);
    }
    UNROLL
    for (int i = 0; i < 3; i++) {
        const vec b = 0.5f * r[i][1], c = 0.5f * r[i][2];
        dg[3 * i] = r[i][0] + b + c, dg[3 * i + 1] = b - c, dg[3 * i + 2] = b + c + r[i][3];
    }
}

#endif
