#include "quant/channel.h"

#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "quant/reduce.h"

/* Parts of a tensor that threads share.  Neither extremes nor counts depend on their number. */
enum { PARTS = 8 };

/* --- minimum and maximum ------------------------------------------------------------------- */

typedef struct span {
    qg_split    c;
    size_t       first;         /* channel of lo[0] and hi[0] */
    const float *x;
    float       *lo, *hi;
    double       percentile;
    uint32_t     counted;       /* the bits of a number that percentiles look at: all, or all but the sign */

    const qg_reduce_kernels *kernels;
} span;

static void channels_min_max(void *context, size_t first, size_t n)
{
    const span *s = context;
    for (size_t k = first; k < first + n; k++) {
        s->lo[k] = INFINITY;
        s->hi[k] = -INFINITY;
    }
    if (s->c.inner == 1) {
        s->kernels->min_max_columns(s->c.outer, s->c.depth, n, s->x + s->first + first, s->lo + first, s->hi + first);
        return;
    }
    for (size_t k = first; k < first + n; k++)
        for (size_t o = 0; o < s->c.outer; o++)
            s->kernels->min_max(s->c.inner, s->x + (o * s->c.depth + s->first + k) * s->c.inner,
                                &s->lo[k], &s->hi[k]);
}

static void slice_min_max(void *context, int slice, int worker)
{
    const span  *s = context;
    const size_t n = qg__channel_size(s->c), each = (n + PARTS - 1) / PARTS;
    const size_t first = qg__smaller((size_t)slice * each, n);
    s->lo[slice] = INFINITY;
    s->hi[slice] = -INFINITY;
    s->kernels->min_max(qg__smaller(each, n - first), s->x + first, &s->lo[slice], &s->hi[slice]);
}

static void span_all(qg_split c, size_t first, size_t n, const float *x, float *lo, float *hi)
{
    span s = { .c = c, .first = first, .x = x, .lo = lo, .hi = hi, .kernels = QG_KERNELS(qg__reduce) };
    if (c.depth != 1) {
        qg__in_blocks(n, QG_CHANNEL_GROUP, channels_min_max, &s);
        return;
    }
    float low[PARTS], high[PARTS];
    s.lo = low;
    s.hi = high;
    qg_parallel(PARTS, slice_min_max, &s);
    *lo = INFINITY;
    *hi = -INFINITY;
    s.kernels->min_max(PARTS, low, lo, &(float){ -INFINITY });
    s.kernels->min_max(PARTS, high, &(float){ INFINITY }, hi);
}

void qg__min_max(qg_split c, size_t first, size_t n, const float *x, float *lo, float *hi)
{
    span_all(c, first, n, x, lo, hi);
    /* Of +0 and -0 the first one seen is left; the sum is +0 for both. */
    for (size_t k = 0; k < n; k++) {
        lo[k] += 0.0f;
        hi[k] += 0.0f;
    }
}

/* --- percentiles ---------------------------------------------------------------------------- */

/* Floats as integers of the same order, selected digit by digit: three counts of the elements that
 * share the digits found so far. */
enum { DIGIT = 11, DIGITS = 1 << DIGIT };

typedef struct selection {
    uint32_t prefix, mask;      /* digits found so far */
    size_t   rank;              /* among the elements that share them */
} selection;

/* How often each digit occurs among the elements that share those found for selection 0 and 1; of the
 * first digit, where all do, the two halves of one count. */
typedef struct digits {
    uint32_t count[2][DIGITS];
} digits;

