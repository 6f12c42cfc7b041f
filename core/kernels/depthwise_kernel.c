#include "core/kernels/depthwise_kernel.h"

#include "core/kernels/conv_tile.h"
#include "core/kernels/fma.h"

/* A tile is pixels x vectors of running sums.  Each tap loads its weights once for all pixels, and the multiply-adds
 * read their inputs from memory: one load each.  Two vectors of eight are a line of the cache.  It is used whole when it
 * is there, because pixels of 1,024 channels compete for the same few lines.
 *
 * Where a kernel has three columns and pixels are neighbours, as in most nets, a tile loads each input once for the three
 * taps that read it, and the weights of a kernel row stay in registers beside the sums: with AVX2, 8 sums, 6 weights and 2
 * inputs fill all 16 registers, and 18 loads serve 24 multiply-adds.  A column outside x is left out. */
enum { THREE = 3, VECTORS = VL == 16 ? 1 : 2, PIXELS = VL == 16 ? 12 : 4, FEW = VL == 16 ? 4 : 2 };

/* The next line that a tile reads in one pixel is c floats from that of the next pixel, and hardware prefetchers do not
 * follow so many short streams.  But the tiles of one group of pixels together read a contiguous part of the last row that the
 * kernel meets, the only one that the row of results before did not read, and write a contiguous part of y.  So each tile
 * prefetches its share of what lies AHEAD bytes after those parts, in order of address.  8 KiB are about a microsecond of
 * work.  The lines go to the second-level cache, because the first holds the columns that two groups share, and the
 * weights. */
enum { LINE = 16, AHEAD = 8192, SECOND_LEVEL = 2 };

/* Neighbours in a row of results and what they read: pixel q meets columns q * stride + j - left of x, j < kw, in kh rows
 * of x that are there.  Steps are in floats. */
typedef struct results {
    const float *x, *w;         /* column 0 of the first row; the first tap */
    const float *start;         /* [c]; NULL: 0 */
    float       *y;
    ptrdiff_t    x_row, w_row, w_col, y_col;
    int          c, columns;    /* of x */
    int          pixels, kh, kw, stride, left;
    int          y_step;        /* y_col in pixels */
    int          below;         /* the row of x that the last row of the kernel meets, inside or not */
    bool         add;           /* to the old y, instead of start */
} results;

/* The pixels of a tile. */
typedef struct group {
    const float *x;             /* the first column inside x that they meet, in the first row */
    float       *y;
    bool         no_left, no_right;     /* three columns: the one before x, or the one after the last, is outside */
} group;

/* --- prefetching -------------------------------------------------------------------------- */

INLINE void ask_to_read(const float *p, ptrdiff_t floats)
{
    for (ptrdiff_t i = 0; i < floats; i += LINE) __builtin_prefetch((const void *)((uintptr_t)(p + i) + AHEAD), 0, SECOND_LEVEL);
}

INLINE void ask_to_write(const float *p, ptrdiff_t floats)
{
    for (ptrdiff_t i = 0; i < floats; i += LINE) __builtin_prefetch((const void *)((uintptr_t)(p + i) + AHEAD), 1, SECOND_LEVEL);
}

/* --- sums over taps ----------------------------------------------------------------------- */

/* lanes < VL: there are no more channels.  The first skip lanes belong to the vector before and are not stored. */
INLINE void put(float *y, vf v, int lanes, int skip)
{
    if (skip) memcpy(y + skip, (const float *)&v + skip, (size_t)(VL - skip) * sizeof *y);
    else store(y, v, lanes);
}

/* Adds the taps of a kernel row to the sums of some pixels. */
INLINE void add_taps(int pixels, int vectors, int lanes, const results *m, const float *x, const float *w,
                     vf sum[PIXELS][VECTORS])
{
    const ptrdiff_t x_col = (ptrdiff_t)m->stride * m->c;
    for (int j = 0; j < m->kw; j++, x += m->c, w += m->w_col) {
        vf wv[VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) wv[v] = load(w + v * VL, lanes);
        EACH(p, pixels, v, vectors) sum[p][v] = fma_of(load(x + p * x_col + v * VL, lanes), wv[v], sum[p][v]);
    }
}

