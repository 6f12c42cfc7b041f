#include "tests/support/views.h"

#include <math.h>
#include <string.h>

#include "quant/reference/uniform.h"
#include "tests/support/schemes.h"

/* --- on arrays ---------------------------------------------------------------------------------- */

static const qg_surrogate own = { 0 };

/* By hand, 2 bits, M = 2: codes 0, 2/3, 4/3, 2; the ties 1/3, 1, 5/3 go up. */
static void codes_by_hand(void **state)
{
    float       x[] = { -1.0f, -0.0f, 0.3f, 1.0f, 1.7f, 2.0f, 9.0f, INFINITY, -INFINITY, NAN };
    const float want[] = { 0.0f, 0.0f, 0.0f, 4.0f / 3.0f, 2.0f, 2.0f, 2.0f, 2.0f, 0.0f, NAN };
    float       y[10];
    assert_ok(qg_linear_mid_tread_half_quantizer(VECTOR(x, 10), 2, 2.0f, VECTOR(y, 10)));
    assert_all_near(10, y, want, 2e-7); /* an ulp of 4/3 */
}

static void ties_go_up_unlike_dorefa(void **state)
{
    float    x = 1.0f / 6.0f;
    float    y;
    assert_ok(qg_linear_mid_tread_half_quantizer(VECTOR(&x, 1), 2, 1.0f, VECTOR(&y, 1)));
    assert_true(y == 1.0f / 3.0f);
}

static void values_lie_on_the_grid(void **state)
{
    static float x[MOST], y[MOST], z[MOST];
    fill_normal(1, 2.0f, MOST, x);
    for (int bit = 1; bit <= 16; bit++)
        for (size_t s = 0; s < N_SIZES; s++) {
            const size_t n = awkward_sizes[s];
            const double steps = (double)((1 << bit) - 1);
            assert_ok(qg_linear_mid_tread_half_quantizer(VECTOR(x, n), bit, 2.5f, VECTOR(y, n)));
            assert_ok(qg_linear_mid_tread_half_quantizer(VECTOR(y, n), bit, 2.5f, VECTOR(z, n)));
            assert_same(n, z, y); /* idempotent */
            for (size_t i = 0; i < n; i++) {
                const double v = fmin(fmax((double)x[i], 0.0), 2.5) / 2.5 * steps;
                const double code = (double)y[i] / 2.5 * steps;
                assert_near(code, round(code), 0.02); /* float32 of 65535 codes: 2^-7 each */
                assert_near(code, v, 0.51);
            }
        }
}

static void bit_32_only_clips(void **state)
{
    float       x[] = { -3.0f, 0.1234567f, 0.9f, 5.0f };
    const float want[] = { 0.0f, 0.1234567f, 0.9f, 1.0f };
    float       y[4];
    assert_ok(qg_linear_mid_tread_half_quantizer(VECTOR(x, 4), 32, 1.0f, VECTOR(y, 4)));
    assert_same(4, y, want);
}

static void mask_is_open(void **state)
{
    float       x[] = { -0.5f, 0.0f, 0.5f, 1.0f, 1.5f, NAN };
    float       dy[] = { 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f };
    const float want[] = { 0.0f, 0.0f, 3.0f, 0.0f, 0.0f, 0.0f };
    float       dx[] = { 9.0f, 9.0f, 9.0f, 9.0f, 9.0f, 9.0f };
    assert_ok(qg_linear_mid_tread_half_quantizer_gradient(VECTOR(x, 6), VECTOR(dy, 6), 2, 1.0f, own, VECTOR(dx, 6)));
    assert_same(6, dx, want);
    assert_ok(qg_linear_mid_tread_half_quantizer_gradient(VECTOR(x, 6), VECTOR(dy, 6), 2, 1.0f, qg_surrogate_identity(),
                                                          VECTOR(dx, 6)));
    assert_same(6, dx, dy);
}

