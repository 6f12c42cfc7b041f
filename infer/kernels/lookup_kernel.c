#include "infer/kernels/plain.h"
#include "infer/kernels/lanes.h"

/* One instruction looks up 32 bytes in a table of 16.  For 4 neighbouring channels x[0..3] of a pixel, the
 * table has the sums of all 16 subsets:
 *
 *     T[s] = b + sum over k in s of x[k],   b = the sum of max(0, -x[k]), so that T >= 0
 *
 * and a nibble of a plane of the weights says which of the 4 channels belong to the sum of an output.  So a
 * lookup and an addition do the work of 128 products for any alphabet of x, half of what counting the bits
 * of an AND costs on machines that count with tables of nibbles.  With F = the sum of the factors of the
 * planes of w and N = the sum of all b,
 *
 *     acc = sum over planes j of factor(j) * (raw_j - N) + offset(w) * sum x
 *         = sum over j of factor(j) * raw_j + (offset(w) * sum x - F N)
 *
 * The term in brackets depends on the window alone.  Ternary weights are two planes here, w > 0 with factor
 * 1 and w < 0 with factor -1, so that F = 0.
 *
 * Sums are bytes.  Each lookup adds at most 4 reach(x), reach being 2^bits - 1 or 1 (see limit_of), so after
 * 255 / (8 reach) steps of two lookups they move into sums of 16 bits, and after 256 such moves into int32.
 *
 * Tiles of AVX2's 16 registers: 6 x 2 or 12 x 1 pixels x vectors = 12 sums + 2 vectors of nibbles + 1 table
 * + the mask 15.
 *
 * Weights: blocks of 64 outputs, the last of 32 if there are no more,
 *     [blocks][planes][kh][kw][steps of 8 channels][vectors][32 outputs], channel 8 s + k in bit k.
 * Tables:  [n][h][w][steps][2][16 bytes]. */
#if QG_LOOKUP
enum { CHANNELS = 8, OUTPUTS = 32, WIDEST = 2, LONGEST = 12, SUMS = 12, TABLE = 16, MOVES = 256 };
_Static_assert(QG__PACKED_BITS % (WIDEST * OUTPUTS) == 0, "groups of outputs");

static size_t steps_of(int c) { return ((size_t)c + CHANNELS - 1) / CHANNELS; }

/* The factors of the planes as they are stored here. */
static int factor_of(qg__alphabet w, int j) { return w.kind == QG__TERNARY ? 1 - 2 * j : qg__factor(w, j); }

/* Steps until the bytes move. */
static int limit_of(qg__alphabet x)
{
    const int reach = x.kind == QG__TERNARY ? 1 : (1 << x.bits) - 1;    /* the most that a channel adds */
    return 255 / (8 * reach);
}

static size_t plane_bytes(const qg__geometry *g) { return qg__taps(g) * steps_of(g->c) * OUTPUTS; }

static size_t weight_bytes(const qg__plain_product *p)
{
    const size_t vectors = ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS;
    return vectors * (size_t)p->wa.bits * plane_bytes(&p->g);
}

static int vectors_at(int oc, int block) { return oc - block * WIDEST * OUTPUTS > OUTPUTS ? 2 : 1; }

static void pack_weights(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const qg__geometry *g     = &p->g;
    const int           block = o / (WIDEST * OUTPUTS), in_block = o % (WIDEST * OUTPUTS);
    const size_t        c = (size_t)g->c, steps = steps_of(g->c), vectors = (size_t)vectors_at(g->oc, block);
    const size_t        plane = vectors * plane_bytes(g);
    const size_t        start = (size_t)block * WIDEST * (size_t)p->wa.bits * plane_bytes(g);
    uint8_t            *to    = (uint8_t *)packed + start;
    if (!in_block && first == 0) memset(to, 0, vectors * (size_t)p->wa.bits * plane_bytes(g));
    to += in_block;
    size_t tap = first / c, k = first % c;
    for (size_t i = 0; i < n; i++) {
        const int value = (int)values[i];
        uint8_t  *byte  = to + (tap * steps + k / CHANNELS) * vectors * OUTPUTS;
        for (int j = 0; j < p->wa.bits; j++, byte += plane) {
            const unsigned bit = p->wa.kind == QG__TERNARY ? (j ? value < 0 : value > 0)
                                                          : qg__bit(p->wa, value, j);
            *byte |= (uint8_t)(bit << k % CHANNELS);
        }
        if (++k == c) k = 0, tap++;
    }
}

