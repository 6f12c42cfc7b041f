/* Every scheme that the command line knows.  A surrogate= that is left out is the scheme's own. */
#include "cli/config/scheme_table.h"

#include "cli/config/schemes.h"

#define NUMBER(key, own, least, most) .name = key, .fallback = own, .min = least, .max = most
#define WORDS(key, list)              .name = key, .words = list
#define NO_YES(key)                   WORDS(key, "no|yes")
#define BITS_OF(own, least, most)     NUMBER("bits", own, least, most), .is = WHOLE | SHOWN

/* --- surrogates --------------------------------------------------------------------------- */

/* Of a scheme whose own is in that list, at index own; and of one with a slope no other has. */
#define SURROGATE(own) { .name = "surrogate", .fallback = own, .words = SURROGATES }, SURROGATE_ARG
#define OWN_SURROGATE  { WORDS("surrogate", "own|" SURROGATES) }, SURROGATE_ARG
#define SURROGATE_ARG  { NUMBER("surrogate-arg", 0, 0.001, 1000), .when = "surrogate=clip|swish|tanh" }

enum { IDENTITY_SLOPE, CLIP, APPROX_SIGN, SWISH, TANH, ANNEALED_TANH };

/* value[0] is the index in SURROGATES, value[1] what surrogate-arg says: the bound of clip, the beta
 * of swish, the temperature of tanh.  The steps of annealed-tanh are set where the run is known. */
static qg_surrogate surrogate(const double *value)
{
    const int   kind = (int)value[0];
    const float arg = value[1] > 0 ? (float)value[1] : kind == SWISH ? 5.0f : 1.0f;
    return kind == IDENTITY_SLOPE ? qg_surrogate_identity()
           : kind == CLIP         ? qg_surrogate_clip(arg)
           : kind == APPROX_SIGN  ? qg_surrogate_approx_sign()
           : kind == SWISH        ? qg_surrogate_swish(arg)
           : kind == TANH         ? qg_surrogate_tanh(arg)
                                  : qg_surrogate_annealed_tanh(0);
}

static qg_surrogate own_surrogate(const double *value)
{
    return value[0] == 0 ? (qg_surrogate){ 0 } : surrogate((double[]){ value[0] - 1, value[1] });
}

/* --- weights ------------------------------------------------------------------------------ */

static qg_quant make_float(const double *v)
{
    (void)v;
    return (qg_quant){ 0 };
}

static qg_quant make_twn(const double *v)
{
    return qg_twn((qg_twn_spec){
        .threshold = (float)v[0], .per_channel = v[1] != 0, .surrogate = surrogate(v + 2) });
}

static qg_quant make_binary(const double *v)
{
    return qg_binary((qg_binary_spec){ .surrogate = surrogate(v) });
}

static qg_quant make_binary_channel(const double *v)
{
    return qg_binary((qg_binary_spec){ .per_channel = true, .surrogate = surrogate(v) });
}

static qg_quant make_ste_tern(const double *v)
{
    return qg_ste_tern((qg_ste_tern_spec){
        .threshold = (float)v[0], .relative = v[1] != 0, .surrogate = surrogate(v + 2) });
}

static qg_quant make_ttq(const double *v)
{
    return qg_ttq((qg_ttq_spec){ .threshold = (float)v[0],
                                 .rule = v[1] != 0 ? QG_TTQ_AS_PRINTED : QG_TTQ_EXACT,
                                 .start_from_weights = v[2] != 0,
                                 .decay = (float)v[3],
                                 .scaled_gradient = v[4] != 0,
                                 .per_channel = v[5] != 0,
                                 .surrogate = own_surrogate(v + 6) });
}

static qg_quant make_dorefa_weight(const double *v)
{
    return qg_dorefa_weight((qg_dorefa_weight_spec){
        .bits = (int)v[0], .through_max = v[1] != 0, .per_channel = v[2] != 0, .surrogate = own_surrogate(v + 3) });
}

static qg_quant make_xnor_weight(const double *v)
{
    static const qg_xnor_rule rule[] = { QG_XNOR_EXACT, QG_XNOR_PAPER, QG_XNOR_AUTHORS,
                                         QG_XNOR_AUTHORS_ADAM, QG_XNOR_IDENTITY };
    return qg_xnor((qg_xnor_spec){
        .rule = rule[(int)v[0]], .centred = v[1] != 0, .surrogate = own_surrogate(v + 2) });
}

