/* What the table of reproduced papers stands on: train --recipe and --init, result.json, results.
 * Recipes, runs and results are where the program is called, so this test goes to a directory of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/state.h"
#include "tests/support/program.h"

/* "twn" is the recipe of most tests; "plain" is the same without a word about what it reproduces. */
static void write_recipe(const char *name, const char *more)
{
    char path[300], body[1500];
    snprintf(path, sizeof path, "%s/examples/recipes/%s.toml", root, name);
    const int n = snprintf(body, sizeof body,
                           "model = \"lenet5\"\ndata = \"mnist\"\ndata-dir = \"%s/set\"\nweight = \"twn\"\n"
                           "batch = 24\nepochs = 2\nseed = 3\nthreads = 1\n%s", root, more);
    write_bytes(path, body, (size_t)n);
}

static int set_up_here(void **state)
{
    static char absolute[4096];
    char        here[2048];
    if (set_up(state) || !getcwd(here, sizeof here) || chdir(root)) return -1;
    snprintf(absolute, sizeof absolute, "%s%s%s", *program == '/' ? "" : here, *program == '/' ? "" : "/", program);
    program = absolute;
    if (mkdir("examples", 0700) || mkdir("examples/recipes", 0700)) return -1;
    write_recipe("plain", "");
    write_recipe("twn", "reproduces = \"A paper\"\nreported = \"99.35\"\nprovenance = \"replication\"\n"
                        "deviations = \"the images are noise\"\n");
    return 0;
}

/* The first `from` in a file becomes `to`; there must be one. */
static void edit(const char *path, const char *from, const char *to)
{
    static char all[TEXT_BYTES], out[TEXT_BYTES];
    slurp(path, all, sizeof all);
    char *at_text = strstr(all, from);
    if (!at_text) fail_msg("%s: no '%s' in '%s'", path, from, all);
    *at_text    = '\0';
    const int n = snprintf(out, sizeof out, "%s%s%s", all, to, at_text + strlen(from));
    write_bytes(path, out, (size_t)n);
}

static void assert_holds(const char *path, const char *part)
{
    static char all[TEXT_BYTES];
    slurp(path, all, sizeof all);
    if (!strstr(all, part)) fail_msg("%s: no '%s' in '%s'", path, part, all);
}

static cJSON *parse_file(const char *path)
{
    slurp(path, last.out, sizeof last.out);
    return parse();
}

static void copy(const char *from, const char *to)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", to, from, to);
    assert_int_equal(system(command), 0);
}

/* --- recipes ------------------------------------------------------------------------------ */

static void test_a_recipe_is_a_configuration_by_name(void **state)
{
    (void)state;
    assert_status("train --recipe twn --json", 0);
    assert_status("train --config examples/recipes/twn.toml --out filed --json", 0);
    assert_status("train --recipe plain --json", 0);
    assert_same_run("runs/twn/seed-3", "filed");
    assert_same_run("runs/twn/seed-3", "runs/plain/seed-3");    /* words about it decide no byte */
    assert_holds("runs/twn/seed-3/config.toml", "recipe = \"twn\"\n");
    assert_holds("runs/twn/seed-3/config.toml", "reported = \"99.35\"\n");
    assert_status("train --recipe twn --seed 8 --budget 0 --json", 0);
    assert_int_equal(access("runs/twn/seed-8/config.toml", F_OK), 0);
    assert_status("summary --recipe twn --json", 0);
    write_recipe("colour", "");
    edit("examples/recipes/colour.toml", "data = \"mnist\"", "data = \"cifar10\"");
    assert_status("summary --recipe colour --json", 0);
    assert_non_null(strstr(last.out, "\"output\":[28,28,32]"));          /* 5x5 of 32x32 */
    assert_int_equal(remove("examples/recipes/colour.toml"), 0);
}

