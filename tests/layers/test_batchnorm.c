/* What a batch norm layer may be told beside its place: one norm for all, no scale, no shift. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "layers/plan.h"
#include "layers/net.h"

enum { N = 4, H = 2, W = 3, C = 5, NUMBERS = N * H * W * C };

static const qg_shape images = { N, H, W, C };

static qg_net *begin(void) { return qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 1 }); }

static qg_var *run(qg_net *net, qg_tape *t, qg_mode mode, float *image)
{
    qg_tape_begin(t, mode, 1, 0);
    qg_var *y = qg_net_forward(net, t, (qg_tensor){ images, image });
    if (!y) fail_msg("%s", qg_errmsg());
    return y;
}

/* Mean and variance of all numbers of the batch; y of the same shape; running values move by the
 * momentum, the variance unbiased. */
static void whole_has_one_mean_for_all(void **state)
{
    float   image[NUMBERS];
    qg_net *net = begin();
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true, .eps = 1e-4f, .momentum = 0.25f });
    qg_params *p = qg_net_build(net);
    qg_tape   *t = qg_tape_new();
    assert_non_null(p);
    fill_uniform(image, NUMBERS, -3, 9, 4);
    double mean = 0, var = 0;
    for (int i = 0; i < NUMBERS; i++) mean += (double)image[i] / NUMBERS;
    for (int i = 0; i < NUMBERS; i++) var += pow((double)image[i] - mean, 2) / NUMBERS;
    qg_params_find(p, "bn1.gamma")->value[0] = 2;
    qg_params_find(p, "bn1.beta")->value[0]  = -1;
    float expected[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        expected[i] = (float)(2 * ((double)image[i] - mean) / sqrt(var + 1e-4) - 1);
    const qg_var *y = run(net, t, QG_TRAIN, image);
    assert_true(qg_shape_equal(y->shape, images));
    assert_close(y->data, expected, NUMBERS, 1e-5);         /* values below 5, a few roundings */
    const qg_param *m = qg_params_find(p, "bn1.running_mean"), *v = qg_params_find(p, "bn1.running_var");
    assert_true(qg_count(m->shape) == 1 && qg_count(v->shape) == 1);
    assert_close(m->value, (float[]){ (float)(0.25 * mean) }, 1, 1e-6);
    assert_close(v->value, (float[]){ (float)(0.75 + 0.25 * var * NUMBERS / (NUMBERS - 1)) }, 1, 1e-5);
    for (int i = 0; i < NUMBERS; i++)
        expected[i] = (float)(2 * ((double)image[i] - (double)m->value[0]) / sqrt((double)v->value[0] + 1e-4) - 1);
    assert_close(run(net, t, QG_EVAL, image)->data, expected, NUMBERS, 2e-5);
    qg_tape_free(t), qg_net_free(net);
}

/* The results and statistics of a training step, but for what evaluation does in another way: no dropout, no draws, no ranges
 * observed, no gradients. */
static void an_estimate_is_evaluation_with_statistics_of_the_batch(void **state)
{
    float     image[NUMBERS], expected[N * 7], mean[7], var[7];
    qg_tape  *t = qg_tape_new();
    qg_quant  weight = qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC });
    qg_quant  input  = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED });
    fill_uniform(image, NUMBERS, -3, 9, 4);
    for (int estimates = 0; estimates < 2; estimates++) {
        qg_net *net = begin();
        qg_net_dense(net, (qg_dense_spec){ .out = 7, .weight = estimates ? weight : qg_binaryconnect((qg_binaryconnect_spec){ 0 }) });
        qg_net_batchnorm(net);
        if (estimates) qg_net_dropout(net, 0.5f);
        if (estimates) qg_net_quantize(net, input);
        qg_params *p = qg_net_build(net);
        assert_non_null(p);
        qg_var         *y = run(net, t, estimates ? QG_ESTIMATE : QG_TRAIN, image);
        const qg_param *m = qg_params_find(p, "bn1.running_mean"), *v = qg_params_find(p, "bn1.running_var");
        if (!estimates) {
            memcpy(expected, y->data, sizeof expected);
            memcpy(mean, m->value, sizeof mean), memcpy(var, v->value, sizeof var);
        } else {
            assert_memory_equal(y->data, expected, sizeof expected);
            assert_memory_equal(m->value, mean, sizeof mean);
            assert_memory_equal(v->value, var, sizeof var);
            for (int i = 0; i < p->count; i++)
                if (!strncmp(p->item[i]->name, "quantize", 8)) assert_true(p->item[i]->value[0] == 0);
            assert_failed(qg_backward(t, qg_mean(t, y, QG_AXES)), QG_ESTATE, "QG_ESTIMATE");
        }
        qg_net_free(net);
    }
    qg_tape_free(t);
}

/* The channel's offset is no longer what the mean takes out, and what follows is not folded in. */
static void whole_folds_nothing(void **state)
{
    qg_net *net = begin();
    qg_net_dense(net, (qg_dense_spec){ .out = 7 });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true });
    qg_net_relu(net);
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    assert_non_null(qg_params_find(p, "fc1.bias"));
    assert_int_equal(net->steps, net->layers);
    assert_int_equal(qg_net_float_bytes(net), (7 * H * W * C + 7 + 2) * sizeof(float));
    qg_net_free(net);
}

