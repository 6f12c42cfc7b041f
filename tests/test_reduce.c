#include "tests/support/views.h"

#include "core/parallel.h"
#include "quant/channel.h"
#include "quant/map.h"
#include "quant/reduce.h"
#include "quant/slope.h"

#include <stdlib.h>

enum { BIG = 64 * QG_BLOCK + 3 * QG_BLOCK + 5 }; /* more than one round of blocks */

static float big[BIG];

static int fill_big(void **state)
{
    (void)state;
    fill_normal(3, 1.0f, BIG, big);
    return 0;
}

/* Sums of n doubles in another order differ by at most n ulp of the sum; 1e-12 is far above. */
static void sums_against_a_loop(void **state)
{
    (void)state;
    for (size_t s = 0; s <= N_SIZES; s++) {
        const size_t n = s < N_SIZES ? awkward_sizes[s] : BIG;
        const float  d = 0.8f;
        double       sum = 0.0, above = 0.0;
        float        max = 0.0f;
        size_t       kept = 0, count = 77;
        for (size_t i = 0; i < n; i++) {
            const float a = fabsf(big[i]);
            sum += (double)a;
            if (a > max) max = a;
            if (a > d) {
                above += (double)a;
                kept++;
            }
        }
        assert_near(qg__sum_abs(n, big), sum, 1e-12 * sum);
        assert_near((double)qg__mean_abs(n, big), (double)(float)(sum / (double)n), 1e-7);
        assert_true(qg__max_abs(n, big) == max);
        assert_near(qg__sum_abs_above(n, big, d, &count), above, 1e-12 * sum);
        assert_int_equal(count, kept);
    }
}

static void integers_are_summed_exactly(void **state)
{
    (void)state;
    static float x[MOST];
    for (size_t i = 0; i < MOST; i++) x[i] = i % 2 ? 3.0f : -3.0f;
    assert_true(qg__sum_abs(MOST, x) == 3.0 * MOST);
    size_t kept;
    assert_true(qg__sum_abs_above(MOST, x, 3.0f, &kept) == 0.0 && kept == 0); /* strictly above */
    assert_true(qg__sum_abs_above(MOST, x, 2.9f, &kept) == 3.0 * MOST && kept == MOST);
}

static void empty_nan_and_infinite(void **state)
{
    (void)state;
    size_t kept = 1;
    assert_true(qg__sum_abs(0, NULL) == 0.0 && qg__max_abs(0, NULL) == 0.0f);
    assert_true(qg__mean_abs(0, NULL) == 0.0f);
    assert_true(qg__sum_abs_above(0, NULL, 1.0f, &kept) == 0.0 && kept == 0);
    for (size_t at = 0; at < 40000; at += 13331) { /* in the first, a middle and the last block */
        static float x[MOST];
        fill_normal(4, 1.0f, MOST, x);
        x[at] = -INFINITY;
        assert_true(isinf(qg__max_abs(MOST, x)) && isinf(qg__sum_abs(MOST, x)));
        x[at + 1] = NAN;
        assert_true(isnan(qg__max_abs(MOST, x)) && isnan(qg__sum_abs(MOST, x)));
        assert_true(isinf(qg__sum_abs_above(MOST, x, 1.0f, &kept))); /* NaN is above nothing */
        assert_true(qg__sum_abs_above(MOST, x, NAN, &kept) == 0.0 && kept == 0);
    }
}

static void square_terms(const void *context, size_t first, size_t n, float *term)
{
    const float *x = context;
    for (size_t i = 0; i < n; i++) term[i] = x[first + i] * x[first + i];
}

static void terms_see_every_element_once(void **state)
{
    (void)state;
    static float x[MOST];
    for (size_t i = 0; i < MOST; i++) x[i] = (float)(i % 8);
    for (size_t s = 0; s < N_SIZES; s++) {
        double want = 0.0;
        for (size_t i = 0; i < awkward_sizes[s]; i++) want += (double)(x[i] * x[i]);
        assert_true(qg__sum_terms(awkward_sizes[s], square_terms, x) == want);
    }
}

/* Everything that reduces or maps, once per instruction set and thread count: the same bits. */
struct results {
    double sum, above, terms, row;
    float  max, ternary[MOST], tanh[MOST], codes[MOST], slope[MOST], uniform[MOST];
    float  codes_of[5][MOST];
    size_t kept;
};

