#include "quant/reference/integer.h"

#include "quant/check.h"
#include "quant/code_array.h"
#include "quant/round.h"
#include "quant/reference/scales.h"

/* ---- factors ---- */

qg_status qg_quantize_multiplier(double m, qg_multiplier *multiplier)
{
    if (!isfinite(m))
        return qg_fail(QG_EARG, "quantize_multiplier: the multiplier is %g, must be finite", m);
    int     shift;
    int64_t fraction = (int64_t)round(frexp(m, &shift) * 0x1p31);
    if (fraction == INT64_C(1) << 31) {
        fraction /= 2;
        shift++;
    }
    const bool vanishes = m == 0.0 || shift < -31;
    *multiplier         = vanishes ? (qg_multiplier){ 0, 0 }
                                   : (qg_multiplier){ (int32_t)fraction, shift };
    return QG_OK;
}

/* v / 2^n for n >= 1, ties toward +inf.  Halving after the shift leaves no sum that overflows. */
static int64_t shift_up(int64_t v, int n)
{
    return ((v >> (n > 64 ? 63 : n - 1)) + 1) >> 1;
}

/* v / 2^n for n >= 1, ties away from zero. */
static int64_t shift_away(int32_t v, int n)
{
    return v < 0 ? -shift_up(-(int64_t)v, n) : shift_up(v, n);
}

/* v * 2^n for n >= 0. */
static int32_t shift_left(int32_t v, int n)
{
    return qg_saturate_i32((int64_t)v * (INT64_C(1) << (n > 31 ? 31 : n)));
}

/* Beyond 64 places nothing changes: the result is 0 or saturated. */
static int places(qg_multiplier m)
{
    return (int)qg_clamp_int(m.shift, -64, 64);
}

/* x * M with one rounding, for a difference of two int32: the product has 33 + 31 bits and fits. */
static int32_t multiply_once(int64_t x, qg_multiplier m)
{
    const int     shift   = places(m);
    const int64_t product = x * m.fraction;
    return shift <= 30 ? qg_saturate_i32(shift_up(product, 31 - shift))
                       : shift_left(qg_saturate_i32(product), shift - 31);
}

int32_t qg_multiply_by_quantized_multiplier(int32_t x, qg_multiplier m,
                                            qg_requant_rounding rounding)
{
    const int shift = places(m);
    const int64_t product = (int64_t)x * m.fraction;
    if (rounding == QG_DOUBLE_ROUNDING && shift < 0)
        return (int32_t)shift_away(qg_saturate_i32(shift_up(product, 31)), -shift);
    /* Without a right shift double rounding has nothing to round twice: x * 2^shift is exact. */
    return multiply_once(x, m);
}

static double magnitude(double code, double real)
{
    return fabs(code) + fabs(real);
}

qg_status qg_choose_quantization_params(int32_t qmin, int32_t qmax, double rmin, double rmax,
                                        double *scale, int32_t *zero_point)
{
    const char *op = "choose_quantization_params";
    if (!isfinite(rmin) || !isfinite(rmax) || rmin > 0.0 || rmax < 0.0)
        return qg_fail(QG_EARG, "%s: rmin is %.17g and rmax is %.17g, 0 must be inside", op, rmin,
                       rmax);
    if (qmin >= qmax)
        return qg_fail(QG_EARG, "%s: qmin is %d, must be smaller than qmax, %d", op, (int)qmin,
                       (int)qmax);
    if (rmin == rmax) {
        *scale      = 0.0;
        *zero_point = 0;
        return QG_OK;
    }
    const double lo   = qmin;
    const double hi   = qmax;
    const double step = (rmax - rmin) / (hi - lo);
    if (!isfinite(step) || step == 0.0)
        return qg_fail(QG_EARG, "%s: rmax - rmin is %g, not a range of %.0f steps", op, rmax - rmin,
                       hi - lo);
    const bool   at_lo = magnitude(lo, rmin / step) < magnitude(hi, rmax / step);
    const double z     = at_lo ? lo - rmin / step : hi - rmax / step;
    *scale             = step;
    *zero_point        = (int32_t)qg_to_int(round(z), qmin, qmax);
    return QG_OK;
}

/* ---- uniform operators ---- */

static qg_status check_inverses(const char *op, const qg_array *scales)
{
    for (size_t k = 0; k < qg_array_count(scales); k++) {
        const float v = ((const float *)scales->data)[k];
        if (!isfinite(1.0f / v))
            return qg_fail(QG_EARG, "%s: scales[%zu] is %g, its inverse is no float32", op, k, (double)v);
    }
    return QG_OK;
}

