#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/profile.h"
#include "layers/plan.h"

enum { SIDE = 7, BATCH = 5, CLASSES = 3, STEPS = 5 };

typedef struct small {
    qg_net    *net;
    qg_params *params;
    qg_tape   *tape;
    qg_profile profile;
    float      loss;
} small;

static void open_small(small *s, qg_net_spec spec, qg_quant weight)
{
    spec.height = spec.width = SIDE;
    spec.channels            = 1;
    spec.seed                = 3;
    *s     = (small){ .net = qg_net_new(spec), .tape = qg_tape_new() };
    qg_net_conv2d(s->net, (qg_conv2d_spec){ .out = 3, .kernel = 3, .weight = weight });
    qg_net_batchnorm(s->net);
    qg_net_relu(s->net);
    qg_net_maxpool(s->net, 2);
    qg_net_dense(s->net, (qg_dense_spec){ .out = CLASSES, .weight = weight });
    qg_net_batchnorm(s->net);
    s->params = qg_net_build(s->net);
    if (!s->params) fail_msg("%s", qg_errmsg());
    assert_non_null(s->tape);
    qg_tape_profile(s->tape, &s->profile);
}

static void close_small(small *s)
{
    qg_tape_free(s->tape);
    qg_net_free(s->net);
}

static void run(small *s, qg_mode mode, uint64_t step)
{
    static float         images[BATCH * SIDE * SIDE];
    static const uint16_t labels[BATCH] = { 0, 2, 1, 2, 0 };
    fill_uniform(images, BATCH * SIDE * SIDE, -1.0f, 1.0f, step + 7);
    s->profile.rows = 0;
    qg_tape_begin(s->tape, mode, 1, step);
    qg_var *y = qg_net_forward(s->net, s->tape, (qg_tensor){ { BATCH, SIDE, SIDE, 1 }, images });
    qg_var *l = qg_cross_entropy(s->tape, y, labels);
    if (!l) fail_msg("%s", qg_errmsg());
    s->loss = l->data[0];
    qg_params_clear_gradients(s->params);
    if (mode == QG_TRAIN) assert_ok(qg_backward(s->tape, l));
}

static void step_small(small *s, uint64_t step)
{
    run(s, QG_TRAIN, step);
    for (size_t i = 0; i < s->params->length; i++) s->params->value[i] -= 0.05f * s->params->grad[i];
}

static int calls(const small *s, const char *op)
{
    for (int i = 0; i < s->profile.rows; i++)
        if (!strcmp(s->profile.row[i].op, op)) return s->profile.row[i].calls;
    return 0;
}

static qg_quant int8_weights(uint64_t after)
{
    qg_quant q = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT, .per_channel = true });
    q.after    = after;
    return q;
}

/* A quantizer that waits lets the folded weight pass. */
static void a_folded_net_computes_what_was_declared(void **state)
{
    small folded, plain;
    open_small(&folded, (qg_net_spec){ .fold_batchnorm = true, .freeze_batchnorm_after = 3 }, int8_weights(99));
    open_small(&plain, (qg_net_spec){ .freeze_batchnorm_after = 3 }, int8_weights(99));
    assert_int_equal(folded.params->count, plain.params->count);
    for (uint64_t step = 0; step < STEPS; step++) {
        step_small(&folded, step);
        step_small(&plain, step);
        assert_int_equal(calls(&folded, "norm"), 0);
        assert_int_equal(calls(&folded, "fold_weight"), 2);
        assert_int_equal(calls(&folded, "fold_correct"), step < 3 ? 2 : 0);
        assert_int_equal(calls(&folded, "conv2d"), step < 3 ? 2 : 1);
        assert_int_equal(calls(&plain, "norm"), 2);
        /* The order of some hundred roundings differs, and steps pass it on. */
        assert_close(&folded.loss, &plain.loss, 1, 1e-4);
        for (int i = 0; i < plain.params->count; i++) {
            const qg_param *a = folded.params->item[i], *b = plain.params->item[i];
            assert_string_equal(a->name, b->name);
            assert_close(a->value, b->value, qg_count(a->shape), 1e-4);
        }
        run(&folded, QG_EVAL, step + 1);
        run(&plain, QG_EVAL, step + 1);
        assert_int_equal(calls(&folded, "conv2d"), 1);
        assert_close(&folded.loss, &plain.loss, 1, 1e-4);
    }
    close_small(&folded);
    close_small(&plain);
}

