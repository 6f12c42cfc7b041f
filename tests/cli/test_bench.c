/* The limits of the machine, and what qgrad bench reports about them and about nets.  The program is
 * build/qgrad or $QGRAD; where times are added up, it is this one, by a clock of its own. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/kernels/cpu.h"
#include "tests/support/inside.h"
#include "tests/support/program.h"
#include "tools/bench/peak_kernel.h"

/* The JSON that a command prints; warnings are ignored. */
static cJSON *run(const char *line)
{
    char command[512];
    snprintf(command, sizeof command, "%s --json", line);
    assert_status(command, 0);
    return parse();
}

/* The same where every reading of the clock is a second. */
static cJSON *run_by_the_clock(const char *line)
{
    char command[512];
    snprintf(command, sizeof command, "%s --json", line);
    if (qgrad_inside(command)) fail_msg("%s: %s", command, last.err);
    return parse();
}

/* --- kernels ------------------------------------------------------------------------------ */

static void test_every_chain_is_computed(void **state)
{
    const qg__peak_kernels *k = QG_KERNELS(qg__peak_kernels);
    float                   s[QG_PEAK_CHAINS * 16];
    const int               n = QG_PEAK_CHAINS * k->lanes;
    assert_true(n <= (int)(sizeof s / sizeof *s));
    for (int i = 0; i < n; i++) s[i] = (float)i;
    k->multiply_add(3, 0.5f, 1.0f, s);
    /* i / 8 + 1.75: exact in a float, fused or not. */
    for (int i = 0; i < n; i++) assert_true(s[i] == 0.125f * (float)i + 1.75f);
    k->multiply_add(0, 0.5f, 1.0f, s);
    assert_true(s[n - 1] == 0.125f * (float)(n - 1) + 1.75f);
    k->multiply_add(100, 0.5f, 1.0f, s);
    for (int i = 0; i < n; i++) assert_true(s[i] == 2.0f);
}

static void test_triad_writes_its_floats_and_no_others(void **state)
{
    static const size_t sizes[] = { 0, 1, 3, 31, 33, 63, 65 };
    float               a[80], b[80], c[80];
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
        for (int i = 0; i < 80; i++) {
            a[i] = -1.0f;
            b[i] = (float)i;
            c[i] = (float)(2 * i + 2);
        }
        QG_KERNELS(qg__peak_kernels)->triad(sizes[t], b + 1, 0.5f, c + 1, a + 1);
        for (size_t i = 0; i < 80; i++) {
            const int written = i >= 1 && i < 1 + sizes[t];
            assert_true(a[i] == (written ? (float)(2 * i + 1) : -1.0f));
        }
    }
}

/* --- what is printed ---------------------------------------------------------------------- */

static void test_peak_has_a_row_per_thread_count(void **state)
{
    static const int threads[] = { 1, 2, 3 };
    cJSON           *j         = run("bench peak --threads 3 --seconds 0.01");
    const cJSON     *rows      = cJSON_GetObjectItemCaseSensitive(j, "peak");
    const int        n         = cJSON_GetArraySize(rows);
    assert_true(number(j, "gflops") > 0 && number(j, "gbytes_per_second") > 0);
    if (number(j, "threads") == 1) assert_int_equal(n, 1);      /* built without OpenMP */
    else assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);
        assert_int_equal((int)number(row, "threads"), threads[i]);
        assert_true(number(row, "gflops") > 0 && number(row, "gbytes_per_second") > 0);
    }
    cJSON_Delete(j);
}

static void test_infer_has_a_row_per_kernel(void **state)
{
    cJSON       *j = run("bench infer --seconds 0.01");
    const cJSON *r;
    int          rows = 0;
    cJSON_ArrayForEach(r, cJSON_GetObjectItemCaseSensitive(j, "rows")) {
        rows++;
        assert_true(number(r, "fastest_us") > 0 && number(r, "median_us") >= number(r, "fastest_us"));
        assert_true(number(r, "times_openblas") > 0 && number(r, "times_winograd") > 0 && number(r, "times_loops") > 0);
    }
    assert_int_equal(rows, 14);
    assert_true(number(j, "turns") >= 3 && number(j, "threads") == 1);
    cJSON_Delete(j);
}

/* A batch that threads share, and one that is smaller than their number. */
static void test_packed_nets_have_a_speed_and_sizes(void **state)
{
    static const char *const batches[] = { "5", "1" };
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "bench packed --model 8C3-BN-R-MP2-10 --weight twn --image 12x12x1 --threads 2 --seconds 0.01 "
                                              "--profile --batch %s", batches[i]);
        cJSON       *j = run(arguments);
        const cJSON *steps = cJSON_GetObjectItemCaseSensitive(j, "profile"), *step;
        assert_true(number(j, "batch") == (i ? 1 : 5) && number(j, "calls") >= 3);
        assert_true(number(j, "images_per_second") > 0 && number(j, "p99_us") >= number(j, "median_us"));
        /* 8 and 10 rows of ternary weights, 2 bits each, are less than the text and the numbers of the file. */
        assert_true(number(j, "file_bytes") > 2 * (8 * 9 + 10 * 25 * 8) / 8);
        assert_true(number(j, "weight_bytes") > 0 && number(j, "context_bytes") > 0);
        assert_int_equal(cJSON_GetArraySize(steps), 3);
        cJSON_ArrayForEach(step, steps) assert_true(number(step, "us_per_image") >= 0);
        cJSON_Delete(j);
    }
}

