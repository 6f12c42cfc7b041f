#include "infer/kernels/real.h"
#include "infer/kernels/lanes.h"

/* The weights of one block of outputs at a time become floats in scratch, so the tiles are those of a
 * product of floats.  Where weights are used only a few times, as in a dense layer of one image, they become
 * floats in the tile instead: memory would take longer than that.  The sums are the same.
 *
 * Weights: [blocks of outputs][kh][kw][channels], then one or two planes, each an integer of OUTPUTS bits;
 * or OUTPUTS codes of 4 bits, of the first vector in the low halves of bytes; or OUTPUTS bytes or floats, of
 * which a last block whose outputs fill one vector has half.  The planes are those of the alphabet
 * (infer/kernels/codes.h), and codes are numbered from its lowest, or from the lowest that there is. */
enum { VECTORS = 2, OUTPUTS = VECTORS * VL, LONGEST = PIXELS_1 };

#if VL == 16
typedef uint32_t mask;
#elif VL == 8
typedef uint16_t mask;
#else
typedef uint8_t mask;
#endif

static bool are_bytes(qg__codes w) { return w.count && w.count <= 256; }

/* Of the block that begins with this output. */
static int vectors_at(const qg__real_product *p, int first) { return p->g.oc - first <= VL ? 1 : VECTORS; }

/* What is packed, and what a tile reads: floats, masks of signs or of ternary weights, the one or two planes
 * of another alphabet, or codes. */
typedef enum form { FLOATS, SIGNS, TERNARY, PLANES, NIBBLES, BYTES_OF_CODES } form;

static form form_of(qg__codes w)
{
    const qg__alphabet a = qg__alphabet_of(w);
    if (a.kind == QG__TERNARY) return TERNARY;
    if (a.kind == QG__ODD && a.bits == 1) return SIGNS;
    if (a.bits) return a.bits > 2 ? NIBBLES : PLANES;
    return are_bytes(w) ? BYTES_OF_CODES : FLOATS;
}

/* Of a channel. */
static size_t weight_of_block(const qg__real_product *p, int vectors)
{
    switch (form_of(p->w)) {
    case FLOATS: return (size_t)(vectors * VL) * sizeof(float);
    case NIBBLES: return VL;
    case BYTES_OF_CODES: return (size_t)(vectors * VL);
    default: return (size_t)qg__alphabet_of(p->w).bits * sizeof(mask);
    }
}

static size_t block_bytes(const qg__real_product *p, int vectors)
{
    return qg__row(&p->g) * weight_of_block(p, vectors);
}

static size_t weight_bytes(const qg__real_product *p)
{
    const int last = (p->g.oc - 1) / OUTPUTS;
    return (size_t)last * block_bytes(p, VECTORS) + block_bytes(p, vectors_at(p, last * OUTPUTS));
}

static void pack_weights(const qg__real_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const qg__alphabet a     = qg__alphabet_of(p->w);
    const int          lane  = o % OUTPUTS, vectors = vectors_at(p, o - lane);
    const size_t       lanes = (size_t)(vectors * VL);
    uint8_t           *block = (uint8_t *)packed + (size_t)(o / OUTPUTS) * block_bytes(p, VECTORS);
    if (lane == 0 && first == 0) memset(block, 0, block_bytes(p, vectors));
    block += first * weight_of_block(p, vectors);
    if (form_of(p->w) == NIBBLES) {
        for (size_t k = 0; k < n; k++)
            block[k * VL + (size_t)(lane % VL)] |=
                (uint8_t)(((int)values[k] - qg__lowest(a)) / qg__step(a) << lane / VL * 4);
    } else if (a.bits) {
        mask *to = (mask *)(void *)block;
        for (size_t k = 0; k < n; k++)
            for (int j = 0; j < a.bits; j++) *to++ |= (mask)(qg__bit(a, (int)values[k], j) << lane);
    } else if (are_bytes(p->w)) {
        for (size_t k = 0; k < n; k++)
            block[k * lanes + (size_t)lane] = (uint8_t)(((int)values[k] - p->w.lowest) / p->w.step);
    } else {
        float *to = (float *)(void *)block + lane;
        for (size_t k = 0; k < n; k++) to[k * lanes] = values[k];
    }
}

INLINE unsigned bits_of_vector(mask bits, int vector) { return (unsigned)bits >> vector * VL; }

