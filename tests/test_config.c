/* cli/config and cli/schemes: what a configuration may say, and the one spelling it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config.h"
#include "cli/recipe.h"
#include "cli/schemes.h"

static void assert_prints(const config *c, const char *expected)
{
    char *text = config_print(c, SAVED);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

/* The text reads as a configuration whose file is expected. */
static void assert_reads(const char *text, const char *expected)
{
    config c = { { 0 } };
    assert_int_equal(config_parse(&c, text, "f"), QG_OK);
    assert_prints(&c, expected);
    config_free(&c);
}

static void assert_refused(const char *text, const char *message)
{
    config c = { { 0 } };
    assert_int_equal(config_parse(&c, text, "f"), QG_EARG);
    if (!strstr(qg_errmsg(), message)) fail_msg("'%s' is not in '%s'", message, qg_errmsg());
    config_free(&c);
}

static void test_values_have_one_spelling(void **state)
{
    (void)state;
    assert_reads("lr = 1e-3", "lr = 0.001\n");
    assert_reads("lr=+0.10", "lr = 0.1\n");
    assert_reads("epochs = 07", "epochs = 7\n");
    assert_reads("seed = 9007199254740991", "seed = 9007199254740991\n");
    assert_reads("weight = 'twn:threshold=0.70'", "weight = \"twn\"\n");
    assert_reads("weight = \"twn:threshold=5e-1\"", "weight = \"twn:threshold=0.5\"\n");
    assert_reads("input = \"sign:surrogate=clip\"", "input = \"sign\"\n");
    assert_reads("nesterov = true", "nesterov = true\n");
}

static void test_order_blanks_and_comments_do_not_matter(void **state)
{
    (void)state;
    const char *expected = "model = \"lenet5\"\nbatch = 3\nlr = 0.5\n";
    assert_reads("model = \"lenet5\"\nbatch = 3\nlr = 0.5\n", expected);
    assert_reads("# head\n\n\tlr =0.5 # half\r\n  batch= 3\nmodel=\"lenet5\"#", expected);
    assert_reads("", "");
}

static void test_strings_and_arrays(void **state)
{
    (void)state;
    assert_reads("data-dir = \"a \\\"b\\\" \\\\ c # d\"", "data-dir = \"a \\\"b\\\" \\\\ c # d\"\n");
    assert_reads("data-dir = 'a \\ b'", "data-dir = \"a \\\\ b\"\n");
    assert_reads("layer = [ 'conv1:weight=float' , \"fc1:input=sign\", ]",
                 "layer = [\"conv1:weight=float\", \"fc1:input=sign\"]\n");
    assert_reads("layer = []", "");
}

static void test_what_is_no_configuration_is_refused_with_its_line(void **state)
{
    (void)state;
    assert_refused("batch = 3\nbatch = 4", "f:2: batch is there twice");
    assert_refused("\n\nspeed = 3", "f:3: no key 'speed'; keys: model, data,");
    assert_refused("json = true", "f:1: no key 'json'");
    assert_refused("batch", "f:1: expected = after the key");
    assert_refused("batch =", "f:1: a key without a value");
    assert_refused("[net]", "f:1: expected key = value");
    assert_refused("batch = 3 4", "f:1: expected the end of the line");
    assert_refused("batch = \"3\"", "f:1: batch takes no string");
    assert_refused("model = lenet5", "f:1: model takes a string in quotes");
    assert_refused("model = [\"lenet5\"]", "f:1: model takes one value, no array");
    assert_refused("layer = \"conv1:weight=float\"", "f:1: layer takes an array of strings");
    assert_refused("layer = [\"conv1:weight=float\" 'x']", "f:1: expected , or ] in the array");
    assert_refused("layer = [conv1]", "f:1: expected a string or ] in the array");
    assert_refused("model = \"lenet5", "f:1: a string without its end");
    assert_refused("model = \"lenet5\\n\"", "f:1: an escape other than");
}

