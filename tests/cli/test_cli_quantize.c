/* Post-training quantization with the program build/qgrad, or $QGRAD: quantize. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/io/state.h"
#include "tests/support/program.h"

#define FLOATS   "train " SET "--batch 24 --epochs 3 --json "
#define QUANTIZE "quantize --run @/float --json "
#define INT8     "--weight fake_quant:bits=8,per-channel=yes --input fake_quant:range=observed "
#define W4A8     "--weight fake_quant:bits=4,per-channel=yes --input fake_quant:range=observed "

static int set_up_float(void **state)
{
    if (set_up(state)) return -1;
    assert_status(FLOATS "--out @/float", 0);
    return 0;
}

static bool exists(const char *name) { return access(at(name), F_OK) == 0; }

static void assert_config(const char *path, const char *part)
{
    char said[TEXT_BYTES];
    slurp(at(path), said, sizeof said);
    if (!strstr(said, part)) fail_msg("%s lacks %s", path, part);
}

/* --- what it writes ----------------------------------------------------------------------- */

/* What eval says of a run, with these options, is what the last quantize said of it. */
static void assert_evaluates(const char *run, const char *with)
{
    const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
    char         digest[32];
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_runs("eval --run @/%s %s--json", run, with);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_true(last_number("test_loss") == loss);
    assert_string_equal(last_text("digest"), digest);
}

/* The float run says "quantized" of its ends, which decided nothing. */
static void test_schemes_decide_about_the_ends(void **state)
{
    static const struct {
        const char *with, *ends;
    } runs[] = { { "--weight dorefa", "float" }, { "--weight dorefa --first-last quantized", "quantized" },
                 { "--input dorefa", "float" },  { "--weight twn", "quantized" } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char line[64], config[32];
        snprintf(line, sizeof line, "first-last = \"%s\"", runs[i].ends);
        snprintf(config, sizeof config, "ends-%zu/config.toml", i);
        assert_runs(QUANTIZE "%s --calibrate 24 --out @/ends-%zu", runs[i].with, i);
        assert_config(config, line);
    }
    assert_status("quantize --run @/ends-3 --json --input dorefa --calibrate 24 --out @/ends-both", 0);
    assert_config("ends-both/config.toml", "first-last = \"quantized\"");
}

/* What is a float gets 8 bits, and what has a quantizer keeps it. */
static void test_without_schemes_floats_get_8_bits(void **state)
{
    static const char *const runs[][3] = { { "float", "",
                                             "weight = \"fake_quant:bits=8,range=current,per-channel=yes\"" },
                                           { "twn", "--weight twn ", "weight = \"twn\"\n" },
                                           { "dorefa", "--input dorefa:bits=2 ", "input = \"dorefa:bits=2\"\n" } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char config[48];
        if (i) assert_runs(FLOATS "%s--out @/%s", runs[i][1], runs[i][0]);
        assert_runs("export --run @/%s -o @/floats.qg --json", runs[i][0]);
        assert_true(last_truth("float_inputs") == (i < 2));
        assert_runs("quantize --run @/%s --calibrate 60 --json --out @/%s-8", runs[i][0], runs[i][0]);
        snprintf(config, sizeof config, "%s-8/config.toml", runs[i][0]);
        assert_config(config, runs[i][2]);
        assert_config(config, i < 2 ? "input = \"fake_quant:bits=8,range=observed\"\n" : runs[0][2]);
        assert_runs("export --run @/%s-8 -o @/codes.qg --json", runs[i][0]);
        assert_true(!last_truth("float_inputs"));
    }
    assert_status("export --run @/float -o @/floats.qg", 0);
    assert_stdout("\ninputs         floats in 3 of 3 layers after the first, which take several times as "
                  "long as codes of 8 bits: ");
    /* An exception for one layer leaves the others in floats. */
    assert_runs(FLOATS "--weight twn --layer fc1:input=lsq --out @/some");
    assert_status("export --run @/some -o @/floats.qg", 0);
    assert_stdout("\ninputs         floats in 2 of 3 layers after the first");
    assert_status("quantize --run @/float --layer fc1:weight=twn --calibrate 60 --json --out @/layer", 0);
    assert_config("layer/config.toml", "fc1:weight=twn\"");
    assert_string_equal(last_text("weight"), "float");
}

