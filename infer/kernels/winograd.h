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
 * Nothing overflows:
 *
 *  1. The absolute values of a row of Bt add up to at most 10, so all sums on the way to Bt d B, of d in
 *     0 .. 255, are within 10 * 10 * 255 = 25500 and fit into 16 bits.  At point (1, 1), the coefficients of
 *     d add up to 68 and -32, so Bt d B - 36 zero is in -32 * 255 - 36 * 255 .. 68 * 255, +-17340.
 *  2. Those of a row of G add up to at most 7: G g Gt, of g in -128 .. 127, is within 49 * 128 = 6272.
 *  3. Two products of these add up to at most 2 * 25500 * 6272 < 2^31, as add_products wants.
 *  4. Sums over channels, and those of At .. A, wrap around: all are right modulo 2^32, as is 576 Y.  Times
 *     the inverse of 9 it is 64 Y modulo 2^32, which is 64 Y, with its sign, where |Y| < 2^25.
 *
 * |Y| < 2^25 is up to the caller, who adds so few channels at a time (int8_kernel.c, patches_of).
 *
 * Bt applied to ones is (0, -6, 0, 0, 0, 0), so a zero point of d matters at one of the 36 points only.
 *
 * A kernel of 5 x 5 is one of 3 x 3, two of 3 x 2 and one of 2 x 2, whose patches begin 3 pixels further.
 * Two taps are three whose last is 0, and leave out the last point of their axis: 11 * 11 multiplications
 * instead of 400. */
#ifndef QG_INFER_WINOGRAD_H
#define QG_INFER_WINOGRAD_H

#include "infer/kernels/plain.h"
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

/* --- the patches of images -------------------------------------------------------------------- */

/*     v   [points][kernels][patches][pixel]          of so many patches of any images
 *     u   [points][kernels][groups][vectors]         of a block of outputs and a part of the channels
 *     m   [points][patches of a tile][vectors]
 *
 * where kernels are those of 3 x 3.  Points are an odd number of lines apart, so that those of a patch do
 * not share a few sets of the cache. */
typedef struct patches {
    int       axis;                     /* kernels along an axis, 1 or 2 */
    int       rows, columns;            /* patches of an image */
    int       h, w;                     /* of an image with its padding */
    int       channels;                 /* of a part, whose sums fit */
    int       most;                     /* patches of v */
    ptrdiff_t pixel;                    /* groups */
    ptrdiff_t v_kernel, v_point;        /* groups */
    ptrdiff_t u_kernel, u_point;        /* vectors */
    size_t    image_bytes, v_bytes;     /* in scratch */
} patches;

static int over(int a, int b) { return (a + b - 1) / b; }
static ptrdiff_t odd_lines(size_t n) { return (ptrdiff_t)((n + 63) / 64 | 1) * 64; }

/* For n images, and weights of 2 vectors.  A part of the channels has less than 2^25 in each sum: 1028
 * products of 255 * 128. */
static patches patches_of(const qg__geometry *g, int n)
{
    enum { V_BYTES = 1 << 19, FEWEST = PIXELS_2, MOST_PATCHES = 8 * PIXELS_2, TERMS = 1028, WIDTH = 2 * VL };
    patches   t = { .axis = over(g->kh, KERNEL), .rows = over(g->oh, STEP), .columns = over(g->ow, STEP) };
    const int kernels = t.axis * t.axis, fit = TERMS / (g->kh * g->kw) / WIDTH * WIDTH;
    t.h        = STEP * t.rows + (SIDE - STEP) + KERNEL * (t.axis - 1);
    t.w        = STEP * t.columns + (SIDE - STEP) + KERNEL * (t.axis - 1);
    t.channels = over(over(g->c, over(g->c, fit)), WIDTH) * WIDTH;
    t.pixel    = over(g->c, WIDTH) * VL;
    const size_t patch = POINTS * (size_t)kernels * (size_t)t.pixel * sizeof(int32_t);
    const size_t all   = (size_t)n * (size_t)t.rows * (size_t)t.columns;
    t.most     = patch < V_BYTES / MOST_PATCHES ? MOST_PATCHES
                 : patch > V_BYTES / FEWEST     ? FEWEST
                                                : (int)(V_BYTES / patch);
    if (all < (size_t)t.most) t.most = (int)all;
    t.v_kernel = t.most * t.pixel;
    t.v_point  = odd_lines((size_t)(kernels * t.v_kernel) * sizeof(int32_t)) / (ptrdiff_t)sizeof(int32_t);
    t.u_kernel = t.channels / CODES * 2;
    t.u_point  = odd_lines((size_t)(kernels * t.u_kernel) * sizeof(vi)) / (ptrdiff_t)sizeof(vi);
    t.image_bytes = qg__lines_of((size_t)t.h * (size_t)t.w * (size_t)g->c + sizeof(pairs));
    t.v_bytes     = POINTS * (size_t)t.v_point * sizeof(int32_t);
    return t;
}

/* Whether patches of n images take at most two thirds of the multiplications, and of the memory not much more
 * than x. */
static bool saves_multiplications(const qg__geometry *g, int n)
{
    if (!qg__int8_may_save(g, g->c, n)) return false;
    const patches t = patches_of(g, 1);
    const int     side = t.axis == 1 ? SIDE : 2 * SIDE - 1;
    return (size_t)t.h * (size_t)t.w <= 4 * qg__pixels(g) + 64 &&
           3 * (size_t)(side * side) * (size_t)t.rows * (size_t)t.columns <= 2 * qg__taps(g) * qg__results(g);
}

/* With its padding. */
static void copy_image(const qg__geometry *g, int zero, const patches *t, const uint8_t *x, uint8_t *to)
{
    const int    rows = least(g->h, t->h - g->top), columns = least(g->w, t->w - g->left);
    const size_t c = (size_t)g->c;
    memset(to, zero, (size_t)t->h * (size_t)t->w * c);
    for (int i = 0; i < rows && columns > 0; i++)
        memcpy(to + ((size_t)(g->top + i) * (size_t)t->w + (size_t)g->left) * c,
               x + (size_t)i * (size_t)g->w * c, (size_t)columns * c);
}

/* v of n patches from number `first` of all on, in turn; image: the one that the first belongs to, unless it
 * begins there. */
static void fill_v(const qg__geometry *g, int zero, const patches *t, int first, int n, const uint8_t *x,
                   uint8_t *image, int32_t *v)
{
    const ptrdiff_t c = g->c, each = (ptrdiff_t)t->rows * t->columns;
    const size_t    bytes_of_image = qg__pixels(g) * (size_t)c;
    for (int k = 0; k < n; k++, v += t->pixel) {
        const ptrdiff_t own = (first + k) % each, row = own / t->columns * STEP,
                        column = own % t->columns * STEP;
        if (own == 0) copy_image(g, zero, t, x + (size_t)((first + k) / each) * bytes_of_image, image);
        for (int a = 0; a < t->axis; a++)
            for (int b = 0; b < t->axis; b++) {
                const uint8_t *d  = image + ((row + KERNEL * a) * t->w + column + KERNEL * b) * c;
                int32_t       *to = v + (a * t->axis + b) * t->v_kernel;
                for (ptrdiff_t i = 0; i < c; i += 2 * VL, to += VL)
                    transform_inputs(d + i, t->w * c, c, zero, to, t->v_point);
            }
    }
}

#endif
