#include "tests/support/views.h"

#include "core/kernels/parallel.h"
#include "quant/channel.h"
#include "quant/engine.h"
#include "quant/kernels.h"
#include "quant/reduce.h"
#include "quant/smooth.h"
#include "tests/support/environment.h"

#include <stdlib.h>

enum { BIG = 64 * QG_BLOCK + 3 * QG_BLOCK + 5 }; /* more than one round of blocks */

static float big[BIG];

static int fill_big(void **state)
{
    fill_normal(3, 1.0f, BIG, big);
    return 0;
}

/* Sums of n doubles in another order differ by at most n ulp of the sum; 1e-12 is far above. */
static void sums_against_a_loop(void **state)
{
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
        assert_true(qg__max_abs(n, big) == max);
        assert_near(qg__sum_abs_above(n, big, d, &count), above, 1e-12 * sum);
        assert_int_equal(count, kept);
    }
}

static void integers_are_summed_exactly(void **state)
{
    static float x[MOST];
    for (size_t i = 0; i < MOST; i++) x[i] = i % 2 ? 3.0f : -3.0f;
    assert_true(qg__sum_abs(MOST, x) == 3.0 * MOST);
    size_t kept;
    assert_true(qg__sum_abs_above(MOST, x, 3.0f, &kept) == 0.0 && kept == 0); /* strictly above */
    assert_true(qg__sum_abs_above(MOST, x, 2.9f, &kept) == 3.0 * MOST && kept == MOST);
}

/* docs/arithmetic.md: sums l, l + 8, l + 16 and l + 24 of a run are added first.  1 is lost beside 2^60. */
static void the_sums_of_a_run_are_added_by_fours(void **state)
{
    float x[32] = { 0x1p60f, 1 };
    x[8] = -0x1p60f;
    assert_true(QG_KERNELS(qg__reduce)->sum(32, x) == 1);
    x[16] = 1;                              /* (2^60 - 2^60) + (1 + 0) */
    assert_true(QG_KERNELS(qg__reduce)->sum(32, x) == 2);
    x[8] = 0, x[16] = -0x1p60f, x[24] = 1;  /* (2^60 + 0) + (-2^60 + 1), where 1 is lost */
    assert_true(QG_KERNELS(qg__reduce)->sum(32, x) == 1);
}

static void empty_nan_and_infinite(void **state)
{
    size_t kept = 1;
    assert_true(qg__sum_abs(0, NULL) == 0.0 && qg__max_abs(0, NULL) == 0.0f);
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
    float  max, tanh[MOST], slopes[7][MOST], signs[MOST], rounded[MOST];
    float  levels[MOST], span[2], least[19], most[19];
    uint8_t codes[2][MOST];
    double pixels[50], pairs[2];
    size_t kept;
};

/* Of the squares, and of the numbers themselves. */
static void both_sums(const void *context, size_t first, size_t n, double *sum)
{
    float term[QG_CHUNK];
    square_terms(context, first, n, term);
    sum[0] += QG_KERNELS(qg__reduce)->sum(n, term);
    sum[1] += QG_KERNELS(qg__reduce)->sum(n, (const float *)context + first);
}

static void compute_reductions(struct results *r)
{
    const qg_reduce_kernels *reduce = QG_KERNELS(qg__reduce);
    for (int i = 0; i < 19; i++) r->least[i] = r->most[i] = 0.0f;
    reduce->min_max(4607, big + 1, &r->span[0], &r->span[1]);
    reduce->min_max_columns(50, 23, 19, big, r->least, r->most);
    reduce->add_abs_rows(50, 21, big, r->pixels);
    qg__sum_runs(BIG, both_sums, big, r->pairs);
}

static void compute_slopes(struct results *r)
{
    const qg__surrogate_kernels *k  = QG_KERNELS(qg__surrogate);
    const float                 *dy = big + 3;
    k->clip(1.0f, MOST, big, dy, r->slopes[0]);
    k->open_clip(1.0f, MOST, big, dy, r->slopes[1]);
    k->approx_sign(0.0f, MOST, big, dy, r->slopes[2]);
    k->swish(5.0f, MOST, big, dy, r->slopes[3]);
    k->tanh(0.7f, MOST, big, dy, r->slopes[4]);
    QG_KERNELS(qg__form)->mix(MOST, big, dy, (qg_mix){ .direct = 0.1f, .coupled = 0.2f, .through = 0.3f }, r->slopes[5],
                              r->slopes[6]);
}

