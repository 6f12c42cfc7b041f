/* qg_calibrate: ranges and statistics of a net that is quantized without being trained. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { SIDE = 8, CLASSES = 5, N = 60, PIXELS = SIDE * SIDE };

/* Uneven statistics: the weights are drawn for inputs of any size, and the images are not centred. */
static qg_loader *bands(int batch)
{
    float    x[N * PIXELS];
    uint8_t  image[N * PIXELS];
    uint16_t label[N];
    qg_shape shape = { N, SIDE, SIDE, 1 };
    fill_bands(shape, CLASSES, 1, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    qg_loader *l = qg_arrays(shape, image, label, CLASSES, (qg_loader_spec){ .batch = batch, .seed = 3 });
    if (!l) fail_msg("%s", qg_errmsg());
    return l;
}

typedef struct kind {
    qg_net_spec net;
    qg_quant    weight, input;
} kind;

static kind observed(void)
{
    return (kind){ .weight = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .per_channel = true, .range = QG_RANGE_CURRENT }),
                   .input  = qg_fake_quant((qg_fake_quant_spec){ .bits = 8, .range = QG_RANGE_OBSERVED }) };
}

static kind learned(void)
{
    return (kind){ .weight = qg_lsq((qg_lsq_spec){ .bits = 4, .is_signed = true }), .input = qg_lsq((qg_lsq_spec){ .bits = 4 }) };
}

/* conv1 - bn1 - relu1 - drop1 - conv2 - bn2 - relu2 - fc1 */
static qg_net *net_of(kind k)
{
    k.net.height = k.net.width = SIDE;
    k.net.channels = 1, k.net.seed = 5;
    qg_net *net = qg_net_new(k.net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .weight = k.weight, .input = k.input });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_dropout(net, 0.5f);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = k.weight, .input = k.input });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = k.weight, .input = k.input });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static const qg_param *param(const qg_net *net, const char *name)
{
    const qg_param *p = qg_params_find(qg_net_params(net), name);
    if (!p) fail_msg("no parameter %s", name);
    return p;
}

static qg_net *calibrated(kind k, int batch, int count)
{
    qg_net    *net = net_of(k);
    qg_loader *l   = bands(batch);
    assert_ok(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = count }));
    qg_loader_free(l);
    return net;
}

static uint64_t digest(const qg_net *net) { return qg_params_digest(qg_net_params(net)); }

/* --- by the definition -------------------------------------------------------------------- */

/* Statistics are sums of float lanes, and some pass a quantizer: 1e-5 of what they are computed from. */
static void assert_near(const char *what, double got, double want, double size)
{
    if (!(fabs(got - want) <= 1e-5 * size)) fail_msg("%s is %.9g, not %.9g", what, got, want);
}

/* The running statistics of bn against those of all values of x, [..][c]. */
static void assert_statistics(const qg_net *net, const char *bn, const float *x, size_t n, size_t c)
{
    char mean_name[32], var_name[32];
    snprintf(mean_name, sizeof mean_name, "%s.running_mean", bn);
    snprintf(var_name, sizeof var_name, "%s.running_var", bn);
    for (size_t k = 0; k < c; k++) {
        double       mean = 0, squares = 0;
        const double m    = (double)(n / c);
        for (size_t i = k; i < n; i += c) mean += (double)x[i] / m;
        for (size_t i = k; i < n; i += c) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        assert_near(mean_name, (double)param(net, mean_name)->value[k], mean, fabs(mean) + sqrt(squares / m));
        assert_near(var_name, (double)param(net, var_name)->value[k], squares / (m - 1), squares / m + mean * mean);
    }
}

static void assert_range(const qg_net *net, const char *slot, const qg_var *x)
{
    char   min_name[48], max_name[48];
    double lo = 0, hi = 0;
    snprintf(min_name, sizeof min_name, "%s.min", slot);
    snprintf(max_name, sizeof max_name, "%s.max", slot);
    for (size_t i = 0; i < qg_count(x->shape); i++) {
        lo = fmin(lo, (double)x->data[i]);
        hi = fmax(hi, (double)x->data[i]);
    }
    assert_near(min_name, (double)*param(net, min_name)->value, lo, hi - lo);
    assert_near(max_name, (double)*param(net, max_name)->value, hi, hi - lo);
}

