/* qg_fit: a program's own net in a run directory. */
#include "tests/support/testing.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "layers/plan.h"
#include "qgrad.h"
#include "tests/support/foreign.h"
#include "tests/support/nets.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"
#include "train/run.h"

/* --- a net, images, a run ----------------------------------------------------------------- */

enum { SIDE = 8, CLASSES = 3, TRAIN = 96, TEST = 36, BATCH = 8, STEPS = TRAIN / BATCH, EPOCHS = 4 };
enum { TEST_BATCH = 9, TEST_STEPS = TEST / TEST_BATCH };

typedef struct subject {
    qg_net      *net;
    qg_optim    *optim;
    qg_loader   *train, *test;
    qg_fit_spec  spec;
    char         dir[ROOM_BYTES], source[ROOM_BYTES];
    bool         starts;                    /* from the source */
    int          stop_after;                /* epochs, if measure_after_epoch listens */
} subject;

/* A residual block with ternary weights and learned steps of its inputs, and dropout.  late: learned steps of the weights,
 * too, and quantizers that start within the second and the third epoch, and between them that of the last layer. */
static qg_net *small_net(uint64_t seed, int bits, bool late)
{
    const qg_quant input  = qg_lsq((qg_lsq_spec){ .bits = bits });
    const qg_quant weight = late ? qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }) : qg_twn((qg_twn_spec){ 0 });
    qg_quant       last   = weight;
    last.after            = late ? 2 * STEPS : 0;
    qg_net   *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = seed,
                                              .quantize_weights_after = late ? STEPS + 5 : 0,
                                              .quantize_inputs_after  = late ? 2 * STEPS + 3 : 0 });
    qg_layer *x   = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .pad = 1, .weight = weight, .input = input });
    qg_net_add(net, qg_net_batchnorm(net), x);
    qg_net_relu(net), qg_net_maxpool(net, 2), qg_net_dropout(net, 0.2f);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = last });
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

static subject open_with(const char *name, int bits, uint64_t images, bool late)
{
    subject s = { .net = small_net(1, bits, late) };
    snprintf(s.dir, sizeof s.dir, "%s", in_room(name));
    s.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    s.train = bands(TRAIN, images, (qg_loader_spec){ .batch = BATCH, .seed = 3, .augment = { .pad = 1 } });
    s.test  = bands(TEST, 2, (qg_loader_spec){ .batch = TEST_BATCH, .in_order = true });
    s.spec  = (qg_fit_spec){ .config   = "optimizer = \"adam\"\n",
                             .train    = s.train,
                             .test     = s.test,
                             .optim    = s.optim,
                             .epochs   = EPOCHS,
                             .seed     = 5,
                             .schedule = { .kind = QG_COSINE } };
    if (!s.optim || !s.train || !s.test) fail_msg("%s", qg_errmsg());
    return s;
}

static subject open_subject(const char *name) { return open_with(name, 3, 1, false); }

static void close_subject(subject *s)
{
    qg_net_free(s->spec.teacher.net);
    qg_loader_free(s->test), qg_loader_free(s->train), qg_optim_free(s->optim), qg_net_free(s->net);
}

static qg_status fit(subject *s, qg_fit_result *r)
{
    s->spec.dir  = s->dir;
    s->spec.init = s->starts ? s->source : NULL;
    return qg_fit(s->net, s->spec, r);
}

/* Trains from the beginning or the checkpoint on, and frees *s. */
static qg_fit_result trained(subject *s)
{
    qg_fit_result r;
    assert_ok(fit(s, &r));
    close_subject(s);
    return r;
}

/* --- comparing runs ----------------------------------------------------------------------- */

static size_t read_whole(const char *dir, const char *name, char *bytes, size_t most)
{
    char  path[ROOM_BYTES];
    FILE *f = (snprintf(path, sizeof path, "%s/%s", in_room(dir), name), fopen(path, "rb"));
    if (!f) fail_msg("%s is missing", path);
    const size_t n = fread(bytes, 1, most, f);
    assert_true(n < most);
    fclose(f);
    return n;
}

/* The checkpoint contains a digest of metrics.csv without its times, so these files suffice. */
static void assert_same_run(const char *a, const char *b)
{
    enum { MOST = 1 << 20 };
    static const char *const files[] = { "config.toml", "last.safetensors", "best.safetensors" };
    char *x = malloc(MOST), *y = malloc(MOST);
    for (int i = 0; i < 3; i++) {
        const size_t n = read_whole(a, files[i], x, MOST);
        assert_int_equal(n, read_whole(b, files[i], y, MOST));
        assert_memory_equal(x, y, n);
    }
    free(x), free(y);
}

/* --- resuming ----------------------------------------------------------------------------- */

static void train_source(void)
{
    subject s = open_with("source", 3, 7, false);
    trained(&s);
}

/* Everything that a checkpoint may have to hold, or the next process to do again. */
static subject open_rich(const char *name)
{
    subject s              = open_with(name, 3, 1, true);
    s.starts               = true;
    snprintf(s.source, sizeof s.source, "%s", in_room("source"));
    s.spec.freeze          = "conv1";
    s.spec.teacher.net     = small_net(9, 2, false);
    if (!qg_net_build(s.spec.teacher.net)) fail_msg("%s", qg_errmsg());
    s.spec.label_smoothing = 0.1f;
    s.spec.clip_norm       = 1;
    s.spec.ema_decay       = 0.9f;
    s.spec.patience        = 1;         /* the third epoch is the first that counts */
    return s;
}

static void wait_for(uint64_t microseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)microseconds * 1000 }, NULL);
}

/* The child runs until a moment that the key decides, at any place, also within a write. */
static bool ends_before_it_is_killed(const char *name, uint64_t key, uint64_t most)
{
    int         status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        subject s = open_rich(name);
        _exit(fit(&s, NULL) ? 1 : 0);
    }
    wait_for(qg_bits(key, 0) % most);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void killed_at_any_moment_it_ends_with_the_same_bytes(void **state)
{
    enum { RUNS = 4, MOST_KILLS = 60 };
    train_source();
    subject s = open_rich("whole");
    trained(&s);
    for (uint64_t run = 0; run < RUNS; run++) {
        int kills = 0;
        while (kills < MOST_KILLS && !ends_before_it_is_killed("killed", 100 * run + (uint64_t)kills, 40000)) kills++;
        s = open_rich("killed");
        assert_true(trained(&s).complete);
        assert_same_run("whole", "killed");
        char command[ROOM_BYTES + 16];
        snprintf(command, sizeof command, "rm -r '%s'", in_room("killed"));
        assert_int_equal(system(command), 0);
    }
}

