#include "core/kernels/conv_kernel.h"

#include <stdbool.h>
#include <string.h>

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

/* Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray, arXiv:1509.09308v2, section 4.1).  A tile of
 * 4 x 4 inputs d gives 2 x 2 outputs with 16 multiplications instead of 36; tiles are two inputs apart:
 *
 *     Y = At [ (G g Gt) . (Bt d B) ] A        summed over channels before At .. A
 *
 *          1  0 -1  0          1    0    0
 *     Bt = 0  1  1  0     G =  1/2  1/2  1/2     At = 1  1  1  0
 *          0 -1  1  0          1/2 -1/2  1/2          0  1 -1 -1
 *          0  1  0 -1          0    0    1
 *
 * and for the weights, transposed: dg = Gt [ sum over tiles (Bt d B) . (A dY At) ] G.  The sums over
 * channels, or over tiles, are a matrix product at each of the 16 points.  Bt and At only add and subtract, and G
 * only halves, so small integers stay exact.  An input contributes only to the outputs whose windows contain it,
 * so a NaN spreads as in direct convolution. */
enum { POINTS = 16, SIDE = 4, TAPS = 9 };

/* Channels are stored in groups of 16 floats, so the distance between the tiles of a product does not depend on the
 * number of channels. */
enum { GROUP = 16 };

