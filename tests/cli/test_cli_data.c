/* The data sets, --normalise and --augment of the program build/qgrad, or $QGRAD. */
#include "core/io/safetensors.h"
#include "tests/support/testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/io/state.h"
#include "tests/support/inside.h"
#include "tests/support/pictures.h"
#include "tests/support/packed.h"
#include "tests/support/foreign.h"
#include "tests/support/program.h"

#define THREE TRAIN "--model lenet5 --data mnist:classes=7+0+1 --epochs 2 "
#define MADE TRAIN "--normalise channel --augment pad=2,flip,cutout=4 "

static void test_refusals(void **state)
{
    assert_refuses("train --model lenet5 --data folder", 2, "folder: size is missing: height, width and channels, as in 32x32x3");
    assert_refuses("train --model lenet5 --data folder:32x32", 2, "folder: size needs 3 numbers separated by x, not 2");
    assert_refuses("train --model lenet5 --data folder:32x32x2", 2, "folder: images have 1 or 3 channels, not 2");
    assert_refuses("train --model lenet5 --data folder:32x32x3", 2, "the data set folder needs --data-dir");
    assert_refuses("train --model lenet5 --data mnist:classes=0+10", 2, "mnist: classes is 10, not in 0..9");
    assert_refuses("train --model lenet5 --data mnist:classes=3+1+3", 2, "mnist: classes has 3 twice");
    assert_refuses("train --model lenet5 --data mnist:class=3", 2, "mnist: unknown option 'class'; available: classes");
    assert_refuses("train --model lenet5 --data cifar10 --data-dir @/no", 1,
                   "; pass the directory of the data set as --data-dir, or fetch it with "
                   "datasets/fetch.sh cifar10");
    assert_refuses(TRAIN "--normalise chanel", 2, "unknown normalisation 'chanel'; available: unit, range, channel, pixel, whiten");
    assert_refuses(TRAIN "--normalise range:low=1,high=1", 2, "range: low is 1, not below high, 1");
    assert_refuses(TRAIN "--normalise channel:x=1", 2,
                   "channel: unknown option 'x'; available: mean, deviation");
    assert_refuses(TRAIN "--augment pad=0", 2, "augmentation: pad is 0, not in 1..4096");
    assert_refuses(TRAIN "--augment flip,shear", 2, "unknown option 'shear'; available: rotate, scale, pad");
    assert_refuses(TRAIN "--augment border=reflect", 2, "border has no effect without rotate, scale or pad");
    assert_refuses(TRAIN "--augment border=mirror,pad=2", 2, "border 'mirror' is not one of zero|reflect|repeat");
    assert_refuses(TRAIN "--augment pad=16 --out @/none", 2, "images of 16x16 can be padded by 0..15, not by 16");
}

/* A whole run: on two threads, and in pieces; and its config has the one spelling. */
static void test_augmented_runs_resume_to_the_same_bytes(void **state)
{
    char config[TEXT_BYTES];
    assert_status(MADE "--epochs 6 --threads 1 --out @/whole --json", 0);
    slurp(at("whole/config.toml"), config, sizeof config);
    assert_non_null(strstr(config, "normalise = \"channel\"\naugment = \"pad=2,flip,cutout=4\"\n"));
    assert_status(MADE "--epochs 6 --threads 2 --out @/two --json", 0);
    assert_same_run("whole", "two");

    assert_status(MADE "--epochs 6 --out @/parts --budget 0 --json", 3);
    finish_in_sittings("parts", 35);
    assert_same_run("whole", "parts");

    assert_refuses("train --resume --out @/whole --augment pad=2", 2,
                   "augment is pad=2,flip,cutout=4 in the run, but pad=2 was requested");
    assert_refuses("train --resume --out @/whole --normalise pixel", 2,
                   "normalise is channel in the run, but pixel was requested");
    assert_status(TRAIN "--normalise channel --epochs 6 --out @/plain --json", 0);
    char a[TEXT_BYTES], b[TEXT_BYTES];
    slurp(at("whole/metrics.csv"), a, sizeof a);
    slurp(at("plain/metrics.csv"), b, sizeof b);
    assert_string_not_equal(a, b);
}

/* eval normalises the test images as training did, with the statistics of the training images. */
static void test_eval_normalises_as_training_did(void **state)
{
    static const char *const kinds[] = { "channel", "pixel", "range:low=-2,high=3", "whiten" };
    for (int i = 0; i < 4; i++) {
        assert_runs(TRAIN "--epochs 2 --normalise %s --augment pad=1 --out @/run%d --json", kinds[i], i);
        const double accuracy = last_number("test_accuracy");
        assert_runs("eval --run @/run%d --json", i);
        assert_true(last_number("test_accuracy") == accuracy);
    }
    assert_status("inspect @/run0 --json", 0);
}

/* A net reads images of any size if its weights do not depend on it. */
static void test_eval_names_the_size_that_does_not_fit(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/run --json", 0);
    assert_refuses("eval --run @/run --data sample", 2,
                   "sample: its images are 28x28x1 in 10 classes, but the run's are 16x16x1 in 10");
    assert_status("train --model resnet20 --data mnist --data-dir @/set --batch 120 --epochs 1 --budget 0 --out @/deep --json", 3);
    assert_status("eval --run @/deep --data sample --json", 0);
}

