/* qgrad runs: what it says of runs in every state, in what order, and as what. */
#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/program.h"
#include "tests/support/tree.h"

#define RUN "train --model lenet5 --data-dir set --batch 24 --threads 1 --json "

/* One run of each kind, below runs. */
static int set_up_runs(void **state)
{
    if (set_up_tree(state)) return -1;
    assert_status(RUN "--weight twn --epochs 2 --seed 10 --lr 0.02 --out runs/whole-10", 0);
    assert_status(RUN "--weight twn --epochs 2 --seed 9 --validation 40 --out runs/whole-9", 0);
    assert_status(RUN "--weight twn --epochs 2 --budget 0 --out runs/folder/paused", 3);
    run_shell("cp -r runs/folder/paused runs/killed && sed -i 's/\"ended\":\"budget\"/\"ended\":\"no\"/; s/,\"checksum.*/}/' "
              "runs/killed/result.json");
    run_shell("cp -r runs/killed runs/begun && cd runs/begun && rm *.json *.safetensors");
    run_shell("cp -r runs/whole-10 runs/old && rm runs/old/result.json");
    run_shell("cp -r runs/whole-10 runs/bad-result && sed -i 's/\"epochs\":2/\"epochs\":1/' runs/bad-result/result.json");
    run_shell("cp -r runs/whole-10 runs/bad-config && echo 'nonsense = 1' >>runs/bad-config/config.toml");
    run_shell("cp -r runs/whole-10 runs/bad-last && printf x >runs/bad-last/last.safetensors");
    run_shell("cp -r runs/whole-10 runs/lost-last && rm runs/lost-last/last.safetensors");
    run_shell("mkdir -p runs/notes/deep runs/.hidden && echo hello >runs/notes/deep/text && touch runs/file && ln -s .. runs/up");
    keep_tree();
    return 0;
}

/* The one that ends like this, of the object that was printed. */
static const cJSON *find(const cJSON *all, const char *name)
{
    const cJSON *run;
    cJSON_ArrayForEach(run, cJSON_GetObjectItem(all, "runs"))
    {
        const char *dir = text(run, "run");
        if (strlen(dir) >= strlen(name) && !strcmp(dir + strlen(dir) - strlen(name), name)) return run;
    }
    fail_msg("%s is not in %s", name, last.out);
    return NULL;
}

static void test_every_state_has_its_word(void **state)
{
    static const struct { const char *name, *state, *why; } of[] = {
        { "runs/whole-10", "finished", NULL },
        { "runs/whole-9", "finished", NULL },
        { "runs/folder/paused", "budget", NULL },
        { "runs/killed", "killed", NULL },
        { "runs/begun", "killed", NULL },
        { "runs/old", "finished", NULL },
        { "runs/bad-result", "damaged", "result.json: is damaged: its checksum is another" },
        { "runs/bad-config", "damaged", "config.toml:29: unknown key 'nonsense'" },
        { "runs/bad-last", "damaged", "last.safetensors' is truncated" },
        { "runs/lost-last", "damaged", "last.safetensors': No such file" },
        { "runs/notes", "foreign", NULL },
        { "runs/up", "foreign", NULL },
    };
    const int n = (int)(sizeof of / sizeof *of);
    run_shell("cp -r runs before");
    assert_status("runs --json", 0);
    assert_string_equal(last.err, "");
    cJSON *all = parse();
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(all, "runs")), n);
    for (int i = 0; i < n; i++) {
        const cJSON *run = find(all, of[i].name);
        assert_string_equal(text(run, "state"), of[i].state);
        if (of[i].why && !strstr(text(run, "why"), of[i].why)) fail_msg("%s", text(run, "why"));
        assert_true(!of[i].why == !cJSON_GetObjectItem(run, "why"));
    }
    cJSON_Delete(all);
    run_shell("diff -r before runs");
}

static void test_numbers_are_those_of_the_result(void **state)
{
    static const char *const same[] = { "epochs", "best_epoch", "test_accuracy", "best_test_accuracy", "validation_accuracy",
                                        "best_validation_accuracy", "seconds" };
    assert_status("runs --json", 0);
    cJSON *all = parse(), *result = parse_file("runs/whole-9/result.json");
    const cJSON *held = find(all, "whole-9"), *plain = find(all, "whole-10"), *old = find(all, "runs/old");
    for (int i = 0; i < 7; i++) assert_true(number(held, same[i]) == number(result, same[i]));
    assert_true(number(held, "of") == 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(plain, "validation_accuracy")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(find(all, "bad-last"), "test_accuracy")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(find(all, "runs/notes"), "epochs")));
    assert_true(number(old, "test_accuracy") == number(plain, "test_accuracy"));
    assert_true(number(old, "epochs") == 2 && number(old, "best_test_accuracy") == number(plain, "best_test_accuracy"));
    assert_true(number(find(all, "runs/begun"), "epochs") == 0);
    assert_string_equal(text(held, "digest"), text(result, "digest"));
    assert_string_equal(text(old, "digest"), text(plain, "digest"));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(find(all, "runs/begun"), "digest")));
    const cJSON *options = cJSON_GetObjectItem(held, "options");
    assert_string_equal(text(options, "seed"), "9");
    assert_string_equal(text(options, "lr"), "0.01");
    assert_string_equal(text(options, "validation"), "40");
    assert_null(cJSON_GetObjectItem(options, "weight"));            /* the same in all */
    assert_null(cJSON_GetObjectItem(cJSON_GetObjectItem(find(all, "bad-last"), "options"), "seed"));
    cJSON_Delete(all), cJSON_Delete(result);
}

