#include <string.h>

#include "core/kernels/conv_kernel.h"
#include "core/kernels/norm_kernel.h"
#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

/* A packed weight gradient of fewer bytes is collected once per slice of the batch, and the slices are added.  A
 * larger one is collected once, and threads split it by units of the kernel. */
enum { SLICED_BYTES = 2 << 20 };

typedef struct conv {
    qg_conv_spec spec;
    qg__conv     g;             /* of one padded image */
    size_t       image;         /* floats of a padded image; 0: no padding, x is used as it is */
    bool         mirror;        /* y has the size of x: dx is a convolution of dy (qg__conv_mirror) */
    const qg__conv_kernels *k;  /* Winograd's or the direct ones */
} conv;

/* The work buffers of one pass. */
typedef struct job {
    const conv            *c;
    const qg__conv_kernels *k;
    const qg__norm_kernels *norm;
    qg_var                *y;
    float                 *packed;      /* weights, packed for the pass */
    float                 *images;      /* padded: [workers], or those of the run */
    float                 *gradients;   /* [workers] padded dx, or padded dy where that is mirrored */
    float                 *acc;         /* [slices] weight gradients, packed */
    float                 *scratch;     /* [workers] */
    size_t                 acc_size, scratch_size;
    int                    slices;      /* accumulators: QG_SLICES, or 1 for a large weight */
    int                    first, run;  /* the images that units read: the first, and their number */
} job;

static size_t x_row(const job *j) { return qg_row(j->y->in[0]->shape); }
static size_t y_row(const job *j) { return qg_row(j->y->shape); }
static float *scratch_of(const job *j, int worker) { return j->scratch + (size_t)worker * j->scratch_size; }

/* Image i as the kernels read it: in place, or a padded copy in the worker's buffer. */
static const float *padded(const job *j, int i, int worker)
{
    const qg_var *x     = j->y->in[0];
    const float  *image = x->data + (size_t)i * x_row(j);
    if (!j->c->image) return image;
    float *copy = j->images + (size_t)worker * j->c->image;
    qg__pad(x->shape.h, x->shape.w, x->shape.c, j->c->spec.pad_h, j->c->spec.pad_w,
            j->c->spec.pad_value, image, copy);
    return copy;
}

static float *floats(qg_tape *t, size_t n) { return qg_scratch(t, n * sizeof(float)); }

static bool take_scratch(qg_tape *t, job *j)
{
    j->scratch_size = (j->k->scratch(&j->c->g) + 15) / 16 * 16;     /* each begins on a line of the cache */
    j->scratch      = floats(t, (size_t)qg_threads() * j->scratch_size);
    return j->scratch;
}

/* Floats in the sums of an image. */
static size_t sums_size(const qg__conv *g)
{
    return qg__norm_parts((size_t)g->oh * (size_t)g->ow) * 3 * (size_t)g->oc;
}

/* --- forward ------------------------------------------------------------------------------ */

static void pack_forward_piece(void *context, int block, int worker)
{
    (void)worker;
    const job *j = context;
    j->k->pack_forward(&j->c->g, block, block + 1, j->y->in[1]->data, j->packed);
}

static void forward_piece(void *context, int i, int worker)
{
    const job    *j  = context;
    const qg_var *b  = j->y->in[2];
    const int     oc = j->y->shape.c;
    float        *y  = j->y->data + (size_t)i * y_row(j);
    j->k->forward(&j->c->g, padded(j, i, worker), j->packed, b ? b->data : NULL, y, scratch_of(j, worker));
    if (j->y->sums)     /* while the image is still in cache */
        j->norm->sums(y_row(j) / (size_t)oc, oc, y, j->y->sums + (size_t)i * sums_size(&j->c->g));
}

/* --- backward ----------------------------------------------------------------------------- */

static void pack_backward_piece(void *context, int block, int worker)
{
    (void)worker;
    const job *j = context;
    j->k->pack_backward(&j->c->g, block, block + 1, j->y->in[1]->data, j->packed);
}

/* Floats in a padded dx, or dy. */
static size_t gradient_size(const conv *c)
{
    const int channels = c->mirror ? c->g.oc : c->g.c;
    return (size_t)(c->g.h * c->g.w) * (size_t)channels;
}