static volatile sig_atomic_t stop;

typedef struct stopper {
    long at, steps;
} stopper;

static void stop_at(void *user, const qg_fit_progress *p)
{
    stopper *s = user;
    stop       = ++s->steps == s->at;
}

static void stopped_after_every_step_it_ends_with_the_same_bytes(void **state)
{
    train_source();
    subject s = open_rich("unstopped");
    trained(&s);
    long          sittings = 0;
    qg_fit_result r        = { .complete = false };
    for (; !r.complete; sittings++) {
        stopper by    = { .at = 1 + sittings % 3 };
        s             = open_rich("stopped");
        stop          = 0;
        s.spec.stop   = &stop;
        s.spec.events = (qg_fit_events){ .user = &by, .step = stop_at };
        r             = trained(&s);
    }
    assert_true(sittings > EPOCHS * STEPS / 3);
    assert_same_run("unstopped", "stopped");
}

static void stop_in_test(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    stopper *s = user;
    stop |= ++s->steps == s->at;
}

/* A test that was stopped has no result, and is done again. */
static void stopped_within_the_test_it_ends_with_the_same_bytes(void **state)
{
    train_source();
    subject s = open_rich("tested");
    trained(&s);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (long batch = 1; batch <= TEST_STEPS; batch++) {
            stopper by    = { .at = batch };
            s             = open_rich("retested");
            stop          = 0;
            s.spec.stop   = &stop;
            s.spec.events = (qg_fit_events){ .user = &by, .scores = stop_in_test };
            const qg_fit_result r = trained(&s);
            if (batch < TEST_STEPS) assert_true(r.ended == QG_FIT_STOPPED && r.epochs == epoch && r.batch == STEPS);
            else assert_true(r.epochs == epoch + 1 && r.batch == 0 && r.complete == (r.epochs == EPOCHS));
            assert_int_equal(by.steps, batch);
        }
    assert_same_run("tested", "retested");
}

static void a_budget_that_is_used_up_stops_at_once(void **state)
{
    subject s           = open_subject("budget");
    s.spec.budget       = -1;
    const qg_fit_result r = trained(&s);
    assert_false(r.complete);
    assert_true(r.ended == QG_FIT_OUT_OF_TIME && r.epochs == 0 && r.batch == 0 && r.batches == STEPS);
}

static void a_finished_run_is_only_read(void **state)
{
    subject s = open_subject("finished");
    const qg_fit_result first = trained(&s);
    s = open_subject("finished");
    const qg_fit_result again = trained(&s);
    assert_true(first.complete && again.complete && first.ended == QG_FIT_OVER);
    assert_string_equal(first.digest, again.digest);
    assert_true(first.best_test_accuracy == again.best_test_accuracy && first.epochs == EPOCHS);
}

/* --- the configuration -------------------------------------------------------------------- */

static void refused(subject *s, const char *part)
{
    assert_failed(fit(s, NULL), QG_EARG, part);
    close_subject(s);
}

static void run_in_room(const char *line)
{
    char whole[ROOM_BYTES + 256];
    snprintf(whole, sizeof whole, "cd %s && %s", room, line);
    if (system(whole)) fail_msg("%s failed", line);
}

/* --- longer runs -------------------------------------------------------------------------- */

/* Averages, and quantizers that start after the second epoch and after the third. */
static subject open_span(const char *name, int epochs, qg_schedule schedule)
{
    subject s         = open_with(name, 3, 1, true);
    s.spec.epochs     = epochs;
    s.spec.schedule   = schedule;
    s.spec.ema_decay  = 0.9f;
    return s;
}

static subject open_patient(const char *name, int epochs, int patience)
{
    subject s       = open_span(name, epochs, (qg_schedule){ 0 });
    s.spec.patience = patience;
    return s;
}

static void an_extended_run_is_the_longer_run(void **state)
{
    const qg_schedule drops = { .kind = QG_STEP, .milestone = { 0.5f }, .n_milestones = 1 }, constant = { 0 };
    const qg_schedule later = qg_schedule_extend(&drops, 2, 3), warm = { .warmup = 0.125f }, warmer = { .warmup = 0.25f };
    const struct { qg_schedule from, to; int epochs, more; } of[] = {
        { constant, constant, 1, 4 }, { drops, later, 2, 3 }, { warmer, warm, 2, 4 }, { constant, drops, 2, 4 },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        subject s = open_span("longer", of[i].epochs, of[i].from);
        trained(&s);
        s = open_span("longer", of[i].more, of[i].to);
        const qg_fit_result r = trained(&s);
        assert_int_equal(r.epochs, of[i].more);
        s = open_span("all-of-it", of[i].more, of[i].to);
        const qg_fit_result w = trained(&s);
        assert_same_run("longer", "all-of-it");
        assert_string_equal(r.digest, w.digest);
        assert_true(r.best_epoch == w.best_epoch && r.best_test_accuracy == w.best_test_accuracy);
        run_in_room("rm -r longer all-of-it");
    }
}

/* Killed after any of the three files, or within an epoch. */
static void an_extension_survives_a_kill(void **state)
{
    static const char *const old[] = { "last.safetensors", "last.safetensors best.safetensors",
                                       "last.safetensors best.safetensors config.toml" };
    subject s = open_span("all-of-it", 4, (qg_schedule){ 0 });
    trained(&s);
    for (int i = 0; i < 3; i++) {
        s = open_span("cut", 2, (qg_schedule){ 0 });
        trained(&s);
        run_in_room("cp -r cut kept");
        s             = open_span("cut", 4, (qg_schedule){ 0 });
        s.spec.budget = -1;
        assert_false(trained(&s).complete);
        char line[200];
        snprintf(line, sizeof line, "cd kept && cp %s ../cut", old[i]);
        run_in_room(line);
        s = open_span("cut", 4, (qg_schedule){ 0 });
        assert_true(trained(&s).complete);
        assert_same_run("cut", "all-of-it");
        run_in_room("rm -r cut kept");
    }
}

