/* Binary inputs; formulas in quant/reference/binary.h. */
#include "quant/schemes/formulas.h"

qg_constants qg__unit_signs(qg_quant q, qg_span x, const float *learned)
{
    return (qg_constants){ .sign = { 1.0f } };
}

static const qg_key keys[] = { QG_AS_KEY, QG_SURROGATE_KEYS(QG_SURROGATE_CLIP), { .name = NULL } };

const qg_scheme qg__sign_scheme = {
    .name       = "sign",
    .about      = "{-1, +1}",
    .keys       = keys,
    .bits       = 1,
    .roles      = QG_INPUT,
    .rectifies  = true,
    .form       = &qg_sign_form,
    .ops        = QG_ACTIVATION_OP("sign"),
    .own        = qg__clip_at_1,
    .constants  = qg__unit_signs,
    .activation = qg_form_activation,
    .explain =
        "Binary activations.                    Courbariaux, Hubara et al. 2016, arXiv:1602.02830v3\n"
        "\n"
        "    q(x) = +1 if x >= 0, else -1            so sign(0) = +1\n"
        "    s(x) = clip(x, -1, 1)                   dx = dy where |x| <= 1, else 0\n"
        "\n"
        "Learns nothing.  Use it directly after a batch norm: after a relu sign is constant, and after\n"
        "pooling nearly so.\n"
        "Other papers use surrogate=approx-sign (Bi-Real Net), swish (BNN+) or annealed-tanh (IR-Net),\n"
        "whose slope is max(1, t) (1 - tanh^2(t x)), where t grows geometrically from 0.1 to 10 over the\n"
        "training.\n"
        "Other implementations: the XNOR-Net release masks with |x| < 1.\n",
};

qg_quant qg_sign(qg_sign_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme = &qg__sign_scheme, .surrogate = spec.surrogate });
}
