#include "infer/kernels/depthwise.h"
#include "infer/kernels/lanes.h"

/* Weights: [kh][kw][groups of channels], a group being a mask of GROUP bits for each plane of the alphabet,
 * or GROUP bytes, the numbers of the codes.  Floats are [kh][kw][c].  In scratch, all are [kh][kw][c]. */
enum { GROUP = 16 };
typedef uint16_t mask;

static size_t groups_of(int c) { return ((size_t)c + GROUP - 1) / GROUP; }

static bool are_floats(qg__codes w) { return !w.count || w.count > 256; }

static size_t group_bytes(qg__codes w)
{
    const int planes = qg__alphabet_of(w).bits;
    return planes ? (size_t)planes * sizeof(mask) : GROUP;
}

static size_t weight_bytes(const qg__each_product *p)
{
    if (are_floats(p->w)) return qg__row(&p->g) * sizeof(float);
    return qg__taps(&p->g) * groups_of(p->g.c) * group_bytes(p->w);
}

static void pack_weights(const qg__each_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const size_t c = (size_t)p->g.c, lane = (size_t)o % GROUP, own = are_floats(p->w) ? 0 : group_bytes(p->w);
    const qg__alphabet a = qg__alphabet_of(p->w);
    if (o == 0 && first == 0) memset(packed, 0, weight_bytes(p));
    for (size_t i = 0; i < n; i++) {
        const size_t tap   = first + i;
        uint8_t     *group = (uint8_t *)packed + (tap * groups_of(p->g.c) + (size_t)o / GROUP) * own;
        mask        *plane = (mask *)(void *)group;
        if (!own) ((float *)packed)[tap * c + (size_t)o] = values[i];
        else if (!a.bits) group[lane] = (uint8_t)(((int)values[i] - p->w.lowest) / p->w.step);
        else
            for (int j = 0; j < a.bits; j++) plane[j] |= (mask)(qg__bit(a, (int)values[i], j) << lane);
    }
}

/* --- numbers from packed weights ---------------------------------------------------------------- */

/* VL weights of a group from channel k on: from planes, whose number is a constant, or with 0 planes from
 * bytes. */
INLINE vi weights_of(qg__alphabet a, qg__codes w, int planes, const uint8_t *group, int k)
{
    if (!planes) return lanes_of_bytes(*(const vb *)(group + k)) * w.step + w.lowest;
    const mask *plane = (const mask *)(const void *)group;
    vi          sum   = (vi){ 0 } + qg__offset(a);
    UNROLL
    for (int j = 0; j < planes; j++) sum += lanes_of_bits((unsigned)plane[j] >> k) & qg__factor(a, j);
    return sum;
}

INLINE void expand_groups(const qg__each_product *p, bool real, int planes, const uint8_t *group, float *to)
{
    const qg__alphabet a   = qg__alphabet_of(p->w);
    const size_t       own = group_bytes(p->w);
    for (size_t tap = 0; tap < qg__taps(&p->g); tap++)
        for (int first = 0; first < p->g.c; first += GROUP, group += own)
            for (int k = 0; k < GROUP && first + k < p->g.c; k += VL) {
                const int lanes = least(p->g.c - first - k, VL);
                vi        w     = weights_of(a, p->w, planes, group, k);
                if (p->zero) w -= (vi)load((const float *)p->zero + first + k, lanes);
                store(to, real ? __builtin_convertvector(w, vf) : (vf)w, lanes);
                to += lanes;
            }
}

INLINE void expand(const qg__each_product *p, bool real, const uint8_t *packed, float *to)
{
    switch (qg__alphabet_of(p->w).bits) {
    case 0: expand_groups(p, real, 0, packed, to); break;
    case 1: expand_groups(p, real, 1, packed, to); break;
    case 2: expand_groups(p, real, 2, packed, to); break;
    case 3: expand_groups(p, real, 3, packed, to); break;
    case 4: expand_groups(p, real, 4, packed, to); break;
    }
}

/* Integers have the size of floats. */
static size_t scratch_bytes(const qg__each_product *p)
{
    return are_floats(p->w) ? 0 : qg__row(&p->g) * sizeof(float);
}

/* --- products ------------------------------------------------------------------------------------- */

typedef struct visit {
    const qg__geometry *g;
    const void         *x, *w;
    void               *y;
    int                 x_zero;
} visit;

static void reals_of_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = at->g;
    const ptrdiff_t     c  = g->c;
    for (int p = 0; p < line->outputs; p++) {
        const float *pixel = (const float *)at->x + ((ptrdiff_t)line->x + p * line->x_step) * c;
        float       *y     = (float *)at->y + ((ptrdiff_t)line->y + p * line->y_step) * c;
        for (int k = 0; k < g->c; k += VL) {
            const int lanes = least(g->c - k, VL);
            vf        sum   = { 0 };
            for (int i = line->i0; i < line->i1; i++)
                for (int j = line->j0; j < line->j1; j++) {
                    const float *x = pixel + ((i - line->i0) * g->w + j - line->j0) * c + k;
                    const float *w = (const float *)at->w + (i * g->kw + j) * c + k;
                    sum = fma_of(load(x, lanes), load(w, lanes), sum);
                }
            store(y + k, sum, lanes);
        }
    }
}

static void reals(const qg__each_product *p, int n, const float *x, const void *packed, float *y,
                  void *scratch)
{
    visit at = { .g = &p->g, .x = x, .w = packed, .y = y };
    if (!are_floats(p->w)) {
        expand(p, true, packed, scratch);
        at.w = scratch;
    }
    qg__lines(&p->g, n, reals_of_line, &at);
}

/* x of VL channels, or of those that are left. */
INLINE vi load_bytes(const uint8_t *x, int lanes)
{
    vb v = { 0 };
    if (lanes == VL) v = *(const vb *)x;
    else memcpy(&v, x, (size_t)lanes);
    return lanes_of_bytes(v);
}

static void codes_of_line(void *context, const qg__line *line)
{
    const visit        *at = context;
    const qg__geometry *g  = at->g;
    const ptrdiff_t     c  = g->c;
    for (int p = 0; p < line->outputs; p++) {
        const uint8_t *pixel = (const uint8_t *)at->x + ((ptrdiff_t)line->x + p * line->x_step) * c;
        float         *y     = (float *)at->y + ((ptrdiff_t)line->y + p * line->y_step) * c;
        for (int k = 0; k < g->c; k += VL) {
            const int lanes = least(g->c - k, VL);
            vi        sum   = { 0 };
            for (int i = line->i0; i < line->i1; i++)
                for (int j = line->j0; j < line->j1; j++) {
                    const uint8_t *x = pixel + ((i - line->i0) * g->w + j - line->j0) * c + k;
                    const float   *w = (const float *)at->w + (i * g->kw + j) * c + k;
                    sum += (load_bytes(x, lanes) - at->x_zero) * (vi)load(w, lanes);
                }
            store(y + k, (vf)sum, lanes);
        }
    }
}

static void codes(const qg__each_product *p, int n, const uint8_t *x, const void *packed, int32_t *acc,
                  void *scratch)
{
    visit at = { .g = &p->g, .x = x, .w = scratch, .y = acc, .x_zero = p->x_zero };
    expand(p, false, packed, scratch);
    qg__lines(&p->g, n, codes_of_line, &at);
}

const qg__each_kernels QG_PER_ISA(qg__each_kernels) = {
    .weight_bytes  = weight_bytes,
    .pack_weights  = pack_weights,
    .scratch_bytes = scratch_bytes,
    .reals         = reals,
    .codes         = codes,
};
