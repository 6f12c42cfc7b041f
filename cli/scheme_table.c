/* Every scheme that the command line knows.  A surrogate= that is left out is the scheme's own. */
#include "cli/scheme_table.h"

#include "cli/schemes.h"

/* --- surrogates --------------------------------------------------------------------------- */

/* Of a scheme whose own is in that list, at index own; and of one with a slope no other has. */
#define SURROGATE(own) { "surrogate", own, 0, 0, SURROGATES, 0, 0 }, SURROGATE_ARG
#define OWN_SURROGATE  { "surrogate", 0, 0, 0, "own|" SURROGATES, 0, 0 }, SURROGATE_ARG
#define SURROGATE_ARG  { "surrogate-arg", 0, 0.001, 1000, NULL, 0, 0 }

enum { IDENTITY_SLOPE, CLIP, APPROX_SIGN, SWISH, TANH, ANNEALED_TANH };

/* value[0] is the index in SURROGATES, value[1] what surrogate-arg says: the bound of clip, the beta
 * of swish, the temperature of tanh.  The steps of annealed-tanh are set where the run is known. */
static qg_status surrogate(const double *value, qg_surrogate *s)
{
    const int   kind = (int)value[0];
    const float arg  = value[1] > 0 ? (float)value[1] : kind == SWISH ? 5.0f : 1.0f;
    if (value[1] > 0 && kind != CLIP && kind != SWISH && kind != TANH)
        return qg_fail(QG_EARG, "surrogate-arg is a number of clip, swish and tanh alone");
    *s = kind == IDENTITY_SLOPE ? qg_ste_identity()
         : kind == CLIP         ? qg_ste_clip(arg)
         : kind == APPROX_SIGN  ? qg_ste_approx_sign()
         : kind == SWISH        ? qg_ste_swish(arg)
         : kind == TANH         ? qg_ste_tanh(arg)
                                : qg_ste_annealed_tanh(0);
    return QG_OK;
}

static qg_status own_surrogate(const double *value, qg_surrogate *s)
{
    *s = (qg_surrogate){ 0 };
    if (value[0] == 0)
        return value[1] > 0 ? qg_fail(QG_EARG, "surrogate-arg needs a surrogate") : QG_OK;
    return surrogate((double[]){ value[0] - 1, value[1] }, s);
}

/* --- weights ------------------------------------------------------------------------------ */

static qg_status make_float(const double *v, qg_quant *q)
{
    (void)v;
    *q = (qg_quant){ 0 };
    return QG_OK;
}

static qg_status make_twn(const double *v, qg_quant *q)
{
    qg_twn_spec     s      = { .threshold = (float)v[0], .per_channel = v[1] != 0 };
    const qg_status status = surrogate(v + 2, &s.surrogate);
    *q = qg_twn(s);
    return status;
}

static qg_status make_binary(const double *v, qg_quant *q)
{
    qg_binary_spec  s      = { 0 };
    const qg_status status = surrogate(v, &s.surrogate);
    *q = qg_binary(s);
    return status;
}

static qg_status make_binary_channel(const double *v, qg_quant *q)
{
    qg_binary_spec  s      = { .per_channel = true };
    const qg_status status = surrogate(v, &s.surrogate);
    *q = qg_binary(s);
    return status;
}

static qg_status make_ste_tern(const double *v, qg_quant *q)
{
    qg_ste_tern_spec s      = { .threshold = (float)v[0], .relative = v[1] != 0 };
    const qg_status  status = surrogate(v + 2, &s.surrogate);
    *q = qg_ste_tern(s);
    return status;
}

static qg_status make_ttq(const double *v, qg_quant *q)
{
    qg_ttq_spec s = { .threshold          = (float)v[0],
                      .rule               = v[1] != 0 ? QG_TTQ_AS_PRINTED : QG_TTQ_EXACT,
                      .start_from_weights = v[2] != 0,
                      .decay              = (float)v[3] };
    const qg_status status = own_surrogate(v + 4, &s.surrogate);
    *q = qg_ttq(s);
    return status;
}

static qg_status make_dorefa_weight(const double *v, qg_quant *q)
{
    qg_dorefa_weight_spec s      = { .bits = (int)v[0], .through_max = v[1] != 0 };
    const qg_status       status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_dorefa_weight(s);
    return status;
}

static qg_status make_xnor_weight(const double *v, qg_quant *q)
{
    static const qg_xnor_rule rule[] = { QG_XNOR_EXACT, QG_XNOR_PAPER, QG_XNOR_AUTHORS,
                                         QG_XNOR_AUTHORS_ADAM, QG_XNOR_IDENTITY };
    qg_xnor_spec    s      = { .rule = rule[(int)v[0]], .centred = v[1] != 0 };
    const qg_status status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_xnor(s);
    return status;
}

