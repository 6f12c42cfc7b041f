/* Running statistics of nets with quantized weights: qg_fit estimates them anew before each test. */
#include "tests/support/testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/io/paths.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "layers/layer.h"
#include "qgrad.h"
#include "tests/support/room.h"
#include "train/run.h"

enum { SIDE = 12, CLASSES = 4, TRAIN = 640, TEST = 160, BATCH = 16, STEPS = TRAIN / BATCH, EPOCHS = 5, C1 = 8, C2 = 16 };

/* --- images, nets, a run ---------------------------------------------------------------------- */

/* A texture for each class, with noise. */
static qg_loader *textures(int n, uint64_t key, qg_loader_spec spec)
{
    static uint8_t  image[TRAIN][SIDE][SIDE];
    static uint16_t label[TRAIN];
    for (int i = 0; i < n; i++) {
        label[i] = (uint16_t)(i % CLASSES);
        for (int k = 0; k < SIDE * SIDE; k++) {
            const float texture = qg_uniform(100 + label[i], (uint64_t)(k / SIDE / 2 * SIDE + k % SIDE / 2));
            const float noise   = qg_uniform(qg_rng_fork(key, (uint64_t)i), (uint64_t)k);
            image[i][k / SIDE][k % SIDE] = (uint8_t)(160 * texture + 90 * noise);
        }
    }
    return qg_arrays((qg_shape){ n, SIDE, SIDE, 1 }, image[0][0], label, CLASSES, spec);
}

/* A layer that counts the passes of an estimate, and stops the run in one of them.  Its state counts those of
 * training as well. */
static int                   passes, stop_in;
static volatile sig_atomic_t stop;

typedef struct watcher {
    qg_layer  layer;
    qg_param *seen;
} watcher;

static qg_status build_watch(qg_layer *l)
{
    watcher       *w    = (watcher *)l;
    const qg_param seen = { .shape = { 1, 1, 1, 1 }, .group = QG_TRACKED };
    w->seen             = qg_layer_declare(l, "running_passes", seen);
    return w->seen ? QG_OK : QG_EMEM;
}

static qg_var *watch(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    if (t && qg_tape_mode(t) != QG_EVAL) ((watcher *)l)->seen->value[0] += 1;
    if (t && qg_tape_mode(t) == QG_ESTIMATE && ++passes == stop_in) stop = 1;
    return x;
}

static const qg_layer_type watcher_type = { .name = "watcher", .size = sizeof(watcher), .build = build_watch,
                                            .forward = watch };

typedef struct kind {
    qg_net_spec net;
    qg_quant    weight, input;
    bool        no_norm, noisy;          /* noisy: augmented images, and dropout */
    uint64_t    seed;
    int         batch;                  /* 0: BATCH */
} kind;

static kind binary(void) { return (kind){ .weight = qg_binaryconnect((qg_binaryconnect_spec){ .as_paper = true }), .seed = 1 }; }

static qg_net *net_of(kind k)
{
    k.net.height = k.net.width = SIDE;
    k.net.channels = 1, k.net.seed = k.seed;
    qg_net *net = qg_net_new(k.net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = C1, .kernel = 3, .stride = 2, .weight = k.weight });
    if (!k.no_norm) qg_net_batchnorm(net);
    qg_net_relu(net);
    if (k.noisy) qg_net_dropout(net, 0.2f);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = C2, .kernel = 3, .stride = 2, .weight = k.weight, .input = k.input });
    if (!k.no_norm) qg_net_batchnorm(net);
    qg_net_relu(net), qg_net_global_avgpool(net);
    qg_net_append(net, &watcher_type, NULL, "watch", NULL);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = k.weight });
    return net;
}

typedef struct subject {
    qg_net      *net;
    qg_optim    *optim;
    qg_loader   *train, *test;
    char         dir[ROOM_BYTES];
    qg_fit_spec  spec;
} subject;

