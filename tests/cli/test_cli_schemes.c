/* Every scheme on the command line: training, stopping and resuming, evaluation, description. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/state.h"
#include "quant/scheme.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"

enum { STEPS = N_TRAIN / 24, LINE_BYTES = 1024 };

static char digest[32];                         /* of the last call of train() */

/* A run in root/name with these options, which must succeed. */
static void train(const char *options, const char *name)
{
    assert_runs("train --json " SET "--batch 24 %s --out @/%s", options, name);
    assert_true(last_truth("complete"));
    snprintf(digest, sizeof digest, "%s", last_text("digest"));
}

/* A field of the last row of metrics.csv; NaN if the column does not exist. */
static double metric(const char *run, const char *column)
{
    static char all[TEXT_BYTES];
    char        name[128];
    snprintf(name, sizeof name, "%s/metrics.csv", run);
    slurp(at(name), all, sizeof all);
    const char *head = all, *row = all;
    for (const char *c = all; *c; c++)
        if (*c == '\n' && c[1]) row = c + 1;
    for (const size_t n = strlen(column); *head; head += strcspn(head, ",\n") + 1) {
        if (!strncmp(head, column, n) && strchr(",\n", head[n])) return strtod(row, NULL);
        if (head[strcspn(head, ",\n")] == '\n') break;
        row += strcspn(row, ",\n") + 1;
    }
    return NAN;
}

/* --- every row ---------------------------------------------------------------------------- */

/* What `qgrad eval` finds is what training found. */
static void assert_evaluates_alike(const char *run, const char *more)
{
    assert_runs("eval --json --run @/%s%s", run, more);
    assert_true(fabs(last_number("test_loss") - metric(run, "test_loss")) <
                1e-8 * (1 + fabs(last_number("test_loss"))));     /* both print nine digits */
}

static void train_row(const char *option, const char *scheme, const char *plain)
{
    char options[256], run[64];
    snprintf(options, sizeof options, "--epochs 1 --%s %s%s", option, scheme,
             !strcmp(scheme, "bop") ? " --optimizer bop" : "");
    snprintf(run, sizeof run, "%s-%s", option, scheme);
    train(options, run);
    /* Every scheme changes the result of ten steps; float is the reference. */
    if (strcmp(scheme, "float")) assert_string_not_equal(digest, plain);
    else assert_string_equal(digest, plain);
    assert_evaluates_alike(run, "");
}

/* The help lists the table, so a row that is new is trained too. */
static void test_every_scheme_of_the_help_trains(void **state)
{
    static char help[TEXT_BYTES];
    char        plain[32], option[32] = "";
    int         rows = 0, known = 3;            /* float, in three roles */
    train("--epochs 1", "plain");
    strcpy(plain, digest);
    assert_status("train --help all", 0);
    strcpy(help, last.out);
    for (char *line = strstr(help, "\nfor --"); line; line = strchr(line + 1, '\n')) {
        char scheme[32];
        if (!strncmp(line, "\nData sets", 10)) break;
        if (sscanf(line, "\nfor --%31[a-z]:", option) == 1) continue;
        if (strncmp(line, "\n  ", 3) || line[3] == ' ' || sscanf(line, " %31s", scheme) != 1) continue;
        train_row(option, scheme, plain);
        rows++;
    }
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        for (unsigned role = QG_WEIGHT; role <= QG_GRADIENT; role *= 2) known += ((*s)->roles & role) != 0;
    assert_int_equal(rows, known);
    assert_true(rows >= 28);
}

/* --- stopping and going on ---------------------------------------------------------------- */

/* Stops before the first step, then again and again. */
static void assert_resumes(const char *options, int i)
{
    char whole[32], parts[32];
    snprintf(whole, sizeof whole, "whole%d", i);
    snprintf(parts, sizeof parts, "parts%d", i);
    train(options, whole);
    assert_stops("train --json " SET "--batch 24 %s --budget 0 --out @/%s", options, parts);
    finish_in_sittings(parts, 25);
    assert_same_run(whole, parts);
}

