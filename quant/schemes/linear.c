#include "quant/schemes/linear.h"

#include <math.h>

#include "quant/operand.h"
#include "quant/scheme.h"

enum { MAX_VALUE };         /* in arg */

static const qg_key keys[] = {
    QG_AS_KEY,
    { QG_BITS_KEY(2, 1, 16), .also = QG_FLOAT_BITS, .about = "bits per code; 32: clip without rounding" },
    { .name = "max-value", .fallback = 2, .min = 1e-6, .max = 1e6, .alias = "max", .about = "M, the largest level" },
    QG_OWN_SURROGATE_KEYS,
    { .name = NULL }
};

static qg_constants constants_of(int bits, float max)
{
    const float steps = bits == QG_FLOAT_BITS ? 0.0f : qg__steps(bits);
    return (qg_constants){ .uniform = { .hi = max, .steps = steps, .step = steps > 0.0f ? max / steps : 0.0f } };
}

static qg_constants constants(qg_quant q, qg_span x, const float *learned)
{
    (void)x, (void)learned;
    return constants_of(q.bits, (float)q.arg[MAX_VALUE]);
}

static double surrogate(qg_quant q, size_t i, const qg_point *at, const qg_point *to)
{
    (void)at;
    return fmin(fmax(to->x[i], 0), q.arg[MAX_VALUE]);
}

const qg_scheme qg_linear_scheme = {
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
        "Learns nothing.  The defaults are 2 bits and M = 2, as in Blueoil's networks.  NaN stays NaN.\n"
        "32 bits clip without rounding.  A code times M / n equals q(x) up to one rounding.\n"
        "Other implementations: Blueoil's compiled runtime breaks ties in three ways, one per instruction\n"
        "set.  Its documentation says that 32 bits return x, but its code has no such branch.\n",
};

qg_quant qg_linear_mid_tread_half(qg_linear_mid_tread_half_spec spec)
{
    return qg_quant_defaults((qg_quant){ .scheme    = &qg_linear_scheme,
                                         .bits      = spec.bits,
                                         .surrogate = spec.surrogate,
                                         .arg       = { [MAX_VALUE] = spec.max_value } });
}

/* --- on arrays ------------------------------------------------------------------------------- */

static qg_status check_attrs(const char *op, int bit, float max_value)
{
    const qg_status s = qg__check_int(op, "bit", bit, 1, QG_FLOAT_BITS);
    return s ? s : qg__check_above_zero(op, "max_value", max_value);
}

qg_status qg_linear_mid_tread_half_quantizer(const qg_array *x, int bit, float max_value, qg_array *y)
{
    const char *op = "linear_mid_tread_half_quantizer";
    qg_status   s  = check_attrs(op, bit, max_value);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const qg_constants k = constants_of(bit, max_value);
    qg_form_values(&qg_linear_form, &k, qg_array_count(x), qg__floats(x), qg__floats(y));
    return QG_OK;
}

qg_status qg_linear_mid_tread_half_quantizer_gradient(const qg_array *x, const qg_array *dy, int bit,
                                                      float max_value, qg_surrogate s, qg_array *dx)
{
    const char *op     = "linear_mid_tread_half_quantizer_gradient";
    qg_status   status = check_attrs(op, bit, max_value);
    if (!status) status = qg__check_backward(op, x, dy, dx);
    if (status) return status;
    const qg_constants k = constants_of(bit, max_value);
    const qg_quant     q = { .scheme = &qg_linear_scheme, .surrogate = s };
    qg__zero(dx);
    qg_form_gradient(q, qg__split_at(x, -1), &k, qg__floats(x), qg__floats(dy), qg__floats(dx), NULL);
    return QG_OK;
}
