/* qgrad results: the table of reproduced papers. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/program.h"
#include "tests/support/tree.h"

/* Two runs of one row, and one of another whose reported number is from memory; no table. */
static int set_up_runs(void **state)
{
    if (set_up_tree(state)) return -1;
    write_recipe("memory", "reproduces = \"B\"\nreported = \"98.7\"\nprovenance = \"memory\"\n");
    assert_status("train --recipe twn --seed 11 --json", 0);
    assert_status("train --recipe twn --seed 10 --json", 0);
    assert_status("train --recipe memory --epochs 1 --json", 0);
    keep_tree();
    return 0;
}

/* The same, and the table of the three. */
static int restore_table(void **state)
{
    if (restore_tree(state)) return -1;
    assert_status("results --add runs/twn/seed-11", 0);
    assert_status("results --add runs/twn/seed-10", 0);
    assert_status("results --add runs/memory/epochs=1-seed-3", 0);
    return 0;
}

static void test_the_table_is_what_the_logs_say(void **state)
{
    char line[128];
    assert_refuses("results --check", 1, "results/README.md");
    assert_status("results", 0);
    assert_holds("results/README.md", "No run has been added yet.");
    double mean = 0, squares = 0, p[2];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "runs/twn/seed-%d/result.json", 11 - i);
        cJSON *j = parse_file(line);
        p[i]     = 100 * number(j, "test_accuracy");
        cJSON_Delete(j);
        assert_runs("results --add runs/twn/seed-%d", 11 - i);
        mean += p[i] / 2;
    }
    for (int i = 0; i < 2; i++) squares += (p[i] - mean) * (p[i] - mean);
    snprintf(line, sizeof line, "| A paper | 99.35 (replication) | %.2f ± %.2f |", mean, sqrt(squares));
    assert_holds("results/README.md", line);
    assert_holds("results/README.md", "| 10, 11 | 2 |");
    assert_holds("results/README.md", "`build/qgrad train --recipe twn --seed 10` |");
    assert_holds("results/README.md", "- **twn**: the images are noise.");
    assert_status("results --check --json", 0);
    assert_true(last_number("rows") == 1 && last_number("runs") == 2);
    assert_int_equal(access("results/twn/seed-10/last.safetensors", F_OK), -1);
    assert_status("results --add runs/memory/epochs=1-seed-3", 0);
    assert_holds("results/README.md", "| B | reported 98.7 (memory) |");
    assert_holds("results/README.md", "`build/qgrad train --recipe memory --epochs 1 --seed 3` |");
    assert_holds("results/README.md", "- **memory**: None listed. Trained with `--epochs 1`.");
}

/* The command of the row says what chose the best. */
static void test_a_run_with_validation_has_a_row(void **state)
{
    char line[128];
    write_recipe("held", "");
    assert_status("train --recipe held --epochs 3 --validation 24 --out runs/held/seed-3 --json", 0);
    snprintf(line, sizeof line, " | none | %.2f | %.2f | ", 100 * last_number("test_accuracy"), 100 * last_number("best_test_accuracy"));
    assert_status("results --add runs/held/seed-3", 0);
    assert_holds("results/README.md", "`build/qgrad train --recipe held --validation 24 --epochs 3 --seed 3` |");
    assert_holds("results/README.md", line);
    edit("runs/held/seed-3/result.json", "\"best_validation_accuracy\":0.", "\"best_validation_accuracy\":0.0");
    run_shell("sed -i 's/,\"checksum\":.*/}/' @/runs/held/seed-3/result.json");
    assert_refuses("results --add runs/held/seed-3", 1, "result.json has best_validation_accuracy 0");
}

static void test_texts_of_a_recipe_stay_in_their_cell(void **state)
{
    write_recipe("bars", "reproduces = \"A | B\"\nreported = \"99.1\"\nprovenance = \"paper\"\n");
    assert_status("train --recipe bars --epochs 1 --json", 0);
    assert_status("results --add runs/bars/epochs=1-seed-3", 0);
    assert_holds("results/README.md", "](bars) | A \\| B | 99.1 (paper) |");
    assert_holds("results/README.md", "*paper*: read in the paper.");
    write_recipe("words", "reported = \"best\"\n");
    assert_refuses("train --recipe words", 2, "reported: 'best' is not a test accuracy in %, from 0 to 100");
}

