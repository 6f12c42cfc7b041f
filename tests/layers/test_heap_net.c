/* Whole training: after one step of each mode and batch size, nothing reaches the heap. */
#include "tests/support/testing.h"

#include "datasets/loader.h"
#include "layers/models/models.h"
#include "tests/support/nets.h"

/* Linked with -Wl,--wrap for each of these, so that every call from our objects is counted. */
static long heap_calls;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int   __real_posix_memalign(void **p, size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int   __wrap_posix_memalign(void **p, size_t align, size_t bytes);

void *__wrap_malloc(size_t bytes)           { return heap_calls++, __real_malloc(bytes); }
void *__wrap_calloc(size_t n, size_t bytes) { return heap_calls++, __real_calloc(n, bytes); }

void *__wrap_realloc(void *p, size_t bytes) { return heap_calls++, __real_realloc(p, bytes); }

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return heap_calls++, __real_aligned_alloc(align, bytes);
}

int __wrap_posix_memalign(void **p, size_t align, size_t bytes)
{
    return heap_calls++, __real_posix_memalign(p, align, bytes);
}

/* An epoch is four batches of 5 and one of 1; the test set two of 6 and one of 3. */
enum { TRAIN = 21, BATCH = 5, TEST = 15, TEST_BATCH = 6, STEPS = 50 };

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
        assert_in_range(qg_correct(logits, b.y), 0, b.x.shape.n);
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

static void check(const char *model, int side, qg_model_spec spec, bool adam)
{
    const qg_shape image = { 1, side, side, 1 };
    long           calls[STEPS + 1];
    spec.height = spec.width = side, spec.channels = 1, spec.classes = 10;
    run r = { .net = qg_model_declare(qg_model_find(model), spec), .tape = qg_tape_new() };
    qg_params *p = qg_net_build(r.net);
    r.optim = adam ? qg_adam(p, (qg_adam_spec){ .lr = 1e-3f, .weight_decay = 1e-4f })
                   : qg_sgd(p, (qg_sgd_spec){ .lr = 1e-2f, .momentum = 0.9f, .nesterov = true });
    r.train = qg_synthetic(image, TRAIN, 10, (qg_loader_spec){ .batch = BATCH });
    r.test  = qg_synthetic(image, TEST, 10, (qg_loader_spec){ .batch = TEST_BATCH, .in_order = true });
    assert_true(r.optim && r.tape && r.train && r.test);
    const long start = heap_calls;
    train(&r, calls);
    assert_true(calls[0] > start);                  /* the counter counts */
    /* Steps 0..4 are the first epoch; its evaluation warms up the other mode, before step 5. */
    for (int i = 6; i <= STEPS; i++) assert_int_equal(calls[i], calls[5]);
    qg_loader_free(r.test), qg_loader_free(r.train), qg_optim_free(r.optim);
    qg_tape_free(r.tape), qg_net_free(r.net);
}

static void training_stands_still_on_the_heap(void **state)
{
    (void)state;
    const qg_quant sign = qg_binary_activation((qg_binary_activation_spec){ 0 });
    check("lenet5", 28, (qg_model_spec){ .weight = qg_twn((qg_twn_spec){ 0 }) }, true);
    check("lenet5", 28, (qg_model_spec){ .weight = qg_binary((qg_binary_spec){ .per_channel = true }),
                           .input = sign }, false);
    /* Dropped codes, a norm over all scores; sums, shortcuts of two kinds. */
    check("tfc", 8, (qg_model_spec){ .weight = qg_unit((qg_unit_spec){ .zero = true }), .input = qg_unit((qg_unit_spec){ 0 }) },
          true);
    for (int kind = QG_SHORTCUT_POOL; kind <= QG_SHORTCUT_B; kind++)
        check("resnet20", 8, (qg_model_spec){ .input  = sign,
                                           .option = { [QG_MODEL_ORDER]    = QG_PRE_ACTIVATION,
                                                       [QG_MODEL_SHORTCUT] = kind } }, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(training_stands_still_on_the_heap) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
