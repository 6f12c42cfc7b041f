#include "tests/support/schemes.h"

#include <math.h>
#include <string.h>

#include "quant/schemes/pact.h"

static const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 1 }, { 1, 1, 31, 33 }, { 65, 3, 1, 63 }, { 31, 33, 5, 7 } };
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST = 31 * 33 * 5 * 7 };

static float x_data[MOST], dy[MOST], expected[MOST];

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
            open_rig(&r, qg_pact((qg_pact_spec){ .bits = bits, .alpha = 1.3f }), QG_INPUT, shapes[i]);
            start_rig(&r, false);
            assert_true(r.learned[0]->value[0] == 1.3f);
            fill_uniform(r.x->value, n, -1.0f, 2.0f, 5);
            fill_uniform(dy, n, -1.0f, 1.0f, 6);
            train_rig(&r, 0, dy);
            qg_array x = array(r.x->value, n), y = array(expected, n), g = array(dy, n);
            float    da;
            assert_int_equal(qg_pact_quantizer(&x, bits, 1.3f, &y), QG_OK);
            assert_memory_equal(r.y->data, expected, n * sizeof *expected);
            assert_int_equal(qg_pact_quantizer_gradient(&x, &g, bits, 1.3f, (qg_surrogate){ 0 }, &y, &da), QG_OK);
            assert_memory_equal(r.x->grad, expected, n * sizeof *expected);
            /* Both are double sums, cut into other pieces, of at most n terms below 1. */
            assert_close(r.learned[0]->grad, &da, 1, 1e-6 * (1.0 + fabs((double)da)));
            close_rig(&r);
        }
}

static double clip_to(double x, void *alpha) { return fmin(fmax(x, 0.0), (double)*(float *)alpha); }

static void slope_is_that_of_the_clip(void **state)
{
    (void)state;
    float alpha = 0.7f;
    assert_slope(qg_pact((qg_pact_spec){ .bits = 3 }), QG_INPUT, &alpha, clip_to, &alpha, -1.0f, 2.0f);
}

static double identity(double x, void *context)
{
    (void)context;
    return x;
}

static void surrogate_can_be_replaced(void **state)
{
    (void)state;
    const float alpha = 0.7f;
    assert_slope(qg_pact((qg_pact_spec){ .bits = 3, .surrogate = qg_surrogate_identity() }), QG_INPUT, &alpha, identity,
                 NULL, -1.0f, 2.0f);
}

/* Where x is beyond the clip, q is alpha, and below 0 it is 0: there the derivative is a true one.
 * Inside, the levels move with alpha and the scheme leaves that out. */
static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *alpha = qg_parameter(t, p->item[0]);
    return qg_quantize(t, *(qg_quant *)context, qg_input(t, (qg_tensor){ { 1, 1, 1, 33 }, x_data }), &alpha);
}

static void gradient_of_alpha_is_that_of_the_loss(void **state)
{
    (void)state;
    qg_quant  q = qg_pact((qg_pact_spec){ .bits = 2 });
    qg_params p = { 0 };
    declare(&p, "alpha", (qg_shape){ 1, 1, 1, 1 });
    assert_int_equal(qg_params_allocate(&p), QG_OK);
    p.item[0]->value[0] = 1.5f;
    for (int i = 0; i < 33; i++) x_data[i] = i % 3 ? 1.6f + (float)i : -0.1f * (float)i;
    assert_gradcheck((qg_gradcheck_spec){ .name = "alpha", .params = &p, .build = build, .context = &q });
    qg_params_release(&p);
}

static void gradients_add_up(void **state)
{
    (void)state;
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

static void clip_stays_positive(void **state)
{
    (void)state;
    rig         r;
    const float one = 1.0f;
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 4 }), QG_INPUT, (qg_shape){ 1, 1, 1, 1 });
    r.x->value[0]          = 1.0f;
    r.learned[0]->value[0] = -0.5f;
    assert_int_equal(run_rig(&r, QG_EVAL, 0), QG_OK);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[0]->value[0] == -0.5f);
    train_rig(&r, 0, &one);
    assert_true(r.y->data[0] == 0x1p-30f && r.learned[0]->value[0] == 0x1p-30f);
    assert_true(r.learned[0]->grad[0] == 1.0f);     /* the way back is open */
    close_rig(&r);
}

static void codes_are_what_apply_gives(void **state)
{
    (void)state;
    rig r;
    open_rig(&r, qg_pact((qg_pact_spec){ .bits = 4, .alpha = 1.1f }), QG_INPUT, (qg_shape){ 3, 1, 5, 63 });
    start_rig(&r, false);
    fill_uniform(r.x->value, 3 * 5 * 63, -1.0f, 2.0f, 9);
    assert_codes(&r, 2.0);      /* k a / n in two roundings against k times the rounded a / n */
    close_rig(&r);
}

static void nan_stays(void **state)
{
    (void)state;
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

static void refuses_bad_constants(void **state)
{
    (void)state;
    const qg_quant none = { 0 };
    assert_refused(none, qg_pact((qg_pact_spec){ .bits = 17 }), "pact: bits is 17, not 1 .. 16 or 32");
    assert_refused(none, qg_pact((qg_pact_spec){ 0 }), "bits is 0");
    assert_refused(none, qg_pact((qg_pact_spec){ .bits = 2, .alpha = -1.0f }), "alpha");
    assert_refused(qg_pact((qg_pact_spec){ .bits = 2 }), none, "does not quantize weights");
}

static void works_in_nets(void **state)
{
    (void)state;
    const qg_quant q = qg_pact((qg_pact_spec){ .bits = 3, .alpha = 1.0f });
    assert_fused_equals_unfused(q, "pact", 0);
    assert_trains_alike((qg_quant){ 0 }, q);
    qg_quant later = q;
    later.after    = 2;
    assert_trains_alike((qg_quant){ 0 }, later);
}

static void alpha_decays(void **state)
{
    (void)state;
    const qg_quant q = qg_pact((qg_pact_spec){ .bits = 3 });
    assert_true(q.scheme->learned[0].decay == 2e-4f);
    assert_true(q.scheme->rectifies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_plain_operator),
        cmocka_unit_test(slope_is_that_of_the_clip),
        cmocka_unit_test(surrogate_can_be_replaced),
        cmocka_unit_test(gradient_of_alpha_is_that_of_the_loss),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(clip_stays_positive),
        cmocka_unit_test(codes_are_what_apply_gives),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(refuses_bad_constants),
        cmocka_unit_test(works_in_nets),
        cmocka_unit_test(alpha_decays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