/* v = Bt d B of one vector of channels. */
INLINE void transform_input(const float *d, ptrdiff_t row, ptrdiff_t col, float *v, ptrdiff_t pitch)
{
    vec r[SIDE][SIDE];
    UNROLL
    for (int j = 0; j < SIDE; j++) {
        const vec d0 = *(const vf *)(d + j * col), d1 = *(const vf *)(d + row + j * col);
        const vec d2 = *(const vf *)(d + 2 * row + j * col), d3 = *(const vf *)(d + 3 * row + j * col);
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
    for (int p = 0; p < 4; p++) *(vf *)at[p] = out[p] + *(const vf *)(start ? start : at[p]);
}

/* Tiles x one block of outputs at one point: the tile of core/kernels/conv_tile.h, its inputs GROUP apart. */
INLINE void multiply_tile(int tiles, int vectors, const float *x, ptrdiff_t x_group, int groups,
                          const float *w, float *y)
{
    vec sum[MOST][2] = { { { 0 } } };
    for (int n = 0; n < groups; n++, x += x_group)
        for (int i = 0; i < GROUP; i++, w += vectors * VL) {
            vec wv[2];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = *(const vec *)(w + v * VL);
            EACH(p, tiles, v, vectors) sum[p][v] = fma_of(splat(x[p * GROUP + i]), wv[v], sum[p][v]);
        }
    EACH(p, tiles, v, vectors) *(vec *)(y + (p * vectors + v) * VL) = sum[p][v];
}

/* v = A dy At */
INLINE void transform_gradient(const float *dy, ptrdiff_t row, ptrdiff_t col, float *v, ptrdiff_t pitch)
{
    vec r[SIDE][2];
    UNROLL
    for (int j = 0; j < 2; j++) {
        const vec a = *(const vf *)(dy + j * col), b = *(const vf *)(dy + row + j * col);
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

/* Rows of weights x one block of outputs at one point, over the tiles; like weight_tile of the direct kernel. */
INLINE void correlate_tile(int rows, int vectors, const float *x, const float *d, int tiles, float *acc)
{
    vec sum[GROUP][2];
    EACH(r, rows, v, vectors) sum[r][v] = *(const vec *)(acc + (r * vectors + v) * VL);
    for (int t = 0; t < tiles; t++, x += GROUP, d += vectors * VL) {
        vec dv[2];
        UNROLL
        for (int v = 0; v < vectors; v++) dv[v] = *(const vec *)(d + v * VL);
        EACH(r, rows, v, vectors) sum[r][v] = fma_of(splat(x[r]), dv[v], sum[r][v]);
    }
    EACH(r, rows, v, vectors) *(vec *)(acc + (r * vectors + v) * VL) = sum[r][v];
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

/* --- products of a visit ------------------------------------------------------------------ */

/* A visit processes TILES tiles of an image, few enough for its results to stay in the private cache of a core:
 *     inputs                  [point][c / 16][TILES][16]
 *     products or gradients   [point][TILES][block]
 * Here and in the weights a gap of one group follows each point.  Without it all sixteen points would share a few
 * lines of the cache; packing 256 x 256 weights would take 1.1 ms. */
enum { TILES = 24, GAP = GROUP };

static ptrdiff_t input_pitch(int channels) { return (ptrdiff_t)channels * TILES + GAP; }
static ptrdiff_t product_pitch(int block) { return (ptrdiff_t)block * TILES + GAP; }

static ptrdiff_t weight_pitch(int rows, int block) { return (ptrdiff_t)rows * block + GAP; }

static size_t scratch_size(const qg__conv *g)
{
    const int most = g->c > g->oc ? g->c : g->oc;       /* the mirror reads oc channels */
    return (size_t)(POINTS * (input_pitch(most) + product_pitch(BLOCK)));
}

/* A block can be one vector only where a vector is a group, since channels come in sixteens. */
enum { WIDE = VL == (int)GROUP };

/* All tiles of a visit, in parts of nearly equal, even size.  A part with an odd number of tiles also computes the
 * next tile; inputs and products have room for it. */
static void multiply(int tiles, int block, const float *x, int groups, const float *w, float *y)
{
    const bool two   = block > VL;
    const int  most  = two ? PIXELS_2 : PIXELS_1;
    const int  units = (tiles + 1) / 2, parts = (2 * units + most - 1) / most;
    for (int part = 0; part < parts; part++) {
        const int    t  = 2 * cut(units, part, parts), size = 2 * cut(units, part + 1, parts) - t;
        const float *xt = x + t * GROUP;
        float       *yt = y + t * block;
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (two && n <= PIXELS_2) multiply_tile(n, 2, xt, TILES * GROUP, groups, w, yt);               \
        else if (WIDE && n <= PIXELS_1) multiply_tile(n, 1, xt, TILES * GROUP, groups, w, yt);         \
        break;
        switch (size) {
            CASE(2) CASE(4) CASE(6) CASE(8) CASE(10) CASE(12)
            CASE(14) CASE(16) CASE(18) CASE(20) CASE(22) CASE(24)
        }
    }
}

/* A group of 16 rows of weights, in parts whose sums fit into the registers. */
static void correlate(int tiles, int block, const float *x, const float *d, float *acc)
{
    if (WIDE && block == VL) correlate_tile(GROUP, 1, x, d, tiles, acc);
    else if (PIXELS_2 >= 8)
        for (int r = 0; r < GROUP; r += 8) correlate_tile(8, 2, x + r, d, tiles, acc + r * block);
    else {
        correlate_tile(5, 2, x, d, tiles, acc);
        correlate_tile(5, 2, x + 5, d, tiles, acc + 5 * block);
        correlate_tile(6, 2, x + 10, d, tiles, acc + 10 * block);
    }
}

/* --- visits --------------------------------------------------------------------------------- */

typedef struct visit {
    int       first, tiles;         /* of an image */
    int       across;               /* tiles in a row of it */
    ptrdiff_t col, row;             /* floats from one pixel to the next and to the one below it */
} visit;

static int visits_of(const qg__conv *g) { return (g->oh / 2 * (g->ow / 2) + TILES - 1) / TILES; }

/* Visit n of an image with the given pixels per row and channels; tiles are two pixels apart. */
static visit visit_of(const qg__conv *g, int n, int width, int channels)
{
    return (visit){
        .first  = n * TILES,
        .tiles  = least(TILES, g->oh / 2 * (g->ow / 2) - n * TILES),
        .across = g->ow / 2,
        .col    = channels,
        .row    = (ptrdiff_t)width * channels,
    };
}

INLINE ptrdiff_t tile_at(const visit *s, int t)
{
    return (s->first + t) / s->across * 2 * s->row + (s->first + t) % s->across * 2 * s->col;
}

static void gather_inputs(visit s, int channels, const float *x, float *to)
{
    const ptrdiff_t pitch = input_pitch(channels);
    for (int t = 0; t < s.tiles; t++) {
        const float *d = x + tile_at(&s, t);
        for (int c = 0; c < channels; c += GROUP)
            for (int v = 0; v < GROUP; v += VL)
                transform_input(d + c + v, s.row, s.col, to + c * TILES + t * GROUP + v, pitch);
    }
    if (s.tiles % 2)        /* multiply reads one tile more, which must not contain values that trap */
        for (int p = 0; p < POINTS; p++)
            for (int c = 0; c < channels; c += GROUP)
                memset(to + p * pitch + c * TILES + s.tiles * GROUP, 0, GROUP * sizeof *to);
}

static void gather_gradients(visit s, int block, int lanes, const float *dy, float *to)
{
    if (lanes < block) memset(to, 0, (size_t)(POINTS * product_pitch(block)) * sizeof *to);
    for (int t = 0; t < s.tiles; t++)
        for (int v = 0; v < lanes; v += VL)
            transform_gradient(dy + tile_at(&s, t) + v, s.row, s.col, to + t * block + v,
                               product_pitch(block));
}

/* start: a block of floats, or NULL to add to y. */
static void scatter_outputs(visit s, int block, int lanes, const float *from, const float *start, float *y)
{
    for (int t = 0; t < s.tiles; t++)
        for (int v = 0; v < lanes; v += VL)
            transform_output(from + t * block + v, product_pitch(block), start ? start + v : NULL,
                             y + tile_at(&s, t) + v, s.row, s.col);
}

static void forward(const qg__conv *g, const float *x, const float *wf, const float *bias, bool add, float *y,
                    float *scratch)
{
    const int       block    = block_of(g->oc);
    const ptrdiff_t weights  = weight_pitch(g->c, block);
    float          *products = scratch + POINTS * input_pitch(g->c);
    for (int n = 0; n < visits_of(g); n++) {
        const visit in = visit_of(g, n, g->w, g->c), out = visit_of(g, n, g->ow, g->oc);
        gather_inputs(in, g->c, x, scratch);
        for (int o = 0; o < g->oc; o += block) {
            _Alignas(64) float start[BLOCK] = { 0 };
            const int          lanes        = least(block, g->oc - o);
            const float       *w            = wf + POINTS * weights * (o / block);
            if (bias) memcpy(start, bias + o, (size_t)lanes * sizeof *bias);
            for (int p = 0; p < POINTS; p++)
                multiply(in.tiles, block, scratch + p * input_pitch(g->c), g->c / GROUP, w + p * weights,
                         products + p * product_pitch(block));
            scatter_outputs(out, block, lanes, products, add ? NULL : start, y + o);
        }
    }
}

/* A unit is several blocks of channels.  Each unit gathers the inputs again, so there are few units. */
enum { UNITS = 8 };

static int blocks_of(int channels) { return (channels + block_of(channels) - 1) / block_of(channels); }
static int units(const qg__conv *g) { return least(UNITS, blocks_of(g->oc)); }

static size_t unit_run(const qg__conv *g, int u, int i, size_t *at)
{
    const int    blocks = blocks_of(g->oc), begin = cut(blocks, u, units(g)), end = cut(blocks, u + 1, units(g));
    const size_t each   = (size_t)(POINTS * weight_pitch(g->c, block_of(g->oc)));
    if (i > 0) return 0;
    *at = (size_t)begin * each;
    return (size_t)(end - begin) * each;
}

static void weight_gradient(const qg__conv *g, int u0, int u1, int images, const float *x, const float *dy,
                            float *acc, float *scratch)
{
    const int       block     = block_of(g->oc), blocks = blocks_of(g->oc);
    const int       begin     = cut(blocks, u0, units(g)) * block;
    const int       end       = least(g->oc, cut(blocks, u1, units(g)) * block);
    const ptrdiff_t weights   = weight_pitch(g->c, block);
    float          *gradients = scratch + POINTS * input_pitch(g->c);
    for (int i = 0; i < images; i++, x += (ptrdiff_t)g->h * g->w * g->c, dy += (ptrdiff_t)g->oh * g->ow * g->oc)
        for (int n = 0; n < visits_of(g); n++) {
            const visit in = visit_of(g, n, g->w, g->c), out = visit_of(g, n, g->ow, g->oc);
            gather_inputs(in, g->c, x, scratch);
            for (int o = begin; o < end; o += block) {
                gather_gradients(out, block, least(block, g->oc - o), dy + o, gradients);
                for (int p = 0; p < POINTS; p++)
                    for (int c = 0; c < g->c; c += GROUP)
                        correlate(in.tiles, block, scratch + p * input_pitch(g->c) + c * TILES,
                                  gradients + p * product_pitch(block),
                                  acc + (o / block * POINTS + p) * weights + c * block);
            }
        }
}

/* --- weights -------------------------------------------------------------------------------- */

/* A vector of output channels and a group of input channels.  Their kernels are TAPS * c floats apart in w, so they
 * often share a few lines of the cache.  Whole lines are therefore copied, and the lanes are read from the copy. */
typedef float corner[VL][TAPS][GROUP];

static void pack_forward(const qg__conv *g, int b, const float *w, float *wf)
{
    const int       block   = block_of(g->oc);
    const ptrdiff_t weights = weight_pitch(g->c, block);
    for (int o = b * block; o < (b + 1) * block; o += VL)
        for (int c = 0; c < g->c; c += GROUP) {
            corner part = { 0 };            /* for a block that is not filled */
            for (int lane = 0; lane < least(VL, g->oc - o); lane++)
                for (int t = 0; t < TAPS; t++)
                    memcpy(part[lane][t], w + ((ptrdiff_t)(o + lane) * TAPS + t) * g->c + c, sizeof part[0][0]);
            for (int i = 0; i < GROUP; i++) {
                _Alignas(64) float taps[TAPS][VL];
                for (int t = 0; t < TAPS; t++)
                    for (int lane = 0; lane < VL; lane++) taps[t][lane] = part[lane][t][i];
                transform_weights((const vec *)taps,
                                  wf + o / block * POINTS * weights + (c + i) * block + o % block, weights);
            }
        }
}

/* Lanes are input channels, side by side in w; the kernel is turned. */
static void pack_backward(const qg__conv *g, int b, const float *w, float *wb)
{
    const int       block   = block_of(g->c);
    const ptrdiff_t weights = weight_pitch(g->oc, block);
    for (int c = b * block; c < (b + 1) * block; c += VL)
        for (int o = 0; o < g->oc; o++) {
            vec taps[TAPS] = { { 0 } };
            if (c < g->c)
                for (int t = 0; t < TAPS; t++)
                    taps[t] = *(const vf *)(w + ((ptrdiff_t)o * TAPS + TAPS - 1 - t) * g->c + c);
            transform_weights(taps, wb + c / block * POINTS * weights + o * block + c % block, weights);
        }
}

static void add_weight_gradient(const qg__conv *g, int b, const float *acc, float *dw)
{
    const int       block   = block_of(g->oc);
    const ptrdiff_t weights = weight_pitch(g->c, block);
    for (int o = b * block; o < least(g->oc, (b + 1) * block); o += VL)
        for (int c = 0; c < g->c; c += GROUP) {
            corner part;
            for (int i = 0; i < GROUP; i++) {
                vec taps[TAPS];
                transform_sums(acc + o / block * POINTS * weights + (c + i) * block + o % block, weights, taps);
                for (int t = 0; t < TAPS; t++)
                    for (int lane = 0; lane < VL; lane++) part[lane][t][i] = taps[t][lane];
            }
            for (int lane = 0; lane < VL; lane++)
                for (int t = 0; t < TAPS; t++) {
                    float *to = dw + ((ptrdiff_t)(o + lane) * TAPS + t) * g->c + c;
                    for (int i = 0; i < GROUP; i++) to[i] += part[lane][t][i];
                }
        }
}

const qg__conv_kernels QG_PER_ISA(qg__winograd_kernels) = {
    .lanes               = VL,
    .points              = POINTS,
    .gap                 = GAP,
    .scratch             = scratch_size,
    .units               = units,
    .unit_run            = unit_run,
    .pack_forward        = pack_forward,
    .pack_backward       = pack_backward,
    .forward             = forward,
    .weight_gradient     = weight_gradient,
    .add_weight_gradient = add_weight_gradient,
};
