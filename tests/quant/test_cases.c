#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cases.h"

#include <stdio.h>
#include <string.h>

/* A vector that passes, in pieces that the rows below replace. */
#define ATTRS    "\"num_bits\":8,\"narrow_range\":false"
#define INPUTS   "\"inputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[1.0,\"nan\"]}," RANGE
#define RANGE    MIN ",\"max\":{\"dtype\":\"float32\",\"shape\":[],\"data\":[4.0]}"
#define MIN      "\"min\":{\"dtype\":\"float32\",\"shape\":[],\"data\":[2.0]}"
#define EXPECTED "\"outputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[0.9960785,\"nan\"]}"
#define ANSWER   "\"expected\":{" EXPECTED "},\"atol\":1e-6,\"rtol\":0"

static bool run(const char *op, const char *attrs, const char *inputs, const char *answer,
                char *why)
{
    char text[2000];
    snprintf(text, sizeof text, "{\"name\":\"n\",\"op\":\"%s\",\"attrs\":{%s},\"inputs\":{%s},%s}",
             op, attrs, inputs, answer);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    const bool ok = case_run(json, why, 600);
    cJSON_Delete(json);
    return ok;
}

static const char *const vars = "fake_quant_with_min_max_vars";

static void a_sound_vector_passes(void **state)
{
    char why[600];
    assert_true(run(vars, ATTRS, INPUTS, ANSWER, why));
    assert_string_equal(why, "");
    assert_true(
        run(vars, "\"num_bits\":1,\"narrow_range\":true", INPUTS, "\"expected_error\":\"x\"", why));
}

static void everything_else_fails_and_says_why(void **state)
{
    static const struct {
        const char *op, *attrs, *inputs, *answer, *why;
    } rows[] = {
        { "fake_quant", ATTRS, INPUTS, ANSWER, "operator fake_quant is unknown" },
        { vars, ATTRS ",\"axis\":0", INPUTS, ANSWER, "attribute axis is unknown" },
        { vars, "\"num_bits\":8", INPUTS, ANSWER, "attribute narrow_range is missing" },
        { vars, "\"num_bits\":8.5,\"narrow_range\":false", INPUTS, ANSWER, "num_bits is not" },
        { vars, "\"num_bits\":8,\"narrow_range\":0", INPUTS, ANSWER, "must be true or false" },
        { vars, "\"num_bits\":\"8\",\"narrow_range\":false", INPUTS, "\"expected_error\":\"x\"",
          "num_bits is not" },
        { vars, ATTRS, RANGE, ANSWER, "input inputs is missing" },
        { vars, ATTRS,
          INPUTS ","
                 "\"bias\":1",
          ANSWER, "input bias is unknown" },
        { vars, ATTRS, "\"inputs\":{\"dtype\":\"float32\",\"shape\":[3],\"data\":[1,2]}," RANGE,
          ANSWER, "do not fill" },
        { vars, ATTRS,
          "\"inputs\":{\"dtype\":\"float32\",\"shape\":[2147483647,2147483647,4],"
          "\"data\":[1,2]}," RANGE,
          ANSWER, "do not fill" },
        { vars, ATTRS, "\"inputs\":{\"dtype\":\"float32\",\"shape\":[-2],\"data\":[1,2]}," RANGE,
          ANSWER, "shape" },
        { vars, ATTRS, "\"inputs\":{\"dtype\":\"half\",\"shape\":[2],\"data\":[1,2]}," RANGE,
          ANSWER, "unknown dtype" },
        { vars, ATTRS, "\"inputs\":{\"dtype\":\"int8\",\"shape\":[1],\"data\":[128]}," RANGE,
          ANSWER, "inputs[0] is not a number of type int8" },
        { vars, ATTRS, "\"inputs\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":[null]}," RANGE,
          ANSWER, "inputs[0] is not" },
        { vars, ATTRS, INPUTS, "\"note\":1", "exactly one of" },
        { vars, ATTRS, INPUTS, "\"expected\":{}", "exactly one of" },
        { vars, ATTRS, INPUTS, ANSWER ",\"expected_error\":\"x\"", "exactly one of" },
        { vars, ATTRS, INPUTS, "\"expected_error\":\"x\"", "an error is expected" },
        { vars, "\"num_bits\":1,\"narrow_range\":true", INPUTS, ANSWER, "num_bits is 1" },
        { vars, ATTRS, INPUTS, "\"expected\":{\"y\":{}}", "no such output" },
        { vars, ATTRS, INPUTS,
          "\"expected\":{\"outputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[0.9960784,\"nan\"]}}",
          "outputs[0] is 0.99607" },
        { vars, ATTRS, INPUTS, "\"expected\":{" EXPECTED "},\"atol\":-1", "atol" },
        { vars, ATTRS, INPUTS,
          "\"expected\":{\"outputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[0.9960785,0]}},"
          "\"atol\":1e-6",
          "outputs[1] is nan, expected 0" },
        { vars, ATTRS, INPUTS,
          "\"expected\":{\"outputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[\"inf\","
          "\"nan\"],"
          "\"rtol\":1}}",
          "expected inf" },
        { vars, ATTRS, INPUTS,
          "\"expected\":{\"outputs\":{\"dtype\":\"float32\",\"shape\":[1,2],\"data\":[1,1]}}",
          "expected shape" },
        { vars, ATTRS, INPUTS,
          "\"expected\":{\"outputs\":{\"dtype\":\"int8\",\"shape\":[2],\"data\":[1,1]}}", "dtype" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char why[600];
        assert_false(run(rows[i].op, rows[i].attrs, rows[i].inputs, rows[i].answer, why));
        if (!strstr(why, rows[i].why)) fail_msg("row %zu: \"%s\"", i, why);
    }
}