static void compute(struct results *r)
{
    const qg_map_kernels *map = QG_KERNELS(qg__map);
    map->linear(MOST, big, 0.9f, 15.0f, r->codes_of[0]);
    map->dorefa_even(MOST, big, 15.0f, r->codes_of[1]);
    map->dorefa_up(MOST, big, 15.0f, r->codes_of[2]);
    map->pact(MOST, big, 0.9f, 15.0f, r->codes_of[3]);
    map->lsq(MOST, big, 0.3f, -4.0f, 3.0f, r->codes_of[4]);
    r->sum = qg__sum_abs(BIG, big);
    r->above = qg__sum_abs_above(BIG, big, 0.3f, &r->kept);
    r->max = qg__max_abs(BIG, big);
    r->terms = qg__sum_terms(BIG, square_terms, big);
    r->row = QG_KERNELS(qg__reduce)->sum(4607, big + 1); /* unaligned */
    map->ternary(MOST, big, 0.3f, 2.0f, 3.0f, r->ternary);
    map->tanh(MOST, big, r->tanh);
    memcpy(r->codes, r->tanh, sizeof r->codes);
    map->tanh_codes(MOST, 0.9f, 15.0f, r->codes);
    QG_KERNELS(qg__slope)->dorefa(MOST, big, big + 3, 0.9f, r->slope);
    map->uniform(MOST, 9, 5, r->uniform);
}

static void same_bits_on_every_machine_and_thread_count(void **state)
{
    (void)state;
    static const char *const sets[] = { "baseline", "avx2", "avx512" };
    static struct results    first, other;
    qg_set_threads(1);
    compute(&first);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int s = 0; s < 3; s++) {
            qg_set_threads(threads);
            assert_int_equal(setenv("QGRAD_CPU", sets[s], 1), 0);
            memset(&other, 0, sizeof other);
            compute(&other);
            assert_true(other.sum == first.sum && other.above == first.above);
            assert_true(other.terms == first.terms && other.row == first.row);
            assert_true(other.max == first.max && other.kept == first.kept);
            assert_same(MOST, other.ternary, first.ternary);
            assert_same(MOST, other.tanh, first.tanh);
            assert_same(MOST, other.codes, first.codes);
            assert_same(MOST, other.slope, first.slope);
            assert_same(5 * MOST, other.codes_of[0], first.codes_of[0]);
            assert_same(MOST, other.uniform, first.uniform);
        }
    unsetenv("QGRAD_CPU");
    qg_set_threads(0);
    for (size_t i = 0; i < MOST; i++) assert_true(first.uniform[i] == qg_uniform(9, 5 + i));
}

/* Channels first, in the middle, and inmost; element values tell where they came from. */
static void channels_gather_and_scatter(void **state)
{
    (void)state;
    const qg__split splits[] = { { 1, 3, 700 }, { 5, 3, 7 }, { 33, 4, 1 }, { 1, 1, 1 } };
    for (int s = 0; s < 4; s++) {
        const qg__split c = splits[s];
        static float    x[2100], y[2100], part[2100];
        const size_t    n = c.outer * c.depth * c.inner;
        for (size_t i = 0; i < n; i++) x[i] = (float)i, y[i] = -1.0f;
        for (size_t channel = 0; channel < c.depth; channel++) {
            const size_t size = qg__channel_size(c);
            double       sum = 0.0;
            for (size_t at = 0; at < size; at += 9) {
                const size_t m = qg__smaller(9, size - at);
                qg__gather(c, channel, at, m, x, part);
                for (size_t i = 0; i < m; i++) {
                    const size_t o = (at + i) / c.inner;
                    assert_true(part[i] ==
                                (float)((o * c.depth + channel) * c.inner + (at + i) % c.inner));
                    sum += (double)part[i];
                }
                qg__scatter(c, channel, at, m, part, y);
            }
            assert_near((double)qg__channel_mean_abs(c, channel, x), sum / (double)size, 1e-4);
        }
        assert_same(n, y, x);
    }
    assert_true(qg__channel_mean_abs((qg__split){ 0, 3, 1 }, 2, NULL) == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_against_a_loop),
        cmocka_unit_test(integers_are_summed_exactly),
        cmocka_unit_test(empty_nan_and_infinite),
        cmocka_unit_test(terms_see_every_element_once),
        cmocka_unit_test(same_bits_on_every_machine_and_thread_count),
        cmocka_unit_test(channels_gather_and_scatter),
    };
    return cmocka_run_group_tests(tests, fill_big, NULL);
}
