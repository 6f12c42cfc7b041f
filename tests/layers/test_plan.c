/* A net runs its layers folded into steps, and computes what was declared. */
#include "tests/support/testing.h"

#include <stdlib.h>
#include <string.h>

#include "core/ops/conv2d.h"
#include "layers/plan.h"
#include "tests/support/nets.h"

enum { N = 9, SIZE = 33, CLASSES = 5 };

/* Layers between conv1 and fc1, one letter each: b batch norm, r relu, h hardtanh, 2 3 G max pooling
 * by 2, 3, 16, o by 3 with overlap and padding, O padded, S by 2 at every third pixel, a average pooling, q sign as a layer, + the sum with conv1; s: fc1 has a sign input. */
typedef struct chain {
    const char *layers;
    int         pool;       /* what the step of bn1 does */
    bool        relu, slot, add;
} chain;

static const chain chains[] = {
    { "b", 0, false, false, false },    { "br", 0, true, false, false },   { "b2", 2, false, false, false },
    { "br2", 2, true, false, false },   { "b2r", 2, true, false, false },  { "b3r", 3, true, false, false },
    { "brr", 0, true, false, false },   { "b22", 2, false, false, false }, { "b2r2r", 2, true, false, false },
    { "bG", 0, false, false, false },   { "brG", 0, true, false, false },  { "bh", 0, false, false, false },
    { "bs", 0, false, true, false },    { "b2s", 2, false, true, false },  { "2bs", 0, false, true, false },
    { "brs", 0, true, true, false },    { "bas", 0, false, false, false }, { "bq", 0, false, true, false },
    { "rb", 0, false, false, false },   { "b2b2r", 2, false, false, false }, { "bbs", 0, false, false, false },
    { "b+", 0, false, false, true },    { "b+r", 0, true, false, true },   { "b+rs", 0, true, true, true },
    { "b+2", 0, false, false, true },   { "br+", 0, true, false, false },  { "b++r", 0, false, false, true },
    { "bor", 0, false, false, false },  { "bro", 0, true, false, false },  { "b2o", 2, false, false, false },
    { "bO", 0, false, false, false },   { "bS", 0, false, false, false },
};

/* apart: a dropout of rate 0 behind every layer but conv1, so that nothing stands side by side. */
static qg_net *net_of(const char *layers, bool apart)
{
    const qg_quant sign = qg_sign((qg_sign_spec){ 0 });
    qg_net        *net  = qg_net_new((qg_net_spec){ .height = SIZE, .width = SIZE, .channels = 3, .seed = 1 });
    qg_layer *first = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 17, .kernel = 3 });
    for (const char *l = layers; *l && *l != 's'; l++) {
        switch (*l) {
        case 'b': qg_net_batchnorm(net); break;
        case 'r': qg_net_relu(net); break;
        case 'h': qg_net_hardtanh(net); break;
        case '2': qg_net_maxpool(net, 2); break;
        case '3': qg_net_maxpool(net, 3); break;
        case 'G': qg_net_maxpool(net, 16); break;
        case 'o': qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 2, .pad = 1 }); break;
        case 'O': qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 2, .pad = 1 }); break;
        case 'S': qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 2, .stride = 3 }); break;
        case 'a': qg_net_avgpool(net, 2); break;
        case '+': qg_net_add(net, qg_net_layer(net, qg_net_layers(net) - 1), first); break;
        default: qg_net_quantize(net, sign);
        }
        if (apart) qg_net_dropout(net, 0);
    }
    const bool s = strchr(layers, 's') != NULL;
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .input = s ? sign : (qg_quant){ 0 } });
    if (!qg_net_build(net)) fail_msg("%s: %s", layers, qg_errmsg());
    return net;
}

/* The parameters have the same names in both; the draws depend on a layer's place. */
static void copy_values(qg_net *to, const qg_net *from)
{
    const qg_params *p = qg_net_params(to);
    assert_int_equal(p->count, qg_net_params(from)->count);
    for (int i = 0; i < p->count; i++) {
        const qg_param *item = qg_params_find(qg_net_params(from), p->item[i]->name);
        assert_non_null(item);
        memcpy(p->item[i]->value, item->value, qg_count(item->shape) * sizeof(float));
    }
}

