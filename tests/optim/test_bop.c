#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "layers/net.h"
#include "optim/optim.h"

enum { ROWS = 65, COLUMNS = 317, FLIPPED = ROWS * COLUMNS, OTHERS = 33 };       /* two blocks */

typedef struct pair {
    qg_params p;
    qg_param *w, *b;            /* flips; the rest */
} pair;

static pair open_pair(bool flips)
{
    pair k = { .p = { 0 } };
    k.w = qg_params_declare(
        &k.p, (qg_param){ .name = "w", .shape = { ROWS, 1, 1, COLUMNS }, .flips = flips });
    k.b = qg_params_declare(&k.p,
                            (qg_param){ .name = "b", .shape = { 1, 1, 1, OTHERS }, .group = QG_BIASES });
    assert_ok(qg_params_allocate(&k.p));
    for (size_t i = 0; i < FLIPPED; i++) k.w->value[i] = qg_uniform(1, i) < 0.5f ? -1.0f : 1.0f;
    fill_uniform(k.b->value, OTHERS, -1, 1, 2);
    return k;
}

static void set_gradients(pair *k, int step)
{
    fill_uniform(k->w->grad, FLIPPED, -1, 1, (uint64_t)step);
    fill_uniform(k->b->grad, OTHERS, -1, 1, (uint64_t)step + 100);
}

static qg_optim *bop(qg_params *p, float gamma, float threshold)
{
    return qg_bop(p, (qg_bop_spec){ .gamma = gamma, .threshold = threshold, .rest = { .lr = 0.01f } });
}

static void step(qg_optim *o)
{
    if (qg_optim_step(o)) fail_msg("%s", qg_errmsg());
}

/* --- the rule ----------------------------------------------------------------------------- */

static void weights_flip_as_the_paper_says(void **state)
{
    static float m[FLIPPED], w[FLIPPED];
    const float  gamma = 0.25f, threshold = 0.125f;
    pair         k = open_pair(true);
    qg_optim    *o = bop(&k.p, gamma, threshold);
    size_t       flips = 0;
    memset(m, 0, sizeof m);
    memcpy(w, k.w->value, sizeof w);
    for (int s = 0; s < 5; s++) {
        set_gradients(&k, s);
        for (size_t i = 0; i < FLIPPED; i++) {
            m[i] = (1 - gamma) * m[i] + gamma * k.w->grad[i];
            if (!(fabsf(m[i]) > threshold) || m[i] * w[i] < 0) continue;
            w[i] = -w[i];
            flips++;
        }
        step(o);
        assert_memory_equal(k.w->value, w, sizeof w);
        for (size_t i = 0; i < k.p.length; i++) assert_true(k.p.grad[i] == 0);
    }
    assert_in_range(flips, FLIPPED / 10, 2 * FLIPPED);
    qg_optim_free(o);
    qg_params_release(&k.p);
}

/* One weight under one gradient after another; 1 is towards a flip, at an average of gradients. */
static const struct { const char *name; float gamma, threshold, lr, gradient[2]; bool flips[2]; } cases[] = {
    { "at the threshold", 0.5f, 0.5f, 0, { 1 }, { false, false } },
    { "above the threshold", 0.5f, 0.4999f, 0, { 1 }, { true, true } },
    { "away from a flip", 0.5f, 0.4999f, 0, { -1 }, { false, false } },
    /* A schedule that takes a tenth of the rate takes a tenth of gamma: 0.05, and m is below the
     * threshold. */
    { "gamma follows lr", 0.5f, 0.1f, 0.001f, { 1 }, { false, false } },
    /* 50 would let m swing; at 1, m is the last gradient alone, and below the threshold. */
    { "gamma is at most 1", 0.5f, 0.1f, 1, { 0.2f, -0.05f }, { true, true } },
};

static void a_weight_flips_beyond_the_threshold(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pair        k     = open_pair(true);
        qg_optim   *o     = bop(&k.p, cases[i].gamma, cases[i].threshold);
        const float first = k.w->value[0];
        if (cases[i].lr > 0) qg_optim_set_lr(o, cases[i].lr);
        for (int s = 0; s < 2; s++) {
            k.w->grad[0] = cases[i].gradient[s] * first;
            step(o);
            if ((k.w->value[0] == -first) != cases[i].flips[s]) fail_msg("%s, step %d", cases[i].name, s);
        }
        qg_optim_free(o);
        qg_params_release(&k.p);
    }
}