static subject open_subject(const char *name, kind k)
{
    subject s = { .net = net_of(k) };
    snprintf(s.dir, sizeof s.dir, "%s", in_room(name));
    s.optim = qg_sgd(qg_net_build(s.net), (qg_sgd_spec){ .lr = 0.02f, .momentum = 0.9f });
    s.train = textures(TRAIN, 1, (qg_loader_spec){ .batch = k.batch ? k.batch : BATCH, .seed = 3, .augment = { .pad = k.noisy } });
    s.test  = textures(TEST, 2, (qg_loader_spec){ .batch = 40, .in_order = true });
    s.spec  = (qg_fit_spec){ .train = s.train, .test = s.test, .optim = s.optim, .epochs = EPOCHS, .seed = 5, .stop = &stop };
    if (!s.optim || !s.train || !s.test) fail_msg("%s", qg_errmsg());
    passes = stop_in = 0;
    stop   = 0;
    return s;
}

static qg_fit_result fit(subject *s)
{
    qg_fit_result r;
    s->spec.dir = s->dir;
    assert_ok(qg_fit(s->net, s->spec, &r));
    return r;
}

static void close_subject(subject *s)
{
    qg_loader_free(s->test), qg_loader_free(s->train), qg_optim_free(s->optim), qg_net_free(s->net);
}

static const qg_param *param(const qg_net *net, const char *name)
{
    const qg_param *p = qg_params_find(qg_net_params(net), name);
    if (!p) fail_msg("no parameter %s", name);
    return p;
}

static bool same_bits(const qg_param *a, const qg_param *b)
{
    return !memcmp(a->value, b->value, qg_count(a->shape) * sizeof *a->value);
}

/* --- what it is for ----------------------------------------------------------------------------- */

static double least;                    /* accuracy of an epoch but the first */

static void compare_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    (void)user, (void)r;
    if (e->epoch > 1) least = fmin(least, e->test_accuracy);
}

/* All training images are classified correctly from the second epoch on. */
static void the_accuracy_does_not_swing(void **state)
{
    (void)state;
    double with = 1, without = 1;
    for (int keep = 0; keep < 2; keep++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            char name[32];
            kind k = binary();
            k.seed = seed;
            snprintf(name, sizeof name, "swing-%d-%d", keep, (int)seed);
            subject s                     = open_subject(name, k);
            s.spec.keep_running_statistics = keep;
            s.spec.events                 = (qg_fit_events){ .epoch = compare_epoch };
            least                         = 1;
            fit(&s);
            if (keep) without = fmin(without, least);
            else with = fmin(with, least);
            close_subject(&s);
        }
    if (with < 0.98) fail_msg("%g", with);
    if (without > 0.9) fail_msg("running statistics have %g as well", without);
}

/* --- where it happens ---------------------------------------------------------------------------- */

static void assert_passes(const char *name, kind k, bool keep, int epochs, int expected)
{
    subject s = open_subject(name, k);
    s.spec.keep_running_statistics = keep;
    s.spec.epochs = epochs;
    fit(&s);
    if (passes != expected) fail_msg("%s: %d passes, not %d", name, passes, expected);
    close_subject(&s);
}

static void it_needs_quantized_weights_and_norms_in_training(void **state)
{
    (void)state;
    enum { EACH = 4 };
    kind k = binary();
    assert_passes("binary", k, false, EPOCHS, EACH * EPOCHS);
    assert_passes("kept", k, true, EPOCHS, 0);
    k = binary(), k.net.quantize_weights_after = 2 * STEPS;
    assert_passes("delayed", k, false, EPOCHS, EACH * (EPOCHS - 1));
    k = binary(), k.net.freeze_batchnorm_after = 2 * STEPS;
    assert_passes("frozen", k, false, EPOCHS, EACH);
    k = binary(), k.no_norm = true;
    assert_passes("no-norm", k, false, EPOCHS, 0);
    k = binary(), k.weight = (qg_quant){ 0 };
    assert_passes("float", k, false, EPOCHS, 0);
    k.input = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 });
    assert_passes("inputs", k, false, EPOCHS, 0);
}

/* A sixteenth of them, within bounds. */
static void the_steps_of_an_epoch_decide_how_many_batches(void **state)
{
    (void)state;
    static const int batch[] = { 320, 20, 8, 4, 1 }, passes_of[] = { 2, 4, 5, 10, 32 };
    for (int i = 0; i < 5; i++) {
        char name[32];
        kind k  = binary();
        k.batch = batch[i];
        snprintf(name, sizeof name, "batch-%d", batch[i]);
        assert_passes(name, k, false, 1, passes_of[i]);
    }
}

/* --- what it computes ---------------------------------------------------------------------------- */

