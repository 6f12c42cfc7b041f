/* Fake quantization of weights and inputs: the nudged form, with one scheme for each kind of range.
 * The formulas are those of EXPLAIN_RANGE below, and with their roundings in qg__nudge. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { KIND, MIN, MAX, NARROW, DECAY, PERCENTILE, FREEZE, SUM };    /* indices in arg */
enum { AT_MIN, AT_MAX };                                            /* and in the learned values */

/* Values of min and max that were not given. */
#define NO_MIN (-1e9)
#define NO_MAX 1e9

/* The kinds of range for which a key has a meaning. */
#define GIVEN    .when = "range=learned|fixed"
#define AVERAGED .when = "range=observed|percentile"
#define KEYS(ranges)                                                                                                 \
    {                                                                                                                \
        QG_AS_KEY,                                                                                                   \
        { QG_BITS_KEY(8, 2, 16), .about = "bits per code" },                                                         \
        { .name = "range", .words = ranges, .is = QG_KEY_SHOWN, .about = "source of the range" },                    \
        { .name = "min", .fallback = NO_MIN, .min = -1e6, .max = 1e6, GIVEN, .below = "max",                      \
          .about = "lower end of a fixed range (default -6), or initial value of a learned one" },                   \
        { .name = "max", .fallback = NO_MAX, .min = -1e6, .max = 1e6, GIVEN, .about = "upper end (default 6)" },  \
        QG_PER_CHANNEL_KEY("one range per output channel of a weight, or per channel of an input"),                  \
        { .name = "narrow-range", .words = "no|yes", .when = "range=learned|observed|percentile|fixed",              \
          .alias = "narrow", .about = "one level fewer" },                                                           \
        { .name = "decay", .fallback = (double)0.99f, .min = 0.001, .max = 0.999999, AVERAGED,                       \
          .about = "decay of the moving averages" },                                                                 \
        { .name = "percentile", .fallback = (double)99.99f, .min = 50.01, .max = 100, .when = "range=percentile",    \
          .about = "percentile of each batch" },                                                                     \
        { .name = "freeze-after", .max = 1e15, .is = QG_KEY_WHOLE, AVERAGED,                                         \
          .about = "steps after which the range is fixed; 0: never" },                                               \
        { .name = "gradient", .words = "scaled|sum", .when = "range=learned",                                        \
          .about = "scaled: dmin and dmax times 1 / sqrt(number of values); sum: TensorFlow's" },                    \
        QG_OWN_SURROGATE_KEYS, { .name = NULL }                                                                      \
    }
#define RANGES "learned|observed|percentile|fixed"
static const qg_key keys[] = KEYS(RANGES), weight_keys[] = KEYS(RANGES "|current");
/* Version 1 of the defaults, for weights: inputs have no range=current. */
#define BEFORE "range=current,gradient=scaled"

/* --- the range -------------------------------------------------------------------------------- */

static qg_range_kind kind_of(qg_quant q) { return (qg_range_kind)q.arg[KIND]; }

/* -6 and 6 for an end that was not given. */
static qg_range range(qg_quant q)
{
    return (qg_range){ .kind         = kind_of(q),
                       .with_zero    = true,
                       .symmetric    = true,
                       .given        = q.arg[MIN] != NO_MIN || q.arg[MAX] != NO_MAX,
                       .min          = q.arg[MIN] == NO_MIN ? -6.0f : (float)q.arg[MIN],
                       .max          = q.arg[MAX] == NO_MAX ? 6.0f : (float)q.arg[MAX],
                       .decay        = (float)q.arg[DECAY],
                       .percentile   = q.arg[PERCENTILE],
                       .freeze_after = (uint64_t)q.arg[FREEZE] };
}

static qg_status nudge(qg_quant q, float min, float max, qg_levels *u)
{
    const bool narrow = q.arg[NARROW] != 0 || kind_of(q) == QG_RANGE_CURRENT;
    int        zero_point;
    return qg__nudge(q.bits, narrow, min, max, u, &zero_point);
}

/* The factor of the gradients of a learned min and max, 1 / sqrt(n), where n numbers share the range (of an input,
 * the numbers of one image count); 1 with gradient=sum. */