static void what_a_longer_run_would_not_have_done_is_refused(void **state)
{
    subject s = open_subject("ends");               /* along a cosine */
    trained(&s);
    run_in_room("cp -r ends kept");
    s = open_subject("ends"), s.spec.epochs = 5;
    refused(&s, "cannot be extended: with 5 epochs and schedule cosine its step 2 would have had the rate");
    s = open_subject("ends"), s.spec.epochs = 3;
    refused(&s, "has 4, and cannot be shortened to 3");
    s = open_subject("ends"), s.spec.schedule = (qg_schedule){ 0 };
    refused(&s, "schedule constant its step 2 would");
    s = open_subject("ends"), s.spec.patience = 1;
    refused(&s, "patience: the run in");
    run_in_room("diff -r ends kept");
    s = open_patient("tired", 9, 1);
    const qg_fit_result r = trained(&s);
    assert_true(r.complete && r.epochs < 9);
    s = open_patient("tired", 10, 1);
    refused(&s, "epochs: patience 1 ended the run");
    s = open_patient("tired", 10, 3);
    const qg_fit_result more = trained(&s);
    assert_true(more.complete && more.epochs > r.epochs);
    s = open_patient("fresh", 10, 3);
    trained(&s);
    assert_same_run("tired", "fresh");
    s = open_patient("tired", 10, 0);
    assert_int_equal(trained(&s).epochs, 10);
}

/* What only a program can choose. */
typedef enum choice { SURROGATE, EPS, PADDING, FOLDED, GIVEN, CHOICES } choice;

static subject open_choice(choice what)
{
    subject     s = open_subject("own");
    qg_product *p = qg_layer_product(qg_net_layer(s.net, 2));
    if (what == SURROGATE) p->weight_slot.q.surrogate = qg_surrogate_clip(1);
    if (what == EPS) qg__batchnorm(qg_net_layer(s.net, 1))->spec.eps = 0.01f;
    if (what == PADDING) p->conv.pad_value = 1;
    if (what == FOLDED) s.net->spec.fold_batchnorm = true;
    if (what != GIVEN) return s;
    qg_loader *given = bands(TRAIN, 1, (qg_loader_spec){ .batch = 1, .normalise = { .kind = QG_PER_PIXEL } });
    qg_loader_free(s.train);
    s.train = bands(TRAIN, 1, (qg_loader_spec){ .batch = BATCH, .seed = 3, .augment = { .pad = 1 },
                                                .preprocess = qg_loader_preprocess(given) });
    s.spec.train = s.train;
    qg_loader_free(given);
    return s;
}

static void another_configuration_is_refused(void **state)
{
    subject s = open_subject("own");
    trained(&s);
    s = open_subject("own"), s.spec.config = "optimizer = \"sgd\"\n";
    refused(&s, "last.safetensors: belongs to a run with 'optimizer = \"adam\"', but this one has 'optimizer = \"sgd\"'");
    s = open_subject("own"), s.spec.config = NULL;
    refused(&s, "but this one has 'lr = 0.00");
    s = open_subject("own"), s.spec.config = "optimizer = \"adam\"\nepochs = 5\n";
    refused(&s, "belongs to a run with 'epochs = 4', but this one has 'epochs = 5'");     /* a line of the program's own */
    s = open_subject("own"), s.spec.lr = 0.02;
    refused(&s, "'lr = 0.02'");
    s = open_subject("own"), s.spec.seed = 6;
    refused(&s, "'seed = 6'");
    s = open_subject("own"), s.spec.ema_decay = 0.5f;
    refused(&s, "but this one has 'ema = 0.5'");
    s = open_with("own", 4, 1, false);
    refused(&s, "net-digest");
    s = open_with("own", 3, 7, false);
    refused(&s, "data-digest");
    for (choice what = SURROGATE; what < CHOICES; what++) {
        s = open_choice(what);
        refused(&s, what == GIVEN ? "data-digest" : "net-digest");
    }
    s = open_subject("own");
    assert_true(trained(&s).complete);          /* none of them has changed anything */
}

/* A program with a format of its own compares values. */
static qg_status same(void *user, const char *said, const char *path, qg_fit_span *was)
{
    (void)was;
    assert_string_equal(said, "mine");
    return *(const bool *)user ? QG_OK : qg_fail(QG_EARG, "%s: is another's", path);
}

static void a_program_may_compare_configurations_itself(void **state)
{
    bool    yes = true, no = false;
    char    text[64];
    subject s   = open_subject("compared");
    s.spec.config = "mine", s.spec.same = same, s.spec.user = &yes, s.spec.file = "# for people\n";
    trained(&s);
    assert_int_equal(read_whole("compared", "config.toml", text, sizeof text), strlen("# for people\n"));
    s = open_subject("compared");
    s.spec.config = "mine", s.spec.same = same, s.spec.user = &no;
    refused(&s, "is another's");
    s = open_subject("compared");
    s.spec.config = "theirs", s.spec.same = same, s.spec.user = &yes;
    assert_true(trained(&s).complete);
}

/* --- directories -------------------------------------------------------------------------- */

static void keep_notice(void *user, qg_fit_notice what, const char *text)
{
    snprintf(user, 512, "%d %s", (int)what, text);
}

static void an_existing_run_is_kept(void **state)
{
    char    notice[512] = "";
    subject s           = open_subject("kept");
    trained(&s);
    s = open_subject("kept"), s.spec.mode = QG_FIT_NEW;
    assert_failed(fit(&s, NULL), QG_ESTATE, "kept already contains a run");
    s.spec.mode   = QG_FIT_FORCE;
    s.spec.events = (qg_fit_events){ .user = notice, .notice = keep_notice };
    trained(&s);
    assert_non_null(strstr(notice, "renamed the run in "));
    assert_int_equal(*notice, '0' + QG_FIT_RENAMED);
    assert_same_run("kept", "kept.old");
}

