#include <string.h>

#include "core/kernels/depthwise_kernel.h"
#include "core/kernels/norm_kernel.h"
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/slices.h"
#include "core/walk.h"

/* One input channel in each group: kernels of their own, without padded copies.  With several outputs per channel they
 * read a copy of the image in which each channel is repeated. */
typedef struct depthwise {
    float        *sums;         /* first: core/ops/conv2d.h */
    qg__depthwise g;
    int           times;        /* outputs per channel of x */
} depthwise;

/* The channels of a weight gradient that one thread computes if the batch is small, at least. */
enum { CHANNELS = 64 };

typedef struct job {
    const depthwise             *d;
    const qg__depthwise_kernels *k;
    const qg__norm_kernels      *norm;
    qg_var                      *y;
    float                       *w;             /* [kh][kw][oc] */
    float                       *acc;           /* [slices that are here] of the same size */
    float                       *repeated;      /* [workers] images, if times > 1 */
    qg__slices                   at;
    int                          slices, blocks;    /* slices: that are here */
    bool                         by_slice;          /* threads split the slices; else the channels of a small batch */
} job;

static float *floats(qg_tape *t, size_t n) { return qg_scratch(t, n * sizeof(float)); }

static size_t repeated_size(const depthwise *d)
{
    return d->times > 1 ? (size_t)d->g.h * (size_t)d->g.w * (size_t)d->g.c : 0;
}

/* Image i of x, each channel as often as it has outputs. */
static const float *repeated(const job *j, int i, int worker)
{
    const qg_var *x    = j->y->in[0];
    const float  *from = x->data + (size_t)i * qg_row(x->shape);
    const size_t  size = repeated_size(j->d), times = (size_t)j->d->times;
    if (size == 0) return from;
    float *to = j->repeated + (size_t)worker * size;
    for (size_t k = 0; k < size; k++) to[k] = from[k / times];
    return to;
}

static int blocks_of(const qg_var *w) { return w->shape.n < CHANNELS ? 1 : w->shape.n / CHANNELS; }

static bool take_scratch(qg_tape *t, job *j)
{
    const qg_var *w    = j->y->in[1];
    const size_t  taps = qg_row(w->shape), oc = (size_t)w->shape.n, size = repeated_size(j->d);
    j->blocks          = blocks_of(w);
    j->w               = floats(t, taps * oc);
    j->repeated        = size ? floats(t, (size_t)qg_threads() * size) : NULL;
    if (!j->w || (size && !j->repeated)) return false;
    for (size_t o = 0; o < oc; o++)
        for (size_t i = 0; i < taps; i++) j->w[i * oc + o] = w->data[o * taps + i];
    return true;
}

static void forward_piece(void *context, int i, int worker)
{
    const job *j = context;
    const qg_var        *b = j->y->in[2];
    j->k->forward(&j->d->g, repeated(j, i, worker), j->w, b ? b->data : NULL, j->y->data + (size_t)i * qg_row(j->y->shape));
    qg__gather_sums(j->norm, j->y, i);
}

static void input_gradient(const job *j, int i, int worker)
{
    const qg_var *x    = j->y->in[0];
    const float  *dy   = j->y->grad + (size_t)i * qg_row(j->y->shape);
    const size_t  row  = qg_row(x->shape), times = (size_t)j->d->times;
    float        *dx   = x->grad + (size_t)i * row;
    if (times == 1) {
        j->k->input_gradient(&j->d->g, dy, j->w, !x->fresh, dx);
        return;
    }
    float *all = j->repeated + (size_t)worker * repeated_size(j->d);
    j->k->input_gradient(&j->d->g, dy, j->w, false, all);
    for (size_t k = 0; k < row; k++, all += times) {
        float sum = x->fresh ? 0.0f : dx[k];
        for (size_t m = 0; m < times; m++) sum += all[m];
        dx[k] = sum;
    }
}

/* Channels [k0, k1) of image i. */
static void weight_gradient(const job *j, int i, int k0, int k1, int worker, float *acc)
{
    j->k->weight_gradient(&j->d->g, k0, k1, repeated(j, i, worker), j->y->grad + (size_t)i * qg_row(j->y->shape), acc);
}

static void slice_piece(void *context, int slice, int worker)
{
    const job *j    = context;
    const qg_var        *x    = j->y->in[0];
    const size_t         size = qg_count(j->y->in[1]->shape);
    float               *acc  = j->by_slice ? j->acc + (size_t)slice * size : NULL;
    const int            end  = qg__slice_first(j->at, j->at.from + slice + 1);
    if (acc) memset(acc, 0, size * sizeof *acc);
    for (int i = qg__slice_first(j->at, j->at.from + slice); i < end; i++) {
        if (acc) weight_gradient(j, i, 0, j->d->g.c, worker, acc);
        if (x->grad) input_gradient(j, i, worker);
    }
}