static void test_memory_has_a_rate_per_shape(void **state)
{
    cJSON       *j = run("bench memory --threads 2 --seconds 0.01");
    const cJSON *rate;
    assert_true(number(j, "triad_gbytes_per_second") > 0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "depthwise_gbytes_per_second")), 2);
    cJSON_ArrayForEach(rate, cJSON_GetObjectItemCaseSensitive(j, "depthwise_gbytes_per_second"))
        assert_true(rate->valuedouble > 0);
    cJSON_Delete(j);
}

/* Multiply-adds of a model's products by `qgrad summary`: all of them, and the first product's. */
static void count(const char *model, double *all, double *first)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "summary --model %s --data synthetic", model);
    cJSON       *j = run(arguments);
    const cJSON *l;
    *all   = number(j, "macs");
    *first = 0;
    cJSON_ArrayForEach(l, cJSON_GetObjectItemCaseSensitive(j, "layers"))
        if (*first == 0 && cJSON_HasObjectItem(l, "macs")) *first = number(l, "macs");
    assert_true(*first > 0 && *first < *all);
    cJSON_Delete(j);
}

/* Training computes every product three times, but no gradient of the image. */
static void test_flops_of_a_step_are_those_of_its_products(void **state)
{
    static const char *const models[] = { "lenet5", "resnet20" };
    for (int m = 0; m < 2; m++) {
        double all, first;
        char   arguments[128];
        count(models[m], &all, &first);
        for (int train = 0; train < 2; train++) {
            snprintf(arguments, sizeof arguments,
                     "bench %s --model %s --weight twn --data synthetic --batch 3 --seconds 0.01",
                     train ? "train" : "eval", models[m]);
            cJSON *j = run(arguments);
            /* Relative: JSON holds nine digits. */
            const double flops = train ? 6 * all - 2 * first : 2 * all;
            assert_true(fabs(number(j, "flops_per_image") / flops - 1) < 1e-8);
            const double speed = 1e-9 * flops * number(j, "images_per_second");
            assert_true(fabs(number(j, "gflops") / speed - 1) < 1e-8);
            assert_string_equal(text(j, "bench"), train ? "train" : "eval");
            cJSON_Delete(j);
        }
    }
}

/* Every reading of the clock is a second, so all steps take the same, and the last begins before the time is up. */
static void test_it_measures_as_long_as_it_is_told(void **state)
{
    cJSON       *j       = run_by_the_clock("bench train --model lenet5 --data synthetic --batch 1 --seconds 97");
    const double seconds = number(j, "seconds"), one = 1e-3 * number(j, "ms_per_step");
    assert_true(seconds == one * number(j, "steps"));
    assert_true(seconds >= 97 && seconds - one < 97);
    cJSON_Delete(j);
    j = run_by_the_clock("bench train --model lenet5 --data synthetic --batch 1 --seconds 0.01");
    assert_true(number(j, "steps") == 3);
    cJSON_Delete(j);
}

/* A second for each reading, so one for each op of a direction.  From the beginning of a step to that of the next
 * there is one more than the step takes; what passes between the ops of backward, before and after each, is
 * nobody's; and the profile ends with a reading of its own. */
static void test_the_profile_accounts_for_the_time(void **state)
{
    static const char *const lines[] = {
        "bench eval --model lenet5 --data synthetic --batch 8 --seconds 100 --profile",
        "bench train --model lenet5 --data synthetic --batch 8 --seconds 100 --profile",
    };
    for (int train = 0; train < 2; train++) {
        double       sum = 0, backward = 0, ops = 0;
        const cJSON *row;
        cJSON       *j     = run_by_the_clock(lines[train]);
        const double steps = number(j, "steps"), mean = number(j, "seconds") / steps;
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(j, "profile")) {
            const double calls = number(row, "calls_per_step");
            sum += 1e-3 * (number(row, "forward_ms") + number(row, "backward_ms"));
            if (text(row, "op")[0] == '(' || text(row, "op")[0] == '-') continue;
            backward += 1e-3 * number(row, "backward_ms");
            ops += calls;
        }
        assert_true(ops == (train ? 8 : 7));        /* two convolutions, three norms, two products; the loss */
        assert_true(backward == (train ? ops : 0));
        /* Relative: JSON holds nine digits. */
        assert_true(fabs(sum / (mean + 1 - (train ? ops + 1 : 0) + 1 / steps) - 1) < 1e-8);
        cJSON_Delete(j);
    }
}

static void test_image_gives_noise_of_that_shape(void **state)
{
    static const char *const models[] = { "vgg7:width=0.25", "resnet20" };
    for (int m = 0; m < 2; m++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments,
                 "bench train --model %s --image 32x32x3 --batch 1 --seconds 0.01", models[m]);
        cJSON       *j     = run(arguments);
        const cJSON *image = cJSON_GetObjectItemCaseSensitive(j, "image");
        assert_int_equal(cJSON_GetArrayItem(image, 0)->valueint, 32);
        assert_int_equal(cJSON_GetArrayItem(image, 2)->valueint, 3);
        assert_string_equal(text(j, "data"), "synthetic");
        assert_true(number(j, "images_per_second") > 0);
        cJSON_Delete(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chain_is_computed),
        cmocka_unit_test(test_triad_writes_its_floats_and_no_others),
        cmocka_unit_test(test_peak_has_a_row_per_thread_count),
        cmocka_unit_test(test_infer_has_a_row_per_kernel),
        cmocka_unit_test(test_packed_nets_have_a_speed_and_sizes),
        cmocka_unit_test(test_memory_has_a_rate_per_shape),
        cmocka_unit_test(test_flops_of_a_step_are_those_of_its_products),
        cmocka_unit_test(test_it_measures_as_long_as_it_is_told),
        cmocka_unit_test(test_the_profile_accounts_for_the_time),
        cmocka_unit_test(test_image_gives_noise_of_that_shape),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