static void bad_specs_are_refused(void **state)
{
    subject s = open_subject("bad");
    qg_net *unbuilt = small_net(1, 2, false);
    assert_failed(qg_fit(s.net, s.spec, NULL), QG_EARG, "dir is NULL");
    s.spec.dir = s.dir;
    assert_failed(qg_fit(NULL, s.spec, NULL), QG_EARG, "net");
    assert_failed(qg_fit(unbuilt, s.spec, NULL), QG_ESTATE, "before qg_net_build");
    const qg_fit_spec good = s.spec;
#define REFUSED(field, value, part) (s.spec = good, s.spec.field = (value), assert_failed(fit(&s, NULL), QG_EARG, part))
    REFUSED(train, NULL, "train");
    REFUSED(test, NULL, "test");
    REFUSED(optim, NULL, "optim");
    REFUSED(epochs, 0, "epochs is 0");
    REFUSED(epochs, -2, "epochs is -2");
    REFUSED(lr, -1, "lr is -1");
    REFUSED(test, good.train, "train and test are the same loader");
    REFUSED(clip_norm, -1, "clip_norm is -1");
    REFUSED(clip_norm, INFINITY, "clip_norm is inf");
    REFUSED(budget, NAN, "budget is not a number");
    REFUSED(schedule, (qg_schedule){ .kind = (qg_schedule_kind)77 }, "77 is not a kind of schedule");
    REFUSED(schedule, (qg_schedule){ .kind = (qg_schedule_kind)-1 }, "-1 is not a kind of schedule");
    REFUSED(mode, (qg_fit_mode)77, "77 is not a mode");
    REFUSED(mode, (qg_fit_mode)-1, "-1 is not a mode");
    REFUSED(schedule, (qg_schedule){ .kind = QG_STEP }, "step: needs at= or every=");
    REFUSED(schedule, ((qg_schedule){ .kind = QG_COSINE, .warmup = 2 }), "warmup is 2, not in 0..1");
    REFUSED(patience, -1, "patience is -1");
    REFUSED(label_smoothing, 1, "label_smoothing is 1");
    REFUSED(ema_decay, 1, "decay is 1");
    s.spec     = good;
    s.spec.dir = "";
    assert_failed(qg_fit(s.net, s.spec, NULL), QG_EARG, "empty");
    qg_net_free(unbuilt);
    for (int classes = CLASSES - 1; classes <= CLASSES + 1; classes += 2) {
        const qg_loader_spec fours = { .batch = 4 };
        qg_loader           *few   = qg_synthetic((qg_shape){ 1, SIDE, SIDE, 1 }, 12, classes, fours);
        s.spec         = good;
        s.spec.train   = few;
        assert_failed(fit(&s, NULL), QG_ESHAPE, "classes of training images");
        s.spec      = good;
        s.spec.test = few;          /* a test set may lack the last class */
        if (classes > CLASSES) assert_failed(fit(&s, NULL), QG_ESHAPE, "3 scores for 4 classes of test");
        qg_loader_free(few);
    }
    subject other = open_subject("bad");
    s.spec        = good;
    REFUSED(optim, other.optim, "optim has the parameters of another net");
    close_subject(&other);
    close_subject(&s);
    assert_int_not_equal(access(in_room("bad"), F_OK), 0);
}

/* A kind that is added to the table needs a row here, too, so none is left untrained. */
static void every_kind_of_schedule_trains(void **state)
{
    static const char *const texts[] = { "constant", "step:every=0.25,factor=0.5", "exponential:factor=0.01",
                                         "cosine:factor=0.1", "linear:factor=0.1,warmup=0.2" };
    int kinds = 0;
    for (; qg_schedules[kinds].name; kinds++) {
        char    text[64];
        subject s = open_subject(qg_schedules[kinds].name);
        assert_true(kinds < (int)(sizeof texts / sizeof *texts));
        assert_ok(qg_schedule_parse(texts[kinds], &s.spec.schedule));
        assert_int_equal(s.spec.schedule.kind, kinds);
        qg_schedule_print(&s.spec.schedule, text, sizeof text);
        assert_string_equal(text, texts[kinds]);
        s.spec.epochs = 1;
        assert_true(trained(&s).complete);
    }
    assert_int_equal(kinds, sizeof texts / sizeof *texts);
}

static void the_net_must_be_one_for_the_images(void **state)
{
    subject s = open_subject("sizes");
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE + 1, .width = SIDE, .channels = 3 });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES });
    s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    assert_failed(fit(&s, NULL), QG_ESHAPE, "images are 8x8x1, but the net was declared for 9x8x3");
    close_subject(&s);
    assert_int_not_equal(access(in_room("sizes"), F_OK), 0);
}

/* Its moments and weights are not those that a resumed run would begin with. */
static void a_new_run_needs_a_new_optimizer(void **state)
{
    subject s       = open_subject("first");
    s.spec.schedule = (qg_schedule){ 0 };
    s.spec.epochs   = 1;
    assert_ok(fit(&s, NULL));
    assert_ok(fit(&s, NULL));                   /* the run continues, that is, it is finished */
    s.spec.epochs = 2;
    assert_ok(fit(&s, NULL));                   /* it is extended */
    snprintf(s.dir, sizeof s.dir, "%s", in_room("second"));
    assert_failed(fit(&s, NULL), QG_EARG, "a new run needs a new optimizer, but this one has taken 24 steps");
    snprintf(s.dir, sizeof s.dir, "%s", in_room("first"));
    s.spec.mode = QG_FIT_FORCE;
    assert_failed(fit(&s, NULL), QG_EARG, "a new run needs a new optimizer");
    close_subject(&s);
    assert_int_not_equal(access(in_room("first.old"), F_OK), 0);
}

/* --- images in files ---------------------------------------------------------------------- */

enum { FILES = 24 };

static void write_files(uint64_t key)
{
    static const char *const folders[] = { "files", "files/0", "files/1", "files/2" };
    for (int i = 0; i < 4; i++) mkdir(in_room(folders[i]), 0700);
    for (int i = 0; i < FILES; i++) {
        uint8_t p[3 * SIDE * SIDE];
        char    name[32];
        snprintf(name, sizeof name, "files/%d/%02d.bmp", i % CLASSES, i);
        for (int k = 0; k < 3 * SIDE * SIDE; k++) p[k] = (uint8_t)qg_bits(key, (uint64_t)(i * 1000 + k));
        write_bmp(in_room(name), p, SIDE, SIDE);
    }
}

static subject open_files(const char *name, size_t cache)
{
    subject s = open_subject(name);
    qg_loader_free(s.train);
    s.train = s.spec.train = qg_folder(in_room("files"), (qg_shape){ 1, SIDE, SIDE, 1 },
                                       (qg_loader_spec){ .batch = BATCH, .seed = 3, .cache_bytes = cache });
    if (!s.train) fail_msg("%s", qg_errmsg());
    return s;
}

/* After the first of three steps of the third epoch. */
static void exchange_files(void *user, const qg_fit_progress *p)
{
    (void)user;
    if (p->epoch == 2 && p->batch == 1) write_files(2);
}

