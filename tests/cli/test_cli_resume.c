/* Runs that stop and go on, are killed, meet each other, lose files or find damaged ones. */
#include "core/io/safetensors.h"
#include "tests/support/bytes.h"
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

#include "core/io/file.h"
#include "core/io/state.h"
#include "core/rng.h"
#include "tests/support/environment.h"
#include "tests/support/foreign.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"

/* --- stopping and going on ---------------------------------------------------------------- */

static void test_a_run_is_not_overwritten_by_accident(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/kept --json", 0);
    assert_refuses(TRAIN "--epochs 1 --out @/kept", 1,
                   "--resume continues it, --force renames it");
    assert_status(TRAIN "--epochs 2 --out @/kept/ --force --json", 0);
    assert_int_equal(access(at("kept.old/last.safetensors"), F_OK), 0);
    assert_status(TRAIN "--epochs 1 --out @/kept --force --json", 0);
    assert_int_equal(access(at("kept.old-2/last.safetensors"), F_OK), 0);
    assert_same_run("kept", "kept.old");
}

#define LENET TRAIN "--model lenet5 "         /* a name that directories of runs begin with */

static void test_the_float_run_beside_it_is_shown(void **state)
{
    assert_status(LENET "--epochs 1 --out @/runs/lenet5-twn-3", 0);
    assert_null(strstr(last.out, "in float"));
    assert_status(LENET "--weight float --epochs 2 --budget 0 --out @/runs/lenet5-float-1 --json", 3);
    assert_status(LENET "--weight float --epochs 1 --out @/runs/lenet5-float-2", 0);
    assert_null(strstr(last.out, "in float"));
    assert_status("train --resume --out @/runs/lenet5-twn-3", 0);
    const char *row = strstr(last.out, "in float"), *dir = strstr(last.out, "lenet5-float-2\n");
    assert_true(row && dir && row < dir);       /* not float-1, which is not finished */
    static const char *const others[] = { "--lr 0.02", "--batch 32", "--optimizer adam", "--augment flip",
                                          "--normalise channel", "--init @/runs/lenet5-twn-3" };
    for (int i = 0; i < 6; i++) {
        char line[256];
        run_shell("rm -r @/runs/lenet5-float-2");
        snprintf(line, sizeof line, LENET "--weight float --epochs 1 --out @/runs/lenet5-float-2 --json %s", others[i]);
        assert_status(line, 0);
        assert_status("train --resume --out @/runs/lenet5-twn-3", 0);
        assert_null(strstr(last.out, "in float"));
    }
}

