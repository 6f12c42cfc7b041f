/* The dense product and its gradients:
 *
 *     y = x w^T + b
 *     dx = dy w,   dw = dy^T x,   db = sum of dy over the batch
 *
 * Shapes   x [n][k], w [o][k], b [o], y [n][o], where a row of x or w is [h][w][c].
 */
#include "core/kernels/dense_kernel.h"
#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"
#include "core/walk.h"

/* y, dx and dw are matrices that are divided into blocks, which threads share.  If processes share the batch,
 * each has the rows of y and dx of its own images.  dw is a sum over the whole batch: each process gathers x
 * and dy, computes some columns of dw and sends them to the others (core/slices.h). */
typedef struct block {
    int row, rows, at, columns;         /* rows row .. row + rows - 1, columns at .. at + columns - 1 */
} block;

typedef struct dense {
    const qg_var            *y, *x, *w;
    const float             *b;         /* [o]; NULL: nothing is added */
    int                      n, o, k;   /* images, outputs, values in a row of x */
    const float             *images, *dy;       /* x [n][k] and dy [n][o]; for dw those of all processes */
    const qg__dense_kernels *kernels;
    float                   *scratch;   /* [threads][size] */
    size_t                   size;
    qg__dense_product      (*product)(const struct dense *d, block b);     /* that computes a block */
    int                      rows, from, to;    /* of the result: all rows, columns from .. to - 1 */
} dense;

static dense sizes(const qg_var *y)
{
    const qg_var *x = y->in[0];
    return (dense){
        .y = y, .x = x, .w = y->in[1], .n = y->shape.n, .o = y->shape.c, .k = (int)qg_row(x->shape),
        .images = x->data, .dy = y->grad, .kernels = QG_KERNELS(qg__dense_kernels),
    };
}

static ptrdiff_t place(int row, int width, int column) { return (ptrdiff_t)row * width + column; }

static int round_up(int n, int lanes) { return (n + lanes - 1) / lanes * lanes; }

/* y = x w^T.  Either the lanes of a vector are outputs, and w is transposed, or they are images, and x is.
 * An estimate chooses: a vector that is not full costs as much as a full one, and to transpose a value takes
 * as long as TRANSPOSE multiply-adds. */
static qg__dense_product value(const dense *d, block b)
{
    enum { TRANSPOSE = 3 };
    const qg__matrix x = { d->images + place(b.row, d->k, 0), d->k, 1 };
    const qg__matrix w = { d->w->data + place(b.at, d->k, 0), d->k, 1 };
    const int        wide = round_up(b.columns, d->kernels->lanes);
    const int        high = round_up(b.rows, d->kernels->lanes);
    float           *y    = d->y->data + place(b.row, d->o, b.at);
    if ((b.rows + TRANSPOSE) * wide + b.rows <= (b.columns + TRANSPOSE) * high + b.columns)
        return (qg__dense_product){ .lanes = b.columns, .rows = b.rows, .steps = d->k, .p = w, .q = x,
                                    .out = y, .out_lane = 1, .out_row = d->o };
    return (qg__dense_product){ .lanes = b.rows, .rows = b.columns, .steps = d->k, .p = x, .q = w,
                                .out = y, .out_lane = d->o, .out_row = 1 };
}

/* dx += dy w */
static qg__dense_product input_gradient(const dense *d, block b)
{
    return (qg__dense_product){
        .lanes = b.columns, .rows = b.rows, .steps = d->o,
        .p = { d->w->data + b.at, 1, d->k }, .q = { d->dy + place(b.row, d->o, 0), d->o, 1 },
        .out = d->x->grad + place(b.row, d->k, b.at), .out_lane = 1, .out_row = d->k, .add = !d->x->fresh,
    };
}

/* dw += dy^T x */
static qg__dense_product weight_gradient(const dense *d, block b)
{
    return (qg__dense_product){
        .lanes = b.columns, .rows = b.rows, .steps = d->n,
        .p = { d->images + b.at, 1, d->k }, .q = { d->dy + b.row, 1, d->o },
        .out = d->w->grad + place(b.row, d->k, b.at), .out_lane = 1, .out_row = d->k, .add = !d->w->fresh,
    };
}

/* A block has at most COLUMNS columns and QG_DENSE_ROWS rows.  Each one reads all of the other operand, so
 * blocks are not smaller without need.  But a result of one block's width is also divided by rows, into at
 * most ROW_BLOCKS blocks of FEWEST_ROWS or more, for threads to share, unless it takes so few multiply-adds
 * that sharing does not pay. */