static void test_the_run_evaluates_as_printed(void **state)
{
    static const char *const schemes[] = { INT8, W4A8, W4A8 "--first-last float ", INT8 "--fold-batchnorm ",
                                           "--weight lsq:bits=4 --input lsq:bits=8 ", "--weight twn ",
                                           "--layer fc1:weight=fake_quant:bits=4 " };
    assert_status("eval --run @/float --json", 0);
    const double was = last_number("test_accuracy");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        assert_runs(QUANTIZE "%s--calibrate 100 --out @/run-%zu", schemes[i], i);
        assert_true(last_number("test_accuracy_before") == was);
        assert_true(last_number("calibrate") == 100);
        assert_true(last_number("packed_bytes") < last_number("float_bytes"));
        /* The images are easy, and the batch norms adapt. */
        assert_true(last_number("test_accuracy") >= was - 0.1);
        char run[16];
        snprintf(run, sizeof run, "run-%zu", i);
        assert_evaluates(run, "");
        assert_runs(QUANTIZE "%s--calibrate 100 --out @/again-%zu", schemes[i], i);
        assert_evaluates(run, "--best ");
        assert_runs("inspect @/%s --json", run);
    }
}

static const float *values(const qg_archive *a, const char *name)
{
    const qg_named_array *e = qg_archive_find(a, name);
    if (!e) fail_msg("no array %s", name);
    return e->array.data;
}

static void test_weights_stay_and_statistics_follow(void **state)
{
    static const char *const kept[] = { "conv1.weight", "bn1.gamma", "bn1.beta", "fc1.weight", "fc2.bias" };
    assert_status(QUANTIZE W4A8 "--calibrate 240 --out @/new", 0);
    qg_archive *was = qg_archive_open(at("float/last.safetensors")), *is = qg_archive_open(at("new/last.safetensors"));
    assert_non_null(was), assert_non_null(is);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_memory_equal(values(was, kept[i]), values(is, kept[i]), qg_archive_find(is, kept[i])->bytes);
    assert_true(*values(was, "bn2.running_var") != *values(is, "bn2.running_var"));
    assert_true(*values(is, "fc2.input.max") > 0 && *values(is, "fc2.input.seen") == 1);
    qg_archive_free(was), qg_archive_free(is);
    char line[64];
    assert_status("eval --run @/float --json", 0);
    snprintf(line, sizeof line, "init-digest = \"%s\"\n", last_text("digest"));
    assert_config("new/config.toml", line);
    assert_config("new/config.toml", "weight = \"fake_quant:bits=4,range=learned,per-channel=yes\"\n");
    assert_status(QUANTIZE W4A8 "--calibrate 240 --freeze bn2 --out @/kept", 0);
    was = qg_archive_open(at("float/last.safetensors")), is = qg_archive_open(at("kept/last.safetensors"));
    assert_memory_equal(values(was, "bn2.running_var"), values(is, "bn2.running_var"),
                        qg_archive_find(is, "bn2.running_var")->bytes);
    qg_archive_free(was), qg_archive_free(is);
}

static void test_threads_change_no_byte_and_the_seed_draws(void **state)
{
    assert_status(QUANTIZE W4A8 "--calibrate 50 --threads 1 --out @/one", 0);
    assert_status(QUANTIZE W4A8 "--calibrate 50 --threads 3 --out @/three", 0);
    run_shell("cmp @/one/last.safetensors @/three/last.safetensors && cmp @/one/best.safetensors @/three/best.safetensors");
    assert_status(QUANTIZE W4A8 "--calibrate 50 --seed 4 --out @/four", 0);
    run_shell("! cmp -s @/one/best.safetensors @/four/best.safetensors");
    assert_config("four/config.toml", "seed = 4\n");
}

