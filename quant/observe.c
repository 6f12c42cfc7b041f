#include "quant/observe.h"

#include <math.h>
#include <string.h>

#include "core/parallel.h"
#include "quant/channel.h"
#include "quant/reduce.h"

/* --- minimum and maximum ------------------------------------------------------------------- */

typedef struct span {
    qg__split    c;
    size_t       first;         /* channel of lo[0] and hi[0] */
    const float *x;
    float       *lo, *hi;
    double       percentile;

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
    (void)worker;
    const span  *s = context;
    const size_t n = qg__channel_size(s->c), each = (n + QG_SLICES - 1) / QG_SLICES;
    const size_t first = qg__smaller((size_t)slice * each, n);
    s->lo[slice] = INFINITY;
    s->hi[slice] = -INFINITY;
    s->kernels->min_max(qg__smaller(each, n - first), s->x + first, &s->lo[slice], &s->hi[slice]);
}

void qg__min_max(qg__split c, size_t first, size_t n, const float *x, float *lo, float *hi)
{
    span s = { .c = c, .first = first, .x = x, .lo = lo, .hi = hi, .kernels = QG_KERNELS(qg__reduce) };
    if (c.depth != 1) {
        qg__in_blocks(n, QG_CHANNEL_GROUP, channels_min_max, &s);
        return;
    }
    float low[QG_SLICES], high[QG_SLICES];
    s.lo = low;
    s.hi = high;
    qg_parallel(QG_SLICES, slice_min_max, &s);
    *lo = INFINITY;
    *hi = -INFINITY;
    s.kernels->min_max(QG_SLICES, low, lo, &(float){ -INFINITY });
    s.kernels->min_max(QG_SLICES, high, &(float){ INFINITY }, hi);
}

/* --- percentiles ---------------------------------------------------------------------------- */

/* Floats as integers of the same order, selected digit by digit: three counts of the elements that
 * share the digits found so far. */
enum { DIGIT = 11, DIGITS = 1 << DIGIT };

typedef struct selection {
    uint32_t prefix, mask;      /* digits found so far */
    size_t   rank;              /* among the elements that share them */
    size_t   count[DIGITS];
} selection;

static uint32_t ordered(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float unordered(uint32_t key)
{
    const uint32_t bits = key & 0x80000000u ? key & 0x7FFFFFFFu : ~key;
    float          v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Counts the digit at `shift` for both selections in one reading of the channel. */
static void count_digit(const span *s, size_t channel, int shift, selection both[2])
{
    const size_t n = qg__channel_size(s->c);
    memset(both[0].count, 0, sizeof both[0].count);
    memset(both[1].count, 0, sizeof both[1].count);
    for (size_t at = 0; at < n; at += QG_CHUNK) {
        const size_t m = qg__smaller(n - at, QG_CHUNK);
        float        part[QG_CHUNK];
        qg__gather(s->c, channel, at, m, s->x, part);
        for (size_t i = 0; i < m; i++) {
            if (part[i] != part[i]) continue;
            const uint32_t key = ordered(part[i]);
            const size_t   digit = (key >> shift) & (DIGITS - 1);
            both[0].count[digit] += (key & both[0].mask) == both[0].prefix;
            both[1].count[digit] += (key & both[1].mask) == both[1].prefix;
        }
    }
}

static void find_digit(selection *k, int shift, uint32_t mask)
{
    size_t digit = 0;
    while (k->rank >= k->count[digit]) k->rank -= k->count[digit++];
    k->prefix |= (uint32_t)digit << shift;
    k->mask = mask;
}

static void channel_percentiles(const span *s, size_t at)
{
    /* 10, 11 and 11 bits. */
    static const int      shift[3] = { 22, 11, 0 };
    static const uint32_t mask[3]  = { 0xFFC00000u, 0xFFFFF800u, 0xFFFFFFFFu };
    selection             both[2]  = { { 0 }, { 0 } };
    for (int d = 0; d < 3; d++) {
        count_digit(s, s->first + at, shift[d], both);
        if (d == 0) {
            size_t m = 0;
            for (size_t i = 0; i < DIGITS; i++) m += both[0].count[i];
            if (m == 0) {
                s->lo[at] = INFINITY;
                s->hi[at] = -INFINITY;
                return;
            }
            const double above = ceil(s->percentile / 100.0 * (double)m);
            both[1].rank = above < 1 ? 0 : above > (double)m ? m - 1 : (size_t)above - 1;
            both[0].rank = m - 1 - both[1].rank;
        }
        find_digit(&both[0], shift[d], mask[d]);
        find_digit(&both[1], shift[d], mask[d]);
    }
    s->lo[at] = unordered(both[0].prefix);
    s->hi[at] = unordered(both[1].prefix);
}

static void channels_percentiles(void *context, size_t first, size_t n)
{
    for (size_t at = first; at < first + n; at++) channel_percentiles(context, at);
}

void qg__percentiles(qg__split c, size_t first, size_t n, const float *x, double percentile, float *lo,
                     float *hi)
{
    span s = { .c = c, .first = first, .x = x, .lo = lo, .hi = hi, .percentile = percentile };
    qg__in_blocks(n, 1, channels_percentiles, &s);
}
