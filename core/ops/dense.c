/* The dense product, y = x w^T + b: its gradients, the constant by which the tape knows it, and its value. */
#include <string.h>

#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/pending.h"
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

/* Matrices are packed by blocks of columns, so that a rank's are a run. */
typedef struct columns {
    int    rows, count, from, to;   /* from .. to - 1: this rank's blocks */
    size_t start[QG_SLICES + 1];    /* numbers before those of a rank */
} columns;

static columns shared_columns(int rows, int count)
{
    const int ranks = qg_ranks(), all = blocks(count);
    columns   c     = { rows, count, all * qg_rank() / ranks, all * (qg_rank() + 1) / ranks, { 0 } };
    for (int r = 0; r <= ranks; r++) {
        const int at = all * r / ranks * BLOCK;
        c.start[r]   = (size_t)rows * (size_t)(at < count ? at : count);
    }
    return c;
}

/* This rank's columns into `packed`, or those of the others out of it. */
static void copy_columns(const columns *c, bool pack, float *packed, float *m)
{
    for (int b = 0; b < blocks(c->count); b++) {
        const size_t n    = (size_t)width(c->count, b);
        const bool   mine = b >= c->from && b < c->to;
        for (int r = 0; r < c->rows; r++, packed += n) {
            float *place = m + (size_t)r * (size_t)c->count + (size_t)b * BLOCK;
            if (mine && pack) memcpy(packed, place, n * sizeof *packed);
            else if (!mine && !pack) memcpy(place, packed, n * sizeof *packed);
        }
    }
}

/* The columns that a rank has computed in m reach the others. */
static bool exchange_columns(qg_tape *t, int rows, int count, float *m)
{
    const columns c      = shared_columns(rows, count);
    float        *packed = qg_scratch(t, c.start[qg_ranks()] * sizeof *packed);
    size_t        bytes[QG_SLICES + 1];
    if (!packed) return false;
    for (int r = 0; r <= qg_ranks(); r++) bytes[r] = c.start[r] * sizeof *packed;
    copy_columns(&c, true, packed, m);
    if (!qg__ranks_gather(t, packed, bytes)) return false;
    copy_columns(&c, false, packed, m);
    return true;
}

/* The same with a weight gradient, later. */
static bool send_weight(qg_tape *t, qg_var *y)
{
    qg_var       *w = y->in[1];
    const columns c = shared_columns(y->shape.c, (int)qg_row(w->shape));
    qg__pending  *p = qg__pending_new(t, y, c.start[qg_ranks()], false);
    if (!p) return false;
    copy_columns(&c, true, p->data, w->grad);
    return qg__pending_gather(t, p, c.start);
}

static void dense_arrive(qg_tape *t, qg_var *y, float *packed)
{
    (void)t;
    qg_var       *w = y->in[1];
    const columns c = shared_columns(y->shape.c, (int)qg_row(w->shape));
    copy_columns(&c, false, packed, w->grad);
}

/* A product whose result is cut into blocks of columns, which ranks share: count columns in all. */
static bool multiply(qg_tape *t, dense *d, qg_piece run, int count)
{
    const bool      shared = d->y->batch > 0;
    const columns   c      = shared ? shared_columns(d->n, count) : (columns){ .to = blocks(count) };
    d->first               = c.from;
    const qg_status status = c.to > c.from ? qg_parallel_blas(c.to - c.from, run, d) : QG_OK;
    if (status) qg_reject(t, status, "dense: %s", qg_errmsg());
    return !status;
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
    if (w->grad && !multiply(t, &d, weight_piece, d.k)) return;
    w->fresh = false;                   /* w may be x */
    if (w->grad && y->batch && !send_weight(t, y)) return;
    if (x->grad && !multiply(t, &d, input_piece, d.k)) return;
    if (x->grad && y->batch && !exchange_columns(t, d.n, d.k, d.dx)) return;
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
    .name = "dense", .backward = dense_backward, .arrive = dense_arrive, .assigns = true, .value_unused = true
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
    if (!multiply(t, &d, value_piece, d.o)) return NULL;
    if (y->batch && !exchange_columns(t, d.n, d.o, d.out)) return NULL;
    if (y->batch) take_rows(&d, d.out, (size_t)d.o, y->data);
    return y;
}
