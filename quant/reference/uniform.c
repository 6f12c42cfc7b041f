#include "quant/reference/uniform.h"

#include <math.h>

#include "quant/operand.h"
#include "quant/schemes/formulas.h"

/* --- LSQ -------------------------------------------------------------------------------------- */

static qg_status check_lsq(const char *op, qg_lsq_attrs attrs)
{
    qg_status s = qg__check_above_zero(op, "step", attrs.step);
    if (!s) s = qg__check_int(op, "qn", attrs.qn, 0, 1 << 24);
    if (!s) s = qg__check_int(op, "qp", attrs.qp, 0, 1 << 24);
    const int most = attrs.qn > attrs.qp ? attrs.qn : attrs.qp;
    if (s || isfinite(attrs.step * (float)most)) return s;
    return qg_fail(QG_EARG, "%s: step is %g, times %d codes beyond float32", op, (double)attrs.step, most);
}

static qg_constants lsq_constants(qg_lsq_attrs a)
{
    return (qg_constants){ .uniform = { .lo = -(float)a.qn, .hi = (float)a.qp, .step = a.step } };
}

qg_status qg_lsq_quantizer(const qg_array *x, qg_lsq_attrs attrs, qg_array *y)
{
    const char     *op = "lsq_quantizer";
    const qg_status s  = check_lsq(op, attrs);
    return s ? s : qg__form_operator(op, &qg__lsq_scheme, lsq_constants(attrs), x, y);
}

qg_status qg_lsq_quantizer_gradient(const qg_array *x, const qg_array *dy, qg_lsq_attrs attrs, qg_array *dx,
                                    float *grad_step)
{
    const char *op = "lsq_quantizer_gradient";
    double      sum[1][QG_FORM_SUMS];
    qg_status   s  = check_lsq(op, attrs);
    if (!s) s = qg__form_operator_gradient(op, &qg__lsq_scheme, lsq_constants(attrs), attrs.surrogate, x, dy, dx, sum);
    if (!s && grad_step) *grad_step = (float)(attrs.grad_scale * sum[0][0]);
    return s;
}

/* --- PACT ------------------------------------------------------------------------------------- */

static qg_status check_pact(const char *op, int k, float alpha)
{
    qg_status s = qg__check_int(op, "k", k, 1, QG_FLOAT_BITS);
    if (!s) s = qg__check_above_zero(op, "alpha", alpha);
    if (s || k == QG_FLOAT_BITS || isfinite(alpha * qg__steps(k))) return s;
    return qg_fail(QG_EARG, "%s: alpha is %g, times %.0f steps beyond float32", op, (double)alpha,
                   (double)qg__steps(k));
}

static qg_constants pact_constants(int k, float alpha)
{
    return qg__pact_scheme.constants((qg_quant){ .bits = k }, (qg_span){ .n = 0 }, &alpha);
}

qg_status qg_pact_quantizer(const qg_array *x, int k, float alpha, qg_array *y)
{
    const char     *op = "pact_quantizer";
    const qg_status s  = check_pact(op, k, alpha);
    return s ? s : qg__form_operator(op, &qg__pact_scheme, pact_constants(k, alpha), x, y);
}

qg_status qg_pact_quantizer_gradient(const qg_array *x, const qg_array *dy, int k, float alpha, qg_surrogate s,
                                     qg_array *dx, float *grad_alpha)
{
    const char *op     = "pact_quantizer_gradient";
    double      sum[1][QG_FORM_SUMS];
    qg_status   status = check_pact(op, k, alpha);
    if (!status) status = qg__form_operator_gradient(op, &qg__pact_scheme, pact_constants(k, alpha), s, x, dy, dx, sum);
    if (!status && grad_alpha) *grad_alpha = (float)sum[0][0];
    return status;
}

/* --- linear mid tread half -------------------------------------------------------------------- */

static qg_status check_linear(const char *op, int bit, float max_value)
{
    const qg_status s = qg__check_int(op, "bit", bit, 1, QG_FLOAT_BITS);
    return s ? s : qg__check_above_zero(op, "max_value", max_value);
}

static qg_constants linear_constants(int bit, float max_value)
{
    return qg__linear_scheme.constants((qg_quant){ .bits = bit, .arg = { max_value } }, (qg_span){ .n = 0 }, NULL);
}

qg_status qg_linear_mid_tread_half_quantizer(const qg_array *x, int bit, float max_value, qg_array *y)
{
    const char     *op = "linear_mid_tread_half_quantizer";
    const qg_status s  = check_linear(op, bit, max_value);
    return s ? s : qg__form_operator(op, &qg__linear_scheme, linear_constants(bit, max_value), x, y);
}

qg_status qg_linear_mid_tread_half_quantizer_gradient(const qg_array *x, const qg_array *dy, int bit,
                                                      float max_value, qg_surrogate s, qg_array *dx)
{
    const char     *op     = "linear_mid_tread_half_quantizer_gradient";
    const qg_status status = check_linear(op, bit, max_value);
    if (status) return status;
    return qg__form_operator_gradient(op, &qg__linear_scheme, linear_constants(bit, max_value), s, x, dy, dx, NULL);
}
