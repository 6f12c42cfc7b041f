/* Models on the command line: options, recipes, and runs that stop and resume. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>

#include "layers/models/models.h"
#include "tests/support/program.h"

#define MLP "train --model mlp:width=33,depth=2 --data mnist --data-dir @/set --threads 1 "
#define TFC "train --model tfc --data mnist --data-dir @/set --threads 1 --batch 50 "

static void test_every_model_has_a_summary(void **state)
{
    for (const qg_model *const *m = qg_models; *m; m++) {
        assert_runs("summary --json --model %s", (*m)->name);
        assert_string_equal(last_text("model"), (*m)->name);
        assert_true(last_number("macs") > 5e4 && last_number("parameters") > 5e4);
    }
}

static void test_the_help_lists_every_model(void **state)
{
    char line[64];
    assert_status("train --help all", 0);
    for (const qg_model *const *m = qg_models; *m; m++) {
        snprintf(line, sizeof line, "\n  %s ", (*m)->name);
        assert_stdout(line);
    }
}

/* Without --data or --image, the image size is the paper's. */
static void test_the_summary_takes_images_of_any_size(void **state)
{
    assert_status("summary --model resnet20", 0);
    assert_stdout("40551040 multiply-adds");
    assert_status("summary --model resnet20 --image 16x16x3", 0);
    assert_stdout("10138240 multiply-adds");
    assert_status("summary --model resnet20 --data mnist", 0);
    assert_stdout("28 x 28 x 16");
    assert_refuses("summary --model cnv --image 16x16x3", 1, "conv5: kernel 3x3 is larger than its input [1,1,1,128]");
}

#define QUANT_BEFORE_DROPOUT "--data sample --model 8C3-BN-R-D0.5-8C3-BN-R-10 --weight twn --input fake_quant"

/* What dropout and pooling pass on are codes. */
static void test_the_summary_says_what_a_product_reads(void **state)
{
    assert_status("summary " QUANT_BEFORE_DROPOUT, 0);
    assert_stdout("fake_quant     8       576");
    assert_status("summary " QUANT_BEFORE_DROPOUT " --json", 0);
    assert_stdout("\"name\":\"conv2\",\"type\":\"conv2d\"");
    assert_null(strstr(strstr(last.out, "\"name\":\"conv2\""), "\"input\":\"float\""));
}

/* A relu before a pool makes all signs the same, but not the levels of adabin. */
static void test_a_relu_before_a_pool_stays_where_no_signs_follow(void **state)
{
    static const struct { const char *input; bool relu; } inputs[] = {
        { "sign", false }, { "adabin", true }, { "pact", true }
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        assert_runs("summary --data sample --model 8C3-BN-R-AP2-8C3-BN-10 --input %s", inputs[i].input);
        assert_true(!strstr(last.out, "relu1") == !inputs[i].relu);
    }
}