static qg_status make_magnitude_aware(const double *v, qg_quant *q)
{
    qg_magnitude_aware_spec s      = { 0 };
    const qg_status         status = surrogate(v, &s.surrogate);
    *q = qg_magnitude_aware(s);
    return status;
}

#define GLOROT_LR { "glorot-lr", 0, 0, 0, "off|adam|sgd", 0, 0 }

static qg_glorot_lr glorot_lr(double index)
{
    return index == 0 ? QG_GLOROT_OFF : index == 1 ? QG_GLOROT_ADAM : QG_GLOROT_SGD;
}

static qg_status make_binaryconnect(const double *v, qg_quant *q)
{
    qg_binaryconnect_spec s = { .stochastic = v[0] != 0,
                                .float_eval = v[1] != 0,
                                .unit_start = v[2] != 0,
                                .glorot_lr  = glorot_lr(v[3]) };
    const qg_status status = surrogate(v + 4, &s.surrogate);
    *q = qg_binaryconnect(s);
    return status;
}

static qg_status make_bnn(const double *v, qg_quant *q)
{
    qg_bnn_spec     s      = { .unit_start = v[0] != 0, .glorot_lr = glorot_lr(v[1]) };
    const qg_status status = surrogate(v + 2, &s.surrogate);
    *q = qg_bnn(s);
    return status;
}

static qg_status make_bop(const double *v, qg_quant *q)
{
    (void)v;
    *q = qg_bop_weight();
    return QG_OK;
}

static qg_status make_lsq_weight(const double *v, qg_quant *q)
{
    qg_lsq_spec     s      = { .bits = (int)v[0], .is_signed = true };
    const qg_status status = own_surrogate(v + 1, &s.surrogate);
    *q = qg_lsq(s);
    return status;
}

static qg_status make_unit(const double *v, bool zero, qg_quant *q)
{
    qg_unit_spec    s      = { .bits = (int)v[0], .zero = zero };
    const qg_status status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_unit(s);
    return status;
}

/* 1 bit has no room for a zero. */
static qg_status make_unit_weight(const double *v, qg_quant *q)
{
    return make_unit(v, v[1] == 0 && v[0] > 1, q);
}

static qg_status make_unit_input(const double *v, qg_quant *q) { return make_unit(v, v[1] != 0, q); }

/* --- fake_quant --------------------------------------------------------------------------- */

enum { BITS, RANGE, MIN, MAX, PER_CHANNEL, NARROW, DECAY, PERCENTILE, FREEZE, FAKE_SURROGATE };

#define FIRST_MIN        (-6.0)
#define FIRST_MAX        6.0
#define FIRST_DECAY      ((double)0.99f)
#define FIRST_PERCENTILE ((double)99.99f)

#define FAKE_QUANT(ranges)                                                                         \
    {                                                                                              \
        { "bits", 8, 2, 16, NULL, WHOLE | SHOWN, 0 }, { "range", 0, 0, 0, ranges, SHOWN, 0 },      \
            { "min", FIRST_MIN, -1e6, 1e6, NULL, 0, 0 }, { "max", FIRST_MAX, -1e6, 1e6, NULL, 0, 0 }, \
            { "per-channel", 0, 0, 0, "no|yes", 0, 0 }, { "narrow", 0, 0, 0, "no|yes", 0, 0 },     \
            { "decay", FIRST_DECAY, 0.001, 0.999999, NULL, 0, 0 },                                 \
            { "percentile", FIRST_PERCENTILE, 50.01, 100, NULL, 0, 0 },                            \
            { "freeze-after", 0, 0, 1e15, NULL, WHOLE, 0 }, OWN_SURROGATE                          \
    }

static qg_status make_fake_quant(const double *v, qg_range_kind range, qg_quant *q)
{
    const bool observed = range == QG_RANGE_OBSERVED || range == QG_RANGE_PERCENTILE;
    qg_fake_quant_spec s = { .bits         = (int)v[BITS],
                             .range        = range,
                             .min          = (float)v[MIN],
                             .max          = (float)v[MAX],
                             .per_channel  = v[PER_CHANNEL] != 0,
                             .narrow_range = v[NARROW] != 0,
                             .decay        = (float)v[DECAY],
                             .percentile   = (float)v[PERCENTILE],
                             .freeze_after = (uint64_t)v[FREEZE] };
    if (range != QG_RANGE_FIXED && (v[MIN] != FIRST_MIN || v[MAX] != FIRST_MAX))
        return qg_fail(QG_EARG, "min and max are of range=fixed alone");
    if (!(s.min < s.max))
        return qg_fail(QG_EARG, "min is %g, not below max, %g", (double)s.min, (double)s.max);
    if (!observed && (v[DECAY] != FIRST_DECAY || v[FREEZE] != 0))
        return qg_fail(QG_EARG, "decay and freeze-after are of range=observed and range=percentile alone");
    if (range != QG_RANGE_PERCENTILE && v[PERCENTILE] != FIRST_PERCENTILE)
        return qg_fail(QG_EARG, "percentile is of range=percentile alone");
    const qg_status status = own_surrogate(v + FAKE_SURROGATE, &s.surrogate);
    *q = qg_fake_quant(s);
    return status;
}

