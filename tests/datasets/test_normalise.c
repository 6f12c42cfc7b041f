#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/normalise.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "datasets/dataset.h"
#include "tests/support/views.h"

enum { H = 4, W = 3, C = 2, ROW = H * W * C, N = 700 };

static uint8_t pixel(uint64_t key, int i, int k)
{
    if (k == 5) return 200;                                 /* a value that never changes */
    const float smooth = qg_normal(key, (uint64_t)i);       /* neighbours are correlated */
    const float own    = qg_normal(key + 1, (uint64_t)(i * ROW + k));
    const float x      = 120 + 20 * (float)(k % C) + 30 * smooth + (float)(5 + k) * own;
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* n images; image 3 is of one colour. */
static qg_loader *drawn(uint64_t key, int n, qg_loader_spec spec)
{
    qg__dataset set = { .shape = { n, H, W, C }, .classes = 2 };
    assert_true(qg__dataset_allocate(&set));
    for (int i = 0; i < n * ROW; i++)
        set.images[i] = i / ROW == 3 && spec.normalise.kind == QG_WHITEN ? 200 : pixel(key, i / ROW, i % ROW);
    memset(set.labels, 0, (size_t)n * sizeof *set.labels);
    return qg__loader_new(set, spec);
}

static const float *all(qg_loader *l)
{
    qg_batch b;
    if (!l) fail_msg("%s", qg_errmsg());
    if (!qg_loader_next(l, &b)) assert_true(qg_loader_next(l, &b));
    return b.x.data;
}

static qg_loader_spec in_order(qg_normalise_kind kind)
{
    return (qg_loader_spec){ .batch = N, .in_order = true, .normalise = { .kind = kind } };
}

static void test_range(void **state)
{
    qg_loader_spec spec = in_order(QG_TO_RANGE);
    spec.normalise.low  = -1;
    spec.normalise.high = 1;
    qg_loader   *l      = drawn(1, N, spec);
    const float *x      = all(l);
    for (int i = 0; i < N * ROW; i++) {
        const float unit = (float)pixel(1, i / ROW, i % ROW) / 255.0f;
        assert_true(x[i] == (unit - 0.5f) / 0.5f);          /* 2x - 1, rounded once */
    }
    qg_loader_free(l);
    spec.normalise.low  = 0.25f;
    spec.normalise.high = 4.25f;
    l = drawn(1, N, spec);
    x = all(l);
    /* Two roundings at up to 4.25. */
    for (int i = 0; i < N * ROW; i++)
        assert_near(x[i], 0.25 + 4 * pixel(1, i / ROW, i % ROW) / 255.0, 1e-6);
    qg_loader_free(l);
    spec.normalise.high = 0.25f;
    assert_none(drawn(1, N, spec), "range 0.25..0.25: its width must be a positive float");
    spec.normalise.low  = -3e38f;
    spec.normalise.high = 3e38f;
    assert_none(drawn(1, N, spec), "range -3e+38..3e+38: its width must be a positive float");
    spec.normalise.low  = 0.25f;
    spec.normalise.high = NAN;
    assert_null(drawn(1, N, spec));
    assert_none(drawn(1, N, in_order((qg_normalise_kind)5)), "5 is not a kind of normalisation");
}

/* As PyTorch's Normalize after ToTensor: a division by 255, and another one. */
static void test_given(void **state)
{
    static const float mean[] = { 0.4914f, 0.4822f, 0.5f }, deviation[] = { 0.247f, 0.2435f, 0.25f };
    qg_loader_spec     spec   = in_order(QG_PER_CHANNEL);
    for (spec.normalise.given = 1; spec.normalise.given <= C; spec.normalise.given += C - 1) {
        memcpy(spec.normalise.mean, mean, sizeof mean), memcpy(spec.normalise.deviation, deviation, sizeof deviation);
        qg_loader   *l = drawn(1, N, spec);
        const float *x = all(l);
        for (int i = 0; i < N * ROW; i++) {
            const int k = spec.normalise.given == 1 ? 0 : i % C;
            assert_true(x[i] == ((float)pixel(1, i / ROW, i % ROW) / 255.0f - mean[k]) / deviation[k]);
        }
        qg_loader_free(l);
    }
    spec.normalise.given = C + 1;
    assert_none(drawn(1, N, spec), "channel: mean has 3 numbers, but the images have 2 channels");
    spec.normalise.given        = 1;
    spec.normalise.deviation[0] = 0;
    assert_none(drawn(1, N, spec), "mean 0.4914 must be finite, deviation 0 also positive");
    spec.normalise.deviation[0] = 1;
    spec.normalise.mean[0]      = NAN;
    assert_none(drawn(1, N, spec), "must be finite");
}

/* Mean and deviation of value k, or of every value of channel k. */
static void moments(const float *x, int k, int step, double *mean, double *deviation)
{
    double sum = 0, squares = 0, n = 0;
    for (int i = 0; i < N; i++)
        for (int at = k; at < (step == ROW ? k + 1 : ROW); at += step, n++) {
            sum += (double)x[i * ROW + at];
            squares += (double)x[i * ROW + at] * (double)x[i * ROW + at];
        }
    *mean      = sum / n;
    *deviation = sqrt(squares / n - *mean * *mean);
}

static void check_moments(qg_normalise_kind kind, int count, int step)
{
    qg_loader   *l = drawn(1, N, in_order(kind));
    const float *x = all(l);
    for (int k = 0; k < count; k++) {
        double mean, deviation;
        moments(x, k, step, &mean, &deviation);
        /* Mean and deviation as floats: a relative 6e-8 of a mean that is up to five deviations. */
        assert_near(mean, 0, 1e-6);
        assert_near(deviation, step == ROW && k == 5 ? 0 : 1, 1e-6);
    }
    qg_loader_free(l);
}

static void test_train_has_mean_0_and_deviation_1(void **state)
{
    check_moments(QG_PER_CHANNEL, C, C);
    check_moments(QG_PER_PIXEL, ROW, ROW);
}

/* Other images, by the statistics of these. */
static void test_statistics_are_taken_over(void **state)
{
    enum { KINDS = 3, FEW = 50 };
    static const qg_normalise_kind kinds[KINDS] = { QG_PER_CHANNEL, QG_PER_PIXEL, QG_WHITEN };
    for (int i = 0; i < KINDS; i++) {
        qg_loader     *train = drawn(1, N, in_order(kinds[i]));
        qg_loader_spec spec  = in_order(QG_TO_UNIT);
        spec.preprocess      = qg_loader_preprocess(train);
        qg_loader *test      = drawn(1, FEW, spec), *own = drawn(1, FEW, in_order(kinds[i]));
        /* The same images give the same numbers, except image 3, which drawn changes for whitening. */
        assert_memory_equal(all(test), all(train), 3 * ROW * sizeof(float));
        assert_memory_not_equal(all(own), all(train), 3 * ROW * sizeof(float));
        qg_loader_free(train);                              /* copied: test does without it */
        (void)all(test);
        qg_loader_free(own);
        qg_loader_free(test);
    }
    qg_loader *train = drawn(1, N, in_order(QG_PER_CHANNEL));
    assert_null(qg_synthetic((qg_shape){ 1, W, H, C }, 5, 2,
                             (qg_loader_spec){ .batch = 1, .preprocess = qg_loader_preprocess(train) }));
    assert_message("images of 3x4x2 cannot be preprocessed as images of 4x3x2");
    qg_loader_free(train);
}

/* The definition, in double; g [N][ROW] less its mean. */
static void contrast_ref(double *g)
{
    double mean[ROW] = { 0 };
    for (int i = 0; i < N; i++) {
        double m = 0, s = 0, *to = g + i * ROW;
        for (int k = 0; k < ROW; k++) m += (to[k] = i == 3 ? 200 : pixel(1, i, k)) / ROW;
        for (int k = 0; k < ROW; k++) s += (to[k] - m) * (to[k] - m);
        for (int k = 0; k < ROW; k++) to[k] = s > 1e-9 ? 55 * (to[k] - m) / sqrt(s) : 0;
        for (int k = 0; k < ROW; k++) mean[k] += to[k] / N;
    }
    for (int i = 0; i < N * ROW; i++) g[i] -= mean[i % ROW];
}

/* Covariance of x [N][ROW], whose mean is 0. */
static void covariance(const double *x, double *c)
{
    memset(c, 0, ROW * ROW * sizeof *c);
    for (int i = 0; i < N; i++)
        for (int a = 0; a < ROW; a++)
            for (int b = 0; b < ROW; b++) c[a * ROW + b] += x[i * ROW + a] * x[i * ROW + b] / N;
}

/* Along eigenvector v_j of the covariance, with eigenvalue d_j, the result has variance
 * d_j / (d_j + 0.1), which is 1 where d_j is large, and no covariance with another direction. */
static void test_whitens(void **state)
{
    static double g[N * ROW], white[N * ROW], v[ROW * ROW], c[ROW * ROW], d[ROW];
    contrast_ref(g);
    covariance(g, v);
    assert_ok(qg__eigen(ROW, v, d));
    assert_true(d[ROW - 1] > 50 && d[ROW / 2] > 10);        /* most directions are kept */
    assert_true(d[0] < 1e-9);                               /* GCN took one off: the mean of an image */

    qg_loader   *l = drawn(1, N, in_order(QG_WHITEN));
    const float *x = all(l);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < ROW; j++) {
            double along = 0;
            for (int k = 0; k < ROW; k++) along += v[j * ROW + k] * (double)x[i * ROW + k];
            white[i * ROW + j] = along;
            /* P v_j = v_j / sqrt(d_j + 0.1): each image, not only the sum over them. */
            double before = 0;
            for (int k = 0; k < ROW; k++) before += v[j * ROW + k] * g[i * ROW + k];
            assert_near(along, before / sqrt(d[j] + 0.1), 1e-3);     /* floats of up to 40 */
        }
    covariance(white, c);
    for (int a = 0; a < ROW; a++)
        for (int b = 0; b < ROW; b++)
            assert_near(c[a * ROW + b], a == b ? d[a] / (d[a] + 0.1) : 0, 1e-4);
    qg_loader_free(l);
}

