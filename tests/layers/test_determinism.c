/* The same binary, seed and data give the same bits: for any number of threads, and resumed. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/kernels/parallel.h"
#include "datasets/dataset.h"
#include "layers/models/models.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { STEPS = 10, HALF = 5, BATCH = 17 };

typedef struct run {
    qg_net    *net;
    qg_optim  *optim;
    qg_tape   *tape;
    qg_loader *train;
} run;

enum { TERNARY, DRAWS, FOLDED, INTEGERS, NETS };

/* A net that draws numbers as it trains. */
static qg_net *drawing_net(qg_quant weight)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1, .seed = 11 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 33, .kernel = 3, .stride = 2, .weight = weight });
    qg_net_batchnorm(net), qg_net_relu(net), qg_net_dropout(net, 0.5f);
    qg_net_dense(net, (qg_dense_spec){ .out = 65 });
    qg_net_batchnorm(net), qg_net_hardtanh(net), qg_net_dropout(net, 0.25f);
    qg_net_dense(net, (qg_dense_spec){ .out = 10, .weight = weight });
    return net;
}

static run run_new(int which)
{
    const qg_quant twn  = qg_twn((qg_twn_spec){ 0 });
    qg_quant       late = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_CURRENT, .per_channel = true });
    late.after          = 1;
    qg_model_spec spec  = { .height = 28, .width = 28, .channels = 1, .classes = 10, .seed = 11, .weight = twn };
    if (which == FOLDED) spec.weight = late, spec.fold_batchnorm = true, spec.freeze_batchnorm_after = 3;
    if (which == INTEGERS) {
        spec.weight   = qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 1 });
        spec.input    = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 });
        spec.gradient = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 6 });
    }
    run r = { .tape = qg_tape_new() };
    r.net = which == DRAWS ? drawing_net(twn) : qg_model_declare(qg_model_find("lenet5"), spec);
    r.optim = qg_adam(qg_net_build(r.net), (qg_adam_spec){ .lr = 1e-3f });
    r.train = qg_data_train("sample", "datasets/sample", (qg_loader_spec){ .batch = BATCH, .seed = 11 });
    if (!r.optim || !r.train) fail_msg("%s", qg_errmsg());
    return r;
}

static void run_free(run *r)
{
    qg_loader_free(r->train), qg_optim_free(r->optim), qg_net_free(r->net), qg_tape_free(r->tape);
}

static void train(run *r, int steps)
{
    qg_batch b;
    while (steps-- > 0 && qg_loader_next(r->train, &b)) train_step(r->net, r->tape, r->optim, b.x, b.y, b.step);
}

static uint64_t digest(const run *r) { return qg_params_digest(qg_net_params(r->net)); }

static uint64_t straight(int which)
{
    run r = run_new(which);
    const uint64_t before = digest(&r);
    train(&r, STEPS);
    const uint64_t after = digest(&r);
    assert_true(before != after);
    run_free(&r);
    return after;
}

/* What ten steps on one thread end in. */
static uint64_t expected[NETS];

static void threads_change_no_bit(void **state)
{
    for (int net = 0; net < NETS; net++)
        for (int threads = 2; threads <= 3; threads++) {
            qg_set_threads(threads);
            assert_true(straight(net) == expected[net]);
        }
    qg_set_threads(0);
}

static void a_fresh_tape_changes_no_bit(void **state)
{
    for (int net = 0; net < NETS; net++) {
        run r = run_new(net);
        train(&r, HALF);
        qg_tape_free(r.tape);
        r.tape = qg_tape_new();
        train(&r, STEPS - HALF);
        assert_true(digest(&r) == expected[net]);
        run_free(&r);
    }
}

static qg_state *state_of(const run *r)
{
    qg_state *s = qg_state_new();
    assert_non_null(s);
    qg_net_state(r->net, s);
    qg_optim_state(r->optim, s);
    return s;
}

/* Everything that a run is, through a file, into objects that know nothing of each other. */
static void a_file_in_between_changes_no_bit(void **state)
{
    const char *path = scratch_file();
    for (int net = 0; net < NETS; net++) {
        run before = run_new(net), after = run_new(net);
        train(&before, HALF);
        train(&after, 1);           /* overwritten by what is loaded */
        qg_state *saved = state_of(&before), *loaded = state_of(&after);
        assert_ok(qg_state_save(saved, path));
        if (qg_state_load(loaded, path)) fail_msg("%s", qg_errmsg());
        qg_state_free(saved), qg_state_free(loaded);
        assert_true(digest(&after) == digest(&before));
        assert_ok(qg_loader_seek(after.train, 0, HALF));
        train(&after, STEPS - HALF);
        assert_true(digest(&after) == expected[net]);
        run_free(&before), run_free(&after);
    }
}

static int run_straight(void **state)
{
    qg_set_threads(1);
    for (int net = 0; net < NETS; net++) expected[net] = straight(net);
    qg_set_threads(0);
    return 0;
}

/* Configurations and logs hold these digests, and a seed is to mean the same net and order in every
 * version: initial weights, images, their order. */
static void what_files_depend_on_stays(void **state)
{
    qg_net *net = qg_model_declare(qg_model_find("lenet5"),
                                   (qg_model_spec){ .height = 28, .width = 28, .channels = 1, .classes = 10, .seed = 1 });
    assert_true(qg_params_digest(qg_net_build(net)) == 0x152f7110c07f5d0fu);
    qg_loader *l = qg_data_test("sample", "datasets/sample", (qg_loader_spec){ .batch = 8, .seed = 3 });
    qg_batch   b;
    assert_true(qg__loader_digest(l) == 0x3ada39eca85a975cu);
    assert_true(qg_loader_next(l, &b));
    assert_memory_equal(b.y, ((const uint16_t[]){ 2, 3, 5, 7, 9, 2, 9, 8 }), 8 * sizeof *b.y);
    qg_loader_free(l);
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_fresh_tape_changes_no_bit),
        cmocka_unit_test(a_file_in_between_changes_no_bit),
        cmocka_unit_test(what_files_depend_on_stays),
    };
    return cmocka_run_group_tests(tests, run_straight, NULL);
}