static void test_resuming_a_finished_run_prints_it(void **state)
{
    char digest[32];
    assert_status(TRAIN "--epochs 2 --out @/done --json", 0);
    const double accuracy = last_number("test_accuracy"), seconds = last_number("seconds");
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_status("train --resume --out @/done --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_true(fabs(last_number("seconds") - seconds) < 1e-6);   /* metrics.csv holds nine digits */
    assert_true(last_truth("complete"));
    assert_string_equal(last_text("digest"), digest);
}

static void test_resuming_with_other_options_is_refused(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/fixed --json", 0);
    assert_refuses("train --resume --out @/fixed --lr 0.5", 2,
                   "lr is 0.01 in the run, but 0.5 was requested");
    assert_refuses("train --resume --out @/fixed --batch 9", 2, "batch is 24 in the run, but 9 was requested");
    assert_status(TRAIN "--epochs 1 --out @/fixed --threads 1 --resume --json", 0);
}

/* Other spellings of the same values: some items of a list, a flag that is off, a negative zero. */
static void test_resuming_with_the_same_in_other_words(void **state)
{
    const char plain[] = "nesterov = false\nquantize-after = 0\n";
    write_bytes(at("plain.toml"), plain, sizeof plain - 1);
    assert_status(TRAIN "--epochs 2 --layer conv1:weight=float --layer conv2:weight=binary --weight-decay -0 "
                  "--budget 0 --out @/words --json", 3);
    assert_status("train --resume --out @/words --layer conv1:weight=float --budget 0 --json", 3);
    assert_status("train --resume --out @/words --layer conv2:weight=binary --weight-decay 0 --budget 0 --json", 3);
    assert_refuses("train --resume --out @/words --layer fc1:weight=binary", 2, "layer is conv1:weight=float conv2:");
    assert_status("train --resume --out @/words --config @/plain.toml --json", 0);
}

static void test_resuming_nothing_starts(void **state)
{
    assert_status(TRAIN "--epochs 1 --resume --out @/fresh --json", 0);
    assert_status(TRAIN "--epochs 1 --out @/plain --json", 0);
    assert_same_run("fresh", "plain");
}

/* It is refused, and every file stays as it was. */
static void assert_lost(void)
{
    run_shell("rm -rf @/copy && cp -r @/lost @/copy");
    assert_refuses("train --resume --out @/lost", 1, "its last.safetensors is missing; force starts again");
    run_shell("diff -r @/copy @/lost");
}

static void test_a_run_that_lost_its_checkpoint_is_not_begun_anew(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/lost --json", 0);
    run_shell("cp -r @/lost @/unlost && rm @/lost/last.safetensors");
    assert_lost();
    run_shell("cd @/lost && mv best.safetensors .. && mv result.json ..");
    assert_lost();                              /* there are rows */
    run_shell("cd @/lost && sed -i 2,99d metrics.csv && mv ../result.json .");
    assert_lost();
    run_shell("cd @/lost && rm result.json && mv ../best.safetensors .");
    assert_lost();
    run_shell("cd @/lost && rm best.safetensors");   /* killed before the first checkpoint */
    assert_status("train --resume --out @/lost --json", 0);
    assert_same_run("unlost", "lost");
    run_shell("cd @/lost && rm *.safetensors *.json *.csv");
    assert_status("train --resume --out @/lost --json", 0);
    assert_same_run("unlost", "lost");
    run_shell("rm @/lost/last.safetensors");
    assert_status(TRAIN "--epochs 1 --force --out @/lost --json", 0);
    assert_same_run("unlost", "lost");
}

static void test_a_lost_configuration_is_named(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/bare --json", 0);
    run_shell("rm @/bare/config.toml");
    assert_refuses("train --resume --out @/bare", 2, "config.toml is missing; pass the options that the ");
    assert_refuses(TRAIN "--epochs 1 --lr 0.5 --resume --out @/bare", 1, "belongs to a run with lr ");
    assert_status(TRAIN "--epochs 1 --resume --out @/bare", 0);
}

/* It has nothing that the run needs, except what a test cost. */
static void test_a_lost_result_is_written_again(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/run --json", 0);
    assert_status(TRAIN "--epochs 1 --validation 25% --out @/held --json", 0);
    const double accuracy = last_number("test_accuracy");
    run_shell("cp @/run/last.safetensors @/own.last && rm @/run/result.json @/held/result.json");
    assert_status("train --resume --out @/run --json", 0);
    assert_status("train --resume --out @/held --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    run_shell("cmp @/run/last.safetensors @/own.last");
    run_shell("grep -q '\"ended\":\"complete\"' @/run/result.json && echo x >> @/run/result.json");
    assert_refuses("train --resume --out @/run", 1,
                   "result.json: is damaged: its checksum is another; without this file the run goes on");
}

static void test_a_budget_ends_in_good_order(void **state)
{
    assert_status(TRAIN "--epochs 4 --budget 0 --out @/budget --json", 3);
    cJSON *j = parse();
    assert_false(truth(j, "complete"));
    assert_string_equal(text(j, "ended"), "budget");
    assert_true(number(j, "epochs") == 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "test_accuracy")));
    cJSON_Delete(j);
    assert_stderr("--resume --out");
    finish_in_sittings("budget", 30);
    assert_status(TRAIN "--epochs 4 --out @/whole --json", 0);
    assert_same_run("budget", "whole");
}

/* A real one, from outside.  test_cli_train has it come at many places, and compares bytes. */
static void test_a_signal_ends_a_run_in_good_order(void **state)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2 };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        const pid_t pid = start_endless(ENDLESS "--force --out @/signal");
        kill(pid, signals[i]);
        assert_int_equal(finish(pid), 128 + signals[i]);
        assert_stderr("train --resume --out");
        const double epoch = last_number("epochs");
        assert_false(last_truth("complete"));
        assert_string_equal(last_text("ended"), "stop");
        assert_true(epoch >= 1);
        assert_status("train --resume --json --out @/signal --budget 0", 3);
        assert_true(last_number("epochs") == epoch);
    }
}