/* Other images are also normalised with the run's training images, whose statistics are in its checkpoints. */
static void test_eval_of_other_images_keeps_the_statistics(void **state)
{
    assert_status(TRAIN "--epochs 2 --normalise channel --out @/run --json", 0);
    assert_status("eval --run @/run --json", 0);
    const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
    assert_int_equal(mkdir(at("tests"), 0700), 0);
    run_shell("cp @/set/t10k* @/tests");
    assert_status("eval --run @/run --data fashion-mnist --data-dir @/tests --json", 0);
    assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == loss);
    assert_status("eval --run @/run --data-dir @/tests --json", 0);
    run_shell("cp @/set/t10k-images* @/tests/train-images-idx3-ubyte && cp @/set/t10k-labels* @/tests/train-labels-idx1-ubyte");
    assert_status("eval --run @/run --data-dir @/tests --json", 0);
    assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == loss);

    run_shell("mv @/set @/moved");
    assert_status("eval --run @/run --data-dir @/tests --json", 0);
    assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == loss);
    note_anew(at("run/last.safetensors"), "normalise", NULL);
    assert_refuses("eval --run @/run --data-dir @/moved", 1, "it does not say how its images are preprocessed");
}

static void assert_noted(const char *path, const char *key, const char *value)
{
    qg_archive *a = qg_archive_open(path);
    if (!a) fail_msg("%s", qg_errmsg());
    assert_non_null(qg_archive_noted(a, key));
    assert_string_equal(qg_archive_noted(a, key), value);
    qg_archive_free(a);
}

static void write_class(const char *split, const char *name, int bright, uint64_t key)
{
    uint8_t p[12 * 10 * 3];
    char    path[96];
    snprintf(path, sizeof path, "pics/%s/%s", split, name);
    assert_int_equal(mkdir(at(path), 0700), 0);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 12 * 10 * 3; k++)
            p[k] = (uint8_t)(qg_bits(key, (uint64_t)(i * 360 + k)) % 100 + (k / 180 == bright ? 150 : 0));
        snprintf(path, sizeof path, "pics/%s/%s/%d.%s", split, name, i, i % 2 ? "png" : "bmp");
        (i % 2 ? write_png : write_bmp)(at(path), p, 12, 10);
    }
}

static void write_pictures(void)
{
    assert_int_equal(mkdir(at("pics"), 0700) | mkdir(at("pics/train"), 0700) | mkdir(at("pics/test"), 0700), 0);
    for (int i = 0; i < 2; i++) {
        write_class(i ? "test" : "train", "above", 0, (uint64_t)(4 + 2 * i));
        write_class(i ? "test" : "train", "below", 1, (uint64_t)(5 + 2 * i));
    }
}

static void test_a_folder_of_images_is_learned(void **state)
{
    write_pictures();
    assert_status("train --model lenet5 --data folder:16x16x3 --data-dir @/pics --epochs 8 --batch 8 "
                  "--optimizer adam --normalise channel --augment pad=1,flip --out @/pictures --json", 0);
    assert_true(last_number("test_accuracy") == 1);           /* half a picture is 150 brighter */
    assert_null(strstr(last.err, "warning"));
    write_bytes(at("pics/test/above/notes.txt"), "x", 1);
    assert_status("train --resume --out @/pictures --json", 0);
    assert_stderr("qgrad: warning: '");
    assert_stderr("/pics/test': skipped 1 file that is not PNG, JPEG or BMP, such as '");
    assert_int_equal(unlink(at("pics/test/above/notes.txt")), 0);
    assert_status("eval --run @/pictures --json", 0);
    assert_true(last_number("test_accuracy") == 1);
    assert_true(last_number("images") == 40);
    assert_noted(at("pictures/best.safetensors"), "class-names", "above/below");

    /* What is measured on the test images needs no training images, and finds the images of its run. */
    assert_status("export --run @/pictures --out @/pictures.qg", 0);
    assert_int_equal(rename(at("pics/train"), at("pics/gone")), 0);
    assert_status("eval --run @/pictures --json", 0);
    assert_true(last_number("test_accuracy") == 1);
    assert_status("infer --packed @/pictures.qg --run @/pictures --json", 0);
    assert_true(last_number("test_accuracy") == 1 && last_number("equal_scores") == 2 * 40);
    assert_status("report @/pictures", 0);
    assert_null(strstr(last.err, "warning"));
    assert_refuses("infer --packed @/pictures.qg", 2, "the data set folder needs --data-dir");
    assert_refuses("train --resume --out @/pictures --epochs 9", 1, "cannot list '");
    assert_int_equal(rename(at("pics/gone"), at("pics/train")), 0);

    /* The number of classes is not known before the images are read. */
    assert_status("train --model 4C3-R-2 --data folder:16x16x3 --data-dir @/pics --epochs 1 --out @/text --json", 0);
    assert_refuses("train --model 4C3-R-3 --data folder:16x16x3 --data-dir @/pics --out @/none", 2,
                   "character 7: the net ends with 3 outputs, but the data has 2 classes");
    assert_int_equal(rename(at("pics"), at("moved")), 0);
    assert_status("train --resume --out @/pictures --data-dir @/moved --json", 0);     /* and it is remembered */
    assert_status("eval --run @/pictures --json", 0);
    assert_int_equal(rename(at("moved/train/above"), at("moved/train/zenith")), 0);
    assert_int_equal(rename(at("moved/test/above"), at("moved/test/zenith")), 0);
    assert_refuses("eval --run @/pictures", 2, "moved: its class names differ from those the run was trained on");
    assert_refuses("train --resume --out @/pictures", 2, "digest");
    assert_int_equal(symlink("nowhere", at("moved/train/lost")), 0);
    assert_refuses("train --model lenet5 --data folder:16x16x3 --data-dir @/moved --out @/none", 1, "moved/train/lost': No such");
    assert_refuses("train --resume --out @/pictures --data folder:20x20x3", 2,
                   "data is folder:16x16x3 in the run, but folder:20x20x3 was requested");
}

