#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "layers/net.h"
#include "optim/optim.h"
#include "quant/engine.h"
#include "quant/reference/binary.h"
#include "tests/support/schemes.h"

static const qg_shape shapes[] = { { 33, 3, 3, 31 }, { 1, 1, 1, 1 }, { 3, 1, 1, 65 }, { 65, 5, 5, 63 } };
enum { SHAPES = 4, MOST = 65 * 5 * 5 * 63 };

static float expected[MOST];

static const qg_quant none = { 0 };

static qg_quant connect(bool stochastic)
{
    return qg_binaryconnect((qg_binaryconnect_spec){ .draw = stochastic ? QG_DRAW_STOCHASTIC : QG_DRAW_SIGN, .plain_gradient = true });
}

static qg_quant sign_with(qg_surrogate s)
{
    return qg_sign((qg_sign_spec){ s });
}

/* --- values ------------------------------------------------------------------------------- */

static void expect_values(rig *c, qg_mode mode, const float *y)
{
    forward_rig(c, mode, 2);
    assert_memory_equal(c->y->data, y, c->n * sizeof(float));
}

/* The key of the tape's first draw is that of the operator; evaluation is the sign. */
static void draws_are_those_of_the_operator(void **state)
{
    for (int s = 0; s < SHAPES; s++) {
        rig c;
        fill_rig(&c, connect(true), shapes[s], (uint64_t)s);
        const qg_array x = rig_array(c.x->shape, c.x->value);
        qg_array       y = rig_array(c.x->shape, expected);
        qg_tape_begin(c.t, QG_TRAIN, RIG_KEY, 2);
        assert_ok(qg_stochastic_sign_quantizer(&x, qg_tape_key(c.t), &y));
        expect_values(&c, QG_TRAIN, expected);
        expect_values(&c, QG_TRAIN, expected);      /* the same key and step, the same draws */
        backward_rig(&c);
        assert_memory_equal(c.x->grad, c.dy, c.n * sizeof(float));
        assert_ok(qg_sign_quantizer(&x, &y));
        expect_values(&c, QG_EVAL, expected);
        assert_codes_give_values(&c, -1, 1, 0);
        close_rig(&c);
    }
}

static void another_step_draws_otherwise(void **state)
{
    enum { STEPS = 2000 };
    rig c;
    fill_rig(&c, connect(true), (qg_shape){ 1, 1, 1, 5 }, 1);
    const float w[] = { -1.0f, -0.5f, 0.0f, 0.5f, 1.0f };
    double      mean[5] = { 0 };
    memcpy(c.x->value, w, sizeof w);
    for (uint64_t step = 0; step < STEPS; step++) {
        forward_rig(&c, QG_TRAIN, step);
        for (int i = 0; i < 5; i++) mean[i] += (double)c.y->data[i];
    }
    for (int i = 0; i < 5; i++) mean[i] /= STEPS;
    /* The mean of +-1 is w; 4 sigma of 2000 draws is 0.09, and 0 at both ends. */
    for (int i = 0; i < 5; i++) assert_true(fabs(mean[i] - (double)w[i]) < 0.09);
    assert_true(mean[0] == -1 && mean[4] == 1);
    close_rig(&c);
}

static void float_evaluation_is_not_binary(void **state)
{
    rig c;
    fill_rig(&c, qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC, .float_eval = true }),
              shapes[0], 1);
    expect_values(&c, QG_EVAL, c.x->value);
    forward_rig(&c, QG_TRAIN, 0);
    for (size_t i = 0; i < c.n; i++) assert_true(fabsf(c.y->data[i]) == 1);
    qg_codes codes = { 0 };
    assert_failed(qg_encode(c.q, (qg_tensor){ c.x->shape, c.x->value }, NULL, &codes), QG_EARG, "float_eval");
    assert_int_equal(c.q.bits, 32);
    close_rig(&c);
}

static void zeros(void **state)
{
    const qg_quant scaled[] = { qg_binary((qg_binary_spec){ 0 }),
                                qg_binary((qg_binary_spec){ .per_channel = true }),
                                qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true }) };
    for (int k = 0; k < 3; k++) {
        rig c;
        fill_rig(&c, scaled[k], (qg_shape){ 2, 1, 1, 3 }, 1);
        memset(c.x->value, 0, c.n * sizeof(float));
        learn_rig(&c, 0);
        for (size_t i = 0; i < c.n; i++)
            assert_true(c.y->data[i] == 0 && c.x->grad[i] == (k == 2 ? 0 : c.dy[i]));
        close_rig(&c);
    }
}

/* The inverse of a denormal mean would be infinite. */
static void denormal_weights_have_finite_gradients(void **state)
{
    const qg_quant q[] = { qg_bnn((qg_bnn_spec){ 0 }), qg_binaryconnect((qg_binaryconnect_spec){ 0 }), qg_ste_tern((qg_ste_tern_spec){ 0 }) };
    for (int i = 0; i < 3; i++) {
        rig c;
        fill_rig(&c, q[i], (qg_shape){ 1, 1, 1, 4 }, 1);
        memcpy(c.x->value, (float[]){ 1e-39f, -1e-40f, 0, 1e-39f }, 4 * sizeof(float));
        learn_rig(&c, 0);
        for (size_t k = 0; k < c.n; k++) assert_true(isfinite(c.x->grad[k]));
        close_rig(&c);
    }
}

/* --- slopes ------------------------------------------------------------------------------- */

