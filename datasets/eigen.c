#include "datasets/eigen.h"

#include <stdlib.h>

#include "core/kernels/parallel.h"

/* LAPACK has no header of its own.  Fortran passes everything by address, and the lengths of its
 * strings behind the last argument. */
void dsyevd_(const char *job, const char *part, const int *n, double *a, const int *lda, double *value,
             double *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t job_length,
             size_t part_length);

/* Column by column, as Fortran stores matrices, the rows of a are columns and its lower half is the
 * upper one. */
static int decompose(int n, double *a, double *value, double *work, int lwork, int *iwork, int liwork)
{
    int info = 0;
    dsyevd_("V", "U", &n, a, &n, value, work, &lwork, iwork, &liwork, &info, 1, 1);
    return info;
}

typedef struct eigen {
    int       n;
    double   *a, *value;
    qg_status status;
} eigen;

static qg_status solve(int n, double *a, double *value)
{
    double size  = 0;
    int    isize = 0;
    if (decompose(n, a, value, &size, -1, &isize, -1))
        return qg_fail(QG_EARG, "eigenvectors of a %d x %d matrix are beyond LAPACK", n, n);
    const int lwork  = (int)size;
    double   *work   = malloc((size_t)lwork * sizeof *work);
    int      *iwork  = malloc((size_t)isize * sizeof *iwork);
    qg_status status = QG_OK;
    if (!work || !iwork)
        status = qg_fail(QG_EMEM, "out of memory: eigenvectors of a %d x %d matrix", n, n);
    else if (decompose(n, a, value, work, lwork, iwork, isize))
        status = qg_fail(QG_ENAN, "the eigenvectors of a %d x %d matrix did not converge", n, n);
    free(work);
    free(iwork);
    return status;
}

/* One piece, and so on the caller's thread, whose error message it sets. */
static void piece(void *context, int index, int worker)
{
    eigen *e = context;
    (void)index, (void)worker;
    e->status = solve(e->n, e->a, e->value);
}

qg_status qg__eigen(int n, double *a, double *value)
{
    eigen e = { n, a, value, QG_OK };
    qg_parallel_blas(1, piece, &e);
    return e.status;
}