#define LARGE "train --model 4C3-BN-R-MP2-2 --data folder:16x16x3 --data-dir @/pics --epochs 4 --batch 8 --optimizer adam " \
              "--normalise channel --augment pad=1,flip --validation 10%% --json "

/* No cache and no number of threads changes a byte, whether a run is stopped, killed or neither. */
static void test_a_folder_larger_than_its_cache(void **state)
{
    static const char *const caches[] = { "--cache 0 --threads 1", "--cache 3K --threads 2", "--cache 1G --threads 3" };
    char digest[32];
    write_pictures();
    assert_runs(LARGE "--out @/memory");
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    for (int i = 0; i < 3; i++) {
        assert_runs(LARGE "%s --out @/cache", caches[i]);
        assert_string_equal(last_text("digest"), digest);
        assert_same_run("memory", "cache");
        run_shell("rm -r @/cache");
    }
    assert_stops(LARGE "--cache 2K --budget 0 --out @/killed");
    const pid_t pid = start("train --resume --out @/killed --json");
    kill(pid, SIGKILL);
    finish(pid);
    assert_status("train --resume --out @/killed --json", 0);
    assert_same_run("memory", "killed");
    assert_status("eval --run @/killed --json", 0);
    const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
    assert_status("eval --run @/killed --cache 0 --threads 2 --json", 0);
    assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == loss);

    /* A packed net reads them in batches, too: the same scores as evaluation, which reads its own. */
    assert_status("export --run @/killed -o @/net.qg", 0);
    for (int i = 0; i < 3; i++) {
        assert_runs("infer --packed @/net.qg --run @/killed --data-dir @/pics --batch %d --profile %s --json", 1 + 4 * i, caches[i]);
        assert_true(last_number("test_accuracy") == accuracy && last_number("images_per_second") > 0);
        assert_true(last_number("equal_labels") == last_number("images"));
        assert_true(last_number("equal_scores") == 2 * last_number("images"));
    }
    assert_refuses("infer --packed @/net.qg --data mnist --data-dir @/set --cache 1G", 2, "cache: only images of a folder");
    assert_refuses("eval --run @/killed --data mnist --data-dir @/nowhere", 1, "nowhere");

    assert_refuses("train --model lenet5 --data mnist --data-dir @/set --cache 1G", 2,
                   "cache: only images of a folder are decoded when they are needed; mnist stays in memory");
    assert_refuses("train --model lenet5 --cache 1GB", 2, "'1GB' is not a size; write 1G, 512M, 64K or a number of bytes");
    assert_refuses("train --model lenet5 --cache -1", 2, "'-1' is not a size");
    write_bytes(at("pics/train/above/1.png"), "x", 1);
    assert_refuses("train --resume --out @/killed", 1, "above/1.png' is not a PNG, JPEG or BMP file");
}

/* inspect works for any kind of images, even after they have moved. */
static void test_inspect_needs_no_images(void **state)
{
    write_pictures();
    assert_status("train --model lenet5 --data folder:16x16x3 --data-dir @/pics --epochs 1 --batch 8 --weight ttq "
                  "--normalise channel --out @/pictures --json", 0);
    assert_status(TRAIN "--epochs 1 --out @/digits --json", 0);
    run_shell("mkdir @/away && mv @/pics @/set @/away");
    assert_status("inspect @/pictures --json", 0);
    cJSON *j = parse();
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(j, "layers")), 4);
    cJSON_Delete(j);
    assert_status("inspect @/pictures", 0);
    assert_stdout("fc2.weight.wp");
    assert_status("inspect @/pictures --best --json", 0);
    assert_status("inspect @/digits --json", 0);

    note_anew(at("pictures/last.safetensors"), "image", NULL);
    assert_refuses("inspect @/pictures", 1, "last.safetensors: does not note the size of its images");
    run_shell("rm @/pictures/last.safetensors");
    assert_refuses("inspect @/pictures", 1, "last.safetensors");
}

/* A checkpoint needs neither its run nor its training images. */
static void test_a_checkpoint_stands_alone(void **state)
{
    static const char *const kinds[] = { "unit", "range:low=-2,high=3", "channel", "pixel" };
    for (int i = 0; i < 4; i++) {
        assert_runs(TRAIN "--epochs 1 --normalise %s --out @/run%d --json", kinds[i], i);
        assert_runs("eval --run @/run%d --json", i);
        const double accuracy = last_number("test_accuracy"), loss = last_number("test_loss");
        run_shell("mkdir @/alone && cp @/run*/last.safetensors @/alone/a.safetensors && mv @/run*/best.safetensors @/alone && "
                  "rm @/run*/config.toml @/run*/metrics.csv && mkdir @/away && mv @/set/train* @/away");
        static const char *const names[] = { "@/alone/a.safetensors", "@/alone/best.safetensors", NULL };
        for (int k = 0; k < 3; k++) {
            if (names[k]) assert_runs("eval --run %s --data-dir @/set --json", names[k]);
            else assert_runs("eval --run @/run%d --data-dir @/set --json", i);
            assert_true(last_number("test_accuracy") == accuracy && last_number("test_loss") == loss);
            if (names[k]) assert_runs("inspect %s --json", names[k]);
            else assert_runs("inspect @/run%d --json", i);
        }
        assert_status("eval --run @/alone/best.safetensors --data-dir @/set", 0);
        assert_stdout("alone/best.safetensors");
        run_shell("mv @/away/* @/set && rm -r @/alone @/away @/run*");
    }
    run_shell("echo none > @/text.safetensors");
    assert_refuses("eval --run @/text.safetensors", 1, "text.safetensors");
    assert_refuses("eval --run @/nothing.safetensors", 1, "there is no run");
}

