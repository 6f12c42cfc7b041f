#include "infer/kernels/plain.h"
#include "infer/kernels/lanes.h"

/* The weights of one block of outputs at a time become floats in scratch, so the tiles are those of a
 * product of floats.  Where weights are used only a few times, as in a dense layer of one image, they become
 * floats in registers instead: memory would take longer than that.  The sums are the same.
 *
 * Weights: [blocks of outputs][kh][kw][channels][2 vectors][VL], floats or codes of 8 bits.  Codes of an
 * alphabet have 1, 2 or 4 bits, and neighbouring channels of all taps share a word of 32 bits, the first its
 * lowest: [blocks of outputs][words][2 vectors][VL].  A last block whose outputs fill one vector has half.
 * Codes are numbered from the lowest of the alphabet, or from the lowest that there is. */
enum { VECTORS = 2, OUTPUTS = VECTORS * VL, LONGEST = PIXELS_1 };
_Static_assert(QG__PACKED % OUTPUTS == 0, "groups of outputs");

static bool are_bytes(qg__codes w) { return w.count && w.count <= 256; }

/* Of the block that begins with this output. */
static int vectors_at(const qg__plain_product *p, int first) { return p->g.oc - first <= VL ? 1 : VECTORS; }

/* What is packed: floats, or codes of so many bits. */
typedef enum form { FLOATS = 0, CODES_1 = 1, CODES_2 = 2, CODES_4 = 4, CODES_8 = 8 } form;

static form form_of(const qg__plain_product *p)
{
    return p->wa.bits ? (form)qg__field_bits(p->wa) : are_bytes(p->w) ? CODES_8 : FLOATS;
}

/* Channels that share a word, and their bytes of all outputs of a block. */
INLINE int channels_of(form weights)
{
    return weights == FLOATS || weights == CODES_8 ? 1 : 32 / (int)weights;
}
INLINE int step_of(form weights, int vectors) { return vectors * VL * (weights == CODES_8 ? 1 : 4); }

static size_t block_bytes(const qg__plain_product *p, int vectors)
{
    const size_t channels = (size_t)channels_of(form_of(p));
    return (qg__row(&p->g) + channels - 1) / channels * (size_t)step_of(form_of(p), vectors);
}

static size_t weight_bytes(const qg__plain_product *p)
{
    const int last = (p->g.oc - 1) / OUTPUTS;
    return (size_t)last * block_bytes(p, VECTORS) + block_bytes(p, vectors_at(p, last * OUTPUTS));
}

/* A number is lowest + step * code. */
static qg__codes numbers_of(const qg__plain_product *p) { return p->wa.bits ? qg__codes_of(p->wa) : p->w; }

/* Numbers are within 2^24 (qg__codes_valid), so difference and quotient are off by 2^-24 of themselves at
 * most, and the quotient is an integer below 256.  A division of integers would take several times as long,
 * and evaluation packs the weights for each batch. */
static unsigned code_of(qg__codes numbers, float value)
{
    return (unsigned)((value - (float)numbers.lowest) / (float)numbers.step + 0.5f);
}

static void pack_weights(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const qg__codes numbers = numbers_of(p);
    const form      weights = form_of(p);
    const int       lane    = o % OUTPUTS, vectors = vectors_at(p, o - lane);
    const size_t    lanes   = (size_t)(vectors * VL), channels = (size_t)channels_of(weights);
    uint8_t        *block   = (uint8_t *)packed + (size_t)(o / OUTPUTS) * block_bytes(p, VECTORS);
    float          *reals   = (float *)(void *)block + lane;
    uint32_t       *word    = (uint32_t *)(void *)block + lane;
    if (lane == 0 && first == 0) memset(block, 0, block_bytes(p, vectors));
    size_t at = first / channels, k = first % channels;
    for (size_t i = 0; i < n; i++) {
        if (weights == FLOATS) reals[at * lanes] = values[i];
        else if (weights == CODES_8) block[at * lanes + (size_t)lane] = (uint8_t)code_of(numbers, values[i]);
        else word[at * lanes] |= code_of(numbers, values[i]) << k * weights;
        if (++k == channels) k = 0, at++;
    }
}