static void test_a_recipe_with_another_optimizer_goes_on(void **state)
{
    (void)state;
    write_recipe("steep", "optimizer = \"sgd\"\nlr = 0.02\nmomentum = 0.5\n");
    assert_status("train --recipe steep --optimizer adam --out other --budget 0 --json", 0);
    assert_status("train --recipe steep --optimizer adam --out other --budget 0 --resume --json", 0);
    assert_refuses("train --recipe steep --out other --resume", 1, "optimizer is adam in the run, but sgd is asked for");
    assert_int_equal(remove("examples/recipes/steep.toml"), 0);
}

static void test_recipes_that_are_not_there(void **state)
{
    (void)state;
    assert_refuses("train --recipe tnw", 2, "there is no examples/recipes/tnw.toml; there is plain, twn");
    assert_refuses("train --recipe ../twn", 2, "'../twn' is no name of a recipe");
    assert_refuses("train --recipe twn --config examples/recipes/twn.toml", 2, "give one of them");
    assert_refuses("train --reported 99", 2, "no option '--reported'");
    write_recipe("vague", "provenance = \"hearsay\"\n");
    assert_refuses("train --recipe vague", 1, "vague.toml:9: provenance 'hearsay' is none of code|replication|memory");
    assert_int_equal(remove("examples/recipes/vague.toml"), 0);
}

/* --- result.json -------------------------------------------------------------------------- */

static void test_result_json_is_what_train_prints(void **state)
{
    (void)state;
    static const char *const numbers[] = { "test_accuracy", "best_test_accuracy", "best_epoch", "test_images",
                                           "test_accuracy_stderr", "epochs", "seed", "threads" };
    static const char *const texts[] = { "digest", "commit", "cpu_path", "blas_core", "weight" };
    assert_status("train --recipe twn --out told --json", 0);
    cJSON *told = parse(), *kept = parse_file("told/result.json");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_true(number(told, numbers[i]) == number(kept, numbers[i]));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(text(told, texts[i]), text(kept, texts[i]));
    assert_true(truth(kept, "complete"));
    assert_true(number(kept, "test_images") == N_TEST);
    assert_true(strlen(text(kept, "commit")) >= strlen("unknown"));
    assert_null(cJSON_GetObjectItemCaseSensitive(kept, "run"));     /* the file may go elsewhere */
    cJSON_Delete(told);
    cJSON_Delete(kept);
}

/* The time of an epoch that was interrupted, and who worked on it, come from result.json. */
static void test_sittings_add_up(void **state)
{
    (void)state;
    assert_status("train --recipe twn --out sat --budget 0 --json", 0);
    cJSON *j = parse();
    char   both[400];
    snprintf(both, sizeof both, "another, %s", text(j, "commit"));
    edit("sat/result.json", text(j, "commit"), "another");
    cJSON_Delete(j);
    edit("sat/result.json", "\"epoch_seconds\":0,", "\"epoch_seconds\":1000,");
    assert_status("train --resume --out sat --json", 0);
    j = parse();
    assert_true(number(j, "seconds") > 1000 && number(j, "seconds") < 1100);
    assert_string_equal(text(j, "commit"), both);
    cJSON_Delete(j);
    assert_same_run("sat", "told");

    /* Nobody worked on it since. */
    edit("sat/result.json", both, "another");
    assert_status("train --resume --out sat --json", 0);
    j = parse();
    assert_string_equal(text(j, "commit"), "another");
    assert_true(number(j, "seconds") > 1000);
    cJSON_Delete(j);
    edit("sat/result.json", "\"seed\":3", "\"sad\":3");
    assert_refuses("train --resume --out sat", 1, "result.json: says no seed");
}

/* --- init --------------------------------------------------------------------------------- */

static void digest_of(char digest[32])
{
    cJSON *j = parse();
    snprintf(digest, 32, "%s", text(j, "digest"));
    cJSON_Delete(j);
}

