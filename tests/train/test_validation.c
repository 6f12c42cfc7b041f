/* qg_fit with validation images: they choose, and the test images are read once. */
#include "tests/support/testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { SIDE = 8, CLASSES = 3, TRAIN = 96, HELD = 24, TEST = 36, BATCH = 8, EPOCHS = 5 };

typedef struct subject {
    qg_net      *net;
    qg_optim    *optim;
    qg_loader   *train, *test;
    qg_fit_spec  spec;
    char         dir[ROOM_BYTES];
} subject;

static qg_net *small_net(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3 });
    qg_net_batchnorm(net), qg_net_relu(net), qg_net_dropout(net, 0.2f);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }) });
    return net;
}

static qg_loader *bands(int n, uint64_t key, qg_loader_spec spec)
{
    float    x[TRAIN * SIDE * SIDE];
    uint8_t  image[TRAIN * SIDE * SIDE];
    uint16_t label[TRAIN];
    qg_shape shape = { n, SIDE, SIDE, 1 };
    fill_bands(shape, CLASSES, key, x, label);
    for (size_t i = 0; i < qg_count(shape); i++) image[i] = (uint8_t)(127 * x[i]);
    return qg_arrays(shape, image, label, CLASSES, spec);
}

static subject open_subject(const char *name, int held)
{
    subject s = { .net = small_net() };
    snprintf(s.dir, sizeof s.dir, "%s", in_room(name));
    s.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.02f });
    s.train = bands(TRAIN, 1, (qg_loader_spec){ .batch = BATCH, .seed = 3, .validation = { .images = held },
                                                .normalise = { .kind = QG_PER_CHANNEL } });
    s.test  = bands(TEST, 2, (qg_loader_spec){ .batch = 9, .in_order = true, .preprocess = qg_loader_preprocess(s.train) });
    s.spec  = (qg_fit_spec){ .dir = s.dir, .train = s.train, .test = s.test, .optim = s.optim, .epochs = EPOCHS, .seed = 5,
                             .validation = qg_loader_validation(s.train) };
    if (!s.optim || !s.train || !s.test) fail_msg("%s", qg_errmsg());
    return s;
}

static void close_subject(subject *s)
{
    qg_loader_free(s->test), qg_loader_free(s->train), qg_optim_free(s->optim), qg_net_free(s->net);
}

static qg_fit_result trained(subject *s)
{
    qg_fit_result r;
    s->spec.dir = s->dir;               /* *s was copied */
    assert_ok(qg_fit(s->net, s->spec, &r));
    return r;
}

static void slurp(const char *dir, const char *name, char *text, size_t most)
{
    char  path[2 * ROOM_BYTES];
    FILE *f = (snprintf(path, sizeof path, "%s/%s", dir, name), fopen(path, "rb"));
    if (!f) fail_msg("%s is missing", path);
    text[fread(text, 1, most - 1, f)] = '\0';
    fclose(f);
}

/* --- what chooses ------------------------------------------------------------------------- */

typedef struct watched {
    subject *of;
    int      best, tested;          /* an epoch; batches of test images that were read */
    double   accuracy[EPOCHS];
} watched;

static void count_test(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    watched *w = user;
    w->tested += images == w->of->test;
}

static void watch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    watched *w     = user;
    const int last = (int)e->epoch - 1;
    assert_int_equal(w->tested, 0);                     /* the test images are not read yet */
    assert_true(isnan(e->test_accuracy) && isnan(e->test_loss) && isnan(r->test_accuracy) && !r->complete);
    assert_true(e->validation_accuracy == r->validation_accuracy && isfinite(e->validation_loss));
    w->accuracy[last] = e->validation_accuracy;
    if (w->accuracy[last] > w->accuracy[w->best]) w->best = last;
    assert_int_equal(r->best_epoch, w->best + 1);
    assert_true(r->best_validation_accuracy == w->accuracy[w->best]);
}

/* Measured anew. */
static double accuracy_of(qg_net *net, qg_loader *images)
{
    qg_tape *t       = qg_tape_new();
    int      correct = 0;
    assert_ok(qg_loader_seek(images, 0, 0));
    for (qg_batch b; qg_loader_next(images, &b);) {
        qg_tape_begin(t, QG_EVAL, 0, 0);
        correct += qg_count_correct(qg_net_forward(net, t, b.x), b.y);
    }
    qg_tape_free(t);
    return (double)correct / qg_loader_shape(images).n;
}

static double accuracy_of_best(const char *dir, qg_loader *images)
{
    char    path[2 * ROOM_BYTES];
    qg_net *net = small_net();
    snprintf(path, sizeof path, "%s/best.safetensors", dir);
    assert_non_null(qg_net_build(net));
    assert_ok(qg_net_load(net, path));
    const double accuracy = accuracy_of(net, images);
    qg_net_free(net);
    return accuracy;
}