static void test_any_threads(void **state)
{
    static float x[3][N * ROW];
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        qg_loader *l = drawn(1, N, in_order(QG_WHITEN));
        memcpy(x[threads - 1], all(l), sizeof x[0]);
        qg_loader_free(l);
    }
    qg_set_threads(0);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(x[0], x[2], sizeof x[0]);
}

/* Images of 300 values: the last columns of the product fill no vectors, which takes scratch of its own. */
static void test_columns_that_fill_no_vectors(void **state)
{
    enum { FEW = 24, LONG_ROW = 10 * 10 * 3 };
    static float first[FEW * LONG_ROW];
    for (int threads = 1; threads <= 3; threads++) {
        qg__dataset set = { .shape = { FEW, 10, 10, 3 }, .classes = 2 };
        assert_true(qg__dataset_allocate(&set));
        for (int i = 0; i < FEW * LONG_ROW; i++) set.images[i] = (uint8_t)(qg_uniform(7, (uint64_t)i) * 255);
        memset(set.labels, 0, FEW * sizeof *set.labels);
        qg_set_threads(threads);
        qg_loader *l = qg__loader_new(set, (qg_loader_spec){ .batch = FEW, .in_order = true, .normalise = { .kind = QG_WHITEN } });
        if (threads == 1) memcpy(first, all(l), sizeof first);
        assert_memory_equal(all(l), first, sizeof first);
        qg_loader_free(l);
    }
    qg_set_threads(0);
}

static void test_eigen(void **state)
{
    enum { M = 33 };
    static double a[M * M], v[M * M], d[M];
    for (int i = 0; i < M; i++)
        for (int k = 0; k <= i; k++)
            a[i * M + k] = a[k * M + i] = (double)qg_normal(4, (uint64_t)(i * M + k));
    memcpy(v, a, sizeof a);
    for (int i = 0; i < M; i++)
        for (int k = i + 1; k < M; k++) v[i * M + k] = NAN;          /* not read */
    assert_ok(qg__eigen(M, v, d));
    for (int i = 0; i < M; i++) {
        assert_true(i == 0 || d[i] >= d[i - 1]);
        for (int k = 0; k < M; k++) {
            double sum = 0;
            for (int j = 0; j < M; j++) sum += d[j] * v[j * M + i] * v[j * M + k];
            assert_near(sum, a[i * M + k], 1e-12);            /* M eps |a|, times a few */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_train_has_mean_0_and_deviation_1),
        cmocka_unit_test(test_statistics_are_taken_over),
        cmocka_unit_test(test_whitens),
        cmocka_unit_test(test_any_threads),
        cmocka_unit_test(test_columns_that_fill_no_vectors),
        cmocka_unit_test(test_eigen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
