/* The program as a user meets it: help, errors, and the output of a training. */
#include "tests/support/testing.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/io/utf8.h"
#include "tests/support/environment.h"
#include "tests/support/program.h"

/* --- what is refused ---------------------------------------------------------------------- */

static void test_help_is_no_error(void **state)
{
    static const char *const lines[] = { "--help", "--version", "train --help", "eval --help", "quantize --help",
                                         "summary --help", "bench --help", "bench train --help",
                                         "bench eval --help", "bench peak --help",
                                         "bench packed --help", "bench scaling --help", "bench infer --help", "bench memory --help" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_status(lines[i], 0);
        assert_string_equal(last.err, "");
        assert_true(strlen(last.out) > 5);
    }
    assert_status("train --help all", 0);
    assert_stdout("--first-last float|quantized");
    assert_stdout("every=[0.0001, 1)");
    assert_stdout("warmup=0..1 [0]");
    assert_stdout("binary-channel");
}

/* What one needs in the first hour is a page; the rest is one word away, wherever the word stands. */
static void test_the_short_help_is_a_page(void **state)
{
    static const char *const verbs[] = { "train", "sweep", "summary", "bench train", "bench scaling" };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        int lines = 0;
        assert_runs("%s --help", verbs[i]);
        for (const char *c = last.out; *c; c++) lines += *c == '\n';
        assert_in_range(lines, 20, 60);
        assert_stdout("--model NAME ");
        assert_stdout("Models: lenet5, ");
        assert_stdout("Schemes for --weight: float, twn, ");
        assert_null(strstr(last.out, "--gradient SCHEME"));
        assert_runs("%s --help all", verbs[i]);
        assert_stdout("--gradient SCHEME");
        assert_stdout("\nfor --weight:\n");
    }
    assert_status("plot -h", 0);
    assert_null(strstr(last.out, "\nfor --weight:\n"));
    assert_status("plot -h all", 0);
    assert_stdout("\nfor --weight:\n");
}

/* The same option may mean something else to another command. */
static void test_help_is_of_its_command(void **state)
{
    static const char *const lines[] = { "train", "eval", "predict", "quantize", "sweep", "runs", "export", "infer", "summary", "inspect",
                                         "report", "explain", "plot", "results", "gradcheck", "bench packed", "bench scaling" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_runs("%s --help", lines[i]);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            char other[32];
            snprintf(other, sizeof other, "of %s: ", lines[k]);
            if (strstr(last.out, other)) fail_msg("%s --help has '%s'", lines[i], other);
        }
    }
    assert_status("plot --help", 0);
    assert_stdout("--out PATH                     the picture; without a scheme, a directory for pictures of all\n");
    assert_status("predict --help", 0);
    assert_stdout("a checkpoint of its own; this or\n                                 --packed is required\n");
    assert_status("infer --help", 0);
    assert_stdout("the data set; default: that of the net\n");
    assert_status("export --help", 0);
    assert_stdout("                                 required; --run itself may be left out\n");
    assert_status("quantize --help", 0);
    assert_stdout("of batch norms; default: 512, or all\n");
}

