/* k bits on the fixed range [-1, 1], with or without a level at 0. */
#include "quant/scheme.h"

enum { ZERO };              /* in arg */

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    (void)x, (void)learned;
    const float steps = qg__steps(q.arg[ZERO] != 0 ? q.bits - 1 : q.bits);
    return (qg_constants){ .uniform = { .steps = steps, .step = 1.0f / steps, .variant = q.arg[ZERO] } };
}

/* Small initial weights would all be rounded to 0. */
static void start(qg_quant q, qg_tensor x, float *const *learned)
{
    (void)learned;
    if (q.role == QG_WEIGHT) qg_stretch_to_unit(x);
}

static qg_status check(qg_quant q)
{
    const int least = q.arg[ZERO] != 0 ? 2 : 1;
    if (q.bits >= least && q.bits <= 8) return QG_OK;
    return qg_fail(QG_EARG, "%s: bits is %d, not %d .. 8%s", q.scheme->name, q.bits, least,
                   least == 2 ? ", which a level at 0 needs" : "");
}

static const qg_scheme scheme = {
    .name       = "unit",
    .roles      = QG_WEIGHT | QG_INPUT,
    .rectifies  = true,
    .clip       = 1.0f,
    .form       = &qg_unit_form,
    .ops        = QG_ACTIVATION_OP("unit"),
    .own_slope  = true,
    .check      = check,
    .start      = start,
    .constants  = constants,
    .activation = qg_form_activation,
    .explain =
        "Weights and inputs on uniform levels of [-1, 1].            BNN-PYNQ's nets in Brevitas: zero=yes\n"
        "\n"
        "    zero=no        n = 2^bits - 1          q(x) = (2 floor(clip(x, -1, 1) n / 2) + 1) / n\n"
        "    zero=yes       n = 2^(bits - 1) - 1    q(x) = round(clip(x, -1, 1) n) / n    ties to even\n"
        "    s(x) = clip(x, -1, 1)                  dx = dy where |x| <= 1, else 0\n"
        "\n"
        "Learns nothing.  Default: zero=yes for --weight of 2 bits or more, else no, and off in C.  2 bits\n"
        "are {-1, -1/3, 1/3, 1} without zero and {-1, 0, 1} with it.  1 bit is without zero: sign, and x = 0\n"
        "gives +1.  Codes times 1 / n equal q(x) to one rounding.  NaN stays NaN.  As an input it takes the\n"
        "place of relu.  Latent weights start stretched to fill [-1, 1] and are clipped to it after each step.\n"
        "Other implementations: Brevitas' bnn_pynq models read 2-bit inputs with zero, too: zero=yes.  Their\n"
        "gradient of inputs passes as far as round(x n) is a level, to 1 + 1 / (2 n), which is\n"
        "surrogate=clip,surrogate-arg=1.5 for 2 bits; that of weights passes everywhere.\n",
};

qg_quant qg_unit(qg_unit_spec spec)
{
    return (qg_quant){ .scheme    = &scheme,
                       .bits      = spec.bits == 0 ? 2 : spec.bits,
                       .surrogate = spec.surrogate,
                       .arg       = { [ZERO] = spec.zero } };
}
