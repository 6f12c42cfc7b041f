#include "infer/kernels/plain.h"
#include "infer/kernels/lanes.h"

/* Weights: [kh][kw][groups of channels], a group being a mask of GROUP bits for each plane of the alphabet,
 * or GROUP bytes, the numbers of the codes.  Floats are [kh][kw][c].  In scratch, all are [kh][kw][c]. */
enum { GROUP = 16 };
typedef uint16_t mask;

static size_t groups_of(int c) { return ((size_t)c + GROUP - 1) / GROUP; }

static bool are_floats(qg__codes w) { return !w.count || w.count > 256; }

static size_t group_bytes(qg__alphabet a) { return a.bits ? (size_t)a.bits * sizeof(mask) : GROUP; }

static size_t weight_bytes(const qg__plain_product *p)
{
    if (are_floats(p->w)) return qg__row(&p->g) * sizeof(float);
    return qg__taps(&p->g) * groups_of(p->g.c) * group_bytes(p->wa);
}

static void pack_weights(const qg__plain_product *p, int o, size_t first, size_t n, const float *values,
                         void *packed)
{
    const size_t c = (size_t)p->g.c, lane = (size_t)o % GROUP;
    const size_t own = are_floats(p->w) ? 0 : group_bytes(p->wa);
    const qg__alphabet a = p->wa;
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

INLINE void expand_groups(const qg__plain_product *p, bool real, int planes, const uint8_t *group, float *to)
{
    const qg__alphabet a   = p->wa;
    const size_t       own = group_bytes(p->wa);
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

INLINE void expand(const qg__plain_product *p, bool real, const uint8_t *packed, float *to)
{
    switch (p->wa.bits) {
    case 0: expand_groups(p, real, 0, packed, to); break;
    case 1: expand_groups(p, real, 1, packed, to); break;
    case 2: expand_groups(p, real, 2, packed, to); break;
    case 3: expand_groups(p, real, 3, packed, to); break;
    case 4: expand_groups(p, real, 4, packed, to); break;
    }
}

/* Integers have the size of floats. */
static size_t scratch_bytes(const qg__plain_product *p, int n)
{
    (void)n;
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

static void reals(const qg__plain_product *p, int n, const void *x, const void *packed, void *y,
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
    else memcpy(&v, x, (size_t)lanes & (VL - 1));   /* lanes < VL, which gcc does not see */
    return lanes_of_bytes(v);
}

/* Sums wrap around.  narrow: w fits into 16 bits. */
INLINE vu add_tap(bool narrow, vu sum, vi x, vi w)
{
    if (narrow) return (vu)add_narrow((vi)sum, x, w);
    return sum + (vu)x * (vu)w;
}

/* VL channels, or those that are left, of neighbouring outputs of a line: 8 sums + 1 of weights + a weight +
 * an x; 9 loads for 8 products.  sum x w - zero sum w is the same as the sum of (x - zero) w. */
INLINE void codes_of_tile(bool narrow, int pixels, int channels, const visit *at, const qg__line *line,
                          const uint8_t *x, const float *w, float *y)
{
    const qg__geometry *g     = at->g;
    const ptrdiff_t     c     = g->c, step = line->x_step * c;
    vu                  sum[8], all = { 0 };
    UNROLL
    for (int p = 0; p < pixels; p++) sum[p] = (vu){ 0 };
    for (int i = line->i0; i < line->i1; i++)
        for (int j = line->j0; j < line->j1; j++) {
            const vi       wv   = (vi)load(w + (i * g->kw + j) * c, channels);
            const uint8_t *from = x + ((i - line->i0) * g->w + j - line->j0) * c;
            all += (vu)wv;
            UNROLL
            for (int p = 0; p < pixels; p++)
                sum[p] = add_tap(narrow, sum[p], load_bytes(from + p * step, channels), wv);
        }
    all *= (uint32_t)at->x_zero;
    UNROLL
    for (int p = 0; p < pixels; p++) store(y + p * line->y_step * c, (vf)(sum[p] - all), channels);
}

INLINE void codes_of_line(bool narrow, const visit *at, const qg__line *line)
{
    const ptrdiff_t c = at->g->c, x_step = line->x_step * c, y_step = line->y_step * c;
    const uint8_t  *x = (const uint8_t *)at->x + (ptrdiff_t)line->x * c;
    float          *y = (float *)at->y + (ptrdiff_t)line->y * c;
    const float    *w = at->w;
    for (int left = line->outputs, now; left > 0; left -= now, x += now * x_step, y += now * y_step) {
        ptrdiff_t k = 0;
        now         = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
#define CASE(n)                                                                                              \
    case n:                                                                                                  \
        for (; k + VL <= c; k += VL) codes_of_tile(narrow, n, VL, at, line, x + k, w + k, y + k);            \
        break;
        switch (now) { CASE(1) CASE(2) CASE(4) CASE(8) }
#undef CASE
        for (int p = 0; k < c && p < now; p++)
            codes_of_tile(narrow, 1, (int)(c - k), at, line, x + p * x_step + k, w + k, y + p * y_step + k);
    }
}

static void narrow_codes(void *context, const qg__line *line) { codes_of_line(true, context, line); }
static void wide_codes(void *context, const qg__line *line)   { codes_of_line(false, context, line); }

static void codes(const qg__plain_product *p, int n, const void *x, const void *packed, void *y,
                  void *scratch)
{
    visit at = { .g = &p->g, .x = x, .w = scratch, .y = y, .x_zero = -p->x.lowest };
    expand(p, false, packed, scratch);
    qg__lines(&p->g, n, qg__reach(p->w) <= INT16_MAX ? narrow_codes : wide_codes, &at);
}

const qg__plain_kernels QG_PER_ISA(qg__each_code_kernels) = {
    weight_bytes, pack_weights, scratch_bytes, codes
};
const qg__plain_kernels QG_PER_ISA(qg__each_real_kernels) = {
    weight_bytes, pack_weights, scratch_bytes, reals
};
