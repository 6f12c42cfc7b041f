#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/net.h"
#include "quant/quant.h"
#include "tests/support/nets.h"

enum { H = 8, W = 8, N = 16, CLASSES = 4, STEPS = 3 };

/* Quantized, with what is learned and what is observed. */
static qg_net *declared(bool fold)
{
    const qg_quant learned  = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_LEARNED });
    const qg_quant observed = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED });
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 3, .fold_batchnorm = fold });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = learned, .input = observed });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = learned, .input = observed });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

typedef struct training {
    qg_net   *net;
    qg_tape  *tape;
    qg_optim *optim;
    float    *image;
    uint16_t  label[N];
    uint64_t  step;
} training;

static training begin(qg_net *net)
{
    training t = { .net = net, .tape = qg_tape_new(), .image = malloc(N * H * W * sizeof(float)) };
    fill_bands((qg_shape){ N, H, W, 1 }, CLASSES, 1, t.image, t.label);
    t.optim = qg_sgd(qg_net_params(net), (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-3f });
    return t;
}

static void train(training *t, int steps)
{
    for (int i = 0; i < steps; i++, t->step++)
        train_step(t->net, t->tape, t->optim, (qg_tensor){ { N, H, W, 1 }, t->image }, t->label, t->step);
}

static void end(training *t)
{
    free(t->image);
    qg_optim_free(t->optim);
    qg_tape_free(t->tape);
    qg_net_free(t->net);
}

/* A copy of every value, in order; *n of them. */
static float *values_of(const qg_params *p, size_t *n)
{
    *n = p->length + p->tracked_length;
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, p->value, p->length * sizeof *copy);
    memcpy(copy + p->length, p->tracked, p->tracked_length * sizeof *copy);
    return copy;
}

static bool is_frozen(const char *name)
{
    return !strncmp(name, "conv1.", 6) || !strncmp(name, "bn1.", 4);
}

static void frozen_layers_keep_every_value(void **state)
{
    for (int fold = 0; fold <= 1; fold++) {
        training t = begin(declared(fold));
        train(&t, 2);                                       /* momentum and observed ranges are set */
        assert_ok(qg_net_freeze(t.net, "conv1"));
        const qg_params *p = qg_net_params(t.net);
        size_t           n;
        float           *before = values_of(p, &n);
        train(&t, STEPS);
        for (int i = 0; i < p->count; i++) {
            const qg_param *item  = p->item[i];
            const float    *was   = before + (item->group == QG_TRACKED ? p->length : 0) + item->offset;
            const size_t    bytes = qg_count(item->shape) * sizeof(float);
            const bool      moves = memcmp(was, item->value, bytes) != 0;
            /* A relu has no values below 0, and spans are measured rarely. */
            const bool      stays = strstr(item->name, "input.min") || strstr(item->name, ".seen") || strstr(item->name, ".span");
            if (is_frozen(item->name) && moves) fail_msg("%s moved", item->name);
            if (!is_frozen(item->name) && !moves && !stays) fail_msg("%s did not move", item->name);
        }
        free(before);
        end(&t);
    }
}

/* Max pooling and dropout do not part a norm from its product; a relu does, and so does a second reader. */
static void a_norm_is_frozen_with_its_product(void **state)
{
    static const struct {
        const char *layers;
        bool        frozen;
    } nets[] = { { "bn1 batchnorm\n", true },
                 { "pool1 maxpool(size=2)\nbn1 batchnorm\n", true },
                 { "drop1 dropout(rate=0.5)\npool1 maxpool(size=2)\nbn1 batchnorm\n", true },
                 { "relu1 relu\nbn1 batchnorm\n", false },
                 { "pool1 maxpool(size=2)\nbn1 batchnorm\nadd1 add after=pool1 with=bn1\n", false },
                 { "pool1 maxpool(size=2)\nbn1 batchnorm(whole)\n", false } };
    for (int i = 0; i < COUNT(nets); i++) {
        char text[256];
        snprintf(text, sizeof text, "net(height=8,width=8,channels=1)\nconv1 conv2d(out=6,kernel=3)\n%s%s",
                 nets[i].layers, "fc1 dense(out=4)\n");
        qg_net *net = qg_net_parse(text);
        if (!net || !qg_net_build(net)) fail_msg("%s: %s", text, qg_errmsg());
        training        t    = begin(net);
        const qg_param *beta = qg_params_find(qg_net_params(net), "bn1.beta");
        const qg_param *mean = qg_params_find(qg_net_params(net), "bn1.running_mean");
        assert_ok(qg_net_freeze(net, "conv1"));
        train(&t, STEPS);
        const bool moves = beta->value[0] != 0, tracks = mean->value[0] != 0;
        if (moves == nets[i].frozen || tracks == nets[i].frozen) fail_msg("%s", text);
        end(&t);
    }
}

