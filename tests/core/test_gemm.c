#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"

enum { GUARD = 7, MOST = 25 };

/* --- the same by three loops and sums in double --- */

/* A stored matrix seen from the sum: element (outer, k) is at outer * step + k * k_step. */
typedef struct operand {
    const float *data;
    ptrdiff_t    step, k_step;
} operand;

static float dot(int k, operand a, int i, operand b, int j)
{
    double sum = 0.0;
    for (int r = 0; r < k; r++)
        sum += (double)a.data[i * a.step + r * a.k_step] *
               (double)b.data[j * b.step + r * b.k_step];
    return (float)sum;
}

static void by_loops(int m, int n, int k, operand a, operand b, float beta, float *c, int ldc)
{
    for (int i = 0; i < m; i++, c += ldc)
        for (int j = 0; j < n; j++)
            c[j] = dot(k, a, i, b, j) + (beta == 0.0f ? 0.0f : beta * c[j]);
}

static void gemm_nn_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                        float beta, float *c, int ldc)
{
    by_loops(m, n, k, (operand){ a, lda, 1 }, (operand){ b, 1, ldb }, beta, c, ldc);
}

static void gemm_nt_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                        float beta, float *c, int ldc)
{
    by_loops(m, n, k, (operand){ a, lda, 1 }, (operand){ b, ldb, 1 }, beta, c, ldc);
}

static void gemm_tn_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                        float beta, float *c, int ldc)
{
    by_loops(m, n, k, (operand){ a, 1, lda }, (operand){ b, 1, ldb }, beta, c, ldc);
}

/* --- forms --- */

typedef void product(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                     float beta, float *c, int ldc);

typedef struct form {
    product *fast, *ref;
    int      a_turned, b_turned;    /* stored [k][m], [n][k] */
} form;

static const form forms[] = {
    { qg__gemm_nn, gemm_nn_ref, 0, 0 },
    { qg__gemm_nt, gemm_nt_ref, 0, 1 },
    { qg__gemm_tn, gemm_tn_ref, 1, 0 },
};

static const int sizes[][3] = {
    { 1, 1, 1 },   { 1, 5, 3 },    { 3, 1, 31 },   { 31, 33, 1 }, { 33, 31, 63 },
    { 5, 65, 33 }, { 64, 16, 32 }, { 65, 63, 64 }, { 2, 3, 0 },
};

static float *noise(size_t n, uint64_t key)
{
    float *x = malloc((n + 1) * sizeof *x);     /* n may be 0 */
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = 2.0f * qg_uniform(key, i) - 1.0f;
    return x;
}

/* Rows of width floats, gap apart, last one without a gap: reads past it are seen by ASan. */
static size_t extent(int rows, int width, int ld)
{
    return rows ? (size_t)(rows - 1) * (size_t)ld + (size_t)width : 0;
}

/* Every form, size and beta, with gaps between rows.  The sum of k products of numbers below 1 is
 * below k and gains at most k roundings of half an eps of that; in practice about sqrt(k) of them
 * times its typical size sqrt(k) / 3.  One eps per term covers both.  Gaps must survive. */
static void products_agree_with_the_reference(void **state)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int beta = 0; beta < 2; beta++) {
                const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                const int a_rows = forms[f].a_turned ? k : m, a_cols = forms[f].a_turned ? m : k;
                const int b_rows = forms[f].b_turned ? n : k, b_cols = forms[f].b_turned ? k : n;
                const int lda = a_cols + 2, ldb = b_cols + 3, ldc = n + GUARD;
                float    *a   = noise(extent(a_rows, a_cols, lda), 1);
                float    *b   = noise(extent(b_rows, b_cols, ldb), 2);
                float    *c   = noise((size_t)(m * ldc), 3);
                float    *ref = noise((size_t)(m * ldc), 3);
                forms[f].fast(m, n, k, a, lda, b, ldb, (float)beta, c, ldc);
                forms[f].ref(m, n, k, a, lda, b, ldb, (float)beta, ref, ldc);
                for (int i = 0; i < m * ldc; i++) {
                    const double bound = i % ldc < n ? (k + 1) * 0x1p-23 : 0.0;
                    assert_true(fabs((double)c[i] - (double)ref[i]) <= bound);
                }
                free(a), free(b), free(c), free(ref);
            }
}

/* Small integers are exact in float, so the reference itself can be checked by hand. */
static void reference_is_what_the_header_says(void **state)
{
    const float a[] = { 1, 2, 3, 4, 5, 6 };             /* [2][3], or [3][2] */
    const float b[] = { 1, 0, 2, -1, 3, 1 };            /* [3][2], or [2][3] */
    float       c[] = { 100, 200, 300, 400 };
    gemm_nn_ref(2, 2, 3, a, 3, b, 2, 0.0f, c, 2);
    const float nn[] = { 14, 1, 32, 1 };
    assert_memory_equal(c, nn, sizeof c);
    gemm_nt_ref(2, 2, 3, a, 3, b, 3, 1.0f, c, 2);
    const float nt[] = { 14 + 7, 1 + 8, 32 + 16, 1 + 17 };
    assert_memory_equal(c, nt, sizeof c);
    gemm_tn_ref(2, 2, 3, a, 2, b, 2, 0.0f, c, 2);
    const float tn[] = { 22, 2, 28, 2 };
    assert_memory_equal(c, tn, sizeof c);
}

/* beta 0 must not read c, which may never have been written. */
static void beta_0_ignores_what_was_there(void **state)
{
    float a[MOST];
    float b[MOST];
    for (int i = 0; i < MOST; i++) a[i] = b[i] = 1.0f;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        float c[4] = { NAN, INFINITY, NAN, NAN };
        forms[f].fast(2, 2, 5, a, 5, b, 5, 0.0f, c, 2);
        for (int i = 0; i < 4; i++) assert_true(c[i] == 5.0f);
    }
}

static void empty_products_do_nothing(void **state)
{
    const float one  = 1.0f;
    float       c[1] = { 3.0f };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        forms[f].fast(0, 1, 1, &one, 1, &one, 1, 0.0f, c, 1);
        forms[f].fast(1, 0, 1, &one, 1, &one, 1, 0.0f, c, 1);
        assert_true(c[0] == 3.0f);
    }
}

int main(void)
{
    qg_set_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_is_what_the_header_says),
        cmocka_unit_test(products_agree_with_the_reference),
        cmocka_unit_test(beta_0_ignores_what_was_there),
        cmocka_unit_test(empty_products_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
