#include "tests/support/schemes.h"

#include <math.h>
#include <string.h>

#include "quant/schemes/linear.h"

static const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 1 }, { 1, 1, 31, 33 }, { 65, 3, 1, 63 }, { 31, 33, 5, 7 } };
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST = 31 * 33 * 5 * 7 };

static float dy[MOST], expected[MOST];

static qg_quant linear(int bits, float max_value)
{
    return qg_linear_mid_tread_half((qg_linear_mid_tread_half_spec){ .bits = bits, .max_value = max_value });
}

static qg_array array(float *data, size_t n)
{
    return (qg_array){ .dtype = QG_F32, .rank = 1, .dims = { n }, .data = data };
}

static void equals_the_plain_operator(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 1; bits <= 32; bits = bits == 16 ? 32 : bits + 1) {
            rig          r;
            const size_t n = qg_count(shapes[i]);
            open_rig(&r, linear(bits, 1.3f), QG_INPUT, shapes[i]);
            fill_uniform(r.x->value, n, -1.0f, 2.0f, 5);
            fill_uniform(dy, n, -1.0f, 1.0f, 6);
            train_rig(&r, 0, dy);
            qg_array x = array(r.x->value, n), y = array(expected, n), g = array(dy, n);
            assert_int_equal(qg_linear_mid_tread_half_quantizer(&x, bits, 1.3f, &y), QG_OK);
            assert_memory_equal(r.y->data, expected, n * sizeof *expected);
            assert_int_equal(qg_linear_mid_tread_half_quantizer_gradient(&x, &g, bits, 1.3f, (qg_surrogate){ 0 }, &y),
                             QG_OK);
            assert_memory_equal(r.x->grad, expected, n * sizeof *expected);
            close_rig(&r);
        }
}

static void defaults_are_those_of_the_source(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, linear(0, 0.0f), QG_INPUT, (qg_shape){ 1, 1, 1, 5 });
    memcpy(r.x->value, (float[]){ -1.0f, 0.4f, 1.0f, 1.9f, NAN }, 5 * sizeof(float));
    assert_int_equal(run_rig(&r, QG_EVAL, 0), QG_OK);
    const float third = 1.0f / 3.0f * 2.0f, two_thirds = 2.0f / 3.0f * 2.0f;
    const float levels[4] = { 0.0f, third, two_thirds, 2.0f };  /* 1.0 is a tie and goes up */
    assert_memory_equal(r.y->data, levels, sizeof levels);
    assert_true(isnan(r.y->data[4]));
    assert_true(r.q.scheme->rectifies);
    close_rig(&r);
}

static double clip(double x, void *context)
{
    (void)context;
    return fmin(fmax(x, 0.0), 0.75);
}

static double hard(double x, void *context)
{
    (void)context;
    return fmin(fmax(x, -1.0), 1.0);
}

static void slope_is_that_of_the_surrogate(void **state)
{
    (void)state;
    assert_slope(linear(2, 0.75f), QG_INPUT, NULL, clip, NULL, -1.0f, 2.0f);
    qg_quant q  = linear(2, 0.75f);
    q.surrogate = qg_surrogate_clip(1.0f);
    assert_slope(q, QG_INPUT, NULL, hard, NULL, -2.0f, 2.0f);
}

static void codes_are_what_apply_gives(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, linear(4, 1.1f), QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
    fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
    assert_codes(&r, 2.0);      /* k / n M in two roundings against k times the rounded M / n */
    close_rig(&r);
}

static void refuses_bad_constants(void **state)
{
    (void)state;
    const qg_quant none = { 0 };
    assert_refused(none, linear(33, 2.0f), "linear: bits is 33, not 1 .. 16 or 32");
    assert_refused(none, linear(2, -1.0f), "max_value");
    assert_refused(none, linear(2, INFINITY), "max_value");
    assert_refused(linear(2, 2.0f), none, "does not quantize weights");
}

static void works_in_nets(void **state)
{
    (void)state;
    assert_fused_equals_unfused(linear(2, 1.0f), "linear", 0);
    assert_trains_alike((qg_quant){ 0 }, linear(3, 1.0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_plain_operator),
        cmocka_unit_test(defaults_are_those_of_the_source),
        cmocka_unit_test(slope_is_that_of_the_surrogate),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(refuses_bad_constants),
        cmocka_unit_test(works_in_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