static void test_what_schemes_remember_survives_a_stop(void **state)
{
    static const char *const options[] = {
        "--epochs 3 --weight fake_quant:range=learned --input fake_quant:range=observed,freeze-after=17",
        "--epochs 3 --weight fake_quant:range=percentile,per-channel=yes --input fake_quant:range=percentile "
        "--quantize-after 13",
        "--epochs 3 --weight ttq:start=weights,decay=1e-4 --optimizer adam --quantizer-lr-scale 0.1",
        "--epochs 3 --weight lsq --input lsq --lr 0.001 --quantizer-decay 1e-3 --norm-decay 1e-3",
        "--epochs 3 --weight bop --optimizer bop --gamma 1e-3 --input xnor --first-last float "
        "--layer fc2:weight=bop",
        "--epochs 3 --weight binaryconnect:draw=stoch --gradient dorefa --input pact",
        "--epochs 3 --weight twn --gradient stochastic --layer fc1:gradient=stochastic:bits=4,percentile=99",
        "--epochs 3 --weight fake_quant --fold-batchnorm --freeze-batchnorm-after 14",
        "--epochs 3 --weight bnn:surrogate=annealed-tanh --input sign:surrogate=annealed-tanh",
    };
    for (int i = 0; i < (int)(sizeof options / sizeof *options); i++) assert_resumes(options[i], i);
}

/* --- waiting ------------------------------------------------------------------------------ */

/* Leaves layers and parameters as they are in the float net. */
#define COARSE "fake_quant:range=fixed,bits=2"

static void test_evaluation_waits_as_long_as_training(void **state)
{
    char plain[32];
    train("--epochs 1", "float");
    strcpy(plain, digest);
    /* Not one step of training is quantized, nor is the evaluation before step 11. */
    train("--epochs 1 --input " COARSE " --quantize-after 11", "waits");
    assert_string_equal(digest, plain);
    assert_true(metric("waits", "test_loss") == metric("float", "test_loss"));
    assert_evaluates_alike("waits", " --best");
    /* Still none, but as many steps as it waits for are done when the net is evaluated. */
    assert_int_equal(STEPS, 10);
    train("--epochs 1 --input " COARSE " --quantize-after 10", "waited");
    assert_string_equal(digest, plain);
    assert_true(metric("waited", "test_loss") != metric("float", "test_loss"));
    assert_evaluates_alike("waited", "");
    assert_evaluates_alike("waited", " --best");
    train("--epochs 1 --input " COARSE " --quantize-after 9", "began");
    assert_string_not_equal(digest, plain);
}

/* Code statistics and inspect look at the weight that is quantized, which is the folded one. */
static void test_codes_are_those_of_the_folded_weight(void **state)
{
    train("--epochs 1 --weight fake_quant:bits=3 --fold-batchnorm", "folded");
    assert_status("inspect @/folded --json", 0);
    cJSON       *j    = parse();
    const cJSON *fc1  = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j, "layers"), 2);
    const cJSON *q    = cJSON_GetObjectItemCaseSensitive(fc1, "quantized");
    const cJSON *x    = cJSON_GetObjectItemCaseSensitive(fc1, "latent");
    const double most = fmax(-number(x, "min"), number(x, "max"));
    assert_true(truth(q, "folded"));
    assert_true(fabs(number(q, "zero_share") - metric("folded", "fc1.zeros")) < 1e-8);
    /* The largest level is the largest weight, which the factor 1 / deviation has moved. */
    assert_true(fabs(number(q, "max") - most) > 0.01 * most);
    cJSON_Delete(j);
}

/* --- what is learned ---------------------------------------------------------------------- */

/* The shares of codes of conv2 that are 0 in a, and that differ between two checkpoints; counted here. */
static double differing(const char *a, const char *b, double *zeros)
{
    char        name[128];
    qg_archive *file[2];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/last.safetensors", i ? b : a);
        file[i] = qg_archive_open(at(name));
    }
    const qg_named_array *x = qg_archive_find(file[0], "codes.conv2"), *y = qg_archive_find(file[1], "codes.conv2");
    assert_true(x && y && x->bytes == y->bytes && !strcmp(x->dtype, "I8"));
    double flips = 0;
    *zeros       = 0;
    for (size_t i = 0; i < x->bytes; i++) {
        flips += ((const int8_t *)x->array.data)[i] != ((const int8_t *)y->array.data)[i];
        *zeros += ((const int8_t *)x->array.data)[i] == 0;
    }
    flips /= (double)x->bytes, *zeros /= (double)x->bytes;
    qg_archive_free(file[0]), qg_archive_free(file[1]);
    return flips;
}