/* A checkpoint with these notes, which may be NULL. */
static void write_notes(const char *path, const char *recipe, const char *kind)
{
    qg_state *s = qg_state_new();
    qg_state_set_note(s, "format", "qgrad 2");
    qg_state_set_note(s, "recipe", recipe);
    qg_state_set_note(s, "kind", kind);
    qg_state_set_note(s, "image", "16x16x1");
    qg_state_set_note(s, "classes", "10");
    assert_ok(qg_state_save(s, path));
    qg_state_free(s);
}

static void test_a_checkpoint_must_say_what_it_is(void **state)
{
    static const struct { const char *recipe, *kind; int status; const char *says; } rows[] = {
        { NULL, "weights", 1, "a.safetensors: is not a checkpoint of qgrad train" },
        { "", "weights", 1, "a.safetensors: does not say which model it is of" },
        { "lr = 0.1\n", "checkpoint", 1, "a.safetensors: does not say which model it is of" },
        { "model = lenet5\n", "weights", 1, "a.safetensors:1: model takes a string in quotes" },
        { "model = \"16C3-\"\n", "weights", 1, "a.safetensors:1: model: net '16C3-': character 6: a layer is missing" },
        { "model = \"mlp\"\n", "thing", 1, "a.safetensors: its kind 'thing' is neither checkpoint nor weights" },
        { "sgd = 1\nepochs = 3\nnet-digest = \"0\"\n", "checkpoint", 2,
          "a.safetensors: only the program that trained it with qg_fit can declare its net" },
    };
    run_shell("mkdir @/said");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_notes(at("said/a.safetensors"), rows[i].recipe, rows[i].kind);
        const bool foreign = strstr(rows[i].says, "only the program");
        assert_refuses("eval --run @/said/a.safetensors", rows[i].status, rows[i].says);
        assert_refuses("inspect @/said/a.safetensors", foreign ? 1 : rows[i].status,
                       foreign ? "a.safetensors: has no weights" : rows[i].says);
    }
    run_shell("mv @/said/a.safetensors @/said/last.safetensors && echo 'sgd = 1' > @/said/config.toml");
    assert_refuses("eval --run @/said", 2, "last.safetensors: only the program that trained it");
    run_shell("rm -r @/said");
}

/* The checkpoint at from with another note; more: put before its own. */
static void write_noted(const char *from, const char *to, const char *key, const char *value, bool more)
{
    size_t                n;
    char                  text[4096];
    qg_archive           *a = qg_archive_open(from);
    qg_state             *s = qg_state_new();
    const qg_named_array *entry = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) qg_state_add(s, entry[i].name, entry[i].array);
    const qg_note *note = qg__archive_notes(a, &n);
    for (size_t i = 0; i < n; i++) qg_state_set_note(s, note[i].key, note[i].value);
    snprintf(text, sizeof text, "%s%s", value, more ? qg_archive_noted(a, key) : "");
    qg_state_set_note(s, key, text);
    assert_ok(qg_state_save(s, to));
    qg_state_free(s);
    qg_archive_free(a);
}

