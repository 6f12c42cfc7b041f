#include "core/kernels/gemm.h"

#include <cblas.h>
#include <stddef.h>

void qg__gemm_nn(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, a, lda, b, ldb, beta, c,
                ldc);
}

void qg__gemm_nt(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, a, lda, b, ldb, beta, c,
                ldc);
}

void qg__gemm_tn(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1.0f, a, lda, b, ldb, beta, c,
                ldc);
}

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

static void product(int m, int n, int k, operand a, operand b, float beta, float *c, int ldc)
{
    for (int i = 0; i < m; i++, c += ldc)
        for (int j = 0; j < n; j++)
            c[j] = dot(k, a, i, b, j) + (beta == 0.0f ? 0.0f : beta * c[j]);
}

void qg__gemm_nn_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                     float beta, float *c, int ldc)
{
    product(m, n, k, (operand){ a, lda, 1 }, (operand){ b, 1, ldb }, beta, c, ldc);
}

void qg__gemm_nt_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                     float beta, float *c, int ldc)
{
    product(m, n, k, (operand){ a, lda, 1 }, (operand){ b, ldb, 1 }, beta, c, ldc);
}

void qg__gemm_tn_ref(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                     float beta, float *c, int ldc)
{
    product(m, n, k, (operand){ a, 1, lda }, (operand){ b, 1, ldb }, beta, c, ldc);
}
