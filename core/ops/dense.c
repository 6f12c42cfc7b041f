#include <string.h>

#include "core/kernels/gemm.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "core/ranks.h"
#include "core/slices.h"

/* Columns of one GEMM call.  Fixed, so that no sum depends on the number of threads; 256 is wide enough for
 * OpenBLAS to reach its full speed and gives two cores equal work on 512 outputs. */
enum { BLOCK = 256 };

/* y = x w^T.  x and y are those of the whole batch, even if this rank has a part of it: a product of a part would have
 * other bits.  Ranks therefore gather x and dy, share the blocks of columns as threads do, and exchange the results. */
typedef struct dense {
    qg_var      *y;
    int          n, o, k;       /* rows of x, outputs, numbers in a row */
    const float *x, *dy;        /* [n][k], [n][o] */
    float       *out, *dx;      /* y or dx, [n][o] or [n][k] */
    int          first;         /* block of piece 0 */
} dense;

static dense sizes(qg_var *y)
{
    const qg_var *x = y->in[0];
    return (dense){ y, y->batch ? y->batch : x->shape.n, y->shape.c, (int)qg_row(x->shape), x->data, y->grad, y->data, x->grad, 0 };
}

static int blocks(int n)              { return (n + BLOCK - 1) / BLOCK; }
static int width(int n, int block)    { return n - block * BLOCK < BLOCK ? n - block * BLOCK : BLOCK; }

/* dx[:, block] += dy w[:, block] */
static void input_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    const int    block = d->first + piece, at = block * BLOCK, k = width(d->k, block);
    qg__gemm_nn(d->n, k, d->o, d->dy, d->o, d->y->in[1]->data + at, d->k, d->y->in[0]->fresh ? 0.0f : 1.0f, d->dx + at, d->k);
}

/* dw[:, block] += dy^T x[:, block] */
static void weight_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    const int    block = d->first + piece, at = block * BLOCK, k = width(d->k, block);
    qg_var      *w = d->y->in[1];
    qg__gemm_tn(d->o, k, d->n, d->dy, d->o, d->x + at, d->k, w->fresh ? 0.0f : 1.0f, w->grad + at, d->k);
}

/* The columns of blocks that a rank has computed in the matrix m [rows][columns] reach the others. */
static bool exchange_columns(qg_tape *t, int rows, int columns, float *m)
{
    size_t start[QG_SLICES + 1];
    float *packed = qg_scratch(t, (size_t)rows * (size_t)columns * sizeof *packed);
    if (!packed) return false;
    const int ranks = qg_ranks(), all = blocks(columns);
    for (int r = 0; r <= ranks; r++) {
        const int at = all * r / ranks * BLOCK;
        start[r]     = (size_t)rows * (size_t)(at < columns ? at : columns) * sizeof *m;
    }
    for (int pass = 0; pass < 2; pass++) {
        float *to = packed;
        for (int b = 0; b < all; b++) {
            const size_t n    = (size_t)width(columns, b);
            const bool   mine = b >= all * qg_rank() / ranks && b < all * (qg_rank() + 1) / ranks;
            for (int r = 0; r < rows; r++, to += n) {
                float *place = m + (size_t)r * (size_t)columns + (size_t)b * BLOCK;
                if (pass == 0 && mine) memcpy(to, place, n * sizeof *to);
                else if (pass == 1 && !mine) memcpy(place, to, n * sizeof *to);
            }
        }
        if (pass == 0 && !qg__ranks_gather(t, packed, start)) return false;
    }
    return true;
}

/* A product whose result m [rows][columns] is cut into blocks of columns. */
static bool multiply(qg_tape *t, dense *d, qg_piece run, int rows, int columns, float *m)
{
    const bool shared = d->y->batch > 0;
    const int  all = blocks(columns), from = shared ? all * qg_rank() / qg_ranks() : 0;
    const int  to  = shared ? all * (qg_rank() + 1) / qg_ranks() : all;
    d->first       = from;
    const qg_status status = to > from ? qg_parallel_blas(to - from, run, d) : QG_OK;
    if (status) qg_reject(t, status, "dense: %s", qg_errmsg());
    return !status && (!shared || exchange_columns(t, rows, columns, m));
}