static void test_init_takes_all_weights_of_a_run(void **state)
{
    (void)state;
    char source[32], taken[32], line[64];
    assert_status("train --recipe plain --weight float --out float --json", 0);
    digest_of(source);
    assert_status("train --recipe plain --weight float --seed 9 --init float --budget 0 --out again --json", 0);
    digest_of(taken);
    assert_string_equal(taken, source);
    snprintf(line, sizeof line, "init-digest = \"%s\"\n", source);
    assert_holds("again/config.toml", line);

    assert_status("train --recipe plain --weight ttq --init float --out ttq", 0);
    snprintf(line, sizeof line, "begins with 17 arrays of digest %s", source);
    assert_non_null(strstr(last.out, line));
    assert_non_null(strstr(last.out, "started as always: conv1.weight.wp, conv1.weight.wn, conv2.weight.wp"));
    assert_status("train --recipe plain --weight ttq --init float/last.safetensors --out ttq-file --json", 0);
    assert_same_run("ttq", "ttq-file");
    assert_status("train --recipe plain --weight float --init ttq --budget 0 --out back", 0);
    assert_non_null(strstr(last.out, "of no use here: conv1.weight.wn, conv1.weight.wp"));
}

/* A run that goes on needs the weights only until it has a checkpoint, and takes no others. */
static void test_init_belongs_to_the_run(void **state)
{
    (void)state;
    assert_refuses("train --config ttq/config.toml --out ttq-2", 1, "say --init and where they are");
    assert_refuses("train --resume --out ttq --init ttq", 1, "and the run began with");
    assert_refuses("train --resume --out float --init float", 1, "the run began without one, and goes on without");
    assert_status("train --recipe plain --weight ttq --init float --out cut --budget 0 --json", 0);
    assert_status("train --resume --out cut --json", 0);
    assert_same_run("ttq", "cut");
    assert_int_equal(mkdir("begun", 0700), 0);                  /* as if killed before the first checkpoint */
    copy("ttq/config.toml", "begun/config.toml");
    assert_refuses("train --resume --out begun", 1, "say --init and where they are");
    assert_status("train --resume --out begun --init float --json", 0);
    assert_same_run("ttq", "begun");
    write_recipe("tuned", "init-recipe = \"plain\"\n");
    assert_refuses("train --recipe tuned", 1, "say --init runs/plain/seed-3");
    assert_int_equal(remove("examples/recipes/tuned.toml"), 0);
}

static qg_archive *weights_of(const char *path, const char *name, const qg_archive_entry **e)
{
    qg_archive *a = qg_archive_open(path);
    *e            = qg_archive_find(a, name);
    assert_non_null(*e);
    return a;
}

/* bnn:start=unit stretches initial weights, not those that were taken. */
static void test_weights_that_were_taken_are_not_stretched(void **state)
{
    (void)state;
    const qg_archive_entry *x, *y;
    assert_status("train --recipe plain --weight bnn:start=unit --init float --out stretched --budget 0 --json", 0);
    qg_archive *a = weights_of("float/last.safetensors", "conv2.weight", &x);
    qg_archive *b = weights_of("stretched/last.safetensors", "conv2.weight", &y);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->array.data, y->array.data, x->bytes);
    qg_archive_free(a), qg_archive_free(b);
}

/* xnor:latent=centred keeps them without mean over the input channels, from the first step on. */
static void test_weights_that_were_taken_are_centred(void **state)
{
    (void)state;
    const qg_archive_entry *e;
    assert_status("train --recipe plain --weight xnor:latent=centred --first-last float --init float --out centred "
                  "--budget 0 --json", 0);
    qg_archive  *a = weights_of("centred/last.safetensors", "conv2.weight", &e);
    const size_t c = e->array.dims[3];
    for (size_t i = 0, n = qg_array_count(&e->array); i < n; i += c) {
        double sum = 0;
        for (size_t k = 0; k < c; k++) sum += (double)((const float *)e->array.data)[i + k];
        assert_true(fabs(sum) < 1e-6);          /* 32 weights below 1, each rounded to 6e-8 at most */
    }
    qg_archive_free(a);
}