/* Until the child has ended, which finish then tells, but not for long. */
static void send_again_and_again(pid_t pid, int number, int other)
{
    siginfo_t             ended = { 0 };
    const struct timespec pause = { 0, 1000000 };
    for (int i = 0; i < 2000 && !ended.si_pid; i++) {
        kill(pid, number), kill(pid, other);
        nanosleep(&pause, NULL);
        assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

static void test_a_hangup_may_come_twice(void **state)
{
    const pid_t pid = start_endless(ENDLESS "--out @/hung-up");
    send_again_and_again(pid, SIGHUP, SIGHUP);
    assert_int_equal(finish(pid), 128 + SIGHUP);
}

static void test_ignored_signals_stay_ignored(void **state)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    for (int i = 0; i < 4; i++) signal(signals[i], SIG_IGN);        /* and in children */
    const pid_t pid = start(TRAIN "--epochs 6 --out @/ignoring --json");
    for (int i = 0; i < 4; i++) signal(signals[i], SIG_DFL);
    send_again_and_again(pid, SIGINT, SIGTERM), send_again_and_again(pid, SIGHUP, SIGUSR1);
    assert_int_equal(finish(pid), 0);
    assert_true(last_truth("complete"));
}

/* No bit depends on the instruction set, and result.json lists those that have worked on the run. */
static void test_a_run_may_go_on_with_other_kernels(void **state)
{
    const int widest = (int)widest_path();
    assert_status(TRAIN "--epochs 3 --out @/stays --json", 0);
    use_path(0);
    assert_stops(TRAIN "--epochs 3 --budget 0 --out @/travels --json");
    for (int path = widest; path >= 0; path--) {
        use_path(path);
        qgrad_inside("train --resume --out @/travels --budget 20 --json");
    }
    restore_variables(state);
    assert_status("train --resume --out @/travels --json", 0);
    if (widest) assert_non_null(strstr(last_text("cpu_path"), "baseline, "));
    assert_same_run("stays", "travels");
}

static void test_killed_it_goes_on_from_its_checkpoint(void **state)
{
    const pid_t pid = start_endless(ENDLESS "--out @/killed");
    kill(pid, SIGKILL);
    assert_int_equal(finish(pid), 1000 + SIGKILL);
    assert_status("train --resume --json --out @/killed --budget 0", 3);
    assert_true(last_number("epochs") >= 1);      /* it had reported that one, and its checkpoint comes before */
}

static void test_files_ahead_of_the_checkpoint_are_set_back(void **state)
{
    assert_status(TRAIN "--epochs 6 --out @/straight --json", 0);
    assert_int_equal(qgrad_inside(TRAIN "--epochs 6 --out @/ahead --budget 100 --json"), 3);
    assert_in_range((int)last_number("epochs"), 1, 5);
    run_shell("cp @/ahead/last.safetensors @/early");
    assert_status("train --resume --out @/ahead --json", 0);
    run_shell("cp @/early @/ahead/last.safetensors");       /* the other files are now ahead of it */
    const double spent = last_number("seconds");
    assert_status("train --resume --out @/ahead --json", 0);
    assert_same_run("straight", "ahead");
    assert_true(last_number("seconds") > spent);      /* what comes again was paid for */
}

static void test_one_process_per_run_directory(void **state)
{
    const pid_t pid = start_endless(ENDLESS "--out @/locked");
    assert_refuses("train --resume --out @/locked", 1, "is locked: another training holds it");
    kill(pid, SIGKILL);
    assert_int_equal(finish(pid), 1000 + SIGKILL);
}

/* The lock moves along with a directory that is renamed, and another run may take its place. */
static void test_a_run_does_not_write_into_anothers_directory(void **state)
{
    for (int stopped = 0; stopped < 2; stopped++) {         /* at the end of an epoch, or within it */
        const pid_t pid = start_until(TRAIN "--epochs 6 --out @/moving --json", 50);
        run_shell("mv @/moving @/moved-%d", stopped);
        assert_int_equal(mkdir(at("moving"), 0700), 0);
        if (stopped) kill(pid, SIGTERM);
        kill(pid, SIGCONT);
        assert_int_equal(finish(pid), 1);
        assert_stderr("moving is no longer the directory that this run started in");
        assert_int_equal(rmdir(at("moving")), 0);           /* nothing was written there */
    }
    assert_status("train --resume --out @/moved-0 --budget 0", 3);
    assert_status("train --resume --out @/moved-1 --budget 0", 3);
}

/* --- damaged and foreign files ------------------------------------------------------------ */

/* Changes the byte at (from the end, if negative) of an array in a checkpoint, as another program would: the checksum is
 * right. */
static void forge(const char *path, const char *name, long at, int change)
{
    size_t      n;
    qg_state   *s = qg_state_new();
    qg_archive *a = qg_archive_open(path);
    assert_non_null(a);
    const qg_named_array *e = qg_archive_find(a, name), *entry = qg_archive_entries(a, &n);
    ((unsigned char *)e->array.data)[at < 0 ? at + (long)e->bytes : at] ^= (unsigned char)change;
    for (size_t i = 0; i < n; i++) qg_state_add(s, entry[i].name, entry[i].array);
    const qg_note *note = qg__archive_notes(a, &n);
    for (size_t i = 0; i < n; i++) qg_state_set_note(s, note[i].key, note[i].value);
    assert_ok(qg_state_save(s, path));
    qg_state_free(s);
    qg_archive_free(a);
}

static void flip(const char *path, long bit)
{
    unsigned char byte;
    const int     file = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(file, &byte, 1, bit / 8), 1);
    byte ^= (unsigned char)(1 << bit % 8);
    assert_int_equal(pwrite(file, &byte, 1, bit / 8), 1);
    assert_int_equal(close(file), 0);
}

/* Bytes from the start of the file to an array. */
static long place_of(const char *path, const char *name)
{
    unsigned char prefix[8];
    qg_archive   *a    = qg_archive_open(path);
    const int     file = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(file, prefix, sizeof prefix), sizeof prefix);
    const long place = 8 + (long)get_u64(prefix) + (long)qg_archive_find(a, name)->offset;
    qg_archive_free(a);
    close(file);
    return place;
}