static void gradients_of_a_whole_norm(void **state)
{
    static float image[NUMBERS];
    uint16_t     label[N] = { 1, 0, 6, 3 };
    qg_net      *net = begin();
    qg_tape     *t   = qg_tape_new();
    qg_net_dense(net, (qg_dense_spec){ .out = 7 });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true });
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    fill_uniform(image, NUMBERS, -1, 1, 4);
    assert_ok(qg_backward(t, qg_squared_hinge(t, run(net, t, QG_TRAIN, image), label)));
    qg_param *w = qg_params_find(p, "fc1.weight");
    /* Central differences of the loss, in float: h^2 of its third derivative and 1e-7 / h. */
    for (size_t i = 0; i < qg_count(w->shape); i += 11) {
        const float h = 0x1p-6f, was = w->value[i];
        double      side[2];
        for (int s = 0; s < 2; s++) {
            w->value[i] = s ? was + h : was - h;
            side[s]     = (double)qg_squared_hinge(t, run(net, t, QG_TRAIN, image), label)->data[0];
        }
        w->value[i]       = was;
        const float slope = (float)((side[1] - side[0]) / (2 * (double)h));
        assert_close(&w->grad[i], &slope, 1, 1e-3);
    }
    qg_tape_free(t), qg_net_free(net);
}

static void scale_and_shift_may_be_left_out(void **state)
{
    float   image[NUMBERS];
    qg_net *net = begin(), *full = begin();
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .no_scale = true, .no_shift = true });
    qg_net_batchnorm(full);
    qg_params *p = qg_net_build(net);
    qg_tape   *t = qg_tape_new(), *u = qg_tape_new();
    assert_true(p && qg_net_build(full));
    assert_null(qg_params_find(p, "bn1.gamma"));
    assert_null(qg_params_find(p, "bn1.beta"));
    assert_int_equal(qg_params_trained(p), 0);
    fill_uniform(image, NUMBERS, -3, 9, 4);
    const qg_var *y = run(net, t, QG_TRAIN, image), *z = run(full, u, QG_TRAIN, image);
    assert_memory_equal(y->data, z->data, sizeof image);        /* gamma 1, beta 0 */
    qg_tape_free(t), qg_tape_free(u), qg_net_free(net), qg_net_free(full);
}

/* There is no offset to become the bias of the folded product. */
static void without_shift_it_is_not_folded_into_a_weight(void **state)
{
    static float image[NUMBERS];
    for (int without = 0; without < 2; without++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .fold_batchnorm = true });
        qg_net_dense(net, (qg_dense_spec){ .out = 3, .weight = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT }) });
        qg_layer *bn = qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .no_shift = without });
        qg_net_dense(net, (qg_dense_spec){ .out = 3, .weight = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT }) });
        qg_net_batchnorm(net);
        assert_non_null(qg_net_build(net));
        assert_true((qg__net_step(net, bn) != NULL) == without);
        qg_tape *t = qg_tape_new();
        run(net, t, QG_TRAIN, image);
        qg_tape_free(t), qg_net_free(net);
    }
}

static void it_may_read_an_earlier_layer(void **state)
{
    qg_net   *net  = begin();
    qg_layer *relu = qg_net_affine(net, 2, -1), *pool = qg_net_mark_output(qg_net_maxpool(net, 2));
    qg_layer *bn   = qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .after = relu });
    assert_non_null(qg_net_build(net));
    assert_ptr_equal(bn->after, relu);
    assert_true(bn->out.h == H && pool->out.h == H / 2);
    qg_net_free(net);
}

static void the_affine_layer_is_a_x_plus_b(void **state)
{
    float    image[NUMBERS], expected[NUMBERS];
    char     text[64];
    qg_net  *net = begin();
    qg_tape *t   = qg_tape_new();
    qg_layer *l  = qg_net_affine(net, 2, -1);
    assert_non_null(qg_net_build(net));
    fill_uniform(image, NUMBERS, 0, 1, 4);
    for (int i = 0; i < NUMBERS; i++) expected[i] = 2 * image[i] - 1;
    assert_memory_equal(run(net, t, QG_TRAIN, image)->data, expected, sizeof expected);
    l->type->describe(l, text, sizeof text);
    assert_string_equal(text, "2 x - 1");
    qg_tape_free(t), qg_net_free(net);
}

/* A layer's own number of steps goes before the net's. */
static void a_layer_freezes_when_it_is_told(void **state)
{
    float   image[NUMBERS], before[2] = { 0 };
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 1, .freeze_batchnorm_after = 4 });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .freeze_after = 2 });
    qg_net_relu(net);
    qg_net_batchnorm(net);
    qg_params *p = qg_net_build(net);
    qg_tape   *t = qg_tape_new();
    assert_non_null(p);
    fill_uniform(image, NUMBERS, -3, 9, 4);
    for (uint64_t step = 0; step < 7; step++) {
        qg_tape_begin(t, QG_TRAIN, 1, step);
        assert_non_null(qg_net_forward(net, t, (qg_tensor){ images, image }));
        for (int i = 0; i < 2; i++) {
            const float now = qg_params_find(p, i ? "bn2.running_mean" : "bn1.running_mean")->value[0];
            assert_int_equal(now != before[i], step < (i ? 4 : 2));
            before[i] = now;
        }
    }
    qg_tape_free(t);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_has_one_mean_for_all),
        cmocka_unit_test(an_estimate_is_evaluation_with_statistics_of_the_batch),
        cmocka_unit_test(whole_folds_nothing),
        cmocka_unit_test(gradients_of_a_whole_norm),
        cmocka_unit_test(scale_and_shift_may_be_left_out),
        cmocka_unit_test(without_shift_it_is_not_folded_into_a_weight),
        cmocka_unit_test(it_may_read_an_earlier_layer),
        cmocka_unit_test(the_affine_layer_is_a_x_plus_b),
        cmocka_unit_test(a_layer_freezes_when_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