static void test_wrong_usage_is_named_and_gives_2(void **state)
{
    assert_refuses("", 2, "the command is missing; available: train, eval, predict, quantize, import, sweep, runs, export, infer, summary, bench");
    assert_refuses("trian", 2, "unknown command trian; available: train");
    assert_refuses("--fast", 2, "unknown option --fast");
    assert_refuses("train --modle x", 2, "unknown option '--modle'; did you mean --model?");
    assert_refuses("train -x", 2, "unknown option '-x'");
    assert_refuses("train --seed 1 -model lenet5", 2, "unknown option '-model'");
    assert_refuses("train --resume --out @/nowhere", 2, "nowhere contains no run to resume, and --model is missing");
    assert_refuses("train --lr", 2, "--lr needs a value");
    assert_refuses("train --json=1", 2, "--json takes no value");
    assert_refuses("train lenet5", 2, "unexpected argument 'lenet5'");
    assert_refuses("train -- lenet5", 2, "unexpected argument 'lenet5'");
    assert_refuses("train", 2, "--model is missing; available: lenet5");
    assert_refuses("train --model lenet6", 2, "unknown model 'lenet6'; available: lenet5");
    assert_refuses("train --model lenet5 --batch 0", 2, "batch 0 is not in 1..65536");
    assert_refuses("train --model lenet5 --weight sign", 2,
                   "sign is a scheme for inputs, not for weights; available: float, twn, binary");
    assert_refuses("train --model lenet5 --schedule warp", 2, "warp");
    assert_refuses("train --model lenet5 --layer conv9:weight=float", 2,
                   "available: conv1, conv2, fc1, fc2");
    assert_refuses("train --model lenet5 --budget 5x", 2, "write 90s, 50m, 1h or a number of seconds");
    assert_refuses("train --model lenet5 --budget 0x5", 2, "write 90s, 50m, 1h or a number of seconds");
    assert_refuses("train --model lenet5 --budget 1e308h", 2, "write 90s, 50m, 1h or a number of seconds");
    assert_refuses("train --model lenet5 --budget 1e400", 2, "write 90s, 50m, 1h or a number of seconds");
    assert_refuses("train --model lenet5 --budget 5ms", 2, "write 90s, 50m, 1h or a number of seconds");
    assert_refuses("train --model lenet5 --optimizer adam --momentum 0.5", 2, "not of adam");
    assert_refuses("train --model lenet5 --resume --force", 2, "exclude each other");
    assert_refuses("eval", 2, "--run is missing");
    assert_refuses("bench", 2, "the benchmark is missing; available: train, eval, packed, scaling, peak, infer");
    assert_refuses("bench --json", 2, "the benchmark is missing");
    assert_refuses("bench evil", 2, "unknown benchmark 'evil'; available: train, eval, packed, scaling, peak, infer");
    assert_refuses("bench peak --model lenet5", 2, "unknown option '--model'; options: --threads, --seconds");
    assert_refuses("bench eval --model lenet5 --image 32x32", 2, "--image: size needs 3 numbers separated by x, not 2");
    assert_refuses("bench eval --model lenet5 --image 0x32x3", 2, "--image: size is 0, not in 1..4096");
    assert_refuses("bench train --model lenet5 --image 8x8x1 --data mnist", 2, "but --data is mnist");
}

/* The last value counts.  Nothing is said of values that are the same, of flags and of other items of a
 * list. */
static void test_options_that_are_given_twice(void **state)
{
    assert_status("summary --model lenet5 --weight twn --weight ttq --weight float --json --json --seed 1 --seed 1 "
                  "--layer conv1:weight=twn --layer conv2:weight=twn", 0);
    assert_string_equal(last.err, "qgrad: warning: --weight is given twice: float counts, not twn\n");
    assert_status("summary --model lenet5 --weight float --weight twn --weight ttq --weight float", 0);
    assert_string_equal(last.err, "");
    assert_status("summary --model lenet5 --seed 1 --see 2", 0);
    assert_string_equal(last.err, "qgrad: warning: --seed is given twice: 2 counts, not 1\n");
    assert_status("summary --model lenet5 --layer fc1:weight=float --layer fc1:input=sign "
                  "--layer fc1:weight=ttq --layer fc1:weight=twn --layer fc1:input=sign", 0);
    assert_string_equal(last.err, "qgrad: warning: --layer is given twice: fc1:weight=twn counts, "
                        "not fc1:weight=float\n");
}

static void test_bad_files_give_1_and_leave_nothing(void **state)
{
    const char bad[] = "model = \"lenet5\"\nspeed = 3\n";
    write_bytes(at("bad.toml"), bad, sizeof bad - 1);
    assert_refuses("train --config @/bad.toml --out @/none", 2, "bad.toml:2: unknown key 'speed'");
    assert_refuses("train --config @/absent.toml --out @/none", 1, "absent.toml");
    assert_refuses("train --config @ --out @/none", 2,
                   "is a directory; the options of a run are in its config.toml");
    assert_refuses("train --model lenet5 --data-dir @/absent --out @/none", 1,
                   "datasets/fetch.sh mnist");
    assert_refuses("eval --run @/none", 1, "there is no run '");
    assert_int_equal(access(at("none"), F_OK), -1);
    assert_refuses(TRAIN "--epochs 1 --out @/bad.toml", 1, "bad.toml");
    assert_refuses(TRAIN "--epochs 1 --out @/bad.toml/x", 1, "cannot make directory");
}