typedef struct decoder {
    vf  table;                      /* of the numbers of an alphabet, in turn; used without zero points */
    int step;
    vi  offset[VECTORS];            /* the lowest number minus the zero points of the outputs */
} decoder;

/* first: output of a block. */
static decoder decoder_of(const qg__plain_product *p, int first)
{
    const qg__codes numbers = numbers_of(p);
    const int       mask    = (1 << form_of(p)) - 1;
    decoder         d       = { .step = numbers.step };
    for (int l = 0; l < VL; l++) d.table[l] = (float)(numbers.lowest + numbers.step * (l & mask));
    for (int v = 0; v < VECTORS; v++) {
        const int outputs = least(p->g.oc - first - v * VL, VL);
        d.offset[v]       = (vi){ 0 } + numbers.lowest;
        if (p->zero && outputs > 0) d.offset[v] -= (vi)load((const float *)p->zero + first + v * VL, outputs);
    }
    return d;
}

/* Vector v of the weights of a channel, or of number k of those that share a word.  A code is converted where
 * it is, unless its last bit would be a sign. */
INLINE vf weights_of(form weights, const decoder *d, bool zeros, const uint8_t *w, int v, int k)
{
    const int bits   = (int)weights;
    const vi  offset = d->offset[zeros ? v : 0];
    if (weights == FLOATS) return ((const vec *)(const void *)w)[v];
    if (weights == CODES_8) {
        vi number = lanes_of_bytes(((const vb *)(const void *)w)[v]);
        if (d->step != 1) number *= d->step;
        return __builtin_convertvector(number + offset, vf);
    }
    const vu word = ((const vu *)(const void *)w)[v];
    if (!zeros && bits <= QG_TABLE_BITS) return one_of_few(d->table, (vi)(word >> k * bits));
    const bool  highest = k == 32 / bits - 1;
    const vi    code    = highest ? (vi)(word >> k * bits) : (vi)(word & ((1u << bits) - 1) << k * bits);
    const float step    = (float)d->step / (float)(highest ? 1 : 1 << k * bits);
    return exact_sum(__builtin_convertvector(code, vf), splat(step), __builtin_convertvector(offset, vf));
}

/* Distances of shifts are constants where a loop over the codes of a word is short. */
#if QG_TABLE_BITS
#define UNROLL_CODES UNROLL
#else
#define UNROLL_CODES
#endif

/* n weights, and those that share their last word, as floats [kh][kw][channels][vectors][VL]. */
INLINE void expand_as(form weights, bool zeros, int vectors, size_t n, const decoder *d, const uint8_t *w,
                      float *to)
{
    const int channels = channels_of(weights);
    for (size_t i = 0; i < n; i += (size_t)channels, w += step_of(weights, vectors))
        UNROLL_CODES
        for (int k = 0; k < channels; k++, to += vectors * VL)
            UNROLL
            for (int v = 0; v < vectors; v++)
                *(vec *)(to + v * VL) = weights_of(weights, d, zeros, w, v, k);
}

static void expand(form weights, bool zeros, int vectors, size_t n, const decoder *d, const uint8_t *w,
                   float *to)
{
#define CASE(f, z)                                                              \
    if (weights == f && zeros == z) {                                           \
        if (vectors == 1) expand_as(f, z, 1, n, d, w, to);                      \
        else expand_as(f, z, VECTORS, n, d, w, to);                             \
    }
    CASE(CODES_1, true) CASE(CODES_2, true) CASE(CODES_4, true) CASE(CODES_8, true)
    CASE(CODES_1, false) CASE(CODES_2, false) CASE(CODES_4, false) CASE(CODES_8, false)
#undef CASE
}

/* --- dense products of a few pixels ----------------------------------------------------------- */

/* Expanding a weight takes about as long as using it twice, and as reading it twice.  A multiply-add takes
 * four cycles, so several blocks run together, unless it is many instructions. */
