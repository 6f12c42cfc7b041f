/* DoReFa's activations; formulas in quant/reference/dorefa.h. */
#include <math.h>

#include "quant/schemes/formulas.h"

enum { TIES_UP };            /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: clip without rounding" },
    { .name = "ties", .words = "even|up", .when = "bits=1..16", .about = "rounding of values midway between two levels" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    qg_levels u = qg__levels_to(q, 1.0f);
    u.variant   = (float)q.arg[TIES_UP];
    return (qg_constants){ .uniform = u };
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    return fmin(fmax(to->x[i], 0), 1);
}

const qg_scheme qg__dorefa_activation_scheme = {
    .name       = "dorefa",
    .about      = "2^bits levels in [0, 1]",
    .keys       = keys,
    .roles      = QG_INPUT,
    .float_ends = true,
    .rectifies  = true,
    .form       = &qg_dorefa_form,
    .ops        = QG_ACTIVATION_OP("dorefa"),
    .own_slope  = true,
    .surrogate  = surrogate,
    .constants  = constants,
    .activation = qg_form_activation,
    .explain    = qg__dorefa_explain,
};

qg_quant qg_dorefa_activation(qg_dorefa_activation_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg__dorefa_activation_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [TIES_UP] = spec.ties_up } });
}
