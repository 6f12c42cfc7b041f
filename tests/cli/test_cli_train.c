/* What `qgrad train` does is a loop over the public API.  Here is the loop, and the program must agree with
 * it to the bit; and the program killed wherever it writes, or stopped by a signal or a budget wherever it
 * reads the clock, must go on to the same bytes. */
#include "tests/support/testing.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/file.h"
#include "datasets/normalise.h"
#include "qgrad.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"

/* 240 and 60 images: both splits end in a batch that is shorter than the others. */
enum { BATCH = 32, EPOCHS = 2, SEED = 3 };

#define LENET5 "train --model lenet5 --data mnist --data-dir @/set --weight twn --batch 32 --epochs 2 --seed 3 --threads 1 "
#define RUN    "train " SET "--weight twn --batch 32 --epochs 2 "
#define NET    "train --model 4C2p0-R-MP3-10 --data sample --weight twn --json "
#define SMALL  NET "--epochs 0 "

/* --- the loop ----------------------------------------------------------------------------- */

typedef struct outcome_by_hand {
    char   digest[17];
    double lr, train_loss, test_loss, right;        /* of the last epoch; lr of its last step */
} outcome_by_hand;

static void train_epoch(qg_net *net, qg_optim *o, qg_loader *train, qg_schedule schedule, outcome_by_hand *r)
{
    const double steps = EPOCHS * qg_loader_batches(train);
    qg_tape     *t     = qg_tape_new();
    r->train_loss      = 0;
    for (qg_batch b; qg_loader_next(train, &b);) {
        r->lr = qg_schedule_lr(&schedule, 0.02, (double)b.step / steps);
        qg_tape_begin(t, QG_TRAIN, qg_rng_fork(SEED, QG_STREAM_TAPE), b.step);
        qg_var *loss = qg_cross_entropy(t, qg_net_forward(net, t, b.x), b.y);
        qg_optim_set_lr(o, (float)r->lr);
        if (qg_backward(t, loss) || qg_optim_step(o)) fail_msg("%s", qg_errmsg());
        r->train_loss += (double)loss->data[0] * b.x.shape.n / N_TRAIN;
    }
    qg_tape_free(t);
}

static void test_epoch(qg_net *net, qg_loader *test, uint64_t steps, outcome_by_hand *r)
{
    qg_tape *t   = qg_tape_new();
    r->test_loss = r->right = 0;
    for (qg_batch b; qg_loader_next(test, &b);) {
        qg_tape_begin(t, QG_EVAL, qg_rng_fork(SEED, QG_STREAM_TAPE), steps);
        qg_var *y = qg_net_forward(net, t, b.x);
        r->test_loss += (double)qg_cross_entropy(t, y, b.y)->data[0] * b.x.shape.n / N_TEST;
        r->right += qg_count_correct(y, b.y);
    }
    qg_tape_free(t);
}

static outcome_by_hand by_hand(qg_optim *(*make)(qg_params *p), qg_schedule schedule)
{
    qg_net    *net   = qg_model_declare(qg_model_find("lenet5"),
                                        (qg_model_spec){ .height = SIDE, .width = SIDE, .channels = 1, .classes = 10,
                                                         .seed = SEED, .weight = qg_twn((qg_twn_spec){ 0 }) });
    qg_optim  *o     = make(qg_net_build(net));
    qg_loader *train = qg_data_train("mnist", at("set"), (qg_loader_spec){ .batch = BATCH, .seed = SEED });
    qg_loader *test  = qg_data_test("mnist", at("set"), (qg_loader_spec){ .batch = BATCH, .in_order = true });
    outcome_by_hand r = { .lr = 0 };
    if (!o || !train || !test) fail_msg("%s", qg_errmsg());
    for (int e = 1; e <= EPOCHS; e++) {
        train_epoch(net, o, train, schedule, &r);
        test_epoch(net, test, (uint64_t)(e * qg_loader_batches(train)), &r);
    }
    snprintf(r.digest, sizeof r.digest, "%016" PRIx64, qg_params_digest(qg_net_params(net)));
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(o), qg_net_free(net);
    return r;
}

/* Written with nine digits. */
static void assert_written(double found, double want) { assert_true(fabs(found - want) <= 1e-8 * fabs(want)); }

