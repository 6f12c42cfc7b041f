#include "tests/support/views.h"

#include "quant/schemes/ttq.h"

/* w = (1, -1, 0.01, -0.5), g = (1, 2, 3, 4), Wp = 2, Wn = 3. */
static void both_signs_by_hand(void **state)
{
    (void)state;
    float        w[] = { 1.0f, -1.0f, 0.01f, -0.5f };
    float        g[] = { 1.0f, 2.0f, 3.0f, 4.0f };
    const float  want_q[] = { 2.0f, -3.0f, 0.0f, -3.0f };
    const float  want_dw[] = { 2.0f, 6.0f, 3.0f, 12.0f };
    float        q[4], dw[4], dp, dn;
    qg_array     W = vector(w, 4);
    qg_array     G = vector(g, 4);
    qg_array     Q = vector(q, 4);
    qg_array     D = vector(dw, 4);
    qg_ttq_attrs a = { .threshold = 0.05f, .positive = 2.0f, .negative = 3.0f };
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_all_near(4, q, want_q, 0.0);
    assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, &dp, &dn));
    assert_all_near(4, dw, want_dw, 0.0);
    assert_true(dp == 1.0f && dn == -6.0f);
    a.rule = QG_TTQ_AS_PRINTED;
    assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, &dp, &dn));
    assert_true(dp == 1.0f && dn == 6.0f);
    a.surrogate = qg_surrogate_clip(0.75f);
    assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, NULL, NULL));
    const float clipped[] = { 0.0f, 0.0f, 3.0f, 4.0f };
    assert_all_near(4, dw, clipped, 0.0);
}

static void comparison_is_strict(void **state)
{
    (void)state;
    float       w[] = { 1.0f, 0.5f, -0.5f };
    const float want[] = { 2.0f, 0.0f, 0.0f };
    float       q[3];
    qg_array    W = vector(w, 3);
    qg_array    Q = vector(q, 3);
    assert_ok(qg_ttq_weight_quantizer(
        &W, (qg_ttq_attrs){ .threshold = 0.5f, .positive = 2.0f, .negative = 3.0f }, &Q));
    assert_all_near(3, q, want, 0.0);
}

static void degenerate_tensors(void **state)
{
    (void)state;
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
    (void)state;
    static float w[MOST], g[MOST], q[2][MOST], dw[MOST];
    fill_normal(7, 0.1f, MOST, w);
    fill_normal(8, 1.0f, MOST, g);
    for (size_t s = 0; s < N_SIZES; s++) {
        const size_t n = awkward_sizes[s];
        qg_array     W = vector(w, n);
        qg_array     G = vector(g, n);
        qg_array     D = vector(dw, n);
        float        grad[2];
        for (int which = 0; which < 2; which++) {
            double loss[2] = { 0.0, 0.0 };
            for (int side = 0; side < 2; side++) {
                const float  h = side ? 1.0f : -1.0f;
                qg_ttq_attrs a = { .threshold = 0.3f, .positive = 1.5f, .negative = 2.5f };
                qg_array     Q = vector(q[side], n);
                *(which ? &a.negative : &a.positive) += h;
                assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
                for (size_t i = 0; i < n; i++) loss[side] += (double)g[i] * (double)q[side][i];
            }
            const qg_ttq_attrs a = { .threshold = 0.3f, .positive = 1.5f, .negative = 2.5f };
            assert_ok(qg_ttq_weight_quantizer_gradient(&W, &G, a, &D, &grad[0], &grad[1]));
            assert_near((double)grad[which], (loss[1] - loss[0]) / 2.0, 1e-4);
        }
    }
}

static void scales_with_the_weights(void **state)
{
    (void)state;
    static float       w[MOST], v[MOST], q[MOST], r[MOST];
    const qg_ttq_attrs a = { .threshold = 0.05f, .positive = 1.5f, .negative = 2.5f };
    fill_normal(9, 0.1f, MOST, w);
    for (size_t i = 0; i < MOST; i++) v[i] = 0.25f * w[MOST - 1 - i];
    qg_array W = vector(w, MOST);
    qg_array V = vector(v, MOST);
    qg_array Q = vector(q, MOST);
    qg_array R = vector(r, MOST);
    assert_ok(qg_ttq_weight_quantizer(&W, a, &Q));
    assert_ok(qg_ttq_weight_quantizer(&V, a, &R));
    for (size_t i = 0; i < MOST; i++) {
        assert_true(q[i] == 1.5f || q[i] == -2.5f || q[i] == 0.0f);
        assert_true(r[i] == q[MOST - 1 - i]); /* codes know neither scale nor order */
    }
}

static void refuses(void **state)
{
    (void)state;
    float        w[3] = { 1.0f };
    float        q[3] = { 7.0f, 7.0f, 7.0f };
    float        dp = 7.0f;
    qg_array     W = vector(w, 3);
    qg_array     Q = vector(q, 3);
    qg_array     Q2 = vector(q, 2);
    qg_ttq_attrs a = { .threshold = -1.0f };
    assert_refused(qg_ttq_weight_quantizer(&W, a, &Q), QG_EARG, "threshold is -1");
    assert_refused(qg_ttq_weight_quantizer_gradient(&W, &W, a, &Q, &dp, &dp), QG_EARG, "threshold");
    a.threshold = 0.05f;
    assert_refused(qg_ttq_weight_quantizer(&W, a, &Q2), QG_ESHAPE, "shape of y is [2]");
    assert_refused(qg_ttq_weight_quantizer_gradient(&W, &W, a, &Q2, &dp, &dp), QG_ESHAPE, "dx");
    a.rule = (qg_ttq_rule)2;
    assert_refused(qg_ttq_weight_quantizer_gradient(&W, &W, a, &Q, &dp, &dp), QG_EARG, "rule is 2");
    assert_true(dp == 7.0f && q[0] == 7.0f && q[1] == 7.0f && q[2] == 7.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_signs_by_hand),
        cmocka_unit_test(comparison_is_strict),
        cmocka_unit_test(degenerate_tensors),
        cmocka_unit_test(learned_scales_against_differences),
        cmocka_unit_test(scales_with_the_weights),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