/* Little-endian: the sign is in the last byte of four. */
static void flip_a_sign(const char *path) { flip(path, 8 * place_of(path, "conv1.weight") + 31); }

static void assert_flip_is_refused(const char *path, long bit)
{
    flip(path, bit);
    assert_refuses("train --resume --out @/flipped", 1, strrchr(path, '/') + 1);
    if (!strstr(last.err, "is damaged") && !strstr(last.err, "is malformed") && !strstr(last.err, "is truncated"))
        fail_msg("bit %ld: %s", bit, last.err);
    flip(path, bit);
}

/* Weights, moments, counts and notes alike. */
static void test_a_flipped_bit_is_refused_and_nothing_is_changed(void **state)
{
    enum { PLACES = 12 };
    size_t n;
    char   path[2][256];
    assert_int_equal(qgrad_inside(TRAIN "--weight ttq --optimizer adam --epochs 4 --budget 60 --out @/flipped --json"), 3);
    assert_in_range((int)last_number("epochs"), 1, 3);
    snprintf(path[0], sizeof path[0], "%s", at("flipped/last.safetensors"));
    snprintf(path[1], sizeof path[1], "%s", at("flipped/best.safetensors"));
    run_shell("cp -r @/flipped @/unflipped");
    qg_archive           *a = qg_archive_open(path[0]);
    const qg_named_array *e = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) {
        const bool count = !strncmp(e[i].name, "run.", 4) || !strcmp(e[i].name, "optim.step");
        if (!count && i % 5) continue;                              /* some of the rest */
        const uint64_t bit = qg_bits(1, i) % (8 * e[i].bytes);
        assert_flip_is_refused(path[0], 8 * place_of(path[0], e[i].name) + (long)bit);
    }
    qg_archive_free(a);
    for (int f = 0; f < 2; f++) {
        struct stat s;
        assert_int_equal(stat(path[f], &s), 0);
        for (uint64_t i = 0; i < PLACES; i++)           /* half of them in the first thousand bytes: the header */
            assert_flip_is_refused(path[f], (long)(qg_bits((uint64_t)f, i) % (8 * (i % 2 ? (uint64_t)s.st_size : 1000))));
    }
    run_shell("diff -r @/flipped @/unflipped");
    flip_a_sign(path[0]);
    assert_refuses("eval --run @/flipped", 1, "last.safetensors' is damaged");
    assert_refuses("inspect @/flipped", 1, "last.safetensors' is damaged");
    assert_refuses(TRAIN "--epochs 1 --init @/flipped --out @/from-flipped", 1, "last.safetensors' is damaged");
    assert_status("eval --run @/flipped --best", 0);
}

/* Times may differ, but nothing else in the rows that the checkpoint has seen. */
static void test_a_changed_row_is_refused(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/rows --json", 0);
    run_shell("cd @ && cp -r rows changed && sed -i '2s/^1,0.01/1,0.03/' changed/metrics.csv && ! cmp -s rows/metrics.csv changed/metrics.csv");
    assert_refuses("train --resume --out @/changed", 1, "metrics.csv: is damaged: its first 2 rows are not those");
    run_shell("cd @ && awk -F, -v OFS=, 'NR > 1 { $7 = 5; $8 = 6 } 1' rows/metrics.csv > changed/metrics.csv");
    assert_status("train --resume --out @/changed --json", 0);
    assert_true(last_number("images_per_second") == 5 && last_number("seconds") == 12);
}

/* A checkpoint of version 1 of the arithmetic, which noted none. */
static void age(const char *path) { note_anew(path, "arithmetic", NULL); }

