#include "core/kernels/depthwise_kernel.h"

#include "core/kernels/conv_tile.h"

/* A tile is pixels x vectors of running sums.  Each tap loads its weights once for all pixels, and the multiply-adds
 * read their inputs from memory: one load each.  Two vectors of eight are a line of the cache.  It is used whole when it
 * is there, because pixels of 1,024 channels compete for the same few lines. */
enum { VECTORS = VL == 16 ? 1 : 2, PIXELS = VL == 16 ? 12 : 6 };

/* Where a kernel has three columns and pixels are neighbours, as in most nets, a tile loads each input once for the three
 * taps that read it, and the weights of a kernel row stay in registers beside the sums. */
enum { THREE = 3, PIXELS_3 = VL == 16 ? 12 : 4 };

/* Neighbours in a row of results and what they read: pixel q meets columns q * stride + j - left of x, j < kw, in kh rows
 * of x that are there.  Steps are in floats. */
typedef struct results {
    const float *x, *w;         /* column 0 of the first row; the first tap */
    const float *start;         /* [c]; NULL: 0 */
    float       *y;
    ptrdiff_t    x_row, w_row, w_col, y_col;
    int          c, columns;    /* of x */
    int          pixels, kh, kw, stride, left;
    bool         add;           /* to the old y, instead of start */
} results;

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
        UNROLL
        for (int p = 0; p < pixels; p++)
            UNROLL
            for (int v = 0; v < vectors; v++) sum[p][v] += load(x + p * x_col + v * VL, lanes) * wv[v];
    }
}

INLINE void add_three_taps(int pixels, int vectors, int lanes, const results *m, const float *x, const float *w,
                           vf sum[PIXELS][VECTORS])
{
    vf wv[THREE][VECTORS];
    UNROLL
    for (int j = 0; j < THREE; j++)
        UNROLL
        for (int v = 0; v < vectors; v++) wv[j][v] = load(w + j * m->w_col + v * VL, lanes);
    UNROLL
    for (int q = 0; q < pixels + THREE - 1; q++, x += m->c) {
        vf xv[VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) xv[v] = load(x + v * VL, lanes);
        UNROLL
        for (int j = 0; j < THREE; j++)
            UNROLL
            for (int v = 0; v < vectors; v++)
                if (q >= j && q - j < pixels) sum[q - j][v] += xv[v] * wv[j][v];
    }
}

INLINE bool has_three(const results *m) { return m->kw == THREE && m->stride == 1; }

/* Channels k, k + 1, .. of some pixels. */
INLINE void tile(int pixels, int vectors, int lanes, int skip, bool three, const results *m, const float *x, float *y, int k)
{
    vf sum[PIXELS][VECTORS];
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            sum[p][v] = m->add     ? load(y + p * m->y_col + k + v * VL, lanes)
                        : m->start ? load(m->start + k + v * VL, lanes)
                                   : (vf){ 0 };
    const float *w = m->w + k;
    x += k;
    for (int i = 0; i < m->kh; i++, x += m->x_row, w += m->w_row) {
        if (three) add_three_taps(pixels, vectors, lanes, m, x, w, sum);
        else add_taps(pixels, vectors, lanes, m, x, w, sum);
    }
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++) put(y + p * m->y_col + k + v * VL, sum[p][v], lanes, skip);
}

/* All channels.  The last vector begins within the one before if it would not be full. */
INLINE void tiles(int pixels, bool three, const results *m, const float *x, float *y)
{
    int k = 0;
    for (; k + VECTORS * VL <= m->c; k += VECTORS * VL) tile(pixels, VECTORS, VL, 0, three, m, x, y, k);
    if (k + VL <= m->c) tile(pixels, 1, VL, 0, three, m, x, y, k), k += VL;
    if (k == m->c) return;
    if (m->c < VL) tile(pixels, 1, m->c, 0, three, m, x, y, 0);
    else tile(pixels, 1, VL, k - (m->c - VL), three, m, x, y, m->c - VL);
}

/* x: the first column that pixel y meets. */
static void run(int pixels, const results *m, const float *x, float *y)
{
#define CASE(n) case n: if (n <= PIXELS) tiles(n, false, m, x, y); break;
#define CASE_3(n) case n: if (n <= PIXELS_3) tiles(n, true, m, x, y); break;
    if (has_three(m))
        switch (pixels) {
            CASE_3(1) CASE_3(2) CASE_3(3) CASE_3(4) CASE_3(5) CASE_3(6) CASE_3(7) CASE_3(8) CASE_3(9) CASE_3(10)
            CASE_3(11) CASE_3(12)
        }
    else
        switch (pixels) {
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        }
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
    run(1, &e, e.kw ? m->x + (ptrdiff_t)(j0 - before) * m->c : m->x, m->y + q * m->y_col);
}

static void multiply(const results *m)
{
    int q0, q1;
    interior(m->pixels, m->kw, m->stride, m->left, m->columns, &q0, &q1);
    const int most = has_three(m) ? PIXELS_3 : PIXELS, parts = (q1 - q0 + most - 1) / most;
    for (int q = 0; q < q0; q++) edge(m, q);
    for (int t = 0; t < parts; t++) {
        const int q = q0 + cut(q1 - q0, t, parts), pixels = q0 + cut(q1 - q0, t + 1, parts) - q;
        run(pixels, m, m->x + ((ptrdiff_t)q * m->stride - m->left) * m->c, m->y + q * m->y_col);
    }
    for (int q = q1; q < m->pixels; q++) edge(m, q);
}