/* A number is offset + step * code, or offset + sum over j of factor(j) * plane j. */
typedef struct decoder {
    int       planes, factor[2], step;
    vi        offset[VECTORS];      /* minus the zero points of the outputs */
    ptrdiff_t channel;              /* bytes of its weights */
} decoder;

/* first: output of a block. */
static decoder decoder_of(const qg__real_product *p, int first)
{
    const qg__alphabet a = qg__alphabet_of(p->w);
    const form         f = form_of(p->w);
    decoder            d = { .planes = a.bits, .factor = { qg__factor(a, 0), qg__factor(a, 1) },
                             .step = f == NIBBLES ? qg__step(a) : p->w.step,
                             .channel = (ptrdiff_t)weight_of_block(p, vectors_at(p, first)) };
    for (int v = 0; v < VECTORS; v++) {
        const int outputs = least(p->g.oc - first - v * VL, VL);
        d.offset[v] = (vi){ 0 } + (f == PLANES ? qg__offset(a) : f == NIBBLES ? qg__lowest(a) : p->w.lowest);
        if (p->zero && outputs > 0) d.offset[v] -= (vi)load((const float *)p->zero + first + v * VL, outputs);
    }
    return d;
}

/* Vector v of the weights of a channel. */
INLINE vf weights_of(form weights, const decoder *d, const uint8_t *w, int v)
{
    const mask *m = (const mask *)(const void *)w;
    if (weights == FLOATS) return *(const vec *)((const float *)(const void *)w + v * VL);
    if (weights == SIGNS || weights == TERNARY) {
        const vf sign = signs_of_bits(bits_of_vector(m[0], v));
        return weights == TERNARY ? keep_bits(sign, bits_of_vector(m[1], v)) : sign;
    }
    vi number = { 0 };
    if (weights == PLANES)
        for (int j = 0; j < d->planes; j++) number += lanes_of_bits(bits_of_vector(m[j], v)) & d->factor[j];
    else number = lanes_of_bytes(*(const vb *)(w + (weights == NIBBLES ? 0 : v * VL)));
    if (weights == NIBBLES && v) number = number >> 4 << (d->step - 1);
    if (weights == NIBBLES && !v) number = (number & 15) << (d->step - 1);
    if (weights == BYTES_OF_CODES && d->step != 1) number *= d->step;
    return __builtin_convertvector(number + d->offset[v], vf);
}

/* Bytes of the weights of a channel. */
INLINE ptrdiff_t step_of(form weights, const decoder *d, int vectors)
{
    return weights == FLOATS ? vectors * VL * (ptrdiff_t)sizeof(float) : d->channel;
}

/* n weights as floats [kh][kw][channels][vectors][VL]. */
INLINE void expand_as(form weights, int vectors, size_t n, const decoder *d, const uint8_t *w, float *to)
{
    for (size_t k = 0; k < n; k++, w += step_of(weights, d, vectors), to += vectors * VL)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vec *)(to + v * VL) = weights_of(weights, d, w, v);
}

INLINE void expand(int vectors, size_t n, form weights, const decoder *d, const uint8_t *w, float *to)
{
#define CASE(f) if (weights == f) expand_as(f, vectors, n, d, w, to);
    CASE(SIGNS) CASE(TERNARY) CASE(PLANES) CASE(NIBBLES) CASE(BYTES_OF_CODES)
#undef CASE
}

typedef struct tile {
    const float   *x;
    const uint8_t *w;
    const decoder *d;
    ptrdiff_t      x_step, x_row;               /* floats to the next output and row */
    ptrdiff_t      w_row;                       /* bytes of a row of taps */
    size_t       channels;                      /* of the taps of a row that are inside, neighbours in x and
                                                   w */
    int          taps_i, outputs;               /* of the block */
    float       *y;
    ptrdiff_t    y_step;
} tile;

/* Blocks whose outputs fill one vector leave the other out. */
INLINE void run_tile(form weights, int pixels, int vectors, const tile *t)
{
    vf sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++) {
        const float *x[RUNS];
        UNROLL
        for (int r = 0; r * RUN < pixels; r++) x[r] = t->x + i * t->x_row + r * RUN * t->x_step;
        const uint8_t *w = t->w + i * t->w_row;
        for (size_t k = 0; k < t->channels; k++, w += step_of(weights, t->d, vectors)) {
            vec wv[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++) wv[v] = weights_of(weights, t->d, w, v);
            UNROLL
            for (int p = 0; p < pixels; p++)
                UNROLL
                for (int v = 0; v < vectors; v++)
                    sum[p][v] = fma_of(splat(x[p / RUN][p % RUN * t->x_step]), wv[v], sum[p][v]);
            UNROLL
            for (int r = 0; r * RUN < pixels; r++) {
                x[r]++;
                KEEP_POINTER(x[r]);
            }
        }
    }
    UNROLL
    for (int p = 0; p < pixels; p++)
        UNROLL
        for (int v = 0; v < vectors; v++)
            if (t->outputs > v * VL)
                store(t->y + p * t->y_step + v * VL, sum[p][v], least(t->outputs - v * VL, VL));
}

