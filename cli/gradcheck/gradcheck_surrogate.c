/* The smooth functions whose slopes are the gradients of quantizers. */
#include <math.h>
#include <string.h>

#include "cli/gradcheck/gradcheck_quantizer.h"
#include "quant/schemes/fake_quant.h"

double quantizer_option(qg_quant q, const char *name)
{
    double        value[QG_MAX_KEYS];
    const qg_key *keys = qg_scheme_keys(q.scheme, q.role);
    const int     at   = qg_keys_find(keys, name, strlen(name));
    qg_quant_values(q, value);
    return at < 0 ? -1 : value[at];
}

static double clip(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

/* --- named surrogates --------------------------------------------------------------------- */

/* In the order of QG_SURROGATE_WORDS, before which a scheme may have "own". */
enum { OWN = -1, IDENTITY, CLIP, APPROX_SIGN, SWISH, TANH, ANNEALED_TANH, SURROGATES };

typedef struct named {
    int    kind;
    double arg;
} named;

/* As the option says, or its default.  A scheme whose default is its own has that of its range or form: OWN; or for
 * signs the identity, and with XNOR-Net's rules a clip. */
static named named_of(qg_quant q)
{
    static const double usual[SURROGATES] = { [CLIP] = 1, [SWISH] = 5, [TANH] = 1, [ANNEALED_TANH] = 0.1 };
    const qg_key       *keys = qg_scheme_keys(q.scheme, q.role);
    const int           at   = qg_keys_find(keys, "surrogate", strlen("surrogate"));
    const double        arg  = quantizer_option(q, "surrogate-arg");
    int kind = at < 0 ? IDENTITY : (int)quantizer_option(q, "surrogate") - (qg_key_words(&keys[at]) - SURROGATES);
    if (kind == OWN && q.scheme->form == &qg_sign_form) kind = q.scheme->mix ? CLIP : IDENTITY;
    return (named){ kind, kind == OWN ? 0 : arg > 0 ? arg : usual[kind] };
}

static double swish(double b, double x)
{
    const double sigmoid = 1 / (1 + exp(-b * x));
    return 2 * sigmoid * (1 + b * x * (1 - sigmoid)) - 1;
}

static double named_value(named s, double x)
{
    switch (s.kind) {
    case CLIP: return clip(x, -s.arg, s.arg);
    case APPROX_SIGN: return fabs(x) > 1 ? copysign(1, x) : 2 * x - x * fabs(x);
    case SWISH: return swish(s.arg, x);
    case TANH:
    case ANNEALED_TANH: return fmax(1 / s.arg, 1) * tanh(s.arg * x);
    }
    return x;
}

static bool named_kinks(named s, double kink[2])
{
    kink[1] = s.kind == CLIP ? s.arg : 1;
    kink[0] = -kink[1];
    return s.kind == CLIP || s.kind == APPROX_SIGN;
}

/* --- ranges ------------------------------------------------------------------------------- */

/* Of fake_quant: the ends, moved so that 0 is a code.  Values never leave a current range. */
static bool range_of(qg_quant q, const float *learned, double end[2])
{
    const qg_range_kind       kind  = (qg_range_kind)quantizer_option(q, "range");
    const qg_fake_quant_attrs attrs = { q.bits, quantizer_option(q, "narrow-range") > 0 };
    float                     min = learned[0], max = learned[1];
    qg_fake_quant_range       r = { 0 };
    if (kind == QG_RANGE_CURRENT) return false;
    if (kind == QG_RANGE_FIXED) {
        min = quantizer_option(q, "min") < -1e6 ? -6 : (float)quantizer_option(q, "min");      /* not given: -6, 6 */
        max = quantizer_option(q, "max") > 1e6 ? 6 : (float)quantizer_option(q, "max");
    }
    const bool known = qg_fake_quant_nudge(attrs, min, max, &r) == QG_OK;
    end[0] = known ? (double)r.nmin : (double)NAN;
    end[1] = known ? (double)r.nmax : (double)NAN;
    return true;
}

/* Of LSQ. */
static double least_code(qg_quant q) { return quantizer_option(q, "signed") > 0 ? -ldexp(1, q.bits - 1) : 0; }
static double greatest_code(qg_quant q) { return ldexp(1, q.bits - (quantizer_option(q, "signed") > 0)) - 1; }

/* Where the slope of the form or range is 1; false: everywhere, or it is none. */
static bool ends_of(qg_quant q, const float *learned, double end[2])
{
    const qg_form *form = q.scheme->form;
    const double   step = (double)learned[0];
    if (!form) return range_of(q, learned, end);
    end[0] = form == &qg_unit_form ? -1 : form == &qg_lsq_form ? step * least_code(q) : 0;
    end[1] = form == &qg_lsq_form ? step * greatest_code(q) : form == &qg_pact_form ? (double)learned[0] : 1;
    if (form == &qg_linear_form) end[1] = quantizer_option(q, "max-value");
    if (form == &qg_scaled_form) {
        end[0] = quantizer_option(q, "min");
        end[1] = quantizer_option(q, "max");
        return quantizer_option(q, "range") > 0;        /* values never leave a measured one */
    }
    return form != &qg_ternary_form && form != &qg_tanh_form && form != &qg_sign_form;
}

bool surrogate_kinks(qg_quant q, const float *learned, double kink[2])
{
    const named s = named_of(q);
    return s.kind == OWN ? ends_of(q, learned, kink) : named_kinks(s, kink);
}

bool is_elementwise(qg_quant q)
{
    const qg_form *form = q.scheme->form;
    if (q.role == QG_GRADIENT || q.scheme->mix) return false;
    return named_of(q).kind != OWN || (form != &qg_ternary_form && form != &qg_tanh_form);
}

double surrogate_of_number(qg_quant q, double x, const float *learned)
{
    const named s = named_of(q);
    double      end[2];
    if (s.kind != OWN) return named_value(s, x);
    return ends_of(q, learned, end) ? clip(x, end[0], end[1]) : x;
}

/* --- in a tensor -------------------------------------------------------------------------- */

static size_t channel_of(qg_quant q, size_t i)
{
    if (!q.per_channel) return 0;
    return q.role == QG_WEIGHT ? i / TENSOR_ROW : i % TENSOR_ROW;
}

/* How many numbers share a channel; of an input, those of one image. */
static double sharing(qg_quant q)
{
    const int all      = q.role == QG_WEIGHT ? TENSOR_N : TENSOR_ROW;
    const int channels = q.role == QG_WEIGHT ? TENSOR_ROWS : TENSOR_ROW;
    return q.numbers ? (double)q.numbers : (double)(q.per_channel ? all / channels : all);
}

static double mean_abs(qg_quant q, const float *x, size_t i)
{
    double sum = 0, n = 0;
    for (size_t j = 0; j < TENSOR_N; j++) {
        if (channel_of(q, j) != channel_of(q, i)) continue;
        sum += fabs((double)x[j]);
        n++;
    }
    return sum / n;
}

static double max_abs(qg_quant q, const float *x, size_t i)
{
    double most = 0;
    for (size_t j = 0; j < TENSOR_N; j++)
        if (channel_of(q, j) == channel_of(q, i)) most = fmax(most, fabs((double)x[j]));
    return most;
}

/* XNOR-Net's rules, and Bi-Real Net, which has none.  a(w) sign(w) differentiated as a product is a as it was times
 * s(w), and by the exact rule a times the sign as it was. */
static double mixed(const subject *k, size_t i, const float *x)
{
    const qg_quant q    = k->q;
    const double   rule = quantizer_option(q, "rule"), w = (double)x[i];
    const double   s = named_value(named_of(q), w), as = mean_abs(q, k->x, i) * s;
    const double   share = 1 - 1 / (double)TENSOR_ROW;      /* 1 - 1 / input channels */
    if (rule < 0) return as;
    switch ((qg_xnor_rule)rule) {
    case QG_XNOR_EXACT: return as + mean_abs(q, x, i) * copysign(1, (double)k->x[i]);
    case QG_XNOR_PAPER: return as + w / TENSOR_ROW;
    case QG_XNOR_AUTHORS: return share * (as * TENSOR_ROW + w);
    case QG_XNOR_AUTHORS_ADAM: return share * (as + w / TENSOR_ROW);
    case QG_XNOR_IDENTITY: break;
    }
    return q.surrogate.slope ? s : w;
}

/* A learned number that moves by g of its way, so that its derivative is the g that a source multiplies it by. */
static double slowed(float was, float now, double g) { return (double)was + g * ((double)now - (double)was); }

/* q(x) = s (clip(x / s) + what rounding added).  g is 1 / sqrt(numbers times the greatest code). */
static double stepped(const subject *k, size_t i, const float *x, const float *learned)
{
    const double n = k->q.role == QG_WEIGHT ? TENSOR_N : TENSOR_ROW, lo = least_code(k->q), hi = greatest_code(k->q);
    const double s = slowed(k->learned[0], learned[0], k->plain ? 1 : 1 / sqrt(n * hi));
    const double v = clip((double)k->x[i] / (double)k->learned[0], lo, hi);
    return s * (clip((double)x[i] / s, lo, hi) + nearbyint(v) - v);
}

/* The zero point stays where it was, so an end moves as min or max does. */
static double ranged(const subject *k, size_t i, const float *x, const float *learned)
{
    const double g = k->plain ? 1 : 1 / sqrt(sharing(k->q));
    double       end[2];
    if (!range_of(k->q, k->learned, end)) return (double)x[i];
    for (int e = 0; e < 2; e++) end[e] += slowed(k->learned[e], learned[e], g) - (double)k->learned[e];
    return clip((double)x[i], end[0], end[1]);
}

/* TTQ's sets as they were: of x the slopes are Wp, 1 and Wn there; Wp and Wn are the values. */
static double ternary(const subject *k, size_t i, const float *x, const float *learned)
{
    const double d     = quantizer_option(k->q, "threshold") * max_abs(k->q, k->x, i), was = (double)k->x[i];
    const double g     = quantizer_option(k->q, "gradient") > 0 ? 1 / sqrt(sharing(k->q)) : 1;
    const int    side  = was > d ? 1 : was < -d ? -1 : 0, at = side > 0 ? 0 : 1;
    if (k->checked) return side * slowed(k->learned[at], learned[at], g);
    return (double)(side ? learned[at] : 1) * (double)x[i];
}

double surrogate_in_tensor(const subject *k, size_t i, const float *x, const float *learned)
{
    const qg_form *form = k->q.scheme->form;
    if (k->q.scheme->mix) return mixed(k, i, x);
    if (named_of(k->q).kind != OWN) return named_value(named_of(k->q), (double)x[i]);
    if (!form) return ranged(k, i, x, learned);
    if (form == &qg_ternary_form) return ternary(k, i, x, learned);
    if (form == &qg_lsq_form) return stepped(k, i, x, learned);
    if (form != &qg_tanh_form) return surrogate_of_number(k->q, (double)x[i], learned);
    const bool through = quantizer_option(k->q, "max") > 0;     /* the maximum moves, too */
    return tanh((double)x[i]) / tanh(max_abs(k->q, through ? x : k->x, i));
}
