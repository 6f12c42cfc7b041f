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

static bool is_own_slope(qg_quant q) { return q.scheme->own_slope && !q.surrogate.slope; }

/* --- named surrogates --------------------------------------------------------------------- */

/* Of the option or the scheme; {0}: that of a range or form. */
static qg_surrogate named(qg_quant q)
{
    if (q.surrogate.slope || q.scheme->own_slope || !q.scheme->form) return q.surrogate;
    return q.scheme->own ? q.scheme->own(q) : qg_surrogate_identity();
}

static double swish(double b, double x)
{
    const double sigmoid = 1 / (1 + exp(-b * x));
    return 2 * sigmoid * (1 + b * x * (1 - sigmoid)) - 1;
}

static bool is_parabola(qg_surrogate s) { return s.slope == qg_surrogate_approx_sign().slope; }

/* Whatever is none of the others: XNOR-Net's release has a clip of its own, whose ends belong to the outside. */
static bool is_clip(qg_surrogate s)
{
    return s.slope != qg_surrogate_identity().slope && s.slope != qg_surrogate_swish(1).slope &&
           s.slope != qg_surrogate_tanh(1).slope && !is_parabola(s);
}

static double named_surrogate(qg_surrogate s, double x)
{
    const double arg = (double)s.arg;
    if (is_clip(s)) return clip(x, -arg, arg);
    if (is_parabola(s)) return fabs(x) > 1 ? copysign(1, x) : 2 * x - x * fabs(x);
    if (s.slope == qg_surrogate_swish(1).slope) return swish(arg, x);
    if (s.slope == qg_surrogate_tanh(1).slope) return fmax(1 / arg, 1) * tanh(arg * x);
    return x;
}

static bool named_kinks(qg_surrogate s, double kink[2])
{
    kink[1] = is_parabola(s) ? 1 : (double)s.arg;
    kink[0] = -kink[1];
    return is_clip(s) || is_parabola(s);
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

/* Where the slope of the form or range is 1; false: everywhere, or it is none. */
static bool ends_of(qg_quant q, const float *learned, double end[2])
{
    const qg_form *form = q.scheme->form;
    if (!form) return range_of(q, learned, end);
    if (form == &qg_ternary_form || form == &qg_tanh_form || form == &qg_sign_form) return false;
    const qg_constants c    = q.scheme->constants(q, (qg_span){ 0 }, learned);
    const double       step = form == &qg_lsq_form ? (double)c.uniform.step : 1;
    end[0] = form == &qg_unit_form ? -1 : step * (double)c.uniform.lo;
    end[1] = form == &qg_unit_form ? 1 : step * (double)c.uniform.hi;
    return true;
}

bool surrogate_kinks(qg_quant q, const float *learned, double kink[2])
{
    const qg_surrogate s = named(q);
    return s.slope ? named_kinks(s, kink) : ends_of(q, learned, kink);
}

bool is_elementwise(qg_quant q)
{
    const qg_form *form = q.scheme->form;
    if (q.role == QG_GRADIENT || q.scheme->mix) return false;
    return !is_own_slope(q) || (form != &qg_ternary_form && form != &qg_tanh_form);
}

double surrogate_of_number(qg_quant q, double x, const float *learned)
{
    const qg_surrogate s = named(q);
    double             end[2];
    if (s.slope) return named_surrogate(s, x);
    return ends_of(q, learned, end) ? clip(x, end[0], end[1]) : x;
}

/* --- in a tensor -------------------------------------------------------------------------- */

static size_t channel_of(qg_quant q, size_t i)
{
    if (!q.per_channel) return 0;
    return q.role == QG_WEIGHT ? i / TENSOR_ROW : i % TENSOR_ROW;
}

static double sharing(qg_quant q)       /* numbers that share a channel, of one image for an input */
{
    const int all = q.role == QG_WEIGHT ? TENSOR_N : TENSOR_ROW, channels = q.role == QG_WEIGHT ? TENSOR_ROWS : TENSOR_ROW;
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
    const double   s = named_surrogate(named(q), w), as = mean_abs(q, k->x, i) * s;
    const double   share = 1 - 1 / (double)TENSOR_ROW;      /* 1 - 1 / input channels */
    if (rule < 0) return as;
    switch ((qg_xnor_rule)rule) {
    case QG_XNOR_EXACT: return as + mean_abs(q, x, i) * copysign(1, (double)k->x[i]);
    case QG_XNOR_PAPER: return as + w / TENSOR_ROW;
    case QG_XNOR_AUTHORS: return share * (as * TENSOR_ROW + w);
    case QG_XNOR_AUTHORS_ADAM: return share * (as + w / TENSOR_ROW);
    case QG_XNOR_IDENTITY: break;
    }
    return s;
}

/* A learned number that moves by g of its way, so that its derivative is the g that a source multiplies it by. */
static double slowed(float was, float now, double g) { return (double)was + g * ((double)now - (double)was); }

/* q(x) = s (clip(x / s) + what rounding added).  g is 1 / sqrt(numbers times the greatest code). */
static double stepped(const subject *k, size_t i, const float *x, const float *learned)
{
    const qg_levels u = k->q.scheme->constants(k->q, (qg_span){ 0 }, k->learned).uniform;
    const double    n = k->q.role == QG_WEIGHT ? TENSOR_N : TENSOR_ROW, lo = (double)u.lo, hi = (double)u.hi;
    const double    s = slowed(k->learned[0], learned[0], k->plain ? 1 : 1 / sqrt(n * hi));
    const double    v = clip((double)k->x[i] / (double)k->learned[0], lo, hi);
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
    if (named(k->q).slope) return named_surrogate(named(k->q), (double)x[i]);
    if (!form) return ranged(k, i, x, learned);
    if (form == &qg_ternary_form) return ternary(k, i, x, learned);
    if (form == &qg_lsq_form) return stepped(k, i, x, learned);
    if (form != &qg_tanh_form) return surrogate_of_number(k->q, (double)x[i], learned);
    const bool through = quantizer_option(k->q, "max") > 0;     /* the maximum moves, too */
    return tanh((double)x[i]) / tanh(max_abs(k->q, through ? x : k->x, i));
}