static qg_layer *layer(qg_net *net, const char *name)
{
    for (int i = 0; i < qg_net_layers(net); i++)
        if (!strcmp(qg_net_layer(net, i)->name, name)) return qg_net_layer(net, i);
    fail_msg("no layer %s", name);
    return NULL;
}

/* Evaluation may compute with other weights than training. */
static void statistics_are_those_of_evaluation(void **state)
{
    (void)state;
    qg_net    *net = calibrated((kind){ .weight = qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC, .float_eval = true }) }, N, N);
    qg_loader *l   = bands(N);
    qg_tape   *t   = qg_tape_new();
    qg_batch   b;
    assert_true(qg_loader_next(l, &b));
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *x = qg_apply(layer(net, "conv1"), t, qg_input(t, b.x));
    assert_statistics(net, "bn1", x->data, qg_count(x->shape), 4);
    qg_tape_free(t), qg_loader_free(l), qg_net_free(net);
}

/* Layer by layer, without dropout.  Layers run this way observe, too, so a copy of the net does. */
static void one_batch_gives_the_statistics_of_the_set(void **state)
{
    (void)state;
    qg_net    *net = calibrated(observed(), N, N), *copy = net_of(observed());
    qg_loader *l   = bands(N);
    qg_tape   *t   = qg_tape_new();
    qg_batch   b;
    assert_true(qg_loader_next(l, &b));
    qg_tape_begin(t, QG_TRAIN, 0, 0);
    qg_var *x = qg_input(t, b.x);
    assert_range(net, "conv1.input", x);
    x = qg_apply(layer(copy, "conv1"), t, x);
    assert_statistics(net, "bn1", x->data, qg_count(x->shape), 4);
    x = qg_apply(layer(copy, "relu1"), t, qg_apply(layer(copy, "bn1"), t, x));
    assert_range(net, "conv2.input", x);
    x = qg_apply(layer(copy, "conv2"), t, x);
    assert_statistics(net, "bn2", x->data, qg_count(x->shape), 5);
    x = qg_apply(layer(copy, "relu2"), t, qg_apply(layer(copy, "bn2"), t, x));
    assert_range(net, "fc1.input", x);
    qg_tape_free(t), qg_loader_free(l), qg_net_free(copy), qg_net_free(net);
}

/* Products of the first `count` images by conv1, all at once; its input is quantized with the ranges of net. */
static float *products_of_first(qg_net *net, int count, size_t *n)
{
    qg_loader *l = bands(N);
    qg_tape   *t = qg_tape_new();
    qg_batch   b;
    assert_true(qg_loader_next(l, &b));
    b.x.shape.n = count;
    qg_tape_begin(t, QG_EVAL, 0, UINT64_MAX);
    const qg_var *y = qg_apply(layer(net, "conv1"), t, qg_input(t, b.x));
    if (!y) fail_msg("%s", qg_errmsg());
    *n          = qg_count(y->shape);
    float *copy = malloc(*n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, y->data, *n * sizeof *copy);
    qg_tape_free(t), qg_loader_free(l);
    return copy;
}

/* Nothing before the first batch norm depends on the batch, except the range of the images. */
static void batches_are_merged_to_the_statistics_of_all_images(void **state)
{
    (void)state;
    static const int batch[] = { 1, 7, 12, 59 }, count[] = { 1, 23, 59, N };
    for (int i = 0; i < COUNT(batch) * COUNT(count); i++) {
        size_t  n;
        qg_net *net = calibrated(observed(), batch[i / COUNT(count)], count[i % COUNT(count)]);
        float  *y   = products_of_first(net, count[i % COUNT(count)], &n);
        assert_statistics(net, "bn1", y, n, 4);
        free(y), qg_net_free(net);
    }
}

