/* Fake quantization of weights and activations: one scheme for each way to come by a range.  What is
 * computed once the range is known stands in quant/schemes/fake_quant.h. */
#include <math.h>

#include "quant/schemes/fake_quant_range.h"
#include "quant/schemes/fake_quant_tape.h"
#include "quant/observe.h"
#include "quant/operand.h"
#include "quant/reduce.h"

/* TensorFlow's ops disagree at ties, and each kind of range follows the op it stands for. */
static qg__fake_quant_rule rule_of(qg_quant q)
{
    return q.per_channel || qg__range_kind(q) == QG_RANGE_FIXED ? QG_FAKE_QUANT_MULTIPLY : QG_FAKE_QUANT_DIVIDE;
}

enum { RANGE_KINDS = QG_RANGE_CURRENT + 1 };

static bool averages(qg_range_kind kind) { return kind == QG_RANGE_OBSERVED || kind == QG_RANGE_PERCENTILE; }

/* decay, percentile and freeze_after, where they mean something and where they do not. */
static qg_status check_observer(qg_quant q)
{
    const char         *name = q.scheme->name;
    const qg_range_kind kind = qg__range_kind(q);
    const float         decay = q.arg[QG_ARG_DECAY], percentile = q.arg[QG_ARG_PERCENTILE];
    if (!averages(kind) && (decay != 0.0f || q.freeze_after))
        return qg_fail(QG_EARG, "%s: decay and freeze_after belong to observed and percentile ranges", name);
    if (kind != QG_RANGE_PERCENTILE && percentile != 0.0f)
        return qg_fail(QG_EARG, "%s: percentile belongs to percentile ranges", name);
    if (averages(kind) && !(decay > 0.0f && decay < 1.0f))
        return qg_fail(QG_EARG, "%s: decay is %g, not between 0 and 1", name, (double)decay);
    if (kind == QG_RANGE_PERCENTILE && !(percentile > 50.0f && percentile <= 100.0f))
        return qg_fail(QG_EARG, "%s: percentile is %g, not above 50 and at most 100", name, (double)percentile);
    return QG_OK;
}

/* min and max: a fixed range, or the start of a learned one, which keeps 0 inside. */
static qg_status check_given(qg_quant q)
{
    const char         *name = q.scheme->name;
    const qg_range_kind kind = qg__range_kind(q);
    const float         min = q.arg[QG_ARG_MIN], max = q.arg[QG_ARG_MAX];
    if (kind != QG_RANGE_FIXED && min == 0.0f && max == 0.0f) return QG_OK;
    if (kind != QG_RANGE_FIXED && kind != QG_RANGE_LEARNED)
        return qg_fail(QG_EARG, "%s: min and max belong to fixed and learned ranges", name);
    if (!(min < max))
        return qg_fail(QG_EARG, "%s: min is %g, not below max, %g", name, (double)min, (double)max);
    if (kind == QG_RANGE_LEARNED && !(min <= 0.0f && max >= 0.0f))
        return qg_fail(QG_EARG, "%s: a learned range holds 0, and %g .. %g does not", name, (double)min, (double)max);
    qg_fake_quant_range r;
    return qg__range_nudge(q, min, max, &r);
}

static qg_status check(qg_quant q)
{
    const char *name = q.scheme->name;
    qg_status   s = qg__check_int(name, "range", (int)q.arg[QG_ARG_KIND], 0, RANGE_KINDS - 1);
    if (!s) s = qg__check_int(name, "bits", q.bits, 2, 16);
    if (!s) s = check_observer(q);
    return s ? s : check_given(q);
}

/* A learned range looks when it is about to be used, and from time to time at its span. */
static bool looks_now(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    if (qg_quant_waits(q, t)) return false;
    if (learned[QG_AT_SEEN]->data[0] == 0.0f) return true;
    return qg_tape_mode(t) == QG_TRAIN && qg_tape_step(t) % QG_SPAN_STEPS == 0;
}

static bool observes(qg_quant q, const qg_tape *t, qg_var *const *learned)
{
    if (learned[QG_AT_SEEN]->data[0] == 0.0f) return true;
    return qg_tape_mode(t) == QG_TRAIN && !(q.freeze_after && qg_tape_step(t) >= q.freeze_after);
}

/* --- on the tape ----------------------------------------------------------------------------- */

static const qg_op fake_quant_op = { .name = "fake_quant", .backward = qg_activation_op_backward, .assigns = true };

static qg_activation activation(qg_quant q, qg_var *const *learned)
{
    const bool          trained = qg__range_kind(q) == QG_RANGE_LEARNED;
    qg_fake_quant_range r;
    if (qg__range_nudge_learned(q, learned, 0, &r)) return (qg_activation){ 0 };    /* apply says why */
    return qg__fake_quant_activation(&r, rule_of(q), q.surrogate, trained ? learned[QG_AT_MIN] : NULL,
                                     trained ? learned[QG_AT_MAX] : NULL, qg__range_grad_scale(q, 1));
}

