/* DoReFa's activations; formulas in quant/schemes/dorefa.h. */
#include <math.h>

#include "quant/schemes/dorefa.h"
#include "quant/operand.h"
#include "quant/scheme.h"

enum { TIES };              /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: clip without rounding" },
    { .name = "ties", .words = "even|up", .when = "bits=1..16", .about = "rounding of values midway between two levels" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_constants constants_of(int bits, bool up)
{
    const float steps = bits == QG_FLOAT_BITS ? 0.0f : qg__steps(bits);
    return (qg_constants){ .uniform = { .hi      = 1.0f,
                                        .steps   = steps,
                                        .step    = steps > 0.0f ? 1.0f / steps : 0.0f,
                                        .variant = up ? 1.0f : 0.0f } };
}

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    (void)x, (void)learned;
    return constants_of(q.bits, q.arg[TIES] == QG_TIES_UP);
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    (void)q, (void)at;
    return fmin(fmax(to->x[i], 0), 1);
}

const qg_scheme qg_dorefa_activation_scheme = {
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
    return qg_quant_defaults((qg_quant){ .scheme    = &qg_dorefa_activation_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [TIES] = spec.ties_up ? QG_TIES_UP : QG_TIES_EVEN } });
}

/* --- on arrays ------------------------------------------------------------------------------- */

static qg_status check_bits(const char *op, int k) { return qg__check_int(op, "k", k, 1, QG_FLOAT_BITS); }

qg_status qg_dorefa_activation_quantizer(const qg_array *x, int k, qg_dorefa_ties ties, qg_array *y)
{
    const char *op = "dorefa_activation_quantizer";
    qg_status   s  = check_bits(op, k);
    if (!s) s = qg__check_int(op, "ties", (int)ties, QG_TIES_EVEN, QG_TIES_UP);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const qg_constants c = constants_of(k, ties == QG_TIES_UP);
    qg_form_values(&qg_dorefa_form, &c, qg_array_count(x), qg__floats(x), qg__floats(y));
    return QG_OK;
}

qg_status qg_dorefa_activation_quantizer_gradient(const qg_array *x, const qg_array *dy, int k,
                                                  qg_surrogate s, qg_array *dx)
{
    const char *op     = "dorefa_activation_quantizer_gradient";
    qg_status   status = check_bits(op, k);
    if (!status) status = qg__check_backward(op, x, dy, dx);
    if (status) return status;
    const qg_constants c = constants_of(k, false);
    const qg_quant     q = { .scheme = &qg_dorefa_activation_scheme, .surrogate = s };
    qg__zero(dx);
    qg_form_gradient(q, qg__split_at(x, -1), &c, qg__floats(x), qg__floats(dy), qg__floats(dx), NULL);
    return QG_OK;
}