/* --- forward ------------------------------------------------------------------------------ */

static void add_products(int n, const float *restrict a, const float *restrict b, float *restrict sum)
{
    for (int k = 0; k < n; k++) sum[k] += a[k] * b[k];
}

static void add_scaled(int n, float a, const float *restrict b, float *restrict sum)
{
    for (int k = 0; k < n; k++) sum[k] += a * b[k];
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
            .x_row = line, .w_row = (ptrdiff_t)g->kw * g->c, .w_col = g->c, .y_col = g->c, .c = g->c, .columns = g->w,
            .pixels = g->ow, .kh = i1 - i0, .kw = g->kw, .stride = g->stride, .left = g->left,
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
            .c = g->c, .columns = g->ow, .pixels = (g->w - 1 - f) / g->stride + 1, .kh = i1 - i0, .kw = u.n, .stride = 1,
            .left = u.n - 1 - u.at, .add = add,
        };
        if (!none || !add) multiply(&m);
    }
}

static void input_gradient(const qg__depthwise *g, const float *dy, const float *w, bool add, float *dx)
{
    for (int r = 0; r < g->h; r++) gradient_row(g, r, dy, w, add, dx);
}

/* --- weight gradient ---------------------------------------------------------------------- */

/* The sums of up to SIDE x SIDE taps stay in registers for a row of pixels. */
enum { SIDE = 3 };

typedef struct correlation {
    const float *x, *dy;        /* the first tap of the first pixel; the first pixel */
    float       *acc;           /* the first tap */
    ptrdiff_t    x_row, x_col, acc_row;
    int          c, pixels;
} correlation;

INLINE void weight_tile(int rows, int cols, int lanes, int skip, const correlation *m, int k)
{
    const float *x = m->x + k, *dy = m->dy + k;
    float       *acc = m->acc + k;
    vf           sum[SIDE][SIDE];
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int j = 0; j < cols; j++) sum[i][j] = load(acc + i * m->acc_row + (ptrdiff_t)j * m->c, lanes);
    for (int q = 0; q < m->pixels; q++, x += m->x_col, dy += m->c) {
        const vf d = load(dy, lanes);
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
            for (int j = 0; j < cols; j++) sum[i][j] += load(x + i * m->x_row + (ptrdiff_t)j * m->c, lanes) * d;
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int j = 0; j < cols; j++) put(acc + i * m->acc_row + (ptrdiff_t)j * m->c, sum[i][j], lanes, skip);
}

INLINE void weight_tiles(int rows, int cols, const correlation *m, int k0, int k1)
{
    int k = k0;
    for (; k + VL <= k1; k += VL) weight_tile(rows, cols, VL, 0, m, k);
    if (k == k1) return;
    if (k1 < VL) weight_tile(rows, cols, k1, 0, m, 0);
    else weight_tile(rows, cols, VL, k - (k1 - VL), m, k1 - VL);
}

static void correlate(int rows, int cols, const correlation *m, int k0, int k1)
{
#define TAPS(i, j) case SIDE * i + j: weight_tiles(i, j, m, k0, k1); break;
    switch (SIDE * rows + cols) {
        TAPS(1, 1) TAPS(1, 2) TAPS(1, 3) TAPS(2, 1) TAPS(2, 2) TAPS(2, 3) TAPS(3, 1) TAPS(3, 2) TAPS(3, 3)
    }
}

/* Every tap of a row of dy, in parts of SIDE x SIDE; m: tap (i0, 0) of the first pixel. */
static void correlate_row(const qg__depthwise *g, int rows, const correlation *m, int k0, int k1)
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

static void weight_gradient(const qg__depthwise *g, int k0, int k1, const float *x, const float *dy, float *acc)
{
    const ptrdiff_t line = (ptrdiff_t)g->w * g->c;
    int             q0, q1;
    interior(g->ow, g->kw, g->stride, g->left, g->w, &q0, &q1);
    for (int r = 0; r < g->oh; r++, dy += (ptrdiff_t)g->ow * g->c) {
        const int before = g->top - r * g->stride;
        int       i0, i1;
        inside(g->kh, before, g->h, &i0, &i1);
        const bool whole = i1 - i0 == g->kh || g->pad == 0;     /* else every pixel meets padding that counts */
        const int  from  = whole ? q0 : g->ow, to = whole ? q1 : g->ow;
        for (int q = 0; q < from; q++) weight_edge(g, r, q, k0, k1, x, dy + (ptrdiff_t)q * g->c, acc);
        if (from < to && i0 < i1)
            correlate_row(g, i1 - i0, &(correlation){
                .x = x + (i0 - before) * line + ((ptrdiff_t)from * g->stride - g->left) * g->c,
                .dy = dy + (ptrdiff_t)from * g->c, .acc = acc + (ptrdiff_t)i0 * g->kw * g->c,
                .x_row = line, .x_col = (ptrdiff_t)g->stride * g->c, .acc_row = (ptrdiff_t)g->kw * g->c,
                .c = g->c, .pixels = to - from,
            }, k0, k1);
        for (int q = to; q < g->ow; q++) weight_edge(g, r, q, k0, k1, x, dy + (ptrdiff_t)q * g->c, acc);
    }
}

const qg__depthwise_kernels QG_PER_ISA(qg__depthwise_kernels) = { forward, input_gradient, weight_gradient };
