/* qgrad bench scaling: what it counts, what it predicts, and that it measures each number of ranks.  The ranks are processes that
 * reach each other over sockets; tests/ranks.sh has the same over MPI. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dist/ranks.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"
#include "tools/bench/bench.h"

#define NET "--model 8C3-BN-R-MP2-300FC-R-10 --weight ttq --image 12x12x1 --threads 1 --seconds 0.01 "
/* Ranks share its layers evenly, but for the last. */
#define EVEN "--model 32C3-BN-R-MP2-512FC-R-10 --weight ttq --image 10x10x1 --threads 1 --seconds 0.01 "

static const cJSON *line_of(const cJSON *j, const char *table, int i)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j, table), i);
}

static double item(const cJSON *line, const char *key, int i)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(line, key), i)->valuedouble;
}

/* --- one process ---------------------------------------------------------------------------- */

static void test_what_cannot_be_measured_is_refused(void **state)
{
    assert_refuses("bench scaling " NET, 2, "there is one rank; start several, as in mpirun -n 4 build/qgrad-mpi");
    assert_refuses("bench scaling " NET "--link latency=5", 2, "link: gbits is missing");
    assert_refuses("bench scaling " NET "--link latency=5,gbits=0", 2, "gbits");
    assert_refuses("bench scaling " NET "--link latency=5,gbits=1 --link latency=6,gbits=1 --link latency=7,gbits=1 "
                   "--link latency=8,gbits=1 --link latency=9,gbits=1", 2, "more than 4 links");
    assert_refuses("bench scaling " NET "--batch 8192 --link latency=5,gbits=1", 2, "batch: 8192 for each of 16 ranks is more than 65536");
    assert_refuses("bench scaling " NET "--batch 15 --link latency=5,gbits=1", 2, "batch: 16 ranks cannot share 15 images");
    assert_refuses("bench scaling " NET "--profile", 2, "unknown option '--profile'");
    assert_refuses("bench train " NET "--link latency=5,gbits=1", 2, "unknown option '--link'");
}

/* Messages that take no time, a second each, and by their bytes alone: the limits of the model. */
static void test_projections_follow_the_model(void **state)
{
    static const char *const tables[] = { "strong", "weak" };
    enum { FREE, SLOW_TO_ARRIVE, SLOW_TO_SEND };
    assert_status("bench scaling " NET "--batch 32 --json --link latency=0,gbits=1e6 --link latency=1e6,gbits=1e6 "
                  "--link latency=0,gbits=1e-3", 0);
    cJSON *j = parse();
    assert_true(truth(j, "projected"));
    for (int t = 0; t < 2; t++) {
        const cJSON *two = line_of(j, tables[t], 1);
        for (int i = 0; i < 7; i++) {
            const cJSON *l     = line_of(j, tables[t], i);
            const double ranks = number(l, "ranks"), bytes = number(l, "bytes_per_step"), waits = number(l, "waits_per_step");
            const double ms    = number(l, "compute_ms_per_step");
            double       took[3];
            for (int k = 0; k < 3; k++) took[k] = item(l, "predicted_ms_per_step", k);
            assert_true(ranks == 1 << i && number(l, "batch") == (t ? 32 * ranks : 32));
            if (i == 0) assert_true(bytes == 0 && waits == 0 && took[SLOW_TO_SEND] == ms);
            if (i == 0) continue;
            assert_true(bytes > 0 && waits > 0);
            /* One more for each doubling, over which all of a layer is sent at most. */
            assert_true(waits == i * number(two, "waits_per_step"));
            assert_true(bytes > number(line_of(j, tables[t], i - 1), "bytes_per_step"));
            if (t == 0) assert_true(bytes <= 2 * i * number(two, "bytes_per_step"));
            /* JSON holds nine digits. */
            assert_true(took[FREE] >= ms * (1 - 1e-8) && took[FREE] <= ms + 1e-5 * bytes);
            /* Gradients arrive while others are waited for, except the last: there, added up, and back. */
            assert_true(took[SLOW_TO_ARRIVE] >= 1e3 * waits && took[SLOW_TO_ARRIVE] <= ms + 1e3 * (waits + 2 * (i + 1)));
            /* 125 bytes in a millisecond. */
            assert_true(took[SLOW_TO_SEND] >= bytes / 125 * (1 - 1e-8) && took[SLOW_TO_SEND] <= ms + bytes / 125 + 1);
            const double efficiency = number(line_of(j, tables[t], 0), "compute_ms_per_step") * (t ? 1 : 1 / ranks) / took[FREE];
            assert_true(fabs(item(l, "efficiency", FREE) / efficiency - 1) < 1e-7);
        }
    }
    cJSON_Delete(j);
}

