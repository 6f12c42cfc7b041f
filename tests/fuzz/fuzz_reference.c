/* The operators of TensorFlow, TFLite and Blueoil on arrays, with any attributes and any floats.  A call
 * that fails leaves a message and no output; one that succeeds keeps what its header promises. */
#include <math.h>
#include <string.h>

#include "quant/reference/code_array.h"
#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"
#include "quant/reference/quantize.h"
#include "quant/reference/fake_quant.h"
#include "tests/fuzz/fuzz.h"

/* The shape of the tensor of a call, and one range for it or one for each index of an axis. */
typedef struct shape {
    int    rank, axis;
    size_t dims[5], slices;
} shape;

static shape draw_shape(draws *d)
{
    shape s = { .rank = draw(d, 0, 4), .axis = -1, .slices = 1 };
    fuzz_extents(d, s.rank, s.dims);
    if (draw_rarely(d)) s.axis = draw_int(d);
    else if (s.rank && draw_bool(d)) s.axis = draw(d, 0, s.rank - 1);
    if (s.axis >= 0 && s.axis < s.rank) s.slices = s.dims[s.axis];
    return s;
}

static qg_array whole(draws *d, shape s, qg_dtype t) { return fuzz_input(d, t, s.rank, s.dims); }
static qg_array like(draws *d, shape s, qg_dtype t) { return fuzz_output(d, t, s.rank, s.dims); }
static qg_array slices(draws *d, shape s, qg_dtype t)
{
    return fuzz_input(d, t, s.axis < 0 ? 0 : 1, &s.slices);
}
static qg_array per_slice(draws *d, shape s) { return fuzz_output(d, QG_F32, s.axis < 0 ? 0 : 1, &s.slices); }
static qg_array scalar(draws *d) { return fuzz_input(d, QG_F32, 0, NULL); }
static qg_array result(draws *d) { return fuzz_output(d, QG_F32, 0, NULL); }

/* Mostly puts the ends of each range in order. */
static void order(draws *d, const qg_array *lo, const qg_array *hi)
{
    if (draw_rarely(d) || lo->dtype != QG_F32 || hi->dtype != QG_F32) return;
    float *a = lo->data, *b = hi->data;
    for (size_t i = 0; i < qg_array_count(lo) && i < qg_array_count(hi); i++)
        if (a[i] > b[i]) {
            const float t = a[i];
            a[i]          = b[i];
            b[i]          = t;
        }
}

static qg_dtype draw_codes(draws *d)
{
    static const qg_dtype t[] = { QG_I8, QG_U8, QG_I16, QG_U16, QG_I32 };
    return draw_rarely(d) ? (qg_dtype)draw(d, QG_F32, QG_U64) : t[draw(d, 0, 4)];
}

static const float *floats(const qg_array *a) { return a->data; }

static bool all_finite(const qg_array *a)
{
    for (size_t i = 0; i < qg_array_count(a); i++)
        if (!isfinite(floats(a)[i])) return false;
    return true;
}

/* --- conversions ------------------------------------------------------------------------------- */

static void quantize_v2(draws *d)
{
    const shape    s = draw_shape(d);
    const qg_array x = whole(d, s, QG_F32), lo = slices(d, s, QG_F32), hi = slices(d, s, QG_F32);
    qg_array       q = like(d, s, draw_codes(d)), from = per_slice(d, s), to = per_slice(d, s),
                   y = like(d, s, QG_F32);
    order(d, &lo, &hi);
    const qg_quantize_v2_attrs a = {
        (qg_quantize_mode)draw(d, 0, 3),      (qg_round_mode)draw(d, 0, 3),    draw_bool(d), s.axis,
        draw_bool(d) ? 0.01f : draw_float(d), (qg_scaled_variant)draw(d, 0, 2)
    };
    if (!fuzz_done(qg_quantize_v2(a, &x, &lo, &hi, &q, &from, &to))) return;
    MUST(all_finite(&from) && all_finite(&to));
    /* The range includes 0, unless narrow_range has left out that code of an unsigned type. */
    const bool unsigned_codes = q.dtype == QG_U8 || q.dtype == QG_U16;
    for (size_t i = 0; i < qg_array_count(&from); i++)
        MUST((floats(&from)[i] <= 0 || (unsigned_codes && a.narrow_range)) && floats(&to)[i] >= 0);
    const qg_dequantize_attrs back = { a.mode, a.narrow_range, s.axis, draw_bool(d) };
    if (fuzz_done(qg_dequantize(back, &q, &from, &to, &y))) MUST(all_finite(&y));
}

