/* Mistakes that are easy to make in a quantizer, in numbers, where no other test would notice them.
 * tests/mutants makes each of them; `make mutants` runs these tests against the result. */
#include <float.h>

#include "quant/reference/fake_quant.h"
#include "quant/reference/integer_conv.h"
#include "quant/reference/quantize.h"
#include "tests/support/views.h"

static void zero_points_of_16_bits_are_kept_whole(void **state)
{
    float               x[] = { 3, -5.0001f, 5.0001f }, y[3], lo = -5, hi = 5;
    qg_fake_quant_range r;
    assert_ok(qg_fake_quant_nudge((qg_fake_quant_attrs){ .num_bits = 16 }, lo, hi, &r));
    assert_int_equal(r.zero_point, 32768);
    assert_ok(qg_fake_quant_with_min_max_vars((qg_fake_quant_attrs){ .num_bits = 16 }, VECTOR(x, 3), SCALAR(&lo),
                                              SCALAR(&hi), VECTOR(y, 3)));
    assert_near((double)y[0], 3.0000763, 1e-6);         /* 19661 steps of 10 / 65535 */
    assert_near((double)y[1], -5.0000763, 1e-6);
    assert_near((double)y[2], 4.9999237, 1e-6);
}

/* One element of x through quantize_v2, with what the operator returns as its range. */
static int64_t quantize_one(qg_quantize_v2_attrs attrs, qg_dtype dtype, float x, float lo, float hi,
                            float range[2])
{
    union {
        uint8_t u8;
        int32_t i32;
    } code = { 0 };
    qg_array out = { .dtype = dtype, .rank = 1, .dims = { 1 }, .data = &code };
    attrs.axis = QG_NO_AXIS;
    assert_ok(qg_quantize_v2(attrs, VECTOR(&x, 1), SCALAR(&lo), SCALAR(&hi), &out, SCALAR(&range[0]),
                             SCALAR(&range[1])));
    return dtype == QG_U8 ? code.u8 : code.i32;
}

static void ranges_are_extended_to_zero_and_widened(void **state)
{
    const qg_quantize_v2_attrs plain = { .mode = QG_MIN_COMBINED };
    const qg_quantize_v2_attrs wide  = { .mode = QG_MIN_COMBINED, .ensure_minimum_range = 0.01f };
    float                      range[2];
    assert_int_equal(quantize_one(wide, QG_U8, 0.1f, 0.1f, 0.2f, range), 128);
    assert_true(range[0] == 0.0f && range[1] == 0.2f);
    assert_int_equal(quantize_one(wide, QG_U8, 0.2f, 0.1f, 0.2f, range), 255);
    assert_int_equal(quantize_one(wide, QG_U8, 0.001f, 0, 0.001f, range), 26);
    assert_true(range[0] == 0.0f && range[1] == 0.01f);
    assert_int_equal(quantize_one(plain, QG_U8, 0.001f, 0, 0.001f, range), 255);
    assert_int_equal(quantize_one(plain, QG_U8, -0.1f, -0.2f, -0.1f, range), 128);
    assert_true(range[0] == -0.2f && range[1] == 0.0f);
}

/* 2147483648.0f is what the largest code of int32 becomes as a float, and no int32. */
static void codes_saturate_before_they_are_cast(void **state)
{
    const qg_quantize_v2_attrs combined = { .mode = QG_MIN_COMBINED },
                               first = { .mode = QG_MIN_FIRST };
    float                      range[2];
    assert_int_equal(quantize_one(combined, QG_I32, 1, -1, 1, range), INT32_MAX);
    assert_int_equal(quantize_one(combined, QG_I32, -1, -1, 1, range), INT32_MIN);
    assert_int_equal(quantize_one(first, QG_I32, FLT_MAX, -1, 1, range), 2147483520);
    assert_int_equal(quantize_one(first, QG_I32, -FLT_MAX, -1, 1, range), INT32_MIN);
}

/* In TensorFlow's Python, -1 is the last axis; the attribute of its kernels is kept, where it is none. */
static void the_last_axis_is_not_minus_1(void **state)
{
    float    x[] = { 1, 10, 100, -1, -5, -50 }, y[6], whole = 100.0f / 127;
    qg_array xs  = { QG_F32, 2, { 2, 3 }, x }, ys = { QG_F32, 2, { 2, 3 }, y };
    qg_quantize_and_dequantize_attrs a = qg_quantize_and_dequantize_defaults;
    assert_int_equal(a.axis, -1);
    assert_int_equal(a.axis, QG_NO_AXIS);
    assert_ok(qg_quantize_and_dequantize(a, &xs, NULL, NULL, &ys));
    assert_near((double)y[0], (double)whole, 1e-6);             /* a code of 1 in the range of all six */
    a.axis = xs.rank - 1;
    assert_ok(qg_quantize_and_dequantize(a, &xs, NULL, NULL, &ys));
    for (int i = 0; i < 3; i++) assert_near((double)y[i], (double)x[i], 1e-5);     /* the ends of three ranges */
}

