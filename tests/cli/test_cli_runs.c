/* The directories of runs without --out, and which of them --resume continues. */
#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/foreign.h"
#include "tests/support/program.h"
#include "tests/support/tree.h"

#define RUN    "train --model lenet5 --data-dir set --weight twn --batch 24 --epochs 1 --threads 1 --seed 3 --json "
#define ITS    "runs/lenet5-twn-epochs=1-batch=24-3"
#define PAUSED RUN "--epochs 2 --budget 0 "
#define THEIRS "runs/lenet5-twn-epochs=2-batch=24-3"
#define KEEPS  "runs/lenet5-twn-reestimate-batchnorm=off-epochs=2-batch=24-3"

static int set_up_runs(void **state)
{
    if (set_up_tree(state)) return -1;
    write_recipe("lenet", "");
    edit("examples/recipes/lenet.toml", SMALL_NET(10), "lenet5");
    assert_status("train --recipe plain --json", 0);
    assert_status("train --recipe lenet --json", 0);
    keep_tree();
    return 0;
}

static void assert_there(const char *path)
{
    char file[400];
    snprintf(file, sizeof file, "%s/last.safetensors", path);
    if (access(file, F_OK)) fail_msg("there is no %s; the program said '%s'", file, last.out);
}

static void assert_absent(const char *path)
{
    if (!access(path, F_OK)) fail_msg("%s exists", path);
}

/* --- names -------------------------------------------------------------------------------- */

static void test_a_command_may_run_three_times(void **state)
{
    for (int i = 0; i < 3; i++) assert_status(RUN, 0);
    assert_same_run(ITS, ITS "-2");
    assert_same_run(ITS, ITS "-3");
    assert_absent(ITS "-4");
    run_shell("rm -r " ITS "-2");
    assert_status(RUN, 0);
    assert_there(ITS "-2");
    assert_status(RUN "--force", 0);
    assert_there(ITS ".old");
    assert_absent(ITS "-4");
}

/* They look for a free name at the same time. */
static void test_commands_may_run_at_the_same_time(void **state)
{
    char line[1200];
    snprintf(line, sizeof line, "for i in 1 2 3; do %s " RUN ">/dev/null 2>&1 & done; wait", program);
    run_shell("%s", line);
    assert_same_run(ITS, ITS "-2");
    assert_same_run(ITS, ITS "-3");
}

