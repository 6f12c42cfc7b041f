#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "core/io/state.h"
#include "layers/net.h"
#include "optim/optim.h"
#include "tests/support/room.h"

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
    assert_int_equal(qg_params_allocate(&k.p), QG_OK);
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
    (void)state;
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

static void the_threshold_is_strict(void **state)
{
    (void)state;
    for (int above = 0; above < 2; above++) {
        pair        k     = open_pair(true);
        qg_optim   *o     = bop(&k.p, 0.5f, above ? 0.4999f : 0.5f);
        const float first = k.w->value[0], second = k.w->value[1];
        k.w->grad[0] = first;           /* m w = 1/2: towards a flip */
        k.w->grad[1] = -second;         /* away from it */
        step(o);
        assert_true(k.w->value[0] == (above ? -first : first));
        assert_true(k.w->value[1] == second);
        qg_optim_free(o);
        qg_params_release(&k.p);
    }
}

static void the_rest_goes_with_adam(void **state)
{
    (void)state;
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

/* A tenth of the rate is a tenth of gamma: 0.5 becomes 0.05, and m is below the threshold. */
static void gamma_follows_the_schedule(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        pair        k     = open_pair(true);
        qg_optim   *o     = bop(&k.p, 0.5f, 0.1f);
        const float first = k.w->value[0];
        if (scaled) qg_optim_set_lr(o, 0.001f);
        k.w->grad[0] = first;
        step(o);
        assert_true(k.w->value[0] == (scaled ? first : -first));
        qg_optim_free(o);
        qg_params_release(&k.p);
    }
}

/* At a hundred times the rate it would be 50, and m would swing. */
static void gamma_is_at_most_1(void **state)
{
    (void)state;
    pair        k     = open_pair(true);
    qg_optim   *o     = bop(&k.p, 0.5f, 0.1f);
    const float first = k.w->value[0];
    qg_optim_set_lr(o, 1);
    k.w->grad[0] = 0.2f * first;
    step(o);
    assert_true(k.w->value[0] == -first);
    k.w->grad[0] = 0.05f * first;               /* m is this gradient alone, and below the threshold */
    step(o);
    assert_true(k.w->value[0] == -first);
    qg_optim_free(o);
    qg_params_release(&k.p);
}

static void decay_and_clip_leave_flipping_weights_alone(void **state)
{
    (void)state;
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

static uint64_t run(int threads)
{
    pair k = open_pair(true);
    qg_set_threads(threads);
    qg_optim *o = bop(&k.p, 0.2f, 0.05f);
    for (int s = 0; s < 4; s++) {
        set_gradients(&k, s);
        step(o);
    }
    const uint64_t digest = qg_params_digest(&k.p);
    qg_set_threads(1);
    qg_optim_free(o);
    qg_params_release(&k.p);
    return digest;
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    const uint64_t one = run(1);
    assert_true(run(2) == one && run(3) == one);
}

static void a_resumed_run_is_the_same(void **state)
{
    (void)state;
    const char *path = scratch_file();
    pair      k = open_pair(true), twin = open_pair(true);
    qg_optim *o = bop(&k.p, 0.2f, 0.05f), *other = bop(&twin.p, 0.2f, 0.05f);
    for (int s = 0; s < 2; s++) set_gradients(&k, s), step(o);
    qg_state *saved = qg_state_new(), *loaded = qg_state_new();
    qg_optim_state(o, saved);
    qg_optim_state(other, loaded);
    assert_int_equal(qg_state_save(saved, path), QG_OK);
    assert_int_equal(qg_state_load(loaded, path), QG_OK);
    memcpy(twin.p.value, k.p.value, k.p.length * sizeof(float));
    for (int s = 2; s < 4; s++) {
        set_gradients(&k, s);
        set_gradients(&twin, s);
        step(o);
        step(other);
    }
    assert_memory_equal(k.p.value, twin.p.value, k.p.length * sizeof(float));
    qg_state_free(loaded);
    qg_state_free(saved);
    qg_optim_free(other);
    qg_optim_free(o);
    qg_params_release(&twin.p);
    qg_params_release(&k.p);
}

/* --- in a net ----------------------------------------------------------------------------- */

/* Labels are the sign of the first pixel: a binary net can learn it. */
static void a_net_without_latent_weights_learns(void **state)
{
    (void)state;
    enum { N = 64, PIXELS = 33, STEPS = 150 };
    static float   image[N * PIXELS];
    static uint8_t label[N];
    fill_uniform(image, N * PIXELS, -1, 1, 3);
    for (int i = 0; i < N; i++) label[i] = image[i * PIXELS] > 0;
    qg_net *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = PIXELS, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 31, .weight = qg_bop_weight() });
    qg_net_batchnorm(net);
    qg_net_dense(
        net,
        (qg_dense_spec){ .out = 2, .input = qg_binary_activation((qg_binary_activation_spec){ { 0 } }) });
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
        correct = qg_correct(y, label);
        step(o);
    }
    assert_true(correct >= N - 3);
    for (size_t i = 0; i < qg_count(p->item[0]->shape); i++)
        assert_true(fabsf(p->item[0]->value[i]) == 1);
    qg_tape_free(t);
    qg_optim_free(o);
    qg_net_free(net);
}

/* --- refusals ----------------------------------------------------------------------------- */

static void refused(const qg_optim *o, const char *part)
{
    assert_null(o);
    assert_message(part);
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    pair k = open_pair(true), plain = open_pair(false);
    refused(qg_adam(&k.p, (qg_adam_spec){ .lr = 0.1f }), "adam: the values of w can only flip; use the optimizer bop");
    refused(qg_sgd(&k.p, (qg_sgd_spec){ .lr = 0.1f }), "sgd: the values of w can only flip");
    refused(bop(&plain.p, 0, 0), "no parameter flips");
    refused(bop(&k.p, 1.5f, 0), "gamma is 1.5");
    refused(bop(&k.p, -1, 0), "gamma is -1");
    refused(bop(&k.p, NAN, 0), "gamma is nan");
    refused(bop(&k.p, 0, -1), "threshold is -1");
    refused(bop(&k.p, 0, INFINITY), "threshold is inf");
    refused(qg_bop(&k.p, (qg_bop_spec){ .rest = { .beta1 = 1, .lr = 1 } }), "beta1 is 1");
    refused(qg_bop(&k.p, (qg_bop_spec){ .gamma = 0.1f }), "lr is 0");
    refused(qg_bop(NULL, (qg_bop_spec){ .gamma = 0.1f }), "lr is 0");       /* the message stays */
    qg_params_release(&plain.p);
    qg_params_release(&k.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_flip_as_the_paper_says),
        cmocka_unit_test(the_threshold_is_strict),
        cmocka_unit_test(the_rest_goes_with_adam),
        cmocka_unit_test(gamma_follows_the_schedule),
        cmocka_unit_test(gamma_is_at_most_1),
        cmocka_unit_test(decay_and_clip_leave_flipping_weights_alone),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(a_resumed_run_is_the_same),
        cmocka_unit_test(a_net_without_latent_weights_learns),
        cmocka_unit_test(what_cannot_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
