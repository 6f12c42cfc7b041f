#include "tests/support/views.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "layers/net.h"
#include "quant/reference/ternary.h"
#include "tests/support/schemes.h"
#include "tests/support/testing.h"

/* --- on arrays ---------------------------------------------------------------------------------- */

/* w = (1, -1, 0.01, -0.5), g = (1, 2, 3, 4), Wp = 2, Wn = 3. */
static void both_signs_by_hand(void **state)
{
    float        w[] = { 1.0f, -1.0f, 0.01f, -0.5f };
    float        g[] = { 1.0f, 2.0f, 3.0f, 4.0f };
    const float  want_q[] = { 2.0f, -3.0f, 0.0f, -3.0f };
    const float  want_dw[] = { 2.0f, 6.0f, 3.0f, 12.0f };
    float        q[4], dw[4], dp, dn;
    qg_ttq_attrs a = { .threshold = 0.05f, .positive = 2.0f, .negative = 3.0f };
    assert_ok(qg_ttq_weight_quantizer(VECTOR(w, 4), a, VECTOR(q, 4)));
    assert_all_near(4, q, want_q, 0.0);
    assert_ok(qg_ttq_weight_quantizer_gradient(VECTOR(w, 4), VECTOR(g, 4), a, VECTOR(dw, 4), &dp, &dn));
    assert_all_near(4, dw, want_dw, 0.0);
    assert_true(dp == 1.0f && dn == -6.0f);
    a.rule = QG_TTQ_AS_PRINTED;
    assert_ok(qg_ttq_weight_quantizer_gradient(VECTOR(w, 4), VECTOR(g, 4), a, VECTOR(dw, 4), &dp, &dn));
    assert_true(dp == 1.0f && dn == 6.0f);
    a.surrogate = qg_surrogate_clip(0.75f);
    assert_ok(qg_ttq_weight_quantizer_gradient(VECTOR(w, 4), VECTOR(g, 4), a, VECTOR(dw, 4), NULL, NULL));
    const float clipped[] = { 0.0f, 0.0f, 3.0f, 4.0f };
    assert_all_near(4, dw, clipped, 0.0);
}

static void comparison_is_strict(void **state)
{
    float       w[] = { 1.0f, 0.5f, -0.5f };
    const float want[] = { 2.0f, 0.0f, 0.0f };
    float       q[3];
    qg_array    W = vector(w, 3);
    qg_array    Q = vector(q, 3);
    assert_ok(qg_ttq_weight_quantizer(
        &W, (qg_ttq_attrs){ .threshold = 0.5f, .positive = 2.0f, .negative = 3.0f }, &Q));
    assert_all_near(3, q, want, 0.0);
}

static void degenerate_arrays(void **state)
{
    const qg_ttq_attrs a = { .threshold = 0.05f, .positive = 2.0f, .negative = -3.0f };
    float              w[] = { 0.0f, -0.0f };
    float              g[] = { 4.0f, 5.0f };
    float              q[2], dw[2], dp = 7.0f, dn = 7.0f;
    qg_array           W = vector(w, 2);
    qg_array           G = vector(g, 2);
    qg_array           Q = vector(q, 2);
    qg_array           D = vector(dw, 2);
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_true(q[0] == 0.0f && q[1] == 0.0f);
    assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, &dp, &dn));
    assert_same(2, dw, g);
    assert_true(dp == 0.0f && dn == 0.0f);

    w[0] = NAN, w[1] = 1.0f;
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_true(q[0] == 0.0f && q[1] == 0.0f);

    w[0] = -1.0f; /* Wn may be negative: q is then positive */
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_true(q[0] == 3.0f && q[1] == 2.0f);

    W = vector(NULL, 0), Q = W, G = W, D = W;
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, &dp, &dn));
    assert_true(dp == 0.0f && dn == 0.0f);
}

/* q is linear in Wp and Wn, so differences of L = sum g q are exact but for rounding: each of the n
 * products has a relative error of 2^-24, and h = 1 does not amplify it. */