static void compute(struct results *r)
{
    r->sum = qg__sum_abs(BIG, big);
    r->above = qg__sum_abs_above(BIG, big, 0.3f, &r->kept);
    r->max = qg__max_abs(BIG, big);
    r->terms = qg__sum_terms(BIG, square_terms, big);
    r->row = QG_KERNELS(qg__reduce)->sum(4607, big + 1); /* unaligned */
    QG_KERNELS(qg__form)->tanh_of(MOST, big, r->tanh);
    QG_KERNELS(qg__noise)->stochastic_sign(MOST, big, 9, 5, r->signs);
    const qg__gradient_rounding f = { .range = 1.5f, .most = 7, .step = 0.25f, .draws = true, .key = 9 };
    QG_KERNELS(qg__noise)->stochastic(&f, MOST, big, 5, r->rounded);
    QG_KERNELS(qg__noise)->dorefa(&f, MOST, big, 5, r->levels);
    QG_KERNELS(qg__noise)->stochastic_bytes(&f, MOST, big, 5, r->codes[0]);
    QG_KERNELS(qg__noise)->dorefa_bytes(&f, MOST, big, 5, r->codes[1]);
    compute_reductions(r);
    compute_slopes(r);
}

static void same_bits_on_every_machine_and_thread_count(void **state)
{
    static struct results first, other;
    qg_set_threads(1);
    compute(&first);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int path = 0; path < PATHS; path++) {
            qg_set_threads(threads);
            use_path(path);
            memset(&other, 0, sizeof other);
            compute(&other);
            assert_true(other.sum == first.sum && other.above == first.above);
            assert_true(other.terms == first.terms && other.row == first.row);
            assert_true(other.max == first.max && other.kept == first.kept);
            assert_same(MOST, other.tanh, first.tanh);
            assert_same(7 * MOST, other.slopes[0], first.slopes[0]);
            assert_same(MOST, other.signs, first.signs);
            assert_same(MOST, other.rounded, first.rounded);
            assert_same(MOST, other.levels, first.levels);
            assert_memory_equal(other.codes, first.codes, sizeof first.codes);
            assert_same(2, other.span, first.span);
            assert_same(19, other.least, first.least);
            assert_same(19, other.most, first.most);
            assert_memory_equal(other.pixels, first.pixels, sizeof first.pixels);
            assert_memory_equal(other.pairs, first.pairs, sizeof first.pairs);
        }
    qg_set_threads(0);
    for (size_t i = 0; i < MOST; i++) {
        assert_true(first.rounded[i] == ((float)first.codes[0][i] - 7) * 0.25f);
        assert_true(first.levels[i] == 1.5f * (2 * ((float)(first.codes[1][i] / 2) / 7 - 0.5f)));
        assert_true(first.signs[i] == (qg_uniform(9, 5 + i) < (big[i] + 1.0f) * 0.5f ? 1.0f : -1.0f));
        assert_true(first.tanh[i] == qg__tanhf(big[i]));
    }
}

/* Each of two sums in one reading is that of qg__sum_terms: the same blocks, the same order. */
static void pairs_are_two_sums(void **state)
{
    double sum[2];
    qg__sum_runs(BIG, both_sums, big, sum);
    assert_true(sum[0] == qg__sum_terms(BIG, square_terms, big));
    qg__sum_runs(0, both_sums, NULL, sum);
    assert_true(sum[0] == 0.0 && sum[1] == 0.0);
}

/* Runs of small weights take the polynomial alone; one large weight, or NaN, must not let them. */
static void tanh_of_a_run_is_tanh(void **state)
{
    float x[QG_TANH_RUN], y[QG_TANH_RUN];
    for (int far = -1; far < QG_TANH_RUN; far++) {
        for (size_t i = 0; i < QG_TANH_RUN; i++) x[i] = 0.0098f * (float)i * (i % 2 ? 1.0f : -1.0f);
        if (far >= 0) x[far] = far % 3 ? QG_TANH_NEAR : -9.0f;
        qg__tanhf_run(QG_TANH_RUN, x, y);
        for (size_t i = 0; i < QG_TANH_RUN; i++) {
            const float t = qg__tanhf(x[i]);
            assert_memory_equal(&y[i], &t, sizeof t);
        }
    }
    x[7] = NAN;
    qg__tanhf_run(QG_TANH_RUN, x, y);
    assert_true(isnan(y[7]));
}

/* NaN is passed over; what is given is only widened. */
static void minimum_and_maximum(void **state)
{
    const qg_reduce_kernels *reduce = QG_KERNELS(qg__reduce);
    for (size_t n = 0; n < 100; n++) {
        static float x[100];
        fill_normal(7 + n, 1.0f, n, x);
        if (n) x[n / 2] = NAN;
        float lo = 0.5f, hi = -0.5f, want_lo = lo, want_hi = hi;
        for (size_t i = 0; i < n; i++) {
            if (x[i] < want_lo) want_lo = x[i];
            if (x[i] > want_hi) want_hi = x[i];
        }
        reduce->min_max(n, x, &lo, &hi);
        assert_true(lo == want_lo && hi == want_hi);
    }
}

