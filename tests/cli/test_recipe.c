/* train/recipe.h: a program trains as build/qgrad, or $QGRAD, does. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/foreign.h"
#include "tests/support/program.h"

static qg_recipe *small(void)
{
    qg_recipe *r = qg_recipe_new();
    qg_recipe_set(r, "model", SMALL_NET(10));
    qg_recipe_set(r, "data", "mnist");
    qg_recipe_set(r, "data-dir", at("set"));
    qg_recipe_set(r, "seed", "3");
    qg_recipe_set(r, "threads", "1");
    qg_recipe_set(r, "weight", "twn");
    qg_recipe_set(r, "batch", "24");
    return r;
}

static void assert_same_files(const char *a, const char *b)
{
    static const char *const files[] = { "config.toml", "last.safetensors", "best.safetensors" };
    for (int i = 0; i < 3; i++) {
        char one[64], other[64];
        snprintf(one, sizeof one, "%s/%s", a, files[i]);
        snprintf(other, sizeof other, "%s/%s", b, files[i]);
        assert_same_file(at(one), at(other));
    }
}

/* Each goes on with what the other began, or gets more epochs. */
static void test_a_program_trains_as_the_command_line(void **state)
{
    qg_recipe    *r = small();
    qg_fit_result result;
    qg_recipe_set(r, "epochs", "2");
    if (qg_recipe_fit(r, (qg_fit_spec){ .dir = at("program") }, &result)) fail_msg("%s", qg_errmsg());
    assert_true(result.complete);
    assert_runs(TRAIN "--epochs 2 --out @/line");
    assert_same_files("program", "line");
    assert_runs(TRAIN "--epochs 3 --out @/program --resume");
    qg_recipe_set(r, "epochs", "3");
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("line") }, &result));
    assert_same_files("program", "line");
    qg_recipe_set(r, "batch", "12");
    assert_failed(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("line") }, &result), QG_EARG, "batch is 24 in the run, but 12 was requested");
    assert_failed(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("line"), .mode = QG_FIT_NEW }, &result), QG_ESTATE, "already contains a run");
    qg_recipe_free(r);
}

/* Initial weights are read from where they are, and only their digest is part of the run. */
static void test_a_recipe_starts_from_other_weights(void **state)
{
    qg_recipe    *r = small();
    qg_fit_result result;
    assert_runs("train " SET "--batch 24 --epochs 1 --out @/before");
    qg_recipe_set(r, "epochs", "1");
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("tuned"), .init = at("before") }, &result));
    assert_runs(TRAIN "--epochs 1 --init @/before --out @/tuned-too");
    assert_same_files("tuned", "tuned-too");
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("tuned"), .init = at("before") }, &result));
    assert_failed(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("tuned"), .init = at("tuned-too") }, &result), QG_EARG, "but the run started with");
    qg_recipe_free(r);
}

/* glorot is what runs without the key have, and he draws other weights. */
static void test_a_recipe_chooses_the_initial_weights(void **state)
{
    static const char *const words[] = { NULL, "glorot", "he" };
    const qg_recipe_key     *key     = qg_recipe_keys;
    uint64_t                 digest[3];
    qg_recipe               *plain = small();
    while (strcmp(key->name, "initial-weights")) key++;
    for (int i = 0; i < 3; i++) {
        qg_recipe *r = small();
        assert_ok(qg_recipe_set(r, "initial-weights", words[i]));
        qg_net *net = qg_recipe_net(r, (qg_shape){ 1, 28, 28, 1 }, 10);
        if (!net) fail_msg("%s", qg_errmsg());
        digest[i] = qg_params_digest(qg_net_params(net));
        assert_true(qg_recipe_difference(r, plain, NULL) == (i == 2 ? key : NULL));
        qg_net_free(net);
        qg_recipe_free(r);
    }
    assert_true(digest[0] == digest[1] && digest[1] != digest[2]);
    qg_recipe_free(plain);
}