/* Changes the label of the first test image. */
static void change_a_label(const char *set)
{
    char path[64];
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", set);
    FILE *labels = fopen(path, "r+b");
    assert_non_null(labels);
    assert_int_equal(fseek(labels, 8, SEEK_SET), 0);
    const int label = fgetc(labels);
    assert_int_equal(fseek(labels, 8, SEEK_SET), 0);
    fputc(label ? 0 : 1, labels);
    assert_int_equal(fclose(labels), 0);
}

/* The images are found by their bytes, not by where they lie. */
static void test_other_images_are_no_part_of_the_table(void **state)
{
    copy("set", "moved");
    assert_status("train --recipe twn --seed 14 --data-dir moved --json", 0);
    assert_status("results --add runs/twn/seed-14", 0);
    assert_status("train --recipe twn --seed 15 --data-dir moved --budget 0 --json", 3);
    change_a_label("moved");
    assert_refuses("train --resume --out runs/twn/seed-15 --data-dir moved", 2, "mnist: the images have digest ");
    assert_status("train --resume --out runs/twn/seed-15 --data-dir set --json", 0);
    assert_status("train --recipe twn --seed 16 --data-dir moved --json", 0);
    assert_refuses("results --add runs/twn/seed-16", 1, "twn, seed 16: its mnist has digest ");
    assert_status("results --check", 0);
}

/* A row that begins with another's weights does so for every seed, and no other row does. */
static void test_what_a_row_begins_with_is_checked(void **state)
{
    write_recipe("tuned", "init-recipe = \"memory\"\n");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/epochs=1-seed-3 --json", 0);
    assert_status("results --add runs/tuned/epochs=1-seed-3", 0);
    assert_holds("results/README.md", "--recipe tuned --epochs 1 --init runs/memory/seed-3 --seed 3` |");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/epochs=1-seed-3 --seed 4 --json", 0);
    assert_refuses("results --add runs/tuned/epochs=1-seed-4", 1, "but results has no run of it with this seed");
    assert_status("train --recipe tuned --epochs 1 --init runs/twn/seed-10 --out elsewhere --json", 0);
    assert_refuses("results --add elsewhere", 1, "tuned, seed 3: started from weights with digest ");
    assert_status("train --recipe twn --init runs/memory/epochs=1-seed-3 --out elsewhere --force --json", 0);
    assert_refuses("results --add elsewhere", 1, "started from weights (--init), but its recipe names no other run");
    assert_status("train --recipe twn --teacher runs/memory/epochs=1-seed-3 --out elsewhere --force --json", 0);
    assert_refuses("results --add elsewhere", 1, "learned from a teacher (--teacher), which no recipe can name");
    assert_status("train --recipe plain --epochs 1 --out elsewhere --force --json", 0);
    edit("elsewhere/config.toml", "recipe = \"plain\"", "recipe = \"tuned\"");
    assert_refuses("results --add elsewhere", 1, "tuned, seed 3: did not start from the weights of memory");
}

/* Under another arithmetic both have other bits, and each alone would contradict the other's logs. */
static void test_a_row_and_what_it_begins_with_can_be_replaced(void **state)
{
    write_recipe("tuned", "init-recipe = \"memory\"\n");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/epochs=1-seed-3 --json", 0);
    assert_status("results --add runs/tuned/epochs=1-seed-3", 0);
    assert_status("train --recipe memory --epochs 2 --out longer --json", 0);
    assert_refuses("results --add longer", 1,
                   "; to replace both runs, remove results/tuned/seed-3 if it is there, add the run of memory");
    assert_status("train --recipe tuned --epochs 1 --init longer --out newer --json", 0);
    run_shell("rm -r @/results/tuned/seed-3");
    assert_status("results --add longer", 0);
    assert_status("results --add newer", 0);
    assert_status("results --check", 0);
}