/* --- tables ----------------------------------------------------------------------------------- */

/* rows[j][nibble] is what plane j adds to a table of 4 channels. */
typedef struct rows {
    uint8_t of[QG__MOST_PLANES][TABLE][TABLE] __attribute__((aligned(16)));
} rows;

static void make_rows(qg__alphabet x, rows *r)
{
    for (int j = 0; j < x.bits; j++)
        for (unsigned nibble = 0; nibble < TABLE; nibble++)
            for (unsigned set = 0; set < TABLE; set++) {
                const int in = __builtin_popcount(nibble & set), out = __builtin_popcount(nibble & ~set);
                const int without = __builtin_popcount(~nibble & ~set & (TABLE - 1));
                int       sum     = in << j;
                if (x.kind == QG__ODD) sum = (in + without) << j;
                if (x.kind == QG__SIGNED && j == x.bits - 1) sum = out << j;
                if (x.kind == QG__TERNARY) sum = j ? out : in;
                r->of[j][nibble][set] = (uint8_t)sum;
            }
}

/* The tables of a pixel; the planes of ternary x are > 0 and < 0 here. */
INLINE void fill_tables(int planes, bool ternary, const rows *r, size_t plane_words, size_t steps,
                        const uint64_t *x, uint8_t *tables)
{
    for (size_t s = 0; s < steps; s++, tables += 2 * TABLE) {
        half low = { 0 }, high = { 0 };
        UNROLL
        for (int j = 0; j < planes; j++) {
            const size_t   word = (size_t)j * plane_words + s / CHANNELS;
            const uint64_t bits = ternary && j ? x[word] ^ x[word - plane_words] : x[word];
            const unsigned byte = (unsigned)(bits >> (s % CHANNELS * CHANNELS)) & 255;
            low += *(const half *)r->of[j][byte & 15];
            high += *(const half *)r->of[j][byte >> 4];
        }
        *(half *)tables           = low;
        *(half *)(tables + TABLE) = high;
    }
}

/* offset(w) * sum x - F N of a pixel, with b as the tables have it, also for channels that do not exist. */
static int32_t correction(const qg__plain_product *p, int f, const uint64_t *x)
{
    const size_t plane_words = qg__words(p->g.c);
    int32_t      n               = 0;
    for (int j = 0; j < p->xa.bits; j++) {
        const int32_t set = qg__ones(x + (size_t)j * plane_words, plane_words);
        if (p->xa.kind == QG__ODD) n += ((int32_t)steps_of(p->g.c) * CHANNELS - set) << j;
        if (p->xa.kind == QG__SIGNED && j == p->xa.bits - 1) n += set << j;
        if (p->xa.kind == QG__TERNARY) n += j ? set : -set;
    }
    return qg__offset(p->wa) * qg__sum_of_values(p->xa, p->g.c, x) - f * n;
}

static size_t pixel_bytes(const qg__geometry *g) { return steps_of(g->c) * 2 * TABLE; }