/* It is a run before its first step. */
static void test_it_may_be_trained_on(void **state)
{
    assert_status(QUANTIZE W4A8 "--calibrate 50 --out @/new", 0);
    const double seconds = last_number("seconds");
    assert_status("train --resume --out @/new --json", 0);
    assert_true(last_truth("complete") && last_number("epochs") == 3 && last_number("seconds") >= seconds);
    assert_status("eval --run @/new --best --json", 0);
    assert_status(FLOATS W4A8 "--init @/new --epochs 1 --out @/tuned", 0);
}

/* Its validation images are those of the run, and choose again. */
static void test_validation_goes_on(void **state)
{
    assert_status(FLOATS "--validation 24 --out @/held", 0);
    assert_status("quantize --run @/held " W4A8 "--calibrate 24 --out @/new", 0);
    assert_status("train --resume --out @/new --json --budget 0", 3);
    assert_status("train --resume --out @/new --json", 0);
    assert_true(last_truth("complete") && last_number("test_images") > 0);
    assert_true(last_number("validation_accuracy") >= 0);
    run_shell("head -n 1 @/new/metrics.csv | grep -q ,validation_loss,validation_accuracy,");
    /* As an earlier version made it. */
    assert_status("quantize --run @/held " W4A8 "--calibrate 24 --out @/made", 0);
    run_shell("sed -i 's/validation_/test_/g' @/made/metrics.csv");
    assert_status("report @/made --out @/made.html", 0);
    assert_null(strstr(last.err, "warning"));
    assert_status("train --resume --out @/made", 0);
    run_shell("cmp @/made/last.safetensors @/new/last.safetensors");
    run_shell("sed -i 's/validation_/test_/g' @/new/metrics.csv");
    assert_refuses("train --resume --out @/new", 1,
                   "metrics.csv: its columns are those of test images, but validation images choose");
}

/* --- where it comes from, and where it goes ----------------------------------------------- */

static void test_it_appears_whole_beside_the_run(void **state)
{
    assert_status("quantize --run @/float/ " INT8 "--calibrate 30", 0);
    assert_stdout("float-quantized\n");
    assert_stdout("calibrated     on 30 training images of mnist\n");
    assert_status("eval --run @/float-quantized", 0);
    assert_refuses(QUANTIZE INT8, 1, "float-quantized already exists; choose another directory with --out");
    /* As a process leaves it that is killed while it writes. */
    run_shell("mkdir @/new.part && cp @/float/config.toml @/float/metrics.csv @/new.part");
    assert_status(QUANTIZE INT8 "--calibrate 30 --out @/new/", 0);
    assert_true(!exists("new.part") && exists("new/result.json"));
    run_shell("cp -r @/float @/own.part");
    assert_refuses(QUANTIZE INT8 "--calibrate 30 --out @/own", 1,
                   "own.part, where the files are prepared, already contains a run");
    run_shell("diff -r @/float @/own.part && [ ! -e @/own ]");
    run_shell("touch @/file");
    assert_refuses(QUANTIZE INT8 "--calibrate 30 --out @/file", 1, "file already exists");
    assert_refuses(QUANTIZE INT8 "--calibrate 30 --out @/file/run", 1, "cannot");
    assert_refuses("quantize --run . " INT8, 1, "config.toml");
}

/* As on a full disk. */
static void test_a_failed_write_leaves_nothing(void **state)
{
    run_shell("(ulimit -f 8; ! %s quantize --run @/float --weight twn --out @/new > @/out 2> @/err) && [ ! -s @/out ]", program);
    run_shell("grep -q '^qgrad quantize: .*new.part/.*: File too large$' @/err && [ ! -e @/new ] && [ ! -e @/new.part ]");
    assert_status(QUANTIZE "--weight twn --out @/new", 0);
}

