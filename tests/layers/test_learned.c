/* What quantizers learn is legal after every step, in the net and in the averages of its weights. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layer.h"
#include "optim/ema.h"
#include "optim/optim.h"
#include "quant/quant.h"
#include "tests/support/nets.h"

enum { H = 8, W = 8, N = 16, CLASSES = 4, STEPS = 12 };

static qg_quant quantizer(const char *text, qg_role role)
{
    qg_quant q = { .scheme = NULL };
    assert_ok(qg_quant_parse(text, role, &q));
    return q;
}

static qg_net *net_of(const char *weight, const char *input, uint64_t after)
{
    const qg_quant    w = quantizer(weight, QG_WEIGHT), x = quantizer(input, QG_INPUT);
    const qg_net_spec spec = {
        .height = H, .width = W, .channels = 1, .seed = 3, .quantize_inputs_after = after
    };
    qg_net           *net  = qg_net_new(spec);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3 });
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = w, .input = x });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = w, .input = x });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

typedef struct training {
    qg_net         *net;
    const qg_params *p;
    qg_tape        *tape;
    qg_optim       *optim;
    float           image[N * H * W];
    uint16_t        label[N];
    uint64_t        step;
} training;

static void begin(training *t, qg_net *net, float lr)
{
    *t = (training){ .net = net, .p = qg_net_params(net), .tape = qg_tape_new() };
    fill_bands((qg_shape){ N, H, W, 1 }, CLASSES, 1, t->image, t->label);
    t->optim = qg_sgd(qg_net_params(net), (qg_sgd_spec){ .lr = 0.01f });
    qg_optim_set_group(t->optim, QG_SCALES, (qg_group_spec){ .lr_scale = lr / 0.01f });
}

static void train(training *t)
{
    train_step(t->net, t->tape, t->optim, (qg_tensor){ { N, H, W, 1 }, t->image }, t->label, t->step++);
}

static void end(training *t)
{
    qg_optim_free(t->optim), qg_tape_free(t->tape), qg_net_free(t->net);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* How many values of p, a learned one, are at the end of what is legal. */
static int at_the_end(const qg_param *p)
{
    const bool min = ends_with(p->name, ".min"), max = ends_with(p->name, ".max");
    int        n   = 0;
    if (ends_with(p->name, ".b")) return 0;                 /* the middle of adabin's levels, any number */
    for (size_t k = 0; k < qg_count(p->shape); k++) {
        const float v = p->value[k], least = max ? 0 : 0x1p-30f;
        if (min ? v > 0 : v < least) fail_msg("%s is %g", p->name, (double)v);
        n += v == (min ? 0 : least);
    }
    return n;
}

/* With a rate that leads them far beyond. */
static void values_are_legal_after_each_step(void **state)
{
    static const char *const schemes[][2] = {
        { "ttq:as=paper", "pact" },
        { "ttq:per-channel=yes", "lsq:bits=2" },
        { "lsq:bits=4,per-channel=yes", "pact" },
        { "recu", "adabin" },
        { "recu", "lsq:bits=4,signed=yes" },
        { "fake_quant:range=learned", "fake_quant:range=learned,gradient=sum" },
        { "fake_quant:range=learned,per-channel=yes", "fake_quant:range=learned,per-channel=yes" },
    };
    for (int s = 0; s < COUNT(schemes); s++) {
        training t;
        int      ends = 0;
        begin(&t, net_of(schemes[s][0], schemes[s][1], 0), 30);
        float  *average = malloc(t.p->length * sizeof *average);
        qg_ema *e       = qg_ema_new((qg_params *)t.p, (qg_ema_spec){ .decay = 0.5f, .no_warmup = true });
        assert_non_null(e);
        memcpy(average, t.p->value, t.p->length * sizeof *average);
        for (int i = 0; i < STEPS; i++) {
            train(&t);
            for (int k = 0; k < t.p->count; k++)
                if (t.p->item[k]->group == QG_SCALES) ends += at_the_end(t.p->item[k]);
            assert_ok(qg_ema_update(e));
            for (size_t k = 0; k < t.p->length; k++) average[k] += 0.5f * (t.p->value[k] - average[k]);
        }
        if (ends == 0) fail_msg("%s, %s: no step left the legal values", schemes[s][0], schemes[s][1]);
        assert_ok(qg_ema_swap(e));
        assert_memory_equal(t.p->value, average, t.p->length * sizeof *average);
        free(average);
        qg_ema_free(e);
        end(&t);
    }
}

/* A scale of 0 waits for its first batch, and a frozen one is the user's. */
static void unknown_and_frozen_values_stay(void **state)
{
    training t;
    begin(&t, net_of("ttq", "lsq:bits=2", 2), 0.1f);
    qg_param *step = qg_params_find(t.p, "conv2.input.step"), *wp = qg_params_find(t.p, "fc1.weight.wp");
    assert_ok(qg_net_freeze(t.net, "fc1"));
    wp->value[0] = -0.5f;
    train(&t), train(&t);
    assert_true(step->value[0] == 0 && wp->value[0] == -0.5f);
    train(&t);
    assert_true(step->value[0] > 0x1p-30f && wp->value[0] == -0.5f);
    end(&t);
}

/* As checkpoints of earlier versions have them: the step that uses a value first makes it legal. */
static void loaded_values_become_legal(void **state)
{
    static const float loaded[] = { -0.5f, 0x1p-30f };
    training t[2];
    for (int i = 0; i < 2; i++) {
        begin(&t[i], net_of("ttq", "fake_quant:range=learned", 0), 0.1f);
        train(&t[i]);
        qg_params_find(t[i].p, "conv2.weight.wn")->value[0] = loaded[i];
        qg_params_find(t[i].p, "fc1.input.min")->value[0]   = i == 0 ? 0.25f : 0;
        train(&t[i]);
    }
    assert_memory_equal(t[0].p->value, t[1].p->value, t[0].p->length * sizeof(float));
    end(&t[0]), end(&t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_legal_after_each_step),
        cmocka_unit_test(unknown_and_frozen_values_stay),
        cmocka_unit_test(loaded_values_become_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