static void test_values_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_refused("batch = 0", "batch 0 is not in 1..65536");
    assert_refused("batch = 1.5", "batch '1.5' is no whole number");
    assert_refused("batch = 3x", "batch '3x' is no whole number");
    assert_refused("lr = nan", "lr 'nan' is no number");
    assert_refused("lr = inf", "lr 'inf' is no number");
    assert_refused("lr = 1e999", "lr 1e999 is not in");
    assert_refused("lr = 0x10", "lr '0x10' is no number");
    assert_refused("momentum = -0.5", "momentum -0.5 is not in 0..0.9999");
    assert_refused("nesterov = yes", "nesterov 'yes' is neither true nor false");
    assert_refused("optimizer = \"sdg\"", "optimizer 'sdg' is none of sgd|adam");
    assert_refused("optimizer = \"sgd|adam\"", "is none of sgd|adam");
    assert_refused("model = \"lenet\"", "no model 'lenet'; there is lenet5");
    assert_refused("data = \"\"", "no data set ''; there is mnist, sample, synthetic");
    assert_refused("data-dir = \"\"", "data-dir: the value is empty");
    assert_refused("data-dir = \"a\tb\"", "data-dir: the value holds a control character");
}

static void test_schemes_name_what_is_legal(void **state)
{
    (void)state;
    assert_refused("weight = \"sign\"",
                   "no scheme 'sign' for weights; there is float, twn, binary, binary-channel");
    assert_refused("input = \"twn\"", "no scheme 'twn' for inputs; there is float, sign");
    assert_refused("weight = \"twn:\"", "twn has no option ''; there is threshold");
    assert_refused("weight = \"twn:treshold=1\"", "twn has no option 'treshold'; there is threshold");
    assert_refused("weight = \"twn:threshold\"", "threshold needs a value");
    assert_refused("weight = \"twn:threshold=x\"", "threshold 'x' is no number");
    assert_refused("weight = \"twn:threshold=99\"", "threshold 99 is not in 0.01..10");
    assert_refused("weight = \"twn:threshold=\"", "threshold '' is no number");
    assert_refused("weight = \"float:x=1\"", "float has no option 'x'; there is none");
    assert_refused("input = \"sign:surrogate=clop\"", "'clop' is none of identity|clip|approx-sign");
    assert_refused("layer = [\"conv1=float\"]", "neither LAYER:weight=SCHEME nor LAYER:input=SCHEME");
    assert_refused("layer = [\":weight=float\"]", "neither LAYER:weight=SCHEME");
}

static void test_a_scheme_becomes_its_quantizer(void **state)
{
    (void)state;
    qg_quant q;
    char     text[VALUE_BYTES];
    assert_int_equal(scheme_parse("float", FOR_WEIGHT, &q, text, sizeof text), QG_OK);
    assert_null(q.scheme);
    assert_int_equal(scheme_parse("binary-channel", FOR_WEIGHT, &q, text, sizeof text), QG_OK);
    assert_true(q.per_channel);
    assert_int_equal(q.bits, 1);
    assert_int_equal(scheme_parse("twn:threshold=0.25", FOR_WEIGHT, &q, text, sizeof text), QG_OK);
    const qg_quant twn = qg_twn((qg_twn_spec){ .threshold = 0.25f });
    assert_ptr_equal(q.scheme, twn.scheme);
    assert_memory_equal(q.arg, twn.arg, sizeof q.arg);
    assert_int_equal(scheme_parse("sign:surrogate=identity", FOR_INPUT, &q, text, sizeof text),
                     QG_OK);
    assert_ptr_equal(q.surrogate.slope, qg_ste_identity().slope);
}

static void test_the_last_word_on_a_layer_counts(void **state)
{
    (void)state;
    const option *layer = option_find("layer");
    config        c     = { { 0 } };
    assert_int_equal(config_set(&c, layer, "conv1:weight=float"), QG_OK);
    assert_int_equal(config_set(&c, layer, "conv1:input=sign"), QG_OK);
    assert_int_equal(config_set(&c, layer, "conv10:weight=twn"), QG_OK);
    assert_int_equal(config_set(&c, layer, "conv1:weight=binary"), QG_OK);
    assert_prints(&c,
                  "layer = [\"conv1:input=sign\", \"conv10:weight=twn\", \"conv1:weight=binary\"]\n");
    config_free(&c);
}