static qg_status make_fake_quant_weight(const double *v, qg_quant *q)
{
    static const qg_range_kind range[] = { QG_RANGE_CURRENT, QG_RANGE_LEARNED, QG_RANGE_OBSERVED,
                                           QG_RANGE_PERCENTILE, QG_RANGE_FIXED };
    return make_fake_quant(v, range[(int)v[RANGE]], q);
}

static qg_status make_fake_quant_input(const double *v, qg_quant *q)
{
    static const qg_range_kind range[] = { QG_RANGE_LEARNED, QG_RANGE_OBSERVED, QG_RANGE_PERCENTILE,
                                           QG_RANGE_FIXED };
    return make_fake_quant(v, range[(int)v[RANGE]], q);
}

/* --- inputs ------------------------------------------------------------------------------- */

static qg_status make_sign(const double *v, qg_quant *q)
{
    qg_binary_activation_spec s      = { 0 };
    const qg_status           status = surrogate(v, &s.surrogate);
    *q = qg_binary_activation(s);
    return status;
}

static qg_status make_xnor_input(const double *v, qg_quant *q)
{
    qg_xnor_activation_spec s      = { .no_scale = v[0] != 0 };
    const qg_status         status = surrogate(v + 1, &s.surrogate);
    *q = qg_xnor_activation(s);
    return status;
}

static qg_status make_dorefa_input(const double *v, qg_quant *q)
{
    qg_dorefa_activation_spec s      = { .bits = (int)v[0], .ties_up = v[1] != 0 };
    const qg_status           status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_dorefa_activation(s);
    return status;
}

static qg_status make_lsq_input(const double *v, qg_quant *q)
{
    qg_lsq_spec     s      = { .bits = (int)v[0], .is_signed = v[1] != 0 };
    const qg_status status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_lsq(s);
    return status;
}

static qg_status make_pact(const double *v, qg_quant *q)
{
    qg_pact_spec    s      = { .bits = (int)v[0], .alpha = (float)v[1] };
    const qg_status status = own_surrogate(v + 3, &s.surrogate);
    *q       = qg_pact(s);
    q->decay = (float)v[2];
    return status;
}

static qg_status make_linear(const double *v, qg_quant *q)
{
    qg_linear_mid_tread_half_spec s = { .bits = (int)v[0], .max_value = (float)v[1] };
    const qg_status status = own_surrogate(v + 2, &s.surrogate);
    *q = qg_linear_mid_tread_half(s);
    return status;
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_status make_dorefa_gradient(const double *v, qg_quant *q)
{
    *q = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = (int)v[0], .no_noise = v[1] != 0 });
    return QG_OK;
}

/* --- the table ---------------------------------------------------------------------------- */

#define THRESHOLD(fallback)       { "threshold", fallback, 0.01, 10, NULL, 0, 0 }
#define BITS_OF(some, most, also) { "bits", some, 1, most, NULL, WHOLE | SHOWN, also }
#define NO_YES(name)              { name, 0, 0, 0, "no|yes", 0, 0 }
#define WORDS(name, words)        { name, 0, 0, 0, words, 0, 0 }

