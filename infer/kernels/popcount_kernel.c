#include "infer/kernels/bits.h"
#include "infer/kernels/lanes.h"

/* With x = offset(x) + sum over i of f_i x_i, x_i the planes, and w likewise, a sum of products over the
 * taps inside the image is
 *
 *     acc = sum over i, j of f_i f_j ones(x_i & w_j)
 *         + offset(x) sum over j of f_j ones(w_j) + offset(w) sum x
 *
 * The second term depends on the taps that are inside and on the output, the third on the window alone.
 * Both are counted once, not in the tiles.  Three pairs of alphabets need fewer counts:
 *
 *     signs x signs      acc = taps c - 2 ones(x ^ w)                 other channels' bits are 0 in both
 *     ternary x signs    acc = ones(m) - 2 ones((x ^ s) & m)          m = plane 1, s = plane 0 of w
 *     ternary x ternary  acc = ones(m) - 2 ones((x_0 ^ s) & m)        m = x_1 & w_1, s = w_0
 *
 * A vector holds a word of 64 channels of WORDS outputs, and a tile spreads one word of each pixel over it.
 * A step of a tile of p pixels takes p + 2 loads and 6 p operations, of which a core of AVX-512 issues two
 * and two to four per cycle, and only the addition waits for the last step.  So even tiles of one pixel run
 * at the speed of the operations, and the long ones are there because fewer steps have less overhead:
 *
 *     AVX-512, 32 registers   14 x 2 sums + 2 vectors of weights + 1 word = 31
 *                             ternary x signs, with two planes of weights: 12 x 2 + 4 + 1 = 29
 *                             ternary x ternary, with two counts per output: 2 x 6 x 2 + 4 + 2 = 30
 *     others, 16 registers    4 x 2 + 2 + 1, and more for counting where there is no instruction for it
 *                             ternary x ternary: 2 x 2 x 2 + 4 + 2
 *
 * Weights: [blocks of outputs][planes][kh][kw][words][2 vectors][WORDS]. */
#if !QG_LOOKUP
enum { VECTORS = 2, OUTPUTS = VECTORS * WORDS, LONGEST = VL == 16 ? 14 : 4 };

/* What a tile counts: x & w, and the three above. */
typedef enum count { COUNT_AND, COUNT_XOR, COUNT_SIGNS, COUNT_TERNARY } count;

static bool is_signs(qg__alphabet a) { return a.kind == QG__ODD && a.bits == 1; }

static count count_of(const qg__bit_product *p)
{
    if (is_signs(p->x) && is_signs(p->w)) return COUNT_XOR;
    if (p->w.kind != QG__TERNARY) return COUNT_AND;
    if (p->x.kind == QG__TERNARY) return COUNT_TERNARY;
    return is_signs(p->x) ? COUNT_SIGNS : COUNT_AND;
}

/* Words of one plane of a block. */
static size_t plane_words(const qg__geometry *g) { return qg__taps(g) * qg__words(g->c) * OUTPUTS; }
static size_t block_words(const qg__bit_product *p) { return (size_t)p->w.bits * plane_words(&p->g); }

static size_t weight_bytes(const qg__bit_product *p)
{
    return ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS * block_words(p) * sizeof(uint64_t);
}

static void pack_weights(const qg__bit_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const size_t c  = (size_t)p->g.c, plane = plane_words(&p->g);
    uint64_t    *to = (uint64_t *)packed + (size_t)(o / OUTPUTS) * block_words(p);
    if (o % OUTPUTS == 0 && first == 0) memset(to, 0, block_words(p) * sizeof *to);
    to += o % OUTPUTS;
    size_t tap = first / c, k = first % c;
    for (size_t i = 0; i < n; i++) {
        uint64_t *word = to + (tap * qg__words(p->g.c) + k / 64) * OUTPUTS;
        for (int j = 0; j < p->w.bits; j++, word += plane)
            *word |= (uint64_t)qg__bit(p->w, (int)values[i], j) << k % 64;
        if (++k == c) k = 0, tap++;
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

typedef struct tile {
    const uint64_t *x, *w;              /* plane 0 under the first tap, and its weights */
    ptrdiff_t       x_step, x_row, x_run, w_row;        /* words to the next output, row and run of x; of kw
                                                           taps */
    size_t          x_plane, w_plane;   /* words of a plane of a pixel; of the weights */
    /* A row of taps is runs of so many words that are neighbours in x and w: one run if x has one plane,
     * else a run per tap. */
    int             taps_i, runs;
    size_t          words_of_run;
} tile;

/* What planes x_i and w_j count; of ternary x ternary ones(m) - 2 ones(..). */
INLINE void count_planes(count what, int pixels, const tile *t, int x_i, int w_j, words sum[LONGEST][VECTORS])
{
    words negative[LONGEST][VECTORS] = { { { 0 } } };
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < VECTORS; v++) sum[p][v] = (words){ 0 };
    for (int i = 0; i < t->taps_i; i++) {
        const uint64_t *row = t->x + (size_t)x_i * t->x_plane + i * t->x_row;
        const uint64_t *w   = t->w + (size_t)w_j * t->w_plane + i * t->w_row;
        for (int run = 0; run < t->runs; run++, row += t->x_run) {
            const uint64_t *x = row;
            for (size_t n = 0; n < t->words_of_run; n++, x++, w += OUTPUTS) {
                words first[VECTORS], second[VECTORS];
                UNROLL
                for (int v = 0; v < VECTORS; v++) {
                    first[v] = *(const words *)(w + v * WORDS);
                    if (what == COUNT_SIGNS || what == COUNT_TERNARY)
                        second[v] = *(const words *)(w + t->w_plane + v * WORDS);
                }
                UNROLL
                for (int p = 0; p < pixels; p++) {
                    const words a = spread_word(x[p * t->x_step]);
                    UNROLL
                    for (int v = 0; v < VECTORS; v++) {
                        if (what == COUNT_AND) sum[p][v] += ones(a & first[v]);
                        if (what == COUNT_XOR) sum[p][v] += ones(a ^ first[v]);
                        if (what == COUNT_SIGNS) sum[p][v] += ones(differ(a, first[v], second[v]));
                        if (what == COUNT_TERNARY) {
                            const words mask = spread_word(x[p * t->x_step + (ptrdiff_t)t->x_plane]) &
                                               second[v];
                            sum[p][v] += ones(mask);
                            negative[p][v] += ones(differ(a, first[v], mask));
                            KEEP(negative[p][v]);
                        }
                        KEEP(sum[p][v]);
                    }
                }
            }
        }
    }
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < VECTORS; v++)
            if (what == COUNT_TERNARY) sum[p][v] -= negative[p][v] << 1;
}

