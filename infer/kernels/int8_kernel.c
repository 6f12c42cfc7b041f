#include "infer/kernels/int8_weights.h"
#include "infer/kernels/find.h"
#include "infer/kernels/winograd.h"

/* A tile reads pixels in groups of CODES channels and spreads a group over a vector:
 *
 *     AVX-512   4 bytes x;  the zero point is subtracted afterwards: sum of (x - z) w = sum x w - z sum w
 *     others    2 numbers of 16 bits, x - x_zero
 *
 * Tiles have as many sums as those of floats (core/kernels/conv_tile.h): AVX-512 adds products in one
 * instruction, as a multiply-add; with 16 registers, 12 sums + 2 vectors of weights + 1 of x + 1 of
 * products.
 *
 * Pixels are copied to scratch, unless x is groups as it is: on AVX-512, if its channels fill groups.
 *
 * Without AVX-512, a multiply-add of bytes is a product and a sum of 16 bits: two instructions, of which four
 * begin per cycle at the most.  So kernels of 3 x 3 and 5 x 5 save multiplications instead (patches, below).
 *
 * Where the codes of w are no bytes, w = step * b - zero, and sum (x - z) w = step * sum (x - z) b - zero *
 * sum (x - z).  sum w depends on the taps that are inside the image, sum (x - z) on the window.  The terms
 * are added as unsigned numbers: their sum fits into int32, partial sums need not.  A zero point of an
 * output is part of its `zero`. */
enum { LONGEST = PIXELS_1 };

/* Tiles of so few pixels wait for weights from memory, of which the core itself fetches too little ahead.
 * While a line is on its way, some KiB of others arrive. */
enum { FEW = 4, AHEAD = 8192, LINE = 64 };
#define FETCH(w) __builtin_prefetch((const char *)(w) + AHEAD)

/* What x has in place of 0. */
static int x_zero(const qg__plain_product *p) { return -p->x.lowest; }

/* --- activations ------------------------------------------------------------------------------ */

/* c channels in groups.  Channels that do not exist are real zeros: their weights of an alphabet are those
 * of plane bits 0, not 0. */
static void copy_channels(const qg__plain_product *p, size_t c, const uint8_t *x, int32_t *groups)
{
    if (CODES == 4) {
        if (c % CODES) memset(groups + c / CODES, x_zero(p), sizeof *groups);
        memcpy(groups, x, c);
        return;
    }
    int16_t *to = (int16_t *)groups;
    if (c % CODES) groups[c / CODES] = 0;
    for (size_t k = 0; k < c; k++) to[k] = (int16_t)(x[k] - x_zero(p));
}

/* Pixels whose channels fill groups follow each other in both. */
static void copy_pixels(const qg__plain_product *p, size_t pixels, const uint8_t *x, int32_t *groups)
{
    const size_t c = (size_t)p->g.c;
    if (c % CODES == 0) copy_channels(p, pixels * c, x, groups);
    else
        for (size_t i = 0; i < pixels; i++) copy_channels(p, c, x + i * c, groups + i * groups_of(p->g.c));
}