/* A sign that takes the place of the R before a block is what the shortcut reads. */
static void test_the_summary_says_what_a_shortcut_carries(void **state)
{
    static const struct { const char *line, *says; } rows[] = {
        { "--model 8C3-BN-R-{8C3-BN}-R-GAP-10 --input sign", "\nquant1           also read by add1: the shortcut carries -1 and +1 (sign), not" },
        { "--model 8C3-BN-R-{8C3-BN}-R-GAP-10 --input pact", "also read by add1: the shortcut carries the values of pact\n" },
        { "--model 8C3-BN-R-{9C3s2-BN}:A-R-GAP-10 --input sign", "also read by shortcut1: the shortcut carries -1 and +1" },
        { "--model resnet20 --input xnor:scale=off", "also read by add9: the shortcut carries -1 and +1 (xnor:scale=off)" },
        { "--model 8C3-BN-{R-8C3-BN}-R-GAP-10 --input sign", NULL },
        { "--model 8C3-BN-R-{8C3-BN}-R-GAP-10 --weight twn", NULL },
        { "--model 8C3-BN-R-D0.5-8C3-10 --input sign", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_runs("summary --data sample %s", rows[i].line);
        if (rows[i].says) assert_stdout(rows[i].says);
        else assert_null(strstr(last.out, "also read by"));
    }
}

static void test_options_have_one_spelling(void **state)
{
    assert_status("summary --json --model resnet20:shortcut=B,order=pre", 0);
    assert_string_equal(last_text("model"), "resnet20:order=pre,shortcut=B");
    assert_true(last_number("parameters") == 272282);
    assert_status("summary --json --model vgg7:width=1.00", 0);
    assert_string_equal(last_text("model"), "vgg7");
    assert_status("summary --json --model birealnet18:width=0.50", 0);
    assert_string_equal(last_text("model"), "birealnet18:width=0.5");
    assert_status("summary --json --model resnet18", 0);
    assert_true(last_number("parameters") == 11173962);
}

static void test_wrong_options_are_named_with_what_is_legal(void **state)
{
    assert_refuses("summary --model vgg7:width=9", 2, "--model: vgg7: width is 9, not in 0.0625..4");
    assert_refuses("summary --model mlp:depth=1.5", 2, "mlp: depth is 1.5, not a whole number");
    assert_refuses("summary --model mlp:depth=17", 2, "mlp: depth is 17, not in 1..16");
    assert_refuses("summary --model mlp:width=", 2, "mlp: width '' is not a number");
    assert_refuses("summary --model mlp:dropout=1", 2, "mlp: dropout is 1, not in 0..0.99");
    assert_refuses("summary --model resnet20:order=both", 2, "resnet20: order 'both' is not one of post|pre");
    assert_refuses("summary --model resnet20:shortcut=C", 2, "resnet20: shortcut 'C' is not one of A|pool|B");
    assert_refuses("summary --model resnet20:width=2", 2, "resnet20: unknown option 'width'; available: order, shortcut");
    assert_refuses("summary --model resnet18:order=pre", 2, "resnet18: unknown option 'order'; available: width");
    assert_refuses("summary --model lenet5:width=2", 2, "lenet5: unknown option 'width'; available: none");
    assert_refuses("summary --model :width=2", 2, "unknown model ''; available: lenet5, lenet5-xnor, mlp");
    assert_refuses("summary --model VGG7", 2, "unknown model 'VGG7'; available: lenet5, lenet5-xnor, mlp");
    assert_refuses("summary --model ResNet20:order=pre", 2, "unknown model 'ResNet20'; available");
    assert_refuses("summary --model resnet20 --layer shortcut1:weight=float", 2, "has no layer 'shortcut1' with a weight");
    assert_status("summary --model resnet20:shortcut=B --weight twn --layer shortcut1:weight=float", 0);
}

static void assert_goes_on(const char *train, const char *name, const char *whole)
{
    assert_stops("%s--epochs 3 --budget 0 --out @/%s --json", train, name);
    assert_false(last_truth("complete"));
    assert_runs("train --resume --out @/%s --json", name);
    assert_runs("%s--epochs 3 --out @/%s --json", train, whole);
    assert_same_run(name, whole);
}

static void test_a_run_keeps_its_model(void **state)
{
    assert_goes_on(MLP "--weight binaryconnect:start=unit,glorot-lr=adam ", "mlp", "mlp-whole");
    assert_refuses("train --resume --out @/mlp --model mlp", 2, "model is mlp:depth=2,width=33 in the run, but mlp was requested");
    assert_status("train --resume --out @/mlp --model mlp:depth=2,width=33 --json", 0);
    assert_status("eval --run @/mlp --json", 0);
    assert_string_equal(last_text("model"), "mlp:depth=2,width=33");
    assert_status("inspect @/mlp", 0);
}

#define NET  "8C5s2p2-BN-R-{8C3-BN-R-8C3-BN}-R-MP2-10"
#define TEXT "train --model " NET " --data mnist --data-dir @/set --threads 1 --batch 50 "

static void test_a_net_as_text_is_a_model(void **state)
{
    assert_goes_on(TEXT "--weight twn --layer conv2:weight=float ", "text", "text-whole");
    assert_refuses("train --resume --out @/text --model 8C5-10", 2, "model is " NET " in the run, but 8C5-10 was requested");
    assert_status("eval --run @/text --json", 0);
    assert_string_equal(last_text("model"), NET);
    assert_status("inspect @/text", 0);
    assert_stdout("conv3");
    assert_status(TEXT "--init @/text --epochs 1 --out @/text-tuned --json", 0);
    assert_status("bench train --model " NET " --image 12x12x2 --batch 2 --seconds 0.01 --json", 0);
    assert_status("summary --json --model 16C3-GAP-10 --image 9x9x2", 0);
    assert_string_equal(last_text("model"), "16C3-GAP-10");
    assert_true(last_number("macs") == 9 * 9 * 16 * 3 * 3 * 2 + 16 * 10);
    assert_status("summary --model 16C3-MP3s2p1-AP2s1-10 --image 9x9x2", 0);
    assert_stdout("3x3 stride 2 pad 1");
    assert_stdout("2x2 stride 1");
}

static void test_the_zoo_is_text(void **state)
{
    char zoo[17];
    assert_status("train " SET "--model lenet5 --weight twn --epochs 1 --out @/zoo --json", 0);
    snprintf(zoo, sizeof zoo, "%s", last_text("digest"));
    assert_status("train --model 32C5p0-BN-R-MP2-64C5p0-BN-R-MP2-512FC-BN-R-10 --data mnist --data-dir @/set --seed 3 --threads 1 "
                  "--weight twn --epochs 1 --batch 50 --lr 0.01 --momentum 0.9 --weight-decay 1e-4 "
                  "--schedule step:at=0.5+0.83333,factor=0.1 --out @/as-text --json", 0);
    assert_string_equal(last_text("digest"), zoo);
}

static void test_wrong_nets_are_shown_at_the_character(void **state)
{
    assert_refuses("summary --model 16C3-XY-10", 2, "--model: net '16C3-XY-10': character 6: 'XY' is no layer");
    assert_refuses("summary --model 16C3-12", 2, "character 6: the net ends with 12 outputs, but the data has 10 classes");
    assert_refuses("train --model 16C3-10 --out @/none --data cifar10 --data-dir @/set --layer conv2:weight=twn", 2,
                   "net has no layer 'conv2' with a weight; available: conv1, fc1");
    char line[700] = "summary --model ";
    for (int i = 0; i < 130; i++) strcat(line, "1C1-");
    strcat(line, "10");
    assert_refuses(line, 2, "--model: the value is longer than 511 bytes");
}

/* 1W1A is the recipe; the others change weights and inputs, and first-last leaves the image alone. */
static void test_finn_nets_train_at_their_bits(void **state)
{
    assert_goes_on(TFC, "tfc", "tfc-whole");
    char config[4096];
    slurp(at("tfc/config.toml"), config, sizeof config);
    assert_non_null(strstr(config, "weight = \"unit:as=paper,bits=1\"\ninput = \"unit:bits=1\"\n"));
    assert_non_null(strstr(config, "loss = \"squared-hinge\"\n"));
    assert_non_null(strstr(config, "schedule = \"step:every=0.04,factor=0.5\"\n"));
    assert_status(TFC "--input unit:bits=2 --epochs 1 --out @/1w2a --json", 0);
    assert_status(TFC "--weight unit:bits=2 --input unit:bits=2 --epochs 1 --out @/2w2a --json", 0);
    assert_status(TFC "--first-last float --epochs 1 --out @/first-last --json", 0);
}

static void test_a_loss_is_one_of_two(void **state)
{
    assert_status(MLP "--epochs 1 --loss cross-entropy --out @/cross-entropy --json", 0);
    assert_refuses("train --model mlp --loss hinge", 2, "'hinge' is not one of cross-entropy|squared-hinge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_model_has_a_summary),
        cmocka_unit_test(test_the_help_lists_every_model),
        cmocka_unit_test(test_the_summary_takes_images_of_any_size),
        cmocka_unit_test(test_the_summary_says_what_a_product_reads),
        cmocka_unit_test(test_a_relu_before_a_pool_stays_where_no_signs_follow),
        cmocka_unit_test(test_the_summary_says_what_a_shortcut_carries),
        cmocka_unit_test(test_options_have_one_spelling),
        cmocka_unit_test(test_wrong_options_are_named_with_what_is_legal),
        cmocka_unit_test(test_a_run_keeps_its_model),
        cmocka_unit_test(test_a_net_as_text_is_a_model),
        cmocka_unit_test(test_the_zoo_is_text),
        cmocka_unit_test(test_wrong_nets_are_shown_at_the_character),
        cmocka_unit_test(test_finn_nets_train_at_their_bits),
        cmocka_unit_test(test_a_loss_is_one_of_two),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