qg_status qg_uniform_quantize(qg_uniform_quantize_attrs attrs, const qg_array *input,
                              const qg_array *scales, const qg_array *zero_points,
                              qg_array *output)
{
    const char *op   = "uniform_quantize";
    const int   axis = attrs.quantization_axis;
    qg_status   s    = qg__check_array(op, "input", input, QG_F32);
    if (!s) s = qg__check_codes(op, "output", output);
    if (!s) s = qg__check_same_shape(op, "output", output, "input", input);
    if (!s) s = qg__check_axis(op, "quantization_axis", axis, input);
    if (!s) s = qg__check_scales(op, "scales", scales, "zero_points", zero_points, axis, input);
    if (!s)
        s = qg__check_limits(op, "quantization", attrs.quantization_min_val,
                             attrs.quantization_max_val, output->dtype);
    if (!s) s = check_inverses(op, scales);
    if (s) return s;
    const qg_split d = qg__split_at(input, axis);
    const float    *x = input->data;
    for (size_t k = 0; k < d.depth; k++) {
        const float   inv = 1.0f / ((const float *)scales->data)[k];
        const int64_t z   = ((const int32_t *)zero_points->data)[k];
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++) {
                const double  v = (double)qg_round_up(x[i] * inv);
                const int64_t q = qg_to_int(v, -(INT64_C(1) << 40), INT64_C(1) << 40) + z;
                qg__set_code(output, i,
                             qg_clamp_int(q, attrs.quantization_min_val,
                                          attrs.quantization_max_val));
            }
    }
    return QG_OK;
}

qg_status qg_uniform_dequantize(int quantization_axis, const qg_array *input,
                                const qg_array *scales, const qg_array *zero_points,
                                qg_array *output)
{
    const char *op   = "uniform_dequantize";
    const int   axis = quantization_axis;
    qg_status   s    = qg__check_codes(op, "input", input);
    if (!s) s = qg__check_array(op, "output", output, QG_F32);
    if (!s) s = qg__check_same_shape(op, "output", output, "input", input);
    if (!s) s = qg__check_axis(op, "quantization_axis", axis, input);
    if (!s) s = qg__check_scales(op, "scales", scales, "zero_points", zero_points, axis, input);
    if (s) return s;
    const qg_split d = qg__split_at(input, axis);
    for (size_t k = 0; k < d.depth; k++) {
        const float   scale = ((const float *)scales->data)[k];
        const int64_t z     = ((const int32_t *)zero_points->data)[k];
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++)
                ((float *)output->data)[i] = (float)(qg__code(input, i) - z) * scale;
    }
    return QG_OK;
}

static qg_status check_requantize(const char *op, qg_uniform_requantize_attrs a,
                                  const qg_array *input, const qg_array *output)
{
    const int in_axis  = a.input_quantization_axis;
    const int out_axis = a.output_quantization_axis;
    qg_status s        = qg__check_codes(op, "input", input);
    if (!s) s = qg__check_codes(op, "output", output);
    if (!s) s = qg__check_same_shape(op, "output", output, "input", input);
    if (!s) s = qg__check_axis(op, "input_quantization_axis", in_axis, input);
    if (!s) s = qg__check_axis(op, "output_quantization_axis", out_axis, input);
    if (!s)
        s = qg__check_limits(op, "output_quantization", a.output_quantization_min_val,
                             a.output_quantization_max_val, output->dtype);
    if (!s && in_axis >= 0 && out_axis >= 0 && in_axis != out_axis)
        s = qg_fail(QG_EARG, "%s: input_quantization_axis is %d, must be -1 or "
                             "output_quantization_axis, %d", op, in_axis, out_axis);
    return s;
}

qg_status qg_uniform_requantize(qg_uniform_requantize_attrs attrs, const qg_array *input,
                                const qg_array *input_scales, const qg_array *input_zero_points,
                                const qg_array *output_scales, const qg_array *output_zero_points,
                                qg_array *output)
{
    const char *op       = "uniform_requantize";
    const int   in_axis  = attrs.input_quantization_axis;
    const int   out_axis = attrs.output_quantization_axis;
    qg_status   s        = check_requantize(op, attrs, input, output);
    if (!s)
        s = qg__check_scales(op, "input_scales", input_scales, "input_zero_points",
                             input_zero_points, in_axis, input);
    if (!s)
        s = qg__check_scales(op, "output_scales", output_scales, "output_zero_points",
                             output_zero_points, out_axis, input);
    const qg_split d =
        s ? (qg_split){ 0 } : qg__split_at(input, in_axis < 0 ? out_axis : in_axis);
    for (size_t k = 0; k < d.depth; k++) {
        const qg__scale in  = qg__scale_at(input_scales, input_zero_points, k);
        const qg__scale out = qg__scale_at(output_scales, output_zero_points, k);
        qg_multiplier   m = { 0, 0 };
        s = qg_quantize_multiplier((double)in.scale / (double)out.scale, &m);
        if (s) return s;
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++) {
                const int64_t q = multiply_once(qg__code(input, i) - in.zero_point, m) + out.zero_point;
                qg__set_code(output, i,
                             qg_clamp_int(q, attrs.output_quantization_min_val,
                                          attrs.output_quantization_max_val));
            }
    }
    return s;
}