static void test_init_lists_every_mismatch(void **state)
{
    (void)state;
    assert_refuses("train --model resnet20 --data synthetic --init float --out none", 1,
                   "conv1.weight is F32 [32,5,5,1] there and F32 [16,3,3,1] here, bn1.gamma is F32 [32] there");
    assert_non_null(strstr(last.err, "conv3.weight [16,3,3,16] is missing"));
    assert_refuses("train --recipe plain --weight bop --optimizer bop --init float --out none", 1,
                   "conv1.weight has no latent weights");
    assert_refuses("train --recipe plain --init absent --out none", 1, "absent");
    assert_refuses("train --recipe plain --init twn.toml --out none", 1, "twn.toml");
    assert_int_equal(access("none", F_OK), -1);
}

/* s = 2 mean|w| / sqrt(Qp), Qp = 1, of the weights that were taken (LSQ, section 2.1). */
static void test_what_starts_from_weights_starts_from_these(void **state)
{
    (void)state;
    assert_status("train --recipe plain --weight lsq:bits=2 --init float --out lsq --budget 0 --json", 0);
    qg_archive             *source = qg_archive_open("float/last.safetensors"), *a = qg_archive_open("lsq/last.safetensors");
    const qg_archive_entry *w      = qg_archive_find(source, "conv2.weight");
    const qg_archive_entry *step   = qg_archive_find(a, "conv2.weight.step");
    assert_true(w && step);
    const size_t n   = qg_array_count(&w->array);
    double       sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs((double)((const float *)w->array.data)[i]);
    const double got = (double)*(const float *)step->array.data, want = 2 * sum / (double)n;
    assert_true(fabs(got - want) < 1e-6 * want);                /* one rounding to float, and the sum's */
    assert_memory_equal(w->array.data, qg_archive_find(a, "conv2.weight")->array.data, n * sizeof(float));
    qg_archive_free(a);

    /* A range too, which averages what it sees later. */
    assert_status("train --recipe plain --weight fake_quant:range=learned --init float --out ranged --budget 0 --json", 0);
    a = qg_archive_open("ranged/last.safetensors");
    float least = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        least = fminf(least, ((const float *)w->array.data)[i]);
        most  = fmaxf(most, ((const float *)w->array.data)[i]);
    }
    assert_true(*(const float *)qg_archive_find(a, "conv2.weight.min")->array.data == least);
    assert_true(*(const float *)qg_archive_find(a, "conv2.weight.max")->array.data == most);
    qg_archive_free(source);
    qg_archive_free(a);
}

/* --- the table ---------------------------------------------------------------------------- */

static void test_the_table_is_what_the_logs_say(void **state)
{
    (void)state;
    char accuracies[64];
    assert_refuses("results --check", 1, "results/README.md");
    assert_status("results", 0);
    assert_holds("results/README.md", "No run has been added yet.");
    double mean = 0, squares = 0, p[2];
    for (int i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "train --recipe twn --seed %d --json", 11 - i);
        assert_status(line, 0);
        cJSON *j = parse();
        p[i]     = 100 * number(j, "test_accuracy");
        cJSON_Delete(j);
        snprintf(line, sizeof line, "results --add runs/twn/seed-%d", 11 - i);
        assert_status(line, 0);
        mean += p[i] / 2;
    }
    for (int i = 0; i < 2; i++) squares += (p[i] - mean) * (p[i] - mean);
    snprintf(accuracies, sizeof accuracies, "| A paper | 99.35 (replication) | %.2f ± %.2f |", mean, sqrt(squares));
    assert_holds("results/README.md", accuracies);
    assert_holds("results/README.md", "| 10, 11 | 2 |");
    assert_holds("results/README.md", "`build/qgrad train --recipe twn --seed 10` |");
    assert_holds("results/README.md", "- **twn**: the images are noise.");
    assert_status("results --check --json", 0);
    cJSON *j = parse();
    assert_true(number(j, "rows") == 1 && number(j, "runs") == 2);
    cJSON_Delete(j);
    assert_int_equal(access("results/twn/seed-10/last.safetensors", F_OK), -1);
    write_recipe("memory", "reproduces = \"B\"\nreported = \"98.7\"\nprovenance = \"memory\"\n");
    assert_status("train --recipe memory --epochs 1 --json", 0);
    assert_status("results --add runs/memory/seed-3", 0);
    assert_holds("results/README.md", "| B | reported 98.7 (memory) |");
    assert_holds("results/README.md", "`build/qgrad train --recipe memory --epochs 1 --seed 3` |");
    assert_holds("results/README.md", "- **memory**: none that is known; trained with `--epochs 1`.");
}