static void learned_scales_against_differences(void **state)
{
    static float w[MOST], g[MOST], q[2][MOST], dw[MOST];
    fill_normal(7, 0.1f, MOST, w);
    fill_normal(8, 1.0f, MOST, g);
    for (size_t s = 0; s < N_SIZES; s++) {
        const size_t n = awkward_sizes[s];
        float        grad[2];
        for (int which = 0; which < 2; which++) {
            double loss[2] = { 0.0, 0.0 };
            for (int side = 0; side < 2; side++) {
                const float  h = side ? 1.0f : -1.0f;
                qg_ttq_attrs a = { .threshold = 0.3f, .positive = 1.5f, .negative = 2.5f };
                *(which ? &a.negative : &a.positive) += h;
                assert_ok(qg_ttq_weight_quantizer(VECTOR(w, n), a, VECTOR(q[side], n)));
                for (size_t i = 0; i < n; i++) loss[side] += (double)g[i] * (double)q[side][i];
            }
            const qg_ttq_attrs a = { .threshold = 0.3f, .positive = 1.5f, .negative = 2.5f };
            assert_ok(qg_ttq_weight_quantizer_gradient(VECTOR(w, n), VECTOR(g, n), a, VECTOR(dw, n), &grad[0],
                                                       &grad[1]));
            assert_near((double)grad[which], (loss[1] - loss[0]) / 2.0, 1e-4);
        }
    }
}

static void scales_with_the_weights(void **state)
{
    static float       w[MOST], v[MOST], q[MOST], r[MOST];
    const qg_ttq_attrs a = { .threshold = 0.05f, .positive = 1.5f, .negative = 2.5f };
    fill_normal(9, 0.1f, MOST, w);
    for (size_t i = 0; i < MOST; i++) v[i] = 0.25f * w[MOST - 1 - i];
    assert_ok(qg_ttq_weight_quantizer(VECTOR(w, MOST), a, VECTOR(q, MOST)));
    assert_ok(qg_ttq_weight_quantizer(VECTOR(v, MOST), a, VECTOR(r, MOST)));
    for (size_t i = 0; i < MOST; i++) {
        assert_true(q[i] == 1.5f || q[i] == -2.5f || q[i] == 0.0f);
        assert_true(r[i] == q[MOST - 1 - i]); /* codes know neither scale nor order */
    }
}

static void refuses(void **state)
{
    float        w[3] = { 1.0f };
    float        q[3] = { 7.0f, 7.0f, 7.0f };
    float        dp = 7.0f;
    qg_array W = vector(w, 3);
    qg_ttq_attrs a = { .threshold = -1.0f };
    assert_failed(qg_ttq_weight_quantizer(&W, a, VECTOR(q, 3)), QG_EARG, "threshold is -1");
    assert_failed(qg_ttq_weight_quantizer_gradient(&W, &W, a, VECTOR(q, 3), &dp, &dp), QG_EARG, "threshold");
    a.threshold = 0.05f;
    assert_failed(qg_ttq_weight_quantizer(&W, a, VECTOR(q, 2)), QG_ESHAPE, "shape of y is [2]");
    assert_failed(qg_ttq_weight_quantizer_gradient(&W, &W, a, VECTOR(q, 2), &dp, &dp), QG_ESHAPE, "dx");
    a.rule = (qg_ttq_rule)2;
    assert_failed(qg_ttq_weight_quantizer_gradient(&W, &W, a, VECTOR(q, 3), &dp, &dp), QG_EARG, "rule is 2");
    assert_true(dp == 7.0f && q[0] == 7.0f && q[1] == 7.0f && q[2] == 7.0f);
}

/* --- on a tape ---------------------------------------------------------------------------------- */

static const qg_shape shapes[] = { { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 } };
static qg_quant ttq(qg_ttq_rule rule) { return qg_ttq((qg_ttq_spec){ .threshold = 0.3f, .rule = rule, .as_paper = true }); }

static void set_scales(rig *c, float wp, float wn)
{
    c->learned[0]->value[0] = wp;
    c->learned[1]->value[0] = wn;
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *const learned[QG_MAX_LEARNED] = { qg_parameter(t, p->item[1]), qg_parameter(t, p->item[2]) };
    return qg_quantize(t, *(const qg_quant *)context, qg_parameter(t, p->item[0]), learned);
}

