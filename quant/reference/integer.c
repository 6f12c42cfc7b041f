#include "quant/reference/integer.h"

#include "quant/operand.h"
#include "quant/reference/code_array.h"
#include "quant/round.h"

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

const qg_uniform_quantize_attrs qg_uniform_quantize_defaults = { .quantization_axis    = QG_NO_AXIS,
                                                                 .quantization_min_val = INT8_MIN,
                                                                 .quantization_max_val = INT8_MAX };

const qg_uniform_requantize_attrs qg_uniform_requantize_defaults = { .input_quantization_axis     = QG_NO_AXIS,
                                                                     .output_quantization_axis    = QG_NO_AXIS,
                                                                     .output_quantization_min_val = INT8_MIN,
                                                                     .output_quantization_max_val = INT8_MAX };

static qg_status check_inverses(const char *op, const qg_array *scales)
{
    for (size_t k = 0; k < qg_array_count(scales); k++) {
        const float v = ((const float *)scales->data)[k];
        if (!isfinite(1.0f / v))
            return qg_fail(QG_EARG, "%s: scales[%zu] is %g, its inverse is not a float32", op, k, (double)v);
    }
    return QG_OK;
}

qg_status qg_uniform_quantize(qg_uniform_quantize_attrs attrs, const qg_array *input,
                              const qg_array *scales, const qg_array *zero_points,
                              qg_array *output)
{
    const char       *op     = "uniform_quantize";
    const int         axis   = attrs.quantization_axis;
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__F32 },
        { "output", output, .dtypes = QG__CODES, .like = "input" },
        { "scales", scales, .dtypes = QG__F32, .along = "input", .axis = axis, .axis_name = "quantization_axis",
          .values = QG__POSITIVE },
        { "zero_points", zero_points, .dtypes = QG__I32, .along = "input", .axis = axis },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (!s) {
        const qg__code_type t        = qg__code_type_of(output->dtype);
        const qg__attribute limits[] = {
            { "quantization_min_val", attrs.quantization_min_val, t.lo, attrs.quantization_max_val, NULL },
            { "quantization_max_val", attrs.quantization_max_val, attrs.quantization_min_val, t.hi, NULL },
        };
        s = QG__CHECK_ATTRIBUTES(op, limits);
    }
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
    const int         axis   = quantization_axis;
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__CODES },
        { "output", output, .dtypes = QG__F32, .like = "input" },
        { "scales", scales, .dtypes = QG__F32, .along = "input", .axis = axis, .axis_name = "quantization_axis",
          .values = QG__POSITIVE },
        { "zero_points", zero_points, .dtypes = QG__I32, .along = "input", .axis = axis },
    };
    const qg_status s = QG__CHECK_OPERANDS("uniform_dequantize", rows);
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

static qg_status check_requantize(qg_uniform_requantize_attrs a, const qg_array *input,
                                  const qg_array *input_scales, const qg_array *input_zero_points,
                                  const qg_array *output_scales, const qg_array *output_zero_points,
                                  const qg_array *output)
{
    const char       *op     = "uniform_requantize";
    const int         in     = a.input_quantization_axis;
    const int         out    = a.output_quantization_axis;
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__CODES },
        { "output", output, .dtypes = QG__CODES, .like = "input" },
        { "input_scales", input_scales, .dtypes = QG__F32, .along = "input", .axis = in,
          .axis_name = "input_quantization_axis", .values = QG__POSITIVE },
        { "input_zero_points", input_zero_points, .dtypes = QG__I32, .along = "input", .axis = in },
        { "output_scales", output_scales, .dtypes = QG__F32, .along = "input", .axis = out,
          .axis_name = "output_quantization_axis", .values = QG__POSITIVE },
        { "output_zero_points", output_zero_points, .dtypes = QG__I32, .along = "input", .axis = out },
    };
    const int           one   = in < 0 || out < 0 ? in : out;
    const qg__attribute axis  = { "input_quantization_axis", in, one, one, "-1, or output_quantization_axis" };
    qg_status           s     = qg__check_attributes(op, &axis, 1);
    if (!s) s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    const qg__code_type t        = qg__code_type_of(output->dtype);
    const qg__attribute limits[] = {
        { "output_quantization_min_val", a.output_quantization_min_val, t.lo, a.output_quantization_max_val, NULL },
        { "output_quantization_max_val", a.output_quantization_max_val, a.output_quantization_min_val, t.hi, NULL },
    };
    return QG__CHECK_ATTRIBUTES(op, limits);
}

qg_status qg_uniform_requantize(qg_uniform_requantize_attrs attrs, const qg_array *input,
                                const qg_array *input_scales, const qg_array *input_zero_points,
                                const qg_array *output_scales, const qg_array *output_zero_points,
                                qg_array *output)
{
    const int in_axis  = attrs.input_quantization_axis;
    const int out_axis = attrs.output_quantization_axis;
    qg_status s        = check_requantize(attrs, input, input_scales, input_zero_points, output_scales,
                                          output_zero_points, output);
    const qg_split d =
        s ? (qg_split){ 0 } : qg__split_at(input, in_axis < 0 ? out_axis : in_axis);
    for (size_t k = 0; k < d.depth; k++) {
        const int64_t in_zero  = qg__int_at(input_zero_points, k);
        const int64_t out_zero = qg__int_at(output_zero_points, k);
        qg_multiplier m        = { 0, 0 };
        s = qg_quantize_multiplier(
            (double)qg__float_at(input_scales, k) / (double)qg__float_at(output_scales, k), &m);
        if (s) return s;
        for (size_t o = 0; o < d.outer; o++)
            for (size_t i = (o * d.depth + k) * d.inner, e = i + d.inner; i < e; i++) {
                const int64_t q = multiply_once(qg__code(input, i) - in_zero, m) + out_zero;
                qg__set_code(output, i,
                             qg_clamp_int(q, attrs.output_quantization_min_val,
                                          attrs.output_quantization_max_val));
            }
    }
    return s;
}