/* Only nets with a gradient quantizer have version 3, whatever was asked for. */
static void test_gradient_quantizers_have_an_arithmetic_of_their_own(void **state)
{
    static const struct { const char *model, *key, *value, *key2, *value2; uint64_t version; } of[] = {
        { "lenet5", "weight", "twn", "input", "fake_quant", QG_ARITHMETIC },
        { "lenet5", "gradient", "stochastic", NULL, NULL, QG_ARITHMETIC_GRADIENTS },
        { "lenet5", "layer", "fc1:gradient=dorefa", "first-last", "float", QG_ARITHMETIC_GRADIENTS },
        { "mlp:depth=1", "gradient", "dorefa", "first-last", "float", QG_ARITHMETIC },
        { "9FC-9FC-10", "gradient", "dorefa", "data", "arrays:test=n,test-labels=n", QG_ARITHMETIC_GRADIENTS },
        { "no such model", "gradient", "dorefa", NULL, NULL, QG_ARITHMETIC },
    };
    for (int i = 0; i < (int)(sizeof of / sizeof *of); i++) {
        qg_recipe *r = qg_recipe_new();
        qg_recipe_set(r, "model", of[i].model);
        qg_recipe_set(r, of[i].key, of[i].value);
        if (of[i].key2) qg_recipe_set(r, of[i].key2, of[i].value2);
        const uint64_t version = qg_recipe_arithmetic(r);
        if (version != of[i].version) fail_msg("row %d: version %d", i, (int)version);
        qg_recipe_free(r);
    }
    assert_true(qg_recipe_arithmetic(NULL) == QG_ARITHMETIC);
}

static void test_a_run_of_other_gradients_does_not_continue(void **state)
{
    qg_recipe    *r = small();
    qg_fit_result result;
    qg_recipe_set(r, "epochs", "1");
    qg_recipe_set(r, "gradient", "stochastic");
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("gradients"), .budget = -1 }, &result));
    assert_true(!result.complete && result.arithmetic == 3);
    note_anew(at("gradients/last.safetensors"), "arithmetic", "2");
    assert_failed(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("gradients") }, &result), QG_ESTATE,
                  "version 2 of the arithmetic, but this program trains it under version 3, so it cannot");
    note_anew(at("gradients/last.safetensors"), "arithmetic", "3");
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("gradients") }, &result));
    assert_true(result.complete && result.arithmetic == 3);
    qg_recipe_free(r);
}

static void test_values_are_what_was_set_or_follows(void **state)
{
    qg_recipe *r = qg_recipe_new();
    assert_null(qg_recipe_get(r, "lr"));                        /* of no model */
    assert_failed(qg_recipe_check(r), QG_EARG, "--model is missing");
    qg_recipe_set(r, "model", "lenet5");
    assert_ok(qg_recipe_check(r));
    assert_string_equal(qg_recipe_get(r, "optimizer"), "sgd");
    assert_string_equal(qg_recipe_get(r, "momentum"), "0.9");
    qg_recipe_set(r, "optimizer", "adam");
    assert_string_equal(qg_recipe_get(r, "lr"), "0.001");
    assert_null(qg_recipe_get(r, "momentum"));
    qg_recipe_set(r, "optimizer", NULL);
    assert_string_equal(qg_recipe_get(r, "momentum"), "0.9");
    assert_null(qg_recipe_get(r, "no such key"));
    qg_recipe_set(r, "layer", "conv1:weight=twn");
    qg_recipe_set(r, "layer", "conv1:weight=float");
    assert_string_equal(qg_recipe_get(r, "layer"), "conv1:weight=float");
    qg_recipe_free(r);
}

/* A file keeps what has been set, whichever came first. */
static void test_what_is_set_precedes_a_file(void **state)
{
    qg_recipe *r = qg_recipe_new();
    write_bytes(at("file.toml"), "model = \"lenet5\"\nlr = 0.5\nmomentum = 0.7\nbatch = 3\n", 51);
    qg_recipe_set(r, "batch", "7");
    assert_ok(qg_recipe_read(r, at("file.toml")));
    assert_string_equal(qg_recipe_get(r, "batch"), "7");
    assert_string_equal(qg_recipe_get(r, "momentum"), "0.7");
    qg_recipe_set(r, "optimizer", "adam");
    assert_failed(qg_recipe_check(r), QG_EARG, "momentum is an option of sgd");         /* the file names no other optimizer */
    qg_recipe_free(r);
}

static void test_the_first_failure_is_kept(void **state)
{
    qg_recipe    *r = qg_recipe_new();
    qg_fit_result result;
    assert_int_equal(qg_recipe_set(r, "modell", "lenet5"), QG_EARG);
    assert_int_equal(qg_recipe_set(r, "batch", "0"), QG_EARG);
    assert_failed(qg_recipe_check(r), QG_EARG, "unknown key 'modell'; available: model, data,");
    assert_failed(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("none") }, &result), QG_EARG, "unknown key 'modell'");
    assert_null(qg_recipe_build(r, (qg_fit_spec){ .dir = NULL }));
    assert_null(qg_recipe_net(r, (qg_shape){ 1, 28, 28, 1 }, 10));
    qg_recipe_free(r);
    assert_int_equal(qg_recipe_set(NULL, "model", "lenet5"), QG_EMEM);
    assert_int_equal(qg_recipe_fit(NULL, (qg_fit_spec){ .dir = at("none") }, &result), QG_EMEM);
}