/* With a constant rate a run of e epochs is the beginning of a longer one. */
static void test_flips_are_counted_since_the_epoch_before(void **state)
{
    train("--weight twn --schedule constant --epochs 1", "flips-1");
    train("--weight twn --schedule constant --epochs 2", "flips-2");
    train("--weight twn --schedule constant --epochs 3", "flips-3");
    assert_status(TRAIN "--json --schedule constant --epochs 3 --budget 0 --out @/flips-0", 3);
    for (int e = 1; e <= 3; e++) {
        char   run[24], before[24];
        double zeros;
        snprintf(run, sizeof run, "flips-%d", e);
        snprintf(before, sizeof before, "flips-%d", e - 1);
        const double flips = differing(run, before, &zeros);
        assert_true(flips > 0 && zeros > 0);
        assert_true(fabs(metric(run, "conv2.flipped") - flips) < 1e-8);     /* written with nine digits */
        assert_true(fabs(metric(run, "conv2.zeros") - zeros) < 1e-8);
    }
}

static void test_metrics_follow_what_is_learned(void **state)
{
    train("--epochs 2 --weight ttq --input fake_quant:range=observed", "follow");
    assert_true(fabs(metric("follow", "conv1.weight.wp") - 1) > 1e-3);
    assert_true(metric("follow", "fc2.weight.wn") != metric("follow", "fc2.weight.wp"));
    assert_true(metric("follow", "conv2.input.min") == 0);         /* after a relu */
    assert_true(metric("follow", "conv2.input.max") > 0);
    assert_true(isnan(metric("follow", "conv2.input.seen")));
    assert_true(isnan(metric("follow", "conv1.input.max")));       /* reads the image */
    train("--epochs 1 --weight fake_quant:range=learned,per-channel=yes", "channels");
    const double least = metric("channels", "conv1.weight.max.least");
    const double mean  = metric("channels", "conv1.weight.max.mean");
    assert_true(0 < least && least < mean && mean < metric("channels", "conv1.weight.max.greatest"));
    assert_true(isnan(metric("channels", "conv1.weight.max")));
}

/* An option sets the start of a range, which may be far from the tensor. */
static void test_a_lost_range_is_reported(void **state)
{
    train("--epochs 1 --weight fake_quant:range=learned", "fits");
    assert_null(strstr(last.err, "warning"));
    assert_true(metric("fits", "fc1.weight.span") > 0.5 && metric("fits", "fc1.weight.span") < 2);
    train("--epochs 1 --layer fc1:weight=fake_quant:range=learned,min=-100,max=100", "lost");
    assert_stderr("warning: fc1.weight.span is 0.00");
    assert_stderr(", not 0.25 .. 100; fake_quant: the range no longer fits what it quantizes; set where it starts");
    assert_true(fabs(metric("lost", "fc1.weight.max") - 100) < 1);
    train("--epochs 1 --weight fake_quant:range=learned,min=-100,max=100", "all");
    assert_stderr("; and 1 more; fake_quant: the range");
}

/* The two settings that do not train from small weights say so; the default and the option that helps say nothing. */
static void test_what_does_not_train_says_so(void **state)
{
    train("--epochs 1 --weight ste-tern:relative=no", "fixed");
    assert_stderr("qgrad: warning: conv2.weight: ste-tern: most initial weights may lie below the fixed threshold");
    train("--epochs 1 --weight binaryconnect:draw=stoch", "toss");
    assert_stderr("add start=unit and glorot-lr=adam");
    train("--epochs 1 --weight ste-tern", "relative");
    assert_null(strstr(last.err, "threshold"));
    train("--epochs 1 --weight binaryconnect:draw=stoch,start=unit,glorot-lr=sgd", "spread");
    assert_null(strstr(last.err, "start=unit"));
}