/* The run of a log may be gone, so other data, other options and fewer epochs do not replace it unasked. */
static void test_a_log_is_replaced_by_no_lesser_one(void **state)
{
    static const char *const rows[][2] = {
        { "--epochs 2", "memory, seed 3: the logs in results/memory/seed-3 have 3 epochs (commit " },
        { "--epochs 3 --lr 0.5", "memory, seed 3: the logs in results/memory/seed-3 have lr 0.01, but this run has 0.5" },
        { "--epochs 3 --data fashion-mnist --data-dir set", "results/memory/seed-3 have data mnist, but this run has fashion-mnist" },
        { "--epochs 3 --data-dir other", "results/memory/seed-3 are from images with digest " },
    };
    /* The recipe's directory is that of its own set. */
    assert_refuses("train --recipe memory --data fashion-mnist", 1, "cannot open 'datasets/fashion-mnist/");
    copy("set", "other");
    change_a_label("other");
    assert_status("train --recipe memory --epochs 3 --out long --json", 0);
    assert_status("results --add long", 0);                     /* more epochs than before */
    assert_status("results --add long", 0);
    copy("results", "before");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_runs("train --recipe memory %s --out lesser --force --json", rows[i][0]);
        assert_refuses("results --add lesser", 1, rows[i][1]);
        assert_stderr("; to replace them, pass --force\n");
        run_shell("diff -r @/results @/before");
    }
    run_shell("cp -r @/long @/relogged && sed -i 's/\"commit\":\"[^\"]*\"/\"commit\":\"0123456789ab\"/; s/,\"checksum\":.*/}/' @/relogged/result.json");
    assert_refuses("results --add relogged", 1, "), but this run has 3 (commit 0123456789ab); to replace them, pass --force\n");
    assert_status("results --add relogged --force", 0);
    assert_runs("train --recipe memory --epochs 2 --out lesser --force --json");
    assert_status("results --add lesser --force", 0);
    assert_holds("results/README.md", "`build/qgrad train --recipe memory --seed 3` |");
    assert_status("results --check", 0);
    assert_refuses("results --force", 2, "--force replaces logs; pass a run with --add");
}

/* Another optimizer or model has other defaults, which the command of the row must name. */
static void test_what_an_override_changes_may_be_asked_for(void **state)
{
    write_recipe("slow", "optimizer = \"sgd\"\nlr = 0.01\nmomentum = 0.5\n");
    assert_status("train --recipe slow --optimizer adam --lr 0.01 --epochs 1 --out runs/slow/seed-3 --json", 0);
    assert_status("results --add runs/slow/seed-3", 0);
    assert_holds("results/README.md", "--recipe slow --epochs 1 --optimizer adam --lr 0.01 ");
}

static void test_a_flag_cannot_be_turned_off_in_a_command(void **state)
{
    write_recipe("flag", "nesterov = true\n");
    assert_status("train --recipe flag --epochs 1 --json", 0);
    edit("runs/flag/epochs=1-seed-3/config.toml", "nesterov = true", "nesterov = false");
    assert_refuses("results --add runs/flag/epochs=1-seed-3", 1, "flag, seed 3: was trained without its recipe's nesterov");
}

/* A kill between the two renames of an add has left the old logs beside their place. */
static void test_old_logs_are_not_lost(void **state)
{
    assert_int_equal(rename("results/twn/seed-10", "results/twn/.seed-10.old"), 0);
    copy("runs/twn/seed-10", "broken");
    edit("broken/metrics.csv", "\n2,", "\n3,");
    assert_refuses("results --add broken", 1, "metrics.csv");
    assert_int_equal(access("results/twn/.seed-10.old/result.json", F_OK), 0);
    assert_status("results --add runs/twn/seed-10", 0);
    assert_int_equal(access("results/twn/.seed-10.old", F_OK), -1);
    assert_int_equal(access("results/twn/seed-10/result.json", F_OK), 0);
    assert_status("results --check", 0);
}

/* Files that a killed call left next to the place of a run are not read, and are removed. */
static void test_an_interrupted_add_is_no_obstacle(void **state)
{
    static const char *const rest[] = { "results/twn/.seed-10.new", "results/twn/.seed-10.old" };
    for (int i = 0; i < 2; i++) assert_int_equal(mkdir(rest[i], 0700), 0);
    copy("results/twn/seed-11/config.toml", "results/twn/.seed-10.new/config.toml");
    copy("results/twn/seed-11/config.toml", "results/twn/.seed-10.new/metrics.csv.1-0.tmp");
    copy("results/README.md", "results/README.md.1-0.tmp");
    copy("results/twn/net.qg", "results/twn/net.qg.1-0.tmp");
    assert_status("results --check", 0);
    assert_status("results --add runs/twn/seed-10", 0);
    for (int i = 0; i < 2; i++) assert_int_equal(access(rest[i], F_OK), -1);
    run_shell("! find @/results -name '*.tmp' | grep .");
    assert_status("results --check", 0);
}

