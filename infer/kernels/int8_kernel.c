#include "infer/kernels/int8.h"
#include "infer/kernels/lanes.h"

/* Pixels are copied to scratch in groups of CODES channels, which a tile spreads over a vector:
 *
 *     AVX-512   4 bytes x + 128 for signed x, else x;  the zero point, shifted likewise, is subtracted afterwards:
 *               sum of (x - z) w = sum x w - z sum w
 *     others    2 numbers of 16 bits, x - x_zero
 *
 * Where the codes of w are no bytes, w = step * b - zero, and sum (x - z) w = step * sum (x - z) b - zero * sum (x - z).
 * sum w depends on the taps that are inside the image, sum (x - z) on the window.  The terms are added as unsigned numbers:
 * their sum fits into int32, partial sums need not.
 *
 * Weights: [blocks of outputs][kh][kw][groups][2 vectors][VL][CODES].  With an alphabet, the bytes of a group are as many bits of
 * each plane, [blocks of outputs][kh][kw][groups][planes][GROUP_BYTES bits]. */
enum { VECTORS = 2, OUTPUTS = VECTORS * VL, LONGEST = PIXELS_2, GROUP_BYTES = OUTPUTS * CODES };

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
        for (int j = 0; j < a.bits; j++, plane += GROUP_BYTES / 8) *plane |= (uint8_t)(qg__bit(a, value, j) << in_group % 8);
        if (!a.bits) to[group * GROUP_BYTES + in_group] = (uint8_t)((value + zero) / step);
        if (++k == c) k = 0, tap++;
    }
}

/* --- weights of an alphabet ------------------------------------------------------------------- */

#define EACH_BYTE(b) ((uint64_t)(b) * 0x0101010101010101u)

/* 255 in each byte whose bit is set: a byte of 0x80 or less carries into no other. */
static inline uint64_t spread(unsigned bits)
{
    const uint64_t own = EACH_BYTE(bits) & 0x8040201008040201u;
    return ((own + EACH_BYTE(0x7F)) >> 7 & EACH_BYTE(1)) * 255;
}

/* Sums of bytes without carries. */
static inline uint64_t add_bytes(uint64_t a, uint64_t b)
{
    return ((a & EACH_BYTE(0x7F)) + (b & EACH_BYTE(0x7F))) ^ ((a ^ b) & EACH_BYTE(0x80));
}

/* A block as bytes: offset + sum over j of factor(j) * plane j, for eight weights at a time. */
INLINE void expand(qg__alphabet a, int planes, size_t groups, const uint8_t *w, int8_t *to)
{
    for (size_t n = 0; n < groups; n++, w += planes * (GROUP_BYTES / 8))
        for (int i = 0; i < GROUP_BYTES / 8; i++, to += 8) {
            uint64_t values = EACH_BYTE((uint8_t)qg__offset(a));
            UNROLL
            for (int j = 0; j < planes; j++)
                values = add_bytes(values, spread(w[j * (GROUP_BYTES / 8) + i]) & EACH_BYTE((uint8_t)qg__factor(a, j)));
            for (int b = 0; b < 8; b++) to[b] = (int8_t)(values >> 8 * b);      /* one store on little-endian machines */
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

/* One pixel in groups, and the sum of x - x_zero.  Channels that do not exist are real zeros: their weights of an alphabet are
 * those of plane bits 0, not 0. */
static int32_t copy_pixel(const qg__int8_product *p, const uint8_t *x, int32_t *groups)
{
    const int flip = p->x_signed ? 128 : 0, c = p->g.c;      /* x ^ flip is the code as an unsigned byte */
    int32_t   sum  = 0;
    groups[groups_of(c) - 1] = 0;
    if (CODES == 4) {
        uint8_t *to = (uint8_t *)groups;
        memset(groups + groups_of(c) - 1, p->x_zero + flip, sizeof *groups);
        for (int k = 0; k < c; k++) to[k] = (uint8_t)(x[k] ^ flip);
        for (int k = 0; k < c; k++) sum += to[k];
        return sum - c * (p->x_zero + flip);
    }
    int16_t *to = (int16_t *)groups;
    for (int k = 0; k < c; k++) to[k] = (int16_t)((x[k] ^ flip) - flip - p->x_zero);
    for (int k = 0; k < c; k++) sum += to[k];
    return sum;
}

/* --- tiles ------------------------------------------------------------------------------------ */

typedef struct tile {
    const int32_t *x;
    const int8_t  *w;
    ptrdiff_t      x_step, x_row, w_row;        /* groups to the next output and row; bytes of kw taps */
    size_t         groups;                      /* of the taps of a row that are inside, which are neighbours in x and w */
    int            taps_i;
} tile;

typedef struct visit {
    const qg__int8_product *p;
    const int32_t          *x, *window;         /* window: sum (x - z) of every output */
    const int8_t           *w;                  /* the block */
    int32_t                *acc;
    int                     first, outputs;     /* of the block */
    uint32_t                w_step, w_zero;
    qg__line                counted;            /* whose taps start is for */
    uint32_t                start[OUTPUTS];
} visit;

INLINE void run_tile(int pixels, const visit *at, const tile *t, size_t y, ptrdiff_t y_step)
{
    vi sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++) {
        const int32_t *x = t->x + i * t->x_row;
        const int8_t  *w = t->w + i * t->w_row;
        for (size_t n = 0; n < t->groups; n++, x++, w += GROUP_BYTES) {
            vi wv[VECTORS];
            UNROLL
            for (int v = 0; v < VECTORS; v++) wv[v] = load_codes(w + v * VL * CODES);
            UNROLL
            for (int p = 0; p < pixels; p++) {
                const vi xv = x[p * t->x_step] + (vi){ 0 };
                UNROLL
                for (int v = 0; v < VECTORS; v++) {
                    sum[p][v] = add_products(sum[p][v], xv, wv[v]);
                    KEEP(sum[p][v]);
                }
            }
        }
    }
    uint32_t raw[LONGEST][OUTPUTS];     /* the sums themselves are registers */
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < VECTORS; v++) memcpy(&raw[p][v * VL], &sum[p][v], sizeof sum[p][v]);
    const bool is_byte = at->w_step == 1 && at->w_zero == 0;
    for (int p = 0; p < pixels; p++) {
        const size_t   at_y = (size_t)((ptrdiff_t)y + p * y_step);
        int32_t       *to   = at->acc + at_y * (size_t)at->p->g.oc + at->first;
        const uint32_t zero  = at->w_zero * (uint32_t)at->window[at_y];
        if (is_byte)
            for (int o = 0; o < at->outputs; o++) to[o] = (int32_t)(raw[p][o] + at->start[o]);
        else
            for (int o = 0; o < at->outputs; o++) to[o] = (int32_t)((raw[p][o] + at->start[o]) * at->w_step - zero);
    }
}