/* The first batches of the next epoch, through the first layer as evaluation computes it. */
static void assert_statistics(subject *s, uint64_t epoch)
{
    enum { BATCHES = 4, N = BATCHES * BATCH * SIDE * SIDE * C1 };
    static float x[N];
    size_t       n = 0;
    qg_tape     *t = qg_tape_new();
    qg_batch     b;
    assert_ok(qg_loader_seek(s->train, epoch, 0));
    for (int i = 0; i < BATCHES; i++) {
        assert_true(qg_loader_next(s->train, &b));
        qg_tape_begin(t, QG_EVAL, 0, 1000);
        const qg_var *y = qg_apply(qg_net_find(s->net, "conv1"), t, qg_input(t, b.x));
        assert_non_null(y);
        memcpy(x + n, y->data, qg_count(y->shape) * sizeof *x);
        n += qg_count(y->shape);
    }
    for (size_t k = 0; k < C1; k++) {
        const double is_mean = (double)param(s->net, "bn1.running_mean")->value[k];
        const double is_var  = (double)param(s->net, "bn1.running_var")->value[k];
        double       mean = 0, squares = 0;
        const double m = (double)(n / C1);
        for (size_t i = k; i < n; i += C1) mean += (double)x[i] / m;
        for (size_t i = k; i < n; i += C1) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        if (!(fabs(is_mean - mean) <= 1e-5 * (fabs(mean) + sqrt(squares / m)))) fail_msg("mean %g, not %g", is_mean, mean);
        if (!(fabs(is_var - squares / (m - 1)) <= 1e-5 * (squares / m + mean * mean))) fail_msg("variance %g, not %g", is_var, squares / (m - 1));
    }
    qg_tape_free(t);
}

static void they_are_those_of_the_weights_that_are_tested(void **state)
{
    (void)state;
    kind    k = binary();
    k.noisy   = true;
    subject s = open_subject("weights", k);
    fit(&s);
    assert_statistics(&s, EPOCHS);
    close_subject(&s);

    k.weight = qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC, .float_eval = true });
    s        = open_subject("drawn", k);
    fit(&s);
    assert_statistics(&s, EPOCHS);
    close_subject(&s);

    char path[ROOM_BYTES + 32];
    s = open_subject("averages", binary());
    s.spec.ema_decay = 0.9f;
    s.spec.epochs    = 1;
    fit(&s);
    snprintf(path, sizeof path, "%s/best.safetensors", s.dir);
    assert_ok(qg_net_load(s.net, path));
    assert_statistics(&s, 1);
    close_subject(&s);
}

static kind rich(void)
{
    kind k   = binary();
    k.weight = qg_binaryconnect((qg_binaryconnect_spec){ .draw = QG_DRAW_STOCHASTIC });
    k.input  = qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .range = QG_RANGE_OBSERVED });
    k.noisy  = true;
    return k;
}

/* Weights, learned values, observed ranges and draws of the training do not notice. */
static void nothing_else_changes(void **state)
{
    (void)state;
    subject with = open_subject("with", rich());
    fit(&with);
    subject without = open_subject("without", rich());
    without.spec.keep_running_statistics = true;
    fit(&without);
    const qg_params *p = qg_net_params(with.net);
    int              other = 0;
    for (int i = 0; i < p->count; i++) {
        const bool same = same_bits(p->item[i], param(without.net, p->item[i]->name));
        if (strstr(p->item[i]->name, ".running_")) other += !same;
        else if (!same) fail_msg("%s differs", p->item[i]->name);
    }
    assert_int_equal(other, 5);
    close_subject(&with), close_subject(&without);
}

static void frozen_norms_keep_every_bit(void **state)
{
    (void)state;
    subject s = open_subject("frozen-layer", binary());
    float   mean[C1], var[C1];
    s.spec.freeze = "conv1";
    param(s.net, "bn1.running_mean")->value[3] = 0.25f;
    memcpy(mean, param(s.net, "bn1.running_mean")->value, sizeof mean);
    memcpy(var, param(s.net, "bn1.running_var")->value, sizeof var);
    fit(&s);
    assert_true(passes > 0);
    assert_memory_equal(param(s.net, "bn1.running_mean")->value, mean, sizeof mean);
    assert_memory_equal(param(s.net, "bn1.running_var")->value, var, sizeof var);
    assert_true(param(s.net, "bn2.running_mean")->value[0] != 0);
    close_subject(&s);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    const int at_first = qg_threads();
    char      digest[2][QG_FIT_TEXT];
    for (int i = 0; i < 2; i++) {
        qg_set_threads(i ? 3 : 1);
        subject s = open_subject(i ? "three-threads" : "one-thread", rich());
        strcpy(digest[i], fit(&s).digest);
        close_subject(&s);
    }
    qg_set_threads(at_first);
    assert_string_equal(digest[0], digest[1]);
}