typedef struct visit {
    const qg__bit_product *p;
    const uint64_t        *x, *w;           /* w: the block */
    const int32_t         *window;          /* offset(w) * sum x of every output; of COUNT_AND alone */
    int32_t               *acc;
    counts                *taps;            /* [kh][kw][VECTORS]: the second term, or ones(m) for signs, of
                                               each tap */
    count                  what;
    bool                   counts_taps;
    int                    first, outputs;  /* of the block */
    counts                 start[VECTORS];  /* of a line: the sum over its taps */
    qg__line               started;
} visit;

INLINE void run_tile(count what, int pixels, const visit *at, const tile *t, size_t y, ptrdiff_t y_step)
{
    const qg__alphabet xa = at->p->x, wa = at->p->w;
    words              sum[LONGEST][VECTORS];
    counts             all[LONGEST][VECTORS];
    if (what == COUNT_AND) {
        UNROLL
        for (int p = 0; p < pixels; p++)
            UNROLL
            for (int v = 0; v < VECTORS; v++)
                all[p][v] = at->start[v] + at->window[(size_t)((ptrdiff_t)y + p * y_step)];
        for (int i = 0; i < xa.bits; i++)
            for (int j = 0; j < wa.bits; j++) {
                const int factor = qg__factor(xa, i) * qg__factor(wa, j);
                count_planes(what, pixels, t, i, j, sum);
                UNROLL
                for (int p = 0; p < pixels; p++)
                    UNROLL
                    for (int v = 0; v < VECTORS; v++) all[p][v] += factor * lower(sum[p][v]);
            }
    } else {
        count_planes(what, pixels, t, 0, 0, sum);
        UNROLL
        for (int p = 0; p < pixels; p++)
            UNROLL
            for (int v = 0; v < VECTORS; v++) {
                all[p][v] = lower(sum[p][v]);
                if (what != COUNT_TERNARY) all[p][v] = at->start[v] - (all[p][v] << 1);
            }
    }
    int32_t        *to   = at->acc + y * (size_t)at->p->g.oc + at->first;
    const ptrdiff_t step = y_step * at->p->g.oc;
    if (at->outputs == OUTPUTS)
        UNROLL
        for (int p = 0; p < pixels; p++)
            UNROLL
            for (int v = 0; v < VECTORS; v++) memcpy(to + p * step + v * WORDS, &all[p][v], sizeof all[p][v]);
    else
        for (int p = 0; p < pixels; p++) memcpy(to + p * step, all[p], (size_t)at->outputs * sizeof *to);
}

static void count_taps(visit *at)
{
    const qg__alphabet w      = at->p->w;
    const int          offset = qg__offset(at->p->x);
    const size_t       n      = qg__words(at->p->g.c), plane = plane_words(&at->p->g);
    for (size_t tap = 0; tap < qg__taps(&at->p->g); tap++)
        for (int v = 0; v < VECTORS; v++) {
            counts sum = { 0 };
            for (int j = at->what == COUNT_SIGNS ? 1 : 0; j < w.bits; j++) {
                const uint64_t *from = at->w + (size_t)j * plane + tap * n * OUTPUTS + (size_t)(v * WORDS);
                words           all  = { 0 };
                for (size_t k = 0; k < n; k++) all += ones(*(const words *)(from + k * OUTPUTS));
                sum += (at->what == COUNT_SIGNS ? 1 : offset * qg__factor(w, j)) * lower(all);
            }
            at->taps[tap * VECTORS + (size_t)v] = sum;
        }
}