static void dequantize(draws *d)
{
    const shape    s = draw_shape(d);
    const qg_array q = whole(d, s, draw_codes(d)), lo = slices(d, s, QG_F32), hi = slices(d, s, QG_F32);
    qg_array       y = like(d, s, QG_F32);
    const qg_dequantize_attrs a = { (qg_quantize_mode)draw(d, 0, 3), draw_bool(d), s.axis, draw_bool(d) };
    if (fuzz_done(qg_dequantize(a, &q, &lo, &hi, &y))) MUST(all_finite(&y));
    (void)qg_float_to_quantized_unclamped(draw_codes(d), draw_float(d), draw_float(d), draw_float(d));
}

/* y is a code of the grid times its step, which the header defines. */
static void check_on_grid(const qg_quantize_and_dequantize_attrs *a, float lo, float hi, float x, float y)
{
    const double most = a->signed_input ? ldexp(1, a->num_bits - 1) - 1 : ldexp(1, a->num_bits) - 1;
    const double least = a->signed_input ? -ldexp(1, a->num_bits - 1) + a->narrow_range : 0;
    if (isnan(x)) {
        MUST(isnan(y));
        return;
    }
    const double below = least * (double)lo > 0 ? least / (double)lo : INFINITY;
    const double above = most * (double)hi > 0 ? most / (double)hi : INFINITY;
    if (isinf(below) && isinf(above)) {
        MUST(y == 0);
        return;
    }
    const double step = below < above ? (double)lo / least : (double)hi / most, code = (double)y / step;
    if (isinf(y)) {         /* as x; the end that would clip it is not a finite float */
        MUST(y == x && !isfinite((float)((x < 0 ? least : most) * step)));
        return;
    }
    MUST(isfinite(y));
    /* step and y are rounded to floats once each: a relative 2^-24 of a code of at most 2^8, and half a
     * step of 2^-149 where step is subnormal. */
    if (step < 0x1p-120) return;
    MUST(fabs(code - rint(code)) <= 1e-4 && rint(code) >= least && rint(code) <= most);
}

static void quantize_and_dequantize(draws *d)
{
    shape          s = draw_shape(d);
    const qg_array x = whole(d, s, QG_F32), g = whole(d, s, QG_F32), lo = slices(d, s, QG_F32),
                   hi = slices(d, s, QG_F32);
    qg_array y = like(d, s, QG_F32), dx = like(d, s, QG_F32), dlo = per_slice(d, s), dhi = per_slice(d, s);
    order(d, &lo, &hi);
    const qg_quantize_and_dequantize_attrs a = {
        (qg_qdq_version)draw(d, 0, 3), draw_bool(d), draw_bool(d) ? draw(d, 1, 9) : draw_int(d), draw_bool(d),
        (qg_round_mode)draw(d, 0, 3), draw_bool(d), s.axis,
    };
    if (fuzz_done(qg_quantize_and_dequantize(a, &x, &lo, &hi, &y)) && a.range_given && a.num_bits <= 8 &&
        s.axis < 0)
        for (size_t i = 0; i < qg_array_count(&x); i++)
            check_on_grid(&a, floats(&lo)[0], floats(&hi)[0], floats(&x)[i], floats(&y)[i]);
    if (!fuzz_done(qg_quantize_and_dequantize_v4_gradient(a, &g, &x, &lo, &hi, &dx, &dlo, &dhi))) return;
    for (size_t i = 0; i < qg_array_count(&x); i++)
        MUST(!memcmp(&floats(&dx)[i], &floats(&g)[i], sizeof(float)) || floats(&dx)[i] == 0);
    /* Each as long as its end of the range; these are compared only if they are read. */
    for (size_t i = 0; i < qg_array_count(&dlo); i++) MUST(floats(&dlo)[i] == 0);
    for (size_t i = 0; i < qg_array_count(&dhi); i++) MUST(floats(&dhi)[i] == 0);
}