/* The first or the last column of the tile may be outside: it adds nothing. */
INLINE void add_three_taps(int pixels, int vectors, int lanes, const results *m, const group *at, const float *x, const float *w,
                           vf sum[PIXELS][VECTORS])
{
    vf wv[THREE][VECTORS];
    EACH(j, THREE, v, vectors) wv[j][v] = load(w + j * m->w_col + v * VL, lanes);
    UNROLL
    for (int q = 0; q < pixels + THREE - 1; q++) {
        if ((q == 0 && at->no_left) || (q == pixels + 1 && at->no_right)) continue;
        vf xv[VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) xv[v] = load(x + v * VL, lanes);
        x += m->c;
        EACH(j, THREE, v, vectors)
            if (q >= j && q - j < pixels) sum[q - j][v] = fma_of(xv[v], wv[j][v], sum[q - j][v]);
    }
}

INLINE bool has_three(const results *m) { return m->kw == THREE && m->stride == 1; }

/* Prefetch the share of channels k, k + 1, .. in the lines that the tiles of these pixels ask for.  As many rows of x as the
 * stride are new. */
INLINE void ask(int pixels, int vectors, bool three, const results *m, const group *at, int k)
{
    const int       stride = three ? 1 : m->stride;
    if (stride > 2 || m->y_step > 2) return;        /* most of those lines are not used, and a stride may be 2^31 - 1 */
    const ptrdiff_t before = (ptrdiff_t)pixels * k, share = pixels * vectors * VL;
    for (int i = 0; i < stride; i++)
        ask_to_read(at->x + ((m->below - i) * m->x_row + before * stride), share * stride);
    ask_to_write(at->y + before * m->y_step, share * m->y_step);
}

/* Channels k, k + 1, .. of some pixels. */
INLINE void tile(int pixels, int vectors, int lanes, int skip, bool three, const results *m, const group *at, int k)
{
    vf     sum[PIXELS][VECTORS];
    float *y = at->y + k;
    EACH(p, pixels, v, vectors)
        sum[p][v] = m->add     ? load(y + p * m->y_col + v * VL, lanes)
                    : m->start ? load(m->start + k + v * VL, lanes)
                               : (vf){ 0 };
    ask(pixels, vectors, three, m, at, k);
    const float *x = at->x + k, *w = m->w + k;
    for (int i = 0; i < m->kh; i++, x += m->x_row, w += m->w_row) {
        if (three) add_three_taps(pixels, vectors, lanes, m, at, x, w, sum);
        else add_taps(pixels, vectors, lanes, m, x, w, sum);
    }
    EACH(p, pixels, v, vectors) put(y + p * m->y_col + v * VL, sum[p][v], lanes, skip);
}

/* All channels.  The last vector begins within the one before if it would not be full. */
INLINE void tiles(int pixels, bool three, const results *m, const group *at)
{
    int k = 0;
    if (m->c < VL) {
        tile(pixels, 1, m->c, 0, three, m, at, 0);
        return;
    }
    for (; k + VECTORS * VL <= m->c; k += VECTORS * VL) tile(pixels, VECTORS, VL, 0, three, m, at, k);
    for (; k < m->c; k += VL) {
        const int from = least(k, m->c - VL);
        tile(pixels, 1, VL, k - from, three, m, at, from);
    }
}

static void run(int pixels, const results *m, const group *at)
{
#define SIZE(n) case n: if (three) tiles(n, true, m, at); else tiles(n, false, m, at); break;
    const bool three = has_three(m);
    switch (pixels) {
        SIZE(1) SIZE(FEW) SIZE(PIXELS)
    }
#undef SIZE
}

/* Where something of n taps that begins `before` ahead of an extent is inside it: taps [*from, *to). */
INLINE void inside(int n, int before, int extent, int *from, int *to)
{
    *from = before > 0 ? least(before, n) : 0;
    *to   = least(n, extent + before);
    if (*to < *from) *to = *from;
}

/* Pixels [*from, *to) meet only columns that are there. */
INLINE void interior(int pixels, int kw, int stride, int left, int columns, int *from, int *to)
{
    const int room = columns + left - kw;
    *from = left > 0 ? least((left - 1) / stride + 1, pixels) : 0;
    *to   = room < 0 ? 0 : least(room / stride + 1, pixels);
    if (*to < *from) *to = *from;
}

/* A pixel whose window reaches beyond the row: only with the taps inside. */
static void edge(const results *m, int q)
{
    results   e = *m;
    const int before = m->left - q * m->stride;
    int       j0, j1;
    inside(m->kw, before, m->columns, &j0, &j1);
    e.kw = j1 - j0;
    e.w += j0 * m->w_col;
    run(1, &e, &(group){ .x = e.kw ? m->x + (ptrdiff_t)(j0 - before) * m->c : m->x, .y = m->y + q * m->y_col });
}

