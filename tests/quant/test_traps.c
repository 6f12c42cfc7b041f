/* Mistakes that are easy to make in a quantizer, in numbers, where no other test would notice them.
 * tests/mutants makes each of them; `make mutants` runs these tests against the result. */
#include <float.h>

#include "quant/schemes/fake_quant.h"
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
    attrs.axis = -1;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_points_of_16_bits_are_kept_whole),
        cmocka_unit_test(ranges_are_extended_to_zero_and_widened),
        cmocka_unit_test(codes_saturate_before_they_are_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