/* A directory that is not empty is in the way of the old logs, which stay. */
static void test_an_add_that_cannot_rename_leaves_everything(void **state)
{
    assert_int_equal(mkdir("results/twn/.seed-10.old", 0700), 0);
    copy("results/twn/seed-11/config.toml", "results/twn/.seed-10.old/other");
    copy("results", "before");
    assert_refuses("results --add runs/twn/seed-10", 1, "cannot rename results/twn/seed-10 to results/twn/.seed-10.old: ");
    run_shell("diff -r @/results @/before");
}

static void test_a_page_beyond_its_limit_is_refused(void **state)
{
    assert_int_equal(truncate("results/README.md", (1 << 24) + 1), 0);
    assert_refuses("results --check", 1, "results/README.md' has 16777217 bytes, must be 16777216 at most");
    assert_refuses("results", 1, "must be 16777216 at most");
}

static void test_a_table_that_was_touched_is_noticed(void **state)
{
    copy("results", "kept");
    edit("results/README.md", "| 10, 11 | 2 |", "| 10, 11 | 3 |");
    assert_refuses("results --check", 1, "results/README.md:28: is '| [twn](twn) | A paper |");
    assert_status("results", 0);
    assert_status("results --check", 0);
    edit_result("results/twn/seed-10/result.json", "\"best_epoch\":", "\"best_epoch\":1");
    assert_refuses("results --check", 1, "results/twn/seed-10: result.json has best_epoch 1");
    copy("kept", "results");
    edit_result("results/twn/seed-10/result.json", "\"test_images\":", "\"test_images\":0,\"images\":");
    assert_refuses("results", 1, "on 0 images is impossible");
    copy("kept", "results");
    edit_result("results/twn/seed-10/result.json", "\"images_per_second\":", "\"images_per_second\":9");
    assert_refuses("results --check", 1, "results/twn/seed-10: result.json has images_per_second 9");
    copy("kept", "results");
    edit("results/twn/seed-11/metrics.csv", "\n2,", "\n3,");
    assert_refuses("results", 1, "results/twn/seed-11/metrics.csv: line 3 is not the row of epoch 2");
    copy("kept", "results");
    edit("results/twn/seed-11/metrics.csv", "\n2,", "\n2,7,");
    assert_refuses("results", 1, "results/twn/seed-11/metrics.csv: line 3 is not the row of epoch 2");
    copy("kept", "results");
    edit_result("results/twn/seed-11/result.json", "\"test_images\":60", "\"test_images\":61");
    assert_refuses("results --check", 1, "is not a whole number of 61 images");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "lr = 0.01", "lr = 0.02");
    assert_refuses("results --check", 1, "twn: the runs with seeds 10 and 11 differ in lr");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "data = ", "# data = ");
    assert_refuses("results --check", 1, "results/twn/seed-11/config.toml: the data set is missing");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "recipe = \"twn\"", "recipe = \"plain\"");
    assert_refuses("results --check", 1, "results/twn/seed-11: contains the run of results/plain/seed-11");
    copy("kept", "results");
    assert_status("results --check", 0);
}

static void test_what_is_no_row_is_not_added(void **state)
{
    assert_status("train --config examples/recipes/twn.toml --out filed --json", 0);
    assert_refuses("results --add filed", 2, "filed: was not trained with --recipe");
    assert_status("train --recipe twn --seed 8 --budget 0 --json", 3);
    assert_refuses("results --add runs/twn/seed-8", 1, "seed-8: is not finished: 0 of 2 epochs are done");
    assert_refuses("results --add absent", 1, "there is no run 'absent': no such directory");
    assert_refuses("results --add runs/twn", 1, "'runs/twn' contains no run: no config.toml and no checkpoint; below it is the run ");
    assert_status("train --recipe twn --seed 12 --epochs 1 --json", 0);
    assert_refuses("results --add runs/twn/epochs=1-seed-12", 1, "twn: the runs with seeds 10 and 12 differ in epochs");
    assert_int_equal(access("results/twn/seed-12", F_OK), -1);
    assert_refuses("results --add runs/twn/seed-10 --check", 2, "exclude each other");
    assert_status("results --check", 0);
    edit("examples/recipes/twn.toml", "epochs = 2", "epochs = 2\nfold-batchnorm = true");
    assert_refuses("results --check", 1, "twn, seed 10: the current recipe cannot produce this run's fold-batchnorm");
    write_recipe("twn", "");
    assert_refuses("results --check", 1, "is '| [twn](twn) | A paper");
}