/* To the last bit: the extremes of a batch are values of it. */
static void a_range_is_the_mean_over_images(void **state)
{
    (void)state;
    enum { BATCH = 7, COUNT_OF = 24 };
    qg_net    *net = calibrated(observed(), BATCH, COUNT_OF);
    qg_loader *l   = bands(BATCH);
    double     sum = 0;
    int        left = COUNT_OF;
    for (qg_batch b; left > 0 && qg_loader_next(l, &b);) {
        const int n  = b.x.shape.n < left ? b.x.shape.n : left;
        float     hi = 0;
        for (int i = 0; i < n * PIXELS; i++) hi = fmaxf(hi, b.x.data[i]);
        sum += (double)n * (double)hi;
        left -= n;
    }
    assert_true(*param(net, "conv1.input.max")->value == (float)(sum / COUNT_OF));
    assert_true(*param(net, "conv1.input.min")->value == 0);
    qg_loader_free(l), qg_net_free(net);
}

static void a_learned_step_starts_from_the_first_batch(void **state)
{
    (void)state;
    static const char *const name[] = { "conv1.input.step", "conv2.input.step", "fc1.input.step" };
    qg_net *first = calibrated(learned(), 12, 12), *all = calibrated(learned(), 12, N);
    for (int i = 0; i < 3; i++) {
        assert_true(*param(all, name[i])->value > 0);
        assert_true(*param(all, name[i])->value == *param(first, name[i])->value);
    }
    assert_true(digest(all) != digest(first));
    qg_net_free(first), qg_net_free(all);
}

/* --- what stays --------------------------------------------------------------------------- */

static void assert_same(const qg_net *a, const qg_net *b, const char *name)
{
    const qg_param *p = param(a, name), *q = param(b, name);
    if (memcmp(p->value, q->value, qg_count(p->shape) * sizeof *p->value)) fail_msg("%s has changed", name);
}

static void weights_keep_every_bit(void **state)
{
    (void)state;
    static const char *const name[] = { "conv1.weight", "bn1.gamma", "bn1.beta", "conv2.weight", "bn2.gamma", "bn2.beta",
                                        "fc1.weight", "fc1.bias" };
    for (int i = 0; i < 2; i++) {
        const kind k   = i ? learned() : observed();
        qg_net    *net = calibrated(k, 12, N), *fresh = net_of(k);
        for (int n = 0; n < COUNT(name); n++) assert_same(net, fresh, name[n]);
        if (i) assert_same(net, fresh, "conv1.weight.step");
        qg_net_free(net), qg_net_free(fresh);
    }
}

/* It trains on like one that was loaded: momentum, dropout and observers are as declared. */
static void the_net_is_as_declared_afterwards(void **state)
{
    (void)state;
    kind k                        = observed();
    k.net.freeze_batchnorm_after  = 2;
    k.net.quantize_inputs_after   = 1;
    qg_net    *net  = calibrated(k, 12, N), *other = net_of(k);
    qg_loader *l    = bands(12);
    assert_ok(qg_net_save(net, in_room("net")));
    assert_ok(qg_net_load(other, in_room("net")));
    qg_net *const nets[] = { net, other };
    for (int i = 0; i < 2; i++) {
        qg_optim *o = qg_sgd(qg_net_params(nets[i]), (qg_sgd_spec){ .lr = 0.1f });
        qg_tape  *t = qg_tape_new();
        assert_ok(qg_loader_seek(l, 0, 0));
        for (qg_batch b; qg_loader_next(l, &b);) train_step(nets[i], t, o, b.x, b.y, b.step);
        qg_tape_free(t), qg_optim_free(o);
    }
    assert_true(digest(net) == digest(other));
    qg_loader_free(l), qg_net_free(net), qg_net_free(other);
}