static void start_line(visit *at, const qg__line *line)
{
    const qg__line *s = &at->started;
    if (s->i0 == line->i0 && s->i1 == line->i1 && s->j0 == line->j0 && s->j1 == line->j1) return;
    at->started       = *line;
    const int taps    = (line->i1 - line->i0) * (line->j1 - line->j0);
    const int32_t all = at->what == COUNT_XOR ? taps * at->p->g.c : 0;
    for (int v = 0; v < VECTORS; v++) {
        at->start[v] = (counts){ 0 } + all;
        for (int i = line->i0; at->counts_taps && i < line->i1; i++)
            for (int j = line->j0; j < line->j1; j++)
                at->start[v] += at->taps[(i * at->p->g.kw + j) * VECTORS + v];
    }
}

static void run_line(void *context, const qg__line *line)
{
    visit              *at    = context;
    const qg__geometry *g     = &at->p->g;
    const ptrdiff_t     pixel = (ptrdiff_t)qg__bit_words(at->p->x, 1, g->c),
                        tap = (ptrdiff_t)qg__words(g->c) * OUTPUTS;
    const int           taps_j = line->j1 - line->j0;
    const bool          one_run = at->p->x.bits == 1 || taps_j <= 1;
    tile                t       = {
        .x = at->x + (ptrdiff_t)line->x * pixel, .x_step = line->x_step * pixel, .x_row = g->w * pixel,
        .x_run = pixel,
        .w = at->w + (line->i0 * g->kw + line->j0) * tap, .w_row = g->kw * tap, .x_plane = qg__words(g->c),
        .w_plane = plane_words(g),
        .taps_i = line->i1 - line->i0, .runs = one_run ? 1 : taps_j,
        .words_of_run = qg__words(g->c) * (size_t)(one_run ? taps_j : 1),
    };
    start_line(at, line);
    size_t y = line->y;
    const bool ternary = at->what == COUNT_TERNARY;
    const int  most    = LONGEST < 14 ? (ternary ? 2 : 4) : ternary ? 6 : at->what == COUNT_SIGNS ? 12 : 14;
    for (int left = line->outputs, done; left; left -= done) {
        for (done = most; done > left;)
            done = done > 12 ? 12 : done > 8 ? 8 : done > 6 ? 6 : done > 4 ? 4 : done / 2;
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (n > LONGEST) break;                                                                        \
        if (at->what == COUNT_AND) run_tile(COUNT_AND, n, at, &t, y, line->y_step);                    \
        else if (at->what == COUNT_XOR) run_tile(COUNT_XOR, n, at, &t, y, line->y_step);               \
        else if (n <= 12 && at->what == COUNT_SIGNS) run_tile(COUNT_SIGNS, n, at, &t, y, line->y_step); \
        else if (n <= 6 && at->what == COUNT_TERNARY) run_tile(COUNT_TERNARY, n, at, &t, y, line->y_step); \
        break;
        switch (done) { CASE(1) CASE(2) CASE(4) CASE(6) CASE(8) CASE(12) CASE(14) }
#undef CASE
        t.x += done * t.x_step;
        y = (size_t)((ptrdiff_t)y + done * line->y_step);
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

/* Scratch: the sums of windows, those of pixels, what is counted of taps. */
static size_t scratch_bytes(const qg__bit_product *p, int n)
{
    const size_t m = (size_t)qg__images_at_once(&p->g, n);
    return qg__lines_of(m * qg__results(&p->g) * sizeof(int32_t)) +
           qg__lines_of(m * qg__pixels(&p->g) * sizeof(int32_t)) + qg__taps(&p->g) * VECTORS * sizeof(counts);
}

static void run_images(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc,
                       void *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *window = scratch, *sums = window + qg__lines_of(results * sizeof *window) / sizeof *window;
    visit        at     = { .p = p, .x = x, .w = packed, .window = window, .acc = acc, .what = count_of(p) };
    at.taps        = (counts *)(void *)(sums + qg__lines_of(pixels * sizeof *sums) / sizeof *sums);
    at.counts_taps = at.what == COUNT_SIGNS || (at.what == COUNT_AND && qg__offset(p->x));
    if (at.what == COUNT_AND && qg__offset(p->w)) {
        const size_t pixel = qg__bit_words(p->x, 1, p->g.c);
        for (size_t i = 0; i < pixels; i++)
            sums[i] = qg__offset(p->w) * qg__sum_of_values(p->x, p->g.c, x + i * pixel);
        qg__window_sums(&p->g, n, sums, window);
    } else if (at.what == COUNT_AND) memset(window, 0, results * sizeof *window);
    for (; at.first < p->g.oc; at.first += OUTPUTS, at.w += block_words(p)) {
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.started.i0 = -1;
        if (at.counts_taps) count_taps(&at);
        qg__lines(&p->g, n, run_line, &at);
    }
}

static void run(const qg__bit_product *p, int n, const uint64_t *x, const void *packed, int32_t *acc,
                void *scratch)
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