/* --- fake quantization -------------------------------------------------------------------------- */

/* Values of the results of an operator for one range; again: the results of their own. */
static void check_fake(const qg_fake_quant_range *r, qg_fake_quant_attrs a, float x, float y, float again)
{
    if (r->scale == 0) {                /* the range is empty, also for NaN */
        MUST(y == 0);
        return;
    }
    if (isnan(x)) {
        MUST(isnan(y));
        return;
    }
    const float code = rintf(y / r->scale);
    MUST(y == code * r->scale && y == again);
    MUST(code + (float)r->zero_point >= (float)a.narrow_range &&
         code + (float)r->zero_point < (float)(1 << a.num_bits));
    MUST(x != 0 || y == 0);
}

static void check_fake_gradient(const qg_fake_quant_range *r, float x, float g, float dx)
{
    const bool inside = r->scale == 0 || (x >= r->nmin && x <= r->nmax);
    MUST(inside ? !memcmp(&dx, &g, sizeof g) || (isnan(g) && isnan(dx)) || (g == 0 && dx == 0) : dx == 0);
}

static void fake_quant_args(draws *d)
{
    const shape              s = draw_shape(d);
    const qg_array           x = whole(d, s, QG_F32), g = whole(d, s, QG_F32);
    qg_array                 y = like(d, s, QG_F32), again = like(d, s, QG_F32), dx = like(d, s, QG_F32);
    const qg_fake_quant_args a = { draw_float(d), draw_float(d), draw(d, 1, 17), draw_bool(d) };
    const qg_fake_quant_attrs attrs = { a.num_bits, a.narrow_range };
    qg_fake_quant_range       r;
    if (!fuzz_done(qg_fake_quant_with_min_max_args(a, &x, &y))) return;
    MUST(!qg_fake_quant_nudge(attrs, a.min, a.max, &r));
    if (!fuzz_done(qg_fake_quant_with_min_max_args(a, &y, &again))) return;
    for (size_t i = 0; i < qg_array_count(&x); i++)
        check_fake(&r, attrs, floats(&x)[i], floats(&y)[i], floats(&again)[i]);
    if (!fuzz_done(qg_fake_quant_with_min_max_args_gradient(a, &g, &x, &dx))) return;
    for (size_t i = 0; i < qg_array_count(&x); i++)
        check_fake_gradient(&r, floats(&x)[i], floats(&g)[i], floats(&dx)[i]);
}

static void fake_quant_vars(draws *d)
{
    shape s = draw_shape(d);
    s.axis  = -1;
    const qg_array x = whole(d, s, QG_F32), g = whole(d, s, QG_F32), lo = scalar(d), hi = scalar(d);
    qg_array y = like(d, s, QG_F32), again = like(d, s, QG_F32), dx = like(d, s, QG_F32), dlo = result(d),
             dhi = result(d);
    order(d, &lo, &hi);
    const qg_fake_quant_attrs a = { draw(d, 1, 17), draw_bool(d) };
    qg_fake_quant_range       r;
    if (!fuzz_done(qg_fake_quant_with_min_max_vars(a, &x, &lo, &hi, &y))) return;
    MUST(!qg_fake_quant_nudge(a, floats(&lo)[0], floats(&hi)[0], &r));
    if (!fuzz_done(qg_fake_quant_with_min_max_vars(a, &y, &lo, &hi, &again))) return;
    for (size_t i = 0; i < qg_array_count(&x); i++)
        check_fake(&r, a, floats(&x)[i], floats(&y)[i], floats(&again)[i]);
    if (!fuzz_done(qg_fake_quant_with_min_max_vars_gradient(a, &g, &x, &lo, &hi, &dx, &dlo, &dhi))) return;
    for (size_t i = 0; i < qg_array_count(&x); i++)
        check_fake_gradient(&r, floats(&x)[i], floats(&g)[i], floats(&dx)[i]);
}

