#include "quant/reference/dorefa.h"

#include <string.h>

#include "core/rng.h"
#include "quant/operand.h"
#include "quant/schemes/formulas.h"

static qg_status check_bits(const char *op, int k) { return qg__check_int(op, "k", k, 1, QG_FLOAT_BITS); }

/* --- weights ---------------------------------------------------------------------------------- */

qg_status qg_dorefa_weight_quantizer(const qg_array *x, int k, qg_array *y)
{
    const char *op = "dorefa_weight_quantizer";
    qg_status   s  = check_bits(op, k);
    if (!s) s = qg__check_forward(op, x, y);
    if (s) return s;
    const size_t n = qg_array_count(x);
    const float *w = qg__floats(x);
    if (k != QG_FLOAT_BITS)
        qg__form_forward(&(qg_binding){ .q = qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = k }) }, qg__split_at(x, -1), w, NULL,
                         qg__floats(y), NULL, NULL);
    else if (n) memcpy(qg__floats(y), w, n * sizeof *w);
    return QG_OK;
}

qg_status qg_dorefa_weight_quantizer_gradient(const qg_array *x, const qg_array *dy,
                                              qg_dorefa_weight_attrs attrs, qg_array *dx)
{
    const char *op = "dorefa_weight_quantizer_gradient";
    qg_status   s  = check_bits(op, attrs.k);
    if (!s) s = qg__check_backward(op, x, dy, dx);
    if (s) return s;
    const float *w = qg__floats(x);
    const qg_binding b = { .q = qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 2, .through_max = attrs.through_max }) };
    qg_surrogate     slope = attrs.surrogate;
    if (attrs.k == 1 || attrs.k == QG_FLOAT_BITS) slope = qg__surrogate_or(slope, qg_surrogate_identity());
    const qg_split     all = qg__split_at(x, -1);
    const qg_span      one = qg__span_at(qg__isa(), slope.slope ? (qg_split){ 1, 1, 0 } : all, 0, w);
    const qg_constants c   = qg__dorefa_weight_scheme.constants(b.q, one, NULL);
    qg__zero(dx);
    qg__form_gradient(&b, slope, all, &c, w, qg__floats(dy), qg__floats(dx), NULL);
    return QG_OK;
}

/* --- activations ------------------------------------------------------------------------------ */

static qg_constants activation_constants(int k, bool up)
{
    return qg__dorefa_activation_scheme.constants((qg_quant){ .bits = k, .arg = { up } }, (qg_span){ .n = 0 }, NULL);
}

qg_status qg_dorefa_activation_quantizer(const qg_array *x, int k, qg_dorefa_ties ties, qg_array *y)
{
    const char *op = "dorefa_activation_quantizer";
    qg_status   s  = check_bits(op, k);
    if (!s) s = qg__check_int(op, "ties", (int)ties, QG_TIES_EVEN, QG_TIES_UP);
    return s ? s : qg__form_operator(op, &qg__dorefa_activation_scheme, activation_constants(k, ties == QG_TIES_UP), x, y);
}

qg_status qg_dorefa_activation_quantizer_gradient(const qg_array *x, const qg_array *dy, int k,
                                                  qg_surrogate s, qg_array *dx)
{
    const char     *op     = "dorefa_activation_quantizer_gradient";
    const qg_status status = check_bits(op, k);
    if (status) return status;
    return qg__form_operator_gradient(op, &qg__dorefa_activation_scheme, activation_constants(k, false), s, x, dy, dx, NULL);
}

/* --- gradients -------------------------------------------------------------------------------- */

qg_status qg_dorefa_gradient_quantizer(const qg_array *dr, int k, const qg_array *noise,
                                       qg_array *y)
{
    const char       *op     = "dorefa_gradient_quantizer";
    const qg__operand rows[] = { { "dr", dr, .dtypes = QG__F32 },
                                 { "y", y, .dtypes = QG__F32, .like = "dr" },
                                 { "noise", noise, .dtypes = QG__F32, .like = "dr", .optional = true } };
    qg_split          samples = { 0 };
    qg_status         s       = check_bits(op, k);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (!s) s = qg__check_channels(op, "axis of samples", 0, dr, &samples);
    if (s) return s;
    const size_t n = samples.depth * samples.inner;
    if (n > 0 && k == QG_FLOAT_BITS) memcpy(qg__floats(y), qg__floats(dr), n * sizeof(float));
    else if (n > 0)
        qg__dorefa_gradient((qg__dorefa_rows){ .x = qg__floats(dr), .noise = qg__floats(noise), .y = qg__floats(y),
                                               .row = samples.inner, .k = k }, samples.depth);
    return QG_OK;
}

qg_status qg_dorefa_gradient_noise(uint64_t key, int k, qg_array *noise)
{
    const char *op = "dorefa_gradient_noise";
    const qg__operand rows[] = { { "noise", noise, .dtypes = QG__F32 } };
    qg_status         s      = check_bits(op, k);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    const float each = 1.0f / qg__steps(k);
    for (size_t i = 0, n = qg_array_count(noise); i < n; i++)
        qg__floats(noise)[i] = (qg_uniform_fast(key, i) - 0.5f) * each;
    return QG_OK;
}