static void validation_chooses_and_the_test_is_read_once(void **state)
{
    subject s       = open_subject("chosen", HELD);
    watched w       = { .of = &s };
    s.spec.events   = (qg_fit_events){ .user = &w, .epoch = watch, .scores = count_test };
    const qg_fit_result r = trained(&s);
    assert_int_equal(w.tested, (r.best_epoch == r.epochs ? 1 : 2) * qg_loader_batches(s.test));
    assert_true(r.complete && r.test_images == TEST && r.validation_images == HELD);
    assert_true(r.best_epoch < EPOCHS);                 /* or this test would show less */
    assert_true(r.test_accuracy == accuracy_of(s.net, s.test));
    assert_true(r.best_test_accuracy == accuracy_of_best(s.dir, s.test));
    assert_true(r.best_validation_accuracy == accuracy_of_best(s.dir, s.spec.validation));
    assert_true(r.validation_accuracy == accuracy_of(s.net, s.spec.validation));
    char text[1 << 14];
    slurp(s.dir, "metrics.csv", text, sizeof text);
    const char *head = "epoch,lr,train_loss,train_accuracy,validation_loss,validation_accuracy,images_per_second,seconds,";
    assert_memory_equal(text, head, strlen(head));
    slurp(s.dir, "config.toml", text, sizeof text);
    assert_non_null(strstr(text, "validation-digest = "));
    const double last = r.test_accuracy, best = r.best_test_accuracy;
    close_subject(&s);

    s = open_subject("chosen", HELD);                   /* a finished run is not tested again */
    w.tested        = 0;
    s.spec.events   = (qg_fit_events){ .user = &w, .scores = count_test };
    const qg_fit_result again = trained(&s);
    assert_true(w.tested == 0 && again.complete);
    assert_true(again.test_accuracy == last && again.best_test_accuracy == best);
    assert_string_equal(again.digest, r.digest);
    close_subject(&s);
}

static void patience_waits_for_validation(void **state)
{
    subject s       = open_subject("patience", HELD);
    s.spec.epochs   = 40;
    s.spec.patience = 2;
    const qg_fit_result r = trained(&s);
    assert_true(r.complete && r.epochs == r.best_epoch + 2 && r.epochs < 40);
    close_subject(&s);
}

/* --- resuming ----------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;

typedef struct stopper {
    long at, steps;
} stopper;

static void stop_at(void *user, const qg_fit_progress *p)
{
    stopper *s = user;
    (void)p;
    stop = ++s->steps == s->at;
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    enum { MOST = 1 << 18 };
    char *x = calloc(1, MOST), *y = calloc(1, MOST);
    slurp(a, name, x, MOST), slurp(b, name, y, MOST);
    assert_memory_equal(x, y, MOST);
    free(x), free(y);
}

static void stopped_often_it_ends_with_the_same_bytes(void **state)
{
    subject whole = open_subject("whole", HELD);
    whole.spec.ema_decay    = 0.8f;
    const qg_fit_result all = trained(&whole);
    qg_fit_result       r   = { .complete = false };
    subject             s;
    for (long sittings = 0; !r.complete; sittings++) {
        stopper by        = { .at = 1 + sittings % 4 };
        s                 = open_subject("stopped", HELD);
        stop              = 0;
        s.spec.ema_decay  = 0.8f;
        s.spec.stop       = &stop;
        s.spec.events     = (qg_fit_events){ .user = &by, .step = stop_at };
        r                 = trained(&s);
        if (!r.complete) close_subject(&s);
    }
    static const char *const files[] = { "config.toml", "last.safetensors", "best.safetensors" };
    for (int i = 0; i < 3; i++) assert_same_file(whole.dir, s.dir, files[i]);
    assert_true(r.test_accuracy == all.test_accuracy && r.best_test_accuracy == all.best_test_accuracy);
    close_subject(&s), close_subject(&whole);
}

static void stop_after_the_last(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    (void)user, (void)r;
    stop = e->epoch >= EPOCHS;
}

static void stopped_before_the_test_it_is_tested_later(void **state)
{
    subject s     = open_subject("untested", HELD);
    stop          = 0;
    s.spec.stop   = &stop;
    s.spec.events = (qg_fit_events){ .epoch = stop_after_the_last };
    qg_fit_result r = trained(&s);
    assert_true(!r.complete && r.epochs == EPOCHS && isnan(r.test_accuracy) && r.test_images == 0);
    close_subject(&s);
    s    = open_subject("untested", HELD);
    stop = 0;
    r    = trained(&s);
    assert_true(r.complete && r.test_accuracy == accuracy_of(s.net, s.test));
    assert_true(r.best_test_accuracy == accuracy_of_best(s.dir, s.test));
    close_subject(&s);
}

/* --- what is refused ---------------------------------------------------------------------- */

static void refused(subject *s, qg_status how, const char *part)
{
    s->spec.dir = s->dir;
    assert_failed(qg_fit(s->net, s->spec, NULL), how, part);
    close_subject(s);
}

static void another_split_is_another_run(void **state)
{
    subject s = open_subject("split", HELD);
    s.spec.budget = -1;
    trained(&s), close_subject(&s);
    s = open_subject("split", HELD + 1), refused(&s, QG_EARG, "belongs to a run with");
    s = open_subject("split", 0), refused(&s, QG_EARG, "belongs to a run with");
    s = open_subject("same", HELD), s.spec.validation = s.train, refused(&s, QG_EARG, "validation is the same loader as train");
    s = open_subject("same", HELD), s.spec.validation = s.test, refused(&s, QG_EARG, "validation is the same loader as test");
    s = open_subject("same", HELD);
    qg_loader *other  = qg_synthetic((qg_shape){ 1, 4, 4, 1 }, 9, CLASSES, (qg_loader_spec){ .batch = 3 });
    s.spec.validation = other;
    refused(&s, QG_ESHAPE, "validation images are 4x4x1, training images 8x8x1");
    qg_loader_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validation_chooses_and_the_test_is_read_once),
        cmocka_unit_test(patience_waits_for_validation),
        cmocka_unit_test(stopped_often_it_ends_with_the_same_bytes),
        cmocka_unit_test(stopped_before_the_test_it_is_tested_later),
        cmocka_unit_test(another_split_is_another_run),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
