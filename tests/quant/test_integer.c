#include "tests/support/views.h"

#include "quant/reference/integer.h"
#include "quant/reference/integer_conv.h"

static qg_array image(qg_dtype dtype, void *data, size_t n, size_t h, size_t w, size_t c)
{
    return (qg_array){ .dtype = dtype, .rank = 4, .dims = { n, h, w, c }, .data = data };
}

/* ---- factors ---- */

static int32_t times(int32_t x, double m, qg_requant_rounding rounding)
{
    qg_multiplier k = { 0, 0 };
    assert_ok(qg_quantize_multiplier(m, &k));
    return qg_multiply_by_quantized_multiplier(x, k, rounding);
}

static void products_by_a_factor(void **state)
{
    static const struct {
        int32_t x;
        double  m;
        int32_t twice, once;        /* rounded */
    } rows[] = {
        { -6, 0.25, -2, -1 }, { -3, 0.5, -1, -1 }, { 6, 0.25, 2, 2 }, { 3, 0.5, 2, 2 },     /* ties */
        { INT32_MAX, 1e300, INT32_MAX, INT32_MAX }, { -1, 1e300, INT32_MIN, INT32_MIN }, { 0, 1e300, 0, 0 },
        { INT32_MIN, -1.0, INT32_MAX, INT32_MAX },  { INT32_MIN, 1.0, INT32_MIN, INT32_MIN },
        { INT32_MIN, 1e-300, 0, 0 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int32_t twice = times(rows[r].x, rows[r].m, QG_DOUBLE_ROUNDING);
        const int32_t once  = times(rows[r].x, rows[r].m, QG_SINGLE_ROUNDING);
        if (twice != rows[r].twice || once != rows[r].once)
            fail_msg("%d * %g is %d and %d", (int)rows[r].x, rows[r].m, (int)twice, (int)once);
    }
}

static void products_are_within_the_stated_error(void **state)
{
    for (uint64_t i = 0; i < 100000; i++) {
        const int32_t x = (int32_t)(uint32_t)(qg_bits(1, i) >> (i % 33 + 31));
        double        m = ldexp(0.5 + 0.5 * (double)qg_uniform(2, i), (int)(i % 60) - 45);
        if (i % 5 == 0) m = -m;
        qg_multiplier k = { 0, 0 };
        assert_ok(qg_quantize_multiplier(m, &k));
        const double exact = (double)x * (double)k.fraction * ldexp(1.0, k.shift - 31);
        const int32_t once  = qg_multiply_by_quantized_multiplier(x, k, QG_SINGLE_ROUNDING);
        const int32_t twice = qg_multiply_by_quantized_multiplier(x, k, QG_DOUBLE_ROUNDING);
        /* exact itself is rounded to 53 bits: 2^-22 at the largest result. */
        if (exact > 2147483647.0 || exact < -2147483648.0) assert_int_equal(once, exact > 0 ? INT32_MAX : INT32_MIN);
        else if (k.shift <= 0)
            assert_true(fabs(once - exact) <= 0.5 + 0x1p-22 && fabs(twice - exact) <= 0.75 + 0x1p-22);
    }
}

static void extreme_factors(void **state)
{
    static const qg_requant_rounding both[] = { QG_DOUBLE_ROUNDING, QG_SINGLE_ROUNDING };
    for (int i = 0; i < 2; i++) {
        for (int shift = -200; shift <= 200; shift++) {
            const qg_multiplier k    = { 1 << 30, shift };
            const double        want = fmin(3.0 * ldexp(0.5, shift), 2147483647.0);
            const int32_t       got  = qg_multiply_by_quantized_multiplier(3, k, both[i]);
            assert_true(fabs((double)got - want) <= 0.75);
        }
        const qg_multiplier lowest  = { INT32_MIN, INT32_MIN };
        const qg_multiplier highest = { INT32_MIN, INT32_MAX };
        assert_int_equal(qg_multiply_by_quantized_multiplier(INT32_MIN, lowest, both[i]), 0);
        assert_int_equal(qg_multiply_by_quantized_multiplier(INT32_MIN, highest, both[i]), INT32_MAX);
    }
    qg_multiplier k = { 5, 6 };
    assert_failed(qg_quantize_multiplier(INFINITY, &k), QG_EARG, "multiplier is inf");
    assert_int_equal(qg_quantize_multiplier(NAN, &k), QG_EARG);
    assert_true(k.fraction == 5 && k.shift == 6);
}

static void chosen_parameters_hold_zero(void **state)
{
    double  scale;
    int32_t zero;
    for (uint64_t i = 0; i < 1000; i++) {
        const double rmin = -10.0 * (double)qg_uniform(1, i);
        const double rmax = 0.001 + 10.0 * (double)qg_uniform(2, i);
        assert_ok(qg_choose_quantization_params(-128, 127, rmin, rmax, &scale, &zero));
        /* The range is covered but for the half step that moving the zero point costs. */
        assert_true(scale * (-128 - zero) <= rmin + 0.5000001 * scale);
        assert_true(scale * (127 - zero) >= rmax - 0.5000001 * scale);
    }
    assert_ok(qg_choose_quantization_params(0, 255, 0.0, 0.0, &scale, &zero));
    assert_true(scale == 0.0 && zero == 0);
    assert_failed(qg_choose_quantization_params(0, 255, 1.0, 2.0, &scale, &zero), QG_EARG, "rmin is 1");
    assert_int_equal(qg_choose_quantization_params(0, 255, NAN, 2.0, &scale, &zero), QG_EARG);
    assert_int_equal(qg_choose_quantization_params(7, 7, -1.0, 2.0, &scale, &zero), QG_EARG);
}

/* ---- uniform operators and requantize ---- */

static void uniform_round_trip(void **state)
{
    int8_t   q[12], again[12];
    float    y[12], s[] = { 0.25f, 0.1f, 3.0f };
    int32_t  z[] = { -20, 0, 100 };
    qg_array qs = { QG_I8, 3, { 2, 3, 2 }, q }, back = { QG_I8, 3, { 2, 3, 2 }, again };
    qg_array ys = { QG_F32, 3, { 2, 3, 2 }, y }, scales = view(QG_F32, s, 3), zeros = view(QG_I32, z, 3);
    const qg_uniform_quantize_attrs attrs = { 1, -127, 127 };
    for (int i = 0; i < 12; i++) q[i] = (int8_t)(21 * i - 120);
    assert_ok(qg_uniform_dequantize(1, &qs, &scales, &zeros, &ys));
    assert_true(y[2] == (float)(21 * 2 - 120) * 0.1f && y[4] == (float)(21 * 4 - 220) * 3.0f);
    assert_ok(qg_uniform_quantize(attrs, &ys, &scales, &zeros, &back));
    assert_memory_equal(q, again, sizeof q);
    y[0] = NAN, y[1] = INFINITY, y[2] = -INFINITY;
    assert_ok(qg_uniform_quantize(attrs, &ys, &scales, &zeros, &back));
    assert_true(again[0] == -20 && again[1] == 127 && again[2] == -127);
    static const struct {
        qg_uniform_quantize_attrs attrs;
        float                     scale;        /* of channel 1 */
        qg_status                 status;
        const char               *part;
    } rows[] = {
        { { 1, -127, 127 }, 0.0f, QG_EARG, "scales[1] is 0" },
        { { 1, -129, 127 }, 0.1f, QG_EARG, "-129" },
        { { 3, -127, 127 }, 0.1f, QG_EARG, "quantization_axis is 3, must be -1 .. 2" },
        { { 2, -127, 127 }, 0.1f, QG_ESHAPE, "scales" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        s[1] = rows[r].scale;
        assert_failed(qg_uniform_quantize(rows[r].attrs, &ys, &scales, &zeros, &back), rows[r].status, rows[r].part);
    }
}

/* What is multiplied is 1 / scale; with an infinite one 0 would become NaN. */
static void uniform_quantize_refuses_a_scale_without_inverse(void **state)
{
    float    x[] = { 0.0f, 1e-40f }, s = 1e-40f;
    int32_t  z = 3;
    int8_t   q[] = { 99, 99 };
    qg_array xs = view(QG_F32, x, 2), qs = view(QG_I8, q, 2), ss = point(QG_F32, &s), zs = point(QG_I32, &z);
    const qg_uniform_quantize_attrs attrs = { -1, -128, 127 };
    assert_failed(qg_uniform_quantize(attrs, &xs, &ss, &zs, &qs), QG_EARG,
                   "scales[0] is 9.99995e-41, its inverse is not a float32");
    assert_true(q[0] == 99 && q[1] == 99);
    s = 3e-39f;
    x[1] = s;
    assert_ok(qg_uniform_quantize(attrs, &xs, &ss, &zs, &qs));
    assert_true(q[0] == 3 && q[1] == 4);
}

static void uniform_requantize_against_reals(void **state)
{
    int32_t  x[6] = { -700, 65, 0, 33, 1000, INT32_MIN };
    int8_t   q[6];
    float    si[] = { 0.5f, 0.6f }, so = 0.125f;
    int32_t  zi[] = { -1, -2 }, zo = -20;
    qg_array xs = { QG_I32, 2, { 2, 3 }, x }, qs = { QG_I8, 2, { 2, 3 }, q };
    qg_array in_s = view(QG_F32, si, 2), in_z = view(QG_I32, zi, 2);
    qg_array out_s = point(QG_F32, &so), out_z = point(QG_I32, &zo);
    const qg_uniform_requantize_attrs attrs = { 0, -1, -127, 127 };
    assert_ok(qg_uniform_requantize(attrs, &xs, &in_s, &in_z, &out_s, &out_z, &qs));
    for (int i = 0; i < 6; i++) {
        const double real = ((double)x[i] - zi[i / 3]) * (double)si[i / 3] / (double)so + zo;
        assert_int_equal(q[i], (int)fmax(-127.0, fmin(127.0, floor(real + 0.5))));
    }
    const qg_uniform_requantize_attrs crossed = { 0, 1, -127, 127 };
    assert_failed(qg_uniform_requantize(crossed, &xs, &in_s, &in_z, &in_s, &in_z, &qs), QG_EARG,
                   "input_quantization_axis is 0");
}

/* Codes of n sums; ends: input, requested output, output. */
static qg_status requantize(int32_t *q, size_t n, float ends[6], uint8_t *code)
{
    qg_array e[6], qs = view(QG_I32, q, n), ys = view(QG_U8, code, n);
    for (int i = 0; i < 6; i++) e[i] = point(QG_F32, &ends[i]);
    return qg_requantize(&qs, &e[0], &e[1], &e[2], &e[3], &ys, &e[4], &e[5]);
}

static void requantize_against_reals(void **state)
{
    enum { N = 65 };
    int32_t x[N];
    uint8_t q[N];
    float   ends[] = { -100.0f, 100.0f, -3.0f, 5.0f, 0.0f, 0.0f };
    for (int i = 0; i < N; i++) x[i] = (int32_t)((i - 32) * 3000000);
    assert_ok(requantize(x, N, ends, q));
    assert_true(ends[4] == -3.0f && ends[5] == 5.0f);
    for (int i = 0; i < N; i++) {
        const double real = (double)x[i] / 4294967296.0 * 200.0;
        const double code = fmax(0.0, fmin(255.0, (real + 3.0) / 8.0 * 255.0));
        /* Half a code of rounding, and three truncations of 2^-16. */
        assert_true(fabs(q[i] - code) <= 0.5001);
    }
    x[0] = INT32_MIN, x[1] = INT32_MAX;
    ends[0] = -1e30f, ends[1] = 1e30f;
    assert_ok(requantize(x, N, ends, q));
    assert_true(q[0] == 0 && q[1] == 255);
}

/* q - z has 33 bits; it must not saturate before it is scaled. */
static void uniform_requantize_takes_any_zero_point(void **state)
{
    static const struct {
        int32_t q, z;
        float   scale;
    } rows[] = {
        { INT32_MAX, INT32_MIN, 0x1p-26f }, { INT32_MIN, INT32_MAX, 0x1p-26f }, { INT32_MAX, -5, 0x1p-25f },
        { INT32_MIN, 1, 0x1p-25f },         { INT32_MAX, INT32_MIN, 1.0f },     { INT32_MIN, INT32_MAX, 0x1p40f },
        { 7, INT32_MIN, 0x1.8p-26f },       { INT32_MAX, INT32_MIN, 0x1p-60f },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int32_t  q = rows[i].q, z = rows[i].z, none = 0, y = 99;
        float    s = rows[i].scale, one = 1.0f;
        qg_array qs = point(QG_I32, &q), ss = point(QG_F32, &s), zs = point(QG_I32, &z), ys = point(QG_I32, &y);
        qg_array ones = point(QG_F32, &one), zeros = point(QG_I32, &none);
        const qg_uniform_requantize_attrs attrs = { -1, -1, INT32_MIN, INT32_MAX };
        assert_ok(qg_uniform_requantize(attrs, &qs, &ss, &zs, &ones, &zeros, &ys));
        const double real = floor(((double)q - (double)z) * (double)s + 0.5);      /* exact: powers of two */
        assert_int_equal(y, (int32_t)fmin(fmax(real, (double)INT32_MIN), (double)INT32_MAX));
    }
}

static int requantized(int32_t q, const float in[2], const float out[2])
{
    uint8_t code;
    assert_ok(requantize(&q, 1, (float[6]){ in[0], in[1], out[0], out[1] }, &code));
    return code;
}

/* What the formula of the header gives in integers without bound, computed elsewhere.  In the first rows
 * the product alone is beyond the codes, or 64 bits, and the offset brings it back; in the last ones a
 * term does not fit 64 bits, and the code is that of the real number. */
static void requantize_does_not_saturate_on_its_way(void **state)
{
    static const struct {
        float   in[2], out[2];
        int32_t q;
        int     code;
    } rows[] = {
        { { -9705.5645f, 2184.3914f }, { -2.588093f, 1.8444834f }, 1740828642, 255 },
        { { -6.9929f, -1.4676f }, { -70.833f, 22.367f }, 303202892, 183 },
        { { -0.23001f, -0.081093f }, { -5.9827f, 6.7244f }, 775946723, 117 },
        { { -0.050173f, -0.035016f }, { -0.25239f, 0.47073f }, -2093928787, 71 },
        { { -0.021495f, 0.015989f }, { -0.13677f, 0.058871f }, 71020265, 175 },
        { { -0.0012784f, 0.0099676f }, { -186.2f, 111.3f }, -1242496256, 160 },
        { { -8.522e+05f, 7.3767e+05f }, { -0.00097238f, 0.0016097f }, 1308580380, 255 },
        { { -2.5006e+05f, 72724.0f }, { -0.0017556f, 0.0014634f }, 2062335288, 255 },
        { { -39735.0f, 27754.0f }, { -0.00051316f, 0.00038111f }, 1903817426, 255 },
        { { -10733.0f, 6580.3f }, { -5.6842e-07f, 3.9886e-07f }, 585365818, 255 },
        { { -2395.2f, 1435.6f }, { -0.47943f, 0.51015f }, 1016998122, 255 },
        { { -1.2912e+07f, 1.449e+07f }, { -0.32455f, 0.10434f }, -548802308, 0 },
        { { -1.1559e+05f, 3.5451e+05f }, { -6.8658f, 6.1785f }, -1589917057, 0 },
        { { -6375.2f, 6940.3f }, { -0.00023486f, 0.00022294f }, -1262897697, 0 },
        { { -14.453f, 17.181f }, { -3.4546e-07f, 1.3398e-07f }, -1188313774, 0 },
        { { -3.0852f, 4.5559f }, { -8.6121e-10f, 3.1347e-10f }, -1644561032, 0 },
        { { -2.3933e+08f, -2.2199e+08f }, { -1.4173e-07f, 2.9457e-07f }, 382782559, 0 },
        { { -7.0725e+06f, -6.0741e+06f }, { -7.8847e-07f, 1.9223e-06f }, -1584526469, 0 },
        { { -2.1746e+05f, -1.2135e+05f }, { -7.7999e-08f, 5.3815e-08f }, 1514529162, 0 },
        { { -4606.2f, 21233.0f }, { -3.1097e-09f, 1.0491e-09f }, -1371269749, 255 },
        { { 3.5308e+06f, 4.6857e+06f }, { -2.7221e-07f, 1.8698e-07f }, -947390149, 255 },
        /* The offset of the output is rounded, as TensorFlow 2 does; truncated, as 1.x did, it gives 0 here. */
        { { -0x1.0d25c4p+5f, 0x1.3c37c0p+6f }, { -0x1.f5623ep-1f, 0x1.08b660p+2f }, -902254873, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int code = requantized(rows[i].q, rows[i].in, rows[i].out);
        if (code != rows[i].code) fail_msg("row %zu is %d, expected %d", i, code, rows[i].code);
    }
}

static void requantize_takes_any_legal_range(void **state)
{
    static const int32_t q[] = { INT32_MIN, -1, 0, 1, INT32_MAX };
    /* An empty output range, an empty input range, and ranges as far from each other as floats reach. */
    static const struct {
        float in[2], out[2];
        int   code[5];
    } rows[] = {
        { { -1, 1 }, { 0, 0 }, { 0 } },             { { -1, 1 }, { -5, -5 }, { 0 } },
        { { 3e38f, 3.2e38f }, { 0, 0 }, { 0 } },    { { 0, 0 }, { 0, 0 }, { 0 } },
        { { 1e-45f, 1e-45f }, { 0, 1 }, { 0 } },    { { -1e38f, 1e38f }, { -1e-45f, 0 }, { 0, 0, 255, 255, 255 } },
        { { 2e38f, 3e38f }, { 0, 1 }, { 255, 255, 255, 255, 255 } },
        { { -3e38f, -2e38f }, { 0, 1 }, { 0 } },
        { { -1e-45f, 1e-45f }, { -1e38f, 1e38f }, { 128, 128, 128, 128, 128 } },
        { { 2e38f, 3e38f }, { -1e38f, 2e38f }, { 255, 255, 255, 255, 255 } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < 5; i++) {
            const int code = requantized(q[i], rows[r].in, rows[r].out);
            if (code != rows[r].code[i]) fail_msg("row %zu, code %d: %d", r, (int)q[i], code);
        }
}

static void requantize_refuses_by_name(void **state)
{
    static const struct {
        float       ends[4];
        const char *part;
    } rows[] = {
        { { -1e30f, 1e30f, 1.0f, 5.0f }, "requested_output is 1" },
        { { -0x1p127f, 0x1p127f, -1.0f, 1.0f }, "input is -1.70141183e+38 .. 1.70141183e+38, wider than float32" },
        { { -1.0f, 1.0f, -0x1p127f, 0x1p127f }, "requested_output is -1.70141183e+38" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int32_t q    = 5;
        uint8_t code = 99;
        float   ends[6] = { rows[r].ends[0], rows[r].ends[1], rows[r].ends[2], rows[r].ends[3], 7.0f, 7.0f };
        assert_failed(requantize(&q, 1, ends, &code), QG_EARG, rows[r].part);
        assert_true(code == 99 && ends[4] == 7.0f && ends[5] == 7.0f);
    }
}

/* ---- convolutions ---- */

static qg_conv2d_per_channel_attrs plain(int stride, qg_padding padding)
{
    return (qg_conv2d_per_channel_attrs){ .strides = { stride, stride }, .padding = padding, .input_scale = 1.0f,
                                          .output_scale = 1.0f, .output_min = -128, .output_max = 127,
                                          .rounding = QG_DOUBLE_ROUNDING };
}

static void padding_is_the_zero_point(void **state)
{
    int8_t x[9], w[9], y[9];
    float  s = 1.0f;
    memset(x, 5, sizeof x);
    memset(w, 1, sizeof w);
    qg_array xs = image(QG_I8, x, 1, 3, 3, 1), ws = image(QG_I8, w, 1, 3, 3, 1);
    qg_array ys = image(QG_I8, y, 1, 3, 3, 1), ss = view(QG_F32, &s, 1);
    qg_conv2d_per_channel_attrs attrs = plain(1, QG_PADDING_SAME);
    attrs.input_zero_point            = 5;
    assert_ok(qg_conv2d_per_channel(attrs, &xs, &ws, &ss, NULL, NULL, &ys));
    for (int i = 0; i < 9; i++) assert_int_equal(y[i], 0);
    attrs.rounding = (qg_requant_rounding)9;
    assert_int_equal(qg_conv2d_per_channel(attrs, &xs, &ws, &ss, NULL, NULL, &ys), QG_EARG);
}

/* The sum by real values: dequantize, convolve in double, divide by the scale of the output. */
static double real_conv(const qg_array *x, const qg_array *w, const int32_t *zw, int zx, int stride,
                        int top, int left, const size_t at[4])
{
    const size_t *d = x->dims;
    const size_t *k = w->dims;
    double        sum = 0.0;
    for (size_t i = 0; i < k[1] * k[2] * k[3]; i++) {
        const int y  = (int)at[1] * stride + (int)(i / (k[2] * k[3])) - top;
        const int xx = (int)at[2] * stride + (int)(i / k[3] % k[2]) - left;
        if (y < 0 || xx < 0 || y >= (int)d[1] || xx >= (int)d[2]) continue;
        const size_t from = ((at[0] * d[1] + (size_t)y) * d[2] + (size_t)xx) * d[3] + i % k[3];
        sum += (double)(((const uint8_t *)x->data)[from] - zx) *
               (double)(((const int8_t *)w->data)[at[3] * k[1] * k[2] * k[3] + i] - zw[at[3]]);
    }
    return sum;
}

static void per_channel_against_reals(void **state)
{
    enum { H = 7, W = 6, C = 3, O = 5, KH = 3, KW = 2 };
    static uint8_t x[2 * H * W * C], y[2 * H * W * O];
    static int8_t  w[O * KH * KW * C];
    float          s[O];
    int32_t        zw[O], bias[O];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)qg_bits(1, i);
    for (size_t i = 0; i < sizeof w; i++) w[i] = (int8_t)(qg_bits(2, i) & 63);
    for (int o = 0; o < O; o++) {
        s[o]    = 0.01f * (float)(o + 1);
        zw[o]   = 30 + o;
        bias[o] = 100 * o - 200;
    }
    for (int stride = 1; stride <= 3; stride++)
        for (int p = 0; p < 2; p++) {
            const qg_padding padding = (qg_padding)p;
            const size_t     oh   = qg_conv_extent(padding, H, KH, (size_t)stride);
            const size_t     ow   = qg_conv_extent(padding, W, KW, (size_t)stride);
            const int        tall = ((int)oh - 1) * stride + KH - H, wide = ((int)ow - 1) * stride + KW - W;
            const int        top  = p && tall > 0 ? tall / 2 : 0, left = p && wide > 0 ? wide / 2 : 0;
            qg_array xs = image(QG_U8, x, 2, H, W, C), ws = image(QG_I8, w, O, KH, KW, C);
            qg_array ys = image(QG_U8, y, 2, oh, ow, O), ss = view(QG_F32, s, O);
            qg_array zs = view(QG_I32, zw, O), bs = view(QG_I32, bias, O);
            qg_conv2d_per_channel_attrs attrs = plain(stride, padding);
            attrs.input_scale = 0.02f, attrs.output_scale = 0.5f;
            attrs.input_zero_point = 120, attrs.output_zero_point = 128;
            attrs.output_min = 3, attrs.output_max = 251;
            assert_ok(qg_conv2d_per_channel(attrs, &xs, &ws, &ss, &zs, &bs, &ys));
            for (size_t i = 0; i < 2 * oh * ow * O; i++) {
                const size_t at[] = { i / (oh * ow * O), i / (ow * O) % oh, i / O % ow, i % O };
                const double sum  = real_conv(&xs, &ws, zw, 120, stride, top, left, at);
                const double m    = 0.02 * (double)s[at[3]] / 0.5;
                const double code = (sum + bias[at[3]]) * m + 128;
                /* Double rounding is within 3/4; the factors agree to 2^-24. */
                assert_true(fabs(y[i] - fmax(3.0, fmin(251.0, code))) <= 0.7501);
            }
        }
}

static void a_stride_leaves_the_right_extent(void **state)
{
    assert_int_equal(qg_conv_extent(QG_PADDING_SAME, 7, 3, 2), 4);
    assert_int_equal(qg_conv_extent(QG_PADDING_VALID, 7, 3, 2), 3);
    assert_int_equal(qg_conv_extent(QG_PADDING_VALID, 2, 3, 1), 0);
    assert_int_equal(qg_conv_extent(QG_PADDING_SAME, 0, 3, 1), 0);
}

/* The codes 0 and 255 times the code 51; e: input, filter, output. */
static qg_status quantized_conv2d(const int strides[4], float e[6], int32_t y[2])
{
    uint8_t                   x[] = { 0, 255 }, w[] = { 51 };
    qg_array                  xs = image(QG_U8, x, 1, 1, 2, 1), ws = image(QG_U8, w, 1, 1, 1, 1);
    qg_array                  ys = image(QG_I32, y, 1, 1, 2, 1), r[6];
    qg_quantized_conv2d_attrs attrs = { .padding = QG_PADDING_VALID };
    memcpy(attrs.strides, strides, sizeof attrs.strides);
    for (int i = 0; i < 6; i++) r[i] = point(QG_F32, &e[i]);
    return qg_quantized_conv2d(attrs, &xs, &ws, &r[0], &r[1], &r[2], &r[3], &ys, &r[4], &r[5]);
}

/* A width of inf would put the zero point at code 0 and make every level infinite. */
static void quantized_conv2d_refuses_by_name(void **state)
{
    static const struct {
        float       e[4];
        int         strides[4];
        const char *culprit;
    } rows[] = {
        { { -3e38f, 3e38f, 0.0f, 5.0f }, { 1, 1, 1, 1 }, "min_input .. max_input is" },
        { { 0.0f, 5.0f, -3e38f, 3e38f }, { 1, 1, 1, 1 }, "min_filter .. max_filter is" },
        { { -1e20f, 1e20f, -1e20f, 1e20f }, { 1, 1, 1, 1 }, "output_max" },
        { { -1e15f, 1e15f, -1e15f, 1e15f }, { 1, 1, 1, 1 }, NULL },
        { { -1e-40f, 1e-40f, 0.0f, 0.0f }, { 1, 1, 1, 1 }, NULL },
        { { 1.0f, 2.0f, 0.0f, 5.0f }, { 1, 1, 1, 2 }, "strides[3] is 2, must be 1" },
        { { 1.0f, 2.0f, 0.0f, 5.0f }, { 1, 0, 1, 1 }, "strides[1] is 0" },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        const float    *in = rows[k].e;
        int32_t         y[2] = { 9, 9 };
        float           e[6] = { in[0], in[1], in[2], in[3], 9.0f, 9.0f };
        const qg_status s    = quantized_conv2d(rows[k].strides, e, y);
        if (!rows[k].culprit) {
            if (s || !isfinite(e[4]) || !isfinite(e[5])) fail_msg("row %zu: %s", k, s ? qg_errmsg() : "inf");
            continue;
        }
        assert_failed(s, QG_EARG, rows[k].culprit);
        assert_true(y[0] == 9 && y[1] == 9 && e[4] == 9.0f && e[5] == 9.0f);
    }
}

static void quantized_conv2d_of_a_range_above_zero(void **state)
{
    int32_t y[2];
    float   e[] = { 1.0f, 2.0f, 0.0f, 5.0f, 0.0f, 0.0f };
    assert_ok(quantized_conv2d((int[]){ 1, 1, 1, 1 }, e, y));
    /* The zero point of [1, 2] is -255, so code 0 stands for 1; 51 of [0, 5] is 1. */
    assert_true(y[0] == 255 * 51 && y[1] == 510 * 51);
    const float level = (1.0f / 255.0f) * (5.0f / 255.0f);
    assert_true(e[4] == level * -2147483648.0f && e[5] == level * 2147483648.0f);
}

/* Scales of 1; the zero point of x is 3, the others are 0. */
static qg_status uniform_convolution(qg_uniform_convolution_attrs attrs, const qg_array *x, const qg_array *w,
                                     qg_array *y)
{
    float    one  = 1.0f;
    int32_t  zero = 0, three = 3;
    qg_array s = point(QG_F32, &one), z = point(QG_I32, &zero), zx = point(QG_I32, &three);
    return qg_uniform_quantized_convolution(attrs, x, w, &s, &zx, &s, &z, &s, &z, y);
}

/* Groups and layouts: NHWC with two groups against NCHW of each half. */
static void groups_see_their_own_channels(void **state)
{
    enum { H = 3, W = 3, K = 2 };
    int8_t  x[H * W * 2], w[K * K * 1 * 4], part_x[H * W], part_w[2 * K * K];
    int32_t y[H * W * 4], part_y[2 * H * W];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (int8_t)qg_bits(3, i);
    for (size_t i = 0; i < sizeof w; i++) w[i] = (int8_t)qg_bits(4, i);
    qg_array xs = image(QG_I8, x, 1, H, W, 2), ws = image(QG_I8, w, K, K, 1, 4);
    qg_array ys = image(QG_I32, y, 1, H, W, 4);
    qg_uniform_convolution_attrs attrs = {
        .layout = QG_NHWC_HWIO, .padding = QG_PADDING_SAME, .rhs_quantization_axis = -1,
        .output_quantization_axis = -1, .feature_group_count = 2,
        .output_quantization_min_val = INT32_MIN, .output_quantization_max_val = INT32_MAX,
    };
    assert_ok(uniform_convolution(attrs, &xs, &ws, &ys));
    attrs.layout              = QG_NCHW_OIHW;
    attrs.feature_group_count = 1;
    for (int g = 0; g < 2; g++) {
        for (int i = 0; i < H * W; i++) part_x[i] = x[2 * i + g];
        for (int o = 0; o < 2; o++)
            for (int i = 0; i < K * K; i++) part_w[o * K * K + i] = w[4 * i + 2 * g + o];
        qg_array px = image(QG_I8, part_x, 1, 1, H, W), pw = image(QG_I8, part_w, 2, 1, K, K);
        qg_array py = image(QG_I32, part_y, 1, 2, H, W);
        assert_ok(uniform_convolution(attrs, &px, &pw, &py));
        for (int o = 0; o < 2; o++)
            for (int i = 0; i < H * W; i++)
                assert_int_equal(y[4 * i + 2 * g + o], part_y[o * H * W + i]);
    }
    attrs.feature_group_count = 3;
    assert_int_equal(uniform_convolution(attrs, &xs, &ws, &ys), QG_ESHAPE);
    attrs.feature_group_count   = 1;
    attrs.rhs_quantization_axis = 1;
    assert_failed(uniform_convolution(attrs, &xs, &ws, &ys), QG_EARG,
                   "rhs_quantization_axis is 1, must be -1 or 0");
}

static void convolutions_refuse_what_does_not_fit(void **state)
{
    static const struct {
        int         stride;
        qg_padding  padding;
        int32_t     zero;           /* of the input and of the filter */
        float       scale;
        qg_status   status;
        const char *part;
    } rows[] = {
        { 1, QG_PADDING_VALID, 0, 1.0f, QG_ESHAPE, "the filter is 3 x 3, the input only 2 x 2" },
        { 2, QG_PADDING_SAME, 0, 1.0f, QG_ESHAPE, "must be 1,1,1,1" },
        { 1, QG_PADDING_SAME, INT32_MIN, 1.0f, QG_EARG, "zero points" },
        { 1, QG_PADDING_SAME, 0, -1.0f, QG_EARG, "filter_scales[0] is -1" },
    };
    int8_t   x[4] = { 0 }, w[9] = { 0 }, y[4] = { 9, 9, 9, 9 };
    qg_array xs = image(QG_I8, x, 1, 2, 2, 1), ws = image(QG_I8, w, 1, 3, 3, 1), ys = image(QG_I8, y, 1, 2, 2, 1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        qg_conv2d_per_channel_attrs attrs = plain(rows[r].stride, rows[r].padding);
        float                       s     = rows[r].scale;
        int32_t                     zero  = attrs.input_zero_point = rows[r].zero;
        qg_array                    ss = view(QG_F32, &s, 1), zs = view(QG_I32, &zero, 1);
        assert_failed(qg_conv2d_per_channel(attrs, &xs, &ws, &ss, zero ? &zs : NULL, NULL, &ys), rows[r].status,
                       rows[r].part);
        for (int i = 0; i < 4; i++) assert_int_equal(y[i], 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_by_a_factor),
        cmocka_unit_test(products_are_within_the_stated_error),
        cmocka_unit_test(extreme_factors),
        cmocka_unit_test(chosen_parameters_hold_zero),
        cmocka_unit_test(uniform_round_trip),
        cmocka_unit_test(uniform_quantize_refuses_a_scale_without_inverse),
        cmocka_unit_test(uniform_requantize_against_reals),
        cmocka_unit_test(uniform_requantize_takes_any_zero_point),
        cmocka_unit_test(requantize_against_reals),
        cmocka_unit_test(requantize_does_not_saturate_on_its_way),
        cmocka_unit_test(requantize_takes_any_legal_range),
        cmocka_unit_test(requantize_refuses_by_name),
        cmocka_unit_test(padding_is_the_zero_point),
        cmocka_unit_test(per_channel_against_reals),
        cmocka_unit_test(a_stride_leaves_the_right_extent),
        cmocka_unit_test(quantized_conv2d_refuses_by_name),
        cmocka_unit_test(quantized_conv2d_of_a_range_above_zero),
        cmocka_unit_test(groups_see_their_own_channels),
        cmocka_unit_test(convolutions_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
