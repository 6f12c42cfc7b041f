#include "core/kernels/conv_kernel.h"

#include <stdbool.h>
#include <string.h>

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

/* --- forward and input gradient ----------------------------------------------------------- */

/* The input gradient collects rows of products of one kernel column until it has STRIP pixels, few enough to stay in
 * the cache for the next column. */
enum { STRIP = 48 };

/* A product, as forward and the input gradient need it.  For each pixel of rows x cols
 *     y[row][col][lane] = start[lane] + sum over t, i of x[row][col][t][i] * w[t][i][lane]
 * with steps in floats.  The k values of x are adjacent: the kernel's columns and channels in forward, the output
 * channels in the input gradient. */
typedef struct product {
    const float *x, *w;
    const float *start;     /* BLOCK floats; NULL: the old y */
    float       *y;
    ptrdiff_t    x_row, x_col, x_tap, w_tap, y_row, y_col;
    int          rows, cols, taps, k;
    int          block;     /* from one w[t][i] to the next */
    int          lanes;     /* how many of them are used; tiles are one vector wide if they fit */
} product;

/* step: floats from one pixel of x to the next, if constant; 0: see x_at. */
INLINE void tile(int pixels, int vectors, int step, const product *m, const float *x0,
                 const ptrdiff_t *x_at, float *y, const ptrdiff_t *y_at)
{
    vec sum[MOST][2];
    EACH(p, pixels, v, vectors)
        sum[p][v] = *(const vf *)((m->start ? m->start : y + y_at[p]) + v * VL);
    for (int t = 0; t < m->taps; t++) {
        const float *x = x0 + t * m->x_tap;
        const float *w = m->w + t * m->w_tap;
        for (int i = 0; i < m->k; i++, x++, w += m->block) {
            vec wv[2];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = *(const vec *)(w + v * VL);
            EACH(p, pixels, v, vectors)
                sum[p][v] = fma_of(splat(x[step ? p * step : x_at[p]]), wv[v], sum[p][v]);
        }
    }
    EACH(p, pixels, v, vectors) *(vf *)(y + y_at[p] + v * VL) = sum[p][v];
}

/* Where a tile's pixels are, relative to its first. */
typedef struct places {
    ptrdiff_t x[MOST], y[MOST];
    int       pixels;
    bool      even;         /* x[p] == p * VL */
} places;

/* One specialisation per size. */
static void run(const product *m, const float *x, float *y, const places *at)
{
#define CASE_2(n) case n: if (n <= PIXELS_2) tile(n, 2, 0, m, x, at->x, y, at->y); break;
#define CASE_1(n) case n: if (n <= PIXELS_1) tile(n, 1, 0, m, x, at->x, y, at->y); break;
#define CASE_E(n) case n: if (n <= PIXELS_1) tile(n, 1, VL, m, x, at->x, y, at->y); break;
    if (m->lanes > VL)
        switch (at->pixels) {
            CASE_2(2) CASE_2(4) CASE_2(6) CASE_2(8) CASE_2(10) CASE_2(12) CASE_2(14)
        }
    else if (at->even)
        switch (at->pixels) {
            CASE_E(4) CASE_E(8) CASE_E(12) CASE_E(16) CASE_E(20) CASE_E(24)
        }
    else
        switch (at->pixels) {
            CASE_1(4) CASE_1(8) CASE_1(12) CASE_1(16) CASE_1(20) CASE_1(24)
        }
}

/* Channels that do not fill their vectors: the tile works on a copy of its pixels. */
static void run_partial(const product *m, const float *x, float *y, const places *at)
{
    _Alignas(64) float full[MOST * BLOCK];
    places             dense = *at;
    const size_t       bytes = (size_t)m->lanes * sizeof *y;
    for (int p = 0; p < at->pixels; p++) {
        dense.y[p] = p * BLOCK;
        if (m->start) continue;
        memset(full + dense.y[p], 0, BLOCK * sizeof *full);
        memcpy(full + dense.y[p], y + at->y[p], bytes);
    }
    run(m, x, full, &dense);
    for (int p = 0; p < at->pixels; p++) memcpy(y + at->y[p], full + dense.y[p], bytes);
}

/* The offsets of the next pixel of a product. */
typedef struct cursor {
    ptrdiff_t x, y;
    int       col;
} cursor;

INLINE void advance(const product *m, cursor *at)
{
    at->x += m->x_col;
    at->y += m->y_col;
    if (++at->col < m->cols) return;
    at->col = 0;
    at->x += m->x_row - m->cols * m->x_col;
    at->y += m->y_row - m->cols * m->y_col;
}

/* The places of the next pixels, for a tile of size pixels.  A tail computes its last pixel more than once, each time
 * from the same start. */
