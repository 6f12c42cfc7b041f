/* core/kernels/gemm.h — products of row-major matrices, by CBLAS.  For whitening, and to compare with; dense
 * layers have kernels of their own (core/kernels/dense_kernel.h).
 *
 *     nn   c[m][n] = a[m][k] b[k][n]   + beta c
 *     nt   c[m][n] = a[m][k] b[n][k]^T + beta c
 *     tn   c[m][n] = a[k][m]^T b[k][n] + beta c
 *
 * in the shapes in which they are stored.  The order of the arguments is that of BLAS: lda, ldb and ldc are floats
 * from one stored row to the next, at least a row and at least 1.  beta 0 overwrites c without reading it; k = 0 leaves
 * beta c; m or n = 0 does nothing.  The last bits depend on m, n and k, so a caller that splits a product between threads
 * must cut it in the same places for any number of threads.
 */
#ifndef QG_GEMM_H
#define QG_GEMM_H

void qg__gemm_nn(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc);
void qg__gemm_nt(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc);
void qg__gemm_tn(int m, int n, int k, const float *a, int lda, const float *b, int ldb, float beta,
                 float *c, int ldc);

#endif
