#include "core/kernels/functions.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"

/* Rows are the c channels of a pixel.  A row's result depends on that row alone, so threads may share them in any way;
 * exp and the sum are in double, as in the losses. */
typedef struct job job;
typedef void (*row_run)(const job *j, double *e, size_t at, size_t c);

struct job {
    const qg_var               *y;
    row_run                     run;
    int                         pieces;
    const qg__function_kernels *kernels;
    double                     *scratch;    /* [threads][c], a row e of each; the gradient has none */
};

static void run_piece(void *context, int piece, int worker)
{
    const job   *j    = context;
    const size_t c    = (size_t)j->y->shape.c, rows = qg_count(j->y->shape) / c, n = (size_t)j->pieces;
    const size_t from = rows * (size_t)piece / n, end = rows * ((size_t)piece + 1) / n;
    double      *e    = j->scratch ? j->scratch + (size_t)worker * c : NULL;
    for (size_t r = from; r < end; r++) j->run(j, e, r * c, c);
}

/* y[k] = exp(x[k] - m) / sum of exp(x - m):   dx[k] = y[k] (dy[k] - sum of y dy). */
static void row_gradient(const job *j, double *e, size_t at, size_t c)
{
    const qg_var *y = j->y, *x = y->in[0];
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
    job j = { .y = y, .run = row_gradient, .pieces = qg_blocks(qg_count(y->shape)) };
    qg_parallel(j.pieces, run_piece, &j);
}

static const qg_op softmax = { "softmax", softmax_backward, .assigns = true };

static void row_value(const job *j, double *e, size_t at, size_t c)
{
    double       m;
    const double sum = qg__softmax_terms(j->kernels, c, j->y->in[0]->data + at, 1, e, &m);
    for (size_t k = 0; k < c; k++) j->y->data[at + k] = (float)(e[k] / sum);
}

qg_var *qg_softmax(qg_tape *t, qg_var *x)
{
    qg_var *y = x ? qg_record(t, &softmax, x->shape, x, NULL, NULL) : NULL;
    if (!y) return NULL;
    job j = { .y       = y,
              .run     = row_value,
              .pieces  = qg_blocks(qg_count(y->shape)),
              .kernels = QG_KERNELS(qg__function_kernels),
              .scratch = qg_scratch(t, (size_t)qg_threads() * (size_t)y->shape.c * sizeof *j.scratch) };
    if (!j.scratch) return NULL;
    qg_parallel(j.pieces, run_piece, &j);
    return y;
}
