/* Tables by which a step finds codes.  All are made with the very functions that run uses: nothing is
 * solved for acc.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "infer/net.h"

enum { CHUNK = QG__MOST_CHANNELS,       /* at a time */
       FEW   = 3 };                     /* codes that are counted faster than computed */

/* --- codes of floats ------------------------------------------------------------------------------ */

/* The float so many floats farther from 0. */
static float farther(float x, int n)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += (uint32_t)n;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The next smaller float; x is finite. */
static float below(float x) { return x == 0.0f ? farther(-0.0f, 1) : farther(x, x > 0 ? -1 : 1); }

static int count_reached(const qg__finder *f, float x)
{
    int u = 0;
    while (u < f->count - 1 && x >= f->threshold[u]) u++;
    return u;
}

/* Whether the kernel finds the code of x, in vectors and behind them. */
static bool finds(const qg__requantize_kernels *k, const qg__finder *f, float x)
{
    enum { COPIES = 67 };
    float   copies[COPIES];
    uint8_t code[COPIES];
    for (int i = 0; i < COPIES; i++) copies[i] = x;
    k->find(f, COPIES, copies, code);
    const int u = count_reached(f, x);
    for (int i = 0; i < COPIES; i++)
        if (code[i] != u) return false;
    return true;
}

/* Whether all codes are found.  What a search computes grows with x, so it is enough to look at both ends
 * of each interval between thresholds. */
static bool finds_all(const qg__requantize_kernels *k, const qg__finder *f)
{
    static const float ends[] = { -INFINITY, -FLT_MAX, FLT_MAX, INFINITY };
    qg__finder         plain  = *f;
    plain.least = plain.base = 0;
    plain.step  = 1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!finds(k, &plain, ends[i])) return false;
    for (int u = 0; u + 1 < f->count; u++) {
        const float t = f->threshold[u];
        if (isfinite(t) && (!finds(k, &plain, t) || !finds(k, &plain, below(t)))) return false;
    }
    return true;
}

static bool accept(const qg__requantize_kernels *k, qg__finder *f, qg__search search)
{
    f->search = search;
    return finds_all(k, f);
}

/* As most quantizers compute it, with the levels scale (lowest + u). */
static bool has_levels(const qg__requantize_kernels *k, qg__finder *f, float scale, int lowest)
{
    enum { MOST = 1 << 20 };
    if (!(scale > 0) || lowest < -MOST || lowest > MOST) return false;
    f->scale  = scale;
    f->lowest = lowest;
    f->first  = scale * (float)lowest;
    if (!isfinite(f->first) || !isfinite(1.0f / scale)) return false;
    /* Of 1 / 15, which is rounded, the inverse is not 15 but its neighbour. */
    for (int n = -1; n <= 1; n++) {
        f->inverse = farther(1.0f / scale, n);
        if (accept(k, f, QG__MULTIPLE) || accept(k, f, QG__LINE)) return true;
    }
    return accept(k, f, QG__RATIO) || accept(k, f, QG__QUOTIENT);
}

/* A line through the first and the last finite threshold. */
static bool has_line(const qg__requantize_kernels *k, qg__finder *f)
{
    int first = 0, last = f->count - 2;
    while (first <= last && !isfinite(f->threshold[first])) first++;
    while (last >= first && !isfinite(f->threshold[last])) last--;
    if (first > last) return false;
    const double from = (double)f->threshold[first], to = (double)f->threshold[last];
    const double spacing = last > first ? (to - from) / (last - first) : 1.0;
    f->first   = (float)(from - spacing * first);
    f->inverse = (float)(1.0 / spacing);
    return spacing > 0 && isfinite(f->first) && isfinite(f->inverse) && accept(k, f, QG__GUESS);
}

/* How a code is stored. */
static void set_stored(const qg__infer_step *s, qg__codes q, qg__finder *f)
{
    const qg__alphabet a = s->to.alphabet;
    f->step = s->r.coding == QG__AS_FLOATS ? 1 : q.step;
    if (s->r.coding != QG__AS_BITS) return;
    f->base = (q.lowest - qg__lowest(a)) / qg__step(a);
    f->step = q.step / qg__step(a);
}