static qg_var *apply_channels(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    const qg_split      c = qg__range_split(q, x->shape);
    qg_var              *y;
    qg_fake_quant_range *r = qg__record_fake_quant_channels(t, c, q.surrogate, x, learned[QG_AT_MIN],
                                                            learned[QG_AT_MAX],
                                                            qg__range_grad_scale(q, c.depth), &y);
    for (size_t i = 0; r && i < c.depth; i++) {
        const qg_status s = qg__range_nudge_learned(q, learned, i, &r[i]);
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", q.scheme->name, i, qg_errmsg());
    }
    if (!r) return NULL;
    qg__fake_quant_forward(c, r, QG_FAKE_QUANT_MULTIPLY, x->data, y->data);
    return y;
}

static qg_var *apply(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    if (qg__range_kind(q) != QG_RANGE_FIXED && learned[QG_AT_SEEN]->data[0] == 0.0f) return qg_quant_pass(t, q, x);
    if (q.per_channel) return apply_channels(t, q, x, learned);
    qg_fake_quant_range r;
    const qg_status     s = qg__range_nudge_learned(q, learned, 0, &r);
    if (s) return qg_reject(t, s, "%s", qg_errmsg());
    return qg_record_activation(t, &fake_quant_op, x, activation(q, learned));
}

/* --- the weights of this step ---------------------------------------------------------------- */

static const qg_op current_op = { .name             = "fake_quant",
                                  .backward         = qg_surrogate_backward,
                                  .straight_through = true };
static const qg_op current_sloped_op = { .name = "fake_quant", .backward = qg_surrogate_backward };

static qg_status current_range(qg_quant q, float lo, float hi, qg_fake_quant_range *r)
{
    const float m = -lo > hi ? -lo : hi;
    return qg__range_nudge(q, -m, m, r);
}

static qg_var *apply_current(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned)
{
    (void)learned;
    const qg_split c = qg__range_split(q, x->shape);
    qg_var         *y = qg_record_surrogate(t, &current_op, &current_sloped_op, x, q.surrogate);
    if (!y) return NULL;
    qg_fake_quant_range *r  = qg_scratch(t, c.depth * (sizeof *r + 2 * sizeof(float)));
    float               *lo = r ? (float *)(void *)(r + c.depth) : NULL, *hi = r ? lo + c.depth : NULL;
    if (!r) return NULL;
    qg__min_max(c, 0, c.depth, x->data, lo, hi);
    for (size_t i = 0; i < c.depth; i++) {
        const qg_status s = current_range(q, lo[i], hi[i], &r[i]);
        if (s) return qg_reject(t, s, "%s, channel %zu: %s", q.scheme->name, i, qg_errmsg());
    }
    qg__fake_quant_forward(c, r, rule_of(q), x->data, y->data);
    return y;
}

/* --- codes ----------------------------------------------------------------------------------- */

static qg_status range_for_code(qg_quant q, qg_split c, size_t i, const float *x, const float *const *learned,
                                qg_fake_quant_range *r)
{
    if (qg__range_kind(q) == QG_RANGE_FIXED) return qg__range_nudge(q, q.arg[QG_ARG_MIN], q.arg[QG_ARG_MAX], r);
    if (qg__range_kind(q) != QG_RANGE_CURRENT) return qg__range_nudge(q, learned[QG_AT_MIN][i], learned[QG_AT_MAX][i], r);
    float lo, hi;
    qg__min_max(c, i, 1, x, &lo, &hi);
    return current_range(q, lo, hi, r);
}

static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_split c    = qg__range_split(q, x.shape);
    const bool      rows = q.per_channel && q.role == QG_WEIGHT;
    if (q.per_channel && !rows)
        return qg_fail(QG_EARG, "%s: codes of an input have one scale, not one per channel", q.scheme->name);
    if (q.scheme->learned && *learned[QG_AT_SEEN] == 0.0f)
        return qg_fail(QG_ESTATE, "%s: no batch has been seen, so there is no range", q.scheme->name);
    for (size_t i = 0; i < c.depth; i++) {
        qg_fake_quant_range r;
        const qg_status     s = range_for_code(q, c, i, x.data, learned, &r);
        if (s) return s;
        for (size_t at = 0; at < c.inner; at += QG_CHUNK) {
            const size_t n = qg__smaller(c.inner - at, QG_CHUNK), from = i * c.inner + at;
            float        y[QG_CHUNK];
            qg__fake_quant_forward((qg_split){ 1, 1, n }, &r, rule_of(q), x.data + from, y);
            qg_codes_of(n, y, r.scale, out->code + from);
        }
        out->scale[i] = r.scale;
    }
    out->n_scale = (int)c.depth;
    out->bits    = q.bits;
    return QG_OK;
}

