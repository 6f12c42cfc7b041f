#include "infer/kernels/bits.h"
#include "infer/kernels/lanes.h"

/* With x = offset(x) + sum over i of f_i x_i, x_i the planes, and w likewise, a sum of products over the taps inside the
 * image is
 *
 *     acc = sum over i, j of f_i f_j ones(x_i & w_j) + offset(x) sum over j of f_j ones(w_j) + offset(w) sum x
 *
 * The second term depends on the taps that are inside and on the output, the third on the window alone.  Both are counted
 * once, not in the tiles.  Ternary weights need only one count if x has signs, and two if it is ternary:
 *
 *     acc = ones(m) - 2 ones((x ^ s) & m)                       m = plane 1, s = plane 0 of w
 *     acc = ones(m) - 2 ones((x_0 ^ s) & m),  m = x_1 & w_1     s = w_0
 *
 * A vector holds a word of 64 channels of WORDS outputs, and a tile spreads one word of each pixel over it.
 *
 * Weights: [blocks of outputs][planes][kh][kw][words][2 vectors][WORDS]. */
#if !QG_LOOKUP
enum { VECTORS = 2, OUTPUTS = VECTORS * WORDS, LONGEST = VL == 16 ? 14 : 4 };

/* What a tile counts: x & w, and the two of ternary weights. */
typedef enum count { COUNT_AND, COUNT_SIGNS, COUNT_TERNARY } count;

static count count_of(const qg__bit_product *p)
{
    if (p->w.kind != QG__TERNARY) return COUNT_AND;
    if (p->x.kind == QG__TERNARY) return COUNT_TERNARY;
    return p->x.kind == QG__ODD && p->x.bits == 1 ? COUNT_SIGNS : COUNT_AND;
}

/* Words of one plane of a block. */
static size_t plane_words(const qg__geometry *g) { return qg__taps(g) * qg__words(g->c) * OUTPUTS; }
static size_t block_words(const qg__bit_product *p) { return (size_t)p->w.bits * plane_words(&p->g); }

static size_t weight_bytes(const qg__bit_product *p)
{
    return ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS * block_words(p) * sizeof(uint64_t);
}

static void pack_weights(const qg__bit_product *p, int o, size_t first, size_t n, const float *values, void *packed)
{
    const size_t c  = (size_t)p->g.c, plane = plane_words(&p->g);
    uint64_t    *to = (uint64_t *)packed + (size_t)(o / OUTPUTS) * block_words(p);
    if (o % OUTPUTS == 0 && first == 0) memset(to, 0, block_words(p) * sizeof *to);
    to += o % OUTPUTS;
    size_t tap = first / c, k = first % c;
    for (size_t i = 0; i < n; i++) {
        uint64_t *word = to + (tap * qg__words(p->g.c) + k / 64) * OUTPUTS;
        for (int j = 0; j < p->w.bits; j++, word += plane) *word |= (uint64_t)qg__bit(p->w, (int)values[i], j) << k % 64;
        if (++k == c) k = 0, tap++;
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

typedef struct tile {
    const uint64_t *x, *w;              /* plane 0 under the first tap, and its weights */
    ptrdiff_t       x_step, x_row, x_col, w_row;        /* words to the next output, row and column of x; kw taps */
    size_t          words_of_x, plane;  /* words of a plane of a pixel; of the weights */
    int             taps_i, taps_j;
} tile;

/* all += factor * what the planes at x and w count. */
INLINE void add_counts(count what, int pixels, const tile *t, size_t x_plane, size_t w_plane, int factor,
                       int32_t all[LONGEST][OUTPUTS])
{
    words sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++)
        for (int j = 0; j < t->taps_j; j++) {
            const uint64_t *x = t->x + x_plane + i * t->x_row + j * t->x_col;
            const uint64_t *w = t->w + w_plane + i * t->w_row + (ptrdiff_t)((size_t)j * t->words_of_x * OUTPUTS);
            for (size_t n = 0; n < t->words_of_x; n++, x++, w += OUTPUTS) {
                words first[VECTORS], second[VECTORS];
                UNROLL
                for (int v = 0; v < VECTORS; v++) {
                    first[v] = *(const words *)(w + v * WORDS);
                    if (what != COUNT_AND) second[v] = *(const words *)(w + t->plane + v * WORDS);
                }
                UNROLL
                for (int p = 0; p < pixels; p++) {
                    const uint64_t a = x[p * t->x_step];
                    UNROLL
                    for (int v = 0; v < VECTORS; v++) {
                        if (what == COUNT_AND) sum[p][v] += ones(first[v] & a);
                        if (what == COUNT_SIGNS) sum[p][v] += ones((first[v] ^ a) & second[v]);
                        if (what == COUNT_TERNARY) {
                            const words mask = second[v] & x[p * t->x_step + (ptrdiff_t)t->words_of_x];
                            sum[p][v] += ones(mask) - (ones((first[v] ^ a) & mask) << 1);
                        }
                        KEEP(sum[p][v]);
                    }
                }
            }
        }
    int64_t counted[LONGEST][OUTPUTS];      /* the sums themselves are registers */
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < VECTORS; v++) memcpy(&counted[p][v * WORDS], &sum[p][v], sizeof sum[p][v]);
    for (int p = 0; p < pixels; p++)
        for (int o = 0; o < OUTPUTS; o++) all[p][o] += factor * (int32_t)counted[p][o];
}