static void add_image(size_t n, const float *from, bool assign, float *to)
{
    if (assign) memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++) to[i] += from[i];
}

static float *gradient_buffer(const job *j, int worker)
{
    return j->gradients + (size_t)worker * gradient_size(j->c);
}

static void mirrored_input_gradient(const job *j, const float *dy, bool fresh, int worker, float *dx)
{
    const conv    *c = j->c;
    const qg__conv m = qg__conv_mirror(&c->g);
    if (c->image) {
        float *frame = gradient_buffer(j, worker);
        qg__pad(c->g.oh, c->g.ow, c->g.oc, c->spec.pad_h, c->spec.pad_w, 0.0f, dy, frame);
        dy = frame;
    }
    if (fresh) c->k->forward(&m, dy, j->packed, NULL, dx, scratch_of(j, worker));
    else c->k->forward_add(&m, dy, j->packed, dx, scratch_of(j, worker));
}

/* y = x * w:  dx of image i.  It is computed in place if it is assigned and x was not padded; else in a buffer whose
 * border is discarded. */
static void input_gradient(const job *j, int i, int worker)
{
    const conv  *c  = j->c;
    qg_var      *x  = j->y->in[0];
    const float *dy = j->y->grad + (size_t)i * y_row(j);
    float       *dx = x->grad + (size_t)i * x_row(j);
    if (c->mirror) {
        mirrored_input_gradient(j, dy, x->fresh, worker, dx);
        return;
    }
    if (!c->image && x->fresh) {
        j->k->input_gradient(&c->g, dy, j->packed, dx);
        return;
    }
    float *whole = gradient_buffer(j, worker);
    j->k->input_gradient(&c->g, dy, j->packed, whole);
    const size_t line = (size_t)(x->shape.w * x->shape.c);
    for (int r = 0; r < x->shape.h; r++)
        add_image(line, whole + ((size_t)(r + c->spec.pad_h) * (size_t)c->g.w + (size_t)c->spec.pad_w) *
                                    (size_t)c->g.c,
                  x->fresh, dx + (size_t)r * line);
}

/* One slice of the batch: computes both gradients of an image while it is in cache. */
static void slice_piece(void *context, int slice, int worker)
{
    const job *j   = context;
    float     *acc = j->acc ? j->acc + (size_t)slice * j->acc_size : NULL;
    if (acc) memset(acc, 0, j->acc_size * sizeof *acc);
    for (int i = qg_slice_at(j->y->shape.n, slice), end = qg_slice_at(j->y->shape.n, slice + 1); i < end; i++) {
        if (acc)
            j->k->weight_gradient(&j->c->g, 0, j->k->units(&j->c->g), 1, padded(j, i, worker),
                                  j->y->grad + (size_t)i * y_row(j), acc, scratch_of(j, worker));
        if (j->packed) input_gradient(j, i, worker);
    }
}

static void pad_piece(void *context, int i, int worker)
{
    (void)worker;
    const job *j = context;
    padded(j, j->first + i, i);         /* here every image of the run has its own buffer */
}

/* Some units of the kernel, over a run of images. */
static void unit_piece(void *context, int unit, int worker)
{
    const job   *j = context;
    const float *x = j->c->image ? j->images : j->y->in[0]->data + (size_t)j->first * x_row(j);
    j->k->weight_gradient(&j->c->g, unit, unit + 1, j->run, x, j->y->grad + (size_t)j->first * y_row(j),
                          j->acc, scratch_of(j, worker));
}

static void add_weight_piece(void *context, int block, int worker)
{
    (void)worker;
    const job   *j    = context;
    const size_t size = j->acc_size / (size_t)qg__conv_blocks(j->k, j->y->shape.c);
    float       *sum  = j->acc + (size_t)block * size;
    for (int s = 1; s < j->slices; s++) {
        const float *part = sum + (size_t)s * j->acc_size;
        for (size_t i = 0; i < size; i++) sum[i] += part[i];
    }
    j->k->add_weight_gradient(&j->c->g, block, block + 1, j->acc, j->y->in[1]->grad);
}