static void fake_quant_channels(draws *d)
{
    shape s  = draw_shape(d);
    s.axis   = s.rank - 1;
    s.slices = s.rank ? s.dims[s.axis] : 1;
    const qg_array x = whole(d, s, QG_F32), g = whole(d, s, QG_F32), lo = slices(d, s, QG_F32),
                   hi = slices(d, s, QG_F32);
    qg_array y = like(d, s, QG_F32), again = like(d, s, QG_F32), dx = like(d, s, QG_F32),
             dlo = per_slice(d, s), dhi = per_slice(d, s);
    order(d, &lo, &hi);
    const qg_fake_quant_attrs a = { draw(d, 1, 17), draw_bool(d) };
    if (!fuzz_done(qg_fake_quant_with_min_max_vars_per_channel(a, &x, &lo, &hi, &y))) return;
    if (!fuzz_done(qg_fake_quant_with_min_max_vars_per_channel(a, &y, &lo, &hi, &again))) return;
    const bool has_gradient =
        fuzz_done(qg_fake_quant_with_min_max_vars_per_channel_gradient(a, &g, &x, &lo, &hi, &dx, &dlo, &dhi));
    for (size_t i = 0; i < qg_array_count(&x); i++) {
        qg_fake_quant_range r;
        const size_t        c = i % x.dims[x.rank - 1];
        MUST(!qg_fake_quant_nudge(a, floats(&lo)[c], floats(&hi)[c], &r));
        check_fake(&r, a, floats(&x)[i], floats(&y)[i], floats(&again)[i]);
        if (has_gradient) check_fake_gradient(&r, floats(&x)[i], floats(&g)[i], floats(&dx)[i]);
    }
}

/* --- integers ----------------------------------------------------------------------------------- */

static void check_codes(const qg_array *q, int64_t least, int64_t most)
{
    for (size_t i = 0; i < qg_array_count(q); i++) MUST(qg__code(q, i) >= least && qg__code(q, i) <= most);
}

static void uniform(draws *d)
{
    const shape    s = draw_shape(d);
    const qg_array x = whole(d, s, QG_F32), scale = slices(d, s, QG_F32), zero = slices(d, s, QG_I32);
    qg_array       q = like(d, s, draw_codes(d)), y = like(d, s, QG_F32);
    const qg_uniform_quantize_attrs a = { s.axis, draw_bool(d) ? 0 : (int32_t)draw_bits(d),
                                          draw_bool(d) ? 127 : (int32_t)draw_bits(d) };
    if (!fuzz_done(qg_uniform_quantize(a, &x, &scale, &zero, &q))) return;
    check_codes(&q, a.quantization_min_val, a.quantization_max_val);
    if (!fuzz_done(qg_uniform_dequantize(s.axis, &q, &scale, &zero, &y))) return;
    for (size_t i = 0; i < qg_array_count(&y); i++) MUST(!isnan(floats(&y)[i]));
}

static void uniform_requantize(draws *d)
{
    const shape    s = draw_shape(d);
    const qg_array q = whole(d, s, draw_codes(d)), scale = slices(d, s, QG_F32), zero = slices(d, s, QG_I32);
    const shape    t = draw_bool(d) ? s : (shape){ .axis = -1, .slices = 1 };
    const qg_array scale_to = slices(d, t, QG_F32), zero_to = slices(d, t, QG_I32);
    qg_array       y = like(d, s, draw_codes(d));
    const qg_uniform_requantize_attrs a = { s.axis, t.axis, draw_bool(d) ? 0 : (int32_t)draw_bits(d),
                                            draw_bool(d) ? 127 : (int32_t)draw_bits(d) };
    if (fuzz_done(qg_uniform_requantize(a, &q, &scale, &zero, &scale_to, &zero_to, &y)))
        check_codes(&y, a.output_quantization_min_val, a.output_quantization_max_val);
}