static void changed_files_end_a_run_which_continues_with_the_right_ones(void **state)
{
    qg_fit_result r;
    write_files(1);
    subject whole = open_files("in-memory", 0), s = open_files("in-files", 3 * SIDE * SIDE);
    s.spec.events = (qg_fit_events){ .step = exchange_files };
    assert_failed(fit(&s, &r), QG_EIO, ".bmp' has changed since it was first read");
    close_subject(&s);
    s = open_files("in-files", 3 * SIDE * SIDE);                        /* the other images */
    assert_failed(fit(&s, &r), QG_EARG, "");
    close_subject(&s);
    write_files(1);
    s = open_files("in-files", 1);
    trained(&s), trained(&whole);
    assert_same_run("in-memory", "in-files");
}

static void lose_directory(void *user, const qg_fit_progress *p)
{
    (void)user;
    if (p->epoch == 1 && p->batch == 1) assert_int_equal(rename("lost", "found") | chdir("/"), 0);
}

static void go_elsewhere(void *user, const qg_fit_progress *p)
{
    (void)user;
    if (p->epoch == 1 && p->batch == 1) assert_int_equal(chdir("/"), 0);
}

/* The directory of the run and those of images that are read again are relative, and belong to where the call began. */
static void a_program_may_change_its_directory(void **state)
{
    const int here = open(".", O_RDONLY | O_DIRECTORY);
    subject   s;
    write_files(1);
    s = open_files("stays", 1);
    trained(&s);
    assert_int_equal(chdir(room), 0);
    s = open_subject("wanders");
    qg_loader_free(s.train);
    s.train = s.spec.train = qg_folder("files", (qg_shape){ 1, SIDE, SIDE, 1 }, (qg_loader_spec){ .batch = BATCH, .seed = 3, .cache_bytes = 1 });
    snprintf(s.dir, sizeof s.dir, "wanders");
    s.spec.events = (qg_fit_events){ .step = go_elsewhere };
    trained(&s);
    assert_same_run("stays", "wanders");

    /* It notices all the same that the directory is no longer there. */
    assert_int_equal(chdir(room), 0);
    s = open_subject("lost");
    snprintf(s.dir, sizeof s.dir, "lost");
    s.spec.events = (qg_fit_events){ .step = lose_directory };
    assert_failed(fit(&s, NULL), QG_ESTATE, "lost is no longer the directory that this run started in: it was moved or replaced");
    close_subject(&s);
    assert_int_equal(fchdir(here) | close(here), 0);
}

/* --- events ------------------------------------------------------------------------------- */

typedef struct watch {
    int      begins, steps, epochs;
    uint64_t step;
    double   best;
} watch;

static void on_begin(void *user, const qg_fit_progress *p)
{
    watch *w = user;
    assert_true(w->begins++ == 0 && w->steps == 0);
    assert_true(p->epoch == 0 && p->epochs == EPOCHS && p->batch == 0 && p->batches == STEPS && p->loss == 0);
}

static void on_step(void *user, const qg_fit_progress *p)
{
    watch *w = user;
    w->steps++;
    assert_true(p->epoch * STEPS + p->batch == ++w->step);
    assert_true(p->loss > 0 && p->accuracy >= 0 && p->accuracy <= 1 && p->images_per_second > 0 && p->seconds_left >= 0);
}

static void on_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    watch *w = user;
    w->epochs++;
    assert_true(e->epoch == w->epochs && r->epochs == (uint64_t)w->epochs && w->steps == w->epochs * STEPS);
    if (e->test_accuracy > w->best) {
        w->best = e->test_accuracy;
        assert_true(r->best_epoch == r->epochs);
    }
    assert_true(r->best_test_accuracy == w->best && r->complete == (w->epochs == EPOCHS));
    assert_string_equal(e->digest, r->digest);
}

static void events_tell_how_it_goes(void **state)
{
    watch   w     = { .begins = 0 };
    subject s     = open_subject("watched");
    s.spec.events = (qg_fit_events){ .user = &w, .begin = on_begin, .step = on_step, .epoch = on_epoch };
    const qg_fit_result r = trained(&s);
    assert_true(w.begins == 1 && w.steps == EPOCHS * STEPS && w.epochs == EPOCHS);
    assert_true(r.best_test_accuracy == w.best && w.best > 0.6);        /* by chance 0.33 */
}

/* Listeners that read the images themselves. */
static void measure_train(const subject *s)
{
    qg_assessment a;
    assert_ok(qg_evaluate(s->net, s->train, (qg_evaluate_spec){ 0 }, &a));
    qg_assessment_free(&a);
}

static void measure_at_begin(void *user, const qg_fit_progress *p)
{
    measure_train(user);
}

static void read_after_step(void *user, const qg_fit_progress *p)
{
    qg_batch b;
    (void)qg_loader_next(((const subject *)user)->train, &b);
}

static void measure_after_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    const subject *s = user;
    qg_batch       b;
    measure_train(s);
    (void)qg_loader_next(s->train, &b);
    if (s->stop_after == e->epoch) stop = 1;
}

static void read_in_test(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    qg_batch next;
    for (int i = 0; i < 3; i++) (void)qg_loader_next(images, &next);
}

static void open_reading(const char *name, subject *s)
{
    stop           = 0;
    *s             = open_subject(name);
    s->spec.stop   = &stop;
    s->spec.events = (qg_fit_events){ .user = s, .begin = measure_at_begin, .step = read_after_step,
                                      .epoch = measure_after_epoch, .scores = read_in_test };
}

static void what_events_read_changes_no_bit(void **state)
{
    subject s = open_subject("unwatched");
    trained(&s);
    open_reading("reading", &s);
    trained(&s);
    assert_same_run("unwatched", "reading");
    open_reading("reading-stopped", &s);
    s.stop_after = 2;
    assert_int_equal(trained(&s).ended, QG_FIT_STOPPED);
    open_reading("reading-stopped", &s);
    assert_true(trained(&s).complete);
    assert_same_run("unwatched", "reading-stopped");
}

/* --- what the spec changes ---------------------------------------------------------------- */

static qg_var *doubled(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    ++*(int *)user;
    return qg_scale(t, qg_cross_entropy(t, scores, b->y), 2);
}

