/* The verbs that answer questions: gradcheck, explain and inspect of build/qgrad, or $QGRAD. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"

/* --- gradcheck ---------------------------------------------------------------------------- */

static void every_gradient_passes(void **state)
{
    int rows = 0, passes = 0;
    assert_status("gradcheck", 0);
    for (char *line = strtok(last.out, "\n"); line; line = strtok(NULL, "\n")) {
        const size_t n = strlen(line);
        rows += strstr(line, "e-0") || strstr(line, "0.0e+00");
        passes += n > 4 && !strcmp(line + n - 4, "pass");
        if (n > 4 && !strcmp(line + n - 4, "FAIL")) fail_msg("%s", line);
    }
    assert_int_equal(rows, passes);
    assert_true(rows >= 300);
}

static void formulas_as_printed_fail_and_say_why(void **state)
{
    assert_status("gradcheck --paper", 0);
    assert_stdout("TTQ, dWn as printed");
    assert_stdout("with the printed sign every step moves Wn uphill");
    assert_stdout("XNOR, dw by way of alpha as printed");
    assert_stdout(" as expected, 0 not");
    const char *paper = strstr(last.out, "formulas as printed");
    int         fails = 0;
    assert_non_null(paper);
    for (const char *at = last.out; (at = strstr(at, "FAIL\n")); at++) {
        assert_true(at > paper);
        fails++;
    }
    assert_int_equal(fails, 2);
}

static void checks_are_told_to_programs_too(void **state)
{
    assert_status("gradcheck --paper --json", 0);
    cJSON *all = parse(), *check;
    int    passes = 0, fails = 0;
    cJSON_ArrayForEach(check, cJSON_GetObjectItem(all, "checks"))
    {
        const int pass = cJSON_IsTrue(cJSON_GetObjectItem(check, "pass"));
        if (!cJSON_IsTrue(cJSON_GetObjectItem(check, "checked"))) continue;    /* a scheme that states no surrogate */
        assert_true(cJSON_IsTrue(cJSON_GetObjectItem(check, "expected")));
        assert_int_equal(pass, number(check, "error") <= number(check, "tolerance"));
        assert_int_equal(pass, cJSON_GetObjectItem(check, "why") == NULL);
        assert_true(*text(check, "name") && *text(check, "reason") &&
                    *text(check, "against"));
        passes += pass;
        fails += !pass;
    }
    assert_int_equal(fails, 2);
    assert_true(number(all, "as_expected") == passes + fails);
    assert_true(number(all, "not_as_expected") == 0);
    cJSON_Delete(all);
}