static qg_gradcheck_result check_scales(qg_ttq_rule rule)
{
    qg_gradcheck_result r;
    rig                 c;
    fill_rig(&c, ttq(rule), shapes[0], 2);
    set_scales(&c, 0.75f, 1.25f);
    c.x->frozen = true;         /* its gradient is a surrogate's; Wp and Wn have a true one */
    assert_ok( qg_gradcheck((qg_gradcheck_spec){ .name = "ttq", .params = &c.p, .build = build, .context = &c.q }, &r));
    close_rig(&c);
    return r;
}

static void scales_have_the_gradient_of_the_loss(void **state)
{
    const qg_gradcheck_result r = check_scales(QG_TTQ_EXACT);
    if (!r.pass) fail_msg("%s is off by %g", r.worst, r.error);
}

/* Twice the gradient is how far -g is from g. */
static void the_printed_rule_fails_that_check(void **state)
{
    const qg_gradcheck_result r = check_scales(QG_TTQ_AS_PRINTED);
    assert_false(r.pass);
    assert_string_equal(r.worst, "wn");
    assert_true(fabs(r.error - 2) < 1e-2);
}

static void latent_gradients_are_scaled_unless_replaced(void **state)
{
    for (int replaced = 0; replaced < 2; replaced++) {
        qg_quant q = ttq(QG_TTQ_EXACT);
        if (replaced) q.surrogate = qg_surrogate_clip(0.5f);
        rig c;
        fill_rig(&c, q, shapes[0], 4);
        set_scales(&c, 2, 3);
        learn_rig(&c, 0);
        for (size_t i = 0; i < c.n; i++) {
            const float v     = c.y->data[i];
            const float slope = v > 0 ? 2.0f : v < 0 ? 3.0f : 1.0f;
            const float other = fabsf(c.x->value[i]) <= 0.5f ? 1.0f : 0.0f;
            assert_true(c.x->grad[i] == c.dy[i] * (replaced ? other : slope));
        }
        close_rig(&c);
    }
}

static void the_gradient_of_scales_is_a_sum_or_scaled(void **state)
{
    float sum[2] = { 0 };
    for (int scaled = 0; scaled < 2; scaled++) {
        rig c;
        fill_rig(&c, qg_ttq((qg_ttq_spec){ .threshold = 0.3f, .summed_gradient = !scaled }), shapes[0], 4);
        learn_rig(&c, 0);
        for (int side = 0; side < 2; side++) {
            const float g = c.learned[side]->grad[0];
            assert_true(g != 0);
            /* both are rounded once, and so is the factor */
            if (scaled) assert_true(fabsf(g * sqrtf((float)c.n) - sum[side]) <= 4 * FLT_EPSILON * fabsf(sum[side]));
            else sum[side] = g;
        }
        close_rig(&c);
    }
}

/* Each output channel is a tensor of its own: D, Wp, Wn, values and all gradients. */
static void channels_are_apart(void **state)
{
    const qg_shape shape = { 5, 3, 3, 33 };
    const size_t   row   = qg_row(shape);
    rig            all;
    fill_rig(&all, qg_ttq((qg_ttq_spec){ .threshold = 0.3f, .per_channel = true, .as_paper = true }), shape, 4);
    for (int i = 0; i < shape.n; i++) {
        all.learned[0]->value[i] = 0.5f + (float)i;
        all.learned[1]->value[i] = 2.5f - (float)i;         /* two of them are not positive */
        for (size_t k = 0; k < row; k++) all.x->value[(size_t)i * row + k] *= (float)(1 << i);
    }
    assert_codes_give_values(&all, -1, 1, 0);
    learn_rig(&all, 0);
    for (int i = 0; i < shape.n; i++) {
        rig          one;
        const size_t at = (size_t)i * row;
        fill_rig(&one, ttq(QG_TTQ_EXACT), (qg_shape){ 1, shape.h, shape.w, shape.c }, 4);
        memcpy(one.x->value, all.x->value + at, row * sizeof(float));
        memcpy(one.dy, all.dy + at, row * sizeof(float));
        set_scales(&one, 0.5f + (float)i, 2.5f - (float)i);
        learn_rig(&one, 0);
        assert_memory_equal(one.y->data, all.y->data + at, row * sizeof(float));
        assert_memory_equal(one.x->grad, all.x->grad + at, row * sizeof(float));
        for (int side = 0; side < 2; side++) {
            assert_true(one.learned[side]->value[0] == all.learned[side]->value[i]);
            assert_true(one.learned[side]->grad[0] == all.learned[side]->grad[i]);
            assert_true(one.learned[side]->grad[0] != 0);
        }
        close_rig(&one);
    }
    close_rig(&all);
}