static void bias_gradient(const job *j)
{
    qg_var      *b  = j->y->in[2];
    const size_t oc = (size_t)j->y->shape.c, rows = qg_count(j->y->shape) / oc;
    for (size_t k = 0; k < oc; k++) {
        double sum = b->fresh ? 0.0 : (double)b->grad[k];
        for (size_t r = 0; r < rows; r++) sum += (double)j->y->grad[r * oc + k];
        b->grad[k] = (float)sum;
    }
    b->fresh = false;
}

/* A large weight: one array collects its gradient, and threads split the kernel.  All threads read the same images,
 * which are therefore padded first, one slice of the batch at a time to save memory. */
static bool weight_gradient_by_units(qg_tape *t, job *j)
{
    const int n    = j->y->shape.n;
    const int runs = j->c->image ? QG_SLICES : 1;
    j->slices      = 1;
    j->acc         = floats(t, j->acc_size);
    j->images      = j->c->image ? floats(t, (size_t)(n / runs + 1) * j->c->image) : NULL;
    if (!j->acc || (j->c->image && !j->images)) return false;
    memset(j->acc, 0, j->acc_size * sizeof *j->acc);
    for (int r = 0; r < runs; r++) {
        j->first = runs > 1 ? qg_slice_at(n, r) : 0;
        j->run   = runs > 1 ? qg_slice_at(n, r + 1) - j->first : n;
        if (j->run == 0) continue;
        if (j->c->image) qg_parallel(j->run, pad_piece, j);
        qg_parallel(j->k->units(&j->c->g), unit_piece, j);
    }
    qg_parallel(qg__conv_blocks(j->k, j->y->shape.c), add_weight_piece, j);
    j->acc = NULL;              /* done: the following slices compute only dx */
    return true;
}

static void conv2d_backward(qg_tape *t, qg_var *y)
{
    const conv *c = y->saved;
    qg_var     *x = y->in[0], *w = y->in[1], *b = y->in[2];
    const size_t workers = (size_t)qg_threads();
    job          j = { .c = c, .k = c->k, .y = y };
    if (!take_scratch(t, &j)) return;
    j.acc_size = qg__conv_forward_size(j.k, &c->g);
    if (b && b->grad) bias_gradient(&j);
    if (w->grad && w->fresh) memset(w->grad, 0, qg_count(w->shape) * sizeof(float));
    w->fresh = false;           /* w or b may be x: the code below adds to it */

    const size_t collected = qg__conv_points(j.k, &c->g) * (size_t)c->g.c * (size_t)c->g.oc;
    const bool   sliced    = y->shape.n >= QG_SLICES && collected * sizeof(float) < SLICED_BYTES;
    if (w->grad && !sliced && !weight_gradient_by_units(t, &j)) return;
    if (w->grad && sliced) {
        j.slices = QG_SLICES;
        j.acc    = floats(t, QG_SLICES * j.acc_size);
        j.images = c->image ? floats(t, workers * c->image) : NULL;
        if (!j.acc || (c->image && !j.images)) return;
    }
    if (x->grad) {
        j.packed    = floats(t, qg__conv_backward_size(j.k, &c->g));
        j.gradients = floats(t, workers * gradient_size(c));
        if (!j.packed || !j.gradients) return;
        qg_parallel(qg__conv_blocks(j.k, c->g.c), pack_backward_piece, &j);
    }
    if (j.acc || j.packed) qg_parallel(QG_SLICES, slice_piece, &j);
    if (j.acc) qg_parallel(qg__conv_blocks(j.k, y->shape.c), add_weight_piece, &j);
}

static const qg_op conv2d_op = {
    .name = "conv2d", .backward = conv2d_backward, .assigns = true, .value_unused = true
};

/* --- record ------------------------------------------------------------------------------- */