/* ---- requantize ---- */

/* Reals with this many bits of fraction; the codes of the accumulator span 2^32. */
enum { FRACTION = 16, CODE_BITS = 32 };

/* The line from codes of one range to codes of the other, with FRACTION bits. */
typedef struct line {
    bool    fits;           /* else the two terms below do not fit 64 bits */
    int64_t scale, offset;  /* v = ((q * scale) >> 32) + offset */
    float   in_min, in_max, out_min, out_max;
} line;

static bool fits(double v)
{
    return v > -0x1p63 && v < 0x1p63;       /* false for NaN */
}

static int64_t saturated_sum(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

/* The mixture of float and double is that of the source: it decides how terms are rounded. */
static line plan(float in_min, float in_max, float out_min, float out_max)
{
    line         k         = { .in_min = in_min, .in_max = in_max, .out_min = out_min, .out_max = out_max };
    const float  in_range  = in_max - in_min;
    const float  out_range = out_max - out_min;
    const bool   empty     = out_range == 0.0f;
    const double one       = (double)(1 << FRACTION);
    const float  recip     = empty ? 0.0f : (float)(255.0 / (double)out_range);
    const float  middle    = (float)((double)(in_min + in_max) / 2.0);
    const double scale     = empty ? 0.0 : 255.0 * one * (double)in_range / (double)out_range;
    const double in_offset = empty ? 0.0 : (double)(middle * recip * (float)one);
    const double out_offset = empty ? 0.0 : one * ((double)out_min * 255.0) / (double)out_range;
    k.fits = fits(scale) && fits(in_offset) && fits(out_offset);
    if (!k.fits) return k;
    const int64_t half = 1 << (FRACTION - 1);
    k.scale  = (int64_t)scale;
    k.offset = saturated_sum((int64_t)in_offset, half - (int64_t)round(out_offset));
    return k;
}

/* 1. q * scale has 95 bits, so it is taken in halves: scale = high * 2^32 + low, 0 <= low < 2^32, and
 *    (q * scale) >> 32 = q * high + ((q * low) >> 32); |q| <= 2^31 and high < 2^31 fit both.
 * 2. That is at most 2^62, so where the sum with the offset saturates, the code does as well. */
static uint8_t code_of(const line *k, int32_t q)
{
    const int64_t high = k->scale >> CODE_BITS;
    const int64_t low  = k->scale & UINT32_MAX;
    const int64_t v    = saturated_sum(q * high + ((q * low) >> CODE_BITS), k->offset);
    return (uint8_t)qg_clamp_int(v >> FRACTION, 0, UINT8_MAX);
}

/* The same line in double. */
static uint8_t code_of_real(const line *k, int32_t q)
{
    const double in_range  = (double)k->in_max - (double)k->in_min;
    const double out_range = (double)k->out_max - (double)k->out_min;
    const double x = ((double)k->in_min + (double)k->in_max) / 2.0 + (double)q * 0x1p-32 * in_range;
    return (uint8_t)qg_to_int(floor((x - (double)k->out_min) * (255.0 / out_range) + 0.5), 0, UINT8_MAX);
}

static qg_status check_ranges(const char *op, float in_min, float in_max, float out_min, float out_max)
{
    if (out_min > 0.0f || out_max < out_min || in_max < in_min)
        return qg_fail(QG_EARG,
                       "%s: requested_output is %g .. %g, must be ordered and begin at 0 or "
                       "below; input is %g .. %g, must be ordered",
                       op, (double)out_min, (double)out_max, (double)in_min, (double)in_max);
    const qg_status s = qg__check_width(op, "input", in_min, in_max);
    return s ? s : qg__check_width(op, "requested_output", out_min, out_max);
}

qg_status qg_requantize(const qg_array *input, const qg_array *input_min,
                        const qg_array *input_max, const qg_array *requested_output_min,
                        const qg_array *requested_output_max, qg_array *output,
                        qg_array *output_min, qg_array *output_max)
{
    const char       *op     = "requantize";
    const qg__operand rows[] = {
        { "input", input, .dtypes = QG__I32 },
        { "input_min", input_min, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "input_max", input_max, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "requested_output_min", requested_output_min, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "requested_output_max", requested_output_max, .dtypes = QG__F32, .scalar = true, .values = QG__FINITE },
        { "output", output, .dtypes = QG__U8, .like = "input" },
        { "output_min", output_min, .dtypes = QG__F32, .scalar = true },
        { "output_max", output_max, .dtypes = QG__F32, .scalar = true },
    };
    qg_status s = QG__CHECK_OPERANDS(op, rows);
    if (s) return s;
    const float in_min  = *(const float *)input_min->data;
    const float in_max  = *(const float *)input_max->data;
    const float out_min = *(const float *)requested_output_min->data;
    const float out_max = *(const float *)requested_output_max->data;
    s = check_ranges(op, in_min, in_max, out_min, out_max);
    if (s) return s;
    const line k = plan(in_min, in_max, out_min, out_max);
    for (size_t i = 0, n = qg_array_count(input); i < n; i++) {
        const int32_t q              = ((const int32_t *)input->data)[i];
        ((uint8_t *)output->data)[i] = k.fits ? code_of(&k, q) : code_of_real(&k, q);
    }
    *(float *)output_min->data = out_min;
    *(float *)output_max->data = out_max;
    return QG_OK;
}
