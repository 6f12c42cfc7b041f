#include "infer/kernels/plain.h"
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
 * Where the taps of a row would take more words than their bits fill, as with 16 channels, a word has bits of
 * several taps: each row of x is a string of bits with zeros on both sides, and a window may begin at any of
 * its bytes.  Weights mask what a last word has of the next window.  For that, signs become ternary weights
 * without zeros.  A tap beside the image reads zeros, of which (x ^ s) & m counts s; that is added again.
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
 * Weights: [blocks of outputs][planes][kh][words of a row of taps][2 vectors][WORDS]. */
#if !QG_LOOKUP
enum { VECTORS = 2, OUTPUTS = VECTORS * WORDS, LONGEST = VL == 16 ? 14 : 4 };
_Static_assert(QG__PACKED_BITS % OUTPUTS == 0, "groups of outputs");

/* What a tile counts: x & w, and the three above. */
typedef enum count { COUNT_AND, COUNT_XOR, COUNT_SIGNS, COUNT_TERNARY } count;

static bool is_signs(qg__alphabet a) { return a.kind == QG__ODD && a.bits == 1; }

/* Columns behind the image that windows read. */
static int64_t columns_after(const qg__geometry *g)
{
    const int64_t end = (int64_t)(g->ow - 1) * g->stride + g->kw - g->left;
    return end > g->w ? end - g->w : 0;
}

/* Whether words have bits of several taps.  Signs then have two planes, which must not take longer, or more
 * memory. */
static bool joins(const qg__plain_product *p)
{
    const qg__geometry *g      = &p->g;
    const size_t        kw     = (size_t)g->kw, joined = ((size_t)g->c * kw + 63) / 64,
                        apart  = qg__words(g->c) * kw;
    return g->c % 8 == 0 && g->left < g->kw && columns_after(g) < g->kw &&
           (is_signs(p->xa) && is_signs(p->wa) ? 2 * joined <= apart : joined < apart);
}

/* Weights as they are stored. */
static qg__alphabet stored(const qg__plain_product *p)
{
    return joins(p) && is_signs(p->xa) && is_signs(p->wa) ? (qg__alphabet){ QG__TERNARY, 2 } : p->wa;
}

static count count_of(const qg__plain_product *p)
{
    const qg__alphabet w = stored(p);
    if (is_signs(p->xa) && is_signs(w)) return COUNT_XOR;
    if (w.kind != QG__TERNARY) return COUNT_AND;
    if (p->xa.kind == QG__TERNARY) return COUNT_TERNARY;
    return is_signs(p->xa) ? COUNT_SIGNS : COUNT_AND;
}

/* Words of a row of taps. */
static size_t row_words(const qg__plain_product *p)
{
    const size_t c = (size_t)p->g.c, kw = (size_t)p->g.kw;
    return joins(p) ? (c * kw + 63) / 64 : qg__words(p->g.c) * kw;
}

/* Where the bits of a tap begin, in bits of a row of taps. */
static size_t tap_at(const qg__plain_product *p, int j)
{
    return (size_t)j * (joins(p) ? (size_t)p->g.c : 64 * qg__words(p->g.c));
}

/* Of a plane. */
static size_t bits_before(const qg__plain_product *p, size_t tap)
{
    const size_t kw = (size_t)p->g.kw;
    return tap / kw * 64 * row_words(p) + tap_at(p, (int)(tap % kw));
}

/* Words of one plane of a block. */
static size_t plane_words(const qg__plain_product *p) { return (size_t)p->g.kh * row_words(p) * OUTPUTS; }
static size_t block_words(const qg__plain_product *p) { return (size_t)stored(p).bits * plane_words(p); }

static size_t weight_bytes(const qg__plain_product *p)
{
    return ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS * block_words(p) * sizeof(uint64_t);
}

