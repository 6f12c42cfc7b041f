#include "quant/schemes/fake_quant_range.h"

#include <math.h>

#include "quant/form.h"
#include "quant/observe.h"
#include "quant/reduce.h"

static const float smallest_range = 0x1p-30f;

qg_range_kind qg__range_kind(qg_quant q) { return (qg_range_kind)q.arg[QG_ARG_KIND]; }

static qg_fake_quant_attrs attrs_of(qg_quant q)
{
    const bool narrow = q.arg[QG_ARG_NARROW] != 0 || qg__range_kind(q) == QG_RANGE_CURRENT;
    return (qg_fake_quant_attrs){ .num_bits = q.bits, .narrow_range = narrow };
}

bool qg__range_given(qg_quant q, float *min, float *max)
{
    *min = q.arg[QG_ARG_MIN] == QG_NO_MIN ? -6.0f : (float)q.arg[QG_ARG_MIN];
    *max = q.arg[QG_ARG_MAX] == QG_NO_MAX ? 6.0f : (float)q.arg[QG_ARG_MAX];
    return q.arg[QG_ARG_MIN] != QG_NO_MIN || q.arg[QG_ARG_MAX] != QG_NO_MAX;
}

/* --- the range ------------------------------------------------------------------------------- */

/* NaN passes; qg_fake_quant_nudge refuses it. */
static void make_legal(qg_range_kind kind, float *min, float *max)
{
    *min = *min > 0.0f ? 0.0f : *min;
    *max = *max < 0.0f ? 0.0f : *max;
    if (!(*max - *min < smallest_range)) return;
    if (kind == QG_RANGE_LEARNED) *max = *min + smallest_range;
    else *min = *max = 0.0f;
}

qg_status qg__range_nudge(qg_quant q, float min, float max, qg_fake_quant_range *r)
{
    if (qg__range_kind(q) != QG_RANGE_FIXED) make_legal(qg__range_kind(q), &min, &max);
    return qg_fake_quant_nudge(attrs_of(q), min, max, r);
}

qg_status qg__range_nudge_learned(qg_quant q, qg_var *const *learned, size_t i, qg_fake_quant_range *r)
{
    float min, max;
    if (qg__range_kind(q) == QG_RANGE_FIXED) {
        qg__range_given(q, &min, &max);
        return qg__range_nudge(q, min, max, r);
    }
    min = learned[QG_AT_MIN]->data[i], max = learned[QG_AT_MAX]->data[i];
    if (qg__range_kind(q) == QG_RANGE_LEARNED) {
        make_legal(QG_RANGE_LEARNED, &min, &max);
        qg_confine(learned[QG_AT_MIN], i, min);
        qg_confine(learned[QG_AT_MAX], i, max);
    }
    return qg__range_nudge(q, min, max, r);
}

qg_status qg__range_of_values(qg_quant q, float lo, float hi, qg_fake_quant_range *r)
{
    const float m = -lo > hi ? -lo : hi;
    return qg__range_nudge(q, -m, m, r);
}

qg_status qg__range_of(qg_quant q, qg_split c, size_t i, const float *x, const float *const *learned,
                       qg_fake_quant_range *r)
{
    const qg_range_kind kind = qg__range_kind(q);
    float               lo, hi;
    if (kind == QG_RANGE_FIXED) {
        qg__range_given(q, &lo, &hi);
        return qg__range_nudge(q, lo, hi, r);
    }
    if (kind != QG_RANGE_CURRENT) return qg__range_nudge(q, learned[QG_AT_MIN][i], learned[QG_AT_MAX][i], r);
    qg__min_max(c, i, 1, x, &lo, &hi);
    return qg__range_of_values(q, lo, hi, r);
}

/* --- observers ------------------------------------------------------------------------------- */

enum { CHANNELS = 64 };         /* observed together */

static void look(qg_quant q, qg_split c, size_t first, size_t n, const float *x, float *lo, float *hi)
{
    if (qg__range_kind(q) == QG_RANGE_PERCENTILE)
        qg__percentiles(c, first, n, x, q.arg[QG_ARG_PERCENTILE], lo, hi);
    else qg__min_max(c, first, n, x, lo, hi);
}

void qg__range_observe(qg_quant q, qg_tensor x, float *const *learned)
{
    if (!x.data) return;
    const qg_split c     = qg_spans(q, x.shape);
    const bool      seen  = *learned[QG_AT_SEEN] != 0.0f;
    const float     decay = (float)q.arg[QG_ARG_DECAY];
    bool            whole = true;
    for (size_t first = 0; first < c.depth; first += CHANNELS) {
        const size_t n = qg__smaller(c.depth - first, CHANNELS);
        float        lo[CHANNELS], hi[CHANNELS];
        look(q, c, first, n, x.data, lo, hi);
        for (size_t i = 0; i < n; i++) {
            float *min = &learned[QG_AT_MIN][first + i], *max = &learned[QG_AT_MAX][first + i];
            if (!isfinite(lo[i]) || !isfinite(hi[i])) {
                whole = false;
                continue;
            }
            const float low = lo[i] > 0.0f ? 0.0f : lo[i], high = hi[i] < 0.0f ? 0.0f : hi[i];
            *min = seen ? decay * *min + (1.0f - decay) * low : low;
            *max = seen ? decay * *max + (1.0f - decay) * high : high;
        }
    }
    if (whole) *learned[QG_AT_SEEN] = 1.0f;
}

void qg__range_start(qg_quant q, qg_tensor x, float *const *learned)
{
    *learned[QG_AT_SEEN] = 0.0f;
    if (qg__range_kind(q) == QG_RANGE_LEARNED) qg__range_learned_observe(q, x, learned);
    else qg__range_observe(q, x, learned);
}

/* --- learned ranges -------------------------------------------------------------------------- */

float qg__range_grad_scale(qg_quant q, size_t channels)
{
    return q.arg[QG_ARG_SUM] != 0 ? 1.0f : (float)(1.0 / sqrt((double)q.numbers / (double)channels));
}

/* A given range does not need x, which an input does not have yet. */
static void start_at(size_t channels, float min, float max, float *const *learned)
{
    for (size_t i = 0; i < channels; i++) {
        learned[QG_AT_MIN][i] = min;
        learned[QG_AT_MAX][i] = max;
    }
    *learned[QG_AT_SEEN] = 1.0f;
}

static void measure_span(qg_quant q, qg_tensor x, float *const *learned)
{
    const qg_split c = qg_spans(q, x.shape);
    for (size_t first = 0; first < c.depth; first += CHANNELS) {
        const size_t n = qg__smaller(c.depth - first, CHANNELS);
        float        lo[CHANNELS], hi[CHANNELS];
        qg__min_max(c, first, n, x.data, lo, hi);
        for (size_t i = 0; i < n; i++) {
            float min = learned[QG_AT_MIN][first + i], max = learned[QG_AT_MAX][first + i];
            make_legal(QG_RANGE_LEARNED, &min, &max);
            const float span = (hi[i] - lo[i]) / (max - min);
            if (isfinite(span)) learned[QG_AT_SPAN][first + i] = span;
        }
    }
}

void qg__range_learned_observe(qg_quant q, qg_tensor x, float *const *learned)
{
    float      min, max;
    const bool given = qg__range_given(q, &min, &max);
    if (*learned[QG_AT_SEEN] == 0.0f) {
        if (given) start_at(qg_spans(q, x.shape).depth, min, max, learned);
        else qg__range_observe(q, x, learned);
    }
    if (x.data && *learned[QG_AT_SEEN] != 0.0f) measure_span(q, x, learned);
}