/* room: QG__MOST_FOUND floats. */
static void make_finder(qg__infer_step *s, const float *threshold, float *room)
{
    const qg__requantize_kernels *k = QG_KERNELS_OF(s->isa, qg__requantize_kernels);
    const qg__codes               q = qg__quantizer(&s->r);
    qg__finder                   *f = &s->to.find;
    for (int u = 0; u < QG__MOST_FOUND; u++) room[u] = u < q.count - 1 ? threshold[u] : NAN;
    *f = (qg__finder){ .threshold = room, .count = q.count };
    memcpy(f->few, room, sizeof f->few);
    set_stored(s, q, f);
    if (q.count <= FEW) f->search = QG__COUNT;
    else if (!(q.step == 1 && has_levels(k, f, s->r.q_scale, q.lowest)) && !has_line(k, f))
        f->search = q.count <= QG__FEW_FOUND ? QG__COUNT : QG__BISECTION;
    /* max(z, 0) reaches a threshold if z does or 0 does. */
    f->least = s->r.relu ? count_reached(f, 0.0f) : 0;
}

/* --- bits ----------------------------------------------------------------------------------------- */

/* The least number of value v of the alphabet, but of the first one: that of the first code that is not
 * below it. */
static float boundary_of(const qg__infer_step *s, int v, const float *threshold)
{
    const qg__codes    q     = qg__quantizer(&s->r);
    const qg__alphabet a     = s->to.alphabet;
    const int          value = qg__lowest(a) + qg__step(a) * v;
    const int          u     = value <= q.lowest ? 0 : (value - q.lowest + q.step - 1) / q.step;
    const float        t     = u == 0 ? -INFINITY : u < q.count ? threshold[u - 1] : INFINITY;
    return s->r.relu && t <= 0.0f ? -INFINITY : t;
}

/* least: a row of oc for each boundary; flip: a row. */
static void make_least_sums(qg__infer_step *s, const float *threshold, int32_t *least, int32_t *flip)
{
    const int oc   = s->p.g.oc;
    bool      flips = false;
    for (int k = 0; k < oc; k++) {
        flip[k] = s->k.a[k] < 0 ? -1 : 0;
        flips   = flips || flip[k];
    }
    for (int v = 1; v < qg__values(s->to.alphabet); v++)
        for (int first = 0; first < oc; first += CHUNK) {
            const int n = oc - first < CHUNK ? oc - first : CHUNK;
            qg__product_least_sums(s->isa, &s->p, s->k, first, n, boundary_of(s, v, threshold), flip + first,
                                   least + (size_t)(v - 1) * (size_t)oc + first);
        }
    s->to.least = least;
    s->to.flip  = flips ? flip : NULL;
}

/* --- fixed point ---------------------------------------------------------------------------------- */

static bool may_be_fixed(const qg__packed_step *r, const qg__product *p)
{
    return r->kind == QG__PRODUCT && r->coding == QG__AS_BYTES && r->q_count &&
           !p->x_bytes && qg__product_coding(p) == QG__AS_BYTES && !r->two_sided && r->q_scale > 0;
}

/* The nearest integer, ties away from zero, limited to int32. */
static int32_t nearest(double x)
{
    if (x >= 2147483647.0) return INT32_MAX;
    if (x <= -2147483648.0) return INT32_MIN;
    const int32_t towards_0 = (int32_t)x;
    const double  rest      = x - towards_0;
    return towards_0 + (rest >= 0.5) - (rest <= -0.5);
}

/* m, which is finite, as fraction * 2^(shift - 31) with 2^30 <= |fraction| < 2^31, rounded with ties away
 * from zero; 0 below 2^-32. */
static void split(double m, int32_t *fraction, int32_t *shift)
{
    enum { MANTISSA = 52, BIAS = 1022 };
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    const bool     negative = bits >> 63;
    const uint64_t mantissa = (bits & (((uint64_t)1 << MANTISSA) - 1)) | (uint64_t)1 << MANTISSA;
    int64_t        f        = (int64_t)((mantissa + ((uint64_t)1 << 21)) >> 22);
    int            e        = (int)(bits >> MANTISSA & 0x7FF) - BIAS;
    if (f == (int64_t)1 << 31 && !negative) f /= 2, e++;
    const bool vanishes = e < -31;              /* subnormal ones and 0, too */
    *fraction = vanishes ? 0 : (int32_t)(negative ? -f : f);
    *shift    = vanishes ? 0 : e > 64 ? 64 : e;
}

/* Whether both operators give n accumulators, one per channel, codes that are at most one level apart. */
static bool agree(const qg__infer_step *s, int first, int n, const int32_t *acc)
{
    const qg__requantize_kernels *kernels = QG_KERNELS_OF(s->isa, qg__requantize_kernels);
    qg__fixed_point               f       = s->to.fixed;
    float                         z[CHUNK];
    uint8_t                       exact[CHUNK], fixed[CHUNK];
    f.bias += first, f.fraction += first, f.shift += first;
    qg__product_scale_channels(s->isa, s->k, first, n, acc, z);
    kernels->find(&s->to.find, (size_t)n, z, exact);
    kernels->fixed(&f, 1, n, acc, fixed);
    for (int k = 0; k < n; k++)
        if (exact[k] - fixed[k] > f.step || fixed[k] - exact[k] > f.step) return false;
    return true;
}