/* 10 black images of n by n, all of class 0. */
static void write_idx(const char *images, const char *labels, unsigned char n)
{
    const unsigned char head[16] = { 0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, n, 0, 0, 0, n };
    const unsigned char ones[18] = { 0, 0, 8, 1, 0, 0, 0, 10 };
    unsigned char       bytes[16 + 10 * 32 * 32] = { 0 };
    memcpy(bytes, head, sizeof head);
    write_bytes(at(images), bytes, sizeof head + (size_t)10 * n * n);
    write_bytes(at(labels), ones, sizeof ones);
}

static void test_a_misspelt_variable_is_named(void **state)
{
    set_variable("QGRAD_CPU", "avx-2");
    assert_refuses("bench peak --seconds 0.01", 2, "QGRAD_CPU is 'avx-2', not one of avx512, avx2, baseline");
    assert_string_equal(qg_cpu_unknown(), "avx-2");
    set_variable("QGRAD_CPU", "");
    assert_status("bench peak --seconds 0.01 --json", 0);
    assert_null(qg_cpu_unknown());
    set_variable("QGRAD_PRODUCTS", "byte");
    assert_refuses("bench peak --seconds 0.01", 2, "QGRAD_PRODUCTS is 'byte', not one of bits, bytes");
    set_variable("QGRAD_PRODUCTS", "");
    assert_status("bench peak --seconds 0.01 --json", 0);
}

/* mpirun with a program of the plain build. */
static void test_processes_that_are_no_ranks_are_told(void **state)
{
    set_variable("OMPI_COMM_WORLD_SIZE", "2");
    assert_status("train " SET "--epochs 1 --budget 0 --out @/lonely --json", 3);
    assert_stderr("qgrad: warning: each of the 2 processes that mpirun has started trains by itself; qgrad-mpi (make mpi) shares the work\n");
    assert_status("eval --run @/lonely --json", 0);
}

/* Of batches with one image, a batch norm after a dense layer sees one number per channel. */
static void test_a_batch_norm_needs_two_images(void **state)
{
    assert_refuses("train " SET "--batch 1 --epochs 1 --out @/none", 2, "batches of 1 image give bn3 one value per channel");
    assert_int_equal(access(at("none"), F_OK), -1);
    assert_status("train " SET "--batch 239 --epochs 1 --out @/last --json", 0);
    assert_stderr("qgrad: warning: the last batch of an epoch has 1 of the 240 images, so bn3 has one value");
    assert_status("train --model resnet20 --data mnist --data-dir @/set --batch 1 --epochs 1 --budget 0 --out @/maps --json", 3);
    if (strstr(last.err, "warning")) fail_msg("%s", last.err);
}

static void test_splits_of_different_images_are_refused_before_training(void **state)
{
    assert_int_equal(mkdir(at("idx"), 0700), 0);
    write_idx("idx/train-images-idx3-ubyte", "idx/train-labels-idx1-ubyte", 28);
    write_idx("idx/t10k-images-idx3-ubyte", "idx/t10k-labels-idx1-ubyte", 32);
    assert_status("train --model lenet5 --data mnist --epochs 1 --data-dir @/idx --out @/none", 1);
    assert_stderr("test images are 32x32x1, training images 28x28x1\n");
    assert_int_equal(access(at("none"), F_OK), -1);
}

static void test_unwritable_directories_and_full_disks(void **state)
{
    assert_refuses(TRAIN "--epochs 1 --out /proc/run", 1, "cannot make directory /proc/run");
    if (access("/dev/full", W_OK) == 0) {
        const pid_t pid = fork();
        if (pid == 0) {
            const int full = open("/dev/full", O_WRONLY);
            dup2(full, STDOUT_FILENO);
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
            execl(program, program, "--help", (char *)NULL);
            _exit(127);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), 1);
    }
}

