#include "infer/kernels/int8.h"
#include "infer/kernels/lanes.h"

/* Pixels are copied to scratch in groups of CODES channels, which a tile spreads over a vector:
 *
 *     AVX-512   4 bytes x + 128 for signed x, else x;  the zero point, shifted likewise, is subtracted afterwards:
 *               sum of (x - z) w = sum x w - z sum w
 *     others    2 numbers of 16 bits, x - x_zero
 *
 * Tiles have as many sums as those of floats (core/kernels/conv_tile.h): AVX-512 adds products in one instruction, as a
 * multiply-add; with 16 registers, 12 sums + 2 vectors of weights + 1 of x + 1 of products.
 *
 * Where the codes of w are no bytes, w = step * b - zero, and sum (x - z) w = step * sum (x - z) b - zero * sum (x -
 * z).  sum w depends on the taps that are inside the image, sum (x - z) on the window.  The terms are added as
 * unsigned numbers: their sum fits into int32, partial sums need not.
 *
 * Weights: [blocks of outputs][kh][kw][groups][2 vectors][VL][CODES].  With an alphabet, the bytes of a group are as
 * many bits of each plane, [blocks of outputs][kh][kw][groups][planes][GROUP_BYTES bits]. */
enum { VECTORS = 2, OUTPUTS = VECTORS * VL, LONGEST = PIXELS_1, GROUP_BYTES = OUTPUTS * CODES };

static size_t groups_of(int c) { return ((size_t)c + CODES - 1) / CODES; }
static size_t block_bytes(const qg__geometry *g) { return qg__taps(g) * groups_of(g->c) * GROUP_BYTES; }

/* Of a block as it is packed. */
static size_t packed_bytes(const qg__int8_product *p)
{
    const int planes = qg__alphabet_of(p->w).bits;
    return planes ? block_bytes(&p->g) / 8 * (size_t)planes : block_bytes(&p->g);
}

static size_t weight_bytes(const qg__int8_product *p)
{
    return ((size_t)p->g.oc + OUTPUTS - 1) / OUTPUTS * packed_bytes(p);
}

/* A weight of 8 bits is w_step * byte - w_zero. */
static int w_step(const qg__int8_product *p) { return qg__alphabet_of(p->w).bits ? 1 : p->w.step; }

static int w_zero(const qg__int8_product *p)
{
    const bool is_byte = p->w.step == 1 && p->w.lowest >= -128 && qg__highest(p->w) <= 127;
    return is_byte || qg__alphabet_of(p->w).bits ? 0 : -(p->w.lowest + 128 * p->w.step);
}

static void pack_weights(const qg__int8_product *p, int o, size_t first, size_t n, const float *values, void *packed)
{
    const qg__alphabet a    = qg__alphabet_of(p->w);
    const size_t       c    = (size_t)p->g.c;
    const int          step = w_step(p), zero = w_zero(p);
    uint8_t           *to   = (uint8_t *)packed + (size_t)(o / OUTPUTS) * packed_bytes(p);
    if (o % OUTPUTS == 0 && first == 0) memset(to, 0, packed_bytes(p));
    size_t tap = first / c, k = first % c;
    for (size_t i = 0; i < n; i++) {
        const int    value = (int)values[i];
        const size_t group = tap * groups_of(p->g.c) + k / CODES, in_group = (size_t)(o % OUTPUTS) * CODES + k % CODES;
        uint8_t     *plane = to + group * (size_t)a.bits * (GROUP_BYTES / 8) + in_group / 8;
        for (int j = 0; j < a.bits; j++, plane += GROUP_BYTES / 8)
            *plane |= (uint8_t)(qg__bit(a, value, j) << in_group % 8);
        if (!a.bits) to[group * GROUP_BYTES + in_group] = (uint8_t)((value + zero) / step);
        if (++k == c) k = 0, tap++;
    }
}

/* --- weights of an alphabet ------------------------------------------------------------------- */