static void test_runs_of_earlier_versions_are_read_but_not_continued(void **state)
{
    char digest[32];
    assert_status(TRAIN "--epochs 2 --out @/current --json", 0);
    assert_true(last_number("arithmetic") == 2);
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    run_shell("cp -r @/current @/aged-whole");
    age(at("aged-whole/last.safetensors"));
    run_shell("cp -r @/aged-whole @/aged-before");
    assert_status("train --resume --out @/aged-whole --json", 0);
    assert_true(last_truth("complete") && last_number("arithmetic") == 1);
    assert_string_equal(last_text("digest"), digest);
    assert_refuses("train --resume --epochs 3 --out @/aged-whole", 1, "aged-whole: was trained under version 1 of the arithmetic");
    run_shell("diff -r @/aged-whole @/aged-before");
    assert_status(TRAIN "--epochs 2 --out @/aged --budget 0 --json", 3);
    age(at("aged/last.safetensors"));
    run_shell("cd @ && ! grep -q arithmetic aged/last.safetensors && cp -r aged harmed && cp -r aged aged-kept");
    assert_status("eval --run @/aged --json", 0);
    assert_string_equal(last_text("file"), "last.safetensors");
    assert_refuses("train --resume --out @/aged", 1,
                   "aged: was trained under version 1 of the arithmetic, but this program trains it under "
                   "version 2, so it cannot be continued.  You "
                   "can evaluate, export or predict with it, start a new run from its weights (init), or train it again");
    run_shell("diff -r @/aged @/aged-kept");
    assert_status("inspect @/aged", 0);
    assert_stdout(", arithmetic 1\n");
    assert_status("inspect @/current", 0);
    assert_stdout(", arithmetic 2\n");
    assert_status("export --run @/aged -o @/aged.qg", 0);
    assert_status(TRAIN "--epochs 1 --init @/aged --out @/from-aged --json", 0);
    assert_status(TRAIN "--epochs 2 --out @/aged --force --json", 0);
    assert_same_run("current", "aged");
    run_shell("cp @/current/* @/harmed");
    forget_checksum(at("harmed/last.safetensors"));
    assert_refuses("train --resume --out @/harmed", 1, "last.safetensors: is damaged: its checksum is missing");
    run_shell("cp @/current/* @/harmed");
    forget_checksum(at("harmed/best.safetensors"));
    assert_refuses("train --resume --out @/harmed", 1, "best.safetensors: is damaged: its checksum is missing");
    run_shell("sed -i 's/qgrad 2/qgrad 7/' @/harmed/best.safetensors");
    assert_refuses("train --resume --out @/harmed", 1,
                   "best.safetensors: is not a checkpoint of this version of qgrad train: its format is 'qgrad 7', not "
                   "'qgrad 2'");
}

static void test_places_that_no_run_reaches_are_refused(void **state)
{
    assert_status(TRAIN "--epochs 3 --out @/placed --budget 0 --json", 3);
    run_shell("cd @ && for to in epoch batch best seed steps both; do cp -r placed $to || exit; done");
    forge(at("epoch/last.safetensors"), "run.epoch", 0, 64);
    assert_refuses("train --resume --out @/epoch", 1, "run.epoch is 64, which the run cannot reach");
    forge(at("batch/last.safetensors"), "run.batch", 0, 11);      /* there are ten */
    assert_refuses("train --resume --out @/batch", 1, "the checkpoint belongs to a run with more training images");
    forge(at("best/last.safetensors"), "run.best_epoch", 0, 1);
    assert_refuses("train --resume --out @/best", 1, "run.best_epoch is ");
    forge(at("seed/last.safetensors"), "run.seed", 0, 1);
    assert_refuses("train --resume --out @/seed", 1, "run.seed is 2, which the run cannot reach");
    forge(at("steps/last.safetensors"), "optim.step", 0, 4);
    assert_refuses("train --resume --out @/steps", 1, "run.steps is 0, which the run cannot reach");
    forge(at("both/last.safetensors"), "optim.step", 0, 4);
    forge(at("both/last.safetensors"), "run.steps", 0, 4);
    assert_refuses("train --resume --out @/both", 1, "the checkpoint is 4 steps after the start, not 0 epochs of 10 and 0");
}

/* Runs of older versions have neither, and a process that was killed leaves files half written. */
static void test_what_older_versions_did_not_write_is_not_missed(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/newer --json", 0);
    assert_status(TRAIN "--epochs 2 --out @/older --budget 0 --json", 3);
    run_shell("cd @/older && rm -f result.json && echo x > best.safetensors.2-0.tmp && echo x > last.safetensors.1-0.tmp && sed -i /data-digest/d config.toml");
    /* The checkpoint holds the configuration too, so the digest may not go there: what is left is the file. */
    assert_refuses("train --resume --out @/older", 1, "belongs to a run with data-digest");
    run_shell("cp @/newer/config.toml @/older/");
    assert_status("train --resume --out @/older --json", 0);
    assert_same_run("newer", "older");
    run_shell("! ls @/older | grep -q tmp");
}

static void test_files_that_are_lost_are_noticed(void **state)
{
    assert_status(TRAIN "--epochs 3 --out @/lostless --json", 0);
    assert_status(TRAIN "--epochs 3 --out @/part --budget 0 --json", 3);
    run_shell("rm @/part/config.toml");
    assert_status(TRAIN "--epochs 3 --out @/part --resume --json", 0);
    assert_same_run("lostless", "part");           /* and config.toml is there again */
    run_shell("cd @ && cp -r lostless bad && echo no > bad/best.safetensors");
    assert_refuses("train --resume --out @/bad", 1, "bad/best.safetensors");
    run_shell("rm @/bad/best.safetensors");
    assert_refuses("train --resume --out @/bad", 1, "bad/best.safetensors");
    run_shell("cd @ && cp lostless/best.safetensors bad");
    flip_a_sign(at("bad/last.safetensors"));
    assert_refuses("train --resume --out @/bad", 1, "bad/last.safetensors' is damaged");
    assert_refuses("eval --run @/bad", 1, "bad/last.safetensors' is damaged");
    assert_status("eval --run @/bad --best", 0);
    flip_a_sign(at("bad/best.safetensors"));
    assert_refuses("eval --run @/bad --best", 1, "bad/best.safetensors' is damaged");
    run_shell("cd @ && sed -i /^model/d bad/config.toml");
    assert_refuses("train --resume --out @/bad", 1, "bad/config.toml: the model is missing");
}