static void assert_program_agrees(const char *said, outcome_by_hand want)
{
    char   csv[TEXT_BYTES];
    double column[6];
    assert_runs(LENET5 "--lr 0.02 %s --reestimate-batchnorm off --out @/run --force --json", said);
    assert_string_equal(last_text("digest"), want.digest);
    assert_written(last_number("train_loss"), want.train_loss);
    assert_written(last_number("test_accuracy"), want.right / N_TEST);
    slurp(at("run/metrics.csv"), csv, sizeof csv);
    const char *row = strstr(csv, "\n2,");
    assert_non_null(row);
    assert_int_equal(sscanf(row + 1, "%lf,%lf,%lf,%lf,%lf,%lf", &column[0], &column[1], &column[2], &column[3],
                            &column[4], &column[5]), 6);
    assert_written(column[1], want.lr);
    assert_written(column[2], want.train_loss);
    assert_written(column[4], want.test_loss);
}

static qg_optim *nesterov(qg_params *p)
{
    return qg_sgd(p, (qg_sgd_spec){ .lr = 0.02f, .momentum = 0.8f, .nesterov = true, .weight_decay = 0.01f });
}

static qg_optim *adam(qg_params *p)
{
    return qg_adam(p, (qg_adam_spec){ .lr = 0.02f, .beta1 = 0.8f, .beta2 = 0.99f, .weight_decay = 0.1f });
}

static void test_sgd_with_all_its_options(void **state)
{
    assert_program_agrees("--optimizer sgd --momentum 0.8 --nesterov --weight-decay 0.01 --schedule cosine:warmup=0.25",
                          by_hand(nesterov, (qg_schedule){ .kind = QG_COSINE, .warmup = 0.25f }));
}

static void test_adam_with_all_its_options(void **state)
{
    assert_program_agrees("--optimizer adam --beta1 0.8 --beta2 0.99 --weight-decay 0.1 --schedule step:at=0.5",
                          by_hand(adam, (qg_schedule){ .kind = QG_STEP, .milestone = { 0.5f }, .n_milestones = 1 }));
}

/* --- not locked --------------------------------------------------------------------------- */

int        __real_flock(int fd, int operation);
int        __wrap_flock(int fd, int operation);
static int flock_fails;                 /* with this errno; 0: it works */

int __wrap_flock(int fd, int operation)
{
    if (!flock_fails) return __real_flock(fd, operation);
    errno = flock_fails;
    return -1;
}

/* A run that quantizes nothing although it was asked to says so. */
static void test_schemes_that_no_layer_uses(void **state)
{
    assert_int_equal(qgrad_inside(SMALL "--first-last float --out @/none"), 0);
    assert_stderr("qgrad: warning: no layer has weights for twn; --first-last quantized includes");
    assert_int_equal(qgrad_inside(SMALL "--out @/some"), 0);
    assert_null(strstr(last.err, "warning"));
    assert_int_equal(qgrad_inside(NET "--quantize-weights-after 5epochs --epochs 1 --out @/late"), 0);
    assert_stderr("qgrad: warning: a quantizer of ");
    assert_stderr("; it trains and is tested without this quantizer");
    assert_int_equal(qgrad_inside(NET "--quantize-weights-after 1epoch --epochs 1 --out @/last"), 0);
    assert_stderr("; it trains without this quantizer, and is tested with it");
    assert_int_equal(qgrad_inside("train --model 10 --data sample --input sign --gradient dorefa "
                                  "--first-last float --epochs 0 --out @/nowhere"), 0);
    assert_stderr("qgrad: warning: no layer has inputs for sign; --first-last quantized includes the first "
                  "and the last, but not the image");
    assert_stderr("qgrad: warning: no layer has gradients for dorefa:bits=6; ");
    assert_status("eval --run @/nowhere --weight twn", 0);
    assert_stderr("qgrad: warning: no layer has weights for twn; ");
    assert_int_equal(qgrad_inside(NET "--quantize-weights-after 1epoch --epochs 2 --out @/half"), 0);
    assert_null(strstr(last.err, "a quantizer of"));
}

/* Weights that have learned from images that were normalised in another way. */
static void test_other_images_than_those_of_init(void **state)
{
    assert_int_equal(qgrad_inside(NET "--normalise channel --epochs 1 --out @/taught"), 0);
    assert_int_equal(qgrad_inside(NET "--init @/taught --epochs 1 --out @/same --normalise channel"), 0);
    assert_null(strstr(last.err, "were normalised"));
    assert_int_equal(qgrad_inside(NET "--init @/taught --epochs 1 --out @/other"), 0);
    assert_stderr("/taught were normalised by channel (--normalise), and these are by unit");
}

