/* Where the ends of a uniform range come from: fixed, learned, observed as an average or a percentile, or current. */
#include "quant/engine.h"

#include <math.h>

#include "quant/channel.h"
#include "quant/reduce.h"
#include "quant/round.h"

enum { MIN, MAX, SEEN, RATIO };     /* indices of the learned values below */
enum { RATIO_STEPS = 1024 };        /* training steps between measurements of the ratio */

/* The value "span" is the width of the tensor divided by the width of the range, and not a span as
 * in quant/form.h.  Below its limits two bits are wasted, and above them nearly everything is
 * clipped: the range no longer fits its tensor. */
const qg_learned qg_learned_range[] = {
    { .name = "min", .per_channel = true },
    { .name = "max", .per_channel = true },
    { .name = "seen", .tracked = true, .quiet = true },
    { .name = "span", .per_channel = true, .tracked = true, .low = 0.25f, .high = 100.0f,
      .remedy = "the range no longer fits what it quantizes; set where it starts (min, max), let it be measured instead "
                "(range=current of weights, range=observed of inputs), or lower the learning rate of quantizers" },
    { .name = NULL }
};

const qg_learned qg_tracked_range[] = { { .name = "min", .per_channel = true, .tracked = true },
                                        { .name = "max", .per_channel = true, .tracked = true },
                                        { .name = "seen", .tracked = true, .quiet = true },
                                        { .name = NULL } };

/* --- the ends --------------------------------------------------------------------------------- */

static const float smallest = 0x1p-30f;     /* width of a range */

/* Includes 0 in a range, and widens a learned one, or empties another, that is too narrow.  NaN
 * stays NaN. */
static void make_legal(qg_range r, float *min, float *max)
{
    if (!r.with_zero) return;
    *min = *min > 0.0f ? 0.0f : *min;
    *max = *max < 0.0f ? 0.0f : *max;
    if (!(*max - *min < smallest)) return;
    if (r.kind == QG_RANGE_LEARNED) *max = *min + smallest;
    else *min = *max = 0.0f;
}

void qg__range_ends(qg_range r, qg_span x, float end[2])
{
    if (r.kind == QG_RANGE_FIXED) {
        end[0] = r.min;
        end[1] = r.max;
        return;
    }
    if (r.kind == QG_RANGE_CURRENT) {
        qg_span_min_max(x, &end[0], &end[1]);
        const float m = -end[0] > end[1] ? -end[0] : end[1];
        if (r.symmetric) end[0] = -m, end[1] = m;
    }
    make_legal(r, &end[0], &end[1]);
}

void qg__range_confine(qg_quant q, qg_var *const *learned)
{
    const qg_range r = q.scheme->range(q);
    for (size_t i = 0; r.kind == QG_RANGE_LEARNED && i < qg_count(learned[MIN]->shape); i++) {
        float min = learned[MIN]->data[i], max = learned[MAX]->data[i];
        make_legal(r, &min, &max);
        qg__clamp_learned(learned[MIN], i, min);
        qg__clamp_learned(learned[MAX], i, max);
    }
}

void qg__learned_bounds(qg_quant q, int i, float *least, float *greatest)
{
    const qg_range r   = q.scheme->range ? q.scheme->range(q) : (qg_range){ .with_zero = false };
    const bool     end = r.with_zero && r.kind == QG_RANGE_LEARNED;
    const float    own = q.scheme->learned[i].least;
    *least    = end && i == MIN ? -INFINITY : own > 0.0f ? own : 0.0f;
    *greatest = *least > 0.0f || (end && i == MAX) ? INFINITY : 0.0f;
}

/* --- with 0 on a code ------------------------------------------------------------------------- */

static qg_status check_ends(int bits, float min, float max)
{
    if (bits < 2 || bits > 16) return qg_fail(QG_EARG, "fake_quant: num_bits is %d, must be 2 .. 16", bits);
    if (!isfinite(min) || !isfinite(max))
        return qg_fail(QG_EARG, "fake_quant: min is %g and max is %g, both must be finite",
                       (double)min, (double)max);
    if (min > max)
        return qg_fail(QG_EARG, "fake_quant: min is %.9g, must be smaller than max, %.9g",
                       (double)min, (double)max);
    if (min == max && min != 0.0f)
        return qg_fail(QG_EARG, "fake_quant: min and max are both %.9g, must differ or be 0",
                       (double)min);
    return QG_OK;
}

qg_status qg__nudge(int bits, bool narrow, float min, float max, qg_levels *u, int *zero_point)
{
    const qg_status s    = check_ends(bits, min, max);
    const int       qmin = narrow ? 1 : 0;
    if (s) return s;
    const int qmax = (1 << bits) - 1;
    *u             = (qg_levels){ .from = min, .to = max };
    *zero_point    = qmin;
    if (max == min) return QG_OK;
    /* Written out in float32: for [-1,1] z is 127.499992, in double it would be 127.5. */
    const float steps = (float)(qmax - qmin);
    const float width = max - min;
    const float scale = width / steps;
    const float inv   = steps / width;
    if (!isfinite(width) || !isfinite(inv))
        return qg_fail(QG_EARG, "fake_quant: max - min is %g, not a float32 range of %d steps",
                       (double)width, qmax - qmin);
    const float z  = (float)qmin - min / scale;
    const int   zp = z < (float)qmin   ? qmin
                     : z > (float)qmax ? qmax
                                       : (int)qg_round_away(z);
    const float nmin = (float)(qmin - zp) * scale;
    const float nmax = (float)(qmax - zp) * scale;
    if (!isfinite(nmax - nmin))
        return qg_fail(QG_EARG, "fake_quant: min is %.9g and max is %.9g, nudged to %g .. %g, not a float32 range",
                       (double)min, (double)max, (double)nmin, (double)nmax);
    u->step     = scale;
    u->steps    = inv;
    u->lo       = nmin;
    u->hi       = nmax;
    u->zero     = qg_round_up(-nmin * inv);
    *zero_point = zp;
    return QG_OK;
}