/* Asserts that these words begin lines of the table in this order. */
static void assert_order(const char *line, const char *const *word, int n)
{
    assert_status(line, 0);
    const char *at = last.out;
    for (int i = 0; i < n; i++) {
        char start[64];
        snprintf(start, sizeof start, "\n%s ", word[i]);
        const char *found = strstr(at, start);
        if (!found) fail_msg("%s is not after the %d before it in\n%s", word[i], i, last.out);
        at = found + 1;
    }
}

static void test_the_table_is_sorted(void **state)
{
    static const char *const names[] = { "runs/bad-config", "runs/begun", "runs/notes", "runs/whole-9", "runs/whole-10" };
    static const char *const seeds[] = { "runs/folder/paused", "runs/whole-9", "runs/whole-10", "runs/notes" };
    static const char *const rates[] = { "runs/killed", "runs/whole-9", "runs/whole-10", "runs/notes" };
    static const char *const states[] = { "runs/folder/paused", "runs/bad-last", "runs/whole-10", "runs/notes", "runs/killed" };
    assert_order("runs", names, 5);
    assert_order("runs --sort seed", seeds, 4);
    assert_order("runs --sort lr runs", rates, 4);
    const char *const ends[] = { states[0], states[1], states[2] };
    assert_order("runs --sort state", ends, 3);
    assert_status("runs --sort weight", 0);
    edit_result("runs/whole-9/result.json", "\"test_accuracy\":", "\"test_accuracy\":0.99,\"was\":");
    edit_result("runs/whole-10/result.json", "\"test_accuracy\":", "\"test_accuracy\":0.98,\"was\":");
    static const char *const tests[] = { "runs/whole-9", "runs/whole-10", "runs/killed" };
    assert_order("runs --sort test", tests, 3);
    assert_stdout("99.00");
    assert_stdout("\n\nruns/bad-config: runs/bad-config/config.toml:29: unknown key");
    assert_refuses("runs --sort colour", 2, "sort: there is no column 'colour'; available: run, state, epochs, valid, test, best");
}

static void test_csv_quotes_what_must_be(void **state)
{
    static const char name[] = "\nruns/two,finished,2,2,";
    run_shell("mv runs/whole-9 two && mv runs/whole-10 'a, \"b\"' && rm -r runs/* && mv two 'a, \"b\"' runs");
    assert_status("runs --csv", 0);
    assert_stdout("run,state,epochs,of,validation_accuracy,test_accuracy,best_test_accuracy,best_validation_accuracy,best_epoch,"
                  "seconds,why,digest,validation,lr,seed\n");
    assert_stdout("\n\"runs/a, \"\"b\"\"\",finished,2,2,,");
    assert_stdout(name);
    assert_stdout(",40,0.01,9\n");
}

static void test_a_run_in_training_is_left_alone(void **state)
{
    const pid_t pid = start_endless(RUN "--weight twn --epochs 100000 --out runs/training");
    assert_status("runs --json", 0);
    cJSON *all = parse();
    assert_string_equal(text(find(all, "runs/training"), "state"), "running");
    assert_true(number(find(all, "runs/training"), "of") == 100000);
    cJSON_Delete(all);
    kill(pid, SIGTERM);
    assert_int_equal(finish(pid), 128 + SIGTERM);
    assert_status("runs --json runs/training", 0);
    all = parse();
    assert_string_equal(text(find(all, "runs/training"), "state"), "stopped");
    cJSON_Delete(all);
}

static void test_a_directory_may_be_empty_but_not_absent(void **state)
{
    run_shell("mkdir empty");
    assert_status("runs empty", 0);
    assert_string_equal(last.out, "no runs in empty\n");
    assert_status("runs --csv empty", 0);
    assert_refuses("runs absent", 1, "absent: No such file or directory");
    assert_refuses("runs --csv --json", 2, "--csv and --json exclude each other");
    assert_status("runs runs/whole-9/", 0);
    assert_stdout("runs/whole-9  finished     2/2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_every_state_has_its_word, restore_tree),
        cmocka_unit_test_setup(test_numbers_are_those_of_the_result, restore_tree),
        cmocka_unit_test_setup(test_the_table_is_sorted, restore_tree),
        cmocka_unit_test_setup(test_csv_quotes_what_must_be, restore_tree),
        cmocka_unit_test_setup_teardown(test_a_run_in_training_is_left_alone, restore_tree, end_background),
        cmocka_unit_test_setup(test_a_directory_may_be_empty_but_not_absent, restore_tree),
    };
    return cmocka_run_group_tests(tests, set_up_runs, tear_down);
}