typedef struct visit {
    const qg__bit_product *p;
    const uint64_t        *x, *w;           /* w: the block */
    const int32_t         *window;          /* offset(w) * sum x of every output */
    int32_t               *acc;
    count                  what;
    int                    first, outputs;  /* of the block */
    qg__line               counted;         /* whose taps start is for */
    int32_t                start[OUTPUTS];
} visit;

INLINE void run_tile(count what, int pixels, const visit *at, const tile *t, size_t y, ptrdiff_t y_step)
{
    const qg__alphabet xa = at->p->x, wa = at->p->w;
    int32_t            all[LONGEST][OUTPUTS];
    for (int p = 0; p < pixels; p++) memcpy(all[p], at->start, sizeof at->start);
    if (what == COUNT_AND)
        for (int i = 0; i < xa.bits; i++)
            for (int j = 0; j < wa.bits; j++)
                add_counts(what, pixels, t, (size_t)i * t->words_of_x, (size_t)j * t->plane,
                           qg__factor(xa, i) * qg__factor(wa, j), all);
    else add_counts(what, pixels, t, 0, 0, what == COUNT_SIGNS ? -2 : 1, all);
    for (int p = 0; p < pixels; p++) {
        const size_t at_y = (size_t)((ptrdiff_t)y + p * y_step);
        int32_t     *to   = at->acc + at_y * (size_t)at->p->g.oc + at->first;
        for (int o = 0; o < at->outputs; o++) to[o] = all[p][o] + at->window[at_y];
    }
}

/* The second term, or ones(m) for signs, over the taps of a line. */
static void count_weights(visit *at, const tile *t, const qg__line *line)
{
    const qg__line     *c = &at->counted;
    const qg__alphabet  w = at->p->w;
    if (c->i0 == line->i0 && c->i1 == line->i1 && c->j0 == line->j0 && c->j1 == line->j1) return;
    at->counted = *line;
    memset(at->start, 0, sizeof at->start);
    const int offset = qg__offset(at->p->x);
    if (!offset || at->what == COUNT_TERNARY) return;
    for (int j = at->what == COUNT_SIGNS ? 1 : 0; j < w.bits; j++) {
        const int factor = at->what == COUNT_SIGNS ? 1 : offset * qg__factor(w, j);
        for (int i = 0; i < t->taps_i; i++) {
            const uint64_t *from = t->w + (size_t)j * t->plane + (ptrdiff_t)i * t->w_row;
            const size_t    n    = (size_t)t->taps_j * t->words_of_x * OUTPUTS;
            for (size_t k = 0; k < n; k++) at->start[k % OUTPUTS] += factor * (int32_t)__builtin_popcountll(from[k]);
        }
    }
}