static void the_rest_goes_with_adam(void **state)
{
    pair      k = open_pair(true), twin = open_pair(false);
    qg_optim *o    = qg_bop(&k.p, (qg_bop_spec){ .rest = { .lr = 0.01f, .beta1 = 0.8f } });
    qg_optim *adam = qg_adam(&twin.p, (qg_adam_spec){ .lr = 0.01f, .beta1 = 0.8f });
    for (int s = 0; s < 4; s++) {
        set_gradients(&k, s);
        set_gradients(&twin, s);
        step(o);
        step(adam);
        assert_memory_equal(k.b->value, twin.b->value, OTHERS * sizeof(float));
    }
    qg_optim_free(adam);
    qg_optim_free(o);
    qg_params_release(&twin.p);
    qg_params_release(&k.p);
}

static void decay_and_clip_leave_flipping_weights_alone(void **state)
{
    pair k = open_pair(true), twin = open_pair(true);
    twin.w->clip  = 0.5f;
    qg_optim *o    = bop(&k.p, 0.25f, 0.05f);
    qg_optim *both = qg_bop(&twin.p, (qg_bop_spec){ .gamma     = 0.25f,
                                                    .threshold = 0.05f,
                                                    .rest      = { .lr = 0.01f, .weight_decay = 0.5f } });
    for (int s = 0; s < 3; s++) {
        set_gradients(&k, s), set_gradients(&twin, s);
        step(o), step(both);
        assert_memory_equal(k.w->value, twin.w->value, FLIPPED * sizeof(float));
    }
    qg_optim_free(both), qg_optim_free(o);
    qg_params_release(&twin.p), qg_params_release(&k.p);
}

/* --- in a net ----------------------------------------------------------------------------- */

/* Labels are the sign of the first pixel: a binary net can learn it. */
static void a_net_without_latent_weights_learns(void **state)
{
    enum { N = 64, PIXELS = 33, STEPS = 150 };
    static float   image[N * PIXELS];
    static uint16_t label[N];
    fill_uniform(image, N * PIXELS, -1, 1, 3);
    for (int i = 0; i < N; i++) label[i] = image[i * PIXELS] > 0;
    qg_net *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = PIXELS, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 31, .weight = qg_bop_weight() });
    qg_net_batchnorm(net);
    qg_net_dense(
        net,
        (qg_dense_spec){ .out = 2, .input = qg_sign((qg_sign_spec){ { 0 } }) });
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    assert_true(p->item[0]->flips);
    for (size_t i = 0; i < qg_count(p->item[0]->shape); i++)
        assert_true(fabsf(p->item[0]->value[i]) == 1);
    qg_optim *o = qg_bop(p, (qg_bop_spec){ .gamma = 0.01f, .rest = { .lr = 0.01f } });
    qg_tape  *t = qg_tape_new();
    int       correct = 0;
    for (uint64_t s = 0; s < STEPS; s++) {
        qg_tape_begin(t, QG_TRAIN, 1, s);
        qg_var *y = qg_net_forward(net, t, (qg_tensor){ { N, 1, 1, PIXELS }, image });
        if (qg_backward(t, qg_cross_entropy(t, y, label))) fail_msg("%s", qg_errmsg());
        correct = qg_count_correct(y, label);
        step(o);
    }
    assert_true(correct >= N - 3);
    for (size_t i = 0; i < qg_count(p->item[0]->shape); i++)
        assert_true(fabsf(p->item[0]->value[i]) == 1);
    qg_tape_free(t);
    qg_optim_free(o);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_flip_as_the_paper_says),
        cmocka_unit_test(a_weight_flips_beyond_the_threshold),
        cmocka_unit_test(the_rest_goes_with_adam),
        cmocka_unit_test(decay_and_clip_leave_flipping_weights_alone),
        cmocka_unit_test(a_net_without_latent_weights_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