typedef struct step {
    float logits[N * CLASSES];
    int   norms, vars;
} step;

static step forward(qg_net *net, qg_mode mode, uint64_t key)
{
    static float image[N * SIZE * SIZE * 3], dy[N * CLASSES];
    step         s = { .norms = 0 };
    qg_tape     *t = qg_tape_new();
    fill_uniform(image, sizeof image / sizeof *image, -1, 2, key);
    fill_uniform(dy, N * CLASSES, -1, 1, key + 1);
    qg_tape_begin(t, mode, 1, 0);
    qg_var *y = qg_net_forward(net, t, (qg_tensor){ { N, SIZE, SIZE, 3 }, image });
    assert_non_null(y);
    memcpy(s.logits, y->data, sizeof s.logits);
    for (const qg_var *v = y; v; v = v->older)
        if (v->op) s.vars++, s.norms += !strcmp(v->op->name, "norm");
    if (mode == QG_TRAIN) assert_ok(qg_backward(t, weighed(t, y, dy)));
    qg_tape_free(t);
    return s;
}

static void check_chain(const chain *c)
{
    qg_net *fused = net_of(c->layers, false), *apart = net_of(c->layers, true);
    copy_values(apart, fused);
    for (int round = 0; round < 2; round++) {
        const step a = forward(fused, QG_TRAIN, 10), b = forward(apart, QG_TRAIN, 10);
        assert_memory_equal(a.logits, b.logits, sizeof a.logits);
        assert_int_equal(a.norms, b.norms);
        const qg_params *p = qg_net_params(fused), *q = qg_net_params(apart);
        for (int i = 0; i < p->count; i++) {
            const qg_param *x = p->item[i], *z = qg_params_find(q, x->name);
            const size_t    n = qg_count(x->shape);
            if (!x->grad) assert_memory_equal(x->value, z->value, n * sizeof(float));
            /* The same terms in another order: up to 9 * 961 of them, below 1/2, sums below 100:
             * 100 sqrt(8649) 2^-24 = 6e-4, of which a dense layer and a convolution add theirs. */
            else assert_close(x->grad, z->grad, n, 1e-3);
        }
    }
    const step a = forward(fused, QG_EVAL, 20), b = forward(apart, QG_EVAL, 20);
    assert_memory_equal(a.logits, b.logits, sizeof a.logits);
    qg_net_free(fused), qg_net_free(apart);
}

static void fused_nets_compute_what_was_declared(void **state)
{
    for (int i = 0; i < COUNT(chains); i++) check_chain(&chains[i]);
}

static const qg_step *step_of_first_batchnorm(const qg_net *net)
{
    for (int i = 0; i < net->layers; i++)
        if (qg__batchnorm(net->layer[i])) return qg__net_step(net, net->layer[i]);
    return NULL;
}

static void a_step_covers_what_it_can(void **state)
{
    for (int i = 0; i < COUNT(chains); i++) {
        const chain   *c   = &chains[i];
        qg_net        *net = net_of(c->layers, false);
        const qg_step *s   = step_of_first_batchnorm(net);
        if (!s || s->pool != c->pool || s->relu != c->relu || (s->slot != NULL) != c->slot || (s->z != NULL) != c->add)
            fail_msg("%s: another step", c->layers);
        qg_net_free(net);
    }
}

/* Every layer is in one step, and its declaration stays. */
static void steps_cover_the_net(void **state)
{
    for (int i = 0; i < COUNT(chains); i++) {
        qg_net *net = net_of(chains[i].layers, false);
        int     at  = 0;
        for (int s = 0; s < net->steps; s++) {
            assert_ptr_equal(net->step[s].layer, net->layer[at]);
            while (net->layer[at++] != net->step[s].result)
                if (at == net->layers) fail_msg("%s: step %d has no end", chains[i].layers, s);
        }
        assert_int_equal(at, net->layers);
        for (int l = 1; l < net->layers; l++) assert_ptr_equal(net->layer[l]->after, net->layer[l - 1]);
        qg_net_free(net);
    }
}