/* A rate of one in a million leaves Wp at 1; a decay pulls it down. */
static void test_quantizers_have_a_group_of_their_own(void **state)
{
    train("--epochs 1 --weight ttq:as=paper --quantizer-lr-scale 1e-6", "still");
    assert_true(fabs(metric("still", "conv1.weight.wp") - 1) < 1e-3);
    train("--epochs 1 --weight ttq:as=paper --quantizer-decay 0", "free");
    train("--epochs 1 --weight ttq:as=paper --quantizer-decay 5", "pulled");
    assert_true(metric("pulled", "conv1.weight.wp") < metric("free", "conv1.weight.wp") - 0.05);
    char before[32];
    strcpy(before, digest);
    train("--epochs 1 --weight ttq:as=paper --quantizer-decay 5 --norm-decay 0.5 --norm-lr-scale 2", "norms");
    assert_string_not_equal(digest, before);
    assert_refuses("train --resume --out @/norms --norm-decay 0.25", 2,
                   "norm-decay is 0.5 in the run, but 0.25");
}

static const cJSON *layer(const cJSON *j, const char *name)
{
    const cJSON *l;
    cJSON_ArrayForEach(l, cJSON_GetObjectItemCaseSensitive(j, "layers"))
        if (!strcmp(text(l, "name"), name)) return l;
    fail_msg("no layer %s", name);
    return NULL;
}

/* fc2 has 10 rows of 512 weights: 1 bit each are 640 bytes, 2 bits 1280.  Each output has a factor and an offset, and of TTQ
 * two factors. */
static void test_packed_bytes_count_the_bits_there_are(void **state)
{
    static const struct {
        const char *scheme;
        double      bytes;
    } rows[] = { { "twn", 1280 + 80 },         { "twn:per-channel=yes", 1280 + 80 },
                 { "ttq", 1280 + 120 },        { "ste-tern --first-last quantized", 1280 + 80 },
                 { "bnn --first-last quantized", 640 + 80 },          { "binary", 640 + 80 },
                 { "xnor --first-last quantized", 640 + 80 },         { "binaryconnect:draw=stoch,eval=float --first-last quantized", 20480 + 80 },
                 { "fake_quant", 5120 + 80 },  { "fake_quant:range=learned,per-channel=yes", 5120 + 80 + 10 },     /* zero points */
                 { "lsq:bits=4", 2560 + 80 },  { "bop", 640 + 80 },
                 { "qdq:bits=4", 2560 + 80 },  { "qdq:per-channel=yes", 5120 + 80 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_runs("summary --model lenet5 --json --weight %s", rows[i].scheme);
        cJSON       *j = parse();
        const double found = number(layer(j, "fc2"), "packed_bytes");
        if (found != rows[i].bytes) fail_msg("%s: %g bytes, not %g", rows[i].scheme, found, rows[i].bytes);
        cJSON_Delete(j);
    }
}

static void test_the_summary_names_what_is_learned(void **state)
{
    const char *options = "summary --model lenet5 --weight ttq:as=paper --first-last quantized --input fake_quant:range=observed,freeze-after=90 "
                          "--gradient dorefa:bits=5 --quantize-after 70";
    assert_status(options, 0);
    assert_stdout("conv1.weight     ttq, 2 bits; learns wp 1, wn 1\n");
    assert_stdout("conv2.input      fake_quant:range=observed, 8 bits, after 70 steps, frozen after 90 "
                                     "steps; tracks min 0, max 0\n");
    assert_stdout("fc2.gradient     dorefa, 5 bits\n");
    assert_runs("%s --json", options);
    cJSON       *j = parse();
    const cJSON *q = cJSON_GetObjectItemCaseSensitive(layer(j, "conv2"), "quantizers");
    assert_int_equal(cJSON_GetArraySize(q), 3);
    assert_string_equal(text(cJSON_GetArrayItem(q, 1), "scheme"), "fake_quant:range=observed");
    assert_string_equal(text(cJSON_GetArrayItem(q, 1), "operand"), "input");
    assert_true(number(cJSON_GetArrayItem(q, 1), "after") == 70);
    assert_true(number(cJSON_GetArrayItem(q, 2), "bits") == 5);
    const cJSON *wn = cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(q, 0), "learned"), 1);
    assert_string_equal(text(wn, "name"), "conv2.weight.wn");
    assert_true(truth(wn, "trained") && number(wn, "mean") == 1 && number(wn, "numbers") == 1);
    assert_string_equal(text(j, "input"), "fake_quant:bits=8,range=observed,freeze-after=90");
    assert_string_equal(text(j, "gradient"), "dorefa:bits=5");
    cJSON_Delete(j);
}

