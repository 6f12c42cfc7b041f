/* From integer sums to codes, without floats.
 *
 * A code is the number of thresholds that z = fl(fl(a sum) + b) reaches.  It is monotone in the sum, so each
 * code has a least sum, which is found by bisection with the function that the engine runs (infer/product.c).
 * Below, v is the sum, or -1 - sum where a is negative: codes grow with v.
 *
 * 255 least sums of each channel would be larger than most weights, but they are almost equally far apart.
 * So the code is (slope v + start) >> shift, in 64 bits, except for a few v, which are listed: there the
 * roundings of z decide.
 */
#include <math.h>

#include "layers/export/c_program.h"

/* Fewer thresholds take less memory than a line.  MOST_ODD: listed sums of a channel, on average. */
enum { FEWEST = 16, MOST_ODD = 16, CHUNK = QG__MOST_CHANNELS, SHIFT = 52 };

static void find_least_sums(qg__c_program *p, qg__c_stage *t, const qg__product *product, qg__scales scales)
{
    const int oc = t->s->r.oc, n = t->thresholds;
    int32_t  *flip = qg__c_take(p, (size_t)oc, sizeof *flip), least[CHUNK];
    t->least       = qg__c_take(p, (size_t)oc * (size_t)n, sizeof *t->least);
    t->falls       = qg__c_take(p, (size_t)oc, sizeof *t->falls);
    if (p->status) return;
    for (int k = 0; k < oc; k++) {
        t->falls[k]  = scales.a[k] < 0;
        flip[k]      = -t->falls[k];
        t->any_falls = t->any_falls || t->falls[k];
    }
    for (int first = 0, now; first < oc; first += now) {
        now = oc - first < CHUNK ? oc - first : CHUNK;
        for (int u = 0; u < n; u++) {
            qg__product_least_sums(QG_ISA_BASELINE, product, scales, first, now, t->threshold[u], flip + first, least);
            for (int k = 0; k < now; k++) t->least[(first + k) * n + u] = least[k];
        }
    }
}

/* --- lines ---------------------------------------------------------------------------------- */

static int by_least(const qg__c_stage *t, int k, int64_t v)
{
    const int32_t *least = t->least + k * t->thresholds;
    int            u     = 0;
    while (u < t->thresholds && v >= least[u]) u++;
    return u;
}

static int by_line(const qg__c_stage *t, int k, int64_t v)
{
    const int64_t scaled = t->slope[k] * v + t->start[k], line = scaled < 0 ? 0 : scaled >> t->shift[k];
    return line > t->thresholds ? t->thresholds : (int)line;
}

/* Code u begins at first + (u - 1) spacing.  false: 64 bits are too few for all v within -most .. most. */
static bool set_line(qg__c_stage *t, int k, double first, double spacing, double most)
{
    const double start = 1 - first / spacing, slope = 1 / spacing, limit = 0x1p60;
    double       scale = 0x1p52;
    t->shift[k]        = SHIFT;
    for (; !(slope * scale * most < limit && fabs(start) * scale < limit); scale /= 2)
        if (t->shift[k]-- == 0) return false;
    t->slope[k] = llrint(slope * scale);
    t->start[k] = llrint(start * scale);
    return true;
}

/* Lists the v near the least one of threshold u that are not on the line.  false: too many, or too far. */
static bool list_odd(qg__c_stage *t, int k, int u, int64_t most)
{
    enum { FAR = 4 };
    const int64_t least = t->least[k * t->thresholds + u];
    if (least < -most || least > most) return true;
    if (by_line(t, k, least - FAR) > u || by_line(t, k, least + FAR) <= u) return false;
    for (int64_t v = least - FAR; v < least + FAR; v++) {
        const bool listed = t->odds > t->odd[k] && v <= t->odd_sum[t->odds - 1];
        if (listed || v < -most || v > most || by_least(t, k, v) == by_line(t, k, v)) continue;
        if (t->odds == MOST_ODD * t->s->r.oc) return false;
        t->odd_code[t->odds]  = (uint8_t)by_least(t, k, v);
        t->odd_sum[t->odds++] = (int32_t)v;
    }
    return true;
}

static bool fit_line(qg__c_stage *t, int k, double a, double b, int64_t most)
{
    const int    n = t->thresholds;
    const double low = t->threshold[0], high = t->threshold[n - 1], first = (low - b) / a;
    if (by_least(t, k, -most) == by_least(t, k, most)) {        /* as where a is 0 */
        t->start[k] = by_least(t, k, 0);
        return true;
    }
    const double spacing = (high - low) / (n - 1) / fabs(a);
    if (!set_line(t, k, a < 0 ? -1 - first : first, spacing, (double)most)) return false;
    for (int u = 0; u < n; u++)
        if (!list_odd(t, k, u, most)) return false;
    return by_line(t, k, -most) == by_least(t, k, -most) && by_line(t, k, most) == by_least(t, k, most);
}

/* From v to sums. */
static void turn(qg__c_stage *t, int k)
{
    t->start[k] -= t->slope[k];
    t->slope[k] = -t->slope[k];
    for (int i = t->odd[k]; i < t->odds; i++) t->odd_sum[i] = -1 - t->odd_sum[i];
}

/* false: codes are not equally far apart, or there is no memory. */
static bool find_lines(qg__c_program *p, qg__c_stage *t, const qg__product *product, qg__scales scales)
{
    const size_t  oc   = (size_t)t->s->r.oc;
    const int64_t most = (int64_t)qg__product_largest_sum(product) + 1;
    t->slope    = qg__c_take(p, oc, sizeof *t->slope);
    t->start    = qg__c_take(p, oc, sizeof *t->start);
    t->shift    = qg__c_take(p, oc, sizeof *t->shift);
    t->odd      = qg__c_take(p, oc + 1, sizeof *t->odd);
    t->odd_sum  = qg__c_take(p, oc * MOST_ODD, sizeof *t->odd_sum);
    t->odd_code = qg__c_take(p, oc * MOST_ODD, sizeof *t->odd_code);
    for (int k = 0; k < (int)oc && !p->status; k++) {
        if (!fit_line(t, k, (double)scales.a[k], (double)scales.b[k], most)) return false;
        if (t->odds > UINT16_MAX) return false;
        if (t->falls[k]) turn(t, k);
        t->odd[k + 1] = (uint16_t)t->odds;
    }
    return !p->status;
}

void qg__c_codes_of_sums(qg__c_program *p, qg__c_stage *t)
{
    const qg__packed_step *r       = &t->s->r;
    const qg__product      product = qg__product_of(r, qg__c_codes(p, r->x));
    const qg__scales       scales  = { t->s->floats, NULL, t->s->floats + r->oc };
    t->result = QG__C_BY_LEAST;
    find_least_sums(p, t, &product, scales);
    if (!p->status && t->thresholds >= FEWEST && find_lines(p, t, &product, scales)) t->result = QG__C_BY_LINE;
}