static void test_texts_of_a_recipe_stay_in_their_cell(void **state)
{
    (void)state;
    write_recipe("bars", "reproduces = \"A | B\"\nreported = \"99|1\"\nprovenance = \"code\"\n");
    assert_status("train --recipe bars --epochs 1 --json", 0);
    assert_status("results --add runs/bars/seed-3", 0);
    assert_holds("results/README.md", "](bars) | A \\| B | 99\\|1 (code) |");
    assert_int_equal(system("rm -r results/bars"), 0);
    assert_int_equal(remove("examples/recipes/bars.toml"), 0);
    assert_status("results", 0);
}

/* The images are found by their bytes, not by where they lie. */
static void test_other_images_are_no_part_of_the_table(void **state)
{
    (void)state;
    copy("set", "moved");
    assert_status("train --recipe twn --seed 14 --data-dir moved --json", 0);
    assert_status("results --add runs/twn/seed-14", 0);
    assert_status("train --recipe twn --seed 15 --data-dir moved --budget 0 --json", 0);
    FILE *labels = fopen("moved/t10k-labels-idx1-ubyte", "r+b");
    assert_non_null(labels);
    assert_int_equal(fseek(labels, 8, SEEK_SET), 0);
    const int label = fgetc(labels);
    assert_int_equal(fseek(labels, 8, SEEK_SET), 0);
    fputc(label ? 0 : 1, labels);
    assert_int_equal(fclose(labels), 0);
    assert_refuses("train --resume --out runs/twn/seed-15 --data-dir moved", 1, "mnist: the images have digest ");
    assert_status("train --resume --out runs/twn/seed-15 --data-dir set --json", 0);
    assert_status("train --recipe twn --seed 16 --data-dir moved --json", 0);
    assert_refuses("results --add runs/twn/seed-16", 1, "twn, seed 16: its mnist has digest ");
    assert_status("results --check", 0);
    assert_int_equal(system("rm -r results/twn/seed-14"), 0);
    assert_status("results", 0);
}

/* A row that begins with another's weights does so for every seed, and no other row does. */
static void test_what_a_row_begins_with_is_checked(void **state)
{
    (void)state;
    write_recipe("tuned", "init-recipe = \"memory\"\n");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/seed-3 --json", 0);
    assert_status("results --add runs/tuned/seed-3", 0);
    assert_holds("results/README.md", "--recipe tuned --epochs 1 --init runs/memory/seed-3 --seed 3` |");
    assert_status("train --recipe tuned --epochs 1 --init runs/memory/seed-3 --seed 4 --json", 0);
    assert_refuses("results --add runs/tuned/seed-4", 1, "whose run with this seed is not in results");
    assert_status("train --recipe tuned --epochs 1 --init runs/twn/seed-10 --out elsewhere --json", 0);
    assert_refuses("results --add elsewhere", 1, "tuned, seed 3: began with weights of digest ");
    assert_status("train --recipe twn --init runs/memory/seed-3 --out elsewhere --force --json", 0);
    assert_refuses("results --add elsewhere", 1, "began with other weights (--init), and its recipe names none");
    assert_status("train --recipe plain --epochs 1 --out elsewhere --force --json", 0);
    edit("elsewhere/config.toml", "recipe = \"plain\"", "recipe = \"tuned\"");
    assert_refuses("results --add elsewhere", 1, "tuned, seed 3: began without the weights of memory");
    assert_int_equal(system("rm -r results/tuned"), 0);
    assert_int_equal(remove("examples/recipes/tuned.toml"), 0);
    assert_status("results", 0);
}