const scheme_row scheme_rows[SCHEME_ROWS] = {
    { "float", FOR_WEIGHT | FOR_INPUT | FOR_GRADIENT, { { 0 } }, make_float, "not quantized" },

    { "twn", FOR_WEIGHT, { THRESHOLD((double)0.7f), NO_YES("per-channel"), SURROGATE(IDENTITY_SLOPE) },
      make_twn, "{-a, 0, +a}, one a per layer" },
    { "binary", FOR_WEIGHT, { SURROGATE(IDENTITY_SLOPE) }, make_binary, "{-a, +a}, one a per layer" },
    { "binary-channel", FOR_WEIGHT, { SURROGATE(IDENTITY_SLOPE) }, make_binary_channel,
      "{-a, +a}, one a per output channel" },
    { "ste-tern", FOR_WEIGHT, { THRESHOLD(0), NO_YES("relative"), SURROGATE(CLIP) }, make_ste_tern,
      "{-1, 0, +1}" },
    { "ttq", FOR_WEIGHT,
      { { "t", (double)0.05f, 0.0001, 0.9999, NULL, 0, 0 }, WORDS("rule", "exact|as-printed"),
        WORDS("start", "one|weights"), { "decay", 0, 0, 10, NULL, 0, 0 }, OWN_SURROGATE },
      make_ttq, "{-Wn, 0, +Wp}, both learned" },
    { "dorefa", FOR_WEIGHT, { BITS_OF(2, 8, 0), WORDS("max", "constant|through"), OWN_SURROGATE },
      make_dorefa_weight, "odd multiples of 1 / (2^bits - 1); 1 bit: {-a, +a}" },
    { "xnor", FOR_WEIGHT,
      { WORDS("rule", "exact|paper|authors|authors-adam|identity"), WORDS("latent", "free|centred"),
        OWN_SURROGATE },
      make_xnor_weight, "{-a, +a}, one a per output channel" },
    { "magnitude-aware", FOR_WEIGHT, { SURROGATE(CLIP) }, make_magnitude_aware,
      "{-a, +a}, one a per output channel, as in Bi-Real Net" },
    { "binaryconnect", FOR_WEIGHT,
      { WORDS("draw", "det|stoch"), WORDS("eval", "sign|float"), WORDS("start", "net|unit"), GLOROT_LR,
        SURROGATE(IDENTITY_SLOPE) },
      make_binaryconnect, "{-1, +1}, latent weights in [-1, 1]" },
    { "bnn", FOR_WEIGHT, { WORDS("start", "net|unit"), GLOROT_LR, SURROGATE(CLIP) }, make_bnn,
      "{-1, +1}, latent weights in [-1, 1]" },
    { "bop", FOR_WEIGHT, { { 0 } }, make_bop, "{-1, +1} without latent weights: --optimizer bop" },
    { "fake_quant", FOR_WEIGHT, FAKE_QUANT("current|learned|observed|percentile|fixed"),
      make_fake_quant_weight, "2^bits levels over a range" },
    { "lsq", FOR_WEIGHT, { { "bits", 2, 2, 16, NULL, WHOLE | SHOWN, 0 }, OWN_SURROGATE }, make_lsq_weight,
      "multiples of a learned step" },
    { "unit", FOR_WEIGHT, { BITS_OF(2, 8, 0), WORDS("zero", "yes|no"), OWN_SURROGATE }, make_unit_weight,
      "uniform levels of [-1, 1], 0 among them from 2 bits on" },

    { "sign", FOR_INPUT, { SURROGATE(CLIP) }, make_sign, "{-1, +1}" },
    { "xnor", FOR_INPUT, { WORDS("scale", "on|off"), SURROGATE(CLIP) }, make_xnor_input,
      "{-1, +1}, and the product times the mean |x| of its window if scale is on" },
    { "dorefa", FOR_INPUT, { BITS_OF(2, 8, 32), WORDS("ties", "even|up"), OWN_SURROGATE },
      make_dorefa_input, "2^bits levels in [0, 1]" },
    { "fake_quant", FOR_INPUT, FAKE_QUANT("learned|observed|percentile|fixed"), make_fake_quant_input,
      "2^bits levels over a range, behind the relu" },
    { "lsq", FOR_INPUT, { BITS_OF(2, 16, 0), NO_YES("signed"), OWN_SURROGATE }, make_lsq_input,
      "multiples of a learned step" },
    { "pact", FOR_INPUT,
      { BITS_OF(4, 16, 32), { "alpha", 10, 1e-6, 1e6, NULL, 0, 0 },
        { "decay", (double)2e-4f, 1e-9, 10, NULL, 0, 0 }, OWN_SURROGATE },
      make_pact, "2^bits levels in [0, a], a learned" },
    { "linear", FOR_INPUT, { BITS_OF(2, 16, 32), { "max", 2, 1e-6, 1e6, NULL, 0, 0 }, OWN_SURROGATE },
      make_linear, "2^bits levels in [0, max]" },
    { "unit", FOR_INPUT, { BITS_OF(2, 8, 0), NO_YES("zero"), OWN_SURROGATE }, make_unit_input,
      "2^bits levels of [-1, 1], none at 0; with zero one less" },

    { "dorefa", FOR_GRADIENT, { BITS_OF(6, 8, 0), WORDS("noise", "on|off") }, make_dorefa_gradient,
      "2^bits levels up to the largest of each image, with noise" },
};