/* A quantizer that starts late is relu until then (sign rectifies), fused or not. */
static void a_waiting_quantizer_is_a_relu(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        float logits[2][N * CLASSES];
        for (int late = 0; late < 2; late++) {
            qg_quant sign = qg_sign((qg_sign_spec){ 0 });
            sign.after    = 1;
            qg_net *net   = qg_net_new((qg_net_spec){ .height = SIZE, .width = SIZE, .channels = 3, .seed = 1 });
            qg_net_conv2d(net, (qg_conv2d_spec){ .out = 17, .kernel = 3 });
            qg_net_batchnorm(net);
            if (!late) qg_net_relu(net);
            else if (apart) qg_net_dropout(net, 0);
            qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .name = "fc",
                                               .input = late ? sign : (qg_quant){ 0 } });
            assert_non_null(qg_net_build(net));
            qg_param *w = qg_params_find(qg_net_params(net), "fc.weight");
            fill_uniform(w->value, qg_count(w->shape), -1, 1, 4);
            const step s = forward(net, QG_TRAIN, 10);
            memcpy(logits[late], s.logits, sizeof s.logits);
            qg_net_free(net);
        }
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    }
}

/* --- branches ------------------------------------------------------------------------------ */

typedef struct branching {
    qg_net   *net;
    qg_layer *bn;
} branching;

/* bn1 is read twice, by relu1 and by conv3. */
static branching branching_new(void)
{
    branching b = { .net = qg_net_new((qg_net_spec){ .height = 9, .width = 7, .channels = 3, .seed = 5 }) };
    qg_net_conv2d(b.net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .pad = 1 });
    b.bn = qg_net_batchnorm(b.net);
    qg_net_relu(b.net);
    qg_layer *left  = qg_net_conv2d(b.net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .pad = 1 });
    qg_layer *right = qg_net_conv2d(b.net, (qg_conv2d_spec){ .out = 5, .kernel = 1, .after = b.bn });
    qg_net_add(b.net, left, right);
    qg_net_global_avgpool(b.net);
    qg_net_dense(b.net, (qg_dense_spec){ .out = 4 });
    assert_non_null(qg_net_build(b.net));
    return b;
}

static qg_var *parameter(qg_tape *t, const qg_params *p, const char *name)
{
    const qg_param *item = qg_params_find(p, name);
    assert_non_null(item);
    return qg_parameter(t, item);
}

static qg_var *by_hand(qg_tape *t, const qg_params *p, qg_tensor image)
{
    const qg_conv_spec pad = { .pad_h = 1, .pad_w = 1 };
    qg_var *x  = qg_conv2d(t, qg_input(t, image), parameter(t, p, "conv1.weight"), NULL, pad);
    qg_var *bn = qg_norm(t, x, parameter(t, p, "bn1.gamma"), parameter(t, p, "bn1.beta"),
                         (qg_norm_spec){ .mean = qg_params_find(p, "bn1.running_mean")->value,
                                         .var  = qg_params_find(p, "bn1.running_var")->value });
    qg_var *left  = qg_conv2d(t, qg_relu(t, bn), parameter(t, p, "conv2.weight"),
                              parameter(t, p, "conv2.bias"), pad);
    qg_var *right = qg_conv2d(t, bn, parameter(t, p, "conv3.weight"), parameter(t, p, "conv3.bias"),
                              (qg_conv_spec){ 0 });
    return qg_dense(t, qg_global_avgpool(t, qg_add(t, left, right)), parameter(t, p, "fc1.weight"),
                    parameter(t, p, "fc1.bias"));
}