/* Logs that a symbolic link points to are not removed. */
static void test_a_link_is_replaced_and_its_logs_stay(void **state)
{
    write_recipe("linked", "");
    assert_status("train --recipe linked --seed 1 --json", 0);
    assert_int_equal(mkdir("results/linked", 0700), 0);
    assert_int_equal(symlink("../../runs/linked/seed-1", "results/linked/seed-1"), 0);
    assert_status("results --add runs/linked/seed-1", 0);
    assert_int_equal(access("runs/linked/seed-1/result.json", F_OK), 0);
    assert_int_equal(access("results/linked/seed-1/result.json", F_OK), 0);
    char target[64];
    assert_int_equal(readlink("results/linked/seed-1", target, sizeof target), -1);
}

static void test_a_page_of_others_is_not_written_over(void **state)
{
    copy("results/README.md", "page");
    write_bytes("results/README.md", "# my notes\n", 11);
    assert_refuses("results", 1, "results/README.md was not written by qgrad results");
    assert_holds("results/README.md", "# my notes");
    copy("page", "results/README.md");
    assert_status("results", 0);
}

static void test_there_is_no_table_where_there_are_no_recipes(void **state)
{
    assert_int_equal(chdir("set"), 0);
    assert_refuses("results", 1, "examples/recipes does not exist here");
    assert_refuses("results --check --json", 1, "examples/recipes does not exist here");
    assert_int_equal(access("results", F_OK), -1);
    assert_int_equal(chdir(root), 0);
}

/* --- the net of a row ----------------------------------------------------------------------- */

static void test_the_first_run_of_a_row_gives_its_net(void **state)
{
    char line[128];
    assert_status("export runs/twn/seed-10 -o exported.qg --json", 0);
    assert_same_file("exported.qg", "results/twn/net.qg");
    snprintf(line, sizeof line, "/packed-files.md) of %.0f bytes.\n", last_number("file_bytes"));
    assert_holds("results/twn/README.md", line);
    snprintf(line, sizeof line, "- Weights: digest %s, arithmetic 2, commit ", last_text("digest"));
    assert_holds("results/twn/README.md", line);
    assert_holds("results/twn/README.md", "A paper.  Reported test accuracy: 99.35 % (replication).");
    assert_holds("results/twn/README.md", "\nDeviations: the images are noise.\n");
    assert_holds("results/twn/README.md", "MNIST is by Y. LeCun");
    assert_status("infer results/twn/net.qg --data-dir set --json", 0);
    snprintf(line, sizeof line, "epoch: %.2f ± %.2f %% (", 100 * last_number("test_accuracy"),
             100 * last_number("test_accuracy_stderr"));
    assert_holds("results/twn/README.md", line);
    assert_status("results --add runs/twn/seed-11", 0);
    assert_same_file("exported.qg", "results/twn/net.qg");
    /* The first one under this arithmetic. */
    edit_result("results/twn/seed-10/result.json", "\"arithmetic\":2,", "");
    assert_status("results --add runs/twn/seed-11", 0);
    assert_status("export runs/twn/seed-11 -o exported.qg --json", 0);
    assert_same_file("exported.qg", "results/twn/net.qg");
    assert_holds("results/twn/README.md", "the run with seed 11.");
    assert_status("results --check", 0);
}

static void test_a_net_that_was_touched_is_noticed(void **state)
{
    copy("results", "fresh");
    edit("results/twn/README.md", "10 classes", "11 classes");
    assert_refuses("results --check", 1, "results/twn/README.md:13: is '- Output: scores of 11 classes.'");
    assert_status("results", 0);
    run_shell("diff -r @/results @/fresh");
    run_shell("printf x | dd of=@/results/twn/net.qg bs=1 seek=300 conv=notrunc 2>@/err");
    assert_refuses("results --check", 1, "results/twn/net.qg: ");
    assert_int_equal(unlink("results/twn/net.qg"), 0);
    assert_refuses("results --check", 1, "results/README.md:28: is '| [twn](twn) | A paper |");
    assert_status("results --add runs/twn/seed-10", 0);
    run_shell("diff -r @/results @/fresh");
    copy("results/memory/net.qg", "results/twn/net.qg");
    assert_refuses("results", 1, "twn/net.qg: is of no run of the row; add its run, or remove it");
    assert_status("results --add runs/twn/seed-10", 0);
    run_shell("diff -r @/results @/fresh");
    assert_int_equal(truncate("results/twn/net.qg", 550001), 0);
    assert_refuses("results --check", 1, "results/twn/net.qg' has 550001 bytes, must be 550000 at most");
    run_shell("cd @ && rm -r results/twn && cp -r fresh/twn results && rm -r results/twn/seed-*");
    assert_refuses("results --check", 1, "results/twn/net.qg: belongs to no run");
}