static void test_checkpoints_averages_and_normalisation(void **state)
{
    assert_status("quantize --run @/float/best.safetensors --data-dir @/set " INT8 "--calibrate 30 --json --out @/one", 0);
    assert_evaluates("one", "");
    assert_status(FLOATS "--ema 0.9 --normalise channel --augment pad=2,flip --out @/mean", 0);
    assert_refuses("quantize --run @/mean " INT8 "--out @/none", 2, "which only best.safetensors has; pass --best");
    assert_status("eval --run @/mean --best --json", 0);
    const double was = last_number("test_accuracy");
    assert_status("quantize --run @/mean --best " INT8 "--calibrate 30 --json --out @/two", 0);
    assert_true(last_number("test_accuracy_before") == was);
    assert_evaluates("two", "");
    assert_config("two/config.toml", "augment = \"pad=2,flip\"\n");
    assert_status("quantize --run @/mean --best " INT8 "--calibrate 30 --json --out @/three", 0);
    assert_evaluates("two", "--best ");
    run_shell("mv @/set @/moved");
    assert_refuses("quantize --run @/mean --best " INT8 "--out @/four", 1, "set/train-images-idx3-ubyte");
    assert_status("quantize --run @/mean --best " INT8 "--calibrate 30 --json --data-dir @/moved --out @/four", 0);
    assert_evaluates("four", "");
}

/* --- refusals ----------------------------------------------------------------------------- */

static void test_mistakes_are_named(void **state)
{
    assert_refuses("quantize " INT8, 2, "--run is missing");
    assert_refuses("quantize --run @/none " INT8, 1, "there is no run");
    assert_refuses(QUANTIZE "--weight int8", 2, "--weight: unknown scheme 'int8' for weights; available: float, twn");
    assert_refuses(QUANTIZE "--weight sign", 2, "sign is a scheme for inputs, not for weights");
    assert_refuses(QUANTIZE "--weight twn --input sign", 1, "change the order of the layers, so a net is trained with them");
    assert_refuses(QUANTIZE "--weight xnor --layer conv9:weight=twn", 2, "available: conv1, conv2, fc1, fc2");
    assert_refuses(QUANTIZE "--epochs 3 " INT8, 2, "unknown option '--epochs'; see qgrad quantize --help");
    assert_refuses(QUANTIZE INT8 "--calibrate 0", 2, "--calibrate 0 is not in 1..");
    assert_refuses(QUANTIZE INT8 "--calibrate 241", 2, "241 images were asked for, but mnist has 240 for training");
    assert_true(!exists("float-quantized") && !exists("float-quantized.part"));
    assert_status(QUANTIZE INT8, 0);
    assert_true(last_number("calibrate") == 240);           /* all, as there are fewer than 512 */
}

static void test_what_is_quantized_stays_so(void **state)
{
    assert_status(FLOATS "--weight twn --out @/twn", 0);
    assert_refuses("quantize --run @/twn " INT8 "--out @/none", 2,
                   "twn is already quantized: conv1.weight was trained as twn, which cannot become fake_quant:");
    assert_refuses("quantize --run @/twn --weight twn --out @/none", 2, "nothing to quantize");
    assert_status("quantize --run @/twn --input fake_quant:range=observed --calibrate 100 --json --out @/both", 0);
    assert_evaluates("both", "");
    assert_refuses("quantize --run @/both --calibrate 10 --out @/none", 2,
                   "nothing to quantize: this changes no layer of ");
    assert_refuses(QUANTIZE "--weight bop --calibrate 10 --out @/none", 2, "has no latent weights, so only -1 and +1 are allowed");
    assert_true(!exists("none") && !exists("none.part"));
}

static void test_other_images_are_refused(void **state)
{
    run_shell("cp -r @/set @/other && printf x | dd of=@/other/train-images-idx3-ubyte bs=1 seek=100 conv=notrunc status=none");
    assert_refuses(QUANTIZE INT8 "--data-dir @/other", 2, "mnist: the images have digest ");
    assert_stderr("but the run started with ");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up_float, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_schemes_decide_about_the_ends),
        TEST(test_without_schemes_floats_get_8_bits),
        TEST(test_the_run_evaluates_as_printed),
        TEST(test_weights_stay_and_statistics_follow),
        TEST(test_threads_change_no_byte_and_the_seed_draws),
        TEST(test_it_may_be_trained_on),
        TEST(test_validation_goes_on),
        TEST(test_it_appears_whole_beside_the_run),
        TEST(test_a_failed_write_leaves_nothing),
        TEST(test_checkpoints_averages_and_normalisation),
        TEST(test_mistakes_are_named),
        TEST(test_what_is_quantized_stays_so),
        TEST(test_other_images_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