static void tolerances_are_added_and_entries_come_first(void **state)
{
    char why[600];
    /* 0.99607849 against 1: off by 0.0039215. */
#define OFF(inner, outer)                                                                          \
    "\"expected\":{\"outputs\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[1,\"nan\"]" inner    \
    "}}" outer
    assert_true(run(vars, ATTRS, INPUTS, OFF("", ",\"atol\":0.002,\"rtol\":0.002"), why));
    assert_false(run(vars, ATTRS, INPUTS, OFF("", ",\"atol\":0.0019,\"rtol\":0.002"), why));
    assert_true(run(vars, ATTRS, INPUTS, OFF(",\"atol\":0.004", ",\"atol\":0"), why));
    assert_false(run(vars, ATTRS, INPUTS, OFF(",\"atol\":0", ",\"atol\":0.004"), why));
#undef OFF
}

/* A vector states decimals, and a float32 is none: what is expected is the float32 nearest to the
 * decimal, and with a tolerance of 0 no other.  The neighbours of 0.127f are one ulp, 1.5e-8, away, so it ends at 0.1270000115. */
static void a_decimal_is_the_float32_nearest_to_it(void **state)
{
    static const struct {
        const char *value;
        bool        same;
    } rows[] = { { "0.127", true },         { "0.12700000405311584", true }, { "0.1270000114", true },
                 { "0.1270000116", false }, { "0.1270000189", false },       { "0.1269999892", false } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char answer[200], why[600];
        snprintf(answer, sizeof answer,
                 "\"expected\":{\"output\":{\"dtype\":\"float32\",\"shape\":[1],\"data\":[%s]}},"
                 "\"atol\":0,\"rtol\":0", rows[i].value);
        const bool same = run("uniform_dequantize", "\"quantization_axis\":-1",
                              "\"input\":{\"dtype\":\"int8\",\"shape\":[1],\"data\":[1]},"
                              "\"scales\":{\"dtype\":\"float32\",\"shape\":[],\"data\":[0.127]},"
                              "\"zero_points\":{\"dtype\":\"int32\",\"shape\":[],\"data\":[0]}",
                              answer, why);
        if (same != rows[i].same) fail_msg("%s: \"%s\"", rows[i].value, why);
    }
}

/* Doubles are compared as they stand, and an integer has no decimals to lose. */
static void other_types_are_compared_as_they_stand(void **state)
{
    static const struct {
        const char *fraction, *shift;
        bool        same;
    } rows[] = { { "1073741824", "0", true }, { "1073741824.25", "0", false }, { "1073741824", "0.25", false } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char answer[400], why[600];
        snprintf(answer, sizeof answer,
                 "\"expected\":{\"quantized_multiplier\":{\"dtype\":\"int32\",\"shape\":[1],\"data\":[%s]},"
                 "\"shift\":{\"dtype\":\"int32\",\"shape\":[1],\"data\":[%s]}},\"atol\":0",
                 rows[i].fraction, rows[i].shift);
        assert_true(run("tflite_quantize_multiplier", "",
                        "\"multiplier\":{\"dtype\":\"float64\",\"shape\":[1],\"data\":[0.5]}", answer, why) ==
                    rows[i].same);
    }
}

/* The forward has written y when the gradient refuses the shape of grad_y. */
static void an_error_of_the_gradient_is_an_error(void **state)
{
    static const struct {
        const char *op, *attrs, *more;
    } rows[] = {
        { "ste_sign", "\"clip\":1", "" },
        { "binary_mean_scaling", "", "" },
        { "dorefa_weight", "\"k\":2", "" },
        { "xnor_weight", "\"axis\":0,\"backward\":\"exact\",\"optim\":\"sgd\"", "" },
        { "pact", "\"k\":2",
          ",\"alpha\":{\"dtype\":\"float32\",\"shape\":[],\"data\":[1]}" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char inputs[400], why[600];
        snprintf(inputs, sizeof inputs,
                 "\"x\":{\"dtype\":\"float32\",\"shape\":[2],\"data\":[1,-1]},"
                 "\"grad_y\":{\"dtype\":\"float32\",\"shape\":[3],\"data\":[1,2,3]}%s",
                 rows[i].more);
        assert_true(run(rows[i].op, rows[i].attrs, inputs, "\"expected_error\":\"x\"", why));
        assert_false(run(rows[i].op, rows[i].attrs, inputs,
                         "\"expected\":{\"y\":{\"dtype\":\"float32\",\"shape\":[2],"
                         "\"data\":[1,-1]}},\"atol\":9", why));
        assert_non_null(strstr(why, "shape of dy is [3]"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_vector_passes),
        cmocka_unit_test(everything_else_fails_and_says_why),
        cmocka_unit_test(tolerances_are_added_and_entries_come_first),
        cmocka_unit_test(a_decimal_is_the_float32_nearest_to_it),
        cmocka_unit_test(other_types_are_compared_as_they_stand),
        cmocka_unit_test(an_error_of_the_gradient_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
