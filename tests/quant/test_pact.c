#include "tests/support/views.h"

#include <math.h>
#include <string.h>

#include "quant/reference/uniform.h"
#include "tests/support/schemes.h"

/* --- on arrays ---------------------------------------------------------------------------------- */

static const qg_surrogate own = { 0 };

/* 2 bits, alpha = 3: codes 0 1 2 3, ties to even. */
static void codes_by_hand(void **state)
{
    float       x[] = { -1.0f, -0.0f, 0.0f, 0.5f, 1.5f, 2.5f, 2.9f, 3.0f, 4.0f };
    float       g[] = { 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f, 9.0f };
    const float want[] = { 0.0f, 0.0f, 0.0f, 0.0f, 2.0f, 2.0f, 3.0f, 3.0f, 3.0f };
    const float mask[] = { 0.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 0.0f, 0.0f };
    float       y[9], da;
    assert_ok(qg_pact_quantizer(VECTOR(x, 9), 2, 3.0f, VECTOR(y, 9)));
    assert_all_near(9, y, want, 0.0);
    assert_ok(qg_pact_quantizer_gradient(VECTOR(x, 9), VECTOR(g, 9), 2, 3.0f, own, VECTOR(y, 9), &da));
    assert_same(9, y, mask);
    assert_true(da == 17.0f);
    assert_ok(qg_pact_quantizer_gradient(VECTOR(x, 9), VECTOR(g, 9), 2, 3.0f, qg_surrogate_identity(), VECTOR(y, 9),
                                         NULL));
    assert_same(9, y, g);
}

static void nan_infinite_and_unrounded(void **state)
{
    float    x[] = { NAN, INFINITY, -INFINITY, 0.123f };
    float    y[4];
    assert_ok(qg_pact_quantizer(VECTOR(x, 4), 4, 2.0f, VECTOR(y, 4)));
    assert_true(isnan(y[0]) && y[1] == 2.0f && y[2] == 0.0f);
    assert_ok(qg_pact_quantizer(VECTOR(x, 4), 32, 2.0f, VECTOR(y, 4)));
    assert_true(isnan(y[0]) && y[1] == 2.0f && y[2] == 0.0f && y[3] == 0.123f);
}

static void codebook_and_scale(void **state)
{
    static float x[MOST], v[MOST], y[MOST], z[MOST];
    const float  alpha = 1.7f;
    fill_normal(1, 1.5f, MOST, x);
    for (size_t i = 0; i < MOST; i++) v[i] = 0.5f * x[i];
    for (int k = 1; k <= 16; k++) {
        const double steps = (double)((1 << k) - 1);
        assert_ok(qg_pact_quantizer(VECTOR(x, MOST), k, alpha, VECTOR(y, MOST)));
        assert_ok(qg_pact_quantizer(VECTOR(y, MOST), k, alpha, VECTOR(z, MOST)));
        assert_same(MOST, z, y);
        for (size_t i = 0; i < MOST; i++) {
            const double code = (double)y[i] / (double)alpha * steps;
            assert_near(code, round(code), 0.02); /* 65535 codes in float32: 2^-7 each */
            assert_true(round(code) >= 0.0 && round(code) <= steps);
        }
        assert_ok(qg_pact_quantizer(VECTOR(v, MOST), k, 0.5f * alpha, VECTOR(z, MOST)));
        for (size_t i = 0; i < MOST; i++) assert_true(z[i] == 0.5f * y[i]);
    }
}

/* clip(x, 0, a), what is left of q when rounding has slope 1, is piecewise linear in a: the
 * difference is exact while no x lies in [a - h, a + h]. */
static void clip_gradient_against_differences(void **state)
{
    static float x[MOST], g[MOST], dx[MOST];
    const double a = 1.25, h = 1e-4;
    fill_normal(2, 1.5f, MOST, x);
    fill_normal(3, 1.0f, MOST, g);
    for (size_t i = 0; i < MOST; i++)
        if (fabs((double)x[i] - a) <= 2.0 * h) x[i] = 1.0f;
    for (size_t s = 0; s < N_SIZES; s++) {
        const size_t n = awkward_sizes[s];
        double       up = 0.0, down = 0.0;
        float        da;
        assert_ok(qg_pact_quantizer_gradient(VECTOR(x, n), VECTOR(g, n), 4, (float)a, own, VECTOR(dx, n), &da));
        for (size_t i = 0; i < n; i++) {
            up += (double)g[i] * fmin(fmax((double)x[i], 0.0), a + h);
            down += (double)g[i] * fmin(fmax((double)x[i], 0.0), a - h);
        }
        assert_near((double)da, (up - down) / (2.0 * h), 1e-4); /* cancellation over h, and float */
    }
}