/* Every learned parameter has a row that ends in its name. */
static void what_is_learned_is_checked(void **state)
{
    static const char *const rows[] = {
        "fake_quant: min", "fake_quant: max", "fake_quant:per-channel=yes: min", "fake_quant:bits=16: min",
        "fake_quant:bits=16: max", "lsq: step", "lsq:bits=3: step", "pact: alpha", "pact:bits=32: alpha",
        "ttq: wp", "ttq: wn", "ttq:per-channel=yes: wp", "ttq:gradient=sum: wn",
        "fake_quant:gradient=sum: min", "fake_quant:gradient=sum: max",
        "fake_quant:range=learned,per-channel=yes,gradient=sum: max",
    };
    assert_status("gradcheck", 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_stdout(rows[i]);
}

/* --- explain ------------------------------------------------------------------------------ */

/* All of them, which takes most of a second. */
static const char *page_of_schemes(void)
{
    static char page[TEXT_BYTES];
    if (!*page) {
        assert_status("explain --markdown", 0);
        strcpy(page, last.out);
    }
    return page;
}

static void every_scheme_is_explained(void **state)
{
    char names[64][32];
    int  n = 0;
    assert_status("explain --json", 0);
    cJSON *all = parse(), *scheme;
    cJSON_ArrayForEach(scheme, cJSON_GetObjectItem(all, "schemes"))
    {
        assert_true(n < 64 && strlen(text(scheme, "name")) < 32);
        strcpy(names[n++], text(scheme, "name"));
        if (!strcmp(names[n - 1], "float")) continue;
        const char *about = text(scheme, "text");
        assert_non_null(strchr(about, '\n'));
        if (!strstr(about, "q(")) fail_msg("%s is explained without a formula", names[n - 1]);
        if (!strstr(about, "earns") && !strstr(about, "racks"))
            fail_msg("%s does not say what it learns", names[n - 1]);
    }
    cJSON_Delete(all);
    assert_true(n >= 5);
    for (int i = 0; i < n; i++) {
        char words[64];
        snprintf(words, sizeof words, "explain %.31s", names[i]);
        assert_status(words, 0);
        assert_true(strlen(last.out) > 20);
    }
    assert_status("explain", 0);
    for (int i = 0; i < n; i++) assert_stdout(names[i]);
}

/* A name selects every scheme of that name; options select one of them. */
static void options_tell_which_scheme_is_meant(void **state)
{
    assert_status("explain lsq", 0);
    assert_stdout("signed codes");
    assert_stdout("codes from 0");
    assert_status("explain fake_quant:bits=4,range=observed", 0);
    assert_stdout("Tracks min and max");
    if (strstr(last.out, "trained min and max")) fail_msg("also of another range: %.400s", last.out);
    assert_status("explain fake_quant", 0);
    assert_stdout("Tracks min and max");
    assert_stdout("trained min and max");
    assert_refuses("explain fake_quant:range=guessed", 2, "fake_quant: range 'guessed' is not one of learned|");
}

/* Fields of the C specs follow their option in parentheses: start=unit (unit_start). */
static void explanations_spell_options_as_the_command_line_does(void **state)
{
    static const char *const fields[] = {
        "per_channel", "start_at_one", "as_printed", "through_max", "ties_up", "no_noise", "authors_adam",
        "no_scale", "float_eval", "unit_start", "glorot_lr", "narrow_range", "freeze_after", "sum_gradient", "is_signed", "is_unsigned", "max_value",
        "approx_sign", "centred)" };
    static const char *const options[] = {
        "per-channel=yes", "rule=as-printed", "max=through", "ties=up", "noise=off", "rule=authors-adam", "scale=off", "signed=no",
        "eval=float", "start=unit", "start=one", "glorot-lr=adam", "narrow-range=yes", "freeze-after", "signed=yes",
        "surrogate=approx-sign", "range=observed", "draw=stoch", "latent=centred", "zero=yes", "relative=no",
        "gradient=sum (sum_gradient)" };
    const char *page = page_of_schemes();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (const char *at = page; (at = strstr(at, fields[i])); at++)
            if (at[-1] != '(') fail_msg("%s stands for an option in \"%.60s\"", fields[i], at - 30);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strstr(page, options[i])) fail_msg("'%s' is not in the page", options[i]);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

/* An option that weights and inputs, or variants, share is printed once.  Others name the operand. */
static void options_are_printed_once(void **state)
{
    assert_int_equal(count(page_of_schemes(), "\nOptions of fake_quant:\n"), 1);
    assert_status("explain fake_quant", 0);
    assert_int_equal(count(last.out, "\n    decay="), 1);
    assert_int_equal(count(last.out, "\n    bits="), 1);
    assert_stdout("    range=learned|observed|percentile|fixed|current [learned] for weights\n");
    assert_stdout("    range=learned|observed|percentile|fixed [learned] for inputs\n");
    assert_int_equal(count(last.out, "nmin, nmax: the range moved"), 4);
    assert_int_equal(count(page_of_schemes(), "nmin, nmax: the range moved"), 4);
    assert_status("explain dorefa", 0);
    assert_stdout("    max=constant|through [constant] for weights\n");
    assert_stdout("    bits=1..16 or 32 [2] for weights\n");     /* 32 bits of inputs are another thing */
    assert_status("explain binary-channel", 0);
    assert_stdout("Options of binary-channel:\n    surrogate=NAME [identity]\n");
    if (strstr(last.out, "as=paper\n")) fail_msg("the default is the paper's rule: %s", last.out);
    assert_status("explain ttq", 0);
    assert_stdout("    as=paper\n        start=one,");
}

static void an_unknown_scheme_is_answered_with_the_known_ones(void **state)
{
    assert_refuses("explain tnw", 2, "unknown scheme 'tnw'; available: float, twn");
    assert_status("explain twn --markdown", 2);
    assert_refuses("explain twn binary", 2, "unexpected argument");
}

static void the_page_of_schemes_is_current(void **state)
{
    static char page[TEXT_BYTES];
    FILE       *f = fopen("docs/schemes.md", "r");
    if (!f) fail_msg("docs/schemes.md is missing: make docs");
    page[fread(page, 1, sizeof page - 1, f)] = '\0';
    fclose(f);
    if (strcmp(page_of_schemes(), page)) fail_msg("docs/schemes.md is out of date: make docs");
}

/* --- inspect ------------------------------------------------------------------------------ */

static int train(void **state)
{
    if (set_up(state)) return -1;
    assert_status(TRAIN "--epochs 1 --layer conv1:weight=float --layer fc1:weight=binary-channel "
                  "--layer fc1:input=sign --out @/run", 0);
    return 0;
}

static const cJSON *layer_of(const cJSON *all, const char *name)
{
    const cJSON *layer;
    cJSON_ArrayForEach(layer, cJSON_GetObjectItem(all, "layers"))
        if (!strcmp(text(layer, "layer"), name)) return layer;
    fail_msg("no layer %s", name);
    return NULL;
}

static void ternary_weights_have_three_values(const cJSON *layer)
{
    const cJSON *latent = cJSON_GetObjectItem(layer, "latent");
    const cJSON *q      = cJSON_GetObjectItem(layer, "quantized");
    const cJSON *values = cJSON_GetObjectItem(q, "values");
    double       share  = 0;
    assert_string_equal(text(q, "scheme"), "twn");
    assert_int_equal(cJSON_GetArraySize(values), 3);
    for (int i = 0; i < 3; i++) {
        const cJSON *v = cJSON_GetArrayItem(values, i);
        assert_true(number(v, "code") == i - 1);
        assert_true(number(v, "min") == number(v, "max"));
        assert_true(number(v, "min") == (i - 1) * number(q, "max"));
        share += number(v, "share");
    }
    assert_true(fabs(share - 1) < 1e-6);                /* nine digits are printed */
    assert_true(number(cJSON_GetArrayItem(values, 1), "share") == number(q, "zero_share"));
    /* The scale is a mean of what lies beyond the threshold, so latent values lie beyond it. */
    assert_true(number(latent, "max") > number(q, "max") &&
                number(latent, "min") < number(q, "min"));
}

static void latent_and_quantized_are_told_apart(void **state)
{
    assert_status("inspect @/run --json", 0);
    cJSON       *all = parse();
    const cJSON *fc1 = layer_of(all, "fc1"), *q = cJSON_GetObjectItem(fc1, "quantized");
    assert_string_equal(text(all, "file"), "last.safetensors");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(layer_of(all, "conv1"), "quantized")));
    ternary_weights_have_three_values(layer_of(all, "conv2"));
    ternary_weights_have_three_values(layer_of(all, "fc2"));

    /* A scale per channel: two codes, and a range of values for each. */
    const cJSON *values = cJSON_GetObjectItem(q, "values"), *low = cJSON_GetArrayItem(values, 0);
    assert_int_equal(cJSON_GetArraySize(values), 2);
    assert_true(number(q, "scales") == 40 && number(q, "codes_used") == 2 &&
                number(q, "zero_share") == 0);
    assert_true(number(low, "min") < number(low, "max") && number(low, "max") < 0);
    assert_true(number(low, "min") == number(q, "min"));
    assert_string_equal(text(cJSON_GetObjectItem(fc1, "input"), "scheme"), "sign");
    cJSON_Delete(all);
}