static const char *asked_value(const char *text, const char *key, char value[VALUE_BYTES])
{
    config asked = { { 0 } }, c = { { 0 } };
    bool   usage;
    assert_int_equal(config_parse(&asked, text, "f"), QG_OK);
    assert_int_equal(recipe_resolve(&asked, NULL, &c, &usage), QG_OK);
    const char *found = config_text(&c, key);
    snprintf(value, VALUE_BYTES, "%s", found ? found : "unset");
    config_free(&c);
    config_free(&asked);
    return value;
}

static void test_another_optimizer_does_not_inherit_the_recipe(void **state)
{
    (void)state;
    char value[VALUE_BYTES];
    const char *own = "model = \"lenet5\"", *adam = "model = \"lenet5\"\noptimizer = \"adam\"";
    assert_string_equal(asked_value(own, "lr", value), "0.01");
    assert_string_equal(asked_value(own, "momentum", value), "0.9");
    assert_string_equal(asked_value(own, "weight-decay", value), "0.0001");
    assert_string_equal(asked_value(adam, "lr", value), "0.001");
    assert_string_equal(asked_value(adam, "momentum", value), "unset");
    assert_string_equal(asked_value(adam, "weight-decay", value), "0");
}

static void test_a_resolved_configuration_resolves_to_itself(void **state)
{
    (void)state;
    config asked = { { 0 } }, once = { { 0 } }, twice = { { 0 } };
    bool   usage;
    assert_int_equal(config_parse(&asked,
                                  "model = \"lenet5\"\nweight = \"twn:threshold=0.5\"\nlr = 3e-4\n"
                                  "layer = [\"fc2:weight=float\"]\noptimizer = \"adam\"\n",
                                  "f"),
                     QG_OK);
    assert_int_equal(recipe_resolve(&asked, NULL, &once, &usage), QG_OK);
    char *text = config_print(&once, SAVED);
    config_free(&asked);
    assert_int_equal(config_parse(&asked, text, "f"), QG_OK);
    assert_int_equal(recipe_resolve(&asked, NULL, &twice, &usage), QG_OK);
    assert_prints(&twice, text);
    free(text);
    config_free(&asked);
    config_free(&once);
    config_free(&twice);
}

static void test_only_the_identity_of_a_stored_run_is_fixed(void **state)
{
    (void)state;
    config asked = { { 0 } }, stored = { { 0 } }, c = { { 0 } };
    bool   usage;
    assert_int_equal(config_parse(&stored, "model = \"lenet5\"\nbatch = 7\nthreads = 1\n", "f"),
                     QG_OK);
    assert_int_equal(config_parse(&asked, "batch = 7\nthreads = 2\n", "f"), QG_OK);
    assert_int_equal(recipe_resolve(&asked, &stored, &c, &usage), QG_OK);
    assert_string_equal(config_text(&c, "threads"), "2");
    assert_string_equal(config_text(&c, "batch"), "7");
    config_free(&c);
    assert_int_equal(config_set(&asked, option_find("batch"), "8"), QG_OK);
    assert_int_equal(recipe_resolve(&asked, &stored, &c, &usage), QG_EARG);
    assert_false(usage);
    assert_non_null(strstr(qg_errmsg(), "batch is 7 in the run, but 8 is asked for"));
    config_free(&c);
    config_free(&asked);
    config_free(&stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_have_one_spelling),
        cmocka_unit_test(test_order_blanks_and_comments_do_not_matter),
        cmocka_unit_test(test_strings_and_arrays),
        cmocka_unit_test(test_what_is_no_configuration_is_refused_with_its_line),
        cmocka_unit_test(test_values_out_of_range_are_refused),
        cmocka_unit_test(test_schemes_name_what_is_legal),
        cmocka_unit_test(test_a_scheme_becomes_its_quantizer),
        cmocka_unit_test(test_the_last_word_on_a_layer_counts),
        cmocka_unit_test(test_another_optimizer_does_not_inherit_the_recipe),
        cmocka_unit_test(test_a_resolved_configuration_resolves_to_itself),
        cmocka_unit_test(test_only_the_identity_of_a_stored_run_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
