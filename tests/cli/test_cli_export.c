/* The program build/qgrad, or $QGRAD: export, infer. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/program.h"

#define INFER "infer --packed @/net.qg --data-dir @/set --json "

static bool exists(const char *name) { return access(at(name), F_OK) == 0; }

/* --- what a packed net computes ------------------------------------------------------------- */

/* Accuracies are those of eval, whatever is quantized, for any batch and any threads. */
static void test_a_packed_net_has_the_accuracy_of_its_run(void **state)
{
    static const char *const nets[] = { "--weight twn", "--weight ttq --normalise channel",
                                        "--weight dorefa:bits=1 --input dorefa:bits=2 --normalise range:low=-1,high=1",
                                        "--weight fake_quant:per-channel=yes --input fake_quant:range=observed --normalise pixel" };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        assert_runs(TRAIN "--epochs 2 %s --force --out @/run --json", nets[i]);
        const double packed = last_number("packed_bytes");
        char         digest[32];
        snprintf(digest, sizeof digest, "%s", last_text("digest"));
        assert_runs("eval --run @/run --json");
        const double accuracy = last_number("test_accuracy");
        assert_runs("export --run @/run -o @/net.qg --json");
        assert_true(last_number("packed_bytes") == packed);
        const double bytes = last_number("file_bytes");
        assert_string_equal(last_text("digest"), digest);
        assert_string_equal(last_text("to"), "packed");
        for (int k = 0; k < 3; k++) {
            assert_runs(INFER "--run @/run --batch %d --threads %d", k == 0 ? 1 : 7 * k, 1 + k % 2);
            assert_true(last_number("equal_scores") == 10 * N_TEST && last_number("equal_labels") == N_TEST);
            assert_true(last_number("largest_difference") == 0);
            assert_true(last_number("test_accuracy") == accuracy && last_number("images") == N_TEST);
            assert_true(last_number("file_bytes") == bytes && last_number("images_per_second") > 0);
            assert_true(last_number("fixed_point") == 0);
            assert_string_equal(last_text("digest"), digest);
        }
    }
    assert_runs(INFER "--requantize tflite");           /* of the last net, of 8-bit codes */
    assert_true(last_number("fixed_point") > 0);
}

/* A training that has not begun is exported as it is evaluated: in floats. */
static void test_delayed_quantizers_of_no_step_wait(void **state)
{
    assert_runs(TRAIN "--weight twn --quantize-weights-after 20 --epochs 0 --out @/run --json");
    assert_runs("export --run @/run -o @/net.qg --json");
    assert_runs(INFER "--run @/run");
    assert_true(last_number("equal_scores") == 10 * N_TEST);
}

static void test_profiles_and_texts(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/run", 0);
    assert_status("export --run @/run --best --to packed --out @/net.qg", 0);
    assert_stdout("best.safetensors\nfile           ");
    assert_stdout(" as float: ");
    assert_status("infer --packed @/net.qg --data-dir @/set --profile --run @/run --best", 0);
    assert_stdout("\nevaluation     600 of 600 scores equal, the others within 0; 60 of 60 labels equal\n");
    assert_string_equal(last.err, "");
    assert_status(TRAIN "--epochs 1 --seed 2 --out @/other", 0);
    assert_status("infer --packed @/net.qg --data-dir @/set --run @/other", 0);
    assert_stderr("other/last.safetensors ");
    assert_stderr("; was it exported from another run, or with --best?");
    assert_status("infer --packed @/net.qg --data-dir @/set --profile --run @/run --best", 0);
    assert_stdout(", 6 steps\ndata           mnist, 60 test images\ntest accuracy  ");
    assert_stdout("layer            step ");
    assert_stdout("\nrelu1            product, 2 bits x floats");
    assert_stdout("\nfc2 ");
    assert_status(INFER "--profile", 0);
    cJSON       *j     = parse();
    const cJSON *steps = cJSON_GetObjectItemCaseSensitive(j, "profile");
    assert_int_equal(cJSON_GetArraySize(steps), 6);
    assert_string_equal(text(cJSON_GetArrayItem(steps, 1), "layer"), "pool1");
    assert_true(number(cJSON_GetArrayItem(steps, 1), "us_per_image") >= 0);
    cJSON_Delete(j);
}

/* --- mistakes ------------------------------------------------------------------------------- */

