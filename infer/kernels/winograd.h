/* infer/kernels/winograd.h — Winograd's minimal filtering in integers of 16 bits.  For int8_kernel.c only.
 *
 * F(4x4, 3x3) (Lavin and Gray, arXiv:1509.09308v2, section 4.3): a patch of 6 x 6 inputs d gives 4 x 4
 * outputs with 36 multiplications instead of 144.  The fractions of G are in At, so that all are integers:
 *
 *     576 Y = At [ (G g Gt) . (Bt d B) ] A        summed over channels before At .. A
 *
 *          4  0 -5  0  1  0          6  0  0
 *          0 -4 -4  1  1  0          1  1  1          1 -4 -4  1  1  0
 *     Bt = 0  4 -4 -1  1  0     G =  1 -1  1     At = 0 -4  4  2 -2  0
 *          0 -2 -1  2  1  0          1  2  4          0 -4 -4  4  4  0
 *          0  2 -1 -2  1  0          1 -2  4          0 -4  4  8 -8  4
 *          0  4  0 -5  0  1          0  0  6
 *
 * Of d in 0 .. 255, whose coefficients of one sign add up to 68 at the most, Bt d B is within +-17340, and
 * of g in -128 .. 127, G g Gt is within +-49 * 128 = 6272.  Sums wrap around in 32 bits: what they are
 * modulo 2^32 gives 576 Y modulo 2^32, times the inverse of 9 is 64 Y, and Y is exact where |Y| < 2^25.
 *
 * Bt applied to ones is (0, -6, 0, 0, 0, 0), so a zero point of d matters at one of the 36 points only.
 *
 * A kernel of 5 x 5 is one of 3 x 3, two of 3 x 2 and one of 2 x 2, whose patches begin 3 pixels further.
 * Two taps are three whose last is 0, and leave out the last point of their axis: 11 * 11 multiplications
 * instead of 400. */
#ifndef QG_INFER_WINOGRAD_H
#define QG_INFER_WINOGRAD_H

#include "infer/kernels/lanes.h"

enum { SIDE = 6, POINTS = SIDE * SIDE, STEP = 4, RESULTS = STEP * STEP, KERNEL = 3 };

/* v = Bt d */
INLINE void six_inputs(const pairs d[SIDE], pairs v[SIDE])
{
    const pairs even = d[4] - (d[2] << 2), odd = d[3] - (d[1] << 2);
    const pairs near = d[4] - d[2], far = (d[3] - d[1]) << 1;
    v[0] = ((d[0] - d[2]) << 2) + near;
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = near + far;
    v[4] = near - far;
    v[5] = d[5] - d[3] - (far << 1);
}

/* u = G g */
INLINE void six_weights(const pairs g[KERNEL], pairs u[SIDE])
{
    const pairs ends = g[0] + g[2], far = g[0] + (g[2] << 2), twice = g[1] << 1;
    u[0] = (g[0] << 2) + (g[0] << 1);
    u[1] = ends + g[1];
    u[2] = ends - g[1];
    u[3] = far + twice;
    u[4] = far - twice;
    u[5] = (g[2] << 2) + (g[2] << 1);
}

/* y = At m */
INLINE void four_outputs(const vu m[SIDE], vu y[STEP])
{
    const vu a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + c - (a << 2);
    y[1] = (d - (b << 1)) << 1;
    y[2] = (c - a) << 2;
    y[3] = ((d << 1) - b + m[5]) << 2;
}

/* v = Bt (d - zero) B of 2 VL channels of a patch, whose rows and columns are so many bytes apart.  Pointers
 * move on, since so many distances have no registers. */
INLINE void transform_inputs(const uint8_t *d, ptrdiff_t row, ptrdiff_t column, int zero, int32_t *v,
                             ptrdiff_t pitch)
{
    pairs r[SIDE][SIDE];
    UNROLL
    for (int j = 0; j < SIDE; j++, d += column) {
        const uint8_t *from = d;
        pairs          own[SIDE];
        UNROLL
        for (int i = 0; i < SIDE; i++, from += row) {
            own[i] = load_wide(from);
            KEEP_POINTER(from);
        }
        six_inputs(own, r[j]);
    }
    UNROLL
    for (int i = 0; i < SIDE; i++) {
        pairs own[SIDE], to[SIDE];
        UNROLL
        for (int j = 0; j < SIDE; j++) own[j] = r[j][i];
        six_inputs(own, to);
        if (i == 1) to[1] -= (int16_t)(36 * zero);
        UNROLL
        for (int j = 0; j < SIDE; j++, v += pitch) {
            *(pairs *)v = to[j];
            KEEP_POINTER(v);
        }
    }
}

/* u = G g Gt of a vector of pairs.  g: of taps 0 .. rows - 1, 0 .. columns - 1, so many bytes apart. */
INLINE void transform_weights(const int8_t *g, int rows, int columns, ptrdiff_t row, ptrdiff_t column, vi *u,
                              ptrdiff_t pitch)
{
    pairs r[KERNEL][SIDE];
    UNROLL
    for (int j = 0; j < KERNEL; j++) {
        pairs own[KERNEL];
        UNROLL
        for (int i = 0; i < KERNEL; i++)
            own[i] = i < rows && j < columns ? (pairs)load_codes(g + i * row + j * column) : (pairs){ 0 };
        six_weights(own, r[j]);
    }
    UNROLL
    for (int i = 0; i < SIDE; i++) {
        pairs own[KERNEL], to[SIDE];
        UNROLL
        for (int j = 0; j < KERNEL; j++) own[j] = r[j][i];
        six_weights(own, to);
        UNROLL
        for (int j = 0; j < SIDE; j++, u += pitch) {
            *u = (vi)to[j];
            KEEP_POINTER(u);
        }
    }
}

/* y = At m A / 576, or y += that.  pitch and step: vectors from one point, and result, to the next. */
INLINE void transform_outputs(const vu *m, ptrdiff_t pitch, bool adds, vu *y, ptrdiff_t step)
{
    enum { INVERSE_OF_9 = 954437177 };
    vu r[SIDE][STEP];
    UNROLL
    for (int j = 0; j < SIDE; j++) {
        vu own[SIDE];
        UNROLL
        for (int i = 0; i < SIDE; i++) own[i] = m[(SIDE * i + j) * pitch];
        four_outputs(own, r[j]);
    }
    UNROLL
    for (int i = 0; i < STEP; i++) {
        vu own[SIDE], to[STEP];
        UNROLL
        for (int j = 0; j < SIDE; j++) own[j] = r[j][i];
        four_outputs(own, to);
        UNROLL
        for (int j = 0; j < STEP; j++) {
            vu *at = y + (STEP * i + j) * step;
            to[j]     = (vu)((vi)(to[j] * (uint32_t)INVERSE_OF_9) >> 6);
            if (adds) to[j] += *at;
            *at = to[j];
        }
    }
}

#endif