/* A limit on the size of files acts as a full disk does: the write fails half way. */
static void test_a_checkpoint_that_cannot_be_written_costs_nothing(void **state)
{
    assert_status(TRAIN "--model lenet5 --epochs 6 --budget 0 --out @/full", 3);
    run_shell("cp @/full/last.safetensors @/before");
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit small = { 100000, 100000 };
        setrlimit(RLIMIT_FSIZE, &small);
        dup2(open(at("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(at("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execl(program, program, "train", "--json", "--resume", "--out", at("full"), (char *)NULL);
        _exit(127);
    }
    assert_int_equal(finish(pid), 1);
    assert_stderr("best.safetensors");
    assert_string_equal(last.out, "");
    const pid_t first = fork();
    if (first == 0) {                           /* the first one: then there is no run */
        const struct rlimit small = { 100000, 100000 };
        setrlimit(RLIMIT_FSIZE, &small);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        execl(program, program, "train", "--model", "lenet5", "--data-dir", at("set"), "--out", at("never"), (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(first, &status, 0), first);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(access(at("never"), F_OK), -1);
    assert_same_file(at("before"), at("full/last.safetensors"));
    assert_status("train --resume --json --out @/full", 0);
    assert_status(TRAIN "--model lenet5 --epochs 6 --json --out @/notfull", 0);
    assert_same_run("full", "notfull");
}

/* --- training ----------------------------------------------------------------------------- */

static void test_training_on_the_sample(void **state)
{
    assert_status("train --model lenet5 --weight twn --data sample --epochs 1 --batch 50 --seed 5 "
                  "--out @/sample --json", 0);
    /* Chance is 0.1; runs with four other seeds end between 0.70 and 0.76, give or take 0.02. */
    assert_true(last_number("test_accuracy") > 0.55);
    assert_true(last_number("best_test_accuracy") >= last_number("test_accuracy"));
    const double p = last_number("test_accuracy"), margin = sqrt(p * (1 - p) / 500);
    assert_true(fabs(last_number("test_accuracy_stderr") - margin) < 1e-8);  /* printed to 9 digits */
    assert_true(last_number("train_loss") > 0);
    assert_true(last_number("epochs") == 1);
    assert_true(last_truth("complete"));
    assert_true(last_number("images_per_second") > 0);
    assert_true(last_number("seconds") > 0);
    assert_true(last_number("parameters") == 582634);
    assert_true(last_number("float_bytes") > 15 * last_number("packed_bytes"));
    assert_true(last_number("peak_rss_bytes") > 1e6);
    assert_true(last_number("threads") >= 1);
    assert_true(last_number("seed") == 5);
    assert_true(last_number("arithmetic") == 2);
    assert_true(strlen(last_text("cpu_path")) > 0);
    assert_int_equal(strlen(last_text("digest")), 16);
    assert_string_equal(last_text("run"), at("sample"));
}

static void test_the_same_run_on_any_number_of_threads(void **state)
{
    assert_status(TRAIN "--epochs 2 --out @/one --json", 0);
    assert_status(TRAIN "--epochs 2 --out @/two --threads 2 --json", 0);
    assert_status(TRAIN "--epochs 2 --out @/three --threads 3 --json", 0);
    assert_same_run("one", "two");
    assert_same_run("one", "three");
}

static void test_another_seed_is_another_run(void **state)
{
    char digest[32];
    assert_status(TRAIN "--epochs 1 --out @/seed3 --json", 0);
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_status(TRAIN "--seed 4 --epochs 1 --out @/seed4 --json", 0);
    assert_string_not_equal(last_text("digest"), digest);
}

static void test_metrics_have_a_row_per_epoch(void **state)
{
    char all[TEXT_BYTES];
    assert_status(TRAIN "--epochs 3 --layer fc1:weight=float --out @/metrics", 0);
    assert_stdout("test accuracy");
    assert_stdout("Try next:");
    slurp(at("metrics/metrics.csv"), all, sizeof all);
    const char *header = "epoch,lr,train_loss,train_accuracy,test_loss,test_accuracy,"
                         "images_per_second,seconds,digest,conv1.zeros,conv1.flipped,conv1.code.0,conv1.code.1,conv1.code.2,"
                         "conv2.zeros,conv2.flipped,conv2.code.0,conv2.code.1,conv2.code.2,"
                         "fc2.zeros,fc2.flipped,fc2.code.0,fc2.code.1,fc2.code.2\n1,";
    assert_memory_equal(all, header, strlen(header));
    int rows = 0;
    for (const char *c = all; *c; c++) rows += *c == '\n';
    assert_int_equal(rows, 4);
}

/* The digest of the weights that are trained, also where their averages are tested and where the best weights are read for the test
 * images; a run that is stopped and goes on has the same. */
static void test_the_last_digest_is_that_of_the_result(void **state)
{
    static const char *const options[] = { "", "--ema 0.9", "--validation 40 --ema 0.9", "--weight ttq --quantize-weights-after 20" };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char line[300], digest[3][32], all[TEXT_BYTES];
        snprintf(line, sizeof line, TRAIN "--epochs 2 %s --out @/digests --force --json", options[i]);
        assert_status(line, 0);
        slurp(at("digests/metrics.csv"), all, sizeof all);
        const char *row = all;
        for (int epoch = 0; epoch < 2; epoch++) {
            row = strchr(row, '\n') + 1;
            assert_int_equal(sscanf(row, "%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%31[^,]", digest[epoch]), 1);
        }
        assert_int_equal(strlen(digest[0]), 16);
        assert_string_not_equal(digest[0], digest[1]);
        assert_string_equal(digest[1], last_text("digest"));
        snprintf(line, sizeof line, TRAIN "--epochs 2 %s --budget 0 --out @/digests-parts --force --json", options[i]);
        assert_status(line, 3);
        assert_status("train --resume --out @/digests-parts --json", 0);
        assert_same_run("digests", "digests-parts");
    }
}

static void test_a_configuration_file_gives_the_same_run(void **state)
{
    assert_status(TRAIN "--epochs 2 --layer fc2:weight=binary --lr 0.003 --schedule cosine "
                        "--loss squared-hinge --out @/typed --json", 0);
    assert_status("train --config @/typed/config.toml --out @/filed --json", 0);
    assert_same_run("typed", "filed");
    assert_same_file(at("typed/config.toml"), at("filed/config.toml"));
    assert_status("train --config @/typed/config.toml --seed 9 --out @/other --json", 0);
    assert_true(last_number("seed") == 9);
}

static void test_every_kind_of_schedule_trains(void **state)
{
    static const char *const schedules[] = { "constant", "step:at=0.5", "exponential:factor=0.01", "cosine", "linear" };
    char line[400], config[4096], want[64];
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        snprintf(line, sizeof line, TRAIN "--epochs 1 --schedule %s --out @/schedule --force --json", schedules[i]);
        assert_status(line, 0);
        assert_true(last_truth("complete"));
        slurp(at("schedule/config.toml"), config, sizeof config);
        snprintf(want, sizeof want, "schedule = \"%s\"\n", schedules[i]);
        if (!strstr(config, want)) fail_msg("%s: %s", schedules[i], config);
    }
}

static void test_signed_inputs_and_adam_train_too(void **state)
{
    assert_status(
        TRAIN "--epochs 1 --input sign --first-last float --optimizer adam --out @/sign --json", 0);
    assert_true(last_truth("complete"));
    assert_string_equal(last_text("input"), "sign");
}

/* One step per epoch, and a rate that grows from 0 to 1000: the run goes wrong after some epochs.
 * Many steps at that rate: it goes wrong in the first. */
static void test_a_loss_that_is_not_finite_ends_the_run(void **state)
{
    assert_status("train " SET
                  "--batch 240 --epochs 50 --lr 1000 --momentum 0.99 --loss squared-hinge "
                  "--schedule constant:warmup=1 --out @/nan --json",
                  1);
    assert_string_equal(last.out, "");
    assert_stderr("qgrad train: epoch ");
    assert_stderr("not finite; ");
    assert_stderr("; a lower learning rate, a warm-up, or a limit on the norm of the gradients usually helps\n");
    assert_status("eval --run @/nan --json", 0);
    assert_true(last_number("test_accuracy") >= 0);
    assert_refuses("train " SET
                   "--batch 8 --lr 1000 --momentum 0.99 --loss squared-hinge --out @/nan2 --json",
                   1, "epoch 1, step ");
    /* A checkpoint precedes the first step, so a kill never leaves a row without one. */
    assert_int_equal(access(at("nan2/last.safetensors"), F_OK), 0);
}

/* Runs the commands that train suggested, and returns their number. */
static int run_suggestions(void)
{
    static char lines[TEXT_BYTES];
    const char *from = strstr(last.out, "Try next:\n");
    assert_non_null(from);
    strcpy(lines, from + strlen("Try next:\n"));
    int n = 0;
    for (char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        char command[1024];
        *end = '\0';
        assert_memory_equal(line, "  ", 2);
        assert_memory_equal(line + 2, program, strlen(program));
        snprintf(command, sizeof command, "%s%s", line + 2 + strlen(program) + 1,
                 strstr(line, " bench ") ? " --seconds 0.01 --json" : " --json");
        assert_status(command, 0);
        cJSON *j = parse();                     /* of these images, not of MNIST's */
        if (strstr(line, " eval ")) assert_true(number(j, "images") == N_TEST);
        if (strstr(line, " bench "))
            assert_true(cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j, "image"), 0)->valueint == SIDE);
        cJSON_Delete(j);
    }
    return n;
}