/* A range that overflowed is told in the same words whether or not a batch norm applies it. */
static void a_range_that_is_none_is_told(void **state)
{
    static float image[2 * 5 * 5 * 2];
    for (int norm = 0; norm < 2; norm++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 2, .seed = 5 });
        qg_net_dense(net, (qg_dense_spec){ .out = 8 });
        if (norm) qg_net_batchnorm(net);
        qg_net_dense(net, (qg_dense_spec){ .out = 3, .input = qg_fake_quant((qg_fake_quant_spec){ 0 }) });
        qg_params *p = qg_net_build(net);
        *qg_params_find(p, "fc2.input.min")->value  = -3e38f;
        *qg_params_find(p, "fc2.input.max")->value  = 3e38f;
        *qg_params_find(p, "fc2.input.seen")->value = 1;
        qg_tape *t = qg_tape_new();
        qg_tape_begin(t, QG_EVAL, 1, 0);
        assert_null(qg_net_forward(net, t, (qg_tensor){ { 2, 5, 5, 2 }, image }));
        assert_failed(qg_tape_status(t), QG_ENAN,
                      "fake_quant: the range -3e+38 .. 3e+38 of what it quantizes overflows");
        qg_tape_free(t);
        qg_net_free(net);
    }
}

static void a_layer_with_two_readers_is_not_fused(void **state)
{
    branching  b = branching_new();
    qg_params *p = qg_net_params(b.net);
    float      image[2 * 9 * 7 * 3], dy[8], logits[8];
    float     *grad = malloc(p->length * sizeof *grad);
    qg_tape   *t    = qg_tape_new();
    assert_non_null(grad);
    assert_int_equal(b.net->steps, b.net->layers);
    assert_null(qg_params_find(p, "conv1.bias"));       /* but conv1 has one reader, the batch norm */
    fill_uniform(image, 2 * 9 * 7 * 3, -1, 1, 1);
    fill_uniform(dy, 8, -1, 1, 2);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = qg_net_forward(b.net, t, (qg_tensor){ { 2, 9, 7, 3 }, image });
    memcpy(logits, y->data, sizeof logits);
    assert_ok(qg_backward(t, weighed(t, y, dy)));
    memcpy(grad, p->grad, p->length * sizeof *grad);
    qg_params_clear_gradients(p);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    y = by_hand(t, p, (qg_tensor){ { 2, 9, 7, 3 }, image });
    assert_memory_equal(logits, y->data, sizeof logits);
    assert_ok(qg_backward(t, weighed(t, y, dy)));
    assert_memory_equal(grad, p->grad, p->length * sizeof *grad);       /* the same ops in the same order */
    free(grad);
    qg_tape_free(t);
    qg_net_free(b.net);
}

/* Two batch norms read one product: neither takes its bias out of it, and its sums serve both. */
static void a_product_with_two_readers_keeps_its_bias(void **state)
{
    qg_net   *net  = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 2, .seed = 5 });
    qg_layer *conv = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = 3 });
    qg_layer *bn   = qg_net_batchnorm(net);
    qg_net_add(net, bn, conv);
    assert_non_null(qg_net_build(net));
    assert_non_null(qg_params_find(qg_net_params(net), "conv1.bias"));
    assert_null(qg_layer_product(conv)->batchnorm);
    qg_net_free(net);
}

/* Frozen statistics need no sums of the batch. */
static void a_frozen_norm_needs_no_sums(void **state)
{
    static float image[5 * 5 * 2];
    qg_net      *net  = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 2, .freeze_batchnorm_after = 2 });
    qg_layer    *conv = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = 3 });
    qg_net_batchnorm(net);
    assert_non_null(qg_net_build(net));
    qg_tape *t = qg_tape_new();
    for (uint64_t at = 0; at < 4; at++) {
        qg_tape_begin(t, QG_TRAIN, 1, at);
        const qg_var *y = qg_apply(conv, t, qg_input(t, (qg_tensor){ { 1, 5, 5, 2 }, image }));
        assert_non_null(y);
        assert_true((qg__image_sums(y) != NULL) == (at < 2));
    }
    qg_tape_free(t);
    qg_net_free(net);
}

/* conv - bn - relu - conv (input quantized) - bn, with results where they are declared. */
static qg_net *net_with_results(bool conv, bool norm, bool relu)
{
    qg_net   *net  = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 2, .seed = 5 });
    qg_layer *a    = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = 3 });
    qg_layer *b    = qg_net_batchnorm(net), *c = qg_net_relu(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = 3, .input = qg_pact((qg_pact_spec){ .bits = 2 }) });
    qg_net_batchnorm(net);
    if (conv) qg_net_mark_output(a);
    if (norm) qg_net_mark_output(b);
    if (relu) qg_net_mark_output(c);
    assert_non_null(qg_net_build(net));
    return net;
}