static void run_line(void *context, const qg__line *line)
{
    visit              *at    = context;
    const qg__geometry *g     = &at->p->g;
    const ptrdiff_t     pixel = (ptrdiff_t)qg__bit_words(at->p->x, 1, g->c), tap = (ptrdiff_t)qg__words(g->c) * OUTPUTS;
    tile                t     = {
        .x = at->x + (ptrdiff_t)line->x * pixel, .x_step = line->x_step * pixel, .x_row = g->w * pixel, .x_col = pixel,
        .w = at->w + (line->i0 * g->kw + line->j0) * tap, .w_row = g->kw * tap, .plane = plane_words(g),
        .words_of_x = qg__words(g->c), .taps_i = line->i1 - line->i0, .taps_j = line->j1 - line->j0,
    };
    count_weights(at, &t, line);
    size_t y = line->y;
    for (int left = line->outputs, done; left; left -= done) {
        /* Both planes of ternary weights in registers leave room for 12 pixels. */
        if (LONGEST == 14 && left >= 14 && at->what == COUNT_AND) done = 14;
        else if (LONGEST == 14 && left >= 8) done = left >= 12 ? 12 : 8;
        else done = left >= 4 ? 4 : left >= 2 ? 2 : 1;
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (n > LONGEST) break;                                                                        \
        if (at->what == COUNT_AND) run_tile(COUNT_AND, n, at, &t, y, line->y_step);                    \
        else if (n > 12) break;                                                                        \
        else if (at->what == COUNT_SIGNS) run_tile(COUNT_SIGNS, n, at, &t, y, line->y_step);           \
        else run_tile(COUNT_TERNARY, n, at, &t, y, line->y_step);                                      \
        break;
        switch (done) { CASE(1) CASE(2) CASE(4) CASE(8) CASE(12) CASE(14) }
#undef CASE
        t.x += done * t.x_step;
        y = (size_t)((ptrdiff_t)y + done * line->y_step);
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

/* Scratch: the sums of windows, and of pixels. */
static size_t scratch_bytes(const qg__bit_product *p, int n)
{
    const size_t m = (size_t)qg__images_at_once(&p->g, n);
    return qg__lines_of(m * qg__results(&p->g) * sizeof(int32_t)) + m * qg__pixels(&p->g) * sizeof(int32_t);
}

static void run_images(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc, void *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *window = scratch, *sums = window + qg__lines_of(results * sizeof *window) / sizeof *window;
    if (qg__offset(p->w)) {
        const size_t pixel = qg__bit_words(p->x, 1, p->g.c);
        for (size_t i = 0; i < pixels; i++) sums[i] = qg__offset(p->w) * qg__sum_of_values(p->x, p->g.c, x + i * pixel);
        qg__window_sums(&p->g, n, sums, window);
    } else memset(window, 0, results * sizeof *window);
    visit at = { .p = p, .x = x, .w = packed, .window = window, .acc = acc, .what = count_of(p) };
    for (; at.first < p->g.oc; at.first += OUTPUTS, at.w += block_words(p)) {
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.counted.i0 = -1;
        qg__lines(&p->g, n, run_line, &at);
    }
}

static void run(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc, void *scratch)
{
    qg__bits_in_parts(p, n, x, packed, acc, scratch, run_images);
}

const qg__bit_kernels QG_PER_ISA(qg__bit_kernels) = {
    .name          = "popcount",
    .weight_bytes  = weight_bytes,
    .pack_weights  = pack_weights,
    .scratch_bytes = scratch_bytes,
    .run           = run,
};
#endif