static qg_quant make_magnitude_aware(const double *v)
{
    return qg_magnitude_aware((qg_magnitude_aware_spec){ .surrogate = surrogate(v) });
}

#define GLOROT_LR                                                                                  \
    {                                                                                              \
        WORDS("glorot-lr", "off|adam|sgd")                                                         \
    }

static qg_glorot_lr glorot_lr(double index)
{
    return index == 0 ? QG_GLOROT_OFF : index == 1 ? QG_GLOROT_ADAM : QG_GLOROT_SGD;
}

static qg_quant make_binaryconnect(const double *v)
{
    return qg_binaryconnect((qg_binaryconnect_spec){ .stochastic = v[0] != 0,
                                                     .float_eval = v[1] != 0,
                                                     .unit_start = v[2] != 0,
                                                     .glorot_lr = glorot_lr(v[3]),
                                                     .surrogate = surrogate(v + 4) });
}

static qg_quant make_bnn(const double *v)
{
    return qg_bnn((qg_bnn_spec){
        .unit_start = v[0] != 0, .glorot_lr = glorot_lr(v[1]), .surrogate = surrogate(v + 2) });
}

static qg_quant make_bop(const double *v)
{
    (void)v;
    return qg_bop_weight();
}

static qg_quant make_lsq_weight(const double *v)
{
    return qg_lsq(
        (qg_lsq_spec){ .bits = (int)v[0], .is_signed = true, .surrogate = own_surrogate(v + 1) });
}

static qg_quant make_unit(const double *v, bool zero)
{
    return qg_unit(
        (qg_unit_spec){ .bits = (int)v[0], .zero = zero, .surrogate = own_surrogate(v + 2) });
}

/* 1 bit has no room for a zero. */
static qg_quant make_unit_weight(const double *v)
{
    return make_unit(v, v[1] == 0 && v[0] > 1);
}
static qg_quant make_unit_input(const double *v)
{
    return make_unit(v, v[1] != 0);
}

/* --- fake_quant --------------------------------------------------------------------------- */

enum { BITS, RANGE, MIN, MAX, PER_CHANNEL, NARROW, DECAY, PERCENTILE, FREEZE, FAKE_SURROGATE };

/* An end of the range that was not given is no legal number, so that one which was, -6 for instance, is
 * kept in the spelling. */
#define NO_MIN  (-1e9)
#define NO_MAX  1e9
#define GIVEN    .when = "range=learned|fixed"
#define AVERAGED .when = "range=observed|percentile"
#define FAKE_QUANT(ranges, free)                                                                   \
    {                                                                                              \
        { BITS_OF(8, 2, 16) }, { WORDS("range", ranges), .is = SHOWN },                                    \
            { NUMBER("min", NO_MIN, -1e6, 1e6), GIVEN, .below = "max" },                           \
            { NUMBER("max", NO_MAX, -1e6, 1e6), GIVEN },                                           \
            { NO_YES("per-channel") }, { NO_YES("narrow"), .when = free },                         \
            { NUMBER("decay", (double)0.99f, 0.001, 0.999999), AVERAGED },                         \
            { NUMBER("percentile", (double)99.99f, 50.01, 100), .when = "range=percentile" },      \
            { NUMBER("freeze-after", 0, 0, 1e15), .is = WHOLE, AVERAGED }, OWN_SURROGATE           \
    }

static qg_quant make_fake_quant(const double *v, qg_range_kind range)
{
    const bool         average = range == QG_RANGE_OBSERVED || range == QG_RANGE_PERCENTILE;
    qg_fake_quant_spec s       = { .bits         = (int)v[BITS],
                                   .range        = range,
                                   .per_channel  = v[PER_CHANNEL] != 0,
                                   .narrow_range = v[NARROW] != 0,
                                   .decay        = average ? (float)v[DECAY] : 0.0f,
                                   .percentile   = range == QG_RANGE_PERCENTILE ? (float)v[PERCENTILE] : 0.0f,
                                   .freeze_after = (uint64_t)v[FREEZE],
                                   .surrogate    = own_surrogate(v + FAKE_SURROGATE) };
    if (v[MIN] != NO_MIN || v[MAX] != NO_MAX) {
        s.min = v[MIN] == NO_MIN ? -6.0f : (float)v[MIN];
        s.max = v[MAX] == NO_MAX ? 6.0f : (float)v[MAX];
    }
    return qg_fake_quant(s);
}