static void frozen_layers_keep_every_bit(void **state)
{
    (void)state;
    qg_net    *net = calibrated(observed(), 12, N), *fresh = net_of(observed());
    qg_loader *l   = bands(7);
    assert_ok(qg_net_save(net, in_room("net")));
    assert_ok(qg_net_load(fresh, in_room("net")));
    assert_ok(qg_net_freeze(net, "conv1"));                 /* and bn1 */
    assert_ok(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = 30 }));
    static const char *const name[] = { "conv1.input.min", "conv1.input.max", "bn1.running_mean", "bn1.running_var" };
    for (int i = 0; i < COUNT(name); i++) assert_same(net, fresh, name[i]);
    assert_true(*param(net, "fc1.input.max")->value != *param(fresh, "fc1.input.max")->value);
    qg_loader_free(l), qg_net_free(net), qg_net_free(fresh);
}

/* Neither delays nor the loader's position matter. */
static void it_begins_with_epoch_0_and_all_quantizers(void **state)
{
    (void)state;
    kind k                       = observed();
    qg_net *plain                = calibrated(k, 12, 40);
    k.net.quantize_inputs_after  = 100;
    k.net.quantize_weights_after = 200;
    k.net.freeze_batchnorm_after = 1;
    qg_net    *delayed = net_of(k);
    qg_loader *l       = bands(12);
    assert_ok(qg_loader_seek(l, 3, 2));
    assert_ok(qg_calibrate(delayed, (qg_calibrate_spec){ .images = l, .count = 40 }));
    assert_true(digest(plain) == digest(delayed));
    uint64_t epoch, batch;
    qg_loader_tell(l, &epoch, &batch);
    assert_true(epoch == 0 && batch == 0);
    qg_loader_free(l), qg_net_free(plain), qg_net_free(delayed);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t found[3];
        kind     k           = i == 1 ? learned() : observed();
        k.net.fold_batchnorm = i == 2;
        for (int n = 0; n < 3; n++) {
            qg_set_threads(n + 1);
            qg_net *net = calibrated(k, 12, 50);
            found[n]    = digest(net);
            qg_net_free(net);
        }
        qg_set_threads(0);
        assert_true(found[0] == found[1] && found[1] == found[2]);
    }
}

/* --- other nets --------------------------------------------------------------------------- */

/* A folded batch norm has the statistics of the product by the weight without its quantizer. */
static void folded_batch_norms_are_calibrated(void **state)
{
    (void)state;
    kind k               = observed();
    k.net.fold_batchnorm = true;
    size_t  n;
    qg_net *net = calibrated(k, 12, 50);
    k.net.fold_batchnorm = false, k.weight = (qg_quant){ .scheme = NULL };
    qg_net *plain = net_of(k);
    memcpy(param(plain, "conv1.input.min")->value, param(net, "conv1.input.min")->value, sizeof(float));
    memcpy(param(plain, "conv1.input.max")->value, param(net, "conv1.input.max")->value, sizeof(float));
    *param(plain, "conv1.input.seen")->value = 1;
    float *z = products_of_first(plain, 50, &n);
    assert_statistics(net, "bn1", z, n, 4);
    free(z), qg_net_free(net), qg_net_free(plain);
}

static void one_that_spans_channels_is_calibrated(void **state)
{
    (void)state;
    qg_net    *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1 });
    qg_loader *l   = bands(7);
    qg_batch   b;
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true });
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    assert_non_null(qg_net_build(net));
    assert_ok(qg_calibrate(net, (qg_calibrate_spec){ .images = l }));       /* all, as there are fewer than 512 */
    qg_loader_free(l), l = bands(N);
    assert_true(qg_loader_next(l, &b));
    assert_statistics(net, "bn1", b.x.data, qg_count(b.x.shape), 1);
    qg_loader_free(l), qg_net_free(net);
}