/* Logs without weights keep a net that has their digest, and remove another one. */
static void test_a_run_without_weights_has_no_net(void **state)
{
    run_shell("cp -r @/runs/twn/seed-10 @/logs && rm @/logs/*.safetensors && cp -r @/results @/fresh");
    assert_status("results --add logs", 0);
    run_shell("diff -r @/results @/fresh");
    assert_status("train --recipe memory --epochs 2 --out longer --json", 0);
    run_shell("rm @/longer/*.safetensors");
    assert_status("results --add longer", 0);
    assert_int_equal(access("results/memory/net.qg", F_OK), -1);
    assert_int_equal(access("results/memory/README.md", F_OK), -1);
    assert_holds("results/README.md", " | 2 | | `build/qgrad train --recipe memory --seed 3` |");
    assert_status("results --check", 0);
}

static void test_some_runs_give_no_net(void **state)
{
    static const char *const with[] = { "--model 700FC-10 --weight float", "--ema 0.9",
                                        "--normalise whiten" };
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        write_recipe("other", "");
        assert_runs("train --recipe other --epochs 1 %s --out other --force --json", with[i]);
        assert_status("results --add other --force", 0);
        if (i == 2) assert_stderr("warning: other gets no net.qg: other: an exported net cannot express how");
        assert_int_equal(access("results/other/net.qg", F_OK), -1);
        assert_status("results --check", 0);
    }
    assert_status("export runs/twn/seed-10 -o exported.qg --json", 0);
    copy("runs/twn/seed-10", "mixed");
    run_shell("sed -i '3s/,[0-9a-f]\\{16\\},/,0123456789abcdef,/' @/mixed/metrics.csv");
    edit_result("mixed/result.json", last_text("digest"), "0123456789abcdef");
    assert_refuses("results --add mixed", 1, "mixed/last.safetensors: has digest ");
    assert_stderr(", but result.json has 0123456789abcdef\n");
}

/* --- repeating a row ------------------------------------------------------------------------ */

static void test_a_row_is_repeated_and_compared(void **state)
{
    assert_refuses("results --repeat twn --epochs 0", 2, "--epochs is 0, must be at least 1");
    assert_status("results --repeat twn --epochs 1", 0);
    assert_string_equal(last.out, "twn, seed 10: epoch 1 equal\n");
    run_shell("[ $(wc -l <@/runs/repeat/twn/seed-10/metrics.csv) = 2 ]");         /* it went no further */
    assert_status("results --repeat twn", 0);
    assert_string_equal(last.out, "twn, seed 10: epochs 1 to 2 equal\n");
    assert_stderr("twn, seed 10: epoch 2 of 2 as in the log, digest ");
    assert_null(strstr(last.err, "epoch 1 of 2"));                              /* it is there already */
    assert_same_run("runs/twn/seed-10", "runs/repeat/twn/seed-10");
    assert_status("results --repeat twn --seed 11 --threads 2 --out again --json", 0);
    assert_true(last_number("equal") == 2 && last_number("differs") == 0 && last_number("seed") == 11);
    assert_string_equal(last_text("run"), "again/twn/seed-11");
    assert_string_equal(last_text("compared"), "digests");
    assert_status("results --check", 0);                                        /* nothing there has changed */
    edit_result("again/twn/seed-11/result.json", "\"commit\":\"", "\"commit\":\"0123456789ab\",\"was\":\"");
    assert_refuses("results --repeat twn --seed 11 --out again", 1, "again/twn/seed-11: was trained by commit 0123456789ab, and this program is of ");
}