static void test_a_flag_cannot_be_turned_off_in_a_command(void **state)
{
    (void)state;
    write_recipe("flag", "nesterov = true\n");
    assert_status("train --recipe flag --epochs 1 --json", 0);
    edit("runs/flag/seed-3/config.toml", "nesterov = true", "nesterov = false");
    assert_refuses("results --add runs/flag/seed-3", 1, "flag, seed 3: was trained without its recipe's nesterov");
    assert_int_equal(remove("examples/recipes/flag.toml"), 0);
}

/* A kill between the two renames of an add has left the old logs beside their place. */
static void test_old_logs_are_not_lost(void **state)
{
    (void)state;
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

/* What a call that was killed has left beside the place of a run is not read, and cleared away. */
static void test_an_interrupted_add_is_no_obstacle(void **state)
{
    (void)state;
    static const char *const rest[] = { "results/twn/.seed-10.new", "results/twn/.seed-10.old" };
    for (int i = 0; i < 2; i++) assert_int_equal(mkdir(rest[i], 0700), 0);
    copy("results/twn/seed-11/config.toml", "results/twn/.seed-10.new/config.toml");
    assert_status("results --check", 0);
    assert_status("results --add runs/twn/seed-10", 0);
    for (int i = 0; i < 2; i++) assert_int_equal(access(rest[i], F_OK), -1);
    assert_status("results --check", 0);
}

static void test_a_table_that_was_touched_is_noticed(void **state)
{
    (void)state;
    copy("results", "kept");
    edit("results/README.md", "| 10, 11 | 2 |", "| 10, 11 | 3 |");
    assert_refuses("results --check", 1, "results/README.md:18: is '| [twn](twn) | A paper |");
    assert_status("results", 0);
    assert_status("results --check", 0);
    edit("results/twn/seed-10/result.json", "\"best_epoch\":", "\"best_epoch\":1");
    assert_refuses("results --check", 1, "results/twn/seed-10: result.json says best_epoch 1");
    copy("kept", "results");
    edit("results/twn/seed-10/result.json", "\"test_images\":", "\"test_images\":0,\"images\":");
    assert_refuses("results", 1, "on 0 images cannot be");
    copy("kept", "results");
    edit("results/twn/seed-11/metrics.csv", "\n2,", "\n3,");
    assert_refuses("results", 1, "results/twn/seed-11/metrics.csv: line 3 is not the row of epoch 2");
    copy("kept", "results");
    edit("results/twn/seed-11/metrics.csv", "\n2,", "\n2,7,");
    assert_refuses("results", 1, "results/twn/seed-11/metrics.csv: line 3 is not the row of epoch 2");
    copy("kept", "results");
    edit("results/twn/seed-11/result.json", "\"test_images\":60", "\"test_images\":61");
    assert_refuses("results --check", 1, "is no whole number of 61 images");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "lr = 0.01", "lr = 0.02");
    assert_refuses("results --check", 1, "twn: the runs with seeds 10 and 11 differ in lr");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "data = ", "# data = ");
    assert_refuses("results --check", 1, "results/twn/seed-11/config.toml: names no data");
    copy("kept", "results");
    edit("results/twn/seed-11/config.toml", "recipe = \"twn\"", "recipe = \"plain\"");
    assert_refuses("results --check", 1, "results/twn/seed-11: holds the run of results/plain/seed-11");
    copy("kept", "results");
    assert_status("results --check", 0);
}