/* The result of every layer that is not folded is the one that it has alone: to the bit in training, while evaluation rounds a
 * norm less often together with its product. */
static void results_are_found_by_name(void **state)
{
    float image[4 * 5 * 5 * 2];
    fill_uniform(image, sizeof image / sizeof *image, -1, 1, 3);
    for (int which = 0; which < 16; which++) {
        qg_net       *net   = net_with_results(which & 1, which & 2, which & 4);
        qg_tape      *t     = qg_tape_new(), *alone = qg_tape_new();
        const qg_mode mode  = which & 8 ? QG_TRAIN : QG_EVAL;
        const bool    has[] = { mode == QG_TRAIN || (which & 1), which & 2, which & 6, mode == QG_TRAIN, true };
        qg_tape_begin(t, QG_EVAL, 1, 0);
        assert_null(qg_net_output(net, t, "conv1"));
        assert_int_equal(qg_tape_status(t), QG_ESTATE);
        for (int i = 0; i < 5; i++) {
            const char *name = qg_net_layer(net, i)->name;
            qg_tape_begin(t, mode, 1, 0), qg_tape_begin(alone, mode, 1, 0);
            assert_non_null(qg_net_forward(net, t, (qg_tensor){ { 4, 5, 5, 2 }, image }));
            const qg_var *y = qg_net_output(net, t, name);
            assert_int_equal(y != NULL, has[i]);
            if (!y) assert_message("is folded into another layer; declare it with qg_net_mark_output");
            qg_var *x = qg_input(alone, (qg_tensor){ { 4, 5, 5, 2 }, image });
            for (int k = 0; k <= i; k++) x = qg_apply(qg_net_layer(net, k), alone, x);
            assert_non_null(x);
            if (y && mode == QG_TRAIN) assert_memory_equal(x->data, y->data, qg_count(y->shape) * sizeof(float));
            else if (y) assert_close(x->data, y->data, qg_count(y->shape), 1e-5);       /* some 30 roundings of values below 4 */
        }
        qg_tape_begin(t, QG_EVAL, 1, 0);
        assert_null(qg_net_output(net, t, "conv9"));
        assert_message("no layer is called 'conv9'");
        qg_tape_free(t), qg_tape_free(alone);
        qg_net_free(net);
    }
}

/* Of the net or of the quantizer, which prevails. */
static void a_net_delays_its_quantizers(void **state)
{
    const qg_quant twn = qg_twn((qg_twn_spec){ 0 });
    qg_quant       own = twn;
    own.after          = 9;
    qg_net *net = qg_net_new((qg_net_spec){ .height = 5, .width = 5, .channels = 2, .quantize_weights_after = 4,
                                            .quantize_inputs_after = 7 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = 3, .weight = twn });
    qg_net_quantize(net, qg_pact((qg_pact_spec){ 0 }));
    qg_net_dense(net, (qg_dense_spec){ .out = 3, .weight = own });
    assert_non_null(qg_net_build(net));
    assert_int_equal(qg_layer_slot(qg_net_layer(net, 0), QG_WEIGHT)->q.after, 4);
    assert_int_equal(qg_layer_slot(qg_net_layer(net, 1), QG_INPUT)->q.after, 7);
    assert_int_equal(qg_layer_slot(qg_net_layer(net, 2), QG_WEIGHT)->q.after, 9);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_nets_compute_what_was_declared),
        cmocka_unit_test(a_step_covers_what_it_can),
        cmocka_unit_test(steps_cover_the_net),
        cmocka_unit_test(a_waiting_quantizer_is_a_relu),
        cmocka_unit_test(a_range_that_is_none_is_told),
        cmocka_unit_test(a_layer_with_two_readers_is_not_fused),
        cmocka_unit_test(a_product_with_two_readers_keeps_its_bias),
        cmocka_unit_test(a_frozen_norm_needs_no_sums),
        cmocka_unit_test(results_are_found_by_name),
        cmocka_unit_test(a_net_delays_its_quantizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