static void multiply(const results *m)
{
    const int lacks = has_three(m);      /* columns outside that a tile may have on either side */
    int       q0, q1;
    interior(m->pixels, m->kw, m->stride, m->left - lacks, m->columns + 2 * lacks, &q0, &q1);
    for (int q = 0; q < q0; q++) edge(m, q);
    for (int q = q0, pixels; q < q1; q += pixels) {
        const int col = q * m->stride - m->left;
        pixels        = q1 - q >= PIXELS ? PIXELS : q1 - q >= FEW ? FEW : 1;
        run(pixels, m, &(group){
            .x = m->x + (ptrdiff_t)(col < 0 ? 0 : col) * m->c, .y = m->y + q * m->y_col,
            .no_left = col < 0, .no_right = lacks && col + pixels - 1 + THREE > m->columns,
        });
    }
    for (int q = q1; q < m->pixels; q++) edge(m, q);
}

/* --- forward ------------------------------------------------------------------------------ */

static void add_products(int n, const float *restrict a, const float *restrict b, float *restrict sum)
{
    for (int k = 0; k < n; k++) sum[k] = fma_of_floats(a[k], b[k], sum[k]);
}

static void add_scaled(int n, float a, const float *restrict b, float *restrict sum)
{
    for (int k = 0; k < n; k++) sum[k] = fma_of_floats(a, b[k], sum[k]);
}

/* The pixel of x at tap (i, j) of result (r, q); NULL: it is outside. */
INLINE const float *met(const qg__depthwise *g, const float *x, int r, int q, int i, int j)
{
    const int row = r * g->stride + i - g->top, col = q * g->stride + j - g->left;
    const bool in = row >= 0 && row < g->h && col >= 0 && col < g->w;
    return in ? x + ((ptrdiff_t)row * g->w + col) * g->c : NULL;
}

/* A pixel whose window contains padding that is not 0. */
static void padded(const qg__depthwise *g, int r, int q, const float *x, const float *w, const float *bias, float *y)
{
    for (int k = 0; k < g->c; k++) y[k] = bias ? bias[k] : 0.0f;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, w += g->c) {
            const float *at = met(g, x, r, q, i, j);
            if (at) add_products(g->c, at, w, y);
            else add_scaled(g->c, g->pad, w, y);
        }
}

static void forward(const qg__depthwise *g, const float *x, const float *w, const float *bias, float *y)
{
    const ptrdiff_t line = (ptrdiff_t)g->w * g->c, out = (ptrdiff_t)g->ow * g->c;
    int             q0, q1;
    interior(g->ow, g->kw, g->stride, g->left, g->w, &q0, &q1);
    for (int r = 0; r < g->oh; r++) {
        const int before = g->top - r * g->stride;
        int       i0, i1;
        inside(g->kh, before, g->h, &i0, &i1);
        results m = {
            .x = i1 > i0 ? x + (i0 - before) * line : x, .w = w + (ptrdiff_t)i0 * g->kw * g->c, .start = bias, .y = y + r * out,
            .x_row = line, .w_row = (ptrdiff_t)g->kw * g->c, .w_col = g->c, .y_col = g->c, .y_step = 1, .c = g->c, .columns = g->w,
            .pixels = g->ow, .kh = i1 - i0, .kw = g->kw, .stride = g->stride, .left = g->left, .below = g->kh - 1 - i0,
        };
        multiply(&m);
        for (int q = 0; g->pad != 0 && q < g->ow; q++)
            if (i1 - i0 < g->kh || q < q0 || q >= q1) padded(g, r, q, x, w, bias, m.y + (ptrdiff_t)q * g->c);
    }
}

/* --- input gradient ----------------------------------------------------------------------- */

/* Pixel p of dx receives dy through the taps first + stride * a, 0 <= a < n, from pixel at - a of dy. */
typedef struct phase {
    int first, n, at;
} phase;

static phase phase_of(int p, int pad, int kernel, int stride)
{
    const int first = (p + pad) % stride;
    return (phase){ first, first < kernel ? (kernel - 1 - first) / stride + 1 : 0, (p + pad) / stride };
}

/* The pixels of a row of dx that are stride apart meet the same taps, and dy in turn: a convolution of dy with these taps
 * from the last to the first. */