/* --- the schemes ----------------------------------------------------------------------------- */

#define EXPLAIN_RANGE                                                                                \
    "\n"                                                                                             \
    "    scale = (max - min) / (qmax - qmin)     qmin = 0, qmax = 2^bits - 1\n"             \
    "                                            narrow=yes (narrow_range): qmin = 1\n"              \
    "    zp    = qmin - min / scale, rounded     nmin, nmax: the range moved so that 0 is code zp\n" \
    "    q(x)  = the nearest of nmin, nmin + scale, .., nmax; ties up\n"                             \
    "    s(x)  = clip(x, nmin, nmax)             dx = dy where nmin <= x <= nmax, else 0\n"          \
    "\n"

#define EXPLAIN_LIMITS                                                                              \
    "0 always belongs to the range.  Until a batch has been seen, x passes unchanged.  NaN stays NaN\n" \
    "and has no gradient.  It does not rectify: a relu stays in front of it.\n"

#define EXPLAIN_DIFFERS                                                                             \
    "Other implementations: torch rounds ties to even and passes the gradient up to half a step\n"    \
    "outside the range; TFLite computes nmin + code * scale and differs at ties; TensorFlow's kernels\n" \
    "for one range divide by scale, those for given ranges and per channel multiply by its inverse,\n" \
    "and so does this one.\n"

/* Two bits less than it has, or next to nothing inside: a range so far from its tensor has been lost. */
static const qg_learned trained[] = {
    { .name = "min", .per_channel = true },
    { .name = "max", .per_channel = true },
    { .name = "seen", .tracked = true, .quiet = true },
    { .name = "span", .per_channel = true, .tracked = true, .low = 0.25f, .high = 100.0f },
    { .name = NULL }
};

static const qg_learned tracked[] = { { .name = "min", .per_channel = true, .tracked = true },
                                      { .name = "max", .per_channel = true, .tracked = true },
                                      { .name = "seen", .tracked = true, .quiet = true },
                                      { .name = NULL } };

static const qg_scheme learned_range = {
    .name        = "fake_quant",
    .variant     = "range=learned",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = trained,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = looks_now,
    .observe     = qg__range_learned_observe,
    .apply       = apply,
    .activation  = activation,
    .encode      = encode,
    .explain =
        "Uniform levels between a trained min and max.     tf.quantization.fake_quant_with_min_max_vars,\n"
        "with its gradients; levels and nudging as in Jacob et al. 2018, arXiv:1712.05877, sec. 3, which\n"
        "trains no range: that is range=observed.  Default for inputs, and in C for weights too.\n"
        EXPLAIN_RANGE
        "Learns min and max, per tensor, or per channel with per-channel=yes (per_channel):\n"
        "    dmin = g sum of dy where x < nmin,   dmax = g sum of dy where x > nmax,   g = 1 / sqrt(N)\n"
        "which takes nmin = min and nmax = max: the movement of the zero point is left out.  N is how many\n"
        "weights share the range, or how many features of one image.  TensorFlow's op has g = 1; a sum over\n"
        "a million weights then makes steps a thousand times those of a weight, and a range that has\n"
        "overshot the tensor has no gradient to bring it back.\n"
        "min and max start as those of the initial weights, or of the first batch of training, or where the\n"
        "options min and max say.  After each step min <= 0 <= max is restored, and a range narrower than\n"
        "2^-30 is opened to that.  Every 1024 steps the extent of the tensor over that of the range is\n"
        "noted as its span; training warns where it is below 1/4 or above 100.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "TensorFlow accepts min > max, and returns NaN or a constant for it.\n",
};

static const qg_scheme observed_range = {
    .name        = "fake_quant",
    .variant     = "range=observed",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = tracked,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = observes,
    .observe     = qg__range_observe,
    .apply       = apply,
    .activation  = activation,
    .encode      = encode,
    .explain =
        "Uniform levels between the observed minimum and maximum.\n"
        "                                       Jacob et al. 2018, arXiv:1712.05877, sec. 3.1\n"
        EXPLAIN_RANGE
        "Tracks min and max: r = decay r + (1 - decay) observed, decay 0.99 by default, the first batch\n"
        "taken as it is, in training only, while it waits too, and until freeze-after (freeze_after)\n"
        "steps, or always if that is 0.  A batch that is all 0 gives an empty range: y = 0 and dx = dy.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "tf.contrib.quantize starts its averages at -6 and 6, torch's at the first batch.\n",
};

