/* Fine-tuning with the program build/qgrad, or $QGRAD: --init-except, --freeze, --teacher. */
#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "core/io/state.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"

#define TEN   "train " SET "--weight lsq:bits=4 --batch 24 --epochs 2 --optimizer adam --json --out @/ten "
#define TUNED "train " SET "--weight lsq:bits=4 --batch 24 --epochs 4 --optimizer adam --weight-decay 0.01 --ema 0.9 --json "
#define THREE "--model " SMALL_NET(3) " --data mnist:classes=7+0+1 --init @/ten "
#define FINE  TUNED THREE "--init-except fc2 --freeze conv1,conv2 "
#define TAUGHT TUNED "--teacher @/ten "

static int set_up_ten(void **state)
{
    if (set_up(state)) return -1;
    assert_status(TEN, 0);
    return 0;
}

static void assert_config(const char *path, const char *part)
{
    char said[TEXT_BYTES];
    slurp(at(path), said, sizeof said);
    if (!strstr(said, part)) fail_msg("%s lacks %s", path, part);
}

/* --- init and freeze ---------------------------------------------------------------------- */

static void test_what_does_not_fit_must_be_named(void **state)
{
    assert_refuses(TUNED THREE "--out @/none", 1,
                   "ten/last.safetensors: does not fit the net: fc2.weight: shape mismatch: checkpoint [10,40], model [3,40], "
                   "fc2.bias: shape mismatch: checkpoint [10], model [3]; to start these layers afresh, pass --init-except fc2");
    assert_refuses(TUNED THREE "--init-except fc1 --out @/none", 1, "pass --init-except fc2");
    assert_refuses(TUNED THREE "--init-except fc3 --out @/none", 2,
                   "cannot except 'fc3': no layer is named 'fc3'; layers with parameters: conv1, bn1, conv2, bn2, fc1, bn3, fc2");
    assert_refuses(TUNED "--init-except fc2 --out @/none", 2, "init-except: the run starts from no other weights; pass --init RUN");
    assert_refuses(FINE "--freeze conv1,conv9 --out @/none", 2, "freeze: no layer is named 'conv9'; layers: conv1, bn1, relu1");
    assert_refuses(FINE "--freeze conv1,conv2,fc1,fc2 --out @/none", 2, "freeze: every parameter of the net is frozen");
    /* A layer that would fit may start afresh, too. */
    assert_status(TUNED THREE "--init-except fc1,fc2 --budget 0 --out @/both", 3);
    assert_status("train --resume --out @/both", 0);
    assert_config("both/config.toml", "init-except = \"fc1,fc2\"\n");
    assert_status("train " SET "--weight lsq:bits=4 --epochs 1 " THREE "--init-except fc2 --budget 0 --out @/shown", 3);
    assert_stdout("except for: fc2\n");
}

static bool is_layer(const char *name, const char *layer)
{
    return !strncmp(name, layer, strlen(layer)) && name[strlen(layer)] == '.';
}

static bool is_frozen(const char *name)
{
    return is_layer(name, "conv1") || is_layer(name, "bn1") || is_layer(name, "conv2") || is_layer(name, "bn2");
}

/* Weights, learned steps, running statistics, and the averages, which begin with the weights. */
static void test_frozen_layers_keep_their_bytes(void **state)
{
    size_t n;
    int    kept = 0, moved = 0;
    assert_status(FINE "--out @/fine", 0);
    assert_config("fine/config.toml", "init-except = \"fc2\"\nfreeze = \"conv1,conv2\"\n");
    qg_archive           *ten = qg_archive_open(at("ten/last.safetensors")), *fine = qg_archive_open(at("fine/last.safetensors"));
    const qg_named_array *e   = qg_archive_entries(fine, &n);
    for (size_t i = 0; i < n; i++) {
        const char           *name = e[i].name, *of = strncmp(name, "ema.", 4) ? name : name + 4;
        const qg_named_array *was  = qg_archive_find(ten, of);
        const bool            same = was && was->bytes == e[i].bytes && !memcmp(was->array.data, e[i].array.data, was->bytes);
        if (is_frozen(of) && !same) fail_msg("%s is not as it was", name);
        kept += is_frozen(of);
        moved += is_layer(of, "fc1") && !same;
    }
    assert_true(kept > 20 && moved == 4);       /* weights and steps of fc1, and their averages */
    qg_archive_free(ten), qg_archive_free(fine);
    assert_refuses(FINE "--freeze conv1 --resume --out @/fine", 2, "freeze is conv1,conv2 in the run, but conv1 was requested");
    assert_refuses("train --resume --init-except fc1 --out @/fine", 2, "init-except is fc2 in the run, but fc1 was requested");
    assert_status("eval --run @/fine --best --json", 0);
    assert_status("inspect @/fine --json", 0);
}

