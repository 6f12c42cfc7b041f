#include "quant/schemes/fake_quant.h"

#include <math.h>

#include "quant/check.h"
#include "quant/operand.h"
#include "quant/round.h"
#include "quant/uniform.h"

/* ---- the range ---- */

static qg_status check_range(qg_fake_quant_attrs attrs, float min, float max)
{
    if (attrs.num_bits < 2 || attrs.num_bits > 16)
        return qg_fail(QG_EARG, "fake_quant: num_bits is %d, must be 2 .. 16", attrs.num_bits);
    if (!isfinite(min) || !isfinite(max))
        return qg_fail(QG_EARG, "fake_quant: min is %g and max is %g, both must be finite",
                       (double)min, (double)max);
    if (min > max)
        return qg_fail(QG_EARG, "fake_quant: min is %.9g, must be smaller than max, %.9g",
                       (double)min, (double)max);
    if (min == max && min != 0.0f)
        return qg_fail(QG_EARG, "fake_quant: min and max are both %.9g, must differ or be 0",
                       (double)min);
    return QG_OK;
}

qg_status qg_fake_quant_nudge(qg_fake_quant_attrs attrs, float min, float max,
                              qg_fake_quant_range *range)
{
    const qg_status s = check_range(attrs, min, max);
    if (s) return s;
    const int qmin = attrs.narrow_range ? 1 : 0;
    const int qmax = (1 << attrs.num_bits) - 1;
    if (max == min) {
        *range = (qg_fake_quant_range){ .zero_point = qmin };
        return QG_OK;
    }
    /* Written out in float32: for [-1,1] z is 127.499992, in double it would be 127.5. */
    const float steps = (float)(qmax - qmin);
    const float width = max - min;
    const float scale = width / steps;
    const float inv   = steps / width;
    if (!isfinite(width) || !isfinite(inv))
        return qg_fail(QG_EARG, "fake_quant: max - min is %g, not a float32 range of %d steps",
                       (double)width, qmax - qmin);
    const float z  = (float)qmin - min / scale;
    const int   zp = z < (float)qmin   ? qmin
                     : z > (float)qmax ? qmax
                                       : (int)qg_round_away(z);
    const float nmin = (float)(qmin - zp) * scale;
    const float nmax = (float)(qmax - zp) * scale;
    if (!isfinite(nmax - nmin))
        return qg_fail(QG_EARG, "fake_quant: min is %.9g and max is %.9g, nudged to %g .. %g, not a float32 range",
                       (double)min, (double)max, (double)nmin, (double)nmax);
    *range = (qg_fake_quant_range){ .scale      = scale,
                                    .inv        = inv,
                                    .nmin       = nmin,
                                    .nmax       = nmax,
                                    .q0         = qg_round_up(-nmin * inv),
                                    .zero_point = zp };
    return QG_OK;
}

/* ---- loops over floats that share a range ---- */

void qg_fake_quant_divide(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    if (r->scale != 0.0f) QG_KERNELS(qg__uniform)->fake_quant_divide(r, n, x, y);
    else
        for (size_t i = 0; i < n; i++) y[i] = 0.0f;
}

void qg_fake_quant_multiply(const qg_fake_quant_range *r, size_t n, const float *x, float *y)
{
    if (r->scale != 0.0f) QG_KERNELS(qg__uniform)->fake_quant_multiply(r, n, x, y);
    else
        for (size_t i = 0; i < n; i++) y[i] = 0.0f;
}

void qg_fake_quant_codes(const qg_fake_quant_range *r, size_t n, const float *y, uint8_t *code)
{
    for (size_t i = 0; i < n; i++) {
        const float   steps = r->scale == 0.0f ? 0.0f : qg_round_even(y[i] / r->scale);
        const int64_t q     = qg_to_int((double)steps, -UINT8_MAX, UINT8_MAX) + r->zero_point;
        code[i]             = (uint8_t)qg_clamp_int(q, 0, UINT8_MAX);
    }
}

void qg_fake_quant_backward(const qg_fake_quant_range *r, size_t n, const float *x, const float *g,
                            float *dx, double *dmin, double *dmax)
{
    const qg_uniform_kernels *kernels = QG_KERNELS(qg__uniform);
    if (r->scale == 0.0f) {
        for (size_t i = 0; i < n; i++) dx[i] += g[i];
        return;
    }
    if (kernels->fake_quant_mask(r, n, x, g, dx) && dmin)
        kernels->fake_quant_outside(r, n, x, g, dmin, dmax);
}

