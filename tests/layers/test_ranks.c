/* Ranks share each batch and end with the bits of one process, for any number of ranks and threads.  They are processes
 * that reach each other over sockets; tests/ranks.sh has the same over MPI. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/kernels/parallel.h"
#include "core/io/hash.h"
#include "core/ops/ops.h"
#include "core/dist/exchange.h"
#include "datasets/loader.h"
#include "layers/models/models.h"
#include "optim/optim.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"
#include "tests/support/ranks.h"

enum { IMAGES = 54, BATCH = 24, SIDE = 8, CLASSES = 10 };   /* the last batch has 6 images */

typedef struct problem {
    const char *name;
    const char *text;                   /* of the net */
    qg_model_spec spec;                 /* with its quantizers */
    qg_shape    image;
    qg_var   *(*loss)(qg_tape *t, qg_var *scores, const uint16_t *labels);
    qg_net   *(*declare)(const struct problem *p);  /* instead of text */
    int         batch;                  /* 0: BATCH */
} problem;

static qg_net *declare_text(const problem *p)
{
    qg_model_spec spec = p->spec;
    spec.height = p->image.h, spec.width = p->image.w, spec.channels = p->image.c;
    spec.classes = CLASSES, spec.seed = 5, spec.text = p->text;
    return qg_model_declare(&qg_model_text, spec);
}

/* What texts do not have. */
static qg_net *declare_layers(const problem *p)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = p->image.h, .width = p->image.w, .channels = p->image.c, .seed = 5 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1 });
    qg_net_rprelu(net, (qg_prelu_spec){ 0 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .stride = 2, .groups = 8, .input = p->spec.input });
    qg_net_prelu(net, (qg_prelu_spec){ 0 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 16, .kernel = 3, .groups = 2, .pad = 1 });
    qg_net_quantize(net, p->spec.input);
    qg_net_dropout(net, 0.25f);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .input = p->spec.input });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true });
    return net;
}

static qg_var *means_and_sums(qg_tape *t, qg_var *scores, const uint16_t *labels)
{
    qg_var *mean   = qg_mean(t, scores, QG_AXIS_N);
    qg_var *spread = scores ? qg_mse(t, scores, qg_broadcast(t, mean, scores->shape)) : NULL;
    qg_var *each   = qg_mean(t, scores, QG_AXIS_C);                                     /* of each image */
    qg_var *within = scores ? qg_mse(t, scores, qg_broadcast(t, each, scores->shape)) : NULL;
    qg_var *both   = qg_scale(t, qg_add(t, spread, within), 0.1f);
    return qg_add(t, qg_cross_entropy(t, scores, labels), qg_add(t, both, qg_mean(t, mean, QG_AXES)));
}

static void fail_rank(const char *what, const char *why)
{
    fprintf(stderr, "%s, rank %d of %d: %s\n", what, qg_rank(), qg_ranks(), why);
    fflush(NULL);
    _exit(1);
}

static uint64_t train(void *context)
{
    const problem *p = context;
    static uint8_t  images[IMAGES * SIDE * SIDE * 3];
    static uint16_t labels[IMAGES];
    const size_t   row = qg_row(p->image);
    for (size_t i = 0; i < IMAGES * row; i++) images[i] = (uint8_t)(i * i * 7 + i / row * 31 + i / 5);
    for (int i = 0; i < IMAGES; i++) labels[i] = (uint16_t)(i % CLASSES);
    qg_shape shape  = p->image;
    shape.n         = IMAGES;
    qg_loader *data = qg_arrays(shape, images, labels, CLASSES,
                                (qg_loader_spec){ .batch = p->batch ? p->batch : BATCH, .seed = 3,
                                                  .augment = { .pad = 1, .flip = true } });
    qg_net    *net  = p->declare ? p->declare(p) : declare_text(p);
    qg_tape   *tape = qg_tape_new();
    qg_params *params = qg_net_build(net);
    qg_optim  *optim  = qg_adam(params, (qg_adam_spec){ .lr = 1e-3f });
    if (!data || !optim || !tape) fail_rank(p->name, qg_errmsg());
    double   seen = 0;
    int      right = 0;
    for (int epoch = 0; epoch < 2; epoch++)
        for (qg_batch b; qg_loader_next(data, &b);) {
            qg_tape_begin(tape, epoch ? QG_EVAL : QG_TRAIN, 9, b.step);
            qg_var *scores = qg_net_forward(net, tape, b.x);
            qg_var *loss   = (p->loss ? p->loss : qg_cross_entropy)(tape, scores, b.y);
            if (!loss) fail_rank(p->name, qg_errmsg());
            seen += (double)loss->data[0] * b.n;
            right += qg_count_correct(scores, b.y);
            if (epoch) continue;
            if (qg_backward(tape, loss) || qg_optim_step(optim)) fail_rank(p->name, qg_errmsg());
        }
    const uint64_t digest = qg_params_digest(params);
    qg_optim_free(optim), qg_net_free(net), qg_tape_free(tape), qg_loader_free(data);
    return qg_hash(qg_hash(digest, &seen, sizeof seen), &right, sizeof right);
}

/* On 1, 2 and so many ranks. */
static void assert_same_bits(const problem *p, int most)
{
    const int      ranks[] = { 2, most };
    const uint64_t one = run_ranks(1, 1, train, (void *)(uintptr_t)p);
    for (int i = 0; i < COUNT(ranks); i++)
        if (run_ranks(ranks[i], 1 + i % 2, train, (void *)(uintptr_t)p) != one)
            fail_msg("%s: %d ranks end in other bits than one", p->name, ranks[i]);
    if (most == 16 && run_ranks(1, 3, train, (void *)(uintptr_t)p) != one)
        fail_msg("%s: three threads end in other bits than one", p->name);
}