static void a_run_is_shown_to_people(void **state)
{
    assert_status("inspect --best @/run", 0);
    assert_stdout("/run/best.safetensors, " SMALL_NET(10) ", arithmetic 2\n");
    assert_stdout("conv1: float, not quantized\n");
    assert_stdout("conv2: {-0.0");
    assert_stdout(" % zero\n  quantized  twn, 2 bits\n  latent     3000 weights, -");
    assert_stdout("  input      sign, 1 bit\n");
    assert_status("inspect --run @/run", 0);
    assert_stdout("/run/last.safetensors, " SMALL_NET(10) ", arithmetic 2\n");
}

/* Before a dropout the quantizer is a separate layer. */
static void a_quantizer_without_a_product_is_shown(void **state)
{
    assert_status("train --model tfc --input lsq:bits=2 --data mnist --data-dir @/set --epochs 1 --threads 1 --out @/tfc", 0);
    assert_status("inspect @/tfc", 0);
    assert_stdout("quant1: has no weights\n  input      lsq, 2 bits\n  learned    quant1.input.step 0.");
    assert_status("inspect @/tfc --json", 0);
    cJSON       *all   = parse();
    const cJSON *input = cJSON_GetObjectItem(layer_of(all, "quant4"), "input");
    assert_string_equal(text(input, "scheme"), "lsq");
    assert_string_equal(text(cJSON_GetArrayItem(cJSON_GetObjectItem(input, "learned"), 0), "name"), "quant4.input.step");
    cJSON_Delete(all);
}