static void test_the_first_epoch_that_differs_is_named(void **state)
{
    char digest[32] = "", line[128];
    run_shell("sed -i '2s/,[0-9a-f]\\{16\\},/,0123456789abcdef,/' @/results/twn/seed-10/metrics.csv");
    assert_status("results --repeat twn", 1);
    run_shell("cut -d, -f9 @/runs/twn/seed-10/metrics.csv | sed -n 2p | tr -d '\\n' >@/digest");
    slurp("digest", digest, sizeof digest);
    snprintf(line, sizeof line, "twn, seed 10: epoch 1 differs: digest %s, but the log has 0123456789abcdef\n", digest);
    assert_string_equal(last.out, line);
    run_shell("[ $(wc -l <@/runs/repeat/twn/seed-10/metrics.csv) = 2 ]");
    assert_status("results --repeat twn --json", 1);
    assert_true(last_number("equal") == 0 && last_number("differs") == 1);
    snprintf(line, sizeof line, "digest %s, but the log has 0123456789abcdef", digest);
    assert_string_equal(last_text("what"), line);
    run_shell("sed -i '3s/,[0-9a-f]\\{16\\},/,0123456789abcdef,/' @/results/twn/seed-11/metrics.csv");
    assert_refuses("results --check", 1, "but the last row of metrics.csv has 0123456789abcdef");
}

/* Such logs have the numbers of each epoch, and the digest of the last. */
static void test_logs_without_digests_are_compared_by_their_numbers(void **state)
{
    run_shell("cd @/results/twn/seed-10 && sed -i 's/,digest,/,/; s/,[0-9a-f]\\{16\\},/,/' metrics.csv && ! grep -q digest metrics.csv && "
              "cp -r . ../../../kept");
    assert_status("results --repeat twn", 0);
    assert_string_equal(last.out, "twn, seed 10: epochs 1 to 2 equal (by losses and accuracies; the log is of a version that noted no digests)\n");
    assert_status("results --repeat twn --json", 0);
    assert_string_equal(last_text("compared"), "losses and accuracies");
    run_shell("cd @/results/twn/seed-10 && sed -i '2s/^1,0.01,[0-9.]*/1,0.01,2.5/' metrics.csv");
    assert_status("results --repeat twn", 1);
    assert_stdout("twn, seed 10: epoch 1 differs: train_loss ");
    assert_stdout(", but the log has 2.5 (by losses");
    copy("kept", "results/twn/seed-10");
    edit_result("results/twn/seed-10/result.json", "\"digest\":\"", "\"digest\":\"0123456789abcdef\",\"was\":\"");
    assert_status("results --repeat twn", 1);
    assert_stdout("epoch 2 differs: digest ");
    assert_stdout(", but the log has 0123456789abcdef");
}

static void test_the_table_says_which_arithmetic_a_row_has(void **state)
{
    assert_holds("results/README.md", " | 2 | [2604](twn/net.qg) | `build/qgrad train --recipe twn ");
    edit_result("results/twn/seed-11/result.json", "\"arithmetic\":2,", "");
    assert_status("results", 0);
    assert_holds("results/README.md", " | 2, 1 | [2604](twn/net.qg) | `build/qgrad train --recipe ");
    assert_status("results --repeat twn --seed 11", 0);
    assert_stderr("qgrad: warning: the log of twn, seed 11, is of version 1 of the arithmetic, and "
                  "this program trains it under version 2, so an epoch is expected to differ\n");
    /* A run under a newer arithmetic replaces an older one. */
    edit_result("results/twn/seed-11/result.json", "\"commit\":\"", "\"commit\":\"0123456789ab\",\"was\":\"");
    assert_status("results --add runs/twn/seed-11", 0);
    assert_holds("results/README.md", " | 2 | [2604](twn/net.qg) | `build/qgrad train --recipe twn ");
}

/* As examples/reproduce.sh would train it. */
static void test_a_row_is_repeated_with_what_it_begins_with(void **state)
{
    write_recipe("tuned", "init-recipe = \"memory\"\n");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/epochs=1-seed-3 --out runs/tuned/seed-3 --json", 0);
    assert_status("results --add runs/tuned/seed-3", 0);
    assert_status("results --repeat tuned", 0);
    assert_string_equal(last.out, "tuned, seed 3: epoch 1 equal\n");
    assert_same_run("runs/memory/epochs=1-seed-3", "runs/repeat/memory/seed-3");
    assert_same_run("runs/tuned/seed-3", "runs/repeat/tuned/seed-3");
    assert_status("results --repeat tuned --init runs/memory/epochs=1-seed-3 --out alone", 0);
    assert_int_equal(access("alone/memory", F_OK), -1);
    assert_refuses("results --repeat tuned --init runs/twn/seed-10 --out other", 2, "tuned, seed 3: has init-digest ");
    run_shell("sed -i '2s/,[0-9a-f]\\{16\\},/,0123456789abcdef,/' @/results/memory/seed-3/metrics.csv");
    edit_result("results/memory/seed-3/result.json", "\"digest\":\"", "\"digest\":\"0123456789abcdef\",\"was\":\"");
    assert_status("results --repeat tuned --out first", 1);
    assert_stdout("memory, seed 3: epoch 1 differs: digest ");
    assert_int_equal(access("first/tuned", F_OK), -1);
}