/* --- observers -------------------------------------------------------------------------------- */

enum { CHANNELS = 64 };         /* the most that are observed together */

/* Channels of zeros start with the range of all. */
static void share_range(size_t channels, float *const *learned)
{
    float min = 0, max = 0;
    for (size_t i = 0; i < channels; i++) {
        min = fminf(min, learned[MIN][i]);
        max = fmaxf(max, learned[MAX][i]);
    }
    for (size_t i = 0; i < channels; i++)
        if (learned[MIN][i] == 0 && learned[MAX][i] == 0) learned[MIN][i] = min, learned[MAX][i] = max;
}

/* min = decay min + (1 - decay) lo, and max likewise; the first batch sets min = lo.  A channel
 * whose ends are not finite is skipped, and the batch then does not count as the first.  Nor does a batch of zeros for a
 * learned range of inputs, which gradient descent could hardly widen; weights have no second batch. */
static void average(qg_quant q, qg_range r, qg_tensor x, float *const *learned)
{
    if (!x.data) return;
    const qg_split c     = qg__spans(q, x.shape);
    const bool     seen  = *learned[SEEN] != 0.0f;
    const float    decay = r.decay;
    const bool     starts = r.kind == QG_RANGE_LEARNED && q.role != QG_WEIGHT;
    bool           finite = true, wide = !starts;
    for (size_t first = 0; first < c.depth; first += CHANNELS) {
        const size_t n = qg__smaller(c.depth - first, CHANNELS);
        float        lo[CHANNELS], hi[CHANNELS];
        if (r.kind == QG_RANGE_PERCENTILE) qg__percentiles(c, first, n, x.data, r.percentile, lo, hi);
        else qg__min_max(c, first, n, x.data, lo, hi);
        for (size_t i = 0; i < n; i++) {
            float *min = &learned[MIN][first + i], *max = &learned[MAX][first + i];
            if (!isfinite(lo[i]) || !isfinite(hi[i])) {
                finite = false;
                continue;
            }
            const float low  = r.with_zero && lo[i] > 0.0f ? 0.0f : lo[i];
            const float high = r.with_zero && hi[i] < 0.0f ? 0.0f : hi[i];
            *min = seen ? decay * *min + (1.0f - decay) * low : low;
            *max = seen ? decay * *max + (1.0f - decay) * high : high;
            wide |= high - low >= smallest;
        }
    }
    if (starts && wide) share_range(c.depth, learned);
    if (finite && wide) *learned[SEEN] = 1.0f;
}

/* Starts at given ends.  This needs no x: before the first step inputs have no values. */
static void start_at(size_t channels, float min, float max, float *const *learned)
{
    for (size_t i = 0; i < channels; i++) {
        learned[MIN][i] = min;
        learned[MAX][i] = max;
    }
    *learned[SEEN] = 1.0f;
}

static void measure_ratio(qg_quant q, qg_range r, qg_tensor x, float *const *learned)
{
    const qg_split c = qg__spans(q, x.shape);
    for (size_t first = 0; first < c.depth; first += CHANNELS) {
        const size_t n = qg__smaller(c.depth - first, CHANNELS);
        float        lo[CHANNELS], hi[CHANNELS];
        qg__min_max(c, first, n, x.data, lo, hi);
        for (size_t i = 0; i < n; i++) {
            float min = learned[MIN][first + i], max = learned[MAX][first + i];
            make_legal(r, &min, &max);
            const float ratio = (hi[i] - lo[i]) / (max - min);
            if (isfinite(ratio)) learned[RATIO][first + i] = ratio;
        }
    }
}

/* --- hooks of schemes ------------------------------------------------------------------------- */

static void observe(qg_quant q, qg_tensor x, float *const *learned)
{
    const qg_range r = q.scheme->range(q);
    if (r.kind != QG_RANGE_LEARNED) {
        average(q, r, x, learned);
        return;
    }
    if (*learned[SEEN] == 0.0f) {
        if (r.given) start_at(qg__spans(q, x.shape).depth, r.min, r.max, learned);
        else average(q, r, x, learned);
    }
    if (x.data && *learned[SEEN] != 0.0f) measure_ratio(q, r, x, learned);
}

/* As if x were the first batch. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    *learned[SEEN] = 0.0f;
    observe(q, x, learned);
}

/* A learned range observes in the step in which it starts, and every RATIO_STEPS steps. */
static bool observes(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    const qg_range r    = q.scheme->range(q);
    const uint64_t step = qg_tape_step(t);
    if (r.kind == QG_RANGE_LEARNED && qg__quant_is_delayed(q, step)) return false;
    if (learned[SEEN]->data[0] == 0.0f) return true;
    if (qg_tape_mode(t) != QG_TRAIN) return false;
    if (r.kind == QG_RANGE_LEARNED) return step % RATIO_STEPS == 0;
    return !(r.freeze_after && step >= r.freeze_after);
}

static bool ready(qg_quant q, const float *const *learned)
{
    return *learned[SEEN] != 0.0f;
}

static uint64_t freeze_after(qg_quant q) { return q.scheme->range(q).freeze_after; }

qg__hooks qg__scheme_hooks(const qg_scheme *s)
{
    if (s->range && (s->learned == qg_learned_range || s->learned == qg_tracked_range))
        return (qg__hooks){ start, observes, observe, ready, freeze_after };
    return (qg__hooks){ s->start, s->observes, s->observe, s->ready, s->freeze_after };
}