#if defined(__FMA__) || defined(__aarch64__)
enum { FEW = 4, BLOCKS = 4 };
#else
enum { FEW = 4, BLOCKS = 1 };
#endif

typedef struct dense {
    const uint8_t *w;               /* of the first block */
    size_t         block;           /* bytes */
    int            channels, outputs;
    decoder        d[BLOCKS];
} dense;

/* x times the weights of a channel, or of number k of those at w. */
INLINE void add_channel(form weights, bool zeros, int blocks, int vectors, const dense *t, const uint8_t *w,
                        int k, float x, vf (*sum)[VECTORS])
{
    UNROLL
    for (int b = 0; b < blocks; b++, w += t->block)
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const vf wv = weights_of(weights, &t->d[zeros ? b : 0], zeros, w, v, k);
            sum[b][v]   = fma_of(splat(x), wv, sum[b][v]);
        }
}

/* A pixel and so many blocks. */
INLINE void run_pixel(form weights, bool zeros, int blocks, int vectors, const dense *t, const float *x,
                      float *y)
{
    const int      channels = channels_of(weights);
    const uint8_t *w        = t->w;
    int            left     = t->channels;
    vf             sum[BLOCKS][VECTORS] = { { { 0 } } };
    for (; left >= channels; left -= channels, x += channels, w += step_of(weights, vectors))
        UNROLL_CODES
        for (int k = 0; k < channels; k++) add_channel(weights, zeros, blocks, vectors, t, w, k, x[k], sum);
    for (int k = 0; k < left; k++) add_channel(weights, zeros, blocks, vectors, t, w, k, x[k], sum);
    for (int l = 0; l < t->outputs; l += VL)
        store(y + l, sum[l / OUTPUTS][l % OUTPUTS / VL], least(t->outputs - l, VL));
}

static void run_blocks(form weights, bool zeros, int blocks, int vectors, const dense *t, const float *x,
                       float *y)
{
#define CASE(f, z)                                                              \
    if (weights == f && zeros == z) {                                           \
        if (vectors == 1) run_pixel(f, z, 1, 1, t, x, y);                       \
        else if (blocks == 1) run_pixel(f, z, 1, VECTORS, t, x, y);             \
        else run_pixel(f, z, BLOCKS, VECTORS, t, x, y);                         \
    }
    CASE(FLOATS, false)
    CASE(CODES_1, false) CASE(CODES_2, false) CASE(CODES_4, false) CASE(CODES_8, false)
    CASE(CODES_1, true) CASE(CODES_2, true) CASE(CODES_4, true) CASE(CODES_8, true)
#undef CASE
}

static void run_dense(const qg__plain_product *p, int n, const float *x, const uint8_t *packed, float *y)
{
    const int pixels = n * (int)qg__pixels(&p->g), oc = p->g.oc;
    dense     t      = { .w = packed, .block = block_bytes(p, VECTORS), .channels = p->g.c };
    for (int first = 0, blocks; first < oc; first += blocks * OUTPUTS, t.w += (size_t)blocks * t.block) {
        blocks    = oc - first > BLOCKS * OUTPUTS - VL ? BLOCKS : 1;
        t.outputs = least(oc - first, blocks * OUTPUTS);
        for (int b = 0; b < blocks; b++) t.d[b] = decoder_of(p, first + b * OUTPUTS);
        for (int i = 0; i < pixels; i++)
            run_blocks(form_of(p), p->zero != NULL, blocks, t.outputs <= VL ? 1 : VECTORS, &t,
                       x + (size_t)i * (size_t)p->g.c, y + (size_t)i * (size_t)oc + first);
    }
}

/* --- other products --------------------------------------------------------------------------- */

typedef struct tile {
    const float *x, *w;
    ptrdiff_t    x_step, x_row, w_row;          /* floats to the next output and row, and of a row of taps */
    size_t       channels;                      /* of the taps of a row that are inside, neighbours in x and
                                                   w */
    int          taps_i, last;                  /* last: outputs of the last vector */
} tile;

