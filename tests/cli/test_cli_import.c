/* Nets of other programs with the program build/qgrad, or $QGRAD: import. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/state.h"
#include "tests/support/program.h"

/* Its first dense layer reads an image. */
#define NET    "--model 10C5p0-BN-R-MP2-12C3p0-BN-R-40FC-BN-R-10 "
#define IMPORT "import " NET "--weights @/net.safetensors --threads 1 --json "
#define FLOATS "train " NET "--data mnist --data-dir @/set --seed 3 --threads 1 --batch 24 --json "

/* [out][h][w][in] to [out][in][h][w]. */
static float *permuted(const qg_array *a)
{
    const size_t o = a->dims[0], h = a->dims[1], w = a->dims[2], c = a->dims[3];
    const float *from = a->data;
    float       *to   = malloc(o * h * w * c * sizeof *to);
    assert_non_null(to);
    for (size_t i = 0; i < o * h * w * c; i++) {
        const size_t k = i % c, column = i / c % w, row = i / c / w % h;
        to[((i / (c * w * h) * c + k) * h + row) * w + column] = from[i];
    }
    return to;
}

/* The weights of a run as PyTorch saves those of a net with the same names. */
static void save_as_torch(const char *run, const char *to)
{
    static const char *const names[][2] = { { ".gamma", ".weight" }, { ".beta", ".bias" } };
    char                     path[64];
    size_t                   n, m = 0;
    float                   *made[16];
    snprintf(path, sizeof path, "%s/last.safetensors", run);
    qg_archive           *a = qg_archive_open(at(path));
    qg_state             *s = qg_state_new();
    const qg_named_array *e = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) {
        char     name[64], *dot;
        qg_array array = e[i].array;
        snprintf(name, sizeof name, "%s", e[i].name);
        if (strncmp(name, "conv", 4) && strncmp(name, "fc", 2) && strncmp(name, "bn", 2)) continue;
        for (int k = 0; k < 2; k++)
            if ((dot = strstr(name, names[k][0]))) strcpy(dot, names[k][1]);
        if (array.rank == 4) {
            const size_t d[] = { array.dims[3], array.dims[1], array.dims[2] };
            array.data = made[m++] = permuted(&array);
            memcpy(array.dims + 1, d, sizeof d);
            if (*name == 'f') array.rank = 2, array.dims[1] = d[0] * d[1] * d[2];
        }
        qg_state_add(s, name, array);
    }
    assert_int_equal(m, 3);
    assert_ok(qg_state_save(s, at(to)));
    while (m) free(made[--m]);
    qg_state_free(s), qg_archive_free(a);
}

static int set_up_net(void **state)
{
    if (set_up(state)) return -1;
    assert_status(FLOATS "--epochs 3 --out @/float", 0);
    save_as_torch("float", "net.safetensors");
    return 0;
}

/* --- what it writes ----------------------------------------------------------------------- */

static void test_the_net_comes_back(void **state)
{
    char digest[32];
    assert_status("eval @/float --json", 0);
    const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_status(IMPORT "--data mnist --data-dir @/set --out @/new", 0);
    const double found = last_number("test_loss");
    assert_true(fabs(found - loss) < 1e-6 * loss);      /* whose sum is in other batches */
    for (int i = 0; i < 3; i++) {
        if (i) assert_runs("eval @/new --json%s", i > 1 ? " --best" : "");
        assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == found);
        assert_string_equal(last_text("digest"), digest);
    }
    assert_status(IMPORT "--image 16x16x1 --out @/blind", 0);
    assert_string_equal(last_text("digest"), digest);
    assert_true(last_number("images") == 0);
    assert_refuses("eval @/blind", 2, "the data set folder needs --data-dir");
    assert_status("quantize @/blind --data mnist --data-dir @/set --out @/blind-8bit", 0);
    assert_refuses(FLOATS "--epochs 1 --init @/net.safetensors --out @/none", 1,
                   "; qgrad import makes a run of a net of another program");
    assert_refuses("eval @/net.safetensors", 1,
                   "is not a checkpoint of qgrad train; qgrad import reads nets of other programs");
    assert_status("eval @/blind --data mnist --data-dir @/set --json", 0);
    assert_true(last_number("test_loss") == found);
}