/* - z sum w over the taps of a line, for unsigned x. */
static void count_weights(visit *at, const tile *t, const qg__line *line)
{
    const qg__line *c = &at->counted;
    const int       z = CODES == 4 ? at->p->x_zero + (at->p->x_signed ? 128 : 0) : 0;
    if (c->i0 == line->i0 && c->i1 == line->i1 && c->j0 == line->j0 && c->j1 == line->j1) return;
    at->counted = *line;
    memset(at->start, 0, sizeof at->start);
    for (int i = 0; z && i < t->taps_i; i++) {
        const int8_t *w = t->w + i * t->w_row;
        for (size_t n = 0; n < t->groups; n++)
            for (int k = 0; k < GROUP_BYTES; k++) at->start[k / CODES] -= (uint32_t)(z * *w++);
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
    count_weights(at, &t, line);
    size_t y = line->y;
    for (int left = line->outputs, done; left; left -= done) {
        if (LONGEST == 14 && left >= 8) done = left >= 14 ? 14 : left >= 12 ? 12 : 8;
        else done = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
#define CASE(n) case n: if (n <= LONGEST) run_tile(n, at, &t, y, line->y_step); break;
        switch (done) { CASE(1) CASE(2) CASE(4) CASE(6) CASE(8) CASE(12) CASE(14) }
#undef CASE
        t.x += done * t.x_step;
        y = (size_t)((ptrdiff_t)y + done * line->y_step);
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

/* Scratch: the sums of windows, those of pixels, pixels in groups, a block of weights as bytes. */
static size_t scratch_bytes(const qg__int8_product *p, int n)
{
    const size_t m = (size_t)qg__images_at_once(&p->g, n), pixels = m * qg__pixels(&p->g);
    return qg__lines_of(m * qg__results(&p->g) * sizeof(int32_t)) + qg__lines_of(pixels * sizeof(int32_t)) +
           qg__lines_of(pixels * groups_of(p->g.c) * sizeof(int32_t)) + (qg__alphabet_of(p->w).bits ? block_bytes(&p->g) : 0);
}

static void run_images(const qg__int8_product *p, int n, const uint8_t *x, const int8_t *packed, int32_t *acc, void *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), results = (size_t)n * qg__results(&p->g);
    int32_t     *window = scratch, *sums = window + qg__lines_of(results * sizeof *window) / sizeof *window;
    int32_t     *groups = sums + qg__lines_of(pixels * sizeof *sums) / sizeof *sums;
    int8_t      *expanded = (int8_t *)(groups + qg__lines_of(pixels * groups_of(p->g.c) * sizeof *groups) / sizeof *groups);
    for (size_t i = 0; i < pixels; i++) sums[i] = copy_pixel(p, x + i * (size_t)p->g.c, groups + i * groups_of(p->g.c));
    qg__window_sums(&p->g, n, sums, window);
    visit at = { .p = p, .x = groups, .window = window, .acc = acc, .w_step = (uint32_t)w_step(p), .w_zero = (uint32_t)w_zero(p) };
    for (; at.first < p->g.oc; at.first += OUTPUTS, packed += packed_bytes(p)) {
        at.w          = bytes_of(p, packed, expanded);
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.counted.i0 = -1;
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