static const qg_scheme percentile_range = {
    .name        = "fake_quant",
    .variant     = "range=percentile",
    .scales      = 2,     /* a scale and a zero point */
    .learned     = tracked,
    .roles       = QG_WEIGHT | QG_INPUT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .start       = qg__range_start,
    .observes    = observes,
    .observe     = qg__range_observe,
    .apply       = apply,
    .activation  = activation,
    .encode      = encode,
    .explain =
        "Uniform levels between observed percentiles, so that a few outliers do not cost resolution.\n"
        EXPLAIN_RANGE
        "Tracks min and max as range=observed does, but of each batch takes the value of rank\n"
        "ceil(percentile / 100 * m) of its m numbers and its mirror image from below, 99.99 by default.\n"
        "The ranks are exact: found digit by digit in the bits of the floats, which equals sorting.\n"
        EXPLAIN_LIMITS EXPLAIN_DIFFERS
        "Histogram observers, and percentiles that interpolate between ranks, give other ranges.\n",
};

static const qg_scheme fixed_range = {
    .name       = "fake_quant",
    .variant    = "range=fixed",
    .scales     = 2,     /* a scale and a zero point */
    .roles      = QG_WEIGHT | QG_INPUT,
    .check      = check,
    .apply      = apply,
    .activation = activation,
    .encode     = encode,
    .explain =
        "Uniform levels between a given min and max.    tf.quantization.fake_quant_with_min_max_args\n"
        EXPLAIN_RANGE
        "Learns nothing.  min < max, -6 and 6 by default; a range without 0 is moved until it has it,\n"
        "[2, 4] to [0, 2].  NaN stays NaN and has no gradient.  It does not rectify.\n"
        EXPLAIN_DIFFERS,
};

static const qg_scheme current_range_scheme = {
    .name        = "fake_quant",
    .variant     = "range=current",
    .roles       = QG_WEIGHT,
    .granularity = QG_EITHER_SCALE,
    .check       = check,
    .apply       = apply_current,
    .encode      = encode,
    .explain =
        "Weights on symmetric uniform levels that follow the largest of them.  Default for --weight.\n"
        "                                       Krishnamoorthi 2018, arXiv:1806.08342, sec. 2.2\n"
        "\n"
        "    m    = max|w|                           of the tensor, in every step; of each output channel\n"
        "                                            with per-channel=yes (per_channel)\n"
        "    q(w) = fake quantization with min = -m, max = m and, whatever narrow (narrow_range) says,\n"
        "           codes -(2^(bits-1) - 1) .. 2^(bits-1) - 1, 0 in the middle\n"
        "    s(w) = w                                nothing lies outside, m is a constant\n"
        "\n"
        "Learns nothing.  max|w| below 2^-31: q = 0.\n"
        "Other implementations: with one code more the zero point of a symmetric range falls between\n"
        "two codes, and float32 decides which; so it is not offered here.\n",
};

qg_quant qg_fake_quant(qg_fake_quant_spec spec)
{
    static const qg_scheme *const scheme[RANGE_KINDS] = { [QG_RANGE_LEARNED]    = &learned_range,
                                               [QG_RANGE_OBSERVED]   = &observed_range,
                                               [QG_RANGE_PERCENTILE] = &percentile_range,
                                               [QG_RANGE_FIXED]      = &fixed_range,
                                               [QG_RANGE_CURRENT]    = &current_range_scheme };
    const bool current = spec.range == QG_RANGE_CURRENT;
    const bool unset   = spec.range == QG_RANGE_FIXED && spec.min == 0.0f && spec.max == 0.0f;
    const bool known   = (unsigned)spec.range < RANGE_KINDS;
    qg_quant   q       = { .scheme       = known ? scheme[spec.range] : &fixed_range,   /* to be refused by check */
                           .bits         = spec.bits == 0 ? 8 : spec.bits,
                           .per_channel  = spec.per_channel,
                           .freeze_after = spec.freeze_after,
                           .surrogate    = spec.surrogate };
    if (current) q.surrogate = qg__surrogate_or(spec.surrogate, qg_surrogate_identity());
    q.arg[QG_ARG_KIND]       = (float)spec.range;
    q.arg[QG_ARG_NARROW]     = spec.narrow_range || current ? 1.0f : 0.0f;
    q.arg[QG_ARG_MIN]        = unset ? -6.0f : spec.min;
    q.arg[QG_ARG_MAX]        = unset ? 6.0f : spec.max;
    q.arg[QG_ARG_DECAY]      = spec.decay == 0.0f && averages(spec.range) ? 0.99f : spec.decay;
    q.arg[QG_ARG_PERCENTILE] = spec.percentile == 0.0f && spec.range == QG_RANGE_PERCENTILE ? 99.99f : spec.percentile;
    return q;
}
