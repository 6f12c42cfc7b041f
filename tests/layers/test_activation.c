/* Layers of learned and smooth activations, and of two layers side by side. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layers/net.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { N = 24, H = 9, W = 7, CLASSES = 3, CHANNELS = 5 };

static const qg_shape images = { N, H, W, 1 };

static qg_net *new_net(void) { return qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 7 }); }

/* Every activation, and a concatenation of two branches. */
static qg_net *net_with_all(void)
{
    qg_net   *net  = new_net();
    qg_layer *conv = qg_net_conv2d(net, (qg_conv2d_spec){ .out = CHANNELS, .kernel = 3, .pad = 1 });
    qg_layer *a    = qg_net_rprelu(net, (qg_prelu_spec){ 0 });
    qg_layer *b    = qg_net_prelu(net, (qg_prelu_spec){ .shared = true, .start = -0.5f, .after = conv, .name = "act" });
    qg_net_concat(net, a, b);
    qg_net_batchnorm(net), qg_net_tanh(net), qg_net_maxpool(net, 2);
    qg_net_dense(net, (qg_dense_spec){ .out = 11 });
    qg_net_prelu(net, (qg_prelu_spec){ 0 });
    qg_net_dense(net, (qg_dense_spec){ .out = 11 });
    qg_net_sigmoid(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static void parameters_have_names_groups_and_initial_values(void **state)
{
    static const struct {
        const char *name;
        qg_group    group;
        int         c;
        float       value;
    } all[] = { { "rprelu1.slope", QG_NORMS, CHANNELS, 0.25f },
                { "rprelu1.x_shift", QG_BIASES, CHANNELS, 0 },
                { "rprelu1.y_shift", QG_BIASES, CHANNELS, 0 },
                { "act.slope", QG_NORMS, 1, -0.5f },
                { "prelu1.slope", QG_NORMS, 11, 0.25f } };
    qg_net *net = net_with_all();
    for (int i = 0; i < COUNT(all); i++) {
        const qg_param *p = qg_params_find(qg_net_params(net), all[i].name);
        if (!p) fail_msg("%s", qg_errmsg());
        assert_true(qg_shape_equal(p->shape, (qg_shape){ 1, 1, 1, all[i].c }));
        assert_int_equal(p->group, all[i].group);
        for (int k = 0; k < all[i].c; k++) assert_true(p->value[k] == all[i].value);
    }
    assert_non_null(qg_params_find(qg_net_params(net), "bn1.gamma"));
    assert_int_equal(qg_params_find(qg_net_params(net), "bn1.gamma")->shape.c, 2 * CHANNELS);
    qg_net_free(net);
}

/* The plan changes nothing: the same bits as the ops in the order of declaration. */
static void a_net_computes_what_its_ops_do(void **state)
{
    float     image[N * H * W];
    uint16_t  label[N];
    qg_net   *net = net_with_all();
    qg_tape  *t   = qg_tape_new();
    qg_layer *l[12];
    fill_bands(images, CLASSES, 5, image, label);
    for (int i = 0; i < 12; i++) l[i] = qg_net_layer(net, i);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *whole = qg_net_forward(net, t, (qg_tensor){ images, image });
    qg_var       *x     = qg_apply(l[0], t, qg_input(t, (qg_tensor){ images, image }));
    qg_var       *both[] = { qg_apply(l[1], t, x), qg_apply(l[2], t, x) };
    x                   = qg_concat(t, 2, both);
    for (int i = 4; i < 12; i++) x = qg_apply(l[i], t, x);
    assert_true(whole && x);
    assert_memory_equal(x->data, whole->data, qg_count(whole->shape) * sizeof(float));
    assert_none(qg_apply(l[3], t, both[0]), "concat1: has two inputs, but qg_apply gives one");
    qg_tape_free(t);
    qg_net_free(net);
}

static void it_trains_and_survives_its_file(void **state)
{
    float     image[N * H * W], first = 0, loss = 0;
    uint16_t  label[N];
    qg_net   *net = net_with_all(), *other = net_with_all();
    qg_optim *o   = qg_adam(qg_net_params(net), (qg_adam_spec){ .lr = 0.01f });
    qg_tape  *t   = qg_tape_new();
    fill_bands(images, CLASSES, 5, image, label);
    for (uint64_t s = 0; s < 60; s++) {
        loss = train_step(net, t, o, (qg_tensor){ images, image }, label, s);
        if (s == 0) first = loss;
    }
    assert_true(loss < first / 2);
    const char *const learned[] = { "rprelu1.slope", "rprelu1.x_shift", "rprelu1.y_shift", "act.slope",
                                    "prelu1.slope" };
    for (int i = 0; i < COUNT(learned); i++)
        assert_true(qg_params_find(qg_net_params(net), learned[i])->value[0] !=
                    qg_params_find(qg_net_params(other), learned[i])->value[0]);
    assert_ok(qg_net_save(net, in_room("net")));
    assert_ok(qg_net_load(other, in_room("net")));
    assert_true(qg_params_digest(qg_net_params(net)) == qg_params_digest(qg_net_params(other)));
    qg_tape_free(t), qg_optim_free(o);
    qg_net_free(net), qg_net_free(other);
}

/* Slopes and shifts are parameters that evaluation reads. */
static void bytes_count_slopes_and_shifts(void **state)
{
    qg_net *net = new_net();
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = CHANNELS, .kernel = 1, .no_bias = true });
    qg_net_rprelu(net, (qg_prelu_spec){ 0 });
    assert_non_null(qg_net_build(net));
    assert_int_equal(qg_net_float_bytes(net), (CHANNELS + 3 * CHANNELS) * sizeof(float));
    /* A header, two steps, their names, and an offset and a factor for each channel of the product. */
    assert_int_equal(packed_size(net), qg_net_float_bytes(net) + 64 + 2 * 128 + sizeof "conv1 rprelu1" + 2 * 4 * CHANNELS);
    char  text[4096] = "";
    FILE *f          = fmemopen(text, sizeof text, "w");
    assert_non_null(f);
    qg_net_summary(net, f);
    fclose(f);
    assert_non_null(strstr(text, "rprelu1  rprelu"));
    qg_net_free(net);
}

static void bad_declarations_are_named(void **state)
{
    qg_net *net = new_net();
    qg_net_prelu(net, (qg_prelu_spec){ .start = NAN });
    assert_none(qg_net_build(net), "prelu1: start is nan, must be finite");
    qg_net_free(net);
    net = new_net();
    qg_net_rprelu(net, (qg_prelu_spec){ .start = INFINITY, .name = "act" });
    assert_none(qg_net_build(net), "act: start is inf, must be finite");
    qg_net_free(net);
    net            = new_net();
    qg_layer *relu = qg_net_relu(net);
    qg_net_concat(net, relu, qg_net_maxpool(net, 2));
    assert_none(qg_net_build(net), "concat1: relu1 gives [1,9,7,1], pool1 gives [1,4,3,1]");
    qg_net_free(net);
    net = new_net();
    qg_net_concat(net, NULL, qg_net_relu(net));
    assert_none(qg_net_build(net), "concat: a layer is NULL");
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_names_groups_and_initial_values),
        cmocka_unit_test(a_net_computes_what_its_ops_do),
        cmocka_unit_test(it_trains_and_survives_its_file),
        cmocka_unit_test(bytes_count_slopes_and_shifts),
        cmocka_unit_test(bad_declarations_are_named),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