/* --- a run that is stopped ------------------------------------------------------------------------ */

static void assert_same_file(const char *a, const char *b, const char *name)
{
    enum { MOST = 1 << 18 };
    static char x[2][MOST];
    size_t      n[2];
    for (int i = 0; i < 2; i++) {
        char  path[ROOM_BYTES + 32];
        snprintf(path, sizeof path, "%s/%s", i ? b : a, name);
        FILE *f = fopen(path, "rb");
        if (!f) fail_msg("%s is missing", path);
        n[i] = fread(x[i], 1, MOST, f);
        fclose(f);
    }
    assert_true(n[0] == n[1] && n[0] < MOST);
    assert_memory_equal(x[0], x[1], n[0]);
}

/* A folded norm multiplies its weight by the running variance, so a second estimate depends on what the first one left. */
static subject open_folded(const char *name)
{
    kind k = binary();
    k.net.fold_batchnorm = true;
    k.weight  = qg_fake_quant((qg_fake_quant_spec){ .bits = 2, .range = QG_RANGE_CURRENT });
    subject s = open_subject(name, k);
    s.spec.ema_decay = 0.9f;
    s.spec.epochs    = 2;
    return s;
}

static void stop_in_test(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    (void)user, (void)images, (void)b, (void)scores;
    stop = 1;
}

static void stopped_within_an_estimate_it_ends_with_the_same_bytes(void **state)
{
    (void)state;
    char    whole[ROOM_BYTES], parts[ROOM_BYTES];
    subject s = open_folded("whole");
    fit(&s);
    strcpy(whole, s.dir);
    close_subject(&s);
    for (int at = 1; at <= 5; at++) {
        s       = open_folded("parts");
        stop_in = at;
        if (at == 5) s.spec.events.scores = stop_in_test;
        const qg_fit_result r = fit(&s);
        assert_true(r.ended == QG_FIT_STOPPED && r.epochs == 0 && r.batch == STEPS);
        close_subject(&s);
    }
    s = open_folded("parts");
    assert_true(fit(&s).complete);
    strcpy(parts, s.dir);
    close_subject(&s);
    assert_same_file(whole, parts, "last.safetensors");
    assert_same_file(whole, parts, "best.safetensors");
}

/* --- a run of a version without it ------------------------------------------------------------------- */

static bool says(const char *dir, const char *text)
{
    char  path[ROOM_BYTES + 32], bytes[1 << 14] = "";
    snprintf(path, sizeof path, "%s/config.toml", dir);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    assert_true(fread(bytes, 1, sizeof bytes - 1, f) > 0);
    fclose(f);
    return strstr(bytes, text);
}

static void a_run_keeps_what_it_was_begun_with(void **state)
{
    subject s = open_subject("kept", binary());
    s.spec.keep_running_statistics = true;
    fit(&s);
    assert_true(says(s.dir, "reestimate-batchnorm = \"off\"\n"));
    close_subject(&s);
    s = open_subject("kept", binary());
    s.spec.dir = s.dir;
    assert_failed(qg_fit(s.net, s.spec, NULL), QG_EARG, "belongs to a run with 'reestimate-batchnorm = \"off\"', but this one has "
                  "'reestimate-batchnorm = \"on\"'");
    close_subject(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_accuracy_does_not_swing),
        cmocka_unit_test(it_needs_quantized_weights_and_norms_in_training),
        cmocka_unit_test(the_steps_of_an_epoch_decide_how_many_batches),
        cmocka_unit_test(they_are_those_of_the_weights_that_are_tested),
        cmocka_unit_test(nothing_else_changes),
        cmocka_unit_test(frozen_norms_keep_every_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(stopped_within_an_estimate_it_ends_with_the_same_bytes),
        cmocka_unit_test(a_run_keeps_what_it_was_begun_with),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