static void test_what_is_no_row_is_not_added(void **state)
{
    (void)state;
    assert_refuses("results --add filed", 1, "filed: was not trained with --recipe");
    assert_refuses("results --add runs/twn/seed-8", 1, "seed-8: is not finished, it stands after 0 of 2 epochs");
    assert_refuses("results --add absent", 1, "absent/config.toml");
    assert_status("train --recipe twn --seed 12 --epochs 1 --json", 0);
    assert_refuses("results --add runs/twn/seed-12", 1, "twn: the runs with seeds 10 and 12 differ in epochs");
    assert_int_equal(access("results/twn/seed-12", F_OK), -1);
    assert_refuses("results --add runs/twn/seed-10 --check", 2, "not both");
    assert_status("results --check", 0);
    edit("examples/recipes/twn.toml", "epochs = 2", "epochs = 2\nfold-batchnorm = true");
    assert_refuses("results --check", 1, "twn, seed 10: the recipe as it is now cannot have led to this run's fold-batchnorm");
    write_recipe("twn", "");
    assert_refuses("results --check", 1, "is '| [twn](twn) | A paper");
}

/* Logs that stand elsewhere, behind a link, are not the table's to remove. */
static void test_a_link_is_replaced_and_its_logs_stay(void **state)
{
    (void)state;
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
    (void)state;
    copy("results/README.md", "page");
    write_bytes("results/README.md", "# my notes\n", 11);
    assert_refuses("results", 1, "results/README.md was not written by qgrad results");
    assert_holds("results/README.md", "# my notes");
    copy("page", "results/README.md");
    assert_status("results", 0);
}

/* The images are the run's, unless it is told of others. */
static void test_a_configuration_may_be_used_on_other_images(void **state)
{
    (void)state;
    assert_holds("float/config.toml", "data-digest");
    assert_status("train --config float/config.toml --data synthetic --epochs 1 --out afresh --budget 0 --json", 0);
    assert_status("train --config float/config.toml --seed 77 --out afresh-2 --budget 0 --json", 0);
    assert_status("train --config ttq/config.toml --init afresh-2 --out afresh-3 --budget 0 --json", 0);
    assert_holds("afresh/config.toml", "data = \"synthetic\"");
}

static void test_there_is_no_table_where_there_are_no_recipes(void **state)
{
    (void)state;
    assert_int_equal(chdir("set"), 0);
    assert_refuses("results", 1, "no examples/recipes is here");
    assert_refuses("results --check --json", 1, "no examples/recipes is here");
    assert_int_equal(access("results", F_OK), -1);
    assert_int_equal(chdir(root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recipe_is_a_configuration_by_name),
        cmocka_unit_test(test_a_recipe_with_another_optimizer_goes_on),
        cmocka_unit_test(test_recipes_that_are_not_there),
        cmocka_unit_test(test_result_json_is_what_train_prints),
        cmocka_unit_test(test_sittings_add_up),
        cmocka_unit_test(test_init_takes_all_weights_of_a_run),
        cmocka_unit_test(test_init_belongs_to_the_run),
        cmocka_unit_test(test_weights_that_were_taken_are_not_stretched),
        cmocka_unit_test(test_weights_that_were_taken_are_centred),
        cmocka_unit_test(test_init_lists_every_mismatch),
        cmocka_unit_test(test_what_starts_from_weights_starts_from_these),
        cmocka_unit_test(test_the_table_is_what_the_logs_say),
        cmocka_unit_test(test_texts_of_a_recipe_stay_in_their_cell),
        cmocka_unit_test(test_other_images_are_no_part_of_the_table),
        cmocka_unit_test(test_what_a_row_begins_with_is_checked),
        cmocka_unit_test(test_a_flag_cannot_be_turned_off_in_a_command),
        cmocka_unit_test(test_an_interrupted_add_is_no_obstacle),
        cmocka_unit_test(test_old_logs_are_not_lost),
        cmocka_unit_test(test_a_table_that_was_touched_is_noticed),
        cmocka_unit_test(test_what_is_no_row_is_not_added),
        cmocka_unit_test(test_a_link_is_replaced_and_its_logs_stay),
        cmocka_unit_test(test_a_page_of_others_is_not_written_over),
        cmocka_unit_test(test_a_configuration_may_be_used_on_other_images),
        cmocka_unit_test(test_there_is_no_table_where_there_are_no_recipes),
    };
    return cmocka_run_group_tests(tests, set_up_here, tear_down);
}
