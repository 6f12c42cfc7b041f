#include "datasets/dataset.h"
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

/* SplitMix64 seeded with 0 and with 1234567: the published first outputs of the generator. */
static void bits_are_those_of_splitmix64(void **state)
{
    assert_true(qg_bits(0, 0) == 0xE220A8397B1DCDAFu);
    assert_true(qg_bits(0, 1) == 0x6E789E6AA1B965F4u);
    assert_true(qg_bits(0, 2) == 0x06C45D188009454Fu);
    assert_true(qg_bits(1234567, 0) == 6457827717110365317u);
    assert_true(qg_bits(1234567, 1) == 3203168211198807973u);
    assert_true(qg_bits(1234567, 2) == 9817491932198370423u);
}

/* Of n uniform draws, the mean strays from 1/2 by sqrt(1/12n) and a bin of n/64 by its root.  Five
 * deviations: a sound generator misses one of these 65 bounds once in 26 000 keys. */
static void uniform_fills_its_interval_evenly(void **state)
{
    enum { N = 1 << 16, BINS = 64 };
    int    bin[BINS] = { 0 };
    double sum       = 0;
    for (uint64_t i = 0; i < N; i++) {
        const float u = qg_uniform(42, i);
        assert_true(u >= 0.0f && u < 1.0f);
        bin[(int)(u * BINS)]++;
        sum += (double)u;
    }
    assert_true(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
    for (int b = 0; b < BINS; b++) assert_true(abs(bin[b] - N / BINS) < 5 * 32);
}

/* --- noise on gradients ----------------------------------------------------------------------- */

enum { DRAWS = 1000000 };

static const uint64_t keys[] = { 0, 1, 42, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_MAX,
                                 0x8285D842DC7B2BF4u, 0x6986DC2CB5E335BDu };
enum { KEYS = sizeof keys / sizeof *keys };

/* By a second program, from the formulas in core/rng.h. */
static void fast_draws_are_those_of_the_formula(void **state)
{
    assert_true(qg_uniform_fast(0, 0) == 0);
    assert_true(qg_uniform_fast(0, 1) == 0x1fce5p-24f);
    assert_true(qg_uniform_fast(7, 2) == 0xbc795p-24f);
    assert_true(qg_uniform_fast(0x8285D842DC7B2BF4u, 5) == 0xc7d14fp-24f);
    assert_true(qg_uniform_fast(0x8285D842DC7B2BF4u, (UINT64_C(1) << 32) + 5) == 0x68c7e3p-24f);
}

/* Of the 256 values of each byte of the 24 bits, chi-square has 255 degrees of freedom: between the
 * quantiles of 0.01 and 99.99 per cent.  The mean strays by sqrt(1/12n), the variance by
 * sqrt(1/180n): four deviations. */
static void fast_draws_fill_their_interval_evenly(void **state)
{
    for (int k = 0; k < KEYS; k++) {
        static int count[3][256];
        double     sum = 0, squares = 0;
        memset(count, 0, sizeof count);
        for (uint64_t i = 0; i < DRAWS; i++) {
            const float    u    = qg_uniform_fast(keys[k], i);
            const uint32_t bits = (uint32_t)(u * 0x1p24f);
            assert_true(u >= 0.0f && u < 1.0f);
            for (int b = 0; b < 3; b++) count[b][bits >> 8 * b & 255]++;
            sum += (double)u, squares += ((double)u - 0.5) * ((double)u - 0.5);
        }
        assert_true(fabs(sum / DRAWS - 0.5) < 4 * sqrt(1.0 / 12 / DRAWS));
        assert_true(fabs(squares / DRAWS - 1.0 / 12) < 4 * sqrt(1.0 / 180 / DRAWS));
        for (int b = 0; b < 3; b++) {
            double chi = 0;
            for (int v = 0; v < 256; v++) chi += pow(count[b][v] - DRAWS / 256.0, 2) / (DRAWS / 256.0);
            if (!(chi > 179 && chi < 348))
                fail_msg("key %llx, byte %d: chi-square is %g", (unsigned long long)keys[k], b, chi);
        }
    }
}

/* Of draws i of one key and of draws i + apart of another. */
static double correlation(uint64_t a, uint64_t b, uint64_t apart)
{
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++)
        sum += ((double)qg_uniform_fast(a, i) - 0.5) * ((double)qg_uniform_fast(b, i + apart) - 0.5);
    return sum * 12 / DRAWS;
}

/* The correlation of independent draws strays from 0 by sqrt(1/n).  Five deviations: one of these
 * 111 bounds is missed by one in 15,000 sound generators. */
