/* The dense product and its gradients:
 *
 *     y = x w^T + b
 *     dx = dy w,   dw = dy^T x,   db = sum of dy over the batch
 *
 * Shapes   x [n][k], w [o][k], b [o], y [n][o], where a row of x or w is [h][w][c].
 */
#include <string.h>

#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"
#include "core/walk.h"

/* A product in blocks of columns.  If processes share the batch, each gathers x and dy of the whole
 * batch, computes some of the blocks and sends them to the others (core/slices.h): the product of a
 * part of the rows could be rounded differently. */
typedef struct dense {
    qg_var      *y;
    qg__slices   at;            /* which images of the batch are here: all, unless at.shared */
    int          n, o, k;       /* images of the whole batch, outputs, numbers in a row of x */
    const float *x, *dy;        /* [n][k], [n][o] */
    float       *out, *dx;      /* y or dx, [n][o] or [n][k] */
    int          first;         /* the block that piece 0 computes */
} dense;

static dense sizes(qg_var *y)
{
    const qg_var    *x  = y->in[0];
    const qg__slices at = qg__slices_of(y);
    return (dense){ y, at, at.n, y->shape.c, (int)qg_row(x->shape), x->data, y->grad, y->data, x->grad, 0 };
}

/* The first column of a piece, and how many of `count` columns the piece has. */
static int columns_of(const dense *d, int piece, int count, int *at)
{
    *at = (d->first + piece) * QG__COLUMNS;
    return count - *at < QG__COLUMNS ? count - *at : QG__COLUMNS;
}

/* dx[:, block] += dy w[:, block] */
static void input_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    int          at;
    const int    k = columns_of(d, piece, d->k, &at);
    qg__gemm_nn(d->n, k, d->o, d->dy, d->o, d->y->in[1]->data + at, d->k, d->y->in[0]->fresh ? 0.0f : 1.0f, d->dx + at, d->k);
}

/* dw[:, block] += dy^T x[:, block] */
static void weight_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    int          at;
    const int    k = columns_of(d, piece, d->k, &at);
    qg_var      *w = d->y->in[1];
    qg__gemm_tn(d->o, k, d->n, d->dy, d->o, d->x + at, d->k, w->fresh ? 0.0f : 1.0f, w->grad + at, d->k);
}

/* Runs a piece for each block of columns that is computed here. */
static bool multiply(qg_tape *t, dense *d, qg_piece run, qg__columns at)
{
    d->first               = at.from;
    const qg_status status = at.to > at.from ? qg_parallel_blas(at.to - at.from, run, d) : QG_OK;
    if (status) qg_reject(t, status, "dense: %s", qg_errmsg());
    return !status;
}

/* all [n][row]: the rows of every process; `here` are those of this one. */
static bool gather_rows(qg_tape *t, const dense *d, const float *here, size_t row, float *all)
{
    memcpy(all + (size_t)d->at.first * row, here, (size_t)d->at.count * row * sizeof *all);
    return qg__images_gather(t, d->at, all, row * sizeof *all);
}

/* here: the rows of this process. */
static void take_rows(const dense *d, const float *all, size_t row, float *here)
{
    memcpy(here, all + (size_t)d->at.first * row, (size_t)d->at.count * row * sizeof *all);
}

/* dy of the whole batch, and memory for its dx, which begins with the gradient of x so far. */
static bool gather_gradients(qg_tape *t, dense *d)
{
    qg_var      *x = d->y->in[0];
    const size_t n = (size_t)d->n, o = (size_t)d->o, k = (size_t)d->k;
    float       *dy = qg_scratch(t, n * o * sizeof *dy), *dx = x->grad ? qg_scratch(t, n * k * sizeof *dx) : NULL;
    if (!dy || (x->grad && !dx)) return false;
    d->x  = d->y->saved;
    d->dy = dy;
    d->dx = dx;
    if (!gather_rows(t, d, d->y->grad, o, dy)) return false;
    return !dx || x->fresh || gather_rows(t, d, x->grad, k, dx);
}

static void dense_backward(qg_tape *t, qg_var *y)
{
    dense   d = sizes(y);
    qg_var *x = y->in[0], *w = y->in[1], *b = y->in[2];
    const qg__columns dw = qg__columns_of(d.at, d.o, d.k), dx = qg__columns_of(d.at, d.n, d.k);
    if (d.at.shared && !gather_gradients(t, &d)) return;
    if (w->grad && !multiply(t, &d, weight_piece, dw)) return;
    w->fresh = false;                   /* for dx: w and x may be the same var */
    if (w->grad && !qg__columns_gather_gradient(t, y, dw)) return;
    if (x->grad && (!multiply(t, &d, input_piece, dx) || !qg__columns_gather(t, dx, d.dx))) return;
    if (x->grad && d.at.shared) take_rows(&d, d.dx, (size_t)d.k, x->grad);
    x->fresh = false;                   /* for db: so may x and b */
    if (!b || !b->grad) return;
    for (int i = 0; i < d.o; i++) {     /* y = .. + b:  db = sum over the batch of dy */
        double sum = b->fresh ? 0.0 : (double)b->grad[i];
        for (int r = 0; r < d.n; r++) sum += (double)d.dy[(size_t)r * (size_t)d.o + (size_t)i];
        b->grad[i] = (float)sum;
    }
}

static const qg_op dense_op = { .name = "dense", .backward = dense_backward, .assigns = true };

/* y[:, block] = x w[block, :]^T + b[block] */
static void value_piece(void *context, int piece, int worker)
{
    (void)worker;
    const dense *d = context;
    int          at;
    const int    o = columns_of(d, piece, d->o, &at);
    float       *y = d->out + at;
    const float *w = d->y->in[1]->data + (size_t)at * (size_t)d->k;
    qg__gemm_nt(d->n, o, d->k, d->x, d->k, w, d->k, 0.0f, y, d->o);
    if (!d->y->in[2]) return;
    const float *b = d->y->in[2]->data + at;
    for (int r = 0; r < d->n; r++)
        for (int i = 0; i < o; i++) y[(size_t)r * (size_t)d->o + (size_t)i] += b[i];
}

/* x of the whole batch, which backward reads too, and memory for its y. */
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
    dense             d   = sizes(y);
    const qg__columns out = qg__columns_of(d.at, d.n, d.o);
    qg__mark_product(y);                /* gradients may reuse memory of y and w (core/walk.h) */
    y->flops = 2.0 * d.n * d.o * d.k;
    if (d.at.shared && !gather_values(t, &d)) return NULL;
    if (!multiply(t, &d, value_piece, out) || !qg__columns_gather(t, out, d.out)) return NULL;
    if (d.at.shared) take_rows(&d, d.out, (size_t)d.o, y->data);
    return y;
}
