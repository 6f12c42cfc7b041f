/* quant/reduce.h — sums over whole tensors, the same bits everywhere (internal).
 *
 * A tensor is cut into blocks of QG_BLOCK elements on every machine.  Threads take blocks in any order, and the
 * block sums are added in index order.  Inside a block the kernels keep 32 double accumulators on every
 * instruction set and add them up in one fixed order.  Sums are double; a caller that needs a float rounds once.
 */
#ifndef QG_REDUCE_H
#define QG_REDUCE_H

#include "core/kernels/parallel.h"
#include "core/kernels/cpu.h"

#include <stddef.h>

enum {
    QG_CHUNK = 256          /* elements of a buffer on the stack */
};

static inline size_t qg__smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Runs run(context, first, n) over [0, count) in pieces of `block`; the last may be shorter. */
typedef void (*qg__block)(void *context, size_t first, size_t n);
void qg__in_blocks(size_t count, size_t block, qg__block run, void *context);

double qg__sum_abs(size_t n, const float *x);                   /* sum |x| */
float  qg__max_abs(size_t n, const float *x);                   /* 0 if n = 0; NaN if any x is */
double qg__sum_abs_above(size_t n, const float *x, float d, size_t *count); /* |x| > d, d >= 0 */

/* Sum of a term per element: terms writes term[i] for element first + i, n <= QG_CHUNK. */
typedef void (*qg_terms)(const void *context, size_t first, size_t n, float *term);
double qg__sum_terms(size_t count, qg_terms terms, const void *context);

/* Two sums at once: run adds to them those of elements first .. first + n - 1, n <= QG_CHUNK. */
typedef void (*qg_run)(const void *context, size_t first, size_t n, double *sum);
void qg__sum_runs(size_t count, qg_run run, const void *context, double sum[2]);

/* What quant/reduce_kernel.c provides for each instruction set; any n, any alignment. */
typedef struct qg_reduce_kernels {
    double (*sum)(size_t n, const float *x);
    double (*sum_abs)(size_t n, const float *x);
    float  (*max_abs)(size_t n, const float *x);
    double (*sum_abs_above)(size_t n, const float *x, float d, size_t *count);
    void   (*min_max)(size_t n, const float *x, float *lo, float *hi);     /* widens; NaN is passed over */
    /* The same down each of n columns of x [rows][stride]. */
    void   (*min_max_columns)(size_t rows, size_t stride, size_t n, const float *x, float *lo, float *hi);
    /* sum[p] += sum |x[p][..]|, x [pixels][c] */
    void   (*add_abs_rows)(size_t pixels, size_t c, const float *x, double *sum);
} qg_reduce_kernels;

QG_DECLARE_KERNELS(qg_reduce_kernels, qg__reduce);

#endif