static const char *const machines[] = { "baseline", "avx2", "avx512" };

/* Of channel `channel` in a loop, without element `but`. */
static void span_of(qg_split c, size_t channel, size_t but, const float *x, float *lo, float *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t i = 0; i < c.outer * c.depth * c.inner; i++)
        if (i / c.inner % c.depth == channel && i != but) {
            *lo = fminf(*lo, x[i]);
            *hi = fmaxf(*hi, x[i]);
        }
}

/* A NaN is left out of what a batch spans wherever it stands, first, last or in any lane of any machine;
 * the rest of the batch may lie on one side of 0, so a NaN taken for 0 would show. */
static void nan_is_left_out_wherever_it_stands(void **state)
{
    static const qg_split splits[] = { { 1, 1, 1 },  { 1, 1, 33 }, { 1, 1, 300 }, { 5, 7, 1 },
                                        { 37, 20, 1 }, { 1, 3, 67 }, { 3, 4, 37 },  { 2, 2, 9 } };
    static float           x[800];
    for (size_t s = 0; s < sizeof splits / sizeof splits[0]; s++) {
        const qg_split c = splits[s];
        const size_t    n = c.outer * c.depth * c.inner;
        for (size_t at = 0; at < n; at++) {
            for (size_t i = 0; i < n; i++) x[i] = qg_normal(17, i) + 5.0f * (float)((int)at % 3 - 1);
            x[at] = NAN;
            const size_t channel = at / c.inner % c.depth;
            float        low, high;
            span_of(c, channel, at, x, &low, &high);
            for (int m = 0; m < 3; m++) {
                float lo[20], hi[20], percentile_lo[20], percentile_hi[20];
                assert_int_equal(setenv("QGRAD_CPU", machines[m], 1), 0);
                qg__min_max(c, 0, c.depth, x, lo, hi);
                qg__percentiles(c, 0, c.depth, x, 100.0, percentile_lo, percentile_hi);
                assert_true(lo[channel] == low && hi[channel] == high);
                assert_true(percentile_lo[channel] == low && percentile_hi[channel] == high);
                assert_true(isnan(qg__max_abs(n, x)));      /* kept, on the other hand */
            }
        }
    }
    unsetenv("QGRAD_CPU");
}

/* Of +0 and -0 neither is smaller; the same bits come out in any order of them. */
static void the_order_of_zeros_does_not_show(void **state)
{
    static const qg_split splits[] = { { 1, 1, 70 }, { 70, 1, 1 }, { 35, 2, 1 }, { 1, 2, 35 } };
    for (size_t s = 0; s < sizeof splits / sizeof splits[0]; s++)
        for (int m = 0; m < 3; m++)
            for (size_t at = 0; at < 70; at++) {
                float x[70] = { 0.0f }, lo[2], hi[2];
                x[at] = -0.0f;
                assert_int_equal(setenv("QGRAD_CPU", machines[m], 1), 0);
                qg__min_max(splits[s], 0, splits[s].depth, x, lo, hi);
                for (size_t k = 0; k < splits[s].depth; k++)
                    assert_true(lo[k] == 0.0f && !signbit(lo[k]) && hi[k] == 0.0f && !signbit(hi[k]));
            }
    unsetenv("QGRAD_CPU");
}

/* Channels first, in the middle, and inmost; element values tell where they came from. */
static void channels_gather_and_scatter(void **state)
{
    const qg_split splits[] = { { 1, 3, 700 }, { 5, 3, 7 }, { 33, 4, 1 }, { 1, 1, 1 } };
    for (int s = 0; s < 4; s++) {
        const qg_split c = splits[s];
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
            assert_near((double)qg_span_mean_abs(qg__span_at(qg__isa(), c, channel, x)), sum / (double)size, 1e-4);
        }
        assert_same(n, y, x);
    }
    assert_true(qg_span_mean_abs(qg__span_at(qg__isa(), (qg_split){ 0, 3, 1 }, 2, NULL)) == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_against_a_loop),
        cmocka_unit_test(integers_are_summed_exactly),
        cmocka_unit_test(the_sums_of_a_run_are_added_by_fours),
        cmocka_unit_test(empty_nan_and_infinite),
        cmocka_unit_test(terms_see_every_element_once),
        cmocka_unit_test_teardown(same_bits_on_every_machine_and_thread_count, restore_variables),
        cmocka_unit_test(pairs_are_two_sums),
        cmocka_unit_test(tanh_of_a_run_is_tanh),
        cmocka_unit_test(minimum_and_maximum),
        cmocka_unit_test(nan_is_left_out_wherever_it_stands),
        cmocka_unit_test(the_order_of_zeros_does_not_show),
        cmocka_unit_test(channels_gather_and_scatter),
    };
    return cmocka_run_group_tests(tests, fill_big, NULL);
}