static void ranks_change_no_bit(void **state)
{
    const qg_shape image = { 0, SIDE, SIDE, 3 };
    const qg_quant twn = qg_twn((qg_twn_spec){ 0 }), lsq = qg_lsq((qg_lsq_spec){ .is_signed = true, .bits = 4 });
    const qg_quant pact = qg_pact((qg_pact_spec){ .bits = 2 }), xnor = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    const qg_quant ranges = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_LEARNED, .per_channel = true });
    const qg_quant seen   = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_PERCENTILE });
    const problem  rows[] = {
        { "convolutions", "16C3p1-BN-R-MP2-16C3p1-BN-R-512C1-BN-R-MP2-300FC-BN-R-10", .image = image, .spec = { .weight = twn, .input = pact } },
        { "large weights", "64C3p1-BN-R-512C3s2-BN-R-160C3p1-R-10", .image = image, .spec = { .input = seen } },
        { "dorefa", "16C3p1-BN-R-16C3p1-BN-R-10", .image = image,
          .spec = { .weight = qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 1 }),
                    .input = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 }),
                    .gradient = qg_dorefa_gradient((qg_dorefa_gradient_spec){ .bits = 6 }) } },
        { "stochastic", "16C3p1-BN-R-16C3p1-BN-R-10", .image = image,
          .spec = { .weight = twn, .gradient = qg_stochastic_gradient((qg_stochastic_gradient_spec){ 0 }) } },
        { "stochastic, percentile", "16C3p1-BN-R-16C3p1-BN-R-10", .image = image,
          .spec = { .gradient = qg_stochastic_gradient((qg_stochastic_gradient_spec){ .percentile = 99 }) } },
        { "in integers", "16C3p1-BN-R-33C3s2-BN-R-16C1-R-10", .image = image, .batch = 17,
          .spec = { .weight = twn, .input = lsq, .gradient = qg_stochastic_gradient((qg_stochastic_gradient_spec){ .percentile = 99 }) } },
        { "folded", "8C3-BN-R-8C3-BN-R-10", .image = image, .spec = { .weight = twn, .fold_batchnorm = true } },
        { "ranges per channel", "8C3-BN-R-8C3-BN-R-10", .image = image, .spec = { .input = ranges } },
        { "measured", "8C3-BN-R-8C3-BN-R-10", .image = image, .spec = { .input = qg_qdq((qg_qdq_spec){ 0 }) } },
        { "xnor", "8C3-BN-R-8C3-BN-R-10", .image = image, .spec = { .weight = qg_xnor((qg_xnor_spec){ 0 }), .input = xnor } },
        { "layers", .image = image, .spec = { .input = lsq }, .declare = declare_layers, .loss = means_and_sums },
        { "hinge", "16FC-R-10", .image = image, .loss = qg_squared_hinge },
        { "batches smaller than a slice each", "8C3-BN-R-300C3-R-10", .image = image, .batch = 17, .spec = { .weight = twn } },
        { "batches of ten", "8C3-BN-R-600C3-R-10", .image = image, .batch = 10 },
    };
    for (int i = 0; i < COUNT(rows); i++)
        assert_same_bits(&rows[i], every_combination() || i % 3 == 0 || rows[i].batch ? 16 : 4);
}

/* dy less its mean: no slope. */
static void centred(float arg, qg_split c, const float *x, const float *dy, float *dx)
{
    const size_t n = c.outer * c.depth * c.inner;
    double       sum = 0;
    (void)arg, (void)x;
    for (size_t i = 0; i < n; i++) sum += (double)dy[i];
    for (size_t i = 0; i < n; i++) dx[i] += dy[i] - (float)(sum / (double)n);
}

/* Whether the first step is refused; all ranks agree. */
static uint64_t is_refused(void *context)
{
    static uint8_t  images[16 * SIDE * SIDE * 3];
    static uint16_t labels[16];
    qg_loader *data = qg_arrays((qg_shape){ 16, SIDE, SIDE, 3 }, images, labels, CLASSES, (qg_loader_spec){ .batch = 16 });
    qg_net    *net  = declare_text(context);
    qg_tape   *t    = qg_tape_new();
    qg_batch   b;
    if (!qg_net_build(net) || !t || !qg_loader_next(data, &b)) fail_rank("whole", qg_errmsg());
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    const bool refused = !qg_net_forward(net, t, b.x);
    const bool why     = refused && strstr(qg_errmsg(), "its surrogate needs the whole batch, which ranks share");
    qg_tape_free(t), qg_net_free(net), qg_loader_free(data);
    return (uint64_t)(refused ? 1 + why : 0);
}

/* A surrogate of the whole tensor can be that of a weight, of which every rank has the whole gradient. */
static void whole_surrogates_are_for_weights(void **state)
{
    const qg_surrogate s     = qg_surrogate_whole(centred, 0);
    const problem      trains = { "a whole surrogate", "8C3-BN-R-8C3-BN-R-10", .image = { 0, SIDE, SIDE, 3 },
                                  .spec = { .weight = qg_twn((qg_twn_spec){ .surrogate = s }) } };
    const problem      fails  = { "an input", "8C3-BN-R-8C3-BN-R-10", .image = { 0, SIDE, SIDE, 3 },
                                  .spec = { .input = qg_pact((qg_pact_spec){ .surrogate = s }) } };
    assert_same_bits(&trains, 4);
    assert_int_equal(run_ranks(2, 1, is_refused, (void *)(uintptr_t)&fails), 2);
    assert_int_equal(run_ranks(1, 1, is_refused, (void *)(uintptr_t)&fails), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_change_no_bit), cmocka_unit_test(whole_surrogates_are_for_weights) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