static void refuses(void **state)
{
    float    x[4] = { 1.0f };
    float    y[4] = { 7.0f, 7.0f, 7.0f, 7.0f };
    qg_array X = vector(x, 4);
    qg_array Y = vector(y, 4);
    qg_array F64 = X;
    F64.dtype = QG_F64;
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 0, 1.0f, &Y), QG_EARG,
                   "bit is 0, must be 1");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 33, 1.0f, &Y), QG_EARG, "bit is 33");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 2, 0.0f, &Y), QG_EARG, "max_value is 0");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 2, NAN, &Y), QG_EARG, "max_value is nan");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 2, INFINITY, &Y), QG_EARG,
                   "max_value is inf");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 2, 1.0f, VECTOR(y, 3)), QG_ESHAPE, "[3]");
    assert_failed(qg_linear_mid_tread_half_quantizer(&X, 2, 1.0f, MATRIX(y, 2, 2)), QG_ESHAPE, "[2,2]");
    assert_failed(qg_linear_mid_tread_half_quantizer(&F64, 2, 1.0f, &Y), QG_EARG, "F64");
    assert_failed(qg_linear_mid_tread_half_quantizer(VECTOR(NULL, 4), 2, 1.0f, &Y), QG_EARG, "x has no data");
    assert_failed(qg_linear_mid_tread_half_quantizer(NULL, 2, 1.0f, &Y), QG_EARG, "x is NULL");
    assert_failed(qg_linear_mid_tread_half_quantizer_gradient(&X, &X, 2, -1.0f, own, &Y), QG_EARG,
                   "max_value is -1");
    assert_failed(qg_linear_mid_tread_half_quantizer_gradient(&X, VECTOR(y, 3), 2, 1.0f, own, &Y), QG_ESHAPE, "dy");
    for (int i = 0; i < 4; i++) assert_true(y[i] == 7.0f);
}

static void empty_and_rank_0(void **state)
{
    float    x = 0.4f;
    float    y = 0.0f;
    qg_array E = vector(NULL, 0);
    qg_array X = { .dtype = QG_F32, .rank = 0, .data = &x };
    qg_array Y = { .dtype = QG_F32, .rank = 0, .data = &y };
    assert_ok(qg_linear_mid_tread_half_quantizer(&E, 2, 1.0f, &E));
    assert_ok(qg_linear_mid_tread_half_quantizer_gradient(&E, &E, 2, 1.0f, own, &E));
    assert_ok(qg_linear_mid_tread_half_quantizer(&X, 1, 1.0f, &Y));
    assert_true(y == 0.0f);
}

/* --- on a tape ---------------------------------------------------------------------------------- */


static qg_quant linear(int bits, float max_value)
{
    return qg_linear((qg_linear_spec){ .bits = bits, .max_value = max_value });
}

static void defaults_are_those_of_the_source(void **state)
{
    rig r;
    open_rig(&r, linear(0, 0.0f), QG_INPUT, (qg_shape){ 1, 1, 1, 5 });
    memcpy(r.x->value, (float[]){ -1.0f, 0.4f, 1.0f, 1.9f, NAN }, 5 * sizeof(float));
    assert_ok(run_rig(&r, QG_EVAL, 0));
    const float third = 1.0f / 3.0f * 2.0f, two_thirds = 2.0f / 3.0f * 2.0f;
    const float levels[4] = { 0.0f, third, two_thirds, 2.0f };  /* 1.0 is a tie and goes up */
    assert_memory_equal(r.y->data, levels, sizeof levels);
    assert_true(isnan(r.y->data[4]));
    assert_true(r.q.scheme->rectifies);
    close_rig(&r);
}

static void codes_are_what_apply_gives(void **state)
{
    rig r;
    open_rig(&r, linear(4, 1.1f), QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
    fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
    assert_codes_give_values(&r, 0, 15, 2.4e-7);      /* k / n M in two roundings against k times the rounded M / n */
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_by_hand),
        cmocka_unit_test(ties_go_up_unlike_dorefa),
        cmocka_unit_test(values_lie_on_the_grid),
        cmocka_unit_test(bit_32_only_clips),
        cmocka_unit_test(mask_is_open),
        cmocka_unit_test(refuses),
        cmocka_unit_test(empty_and_rank_0),
        cmocka_unit_test(defaults_are_those_of_the_source),
        cmocka_unit_test(codes_are_what_apply_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
