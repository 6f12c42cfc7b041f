#include "core/kernels/gemm.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* Columns of one GEMM call.  Fixed, so that no sum depends on the number of threads; 256 is wide enough for
 * OpenBLAS to reach its full speed and gives two cores equal work on 512 outputs. */
enum { BLOCK = 256 };

typedef struct dense {
    qg_var *y;
    int     n, o, k;            /* rows of x, outputs, numbers in a row */
} dense;

static dense sizes(qg_var *y)
{
    const qg_var *x = y->in[0];
    return (dense){ y, x->shape.n, y->shape.c, (int)qg_row(x->shape) };
}

static int blocks(int n)              { return (n + BLOCK - 1) / BLOCK; }
static int width(int n, int piece)    { return n - piece * BLOCK < BLOCK ? n - piece * BLOCK : BLOCK; }

/* y = x w^T:  dx[:, block] += dy w[:, block] */
static void input_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    const int    at = piece * BLOCK, k = width(d->k, piece);
    qg_var      *x = d->y->in[0];
    qg__gemm_nn(d->n, k, d->o, d->y->grad, d->o, d->y->in[1]->data + at, d->k, x->fresh ? 0.0f : 1.0f,
                x->grad + at, d->k);
}

/* y = x w^T:  dw[:, block] += dy^T x[:, block] */
static void weight_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    const int    at = piece * BLOCK, k = width(d->k, piece);
    qg_var      *w = d->y->in[1];
    qg__gemm_tn(d->o, k, d->n, d->y->grad, d->o, d->y->in[0]->data + at, d->k,
                w->fresh ? 0.0f : 1.0f, w->grad + at, d->k);
}

static bool multiply(qg_tape *t, int pieces, qg_piece run, dense *d)
{
    const qg_status status = qg_parallel_blas(pieces, run, d);
    if (status) qg_reject(t, status, "dense: %s", qg_errmsg());
    return !status;
}

static void dense_backward(qg_tape *t, qg_var *y)
{
    dense   d = sizes(y);
    qg_var *x = y->in[0], *w = y->in[1], *b = y->in[2];
    if (w->grad && !multiply(t, blocks(d.k), weight_piece, &d)) return;
    w->fresh = false;                   /* w may be x */
    if (x->grad && !multiply(t, blocks(d.k), input_piece, &d)) return;
    x->fresh = false;                   /* and so may b */
    if (!b || !b->grad) return;
    for (int i = 0; i < d.o; i++) {     /* y = .. + b:  db = sum over the batch of dy */
        double sum = b->fresh ? 0.0 : (double)b->grad[i];
        for (int r = 0; r < d.n; r++) sum += (double)y->grad[(size_t)r * (size_t)d.o + (size_t)i];
        b->grad[i] = (float)sum;
    }
}

static const qg_op dense_op = {
    .name = "dense", .backward = dense_backward, .assigns = true, .value_unused = true
};

/* y[:, block] = x w[block, :]^T + b[block] */
static void value_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    const int    at = piece * BLOCK, o = width(d->o, piece);
    float       *y = d->y->data + at;
    const float *w = d->y->in[1]->data + (size_t)at * (size_t)d->k;
    qg__gemm_nt(d->n, o, d->k, d->y->in[0]->data, d->k, w, d->k, 0.0f, y, d->o);
    if (!d->y->in[2]) return;
    const float *b = d->y->in[2]->data + at;
    for (int r = 0; r < d->n; r++)
        for (int i = 0; i < o; i++) y[(size_t)r * (size_t)d->o + (size_t)i] += b[i];
}

qg_shape qg__dense_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b)
{
    if (qg_row(x->shape) != qg_row(w->shape))
        qg_reject(t, QG_ESHAPE, "dense: x " QG_SHAPE_FMT " has rows of %zu, w " QG_SHAPE_FMT " of %zu",
                  QG_SHAPE_ARGS(x->shape), qg_row(x->shape), QG_SHAPE_ARGS(w->shape), qg_row(w->shape));
    else if (b && qg_count(b->shape) != (size_t)w->shape.n)
        qg_reject(t, QG_ESHAPE, "dense: w " QG_SHAPE_FMT " has %d outputs, b is " QG_SHAPE_FMT, QG_SHAPE_ARGS(w->shape),
                  w->shape.n, QG_SHAPE_ARGS(b->shape));
    else return (qg_shape){ x->shape.n, 1, 1, w->shape.n };
    return (qg_shape){ 0 };
}

qg_var *qg_dense(qg_tape *t, qg_var *x, qg_var *w, qg_var *b)
{
    if (!x || !w) return NULL;
    const qg_shape shape = qg__dense_shape(t, x, w, b);
    if (!shape.n) return NULL;
    qg_var *y = qg_record(t, &dense_op, shape, x, w, b);
    if (!y) return NULL;
    dense d  = sizes(y);
    y->flops = 2.0 * d.n * d.o * d.k;
    return multiply(t, blocks(d.o), value_piece, &d) ? y : NULL;
}