static double grad_scale(qg_quant q, double n) { return q.arg[SUM] != 0 ? 1 : 1 / sqrt(n); }

/* TensorFlow's operators disagree at ties, and each kind of range follows the operator it stands
 * for.  The step of a range that check_constants will reject is NaN.  q.numbers / x.split.depth
 * numbers share the range. */
static qg_constants constants(qg_quant q, qg_span x, const float *end)
{
    const bool trained = kind_of(q) == QG_RANGE_LEARNED;
    const double n     = x.numbers ? (double)x.numbers / (double)x.split.depth : 1;
    const float g      = trained ? (float)grad_scale(q, n) : 0.0f;
    qg_levels  u;
    if (nudge(q, end[0], end[1], &u)) u = (qg_levels){ .from = end[0], .to = end[1], .step = NAN };
    u.variant = !q.per_channel && kind_of(q) != QG_RANGE_FIXED ? 1.0f : 0.0f;
    return (qg_constants){ .uniform = u, .gain = { g, g } };
}

static qg_status check_constants(qg_quant q, const qg_constants *k)
{
    qg_levels u;
    return isnan(k->uniform.step) ? nudge(q, k->uniform.from, k->uniform.to, &u) : QG_OK;
}

/* min and max: a fixed range, or the start of a learned one, which contains 0. */
static qg_status check(qg_quant q)
{
    const qg_range r    = range(q);
    const double   min  = (double)r.min, max = (double)r.max;
    const char    *name = q.scheme->name;
    if (!r.given || (r.kind != QG_RANGE_FIXED && r.kind != QG_RANGE_LEARNED)) return QG_OK;
    if (!(r.min < r.max)) return qg_fail(QG_EARG, "%s: min is %g, not below max, %g", name, min, max);
    if (r.kind == QG_RANGE_LEARNED && !(r.min <= 0.0f && r.max >= 0.0f))
        return qg_fail(QG_EARG, "%s: a learned range must include 0, but %g .. %g does not", name, min, max);
    float     end[2] = { r.min, r.max };
    qg_levels u;
    qg__range_ends(r, (qg_span){ .n = 0 }, end);
    return nudge(q, end[0], end[1], &u);
}

/* s(to): the clip at the nudged ends.  The ends are nudged at `at`; from there to `to` they move as
 * far as min and max do, times g, and the zero point stays (qg_scheme.surrogate, for gradient
 * checks). */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const double all = (double)(q.role == QG_WEIGHT ? qg_count(at->shape) : qg_row(at->shape));
    const double n   = at->numbers ? (double)at->numbers : all;
    const double g   = grad_scale(q, n / (double)qg__spans(q, at->shape).depth);
    float        end[2] = { (float)at->learned[AT_MIN], (float)at->learned[AT_MAX] };
    qg_levels    u;
    qg__range_ends(range(q), (qg_span){ .n = 0 }, end);
    if (nudge(q, end[0], end[1], &u)) return (double)NAN;
    const double lo = (double)u.lo + g * (to->learned[AT_MIN] - at->learned[AT_MIN]);
    const double hi = (double)u.hi + g * (to->learned[AT_MAX] - at->learned[AT_MAX]);
    return fmin(fmax(to->x[i], lo), hi);
}

/* --- codes ------------------------------------------------------------------------------------ */

/* A range has the codes 0 .. most, shifted so that 0 stands for the value 0.  Where that is differs
 * from channel to channel, so that all channels together may have any of -most .. most. */
static qg_code_set codes(qg_quant q)
{
    const int most = (1 << q.bits) - (q.arg[NARROW] != 0 ? 2 : 1), half = (1 << (q.bits - 1)) - 1;
    if (kind_of(q) == QG_RANGE_CURRENT) return (qg_code_set){ -half, 1, 2 * half + 1, 0 };
    return q.per_channel ? (qg_code_set){ -most, 1, 2 * most + 1, most + 1 } : (qg_code_set){ 0, 1, most + 1, 0 };
}