static uint32_t ordered(float v, uint32_t counted)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= counted;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float unordered(uint32_t key)
{
    const uint32_t bits = key & 0x80000000u ? key & 0x7FFFFFFFu : ~key;
    float          v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void count_first(size_t n, const float *x, uint32_t counted, int shift, digits *d)
{
    /* Two counts in turns: reading a count just written is slow, and relu gives many equal zeros. */
    for (size_t i = 0; i < n; i++)
        if (x[i] == x[i]) d->count[i & 1][ordered(x[i], counted) >> shift]++;
}

static void count_next(size_t n, const float *x, uint32_t counted, int shift, const selection both[2],
                       digits *d)
{
    for (size_t i = 0; i < n; i++) {
        if (x[i] != x[i]) continue;
        const uint32_t key = ordered(x[i], counted);
        const size_t   digit = (key >> shift) & (DIGITS - 1);
        /* The low one may be a zero of a relu, which branches predict badly; the high one is rare. */
        d->count[0][digit] += ((key ^ both[0].prefix) & both[0].mask) == 0;
        if (((key ^ both[1].prefix) & both[1].mask) == 0) d->count[1][digit]++;
    }
}

typedef struct counting {
    const span      *s;
    size_t           channel, each;     /* elements of a slice */
    int              shift;
    const selection *both;
    digits          *slice;
} counting;

static void count_slice(void *context, int slice, int worker)
{
    const counting *k = context;
    const size_t    all = qg__channel_size(k->s->c);
    const size_t    first = qg__smaller((size_t)slice * k->each, all);
    const size_t    n = qg__smaller(k->each, all - first);
    digits         *d = &k->slice[slice];
    memset(d, 0, sizeof *d);
    for (size_t at = first; at < first + n; at += QG_CHUNK) {
        const size_t m = qg__smaller(first + n - at, QG_CHUNK);
        float        part[QG_CHUNK];
        const float *x = qg__part(k->s->c, k->channel, at, m, k->s->x, part);
        if (k->both->mask == 0) count_first(m, x, k->s->counted, k->shift, d);
        else count_next(m, x, k->s->counted, k->shift, k->both, d);
    }
}

/* Adds the counts of all slices up in slice[0]. */
static void count_digit(const span *s, size_t channel, int shift, const selection both[2], int slices,
                        digits *slice)
{
    const size_t n = qg__channel_size(s->c), each = (n + (size_t)slices - 1) / (size_t)slices;
    counting     k = { s, channel, each, shift, both, slice };
    qg_parallel(slices, count_slice, &k);
    for (int i = 1; i < slices; i++)
        for (int d = 0; d < DIGITS; d++) {
            slice[0].count[0][d] += slice[i].count[0][d];
            slice[0].count[1][d] += slice[i].count[1][d];
        }
    if (both->mask != 0) return;
    for (int d = 0; d < DIGITS; d++)
        slice[0].count[0][d] = slice[0].count[1][d] = slice[0].count[0][d] + slice[0].count[1][d];
}

static void find_digit(selection *k, const uint32_t *count, int shift, uint32_t mask)
{
    size_t digit = 0;
    while (k->rank >= count[digit]) k->rank -= count[digit++];
    k->prefix |= (uint32_t)digit << shift;
    k->mask = mask;
}

static void channel_percentiles(const span *s, size_t at, int slices, digits *slice)
{
    /* 10, 11 and 11 bits. */
    static const int      shift[3] = { 22, 11, 0 };
    static const uint32_t mask[3]  = { 0xFFC00000u, 0xFFFFF800u, 0xFFFFFFFFu };
    selection             both[2]  = { { 0 }, { 0 } };
    for (int d = 0; d < 3; d++) {
        count_digit(s, s->first + at, shift[d], both, slices, slice);
        if (d == 0) {
            size_t m = 0;
            for (size_t i = 0; i < DIGITS; i++) m += slice->count[0][i];
            if (m == 0) {
                s->lo[at] = INFINITY;
                s->hi[at] = -INFINITY;
                return;
            }
            const double above = ceil(s->percentile / 100.0 * (double)m);
            both[1].rank = above < 1 ? 0 : above > (double)m ? m - 1 : (size_t)above - 1;
            both[0].rank = m - 1 - both[1].rank;
        }
        find_digit(&both[0], slice->count[0], shift[d], mask[d]);
        find_digit(&both[1], slice->count[1], shift[d], mask[d]);
    }
    s->lo[at] = unordered(both[0].prefix);
    s->hi[at] = unordered(both[1].prefix);
}

static void channels_percentiles(void *context, size_t first, size_t n)
{
    digits slice;
    for (size_t at = first; at < first + n; at++) channel_percentiles(context, at, 1, &slice);
}

void qg__percentiles(qg_split c, size_t first, size_t n, const float *x, double percentile, float *lo,
                     float *hi)
{
    span s = { .c = c, .first = first, .x = x, .lo = lo, .hi = hi, .percentile = percentile,
               .counted = UINT32_MAX };
    if (c.depth != 1) {
        qg__in_blocks(n, 1, channels_percentiles, &s);
        return;
    }
    digits slice[PARTS];
    channel_percentiles(&s, 0, PARTS, slice);
}

float qg__percentile_abs(size_t n, const float *x, double percentile)
{
    float  lo, hi;
    span   s = { .c = { 1, 1, n }, .x = x, .lo = &lo, .hi = &hi, .percentile = percentile,
                 .counted = INT32_MAX };
    digits slice[PARTS];
    channel_percentiles(&s, 0, PARTS, slice);
    return hi;
}