/* A block as bytes: offset + sum over j of factor(j) * plane j. */
INLINE void expand(qg__alphabet a, int planes, size_t groups, const uint8_t *w, int8_t *to)
{
    for (size_t n = 0; n < groups; n++, w += planes * (GROUP_BYTES / 8))
        for (int i = 0; i < GROUP_BYTES / BYTES; i++, to += BYTES) {
            bytes values = (bytes){ 0 } + (uint8_t)qg__offset(a);
            UNROLL
            for (int j = 0; j < planes; j++)
                values += bytes_of_bits(w + j * (GROUP_BYTES / 8) + i * (BYTES / 8)) & (uint8_t)qg__factor(a, j);
            memcpy(to, &values, sizeof values);
        }
}

static const int8_t *bytes_of(const qg__int8_product *p, const int8_t *packed, int8_t *expanded)
{
    const qg__alphabet a      = qg__alphabet_of(p->w);
    const size_t       groups = qg__taps(&p->g) * groups_of(p->g.c);
    const uint8_t     *w      = (const uint8_t *)packed;
    switch (a.bits) {
    case 0: return packed;
    case 1: expand(a, 1, groups, w, expanded); break;
    case 2: expand(a, 2, groups, w, expanded); break;
    case 3: expand(a, 3, groups, w, expanded); break;
    case 4: expand(a, 4, groups, w, expanded); break;
    }
    return expanded;
}

/* --- activations ------------------------------------------------------------------------------ */

/* c channels in groups.  Channels that do not exist are real zeros: their weights of an alphabet are those of plane
 * bits 0, not 0. */
static void copy_channels(const qg__int8_product *p, size_t c, const uint8_t *x, int32_t *groups)
{
    const int flip = p->x_signed ? 128 : 0;      /* x ^ flip is the code as an unsigned byte */
    if (CODES == 4) {
        uint8_t *to = (uint8_t *)groups;
        if (c % CODES) memset(groups + c / CODES, p->x_zero + flip, sizeof *groups);
        for (size_t k = 0; k < c; k++) to[k] = (uint8_t)(x[k] ^ flip);
        return;
    }
    int16_t *to = (int16_t *)groups;
    if (c % CODES) groups[c / CODES] = 0;
    for (size_t k = 0; k < c; k++) to[k] = (int16_t)((x[k] ^ flip) - flip - p->x_zero);
}

/* Pixels whose channels fill groups follow each other in both. */
static void copy_pixels(const qg__int8_product *p, size_t pixels, const uint8_t *x, int32_t *groups)
{
    const size_t c = (size_t)p->g.c;
    if (c % CODES == 0) copy_channels(p, pixels * c, x, groups);
    else
        for (size_t i = 0; i < pixels; i++) copy_channels(p, c, x + i * c, groups + i * groups_of(p->g.c));
}