/* --- a teacher ---------------------------------------------------------------------------- */

static void test_a_teacher_is_part_of_the_run(void **state)
{
    char digest[64], line[96];
    snprintf(digest, sizeof digest, "%s", last_text("digest"));             /* of ten */
    snprintf(line, sizeof line, "teacher-digest = \"%s\"\n", digest);
    assert_status(TAUGHT "--out @/taught", 0);
    assert_config("taught/config.toml", line);
    assert_config("taught/config.toml", "distil = \"temperature=4,weight=0.9\"\n");
    run_shell("mkdir @/moved && mv @/ten @/moved");
    assert_refuses("train --resume --out @/taught", 1, "ten");
    assert_status("train --resume --teacher @/moved/ten --out @/taught --json", 0);
    assert_config("taught/config.toml", "moved/ten\"\n");                   /* remembered */
    assert_status("train --resume --out @/taught --json", 0);
    assert_status("train --config @/taught/config.toml --distil weight=0.5 --budget 0 --out @/other --json", 3);
    assert_config("other/config.toml", "distil = \"temperature=4,weight=0.5\"\n");
    assert_refuses("train --resume --distil temperature=2 --out @/taught", 2,
                   "distil is temperature=4,weight=0.9 in the run, but temperature=2,weight=0.9 was requested");
    assert_status(TUNED "--out @/untaught", 0);
    assert_refuses("train --resume --teacher @/moved/ten --out @/untaught", 2, "started without a teacher");
    run_shell("! cmp -s @/untaught/last.safetensors @/taught/last.safetensors");
}

static void test_another_teacher_is_refused(void **state)
{
    assert_status(TAUGHT "--budget 0 --out @/taught", 3);
    assert_status("train " SET "--batch 24 --epochs 1 --out @/ten --force --json", 0);
    assert_refuses("train --resume --out @/taught", 2, "ten: its weights have digest ");
    assert_stderr("but the run started with a teacher of digest ");
    assert_refuses(TUNED "--distil temperature=2 --out @/none", 2, "distil: the teacher is missing; pass its run with --teacher");
    assert_refuses(TAUGHT "--distil temperature=0 --out @/none", 2, "temperature is 0, must be positive");
    assert_refuses(TAUGHT "--distil weight=2 --out @/none", 2, "weight is 2, not in (0, 1]");
    assert_refuses(TAUGHT "--model " SMALL_NET(3) " --data mnist:classes=0+1+7 --out @/none", 2,
                   "the teacher was trained on images of 16x16x1 in 10 classes, but these are 16x16x1 in 3");
    assert_refuses(TAUGHT "--normalise channel --out @/none", 2, "the teacher's images were normalised as unit, but these are as channel");
    assert_refuses(TUNED "--teacher @/nobody --out @/none", 1, "--teacher: there is no run");
    assert_status(TUNED THREE "--init-except fc2 --normalise channel --out @/three", 0);
    assert_refuses(TUNED "--teacher @/three --model " SMALL_NET(3) " --data mnist:classes=0+1+7 --normalise channel --out @/none", 2,
                   "the teacher's classes have other names than those of the images");
    run_shell("mkdir @/fewer && for f in train-images train-labels; do cp @/set/t10k-${f#train-}* "
              "@/fewer/$f-idx$(case $f in *images) echo 3;; *) echo 1;; esac)-ubyte; done && cp @/set/t10k* @/fewer");
    assert_refuses(TUNED "--teacher @/three --model " SMALL_NET(3) " --data mnist:classes=7+0+1 --data-dir @/fewer --normalise channel --out @/none", 2,
                   "normalised as channel, but these are as channel, with other statistics");
}

/* A checkpoint stands alone, as a teacher, too; and its own quantizers need not be those of the student. */
static void test_a_checkpoint_may_teach(void **state)
{
    assert_status(TAUGHT "--out @/by-run", 0);
    run_shell("mkdir @/alone && cp @/ten/last.safetensors @/alone/t.safetensors");
    assert_status(TUNED "--teacher @/alone/t.safetensors --out @/by-file", 0);
    run_shell("cmp @/by-run/last.safetensors @/by-file/last.safetensors");
    assert_status("train " SET "--weight ttq --batch 24 --epochs 1 --teacher @/ten --out @/ternary", 0);
    assert_stdout("learns from ");
    assert_stdout("temperature=4,weight=0.9");
}

/* --- in C --------------------------------------------------------------------------------- */