static bool valid(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec s)
{
    const long long rows = x->shape.h + 2LL * s.pad_h, columns = x->shape.w + 2LL * s.pad_w;
    if (s.stride < 1 || s.pad_h < 0 || s.pad_w < 0)
        qg_reject(t, QG_EARG, "conv2d: stride %d must be at least 1, padding %d and %d at least 0",
                  s.stride, s.pad_h, s.pad_w);
    else if (x->shape.c != w->shape.c)
        qg_reject(t, QG_ESHAPE, "conv2d: x " QG_SHAPE_FMT " has %d channels, w " QG_SHAPE_FMT " reads %d",
                  QG_SHAPE_ARGS(x->shape), x->shape.c, QG_SHAPE_ARGS(w->shape), w->shape.c);
    else if (!qg__row_fits(rows, columns, x->shape.c))
        qg_reject(t, QG_ESHAPE, "conv2d: x " QG_SHAPE_FMT " padded by %d and %d is too large",
                  QG_SHAPE_ARGS(x->shape), s.pad_h, s.pad_w);
    else if (rows < w->shape.h || columns < w->shape.w)
        qg_reject(t, QG_ESHAPE,
                  "conv2d: x " QG_SHAPE_FMT " padded by %d and %d is smaller than the kernel of w " QG_SHAPE_FMT,
                  QG_SHAPE_ARGS(x->shape), s.pad_h, s.pad_w, QG_SHAPE_ARGS(w->shape));
    else if (b && qg_count(b->shape) != (size_t)w->shape.n)
        qg_reject(t, QG_ESHAPE, "conv2d: w " QG_SHAPE_FMT " has %d outputs, b is " QG_SHAPE_FMT,
                  QG_SHAPE_ARGS(w->shape), w->shape.n, QG_SHAPE_ARGS(b->shape));
    else
        return true;
    return false;
}

static qg__conv geometry(const qg_var *x, const qg_var *w, qg_conv_spec s)
{
    qg__conv g = { .h = x->shape.h + 2 * s.pad_h, .w = x->shape.w + 2 * s.pad_w, .c = x->shape.c,
                   .oc = w->shape.n, .kh = w->shape.h, .kw = w->shape.w, .stride = s.stride };
    g.oh = (g.h - g.kh) / s.stride + 1;
    g.ow = (g.w - g.kw) / s.stride + 1;
    return g;
}

qg_var *qg_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec)
{
    if (!x || !w) return NULL;
    if (spec.stride == 0) spec.stride = 1;
    if (!valid(t, x, w, b, spec)) return NULL;
    const qg__conv g = geometry(x, w, spec);
    qg_var *y = qg_record(t, &conv2d_op, (qg_shape){ x->shape.n, g.oh, g.ow, g.oc }, x, w, b);
    if (!y) return NULL;
    y->flops = 2.0 * (double)qg_count(y->shape) * (double)qg_row(w->shape);

    /* A following batch norm reads the sums per image; for single pixels it sums by slices itself. */
    const bool   sums  = spec.sums && qg_tape_mode(t) == QG_TRAIN && g.oh * g.ow > 1;
    const size_t extra = sums ? (size_t)y->shape.n * sums_size(&g) * sizeof(float) : 0;
    conv        *c     = qg_save(t, y, sizeof *c + extra);
    if (!c) return NULL;
    *c = (conv){ .spec   = spec,
                 .g      = g,
                 .image  = spec.pad_h || spec.pad_w ? (size_t)(g.h * g.w * g.c) : 0,
                 .mirror = spec.stride == 1 && 2 * spec.pad_h == g.kh - 1 && 2 * spec.pad_w == g.kw - 1 };
    c->k = c->mirror && qg__winograd_fits(&g) ? QG_KERNELS(qg__winograd_kernels) : QG_KERNELS(qg__conv_kernels);
    if (sums) y->sums = (float *)(void *)(c + 1);

    job j    = { .c = c, .k = c->k, .norm = QG_KERNELS(qg__norm_kernels), .y = y };
    j.packed = floats(t, qg__conv_forward_size(j.k, &g));
    j.images = c->image ? floats(t, (size_t)qg_threads() * c->image) : NULL;
    if (!take_scratch(t, &j) || !j.packed || (c->image && !j.images)) return NULL;
    qg_parallel(qg__conv_blocks(j.k, g.oc), pack_forward_piece, &j);
    qg_parallel(y->shape.n, forward_piece, &j);
    return y;
}