static void weights_come_from_a_file(void **state)
{
    (void)state;
    qg_net *trained = net_of((kind){ .weight = { .scheme = NULL } });
    for (int i = 0; i < qg_net_params(trained)->count; i++)
        for (size_t k = 0; k < qg_count(qg_net_params(trained)->item[i]->shape); k++) qg_net_params(trained)->item[i]->value[k] *= 1.25f;
    assert_ok(qg_net_save(trained, in_room("float")));
    qg_net    *net = net_of(learned()), *untrained = calibrated(learned(), 12, N);
    qg_loader *l   = bands(12);
    assert_ok(qg_calibrate(net, (qg_calibrate_spec){ .init = in_room("float"), .images = l, .count = N }));
    static const char *const name[] = { "conv1.weight", "bn1.gamma", "conv2.weight", "fc1.weight", "fc1.bias" };
    for (int i = 0; i < COUNT(name); i++) assert_same(net, trained, name[i]);
    const double step = (double)*param(net, "conv1.weight.step")->value, was = (double)*param(untrained, "conv1.weight.step")->value;
    assert_near("conv1.weight.step", step, 1.25 * was, was);
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .init = in_room("none"), .images = l }), QG_EIO, "none");
    qg_loader_free(l), qg_net_free(net), qg_net_free(trained), qg_net_free(untrained);
}

/* --- mistakes ----------------------------------------------------------------------------- */

static void mistakes_are_named(void **state)
{
    (void)state;
    qg_net    *net = net_of(observed()), *unbuilt = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1 });
    qg_loader *l   = bands(12), *wide = qg_synthetic((qg_shape){ 1, SIDE, SIDE + 1, 1 }, 20, CLASSES, (qg_loader_spec){ .batch = 4 });
    assert_failed(qg_calibrate(NULL, (qg_calibrate_spec){ .images = l }), QG_EARG, "net: it is NULL");
    assert_failed(qg_calibrate(unbuilt, (qg_calibrate_spec){ .images = l }), QG_ESTATE, "before qg_net_build");
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .count = 1 }), QG_EARG, "images: it is NULL");
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = N + 1 }), QG_EARG, "61 images were asked for, but there are 60");
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = -1 }), QG_EARG, "-1 images");
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = wide }), QG_ESHAPE, "declared for [n,8,8,1]");
    param(net, "fc1.bias")->value[0] = INFINITY;
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = l }), QG_ENAN, "scores of an image are not finite");
    qg_loader_free(l), qg_loader_free(wide), qg_net_free(net), qg_net_free(unbuilt);
}

static void black_images_start_no_step(void **state)
{
    (void)state;
    static const uint8_t  image[4 * PIXELS];
    static const uint16_t label[4];
    qg_net    *net = net_of(learned());
    qg_loader *l   = qg_arrays((qg_shape){ 4, SIDE, SIDE, 1 }, image, label, CLASSES, (qg_loader_spec){ .batch = 2 });
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = l }), QG_ESTATE,
                  "conv1.input: lsq found nothing to start from in 4 images");
    qg_loader_free(l), qg_net_free(net);
}

static void one_value_has_no_variance(void **state)
{
    (void)state;
    qg_net    *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1 });
    qg_loader *l   = bands(12);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    qg_net_batchnorm(net);
    assert_non_null(qg_net_build(net));
    assert_failed(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = 1 }), QG_EARG, "bn1 has one value per channel in 1 image");
    assert_ok(qg_calibrate(net, (qg_calibrate_spec){ .images = l, .count = 2 }));
    qg_loader_free(l), qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_evaluation),
        cmocka_unit_test(one_batch_gives_the_statistics_of_the_set),
        cmocka_unit_test(batches_are_merged_to_the_statistics_of_all_images),
        cmocka_unit_test(a_range_is_the_mean_over_images),
        cmocka_unit_test(a_learned_step_starts_from_the_first_batch),
        cmocka_unit_test(weights_keep_every_bit),
        cmocka_unit_test(the_net_is_as_declared_afterwards),
        cmocka_unit_test(frozen_layers_keep_every_bit),
        cmocka_unit_test(it_begins_with_epoch_0_and_all_quantizers),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(folded_batch_norms_are_calibrated),
        cmocka_unit_test(one_that_spans_channels_is_calibrated),
        cmocka_unit_test(weights_come_from_a_file),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(black_images_start_no_step),
        cmocka_unit_test(one_value_has_no_variance),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
