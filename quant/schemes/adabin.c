/* Two levels around the mean of a filter: AdaBin. */
#include <float.h>
#include <math.h>

#include "quant/schemes/formulas.h"

static qg_constants constants(qg_quant q, qg_span w, const float *learned)
{
    double       distance, squares;
    const double mean = qg_span_mean(w, &distance, &squares), d = w.n ? sqrt(squares / (double)w.n) : 0;
    const bool   flat = !(d >= (double)FLT_MIN);
    return (qg_constants){ .sign = { .scale     = flat ? 0.0f : (float)d,
                                     .threshold = (float)mean,
                                     .offset    = (float)mean,
                                     .inverse   = flat ? 0.0f : (float)(1 / d) } };
}

/* dm / dw = 1 / n, and dd / dw = z / n. */
static qg_mix mix(qg_quant q, qg_span w, const qg_constants *k, const double *sum)
{
    const double n = (double)w.n;
    return (qg_mix){ .standardised = true,
                     .through      = k->sign.scale,
                     .mean         = k->sign.threshold,
                     .inverse      = k->sign.inverse,
                     .freedom      = n,
                     .coupled      = (float)(sum[0] / n),
                     .added        = (float)(sum[1] / n) };
}

/* The product of d and the surrogate of the sign, each as it moves while the other stands. */
static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    double was[QG__MOMENTS], is[QG__MOMENTS];
    qg__point_moments(i, at, was);
    qg__point_moments(i, to, is);
    const double n = (double)qg_row(at->shape), d = sqrt(is[QG__SQUARES] / n), old = sqrt(was[QG__SQUARES] / n);
    if (!q.surrogate.value) return (double)NAN;
    return is[QG__MEAN] + d * copysign(1, at->x[i] - was[QG__MEAN]) +
           old * q.surrogate.value(q.surrogate.arg, (to->x[i] - is[QG__MEAN]) / d);
}

/* Positive and negative codes have scales of their own, m + d and d - m, which the engine knows from ternary weights. */
static qg_code_set codes(qg_quant q)
{
    return (qg_code_set){ .lowest = -1, .step = 1, .count = 3 };
}

static const qg_key keys[] = { QG_AS_KEY, QG_SURROGATE_KEYS(QG_SURROGATE_ANNEALED_TANH), { .name = NULL } };

const qg_scheme qg__adabin_scheme = {
    .name        = "adabin",
    .about       = "{m - d, m + d}, mean and deviation of each output channel",
    .keys        = keys,
    .bits        = 1,
    .complete    = qg__with_annealed_tanh,
    .roles       = QG_WEIGHT,
    .float_ends  = true,
    .granularity = QG_CHANNEL_SCALE,
    .scales      = 2,
    .form        = &qg_sign_form,
    .ops         = QG_FORM_OPS("adabin"),
    .constants   = constants,
    .mix         = mix,
    .mixes_sums  = true,
    .surrogate   = surrogate,
    .codes       = codes,
    .explain =
        "Two levels around the mean of each filter.\n"
        "                                             Tu et al. 2022, arXiv:2208.08084: AdaBin\n"
        "\n"
        "    m, d = mean and standard deviation of the weights of one output channel (n)\n"
        "    z    = (w - m) / d\n"
        "    q(w) = m + d if w >= m, else m - d\n"
        "    s(w) = m + d max(1/t, 1) tanh(t z)      and m + d sign(z) where m and d move\n"
        "\n"
        "Learns nothing.  t grows geometrically from 0.1 to 10 over the training (annealed-tanh).  If the\n"
        "weights of a channel are equal, q = m, and only m passes a gradient.  Packed weights have 2 bits,\n"
        "since the engine knows two levels of different size only as ternary weights without a 0.\n"
        "Models keep first and last layers in float unless --first-last quantized.\n"
        "Other implementations: the authors' code moves t once per epoch, and its sign of 0 is 0.\n",
};

qg_quant qg_adabin(qg_adabin_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__adabin_scheme, .surrogate = spec.surrogate });
}
