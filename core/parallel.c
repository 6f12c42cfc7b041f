#include "core/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <cblas.h>

static int thread_count;    /* 0: not chosen yet */

int qg_threads(void)
{
    if (thread_count == 0) qg_set_threads(0);
    return thread_count;
}

void qg_set_threads(int n)
{
#ifdef _OPENMP
    thread_count = n < 1 ? omp_get_num_procs() : n;
#else
    (void)n;
    thread_count = 1;
#endif
    /* BLAS runs inside pieces; a second level of threads would change where its sums are cut. */
    openblas_set_num_threads(1);
}

void qg_parallel(int pieces, qg_piece run, void *context)
{
    const int threads = qg_threads();
    if (threads == 1 || pieces < 2) {
        for (int i = 0; i < pieces; i++) run(context, i, 0);
        return;
    }
#ifdef _OPENMP
    /* Static: a thread meets the same images in the next op, while they are still in its cache. */
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int i = 0; i < pieces; i++) run(context, i, omp_get_thread_num());
#endif
}

void qg_add_slices(const float *parts, size_t stride, size_t n, float *sum)
{
    for (int s = 0; s < QG_SLICES; s++)
        for (size_t i = 0; i < n; i++) sum[i] += parts[(size_t)s * stride + i];
}