/* config.toml of `run` has these lines and otherwise equals that of `of`. */
static void assert_differs_by(const char *run, const char *of, const char *lines)
{
    static char said[TEXT_BYTES];
    run_shell("diff @/%s/config.toml @/%s/config.toml | sed -n 's/^> //p' > @/diff", of, run);
    slurp(at("diff"), said, sizeof said);
    assert_string_equal(said, lines);
}

/* Names are any bytes: a shell is shown them in quotes, a terminal and JSON as characters. */
static void test_names_of_any_bytes(void **state)
{
    assert_status(TRAIN "--epochs 1 --out @/it's\xff --json", 0);
    assert_true(qg__utf8_valid(last.out, strlen(last.out)));
    assert_non_null(strstr(last_text("run"), "/it's\\xff"));
    assert_status("train --resume --out @/it's\xff", 0);
    assert_stdout("/it's\\xff\n");
    assert_stdout("/it\\'s\\377' --best\n");
    assert_status(TRAIN "--epochs 1 --out @/it's\xc3\xa9", 0);          /* U+00E9 */
    assert_stdout("/it's\xc3\xa9\n");
    assert_stdout("/it'\\''s\xc3\xa9' --best\n");
    run_shell("%s eval --run '@/it'\\''s\xc3\xa9' --best >@/quoted", program);
}