/* --- what is refused ---------------------------------------------------------------------- */

static void test_what_does_not_go_together_is_wrong_usage(void **state)
{
    static const struct {
        const char *options, *part;
    } lines[] = {
        { "--weight bop", "pass --optimizer bop" },
        { "--weight twn --layer fc1:weight=bop --optimizer adam", "pass --optimizer bop" },
        { "--weight twn --optimizer bop", "bop only trains weights of the scheme bop" },
        { "--weight bop --optimizer bop --momentum 0.9", "momentum is an option of sgd, not of bop" },
        { "--optimizer adam --gamma 0.1", "gamma is an option of bop, not of adam" },
        { "--beta1 0.5", "beta1 is an option of adam and bop, not of sgd" },
        { "--optimizer adam --beta1 1", "beta1 1 is not in" },
        { "--fold-batchnorm", "fold-batchnorm: no weight is quantized" },
        { "--quantize-after 5", "quantize-after: no input is quantized" },
        { "--input ttq", "ttq is a scheme for weights, not for inputs; available: float, sign" },
        { "--weight twn --gradient twn", "twn is a scheme for weights, not for gradients" },
        { "--layer fc1:gradient=sign", "sign is a scheme for inputs, not for gradients" },
        { "--layer fc9:gradient=dorefa", "no layer 'fc9'" },
        { "--weight ttq:threshold=3", "threshold is 3, not in 0.0001..0.9999" },
        { "--weight fake_quant:range=fixed,min=0,max=0", "min is 0, not below max, 0" },
        { "--weight fake_quant:range=fixed,min=2,max=1", "min is 2, not below max, 1" },
        { "--weight ttq:rule=wrong", "rule 'wrong' is not one of exact|as-printed" },
        { "--weight ttq:wp=1", "ttq: unknown option 'wp'; available: as, threshold, rule, start, decay, gradient, straight, scale-lr, per-channel, surrogate" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "train " SET "%s --out @/refused", lines[i].options);
        assert_refuses(line, 2, lines[i].part);
    }
    assert_refuses("bench train --model lenet5 --weight bop --data synthetic", 2, "pass --optimizer bop");
    assert_refuses("train --model tfc --data synthetic --weight xnor --input xnor --out @/refused", 2,
                   "quant1: xnor scales the result of a product and cannot be a layer of its own; "
                   "xnor:scale=off does not scale");
    assert_status("summary --model tfc --data synthetic --weight xnor --input xnor:scale=off", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_scheme_of_the_help_trains),
        cmocka_unit_test(test_what_schemes_remember_survives_a_stop),
        cmocka_unit_test(test_evaluation_waits_as_long_as_training),
        cmocka_unit_test(test_codes_are_those_of_the_folded_weight),
        cmocka_unit_test(test_flips_are_counted_since_the_epoch_before),
        cmocka_unit_test(test_metrics_follow_what_is_learned),
        cmocka_unit_test(test_a_lost_range_is_reported),
        cmocka_unit_test(test_what_does_not_train_says_so),
        cmocka_unit_test(test_quantizers_have_a_group_of_their_own),
        cmocka_unit_test(test_packed_bytes_count_the_bits_there_are),
        cmocka_unit_test(test_the_summary_names_what_is_learned),
        cmocka_unit_test(test_what_does_not_go_together_is_wrong_usage),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