static void test_what_cannot_be_repeated_is_named(void **state)
{
    assert_refuses("results --repeat none", 2, "results has no run of none; it has those of ");
    assert_refuses("results --repeat twn --seed 12", 2, "results has no run of twn with seed 12; it has ");
    assert_refuses("results --repeat twn --epochs 3", 2, "--epochs 3: the log of twn has 2");
    assert_refuses("results --repeat twn --check", 2, "--repeat excludes --check and --add");
    assert_refuses("results --repeat twn --init runs/twn/seed-10", 2, "--init: twn does not start from the weights of another run");
    assert_refuses("results --seed 3", 2, "are of --repeat ROW");
    copy("set", "moved");
    change_a_label("moved");
    assert_refuses("results --repeat twn --data-dir moved", 2, "twn, seed 10: has data-digest ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_table_is_what_the_logs_say, restore_tree),
        cmocka_unit_test_setup(test_a_run_with_validation_has_a_row, restore_table),
        cmocka_unit_test_setup(test_texts_of_a_recipe_stay_in_their_cell, restore_table),
        cmocka_unit_test_setup(test_other_images_are_no_part_of_the_table, restore_table),
        cmocka_unit_test_setup(test_what_a_row_begins_with_is_checked, restore_table),
        cmocka_unit_test_setup(test_a_row_and_what_it_begins_with_can_be_replaced, restore_table),
        cmocka_unit_test_setup(test_a_log_is_replaced_by_no_lesser_one, restore_table),
        cmocka_unit_test_setup(test_what_an_override_changes_may_be_asked_for, restore_table),
        cmocka_unit_test_setup(test_a_flag_cannot_be_turned_off_in_a_command, restore_table),
        cmocka_unit_test_setup(test_old_logs_are_not_lost, restore_table),
        cmocka_unit_test_setup(test_an_interrupted_add_is_no_obstacle, restore_table),
        cmocka_unit_test_setup(test_an_add_that_cannot_rename_leaves_everything, restore_table),
        cmocka_unit_test_setup(test_a_page_beyond_its_limit_is_refused, restore_table),
        cmocka_unit_test_setup(test_a_table_that_was_touched_is_noticed, restore_table),
        cmocka_unit_test_setup(test_what_is_no_row_is_not_added, restore_table),
        cmocka_unit_test_setup(test_a_link_is_replaced_and_its_logs_stay, restore_table),
        cmocka_unit_test_setup(test_a_page_of_others_is_not_written_over, restore_table),
        cmocka_unit_test_setup(test_there_is_no_table_where_there_are_no_recipes, restore_tree),
        cmocka_unit_test_setup(test_the_first_run_of_a_row_gives_its_net, restore_table),
        cmocka_unit_test_setup(test_a_net_that_was_touched_is_noticed, restore_table),
        cmocka_unit_test_setup(test_a_run_without_weights_has_no_net, restore_table),
        cmocka_unit_test_setup(test_some_runs_give_no_net, restore_table),
        cmocka_unit_test_setup(test_a_row_is_repeated_and_compared, restore_table),
        cmocka_unit_test_setup(test_the_first_epoch_that_differs_is_named, restore_table),
        cmocka_unit_test_setup(test_logs_without_digests_are_compared_by_their_numbers, restore_table),
        cmocka_unit_test_setup(test_the_table_says_which_arithmetic_a_row_has, restore_table),
        cmocka_unit_test_setup(test_a_row_is_repeated_with_what_it_begins_with, restore_table),
        cmocka_unit_test_setup(test_what_cannot_be_repeated_is_named, restore_table),
    };
    return cmocka_run_group_tests(tests, set_up_runs, tear_down);
}