static void test_what_to_try_next_works(void **state)
{
#define OWN "--model lenet5 --epochs 1 --normalise channel --augment pad=1,flip "
    assert_status(TRAIN OWN "--weight float --out @/next/float", 0);
    assert_int_equal(run_suggestions(), 3);
    assert_differs_by("next/lenet5-twn-3", "next/float", "weight = \"twn\"\n");

    assert_status(TRAIN OWN "--weight dorefa:bits=2 --input dorefa:bits=2 --gradient dorefa:bits=6 "
                  "--quantize-after 3 --layer fc1:weight=binary --layer conv2:input=float --out @/next/all", 0);
    assert_int_equal(run_suggestions(), 3);
    assert_differs_by("next/lenet5-float-3", "next/all",
                      "weight = \"float\"\ninput = \"float\"\ngradient = \"float\"\n"
                      "layer = [\"fc1:weight=float\", \"conv2:input=float\"]\nquantize-after = 0\n");
    assert_status("train --resume --out @/next/all", 0);
    assert_int_equal(run_suggestions(), 2);     /* the float run is there */

    assert_status(TRAIN OWN "--weight bop --optimizer bop --seed 4 --out @/next/bop", 0);
    assert_int_equal(run_suggestions(), 3);
    assert_status(TRAIN OWN "--fold-batchnorm --seed 5 --out @/next/folded", 0);
    assert_int_equal(run_suggestions(), 2);     /* no option takes that back */
#undef OWN
}

/* --- the other verbs ---------------------------------------------------------------------- */

static void test_eval_finds_what_train_found(void **state)
{
    assert_status(TRAIN "--epochs 3 --out @/eval --json", 0);
    const double accuracy = last_number("test_accuracy"), best = last_number("best_test_accuracy");
    char         digest[32];
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
    assert_status("eval --run @/eval --json", 0);
    assert_true(last_number("test_accuracy") == accuracy);
    assert_true(last_number("images") == N_TEST);
    assert_string_equal(last_text("digest"), digest);
    assert_status("eval --run @/eval --best --json", 0);
    assert_true(last_number("test_accuracy") == best);
    assert_status("eval --run @/eval", 0);
    assert_stdout("test accuracy");
    assert_status("eval --run @/eval --tta", 0);
    assert_stdout("\nwith --tta     ");
    assert_status("eval --run @/eval --tta --json", 0);
    assert_true(last_number("test_accuracy") == accuracy && last_number("tta_accuracy") > 0);
    assert_refuses("eval --run @/eval --data sample", 2, "sample: its images are 28x28x1 in 10 classes");
}