static void test_mistakes_are_named(void **state)
{
    assert_refuses("export -o @/net.qg", 2, "--run is missing");
    assert_refuses("export --run @/run", 2, "-o FILE is missing");
    assert_refuses("export --run @/run --to onyx -o @/net.qg", 2, "to 'onyx' is not one of packed|onnx|c");
    assert_refuses("export --run @/none -o @/net.qg", 1, "none");
    assert_refuses("infer", 2, "FILE is missing: the packed file");
    assert_refuses("infer -o x", 2, "unknown option '-o'");
    assert_refuses("infer --packed @/none.qg", 1, "none.qg");
    assert_status(TRAIN "--epochs 1 --input fake_quant:range=observed,per-channel=yes --out @/run", 0);
    assert_stdout("no packed file: fc2: its input has a scale per channel");
    assert_refuses("export --run @/run -o @/net.qg", 2, "its input has a scale per channel");
    assert_true(!exists("net.qg"));
    assert_status(TRAIN "--epochs 1 --force --out @/run", 0);
    assert_status("export --run @/run -o @/net.qg", 0);
    assert_refuses("infer @/run", 2, "/run' is a directory, not a packed net; qgrad export");
    assert_refuses("eval @/net.qg", 1, "no safetensors file, but a packed net, which qgrad infer");
    assert_refuses("export --run @/run --to c -o @/net.qg", 1, "net.qg' is not a net in C, so it is not replaced");
    assert_status("export --run @/run --to c -o @/net.c", 0);
    assert_runs("export --run @/run --to c -o @/net.c --json");
    assert_string_equal(last_text("to"), "c");
    assert_refuses("export --run @/run -o @/no/net.qg", 1, "no/net.qg");
    assert_refuses("infer --packed @/net.qg --data sample", 2, "net.qg: takes images of 16x16x1, but those of sample have 28x28x1");
    run_shell("printf x | dd of=@/net.qg bs=1 seek=1000 conv=notrunc status=none");
    assert_refuses(INFER, 1, "net.qg: ");
}

static void assert_has_no_packed_bytes(const char *line)
{
    assert_status(line, 0);
    cJSON *j = parse();
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "packed_bytes")));
    assert_true(number(j, "float_bytes") > 0);
    cJSON_Delete(j);
}

/* Where no packed file can express the net, it has no size, not one of 0. */
static void test_what_cannot_be_packed_has_no_size(void **state)
{
#define CHANNELS "--weight float --input fake_quant:range=observed,per-channel=yes "
    assert_has_no_packed_bytes("summary --model 8C3-BN-R-10 --image 9x9x1 " CHANNELS "--json");
    assert_has_no_packed_bytes(TRAIN CHANNELS "--epochs 1 --out @/channels --json");
    run_shell("grep -q '\"packed_bytes\":null,' @/channels/result.json");
    assert_has_no_packed_bytes("train --resume --out @/channels --json");
    assert_status(TRAIN "--weight float --epochs 1 --out @/float --json", 0);
    assert_has_no_packed_bytes("quantize --run @/float " CHANNELS "--out @/quantized --json");
    assert_status("summary --model lenet5", 0);
    assert_stdout("2330536 bytes as float, 2331442 packed: about as large\n");
    assert_status("summary --model 10 --image 1x1x1", 0);
    assert_stdout("80 bytes as float, 316 packed: 4.0 times larger\n");
    assert_status("export --run @/float -o @/float.qg", 0);
    assert_stdout(" as float: 1.1 times larger\n");
#undef CHANNELS
}

/* Chosen classes are called by the numbers that they had. */
static void test_classes_are_compared_by_name(void **state)
{
    assert_status(TRAIN "--epochs 1 --model " SMALL_NET(3) " --data mnist:classes=7+0+1 --out @/run", 0);
    assert_status("export --run @/run -o @/net.qg", 0);
    assert_status("infer --packed @/net.qg --data mnist:classes=7+0+1 --data-dir @/set", 0);
    assert_status("infer --packed @/net.qg --data-dir @/set", 0);       /* the net notes its data */
    assert_refuses("infer --packed @/net.qg --data mnist:classes=0+1+7 --data-dir @/set", 2,
                   "its class 0 is 7, but that of the images is 0");
}

/* The reader of the tests of the writer knows what is inside; here is how the command treats the file. */
static void test_onnx_files(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/run", 0);
    assert_status("export --run @/run --to onnx -o @/net.onnx", 0);
    assert_stdout(" as float: ");
    run_shell("grep -q digest @/net.onnx");
    assert_status("export --run @/run --to onnx --input-layout nchw -o @/net.onnx --json", 0);
    assert_string_equal(last_text("to"), "onnx");
    assert_status("export --run @/run -o @/net.qg", 0);
    assert_refuses("export --run @/run --to onnx -o @/net.qg", 1, "net.qg' is not an ONNX file of qgrad");
    assert_refuses("export --run @/run --to packed -o @/net.onnx", 1, "net.onnx' is not a packed net");
    assert_status("export --run @/run -o @/again.ONNX --json", 0);      /* as the suffix says */
    assert_string_equal(last_text("to"), "onnx");
    assert_status("export --run @/run -o @/net.c --json", 0);
    assert_string_equal(last_text("to"), "c");
    run_shell("grep -q '^/. %.0f bytes of constants, ' @/net.c", last_number("constant_bytes"));
    assert_true(last_number("memory_bytes") > 0);
    assert_status("export --run @/run -o @/net.c", 0);
    assert_stdout("bytes, and the stack\n");
    assert_refuses("export --run @/run --input-layout chw -o @/net.onnx", 2, "'chw' is not one of nhwc|nchw");
    assert_refuses("export --run @/run --to c --input-layout nchw -o @/net.c", 2, "--input-layout nchw needs --to onnx");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_packed_net_has_the_accuracy_of_its_run),
        TEST(test_delayed_quantizers_of_no_step_wait),
        TEST(test_profiles_and_texts),
        TEST(test_mistakes_are_named),
        TEST(test_onnx_files),
        TEST(test_what_cannot_be_packed_has_no_size),
        TEST(test_classes_are_compared_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
