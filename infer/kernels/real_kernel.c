#include "infer/kernels/real.h"
#include "infer/kernels/lanes.h"

/* The weights of one block of outputs at a time become floats in scratch, so the tiles are those of a
 * product of floats.  Where weights are used only a few times, as in a dense layer of one image, signs and
 * ternary weights become floats in the tile instead: memory would take longer than that.  The sums are the
 * same.
 *
 * Weights: [blocks of outputs][kh][kw][channels], then planes, each an integer of OUTPUTS bits, or OUTPUTS
 * bytes or floats, of which a last block whose outputs fill one vector has half.  The planes are those of
 * the alphabet (infer/kernels/codes.h); a byte is the number of the code. */
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

static size_t weight_of_block(const qg__real_product *p, int vectors)
{
    const size_t planes = (size_t)qg__alphabet_of(p->w).bits;
    return planes ? planes * sizeof(mask) : (size_t)(vectors * VL) * (are_bytes(p->w) ? 1 : sizeof(float));
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
    if (a.bits) {
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

INLINE vf weights_of(bool ternary, const mask *w, int vector)
{
    const vf sign = signs_of_bits(bits_of_vector(w[0], vector));
    return ternary ? keep_bits(sign, bits_of_vector(w[1], vector)) : sign;
}

/* A block as floats [kh][kw][channels][vectors][VL]: n weights of signs or ternary weights, of any
 * alphabet, or bytes. */
INLINE void expand(bool ternary, int vectors, size_t n, const mask *w, float *to)
{
    for (size_t k = 0; k < n; k++, w += ternary ? 2 : 1, to += vectors * VL)
        UNROLL
        for (int v = 0; v < vectors; v++) *(vec *)(to + v * VL) = weights_of(ternary, w, v);
}

/* What is added to the codes of the outputs of vector v: the least code, minus their zero points. */
static vi offset_of(const qg__real_product *p, int first, int v, int least_code)
{
    const int outputs = least(p->g.oc - first - v * VL, VL);
    vi        offset  = (vi){ 0 } + least_code;
    if (p->zero && outputs > 0) offset -= (vi)load((const float *)p->zero + first + v * VL, outputs);
    return offset;
}

static void expand_planes(const qg__real_product *p, int first, int vectors, const mask *w, float *to)
{
    const qg__alphabet a = qg__alphabet_of(p->w);
    vi                 offset[VECTORS];
    for (int v = 0; v < VECTORS; v++) offset[v] = offset_of(p, first, v, qg__offset(a));
    for (size_t k = 0; k < qg__row(&p->g); k++, w += a.bits, to += vectors * VL)
        for (int v = 0; v < vectors; v++) {
            vi sum = offset[v];
            for (int j = 0; j < a.bits; j++) sum += lanes_of_bits(bits_of_vector(w[j], v)) & qg__factor(a, j);
            *(vec *)(to + v * VL) = __builtin_convertvector(sum, vf);
        }
}

static void expand_bytes(const qg__real_product *p, int first, int vectors, const uint8_t *w, float *to)
{
    vi offset[VECTORS];
    for (int v = 0; v < VECTORS; v++) offset[v] = offset_of(p, first, v, p->w.lowest);
    for (size_t k = 0; k < qg__row(&p->g); k++)
        for (int v = 0; v < vectors; v++, w += VL, to += VL)
            *(vec *)to = __builtin_convertvector(lanes_of_bytes(*(const vb *)w) * p->w.step + offset[v], vf);
}

/* Whether the planes are what weights_of reads. */
static bool is_masks(qg__alphabet a) { return a.kind == QG__TERNARY || (a.kind == QG__ODD && a.bits == 1); }

/* first: output of the block. */
static const float *floats_of(const qg__real_product *p, int first, const void *block, float *expanded)
{
    const qg__alphabet a = qg__alphabet_of(p->w);
    const size_t       n = qg__row(&p->g);
    const int          vectors = vectors_at(p, first);
    if (is_masks(a)) {
        const bool ternary = a.kind == QG__TERNARY;
        if (vectors == 1)
            ternary ? expand(true, 1, n, block, expanded) : expand(false, 1, n, block, expanded);
        else ternary ? expand(true, VECTORS, n, block, expanded) : expand(false, VECTORS, n, block, expanded);
    } else if (a.bits) expand_planes(p, first, vectors, block, expanded);
    else if (are_bytes(p->w)) expand_bytes(p, first, vectors, block, expanded);
    else return block;
    return expanded;
}

/* What a tile reads: floats, or masks of signs or of ternary weights. */
typedef enum form { FLOATS, SIGNS, TERNARY } form;

typedef struct tile {
    const float *x;
    const void  *w;
    ptrdiff_t    x_step, x_row, w_row;          /* floats to the next output and row; weights of a row of
                                                   taps */
    size_t       channels;                      /* of the taps of a row that are inside, neighbours in x and
                                                   w */
    int          taps_i, outputs;               /* of the block */
    float       *y;
    ptrdiff_t    y_step;
} tile;

/* Blocks whose outputs fill one vector leave the other out. */
INLINE void run_tile(form weights, int pixels, int vectors, const tile *t)
{
    const int planes = weights == TERNARY ? 2 : 1;
    vf        sum[LONGEST][VECTORS] = { { { 0 } } };
    for (int i = 0; i < t->taps_i; i++) {
        const float *x[RUNS];
        UNROLL
        for (int r = 0; r * RUN < pixels; r++) x[r] = t->x + i * t->x_row + r * RUN * t->x_step;
        const float *w = (const float *)t->w + i * t->w_row * vectors * VL;
        const mask  *m = (const mask *)t->w + i * t->w_row * planes;
        for (size_t k = 0; k < t->channels; k++, w += vectors * VL, m += planes) {
            vec wv[VECTORS];
            UNROLL
            for (int v = 0; v < vectors; v++)
                if (weights == FLOATS) wv[v] = *(const vec *)(w + v * VL);
                else wv[v] = weights_of(weights == TERNARY, m, v);
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
    const void             *w;          /* the block, as floats or as it is packed */
    form                    weights;
    float                  *y;
    int                     first, outputs;     /* of the block */
} visit;

/* So many outputs use each weight: expanding a weight takes about as long as using it twice, and as reading
 * it twice.
 */
enum { FEW = 4 };

static void run_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = &at->p->g;
    const int           vectors = at->outputs <= VL ? 1 : VECTORS;
    const ptrdiff_t     c = g->c, first = (line->i0 * g->kw + line->j0) * c,
                        planes = at->weights == TERNARY ? 2 : 1;
    tile                t  = {
        .x = at->x + line->x * (size_t)g->c, .x_step = line->x_step * g->c, .x_row = (ptrdiff_t)g->w * g->c,
        .w = at->weights == FLOATS ? (const void *)((const float *)at->w + first * vectors * VL)
                                   : (const mask *)at->w + first * planes,
        .w_row = g->kw * c,
        .channels = (size_t)(line->j1 - line->j0) * (size_t)g->c, .taps_i = line->i1 - line->i0,
        .outputs = at->outputs,
        .y = at->y + line->y * (size_t)g->oc + at->first, .y_step = line->y_step * g->oc,
    };
    for (int left = line->outputs, done; left; left -= done) {
        done = even_pixels(left, at->weights == FLOATS ? vectors : VECTORS);
        if (at->weights != FLOATS) done = least(done, FEW);
#define CASE(n)                                                                                        \
    case n:                                                                                            \
        if (at->weights == SIGNS && n <= FEW) run_tile(SIGNS, n, VECTORS, &t);                         \
        else if (at->weights == TERNARY && n <= FEW) run_tile(TERNARY, n, VECTORS, &t);                \
        else if (vectors == 1 && n <= PIXELS_1) run_tile(FLOATS, n, 1, &t);                            \
        else if (n <= PIXELS_2) run_tile(FLOATS, n, VECTORS, &t);                                      \
        break;
        switch (done) { EACH_LENGTH(CASE) }
#undef CASE
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
    const qg__alphabet a = qg__alphabet_of(p->w);
    if ((size_t)n * qg__results(&p->g) <= FEW && is_masks(a))
        at.weights = a.kind == QG__TERNARY ? TERNARY : SIGNS;
    for (; at.first < p->g.oc; at.first += OUTPUTS, block += block_bytes(p, VECTORS)) {
        at.w       = at.weights == FLOATS ? floats_of(p, at.first, block, scratch) : (const void *)block;
        at.outputs = least(p->g.oc - at.first, OUTPUTS);
        qg__lines(&p->g, n, run_line, &at);
    }
}

const qg__real_kernels QG_PER_ISA(qg__real_kernels) = {
    .weight_bytes  = weight_bytes,
    .pack_weights  = pack_weights,
    .scratch_bytes = scratch_bytes,
    .run           = run,
};