/* A run, or a packed file, needs no option before it. */
static void commands_take_a_path(void **state)
{
    assert_status("eval @/run", 0);
    const char *line = strdup(last.out);
    assert_status("eval --run @/run", 0);
    assert_string_equal(last.out, line);
    free((void *)line);
    assert_status("eval --json --best @/run", 0);
    assert_status("export @/run -o @/path.qg", 0);
    assert_status("infer @/path.qg --data-dir @/set", 0);
    assert_refuses("eval @/run --run @/run", 2, "run' and --run were given; pass only one");
    assert_refuses("infer --packed @/path.qg @/path.qg", 2, "path.qg' and --packed were given; pass only one");
    assert_refuses("quantize @/nothing --weight twn", 1, "there is no run");
}

static void what_is_no_run_is_refused(void **state)
{
    assert_refuses("inspect", 2, "the run directory is missing");
    assert_refuses("inspect @/run --run @/run", 2, "two run directories");
    assert_refuses("inspect ''", 2, "the path of a directory is empty");
    assert_refuses("inspect @/nothing", 1, "there is no run");
    assert_refuses("inspect @/run --run", 2, "--run needs a value");
}

/* --- plot --------------------------------------------------------------------------------- */

enum { POINTS = 801 };

typedef struct row {
    double x, q, surrogate, slope;
} row;

static void table(const char *line, row r[POINTS])
{
    assert_status(line, 0);
    const char *at = strchr(last.out, '\n');
    assert_non_null(at);
    assert_int_equal(strncmp(last.out, "x,q,surrogate,slope\n", (size_t)(at - last.out) + 1), 0);
    for (int i = 0; i < POINTS; i++) {
        assert_int_equal(sscanf(at + 1, "%lf,%lf,%lf,%lf", &r[i].x, &r[i].q, &r[i].surrogate, &r[i].slope), 4);
        at = strchr(at + 1, '\n');
        assert_non_null(at);
    }
    assert_int_equal(at[1], '\0');
}

/* The sample is normal with deviation 0.5, so mean|w| = 0.5 sqrt(2 / pi); the 801 that are evenly spaced in [-1.5, 1.5],
 * with 0.75, are one of 1,600 and raise it by 2e-4. */
static void a_plot_has_the_values_of_the_scheme(void **state)
{
    static row   r[POINTS];
    const double mean = 0.5 * sqrt(2 / acos(-1)), delta = 0.7 * mean;
    table("plot twn --csv", r);
    const double a = r[POINTS - 1].q;
    assert_true(a > mean && a < 2 * mean);
    for (int i = 0; i < POINTS; i++) {
        if (fabs(fabs(r[i].x) - delta) < 1e-3) continue;        /* the mean of quantiles is not that of the distribution */
        assert_true(r[i].q == (r[i].x > delta ? a : r[i].x < -delta ? -a : 0));
        assert_true(fabs(r[i].surrogate - r[i].x) < 1e-6 && r[i].slope == 1);   /* nine digits are printed */
    }
    table("plot sign --csv", r);
    for (int i = 0; i < POINTS; i++) {
        assert_true(r[i].q == (r[i].x >= 0 ? 1 : -1) && r[i].slope == (fabs(r[i].x) <= 1));
        /* The integral of a slope between two points may be off by their distance. */
        assert_true(fabs(r[i].surrogate - fmax(-1, fmin(1, r[i].x))) < r[1].x - r[0].x);
    }
    /* Inputs are cut off at 0 and 1, so the picture ends a little later. */
    table("plot dorefa --role input --csv", r);
    assert_true(r[0].x < -1 && r[0].q == 0 && r[POINTS - 1].q == 1);
    for (int i = 0; i < POINTS; i++)
        assert_true(fabs(3 * r[i].q - round(3 * r[i].q)) < 1e-6 && r[i].slope == (r[i].x >= 0 && r[i].x <= 1));
    /* The first range is that of inputs; this scheme needs one beyond its maximum of 10. */
    table("plot pact --csv", r);
    assert_true(r[POINTS - 1].x > 10 && r[POINTS - 1].q == 10);
}

static int charts(void)
{
    int n = 0;
    for (const char *at = last.out; (at = strstr(at, "<svg class")); at++) n++;
    return n;
}