static void test_a_damaged_checkpoint_is_refused_and_left_alone(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/damaged --json", 0);
    const char *path = at("damaged/last.safetensors");
    assert_int_equal(truncate(path, 5000), 0);
    run_shell("cp -r @/damaged @/before-damage");
    assert_refuses("train --resume --out @/damaged", 1, "last.safetensors");
    assert_refuses("eval --run @/damaged", 1, "last.safetensors");
    assert_same_run("damaged", "before-damage");
    assert_status("eval --run @/damaged --best", 0);
}

/* A terabyte that its header describes: reading it would run out of memory, or take long. */
static void write_huge(const char *path)
{
    static const char header[] = "{\"__metadata__\":{\"image\":\"16x16x1\",\"classes\":\"10\"},\"w\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}";
    unsigned char     bytes[8 + sizeof header];
    put_u64(bytes, sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header);
    write_bytes(path, bytes, sizeof bytes - 1);
    if (truncate(path, (off_t)sizeof bytes - 1 + ((off_t)1 << 40))) skip();     /* no sparse files here */
}

static void test_a_huge_file_that_does_not_fit_is_refused_by_its_header(void **state)
{
    write_huge(at("huge"));
    assert_refuses(TRAIN "--epochs 1 --init @/huge --out @/none", 1, "huge: does not fit the net");
    assert_status(TRAIN "--epochs 1 --out @/big --json", 0);
    run_shell("rm @/big/best.safetensors");
    write_huge(at("big/best.safetensors"));
    assert_refuses("train --resume --out @/big", 1, "best.safetensors' does not fit");
    run_shell("rm @/big/last.safetensors");
    write_huge(at("big/last.safetensors"));
    assert_refuses("train --resume --out @/big", 1, "last.safetensors' does not fit");
    assert_refuses("eval --run @/big", 1, "last.safetensors' does not fit");
    assert_refuses("inspect @/big --best", 1, "best.safetensors' does not fit");
    assert_refuses("eval --run @/huge", 1, "huge: is not a checkpoint of qgrad train");
    assert_refuses("inspect @/huge", 1, "huge: is not a checkpoint of qgrad train");
}

static void test_a_checkpoint_of_another_net_is_refused(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/ternary --json", 0);
    assert_status(TRAIN "--epochs 1 --out @/adam --optimizer adam --json", 0);
    assert_status(TRAIN "--epochs 1 --out @/slow --lr 0.001 --json", 0);
    run_shell("cp @/adam/last.safetensors @/slow/best.safetensors @/ternary");
    assert_refuses("eval --run @/ternary", 1,
                   "last.safetensors: belongs to a run with optimizer adam, not sgd");
    assert_refuses("eval --run @/ternary --best", 1,
                   "belongs to a run with lr 0.001, not 0.01");
    assert_refuses("train --resume --out @/ternary", 1, "last.safetensors");
}

#define ENDED(name) cmocka_unit_test_teardown(name, end_background)

/* --- averages, smoothing, clipping, stages, patience ---------------------------------------- */

#define RICH TRAIN "--ema 0.9 --label-smoothing 0.1 --clip-norm 1 --quantize-weights-after 13 --epochs 3 "

static void test_options_of_training_resume_to_the_same_bytes(void **state)
{
    assert_status(RICH "--out @/rich --json", 0);
    const double accuracy = last_number("test_accuracy"), best = last_number("best_test_accuracy");
    assert_status("eval --json --run @/rich", 0);
    assert_true(last_number("test_accuracy") == accuracy);      /* of the averages */
    assert_status("eval --json --run @/rich --best", 0);
    assert_true(last_number("test_accuracy") == best);
    assert_refuses("eval --run @/rich --weight float", 2, "only best.safetensors has; pass --best");
    assert_status("eval --run @/rich --weight float --best", 0);
    assert_status("inspect @/rich", 0);
    assert_stdout("from step 13 on");
    assert_status(RICH "--out @/rich-parts --budget 0 --json", 3);
    finish_in_sittings("rich-parts", 60);
    assert_same_run("rich", "rich-parts");
    assert_refuses("train --resume --out @/rich --ema 0.99", 2, "ema is 0.9 in the run, but 0.99 was requested");
    assert_refuses(TRAIN "--epochs 1 --loss squared-hinge --label-smoothing 0.1 --out @/none", 2, "label-smoothing is");
    assert_refuses(TRAIN "--epochs 1 --weight float --quantize-weights-after 3 --out @/none", 2, "no weight is quantized");
    assert_status(TRAIN "--weight float --epochs 1 --init @/rich --out @/from-rich --json", 0);
}