static void requantize(draws *d)
{
    const shape    s = draw_shape(d);
    const qg_array q = whole(d, s, QG_I32), lo = scalar(d), hi = scalar(d), lo_to = scalar(d),
                   hi_to = scalar(d);
    qg_array       y = like(d, s, QG_U8), from = result(d), to = result(d);
    order(d, &lo, &hi), order(d, &lo_to, &hi_to);
    if (fuzz_done(qg_requantize(&q, &lo, &hi, &lo_to, &hi_to, &y, &from, &to)))
        MUST(floats(&from)[0] == floats(&lo_to)[0] && floats(&to)[0] == floats(&hi_to)[0]);
}

static void multipliers(draws *d)
{
    qg_multiplier             m = { 0, 0 };
    const double              factor = (double)draw_float(d) * (double)draw_float(d);
    const qg_requant_rounding rounding = draw_bool(d) ? QG_DOUBLE_ROUNDING : QG_SINGLE_ROUNDING;
    const int32_t             x = draw_bool(d) ? draw_int(d) : (int32_t)draw_bits(d);
    if (fuzz_ok(qg_quantize_multiplier(factor, &m))) {
        const long double value = ldexpl(m.fraction, m.shift - 31);
        if (fabs(factor) < 0x1p-32) MUST(m.fraction == 0 && m.shift == 0);
        else MUST(fabsl(value - (long double)factor) <= fabsl((long double)factor) * 0x1p-31L);
        /* The errors that the header states, beside saturation. */
        long double exact = (long double)x * value;
        if (exact > INT32_MAX) exact = INT32_MAX;
        if (exact < INT32_MIN) exact = INT32_MIN;
        const long double error = fabsl((long double)qg_multiply_by_quantized_multiplier(x, m, rounding) -
                                        exact);
        MUST(error <= (rounding == QG_DOUBLE_ROUNDING ? 0.75L : 0.5L));
    }
    m = (qg_multiplier){ (int32_t)draw_bits(d), draw_int(d) };
    (void)qg_multiply_by_quantized_multiplier(x, m, rounding);

    const int32_t qmin = draw_bool(d) ? 0 : (int32_t)draw_bits(d),
                  qmax = draw_bool(d) ? 255 : (int32_t)draw_bits(d);
    double        scale;
    int32_t       zero;
    if (fuzz_ok(qg_choose_quantization_params(qmin, qmax, (double)draw_float(d), (double)draw_float(d),
                                              &scale, &zero)))
        MUST(isfinite(scale) && scale >= 0 && (scale == 0 ? zero == 0 : zero >= qmin && zero <= qmax));
}

/* --- convolutions ------------------------------------------------------------------------------- */

static size_t extent(qg_padding padding, size_t in, size_t kernel, int stride)
{
    return stride > 0 ? qg_conv_extent(padding, in, kernel, (size_t)stride) : 1;
}

typedef struct convolution {
    size_t     x[4], w[4], y[4];            /* NHWC, HWIO or OHWI, NHWC */
    int        strides[2];
    qg_padding padding;
} convolution;

static convolution draw_convolution(draws *d, bool hwio)
{
    convolution  c    = { .padding = draw_bool(d) ? QG_PADDING_SAME : QG_PADDING_VALID };
    const size_t side = (size_t)draw(d, 1, 3), in = (size_t)draw(d, 1, 3), out = (size_t)draw(d, 1, 4);
    for (int i = 0; i < 2; i++) c.strides[i] = draw_rarely(d) ? draw_int(d) : draw(d, 1, 3);
    c.x[0] = (size_t)draw(d, 1, 2), c.x[1] = (size_t)draw(d, 1, 5), c.x[2] = (size_t)draw(d, 1, 5),
    c.x[3] = in;
    if (hwio) c.w[0] = c.w[1] = side, c.w[2] = in, c.w[3] = out;
    else c.w[0] = out, c.w[1] = c.w[2] = side, c.w[3] = in;
    c.y[0] = c.x[0], c.y[3] = out;
    for (int i = 0; i < 2; i++) c.y[1 + i] = extent(c.padding, c.x[1 + i], side, c.strides[i]);
    return c;
}

