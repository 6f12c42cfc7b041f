/* qgrad sweep: lists of options, the runs of their combinations, and what is said of them at the end. */
#include "tests/support/testing.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/environment.h"
#include "tests/support/foreign.h"
#include "tests/support/program.h"
#include "tests/support/tree.h"

#define SET_  "--data-dir set --batch 24 "
#define SWEEP "sweep --model lenet5 " SET_
#define SMALL SWEEP "--epochs 1 --weight twn,binary --seed 1..2 --out all "

static int set_up_sweep(void **state)
{
    if (set_up_tree(state)) return -1;
    keep_tree();
    return 0;
}

/* --- lists -------------------------------------------------------------------------------- */

/* What --list prints for each combination after its directory, joined by "; ". */
static void assert_lists(const char *options, const char *want)
{
    char line[1000], found[4000] = "";
    snprintf(line, sizeof line, SWEEP "%s --list", options);
    assert_status(line, 0);
    for (char *at = last.out, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end            = '\0';
        const char *dir = strstr(at, "runs/"), *what = dir ? strstr(dir, "  ") : NULL;
        if (!what) fail_msg("'%s'", at);
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", *found ? "; " : "", what + 2);
    }
    assert_string_equal(found, want);
}

static void test_lists_become_combinations(void **state)
{
    static const struct { const char *options, *combinations; } of[] = {
        { "", "" },
        { "--seed 7", "" },
        { "--lr 0.1,0.03,.01", "lr=0.1; lr=0.03; lr=0.01" },
        { "--lr 0.1 --lr 3e-2", "lr=0.1; lr=0.03" },
        { "--seed 1..3", "seed=1; seed=2; seed=3" },
        { "--seed 9..10,2 --epochs 4,3",
          "epochs=4 seed=9; epochs=4 seed=10; epochs=4 seed=2; epochs=3 seed=9; epochs=3 seed=10; epochs=3 seed=2" },
        { "--weight twn,ttq:threshold=0.1,per-channel=yes,float", "weight=twn; weight=ttq:threshold=0.1,per-channel=yes; weight=float" },
        { "--weight ttq:threshold=0.1 --weight ttq:per-channel=yes", "weight=ttq:threshold=0.1; weight=ttq:per-channel=yes" },
        { "--schedule step:at=0.5+0.8,factor=0.5,cosine", "schedule=step:at=0.5+0.8,factor=0.5; schedule=cosine" },
        { "--augment flip,pad=1 --augment none", "augment=pad=1,flip; augment=none" },
        { "--optimizer sgd --nesterov --momentum 0.8,0", "momentum=0.8; momentum=0" },
        { "--freeze conv1,conv2", "" },
        { "--weight twn --quantize-weights-after 1epoch,20", "quantize-weights-after=1epochs; quantize-weights-after=20" },
        { "--layer conv1:weight=twn --layer fc1:weight=float --lr 0.1,0.2", "lr=0.1; lr=0.2" },
        { "--data mnist,fashion-mnist:classes=0+1", "data=mnist; data=fashion-mnist:classes=0+1" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_lists(of[i].options, of[i].combinations);
    assert_status("sweep " SET_ "--model lenet5,vgg7:width=0.25,8C3-BN(no-scale,eps=1e-3)-R-GAP-10,2*(8C3-R)-GAP-10 --data cifar10 --list", 0);
    assert_stdout("model=lenet5\n");
    assert_stdout("model=vgg7:width=0.25\n");
    assert_stdout("model=8C3-BN(no-scale,eps=1e-3)-R-GAP-10\n");
    assert_stdout("model=2*(8C3-R)-GAP-10\n");
}

static void test_wrong_lists_are_refused(void **state)
{
    static const struct { const char *options, *message; } of[] = {
        { "--lr 0.1,0.10", "--lr: 0.1 is given twice" },
        { "--seed 3..1", "--seed: '3..1' is not a range; write 1..3" },
        { "--seed 1...3", "--seed: '1...3' is not a range" },
        { "--seed 1..100000", "are more than 10000 values" },
        { "--lr 0.1..0.3", "--lr '0.1..0.3' is not a number" },
        { "--lr 0.1,", "--lr '' is not a number" },
        { "--weight twn,,float", "--weight: unknown scheme ''" },
        { "--weight twn,tnw", "--weight: unknown scheme 'tnw'" },
        { "--weight ttq:threshold=0.1,lr=3", "--weight: ttq: unknown option 'lr'" },
        { "--seed 1..200 --lr 1,2,3,4,5,6,7,8,9,10 --epochs 1,2,3,4,5,6", "these are more than 10000 combinations" },
        { "--threads 1,2", "--threads: takes one value" },
        { "--cache 1M,2M", "--cache: takes one value" },
        { "--resume", "unknown option '--resume'" },
        { "--jobs 0", "--jobs 0 is not in 1..1024" },
        { "--array 3 --lr 0.1,0.2", "array: 3 is not in 1..2" },
        { "--csv --json", "--csv and --json exclude each other" },
        { "--weight bop", "bop" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char line[400];
        snprintf(line, sizeof line, SWEEP "%s", of[i].options);
        assert_refuses(line, 2, of[i].message);
    }
    assert_refuses("sweep --lr 0.1,0.2", 2, "--model is missing");
    if (!access("runs", F_OK)) fail_msg("a sweep that was refused has left a directory");
}

static void test_the_directory_tells_what_all_have(void **state)
{
    static const struct { const char *line, *dir; } of[] = {
        { SWEEP "--list", "runs/sweep-lenet5-batch=24/seed-1" },
        { SWEEP "--seed 4,5 --weight twn --list", "runs/sweep-lenet5-weight=twn-batch=24/seed-4" },
        { SWEEP "--lr 0.1,0.2 --list", "runs/sweep-lenet5-batch=24-lr/lr=0.1-seed-1" },
        { SWEEP "--lr 0.2,0.1,0.3 --list", "runs/sweep-lenet5-batch=24-lr/lr=0.2-seed-1" },     /* a list may grow */
        { "sweep --recipe plain,twn --list", "runs/sweep-recipe/plain/seed-3" },
        { "sweep --recipe plain --lr 0.1,0.2 --out x/ --list", "x/plain/lr=0.1-seed-3" },
        { "sweep --model lenet5,8C3-R-GAP-10 --out x --list", "x/model=lenet5-seed-1" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_status(of[i].line, 0);
        char want[200];
        snprintf(want, sizeof want, "   1  to do     %s  ", of[i].dir);
        assert_stdout(want);
    }
    if (!access("runs", F_OK)) fail_msg("--list has made a directory");
}

/* --- runs --------------------------------------------------------------------------------- */

static void test_a_sweep_trains_what_train_would(void **state)
{
    assert_status(SMALL "--jobs 2 --json", 0);
    assert_stderr("qgrad sweep: 4/4  all/");
    assert_true(last_number("combinations") == 4 && last_number("finished") == 4 && last_number("failed") == 0);
    cJSON *all = parse();
    const cJSON *groups = cJSON_GetObjectItem(all, "groups"), *runs = cJSON_GetObjectItem(all, "runs");
    assert_int_equal(cJSON_GetArraySize(groups), 2);
    const cJSON *twn = cJSON_GetArrayItem(groups, 0);
    const double a = number(cJSON_GetArrayItem(runs, 0), "test_accuracy"), b = number(cJSON_GetArrayItem(runs, 1), "test_accuracy");
    assert_string_equal(text(cJSON_GetObjectItem(twn, "options"), "weight"), "twn");
    assert_true(number(twn, "runs") == 2 && number(twn, "finished") == 2);
    assert_true(fabs(number(twn, "test_accuracy") - (a + b) / 2) < 1e-8);           /* nine digits */
    assert_true(fabs(number(twn, "test_accuracy_deviation") - fabs(a - b) / sqrt(2)) < 1e-8);
    cJSON_Delete(all);
    assert_runs("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 2 --out alone --json");
    assert_same_run("all/weight=twn-seed-2", "alone");
    run_shell("cp -r all before && test -z \"$(ls all | grep log)\"");
    assert_status(SMALL, 0);                                    /* all are finished */
    assert_stdout("weight  runs");
    assert_stdout("\nbinary   2/2  ");
    assert_stdout(" ± ");
    assert_stdout("± is the standard deviation over runs");
    run_shell("diff -r before all");
    assert_status(SMALL "--csv --array 3", 0);
    assert_stdout("weight,runs,finished,validation_accuracy,validation_accuracy_deviation,test_accuracy,");
    assert_stdout("\nbinary,1,1,,,0.");
    assert_status(SMALL "--list", 0);
    assert_stdout("   4  finished  all/weight=binary-seed-2  weight=binary seed=2\n");
}

/* One cannot be trained with its optimizer, one has images that are not there, and one is another run already. */
static void test_schedules_are_swept(void **state)
{
    assert_status(SWEEP "--epochs 1 --schedule cosine,linear --out annealed --json", 0);
    assert_true(last_number("combinations") == 2 && last_number("finished") == 2 && last_number("failed") == 0);
}

static void test_failures_do_not_stop_the_others(void **state)
{
    assert_status("train --model lenet5 " SET_ "--epochs 2 --budget 0 --weight binary --out all/weight=binary-seed-1 --json", 3);
    assert_status(SWEEP "--epochs 1 --weight twn,binary,bop --out all --csv", 1);
    assert_stderr("qgrad sweep: combination 3 (weight=bop): weight: sgd cannot train the scheme bop; pass --optimizer bop\n");
    assert_stderr("qgrad sweep: all/weight=binary-seed-1: has a run with epochs 2, not 1; choose another --out, or rename it\n");
    assert_stderr("qgrad sweep: 2 of 3 runs failed\n");
    assert_stdout("\ntwn,1,1,");
    assert_stdout("\nbinary,1,0,");
    assert_stdout("\nbop,1,0,");
    assert_status(SWEEP "--epochs 1 --data-dir absent --out none", 1);
    assert_stderr("none/data-dir=absent-seed-1: cannot open 'absent/train-images-idx3-ubyte'");
    assert_holds("none/data-dir=absent-seed-1.log", "cannot open 'absent/");
    assert_stdout("\nset        1/1  ");
    assert_status(SWEEP "--weight twn,binary,bop --out all --list", 1);
}

/* Others may be able to write in the directory of a sweep. */
static void test_logs_follow_no_links(void **state)
{
    run_shell("echo mine >kept && mkdir none && ln -s ../kept none/data-dir=absent-seed-1.log && ln kept none/data-dir=absent-seed-2.log && "
              "mkfifo none/data-dir=absent-seed-3.log");
    assert_status(SWEEP "--epochs 1 --data-dir absent --seed 1..3 --out none", 1);
    assert_stderr("none/data-dir=absent-seed-3: cannot open 'absent/");
    run_shell("echo mine | cmp - kept && for i in 1 2 3; do test ! -L none/data-dir=absent-seed-$i.log && "
              "grep -q 'cannot open' none/data-dir=absent-seed-$i.log || exit; done");
}

static void test_a_budget_pauses_a_sweep(void **state)
{
    assert_status(SMALL "--budget 0 --json", 3);
    assert_true(last_number("finished") == 0 && last_number("failed") == 0);
    assert_stderr("4 of 4 runs are not finished; the same command continues them\n");
    assert_status("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 1 --budget 0 --out all/weight=twn-seed-1 --json", 3);
    assert_status(SMALL "--array 1", 0);
    assert_status("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 1 --out alone --json", 0);
    assert_same_run("all/weight=twn-seed-1", "alone");
}

/* Both print the whole table, and each run is trained once. */
static void test_two_sweeps_share_the_work(void **state)
{
    static const char line[] = SWEEP "--epochs 2 --weight twn,binary --seed 1..2 --out both";
    for (int i = 0; i < 3; i++)
        run_shell("rm -rf both; %s %s >1 2>1e & %s %s >2 2>2e; two=$?; wait $! && test $two = 0 && cmp 1 2 && "
                  "grep -q '^binary .* 2/2' 1 && ! ls both/*.log 2>&-", program, line, program, line);
    assert_status("train --model lenet5 " SET_ "--epochs 2 --weight binary --seed 2 --out alone --json", 0);
    assert_same_run("both/weight=binary-seed-2", "alone");
}

/* Each reports what failed in its own trainings, although both write logs of the same names. */
static void test_two_sweeps_that_fail_say_why(void **state)
{
    for (int i = 0; i < 3; i++)
        run_shell("%s " SWEEP "--data-dir absent --out none 2>1e >1 & %s " SWEEP "--data-dir absent --out none 2>2e >2; test $? = 1 && "
                  "{ wait $!; test $? = 1; } && grep -q cannot.open.*absent/ 1e && grep -q cannot.open.*absent/ 2e", program, program);
}

/* Runs the sweep, which prints into out and err, while another process holds the lock of a run until `until` holds. */
static void sweep_beside(const char *options, const char *until, int status)
{
    run_shell("rm -f locked over out err; flock all/weight=twn-seed-1 sh -c 'echo >locked; until %s || test -e over; do sleep 0.05; done' & "
              "until test -e locked || ! kill -0 $!; do sleep 0.01; done; %s " SMALL "--json %s >out 2>err; status=$?; echo >over; wait; "
              "test $status = %d", until, program, options, status);
}

/* It trains the others, then waits, and goes on with the run when it is free. */
static void test_a_sweep_waits_for_other_processes(void **state)
{
    if (system("flock --version >out 2>&1")) skip();
    assert_status("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 1 --budget 0 --out all/weight=twn-seed-1 --json", 3);
    sweep_beside("--budget 1s", "false", 3);
    assert_holds("err", "other processes are training 1 of 4 runs");
    sweep_beside("", "grep -qs which.train.1.of.4.runs err", 0);
    assert_holds("out", "\"finished\":4,\"failed\":0");
    assert_status("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 1 --out alone --json", 0);
    assert_same_run("all/weight=twn-seed-1", "alone");
}

/* What the training says of a run that another version began. */
static void test_a_run_of_another_arithmetic_is_not_continued(void **state)
{
    assert_status("train --model lenet5 " SET_ "--epochs 1 --weight twn --seed 1 --budget 0 --out all/weight=twn-seed-1 --json", 3);
    note_anew("all/weight=twn-seed-1/last.safetensors", "arithmetic", NULL);
    assert_status(SMALL "--array 1", 1);
    assert_stderr("all/weight=twn-seed-1: was trained under version 1 of the arithmetic, but this "
                  "program trains it under version 2");
    assert_status(SMALL "--array 2", 0);
}

/* They are not trained again, but no mean is taken over two versions without a word. */
static void test_finished_runs_of_another_arithmetic_are_named(void **state)
{
    assert_status(SMALL, 0);
    assert_null(strstr(last.err, "another version"));
    edit_result("all/weight=twn-seed-2/result.json", "\"arithmetic\":2,", "\"arithmetic\":1,");
    assert_status(SMALL, 0);
    assert_stderr("warning: 1 of the finished runs, the first in all/weight=twn-seed-2, were trained under ");
    assert_stdout("\ntwn      2/2  ");
}

/* Either kind of gradient has its own version, and its own earlier runs are other ones. */
static void test_gradient_quantizers_are_no_other_arithmetic(void **state)
{
    assert_status(SWEEP "--epochs 1 --weight twn --gradient float,dorefa --seed 1 --out all", 0);
    assert_null(strstr(last.err, "another version"));
    edit_result("all/gradient=dorefa-bits=6-seed-1/result.json", "\"arithmetic\":3,", "\"arithmetic\":2,");
    assert_status(SWEEP "--epochs 1 --weight twn --gradient float,dorefa --seed 1 --out all", 0);
    assert_stderr("warning: 1 of the finished runs, the first in all/gradient=dorefa-bits=6-seed-1, "
                  "were trained under another version of the arithmetic than this program trains them under");
}

/* A finished run counts only if its images, initial weights and teacher are those that are asked for. */
static void test_finished_runs_of_other_sources_do_not_count(void **state)
{
    assert_runs("train --model lenet5 " SET_ "--epochs 0 --seed 5 --out five");
    assert_runs("train --model lenet5 " SET_ "--epochs 0 --seed 6 --out six");
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2 --init five --out all", 0);
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2 --init five --out all", 0);
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2,3 --init five --out all", 0);
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2 --init six --out all", 1);
    assert_stderr("all/seed-1: six: its weights have digest ");
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2 --out all", 1);
    assert_stderr("all/seed-1: has a run that differs in --init or --teacher; choose another --out");
    assert_status(SWEEP "--epochs 1 --weight twn --seed 1,2 --init five --out all --list --json", 2);
    assert_stderr("--list prints text alone, without --csv and --json");
}

/* The first run is over only after 100,000 epochs. */
static pid_t start_endless_sweep(void)
{
    const pid_t pid = start(SWEEP "--epochs 100000 --weight twn,binary --out all --threads 1");
    run_shell("until grep -q ^2, all/weight=twn-seed-1/metrics.csv 2>/dev/null || ! kill -0 %d; do sleep 0.05; done", (int)pid);
    return pid;
}

static void test_a_signal_stops_the_trainings(void **state)
{
    const pid_t pid = start_endless_sweep();
    assert_status(SWEEP "--epochs 100000 --weight twn,binary --out all --list", 0);
    assert_stdout("   1  running   all/");
    assert_status(SWEEP "--epochs 100000 --weight twn,binary --out all --array 1", 1);
    assert_stderr("other processes are training 1 of 1 runs");
    kill(pid, SIGINT);
    assert_int_equal(finish(pid), 128 + SIGINT);
    assert_stderr("2 of 2 runs are not finished");
    assert_status("runs all --json", 0);
    cJSON *all = parse(), *runs = cJSON_GetObjectItem(all, "runs");
    assert_int_equal(cJSON_GetArraySize(runs), 1);
    assert_string_equal(text(cJSON_GetArrayItem(runs, 0), "state"), "stopped");
    assert_true(number(cJSON_GetArrayItem(runs, 0), "epochs") >= 2);
    cJSON_Delete(all);
}

/* Runs in the child: trap "" TERM USR1; exec qgrad .. */
static int ignoring(int argc, char **argv)
{
    (void)argc;
    signal(SIGTERM, SIG_IGN), signal(SIGUSR1, SIG_IGN);
    execv(program, argv);
    return 77;
}

/* The trainings inherit what the sweep ignores, and get a signal that they obey. */
static void test_a_sweep_obeys_no_ignored_signal(void **state)
{
    inside          = ignoring;
    const pid_t pid = start_endless_sweep();
    kill(pid, SIGTERM), kill(pid, SIGUSR1);
    run_shell("n=$(wc -l <all/weight=twn-seed-1/metrics.csv) i=0; until [ $(wc -l <all/weight=twn-seed-1/metrics.csv) -gt $n ] || "
              "[ $((i += 1)) -gt 200 ]; do sleep 0.05; done");
    kill(pid, SIGHUP);
    assert_int_equal(finish(pid), 128 + SIGHUP);
    assert_status("runs all --json", 0);
    cJSON *all = parse(), *runs = cJSON_GetObjectItem(all, "runs");
    assert_string_equal(text(cJSON_GetArrayItem(runs, 0), "state"), "stopped");
    cJSON_Delete(all);
}

/* Each run starts from the run of the other recipe with its seed, which is trained first. */
static void test_recipes_wait_for_their_initial_weights(void **state)
{
    write_recipe("tuned", "init-recipe = \"plain\"\n");
    assert_status("sweep --recipe tuned --seed 1 --out all", 1);
    assert_stderr("all/tuned/seed-1: starts from the weights of all/plain/seed-1, which is not finished");
    assert_status("sweep --recipe tuned,plain --seed 1,2 --jobs 2 --out all --json", 0);
    assert_true(last_number("finished") == 4);
    assert_holds("all/tuned/seed-2/config.toml", "init-digest = ");
    assert_status("sweep --recipe tuned,plain --seed 1,2 --out all", 0);
    assert_stdout("recipe  runs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_lists_become_combinations, restore_tree),
        cmocka_unit_test_setup(test_wrong_lists_are_refused, restore_tree),
        cmocka_unit_test_setup(test_the_directory_tells_what_all_have, restore_tree),
        cmocka_unit_test_setup(test_a_sweep_trains_what_train_would, restore_tree),
        cmocka_unit_test_setup(test_schedules_are_swept, restore_tree),
        cmocka_unit_test_setup(test_failures_do_not_stop_the_others, restore_tree),
        cmocka_unit_test_setup(test_logs_follow_no_links, restore_tree),
        cmocka_unit_test_setup(test_a_budget_pauses_a_sweep, restore_tree),
        cmocka_unit_test_setup(test_two_sweeps_share_the_work, restore_tree),
        cmocka_unit_test_setup(test_two_sweeps_that_fail_say_why, restore_tree),
        cmocka_unit_test_setup(test_a_sweep_waits_for_other_processes, restore_tree),
        cmocka_unit_test_setup(test_a_run_of_another_arithmetic_is_not_continued, restore_tree),
        cmocka_unit_test_setup(test_finished_runs_of_another_arithmetic_are_named, restore_tree),
        cmocka_unit_test_setup(test_finished_runs_of_other_sources_do_not_count, restore_tree),
        cmocka_unit_test_setup(test_gradient_quantizers_are_no_other_arithmetic, restore_tree),
        cmocka_unit_test_setup_teardown(test_a_signal_stops_the_trainings, restore_tree, end_background),
        cmocka_unit_test_setup_teardown(test_a_sweep_obeys_no_ignored_signal, restore_tree, end_background),
        cmocka_unit_test_setup(test_recipes_wait_for_their_initial_weights, restore_tree),
    };
    return cmocka_run_group_tests(tests, set_up_sweep, tear_down);
}
