/* Signs of standardised weights: IR-Net. */
#include <float.h>
#include <math.h>

#include "core/kernels/functions.h"
#include "quant/schemes/formulas.h"

static double power_of_two(double mean) { return mean > 0 ? ldexp(1, (int)nearbyint(qg__log(mean) / qg__log(2))) : 0; }

/* Equal weights have no deviation: a = 0, and no gradient. */
static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    double       distance, squares;
    const double mean = qg_span_mean(w, &distance, &squares), d = w.n > 1 ? sqrt(squares / ((double)w.n - 1)) : 0;
    if (!(d >= (double)FLT_MIN)) return (qg_constants){ .sign = { .threshold = (float)mean } };
    return (qg_constants){ .sign = { .scale     = (float)power_of_two(distance / d / (double)w.n),
                                     .threshold = (float)mean,
                                     .inverse   = (float)(1 / d) } };
}

static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    return (qg_mix){ .standardised = true,
                     .through      = k->sign.scale,
                     .mean         = k->sign.threshold,
                     .inverse      = k->sign.inverse,
                     .freedom      = (double)w.n - 1 };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    double was[QG__MOMENTS], is[QG__MOMENTS];
    qg__point_moments(i, at, was);
    qg__point_moments(i, to, is);
    const double n = (double)qg_row(at->shape), d = sqrt(is[QG__SQUARES] / (n - 1)), old = sqrt(was[QG__SQUARES] / (n - 1));
    if (!q.surrogate.value) return (double)NAN;
    return power_of_two(was[QG__DISTANCE] / old / n) * q.surrogate.value(q.surrogate.arg, (to->x[i] - is[QG__MEAN]) / d);
}

static const qg_key keys[] = { QG_AS_KEY, QG_SURROGATE_KEYS(QG_SURROGATE_ANNEALED_TANH), { .name = NULL } };

qg_quant qg__with_annealed_tanh(qg_quant q)
{
    if (!q.surrogate.slope) q.surrogate = qg_surrogate_annealed_tanh(0);
    return q;
}

const qg_scheme qg__irnet_scheme = {
    .name        = "irnet",
    .about       = "{-a, +a}, the signs of standardised weights, a power of 2 per output channel",
    .keys        = keys,
    .bits        = 1,
    .complete    = qg__with_annealed_tanh,
    .roles       = QG_WEIGHT,
    .float_ends  = true,
    .granularity = QG_CHANNEL_SCALE,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("irnet"),
    .constants   = constants,
    .mix         = mix,
    .surrogate   = surrogate,
    .explain =
        "Signs of standardised weights, with a surrogate that approaches the sign.\n"
        "                                            Qin et al. 2020, arXiv:1909.10788: IR-Net\n"
        "\n"
        "    m, d = mean and standard deviation of the weights of one output channel (n - 1)\n"
        "    z    = (w - m) / d\n"
        "    a    = 2^round(log2 mean|z|)            nearly always 1; a constant of the backward pass\n"
        "    q(w) = +a if w >= m, else -a\n"
        "    s(w) = a max(1/t, 1) tanh(t z)          the gradient passes through m and d as well\n"
        "\n"
        "Learns nothing.  t grows geometrically from 0.1 to 10 over the training (annealed-tanh).  Equal\n"
        "weights of a channel give q = 0 and receive no gradient.  IR-Net binarizes its inputs by\n"
        "sign:surrogate=annealed-tanh after a hardtanh (HT in a net as text).  Without it a net with a\n"
        "shortcut around each convolution may diverge: at first all inputs up to 1/t = 10 have gradients.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: the authors' code moves t once per epoch, for ResNet-20 from 0.001; their\n"
        "sign of 0 is 0.\n",
};

qg_quant qg_irnet(qg_irnet_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__irnet_scheme, .surrogate = spec.surrogate });
}