/* round(clip(x, 0, a) n / a) a / n in this order: a n must be a float32, and then all of it is. */
static void any_alpha_whose_steps_are_float32(void **state)
{
    const float alphas[] = { 1.3e36f, 1e30f, 1e-37f, 1e-45f };
    for (size_t i = 0; i < sizeof alphas / sizeof alphas[0]; i++)
        for (int k = 1; k <= 8; k += 7) {
            float    x[] = { alphas[i], 3e38f, 0.0f, -1.0f, alphas[i] / 2 }, y[5];
            qg_array X = vector(x, 5), Y = vector(y, 5);
            assert_ok(qg_pact_quantizer(&X, k, alphas[i], &Y));
            assert_near((double)y[0], (double)alphas[i], 1e-6 * (double)alphas[i] + 1.5e-45);
            assert_true(y[0] == y[1] && y[2] == 0.0f && y[3] == 0.0f && y[4] >= 0.0f && y[4] <= y[0]);
        }
    float    x[] = { 3e38f }, y[1];
    qg_array X = vector(x, 1), Y = vector(y, 1);
    assert_ok(qg_pact_quantizer(&X, 32, 2e38f, &Y));        /* clips and does not round */
    assert_true(y[0] == 2e38f);
}

static void refuses(void **state)
{
    float    x[2] = { 1.0f };
    float    y[2] = { 7.0f, 7.0f };
    float    da = 7.0f;
    qg_array X = vector(x, 2);
    qg_array Y = vector(y, 2);
    assert_failed(qg_pact_quantizer(&X, 0, 1.0f, &Y), QG_EARG, "k is 0, must be 1 .. 32");
    assert_failed(qg_pact_quantizer(&X, 2, 0.0f, &Y), QG_EARG, "alpha is 0");
    assert_failed(qg_pact_quantizer(&X, 2, -1.0f, &Y), QG_EARG, "alpha is -1");
    assert_failed(qg_pact_quantizer(&X, 8, 2e36f, &Y), QG_EARG, "alpha is 2e+36");
    assert_failed(qg_pact_quantizer_gradient(&X, &X, 8, 2e36f, own, &Y, &da), QG_EARG, "times 255 steps");
    assert_failed(qg_pact_quantizer(&X, 2, 1.0f, VECTOR(y, 1)), QG_ESHAPE, "[1]");
    assert_failed(qg_pact_quantizer_gradient(&X, &X, 40, 1.0f, own, &Y, &da), QG_EARG, "k is 40");
    assert_failed(qg_pact_quantizer_gradient(&X, &X, 2, NAN, own, &Y, &da), QG_EARG,
                   "alpha is nan");
    assert_failed(qg_pact_quantizer_gradient(&X, VECTOR(y, 1), 2, 1.0f, own, &Y, &da), QG_ESHAPE, "dy");
    assert_true(y[0] == 7.0f && y[1] == 7.0f && da == 7.0f);
    assert_ok(qg_pact_quantizer(VECTOR(NULL, 0), 2, 1.0f, VECTOR(NULL, 0)));
    assert_ok(qg_pact_quantizer_gradient(VECTOR(NULL, 0), VECTOR(NULL, 0), 2, 1.0f, own, VECTOR(NULL, 0), &da));
    assert_true(da == 0.0f);
}

/* --- on a tape ---------------------------------------------------------------------------------- */


static float x_data[33];

/* Where x is beyond the clip, q is alpha, and below 0 it is 0: there the derivative is a true one.
 * Inside, the levels move with alpha and the scheme leaves that out. */
static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *alpha = qg_parameter(t, p->item[0]);
    return qg_quantize(t, *(qg_quant *)context, qg_input(t, (qg_tensor){ { 1, 1, 1, 33 }, x_data }), &alpha);
}

static void gradient_of_alpha_is_that_of_the_loss(void **state)
{
    qg_quant  q = qg_pact((qg_pact_spec){ .bits = 2 });
    qg_params p = { 0 };
    declare(&p, "alpha", (qg_shape){ 1, 1, 1, 1 });
    assert_ok(qg_params_allocate(&p));
    p.item[0]->value[0] = 1.5f;
    for (int i = 0; i < 33; i++) x_data[i] = i % 3 ? 1.6f + (float)i : -0.1f * (float)i;
    assert_gradcheck((qg_gradcheck_spec){ .name = "alpha", .params = &p, .build = build, .context = &q });
    qg_params_release(&p);
}