/* The matrix of whitening is a file of its own, and only the right one will do. */
static void test_a_whitened_run_keeps_its_matrix(void **state)
{
    assert_status(TRAIN "--epochs 2 --normalise whiten --out @/run --json", 0);
    const double accuracy = last_number("test_accuracy");
    run_shell("cp -r @/run @/again && rm @/again/whitening.safetensors @/again/best.safetensors");
    assert_refuses("eval --run @/again", 1, "whitening.safetensors");
    run_shell("mkdir @/away && mv @/set/train* @/away");
    assert_status("eval --run @/run --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    run_shell("mv @/away/* @/set");
    assert_status(TRAIN "--epochs 1 --normalise whiten --seed 9 --data-dir @/set --out @/other --json", 0);
    run_shell("cmp @/run/whitening.safetensors @/other/whitening.safetensors");    /* a function of the images alone */
    run_shell("rm @/run/whitening.safetensors");
    assert_status("train --resume --out @/run --json", 0);
    run_shell("cmp @/run/whitening.safetensors @/other/whitening.safetensors");
}

/* Checkpoints name the matrix of the file, so a run continues with that one only. */
static void test_a_whitened_run_continues_with_its_matrix(void **state)
{
    enum { VALUES = 16 * 16 };
    static float matrix[VALUES][VALUES], mean[VALUES];
    assert_status(TRAIN "--epochs 2 --normalise whiten --out @/run --json", 0);
    assert_status(TRAIN "--epochs 2 --normalise whiten --out @/half --budget 0 --json", 3);
    run_shell("cp -r @/half @/damaged && cp -r @/half @/other");
    assert_status("train --resume --out @/half --json", 0);
    run_shell("cmp @/run/last.safetensors @/half/last.safetensors");
    run_shell("printf x | dd of=@/damaged/whitening.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null");
    assert_refuses("train --resume --out @/damaged", 1, "damaged/whitening.safetensors' is damaged");
    qg_state *s = qg_state_new();
    qg_state_add(s, "mean", (qg_array){ QG_F32, 1, { VALUES }, mean });
    qg_state_add(s, "whitening", (qg_array){ QG_F32, 2, { VALUES, VALUES }, matrix });
    assert_ok(qg_state_save(s, at("other/whitening.safetensors")));
    qg_state_free(s);
    assert_refuses("train --resume --out @/other", 1, "other/whitening.safetensors: is not the matrix that whitens the images");
    run_shell("cp -r @/half @/lost && rm @/lost/whitening.safetensors");
    assert_status("train --resume --out @/lost", 0);            /* the same processor computes the same one */
    run_shell("cmp @/lost/whitening.safetensors @/half/whitening.safetensors");
    run_shell("rm @/lost/whitening.safetensors");
    char path[256];
    snprintf(path, sizeof path, "%s", at("lost/last.safetensors"));
    write_noted(path, path, "normalise.whitening", "0123456789abcdef", false);
    assert_status("train --resume --out @/lost", 0);        /* it is over: nothing depends on it */
    run_shell("! test -e @/lost/whitening.safetensors");
    assert_refuses("train --resume --epochs 3 --out @/lost", 1,
                   "lost/whitening.safetensors: is lost, and this processor computes another matrix; copy");
}

static void write_cifar(const char *name, int n)
{
    static uint8_t records[4 * 3073];
    char           path[96];
    for (int i = 0; i < n * 3073; i++) records[i] = (uint8_t)(i % 3073 ? qg_bits(9, (uint64_t)i) : (uint64_t)i % 10);
    snprintf(path, sizeof path, "c10/%s.bin", name);
    write_bytes(at(path), records, (size_t)n * 3073);
}

/* Three classes of the set, in an order of the user's. */
static void test_chosen_classes(void **state)
{
    char config[TEXT_BYTES];
    assert_status(THREE "--out @/three --json", 0);
    slurp(at("three/config.toml"), config, sizeof config);
    assert_non_null(strstr(config, "data = \"mnist:classes=7+0+1\"\n"));
    assert_noted(at("three/best.safetensors"), "class-names", "7/0/1");
    assert_noted(at("three/best.safetensors"), "classes", "3");
    const double accuracy = last_number("test_accuracy");
    assert_true(last_number("test_images") > 0 && last_number("test_images") < N_TEST);
    assert_status("eval --run @/three --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_status("train --resume --out @/three --json", 0);
    assert_refuses("eval --run @/three --data mnist --data-dir @/set", 2, "in 10 classes, but the run's are 16x16x1 in 3");
    assert_refuses("eval --run @/three --data mnist:classes=0+1+7 --data-dir @/set", 2, "class names differ");
    assert_refuses(THREE "--resume --data mnist:classes=0+1+7 --out @/three", 2,
                   "data is mnist:classes=7+0+1 in the run, but mnist:classes=0+1+7 was requested");
    assert_status("summary --model lenet5 --data cifar100:classes=99+7 --json", 0);
    assert_stdout("\"output\":[1,1,2]");
}

static void write_npy(const char *path, const char *type, const char *shape, const uint8_t *values, size_t n)
{
    static uint8_t bytes[128 + 300 * 400] = "\x93NUMPY\x01\0\x76";
    memset(bytes + 10, ' ', 117);
    const int length = snprintf((char *)bytes + 10, 117, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    bytes[10 + length] = ' ', bytes[127] = '\n';
    memcpy(bytes + 128, values, n);
    write_bytes(at(path), bytes, 128 + n);
}

/* Two classes: bright above or below. */
static void write_arrays(const char *images, const char *labels, uint64_t key)
{
    uint8_t x[40 * 144], y[40];
    for (int i = 0; i < 40; i++) {
        y[i] = (uint8_t)(i % 2);
        for (int k = 0; k < 144; k++)
            x[i * 144 + k] = (uint8_t)(qg_bits(key, (uint64_t)(i * 144 + k)) % 100 + (k / 72 == i % 2 ? 150 : 0));
    }
    write_npy(images, "|u1", "40, 12, 12", x, sizeof x);
    write_npy(labels, "|u1", "40,", y, sizeof y);
}

#define ARRAYS "arrays:train=a.npy,train-labels=b.npy,test=c.npy,test-labels=d.npy"
#define OF_ARRAYS "train --model 8C3-BN-R-MP2-2 --epochs 8 --batch 8 --optimizer adam --data " ARRAYS
#define VALIDATED OF_ARRAYS ",validation=e.npy"

static void test_arrays_are_learned(void **state)
{
    char config[TEXT_BYTES];
    assert_int_equal(mkdir(at("np"), 0700), 0);
    write_arrays("np/a.npy", "np/b.npy", 1);
    write_arrays("np/c.npy", "np/d.npy", 2);
    assert_status(OF_ARRAYS " --data-dir @/np --out @/arrays --json", 0);
    assert_true(last_number("test_accuracy") == 1 && last_number("test_images") == 40);
    slurp(at("arrays/config.toml"), config, sizeof config);
    assert_non_null(strstr(config, "data = \"" ARRAYS "\"\n"));
    assert_status("eval --run @/arrays --json", 0);
    assert_true(last_number("test_accuracy") == 1);
    assert_status("eval --run @/arrays --data arrays:test=a.npy,test-labels=b.npy --data-dir @/np --json", 0);
    assert_status("summary --model 8C3-BN-R-MP2-2 --data arrays:test=@/np/a.npy,test-labels=@/np/b.npy --json", 0);
    assert_int_equal(rename(at("np"), at("there")), 0);
    assert_status("train --resume --out @/arrays --data-dir @/there --json", 0);
    assert_status("inspect --run @/arrays", 0);

    assert_refuses("train --model lenet5 --data arrays", 2, "arrays: the files are missing, as in arrays:train=a.npy,train-labels=b.npy");
    assert_refuses("train --model lenet5 --data arrays:train=a", 2, "arrays: train needs train-labels");
    assert_refuses("train --model lenet5 --data arrays:test-labels=a", 2, "arrays: test-labels needs test");
    assert_refuses("train --model lenet5 --data arrays:train=a,train=b", 2, "arrays: train is given twice");
    assert_refuses("train --model lenet5 --data arrays:train=", 2, "arrays: the path of train is empty");
    assert_refuses("train --model lenet5 --data arrays:images=a", 2,
                   "arrays: unknown option 'images=a'; available: train, train-labels, test, test-labels, "
                   "validation, validation-labels, classes");
    assert_refuses("train --model lenet5 --data arrays:test=a,test-labels=b,classes=x", 2, "arrays: classes 'x' is not a number");
    assert_refuses("train --model lenet5 --data arrays:test=a,test-labels=b", 2, "arrays: train is missing");
    assert_refuses(OF_ARRAYS " --data-dir @/no --out @/none", 1, "no/");
    assert_refuses("summary --model lenet5 --data arrays:test=@/no,test-labels=@/no", 2, "the size of the images is unknown; pass --image");
}

/* Validation images of their own, where the command line could hold some out. */
static void test_arrays_of_validation(void **state)
{
    char metrics[TEXT_BYTES];
    uint8_t small[40 * 36] = { 0 };
    assert_int_equal(mkdir(at("np"), 0700), 0);
    write_arrays("np/a.npy", "np/b.npy", 1);
    write_arrays("np/c.npy", "np/d.npy", 2);
    write_arrays("np/e.npy", "np/f.npy", 3);
    write_npy("np/small.npy", "|u1", "40, 6, 6", small, sizeof small);
    assert_status(VALIDATED ",validation-labels=f.npy --data-dir @/np --out @/run --json", 0);
    assert_true(last_number("validation_images") == 40 && last_number("best_validation_accuracy") == 1);
    slurp(at("run/metrics.csv"), metrics, sizeof metrics);
    assert_non_null(strstr(metrics, ",validation_loss,validation_accuracy,"));
    assert_null(strstr(metrics, "test_loss"));
    assert_status("eval --run @/run --json", 0);
    assert_true(last_number("test_accuracy") == 1);

    assert_refuses(VALIDATED " --data-dir @/np --out @/none", 2,
                   "arrays: validation needs validation-labels");
    assert_refuses(VALIDATED ",validation-labels=f.npy --validation 10 --data-dir @/np --out @/none", 2,
                   "validation: arrays has such images already, so no others are held out");
    assert_refuses(OF_ARRAYS ",validation=small.npy,validation-labels=f.npy --data-dir @/np --out @/none", 1,
                   "validation: images of 6x6x1 cannot be preprocessed as images of 12x12x1");
    assert_int_equal(access(at("none"), F_OK), -1);
    write_arrays("np/e.npy", "np/f.npy", 4);
    assert_refuses("train --resume --out @/run --epochs 9", 2, "arrays: the images have digest ");
}

/* As Matlab counts them: with three outputs one is never right, which is said of the training images alone. */
static void test_labels_from_one_are_warned_about(void **state)
{
    static const uint8_t x[4 * 4 * 4] = { 255 }, y[] = { 1, 2, 1, 2 };
    assert_int_equal(mkdir(at("np"), 0700), 0);
    write_npy("np/x.npy", "|u1", "4, 4, 4", x, sizeof x);
    write_npy("np/y.npy", "|u1", "4,", y, sizeof y);
    assert_status("train --model 4C3-R-3 --data arrays:train=x.npy,train-labels=y.npy,test=x.npy,test-labels=y.npy --data-dir @/np "
                  "--epochs 1 --batch 2 --out @/from-one --json", 0);
    const char *warning = strstr(last.err, "qgrad: warning: no image is of class 0; 1 of 3 classes is empty, and labels count from 0\n");
    assert_true(warning && !strstr(warning + 20, "warning"));
    assert_status("eval --run @/from-one --json", 0);
    assert_string_equal(last.err, "");
}

/* PyTorch's order of axes, where the net is too large for what it makes of the images. */
static void test_axes_in_another_order_are_named(void **state)
{
    static const uint8_t x[2 * 8 * 8] = { 255 }, y[] = { 0, 1 };
    write_npy("x.npy", "|u1", "2, 1, 8, 8", x, sizeof x);
    write_npy("y.npy", "|u1", "2,", y, sizeof y);
    assert_refuses("summary --model 4C3-R-MP2-2 --data arrays:test=@/x.npy,test-labels=@/y.npy", 2,
                   "a window of 2x2 is larger than its input [1,1,8,4] padded by 0; if the axes of the images "
                   "are n, c, h, w, use x.transpose(0, 2, 3, 1)");
}

/* Labels above 255 in training, in checkpoints, and in evaluation: class k is a bright row k / 20 and column k % 20. */
static void test_three_hundred_classes(void **state)
{
    enum { CLASSES = 300, EDGE = 20 };
    static uint8_t x[CLASSES * EDGE * EDGE];
    uint8_t        y[2 * CLASSES];
    assert_int_equal(mkdir(at("many"), 0700), 0);
    for (int k = 0; k < CLASSES; k++) {
        y[2 * k] = (uint8_t)k, y[2 * k + 1] = (uint8_t)(k >> 8);
        for (int i = 0; i < EDGE; i++) x[(k * EDGE + k / EDGE) * EDGE + i] = x[(k * EDGE + i) * EDGE + k % EDGE] = 255;
    }
    write_npy("many/a.npy", "|u1", "300, 20, 20", x, sizeof x);
    write_npy("many/b.npy", "<u2", "300,", y, sizeof y);
    assert_status("train --model 300 --data arrays:train=a.npy,train-labels=b.npy,test=a.npy,test-labels=b.npy --data-dir @/many "
                  "--epochs 40 --batch 50 --optimizer adam --schedule constant --lr 0.01 --out @/hundreds --json", 0);
    assert_true(last_number("test_accuracy") == 1);
    assert_status("eval --run @/hundreds --json", 0);
    assert_true(last_number("test_accuracy") == 1);
}

static void test_cifar_and_fashion_have_names(void **state)
{
    assert_int_equal(mkdir(at("c10"), 0700), 0);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d", i);
        write_cifar(name, 4);
    }
    write_cifar("test_batch", 2);
    assert_status("train --model lenet5 --data cifar10 --data-dir @/c10 --epochs 1 --batch 8 --augment pad=4,flip "
                  "--out @/ten --json", 0);
    assert_status("bench train --model lenet5 --data cifar10 --data-dir @/c10 --batch 8 --seconds 0.01 "
                  "--normalise channel --augment pad=4,flip --json", 0);
    assert_status("train --model lenet5 --data fashion-mnist --data-dir @/set --epochs 1 --out @/fashion --json", 0);
    for (int i = 0; i < 2; i++) {           /* cnv has an exception for a layer of its own */
        assert_stops("train --model cnv --layer fc3:weight=float --data cifar10 --data-dir @/c10 "
                     "--out @/cnv --budget 0 --json%s", i ? " --resume" : "");
    }
    assert_refuses("train --resume --model cnv --layer fc3:weight=twn --out @/cnv", 2,
                   "fc3:weight=float in the run, but fc3:weight=twn was requested");
    assert_status("train --model birealnet18:width=0.0625 --data cifar10 --data-dir @/c10 --epochs 1 --batch 8 --out @/bi --json", 0);
    char config[4096];                      /* its own schedule */
    slurp(at("bi/config.toml"), config, sizeof config);
    assert_non_null(strstr(config, "schedule = \"linear\"\n"));
    assert_status("summary --model lenet5 --data cifar100 --json", 0);
    cJSON *j = parse();
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(j, "layers")) > 3, 1);
    cJSON_Delete(j);
}

