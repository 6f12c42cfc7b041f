#include "tests/support/schemes.h"

#include <math.h>
#include <string.h>

static qg_quant unit(int bits, bool zero) { return qg_unit((qg_unit_spec){ .bits = bits, .zero = zero }); }

/* --- values ------------------------------------------------------------------------------- */

static void assert_values(qg_quant q, size_t n, const float *x, const float *expected)
{
    rig r;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, (int)n });
    memcpy(r.x->value, x, n * sizeof *x);
    assert_ok(run_rig(&r, QG_EVAL, 0));
    assert_close(r.y->data, expected, n, 0);
    close_rig(&r);
}

/* BNN-PYNQ's levels: two of them, four without a zero, three with it.  A tie without zero goes up, one
 * with zero to the even code. */
static void levels_are_those_of_the_nets(void **state)
{
    const float third = 1.0f / 3.0f;
    assert_values(unit(1, false), 6, (float[]){ -5, -1e-30f, -0.0f, 0, 1e-30f, INFINITY }, (float[]){ -1, -1, 1, 1, 1, 1 });
    assert_values(unit(2, false), 9, (float[]){ -9, -1, -0.667f, -0.666f, -1e-9f, 0, 0.666f, 0.667f, 1 },
                  (float[]){ -1, -1, -1, -third, -third, third, third, 1, 1 });
    assert_values(unit(2, true), 9, (float[]){ -9, -0.51f, -0.5f, -0.1f, 0, 0.4f, 0.5f, 0.51f, 7 },
                  (float[]){ -1, -1, 0, 0, 0, 0, 0, 1, 1 });
    assert_values(unit(3, true), 5, (float[]){ -1, -0.4f, 0.1f, 0.5f, 0.9f }, (float[]){ -1, -third, 0, 2.0f / 3, 1 });
    assert_true(unit(0, false).bits == 2);
}

static void levels_are_symmetric(void **state)
{
    enum { MANY = 4001 };
    for (int bits = 2; bits <= 8; bits++) {
        rig r;
        open_rig(&r, unit(bits, true), QG_INPUT, (qg_shape){ 1, 1, MANY, 1 });
        for (int i = 0; i < MANY; i++) r.x->value[i] = (float)(i - MANY / 2) / 1500;
        assert_ok(run_rig(&r, QG_EVAL, 0));
        for (int i = 0; i < MANY; i++) assert_true(r.y->data[i] == -r.y->data[MANY - 1 - i]);
        close_rig(&r);
    }
}

static void nan_stays(void **state)
{
    for (int zero = 0; zero < 2; zero++) {
        rig r;
        open_rig(&r, unit(2, zero), QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
        r.x->value[0] = NAN;
        assert_ok(run_rig(&r, QG_EVAL, 0));
        assert_true(isnan(r.y->data[0]));
        close_rig(&r);
    }
}

/* s(x) = clip(x, -1, 1), whose slope at its ends is 1. */
static void the_ends_have_a_slope(void **state)
{
    const float x[] = { -1.0000001f, -1, 0.3f, 1, 1.0000001f, NAN };
    for (int role = QG_WEIGHT; role <= QG_INPUT; role++) {
        rig r;
        const qg_quant fixed = qg_unit((qg_unit_spec){ .bits = 2, .fixed = true });
        open_rig(&r, fixed, (qg_role)role, (qg_shape){ 1, 1, 1, 6 });
        memcpy(r.x->value, x, sizeof x);
        const float dy[] = { 2, 3, 4, 5, 6, 7 };
        train_rig(&r, 0, dy);
        assert_close(r.x->grad, (float[]){ 0, 3, 4, 5, 0, 0 }, 6, 0);
        close_rig(&r);
    }
}

/* --- the rest ----------------------------------------------------------------------------- */

static void codes_are_what_apply_gives(void **state)
{
    for (int bits = 1; bits <= 8; bits++)
        for (int zero = 0; zero <= (bits > 1); zero++) {
            rig r;
            open_rig(&r, unit(bits, zero), QG_WEIGHT, (qg_shape){ 3, 1, 5, 63 });
            fill_uniform(r.x->value, 3 * 5 * 63, -1.5f, 1.5f, (uint64_t)bits);
            assert_codes_give_values(&r, 1 - (1 << bits), (1 << bits) - 1, 1.2e-7);      /* k / n against k times the rounded 1 / n */
            close_rig(&r);
        }
}

/* The largest becomes 1, and nothing is left of what would all be rounded to 0. */
static void weights_start_wide(void **state)
{
    rig r;
    open_rig(&r, qg_unit((qg_unit_spec){ .zero = true, .as_paper = true }), QG_WEIGHT, (qg_shape){ 1, 1, 1, 4 });
    memcpy(r.x->value, (float[]){ 0.01f, -0.04f, 0, 0.02f }, 4 * sizeof(float));
    start_rig(&r, true);
    assert_close(r.x->value, (float[]){ 0.25f, -1, 0, 0.5f }, 4, 1e-7);
    assert_true(r.q.scheme->clip == 1.0f && r.q.scheme->rectifies);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_those_of_the_nets),
        cmocka_unit_test(levels_are_symmetric),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(the_ends_have_a_slope),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(weights_start_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
