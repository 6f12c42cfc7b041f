/* XNOR-Net's weights; formulas in quant/reference/binary.h. */
#include <math.h>

#include "quant/kernels.h"
#include "quant/schemes/formulas.h"

const char qg__xnor_explain[] =
    "Binary weights with a scale per filter, binary inputs with a scale map.\n"
    "                                                    Rastegari et al. 2016, arXiv:1603.05279\n"
    "\n"
    "weights of one output channel with n elements\n"
    "    a    = mean|w|,   q(w) = a sign(w)      sign(0) = +1\n"
    "    rule=exact         dw_i = dq_i a 1[|w_i| <= 1] + sign(w_i) / n sum over j of dq_j sign(w_j)\n"
    "    rule=paper         dw   = dq (a 1[|w| <= 1] + 1 / n)            keeps j = i of that sum\n"
    "    rule=authors       dw   = dq (a 1[|w| < 1] + 1 / n) (1 - 1 / c_in) n      as released, SGD\n"
    "    rule=authors-adam  the same without the factor n                          as released, Adam\n"
    "    rule=identity      dw   = dq                                              Blueoil; the default\n"
    "inputs\n"
    "    q(x) = sign(x)\n"
    "    s(x) = clip(x, -1, 1)\n"
    "    K    = mean|x| over channels and the window of the product, padding counted as 0\n"
    "    y    = (sign(x) * q(w)) K + bias        K is a constant of the backward pass\n"
    "\n"
    "Learns nothing.  A filter of zeros gives a = 0 and q = 0; a window of zeros gives K = 0.\n"
    "The factor a, about 0.05, makes SGD move the latent weights too slowly, so rule=identity is the\n"
    "default.  as=paper (as_paper) is rule=exact, which agrees with finite differences; the printed 1\n"
    "/ n does not.  With the authors' rules a layer with one input channel does not train.\n"
    "latent=centred (centred) subtracts the mean over c_in from the latent weights and clamps them to\n"
    "[-1, 1], as the authors' release does.\n"
    "Models keep first and last layers in float unless --first-last quantized.\n"
    "Other implementations: the authors' release omits K, as scale=off (no_scale) does, and\n"
    "multiplies gradients by 1e9 for Adam.\n";

enum { RULE, CENTRED }; /* in arg */

/* arg[RULE] is an index of the words, which have no default. */
static qg_xnor_rule rule_of(qg_quant q) { return (qg_xnor_rule)(q.arg[RULE] + QG_XNOR_EXACT); }

static const qg_key keys[] = {
    QG_AS_KEY,
    { .name = "rule", .fallback = QG_XNOR_IDENTITY - QG_XNOR_EXACT, .words = "exact|paper|authors|authors-adam|identity",
      .about = "gradient rule" },
    { .name = "latent", .words = "free|centred", .about = "centred: subtract the mean over the input channels" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_surrogate own(qg_quant q)
{
    const qg_xnor_rule rule = rule_of(q);
    if (rule == QG_XNOR_IDENTITY) return qg_surrogate_identity();
    if (rule == QG_XNOR_EXACT || rule == QG_XNOR_PAPER) return qg_surrogate_clip(1.0f);
    qg_surrogate s = qg_surrogate_clip(1.0f);
    s.slope        = QG_KERNELS(qg__surrogate)->open_clip;
    return s;
}

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    const qg_xnor_rule rule   = rule_of(q);
    const double       n      = (double)w.n, alpha = (double)k->sign.scale;
    const double       factor = (1.0 - 1.0 / (double)w.inputs) * (rule == QG_XNOR_AUTHORS ? n : 1.0);
    if (rule == QG_XNOR_IDENTITY) return (qg_mix){ .through = 1.0f };
    if (rule == QG_XNOR_EXACT) return (qg_mix){ .through = k->sign.scale, .coupled = (float)(sum[0] / n) };
    if (rule == QG_XNOR_PAPER) return (qg_mix){ .through = k->sign.scale, .direct = (float)(1.0 / n) };
    return (qg_mix){ .through = (float)(alpha * factor), .direct = (float)(factor / n) };
}

/* The rules as products: of alpha, which is constant, and the surrogate of the sign; by the exact rule also of the sign,
 * which is constant, and alpha.  Without a surrogate s is NaN, so the check fails. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    const qg_xnor_rule rule   = rule_of(q);
    const qg_surrogate s      = qg__surrogate_or(q.surrogate, own(q));
    const double       w      = to->x[i], n = (double)qg_row(at->shape), alpha = qg__point_mean_abs(q, i, at);
    const double       signs  = s.value ? s.value(s.arg, w) : (double)NAN;
    const double       factor = 1 - 1 / (double)at->shape.c;
    if (rule == QG_XNOR_IDENTITY) return signs;
    if (rule == QG_XNOR_EXACT) return alpha * signs + qg__point_mean_abs(q, i, to) * copysign(1, at->x[i]);
    if (rule == QG_XNOR_PAPER) return alpha * signs + w / n;
    return rule == QG_XNOR_AUTHORS ? factor * (alpha * n * signs + w) : factor * (alpha * signs + w / n);
}

static qg_quant complete(qg_quant q);

/* The members that both have. */
#define SCHEME                                                                                                     \
    .name = "xnor", .about = "{-a, +a}, one a per output channel", .keys = keys, .paper = "rule=exact", .bits = 1, \
    .complete = complete, .roles = QG_WEIGHT, .float_ends = true, .granularity = QG_CHANNEL_SCALE,                 \
    .form = &qg_sign_form, .ops = QG_FORM_OPS("xnor_weight"), .own = own, .constants = qg__mean_signs, .mix = mix,  \
    .mixes_sums = true, .surrogate = surrogate, .explain = qg__xnor_explain

const qg_scheme        qg__xnor_scheme = { SCHEME };
static const qg_scheme centred_weight = { SCHEME, .variant = "latent=centred", .clip = 1, .centred = true };

static qg_quant complete(qg_quant q)
{
    q.scheme = q.arg[CENTRED] != 0 ? &centred_weight : &qg__xnor_scheme;
    return q;
}

qg_quant qg_xnor(qg_xnor_spec spec)
{
    const qg_xnor_rule rule = spec.rule ? spec.rule : spec.as_paper ? QG_XNOR_EXACT : QG_XNOR_IDENTITY;
    qg_quant           q    = qg_quant_defaults((qg_quant){ .scheme    = &qg__xnor_scheme,
                                                            .surrogate = spec.surrogate,
                                                            .as_paper  = spec.as_paper,
                                                            .arg       = { [CENTRED] = spec.centred } });
    q.arg[RULE] = (int)rule - QG_XNOR_EXACT;
    return q;
}