static void gradients_add_up(void **state)
{
    rig         r;
    const float g[3] = { 1.0f, 2.0f, 4.0f };
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 2, .alpha = 1.0f }), QG_INPUT, (qg_shape){ 1, 1, 1, 3 });
    start_rig(&r, false);
    memcpy(r.x->value, (float[]){ -1.0f, 0.5f, 2.0f }, sizeof g);
    train_rig(&r, 0, g);
    train_rig_on(&r, 1, g);
    assert_true(r.x->grad[0] == 0.0f && r.x->grad[1] == 4.0f && r.x->grad[2] == 0.0f);
    assert_true(r.learned[0]->grad[0] == 8.0f);
    close_rig(&r);
}

/* A var that has no gradient yet is assigned, whatever its memory had. */
static void a_computed_alpha_has_a_gradient(void **state)
{
    float     number[] = { -1.0f, 0.5f, 2.0f, 3.0f };
    qg_params all      = { 0 };
    qg_param *p        = qg_params_declare(&all, (qg_param){ .name = "alpha", .shape = { 1, 1, 1, 1 } });
    qg_tape  *t        = qg_tape_new();
    assert_true(p && t);
    assert_ok(qg_params_allocate(&all));
    *p->value = 1;
    for (int i = 0; i < 3; i++) {
        qg_params_clear_gradients(&all);
        qg_tape_begin(t, QG_TRAIN, 1, (uint64_t)i);
        qg_var *a = qg_scale(t, qg_parameter(t, p), 1);
        qg_var *x = qg_input(t, (qg_tensor){ { 1, 1, 1, 4 }, number });
        qg_var *y = qg_quantize(t, qg_pact((qg_pact_spec){ .bits = 2 }), x, &a);
        for (int k = 0; k < 3; k++) y = qg_scale(t, y, 1);
        assert_ok(qg_backward(t, qg_sum(t, y, QG_AXES)));
        assert_true(*p->grad == 2.0f);      /* of the two numbers at or above it */
    }
    qg_tape_free(t), qg_params_release(&all);
}

static void clip_stays_positive(void **state)
{
    rig         r;
    const float one = 1.0f;
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 4 }), QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
    r.x->value[0]          = 1.0f;
    r.learned[0]->value[0] = -0.5f;
    assert_ok(run_rig(&r, QG_EVAL, 0));
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[0]->value[0] == -0.5f);
    train_rig(&r, 0, &one);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[0]->value[0] == 0x1p-30f);
    assert_true(r.learned[0]->grad[0] == 1.0f);     /* the way back is open */
    close_rig(&r);
}

static void codes_are_what_apply_gives(void **state)
{
    rig r;
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 4, .alpha = 1.1f }), QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
    start_rig(&r, false);
    fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
    assert_codes_give_values(&r, 0, 15, 2.4e-7);      /* k a / n in two roundings against k times the rounded a / n */
    close_rig(&r);
}

static void nan_stays(void **state)
{
    rig         r;
    const float g[4] = { 1.0f, 2.0f, 4.0f, 8.0f };
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 2 }), QG_INPUT, (qg_shape){ 1, 1, 1, 4 });
    start_rig(&r, false);
    memcpy(r.x->value, (float[]){ NAN, INFINITY, -INFINITY, 0.0f }, 4 * sizeof(float));
    train_rig(&r, 0, g);
    assert_true(isnan(r.y->data[0]) && r.y->data[1] == 10.0f && r.y->data[2] == 0.0f && r.y->data[3] == 0.0f);
    assert_true(r.x->grad[0] == 0.0f && r.x->grad[1] == 0.0f && r.x->grad[2] == 0.0f && r.x->grad[3] == 8.0f);
    assert_true(r.learned[0]->grad[0] == 2.0f);
    close_rig(&r);
}

static void alpha_starts_where_told_and_decays(void **state)
{
    const qg_quant q = qg_pact((qg_pact_spec){ .bits = 3, .alpha = 1.3f });
    rig            r;
    open_rig(&r, q, QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
    start_rig(&r, false);
    assert_true(r.learned[0]->value[0] == 1.3f);
    close_rig(&r);
    assert_true(q.scheme->decay(q) == 2e-4f);
    assert_true(q.scheme->rectifies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_by_hand),
        cmocka_unit_test(nan_infinite_and_unrounded),
        cmocka_unit_test(codebook_and_scale),
        cmocka_unit_test(clip_gradient_against_differences),
        cmocka_unit_test(any_alpha_whose_steps_are_float32),
        cmocka_unit_test(refuses),
        cmocka_unit_test(gradient_of_alpha_is_that_of_the_loss),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(a_computed_alpha_has_a_gradient),
        cmocka_unit_test(clip_stays_positive),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(alpha_starts_where_told_and_decays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