/* With a single range the learned values say where its codes begin. */
static qg_status encode(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out)
{
    const qg_status s = qg__form_encode(q, x, learned, out);
    if (s || q.per_channel || kind_of(q) == QG_RANGE_CURRENT) return s;
    const qg_levels u = qg__form_constants(q, (qg_span){ .split = { 1, 1, 0 } }, learned).uniform;
    qg__codes_from(1, &u.lo, u.step, &out->set.lowest);
    return QG_OK;
}

/* --- the schemes ----------------------------------------------------------------------------- */

#define EXPLAIN_RANGE                                                                                \
    "\n"                                                                                             \
    "    scale = (max - min) / (qmax - qmin)     qmin = 0, qmax = 2^bits - 1\n"             \
    "                                            narrow-range=yes (narrow_range): qmin = 1\n"        \
    "    zp    = qmin - min / scale, rounded     nmin, nmax: the range moved so that 0 is code zp\n" \
    "    q(x)  = the nearest of nmin, nmin + scale, .., nmax; ties up\n"                             \
    "    s(x)  = clip(x, nmin, nmax)             dx = dy where nmin <= x <= nmax, else 0\n"          \
    "\n"

#define EXPLAIN_LIMITS                                                                              \
    "\n"                                                                                               \
    "The range always includes 0.  NaN stays NaN and has no gradient.  The scheme does not rectify:\n" \
    "keep the relu before it.\n"                                                                       \
    "Other implementations: torch rounds ties to even and passes the gradient up to half a step\n"     \
    "outside the range; TFLite computes nmin + code * scale and differs at ties.  As in TensorFlow,\n" \
    "one range divides by scale; fixed ranges and channels multiply by its inverse.\n"

static qg_quant complete(qg_quant q);

/* SCHEME: the members that all of them have.  INPUTS_TOO: those of schemes that also quantize
 * inputs, where a batch norm may apply the quantizer to its result (.activation). */
#define SCHEME                                                                                              \
    .name = "fake_quant", .about = "2^bits levels over a range", .keys = keys, .weight_keys = weight_keys,  \
    .paper = "gradient=sum", .before = BEFORE, .complete = complete, .check = check, .range = range,        \
    .form = &qg_nudged_form, .constants = constants, .check_constants = check_constants, .codes = codes, .encode = encode
#define INPUTS_TOO                                                                                          \
    .roles = QG_WEIGHT | QG_INPUT, .scales = 2 /* and a zero point */, .own_slope = true, .surrogate = surrogate, \
    .ops = QG_ACTIVATION_OR_FORM_OPS("fake_quant"), .activation = qg_form_activation

const qg_scheme qg__fake_quant_scheme = {
    SCHEME,
    INPUTS_TOO,
    .learned     = qg_learned_range,
    .variant     = "range=learned",
    .granularity = QG_EITHER_SCALE,
    .explain =
        "Uniform levels between a trained min and max.     tf.quantization.fake_quant_with_min_max_vars,\n"
        "with its gradients; levels and nudging as in Jacob et al. 2018, arXiv:1712.05877, sec. 3.\n"
        EXPLAIN_RANGE
        "Learns min and max, per tensor, or per channel with per-channel=yes (per_channel):\n"
        "    dmin = g sum of dy where x < nmin,   dmax = g sum of dy where x > nmax,   g = 1 / sqrt(N)\n"
        "These neglect nudging.  N is the number of weights, or of features of one image, that share the\n"
        "range.  TensorFlow's op has g = 1, as gradient=sum (sum_gradient): with a million weights the\n"
        "range can then become far wider than the tensor, and never returns.\n"
        "min and max start at the values of these options, else at the extent of the initial weights or\n"
        "of the first training batch that is finite and not all 0; until then x passes unchanged.  After\n"
        "each step min <= 0 <= max is restored, and a range below 2^-30 is widened to that.  With\n"
        "--fold-batchnorm and 8 bits range=current follows the weights better.\n"
        EXPLAIN_LIMITS,
};

static const qg_scheme observed_range = {
    SCHEME,
    INPUTS_TOO,
    .learned     = qg_tracked_range,
    .variant     = "range=observed",
    .granularity = QG_EITHER_SCALE,
    .explain =
        "Uniform levels between the observed minimum and maximum.\n"
        "                                       Jacob et al. 2018, arXiv:1712.05877, sec. 3.1\n"
        EXPLAIN_RANGE
        "Tracks min and max: r = decay r + (1 - decay) observed; the first batch sets r, until which x\n"
        "passes unchanged.  r moves only in training, also while --quantize-after delays the quantizer,\n"
        "and stops after freeze-after (freeze_after) steps.  A batch of zeros gives an empty range: y = 0\n"
        "and dx = dy.  tf.contrib.quantize starts at -6 and 6.\n"
        EXPLAIN_LIMITS,
};

