/* train --recipe and --init, and result.json, from which the table of reproduced papers is made. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/state.h"
#include "tests/support/program.h"
#include "tests/support/tree.h"

/* Each test finds a run of the recipe, one with float weights, and one with TTQ's that began with these. */
static int set_up_runs(void **state)
{
    if (set_up_tree(state)) return -1;
    assert_status("train --recipe twn --json", 0);
    assert_status("train --recipe plain --weight float --out float --json", 0);
    assert_status("train --recipe plain --weight ttq --init float --out ttq --json", 0);
    keep_tree();
    return 0;
}

/* --- recipes ------------------------------------------------------------------------------ */

static void test_a_recipe_is_a_configuration_by_name(void **state)
{
    assert_status("train --config examples/recipes/twn.toml --out filed --json", 0);
    assert_status("train --recipe plain --json", 0);
    assert_same_run("runs/twn/seed-3", "filed");
    assert_same_run("runs/twn/seed-3", "runs/plain/seed-3");    /* words about it decide no byte */
    assert_holds("runs/twn/seed-3/config.toml", "recipe = \"twn\"\n");
    assert_holds("runs/twn/seed-3/config.toml", "reported = \"99.35\"\n");
    assert_status("train --recipe twn --seed 8 --budget 0 --json", 3);
    assert_int_equal(access("runs/twn/seed-8/config.toml", F_OK), 0);
    assert_status("summary --recipe twn --json", 0);
    write_recipe("colour", "");
    edit("examples/recipes/colour.toml", "data = \"mnist\"", "data = \"cifar10\"");
    assert_status("summary --recipe colour --json", 0);
    assert_stdout("\"output\":[28,28,10]");          /* 5x5 of 32x32 */
}

static void test_a_recipe_with_another_optimizer_goes_on(void **state)
{
    write_recipe("steep", "optimizer = \"sgd\"\nlr = 0.02\nmomentum = 0.5\n");
    assert_status("train --recipe steep --optimizer adam --out other --budget 0 --json", 3);
    assert_status("train --recipe steep --optimizer adam --out other --budget 0 --resume --json", 3);
    assert_refuses("train --recipe steep --out other --resume", 2, "optimizer is adam in the run, but sgd was requested");
}

static void test_recipes_that_are_not_there(void **state)
{
    assert_refuses("train --recipe tnw", 2, "examples/recipes/tnw.toml does not exist; available: plain, twn; did you mean twn?");
    assert_refuses("train --recipe twn.toml", 2, "available: plain, twn; did you mean twn?");
    assert_refuses("train --recipe ../twn", 2, "'../twn' is not the name of a recipe");
    assert_refuses("train --recipe twn --config examples/recipes/twn.toml", 2, "exclude each other");
    assert_refuses("train --reported 99", 2, "unknown option '--reported'");
    write_recipe("vague", "provenance = \"hearsay\"\n");
    assert_refuses("train --recipe vague", 2, "vague.toml:9: provenance 'hearsay' is not one of paper|code|replication|memory");
}

/* --- result.json -------------------------------------------------------------------------- */

static void test_result_json_is_what_train_prints(void **state)
{
    static const char *const numbers[] = { "test_accuracy", "best_test_accuracy", "best_epoch", "test_images",
                                           "test_accuracy_stderr", "epochs", "seed", "threads" };
    static const char *const texts[] = { "digest", "commit", "cpu_path", "weight" };
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
    assert_status("train --recipe twn --out sat --budget 0 --json", 3);
    char   both[400];
    snprintf(both, sizeof both, "another, %s", last_text("commit"));
    edit_result("sat/result.json", last_text("commit"), "another");
    edit_result("sat/result.json", "\"seconds\":", "\"seconds\":1000,\"were\":");
    assert_status("train --resume --out sat --json", 0);
    assert_true(last_number("seconds") > 1000 && last_number("seconds") < 2000);         /* a child may take 600 */
    assert_string_equal(last_text("commit"), both);
    assert_same_run("sat", "runs/twn/seed-3");

    /* Nobody worked on it since. */
    edit_result("sat/result.json", both, "another");
    assert_status("train --resume --out sat --json", 0);
    assert_string_equal(last_text("commit"), "another");
    assert_true(last_number("seconds") > 1000);
    edit_result("sat/result.json", "\"seed\":3", "\"sad\":3");
    assert_refuses("train --resume --out sat", 1, "result.json: seed is missing");

    edit("runs/twn/seed-3/result.json", "\"commit\":\"", "\"commit\":\"0");
    assert_refuses("train --resume --out runs/twn/seed-3", 1, "result.json: is damaged");
}

