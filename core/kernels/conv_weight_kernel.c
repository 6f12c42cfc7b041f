#include <stdbool.h>
#include <string.h>

#include "core/kernels/conv_tile.h"

/* The weight gradient is a product over pixels: a tile is rows of weights x vectors of output
 * channels, and each pixel brings one vector of dy and one value of x per row.  In NHWC the vectors
 * of one block of channels are oc floats apart, often a power of two, and then share few lines of
 * the cache.  So a visit of a few hundred pixels first copies its vectors side by side, 16 or 32
 * KiB, where every row of the kernel and every tile finds them again. */

enum { VISIT = 256 };

/* The kw * c rows of weights of a kernel row are taken by chunks, whose copies stay in the cache too.
 * A unit u is a chunk of kernel row u % kh, for all output channels. */
enum { CHUNK = 192 };

static int chunks_of(const qg__conv *g) { return (g->kw * g->c + CHUNK - 1) / CHUNK; }

int QG_PER_ISA(qg__conv_units)(const qg__conv *g) { return chunks_of(g) * g->kh; }

size_t QG_PER_ISA(qg__conv_scratch)(const qg__conv *g)
{
    return (size_t)(VISIT + g->ow) * (size_t)(BLOCK + CHUNK);
}

/* The pixels of some rows of some images, and the weights that meet them: kernel columns and channels
 * lie side by side in x, so one pointer and constants reach a tile's rows of weights. */
typedef struct correlation {
    const float *x, *dy;        /* dy: packed, one block of channels after another pixel */
    float       *acc;
    ptrdiff_t    x_col, x_row, x_image;
    int          cols, rows, images;
    int          block, vectors;
} correlation;

INLINE void weight_tile(int rows, int vectors, const correlation *m)
{
    const float *dy = m->dy;
    vec          sum[MOST][2];
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) sum[r][v] = *(const vec *)(m->acc + r * m->block + v * LANES);
    for (int image = 0; image < m->images; image++)
        for (int row = 0; row < m->rows; row++) {
            const float *x = m->x + image * m->x_image + row * m->x_row;
            for (int col = 0; col < m->cols; col++, x += m->x_col, dy += vectors * LANES) {
                vec d[2];
                UNROLL
                for (int v = 0; v < vectors; v++) d[v] = *(const vec *)(dy + v * LANES);
                UNROLL
                for (int r = 0; r < rows; r++)
                    UNROLL
                    for (int v = 0; v < vectors; v++) sum[r][v] += x[r] * d[v];
            }
        }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vec *)(m->acc + r * m->block + v * LANES) = sum[r][v];
}

static void run_weights(int rows, const correlation *m)
{
#define ROWS_2(n) case n: if (n <= PIXELS_2) weight_tile(n, 2, m); break;
#define ROWS_1(n) case n: if (n <= PIXELS_1) weight_tile(n, 1, m); break;
    if (m->vectors == 2)
        switch (rows) {
            ROWS_2(1) ROWS_2(2) ROWS_2(3) ROWS_2(4) ROWS_2(5) ROWS_2(6) ROWS_2(7) ROWS_2(8)
            ROWS_2(9) ROWS_2(10) ROWS_2(11) ROWS_2(12) ROWS_2(13) ROWS_2(14)
        }
    else
        switch (rows) {
            ROWS_1(1) ROWS_1(2) ROWS_1(3) ROWS_1(4) ROWS_1(5) ROWS_1(6) ROWS_1(7) ROWS_1(8)
            ROWS_1(9) ROWS_1(10) ROWS_1(11) ROWS_1(12) ROWS_1(13) ROWS_1(14) ROWS_1(15) ROWS_1(16)
            ROWS_1(17) ROWS_1(18) ROWS_1(19) ROWS_1(20) ROWS_1(21) ROWS_1(22) ROWS_1(23) ROWS_1(24)
        }
}

/* Rows of x, side by side for each pixel, one pixel behind another. */
INLINE void gather_rows(int rows, const correlation *m, const float *from, float *to)
{
    for (int image = 0; image < m->images; image++)
        for (int row = 0; row < m->rows; row++) {
            const float *x = from + image * m->x_image + row * m->x_row;
            for (int col = 0; col < m->cols; col++, x += m->x_col, to += rows)
                memcpy(to, x, (size_t)rows * sizeof *to);
        }
}

static void gather_tile(int rows, const correlation *m, const float *from, float *to)
{
#define GATHER(n) case n: if (n <= PIXELS_2) gather_rows(n, m, from, to); break;
    switch (rows) {
        GATHER(1) GATHER(2) GATHER(3) GATHER(4) GATHER(5) GATHER(6) GATHER(7) GATHER(8) GATHER(9)
        GATHER(10) GATHER(11) GATHER(12) GATHER(13) GATHER(14)
    }
}

/* k rows of x for the tiles of correlate, each gathered as weight_tile reads it. */
static void gather(const correlation *m, int k, float *to)
{
    const int pixels = m->images * m->rows * m->cols;
    const int tiles  = (k + PIXELS_2 - 1) / PIXELS_2;
    for (int t = 0; t < tiles; t++) {
        const int r = cut(k, t, tiles);
        gather_tile(cut(k, t + 1, tiles) - r, m, m->x + r, to + (ptrdiff_t)pixels * r);
    }
}

