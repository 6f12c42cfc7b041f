/* datasets/eigen.h — eigenvalues and eigenvectors of a symmetric matrix, by LAPACK.  Internal. */
#ifndef QG_EIGEN_H
#define QG_EIGEN_H

#include "core/status.h"

/* a = sum over j of value[j] v_j v_j^T.
 *
 * Shapes   a [n][n]: only a[i][k] with k <= i is read; row j of it becomes v_j, of length 1.
 *          value [n], ascending.
 * Memory   2 n^2 doubles of scratch, given back.  One thread, so the bits depend on a alone.
 * Fails    QG_EMEM.  QG_EARG: n is beyond LAPACK.  QG_ENAN: no convergence, as with values that are
 *          not finite.
 */
QG_MUST_CHECK
qg_status qg__eigen(int n, double *a, double *value);

#endif