static void the_loss_may_be_the_programs_own(void **state)
{
    int     calls = 0;
    subject s     = open_subject("own-loss");
    s.spec.loss = doubled, s.spec.user = &calls, s.spec.epochs = 1;
    trained(&s);
    assert_int_equal(calls, STEPS + TEST / 9);
    s = open_subject("other-loss");
    s.spec.loss = doubled, s.spec.user = &calls, s.spec.label_smoothing = 0.1f;
    refused(&s, "label_smoothing");
}

/* The loss of the second head, whose result the loss finds by its name. */
static qg_var *of_two_heads(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    return qg_add(t, qg_cross_entropy(t, scores, b->y), qg_cross_entropy(t, qg_net_output(user, t, "aside"), b->y));
}

static void a_net_may_have_two_heads(void **state)
{
    subject s = open_subject("heads");
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net         = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_layer *x   = qg_net_dense(s.net, (qg_dense_spec){ .out = 8 });
    qg_net_mark_output(qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .name = "aside" }));
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .after = x });
    s.optim       = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    s.spec.loss   = of_two_heads, s.spec.user = s.net;
    qg_fit_result r;
    assert_ok(fit(&s, &r));
    assert_true(r.best_test_accuracy > 0.6);
    close_subject(&s);
}

/* LSQ starts with 2 mean|w| / sqrt(3) for signed weights of 3 bits. */
static double step_for(const qg_param *w)
{
    double sum = 0;
    for (size_t i = 0; i < qg_count(w->shape); i++) sum += fabs((double)w->value[i]);
    return 2 * sum / (double)qg_count(w->shape) / sqrt(3);
}

/* A net of one layer whose weight has a learned step that starts late. */
static subject open_delayed(const char *name, uint64_t after)
{
    subject s = open_subject(name);
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1, .quantize_weights_after = after });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }) });
    s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    return s;
}

static double learned_step(const subject *s)
{
    return (double)qg_params_find(qg_net_params(s->net), "fc1.weight.step")->value[0];
}

static double fitting_step(const subject *s) { return step_for(qg_params_find(qg_net_params(s->net), "fc1.weight")); }

/* It fits the weights of the step in which it begins, and not the initial ones: here never, after the last step, and before it. */
static void late_quantizers_start_from_the_weights_of_their_step(void **state)
{
    static const char *const name[] = { "never", "at-the-end", "late" };
    for (int late = 0; late < 3; late++) {
        subject      s     = open_delayed(name[late], EPOCHS * STEPS + 1 - (uint64_t)late);
        const double first = learned_step(&s);
        assert_true(fabs(first - fitting_step(&s)) < 1e-6 * first);
        assert_ok(fit(&s, NULL));
        if (late == 0) assert_true(learned_step(&s) == first);      /* while it waits, nothing moves it */
        if (late == 1) assert_true(fabs(learned_step(&s) - fitting_step(&s)) < 1e-6 * first);
        if (late == 2) assert_true(fabs(learned_step(&s) - fitting_step(&s)) < 1e-3 * first);   /* one step at a rate of 1e-5 */
        assert_true(fabs(first - fitting_step(&s)) > 0.01 * first);
        close_subject(&s);
    }
}

typedef struct witness {
    stopper        by;          /* first, for stop_at */
    const subject *s;
    int            epochs;
    double         step[EPOCHS], fitting[EPOCHS];
} witness;

static void see(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    witness *w            = user;
    w->step[w->epochs]      = learned_step(w->s);
    w->fitting[w->epochs++] = fitting_step(w->s);
}

/* The quantizer starts with the second test, and sittings end there and elsewhere. */
static witness seen_in(const char *name, float decay)
{
    witness       w = { .epochs = 0 };
    qg_fit_result r = { .complete = false };
    for (int sitting = 0; !r.complete; sitting++) {
        subject s        = open_delayed(name, 2 * STEPS);
        w.by             = (stopper){ .at = STEPS / 2 };
        w.s              = &s;
        stop             = 0;
        s.spec.ema_decay = decay;
        s.spec.stop      = &stop;
        s.spec.events    = (qg_fit_events){ .user = &w, .step = stop_at, .epoch = see };
        r                = trained(&s);
    }
    assert_int_equal(w.epochs, EPOCHS);
    return w;
}

/* The first test of codes is one of scales that fit, and if there are averages, of averages of them. */
static void the_first_test_of_codes_is_of_scales_that_fit(void **state)
{
    for (int average = 0; average < 2; average++) {
        subject       s     = open_delayed("unused", 2 * STEPS);
        const double  first = learned_step(&s);
        const witness now   = seen_in(average ? "fitting-average" : "fitting", average ? 0.9f : 0);
        close_subject(&s);
        assert_true(now.step[0] == first);
        assert_true(fabs(now.step[1] - now.fitting[1]) < 1e-6 * first && fabs(now.step[1] - first) > 0.05 * first);
    }
}

/* What it ended with it can tell, but no step is taken under another one. */
static void a_run_of_another_arithmetic_does_not_continue(void **state)
{
    static const char *const of[] = { NULL, "1", "3" };
    for (int i = 0; i < 3; i++) {
        const bool    whole = i == 1;
        char          name[32], path[ROOM_BYTES + 32], said[128];
        stopper       by = { .at = STEPS + 1 };
        qg_fit_result r;
        snprintf(name, sizeof name, "arithmetic-%d", i);
        subject s     = open_subject(name);
        stop          = 0;
        s.spec.stop   = &stop;
        s.spec.events = (qg_fit_events){ .user = &by, .step = whole ? NULL : stop_at };
        const qg_fit_result was = trained(&s);
        assert_true(was.arithmetic == QG_ARITHMETIC && was.complete == whole);
        snprintf(path, sizeof path, "%s/last.safetensors", in_room(name));
        note_anew(path, "arithmetic", of[i]);
        s = open_subject(name);
        snprintf(said, sizeof said, "%s: was trained under version %s of the arithmetic, but this program "
                 "trains it under version 2", name, of[i] ? of[i] : "1");
        if (!whole) assert_failed(fit(&s, &r), QG_ESTATE, said);
        close_subject(&s);
        if (!whole) continue;
        s = open_subject(name);
        r = trained(&s);
        assert_true(r.arithmetic == 1 && r.complete);
        assert_string_equal(r.digest, was.digest);
        s = open_subject(name);
        s.spec.epochs++, s.spec.schedule = (qg_schedule){ 0 };
        assert_failed(fit(&s, &r), QG_ESTATE, said);
        close_subject(&s);
    }
}