static void values_are_three(void **state)
{
    rig c;
    fill_rig(&c, ttq(QG_TTQ_EXACT), shapes[0], 5);
    set_scales(&c, 0.7f, 1.3f);
    c.x->value[3] = 0.0f, c.x->value[4] = -0.0f;
    forward_rig(&c, QG_TRAIN, 0);
    size_t count[3] = { 0 };
    for (size_t i = 0; i < c.n; i++) {
        const float v = c.y->data[i];
        assert_true(v == 0.7f || v == -1.3f || v == 0.0f);
        count[v > 0 ? 2 : v < 0 ? 0 : 1]++;
    }
    assert_true(count[0] && count[1] && count[2]);
    assert_true(c.y->data[3] == 0.0f && c.y->data[4] == 0.0f);
    assert_codes_give_values(&c, -1, 1, 0);
    set_scales(&c, -0.7f, -1.3f);
    assert_codes_give_values(&c, -1, 1, 0);
    close_rig(&c);
}

/* A scale that an update carried below 0 would turn its codes round. */
static void scales_stay_positive(void **state)
{
    const float smallest = 0x1p-30f;
    rig c;
    fill_rig(&c, ttq(QG_TTQ_EXACT), shapes[0], 5);
    set_scales(&c, 0.7f, -1.3f);
    assert_codes_give_values(&c, -1, 1, 0);
    forward_rig(&c, QG_EVAL, 0);                           /* as if it had moved */
    assert_true(c.learned[1]->value[0] == -1.3f);
    for (size_t i = 0; i < c.n; i++)
        assert_true(c.y->data[i] == 0.7f || c.y->data[i] == 0.0f || c.y->data[i] == -smallest);
    forward_rig(&c, QG_TRAIN, 0);
    assert_true(c.learned[0]->value[0] == 0.7f && c.learned[1]->value[0] == smallest);
    backward_rig(&c);
    assert_true(c.learned[1]->grad[0] != 0.0f);             /* the way back */
    set_scales(&c, NAN, 1.0f);
    forward_rig(&c, QG_TRAIN, 0);
    assert_true(isnan(c.learned[0]->value[0]));
    close_rig(&c);
}

static void all_zero_and_nan_weights_are_zero(void **state)
{
    for (int k = 0; k < 2; k++) {
        rig c;
        fill_rig(&c, ttq(QG_TTQ_EXACT), (qg_shape){ 3, 1, 1, 5 }, 5);
        memset(c.x->value, 0, c.n * sizeof(float));
        if (k) c.x->value[2] = NAN;
        learn_rig(&c, 0);
        for (size_t i = 0; i < c.n; i++) assert_true(c.y->data[i] == 0 && c.x->grad[i] == c.dy[i]);
        assert_true(c.learned[0]->grad[0] == 0 && c.learned[1]->grad[0] == 0);
        close_rig(&c);
    }
}

