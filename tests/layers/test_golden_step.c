/* Whole steps of a small net against PyTorch in float64 (tests/make_goldens.py): the gradient of
 * every parameter, and ten steps of training, with float and with ternary weights. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/conv2d.h"
#include "quant/quant.h"
#include "tests/golden/tiny_net.h"

enum { CONV1, GAMMA1, BETA1, CONV2, GAMMA2, BETA2, DENSE, BIAS, PARAMS };

typedef struct tiny_net {
    qg_params p;
    qg_quant  weight;               /* {0}, or TWN */
    bool      fused;                /* one qg_norm for norm, pool and relu, or an op for each */
    float     mean[2][6], var[2][6];
    float     velocity[1200];       /* as long as p.value */
} tiny_net;

static tiny_net net_new(int ternary, bool fused)
{
    tiny_net net = { .fused = fused };
    if (ternary) net.weight = qg_twn((qg_twn_spec){ 0 });
    for (int i = 0; i < PARAMS; i++) declare(&net.p, golden_params[i].name, golden_params[i].shape);
    assert_ok(qg_params_allocate(&net.p));
    assert_true(net.p.length <= sizeof net.velocity / sizeof *net.velocity);
    for (int i = 0; i < PARAMS; i++)
        memcpy(net.p.item[i]->value, golden_params[i].start,
               qg_count(golden_params[i].shape) * sizeof(float));
    for (int i = 0; i < 6; i++) net.var[0][i] = net.var[1][i] = 1;
    return net;
}

static qg_var *weight(const tiny_net *net, qg_tape *t, int i)
{
    return qg_quantize(t, net->weight, qg_parameter(t, net->p.item[i]), NULL);
}

/* conv - norm - relu - pool, in PyTorch's order or in one op: the maximum and relu commute. */
static qg_var *norm(tiny_net *net, qg_tape *t, qg_var *x, int gamma, int pool)
{
    const int    k    = gamma == GAMMA1 ? 0 : 1;
    const qg_norm_spec spec = { .mean = net->mean[k], .var = net->var[k] };
    qg_var *scale = qg_parameter(t, net->p.item[gamma]), *shift = qg_parameter(t, net->p.item[gamma + 1]);
    if (net->fused) return qg_norm_fused(t, x, scale, shift, spec, (qg_norm_fusion){ .pool = pool, .relu = true });
    qg_var *y = qg_relu(t, qg_norm(t, x, scale, shift, spec));
    return pool ? qg_maxpool(t, y, pool) : y;
}

static qg_var *forward(tiny_net *net, qg_tape *t)
{
    static float x[GOLDEN_BATCH * GOLDEN_SIZE * GOLDEN_SIZE];
    memcpy(x, golden_x, sizeof x);
    const qg_shape shape = { GOLDEN_BATCH, GOLDEN_SIZE, GOLDEN_SIZE, 1 };
    qg_conv_spec   next  = { .pad_h = 1, .pad_w = 1 };
    qg_var        *y     = qg_input(t, (qg_tensor){ shape, x });
    y = norm(net, t, qg__conv2d(t, y, weight(net, t, CONV1), NULL, (qg_conv_spec){ 0 }, net->fused), GAMMA1, 2);
    y = norm(net, t, qg__conv2d(t, y, weight(net, t, CONV2), NULL, next, net->fused), GAMMA2, 0);
    y = qg_dense(t, y, weight(net, t, DENSE), qg_parameter(t, net->p.item[BIAS]));
    return qg_cross_entropy(t, y, golden_labels);
}

static float step(tiny_net *net, qg_tape *t, uint64_t at)
{
    qg_tape_begin(t, QG_TRAIN, 1, at);
    qg_var *loss = forward(net, t);
    if (qg_backward(t, loss)) fail_msg("%s", qg_errmsg());
    return loss->data[0];
}

/* v = momentum v + g + decay w,  w -= lr v. */
static void update(tiny_net *net)
{
    for (int i = 0; i < PARAMS; i++) {
        const qg_param *p     = net->p.item[i];
        const float     decay = golden_params[i].decays ? GOLDEN_DECAY : 0;
        float          *v     = net->velocity + p->offset;
        for (size_t k = 0; k < qg_count(p->shape); k++) {
            v[k] = GOLDEN_MOMENTUM * v[k] + p->grad[k] + decay * p->value[k];
            p->value[k] -= GOLDEN_LR * v[k];
            p->grad[k] = 0;
        }
    }
}

static float largest(const float *v, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(v[i]));
    return most;
}

/* Four settings: bit 0 ternary, bit 1 fused. */
static void gradients_of_the_first_step(void **state)
{
    qg_tape *t = qg_tape_new();
    for (int k = 0; k < 4; k++) {
        tiny_net net  = net_new(k & 1, k & 2);
        float    loss = step(&net, t, 0);
        /* Values near 1 through a dozen sums of up to 384 terms: ten units in the last place. */
        assert_close(&loss, golden_loss[k & 1], 1, 1e-6);
        for (int i = 0; i < PARAMS; i++) {
            const size_t m    = qg_count(golden_params[i].shape);
            const float *want = golden_params[i].grad[k & 1];
            assert_close(net.p.item[i]->grad, want, m, 5e-6 * (double)largest(want, m));
        }
        qg_params_release(&net.p);
    }
    qg_tape_free(t);
}

static void ten_steps_of_training(void **state)
{
    qg_tape *t = qg_tape_new();
    for (int k = 0; k < 4; k++) {
        tiny_net net = net_new(k & 1, k & 2);
        float    loss[GOLDEN_STEPS];
        for (int i = 0; i < GOLDEN_STEPS; i++) {
            loss[i] = step(&net, t, (uint64_t)i);
            update(&net);
        }
        /* Rounding differences of 1e-7 grow by a small factor per step at this learning rate; the
         * generator keeps every pool, relu and threshold of every step further apart than that. */
        assert_close(loss, golden_loss[k & 1], GOLDEN_STEPS, 1e-5);
        assert_close(net.mean[0], golden_bn1_mean[k & 1], 4, 1e-5);
        assert_close(net.var[0], golden_bn1_var[k & 1], 4, 1e-5);
        assert_close(net.mean[1], golden_bn2_mean[k & 1], 6, 1e-5);
        assert_close(net.var[1], golden_bn2_var[k & 1], 6, 1e-5);
        qg_params_release(&net.p);
    }
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_the_first_step),
        cmocka_unit_test(ten_steps_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