static void pack_weights(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const qg__alphabet a  = stored(p);
    const size_t       c  = (size_t)p->g.c, plane = plane_words(p);
    uint64_t          *to = (uint64_t *)packed + (size_t)(o / OUTPUTS) * block_words(p);
    if (o % OUTPUTS == 0 && first == 0) memset(to, 0, block_words(p) * sizeof *to);
    to += o % OUTPUTS;
    size_t tap = first / c, k = first % c, begin = bits_before(p, tap);
    for (size_t i = 0; i < n; i++) {
        const size_t at   = begin + k;
        uint64_t    *word = to + at / 64 * OUTPUTS;
        for (int j = 0; j < a.bits; j++, word += plane)
            *word |= (uint64_t)qg__bit(a, (int)values[i], j) << at % 64;
        if (++k == c) k = 0, begin = bits_before(p, ++tap);
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

typedef uint64_t word __attribute__((aligned(1), may_alias));

static inline uint64_t word_at(const uint8_t *x) { return *(const word *)x; }

typedef struct tile {
    const uint8_t  *x;                  /* plane 0 under the first tap */
    const uint64_t *w;                  /* and its weights */
    ptrdiff_t       x_step, x_row, x_run;       /* bytes to the next output, row and run */
    ptrdiff_t       w_row;                      /* words of a row of taps */
    ptrdiff_t       x_plane, w_plane;   /* bytes to the next plane of x; words to that of the weights */
    /* A row of taps is runs of so many words that are neighbours in x and w: one run if x has one plane or
     * words have bits of several taps, else a run per tap. */
    int             taps_i, runs;
    size_t          words_of_run;
} tile;

/* What planes x_i and w_j count; of ternary x ternary ones(m) - 2 ones(..). */
INLINE void count_planes(count what, int pixels, const tile *t, int x_i, int w_j, words sum[LONGEST][VECTORS])
{
    words negative[LONGEST][VECTORS] = { { { 0 } } };
    EACH(p, pixels, v, VECTORS) sum[p][v] = (words){ 0 };
    for (int i = 0; i < t->taps_i; i++) {
        const uint8_t  *row = t->x + x_i * t->x_plane + i * t->x_row;
        const uint64_t *w   = t->w + w_j * t->w_plane + i * t->w_row;
        for (int run = 0; run < t->runs; run++, row += t->x_run) {
            const uint8_t *x = row;
            for (size_t n = 0; n < t->words_of_run; n++, x += sizeof(word), w += OUTPUTS) {
                words first[VECTORS], second[VECTORS];
                UNROLL
                for (int v = 0; v < VECTORS; v++) {
                    first[v] = *(const words *)(w + v * WORDS);
                    if (what == COUNT_SIGNS || what == COUNT_TERNARY)
                        second[v] = *(const words *)(w + t->w_plane + v * WORDS);
                }
                UNROLL
                for (int p = 0; p < pixels; p++) {
                    const words a = spread_word(word_at(x + p * t->x_step));
                    UNROLL
                    for (int v = 0; v < VECTORS; v++) {
                        if (what == COUNT_AND) sum[p][v] += ones(a & first[v]);
                        if (what == COUNT_XOR) sum[p][v] += ones(a ^ first[v]);
                        if (what == COUNT_SIGNS) sum[p][v] += ones(differ(a, first[v], second[v]));
                        if (what == COUNT_TERNARY) {
                            const words y    = spread_word(word_at(x + p * t->x_step + t->x_plane));
                            const words mask = y & second[v];
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
    EACH(p, pixels, v, VECTORS)
        if (what == COUNT_TERNARY) sum[p][v] -= negative[p][v] << 1;
}

typedef struct visit {
    const qg__plain_product *p;
    const uint8_t          *x;              /* packed pixels, or strings */
    const uint64_t         *w;              /* the block */
    const int32_t          *window;         /* offset(w) * sum x of every output; of COUNT_AND alone */
    int32_t                *acc;
    counts                 *taps;           /* [kh][kw][2][VECTORS] of each tap: the second term, or ones(m)
                                               for signs; and 2 ones(s), if its column is beside the image */
    count                   what;
    bool                    counts_taps;
    int                     first, outputs; /* of the block */
    counts                  start[VECTORS]; /* of a line: the sum over its taps */
    qg__line                started;
} visit;

INLINE void run_tile(count what, int pixels, const visit *at, const tile *t, size_t y, ptrdiff_t y_step)
{
    const qg__alphabet xa = at->p->xa, wa = at->p->wa;
    words              sum[LONGEST][VECTORS];
    counts             all[LONGEST][VECTORS];
    if (what == COUNT_AND) {
        EACH(p, pixels, v, VECTORS)
            all[p][v] = at->start[v] + at->window[(size_t)((ptrdiff_t)y + p * y_step)];
        for (int i = 0; i < xa.bits; i++)
            for (int j = 0; j < wa.bits; j++) {
                const int factor = qg__factor(xa, i) * qg__factor(wa, j);
                count_planes(what, pixels, t, i, j, sum);
                EACH(p, pixels, v, VECTORS) all[p][v] += factor * lower(sum[p][v]);
            }
    } else {
        count_planes(what, pixels, t, 0, 0, sum);
        EACH(p, pixels, v, VECTORS) {
            all[p][v] = lower(sum[p][v]);
            if (what != COUNT_TERNARY) all[p][v] = at->start[v] - (all[p][v] << 1);
        }
    }
    int32_t        *to   = at->acc + y * (size_t)at->p->g.oc + at->first;
    const ptrdiff_t step = y_step * at->p->g.oc;
    if (at->outputs == OUTPUTS)
        EACH(p, pixels, v, VECTORS) memcpy(to + p * step + v * WORDS, &all[p][v], sizeof all[p][v]);
    else
        for (int p = 0; p < pixels; p++) memcpy(to + p * step, all[p], (size_t)at->outputs * sizeof *to);
}

/* The ones of a tap in a plane of a vector of weights. */
static counts count_tap(const visit *at, int plane, int i, int j, int v)
{
    const qg__geometry *g     = &at->p->g;
    const uint64_t     *w     = at->w + (size_t)plane * plane_words(at->p) + v * WORDS;
    const uint64_t     *row   = w + (size_t)i * row_words(at->p) * OUTPUTS;
    const size_t        first = tap_at(at->p, j), end = first + (size_t)g->c;
    words               all   = { 0 };
    for (size_t n = first / 64; 64 * n < end; n++) {
        const uint64_t from = 64 * n < first ? ~(uint64_t)0 << first % 64 : ~(uint64_t)0,
                       to   = end - 64 * n < 64 ? ((uint64_t)1 << (end - 64 * n)) - 1 : ~(uint64_t)0;
        all += ones(*(const words *)(row + n * OUTPUTS) & (from & to));
    }
    return lower(all);
}

static void count_taps(visit *at)
{
    const qg__geometry *g      = &at->p->g;
    const qg__alphabet  w      = stored(at->p);
    const int           offset = qg__offset(at->p->xa);
    counts             *to     = at->taps;
    for (int i = 0; i < g->kh; i++)
        for (int j = 0; j < g->kw; j++, to += 2 * VECTORS)
            for (int v = 0; v < VECTORS; v++) {
                to[v] = to[VECTORS + v] = (counts){ 0 };
                if (at->what == COUNT_SIGNS) {
                    to[v] = count_tap(at, 1, i, j, v);
                    if (joins(at->p)) to[VECTORS + v] = count_tap(at, 0, i, j, v) << 1;
                    continue;
                }
                for (int k = 0; k < w.bits; k++)
                    to[v] += offset * qg__factor(w, k) * count_tap(at, k, i, j, v);
            }
}

static void start_line(visit *at, const qg__line *line)
{
    const qg__line *s = &at->started;
    if (s->i0 == line->i0 && s->i1 == line->i1 && s->j0 == line->j0 && s->j1 == line->j1) return;
    at->started       = *line;
    const int taps    = (line->i1 - line->i0) * (line->j1 - line->j0), kw = at->p->g.kw;
    const int32_t all = at->what == COUNT_XOR ? taps * at->p->g.c : 0;
    for (int v = 0; v < VECTORS; v++) {
        at->start[v] = (counts){ 0 } + all;
        for (int i = line->i0; at->counts_taps && i < line->i1; i++)
            for (int j = 0; j < kw; j++)
                at->start[v] += at->taps[((i * kw + j) * 2 + !(j >= line->j0 && j < line->j1)) * VECTORS + v];
    }
}

/* --- strings of bits --------------------------------------------------------------------------- */

/* [n][planes][h] of them, each with zeros for columns beside the image and for the rest of a last word. */
static size_t string_bytes(const qg__geometry *g)
{
    return (size_t)(g->left + g->w + columns_after(g)) * (size_t)(g->c / 8) + sizeof(word);
}

static size_t strings_bytes(const qg__plain_product *p)
{
    return joins(p) ? (size_t)p->xa.bits * (size_t)p->g.h * string_bytes(&p->g) : 0;
}

static void make_strings(const qg__plain_product *p, int n, const uint64_t *x, uint8_t *to)
{
    const qg__geometry *g     = &p->g;
    const size_t        string = string_bytes(g), own = (size_t)(g->c / 8), words_of_c = qg__words(g->c);
    memset(to, 0, (size_t)n * strings_bytes(p));
    for (int i = 0; i < n; i++, to += strings_bytes(p))
        for (int r = 0; r < g->h; r++)
            for (int q = 0; q < g->w; q++)
                for (int j = 0; j < p->xa.bits; j++) {
                    uint8_t *pixel = to + (size_t)(j * g->h + r) * string + (size_t)(g->left + q) * own;
                    for (size_t k = 0; k < words_of_c; k++, x++) ((word *)pixel)[k] = *x;
                }
}

/* What output y reads under its first tap, which may be outside in its column but not in its row. */
static const uint8_t *string_at(const visit *at, size_t y, int i0)
{
    const qg__geometry *g     = &at->p->g;
    const size_t        image = y / qg__results(g), rest = y % qg__results(g), ow = (size_t)g->ow;
    const ptrdiff_t     row   = (ptrdiff_t)(rest / ow) * g->stride - g->top + i0;
    return at->x + image * strings_bytes(at->p) + (size_t)row * string_bytes(g) +
           rest % ow * (size_t)g->stride * (size_t)(g->c / 8);
}

static tile tile_of_strings(const visit *at, const qg__line *line)
{
    const qg__geometry *g     = &at->p->g;
    const uint8_t      *x     = line->i0 < line->i1 ? string_at(at, line->y, line->i0) : at->x;
    const bool          steps = line->outputs > 1 && line->i0 < line->i1;
    const size_t        next  = (size_t)((ptrdiff_t)line->y + line->y_step);
    const size_t        row   = row_words(at->p) * OUTPUTS;
    return (tile){
        .x = x, .x_step = steps ? string_at(at, next, line->i0) - x : 0, .x_row = (ptrdiff_t)string_bytes(g),
        .w = at->w + (size_t)line->i0 * row, .w_row = (ptrdiff_t)row,
        .x_plane = (ptrdiff_t)((size_t)g->h * string_bytes(g)), .w_plane = (ptrdiff_t)plane_words(at->p),
        .taps_i = line->i1 - line->i0, .runs = 1, .words_of_run = row_words(at->p),
    };
}

static tile tile_of_pixels(const visit *at, const qg__line *line)
{
    const qg__geometry *g       = &at->p->g;
    const ptrdiff_t     pixel   = (ptrdiff_t)(qg__bit_words(at->p->xa, 1, g->c) * sizeof(word)),
                        tap = (ptrdiff_t)qg__words(g->c) * OUTPUTS;
    const int           taps_j  = line->j1 - line->j0;
    const bool          one_run = at->p->xa.bits == 1 || taps_j <= 1;
    return (tile){
        .x = at->x + (ptrdiff_t)line->x * pixel, .x_step = line->x_step * pixel, .x_row = g->w * pixel,
        .x_run = pixel,
        .w = at->w + (line->i0 * g->kw + line->j0) * tap, .w_row = g->kw * tap,
        .x_plane = (ptrdiff_t)(qg__words(g->c) * sizeof(word)), .w_plane = (ptrdiff_t)plane_words(at->p),
        .taps_i = line->i1 - line->i0, .runs = one_run ? 1 : taps_j,
        .words_of_run = qg__words(g->c) * (size_t)(one_run ? taps_j : 1),
    };
}

/* The length of the next of a line's tiles: one that exists, and nearly as long as the others. */
static int length_of(int most, int left)
{
    static const int lengths[] = { 14, 12, 8, 6, 4, 2, 1 };
    const int        tiles = (left + most - 1) / most, even = (left + tiles - 1) / tiles;
    int              i = 0;
    while (lengths[i] > most || lengths[i] > left || (lengths[i] > even && lengths[i + 1] >= even)) i++;
    return lengths[i];
}

static void run_line(void *context, const qg__line *line)
{
    visit *at = context;
    tile   t  = joins(at->p) ? tile_of_strings(at, line) : tile_of_pixels(at, line);
    start_line(at, line);
    size_t y = line->y;
    const bool ternary = at->what == COUNT_TERNARY;
    const int  most    = LONGEST < 14 ? (ternary ? 2 : 4) : ternary ? 6 : at->what == COUNT_SIGNS ? 12 : 14;
    for (int left = line->outputs, done; left; left -= done) {
        done = length_of(most, left);
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

static size_t taps_bytes(const qg__geometry *g)
{
    return qg__lines_of(qg__taps(g) * 2 * VECTORS * sizeof(counts));
}

/* Scratch: the sums of windows, those of pixels, what is counted of taps, strings. */
static size_t scratch_bytes(const qg__plain_product *p, int n)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    return qg__lines_of(results * sizeof(int32_t)) + qg__lines_of(pixels * sizeof(int32_t)) +
           taps_bytes(&p->g) + (size_t)n * strings_bytes(p);
}

static void run(const qg__plain_product *p, int n, const void *x, const void *packed, void *y, void *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *window = scratch, *sums = window + qg__lines_of(results * sizeof *window) / sizeof *window;
    counts      *taps    = (counts *)(void *)(sums + qg__lines_of(pixels * sizeof *sums) / sizeof *sums);
    uint8_t     *strings = (uint8_t *)taps + taps_bytes(&p->g);
    visit        at      = { .p = p, .x = joins(p) ? strings : x, .w = packed,
                             .window = window, .acc = y, .taps = taps, .what = count_of(p) };
    if (joins(p)) make_strings(p, n, x, strings);
    at.counts_taps = at.what == COUNT_SIGNS || (at.what == COUNT_AND && qg__offset(p->xa));
    if (at.what == COUNT_AND && qg__offset(p->wa)) {
        const size_t pixel = qg__bit_words(p->xa, 1, p->g.c);
        for (size_t i = 0; i < pixels; i++)
            sums[i] = qg__offset(p->wa) * qg__sum_of_values(p->xa, p->g.c, (const uint64_t *)x + i * pixel);
        qg__window_sums(&p->g, n, sums, window);
    } else if (at.what == COUNT_AND) memset(window, 0, results * sizeof *window);
    for (; at.first < p->g.oc; at.first += OUTPUTS, at.w += block_words(p)) {
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.started.i0 = -1;
        if (at.counts_taps) count_taps(&at);
        qg__lines(&p->g, n, run_line, &at);
    }
}

static int passes(const qg__plain_product *p)
{
    return count_of(p) == COUNT_AND ? p->xa.bits * p->wa.bits : 1;
}

/* Of the time of one that counts a word. */
static float steps(const qg__plain_product *p)
{
    const count what = count_of(p);
    const float each = what == COUNT_TERNARY ? 3.0f : what == COUNT_SIGNS ? 1.5f : 1.0f;
    return each * (float)passes(p) * (float)p->g.kh * (float)row_words(p);
}

const qg__bit_kernels QG_PER_ISA(qg__bit_kernels) = {
    .plain   = { weight_bytes, pack_weights, scratch_bytes, run },
    .name    = "popcount",
    .outputs = OUTPUTS,
    .passes  = passes,
    .steps   = steps,
};
#endif