/* Arrays may have any number of channels, image files have one or three. */
static void test_predict_needs_images_that_files_have(void **state)
{
    static const struct { const char *shape; int channels; } of[] = {
        { "40, 8, 9, 2", 2 }, { "40, 6, 6, 4", 4 }, { "40, 3, 3, 16", 16 }, { "40, 6, 8, 3", 3 }
    };
    static uint8_t x[40 * 144], y[40];
    static char    first[TEXT_BYTES];
    for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)qg_bits(3, i);
    for (int i = 0; i < 40; i++) y[i] = (uint8_t)(i % 2);
    write_jpeg(at("grey.jpg"), (jpeg){ 16, 16, .components = 1, .value = { 128 }, .scans = 1 });
    write_npy("y.npy", "|u1", "40,", y, sizeof y);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char part[100];
        snprintf(part, sizeof part, "images of %d channels are wanted, but image files have 1 or 3\n", of[i].channels);
        write_npy("x.npy", "|u1", of[i].shape, x, sizeof x);
        assert_status("train --model 4C3-R-GAP-2 --data arrays:train=x.npy,train-labels=y.npy,test=x.npy,test-labels=y.npy "
                      "--data-dir @/. --epochs 1 --batch 20 --normalise channel --out @/many --force --json", 0);
        assert_status("export --run @/many -o @/many.qg", 0);
        if (of[i].channels == 3) {
            assert_status("predict --run @/many @/grey.jpg", 0);
            strcpy(first, last.out);
            assert_status("predict --packed @/many.qg @/grey.jpg", 0);
            assert_string_equal(last.out, first);
        } else {
            assert_refuses("predict --run @/many @/grey.jpg @/grey.jpg --json", 2, part);
            assert_refuses("predict --packed @/many.qg @/grey.jpg @/grey.jpg", 2, part);
        }
    }
}