static int block_at(const job *j, int block) { return block < j->blocks ? block * CHANNELS : j->d->g.c; }

static void block_piece(void *context, int block, int worker)
{
    const job   *j    = context;
    const size_t size = qg_count(j->y->in[1]->shape);
    for (int s = 0; s < j->slices; s++)
        for (int i = qg__slice_first(j->at, j->at.from + s), end = qg__slice_first(j->at, j->at.from + s + 1); i < end; i++)
            weight_gradient(j, i, block_at(j, block), block_at(j, block + 1), worker, j->acc + (size_t)s * size);
}

/* The slices of the batch are added as a tree (core/slices.h). */
static void add_slices_piece(void *context, int block, int worker)
{
    const job   *j    = context;
    const qg_var *w   = j->y->in[1];
    const size_t taps = qg_row(w->shape), oc = (size_t)w->shape.n, from = (size_t)block_at(j, block);
    for (size_t i = 0; i < taps; i++)
        qg__tree(j->slices, taps * oc, (size_t)block_at(j, block + 1) - from, j->acc + i * oc + from);
}

static void add_weight_piece(void *context, int block, int worker)
{
    const job   *j    = context;
    const qg_var *w   = j->y->in[1];
    const size_t taps = qg_row(w->shape), oc = (size_t)w->shape.n;
    for (size_t i = 0; i < taps; i++)
        for (size_t o = (size_t)block_at(j, block), end = (size_t)block_at(j, block + 1); o < end; o++)
            w->grad[o * taps + i] += j->acc[i * oc + o];
}

static void add_weight(qg_tape *t, qg_var *y, float *acc)
{
    job j = { .d = y->saved, .y = y, .acc = acc, .blocks = blocks_of(y->in[1]) };
    qg_parallel(j.blocks, add_weight_piece, &j);
}

static void depthwise_backward(qg_tape *t, qg_var *y)
{
    qg_var       *w = y->in[1], *b = y->in[2];
    const size_t  size = qg_count(w->shape);
    job j = { .d = y->saved, .k = QG_KERNELS(qg__depthwise_kernels), .y = y, .at = qg__slices_of(y) };
    if (b && b->grad && !qg__bias_gradient(t, y)) return;
    if (!take_scratch(t, &j)) return;
    if (w->grad && w->fresh) memset(w->grad, 0, size * sizeof(float));
    w->fresh = false;
    j.slices = j.at.to - j.at.from;
    if (w->grad) {
        j.by_slice = j.at.n >= QG_SLICES;
        j.acc      = floats(t, (size_t)j.slices * size);
        if (!j.acc) return;
    }
    if (j.acc && !j.by_slice) {
        memset(j.acc, 0, (size_t)j.slices * size * sizeof *j.acc);
        qg_parallel(j.blocks, block_piece, &j);
    }
    if (j.by_slice || y->in[0]->grad) qg_parallel(j.slices, slice_piece, &j);
    if (!j.acc) return;
    qg_parallel(j.blocks, add_slices_piece, &j);
    (void)qg__reduce(t, y, j.at, j.acc, size, add_weight);
}

static const qg_op depthwise_op = { .name = "depthwise", .backward = depthwise_backward, .assigns = true };

qg_var *qg__depthwise_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape shape, bool sums)
{
    qg_var *y = qg_record(t, &depthwise_op, shape, x, w, b);
    if (!y) return NULL;
    y->marks |= QG__IS_PRODUCT;
    depthwise *d = qg__save_with_sums(t, y, sizeof *d, sums);
    if (!d) return NULL;
    *d = (depthwise){
        .sums  = d->sums,
        .g     = { .h = x->shape.h, .w = x->shape.w, .c = w->shape.n, .oh = shape.h, .ow = shape.w, .kh = w->shape.h,
                   .kw = w->shape.w, .stride = spec.stride, .top = spec.pad_h, .left = spec.pad_w, .pad = spec.pad_value },
        .times = w->shape.n / x->shape.c,
    };
    job j = { .d = d, .k = QG_KERNELS(qg__depthwise_kernels), .norm = QG_KERNELS(qg__norm_kernels), .y = y };
    if (!take_scratch(t, &j)) return NULL;
    qg_parallel(y->shape.n, forward_piece, &j);
    return y;
}

