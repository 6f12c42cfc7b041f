/* After one step of each mode and batch size, no step reaches the heap: ops, nets and whole training.  An
 * exhausted heap is a failure like any other. */
#include "tests/support/testing.h"

#include <stdlib.h>

#include "core/ops/ops.h"
#include "datasets/loader.h"
#include "layers/models/models.h"
#include "optim/optim.h"
#include "quant/scheme.h"
#include "tests/support/heap.h"
#include "tests/support/nets.h"

enum { BATCH = 33, ODD = 7, H = 31, W = 33, C = 5 };

typedef struct small_net {
    qg_tape  *tape;
    qg_params p;
    qg_param *scale, *shift;
    float    *images;
    uint16_t   labels[BATCH];
} small_net;

/* Every op that takes scratch or saves something, and gradients of several sizes. */
static void step(small_net *net, qg_mode mode, int batch, uint64_t at)
{
    qg_tape *t = net->tape;
    qg_tape_begin(t, mode, 1, at);
    qg_var *x = qg_input(t, (qg_tensor){ { batch, H, W, C }, net->images });
    qg_var *v = qg_bias(t, x, qg_parameter(t, net->shift));
    v         = qg_add(t, qg_relu(t, v), qg_hardtanh(t, qg_scale(t, v, 0.5f)));
    v         = qg_dropout(t, qg_maxpool(t, v, 2), 0.5f);
    v         = qg_maxpool_with(t, v, (qg_pool_spec){ .size = 3, .stride = 1, .pad = 1 });
    v         = qg_global_avgpool(t, qg_avgpool(t, v, 3));
    v         = qg_bias(t, v, qg_parameter(t, net->scale));
    v         = qg_rprelu(t, v, qg_parameter(t, net->shift), qg_parameter(t, net->scale), qg_parameter(t, net->shift));
    v         = qg_sub(t, v, qg_broadcast(t, qg_mean(t, v, QG_AXIS_N), v->shape));
    v         = qg_slice(t, qg_concat(t, 2, (qg_var *[]){ v, qg_softmax(t, v) }), (qg_shape){ .c = 2 },
                         (qg_shape){ .c = C });
    qg_var *loss = qg_cross_entropy(t, v, net->labels);
    loss         = qg_add(t, loss, qg_squared_hinge(t, v, net->labels));
    loss         = qg_add(t, loss, qg_add(t, qg_kl(t, v, qg_sigmoid(t, v), 2), qg_mse(t, v, qg_mul(t, v, v))));
    if (mode == QG_TRAIN) assert_ok(qg_backward(t, loss));
    assert_ok(qg_tape_status(t));
}

static void no_heap_after_the_first_step(void **state)
{
    small_net net = { .tape = qg_tape_new() };
    net.scale     = declare(&net.p, "scale", (qg_shape){ 1, 1, 1, C });
    net.shift     = declare(&net.p, "shift", (qg_shape){ 1, 1, 1, C });
    allocate_apart(&net.p, 1);
    net.images = malloc((size_t)BATCH * H * W * C * sizeof *net.images);
    assert_non_null(net.images);
    fill_uniform(net.images, (size_t)BATCH * H * W * C, -1, 1, 2);
    for (int i = 0; i < BATCH; i++) net.labels[i] = (uint8_t)(i % C);

    const long start = heap_calls;
    step(&net, QG_TRAIN, BATCH, 0);
    step(&net, QG_TRAIN, ODD, 1);
    step(&net, QG_EVAL, BATCH, 0);
    assert_true(heap_calls > start);        /* the counter counts */
    const long warm = heap_calls;
    for (uint64_t i = 2; i <= 50; i++) {
        step(&net, QG_TRAIN, i % 10 == 0 ? ODD : BATCH, i);
        if (i % 7 == 0) step(&net, QG_EVAL, BATCH, i);
        assert_int_equal(heap_calls, warm);
    }
    free(net.images);
    qg_tape_free(net.tape);
    qg_params_release(&net.p);
}