/* A few bytes with a valid checksum that ask for any image. */
static void test_predict_trusts_no_packed_net(void **state)
{
    static const struct { int h, w, c; const char *part; } of[] = {
        { 8, 8, 64, "hostile.qg': images of 64 channels are wanted, but image files have 1 or 3" },
        { 8, 8, 1 << 22, "hostile.qg': images of 4194304 channels are wanted" },
        { 1, 1, INT32_MAX, "hostile.qg': images of 2147483647 channels are wanted" },
        { 1 << 20, 1, 1, "hostile.qg': images of 1048576x1 pixels are wanted, but sides must be 1..4096" },
        { 4097, 4097, 3, "hostile.qg': images of 4097x4097 pixels are wanted" },
    };
    write_jpeg(at("grey.jpg"), (jpeg){ 16, 16, .components = 1, .value = { 128 }, .scans = 1 });
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const packed_step relu = { .r = { .kind = QG__RELU, .z = -1, .h = of[i].h, .w = of[i].w, .c = of[i].c, .oh = of[i].h,
                                          .ow = of[i].w, .oc = of[i].c } };
        const packed_net  net  = { of[i].h, of[i].w, of[i].c, .steps = 1, .step = &relu };
        size_t            n;
        uint8_t          *file = packed_file(&net, &n);
        write_bytes(at("hostile.qg"), file, n);
        assert_refuses("predict --packed @/hostile.qg @/grey.jpg", 2, of[i].part);
        free(file);
    }
}

