/* Inputs with a learned clip; formulas in quant/reference/uniform.h. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { FIRST_ALPHA, DECAY };        /* in arg */

/* The decay is that of the weights in the paper's CIFAR-10 ResNet-20, which it uses for alpha as well. */
static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(4, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: clip without rounding" },
    { .name = "alpha", .fallback = 10, .min = 1e-6, .max = 1e6, .about = "initial value of the clip" },
    { .name = "decay", .fallback = (double)2e-4f, .min = 1e-9, .max = 10, .about = "weight decay of alpha" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    return (qg_constants){ .uniform = qg__levels_to(q, learned[0]), .gain = { 1.0f } };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return fmin(fmax(to->x[i], 0), to->learned[0]);
}

static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    *learned[0] = (float)q.arg[FIRST_ALPHA];
}

static float decay(qg_quant q) { return (float)q.arg[DECAY]; }

static const qg_learned clip[] = { { .name = "alpha", .least = 0x1p-30f,
                                    .remedy = "another alpha, or a lower learning rate of quantizers, usually helps" },
                                  { .name = NULL } };

const qg_scheme qg__pact_scheme = {
    .name       = "pact",
    .about      = "2^bits levels in [0, a], a learned",
    .keys       = keys,
    .learned    = clip,
    .roles      = QG_INPUT,
    .rectifies  = true,
    .form       = &qg_pact_form,
    .ops        = QG_ACTIVATION_OP("pact"),
    .own_slope  = true,
    .surrogate  = surrogate,
    .start      = start,
    .decay      = decay,
    .constants  = constants,
    .activation = qg_form_activation,
    .explain =
        "Activations with a learned clip, in place of relu.     Choi et al. 2018, arXiv:1805.06085v2\n"
        "\n"
        "    n    = 2^bits - 1,  a = alpha\n"
        "    q(x) = round(clip(x, 0, a) n / a) a / n     ties to even\n"
        "    dx   = dy where 0 <= x < a, else 0\n"
        "    da   = sum of dy where x >= a\n"
        "\n"
        "Learns a, which starts at alpha and decays by the option decay, as in the paper's CIFAR-10\n"
        "recipe; --quantizer-decay has no effect on it.  With Adam, whose decay is decoupled, this is far\n"
        "weaker than the paper's L2 penalty.  Below 2^-30 a is set to 2^-30.  NaN stays NaN.\n"
        "Other implementations: many omit the decay, and alpha then grows; some add a rounding term like\n"
        "LSQ's to da.\n",
};

qg_quant qg_pact(qg_pact_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__pact_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [FIRST_ALPHA] = spec.alpha, [DECAY] = spec.decay } });
}