static void patience_ends_a_run(void **state)
{
    subject s       = open_subject("patient");
    s.spec.epochs   = 50;
    s.spec.patience = 2;
    const qg_fit_result r = trained(&s);
    assert_true(r.complete && r.epochs == r.best_epoch + 2 && r.epochs < 50);
    s = open_subject("patient");
    s.spec.epochs   = 50;
    s.spec.patience = 2;
    assert_true(trained(&s).epochs == r.epochs);
}

/* Its first range is far too narrow, so the net is at its best before it starts. */
static subject open_staged(const char *name, uint64_t after)
{
    subject s = open_subject(name);
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1, .quantize_weights_after = after });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .weight = qg_fake_quant((qg_fake_quant_spec){
                                         .range = QG_RANGE_FIXED, .min = -1e-6f, .max = 1e-6f }) });
    s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    return s;
}

typedef struct curve {
    int    epochs;
    double accuracy[64];
} curve;

static void draw(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    curve *c                 = user;
    c->accuracy[c->epochs++] = e->test_accuracy;
    assert_true((uint64_t)c->epochs == r->epochs);
}

/* The float net of the first epochs is another net: neither is it the best, nor does patience compare with it. */
static void the_best_is_an_epoch_of_the_quantized_net(void **state)
{
    curve   c       = { .epochs = 0 };
    subject s       = open_staged("staged", 3 * STEPS + 1);
    s.spec.epochs   = 50;
    s.spec.patience = 2;
    s.spec.events   = (qg_fit_events){ .user = &c, .epoch = draw };
    const qg_fit_result r = trained(&s);
    int best = 3;                               /* the fourth epoch is the first that ends with a quantized net */
    for (int i = 4; i < c.epochs; i++)
        if (c.accuracy[i] > c.accuracy[best]) best = i;
    assert_true(r.complete && r.epochs == r.best_epoch + 2 && r.best_epoch == (uint64_t)best + 1);
    assert_true(r.best_test_accuracy == c.accuracy[best] && c.accuracy[2] > c.accuracy[best]);
    /* Quantizers that never start leave every epoch as it is, and patience waits for them. */
    s               = open_staged("unstaged", 1000 * STEPS);
    s.spec.epochs   = 6;
    s.spec.patience = 1;
    c.epochs        = 0;
    s.spec.events   = (qg_fit_events){ .user = &c, .epoch = draw };
    const qg_fit_result never = trained(&s);
    assert_true(never.epochs == 6 && never.best_epoch < 6);
}

/* The first batch decides the step of an input, so the test before that is one of floats. */
static void the_best_is_an_epoch_of_quantized_inputs(void **state)
{
    curve   c = { .epochs = 0 };
    subject s = open_subject("staged-inputs");
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1, .quantize_inputs_after = 3 * STEPS });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .input = qg_lsq((qg_lsq_spec){ .bits = 1 }) });
    s.optim         = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    s.spec.epochs   = 50;
    s.spec.patience = 2;
    s.spec.events   = (qg_fit_events){ .user = &c, .epoch = draw };
    const qg_fit_result r = trained(&s);
    int best = 3;
    for (int i = 4; i < c.epochs; i++)
        if (c.accuracy[i] > c.accuracy[best]) best = i;
    assert_true(c.accuracy[2] >= c.accuracy[best]);
    assert_true(r.complete && r.epochs == r.best_epoch + 2 && r.best_epoch == (uint64_t)best + 1);
}

/* The average of a learned step, and how many values it is of. */
static void read_average(const char *dir, float *step, int64_t *updates)
{
    char        path[ROOM_BYTES];
    snprintf(path, sizeof path, "%s/last.safetensors", in_room(dir));
    qg_archive *a = qg_archive_open(path);
    if (!a) fail_msg("%s", qg_errmsg());
    const qg_named_array *average = qg_archive_find(a, "ema.fc1.weight.step"), *n = qg_archive_find(a, "ema.steps");
    assert_true(average && n);
    *step    = *(const float *)average->array.data;
    *updates = *(const int64_t *)n->array.data;
    qg_archive_free(a);
}

/* An average that remembered the step before the start would be off by a tenth for hundreds of steps. */
static void averages_begin_anew_where_quantizers_start(void **state)
{
    subject s = open_subject("anew");
    float   average;
    int64_t updates;
    qg_optim_free(s.optim), qg_net_free(s.net);
    s.net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1,
                                      .quantize_weights_after = EPOCHS * STEPS - 10 });
    qg_net_dense(s.net, (qg_dense_spec){ .out = CLASSES, .weight = qg_lsq((qg_lsq_spec){ .bits = 3, .is_signed = true }) });
    s.optim = s.spec.optim = qg_adam(qg_net_build(s.net), (qg_adam_spec){ .lr = 0.01f });
    const qg_param *step   = qg_params_find(qg_net_params(s.net), "fc1.weight.step");
    const double    first  = (double)step->value[0];
    s.spec.ema_decay = 0.999f;
    assert_ok(fit(&s, NULL));
    read_average("anew", &average, &updates);
    assert_int_equal(updates, 10);
    const double end = (double)step->value[0];
    assert_true(fabs(end - first) > 0.05 * first && fabs((double)average - end) < 0.05 * fabs(end - first));
    close_subject(&s);
}

/* The accuracy on the test images of the weights in a file of qg_net_save. */
static double accuracy_of(const char *path)
{
    subject  s = open_subject("unused");
    qg_tape *t = qg_tape_new();
    int      correct = 0;
    assert_ok(qg_net_load(s.net, path));
    for (qg_batch b; qg_loader_next(s.test, &b);) {
        qg_tape_begin(t, QG_EVAL, 0, EPOCHS * STEPS);
        correct += qg_count_correct(qg_net_forward(s.net, t, b.x), b.y);
    }
    qg_tape_free(t);
    close_subject(&s);
    return (double)correct / TEST;
}

/* With averages that hardly move, tests see a net that is almost the initial one. */
static void averages_are_what_is_tested_and_saved(void **state)
{
    char    path[ROOM_BYTES];
    subject s        = open_subject("averaged");
    s.spec.ema_decay = 0.95f;
    const qg_fit_result with = trained(&s);
    snprintf(path, sizeof path, "%s/best.safetensors", in_room("averaged"));
    assert_true(accuracy_of(path) == with.best_test_accuracy);
    s = open_subject("plain");
    const qg_fit_result without = trained(&s);
    snprintf(path, sizeof path, "%s/best.safetensors", in_room("plain"));
    assert_true(accuracy_of(path) == without.best_test_accuracy);
}