static void make_tables(const qg__plain_product *p, size_t pixels, const uint64_t *x, uint8_t *tables,
                        int32_t *corrections)
{
    const size_t plane_words = qg__words(p->g.c), pixel_words = (size_t)p->xa.bits * plane_words;
    const size_t steps = steps_of(p->g.c);
    rows         r;
    int          f = 0;
    make_rows(p->xa, &r);
    for (int j = 0; j < p->wa.bits; j++) f += factor_of(p->wa, j);
    for (size_t i = 0; i < pixels; i++, x += pixel_words, tables += pixel_bytes(&p->g)) {
        switch (p->xa.kind == QG__TERNARY ? 0 : p->xa.bits) {
        case 0: fill_tables(2, true, &r, plane_words, steps, x, tables); break;
        case 1: fill_tables(1, false, &r, plane_words, steps, x, tables); break;
        case 2: fill_tables(2, false, &r, plane_words, steps, x, tables); break;
        case 3: fill_tables(3, false, &r, plane_words, steps, x, tables); break;
        case 4: fill_tables(4, false, &r, plane_words, steps, x, tables); break;
        }
        corrections[i] = correction(p, f, x);
    }
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Outputs of a line from one block of weights. */
typedef struct tile {
    const uint8_t *x, *w;               /* the tables under the first tap; its weights in plane 0 */
    ptrdiff_t      x_step, x_row;       /* bytes to the next output's tables, and to the next row's */
    size_t         plane, w_row;        /* bytes of a plane of the weights; of kw taps */
    size_t         steps;
    int            taps_i, taps_j, limit, planes;
    const int     *factor;
    const int32_t *correction;
    int32_t       *y;
    ptrdiff_t      y_step, correction_step;
    int            outputs;             /* of the block; the rest of its lanes is not stored */
} tile;

/* Vector v of pixel p is p * vectors + v. */
typedef struct sums {
    uint16_t of[SUMS * OUTPUTS] __attribute__((aligned(32)));
    int32_t  all[SUMS * OUTPUTS] __attribute__((aligned(32)));
} sums;

/* Moves the bytes into the sums of 16 bits. */
INLINE void move(int pixels, int vectors, bytes sum[LONGEST][WIDEST], sums *to)
{
    EACH(p, pixels, v, vectors) {
        shorts *at = (shorts *)&to->of[(p * vectors + v) * OUTPUTS];
        at[0] += widen_half(sum[p][v], 0);
        at[1] += widen_half(sum[p][v], 1);
        sum[p][v] = (bytes){ 0 };
    }
}

static void move_on(int n, int factor, sums *s)
{
    for (int l = 0; l < n; l++) s->all[l] += factor * s->of[l];
    memset(s->of, 0, (size_t)n * sizeof *s->of);
}

INLINE void add_plane(int pixels, int vectors, const tile *t, const uint8_t *w, int factor, sums *s)
{
    bytes sum[LONGEST][WIDEST] = { { { 0 } } };
    int   left = t->limit, moves = MOVES;
    for (int i = 0; i < t->taps_i; i++)
        for (int j = 0; j < t->taps_j; j++) {
            const uint8_t *x  = t->x + i * t->x_row + (ptrdiff_t)((size_t)j * t->steps * 2 * TABLE);
            const uint8_t *wt = w + (size_t)i * t->w_row + (size_t)j * t->steps * (size_t)vectors * OUTPUTS;
            for (size_t rest = t->steps; rest;) {
                const size_t run = rest < (size_t)left ? rest : (size_t)left;
                for (const uint8_t *end = x + run * 2 * TABLE; x < end;
                     x += 2 * TABLE, wt += vectors * OUTPUTS) {
                    bytes index[WIDEST];
                    UNROLL
                    for (int v = 0; v < vectors; v++) index[v] = *(const bytes *)(wt + v * OUTPUTS) & 15;
                    UNROLL
                    for (int p = 0; p < pixels; p++) {
                        const bytes table = both(x + p * t->x_step);
                        UNROLL
                        for (int v = 0; v < vectors; v++) {
                            sum[p][v] += lookup(table, index[v]);
                            KEEP(sum[p][v]);
                        }
                    }
                    UNROLL
                    for (int v = 0; v < vectors; v++) index[v] = *(const bytes *)(wt + v * OUTPUTS) >> 4;
                    UNROLL
                    for (int p = 0; p < pixels; p++) {
                        const bytes table = both(x + TABLE + p * t->x_step);
                        UNROLL
                        for (int v = 0; v < vectors; v++) {
                            sum[p][v] += lookup(table, index[v]);
                            KEEP(sum[p][v]);
                        }
                    }
                }
                rest -= run;
                left -= (int)run;
                if (left) continue;
                left = t->limit;
                move(pixels, vectors, sum, s);
                if (--moves) continue;
                moves = MOVES;
                move_on(pixels * vectors * OUTPUTS, factor, s);
            }
        }
    move(pixels, vectors, sum, s);
}

INLINE void run_tile(int pixels, int vectors, const tile *t)
{
    const int    lanes = pixels * vectors * OUTPUTS, last = t->planes - 1;
    const size_t steps = (size_t)t->taps_i * (size_t)t->taps_j * t->steps;
    /* Thin layers, whose tiles are short, need no sums of 32 bits. */
    const bool   short_sums = !last && steps <= (size_t)t->limit * (MOVES - 1);
    sums         s;
    memset(s.of, 0, (size_t)lanes * sizeof *s.of);
    if (!short_sums) memset(s.all, 0, (size_t)lanes * sizeof *s.all);
    for (int j = 0; j < t->planes; j++) {
        add_plane(pixels, vectors, t, t->w + (size_t)j * t->plane, t->factor[j], &s);
        if (!short_sums) move_on(lanes, t->factor[j], &s);
    }
    for (int p = 0; p < pixels; p++) {
        const int32_t start = t->correction[p * t->correction_step];
        int32_t      *y     = t->y + p * t->y_step;
        const int     first = p * vectors * OUTPUTS;
        if (short_sums)
            for (int o = 0; o < t->outputs; o++) y[o] = t->factor[0] * s.of[first + o] + start;
        else
            for (int o = 0; o < t->outputs; o++) y[o] = s.all[first + o] + start;
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

typedef struct visit {
    const qg__plain_product *p;
    const uint8_t          *tables, *w;     /* w: the block */
    const int32_t          *corrections;    /* of every output */
    int32_t                *acc;
    int                     vectors, outputs, first;    /* of the block */
    int                     factor[QG__MOST_PLANES];
} visit;

static void run_line(void *context, const qg__line *line)
{
    const visit        *at    = context;
    const qg__geometry *g     = &at->p->g;
    const size_t        pixel = pixel_bytes(g), tap = steps_of(g->c) * (size_t)at->vectors * OUTPUTS;
    tile                t     = {
        .x = at->tables + line->x * pixel, .x_step = line->x_step * (ptrdiff_t)pixel,
        .x_row = (ptrdiff_t)((size_t)g->w * pixel),
        .w = at->w + (size_t)(line->i0 * g->kw + line->j0) * tap,
        .plane = (size_t)at->vectors * plane_bytes(g),
        .w_row = (size_t)g->kw * tap, .steps = steps_of(g->c), .taps_i = line->i1 - line->i0,
        .taps_j = line->j1 - line->j0,
        .limit = limit_of(at->p->xa), .planes = at->p->wa.bits, .factor = at->factor,
        .correction = at->corrections + line->y, .correction_step = line->y_step,
        .y = at->acc + line->y * (size_t)g->oc + at->first, .y_step = line->y_step * g->oc,
        .outputs = at->outputs,
    };
    for (int left = line->outputs, done; left; left -= done) {
        if (at->vectors == 1 && left >= 8) done = left >= 12 ? 12 : 8;
        else done = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (at->vectors == 1) run_tile(n, 1, &t);                                                      \
        else if (2 * n <= SUMS) run_tile(n, 2, &t);                                                    \
        break;
        switch (done) { CASE(1) CASE(2) CASE(4) CASE(6) CASE(8) CASE(12) }
#undef CASE
        t.x += done * t.x_step;
        t.y += done * t.y_step;
        t.correction += done * t.correction_step;
    }
}

/* Scratch: corrections of the outputs, corrections of the pixels, tables. */
static size_t scratch_bytes(const qg__plain_product *p, int n)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    return qg__lines_of(results * sizeof(int32_t)) + qg__lines_of(pixels * sizeof(int32_t)) +
           pixels * pixel_bytes(&p->g);
}

static void run(const qg__plain_product *p, int n, const void *x, const void *packed, void *y, void *scratch)
{
    const size_t pixels      = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *windows     = scratch;
    int32_t     *corrections = windows + qg__lines_of(results * sizeof *windows) / sizeof *windows;
    uint8_t     *tables      = (uint8_t *)corrections + qg__lines_of(pixels * sizeof *corrections);
    make_tables(p, pixels, x, tables, corrections);
    qg__window_sums(&p->g, n, corrections, windows);
    visit at = { .p = p, .tables = tables, .w = packed, .corrections = windows, .acc = y };
    for (int j = 0; j < p->wa.bits; j++) at.factor[j] = factor_of(p->wa, j);
    for (; at.first < p->g.oc; at.first += at.outputs) {
        at.vectors = vectors_at(p->g.oc, at.first / (WIDEST * OUTPUTS));
        at.outputs = least(p->g.oc - at.first, at.vectors * OUTPUTS);
        qg__lines(&p->g, n, run_line, &at);
        at.w += (size_t)at.vectors * (size_t)p->wa.bits * plane_bytes(&p->g);
    }
}

static int   passes(const qg__plain_product *p) { return p->wa.bits; }

/* Moving the bytes takes 1.3 times as long as a step. */
static float steps(const qg__plain_product *p)
{
    const float each = 1.0f + 1.3f / (float)limit_of(p->xa);
    return each * (float)p->wa.bits * (float)(qg__taps(&p->g) * steps_of(p->g.c));
}

const qg__bit_kernels QG_PER_ISA(qg__bit_kernels) = {
    .plain   = { weight_bytes, pack_weights, scratch_bytes, run },
    .name    = "lookup",
    .outputs = OUTPUTS,
    .passes  = passes,
    .steps   = steps,
};
#endif