/* Both are monotone in acc, so the ends of the intervals of evaluation tell. */
static bool agree_everywhere(const qg__infer_step *s, const int32_t *flip)
{
    const int32_t most = qg__product_largest_sum(&s->p);
    int32_t       least[CHUNK], acc[CHUNK];
    for (int first = 0; first < s->p.g.oc; first += CHUNK) {
        const int n = s->p.g.oc - first < CHUNK ? s->p.g.oc - first : CHUNK;
        for (int end = -1; end <= 1; end += 2) {
            for (int k = 0; k < n; k++) acc[k] = end * most;
            if (!agree(s, first, n, acc)) return false;
        }
        for (int u = 0; u + 1 < s->to.find.count; u++) {
            qg__product_least_sums(s->isa, &s->p, s->k, first, n, s->to.find.threshold[u], flip + first,
                                   least);
            for (int before = 0; before < 2; before++) {
                for (int k = 0; k < n; k++) {
                    const int32_t v = least[k] - before, limited = v > most ? most : v < -most ? -most : v;
                    acc[k]          = limited ^ flip[first + k];
                    if (acc[k] < -most) acc[k] = -most;
                    if (acc[k] > most) acc[k] = most;
                }
                if (!agree(s, first, n, acc)) return false;
            }
        }
    }
    return true;
}

/* room: four rows of oc. */
static void make_fixed_point(qg__infer_step *s, int32_t *room)
{
    const size_t    oc = (size_t)s->p.g.oc;
    const qg__codes q  = qg__quantizer(&s->r);
    int32_t        *bias = room, *fraction = room + oc, *shift = room + 2 * oc, *flip = room + 3 * oc;
    const double    scale = (double)s->r.q_scale * q.step;      /* of codes 0, 1, .. */
    for (size_t k = 0; k < oc; k++) {
        const double a = (double)s->k.a[k], m = a / scale;
        bias[k] = a != 0 ? nearest((double)s->k.b[k] / a) : 0;
        flip[k] = a < 0 ? -1 : 0;
        if (!isfinite(m) || a == 0) return;     /* bias of such a channel is no multiple of a */
        split(m, &fraction[k], &shift[k]);
    }
    s->to.fixed = (qg__fixed_point){ bias, fraction, shift, .zero = -q.lowest / q.step,
                                     .least = s->to.find.least, .most = q.count - 1, .step = q.step };
    if (q.lowest % q.step == 0 && agree_everywhere(s, flip)) s->to.route = QG__ROUTE_FIXED;
}

/* --- all -------------------------------------------------------------------------------------------- */

/* Of few values, each has its least sum. */
static bool compares_sums(const qg__packed_step *r, const qg__product *p)
{
    return r->coding == QG__AS_BITS && qg__values(qg__alphabet_of(qg__quantizer(r))) <= FEW &&
           r->kind == QG__PRODUCT && !r->two_sided && qg__product_is_exact(p);
}

size_t qg__tables_bytes(const qg__packed_step *r, const qg__product *p)
{
    const size_t row = (size_t)r->oc * sizeof(int32_t), found = QG__MOST_FOUND * sizeof(float);
    if (!r->q_count) return 0;
    return compares_sums(r, p) ? FEW * row : found + (may_be_fixed(r, p) ? 4 * row : 0);
}

void qg__tables_make(qg__infer_step *s, const float *threshold, const float *level, qg_infer_requantize how,
                     uint8_t *memory)
{
    const qg__codes q = qg__quantizer(&s->r);
    if (!q.count) return;
    s->to.alphabet = qg__alphabet_of(q);
    if (compares_sums(&s->r, &s->p)) {
        int32_t *tables = (int32_t *)(void *)memory;
        s->to.route = QG__ROUTE_SUMS;
        make_least_sums(s, threshold, tables + s->r.oc, tables);
        return;
    }
    float *room = (float *)(void *)memory;
    make_finder(s, threshold, room);
    s->to.route = s->r.coding == QG__AS_BITS    ? QG__ROUTE_BITS
                  : s->r.coding == QG__AS_BYTES ? QG__ROUTE_BYTES
                                                : QG__ROUTE_LEVELS;
    s->to.level = level;
    if (how == QG_INFER_TFLITE && may_be_fixed(&s->r, &s->p))
        make_fixed_point(s, (int32_t *)(void *)(room + QG__MOST_FOUND));
}