/* --- init --------------------------------------------------------------------------------- */

static void test_init_takes_all_weights_of_a_run(void **state)
{
    char        line[64];
    cJSON      *of_source = parse_file("float/result.json");
    const char *source    = text(of_source, "digest");
    assert_status("train --recipe plain --weight float --seed 9 --init float --budget 0 --out again --json", 3);
    cJSON *taken = parse();
    assert_string_equal(text(taken, "digest"), source);
    cJSON_Delete(taken);
    snprintf(line, sizeof line, "init-digest = \"%s\"\n", source);
    assert_holds("again/config.toml", line);

    assert_status("train --recipe plain --weight ttq --init float --out told --budget 0", 3);
    snprintf(line, sizeof line, "starts from 17 arrays of float with digest %s", source);
    assert_stdout(line);
    assert_stdout("initialised as usual: conv1.weight.wp, conv1.weight.wn, conv2.weight.wp");
    cJSON_Delete(of_source);
    assert_status("train --recipe plain --weight ttq --init float/last.safetensors --out ttq-file --json", 0);
    assert_same_run("ttq", "ttq-file");
    assert_status("train --recipe plain --weight float --init ttq --budget 0 --out back", 3);
    assert_stdout("not used by this net: conv1.weight.wn, conv1.weight.wp");
}

/* A resumed run needs the weights of --init only until its first checkpoint, and accepts no others. */
static void test_init_belongs_to_the_run(void **state)
{
    assert_refuses("train --config ttq/config.toml --out ttq-2", 2, "pass their location with --init");
    assert_refuses("train --resume --out ttq --init ttq", 2, "but the run started with");
    assert_refuses("train --resume --out float --init float", 2, "the run started without initial weights");
    assert_status("train --recipe plain --weight ttq --init float --out cut --budget 0 --json", 3);
    assert_status("train --resume --out cut --json", 0);
    assert_same_run("ttq", "cut");
    assert_int_equal(mkdir("begun", 0700), 0);                  /* as if killed before the first checkpoint */
    copy("ttq/config.toml", "begun/config.toml");
    assert_refuses("train --resume --out begun", 2, "pass their location with --init");
    assert_status("train --resume --out begun --init float --json", 0);
    assert_same_run("ttq", "begun");
    write_recipe("tuned", "init-recipe = \"plain\"\n");
    assert_refuses("train --recipe tuned", 2, "pass --init runs/plain/seed-3");
}

static qg_archive *weights_of(const char *path, const char *name, const qg_named_array **e)
{
    qg_archive *a = qg_archive_open(path);
    *e            = qg_archive_find(a, name);
    assert_non_null(*e);
    return a;
}

/* bnn:start=unit scales initial weights, but not weights of --init. */
static void test_weights_that_were_taken_are_not_stretched(void **state)
{
    const qg_named_array *x, *y;
    assert_status("train --recipe plain --weight bnn:start=unit --init float --out stretched --budget 0 --json", 3);
    qg_archive *a = weights_of("float/last.safetensors", "conv2.weight", &x);
    qg_archive *b = weights_of("stretched/last.safetensors", "conv2.weight", &y);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->array.data, y->array.data, x->bytes);
    qg_archive_free(a), qg_archive_free(b);
}