/* Except for the running statistics, which are those of the averages. */
static void a_net_with_averages_trains_as_usual(void **state)
{
    char digest[2][QG_FIT_TEXT];
    for (int i = 0; i < 2; i++) {
        subject s = open_subject(i ? "trained-averaged" : "trained-plain");
        s.spec.ema_decay = i ? 0.95f : 0;
        s.spec.keep_running_statistics = true;
        strcpy(digest[i], trained(&s).digest);
    }
    assert_string_equal(digest[0], digest[1]);
}

/* What they do is tested with the ops and the optimizer; here, that they are used. */
static void smoothing_and_clipping_change_the_weights(void **state)
{
    subject s = open_subject("neither");
    char    digest[QG_FIT_TEXT];
    strcpy(digest, trained(&s).digest);
    s = open_subject("smoothed"), s.spec.label_smoothing = 0.1f;
    assert_string_not_equal(trained(&s).digest, digest);
    s = open_subject("clipped"), s.spec.clip_norm = 0.1f;
    assert_string_not_equal(trained(&s).digest, digest);
    s = open_subject("unclipped"), s.spec.clip_norm = 1e6f;
    assert_string_equal(trained(&s).digest, digest);
}

static void a_program_may_note_a_checksum_of_its_own(void **state)
{
    static const qg_note about[] = { { "model", "mine" }, { "checksum", "of the images" } };
    qg_fit_result        r;
    subject              s = open_subject("noted");
    s.spec.epochs = 1, s.spec.about = about, s.spec.abouts = 2;
    trained(&s);
    assert_ok(qg_run_result(in_room("noted"), &r));
    assert_true(r.complete);
    run_in_room("sed -i s/images/pixels/ noted/result.json");
    assert_failed(qg_run_result(in_room("noted"), &r), QG_EFORMAT, "is damaged");
}

/* --- the example -------------------------------------------------------------------------- */

static pid_t start_example(const char *dir)
{
    const char *build = getenv("BUILD");
    char        path[1024];
    snprintf(path, sizeof path, "%s/examples/fit", build ? build : "build");
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(2);
        execl(path, path, dir, "3", (char *)NULL);
        _exit(2);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void spoil(void *user, const qg_fit_progress *p)
{
    (void)p;
    qg_net_params(user)->item[0]->value[3] = NAN;
}

/* A weight that is not a number has a sign, so no loss shows it.  The run ends before a file has its digest. */
static void a_weight_that_is_no_number_has_no_digest(void **state)
{
    subject     s    = open_subject("no-number");
    qg_net     *net  = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 1 });
    qg_layer   *last = qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = qg_bnn((qg_bnn_spec){ 0 }) });
    char        text[1024];
    assert_non_null(last);
    qg_optim *optim = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 0.01f });
    assert_non_null(optim);
    s.spec.optim  = optim;
    s.spec.dir    = s.dir;
    s.spec.events = (qg_fit_events){ .user = net, .step = spoil };
    assert_failed(qg_fit(net, s.spec, NULL), QG_ENAN, "has the value nan");
    text[read_whole("no-number", "metrics.csv", text, sizeof text)] = '\0';
    assert_null(strstr(text, "\n1,"));
    qg_optim_free(optim), qg_net_free(net);
    close_subject(&s);
}

static void the_example_survives_kills_and_signals(void **state)
{
    char whole[ROOM_BYTES], killed[ROOM_BYTES];
    strcpy(whole, in_room("example")), strcpy(killed, in_room("example-killed"));
    assert_int_equal(status_of(start_example(whole)), 0);
    for (uint64_t i = 0; i < 8; i++) {
        const pid_t pid = start_example(killed);
        wait_for(qg_bits(i, 1) % 300000);
        kill(pid, i % 3 == 2 ? SIGTERM : SIGKILL);
        status_of(pid);
    }
    assert_int_equal(status_of(start_example(killed)), 0);
    assert_same_run("example", "example-killed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_moment_it_ends_with_the_same_bytes),
        cmocka_unit_test(stopped_after_every_step_it_ends_with_the_same_bytes),
        cmocka_unit_test(stopped_within_the_test_it_ends_with_the_same_bytes),
        cmocka_unit_test(a_budget_that_is_used_up_stops_at_once),
        cmocka_unit_test(a_finished_run_is_only_read),
        cmocka_unit_test(an_extended_run_is_the_longer_run),
        cmocka_unit_test(an_extension_survives_a_kill),
        cmocka_unit_test(what_a_longer_run_would_not_have_done_is_refused),
        cmocka_unit_test(another_configuration_is_refused),
        cmocka_unit_test(a_program_may_compare_configurations_itself),
        cmocka_unit_test(an_existing_run_is_kept),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(every_kind_of_schedule_trains),
        cmocka_unit_test(the_net_must_be_one_for_the_images),
        cmocka_unit_test(a_new_run_needs_a_new_optimizer),
        cmocka_unit_test(a_program_may_change_its_directory),
        cmocka_unit_test(changed_files_end_a_run_which_continues_with_the_right_ones),
        cmocka_unit_test(events_tell_how_it_goes),
        cmocka_unit_test(what_events_read_changes_no_bit),
        cmocka_unit_test(the_loss_may_be_the_programs_own),
        cmocka_unit_test(a_net_may_have_two_heads),
        cmocka_unit_test(late_quantizers_start_from_the_weights_of_their_step),
        cmocka_unit_test(the_first_test_of_codes_is_of_scales_that_fit),
        cmocka_unit_test(a_run_of_another_arithmetic_does_not_continue),
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(the_best_is_an_epoch_of_the_quantized_net),
        cmocka_unit_test(the_best_is_an_epoch_of_quantized_inputs),
        cmocka_unit_test(averages_begin_anew_where_quantizers_start),
        cmocka_unit_test(averages_are_what_is_tested_and_saved),
        cmocka_unit_test(a_net_with_averages_trains_as_usual),
        cmocka_unit_test(smoothing_and_clipping_change_the_weights),
        cmocka_unit_test(a_program_may_note_a_checksum_of_its_own),
        cmocka_unit_test(a_weight_that_is_no_number_has_no_digest),
        cmocka_unit_test(the_example_survives_kills_and_signals),
    };
    qg_set_threads(1);          /* children of a fork have no others */
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