static void scales_start_at_one_or_fit_the_weights(void **state)
{
    rig c;
    fill_rig(&c, ttq(QG_TTQ_EXACT), shapes[0], 6);
    assert_true(c.learned[0]->value[0] == 1 && c.learned[1]->value[0] == 1);
    close_rig(&c);

    qg_quant q = qg_ttq((qg_ttq_spec){ .threshold = 0.5f });
    fill_rig(&c, q, (qg_shape){ 2, 1, 1, 3 }, 6);
    const float  w[] = { 1.0f, 0.5f, 0.75f, -0.875f, -0.625f, 0.25f };     /* D = 0.5 */
    float *const learned[QG_MAX_LEARNED] = { c.learned[0]->value, c.learned[1]->value };
    memcpy(c.x->value, w, sizeof w);
    q.scheme->start(q, (qg_tensor){ c.x->shape, c.x->value }, learned);
    assert_true(learned[0][0] == 0.875f && learned[1][0] == 0.75f);
    for (int i = 0; i < 6; i++) c.x->value[i] = fabsf(w[i]);
    q.scheme->start(q, (qg_tensor){ c.x->shape, c.x->value }, learned);
    assert_true(learned[0][0] == 0.8125f && learned[1][0] == 0.8125f);      /* no weight is below -D */
    memset(c.x->value, 0, sizeof w);
    q.scheme->start(q, (qg_tensor){ c.x->shape, c.x->value }, learned);
    assert_true(learned[0][0] == 1 && learned[1][0] == 1);
    /* On plain vars, qg_quantize starts what nobody has set; what is set stays. */
    memcpy(c.x->value, w, sizeof w);
    set_scales(&c, 0, 0);
    forward_rig(&c, QG_TRAIN, 0);
    assert_true(learned[0][0] == 0.875f && learned[1][0] == 0.75f && c.y->data[0] == 0.875f);
    set_scales(&c, 2, 3);
    forward_rig(&c, QG_TRAIN, 0);
    assert_true(learned[0][0] == 2 && learned[1][0] == 3);
    close_rig(&c);
}

static void scales_are_parameters_with_their_decay(void **state)
{
    for (int decays = 0; decays < 2; decays++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 3, .seed = 1 });
        qg_net_conv2d(net,
                      (qg_conv2d_spec){ .out = 4,
                                        .kernel = 3,
                                        .weight = qg_ttq((qg_ttq_spec){ .as_paper = true, .decay = decays ? 2e-4f : 0 }) });
        const qg_params *p = qg_net_build(net);
        assert_non_null(p);
        const qg_param *wp = qg_params_find(p, "conv1.weight.wp");
        const qg_param *wn = qg_params_find(p, "conv1.weight.wn");
        assert_true(wp && wn && wp->group == QG_SCALES);
        assert_true(wp->decay == (decays ? 2e-4f : 0) && wn->decay == wp->decay);
        assert_true(wp->value[0] == 1 && wn->value[0] == 1);
        qg_net_free(net);
    }
}

static void scales_must_be_given(void **state)
{
    rig c;
    fill_rig(&c, ttq(QG_TTQ_EXACT), shapes[1], 1);
    qg_tape_begin(c.t, QG_TRAIN, 1, 0);
    assert_none(qg_quantize(c.t, c.q, qg_parameter(c.t, c.x), NULL), "wp, which is missing");
    close_rig(&c);
    qg_binding  b;
    qg_ttq_spec both = { .scaled_weights = true, .surrogate = qg_surrogate_clip(1) };
    assert_failed(qg_bind(qg_ttq(both), QG_WEIGHT, shapes[0], &b), QG_EARG, "straight=no has no effect");
    both = (qg_ttq_spec){ .as_paper = true, .surrogate = both.surrogate };
    assert_ok(qg_bind(qg_ttq(both), QG_WEIGHT, shapes[0], &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_signs_by_hand),
        cmocka_unit_test(comparison_is_strict),
        cmocka_unit_test(degenerate_arrays),
        cmocka_unit_test(learned_scales_against_differences),
        cmocka_unit_test(scales_with_the_weights),
        cmocka_unit_test(refuses),
        cmocka_unit_test(scales_have_the_gradient_of_the_loss),
        cmocka_unit_test(the_printed_rule_fails_that_check),
        cmocka_unit_test(latent_gradients_are_scaled_unless_replaced),
        cmocka_unit_test(the_gradient_of_scales_is_a_sum_or_scaled),
        cmocka_unit_test(channels_are_apart),
        cmocka_unit_test(values_are_three),
        cmocka_unit_test(scales_stay_positive),
        cmocka_unit_test(all_zero_and_nan_weights_are_zero),
        cmocka_unit_test(scales_start_at_one_or_fit_the_weights),
        cmocka_unit_test(scales_are_parameters_with_their_decay),
        cmocka_unit_test(scales_must_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