/* The rows of all ranks, of which `here` are part: [n][row]. */
static bool gather_rows(qg_tape *t, const dense *d, const float *here, size_t row, float *all)
{
    const qg__slices at = qg__slices_of(d->y);
    memcpy(all + (size_t)at.first * row, here, (size_t)at.count * row * sizeof *all);
    return qg__images_gather(t, at, all, row * sizeof *all);
}

static void take_rows(const dense *d, const float *all, size_t row, float *here)
{
    const qg__slices at = qg__slices_of(d->y);
    memcpy(here, all + (size_t)at.first * row, (size_t)at.count * row * sizeof *all);
}

/* Of the whole batch: dy, and room for dx, which begins as what is there. */
static bool gather_gradients(qg_tape *t, dense *d)
{
    qg_var      *x = d->y->in[0];
    const size_t n = (size_t)d->n, o = (size_t)d->o, k = (size_t)d->k;
    float       *dy = qg_scratch(t, n * o * sizeof *dy), *dx = x->grad ? qg_scratch(t, n * k * sizeof *dx) : NULL;
    if (!dy || (x->grad && !dx)) return false;
    const float *here = d->y->grad;
    d->x              = d->y->saved;
    d->dy             = dy;
    d->dx             = dx;
    if (!gather_rows(t, d, here, o, dy)) return false;
    return !dx || x->fresh || gather_rows(t, d, x->grad, k, dx);
}

static void dense_backward(qg_tape *t, qg_var *y)
{
    dense   d = sizes(y);
    qg_var *x = y->in[0], *w = y->in[1], *b = y->in[2];
    if (y->batch && !gather_gradients(t, &d)) return;
    if (w->grad && !multiply(t, &d, weight_piece, d.o, d.k, w->grad)) return;
    w->fresh = false;                   /* w may be x */
    if (x->grad && !multiply(t, &d, input_piece, d.n, d.k, d.dx)) return;
    if (x->grad && y->batch) take_rows(&d, d.dx, (size_t)d.k, x->grad);
    x->fresh = false;                   /* and so may b */
    if (!b || !b->grad) return;
    for (int i = 0; i < d.o; i++) {     /* y = .. + b:  db = sum over the batch of dy */
        double sum = b->fresh ? 0.0 : (double)b->grad[i];
        for (int r = 0; r < d.n; r++) sum += (double)d.dy[(size_t)r * (size_t)d.o + (size_t)i];
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
    const int    block = d->first + piece, at = block * BLOCK, o = width(d->o, block);
    float       *y = d->out + at;
    const float *w = d->y->in[1]->data + (size_t)at * (size_t)d->k;
    qg__gemm_nt(d->n, o, d->k, d->x, d->k, w, d->k, 0.0f, y, d->o);
    if (!d->y->in[2]) return;
    const float *b = d->y->in[2]->data + at;
    for (int r = 0; r < d->n; r++)
        for (int i = 0; i < o; i++) y[(size_t)r * (size_t)d->o + (size_t)i] += b[i];
}

/* x of the whole batch, which backward reads too, and room for y. */
static bool gather_values(qg_tape *t, dense *d)
{
    const size_t n = (size_t)d->n, k = (size_t)d->k;
    float       *x = qg_save(t, d->y, n * k * sizeof *x), *y = qg_scratch(t, n * (size_t)d->o * sizeof *y);
    if (!x || !y || !gather_rows(t, d, d->y->in[0]->data, k, x)) return false;
    d->x   = x;
    d->out = y;
    return true;
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
    if (y->batch && !gather_values(t, &d)) return NULL;
    if (!multiply(t, &d, value_piece, d.n, d.o, d.out)) return NULL;
    if (y->batch) take_rows(&d, d.out, (size_t)d.o, y->data);
    return y;
}