/* xnor:latent=centred keeps them without mean over the input channels, from the first step on. */
static void test_weights_that_were_taken_are_centred(void **state)
{
    const qg_named_array *e;
    assert_status("train --recipe plain --weight xnor:latent=centred --first-last float --init float --out centred "
                  "--budget 0 --json", 3);
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
    assert_refuses("train --model resnet20 --data synthetic --init float --out none", 1,
                   "conv1.weight: shape mismatch: checkpoint [10,5,5,1], model [16,3,3,1], bn1.gamma: shape mismatch: checkpoint [10]");
    assert_stderr("conv3.weight [16,3,3,16] is missing");
    assert_refuses("train --recipe plain --weight bop --optimizer bop --init float --out none", 2,
                   "conv1.weight has no latent weights");
    assert_refuses("train --recipe plain --init absent --out none", 1, "absent");
    assert_refuses("train --recipe plain --init twn.toml --out none", 1, "twn.toml");
    assert_int_equal(access("none", F_OK), -1);
}

/* s = 2 mean|w| / sqrt(Qp), Qp = 1, of the weights of --init (LSQ, section 2.1). */
static void test_what_starts_from_weights_starts_from_these(void **state)
{
    assert_status("train --recipe plain --weight lsq:bits=2 --init float --out lsq --budget 0 --json", 3);
    qg_archive           *source = qg_archive_open("float/last.safetensors"), *a = qg_archive_open("lsq/last.safetensors");
    const qg_named_array *w      = qg_archive_find(source, "conv2.weight");
    const qg_named_array *step   = qg_archive_find(a, "conv2.weight.step");
    assert_true(w && step);
    const size_t n   = qg_array_count(&w->array);
    double       sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs((double)((const float *)w->array.data)[i]);
    const double got = (double)*(const float *)step->array.data, want = 2 * sum / (double)n;
    assert_true(fabs(got - want) < 1e-6 * want);                /* one rounding to float, and the sum's */
    assert_memory_equal(w->array.data, qg_archive_find(a, "conv2.weight")->array.data, n * sizeof(float));
    qg_archive_free(a);

    /* So does a range, which averages over later batches. */
    assert_status("train --recipe plain --weight fake_quant:range=learned --init float --out ranged --budget 0 --json", 3);
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

/* The images are those of the run, unless options name others. */
static void test_a_configuration_may_be_used_on_other_images(void **state)
{
    assert_holds("float/config.toml", "data-digest");
    assert_status("train --config float/config.toml --data synthetic --epochs 1 --out afresh --budget 0 --json", 3);
    assert_status("train --config float/config.toml --seed 77 --out afresh-2 --budget 0 --json", 3);
    assert_status("train --config ttq/config.toml --init afresh-2 --out afresh-3 --budget 0 --json", 3);
    assert_holds("afresh/config.toml", "data = \"synthetic\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_recipe_is_a_configuration_by_name, restore_tree),
        cmocka_unit_test_setup(test_a_recipe_with_another_optimizer_goes_on, restore_tree),
        cmocka_unit_test_setup(test_recipes_that_are_not_there, restore_tree),
        cmocka_unit_test_setup(test_result_json_is_what_train_prints, restore_tree),
        cmocka_unit_test_setup(test_sittings_add_up, restore_tree),
        cmocka_unit_test_setup(test_init_takes_all_weights_of_a_run, restore_tree),
        cmocka_unit_test_setup(test_init_belongs_to_the_run, restore_tree),
        cmocka_unit_test_setup(test_weights_that_were_taken_are_not_stretched, restore_tree),
        cmocka_unit_test_setup(test_weights_that_were_taken_are_centred, restore_tree),
        cmocka_unit_test_setup(test_init_lists_every_mismatch, restore_tree),
        cmocka_unit_test_setup(test_what_starts_from_weights_starts_from_these, restore_tree),
        cmocka_unit_test_setup(test_a_configuration_may_be_used_on_other_images, restore_tree),
    };
    return cmocka_run_group_tests(tests, set_up_runs, tear_down);
}