typedef struct visit {
    const qg__real_product *p;
    const float            *x;
    const uint8_t          *w;          /* the block, as floats or as it is packed */
    form                    weights;
    decoder                 d;
    float                  *y;
    int                     first, outputs;     /* of the block */
} visit;

/* So many outputs use each weight: expanding a weight takes about as long as using it twice, and as reading
 * it twice.
 */
enum { FEW = 4 };

static void run_few(form weights, int vectors, int pixels, const tile *t)
{
#define CASE(f, v, n) if (weights == f && vectors == v && pixels == n) run_tile(f, n, v, t);
#define CASES(f, v) CASE(f, v, 1) CASE(f, v, 2) CASE(f, v, 3) CASE(f, v, 4)
    if (weights != BYTES_OF_CODES) vectors = VECTORS;
    CASES(SIGNS, 2) CASES(TERNARY, 2) CASES(PLANES, 2) CASES(NIBBLES, 2)
    CASES(BYTES_OF_CODES, 1) CASES(BYTES_OF_CODES, 2)
#undef CASES
#undef CASE
}

static void run_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = &at->p->g;
    const int           vectors = at->outputs <= VL ? 1 : VECTORS;
    const ptrdiff_t     step    = (ptrdiff_t)g->c * step_of(at->weights, &at->d, vectors);     /* of a tap */
    tile                t  = {
        .x = at->x + line->x * (size_t)g->c, .x_step = line->x_step * g->c, .x_row = (ptrdiff_t)g->w * g->c,
        .w = at->w + (line->i0 * g->kw + line->j0) * step, .w_row = g->kw * step, .d = &at->d,
        .channels = (size_t)(line->j1 - line->j0) * (size_t)g->c, .taps_i = line->i1 - line->i0,
        .outputs = at->outputs,
        .y = at->y + line->y * (size_t)g->oc + at->first, .y_step = line->y_step * g->oc,
    };
    for (int left = line->outputs, done; left; left -= done) {
        done = even_pixels(left, at->weights == FLOATS ? vectors : VECTORS);
        if (at->weights != FLOATS) {
            done = least(done, FEW);
            run_few(at->weights, vectors, done, &t);
        } else {
#define CASE(n)                                                                 \
    case n:                                                                     \
        if (vectors == 1 && n <= PIXELS_1) run_tile(FLOATS, n, 1, &t);          \
        else if (n <= PIXELS_2) run_tile(FLOATS, n, VECTORS, &t);               \
        break;
            switch (done) { EACH_LENGTH(CASE) }
#undef CASE
        }
        t.x += done * t.x_step;
        t.y += done * t.y_step;
    }
}

static size_t scratch_bytes(const qg__real_product *p)
{
    return are_bytes(p->w) ? qg__row(&p->g) * OUTPUTS * sizeof(float) : 0;
}

static void run(const qg__real_product *p, int n, const float *x, const void *packed, float *y, void *scratch)
{
    const uint8_t *block = packed;
    visit          at    = { .p = p, .x = x, .y = y };
    const form     stored = form_of(p->w);
    if ((size_t)n * qg__results(&p->g) <= FEW) at.weights = stored;
    for (; at.first < p->g.oc; at.first += OUTPUTS, block += block_bytes(p, VECTORS)) {
        at.w       = scratch;
        at.d       = decoder_of(p, at.first);
        at.outputs = least(p->g.oc - at.first, OUTPUTS);
        if (at.weights == stored) at.w = block;
        else if (at.outputs <= VL) expand(1, qg__row(&p->g), stored, &at.d, block, scratch);
        else expand(VECTORS, qg__row(&p->g), stored, &at.d, block, scratch);
        qg__lines(&p->g, n, run_line, &at);
    }
}

const qg__real_kernels QG_PER_ISA(qg__real_kernels) = {
    .weight_bytes  = weight_bytes,
    .pack_weights  = pack_weights,
    .scratch_bytes = scratch_bytes,
    .run           = run,
};