static void test_a_training_can_be_looked_at_before_it_begins(void **state)
{
    qg_recipe   *r = small();
    qg_training *t = qg_recipe_build(r, (qg_fit_spec){ .dir = NULL });
    if (!t) fail_msg("%s", qg_errmsg());
    assert_int_equal(qg_loader_shape(t->train).n, N_TRAIN);
    assert_int_equal(qg_loader_shape(t->test).n, N_TEST);
    assert_true(qg_optim_lr(t->optim) == 0.01f);
    assert_int_equal(t->init_arrays, 0);
    assert_non_null(qg_recipe_get(t->recipe, "data-digest"));
    assert_null(qg_recipe_get(r, "data-digest"));
    assert_failed(qg_fit(t->net, t->fit, NULL), QG_EARG, "dir");
    qg_training_free(t);
    qg_recipe_set(r, "optimizer", "bop");
    assert_null(qg_recipe_build(r, (qg_fit_spec){ .dir = NULL }));
    assert_non_null(strstr(qg_errmsg(), "bop only trains weights of the scheme bop"));
    qg_training_free(NULL);
    qg_recipe_free(r);
}

/* A key of the table, and options of a program's own. */
static void test_a_value_has_one_spelling(void **state)
{
    static const qg_recipe_key levels = { .name = "levels", .kind = QG_RECIPE_INTEGER, .value = "N", .min = 2, .max = 9 };
    static const qg_recipe_key side   = { .name = "side", .kind = QG_RECIPE_WORD, .value = "left|right" };
    char                       text[QG_RECIPE_VALUE_BYTES];
    const qg_recipe_key       *lr = qg_recipe_keys;
    while (strcmp(lr->name, "lr")) lr++;
    assert_ok(qg_recipe_key_check(lr, "0.10", text));
    assert_string_equal(text, "0.1");
    assert_failed(qg_recipe_key_check(lr, "0", text), QG_EARG, "lr must be positive, not 0");
    assert_ok(qg_recipe_key_check(&levels, "+3", text));
    assert_string_equal(text, "3");
    assert_failed(qg_recipe_key_check(&levels, "10", text), QG_EARG, "levels 10 is not in 2..9");
    assert_failed(qg_recipe_key_check(&side, "rihgt", text), QG_EARG, "side 'rihgt' is not one of left|right");
}

/* What differs between a recipe and a run, or between two recipes. */
static void test_the_keys_that_differ_are_named(void **state)
{
    qg_recipe    *r = small();
    qg_fit_result result;
    assert_ok(qg_recipe_fit(r, (qg_fit_spec){ .dir = at("compared") }, &result));
    qg_recipe *run = qg_recipe_of_run(at("compared"));
    if (!run) fail_msg("%s", qg_errmsg());
    assert_string_equal(qg_recipe_difference(r, run, NULL)->name, "data-digest");
    assert_null(qg_recipe_difference(r, run, qg_recipe_difference(r, run, NULL)));
    qg_recipe_set(r, "layer", "fc1:weight=twn");
    qg_recipe_set(r, "lr", "0.5");
    const qg_recipe_key *k = qg_recipe_difference(r, run, NULL);
    assert_string_equal(k->name, "layer");
    assert_int_equal(k->is & (QG_RECIPE_IDENTITY | QG_RECIPE_PER_RUN), QG_RECIPE_IDENTITY);
    assert_string_equal(qg_recipe_difference(run, r, k)->name, "lr");
    assert_null(qg_recipe_of_run(at("none")));
    assert_null(qg_recipe_difference(r, NULL, NULL));
    qg_recipe_free(run), qg_recipe_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_trains_as_the_command_line),
        cmocka_unit_test(test_a_recipe_starts_from_other_weights),
        cmocka_unit_test(test_a_recipe_chooses_the_initial_weights),
        cmocka_unit_test(test_gradient_quantizers_have_an_arithmetic_of_their_own),
        cmocka_unit_test(test_a_run_of_other_gradients_does_not_continue),
        cmocka_unit_test(test_values_are_what_was_set_or_follows),
        cmocka_unit_test(test_what_is_set_precedes_a_file),
        cmocka_unit_test(test_the_first_failure_is_kept),
        cmocka_unit_test(test_a_training_can_be_looked_at_before_it_begins),
        cmocka_unit_test(test_a_value_has_one_spelling),
        cmocka_unit_test(test_the_keys_that_differ_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