/* The sum of x - x_zero of a pixel: eight bytes at a time, in 16 bits each. */
static int32_t sum_of_pixel(const qg__plain_product *p, const uint8_t *x)
{
    const uint64_t low = 0x00FF00FF00FF00FF;
    int32_t        sum = -p->g.c * x_zero(p);
    int            k   = 0;
    for (uint64_t v; k + 8 <= p->g.c; k += 8) {
        memcpy(&v, x + k, sizeof v);
        sum += (int32_t)(((v & low) + (v >> 8 & low)) * 0x0001000100010001 >> 48);
    }
    for (; k < p->g.c; k++) sum += x[k];
    return sum;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Anywhere in memory. */
typedef int32_t group __attribute__((aligned(1), may_alias));

typedef struct tile {
    const group  *x;
    const int8_t *w;
    ptrdiff_t     x_step, x_row, w_row;         /* groups to the next output and row; bytes of kw taps */
    size_t        groups;                       /* of the taps of a row that are inside, neighbours in x and
                                                   w */
    int           taps_i;
} tile;

typedef struct visit {
    const qg__plain_product *p;
    const group             *x;
    const int32_t           *window;            /* sum (x - z) of every output, if has_windows */
    const int8_t            *w;                 /* the block */
    void                    *y;
    int                      first, outputs;    /* of the block */
    uint32_t                 w_step, w_zero, x_zero;    /* x_zero 0: subtracted already */
    vu                      *taps;              /* [kh][kw][VECTORS]: - x_zero sum w of each tap */
    vu                       start[VECTORS];    /* of a line: the sum over its taps */
    qg__line                 started;
    vu                       sum[LONGEST][VECTORS];     /* of a tile */
} visit;

/* A multiply-add of four bytes takes four cycles, and two begin in each: a tile of less than 8 sums divides
 * them. */
INLINE int chains_of(int sums)
{
    return CODES != 4 || sums >= 8 ? 1 : sums >= 4 ? 2 : 4;
}

/* The products of one group after the other, each in the sums of a chain of its own; x moves on. */
INLINE void add_groups(int chains, int pixels, int vectors, const tile *t, const group **x,
                       const int8_t *w, vi (*sum)[VECTORS])
{
    UNROLL
    for (int c = 0; c < chains; c++) {
        vi wv[VECTORS];
        UNROLL
        for (int at = 0; pixels <= FEW && at < GROUP_BYTES; at += LINE) FETCH(w + c * GROUP_BYTES + at);
        UNROLL
        for (int v = 0; v < vectors; v++) wv[v] = load_codes(w + c * GROUP_BYTES + v * VL * CODES);
        UNROLL
        for (int p = 0; p < pixels; p++) {
            const vi xv = x[p / RUN][p % RUN * t->x_step] + (vi){ 0 };
            UNROLL
            for (int v = 0; v < vectors; v++) {
                vi *own = &sum[c * pixels + p][v];
                *own = add_products(*own, xv, wv[v]);
                KEEP(*own);
            }
        }
        UNROLL
        for (int r = 0; r * RUN < pixels; r++) {
            x[r]++;
            KEEP_POINTER(x[r]);
        }
    }
}

/* Blocks whose outputs fill one vector leave the other out. */
INLINE void run_tile(int pixels, int vectors, const tile *t, vu (*to)[VECTORS])
{
    const int chains = chains_of(pixels * vectors);
    vi        sum[LONGEST][VECTORS] = { { { 0 } } };        /* of each chain */
    for (int i = 0; i < t->taps_i; i++) {
        const int8_t *w    = t->w + i * t->w_row;
        size_t        left = t->groups;
        const group  *x[RUNS];
        UNROLL
        for (int r = 0; r * RUN < pixels; r++) x[r] = t->x + i * t->x_row + r * RUN * t->x_step;
        for (; left >= (size_t)chains; left -= (size_t)chains, w += chains * GROUP_BYTES)
            add_groups(chains, pixels, vectors, t, x, w, sum);
        if (chains == 1) continue;
        for (; left > 0; left--, w += GROUP_BYTES) add_groups(1, pixels, vectors, t, x, w, sum);
    }
    EACH(p, pixels, v, vectors) {
        to[p][v] = (vu)sum[p][v];
        UNROLL
        for (int c = 1; c < chains; c++) to[p][v] += (vu)sum[c * pixels + p][v];
    }
}

#define TILES(n)                                                                                             \
    TILE one_##n(const tile *t, vu (*to)[VECTORS]) { run_tile(n <= PIXELS_1 ? n : 1, 1, t, to); }            \
    TILE two_##n(const tile *t, vu (*to)[VECTORS]) { run_tile(n <= PIXELS_2 ? n : 1, VECTORS, t, to); }
EACH_LENGTH(TILES)
#undef TILES

/* --- results ---------------------------------------------------------------------------------- */

/* Vector v of the sums of a tile, of which n outputs exist.  A byte of y may alias everything, so all that
 * the loop reads is copied before. */
INLINE void finish_vector(int as, const visit *at, const vu (*sum)[VECTORS], int pixels, int v, int n,
                          size_t y, ptrdiff_t y_step)
{
    const int         first = at->first + v * VL;
    const qg__finish *f     = at->p->finish;
    const bool        codes = as >= 0;
    const qg__finder  find  = codes ? *f->find : (qg__finder){ .count = 0 };
    const bool        relu  = as == FLOATS && f->relu;
    const vf          a = as == SUMS ? (vf){ 0 } : load(f->a + first, n);
    const vf          b = as == SUMS ? (vf){ 0 } : load(f->b + first, n);
    const vu          start = at->start[v];
    const uint32_t    step  = at->w_step;
    const bool        zeros = at->p->zeros, windows = zeros || at->w_zero;
    const int32_t    *window = windows ? at->window + y : NULL;
    const size_t      size = codes ? 1 : sizeof(float), oc = (size_t)at->p->g.oc;
    const ptrdiff_t   to_step = y_step * (ptrdiff_t)(oc * size);
    uint8_t          *to      = (uint8_t *)at->y + (y * oc + (size_t)first) * size;
    vu                zero    = (vu){ 0 } + at->w_zero;
    if (zeros) zero += (vu)load((const float *)at->p->zero + first, n);
    for (int p = 0; p < pixels; p++, to += to_step) {
        vu acc = sum[p][v] + start;
        if (step != 1) acc *= step;
        if (windows) acc -= zero * (uint32_t)window[p * y_step];
        store_result(as, &find, relu, (vi)acc, a, b, n, to);
    }
}

INLINE void finish_tile_as(int as, const visit *at, const vu (*sum)[VECTORS], int pixels, size_t y,
                           ptrdiff_t y_step)
{
    for (int v = 0; v * VL < at->outputs; v++)
        if (at->outputs - v * VL >= VL) finish_vector(as, at, sum, pixels, v, VL, y, y_step);
        else finish_vector(as, at, sum, pixels, v, at->outputs - v * VL, y, y_step);
}

TILE finish_tile(const visit *at, const vu (*sum)[VECTORS], int pixels, size_t y, ptrdiff_t y_step)
{
    const qg__finish *f = at->p->finish;
#define CASE(as) case as: finish_tile_as(as, at, sum, pixels, y, y_step); break;
    switch (!f ? SUMS : !f->find ? FLOATS : (int)f->find->search) {
        CASE(SUMS) CASE(FLOATS) CASE(QG__COUNT) CASE(QG__GUESS) CASE(QG__LINE) CASE(QG__RATIO)
        CASE(QG__MULTIPLE) CASE(QG__QUOTIENT)
    }
#undef CASE
}

/* --- lines ------------------------------------------------------------------------------------ */

/* With the instruction of the tiles, for x of ones. */
static void count_taps(visit *at)
{
    const vi      ones   = (vi){ 0 } + (CODES == 4 ? 0x01010101 : 0x00010001);
    const size_t  groups = groups_of(at->p->g.c);
    const int8_t *w      = at->w;
    for (size_t tap = 0; tap < qg__taps(&at->p->g); tap++) {
        vi sum[VECTORS] = { { 0 } };
        for (size_t n = 0; n < groups; n++)
            for (int v = 0; v < VECTORS; v++, w += VL * CODES)
                sum[v] = add_products(sum[v], ones, load_codes(w));
        for (int v = 0; v < VECTORS; v++) at->taps[tap * VECTORS + (size_t)v] = (vu)sum[v] * -at->x_zero;
    }
}

static void start_line(visit *at, const qg__line *line)
{
    const qg__line *s = &at->started;
    if (!at->x_zero || (s->i0 == line->i0 && s->i1 == line->i1 && s->j0 == line->j0 && s->j1 == line->j1))
        return;
    at->started = *line;
    for (int v = 0; v < VECTORS; v++) {
        at->start[v] = (vu){ 0 };
        for (int i = line->i0; i < line->i1; i++)
            for (int j = line->j0; j < line->j1; j++)
                at->start[v] += at->taps[(i * at->p->g.kw + j) * VECTORS + v];
    }
}

static void run_line(void *context, const qg__line *line)
{
    visit              *at    = context;
    const qg__geometry *g     = &at->p->g;
    const ptrdiff_t     pixel = (ptrdiff_t)groups_of(g->c), tap = pixel * GROUP_BYTES;
    tile                t     = {
        .x = at->x + (ptrdiff_t)line->x * pixel, .x_step = line->x_step * pixel, .x_row = g->w * pixel,
        .w = at->w + (line->i0 * g->kw + line->j0) * tap, .w_row = g->kw * tap,
        .groups = (size_t)((line->j1 - line->j0) * pixel), .taps_i = line->i1 - line->i0,
    };
    start_line(at, line);
    size_t y = line->y;
    const int vectors = at->outputs <= VL ? 1 : VECTORS;
    for (int left = line->outputs, done; left; left -= done) {
        done = even_pixels(left, vectors);
#define CASE(n)                                                                 \
    case n:                                                                     \
        if (vectors == 1 && n <= PIXELS_1) one_##n(&t, at->sum);                \
        else if (n <= PIXELS_2) two_##n(&t, at->sum);                           \
        break;
        switch (done) { EACH_LENGTH(CASE) }
#undef CASE
        finish_tile(at, (const vu(*)[VECTORS])at->sum, done, y, line->y_step);
        t.x += done * t.x_step;
        y = (size_t)((ptrdiff_t)y + done * line->y_step);
    }
}

/* --- codes ------------------------------------------------------------------------------------ */

/* Dense products read codes as they are packed: with AVX2, whose products of 8 bits are not faster, those of
 * any number of pixels, in tiles of FEW; elsewhere of at most FEW. */
static bool reads_codes(const qg__plain_product *p, int n)
{
    return qg__is_pointwise(&p->g) && p->wa.bits &&
           (QG_LOOKUP || (size_t)n * qg__pixels(&p->g) <= FEW);
}

/* A round of each pixel: sums of its products, which fit into 16 bits, are added to those of the tile. */
INLINE void add_round(int bits, int pixels, ptrdiff_t x_step, const group *x, const bytes *w,
                      vi (*sum)[VECTORS])
{
    vi part[FEW][VECTORS] = { { { 0 } } };
    EACH(q, QUADS, v, VECTORS) {
        const int field = q * VECTORS + v;
        const vi  wv    = (vi)field_of(bits, w[field * bits / 8], field % (8 / bits));
        UNROLL
        for (int p = 0; p < pixels; p++)
            part[p][v] = add_quads(part[p][v], x[p * x_step + q] + (vi){ 0 }, wv);
    }
    EACH(p, pixels, v, VECTORS) sum[p][v] = add_part(sum[p][v], part[p][v]);
}

INLINE void run_rounds(int bits, int pixels, ptrdiff_t rounds, const group *x, const bytes *w,
                       vu (*to)[VECTORS])
{
    vi sum[FEW][VECTORS] = { { { 0 } } };
    for (ptrdiff_t n = 0; n < rounds; n++, x += QUADS, w += bits) {
        for (int i = 0; i < bits; i++) FETCH(w + i);
        add_round(bits, pixels, rounds * QUADS, x, w, sum);
    }
    memcpy(to, sum, (size_t)pixels * sizeof *sum);
}

static void run_codes(int bits, int pixels, ptrdiff_t rounds, const group *x, const bytes *w,
                      vu (*to)[VECTORS])
{
#define CASE(b, n) case 8 * b + n: run_rounds(b, n, rounds, x, w, to); break;
    switch (8 * bits + pixels) {
        CASE(1, 1) CASE(1, 2) CASE(1, 3) CASE(1, 4)
        CASE(2, 1) CASE(2, 2) CASE(2, 3) CASE(2, 4)
        CASE(4, 1) CASE(4, 2) CASE(4, 3) CASE(4, 4)
    }
#undef CASE
}

/* So many pixels of whole rounds.  w = step * code - zero, as above, with the codes of an alphabet. */
static void run_dense(visit *at, int pixels, const int8_t *packed)
{
    const qg__plain_product *p = at->p;
    const qg__alphabet      a = p->wa;
    const ptrdiff_t         rounds = (ptrdiff_t)rounds_of(&p->g);
    at->w_step = (uint32_t)qg__step(a), at->w_zero = -(uint32_t)qg__lowest(a);
    for (; at->first < p->g.oc; at->first += OUTPUTS, packed += packed_bytes(p)) {
        const vu *sum = (const vu *)(const void *)(packed + code_bytes(p));
        for (int v = 0; v < VECTORS; v++) at->start[v] = sum[v] * -(uint32_t)x_zero(p);
        at->outputs = least(p->g.oc - at->first, OUTPUTS);
        for (int done = 0, now; done < pixels; done += now) {
            now = least(FEW, pixels - done);
            run_codes(bits_of_weight(p), now, rounds, at->x + done * rounds * QUADS,
                      (const bytes *)(const void *)packed, at->sum);
            finish_tile(at, (const vu(*)[VECTORS])at->sum, now, (size_t)done, 1);
        }
    }
}

/* --- patches ---------------------------------------------------------------------------------- */

/* Kernels of 3 x 3 and 5 x 5 with stride 1 run on patches (infer/kernels/winograd.h).  At each of the 36
 * points the patches are pixels of a product of 1 x 1, with the tiles above, but both operands are 16 bits
 * wide already: 12 products, 12 sums, 2 + 6 loads and nothing else for 192 multiplications. */
static bool has_patches(const qg__plain_product *p, int n)
{
    return CODES == 2 && p->g.c % CODES == 0 && saves_multiplications(&p->g, n);
}

/* The bytes of transformed weights, and of the products and results of a tile. */
static size_t u_bytes(const patches *t) { return POINTS * (size_t)t->u_point * sizeof(vi); }
static size_t m_bytes(void)             { return POINTS * PIXELS_2 * VECTORS * sizeof(vu); }

static size_t patch_bytes(const qg__geometry *g, int n)
{
    const patches t = patches_of(g, n);
    return t.image_bytes + t.v_bytes + u_bytes(&t) + m_bytes() +
           (size_t)(t.channels < g->c ? t.most : 1) * RESULTS * VECTORS * sizeof(vu);
}

/* u of so many groups of a block, from w on. */
static void fill_u(const qg__geometry *g, const patches *t, size_t groups, const int8_t *w, vi *u)
{
    const ptrdiff_t tap = (ptrdiff_t)groups_of(g->c) * GROUP_BYTES;
    for (int a = 0; a < t->axis; a++)
        for (int b = 0; b < t->axis; b++) {
            const int     rows = least(KERNEL, g->kh - KERNEL * a);
            const int     columns = least(KERNEL, g->kw - KERNEL * b);
            const int8_t *from = w + KERNEL * (a * g->kw + b) * tap;
            vi           *to   = u + (a * t->axis + b) * t->u_kernel;
            for (size_t i = 0; i < VECTORS * groups; i++, from += VL * CODES, to++)
                transform_weights(from, rows, columns, g->kw * tap, tap, to, t->u_point);
        }
}

/* m of a tile.  The last point of an axis leaves a kernel of two taps out. */
INLINE void multiply_points(int pixels, const patches *t, size_t groups, const group *v, const vi *u, vu *m)
{
    for (int point = 0; point < POINTS; point++) {
        const int rows    = point / SIDE == SIDE - 1 ? 1 : t->axis;
        const int columns = point % SIDE == SIDE - 1 ? 1 : t->axis;
        vi        sum[PIXELS_2][VECTORS] = { { { 0 } } };
        for (int a = 0; a < rows; a++)
            for (int b = 0; b < columns; b++) {
                const group *x = v + (a * t->axis + b) * t->v_kernel;
                const vi    *w = u + (a * t->axis + b) * t->u_kernel;
                for (size_t left = groups; left > 0; left--, w += VECTORS) {
                    UNROLL
                    for (int p = 0; p < pixels; p++) {
                        const vi xv = x[p * t->pixel] + (vi){ 0 };
                        UNROLL
                        for (int k = 0; k < VECTORS; k++) {
                            sum[p][k] = add_products(sum[p][k], xv, w[k]);
                            KEEP(sum[p][k]);
                        }
                    }
                    x++;
                    KEEP_POINTER(x);
                }
            }
        EACH(p, pixels, k, VECTORS) m[p * VECTORS + k] = (vu)sum[p][k];
        v += t->v_point, u += t->u_point, m += PIXELS_2 * VECTORS;
    }
}

#define TILES(n)                                                                                             \
    TILE points_of_##n(const patches *t, size_t groups, const group *v, const vi *u, vu *m)                  \
    {                                                                                                        \
        multiply_points(n <= PIXELS_2 ? n : 1, t, groups, v, u, m);                                          \
    }
EACH_LENGTH(TILES)
#undef TILES

/* The results of a patch. */
static void finish_patch(const visit *at, const patches *t, int patch, const vu (*sum)[VECTORS])
{
    const qg__geometry *g   = &at->p->g;
    const int           own = patch % (t->rows * t->columns), image = patch / (t->rows * t->columns);
    const int           row = own / t->columns * STEP, column = own % t->columns * STEP;
    size_t y = ((size_t)image * (size_t)g->oh + (size_t)row) * (size_t)g->ow + (size_t)column;
    for (int i = 0; i < STEP && row + i < g->oh; i++, y += (size_t)g->ow)
        finish_tile(at, sum + STEP * i, least(STEP, g->ow - column), y, 1);
}

/* A block of outputs of n patches. */
static void run_block(const visit *at, const patches *t, int first, int n, const int32_t *v, vi *u, vu *m,
                      vu *sums)
{
    const int channels = at->p->g.c;
    for (int c = 0; c < channels; c += t->channels) {
        const size_t groups = groups_of(least(t->channels, channels - c));
        fill_u(&at->p->g, t, groups, at->w + (ptrdiff_t)groups_of(c) * GROUP_BYTES, u);
        for (int k = 0, now; k < n; k += now) {
            const group *from = v + k * t->pixel + c / CODES;
            now               = even_pixels(n - k, VECTORS);
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        if (n <= PIXELS_2) points_of_##n(t, groups, from, u, m);                                             \
        break;
            switch (now) { EACH_LENGTH(CASE) }
#undef CASE
            for (int p = 0; p < now; p++) {
                vu *own = sums + (t->channels < channels ? (k + p) * RESULTS * VECTORS : 0);
                for (int l = 0; l < VECTORS; l++)
                    transform_outputs(m + p * VECTORS + l, PIXELS_2 * VECTORS, c > 0, own + l, VECTORS);
                if (c + t->channels < channels) continue;
                finish_patch(at, t, first + k + p, (const vu(*)[VECTORS])own);
            }
        }
    }
}

/* --- all outputs ------------------------------------------------------------------------------ */

/* Whether x is groups as it is, or rounds. */
static bool is_groups(const qg__plain_product *p, bool codes)
{
    return codes ? p->g.c % ROUND == 0 : CODES == 4 && p->g.c % CODES == 0;
}

/* Images that share scratch: all, if none of it depends on them, or as many as fill v. */
static int images_at_once(const qg__plain_product *p, int n)
{
    if (has_patches(p, n)) {
        const patches t = patches_of(&p->g, n);
        return least(n, over(t.most, t.rows * t.columns));
    }
    const bool codes = reads_codes(p, n);
    return is_groups(p, codes) && !has_windows(p) && !codes ? n : qg__images_at_once(&p->g, n);
}

/* Scratch: the sums of windows, those of pixels, pixels in groups, rounds or patches, sums of the weights of
 * taps, a block of weights as bytes. */
typedef struct rooms {
    size_t window, sums, groups, taps, block;
} rooms;

static rooms rooms_of(const qg__plain_product *p, int images, bool codes)
{
    const size_t m = (size_t)images, pixels = m * qg__pixels(&p->g);
    const size_t pixel = codes ? rounds_of(&p->g) * ROUND : groups_of(p->g.c) * sizeof(int32_t);
    rooms        r     = { .taps = qg__lines_of(qg__taps(&p->g) * VECTORS * sizeof(vu)) };
    if (has_windows(p) || codes) {
        r.window = qg__lines_of(m * qg__results(&p->g) * sizeof(int32_t));
        r.sums   = qg__lines_of(pixels * sizeof(int32_t));
    }
    if (has_patches(p, images)) r.groups = patch_bytes(&p->g, images);
    else if (!is_groups(p, codes)) r.groups = qg__lines_of(pixels * pixel);
    if (p->wa.bits && !codes) r.block = rounds_of(&p->g) * ROUND * OUTPUTS;
    return r;
}

static size_t bytes_of_rooms(rooms r) { return r.window + r.sums + r.groups + r.taps + r.block; }

static size_t scratch_bytes(const qg__plain_product *p, int n)
{
    const int    images = images_at_once(p, n);
    const int    few    = least(images, QG__TOO_FEW_PATCHES / qg__int8_patches(&p->g));
    const bool   codes  = reads_codes(p, n);
    const size_t all    = bytes_of_rooms(rooms_of(p, images, codes));
    const size_t last   = bytes_of_rooms(rooms_of(p, few, codes));      /* images, after groups of them */
    return all > last ? all : last;
}

static void run_patches(visit *at, int n, const uint8_t *x, const int8_t *packed, int8_t *expanded,
                        uint8_t *scratch)
{
    const qg__plain_product *p = at->p;
    const patches           t = patches_of(&p->g, n);
    int32_t                *v = (int32_t *)(void *)(scratch + t.image_bytes);
    vi                     *u = (vi *)(void *)(scratch + t.image_bytes + t.v_bytes);
    vu                     *m = (vu *)(void *)u + u_bytes(&t) / sizeof *m, *sums = m + m_bytes() / sizeof *m;
    const int               all = n * t.rows * t.columns;
    for (int done = 0, now; done < all; done += now) {
        now = over(all - done, over(all - done, t.most));
        fill_v(&p->g, x_zero(p), &t, done, now, x, scratch, v);
        const int8_t *block = packed;
        for (at->first = 0; at->first < p->g.oc; at->first += OUTPUTS, block += packed_bytes(p)) {
            at->w       = bytes_of(p, block, expanded);
            at->outputs = least(p->g.oc - at->first, OUTPUTS);
            run_block(at, &t, done, now, v, u, m, sums);
        }
    }
}

static void run_images(const qg__plain_product *p, int n, bool codes, const uint8_t *x, const int8_t *packed,
                       void *y, uint8_t *scratch)
{
    const size_t pixels = (size_t)n * qg__pixels(&p->g), c = (size_t)p->g.c;
    const rooms  r      = rooms_of(p, n, codes);
    int32_t     *window = (int32_t *)(void *)scratch, *sums = (int32_t *)(void *)(scratch + r.window);
    int32_t     *groups = (int32_t *)(void *)(scratch + r.window + r.sums);
    vu          *taps     = (vu *)(void *)(scratch + r.window + r.sums + r.groups);
    int8_t      *expanded = (int8_t *)taps + r.taps;
    if (has_windows(p) || codes) {
        for (size_t i = 0; i < pixels; i++) sums[i] = sum_of_pixel(p, x + i * c);
        qg__window_sums(&p->g, n, sums, window);
    }
    visit at = { .p = p, .x = is_groups(p, codes) ? (const group *)(const void *)x : groups,
                 .window = window, .y = y, .w_step = (uint32_t)w_step(p),
                 .w_zero = (uint32_t)w_zero(p), .taps = taps };
    if (codes) {
        const size_t round = rounds_of(&p->g) * ROUND;
        uint8_t     *to    = (uint8_t *)groups;
        for (size_t i = 0; !is_groups(p, codes) && i < pixels; i++, to += round) {
            memcpy(to, x + i * c, c);
            memset(to + c, 0, round - c);
        }
        run_dense(&at, (int)pixels, packed);
        return;
    }
    if (has_patches(p, n)) {
        run_patches(&at, n, x, packed, expanded, (uint8_t *)groups);
        return;
    }
    if (!is_groups(p, codes)) copy_pixels(p, pixels, x, groups);
    if (CODES == 4) at.x_zero = (uint32_t)x_zero(p);
    for (; at.first < p->g.oc; at.first += OUTPUTS, packed += packed_bytes(p)) {
        at.w          = bytes_of(p, packed, expanded);
        at.outputs    = least(p->g.oc - at.first, OUTPUTS);
        at.started.i0 = -1;
        if (at.x_zero) count_taps(&at);
        qg__lines(&p->g, n, run_line, &at);
    }
}

static void run(const qg__plain_product *p, int n, const void *x, const void *packed, void *y, void *scratch)
{
    const int    most  = images_at_once(p, n);
    const size_t image = qg__pixels(&p->g) * (size_t)p->g.c, results = qg__results(&p->g) * (size_t)p->g.oc;
    const size_t each  = p->finish && p->finish->find ? 1 : sizeof(int32_t);
    const bool   codes = reads_codes(p, n);
    for (int done = 0, now; done < n; done += now) {
        now = least(n - done, most);
        run_images(p, now, codes, (const uint8_t *)x + (size_t)done * image, packed,
                   (uint8_t *)y + (size_t)done * results * each, scratch);
    }
}

const qg__plain_kernels QG_PER_ISA(qg__int8_kernels) = { weight_bytes, pack_weights, scratch_bytes, run };
