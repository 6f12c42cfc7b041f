#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"

/* Rows are the c channels of a pixel.  A row's result depends on that row alone, so threads may share them in any way;
 * exp and the sum are in double, as in the losses. */
typedef void (*row_run)(const qg_var *y, size_t at, size_t c);

typedef struct job {
    const qg_var *y;
    row_run       run;
    int           pieces;
} job;

static void run_piece(void *context, int piece, int worker)
{
    (void)worker;
    const job   *j    = context;
    const size_t c    = (size_t)j->y->shape.c, rows = qg_count(j->y->shape) / c, n = (size_t)j->pieces;
    const size_t from = rows * (size_t)piece / n, end = rows * ((size_t)piece + 1) / n;
    for (size_t r = from; r < end; r++) j->run(j->y, r * c, c);
}

static void in_rows(const qg_var *y, row_run run)
{
    job j = { y, run, qg_blocks(qg_count(y->shape)) };
    qg_parallel(j.pieces, run_piece, &j);
}

/* y[k] = exp(x[k] - m) / sum of exp(x - m):   dx[k] = y[k] (dy[k] - sum of y dy). */
static void row_gradient(const qg_var *y, size_t at, size_t c)
{
    const qg_var *x = y->in[0];
    const float  *v = y->data + at, *dy = y->grad + at;
    double        sum = 0;
    for (size_t k = 0; k < c; k++) sum += (double)v[k] * (double)dy[k];
    for (size_t k = 0; k < c; k++) {
        const float dx  = (float)((double)v[k] * ((double)dy[k] - sum));
        x->grad[at + k] = x->fresh ? dx : x->grad[at + k] + dx;
    }
}

static void softmax_backward(qg_tape *t, qg_var *y)
{
    (void)t;
    in_rows(y, row_gradient);
}

static const qg_op softmax = { "softmax", softmax_backward, .assigns = true };

static void row_value(const qg_var *y, size_t at, size_t c)
{
    const float *x = y->in[0]->data + at;
    double       m = (double)x[0], sum = 0;
    for (size_t k = 1; k < c; k++)
        if ((double)x[k] > m) m = (double)x[k];
    for (size_t k = 0; k < c; k++) sum += exp((double)x[k] - m);
    for (size_t k = 0; k < c; k++) y->data[at + k] = (float)(exp((double)x[k] - m) / sum);
}

qg_var *qg_softmax(qg_tape *t, qg_var *x)
{
    qg_var *y = x ? qg_record(t, &softmax, x->shape, x, NULL, NULL) : NULL;
    if (y) in_rows(y, row_value);
    return y;
}