static void take(const product *m, cursor *next, int pixels, int size, places *at)
{
    const cursor first = *next;
    for (int p = 0; p < pixels; p++) {
        at->x[p] = next->x - first.x;
        at->y[p] = next->y - first.y;
        advance(m, next);
    }
    for (int p = pixels; p < size; p++) {
        at->x[p] = at->x[p - 1];
        at->y[p] = at->y[p - 1];
    }
    at->pixels = size;
}

/* Each offset of a tile costs a register, and one vector per pixel leaves no time to reload offsets
 * that did not fit.  Where the pixels of a row are one vector apart (16 channels after 16), tiles
 * end with the row instead: offsets are then constants in the code, and the same for every tile. */
static void multiply_rows(const product *m)
{
    const int tiles = (m->cols + PIXELS_1 - 1) / PIXELS_1;
    places    at    = { .even = true };
    cursor    next  = { 0 };
    take(m, &next, least(m->cols, PIXELS_1), least(m->cols, PIXELS_1), &at);
    for (int row = 0; row < m->rows; row++)
        for (int t = 0, p = 0; t < tiles; t++, p += at.pixels) {
            at.pixels = cut(m->cols / 4, t + 1, tiles) * 4 - p;
            (m->lanes < VL ? run_partial : run)(m, m->x + row * m->x_row + p * m->x_col,
                                                   m->y + row * m->y_row + p * m->y_col, &at);
        }
}

/* All pixels, in tiles of nearly equal size.  A tile takes pixels as they come, across the ends of
 * rows, so small images fill tiles too. */
static void multiply(const product *m)
{
    const bool two   = m->lanes > VL;
    const int  unit  = two ? 2 : 4;         /* tile sizes are multiples of it */
    const int  most  = two ? PIXELS_2 : PIXELS_1;
    const int  n     = m->rows * m->cols;
    const int  tiles = (n + most - 1) / most;
    const int  units = (n + unit - 1) / unit;
    places     at    = { .even = false };
    cursor     next  = { 0 };
    if (!two && m->x_col == VL && m->cols % 4 == 0) {
        multiply_rows(m);
        return;
    }
    for (int t = 0, p = 0; t < tiles; t++, p += at.pixels) {
        const float *x    = m->x + next.x;
        float       *y    = m->y + next.y;
        const int    size = cut(units, t + 1, tiles) * unit - p;
        take(m, &next, least(size, n - p), size, &at);
        (m->lanes % VL ? run_partial : run)(m, x, y, &at);
    }
}

static void forward(const qg__conv *g, const float *x, const float *wf, const float *bias, bool add, float *y,
                    float *scratch)
{
    const int       block = block_of(g->oc);
    const ptrdiff_t w_tap = (ptrdiff_t)g->kw * g->c * block;
    for (int o = 0; o < g->oc; o += block, wf += g->kh * w_tap) {
        _Alignas(64) float start[BLOCK] = { 0 };
        const int          lanes        = least(block, g->oc - o);
        if (bias) memcpy(start, bias + o, (size_t)lanes * sizeof *bias);
        multiply(&(product){
            .x     = x,
            .x_row = (ptrdiff_t)g->stride * g->w * g->c,
            .x_col = (ptrdiff_t)g->stride * g->c,
            .x_tap = (ptrdiff_t)g->w * g->c,
            .w     = wf,
            .w_tap = w_tap,
            .start = add ? NULL : start,
            .y     = y + o,
            .y_row = (ptrdiff_t)g->ow * g->oc,
            .y_col = g->oc,
            .rows = g->oh, .cols = g->ow, .taps = g->kh, .k = g->kw * g->c,
            .block = block, .lanes = lanes,
        });
    }
}

/* Rows of dx that meet the same kernel rows first + stride * t, t0 <= t < t1; the first of them is
 * row first + stride * q, and there tap t meets output row q - t. */
typedef struct band {
    int first, q, rows, t0, t1;
} band;

/* dx of a band, for one block of channels, one kernel column after another.  The weights are in reverse order, the
 * last tap first. */