/* The sum of x - x_zero of a pixel. */
static int32_t sum_of_pixel(const qg__int8_product *p, const uint8_t *x)
{
    const int flip = p->x_signed ? 128 : 0;
    int32_t   sum  = -p->g.c * (p->x_zero + flip);
    for (int k = 0; k < p->g.c; k++) sum += x[k] ^ flip;
    return sum;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Numbers whose sums wrap around. */
typedef uint32_t lanes __attribute__((vector_size(4 * VL), may_alias));

typedef struct tile {
    const int32_t *x;
    const int8_t  *w;
    ptrdiff_t      x_step, x_row, w_row;        /* groups to the next output and row; bytes of kw taps */
    size_t         groups;                      /* of the taps of a row that are inside, neighbours in x and w */
    int            taps_i;
} tile;

typedef struct visit {
    const qg__int8_product *p;
    const int32_t          *x, *window;         /* window: sum (x - z) of every output, if w_zero is not 0 */
    const int8_t           *w;                  /* the block */
    int32_t                *acc;
    int                     first, outputs;     /* of the block */
    uint32_t                w_step, w_zero, x_zero;     /* x_zero: of unsigned x */
    lanes                  *taps;               /* [kh][kw][VECTORS]: - x_zero sum w of each tap */
    lanes                   start[VECTORS];     /* of a line: the sum over its taps */
    qg__line                started;
} visit;

/* Blocks whose outputs fill one vector leave the other out. */
INLINE void run_tile(int pixels, int vectors, const visit *at, const tile *t, size_t y, ptrdiff_t y_step)
{
    vi sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++) {
        const int32_t *x = t->x + i * t->x_row;
        const int8_t  *w = t->w + i * t->w_row;
        for (size_t n = 0; n < t->groups; n++, x++, w += GROUP_BYTES) {
            vi wv[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = load_codes(w + v * VL * CODES);
            UNROLL
            for (int p = 0; p < pixels; p++) {
                const vi xv = x[p * t->x_step] + (vi){ 0 };
                UNROLL
                for (int v = 0; v < vectors; v++) {
                    sum[p][v] = add_products(sum[p][v], xv, wv[v]);
                    KEEP(sum[p][v]);
                }
            }
        }
    }
    lanes      acc[LONGEST][VECTORS];       /* the sums themselves are registers */
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++) {
            acc[p][v] = (lanes)sum[p][v] + at->start[v];
            if (at->w_step != 1) acc[p][v] *= at->w_step;
            if (at->w_zero) acc[p][v] -= at->w_zero * (uint32_t)at->window[(size_t)((ptrdiff_t)y + p * y_step)];
        }
    int32_t *to = at->acc + y * (size_t)at->p->g.oc + at->first;
    for (int p = 0; p < pixels; p++, to += y_step * at->p->g.oc) {
        if (at->outputs == OUTPUTS)
            UNROLL
            for (int v = 0; v < vectors; v++) memcpy(to + v * VL, &acc[p][v], sizeof acc[p][v]);
        else memcpy(to, acc[p], (size_t)at->outputs * sizeof *to);
    }
}

/* With the instruction of the tiles, for x of ones. */
static void count_taps(visit *at)
{
    const vi     ones   = (vi){ 0 } + (CODES == 4 ? 0x01010101 : 0x00010001);
    const size_t groups = groups_of(at->p->g.c);
    for (size_t tap = 0; tap < qg__taps(&at->p->g); tap++)
        for (int v = 0; v < VECTORS; v++) {
            const int8_t *w   = at->w + tap * groups * GROUP_BYTES + v * VL * CODES;
            vi            sum = { 0 };
            for (size_t n = 0; n < groups; n++, w += GROUP_BYTES) sum = add_products(sum, ones, load_codes(w));
            at->taps[tap * VECTORS + (size_t)v] = (lanes)sum * -at->x_zero;
        }
}

static void start_line(visit *at, const qg__line *line)
{
    const qg__line *s = &at->started;
    if (!at->x_zero || (s->i0 == line->i0 && s->i1 == line->i1 && s->j0 == line->j0 && s->j1 == line->j1)) return;
    at->started = *line;
    for (int v = 0; v < VECTORS; v++) {
        at->start[v] = (lanes){ 0 };
        for (int i = line->i0; i < line->i1; i++)
            for (int j = line->j0; j < line->j1; j++) at->start[v] += at->taps[(i * at->p->g.kw + j) * VECTORS + v];
    }
}