static void test_the_name_says_what_was_changed(void **state)
{
    static const struct { const char *options, *name; } of[] = {
        { "--epochs 25 --batch 50", "lenet5-twn-3" },              /* as the model has them */
        { "--epochs 25 --batch 50 --data fashion-mnist", "lenet5-twn-fashion-mnist-3" },
        { "--weight twn:threshold=0.5", "lenet5-twn-threshold=0.5-epochs=1-batch=24-3" },
        { "--lr 0.1 --nesterov --seed 8", "lenet5-twn-epochs=1-batch=24-lr=0.1-nesterov=true-8" },
        { "--optimizer adam", "lenet5-twn-epochs=1-batch=24-optimizer=adam-3" },
        { "--layer conv1:weight=float --layer fc1:weight=binary",
          "lenet5-twn-layer=conv1-weight=float-layer=fc1-weight=binary-epochs=1-batch=24-3" },
        { "--schedule step:at=0.5+0.8,factor=0.1", "lenet5-twn-epochs=1-batch=24-schedule=step-at=0.5+0.8-factor=0.1-3" },
        { "--init runs/lenet/seed-3/", "lenet5-twn-epochs=1-batch=24-init=seed-3-3" },
        { "--model 8C3-R-GAP-10", "net-ddde645b-twn-epochs=1-batch=24-3" },
        { "--config examples/recipes/plain.toml --epochs 1", "lenet5-twn-epochs=1-3" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[300];
        assert_stops(RUN "%s --budget 0", of[i].options);
        snprintf(name, sizeof name, "runs/%s", of[i].name);
        assert_string_equal(last_text("run"), name);
        assert_there(name);
    }
}

static void test_a_recipe_has_a_folder_of_its_own(void **state)
{
    assert_status("train --recipe plain --budget 0 --json", 3);
    assert_string_equal(last_text("run"), "runs/plain/seed-3-2");
    assert_status("train --recipe plain --epochs 2 --seed 4 --budget 0 --json", 3);
    assert_string_equal(last_text("run"), "runs/plain/seed-4");
    assert_status("train --recipe plain --weight float --lr 0.1 --budget 0 --json", 3);
    assert_string_equal(last_text("run"), "runs/plain/weight=float-lr=0.1-seed-3");
}

static void test_a_long_name_is_cut(void **state)
{
    char line[1000] = RUN "--budget 0";
    for (int i = 1; i <= 4; i++) {
        const char *const layers[] = { "conv1", "conv2", "fc1", "fc2" };
        snprintf(line + strlen(line), sizeof line - strlen(line), " --layer %s:weight=fake_quant:bits=%d,range=learned,min=-1,max=1",
                 layers[i - 1], i + 1);
    }
    assert_status(line, 3);
    char first[300];
    snprintf(first, sizeof first, "%s", last_text("run"));
    assert_true(strlen(first) < 220);
    strcpy(strstr(line, "bits=5"), "bits=6");
    assert_status(line, 3);
    assert_string_not_equal(last_text("run"), first);
    assert_null(strstr(last_text("run"), "-2"));
}

static void test_what_cannot_begin_leaves_no_directory(void **state)
{
    assert_status(RUN "--data-dir absent", 1);
    assert_status(RUN "--init absent", 1);
    assert_absent(ITS);
}

/* --- resuming ----------------------------------------------------------------------------- */

static void test_resume_finds_the_newest_unfinished_run(void **state)
{
    assert_status(PAUSED, 3);
    assert_status(PAUSED, 3);
    assert_status(PAUSED "--seed 4", 3);
    assert_status(PAUSED "--lr 0.1", 3);
    assert_status(RUN "--epochs 2 --resume", 0);
    assert_string_equal(last_text("run"), THEIRS "-2");
    assert_null(strstr(last.err, "found no run"));
    assert_status(RUN "--epochs 2 --resume --ema 0 --clip-norm 0 --label-smoothing 0 --norm-sync on "
                  "--quantize-weights-after 0", 0);
    assert_string_equal(last_text("run"), THEIRS);          /* what is off is as if it had not been given */
    assert_same_run(THEIRS, THEIRS "-2");
    assert_status(RUN "--epochs 2 --resume", 0);            /* all are finished: it prints the newest */
    assert_string_equal(last_text("run"), THEIRS);
    run_shell("mv " THEIRS " runs/renamed");
    assert_status(RUN "--epochs 2 --resume", 0);
    assert_string_equal(last_text("run"), "runs/renamed");
    assert_absent(THEIRS "-3");
}

static void test_resume_says_that_it_found_nothing(void **state)
{
    assert_status(PAUSED, 3);
    assert_status(RUN "--resume", 0);
    assert_string_equal(last_text("run"), ITS);
    assert_stderr("warning: --resume found no run with these options; " THEIRS " differs only in epochs, which is 2 there; a new one "
                  "starts in " ITS);
    assert_status(RUN "--resume --out elsewhere", 0);
    assert_stderr("warning: --resume found no run there; a new one starts in elsewhere");
    assert_status(RUN "--epochs 2 --resume --budget 0", 3);
    assert_string_equal(last_text("run"), THEIRS);
    assert_null(strstr(last.err, "found no run"));
}

/* A configuration that lacks an option is that of a run of this command, which goes on as it began. */
static void test_resume_finds_a_run_from_before_an_option(void **state)
{
    assert_status(PAUSED "--reestimate-batchnorm off", 3);
    assert_string_equal(last_text("run"), KEEPS);
    run_shell("cd @/" KEEPS " && sed -i '/^reestimate-batchnorm/d' config.toml");
    assert_status(RUN "--epochs 2 --resume --reestimate-batchnorm on --budget 0", 3);
    assert_stderr("warning: --resume found no run with these options; " KEEPS " differs only in reestimate-batchnorm, which is not set "
                  "there");
    run_shell("rm -r @/" THEIRS);
    assert_status(RUN "--epochs 2 --resume", 0);
    assert_string_equal(last_text("run"), KEEPS);
}

/* Words without a file have today's meaning. */
#define LIKE "train --model lenet5 --data-dir set --batch 24 --epochs 1 --threads 1 --seed 3 --json "
static void test_resume_finds_a_run_of_older_defaults(void **state)
{
    run_shell("echo 'defaults = 1' > @/old.toml");
    assert_status(LIKE "--config old.toml --weight xnor:as=paper --out runs/old --budget 0", 3);
    run_shell("grep -q '^weight = \"xnor\"$' @/runs/old/config.toml && ! grep -q '^defaults' @/runs/old/config.toml");
    assert_status(LIKE "--weight xnor:rule=identity --resume --budget 0", 3);
    assert_stderr("found no run with these options");
    assert_status(LIKE "--config old.toml --weight xnor:as=paper --resume", 0);
    assert_string_equal(last_text("run"), "runs/old");
}

/* Which run may have been meant: the newest that differs in one option alone, which is named. */
static void test_resume_names_the_run_that_is_nearest(void **state)
{
    assert_status(PAUSED, 3);
    assert_status(PAUSED "--lr 0.1 --resume", 3);
    assert_stderr("found no run with these options; " THEIRS " differs only in lr, which is 0.01 there; a new one starts in ");
    assert_status(PAUSED "--seed 9 --resume", 3);
    assert_stderr("; " THEIRS " differs only in seed, which is 3 there; ");
    assert_status(PAUSED "--nesterov --resume", 3);
    assert_stderr("; " THEIRS " differs only in nesterov, which is off there; ");
    assert_status(PAUSED "--seed 10 --lr 0.2 --batch 12 --resume", 3);
    assert_stderr("found no run with these options; a new one starts in ");
}

static void test_resume_tells_runs_by_what_they_started_from(void **state)
{
    assert_status(PAUSED "--init runs/lenet/seed-3", 3);
    assert_status(PAUSED "--resume", 3);
    assert_string_equal(last_text("run"), THEIRS);
    assert_status(PAUSED "--resume --init runs/lenet/seed-3", 3);
    assert_string_equal(last_text("run"), "runs/lenet5-twn-epochs=2-batch=24-init=seed-3-3");
    assert_status("train --recipe lenet --seed 4 --json", 0);
    assert_status(PAUSED "--init runs/lenet/seed-4", 3);                /* newer */
    assert_status(PAUSED "--resume --init runs/lenet/seed-3", 3);
    assert_string_equal(last_text("run"), "runs/lenet5-twn-epochs=2-batch=24-init=seed-3-3");
    assert_status(PAUSED "--teacher runs/lenet/seed-3", 3);
    assert_status(RUN "--epochs 2 --resume --teacher runs/lenet/seed-3", 0);
    assert_string_equal(last_text("run"), "runs/lenet5-twn-epochs=2-batch=24-teacher=seed-3-3");
    assert_status(PAUSED "--teacher runs/lenet/seed-4", 3);
    assert_status(RUN "--epochs 2 --resume --teacher runs/lenet/seed-3", 0);
    assert_string_equal(last_text("run"), "runs/lenet5-twn-epochs=2-batch=24-teacher=seed-3-3");
}

/* No run of another version of the arithmetic continues, so --resume looks on, or says what was there. */
static void test_resume_passes_over_another_arithmetic(void **state)
{
    assert_status(PAUSED, 3);
    assert_status(PAUSED, 3);
    note_anew(THEIRS "-2/last.safetensors", "arithmetic", NULL);
    assert_status(RUN "--epochs 2 --resume", 0);
    assert_string_equal(last_text("run"), THEIRS);
    assert_status(RUN "--epochs 2 --resume", 0);            /* the finished one */
    assert_string_equal(last_text("run"), THEIRS);
    run_shell("rm -r " THEIRS);
    assert_status(PAUSED "--lr 0.1", 3);                    /* newer, but another one */
    assert_status(PAUSED "--resume", 3);
    assert_string_equal(last_text("run"), THEIRS);
    assert_stderr("found no run with these options; " THEIRS "-2 was begun under version 1 of the arithmetic");
    assert_stderr("and this program trains it under version 2; a new one starts in " THEIRS);
    for (int i = 0; i < 2; i++) {                           /* with gradient quantizers, of version 3 */
        char path[512];
        assert_status(PAUSED "--gradient dorefa --resume", 3);
        assert_true((strstr(last.err, "found no run") != NULL) == (i == 0));
        snprintf(path, sizeof path, "%s/last.safetensors", last_text("run"));
        if (i == 1) note_anew(path, "arithmetic", "2");
    }
    assert_status(PAUSED "--gradient dorefa --resume", 3);
    assert_stderr("was begun under version 2 of the arithmetic, and this program trains it under version 3;");
}

/* One that --force has set aside is not found either. */
static void test_resume_leaves_a_run_alone_that_is_training(void **state)
{
    const pid_t pid = start_endless(RUN "--epochs 100000");
    assert_status(RUN "--epochs 100000 --resume --budget 0", 3);
    assert_string_equal(last_text("run"), "runs/lenet5-twn-epochs=100000-batch=24-3-2");
    assert_stderr("found no run with these options; a process is training in runs/lenet5-twn-epochs=100000-batch=24-3; a new");
    kill(pid, SIGTERM);
    assert_int_equal(finish(pid), 128 + SIGTERM);
    run_shell("cd runs && rm -r lenet5-twn-epochs=100000-batch=24-3-2 && mv lenet5-twn-epochs=100000-batch=24-3 aside.old");
    assert_status(RUN "--epochs 100000 --resume --budget 0", 3);
    assert_stderr("found no run with these options");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_command_may_run_three_times, restore_tree),
        cmocka_unit_test_setup(test_commands_may_run_at_the_same_time, restore_tree),
        cmocka_unit_test_setup(test_the_name_says_what_was_changed, restore_tree),
        cmocka_unit_test_setup(test_a_recipe_has_a_folder_of_its_own, restore_tree),
        cmocka_unit_test_setup(test_a_long_name_is_cut, restore_tree),
        cmocka_unit_test_setup(test_what_cannot_begin_leaves_no_directory, restore_tree),
        cmocka_unit_test_setup(test_resume_finds_the_newest_unfinished_run, restore_tree),
        cmocka_unit_test_setup(test_resume_says_that_it_found_nothing, restore_tree),
        cmocka_unit_test_setup(test_resume_tells_runs_by_what_they_started_from, restore_tree),
        cmocka_unit_test_setup(test_resume_finds_a_run_from_before_an_option, restore_tree),
        cmocka_unit_test_setup(test_resume_finds_a_run_of_older_defaults, restore_tree),
        cmocka_unit_test_setup(test_resume_names_the_run_that_is_nearest, restore_tree),
        cmocka_unit_test_setup(test_resume_passes_over_another_arithmetic, restore_tree),
        cmocka_unit_test_setup_teardown(test_resume_leaves_a_run_alone_that_is_training, restore_tree, end_background),
    };
    return cmocka_run_group_tests(tests, set_up_runs, tear_down);
}