static void band_gradient(const qg__conv *g, const float *dy, const float *wb, int lanes, band b,
                          float *dx)
{
    const ptrdiff_t weights = (ptrdiff_t)g->oc * block_of(g->c);    /* of one tap */
    const ptrdiff_t dy_row  = (ptrdiff_t)g->ow * g->oc;
    const ptrdiff_t dx_row  = (ptrdiff_t)g->w * g->c;
    const int       last_i  = g->kh - 1 - b.first - g->stride * b.t0;
    for (int j = 0; j < g->kw; j++)
        multiply(&(product){
            .x     = dy + (b.q - b.t0) * dy_row,
            .x_row = dy_row,
            .x_col = g->oc,
            .x_tap = -dy_row,
            .w     = wb + (last_i * g->kw + g->kw - 1 - j) * weights,
            .w_tap = -(ptrdiff_t)g->stride * g->kw * weights,
            .y     = dx + (b.first + g->stride * b.q) * dx_row + (ptrdiff_t)j * g->c,
            .y_row = g->stride * dx_row,
            .y_col = (ptrdiff_t)g->stride * g->c,
            .rows = b.rows, .cols = g->ow, .taps = b.t1 - b.t0, .k = g->oc,
            .block = block_of(g->c), .lanes = lanes,
        });
}

/* A row of dx receives dy through kernel row i from the output row at (row - i) / stride, if it
 * exists.  The sum over those and over the output channels stays in registers, dx is read and
 * written once per kernel column, and each weight meets each dy exactly once. */
static void input_gradient(const qg__conv *g, const float *dy, const float *wb, float *dx)
{
    const int    block = block_of(g->c);
    const size_t size  = (size_t)(g->kh * g->kw) * (size_t)g->oc * (size_t)block;
    const int    strip = STRIP / g->ow + 1;
    memset(dx, 0, (size_t)g->h * (size_t)g->w * (size_t)g->c * sizeof *dx);
    for (int c = 0; c < g->c; c += block, wb += size)
        for (int first = 0; first < least(g->stride, g->kh); first++) {
            const int taps = (g->kh - 1 - first) / g->stride + 1;
            band      b    = { .first = first };
            for (; b.q < g->oh + taps - 1; b.q += b.rows) {
                b.t0   = b.q < g->oh ? 0 : b.q - g->oh + 1;
                b.t1   = least(b.q + 1, taps);
                b.rows = b.t1 - b.t0 == taps ? least(strip, g->oh - b.q) : 1;
                band_gradient(g, dy, wb, least(block, g->c - c), b, dx + c);
            }
        }
}

/* Packing turns rows of k weights into columns of a block.  Rows are often a power of two apart and
 * then compete for few lines of a cache, so FEW are read at a time, and STRETCH weights of each: the
 * block's lines are still there when the next rows come. */
enum { STRETCH = 64, FEW = 4 };

static void pack_rows(const float *restrict w, ptrdiff_t k, ptrdiff_t n, int rows,
                      float *restrict to, int block)
{
    if (rows == FEW)
        for (ptrdiff_t i = 0; i < n; i++, to += block)
            for (int r = 0; r < FEW; r++) to[r] = w[r * k + i];
    else
        for (ptrdiff_t i = 0; i < n; i++, to += block)
            for (int r = 0; r < rows; r++) to[r] = w[r * k + i];
}

static void pack_forward(const qg__conv *g, int b, const float *w, float *wf)
{
    const int       block = block_of(g->oc), lanes = least(block, g->oc - b * block);
    const ptrdiff_t k     = (ptrdiff_t)g->kh * g->kw * g->c;
    const float    *from  = w + b * block * k;
    float          *to    = wf + b * block * k;
    if (lanes < block) memset(to, 0, (size_t)(k * block) * sizeof *to);
    for (ptrdiff_t i = 0; i < k; i += STRETCH)
        for (int lane = 0; lane < lanes; lane += FEW)
            pack_rows(from + lane * k + i, k, k - i < STRETCH ? k - i : STRETCH, least(FEW, lanes - lane),
                      to + i * block + lane, block);
}

static void pack_backward(const qg__conv *g, int b, const float *w, float *wb)
{
    const int block = block_of(g->c), lanes = least(block, g->c - b * block);
    const int taps  = g->kh * g->kw;
    float    *to    = wb + (ptrdiff_t)b * taps * g->oc * block;
    for (int t = taps - 1; t >= 0; t--)
        for (int o = 0; o < g->oc; o++, to += block) {
            const float *from = w + ((ptrdiff_t)o * taps + t) * g->c + b * block;
            memcpy(to, from, (size_t)lanes * sizeof *to);
            memset(to + lanes, 0, (size_t)(block - lanes) * sizeof *to);
        }
}

/* --- weight gradient ---------------------------------------------------------------------- */

/* The weight gradient is a product over pixels: a tile is rows of weights x vectors of output
 * channels, and each pixel brings one vector of dy and one value of x per row.  In NHWC the vectors
 * of one block of channels are oc floats apart, often a power of two, and then share few lines of
 * the cache.  So a visit of a few hundred pixels first copies its vectors side by side, 16 or 32
 * KiB, where every row of the kernel and every tile finds them again. */

enum { VISIT = 256 };