/* It may come from anywhere: nothing that it says is opened, not even what would be the right images. */
static void test_a_checkpoint_names_no_paths(void **state)
{
    static uint8_t x[40 * 144], y[40];
    char           line[1000];
#define FILES "arrays:train=@/x.npy,train-labels=@/y.npy,test=@/x.npy,test-labels=@/y.npy"
    for (int i = 0; i < 40; i++) y[i] = (uint8_t)(i % 2), memset(x + 144 * i, 90 * (i % 2), 144);
    write_npy("x.npy", "|u1", "40, 12, 12", x, sizeof x);
    write_npy("y.npy", "|u1", "40,", y, sizeof y);
    write_jpeg(at("grey.jpg"), (jpeg){ 16, 16, .components = 1, .value = { 128 }, .scans = 1 });
    assert_status("train --model 4C3-R-GAP-2 --data " FILES " --epochs 1 --batch 20 --out @/own --json", 0);
    assert_status("eval --run @/own --json", 0);                        /* config.toml is the user's */
    assert_refuses("eval --run @/own/best.safetensors", 2, "arrays: a checkpoint does not choose files to read; name them with --data");
    assert_refuses("quantize --run @/own/best.safetensors --weight twn --out @/none", 2, "a checkpoint does not choose files");
    assert_status("eval --run @/own/best.safetensors --data " FILES " --json", 0);
    assert_status("inspect @/own/best.safetensors", 0);
    assert_status("predict --run @/own/best.safetensors @/grey.jpg", 0);
    assert_status("export --run @/own/best.safetensors -o @/own.qg", 0);
    assert_refuses("infer --packed @/own.qg", 2, "own.qg: was trained on arrays; pass --data");
    assert_status("infer --packed @/own.qg --data " FILES " --run @/own/best.safetensors --json", 0);
    assert_true(last_number("equal_scores") == 80);

    /* What a checkpoint never notes, and what would then be opened. */
    write_pictures();
    assert_status("train --model 4C3-R-GAP-2 --data folder:16x16x3 --data-dir @/pics --epochs 1 --out @/pictures --json", 0);
    write_noted(at("pictures/best.safetensors"), at("told.safetensors"), "recipe",
                "data-dir = \"/\"\nteacher = \"/\"\nrecipe = \"twn-lenet5\"\n", true);
    assert_refuses("eval --run @/told.safetensors", 2, "the data set folder needs --data-dir");
    assert_status("eval --run @/told.safetensors --data-dir @/pics --json", 0);
    snprintf(line, sizeof line, "data-dir = \"%s\"\n", at("pics"));
    write_noted(at("pictures/best.safetensors"), at("told.safetensors"), "recipe", line, true);
    assert_refuses("eval --run @/told.safetensors", 2, "the data set folder needs --data-dir");
}

/* The same of a packed net: images with labels, and a path that climbs out of --data-dir. */
static void test_a_packed_net_names_no_paths(void **state)
{
    static const char *const data[] = { "arrays:test=@/x.npy,test-labels=@/y.npy", "arrays:test=../x.npy,test-labels=../y.npy",
                                        "arrays:test=/etc/passwd,test-labels=/etc/passwd" };
    static const float ones[] = { 1, 1, 0, 0 };
    static uint8_t     x[40 * 144], y[40];
    write_npy("x.npy", "|u1", "40, 12, 12", x, sizeof x);
    write_npy("y.npy", "|u1", "40,", y, sizeof y);
    assert_int_equal(mkdir(at("dir"), 0700), 0);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        char        told[300], part[400];
        const char *rest = strstr(data[i], "@/");
        snprintf(told, sizeof told, "%s", data[i]);
        if (rest) snprintf(told, sizeof told, "arrays:test=%s,test-labels=%s", at("x.npy"), at("y.npy"));
        const char *const notes[]  = { "data", told };
        const packed_step product  = { .r = { .kind = QG__PRODUCT, .z = -1, .h = 12, .w = 12, .c = 1, .oh = 1, .ow = 1, .oc = 2,
                                              .kh = 12, .kw = 12, .stride = 1, .groups = 1, .w_bits = 32 },
                                       .floats = ones, .w = (const float[288]){ 0 } };
        const packed_net  net      = { 12, 12, 1, .normal = 1, .normalisation = (const float[]){ 0, 1 }, .steps = 1, .step = &product,
                                       .notes = 1, .note = notes };
        size_t            n;
        uint8_t          *file = packed_file(&net, &n);
        write_bytes(at("told.qg"), file, n);
        free(file);
        snprintf(part, sizeof part, "told.qg: was trained on %s; pass --data", told);
        assert_refuses("infer --packed @/told.qg", 2, part);
        assert_refuses("infer --packed @/told.qg --data-dir @/dir", 2, part);
    }
    assert_status("infer --packed @/told.qg --data arrays:test=x.npy,test-labels=y.npy --data-dir @/. --json", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_augmented_runs_resume_to_the_same_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_normalises_as_training_did, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_names_the_size_that_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_of_other_images_keeps_the_statistics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_of_images_is_learned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inspect_needs_no_images, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_stands_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_must_say_what_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_whitened_run_keeps_its_matrix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_chosen_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_larger_than_its_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arrays_are_learned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arrays_of_validation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_labels_from_one_are_warned_about, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_axes_in_another_order_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_three_hundred_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_whitened_run_continues_with_its_matrix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cifar_and_fashion_have_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_predict_needs_images_that_files_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_predict_trusts_no_packed_net, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_names_no_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_packed_net_names_no_paths, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