static void gradient_row(const qg__depthwise *g, int r, const float *dy, const float *w, bool add, float *dx)
{
    const ptrdiff_t out = (ptrdiff_t)g->ow * g->c, tap = (ptrdiff_t)g->stride * g->c;
    const phase     v = phase_of(r, g->top, g->kh, g->stride);
    int             i0, i1;
    inside(v.n, v.n - 1 - v.at, g->oh, &i0, &i1);
    for (int f = 0; f < least(g->stride, g->w); f++) {
        const phase     u    = phase_of(f, g->left, g->kw, g->stride);
        const bool      none = i1 == i0 || u.n == 0;
        const ptrdiff_t last = ((ptrdiff_t)(v.first + g->stride * (ptrdiff_t)(v.n - 1 - i0)) * g->kw + u.first) * g->c +
                               tap * (u.n - 1);
        const results   m    = {
            .x = none ? dy : dy + (v.at - v.n + 1 + i0) * out, .w = none ? w : w + last,
            .y = dx + ((ptrdiff_t)r * g->w + f) * g->c, .x_row = out, .w_row = -tap * g->kw, .w_col = -tap, .y_col = tap,
            .y_step = g->stride, .c = g->c, .columns = g->ow, .pixels = (g->w - 1 - f) / g->stride + 1, .kh = i1 - i0, .kw = u.n, .stride = 1,
            .left = u.n - 1 - u.at, .below = v.n - 1 - i0, .add = add,
        };
        if (!none || !add) multiply(&m);
    }
}

static void input_gradient(const qg__depthwise *g, const float *dy, const float *w, bool add, float *dx)
{
    for (int r = 0; r < g->h; r++) gradient_row(g, r, dy, w, add, dx);
}

/* --- weight gradient ---------------------------------------------------------------------- */

/* The sums of up to SIDE x SIDE taps stay in registers for RUN pixels of a row. */
enum { SIDE = THREE, RUN = 4 };

typedef struct correlation {
    const float *x, *dy;        /* the first tap of the first pixel, of those inside; the first pixel */
    float       *acc;           /* the first tap */
    ptrdiff_t    x_row, x_col, acc_row;
    int          c, pixels;
    bool         no_left, no_right;     /* the first column of the first pixel, the last one of the last are outside */
} correlation;

/* Adds a pixel to the sums of columns [j0, j1).  at: column 0, in floats from x. */
INLINE void add_pixel(int rows, int j0, int j1, int lanes, const correlation *m, const float *x, ptrdiff_t at,
                      const float *dy, vf sum[SIDE][SIDE])
{
    const vf d = load(dy, lanes);
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int j = j0; j < j1; j++) sum[i][j] = fma_of(load(x + (at + i * m->x_row + (ptrdiff_t)j * m->c), lanes), d, sum[i][j]);
}

INLINE void weight_tile(int rows, int cols, int lanes, int skip, const correlation *m, int k)
{
    const float *x = m->x + k, *dy = m->dy + k;
    float       *acc = m->acc + k;
    ptrdiff_t    at = 0;
    int          q = 0;
    vf           sum[SIDE][SIDE];
    EACH(i, rows, j, cols) sum[i][j] = load(acc + i * m->acc_row + (ptrdiff_t)j * m->c, lanes);
    if (m->no_left) {
        at = -m->c;
        add_pixel(rows, 1, cols, lanes, m, x, at, dy, sum);
        q++, at += m->x_col, dy += m->c;
    }
    for (; q < m->pixels - m->no_right; q++, at += m->x_col, dy += m->c) add_pixel(rows, 0, cols, lanes, m, x, at, dy, sum);
    if (m->no_right) add_pixel(rows, 0, cols - 1, lanes, m, x, at, dy, sum);
    EACH(i, rows, j, cols) put(acc + i * m->acc_row + (ptrdiff_t)j * m->c, sum[i][j], lanes, skip);
}

/* Like ask; only x and dy come from main memory. */
INLINE void ask_for_weights(int rows, int stride, const correlation *m, int channels)
{
    if (stride > 2) return;
    const ptrdiff_t before = (ptrdiff_t)m->pixels * channels, share = (ptrdiff_t)m->pixels * VL;
    for (int i = 1; i <= least(stride, rows); i++)
        ask_to_read(m->x + ((rows - i) * m->x_row + before * stride), share * stride);
    ask_to_read(m->dy + before, share);
}

INLINE void weight_tiles(int rows, int cols, const correlation *m, int k0, int k1)
{
    const int stride = (int)(m->x_col / m->c);
    int       k      = k0;
    if (k1 < VL) {
        weight_tile(rows, cols, k1, 0, m, 0);
        return;
    }
    for (; k < k1; k += VL) {
        const int from = least(k, k1 - VL);
        ask_for_weights(rows, stride, m, k - k0);
        weight_tile(rows, cols, VL, k - from, m, from);
    }
}