/* Weight, input, gradient: schemes that save, learn, draw, scale the output or flip. */
static void no_heap_in_nets_with_schemes(void **state)
{
    const qg_quant none = { 0 }, sign = qg_sign((qg_sign_spec){ { 0 } });
    const qg_quant nets[][3] = {
        { qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 3, .through_max = true }),
          qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 }),
          qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 6 }) },
        { qg_ttq((qg_ttq_spec){ 0 }), none,
          qg_stochastic_gradient((qg_stochastic_gradient_spec){ .percentile = 99 }) },
        { qg_twn((qg_twn_spec){ .per_channel = true }), none, none },
        { qg_xnor((qg_xnor_spec){ 0 }), qg_xnor_activation((qg_xnor_activation_spec){ 0 }), none },
        { qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC }), none, none },
        { qg_magnitude_aware((qg_magnitude_aware_spec){ .as_paper = true }), sign, none },
        { qg_bop_weight(), sign, none },
        { qg_qdq((qg_qdq_spec){ .per_channel = true }), qg_qdq((qg_qdq_spec){ .bits = 4 }), none },
    };
    static float   images[BATCH * 9 * 9 * C];
    static uint16_t labels[BATCH];
    fill_uniform(images, BATCH * 9 * 9 * C, -1, 1, 2);
    for (int k = 0; k < COUNT(nets); k++) {
        const qg_quant w = nets[k][0], x = nets[k][1], g = nets[k][2];
        qg_net *net = qg_net_new((qg_net_spec){ .height = 9, .width = 9, .channels = C, .seed = 1 });
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = 17, .kernel = 3, .weight = w, .gradient = g });
        qg_net_batchnorm(net);
        qg_net_conv2d(net,
                      (qg_conv2d_spec){ .out = 17, .kernel = 3, .weight = w, .input = x, .gradient = g });
        qg_net_batchnorm(net);
        qg_net_dense(net, (qg_dense_spec){ .out = 3, .weight = w, .input = x, .gradient = g });
        qg_params *p = qg_net_build(net);
        assert_non_null(p);
        const qg_adam_spec adam = { .lr = 0.01f };
        qg_optim *o = w.scheme->flips ? qg_bop(p, (qg_bop_spec){ .rest = adam }) : qg_adam(p, adam);
        qg_tape  *t = qg_tape_new();
        long      warm = 0;
        for (uint64_t i = 0; i <= 20; i++) {
            const qg_mode mode  = i % 3 == 1 ? QG_EVAL : QG_TRAIN;
            const int     batch = i % 5 == 2 ? ODD : BATCH;
            qg_tape_begin(t, mode, 1, i);
            qg_var *loss = qg_cross_entropy(
                t, qg_net_forward(net, t, (qg_tensor){ { batch, 9, 9, C }, images }), labels);
            if (mode == QG_TRAIN) assert_int_equal(qg_backward(t, loss) || qg_optim_step(o), 0);
            assert_ok(qg_tape_status(t));
            if (i == 2) warm = heap_calls;      /* each mode and batch size has been there */
            if (i > 2) assert_int_equal(heap_calls, warm);
        }
        qg_tape_free(t);
        qg_optim_free(o);
        qg_net_free(net);
    }
}

/* --- whole training ------------------------------------------------------------------------ */

/* An epoch is four batches of 5 and one of 1; the test set two of 6 and one of 3. */
enum { TRAIN = 21, TRAIN_BATCH = 5, TEST = 15, TEST_BATCH = 6, STEPS = 50 };

typedef struct run {
    qg_net    *net;
    qg_optim  *optim;
    qg_tape   *tape;
    qg_loader *train, *test;
} run;

static void evaluate(const run *r, uint64_t step)
{
    for (qg_batch b; qg_loader_next(r->test, &b); ) {
        qg_tape_begin(r->tape, QG_EVAL, 0, step);
        const qg_var *logits = qg_net_forward(r->net, r->tape, b.x);
        assert_non_null(logits);
        assert_in_range(qg_count_correct(logits, b.y), 0, b.x.shape.n);
    }
}

/* The heap count after each step, and the evaluation that ends an epoch. */
static void train(run *r, long calls[STEPS + 1])
{
    int      batches = 0;
    qg_batch b;
    while (batches <= STEPS) {
        if (!qg_loader_next(r->train, &b)) {
            evaluate(r, (uint64_t)batches);
            continue;
        }
        train_step(r->net, r->tape, r->optim, b.x, b.y, b.step);
        calls[batches++] = heap_calls;
    }
}

typedef struct training {
    const char   *model;
    int           side;
    qg_model_spec spec;
    bool          adam;
} training;