static void test_the_picture_has_a_curve_for_each_link(void **state)
{
    char svg[TEXT_BYTES];
    assert_status("bench scaling " NET "--batch 16 --link latency=50,gbits=10 --link latency=5,gbits=100 --out @/scaling.svg", 0);
    assert_stdout("strong scaling: 16 images for all ranks\n");
    assert_stdout("* a batch has 16 slices");
    svg[slurp(at("scaling.svg"), svg, sizeof svg - 1)] = 0;
    assert_non_null(strstr(svg, "10 Gbit/s, 50 us"));
    assert_non_null(strstr(svg, "100 Gbit/s, 5 us"));
    assert_non_null(strstr(svg, "16 images for each rank"));
    assert_null(strstr(svg, "nan"));
}

/* --- several ranks -------------------------------------------------------------------------- */

/* Rank 0 prints into the file. */
static uint64_t run_bench(void *context)
{
    char  words[512], *argv[MAX_ARGS] = { "bench" };
    int   argc = 1;
    FILE *out  = freopen(at("json"), qg_rank() ? "a" : "w", stdout);
    snprintf(words, sizeof words, "%s", (const char *)context);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) argv[argc++] = w;
    const int status = bench_main(argc, argv);
    return out && !fflush(out) ? (uint64_t)status : 100;
}

static cJSON *measure(int ranks, char *line)
{
    char all[TEXT_BYTES];
    assert_int_equal(run_ranks(ranks, 1, run_bench, line), 0);
    all[slurp(at("json"), all, sizeof all - 1)] = 0;
    cJSON *j = cJSON_Parse(all);
    assert_non_null(j);
    return j;
}

static void test_each_number_of_ranks_is_measured(void **state)
{
    cJSON *j = measure(4, (char[]){ "scaling " NET "--batch 32 --json" });
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 3; i++) {
            const cJSON *l  = line_of(j, t ? "weak" : "strong", i);
            const double ms = number(l, "ms_per_step");
            assert_true(number(l, "ranks") == 1 << i && number(l, "batch") == (t ? 32 << i : 32));
            assert_true(fabs(number(l, "images_per_second") * ms / number(l, "batch") / 1e3 - 1) < 1e-7);
            if (i == 0) assert_true(number(l, "efficiency") == 1 && number(l, "exchange_ms_per_step") == 0);
            else assert_true(number(l, "predicted_ms_per_step") > number(l, "compute_ms_per_step"));
        }
        assert_null(line_of(j, t ? "weak" : "strong", 3));
    }
    const cJSON *joined = cJSON_GetObjectItemCaseSensitive(j, "links");
    assert_int_equal(cJSON_GetArraySize(joined), 2);
    for (int i = 0; i < 2; i++) {
        assert_true(number(cJSON_GetArrayItem(joined, i), "distance") == 1 << i);
        assert_true(number(cJSON_GetArrayItem(joined, i), "latency_us") > 0 && number(cJSON_GetArrayItem(joined, i), "gbits") > 0);
    }
    cJSON_Delete(j);
}

/* What exchanges without a cost count is what a step sends. */
static void test_counted_bytes_are_those_that_are_sent(void **state)
{
    cJSON *counted = measure(2, (char[]){ "scaling " EVEN "--batch 32 --json" });
    cJSON *sent    = measure(2, (char[]){ "train " EVEN "--batch 32 --json" });
    /* Rank 0 receives the ten scores of 32 images, and sends none; of an odd number of floats one rank has one more: three
     * gradients, there and back. */
    const double difference = number(line_of(counted, "strong", 1), "bytes_per_step") - number(sent, "bytes_per_step");
    assert_true(difference >= 0 && difference <= 4 * (32 * 10 + 2 * 3));
    cJSON_Delete(counted);
    cJSON_Delete(sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_measured_is_refused),
        cmocka_unit_test(test_projections_follow_the_model),
        cmocka_unit_test(test_the_picture_has_a_curve_for_each_link),
        cmocka_unit_test(test_each_number_of_ranks_is_measured),
        cmocka_unit_test(test_counted_bytes_are_those_that_are_sent),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
