#include "core/kernels/conv_kernel.h"

#include <stdbool.h>
#include <string.h>

#include "core/kernels/conv_tile.h"

/* The input gradient takes rows of one column's products until it has STRIP pixels, so that they
 * stay in the cache for the next column. */
enum { STRIP = 48 };

/* What forward and input gradient have in common.  For each pixel of rows x cols
 *     y[row][col][lane] = start[lane] + sum over t, i of x[row][col][t][i] * w[t][i][lane]
 * in steps given in floats.  The k values of x lie side by side: the kernel's columns and channels
 * in the forward direction, the output channels in the other. */
typedef struct product {
    const float *x, *w;
    const float *start;     /* BLOCK floats; NULL: what y holds */
    float       *y;
    ptrdiff_t    x_row, x_col, x_tap, w_tap, y_row, y_col;
    int          rows, cols, taps, k;
    int          block;     /* from one w[t][i] to the next */
    int          lanes;     /* how many of them count; tiles are one vector wide if those fit */
} product;

/* step: from one pixel of x to the next where that is a constant; 0: see x_at. */
INLINE void tile(int pixels, int vectors, int step, const product *m, const float *x0,
                 const ptrdiff_t *x_at, float *y, const ptrdiff_t *y_at)
{
    vec sum[MOST][2];
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[p][v] = *(const loose *)((m->start ? m->start : y + y_at[p]) + v * LANES);
    for (int t = 0; t < m->taps; t++) {
        const float *x = x0 + t * m->x_tap;
        const float *w = m->w + t * m->w_tap;
        for (int i = 0; i < m->k; i++, x++, w += m->block) {
            vec wv[2];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = *(const vec *)(w + v * LANES);
            UNROLL
            for (int p = 0; p < pixels; p++)
                UNROLL
                for (int v = 0; v < vectors; v++) sum[p][v] += x[step ? p * step : x_at[p]] * wv[v];
        }
    }
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++) *(loose *)(y + y_at[p] + v * LANES) = sum[p][v];
}

/* Where a tile's pixels are, relative to its first. */
typedef struct places {
    ptrdiff_t x[MOST], y[MOST];
    int       pixels;
    bool      even;         /* x[p] == p * LANES */
} places;

/* One specialisation per size. */
static void run(const product *m, const float *x, float *y, const places *at)
{
#define CASE_2(n) case n: if (n <= PIXELS_2) tile(n, 2, 0, m, x, at->x, y, at->y); break;
#define CASE_1(n) case n: if (n <= PIXELS_1) tile(n, 1, 0, m, x, at->x, y, at->y); break;
#define CASE_E(n) case n: if (n <= PIXELS_1) tile(n, 1, LANES, m, x, at->x, y, at->y); break;
    if (m->lanes > LANES)
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

/* The next pixels of them, for a tile of size pixels.  A tail computes its last pixel more than
 * once, each time from the same start. */
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

/* A tile's offsets cost a register each, and one vector per pixel leaves no time to reload those
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
            (m->lanes < LANES ? run_partial : run)(m, m->x + row * m->x_row + p * m->x_col,
                                                   m->y + row * m->y_row + p * m->y_col, &at);
        }
}

/* All pixels, in tiles of nearly equal size.  A tile takes pixels as they come, across the ends of
 * rows, so small images fill tiles too. */
static void multiply(const product *m)
{
    const bool two   = m->lanes > LANES;
    const int  unit  = two ? 2 : 4;         /* tile sizes are multiples of it */
    const int  most  = two ? PIXELS_2 : PIXELS_1;
    const int  n     = m->rows * m->cols;
    const int  tiles = (n + most - 1) / most;
    const int  units = (n + unit - 1) / unit;
    places     at    = { .even = false };
    cursor     next  = { 0 };
    if (!two && m->x_col == LANES && m->cols % 4 == 0) {
        multiply_rows(m);
        return;
    }
    for (int t = 0, p = 0; t < tiles; t++, p += at.pixels) {
        const float *x    = m->x + next.x;
        float       *y    = m->y + next.y;
        const int    size = cut(units, t + 1, tiles) * unit - p;
        take(m, &next, least(size, n - p), size, &at);
        (m->lanes % LANES ? run_partial : run)(m, x, y, &at);
    }
}

static void convolve(const qg__conv *g, const float *x, const float *wf, const float *bias,
                     bool add, float *y)
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

static void forward(const qg__conv *g, const float *x, const float *wf, const float *bias, float *y,
                    float *scratch)
{
    (void)scratch;
    convolve(g, x, wf, bias, false, y);
}

static void forward_add(const qg__conv *g, const float *x, const float *wf, float *y, float *scratch)
{
    (void)scratch;
    convolve(g, x, wf, NULL, true, y);
}

/* Rows of dx that meet the same kernel rows first + stride * t, t0 <= t < t1; the first of them is
 * row first + stride * q, and there tap t meets output row q - t. */
typedef struct band {
    int first, q, rows, t0, t1;
} band;

/* dx of a band, for one block of channels, one kernel column after another.  The weights stand in
 * reverse order: the last tap first. */
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

/* A row of dx receives dy through kernel row i from the output row at (row - i) / stride, if there
 * is one.  The sum over those and over the output channels stays in registers, dx is read and
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
 * then compete for few lines of a cache, so FEW are read at a time, and CHUNK weights of each: the
 * block's lines are still there when the next rows come. */
enum { CHUNK = 64, FEW = 4 };

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

static void pack_forward(const qg__conv *g, int b0, int b1, const float *w, float *wf)
{
    const int       block = block_of(g->oc);
    const ptrdiff_t k     = (ptrdiff_t)g->kh * g->kw * g->c;
    for (int b = b0; b < b1; b++) {
        const int    lanes = least(block, g->oc - b * block);
        const float *from  = w + b * block * k;
        float       *to    = wf + b * block * k;
        if (lanes < block) memset(to, 0, (size_t)(k * block) * sizeof *to);
        for (ptrdiff_t i = 0; i < k; i += CHUNK)
            for (int lane = 0; lane < lanes; lane += FEW)
                pack_rows(from + lane * k + i, k, k - i < CHUNK ? k - i : CHUNK,
                          least(FEW, lanes - lane), to + i * block + lane, block);
    }
}

static void pack_backward(const qg__conv *g, int b0, int b1, const float *w, float *wb)
{
    const int block = block_of(g->c);
    const int taps  = g->kh * g->kw;
    for (int b = b0; b < b1; b++) {
        const int lanes = least(block, g->c - b * block);
        float    *to    = wb + (ptrdiff_t)b * taps * g->oc * block;
        for (int t = taps - 1; t >= 0; t--)
            for (int o = 0; o < g->oc; o++, to += block) {
                const float *from = w + ((ptrdiff_t)o * taps + t) * g->c + b * block;
                memcpy(to, from, (size_t)lanes * sizeof *to);
                memset(to + lanes, 0, (size_t)(block - lanes) * sizeof *to);
            }
    }
}

const qg__conv_kernels QG_PER_ISA(qg__conv_kernels) = {
    .lanes               = LANES,
    .pack_forward        = pack_forward,
    .pack_backward       = pack_backward,
    .scratch             = QG_PER_ISA(qg__conv_scratch),
    .units               = QG_PER_ISA(qg__conv_units),
    .forward             = forward,
    .forward_add         = forward_add,
    .input_gradient      = input_gradient,
    .weight_gradient     = QG_PER_ISA(qg__conv_weight_gradient),
    .add_weight_gradient = QG_PER_ISA(qg__conv_add_weight_gradient),
};