/* The examples, on the sample: they look for MNIST first. */
static void test_the_examples_fine_tune_and_classify(void **state)
{
    assert_status("train --model lenet5 --data sample --seed 3 --budget 0 --out @/ten-clothes --json", 3);
    run_shell("b=$(cd ${BUILD:-build} && pwd) && s=$(cd datasets/sample && pwd) && cd @ && mkdir datasets && ln -s $s datasets && "
              "$b/examples/finetune ten-clothes three > said && grep -q '^test accuracy .* of 150 images$' said && "
              "$b/examples/classify three/best.safetensors datasets/sample/test.png > class && grep -qx '[017]' class && "
              "! $b/examples/classify three/best.safetensors said 2> why && grep -q said why");
    assert_config("three/config.toml", "init-except = \"fc2\"\nfreeze = \"conv1,conv2\"\n");
}

/* --- all of it, interrupted --------------------------------------------------------------- */

#define ALL FINE "--epochs 16 --teacher @/three --distil temperature=2,weight=0.7 "

static void test_killed_at_any_moment_it_ends_in_the_same_bytes(void **state)
{
    int kills = 0, status = 1;
    assert_status(TUNED THREE "--init-except fc2 --out @/three", 0);
    assert_status(ALL "--out @/whole", 0);
    for (uint64_t i = 0; status; i++) {
        assert_true(i < 60);
        const long reading = 15 + (long)(qg_bits(7, i) % 30);
        status = qgrad_signalled(ALL "--out @/killed --resume", SIGKILL, reading);
        if (status != 0) assert_int_equal(status, 1000 + SIGKILL);
        kills += status != 0;
    }
    assert_true(kills > 2);
    assert_same_run("whole", "killed");
    assert_status(ALL "--threads 2 --out @/two", 0);
    run_shell("cmp @/whole/last.safetensors @/two/last.safetensors");
}

/* --- whitened patches --------------------------------------------------------------------- */

#define WHITE "train --data sample --model 8C2p0-R-MP3-10 --batch 50 --epochs 2 --threads 1 --json "

/* Whether both checkpoints have the same bytes of this array. */
static bool same_array(const char *a, const char *b, const char *name)
{
    qg_archive           *in[] = { qg_archive_open(at(a)), qg_archive_open(at(b)) };
    const qg_named_array *x = qg_archive_find(in[0], name), *y = qg_archive_find(in[1], name);
    assert_true(x && y && x->bytes == y->bytes);
    const bool same = !memcmp(x->array.data, y->array.data, x->bytes);
    qg_archive_free(in[0]), qg_archive_free(in[1]);
    return same;
}

static void test_a_run_keeps_its_whitening_filters(void **state)
{
    assert_status(WHITE "--whiten-patches conv1 --out @/whole", 0);
    assert_config("whole/config.toml", "whiten-patches = \"conv1\"\n");
    assert_status(WHITE "--whiten-patches conv1 --budget 0 --out @/begun", 3);
    assert_true(same_array("whole/last.safetensors", "begun/last.safetensors", "conv1.weight"));
    assert_false(same_array("whole/last.safetensors", "begun/last.safetensors", "conv1.bias"));
    assert_status("train --resume --threads 2 --json --out @/begun", 0);
    run_shell("cmp @/whole/last.safetensors @/begun/last.safetensors");
    assert_status("eval --run @/whole --json", 0);
    assert_status("quantize @/whole --json", 0);

    /* They are trained where they are only the start. */
    assert_status(WHITE "--epochs 0 --whiten-patches conv1 --out @/start", 0);
    assert_status(WHITE "--init @/start --out @/trained", 0);
    assert_true(same_array("whole/last.safetensors", "start/last.safetensors", "conv1.weight"));
    assert_false(same_array("start/last.safetensors", "trained/last.safetensors", "conv1.weight"));

    assert_refuses("train --resume --whiten-patches conv2 --out @/whole", 2,
                   "whiten-patches is conv1 in the run, but conv2 was requested");
#define REFUSES(options, status, message) assert_refuses(WHITE options " --out @/none", status, message)
    REFUSES("--whiten-patches conv2", 2, "whiten-patches: no layer is named 'conv2'");
    REFUSES("--whiten-patches fc1", 2, "whiten-patches: fc1 is not a product that reads the images");
    REFUSES("--weight twn --whiten-patches conv1", 2, "conv1 is quantized with twn, but must be float");
    REFUSES("--model 9C2p0-R-MP3-10 --whiten-patches conv1", 2, "conv1 has 9 outputs, more than 8");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_ten, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_does_not_fit_must_be_named),
        TEST(test_frozen_layers_keep_their_bytes),
        TEST(test_a_teacher_is_part_of_the_run),
        TEST(test_another_teacher_is_refused),
        TEST(test_a_checkpoint_may_teach),
        TEST(test_the_examples_fine_tune_and_classify),
        TEST(test_killed_at_any_moment_it_ends_in_the_same_bytes),
        cmocka_unit_test_setup_teardown(test_a_run_keeps_its_whitening_filters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
