#include "tests/support/views.h"

#include "quant/engine.h"
#include "quant/smooth.h"
#include "quant/surrogate.h"

static float slope_at(qg_surrogate s, float x)
{
    const float one = 1.0f;
    float       slope = 0.0f;
    s.slope(s.arg, 1, &x, &one, &slope);
    return slope;
}

static void sign_of_zero_and_nan(void **state)
{
    assert_true(qg_sign_of(0.0f) == 1.0f && qg_sign_of(-0.0f) == 1.0f);
    assert_true(qg_sign_of(1e-45f) == 1.0f && qg_sign_of(-1e-45f) == -1.0f);
    assert_true(qg_sign_of(INFINITY) == 1.0f && qg_sign_of(-INFINITY) == -1.0f);
    assert_true(qg_sign_of(NAN) == -1.0f);
}

static void slopes_by_hand(void **state)
{
    assert_true(slope_at(qg_surrogate_identity(), -7.0f) == 1.0f);
    assert_true(slope_at(qg_surrogate_clip(1.0f), 1.0f) == 1.0f);
    assert_true(slope_at(qg_surrogate_clip(1.0f), -1.0f) == 1.0f);
    assert_true(slope_at(qg_surrogate_clip(1.0f), 1.0000001f) == 0.0f);
    assert_true(slope_at(qg_surrogate_clip(0.5f), -0.75f) == 0.0f);
    assert_true(slope_at(qg_surrogate_approx_sign(), 0.25f) == 1.5f);
    assert_true(slope_at(qg_surrogate_approx_sign(), -1.0f) == 0.0f);
    assert_true(slope_at(qg_surrogate_approx_sign(), 2.0f) == 0.0f);
    assert_true(slope_at(qg_surrogate_swish(5.0f), 0.0f) == 5.0f);
    assert_true(slope_at(qg_surrogate_swish(5.0f), INFINITY) == 0.0f);
    assert_true(slope_at(qg_surrogate_swish(5.0f), -1e30f) == 0.0f);
    assert_true(slope_at(qg_surrogate_tanh(0.0f), 3.0f) == 1.0f);
    assert_true(slope_at(qg_surrogate_tanh(10.0f), 0.0f) == 10.0f);
    assert_true(slope_at(qg_surrogate_tanh(0.5f), 0.0f) == 1.0f);
}

/* Against the formulas as printed, in double.  The bound is a few float32 ulp of the height. */
static void smooth_slopes_follow_their_formulas(void **state)
{
    const float beta = 5.0f;
    for (int i = -400; i <= 400; i++) {
        const float  x = (float)i / 100.0f;
        const double z = (double)beta * (double)x;
        assert_near((double)slope_at(qg_surrogate_swish(beta), x),
                    (double)beta * (2.0 - z * tanh(z / 2.0)) / (1.0 + cosh(z)), 2e-6);
        for (float t = 0.1f; t < 11.0f; t *= 10.0f) {
            const double k = t < 1.0f ? 1.0 / (double)t : 1.0;
            const double s = tanh((double)t * (double)x);
            assert_near((double)slope_at(qg_surrogate_tanh(t), x), k * (double)t * (1.0 - s * s), 4e-6);
        }
    }
}

/* Where the slope is cut off, a gradient is left out and not multiplied by 0. */
static void no_gradient_passes_where_the_slope_ends(void **state)
{
    const qg_surrogate cut[] = { qg_surrogate_clip(1.0f), qg_surrogate_approx_sign(), qg_surrogate_swish(5.0f) };
    const float        x[] = { 20.0f, -17.0f, INFINITY }, dy[] = { INFINITY, NAN, -INFINITY };
    for (int k = 0; k < 3; k++) {
        float dx[] = { 3.0f, 4.0f, 5.0f };
        cut[k].slope(cut[k].arg, 3, x, dy, dx);
        assert_true(dx[0] == 3.0f && dx[1] == 4.0f && dx[2] == 5.0f);
    }
}

static void slopes_accumulate(void **state)
{
    const qg_surrogate all[] = { qg_surrogate_identity(), qg_surrogate_clip(1.0f), qg_surrogate_approx_sign(),
                                 qg_surrogate_swish(5.0f), qg_surrogate_tanh(2.0f) };
    static float       x[MOST], dy[MOST], once[MOST], twice[MOST];
    fill_normal(1, 1.0f, MOST, x);
    fill_normal(2, 1.0f, MOST, dy);
    for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
        memset(once, 0, sizeof once);
        memset(twice, 0, sizeof twice);
        qg__surrogate_slope(all[s], MOST, x, dy, once);
        qg__surrogate_slope(all[s], MOST, x, dy, twice);
        qg__surrogate_slope(all[s], MOST, x, dy, twice);
        for (size_t i = 0; i < MOST; i++) {
            assert_true(twice[i] == 2.0f * once[i]);
            if (i % 997 == 0)
                assert_near((double)once[i], (double)(dy[i] * slope_at(all[s], x[i])), 0);
        }
    }
}

/* 2 ulp of float32 are 2.4e-7 relative; tanh keeps relative accuracy down to 0. */
static void smooth_functions_against_libm(void **state)
{
    for (int i = -160000; i <= 160000; i += 7) {
        const float x = (float)i / 2000.0f;
        assert_near((double)qg__expf(x) / exp((double)x), 1.0, 2.4e-7);
        const float y = (float)i / 14000.0f;
        if (y != 0.0f) assert_near((double)qg__tanhf(y) / tanh((double)y), 1.0, 2.4e-7);
    }
    for (float y = 1e-30f; y < 1.0f; y *= 1.7f)
        assert_near((double)qg__tanhf(y) / tanh((double)y), 1.0, 2.4e-7);
    assert_true(qg__tanhf(0.0f) == 0.0f && qg__tanhf(INFINITY) == 1.0f && qg__tanhf(-40.0f) == -1.0f);
    assert_true(isnan(qg__tanhf(NAN)));
}

static void arguments_have_a_range(void **state)
{
    const qg_surrogate good[] = { { 0 }, qg_surrogate_clip(0), qg_surrogate_annealed_tanh(7), qg_surrogate_annealed_tanh(0) };
    const qg_surrogate bad[]  = { qg_surrogate_clip(-1), qg_surrogate_swish(NAN), qg_surrogate_tanh(INFINITY),
                                  { .slope = good[1].slope, .to = 1, .steps = 3 } };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_ok(qg__surrogate_check(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(qg__surrogate_check(bad[i]), QG_EARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_have_a_range),
        cmocka_unit_test(sign_of_zero_and_nan),
        cmocka_unit_test(slopes_by_hand),
        cmocka_unit_test(smooth_slopes_follow_their_formulas),
        cmocka_unit_test(no_gradient_passes_where_the_slope_ends),
        cmocka_unit_test(slopes_accumulate),
        cmocka_unit_test(smooth_functions_against_libm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