/* k rows of one block of weights; gathered: where gather has put theirs of x, NULL: read in place. */
static void correlate(correlation m, int k, const float *gathered)
{
    const int    most   = m.vectors == 2 ? PIXELS_2 : PIXELS_1;
    const int    tiles  = (k + most - 1) / most;
    const int    pixels = m.images * m.rows * m.cols;
    const float *x      = m.x;
    float       *acc    = m.acc;
    if (gathered) m.images = m.rows = 1, m.cols = pixels;
    for (int t = 0; t < tiles; t++) {
        const int r = cut(k, t, tiles), rows = cut(k, t + 1, tiles) - r;
        m.x         = gathered ? gathered + (ptrdiff_t)pixels * r : x + r;
        m.acc       = acc + (ptrdiff_t)r * m.block;
        if (gathered) m.x_col = rows;
        run_weights(rows, &m);
    }
}

/* The first lanes channels of each pixel, filled up to whole vectors. */
static void pack_pixels(const float *dy, int pixels, int oc, int lanes, int width, float *to)
{
    for (int p = 0; p < pixels; p++, to += width, dy += oc) {
        if (lanes == BLOCK) memcpy(to, dy, BLOCK * sizeof *to);
        else {
            memset(to, 0, (size_t)width * sizeof *to);
            memcpy(to, dy, (size_t)lanes * sizeof *to);
        }
    }
}

/* The same holds for x where its pixels are FAR floats apart or more: a chunk of its rows is copied
 * for all tiles, which pays if MANY blocks of channels read it then. */
enum { FAR = 64, MANY = 4 };

static bool is_wide(const qg__conv *g)
{
    return (ptrdiff_t)g->stride * g->c >= FAR && g->oc >= MANY * block_of(g->oc);
}

/* All channels, units [u0, u1), of the pixels of m; dy is its first pixel. */
static void visit(const qg__conv *g, int u0, int u1, correlation m, const float *dy, float *acc,
                  float *scratch)
{
    const int       k      = g->kw * g->c, chunks = chunks_of(g);
    const int       pixels = m.images * m.rows * m.cols;
    const ptrdiff_t line   = (ptrdiff_t)g->w * g->c;
    const float    *x      = m.x;
    float          *wide   = is_wide(g) ? scratch + pixels * m.block : NULL;
    const int       group  = wide ? 1 : u1 - u0;        /* units that share one copy of dy */
    m.dy                   = scratch;
    for (int u = u0; u < u1; u += group)
        for (int o = 0; o < g->oc; o += m.block) {
            const int lanes = least(m.block, g->oc - o);
            m.vectors       = lanes > LANES ? 2 : 1;
            pack_pixels(dy + o, pixels, g->oc, lanes, m.vectors * LANES, scratch);
            for (int v = u; v < u + group; v++) {
                const int i  = v % g->kh;
                const int r0 = cut(k, v / g->kh, chunks), r1 = cut(k, v / g->kh + 1, chunks);
                m.x          = x + i * line + r0;
                m.acc        = acc + ((ptrdiff_t)o * g->kh + i * m.block) * k + r0 * m.block;
                if (wide && o == 0) gather(&m, r1 - r0, wide);
                correlate(m, r1 - r0, m.vectors == 2 ? wide : NULL);
            }
        }
}

void QG_PER_ISA(qg__conv_weight_gradient)(const qg__conv *g, int u0, int u1, int n, const float *x,
                                          const float *dy, float *acc, float *scratch)
{
    const int       pixels = g->oh * g->ow;
    const int       images = pixels < VISIT ? VISIT / pixels : 1;
    const int       rows   = pixels < VISIT ? g->oh : least(g->oh, (VISIT + g->ow - 1) / g->ow);
    const ptrdiff_t image  = (ptrdiff_t)g->h * g->w * g->c, line = (ptrdiff_t)g->w * g->c;
    for (int i = 0; i < n; i += images)
        for (int row = 0; row < g->oh; row += rows) {
            const correlation m = {
                .x     = x + i * image + row * g->stride * line,
                .x_col = (ptrdiff_t)g->stride * g->c, .x_row = g->stride * line, .x_image = image,
                .cols = g->ow, .rows = least(rows, g->oh - row), .images = least(images, n - i),
                .block = block_of(g->oc),
            };
            visit(g, u0, u1, m, dy + ((ptrdiff_t)i * pixels + row * g->ow) * g->oc, acc, scratch);
        }
}

/* The inverse of pack_forward; FEW weights of each row at a time, so that the block's lines are still
 * there for the next row. */
enum { FEW = 64 };

void QG_PER_ISA(qg__conv_add_weight_gradient)(const qg__conv *g, int b0, int b1, const float *acc,
                                              float *dw)
{
    const int       block = block_of(g->oc);
    const ptrdiff_t k     = (ptrdiff_t)g->kh * g->kw * g->c;
    for (int b = b0; b < b1; b++)
        for (ptrdiff_t i0 = 0; i0 < k; i0 += FEW)
            for (int lane = 0; lane < least(block, g->oc - b * block); lane++)
                for (ptrdiff_t i = i0; i < k && i < i0 + FEW; i++)
                    dw[(b * block + lane) * k + i] += acc[(b * k + i) * block + lane];
}