static void a_plot_is_a_picture(void **state)
{
    assert_status("plot ttq:threshold=0.05", 0);
    assert_int_equal(strncmp(last.out, "<svg xmlns=", 11), 0);
    assert_stdout("ttq:threshold=0.05, weights");
    assert_stdout("prefers-color-scheme:dark");
    assert_true(!strstr(last.out, "nan") && !strstr(last.out, "inf"));
    assert_stdout(">wp = 0.466</text>");
    assert_stdout(">-wn = -0.466</text>");
    /* The threshold and the scale of the table above, and the true slope beside that of the surrogate. */
    assert_status("plot twn", 0);
    assert_stdout(">D = 0.28</text>");
    assert_stdout(">-D = -0.28</text>");
    assert_stdout(">a = 0.592</text>");
    assert_stdout(">-a = -0.592</text>");
    assert_stdout("of q: 0, and none at a jump");
    assert_int_equal(charts(), 2);
    /* One figure for a slide. */
    assert_status("plot twn --figure values", 0);
    assert_int_equal(charts(), 1);
    assert_stdout(">D = 0.28</text>");
    assert_status("plot twn --figure slope", 0);
    assert_int_equal(charts(), 1);
    assert_stdout(">twn, weights: slopes</text>");
    assert_stdout("of q: 0, and none at a jump");
    assert_null(strstr(last.out, ">D = "));
    assert_status("plot dorefa:bits=4 --role gradient", 0);
    assert_stdout("with noise");
    assert_status("plot lsq --json", 0);
    cJSON *j = parse();
    assert_string_equal(text(j, "role"), "weight");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(j, "slope")), POINTS);
    cJSON_Delete(j);
}

/* The page of schemes links to the pictures that plot --out writes. */
static void pictures_of_all_schemes_are_those_of_the_page(void **state)
{
    assert_status("plot --out @/plots", 0);
    run_shell("cd @/plots && ls | sort >../drawn");
    write_bytes(at("page.md"), page_of_schemes(), strlen(page_of_schemes()));
    run_shell("sed -n 's,^!\\[.*(plots/\\(.*\\))$,\\1,p' @/page.md | sort >@/linked; test -s @/linked && cmp @/drawn @/linked");
    run_shell("ls docs/plots | sort | cmp - @/drawn");
}

static void what_cannot_be_drawn_is_refused(void **state)
{
    assert_refuses("plot", 2, "the scheme is missing");
    assert_refuses("plot tnw", 2, "unknown scheme 'tnw'; available: float, twn");
    assert_refuses("plot sing", 2, "linear, stochastic; did you mean sign?");
    assert_refuses("plot twn --role input", 2, "twn is a scheme for weights, not for inputs");
    assert_refuses("plot twn:threshold=99", 2, "threshold");
    assert_refuses("plot twn --csv --json", 2, "exclude each other");
    assert_refuses("plot twn --figure values --csv", 2, "--figure selects a picture");
    assert_refuses("plot --out @/plots --figure slope", 2, "--figure needs a scheme");
    assert_refuses("plot dorefa --role gradient --figure slope", 2, "gradients have no slope");
    assert_refuses("plot twn --out @/plots", 1, "Is a directory");
    assert_refuses("plot --out @/plots --csv", 2, "takes neither --csv nor --json");
    assert_status("plot twn --out @/twn.svg", 0);
    run_shell("cmp @/twn.svg @/plots/weight-twn.svg");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_passes),
        cmocka_unit_test(formulas_as_printed_fail_and_say_why),
        cmocka_unit_test(checks_are_told_to_programs_too),
        cmocka_unit_test(what_is_learned_is_checked),
        cmocka_unit_test(every_scheme_is_explained),
        cmocka_unit_test(options_tell_which_scheme_is_meant),
        cmocka_unit_test(explanations_spell_options_as_the_command_line_does),
        cmocka_unit_test(options_are_printed_once),
        cmocka_unit_test(an_unknown_scheme_is_answered_with_the_known_ones),
        cmocka_unit_test(the_page_of_schemes_is_current),
        cmocka_unit_test(latent_and_quantized_are_told_apart),
        cmocka_unit_test(a_run_is_shown_to_people),
        cmocka_unit_test(a_quantizer_without_a_product_is_shown),
        cmocka_unit_test(commands_take_a_path),
        cmocka_unit_test(what_is_no_run_is_refused),
        cmocka_unit_test(a_plot_has_the_values_of_the_scheme),
        cmocka_unit_test(a_plot_is_a_picture),
        cmocka_unit_test(pictures_of_all_schemes_are_those_of_the_page),
        cmocka_unit_test(what_cannot_be_drawn_is_refused),
    };
    return cmocka_run_group_tests(tests, train, tear_down);
}