/* A run goes on without the lock that a file system does not have, and says so. */
static void test_file_systems_without_locks(void **state)
{
    static const int lacking[] = { ENOLCK, EOPNOTSUPP, ENOSYS };
    assert_status(RUN "--out @/one --json", 0);
    for (int i = 0; i < 3; i++) {
        flock_fails = lacking[i];
        assert_int_equal(qgrad_inside(RUN "--out @/two --json"), 0);
        assert_stderr("/two: ");
        assert_stderr("qgrad: warning: cannot lock ");
        assert_same_run("one", "two");
        run_shell("rm -r @/two");
    }
    flock_fails = EIO;
    assert_int_equal(qgrad_inside(RUN "--out @/two --json"), 1);
    assert_stderr("qgrad train: cannot lock ");
    flock_fails = EWOULDBLOCK;
    assert_int_equal(qgrad_inside(RUN "--out @/two --json"), 1);
    assert_stderr("/two is locked: another training holds it");
    flock_fails = 0;
}

/* --- killed ------------------------------------------------------------------------------- */

/* Linked with -Wl,--wrap: every file of a run is written by write and named by renameat; fsync flushes it, then its
 * directory. */
int     __real_renameat(int dir, const char *from, int to_dir, const char *to);
int     __wrap_renameat(int dir, const char *from, int to_dir, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
int     __real_fsync(int fd);
int     __wrap_fsync(int fd);

typedef enum moment { NEVER, BEFORE_RENAME, AFTER_RENAME, WITHIN_WRITE, NO_FSYNC, SIGNALLED } moment;

static moment kill_moment;
static int    calls, kill_at;       /* of write, rename or fsync */
static int    sent[2];              /* the signals of SIGNALLED */

int __wrap_renameat(int dir, const char *from, int to_dir, const char *to)
{
    const bool now = (kill_moment == BEFORE_RENAME || kill_moment == AFTER_RENAME) && ++calls == kill_at;
    if (kill_moment == SIGNALLED && ++calls == kill_at) raise(sent[0]), raise(sent[1]);
    if (now && kill_moment == BEFORE_RENAME) raise(SIGKILL);
    const int result = __real_renameat(dir, from, to_dir, to);
    if (now) raise(SIGKILL);
    return result;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    if (kill_moment != WITHIN_WRITE || ++calls != kill_at) return __real_write(fd, bytes, n);
    const ssize_t half = __real_write(fd, bytes, n / 2);
    raise(SIGKILL);
    return half;
}

/* Fails instead of a kill. */
int __wrap_fsync(int fd)
{
    if (kill_moment != NO_FSYNC || ++calls != kill_at) return __real_fsync(fd);
    errno = EIO;
    return -1;
}

static bool killed_at(moment m, int call)
{
    kill_moment = m, kill_at = call, calls = 0;
    const int status = qgrad_inside(RUN "--resume --out @/cut --json");
    kill_moment      = NEVER;
    if (status != 0) assert_int_equal(status, 1000 + SIGKILL);
    return status != 0;
}

/* result.json is never older than the checkpoint: a resume reads the time of earlier processes from it. */
static void assert_result_is_not_behind(void)
{
    char        said[TEXT_BYTES];
    qg_archive *a = qg_archive_open(at("cut/last.safetensors"));
    if (!a) return;                             /* killed before the first one */
    const uint64_t epoch = *(const uint64_t *)qg_archive_find(a, "run.epoch")->array.data;
    qg_archive_free(a);
    if (epoch == 0) return;
    slurp(at("cut/result.json"), said, sizeof said);
    cJSON *j = cJSON_Parse(said);
    assert_non_null(j);
    assert_true(number(j, "epochs") >= (double)epoch);
    cJSON_Delete(j);
}

/* How often it was killed, at every step-th call. */
static int survive(moment m, int step)
{
    int kills = 0;
    for (int call = 1; killed_at(m, call); call += step, kills++) {
        assert_result_is_not_behind();
        assert_status(RUN "--resume --out @/cut --json", 0);
        assert_same_run("whole", "cut");
        run_shell("rm -r @/cut");
    }
    assert_same_run("whole", "cut");
    run_shell("rm -r @/cut");
    return kills;
}

static void test_killed_wherever_files_change_it_ends_in_the_same_bytes(void **state)
{
    const int renames = 3 + 2 * 3;              /* three files at first, as many or more in each epoch */
    assert_status(RUN "--out @/whole --json", 0);
    assert_true(survive(BEFORE_RENAME, 1) >= renames);
    assert_true(survive(AFTER_RENAME, 1) >= renames);
    assert_true(survive(WITHIN_WRITE, 7) >= renames / 3);
}

/* Also that of the first checkpoint, whose directory cannot be flushed: no part of a run is left that does not resume. */
static void test_a_disk_that_does_not_flush_stops_a_run_that_goes_on(void **state)
{
    int failures = 0;
    assert_status(RUN "--out @/flushed --json", 0);
    for (;; failures++) {
        kill_moment = NO_FSYNC, kill_at = failures + 1, calls = 0;
        const int status = qgrad_inside(RUN "--out @/stuck --json");
        kill_moment      = NEVER;
        if (status == 0) break;
        assert_int_equal(status, 1);
        assert_stderr("Input/output error");
        assert_status(RUN "--resume --out @/stuck --json", 0);
        assert_same_run("flushed", "stuck");
        run_shell("rm -r @/stuck");
    }
    assert_same_run("flushed", "stuck");
    assert_true(failures >= 2 * (3 + 2 * 3));      /* each file and its directory */
}

/* Again and again, wherever the next process has got to: after a few steps, or in an evaluation. */
static void test_killed_at_any_moment_it_ends_in_the_same_bytes(void **state)
{
    int kills = 0, status = 1;
    assert_status(RUN "--epochs 6 --out @/alive --json", 0);
    for (uint64_t i = 0; status; i++) {
        assert_true(i < 100);
        const long reading = 15 + (long)(qg_bits(99, i) % 30);      /* there is a checkpoint every ten seconds */
        status = qgrad_signalled(RUN "--epochs 6 --out @/killed --resume --json", SIGKILL, reading);
        if (status != 0) assert_int_equal(status, 1000 + SIGKILL);
        kills += status != 0;
    }
    assert_true(kills > 5);
    assert_same_run("alive", "killed");
    run_shell("! ls @/killed | grep -q tmp");
}

/* --- stopped ------------------------------------------------------------------------------ */

static void test_signals_write_the_checkpoint(void **state)
{
    int stops = 0;
    assert_status(RUN "--out @/calm --json", 0);
    /* Its first reading comes before it catches signals. */
    for (long reading = 2;; reading += 5, stops++) {
        const int number = stops % 2 ? SIGINT : SIGTERM;
        const int status = qgrad_signalled(RUN "--out @/signal --json", number, reading);
        if (status == 0) break;                 /* it was complete before */
        assert_int_equal(status, 128 + number);
        assert_stderr("train --resume --out");
        assert_false(last_truth("complete"));
        assert_int_equal(access(at("signal/last.safetensors"), F_OK), 0);
        assert_status("train --resume --json --out @/signal", 0);
        assert_same_run("calm", "signal");
        run_shell("rm -r @/signal");
    }
    assert_true(stops > 10);
    assert_same_run("calm", "signal");
}

/* While a file is written; the first signal alone lets the step and a checkpoint end. */
static void test_a_second_signal_of_a_kind_ends_the_program_at_once(void **state)
{
    static const int twice[][2] = {
        { SIGINT, SIGINT }, { SIGTERM, SIGTERM }, { SIGINT, SIGTERM }, { SIGHUP, SIGHUP }
    };
    for (int i = 0; i < 4; i++) {
        const bool at_once = i < 2;
        assert_status(RUN "--out @/insisted --budget 0 --json", 3);
        run_shell("rm -rf @/was && cp -r @/insisted @/was");
        memcpy(sent, twice[i], sizeof sent);
        kill_moment = SIGNALLED, kill_at = 1, calls = 0;
        const int status = qgrad_inside("train --resume --out @/insisted --json");
        kill_moment      = NEVER;
        assert_int_equal(status, at_once ? 1000 + sent[0] : 128 + sent[1]);
        if (at_once) run_shell("cmp @/insisted/last.safetensors @/was/last.safetensors");
        assert_status("train --resume --out @/insisted --json", 0);
        assert_same_run("calm", "insisted");
        run_shell("rm -r @/insisted");
    }
}

/* Linked with -Wl,--wrap: what takes long before a run begins. */
qg_status __real_qg__file_read_in(int dir, const char *path, size_t limit, unsigned char **bytes, size_t *n);
qg_status __wrap_qg__file_read_in(int dir, const char *path, size_t limit, unsigned char **bytes, size_t *n);
qg_status __real_qg__whiten_fit(qg_preprocess *s, const qg__dataset *set);
qg_status __wrap_qg__whiten_fit(qg_preprocess *s, const qg__dataset *set);
float    *__real_qg__whiten(const qg_preprocess *s, const qg__dataset *set);
float    *__wrap_qg__whiten(const qg_preprocess *s, const qg__dataset *set);

static int begun, end_at;           /* the end_at-th of them is interrupted; 0: none */

static void begin_work(void)
{
    if (end_at && ++begun == end_at) raise(SIGTERM);
}

qg_status __wrap_qg__file_read_in(int dir, const char *path, size_t limit, unsigned char **bytes, size_t *n)
{
    if (strstr(path, "-ubyte")) begin_work();           /* not a text */
    return __real_qg__file_read_in(dir, path, limit, bytes, n);
}

qg_status __wrap_qg__whiten_fit(qg_preprocess *s, const qg__dataset *set)
{
    begin_work();
    return __real_qg__whiten_fit(s, set);
}

float *__wrap_qg__whiten(const qg_preprocess *s, const qg__dataset *set)
{
    begin_work();
    return __real_qg__whiten(s, set);
}

/* There is nothing to save yet, and no directory; an earlier run stays as it was. */
static void test_a_signal_while_images_are_read_ends_the_program_at_once(void **state)
{
    enum { FILES = 4, WHITENINGS = 3 };         /* one fit, which a run that goes on does not repeat, and both splits */
    assert_status(RUN "--normalise whiten --budget 0 --out @/early --json", 3);
    run_shell("cp -r @/early @/early-before");
    for (end_at = 1;; end_at++) {
        const int status = qgrad_inside(RUN "--normalise whiten --out @/never --json");
        if (status == 0) break;
        assert_int_equal(status, 1000 + SIGTERM);
        assert_int_equal(access(at("never"), F_OK), -1);
        if (end_at == FILES + WHITENINGS) continue;
        assert_int_equal(qgrad_inside(RUN "--normalise whiten --out @/early --resume --json"), 1000 + SIGTERM);
        run_shell("diff -r @/early @/early-before");
    }
    assert_int_equal(end_at - 1, FILES + WHITENINGS);
    end_at = 0;
}

/* Durations, rates and their sums come from readings that go back now and then, by an hour each time. */
static void test_time_never_runs_backwards(void **state)
{
    char metrics[TEXT_BYTES];
    for (int turn = 2; turn <= 7; turn++) {
        char line[300];
        snprintf(line, sizeof line, "%s --epochs 4 --budget 40 --out @/turned%d --json", RUN, turn);
        assert_int_equal(qgrad_turned_back(line, turn), 3);             /* the budget ends it */
        snprintf(line, sizeof line, "train --resume --out @/turned%d --json", turn);
        assert_int_equal(qgrad_turned_back(line, turn), 0);
        assert_true(last_number("seconds") > 20 && last_number("seconds") < 1000);
        assert_true(last_number("images_per_second") > 0);
        snprintf(line, sizeof line, "turned%d/metrics.csv", turn);
        slurp(at(line), metrics, sizeof metrics);
        assert_null(strstr(metrics, ",-"));
        snprintf(line, sizeof line, "turned%d", turn);
        assert_same_run(line, "turned2");
    }
}

static void test_stopped_inside_epochs_it_ends_in_the_same_bytes(void **state)
{
    assert_status(RUN "--out @/one-go --json", 0);
    assert_status(RUN "--out @/bits --budget 0 --json", 3);
    finish_in_sittings("bits", 9);
    assert_same_run("one-go", "bits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd_with_all_its_options),
        cmocka_unit_test(test_adam_with_all_its_options),
        cmocka_unit_test(test_schemes_that_no_layer_uses),
        cmocka_unit_test(test_other_images_than_those_of_init),
        cmocka_unit_test(test_file_systems_without_locks),
        cmocka_unit_test(test_killed_wherever_files_change_it_ends_in_the_same_bytes),
        cmocka_unit_test(test_a_disk_that_does_not_flush_stops_a_run_that_goes_on),
        cmocka_unit_test(test_killed_at_any_moment_it_ends_in_the_same_bytes),
        cmocka_unit_test(test_signals_write_the_checkpoint),
        cmocka_unit_test(test_a_second_signal_of_a_kind_ends_the_program_at_once),
        cmocka_unit_test(test_a_signal_while_images_are_read_ends_the_program_at_once),
        cmocka_unit_test(test_time_never_runs_backwards),
        cmocka_unit_test(test_stopped_inside_epochs_it_ends_in_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