static void correlate(int rows, int cols, const correlation *m, int k0, int k1)
{
#define TAPS(i, j) case SIDE * i + j: weight_tiles(i, j, m, k0, k1); break;
    switch (SIDE * rows + cols) {
        TAPS(1, 1) TAPS(1, 2) TAPS(1, 3) TAPS(2, 1) TAPS(2, 2) TAPS(2, 3) TAPS(3, 1) TAPS(3, 2) TAPS(3, 3)
    }
}

/* Every tap of some pixels, in parts of SIDE x SIDE; m: tap (i0, 0) of the first pixel. */
static void correlate_run(const qg__depthwise *g, int rows, const correlation *m, int k0, int k1)
{
    for (int i = 0; i < rows; i += SIDE)
        for (int j = 0; j < g->kw; j += SIDE) {
            correlation part = *m;
            part.x += i * m->x_row + (ptrdiff_t)j * g->c;
            part.acc += i * m->acc_row + (ptrdiff_t)j * g->c;
            correlate(least(SIDE, rows - i), least(SIDE, g->kw - j), &part, k0, k1);
        }
}

/* The taps of pixel (r, q) that are inside x, and, unless pad is 0, those that are not. */
static void weight_edge(const qg__depthwise *g, int r, int q, int k0, int k1, const float *x, const float *dy, float *acc)
{
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, acc += g->c) {
            const float *at = met(g, x, r, q, i, j);
            if (at) add_products(k1 - k0, at + k0, dy + k0, acc + k0);
            else if (g->pad != 0) add_scaled(k1 - k0, g->pad, dy + k0, acc + k0);
        }
}

/* Pixels [from, to) of row r of dy, whose taps are all inside but the first column of the first and the last of the last. */
static void correlate_row(const qg__depthwise *g, int rows, int from, int to, const correlation *row, int k0, int k1)
{
    const int parts = (to - from + RUN - 1) / RUN;
    for (int t = 0; t < parts; t++) {
        const int   q = from + cut(to - from, t, parts), end = from + cut(to - from, t + 1, parts);
        const int   col = q * g->stride - g->left;
        correlation m   = *row;
        m.x += (ptrdiff_t)(col < 0 ? 0 : col) * g->c;
        m.dy += (ptrdiff_t)q * g->c;
        m.pixels   = end - q;
        m.no_left  = col < 0;
        m.no_right = (end - 1) * g->stride - g->left + g->kw > g->w;
        correlate_run(g, rows, &m, k0, k1);
    }
}

static void weight_gradient(const qg__depthwise *g, int k0, int k1, const float *x, const float *dy, float *acc)
{
    const ptrdiff_t line = (ptrdiff_t)g->w * g->c;
    const int       lacks = g->kw == THREE && g->pad == 0 && g->w > 1;
    int             q0, q1;
    interior(g->ow, g->kw, g->stride, g->left - lacks, g->w + 2 * lacks, &q0, &q1);
    if (q1 - q0 < 2) interior(g->ow, g->kw, g->stride, g->left, g->w, &q0, &q1);
    for (int r = 0; r < g->oh; r++, dy += (ptrdiff_t)g->ow * g->c) {
        const int before = g->top - r * g->stride;
        int       i0, i1;
        inside(g->kh, before, g->h, &i0, &i1);
        const bool whole = i1 - i0 == g->kh || g->pad == 0;     /* else every pixel meets padding that counts */
        const int  from  = whole ? q0 : g->ow, to = whole ? q1 : g->ow;
        for (int q = 0; q < from; q++) weight_edge(g, r, q, k0, k1, x, dy + (ptrdiff_t)q * g->c, acc);
        if (from < to && i0 < i1)
            correlate_row(g, i1 - i0, from, to, &(correlation){
                .x = x + (i0 - before) * line, .dy = dy, .acc = acc + (ptrdiff_t)i0 * g->kw * g->c, .x_row = line,
                .x_col = (ptrdiff_t)g->stride * g->c, .acc_row = (ptrdiff_t)g->kw * g->c, .c = g->c,
            }, k0, k1);
        for (int q = to; q < g->ow; q++) weight_edge(g, r, q, k0, k1, x, dy + (ptrdiff_t)q * g->c, acc);
    }
}

const qg__depthwise_kernels QG_PER_ISA(qg__depthwise_kernels) = { forward, input_gradient, weight_gradient };