static void fast_draws_are_independent(void **state)
{
    const double   most = 5 * sqrt(1.0 / DRAWS);
    const uint64_t key  = qg_rng_fork(7, QG_STREAM_TAPE);
    for (int k = 0; k <= 40; k++) {
        const double r = correlation(key, key, UINT64_C(1) << k);
        if (fabs(r) > most) fail_msg("draws that are 2^%d apart: %g", k, r);
    }
    for (int bit = 0; bit < 64; bit++) {
        const double r = correlation(key, key ^ UINT64_C(1) << bit, 0);
        if (fabs(r) > most) fail_msg("keys that differ by bit %d: %g", bit, r);
    }
    for (uint64_t k = 1; k <= 6; k++) {                                     /* of ops of one step */
        const double r = correlation(qg_rng_fork(key, 0), qg_rng_fork(key, k), 0);
        if (fabs(r) > most) fail_msg("forks 0 and %d: %g", (int)k, r);
    }
}

/* The mean strays by sqrt(1/n), the mean square from 1 by sqrt(2/n): five deviations. */
static void normal_has_mean_0_and_deviation_1(void **state)
{
    enum { N = 1 << 16 };
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N; i++) {
        const double v = (double)qg_normal(7, i);
        assert_true(isfinite(v));
        sum += v;
        squares += v * v;
    }
    assert_true(fabs(sum / N) < 5 * sqrt(1.0 / N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
}

/* Bits of two streams that have nothing to do with each other agree in 32 of 64 places, +-4, so the
 * mean over n draws strays by 4 / sqrt(n).  Five deviations. */
static void forks_are_independent(void **state)
{
    enum { N = 4096 };
    const uint64_t pairs[][2] = {
        { qg_rng_fork(7, 1), qg_rng_fork(7, 2) },       /* two purposes */
        { qg_rng_fork(7, 1), qg_rng_fork(8, 1) },       /* two seeds */
        { 7, qg_rng_fork(7, 0) },                       /* a key and its fork */
        { qg_rng_fork(qg_rng_fork(7, 1), 2), qg_rng_fork(qg_rng_fork(7, 2), 1) },
    };
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        double equal = 0;
        for (uint64_t i = 0; i < N; i++)
            equal += 64 - __builtin_popcountll(qg_bits(pairs[p][0], i) ^ qg_bits(pairs[p][1], i));
        assert_true(fabs(equal / N - 32) < 5 * 4 / sqrt(N));
    }
}

static void a_permutation_holds_each_index_once(void **state)
{
    const size_t sizes[] = { 1, 2, 3, 31, 33, 63, 65, 1000 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t n = sizes[s];
        uint32_t     order[1000], again[1000];
        int          seen[1000] = { 0 };
        qg__permutation(5, n, order);
        qg__permutation(5, n, again);
        assert_memory_equal(order, again, n * sizeof *order);
        for (size_t i = 0; i < n; i++) {
            assert_true(order[i] < n);
            assert_int_equal(seen[order[i]]++, 0);
        }
    }
}

/* Each of 24 orders of 4 comes up n / 24 times, strays by the root of that.  Five deviations. */
static void every_order_is_as_likely(void **state)
{
    enum { N = 24000 };
    int count[256] = { 0 }, orders = 0;
    for (uint64_t k = 0; k < N; k++) {
        uint32_t o[4];
        qg__permutation(qg_rng_fork(3, k), 4, o);
        count[o[0] | o[1] << 2 | o[2] << 4 | o[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        if (count[i] == 0) continue;
        orders++;
        assert_true(fabs(count[i] - N / 24.0) < 5 * sqrt(N / 24.0));
    }
    assert_int_equal(orders, 24);
}

/* Files and results of earlier versions depend on these numbers. */
static void streams_and_orders_stay_what_they_are(void **state)
{
    const uint32_t want[9] = { 7, 5, 2, 4, 6, 3, 1, 0, 8 };
    uint32_t       order[9];
    assert_true(qg_rng_fork(7, 1) == 0x8285D842DC7B2BF4u);
    assert_true(qg_rng_fork(7, 4) == 0x6986DC2CB5E335BDu);
    qg__permutation(5, 9, order);
    assert_memory_equal(order, want, sizeof want);
    assert_true(qg_normal(7, 0) == 1.36499226f && qg_normal(7, 1) == -0.396523982f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_splitmix64),
        cmocka_unit_test(uniform_fills_its_interval_evenly),
        cmocka_unit_test(fast_draws_are_those_of_the_formula),
        cmocka_unit_test(fast_draws_fill_their_interval_evenly),
        cmocka_unit_test(fast_draws_are_independent),
        cmocka_unit_test(normal_has_mean_0_and_deviation_1),
        cmocka_unit_test(forks_are_independent),
        cmocka_unit_test(a_permutation_holds_each_index_once),
        cmocka_unit_test(every_order_is_as_likely),
        cmocka_unit_test(streams_and_orders_stay_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