static qg_quant make_fake_quant_weight(const double *v)
{
    static const qg_range_kind range[] = { QG_RANGE_CURRENT, QG_RANGE_LEARNED, QG_RANGE_OBSERVED,
                                           QG_RANGE_PERCENTILE, QG_RANGE_FIXED };
    return make_fake_quant(v, range[(int)v[RANGE]]);
}

static qg_quant make_fake_quant_input(const double *v)
{
    static const qg_range_kind range[] = { QG_RANGE_LEARNED, QG_RANGE_OBSERVED, QG_RANGE_PERCENTILE,
                                           QG_RANGE_FIXED };
    return make_fake_quant(v, range[(int)v[RANGE]]);
}

/* --- inputs ------------------------------------------------------------------------------- */

static qg_quant make_sign(const double *v)
{
    return qg_binary_activation((qg_binary_activation_spec){ .surrogate = surrogate(v) });
}

static qg_quant make_xnor_input(const double *v)
{
    return qg_xnor_activation(
        (qg_xnor_activation_spec){ .no_scale = v[0] != 0, .surrogate = surrogate(v + 1) });
}

static qg_quant make_dorefa_input(const double *v)
{
    return qg_dorefa_activation((qg_dorefa_activation_spec){
        .bits = (int)v[0], .ties_up = v[1] != 0, .surrogate = own_surrogate(v + 2) });
}

static qg_quant make_lsq_input(const double *v)
{
    return qg_lsq((qg_lsq_spec){
        .bits = (int)v[0], .is_signed = v[1] != 0, .surrogate = own_surrogate(v + 2) });
}

static qg_quant make_pact(const double *v)
{
    qg_quant q = qg_pact((qg_pact_spec){
        .bits = (int)v[0], .alpha = (float)v[1], .surrogate = own_surrogate(v + 3) });
    q.decay = (float)v[2];
    return q;
}