static void check(const training *c)
{
    const qg_shape image = { 1, c->side, c->side, 1 };
    qg_model_spec  spec  = c->spec;
    long           calls[STEPS + 1];
    spec.height = spec.width = c->side, spec.channels = 1, spec.classes = 10;
    run        r = { .net = qg_model_declare(qg_model_find(c->model), spec), .tape = qg_tape_new() };
    qg_params *p = qg_net_build(r.net);
    r.optim = c->adam ? qg_adam(p, (qg_adam_spec){ .lr = 1e-3f, .weight_decay = 1e-4f })
                      : qg_sgd(p, (qg_sgd_spec){ .lr = 1e-2f, .momentum = 0.9f, .nesterov = true });
    r.train = qg_synthetic(image, TRAIN, 10, (qg_loader_spec){ .batch = TRAIN_BATCH });
    r.test  = qg_synthetic(image, TEST, 10, (qg_loader_spec){ .batch = TEST_BATCH, .in_order = true });
    assert_true(r.optim && r.tape && r.train && r.test);
    const long start = heap_calls;
    train(&r, calls);
    assert_true(calls[0] > start);                  /* the counter counts */
    /* Steps 0..4 are the first epoch; its evaluation warms up the other mode, before step 5. */
    for (int i = 6; i <= STEPS; i++)
        if (calls[i] != calls[5]) fail_msg("%s: %ld heap calls by step %d", c->model, calls[i] - calls[5], i);
    qg_loader_free(r.test), qg_loader_free(r.train), qg_optim_free(r.optim);
    qg_tape_free(r.tape), qg_net_free(r.net);
}

static void no_heap_in_training(void **state)
{
    const qg_quant sign = qg_sign((qg_sign_spec){ 0 });
    const training trainings[] = {
        { "lenet5", 28, { .weight = qg_twn((qg_twn_spec){ 0 }) }, true },
        { "lenet5", 28, { .weight = qg_binary((qg_binary_spec){ .per_channel = true }), .input = sign }, false },
        /* Dropped codes, a norm over all scores; sums, shortcuts of two kinds. */
        { "tfc", 8, { .weight = qg_unit((qg_unit_spec){ .zero = true }), .input = qg_unit((qg_unit_spec){ 0 }) }, true },
        { "resnet20", 8,
          { .input = sign, .option = { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_POOL } },
          false },
        { "resnet20", 8,
          { .input = sign, .option = { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_B } },
          false },
    };
    for (int i = 0; i < COUNT(trainings); i++) check(&trainings[i]);
}

/* --- an exhausted heap --------------------------------------------------------------------- */

static void exhaust(bool on)
{
    heap_denied    = on;            /* the first call, and so each */
    heap_denies_on = on;
}

static void an_exhausted_heap_is_reported(void **state)
{
    static float large[3 << 20];        /* more than an arena's first block */
    qg_params    p = { 0 };
    qg_tape     *t = qg_tape_new();
    exhaust(true);
    assert_none(qg_tape_new(), "out of memory");
    assert_null(qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 1, 1, 1, 1 } }));
    assert_null(p.item);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_null(qg_input(t, (qg_tensor){ { 1, 1, 1, 3 << 20 }, large }));
    assert_failed(qg_backward(t, NULL), QG_EMEM, "input: out of memory: ");
    exhaust(false);
    qg_tape_begin(t, QG_TRAIN, 1, 1);   /* and the tape goes on when there is memory again */
    qg_var *x = qg_input(t, (qg_tensor){ { 1, 1, 1, 3 << 20 }, large });
    assert_non_null(x);
    exhaust(true);
    assert_null(qg_relu(t, x));
    assert_failed(qg_backward(t, NULL), QG_EMEM, "relu: out of memory: ");
    exhaust(false);
    assert_non_null(qg_params_declare(&p, (qg_param){ .name = "w", .shape = { 1, 1, 1, 3 << 20 } }));
    exhaust(true);
    assert_failed(qg_params_allocate(&p), QG_EMEM, "parameters: out of memory: ");
    exhaust(false);
    qg_tape_free(t);
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_heap_after_the_first_step),
        cmocka_unit_test(no_heap_in_nets_with_schemes),
        cmocka_unit_test(no_heap_in_training),
        cmocka_unit_test(an_exhausted_heap_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