static void defaults_are_those_of_tensorflow(void **state)
{
    const qg_quantize_and_dequantize_attrs qdq = qg_quantize_and_dequantize_defaults;
    const qg_quantize_v2_attrs             v2  = qg_quantize_v2_defaults;
    assert_true(qdq.version == QG_QDQ_V2 && qdq.signed_input && qdq.num_bits == 8 && !qdq.range_given);
    assert_true(qdq.round_mode == QG_HALF_TO_EVEN && !qdq.narrow_range && qdq.axis == QG_NO_AXIS);
    assert_true(v2.mode == QG_MIN_COMBINED && v2.round_mode == QG_HALF_AWAY_FROM_ZERO && !v2.narrow_range);
    assert_true(v2.axis == QG_NO_AXIS && v2.ensure_minimum_range == 0.01f);
    assert_true(qg_dequantize_defaults.mode == QG_MIN_COMBINED && qg_dequantize_defaults.axis == QG_NO_AXIS);
    assert_true(qg_fake_quant_defaults.num_bits == 8 && !qg_fake_quant_defaults.narrow_range);
    assert_true(qg_fake_quant_args_defaults.min == -6 && qg_fake_quant_args_defaults.max == 6);
    assert_true(qg_fake_quant_args_defaults.num_bits == 8 && !qg_fake_quant_args_defaults.narrow_range);
    assert_int_equal(qg_uniform_quantize_defaults.quantization_axis, QG_NO_AXIS);
    assert_int_equal(qg_uniform_requantize_defaults.input_quantization_axis, QG_NO_AXIS);
    assert_int_equal(qg_uniform_requantize_defaults.output_quantization_axis, QG_NO_AXIS);
    assert_int_equal(qg_uniform_convolution_defaults.rhs_quantization_axis, QG_NO_AXIS);
    assert_int_equal(qg_uniform_convolution_defaults.output_quantization_axis, QG_NO_AXIS);
    assert_int_equal(qg_uniform_convolution_defaults.feature_group_count, 1);
}

/* Every attribute is legal as it is. */
static void defaults_quantize(void **state)
{
    float    x[] = { -1.5f, 0.25f, 1.5f }, y[3], scale = 0.5f, range[] = { -1.5f, 1.5f }, out[2];
    int8_t   q[3];
    int32_t  zero = 3, one = 0;
    qg_array zeros = { QG_I32, 0, { 0 }, &zero }, none = { QG_I32, 0, { 0 }, &one };
    assert_ok(qg_quantize_v2(qg_quantize_v2_defaults, VECTOR(x, 3), SCALAR(&range[0]), SCALAR(&range[1]), VIEW(QG_I8, q, 3),
                             SCALAR(&out[0]), SCALAR(&out[1])));
    assert_ok(qg_dequantize(qg_dequantize_defaults, VIEW(QG_I8, q, 3), SCALAR(&out[0]), SCALAR(&out[1]), VECTOR(y, 3)));
    assert_close(y, x, 3, 0.01);
    assert_ok(qg_fake_quant_with_min_max_args(qg_fake_quant_args_defaults, VECTOR(x, 3), VECTOR(y, 3)));
    assert_close(y, x, 3, 0.03);
    assert_ok(qg_uniform_quantize(qg_uniform_quantize_defaults, VECTOR(x, 3), SCALAR(&scale), &zeros, VIEW(QG_I8, q, 3)));
    assert_int_equal(q[0], 0), assert_int_equal(q[2], 6);
    assert_ok(qg_uniform_requantize(qg_uniform_requantize_defaults, VIEW(QG_I8, q, 3), SCALAR(&scale), &zeros, SCALAR(&scale),
                                    &none, VIEW(QG_I8, q, 3)));
    assert_int_equal(q[0], -3), assert_int_equal(q[2], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_points_of_16_bits_are_kept_whole),
        cmocka_unit_test(ranges_are_extended_to_zero_and_widened),
        cmocka_unit_test(codes_saturate_before_they_are_cast),
        cmocka_unit_test(the_last_axis_is_not_minus_1),
        cmocka_unit_test(defaults_are_those_of_tensorflow),
        cmocka_unit_test(defaults_quantize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