static const qg_scheme percentile_range = {
    SCHEME,
    INPUTS_TOO,
    .learned     = qg_tracked_range,
    .variant     = "range=percentile",
    .granularity = QG_EITHER_SCALE,
    .explain =
        "Uniform levels between observed percentiles, so that a few outliers do not cost resolution.\n"
        EXPLAIN_RANGE
        "Tracks min and max as range=observed does.  The max of a batch of m values is the one of rank\n"
        "ceil(percentile / 100 * m), counted from the smallest; its min is the one of the same rank\n"
        "counted from the largest.  Histogram observers give other ranges.\n"
        EXPLAIN_LIMITS,
};

static const qg_scheme fixed_range = {
    SCHEME,
    INPUTS_TOO,
    .variant = "range=fixed",
    .explain =
        "Uniform levels between a given min and max.    tf.quantization.fake_quant_with_min_max_args\n"
        EXPLAIN_RANGE
        "Learns nothing.  A range that does not include 0 is shifted until it does, [2, 4] to [0, 2].\n"
        EXPLAIN_LIMITS,
};

static const qg_scheme current_range = {
    SCHEME,
    .variant     = "range=current",
    .roles       = QG_WEIGHT,
    .granularity = QG_EITHER_SCALE,
    .ops         = QG_FORM_OPS("fake_quant"),
    .own         = qg__straight_through,
    .explain =
        "Weights on symmetric uniform levels up to the largest |w|.\n"
        "                                       Krishnamoorthi 2018, arXiv:1806.08342, sec. 2.2\n"
        "\n"
        "    m    = max|w|                           of the tensor, computed in every step; per output\n"
        "                                            channel with per-channel=yes (per_channel)\n"
        "    q(w) = fake quantization with min = -m, max = m and codes -(2^(bits-1) - 1) .. 2^(bits-1) - 1\n"
        "    s(w) = w                                nothing is clipped; m is a constant\n"
        "\n"
        "Learns nothing.  If max|w| is below 2^-31, q = 0.\n"
        "Other implementations use one code more, and the zero point then falls between two codes.\n",
};

static qg_quant complete(qg_quant q)
{
    static const qg_scheme *const scheme[] = { [QG_RANGE_LEARNED]    = &qg__fake_quant_scheme,
                                               [QG_RANGE_OBSERVED]   = &observed_range,
                                               [QG_RANGE_PERCENTILE] = &percentile_range,
                                               [QG_RANGE_FIXED]      = &fixed_range,
                                               [QG_RANGE_CURRENT]    = &current_range };
    const bool known = (unsigned)kind_of(q) < sizeof scheme / sizeof *scheme;
    q.scheme = known ? scheme[kind_of(q)] : &fixed_range;     /* no such kind: the keys reject it */
    return q;
}

qg_quant qg_fake_quant(qg_fake_quant_spec spec)
{
    const bool given = spec.min != 0 || spec.max != 0;
    const bool ends  = spec.range == QG_RANGE_LEARNED || spec.range == QG_RANGE_FIXED;
    return qg_quant_defaults((qg_quant){ .scheme      = &qg__fake_quant_scheme,
                                         .bits        = spec.bits,
                                         .per_channel = spec.per_channel,
                                         .surrogate   = spec.surrogate,
                                         .arg         = { [KIND]       = (int)spec.range,
                                                          [MIN]        = given || !ends ? spec.min : NO_MIN,
                                                          [MAX]        = given || !ends ? spec.max : NO_MAX,
                                                          [NARROW]     = spec.narrow_range,
                                                          [DECAY]      = spec.decay,
                                                          [PERCENTILE] = spec.percentile,
                                                          [FREEZE]     = (double)spec.freeze_after,
                                                          [SUM]        = spec.sum_gradient } });
}