static double accuracy_of(const char *line)
{
    assert_status(line, 0);
    const double p = last_number("test_accuracy");
    return p;
}

/* eval --weight evaluates the net that a run with --init begins with. */
static void test_eval_with_another_scheme(void **state)
{
    assert_status("train " SET "--epochs 3 --out @/plain --json", 0);
    const double plain = accuracy_of("eval --run @/plain --json");
    assert_true(accuracy_of("eval --run @/plain --weight float --json") == plain);
    static const char *const schemes[] = { "twn", "binary-channel", "lsq:bits=2" };
    for (int i = 0; i < 3; i++) {
        char line[256];
        snprintf(line, sizeof line, "eval --run @/plain --weight %s --json", schemes[i]);
        const double quantized = accuracy_of(line);
        assert_string_equal(last_text("weight"), schemes[i]);
        assert_stops("train " SET "--weight %s --init @/plain --budget 0 --out @/from-plain-%d", schemes[i], i);
        snprintf(line, sizeof line, "eval --run @/from-plain-%d --json", i);
        assert_true(accuracy_of(line) == quantized);
    }
    assert_status("eval --run @/plain --best --weight ttq", 0);
    assert_stdout("weights        ttq, trained as float\n");
    assert_stdout("initialised as usual: conv1.weight.wp");

    /* Trained with stochastic signs, tested with latent weights or with their signs. */
    assert_status("train " SET "--weight binaryconnect:draw=stoch,eval=float --epochs 2 --out @/chance --json", 0);
    const double latent = accuracy_of("eval --run @/chance --json");
    assert_true(accuracy_of("eval --run @/chance --weight float --json") == latent);
    assert_status("eval --run @/chance --weight binaryconnect --json", 0);

    /* Step sizes learned for 8 bits do not apply to 4. */
    assert_status("train " SET "--weight lsq:bits=8 --epochs 3 --out @/eight --json", 0);
    const double eight = accuracy_of("eval --run @/eight --json");
    assert_true(accuracy_of("eval --run @/eight --weight lsq:bits=8 --json") == eight);
    assert_status("eval --run @/eight --weight lsq:bits=4", 0);
    assert_stdout("initialised as usual: conv1.weight.step");
    assert_status("train " SET "--weight lsq:bits=4 --epochs 1 --init @/eight --out @/four", 0);
    assert_stdout("initialised as usual: conv1.weight.step");
    assert_status("train " SET "--weight lsq:bits=8 --epochs 1 --init @/eight --out @/eight-on", 0);
    assert_null(strstr(last.out, "initialised as usual"));
    assert_status("eval --run @/eight --weight fake_quant:range=learned,per-channel=yes", 0);
    assert_null(strstr(last.out, ".seen"));
    assert_refuses("eval --run @/plain --weight bop", 2, "conv1.weight has no latent weights");
    assert_refuses("eval --run @/plain --weight twm", 2, "unknown scheme 'twm'");
}

/* A range starts from the weight that its quantizer sees: here, ten times as large as the latent one. */
static void test_ranges_of_folded_weights(void **state)
{
    assert_status("train " SET "--weight fake_quant:range=current --fold-batchnorm --epochs 12 --out @/folded --json", 0);
    const double trained = accuracy_of("eval --run @/folded --json");
    assert_true(trained > 0.9);
    /* The same eight bits over the same ranges, except that nudging moves the ends by part of a step. */
    assert_true(accuracy_of("eval --run @/folded --weight fake_quant:range=learned --json") > trained - 0.1);
    assert_true(accuracy_of("eval --run @/folded --weight fake_quant:range=observed,per-channel=yes --json") > trained - 0.1);
}

static void test_summary_counts_bytes(void **state)
{
    assert_status("summary --model lenet5 --weight twn --json", 0);
    cJSON *j = parse();
    assert_true(number(j, "parameters") == 582634);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(j, "layers");
    assert_true(cJSON_GetArraySize(layers) >= 4);
    assert_string_equal(text(cJSON_GetArrayItem(layers, 0), "weight"), "twn");
    cJSON_Delete(j);
    assert_null(strstr(last.out, "integers"));
    assert_status("summary --image 32x32x3 --model 4C3-BN-R-GAP-4", 0);         /* of no data set */
    assert_refuses("summary --image 32x32x3 --model 4C3-GAP-4 --data cifar10", 2, "the data has 10 classes");
    assert_status("summary --model lenet5", 0);
    assert_stdout("conv1");
}

