/* Blueoil's inputs; formulas in quant/reference/uniform.h. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { MAX_VALUE };         /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: clip without rounding" },
    { .name = "max-value", .fallback = 2, .min = 1e-6, .max = 1e6, .alias = "max", .about = "M, the largest level" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    return (qg_constants){ .uniform = qg__levels_to(q, (float)q.arg[MAX_VALUE]) };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return fmin(fmax(to->x[i], 0), q.arg[MAX_VALUE]);
}

const qg_scheme qg__linear_scheme = {
    .name       = "linear",
    .about      = "2^bits levels in [0, max-value]",
    .keys       = keys,
    .roles      = QG_INPUT,
    .rectifies  = true,
    .form       = &qg_linear_form,
    .ops        = QG_ACTIVATION_OP("linear"),
    .own_slope  = true,
    .surrogate  = surrogate,
    .constants  = constants,
    .activation = qg_form_activation,
    .explain =
        "Activations on uniform levels of a fixed range, in place of relu.\n"
        "                                        Blueoil, linear_mid_tread_half_quantizer\n"
        "\n"
        "    n    = 2^bits - 1,  M = max-value (max_value)\n"
        "    q(x) = floor(clip(x, 0, M) / M n + 0.5) / n M      float32, in this order; ties up\n"
        "    s(x) = clip(x, 0, M)                               dx = dy where 0 < x < M, else 0\n"
        "\n"
        "Learns nothing.  NaN stays NaN.\n"
        "Other implementations: Blueoil's compiled runtime breaks ties in three ways, one per instruction\n"
        "set.\n",
};

qg_quant qg_linear(qg_linear_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__linear_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [MAX_VALUE] = spec.max_value } });
}