static void open_depthwise(small *s, bool fold)
{
    *s = (small){ .tape = qg_tape_new(),
                  .net  = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 3, .fold_batchnorm = fold }) };
    qg_net_conv2d(s->net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .stride = 2, .same = true, .weight = int8_weights(99) });
    qg_net_batchnorm(s->net);
    qg_net_conv2d(s->net, (qg_conv2d_spec){ .kernel = 3, .pad = 1, .groups = QG_DEPTHWISE, .weight = int8_weights(99) });
    qg_net_batchnorm(s->net);
    qg_net_conv2d(s->net, (qg_conv2d_spec){ .out = 4, .kernel = 1, .groups = 2, .weight = int8_weights(99) });
    qg_net_batchnorm(s->net);
    qg_net_dense(s->net, (qg_dense_spec){ .out = CLASSES });
    s->params = qg_net_build(s->net);
    if (!s->params) fail_msg("%s", qg_errmsg());
    qg_tape_profile(s->tape, &s->profile);
}

static void batch_norms_of_grouped_convolutions_fold(void **state)
{
    small folded, plain;
    open_depthwise(&folded, true);
    open_depthwise(&plain, false);
    for (uint64_t step = 0; step < STEPS; step++) {
        step_small(&folded, step);
        step_small(&plain, step);
        assert_int_equal(calls(&folded, "norm"), 0);
        assert_int_equal(calls(&folded, "depthwise"), 2);
        assert_int_equal(calls(&plain, "depthwise"), 1);
        assert_close(&folded.loss, &plain.loss, 1, 1e-4);       /* as above */
    }
    run(&folded, QG_EVAL, STEPS);
    run(&plain, QG_EVAL, STEPS);
    assert_close(&folded.loss, &plain.loss, 1, 1e-4);
    close_small(&folded);
    close_small(&plain);
}

static void statistics_freeze(void **state)
{
    for (int fold = 0; fold < 2; fold++) {
        small s;
        open_small(&s, (qg_net_spec){ .fold_batchnorm = fold, .freeze_batchnorm_after = 2 }, int8_weights(0));
        const qg_param *mean = qg_params_find(s.params, "bn1.running_mean");
        assert_non_null(mean);
        float before[3];
        for (uint64_t step = 0; step < STEPS; step++) {
            memcpy(before, mean->value, sizeof before);
            step_small(&s, step);
            assert_int_equal(memcmp(before, mean->value, sizeof before) == 0, step >= 2);
        }
        close_small(&s);
    }
}

/* What is quantized is the folded weight: its codes have the scale max|w gamma / s| / 127. */
static void the_folded_weight_is_quantized(void **state)
{
    small folded, plain;
    open_small(&folded, (qg_net_spec){ .fold_batchnorm = true }, int8_weights(0));
    open_small(&plain, (qg_net_spec){ 0 }, int8_weights(0));
    for (uint64_t step = 0; step < STEPS; step++) step_small(&folded, step);
    assert_int_equal(calls(&folded, "fake_quant"), 2);
    for (int i = 0; i < plain.params->count; i++)
        memcpy(plain.params->item[i]->value, folded.params->item[i]->value,
               qg_count(plain.params->item[i]->shape) * sizeof(float));
    run(&folded, QG_EVAL, 0);
    run(&plain, QG_EVAL, 0);
    /* Per channel a factor does not move the levels, so both quantize alike up to a tie. */
    assert_close(&folded.loss, &plain.loss, 1, 1e-4);
    close_small(&folded);
    close_small(&plain);
}

/* Keeps what it was asked to quantize. */
static qg_tensor asked;

static qg_var *keep(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    if (x->shape.h == 3) asked = (qg_tensor){ x->shape, x->data };     /* a kernel of 3: conv1 */
    return x;
}

static const qg_scheme keeper = { .name = "keeper", .roles = QG_WEIGHT, .apply = keep };