static void an_annealed_tanh_follows_the_step(void **state)
{
    const qg_surrogate s = qg_surrogate_annealed_tanh(100);
    assert_true(qg__surrogate_at(s, 0).arg == 0.1f);
    assert_true(fabsf(qg__surrogate_at(s, 50).arg - 1) < 1e-6f);
    assert_true(qg__surrogate_at(s, 100).arg == 10 && qg__surrogate_at(s, 1000).arg == 10);
    assert_true(qg__surrogate_at(qg_surrogate_tanh(3), 50).arg == 3);
    static const uint64_t step[] = { 0, 50, 75, 100, 500 };
    for (int k = 0; k < 5; k++) {
        rig c;
        fill_rig(&c, sign_with(s), shapes[2], 3);
        learn_rig(&c, step[k]);
        const double t = fmin(0.1 * pow(100, (double)step[k] / 100), 10);
        for (size_t i = 0; i < c.n; i++) {
            const double th    = tanh(t * (double)c.x->value[i]);
            const double slope = fmax(t, 1) * (1 - th * th);
            /* Float tanh near 1 leaves 1 - th^2 an error of a few 1e-7, times at most 10. */
            assert_true(fabs((double)c.x->grad[i] - slope * (double)c.dy[i]) < 4e-6);
        }
        close_rig(&c);
        assert_fused_as_unfused(sign_with(s), step[k]);
    }
}

/* --- in a net ----------------------------------------------------------------------------- */

static qg_net *small_net(qg_quant weight, qg_params **p)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 4, .width = 4, .channels = 3, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .kernel_w = 2, .weight = weight });
    qg_net_dense(net, (qg_dense_spec){ .out = 5, .weight = weight });
    *p = qg_net_build(net);
    if (!*p) fail_msg("%s", qg_errmsg());
    return net;
}

static float largest(const qg_param *w)
{
    float most = 0;
    for (size_t i = 0; i < qg_count(w->shape); i++) most = fmaxf(most, fabsf(w->value[i]));
    return most;
}

static void latent_weights_stay_in_the_box(void **state)
{
    const qg_quant q[] = { connect(true), qg_bnn((qg_bnn_spec){ 0 }), qg_binary((qg_binary_spec){ 0 }) };
    for (int k = 0; k < 3; k++) {
        qg_params *p;
        qg_net    *net = small_net(q[k], &p);
        qg_optim  *o   = qg_adam(p, (qg_adam_spec){ .lr = 0.7f });
        for (int step = 0; step < 3; step++) {
            for (size_t i = 0; i < p->length; i++) p->grad[i] = i % 2 ? 1.0f : -1.0f;
            assert_ok(qg_optim_step(o));
        }
        assert_true(k == 2 ? largest(p->item[0]) > 1 : largest(p->item[0]) == 1);
        assert_true(largest(p->item[1]) > 1);       /* a bias is no latent weight */
        qg_optim_free(o);
        qg_net_free(net);
    }
}

static void glorot_rates(void **state)
{
    for (int rule = QG_GLOROT_OFF; rule <= QG_GLOROT_SGD; rule++) {
        const qg_glorot_lr lr  = (qg_glorot_lr)rule;
        const qg_quant     q[] = { qg_binaryconnect((qg_binaryconnect_spec){ .glorot_lr = lr }),
                                   qg_bnn((qg_bnn_spec){ .glorot_lr = lr }) };
        for (int k = 0; k < 2; k++) {
            qg_params *p;
            qg_net    *net = small_net(q[k], &p);
            /* conv 3x2: fans 18 and 48; dense: 2 * 3 * 8 = 48 and 5.  s = 1 / sqrt(1.5 / (in + out)) */
            const double s[] = { 1 / sqrt(1.5 / 66), 1 / sqrt(1.5 / 53) };
            for (int layer = 0; layer < 2; layer++) {
                const double want = rule == QG_GLOROT_OFF ? 0 : pow(s[layer], rule);
                assert_true(fabs((double)p->item[2 * layer]->lr_scale - want) < 1e-5 * fmax(want, 1));
                assert_true(p->item[2 * layer + 1]->lr_scale == 0);
            }
            qg_net_free(net);
        }
    }
}

static void a_unit_start_fills_the_box(void **state)
{
    const qg_quant q[] = { qg_binaryconnect((qg_binaryconnect_spec){ .unit_start = true }),
                           qg_bnn((qg_bnn_spec){ .unit_start = true }) };
    qg_params *plain;
    qg_net    *twin = small_net(none, &plain);
    for (int k = 0; k < 2; k++) {
        qg_params *p;
        qg_net    *net = small_net(q[k], &p);
        assert_true(largest(p->item[0]) == 1 && largest(plain->item[0]) < 1);
        const float most = largest(plain->item[0]);
        for (size_t i = 0; i < qg_count(p->item[0]->shape); i++)
            assert_true(p->item[0]->value[i] == plain->item[0]->value[i] / most);
        qg_net_free(net);
    }
    qg_net_free(twin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_those_of_the_operator),
        cmocka_unit_test(another_step_draws_otherwise),
        cmocka_unit_test(float_evaluation_is_not_binary),
        cmocka_unit_test(zeros),
        cmocka_unit_test(denormal_weights_have_finite_gradients),
        cmocka_unit_test(an_annealed_tanh_follows_the_step),
        cmocka_unit_test(latent_weights_stay_in_the_box),
        cmocka_unit_test(glorot_rates),
        cmocka_unit_test(a_unit_start_fills_the_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