enum { COLUMNS = 256, FEWEST_ROWS = 48, ROW_BLOCKS = 4, WORTH_SHARING = 1 << 20 };

static int blocks_down(const dense *d)
{
    const int  needed = (d->rows + QG_DENSE_ROWS - 1) / QG_DENSE_ROWS, most = d->rows / FEWEST_ROWS;
    const bool whole  = d->to - d->from > COLUMNS || (double)d->n * d->o * d->k < WORTH_SHARING;
    if (whole || most <= needed) return needed;
    return most < ROW_BLOCKS ? most : needed > ROW_BLOCKS ? needed : ROW_BLOCKS;
}

/* The first row of block i of `down`: a multiple of a vector's length, since rows may be lanes. */
static int row_of(const dense *d, int i, int down)
{
    const int row = (int)((long)d->rows * i / down);
    return i == down ? row : round_up(row, QG_LONGEST_VECTOR);
}

static block block_of(const dense *d, int piece)
{
    const int down = blocks_down(d), row = row_of(d, piece % down, down);
    const int at   = d->from + piece / down * COLUMNS, left = d->to - at;
    return (block){ row, row_of(d, piece % down + 1, down) - row, at, left < COLUMNS ? left : COLUMNS };
}

static void multiply_block(void *context, int piece, int worker)
{
    const dense            *d = context;
    const block             b = block_of(d, piece);
    const qg__dense_product m = d->product(d, b);
    d->kernels->multiply(&m, d->scratch + (size_t)worker * d->size);
    if (!d->b) return;
    float *y = d->y->data + place(b.row, d->o, b.at);
    for (int r = 0; r < b.rows; r++, y += d->o)
        for (int i = 0; i < b.columns; i++) y[i] += d->b[b.at + i];
}

/* Computes columns from .. to - 1 of a result with `rows` rows. */
static bool multiply(qg_tape *t, dense d, int rows, int from, int to)
{
    d.rows = rows;
    d.from = from;
    d.to   = to;
    const int pieces = blocks_down(&d) * ((to - from + COLUMNS - 1) / COLUMNS);
    for (int i = 0; i < pieces; i++) {
        const qg__dense_product m = d.product(&d, block_of(&d, i));
        d.size = qg__dense_scratch(d.kernels, &m, d.size);
    }
    d.scratch = pieces ? qg_scratch(t, (size_t)qg_threads() * d.size * sizeof *d.scratch) : NULL;
    if (d.scratch) qg_parallel(pieces, multiply_block, &d);
    return d.scratch || !pieces;
}

/* Makes d the product of the whole batch, with x and dy of all processes. */
static bool gather_batch(qg_tape *t, dense *d)
{
    qg_var gradient = *d->y;
    gradient.data   = gradient.grad;
    d->images       = qg__whole_batch(t, d->x).data;
    d->dy           = qg__whole_batch(t, &gradient).data;
    d->n            = qg__slices_of(d->y).n;
    return d->images && d->dy;
}

static void dense_backward(qg_tape *t, qg_var *y)
{
    qg_var           *x = y->in[0], *w = y->in[1], *b = y->in[2];
    dense             here  = sizes(y), whole = here;
    const qg__columns dw    = qg__columns_of(qg__slices_of(y), here.o, here.k);
    if ((w->grad || (b && b->grad)) && !gather_batch(t, &whole)) return;
    here.product  = input_gradient;
    whole.product = weight_gradient;
    if (w->grad && !multiply(t, whole, here.o, dw.from, dw.to)) return;
    w->fresh = false;                   /* w and x may be the same var, and then dx is added to dw */
    if (w->grad && !qg__columns_gather_gradient(t, y, dw)) return;
    if (x->grad && !multiply(t, here, here.n, 0, here.k)) return;
    x->fresh = false;                   /* likewise x and b */
    if (!b || !b->grad) return;
    for (int i = 0; i < here.o; i++) {  /* y = .. + b:  db = sum over the batch of dy */
        double sum = b->fresh ? 0.0 : (double)b->grad[i];
        for (int r = 0; r < whole.n; r++) sum += (double)whole.dy[(size_t)r * (size_t)here.o + (size_t)i];
        b->grad[i] = (float)sum;
    }
}

static const qg_op dense_op = { .name = "dense", .backward = dense_backward, .assigns = true };

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
    dense d   = sizes(y);
    d.b       = b ? b->data : NULL;
    d.product = value;
    y->marks |= QG__IS_PRODUCT;         /* gradients may reuse memory of y and w (core/walk.h) */
    y->flops = 2.0 * d.n * d.o * d.k;
    return multiply(t, d, d.n, 0, d.o) ? y : NULL;
}