/* qg__product_weight is what the quantizer gets: bit by bit. */
static void a_product_tells_what_its_quantizer_sees(void **state)
{
    float folded[3 * 9];
    for (int fold = 0; fold < 2; fold++) {
        small s;
        open_small(&s, (qg_net_spec){ .fold_batchnorm = fold }, (qg_quant){ .scheme = &keeper, .bits = 8 });
        for (uint64_t step = 0; step < STEPS; step++) step_small(&s, step);
        run(&s, QG_EVAL, STEPS);
        const qg_product *conv1 = qg_layer_product(qg_net_layer(s.net, 0));
        const qg_tensor   w     = qg__product_weight(conv1, fold ? folded : NULL);
        assert_true(qg_shape_equal(w.shape, asked.shape));
        assert_memory_equal(w.data, asked.data, sizeof folded);
        assert_true((w.data == conv1->weight->value) == !fold);
        close_small(&s);
    }
}

/* One range for the tensor does see the factors: then the two differ. */
static void one_range_sees_the_factors(void **state)
{
    const qg_quant q = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT, .bits = 3 });
    small          folded, plain;
    open_small(&folded, (qg_net_spec){ .fold_batchnorm = true }, q);
    open_small(&plain, (qg_net_spec){ 0 }, q);
    qg_params_find(folded.params, "bn1.gamma")->value[0] = 3.0f;
    qg_params_find(plain.params, "bn1.gamma")->value[0]  = 3.0f;
    run(&folded, QG_EVAL, 0);
    run(&plain, QG_EVAL, 0);
    assert_true(fabsf(folded.loss - plain.loss) > 1e-3f);
    close_small(&folded);
    close_small(&plain);
}

/* The layers of open_small, but their weights and batch norms are not for folding. */
static void a_net_without_anything_to_fold_is_refused(void **state)
{
    small s = { .net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .fold_batchnorm = true }) };
    qg_net_conv2d(s.net, (qg_conv2d_spec){ .out = 3, .kernel = 3 });
    qg_net_batchnorm(s.net);
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .weight = int8_weights(0) });
    qg_net_batchnorm_with(s.net, (qg_batchnorm_spec){ .no_shift = true });
    assert_null(qg_net_build(s.net));
    assert_int_equal(qg_errcode(), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "fold_batchnorm"));
    close_small(&s);
}

static void stop(qg_tape *t, qg_var *y) {}

static qg_var *block(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned)
{
    static const qg_op op = { .name = "block", .backward = stop };
    qg_var            *y  = qg_record(t, &op, x->shape, x, NULL, NULL);
    if (y) memcpy(y->data, x->data, qg_count(x->shape) * sizeof *y->data);
    return y;
}

static bool all_zero(const qg_params *params, const char *name)
{
    const qg_param *p = qg_params_find(params, name);
    for (size_t i = 0; i < qg_count(p->shape); i++)
        if (p->grad[i] != 0.0f) return false;
    return true;
}

/* The gradient quantizer stands between the norm and both products, not after the norm. */
static void the_gradient_of_the_products_is_quantized(void **state)
{
    static const qg_scheme blocker = { .name = "blocker", .roles = QG_GRADIENT, .apply = block };
    for (int blocks = 0; blocks < 2; blocks++) {
        small s = { .net  = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .fold_batchnorm = true }),
                    .tape = qg_tape_new() };
        qg_net_dense(s.net, (qg_dense_spec){ .out      = CLASSES,
                                             .weight   = int8_weights(0),
                                             .gradient = { .scheme = blocks ? &blocker : NULL, .bits = 8 } });
        qg_net_batchnorm(s.net);
        s.params = qg_net_build(s.net);
        assert_non_null(s.params);
        qg_tape_profile(s.tape, &s.profile);
        run(&s, QG_TRAIN, 0);
        assert_int_equal(calls(&s, "block"), 2 * blocks);
        assert_true(all_zero(s.params, "fc1.weight") == blocks);
        assert_false(all_zero(s.params, "bn1.gamma"));
        assert_false(all_zero(s.params, "bn1.beta"));
        close_small(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folded_net_computes_what_was_declared),
        cmocka_unit_test(batch_norms_of_grouped_convolutions_fold),
        cmocka_unit_test(statistics_freeze),
        cmocka_unit_test(the_folded_weight_is_quantized),
        cmocka_unit_test(a_product_tells_what_its_quantizer_sees),
        cmocka_unit_test(one_range_sees_the_factors),
        cmocka_unit_test(a_net_without_anything_to_fold_is_refused),
        cmocka_unit_test(the_gradient_of_the_products_is_quantized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
