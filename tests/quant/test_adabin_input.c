/* adabin for inputs: two learned levels, which are no multiples of one number. */
#include "tests/support/testing.h"

#include <string.h>

#include "quant/schemes/formulas.h"
#include "tests/support/nets.h"
#include "tests/support/schemes.h"

/* With a = 2 and b = 0.5, u = -1.25, -0.5, -0.125, 0, 0.25, 1.75, and approx-sign has the slopes 2 - 2|u| or
 * 0.  All numbers are exact. */
static void by_hand(void **state)
{
    const float x[6] = { -2, -0.5f, 0.25f, 0.5f, 1, 4 }, dy[6] = { 1, 2, -1, 0.5f, 1, 3 };
    const float y[6] = { -1.5f, -1.5f, -1.5f, 2.5f, 2.5f, 2.5f }, dx[6] = { 0, 2, -1.75f, 1, 1.5f, 0 };
    rig         r;
    open_rig(&r, qg_adabin_activation(), QG_INPUT, (qg_shape){ 1, 1, 1, 6 });
    start_rig(&r, false);
    assert_true(r.learned[0]->value[0] == 1 && r.learned[1]->value[0] == 0);
    r.learned[0]->value[0] = 2, r.learned[1]->value[0] = 0.5f;
    memcpy(r.x->value, x, sizeof x);
    train_rig(&r, 0, dy);
    assert_memory_equal(r.y->data, y, sizeof y);
    assert_memory_equal(r.x->grad, dx, sizeof dx);
    assert_true(r.learned[0]->grad[0] == 2.90625f);         /* 4.5 - 2 - (-1 + 0.21875 + 0 + 0.375) */
    assert_true(r.learned[1]->grad[0] == 3.75f);            /* 6.5 - 2.75 */
    r.learned[0]->value[0] = -3;                            /* the levels must not change their order */
    train_rig(&r, 1, dy);
    assert_true(r.learned[0]->value[0] == 0x1p-30f && r.y->data[0] <= r.y->data[5]);
    close_rig(&r);
}

static void it_is_fused_and_trains(void **state)
{
    assert_fused_equals_unfused(qg_adabin_activation(), "adabin_input", 0);
    assert_trains_alike(qg_adabin((qg_adabin_spec){ 0 }), qg_adabin_activation());
}

/* A convolution of one pixel, padded with 0: its product has the weight of the center only. */
static void its_levels_are_floats(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 1, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 3, .pad = 1, .input = qg_adabin_activation() });
    qg_params *p = qg_net_build(net);
    qg_tape   *t = qg_tape_new();
    float      x = 1;
    assert_true(p && t);
    qg_params_find(p, "conv1.input.b")->value[0] = 0.5f;
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *y = qg_net_forward(net, t, (qg_tensor){ { 1, 1, 1, 1 }, &x });
    assert_non_null(y);
    assert_true(y->data[0] == 1.5f * qg_params_find(p, "conv1.weight")->value[4]);
    qg_tape_free(t);
    qg_net_free(net);
}

/* Also where b is 0, so that the levels happen to be -a and a. */
static void negative_codes_have_a_scale_of_their_own(void **state)
{
    for (int i = 0; i < 2; i++) {
        const float b = i ? 0.5f : 0, x[3] = { b - 1, b, b + 1 };
        int32_t     code[3];
        float       scale, negative;
        qg_codes    out = { .code = code, .scale = &scale, .negative = &negative };
        rig         r;
        open_rig(&r, qg_adabin_activation(), QG_INPUT, (qg_shape){ 1, 1, 1, 3 });
        const float *learned[2] = { r.learned[0]->value, r.learned[1]->value };
        r.learned[0]->value[0] = 2, r.learned[1]->value[0] = b;
        memcpy(r.x->value, x, sizeof x);
        assert_ok(qg_encode(r.q, (qg_tensor){ { 1, 1, 1, 3 }, r.x->value }, learned, &out));
        assert_true(out.two_sided && scale == 2 + b && negative == 2 - b);
        assert_true(code[0] == -1 && code[1] == 1 && code[2] == 1);
        close_rig(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(it_is_fused_and_trains),
        cmocka_unit_test(its_levels_are_floats),
        cmocka_unit_test(negative_codes_have_a_scale_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