/* A quantizer that is new to a frozen layer needs a range. */
static void a_frozen_quantizer_observes_once(void **state)
{
    training t = begin(declared(false));
    assert_ok(qg_net_freeze(t.net, "conv1"));
    const qg_param *max = qg_params_find(qg_net_params(t.net), "conv1.input.max");
    train(&t, 1);
    const float first = max->value[0];
    assert_true(first > 0);
    for (int i = 0; i < N * H * W; i++) t.image[i] *= 2;
    train(&t, STEPS);
    assert_true(max->value[0] == first);
    end(&t);
}

/* Gradients still reach the layers before a frozen one. */
static void what_is_before_a_frozen_layer_trains(void **state)
{
    training        t      = begin(declared(false));
    const qg_param *first  = qg_params_find(qg_net_params(t.net), "conv1.weight");
    const qg_param *second = qg_params_find(qg_net_params(t.net), "conv2.weight");
    const float     was[2] = { first->value[0], second->value[0] };
    assert_ok(qg_net_freeze(t.net, "conv2"));
    train(&t, STEPS);
    assert_true(first->value[0] != was[0]);
    assert_true(second->value[0] == was[1]);
    end(&t);
}

static void unknown_layers_are_refused(void **state)
{
    qg_net *net = declared(false);
    assert_failed(qg_net_freeze(net, "conv9"), QG_EARG,
                  "no layer is named 'conv9'; layers with parameters: conv1, bn1, conv2, bn2, fc1");
    assert_failed(qg_net_freeze(net, NULL), QG_EARG, "no layer is named 'NULL'");
    assert_ok(qg_net_freeze(net, "relu1"));
    qg_net_free(net);
    net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 2 });
    assert_failed(qg_net_freeze(net, "fc1"), QG_ESTATE, "before qg_net_build");
    qg_net_relu(net);
    assert_ptr_equal(qg_net_find(net, "relu1"), qg_net_layer(net, 1));
    assert_null(qg_net_find(net, "relu2"));
    assert_string_equal(qg_errmsg(), "no layer is named 'relu2'; layers: fc1, relu1");
    assert_null(qg_net_find(NULL, "fc1"));
    qg_net_free(net);
    assert_failed(qg_net_freeze(NULL, "fc1"), QG_EARG, "net");
}

/* "stem.fc.weight" is not of "stem". */
static void names_may_have_dots(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .no_bias = true, .name = "stem" });
    qg_net_dense(net, (qg_dense_spec){ .out = 2, .name = "stem.fc" });
    const qg_params *p = qg_net_build(net);
    assert_ok(qg_net_freeze(net, "stem"));
    assert_true(qg_params_find(p, "stem.weight")->frozen && !qg_params_find(p, "stem.fc.weight")->frozen);
    assert_int_equal(qg_net_float_bytes(net), (6 * 9 + 2 * (6 * 6 * 6 + 1)) * sizeof(float));
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_layers_keep_every_value),
        cmocka_unit_test(a_norm_is_frozen_with_its_product),
        cmocka_unit_test(a_frozen_quantizer_observes_once),
        cmocka_unit_test(what_is_before_a_frozen_layer_trains),
        cmocka_unit_test(unknown_layers_are_refused),
        cmocka_unit_test(names_may_have_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