static void run_line(void *context, const qg__line *line)
{
    visit              *at    = context;
    const qg__geometry *g     = &at->p->g;
    const ptrdiff_t     pixel = (ptrdiff_t)groups_of(g->c);
    tile                t     = {
        .x = at->x + (ptrdiff_t)line->x * pixel, .x_step = line->x_step * pixel, .x_row = g->w * pixel,
        .w = at->w + (line->i0 * g->kw + line->j0) * pixel * GROUP_BYTES, .w_row = g->kw * pixel * GROUP_BYTES,
        .groups = (size_t)((line->j1 - line->j0) * pixel), .taps_i = line->i1 - line->i0,
    };
    start_line(at, line);
    size_t y = line->y;
    const int vectors = at->outputs <= VL ? 1 : VECTORS;
    for (int left = line->outputs, done; left; left -= done) {
        done = tile_pixels(left, vectors);
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (vectors == 1 && n <= PIXELS_1) run_tile(n, 1, at, &t, y, line->y_step);                    \
        else if (n <= PIXELS_2) run_tile(n, VECTORS, at, &t, y, line->y_step);                         \
        break;
        switch (done) { CASE(1) CASE(2) CASE(4) CASE(6) CASE(8) CASE(12) CASE(14) CASE(24) }
#undef CASE
        t.x += done * t.x_step;
        y = (size_t)((ptrdiff_t)y + done * line->y_step);
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

/* Scratch: the sums of windows, those of pixels, pixels in groups, sums of the weights of taps, a block of weights as
 * bytes. */
static size_t scratch_bytes(const qg__int8_product *p, int n)
{
    const size_t m = (size_t)qg__images_at_once(&p->g, n), pixels = m * qg__pixels(&p->g);
    return qg__lines_of(m * qg__results(&p->g) * sizeof(int32_t)) + qg__lines_of(pixels * sizeof(int32_t)) +
           qg__lines_of(pixels * groups_of(p->g.c) * sizeof(int32_t)) +
               qg__lines_of(qg__taps(&p->g) * VECTORS * sizeof(lanes)) +
           (qg__alphabet_of(p->w).bits ? block_bytes(&p->g) : 0);
}

static void run_images(const qg__int8_product *p, int n, const uint8_t *x, const int8_t *packed, int32_t *acc,
                       void *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *window = scratch, *sums = window + qg__lines_of(results * sizeof *window) / sizeof *window;
    int32_t     *groups = sums + qg__lines_of(pixels * sizeof *sums) / sizeof *sums;
    int32_t     *after    = groups + qg__lines_of(pixels * groups_of(p->g.c) * sizeof *groups) / sizeof *groups;
    lanes       *taps     = (lanes *)(void *)after;
    int8_t      *expanded = (int8_t *)taps + qg__lines_of(qg__taps(&p->g) * VECTORS * sizeof *taps);
    copy_pixels(p, pixels, x, groups);
    if (w_zero(p)) {
        for (size_t i = 0; i < pixels; i++) sums[i] = sum_of_pixel(p, x + i * (size_t)p->g.c);
        qg__window_sums(&p->g, n, sums, window);
    }
    visit at = { .p = p, .x = groups, .window = window, .acc = acc, .w_step = (uint32_t)w_step(p),
                 .w_zero = (uint32_t)w_zero(p), .taps = taps };
    if (CODES == 4) at.x_zero = (uint32_t)(p->x_zero + (p->x_signed ? 128 : 0));
    for (; at.first < p->g.oc; at.first += OUTPUTS, packed += packed_bytes(p)) {
        at.w          = bytes_of(p, packed, expanded);
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.started.i0 = -1;
        if (at.x_zero) count_taps(&at);
        qg__lines(&p->g, n, run_line, &at);
    }
}

static void run(const qg__int8_product *p, int n, const void *x, const void *packed, int32_t *acc, void *scratch)
{
    const int    most  = qg__images_at_once(&p->g, n);
    const size_t image = qg__pixels(&p->g) * (size_t)p->g.c, results = qg__results(&p->g) * (size_t)p->g.oc;
    for (int done = 0, now; done < n; done += now) {
        now = least(n - done, most);
        run_images(p, now, (const uint8_t *)x + (size_t)done * image, packed, acc + (size_t)done * results, scratch);
    }
}

const qg__int8_kernels QG_PER_ISA(qg__int8_kernels) = {
    .weight_bytes  = weight_bytes,
    .pack_weights  = pack_weights,
    .scratch_bytes = scratch_bytes,
    .run           = run,
};