/* ---- operators ---- */

static qg_status check_args(const char *op, qg_fake_quant_args a, qg_fake_quant_range *r)
{
    if (!(a.min < a.max))
        return qg_fail(QG_EARG, "%s: min is %.9g, must be smaller than max, %.9g", op,
                       (double)a.min, (double)a.max);
    return qg_fake_quant_nudge((qg_fake_quant_attrs){ a.num_bits, a.narrow_range }, a.min, a.max,
                               r);
}

static qg_status check_scalar(const char *op, const char *name, const qg_array *a)
{
    const qg_status s = qg__check_array(op, name, a, QG_F32);
    return s ? s : qg__check_rank(op, name, a, 0);
}

qg_status qg_fake_quant_with_min_max_args(qg_fake_quant_args attrs, const qg_array *inputs,
                                          qg_array *outputs)
{
    const char         *op = "fake_quant_with_min_max_args";
    qg_fake_quant_range r;
    qg_status           s = check_args(op, attrs, &r);
    if (!s) s = qg__check_pair(op, "outputs", outputs, "inputs", inputs);
    if (!s) qg_fake_quant_multiply(&r, qg_array_count(inputs), inputs->data, outputs->data);
    return s;
}

qg_status qg_fake_quant_with_min_max_args_gradient(qg_fake_quant_args attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, qg_array *backprops)
{
    const char         *op = "fake_quant_with_min_max_args_gradient";
    qg_fake_quant_range r;
    qg_status           s = check_args(op, attrs, &r);
    if (!s) s = qg__check_pair(op, "gradients", gradients, "inputs", inputs);
    if (!s) s = qg__check_pair(op, "backprops", backprops, "inputs", inputs);
    if (s) return s;
    qg__zero(backprops);
    qg_fake_quant_backward(&r, qg_array_count(inputs), inputs->data, gradients->data,
                           backprops->data, NULL, NULL);
    return QG_OK;
}

static qg_status nudge_vars(const char *op, qg_fake_quant_attrs attrs, const qg_array *min,
                            const qg_array *max, qg_fake_quant_range *r)
{
    qg_status s = check_scalar(op, "min", min);
    if (!s) s = check_scalar(op, "max", max);
    return s ? s
             : qg_fake_quant_nudge(attrs, *(const float *)min->data, *(const float *)max->data, r);
}

qg_status qg_fake_quant_with_min_max_vars(qg_fake_quant_attrs attrs, const qg_array *inputs,
                                          const qg_array *min, const qg_array *max,
                                          qg_array *outputs)
{
    const char         *op = "fake_quant_with_min_max_vars";
    qg_fake_quant_range r;
    qg_status           s = qg__check_pair(op, "outputs", outputs, "inputs", inputs);
    if (!s) s = nudge_vars(op, attrs, min, max, &r);
    if (!s) qg_fake_quant_divide(&r, qg_array_count(inputs), inputs->data, outputs->data);
    return s;
}

qg_status qg_fake_quant_with_min_max_vars_gradient(qg_fake_quant_attrs attrs,
                                                   const qg_array *gradients,
                                                   const qg_array *inputs, const qg_array *min,
                                                   const qg_array *max,
                                                   qg_array *backprops_wrt_input,
                                                   qg_array *backprop_wrt_min,
                                                   qg_array *backprop_wrt_max)
{
    const char         *op = "fake_quant_with_min_max_vars_gradient";
    qg_fake_quant_range r;
    qg_status           s = qg__check_pair(op, "gradients", gradients, "inputs", inputs);
    if (!s) s = nudge_vars(op, attrs, min, max, &r);
    if (!s) s = qg__check_pair(op, "backprops_wrt_input", backprops_wrt_input, "inputs", inputs);
    if (!s) s = check_scalar(op, "backprop_wrt_min", backprop_wrt_min);
    if (!s) s = check_scalar(op, "backprop_wrt_max", backprop_wrt_max);
    if (s) return s;
    double dmin = 0.0;
    double dmax = 0.0;
    qg__zero(backprops_wrt_input);
    qg_fake_quant_backward(&r, qg_array_count(inputs), inputs->data, gradients->data,
                           backprops_wrt_input->data, &dmin, &dmax);
    *(float *)backprop_wrt_min->data = (float)dmin;
    *(float *)backprop_wrt_max->data = (float)dmax;
    return QG_OK;
}