/* The kw * c rows of weights of a kernel row are processed in chunks, whose copies stay in the cache too.
 * A unit u is a chunk of kernel row u % kh, for all output channels. */
enum { CHUNK = 192 };

static int chunks_of(const qg__conv *g) { return (g->kw * g->c + CHUNK - 1) / CHUNK; }

static int units(const qg__conv *g) { return chunks_of(g) * g->kh; }

static size_t unit_run(const qg__conv *g, int u, int i, size_t *at)
{
    const int block = block_of(g->oc), k = g->kw * g->c, chunks = chunks_of(g), o = i * block;
    const int r0 = cut(k, u / g->kh, chunks), r1 = cut(k, u / g->kh + 1, chunks);
    if (o >= g->oc) return 0;
    *at = (size_t)(o * g->kh + u % g->kh * block) * (size_t)k + (size_t)(r0 * block);
    return (size_t)((r1 - r0) * block);
}

static size_t scratch_size(const qg__conv *g)
{
    return (size_t)(VISIT + g->ow) * (size_t)(BLOCK + CHUNK);
}

/* The pixels of some rows of some images, and the weights that meet them: kernel columns and channels
 * lie side by side in x, so one pointer and constants reach a tile's rows of weights. */
typedef struct correlation {
    const float *x, *dy;        /* dy: packed, a block of channels for each pixel */
    float       *acc;
    ptrdiff_t    x_col, x_row, x_image;
    int          cols, rows, images;
    int          block, vectors;
} correlation;

INLINE void weight_tile(int rows, int vectors, const correlation *m)
{
    const float *dy = m->dy;
    vec          sum[MOST][2];
    EACH(r, rows, v, vectors) sum[r][v] = *(const vec *)(m->acc + r * m->block + v * VL);
    for (int image = 0; image < m->images; image++)
        for (int row = 0; row < m->rows; row++) {
            const float *x = m->x + image * m->x_image + row * m->x_row;
            for (int col = 0; col < m->cols; col++, x += m->x_col, dy += vectors * VL) {
                vec d[2];
                UNROLL
                for (int v = 0; v < vectors; v++) d[v] = *(const vec *)(dy + v * VL);
                EACH(r, rows, v, vectors) sum[r][v] = fma_of(splat(x[r]), d[v], sum[r][v]);
            }
        }
    EACH(r, rows, v, vectors) *(vec *)(m->acc + r * m->block + v * VL) = sum[r][v];
}

static void run_weights(int rows, const correlation *m)
{
#define ROWS_2(n) case n: if (n <= PIXELS_2) weight_tile(n, 2, m); break;
#define ROWS_1(n) case n: if (n <= PIXELS_1) weight_tile(n, 1, m); break;
    if (m->vectors == 2)
        switch (rows) { EACH_LENGTH(ROWS_2) }
    else
        switch (rows) { EACH_LENGTH(ROWS_1) }
}

/* Rows of x, side by side for each pixel, one pixel after another. */
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
    switch (rows) { EACH_LENGTH(GATHER) }
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

/* k rows of one block of weights; gathered: the rows of x that gather has copied for them, NULL: read x in place. */
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

/* Pixels of x that are FAR floats apart or more share lines of the cache in the same way.  A chunk of their rows is
 * then copied for all tiles, which pays off if at least MANY blocks of channels read it. */
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
            m.vectors       = lanes > VL ? 2 : 1;
            pack_pixels(dy + o, pixels, g->oc, lanes, m.vectors * VL, scratch);
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

static void weight_gradient(const qg__conv *g, int u0, int u1, int n, const float *x, const float *dy,
                            float *acc, float *scratch)
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

/* The inverse of pack_forward; STRETCH weights of each row at a time, so that the block's lines are still there for
 * the next row. */
static void add_weight_gradient(const qg__conv *g, int b, const float *acc, float *dw)
{
    const int       block = block_of(g->oc);
    const ptrdiff_t k     = (ptrdiff_t)g->kh * g->kw * g->c;
    for (ptrdiff_t i0 = 0; i0 < k; i0 += STRETCH)
        for (int lane = 0; lane < least(block, g->oc - b * block); lane++)
            for (ptrdiff_t i = i0; i < k && i < i0 + STRETCH; i++)
                dw[(b * block + lane) * k + i] += acc[(b * k + i) * block + lane];
}

const qg__conv_kernels QG_PER_ISA(qg__conv_kernels) = {
    .lanes               = VL,
    .pack_forward        = pack_forward,
    .pack_backward       = pack_backward,
    .scratch             = scratch_size,
    .units               = units,
    .unit_run            = unit_run,
    .forward             = forward,
    .input_gradient      = input_gradient,
    .weight_gradient     = weight_gradient,
    .add_weight_gradient = add_weight_gradient,
};