static qg_quant make_linear(const double *v)
{
    return qg_linear_mid_tread_half((qg_linear_mid_tread_half_spec){
        .bits = (int)v[0], .max_value = (float)v[1], .surrogate = own_surrogate(v + 2) });
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_quant make_dorefa_gradient(const double *v)
{
    return qg_dorefa_gradient(
        (qg_dorefa_gradient_spec){ .bits = (int)v[0], .no_noise = v[1] != 0 });
}

/* --- the table ---------------------------------------------------------------------------- */

#define THRESHOLD(own) { NUMBER("threshold", own, 0.01, 10) }

const scheme_row scheme_rows[SCHEME_ROWS] = {
    { "float", FOR_WEIGHT | FOR_INPUT | FOR_GRADIENT, { { 0 } }, make_float, "not quantized" },

    { "twn", FOR_WEIGHT, { THRESHOLD((double)0.7f), { NO_YES("per-channel") }, SURROGATE(IDENTITY_SLOPE) },
      make_twn, "{-a, 0, +a}, one a per layer" },
    { "binary", FOR_WEIGHT, { SURROGATE(IDENTITY_SLOPE) }, make_binary, "{-a, +a}, one a per layer" },
    { "binary-channel", FOR_WEIGHT, { SURROGATE(IDENTITY_SLOPE) }, make_binary_channel,
      "{-a, +a}, one a per output channel" },
    { "ste-tern", FOR_WEIGHT, { THRESHOLD(0), { NO_YES("relative") }, SURROGATE(CLIP) }, make_ste_tern,
      "{-1, 0, +1}" },
    { "ttq", FOR_WEIGHT,
      { { NUMBER("t", (double)0.05f, 0.0001, 0.9999) }, { WORDS("rule", "exact|as-printed") },
        { WORDS("start", "one|weights") }, { NUMBER("decay", 0, 0, 10) }, { WORDS("gradient", "sum|scaled") },
        { NO_YES("per-channel") }, OWN_SURROGATE },
      make_ttq, "{-Wn, 0, +Wp}, both learned" },
    { "dorefa", FOR_WEIGHT,
      { { BITS_OF(2, 1, 16) }, { WORDS("max", "constant|through"), .when = "bits=2..16" }, { NO_YES("per-channel") },
        OWN_SURROGATE },
      make_dorefa_weight, "odd multiples of 1 / (2^bits - 1); 1 bit: {-a, +a}" },
    { "xnor", FOR_WEIGHT,
      { { WORDS("rule", "exact|paper|authors|authors-adam|identity") }, { WORDS("latent", "free|centred") },
        OWN_SURROGATE },
      make_xnor_weight, "{-a, +a}, one a per output channel" },
    { "magnitude-aware", FOR_WEIGHT, { SURROGATE(CLIP) }, make_magnitude_aware,
      "{-a, +a}, one a per output channel, as in Bi-Real Net" },
    { "binaryconnect", FOR_WEIGHT,
      { { WORDS("draw", "det|stoch") }, { WORDS("eval", "sign|float") }, { WORDS("start", "net|unit") }, GLOROT_LR,
        SURROGATE(IDENTITY_SLOPE) },
      make_binaryconnect, "{-1, +1}, latent weights in [-1, 1]" },
    { "bnn", FOR_WEIGHT, { { WORDS("start", "net|unit") }, GLOROT_LR, SURROGATE(CLIP) }, make_bnn,
      "{-1, +1}, latent weights in [-1, 1]" },
    { "bop", FOR_WEIGHT, { { 0 } }, make_bop, "{-1, +1} without latent weights: --optimizer bop" },
    { "fake_quant", FOR_WEIGHT, FAKE_QUANT("current|learned|observed|percentile|fixed", "range=learned|observed|percentile|fixed"),
      make_fake_quant_weight, "2^bits levels over a range" },
    { "lsq", FOR_WEIGHT, { { BITS_OF(2, 2, 16) }, OWN_SURROGATE }, make_lsq_weight,
      "multiples of a learned step" },
    { "unit", FOR_WEIGHT, { { BITS_OF(2, 1, 8) }, { WORDS("zero", "yes|no"), .when = "bits=2..8" }, OWN_SURROGATE }, make_unit_weight,
      "uniform levels of [-1, 1], 0 among them from 2 bits on" },

    { "sign", FOR_INPUT, { SURROGATE(CLIP) }, make_sign, "{-1, +1}" },
    { "xnor", FOR_INPUT, { { WORDS("scale", "on|off") }, SURROGATE(CLIP) }, make_xnor_input,
      "{-1, +1}, and the product times the mean |x| of its window if scale is on" },
    { "dorefa", FOR_INPUT, { { BITS_OF(2, 1, 8), .also = 32 }, { WORDS("ties", "even|up"), .when = "bits=1..8" }, OWN_SURROGATE },
      make_dorefa_input, "2^bits levels in [0, 1]" },
    { "fake_quant", FOR_INPUT, FAKE_QUANT("learned|observed|percentile|fixed", NULL), make_fake_quant_input,
      "2^bits levels over a range, behind the relu" },
    { "lsq", FOR_INPUT, { { BITS_OF(2, 1, 16) }, { NO_YES("signed") }, OWN_SURROGATE }, make_lsq_input,
      "multiples of a learned step" },
    { "pact", FOR_INPUT,
      { { BITS_OF(4, 1, 16), .also = 32 }, { NUMBER("alpha", 10, 1e-6, 1e6) },
        { NUMBER("decay", (double)2e-4f, 1e-9, 10) }, OWN_SURROGATE },
      make_pact, "2^bits levels in [0, a], a learned" },
    { "linear", FOR_INPUT, { { BITS_OF(2, 1, 16), .also = 32 }, { NUMBER("max", 2, 1e-6, 1e6) }, OWN_SURROGATE },
      make_linear, "2^bits levels in [0, max]" },
    { "unit", FOR_INPUT, { { BITS_OF(2, 1, 8) }, { NO_YES("zero") }, OWN_SURROGATE }, make_unit_input,
      "2^bits levels of [-1, 1], none at 0; with zero one less" },

    { "dorefa", FOR_GRADIENT, { { BITS_OF(6, 1, 8) }, { WORDS("noise", "on|off") } }, make_dorefa_gradient,
      "2^bits levels up to the largest of each image, with noise" },
};