/* Blocks whose outputs fill one vector leave the other out. */
INLINE void run_tile(int pixels, int vectors, const tile *t, float *to, ptrdiff_t step)
{
    vf sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++) {
        const float *x[RUNS];
        UNROLL
        for (int r = 0; r * RUN < pixels; r++) x[r] = t->x + i * t->x_row + r * RUN * t->x_step;
        const float *w = t->w + i * t->w_row;
        for (size_t k = 0; k < t->channels; k++, w += vectors * VL) {
            vec wv[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = *(const vec *)(w + v * VL);
            EACH(p, pixels, v, vectors)
                sum[p][v] = fma_of(splat(x[p / RUN][p % RUN * t->x_step]), wv[v], sum[p][v]);
            UNROLL
            for (int r = 0; r * RUN < pixels; r++) {
                x[r]++;
                KEEP_POINTER(x[r]);
            }
        }
    }
    EACH(p, pixels, v, vectors)
        store(to + p * step + v * VL, sum[p][v], v + 1 < vectors ? VL : t->last);
}

typedef struct visit {
    const qg__plain_product *p;
    const float             *x, *w;     /* w: the block */
    float                   *y;
    int                      first, outputs;    /* of the block */
} visit;

static void run_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = &at->p->g;
    const int           vectors = at->outputs <= VL ? 1 : VECTORS;
    const ptrdiff_t     tap     = (ptrdiff_t)g->c * vectors * VL;
    tile                t  = {
        .x = at->x + line->x * (size_t)g->c, .x_step = line->x_step * g->c, .x_row = (ptrdiff_t)g->w * g->c,
        .w = at->w + (line->i0 * g->kw + line->j0) * tap, .w_row = g->kw * tap,
        .channels = (size_t)(line->j1 - line->j0) * (size_t)g->c, .taps_i = line->i1 - line->i0,
        .last = at->outputs - (vectors - 1) * VL,
    };
    float          *y      = at->y + line->y * (size_t)g->oc + at->first;
    const ptrdiff_t y_step = line->y_step * g->oc;
    for (int left = line->outputs, done; left; left -= done) {
        done = even_pixels(left, vectors);
#define CASE(n)                                                         \
    case n:                                                             \
        if (vectors == 1 && n <= PIXELS_1) run_tile(n, 1, &t, y, y_step);          \
        else if (n <= PIXELS_2) run_tile(n, VECTORS, &t, y, y_step);               \
        break;
        switch (done) { EACH_LENGTH(CASE) }
#undef CASE
        t.x += done * t.x_step;
        y += done * y_step;
    }
}

/* A block as floats, and channels that share its last word. */
static size_t scratch_bytes(const qg__plain_product *p, int n)
{
    (void)n;
    const size_t rest = (size_t)channels_of(form_of(p)) - 1;
    return are_bytes(p->w) ? (qg__row(&p->g) + rest) * OUTPUTS * sizeof(float) : 0;
}

static void run(const qg__plain_product *p, int n, const void *x, const void *packed, void *y, void *scratch)
{
    const uint8_t *block = packed;
    visit          at    = { .p = p, .x = x, .y = y };
    const form     weights = form_of(p);
    if (qg__is_pointwise(&p->g) && (size_t)n * qg__pixels(&p->g) <= FEW) {
        run_dense(p, n, x, packed, y);
        return;
    }
    for (; at.first < p->g.oc; at.first += OUTPUTS, block += block_bytes(p, VECTORS)) {
        at.outputs = least(p->g.oc - at.first, OUTPUTS);
        at.w       = weights == FLOATS ? (const float *)(const void *)block : scratch;
        if (weights != FLOATS) {
            const decoder d = decoder_of(p, at.first);
            expand(weights, p->zero != NULL, vectors_at(p, at.first), qg__row(&p->g), &d, block, scratch);
        }
        qg__lines(&p->g, n, run_line, &at);
    }
}

const qg__plain_kernels QG_PER_ISA(qg__real_kernels) = { weight_bytes, pack_weights, scratch_bytes, run };