static void quantized_conv2d(draws *d)
{
    const convolution c = draw_convolution(d, true);
    const qg_array    x = fuzz_input(d, QG_U8, 4, c.x), w = fuzz_input(d, QG_U8, 4, c.w);
    const qg_array    lo = scalar(d), hi = scalar(d), wlo = scalar(d), whi = scalar(d);
    qg_array          y = fuzz_output(d, QG_I32, 4, c.y), from = result(d), to = result(d);
    order(d, &lo, &hi), order(d, &wlo, &whi);
    const qg_quantized_conv2d_attrs a = { { draw_rarely(d) ? draw_int(d) : 1, c.strides[0], c.strides[1], 1 },
                                          c.padding };
    if (fuzz_done(qg_quantized_conv2d(a, &x, &w, &lo, &hi, &wlo, &whi, &y, &from, &to)))
        MUST(all_finite(&from) && all_finite(&to) && floats(&from)[0] <= 0 && floats(&to)[0] >= 0);
}

static void uniform_convolution(draws *d)
{
    convolution    c   = draw_convolution(d, true);
    const bool     per = draw_bool(d);
    const size_t   out = c.y[3];
    for (int i = 0; i < 2; i++) c.y[1 + i] = extent(c.padding, c.x[1 + i], c.w[0], 1);
    const qg_array x = fuzz_input(d, QG_I8, 4, c.x), w = fuzz_input(d, QG_I8, 4, c.w);
    const qg_array sx = scalar(d), zx = fuzz_input(d, QG_I32, 0, NULL);
    const qg_array sw = fuzz_input(d, QG_F32, per, &out), zw = fuzz_input(d, QG_I32, per, &out);
    const qg_array sy = fuzz_input(d, QG_F32, per, &out), zy = fuzz_input(d, QG_I32, per, &out);
    qg_array       y = fuzz_output(d, QG_I32, 4, c.y);
    const qg_uniform_convolution_attrs a = { draw_rarely(d) ? QG_NCHW_OIHW : QG_NHWC_HWIO, c.padding, per ? 3 : -1, per ? 3 : -1,
                                             draw_rarely(d) ? draw_int(d) : 1, (int32_t)draw_bits(d), (int32_t)draw_bits(d) };
    if (fuzz_done(qg_uniform_quantized_convolution(a, &x, &w, &sx, &zx, &sw, &zw, &sy, &zy, &y)))
        check_codes(&y, a.output_quantization_min_val, a.output_quantization_max_val);
}

static void conv2d_per_channel(draws *d)
{
    const convolution c = draw_convolution(d, false);
    const size_t      out = c.y[3];
    const qg_dtype    t = draw_bool(d) ? QG_I8 : QG_U8;
    const qg_array    x = fuzz_input(d, t, 4, c.x), w = fuzz_input(d, draw_rarely(d) ? QG_U8 : QG_I8, 4, c.w);
    const qg_array    sw = fuzz_input(d, QG_F32, 1, &out), zw = fuzz_input(d, QG_I32, 1, &out),
                      b = fuzz_input(d, QG_I32, 1, &out);
    qg_array          y = fuzz_output(d, t, 4, c.y);
    const qg_conv2d_per_channel_attrs a = {
        { c.strides[0], c.strides[1] }, c.padding, draw_float(d), draw_float(d), draw_int(d), draw_int(d),
        draw_bool(d) ? 0 : draw_int(d), draw_bool(d) ? 127 : draw_int(d), draw_bool(d) ? QG_DOUBLE_ROUNDING : QG_SINGLE_ROUNDING,
    };
    if (fuzz_done(
            qg_conv2d_per_channel(a, &x, &w, &sw, draw_bool(d) ? &zw : NULL, draw_bool(d) ? &b : NULL, &y)))
        check_codes(&y, a.output_min, a.output_max);
}

static void (*const operators[])(draws *d) = {
    quantize_v2,        dequantize, quantize_and_dequantize, fake_quant_args,     fake_quant_vars,    fake_quant_channels, uniform,
    uniform_requantize, requantize, multipliers,             quantized_conv2d,    uniform_convolution, conv2d_per_channel,
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    draws d = { bytes, n, 0 };
    operators[draw_byte(&d) % (sizeof operators / sizeof *operators)](&d);
    fuzz_arrays_end();
    return 0;
}
