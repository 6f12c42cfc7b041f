/* Eigenvectors by the Jacobi method. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/jacobi.h"
#include "core/rng.h"

enum { MOST = 75 };

/* Rounding errors of 2^-53 of the matrix in each of some 5 n^2 rotations add up to less than this.  A wrong
 * sign or element is off by its whole size. */
static const double CLOSE = 1e-12;

static double of(uint64_t key, uint64_t i) { return 2 * (double)qg_uniform(key, i) - 1; }

/* Checks what qg__jacobi promises of a [n][n]; value [n]. */
static void assert_solves(int n, const double *a, double *value)
{
    static double work[MOST * MOST], vector[MOST * MOST];
    double        norm = 0;
    memcpy(work, a, (size_t)(n * n) * sizeof *a);
    qg__jacobi(n, work, value, vector);
    for (int i = 0; i < n * n; i++) norm += a[i] * a[i];
    norm = sqrt(norm);
    for (int i = 0; i < n; i++) {
        assert_true(i == 0 || value[i - 1] >= value[i]);
        for (int k = 0; k < n; k++) {
            double product = 0, dot = 0;
            for (int j = 0; j < n; j++) product += a[k * n + j] * vector[i * n + j];
            for (int j = 0; j < n; j++) dot += vector[i * n + j] * vector[k * n + j];
            assert_true(fabs(product - value[i] * vector[i * n + k]) <= CLOSE * norm);
            assert_true(fabs(dot - (i == k)) <= CLOSE);
        }
    }
}

/* Values of both signs, on several scales. */
static void any_symmetric_matrix(void **state)
{
    static const int    sizes[]  = { 1, 2, 3, 5, 12, 27, MOST };
    static const double scales[] = { 1, 1e-90, 1e90 };
    for (int s = 0; s < 7; s++)
        for (int k = 0; k < 3; k++) {
            const int n = sizes[s];
            double    a[MOST * MOST], value[MOST], trace = 0, sum = 0;
            for (int i = 0; i < n; i++)
                for (int j = 0; j <= i; j++)
                    a[i * n + j] = a[j * n + i] = scales[k] * of((uint64_t)n, (uint64_t)(i * n + j));
            assert_solves(n, a, value);
            for (int i = 0; i < n; i++) trace += a[i * n + i], sum += value[i];
            assert_true(fabs(trace - sum) <= CLOSE * n * scales[k]);
        }
}

/* 2 on the diagonal and -1 beside it: value k, from the least, is 2 - 2 cos(pi k / (n + 1)). */
static void a_known_matrix(void **state)
{
    enum { N = 12 };
    double a[N * N] = { 0 }, value[N];
    for (int i = 0; i < N; i++) {
        a[i * N + i] = 2;
        if (i) a[i * N + i - 1] = a[(i - 1) * N + i] = -1;
    }
    assert_solves(N, a, value);
    for (int i = 0; i < N; i++)
        assert_true(fabs(value[i] - (2 - 2 * cos(acos(-1) * (N - i) / (N + 1)))) <= CLOSE);
}

/* Equal values; of b b^T, where b has r columns, n - r are 0. */
static void degenerate_matrices(void **state)
{
    enum { N = 12, R = 3 };
    double a[N * N] = { 0 }, b[N * R], value[N];
    assert_solves(N, a, value);
    for (int i = 0; i < N; i++) assert_true(value[i] == 0);

    for (int i = 0; i < N * N; i++) a[i] = 1 + (i % (N + 1) == 0 ? 3 : 0);
    assert_solves(N, a, value);
    for (int i = 0; i < N; i++) assert_true(fabs(value[i] - (i ? 3 : N + 3)) <= CLOSE * N);

    for (int i = 0; i < N * R; i++) b[i] = of(7, (uint64_t)i);
    for (int i = 0; i < N * N; i++) {
        a[i] = 0;
        for (int k = 0; k < R; k++) a[i] += b[i / N * R + k] * b[i % N * R + k];
    }
    assert_solves(N, a, value);
    for (int i = 0; i < N; i++) assert_true(i < R ? value[i] > 0.1 : fabs(value[i]) <= CLOSE * N);
}

/* As on every machine. */
static void the_bits_are_fixed(void **state)
{
    enum { N = 12 };
    double a[N * N], value[N], vector[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) a[i * N + j] = a[j * N + i] = of(3, (uint64_t)(i * N + j));
    qg__jacobi(N, a, value, vector);
    const uint64_t hash = qg_hash(qg_hash(QG_HASH_BASIS, value, sizeof value), vector, sizeof vector);
    assert_int_equal(hash, 0x8d49c2391b013ea4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_symmetric_matrix), cmocka_unit_test(a_known_matrix),
        cmocka_unit_test(degenerate_matrices),  cmocka_unit_test(the_bits_are_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