/* N_TRAIN / 24 steps are an epoch. */
static void test_delays_may_count_epochs(void **state)
{
    static const char epochs[] = TRAIN "--weight ttq --input fake_quant:range=observed --epochs 3 --json --quantize-weights-after 2epochs "
                                       "--quantize-after 1epoch --freeze-batchnorm-after 2epochs --out @/%s %s";
    static const char steps[] = TRAIN "--weight ttq --input fake_quant:range=observed --epochs 3 --json --quantize-weights-after 20 "
                                      "--quantize-after 10 --freeze-batchnorm-after 20 --out @/%s";
    char digest[32];
    assert_int_equal(N_TRAIN / 24, 10);
    assert_runs(epochs, "by-epochs", "");
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    const double accuracy = last_number("test_accuracy");
    assert_runs(steps, "by-steps");
    assert_string_equal(last_text("digest"), digest);
    run_shell("cmp @/by-epochs/best.safetensors @/by-steps/best.safetensors >/dev/null && exit 1; "
              "cut -d, -f1-6 @/by-epochs/metrics.csv >@/a; cut -d, -f1-6 @/by-steps/metrics.csv | cmp - @/a");
    run_shell("grep -qx 'quantize-weights-after = \"2epochs\"' @/by-epochs/config.toml && grep -qx 'epoch-steps = 10' @/by-epochs/config.toml");
    run_shell("grep -qx 'quantize-weights-after = 20' @/by-steps/config.toml && ! grep epoch-steps @/by-steps/config.toml");
    assert_status("eval --json --run @/by-epochs", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_status("inspect @/by-epochs", 0);
    assert_stdout("from step 20 on");

    /* Stopped in the middle of it all, in any part. */
    assert_stops(epochs, "parts", "--budget 0");
    assert_status("eval --json --run @/parts", 0);
    finish_in_sittings("parts", 60);
    assert_same_run("by-epochs", "parts");
    assert_runs(epochs, "parts", "--resume");
    assert_refuses("train --resume --out @/parts --quantize-after 2epochs", 2, "quantize-after is 1epochs in the run, but 2epochs was requested");

    /* Another batch has other steps; a file with a delay stays legal for it. */
    assert_runs("train --config @/by-epochs/config.toml --data-dir @/set --batch 48 --out @/halved --json");
    run_shell("grep -qx 'epoch-steps = 5' @/halved/config.toml");
    assert_runs("train --config @/by-epochs/config.toml --data-dir @/set --validation 40 --out @/fewer --json");
    run_shell("grep -qx 'epoch-steps = 9' @/fewer/config.toml");
    assert_status("train --config @/by-epochs/config.toml --data-dir @/set --epochs 1 --out @/said", 0);
    assert_stdout("\nsteps    10 per epoch, of 24 images each, by sgd: lr ");
    assert_stdout("after 20 steps");
}

static void test_patience_ends_a_run(void **state)
{
    char line[64];
    assert_status(TRAIN "--epochs 60 --patience 2 --out @/patient --json", 0);
    const double epochs = last_number("epochs"), best = last_number("best_epoch");
    assert_true(epochs < 60 && epochs == best + 2 && last_truth("complete") && last_truth("out_of_patience"));
    assert_string_equal(last_text("ended"), "complete");
    assert_status("train --resume --json --out @/patient", 0);
    assert_true(last_number("epochs") == epochs && last_truth("complete") && last_truth("out_of_patience"));
    assert_status("train --resume --out @/patient", 0);
    snprintf(line, sizeof line, "stopped        after epoch %.0f of 60: ", epochs);
    assert_stdout(line);
    assert_stdout(" of 60: the test accuracy did not improve for 2 epochs (--patience)\ntest accuracy  ");
    assert_status(TRAIN "--epochs 1 --patience 2 --out @/short --json", 0);
    assert_true(last_truth("complete") && !last_truth("out_of_patience"));
}

/* --- longer runs -------------------------------------------------------------------------- */

#define LONG TRAIN "--weight lsq:bits=3 --quantize-weights-after 13 --ema 0.9 --validation 40 --schedule constant --json "

static void test_an_extended_run_is_the_longer_run(void **state)
{
    assert_status(LONG "--epochs 4 --schedule step:at=0.25 --out @/all-of-it", 0);
    const double test = last_number("test_accuracy"), best = last_number("best_test_accuracy");
    assert_status(LONG "--epochs 2 --schedule step:at=0.5 --out @/longer", 0);
    assert_status("train --resume --epochs 4 --out @/longer --json", 0);
    assert_stderr("qgrad: the run continues to epoch 4 instead of 2, with schedule step:at=0.25\n");
    assert_same_run("all-of-it", "longer");
    assert_true(last_number("test_accuracy") == test && last_number("best_test_accuracy") == best);
    assert_true(last_truth("complete") && last_number("epochs") == 4);
    assert_status(LONG "--epochs 4 --schedule step:at=0.5+0.75 --out @/named", 0);
    assert_status(LONG "--epochs 2 --budget 0 --out @/begun", 3);          /* it need not be finished */
    assert_status("train --resume --epochs 4 --schedule step:at=0.5+0.75 --out @/begun --json", 0);
    assert_same_run("named", "begun");
    assert_status(LONG "--epochs 9 --patience 1 --out @/tired", 0);
    assert_true(last_number("epochs") < 9);
    assert_refuses("train --resume --epochs 12 --out @/tired", 2, "epochs: patience 1 ended the run in");
    assert_status("train --resume --epochs 12 --patience 2 --out @/tired --json", 0);
    assert_status(LONG "--epochs 12 --patience 2 --out @/rested", 0);
    assert_same_run("tired", "rested");
}

static void test_a_run_that_cannot_be_extended_stays_as_it_was(void **state)
{
    static const char extended[] = "epochs = 2\n", recipe[] = "model = \"" SMALL_NET(10) "\"\nepochs = 4\n";
    write_bytes(at("more.toml"), recipe, sizeof recipe - 1);
    write_bytes(at("words.toml"), extended, sizeof extended - 1);
    assert_status(TRAIN "--epochs 2 --schedule cosine --out @/cosine --json", 0);
    assert_status(TRAIN "--epochs 2 --weight binary:surrogate=annealed-tanh --out @/annealed --json", 0);
    run_shell("mkdir @/before && cp -r @/cosine @/annealed @/before");
    assert_refuses("train --resume --epochs 4 --out @/cosine", 2, "with 4 epochs and schedule cosine its step 2 would");
    assert_refuses("train --resume --epochs 1 --out @/cosine", 2,
                   "epochs is 2 in the run, but 1 was requested; a run can be extended, but not shortened");
    assert_refuses("train --resume --patience 2 --out @/cosine", 2, "patience: the run in");
    assert_refuses("train --resume --schedule constant --out @/cosine", 2, "schedule constant its step 2 would");
    assert_refuses("train --resume --config @/more.toml --out @/cosine", 2,
                   "epochs is 2 in the run, but 4 was requested; a run keeps");
    assert_refuses("train --resume --epochs 4 --out @/annealed", 2, "a surrogate of it is annealed over 2 epochs");
    assert_status("train --resume --config @/words.toml --out @/cosine --json", 0);
    run_shell("diff -r @/before/cosine @/cosine && diff -r @/before/annealed @/annealed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_is_not_overwritten_by_accident),
        cmocka_unit_test(test_the_float_run_beside_it_is_shown),
        cmocka_unit_test(test_resuming_a_finished_run_prints_it),
        cmocka_unit_test(test_resuming_with_other_options_is_refused),
        cmocka_unit_test(test_resuming_with_the_same_in_other_words),
        cmocka_unit_test(test_resuming_nothing_starts),
        cmocka_unit_test(test_a_run_that_lost_its_checkpoint_is_not_begun_anew),
        cmocka_unit_test(test_a_lost_configuration_is_named),
        cmocka_unit_test(test_a_lost_result_is_written_again),
        cmocka_unit_test(test_a_budget_ends_in_good_order),
        ENDED(test_a_signal_ends_a_run_in_good_order),
        ENDED(test_a_hangup_may_come_twice),
        ENDED(test_ignored_signals_stay_ignored),
        cmocka_unit_test_teardown(test_a_run_may_go_on_with_other_kernels, restore_variables),
        ENDED(test_killed_it_goes_on_from_its_checkpoint),
        cmocka_unit_test(test_files_ahead_of_the_checkpoint_are_set_back),
        ENDED(test_one_process_per_run_directory),
        ENDED(test_a_run_does_not_write_into_anothers_directory),
        cmocka_unit_test(test_files_that_are_lost_are_noticed),
        cmocka_unit_test(test_a_flipped_bit_is_refused_and_nothing_is_changed),
        cmocka_unit_test(test_a_changed_row_is_refused),
        cmocka_unit_test(test_runs_of_earlier_versions_are_read_but_not_continued),
        cmocka_unit_test(test_places_that_no_run_reaches_are_refused),
        cmocka_unit_test(test_what_older_versions_did_not_write_is_not_missed),
        cmocka_unit_test(test_a_damaged_checkpoint_is_refused_and_left_alone),
        cmocka_unit_test(test_a_huge_file_that_does_not_fit_is_refused_by_its_header),
        cmocka_unit_test(test_a_checkpoint_of_another_net_is_refused),
        cmocka_unit_test(test_options_of_training_resume_to_the_same_bytes),
        cmocka_unit_test(test_delays_may_count_epochs),
        cmocka_unit_test(test_patience_ends_a_run),
        cmocka_unit_test(test_an_extended_run_is_the_longer_run),
        cmocka_unit_test(test_a_run_that_cannot_be_extended_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