static void test_it_is_a_run_as_any_other(void **state)
{
    assert_status(
        IMPORT
        "--data mnist --data-dir @/set --normalise channel:mean=0.5,deviation=0.25 --out @/new",
        0);
    const double accuracy = last_number("test_accuracy");
    assert_status(IMPORT "--data mnist --data-dir @/set --normalise channel:mean=-1,deviation=0.001 "
                  "--out @/wrong", 0);
    assert_stderr("is hardly better than chance; were images normalised in the training (--normalise)");
    run_shell("rm -r @/wrong");
    assert_status("runs @ --json", 0);
    assert_stdout("finished");
    assert_status("inspect @/new --json", 0);
    assert_status("summary --config @/new/config.toml --json", 0);
    assert_status("report @/new", 0);
    assert_int_equal(access(at("new/report.html"), R_OK), 0);
    assert_status("export --run @/new -o @/net.qg --json", 0);
    assert_status("infer @/net.qg --data mnist --data-dir @/set --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_status("quantize @/new --calibrate 100 --json --out @/8bit", 0);
    assert_true(last_number("test_accuracy_before") == accuracy);
    assert_status(FLOATS "--init @/new --weight twn --epochs 1 --out @/tuned", 0);
    assert_refuses("train --resume --out @/new --normalise channel", 2,
                   "normalise is channel:mean=0.5,deviation=0.25 in the run");
    assert_status("train --resume --out @/new --epochs 2 --json", 0);
    assert_true(last_truth("complete") && last_number("epochs") == 2);
}

/* Its configuration says that it has no epochs, which a run must not take over unasked. */
static void test_it_is_trained_with_its_configuration(void **state)
{
#define TUNED "train --config @/new/config.toml --init @/new --weight ste-tern --threads 1 --json "
    assert_status(IMPORT "--data mnist --data-dir @/set --out @/new", 0);
    assert_refuses(TUNED "--out @/none", 2,
                   "epochs is 0 in the configuration, which is of a run that was not trained");
    assert_int_equal(access(at("none"), F_OK), -1);
    assert_status(TUNED "--epochs 0 --out @/measured", 0);
    assert_status(TUNED "--epochs 1 --out @/tuned", 0);
    assert_true(last_truth("complete") && last_number("epochs") == 1);
    run_shell("grep -q 'first-last = \"float\"' @/tuned/config.toml");
    assert_status("train --resume --out @/new --json", 0);
    assert_status("train --resume --config @/new/config.toml --out @/new --json", 0);
    run_shell("printf 'epochs = 0\nweight = \"twn\"\n' > @/mine.toml");
    assert_status(FLOATS "--config @/mine.toml --out @/mine", 0);       /* whose user has chosen it */
}

static void test_it_tells_what_came_from_where(void **state)
{
    assert_status("import " NET "--image 16x16x1 --weights @/net.safetensors --out @/new", 0);
    assert_stdout("conv1 conv1\nbn1 bn1\nconv2 conv2\n");
    assert_stdout("packed: about as large\ndigest         ");
    assert_status(IMPORT "--image 16x16x1 --classes a,b,c,d,e,f,g,h,i,jay --out @/named", 0);
    assert_stdout("\"map\":[\"conv1 conv1\",\"bn1 bn1\",");
    assert_status("inspect @/named/last.safetensors", 0);
    run_shell("grep -q 'a/b/c/d/e/f/g/h/i/jay' @/named/best.safetensors");
}

/* --- refusals ----------------------------------------------------------------------------- */

static void test_mistakes_are_named(void **state)
{
    assert_refuses("import --model lenet5 --out @/new", 2,
                   "--weights is missing: a safetensors file");
    assert_refuses("import --model lenet5 --weights @/net.safetensors", 2,
                   "--out is missing: the new run directory");
    assert_refuses("import --weights @/net.safetensors --out @/new", 2, "--model is missing");
    assert_refuses(IMPORT "--out @/new", 2, "image: pass the size of the images, or a data set");
    assert_refuses(IMPORT "--image 16x16x1 --layout chwn --out @/new", 2, "--layout");
    assert_refuses(IMPORT "--image 16x16x1 --normalise channel --out @/new", 2,
                   "normalise: channel needs the images of a data set");
    assert_refuses(IMPORT
                   "--image 16x16x1 --normalise channel:mean=0.1+0.2,deviation=1+1 --out @/new",
                   2, "channel: mean has 2 numbers, but the images have 1 channel");
    assert_refuses(IMPORT "--image 16x16x1 --normalise channel:mean=123.7,deviation=58.4 --out @/new", 2,
                   "normalise: mean 123.7 and deviation 58.4 are not those of values in 0..1; divide those");
    assert_refuses(FLOATS "--normalise channel:mean=0,deviation=255 --out @/new", 2, "deviation 255 are not");
    assert_refuses(IMPORT "--image 16x16x1 --classes 3/4 --out @/new", 2,
                   "nor names with commas in between and no slash");
    assert_refuses(IMPORT "--image 28x28x1 --data mnist --data-dir @/set --out @/new", 2,
                   "image: 28x28x1 was asked for, but the images of mnist are 16x16x1");
    assert_refuses(IMPORT "--classes 9 --data mnist --data-dir @/set --out @/new", 2,
                   "classes: they are those of the data set");
    assert_refuses(IMPORT "--classes a,b --data mnist --data-dir @/set --out @/new", 2,
                   "classes: they are those of the data set");
    assert_refuses(IMPORT "--image 16x16x1 --out @/float", 1, "float already exists");
    assert_refuses(
        IMPORT "--image 20x20x1 --out @/new", 1,
        "net.safetensors: does not fit the net: fc1.weight [40,192] is [40,432] in the net, fc1.weight; the padding of "
        "--model (32C5p0), --layout or --map may be another");
    /* A slope in place of one per channel has nothing to do with padding or biases. */
    save_as_torch("float", "net.safetensors");
    assert_refuses("import --model 10C5p0-BN-PR(shared)-MP2-12C3p0-BN-R-40FC-BN-R-10 "
                   "--weights @/net.safetensors --image 16x16x1 --out @/new", 1, "prelu1.slope [1] is missing");
    assert_null(strstr(last.err, "b0 is a product"));
    assert_null(strstr(last.err, "--map may"));
    assert_refuses("import --model 10C5p0-R-MP2-12C3p0-BN-R-40FC-BN-R-10 --weights @/net.safetensors "
                   "--image 16x16x1 --out @/new", 1,
                   "conv1.bias [10] is missing in conv1, ");
    assert_stderr("; in --model, b0 is a product without a bias, as in 32C5b0");
    assert_int_equal(access(at("new"), F_OK), -1);
    assert_int_equal(access(at("new.part"), F_OK), -1);
}

/* As on a full disk. */
static void test_a_failed_write_leaves_nothing(void **state)
{
    run_shell("(ulimit -f 8; ! %s import " NET
              "--image 16x16x1 --weights @/net.safetensors --out @/new > @/out 2> @/err)"
              " && [ ! -s @/out ]",
              program);
    run_shell("grep -q '^qgrad import: .*new.part/.*: File too large$' @/err && [ ! -e @/new ] && "
              "[ ! -e @/new.part ]");
    assert_status(IMPORT "--image 16x16x1 --out @/new", 0);
}

/* --- runs without epochs -------------------------------------------------------------------- */

static void test_a_run_without_epochs_is_the_initial_net(void **state)
{
    assert_status(FLOATS "--epochs 0 --out @/zero", 0);
    assert_true(last_truth("complete") && last_number("epochs") == 0 &&
                last_number("test_images") == N_TEST);
    const double accuracy = last_number("test_accuracy");
    for (int i = 0; i < 2; i++) {
        assert_runs("eval @/zero --json%s", i ? " --best" : "");
        assert_true(last_number("test_accuracy") == accuracy);
    }
    assert_status("train --resume --out @/zero --json", 0);
    assert_status("train " SET "--epochs 0 --out @/taken", 0);
    assert_stdout("\ntest accuracy  ");
    /* It is where a longer run begins, whatever its schedule. */
    assert_status(FLOATS "--epochs 2 --schedule cosine --out @/two", 0);
    assert_status(FLOATS "--epochs 0 --schedule cosine --out @/grows", 0);
    assert_status("train --resume --out @/grows --epochs 2 --json", 0);
    assert_same_run("grows", "two");
    assert_status(FLOATS "--epochs 0 --validation 10% --out @/held", 0);
    assert_true(last_number("validation_images") == N_TRAIN / 10 &&
                last_number("test_images") == N_TEST);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up_net, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_net_comes_back),
        TEST(test_it_is_a_run_as_any_other),
        TEST(test_it_is_trained_with_its_configuration),
        TEST(test_it_tells_what_came_from_where),
        TEST(test_mistakes_are_named),
        TEST(test_a_failed_write_leaves_nothing),
        TEST(test_a_run_without_epochs_is_the_initial_net),
    };
    return cmocka_run_group_tests_name("cli/import", tests, NULL, NULL);
}