static void test_summary_tells_what_trains_in_integers(void **state)
{
#define CODES "--first-last quantized --weight dorefa --input dorefa --gradient stochastic "
    const cJSON *layer;
    int          seen = 0;
    assert_status("summary --model lenet5 --layer fc1:gradient=float " CODES "--json", 0);
    cJSON *j = parse();
    cJSON_ArrayForEach(layer, cJSON_GetObjectItemCaseSensitive(j, "layers")) {
        const cJSON *is   = cJSON_GetObjectItemCaseSensitive(layer, "trains_in_integers");
        const char  *name = text(layer, "name");
        if (!strcmp(name, "conv1")) seen += cJSON_IsFalse(is);      /* reads the image */
        if (!strcmp(name, "conv2")) seen += cJSON_IsTrue(is);
        if (!strcmp(name, "fc1")) seen += !is;
    }
    assert_int_equal(seen, 3);
    cJSON_Delete(j);
    assert_status("summary --model lenet5 " CODES, 0);
    assert_stdout("\nconv2 trains in integers: input, weight and gradient are codes\n");
    assert_status(TRAIN CODES "--budget 0 --out @/integers", 3);
    assert_stdout("\nconv2 trains in integers: ");
}

static void test_bench_measures(void **state)
{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    const int status = qgrad("bench train --model lenet5 --weight twn --batch 8 --data synthetic "
                             "--seconds 0.3 --profile --json");
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_int_equal(status, 0);
    assert_true((double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec) > 0.3);
    cJSON *j = parse();
    assert_true(number(j, "steps") >= 3);
    assert_true(fabs(number(j, "images_per_second") * number(j, "ms_per_step") / 8000 - 1) < 1e-6);
    assert_true(number(j, "peak_rss_bytes") > 1e6);
    bool conv = false;
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(j, "profile"))
        conv |= !strcmp(text(row, "op"), "conv2d") && number(row, "forward_gflops") > 0;
    assert_true(conv);
    cJSON_Delete(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_is_no_error),
        cmocka_unit_test(test_the_short_help_is_a_page),
        cmocka_unit_test(test_help_is_of_its_command),
        cmocka_unit_test(test_wrong_usage_is_named_and_gives_2),
        cmocka_unit_test(test_options_that_are_given_twice),
        cmocka_unit_test(test_bad_files_give_1_and_leave_nothing),
        cmocka_unit_test_teardown(test_a_misspelt_variable_is_named, restore_variables),
        cmocka_unit_test_teardown(test_processes_that_are_no_ranks_are_told, restore_variables),
        cmocka_unit_test(test_a_batch_norm_needs_two_images),
        cmocka_unit_test(test_splits_of_different_images_are_refused_before_training),
        cmocka_unit_test(test_unwritable_directories_and_full_disks),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_written_costs_nothing),
        cmocka_unit_test(test_training_on_the_sample),
        cmocka_unit_test(test_the_same_run_on_any_number_of_threads),
        cmocka_unit_test(test_another_seed_is_another_run),
        cmocka_unit_test(test_metrics_have_a_row_per_epoch),
        cmocka_unit_test(test_the_last_digest_is_that_of_the_result),
        cmocka_unit_test(test_a_configuration_file_gives_the_same_run),
        cmocka_unit_test(test_every_kind_of_schedule_trains),
        cmocka_unit_test(test_signed_inputs_and_adam_train_too),
        cmocka_unit_test(test_a_loss_that_is_not_finite_ends_the_run),
        cmocka_unit_test(test_what_to_try_next_works),
        cmocka_unit_test(test_names_of_any_bytes),
        cmocka_unit_test(test_eval_finds_what_train_found),
        cmocka_unit_test(test_eval_with_another_scheme),
        cmocka_unit_test(test_ranges_of_folded_weights),
        cmocka_unit_test(test_summary_counts_bytes),
        cmocka_unit_test(test_summary_tells_what_trains_in_integers),
        cmocka_unit_test(test_bench_measures),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
