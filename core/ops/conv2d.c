#include <string.h>

#include "core/kernels/conv_kernel.h"
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"

/* --- shared with depthwise.c ---------------------------------------------------------------- */

/* Floats in the sums of an image. */
static size_t sums_size(qg_shape y) { return qg__norm_parts((size_t)y.h * (size_t)y.w) * 3 * (size_t)y.c; }

void *qg__save_with_sums(qg_tape *t, qg_var *y, size_t bytes, bool sums)
{
    const size_t extra = sums ? (size_t)y->shape.n * sums_size(y->shape) * sizeof(float) : 0;
    char        *saved = qg_save(t, y, bytes + extra);
    if (saved && sums) y->sums = (float *)(void *)(saved + bytes);
    return saved;
}

void qg__gather_sums(const qg__norm_kernels *norm, const qg_var *y, int i)
{
    const size_t row = qg_row(y->shape), c = (size_t)y->shape.c;
    if (y->sums) norm->sums(row / c, (int)c, y->data + (size_t)i * row, y->sums + (size_t)i * sums_size(y->shape));
}

void qg__bias_gradient(const qg_var *y)
{
    qg_var      *b  = y->in[2];
    const size_t oc = (size_t)y->shape.c, rows = qg_count(y->shape) / oc;
    for (size_t k = 0; k < oc; k++) {
        double sum = b->fresh ? 0.0 : (double)b->grad[k];
        for (size_t r = 0; r < rows; r++) sum += (double)y->grad[r * oc + k];
        b->grad[k] = (float)sum;
    }
    b->fresh = false;
}

/* --- one group or several --------------------------------------------------------------------- */

/* A packed weight gradient of fewer bytes is collected once per slice of the batch, and the slices are added.  A
 * larger one is collected once, and threads split it by units of the kernel. */
enum { SLICED_BYTES = 2 << 20 };

typedef struct conv {
    qg_conv_spec spec;
    qg__conv     g;             /* of one padded image, and of one group of its channels */
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
    float                 *acc;         /* [slices] weight gradients, packed, one group after another */
    float                 *scratch;     /* [workers] */
    float                 *group;       /* [workers] images of one group: x or dx, x, y or dy */
    size_t                 acc_size, scratch_size;
    int                    slices;      /* accumulators: QG_SLICES, or 1 for a large weight */
    int                    first, run;  /* the images that units read: the first, and their number */
} job;

static size_t x_row(const job *j) { return qg_row(j->y->in[0]->shape); }
static size_t y_row(const job *j) { return qg_row(j->y->shape); }
static float *scratch_of(const job *j, int worker) { return j->scratch + (size_t)worker * j->scratch_size; }

static float *floats(qg_tape *t, size_t n) { return qg_scratch(t, n * sizeof(float)); }

static size_t weights_of_group(const job *j) { return qg_count(j->y->in[1]->shape) / (size_t)j->c->spec.groups; }
static size_t packed_of_group(const job *j)  { return qg__conv_forward_size(j->k, &j->c->g); }

static qg__frame frame(qg_conv_spec s)
{
    return (qg__frame){ s.pad_h, s.pad_w, s.pad_h + s.extra_h, s.pad_w + s.extra_w, s.pad_value };
}

/* An image of one group as the kernels read it: in place, or a padded copy in the given buffer. */
static const float *padded(const job *j, const float *image, float *copy)
{
    const qg_shape x = j->y->in[0]->shape;
    if (!j->c->image) return image;
    qg__pad(x.h, x.w, j->c->g.c, frame(j->c->spec), image, copy);
    return copy;
}

static float *padding_of(const job *j, int worker)
{
    return j->images ? j->images + (size_t)worker * j->c->image : NULL;
}

/* --- groups ------------------------------------------------------------------------------- */

static void add_image(size_t n, const float *from, bool assign, float *to)
{
    if (assign) memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++) to[i] += from[i];
}

/* The kernels see each group as an image of its own.  Channels of a group are copied out of those of a pixel, unless
 * there is one group. */
typedef enum group_place { GROUP_DX, GROUP_X, GROUP_Y } group_place;

static size_t group_pixels(const job *j, group_place place)
{
    const qg_shape s = place == GROUP_Y ? j->y->shape : j->y->in[0]->shape;
    return (size_t)s.h * (size_t)s.w;
}

static size_t group_channels(const job *j, group_place place)
{
    return (size_t)(place == GROUP_Y ? j->c->g.oc : j->c->g.c);
}

static size_t group_size(const job *j)
{
    return 2 * group_pixels(j, GROUP_X) * group_channels(j, GROUP_X) + group_pixels(j, GROUP_Y) * group_channels(j, GROUP_Y);
}

static float *group_at(const job *j, group_place place, int worker)
{
    return j->group + (size_t)worker * group_size(j) + (size_t)place * group_pixels(j, GROUP_X) * group_channels(j, GROUP_X);
}

/* Group k of an image: in place if there is no other. */
static const float *take_group(const job *j, group_place place, const float *image, int k, int worker)
{
    const size_t c = group_channels(j, place), all = c * (size_t)j->c->spec.groups;
    if (!j->group) return image;
    float *to = group_at(j, place, worker);
    for (size_t p = 0, n = group_pixels(j, place); p < n; p++) memcpy(to + p * c, image + p * all + (size_t)k * c, c * sizeof *to);
    return to;
}

/* Where the kernels write group k of an image. */
static float *group_output(const job *j, group_place place, float *image, int worker)
{
    return j->group ? group_at(j, place, worker) : image;
}

/* Brings it into the image. */
static void put_group(const job *j, group_place place, int k, int worker, bool assign, float *image)
{
    const size_t c = group_channels(j, place), all = c * (size_t)j->c->spec.groups;
    if (!j->group) return;
    const float *from = group_at(j, place, worker);
    for (size_t p = 0, n = group_pixels(j, place); p < n; p++) add_image(c, from + p * c, assign, image + p * all + (size_t)k * c);
}

static bool take_scratch(qg_tape *t, job *j)
{
    j->scratch_size = (j->k->scratch(&j->c->g) + 15) / 16 * 16;     /* each begins on a line of the cache */
    j->scratch      = floats(t, (size_t)qg_threads() * j->scratch_size);
    if (j->c->spec.groups > 1) j->group = floats(t, (size_t)qg_threads() * group_size(j));
    return j->scratch && (j->group || j->c->spec.groups == 1);
}

/* piece: block piece % blocks of a group. */
static void pack_forward_piece(void *context, int piece, int worker)
{
    (void)worker;
    const job *j      = context;
    const int  blocks = qg__conv_blocks(j->k, j->c->g.oc), group = piece / blocks, block = piece % blocks;
    j->k->pack_forward(&j->c->g, block, block + 1, j->y->in[1]->data + (size_t)group * weights_of_group(j),
                       j->packed + (size_t)group * packed_of_group(j));
}

static void forward_piece(void *context, int i, int worker)
{
    const job    *j = context;
    const qg_var *x = j->y->in[0], *b = j->y->in[2];
    float        *y = j->y->data + (size_t)i * y_row(j);
    for (int k = 0; k < j->c->spec.groups; k++) {
        const float *image = take_group(j, GROUP_X, x->data + (size_t)i * x_row(j), k, worker);
        j->k->forward(&j->c->g, padded(j, image, padding_of(j, worker)), j->packed + (size_t)k * packed_of_group(j),
                      b ? b->data + k * j->c->g.oc : NULL, group_output(j, GROUP_Y, y, worker), scratch_of(j, worker));
        put_group(j, GROUP_Y, k, worker, true, y);
    }
    qg__gather_sums(j->norm, j->y, i);
}

/* --- backward ----------------------------------------------------------------------------- */

static void pack_backward_piece(void *context, int piece, int worker)
{
    (void)worker;
    const job *j      = context;
    const int  blocks = qg__conv_blocks(j->k, j->c->g.c), group = piece / blocks, block = piece % blocks;
    j->k->pack_backward(&j->c->g, block, block + 1, j->y->in[1]->data + (size_t)group * weights_of_group(j),
                        j->packed + (size_t)group * qg__conv_backward_size(j->k, &j->c->g));
}

/* Floats in a padded dx, or dy. */
static size_t gradient_size(const conv *c)
{
    const int channels = c->mirror ? c->g.oc : c->g.c;
    return (size_t)(c->g.h * c->g.w) * (size_t)channels;
}

static float *gradient_buffer(const job *j, int worker)
{
    return j->gradients + (size_t)worker * gradient_size(j->c);
}

/* Padding above and below adds up to kh - 1, so dy needs above what x has below.  Columns likewise. */
static void mirrored_input_gradient(const job *j, const float *dy, const float *w, bool fresh, int worker, float *dx)
{
    const conv    *c = j->c;
    const qg__conv m = qg__conv_mirror(&c->g);
    if (c->image) {
        const qg__frame f    = frame(c->spec);
        float          *copy = gradient_buffer(j, worker);
        qg__pad(c->g.oh, c->g.ow, c->g.oc, (qg__frame){ f.bottom, f.right, f.top, f.left, 0.0f }, dy, copy);
        dy = copy;
    }
    if (fresh) c->k->forward(&m, dy, w, NULL, dx, scratch_of(j, worker));
    else c->k->forward_add(&m, dy, w, dx, scratch_of(j, worker));
}

/* y = x * w:  dx of an image of one group.  It is computed in place if it is assigned and x was not padded; else in a
 * buffer whose border is discarded. */
static void input_gradient(const job *j, const float *dy, const float *w, bool fresh, int worker, float *dx)
{
    const conv    *c = j->c;
    const qg_shape x = j->y->in[0]->shape;
    if (c->mirror) {
        mirrored_input_gradient(j, dy, w, fresh, worker, dx);
        return;
    }
    if (!c->image && fresh) {
        j->k->input_gradient(&c->g, dy, w, dx);
        return;
    }
    float *whole = gradient_buffer(j, worker);
    j->k->input_gradient(&c->g, dy, w, whole);
    const size_t line = (size_t)(x.w * c->g.c);
    for (int r = 0; r < x.h; r++)
        add_image(line, whole + ((size_t)(r + c->spec.pad_h) * (size_t)c->g.w + (size_t)c->spec.pad_w) *
                                    (size_t)c->g.c,
                  fresh, dx + (size_t)r * line);
}

/* Both gradients of group k of image i; acc NULL: dx alone. */
static void group_gradients(const job *j, int i, int k, int worker, float *acc)
{
    const qg_var *x  = j->y->in[0];
    const float  *dy = take_group(j, GROUP_Y, j->y->grad + (size_t)i * y_row(j), k, worker);
    if (acc) {
        const float *image = take_group(j, GROUP_X, x->data + (size_t)i * x_row(j), k, worker);
        j->k->weight_gradient(&j->c->g, 0, j->k->units(&j->c->g), 1, padded(j, image, padding_of(j, worker)), dy,
                              acc + (size_t)k * packed_of_group(j), scratch_of(j, worker));
    }
    if (!j->packed) return;
    float *dx = x->grad + (size_t)i * x_row(j);
    input_gradient(j, dy, j->packed + (size_t)k * qg__conv_backward_size(j->k, &j->c->g), j->group || x->fresh, worker,
                   group_output(j, GROUP_DX, dx, worker));
    put_group(j, GROUP_DX, k, worker, x->fresh, dx);
}

/* One slice of the batch: computes both gradients of an image while it is in cache. */
static void slice_piece(void *context, int slice, int worker)
{
    const job *j   = context;
    float     *acc = j->acc ? j->acc + (size_t)slice * j->acc_size : NULL;
    if (acc) memset(acc, 0, j->acc_size * sizeof *acc);
    for (int i = qg_slice_at(j->y->shape.n, slice), end = qg_slice_at(j->y->shape.n, slice + 1); i < end; i++)
        for (int k = 0; k < j->c->spec.groups; k++) group_gradients(j, i, k, worker, acc);
}

/* The weights of one group, over the whole batch. */
static void group_piece(void *context, int k, int worker)
{
    const job *j = context;
    for (int i = 0; i < j->y->shape.n; i++) group_gradients(j, i, k, worker, j->acc);
}

static void pad_piece(void *context, int i, int worker)
{
    (void)worker;
    const job *j = context;
    padded(j, j->y->in[0]->data + (size_t)(j->first + i) * x_row(j), padding_of(j, i));     /* each has its own buffer */
}

/* Some units of the kernel, over a run of images. */
static void unit_piece(void *context, int unit, int worker)
{
    const job   *j = context;
    const float *x = j->c->image ? j->images : j->y->in[0]->data + (size_t)j->first * x_row(j);
    j->k->weight_gradient(&j->c->g, unit, unit + 1, j->run, x, j->y->grad + (size_t)j->first * y_row(j),
                          j->acc, scratch_of(j, worker));
}

static void add_weight_piece(void *context, int piece, int worker)
{
    (void)worker;
    const job   *j      = context;
    const int    blocks = qg__conv_blocks(j->k, j->c->g.oc), group = piece / blocks, block = piece % blocks;
    const size_t size   = packed_of_group(j) / (size_t)blocks;
    float       *sum    = j->acc + (size_t)piece * size;
    for (int s = 1; s < j->slices; s++) {
        const float *part = sum + (size_t)s * j->acc_size;
        for (size_t i = 0; i < size; i++) sum[i] += part[i];
    }
    j->k->add_weight_gradient(&j->c->g, block, block + 1, j->acc + (size_t)group * packed_of_group(j),
                              j->y->in[1]->grad + (size_t)group * weights_of_group(j));
}

static int pieces_of(const job *j, int channels) { return j->c->spec.groups * qg__conv_blocks(j->k, channels); }

/* Threads split the kernel.  All of them read the same images, which are therefore padded first, one slice of the batch
 * at a time to save memory. */
static void units_of_weight(job *j)
{
    const int n    = j->y->shape.n;
    const int runs = j->c->image ? QG_SLICES : 1;
    for (int r = 0; r < runs; r++) {
        j->first = runs > 1 ? qg_slice_at(n, r) : 0;
        j->run   = runs > 1 ? qg_slice_at(n, r + 1) - j->first : n;
        if (j->run == 0) continue;
        if (j->c->image) qg_parallel(j->run, pad_piece, j);
        qg_parallel(j->k->units(&j->c->g), unit_piece, j);
    }
}

/* A large weight: one array collects its gradient, and threads split it by groups or by units of the kernel. */
static bool whole_weight_gradient(qg_tape *t, job *j)
{
    const size_t images = j->group ? (size_t)qg_threads() : (size_t)(j->y->shape.n / QG_SLICES + 1);
    j->slices           = 1;
    j->acc              = floats(t, j->acc_size);
    j->images           = j->c->image ? floats(t, images * j->c->image) : NULL;
    if (!j->acc || (j->c->image && !j->images)) return false;
    memset(j->acc, 0, j->acc_size * sizeof *j->acc);
    if (j->group) qg_parallel(j->c->spec.groups, group_piece, j);
    else units_of_weight(j);
    qg_parallel(pieces_of(j, j->c->g.oc), add_weight_piece, j);
    j->acc = NULL;              /* done: the following slices compute only dx */
    return true;
}

static void conv2d_backward(qg_tape *t, qg_var *y)
{
    const conv *c = y->saved;
    qg_var     *x = y->in[0], *w = y->in[1], *b = y->in[2];
    const size_t workers = (size_t)qg_threads(), groups = (size_t)c->spec.groups;
    job          j = { .c = c, .k = c->k, .y = y };
    if (!take_scratch(t, &j)) return;
    j.acc_size = groups * packed_of_group(&j);
    if (b && b->grad) qg__bias_gradient(y);
    if (w->grad && w->fresh) memset(w->grad, 0, qg_count(w->shape) * sizeof(float));
    w->fresh = false;           /* w or b may be x: the code below adds to it */

    const size_t collected = groups * qg__conv_points(j.k, &c->g) * (size_t)c->g.c * (size_t)c->g.oc;
    const bool   sliced    = y->shape.n >= QG_SLICES && collected * sizeof(float) < SLICED_BYTES;
    if (w->grad && !sliced && !whole_weight_gradient(t, &j)) return;
    if (w->grad && sliced) {
        j.slices = QG_SLICES;
        j.acc    = floats(t, QG_SLICES * j.acc_size);
        j.images = c->image ? floats(t, workers * c->image) : NULL;
        if (!j.acc || (c->image && !j.images)) return;
    }
    if (x->grad) {
        j.packed    = floats(t, groups * qg__conv_backward_size(j.k, &c->g));
        j.gradients = floats(t, workers * gradient_size(c));
        if (!j.packed || !j.gradients) return;
        qg_parallel(pieces_of(&j, c->g.c), pack_backward_piece, &j);
    }
    if (j.acc || j.packed) qg_parallel(QG_SLICES, slice_piece, &j);
    if (j.acc) qg_parallel(pieces_of(&j, c->g.oc), add_weight_piece, &j);
}

static const qg_op conv2d_op = {
    .name = "conv2d", .backward = conv2d_backward, .assigns = true, .value_unused = true
};

/* --- record ------------------------------------------------------------------------------- */

static bool valid_spec(qg_tape *t, qg_conv_spec s)
{
    if (s.stride < 1 || s.pad_h < 0 || s.pad_w < 0)
        qg_reject(t, QG_EARG, "conv2d: stride %d must be at least 1, padding %d and %d at least 0",
                  s.stride, s.pad_h, s.pad_w);
    else if (s.groups < 1 || s.extra_h < 0 || s.extra_w < 0)
        qg_reject(t, QG_EARG, "conv2d: groups %d must be at least 1, extra padding %d and %d at least 0",
                  s.groups, s.extra_h, s.extra_w);
    else
        return true;
    return false;
}

static bool valid(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec s)
{
    const long long rows = x->shape.h + 2LL * s.pad_h + s.extra_h, columns = x->shape.w + 2LL * s.pad_w + s.extra_w;
    if (!valid_spec(t, s)) return false;
    if (s.groups == 1 && x->shape.c != w->shape.c)
        qg_reject(t, QG_ESHAPE, "conv2d: x " QG_SHAPE_FMT " has %d channels, w " QG_SHAPE_FMT " reads %d",
                  QG_SHAPE_ARGS(x->shape), x->shape.c, QG_SHAPE_ARGS(w->shape), w->shape.c);
    else if (x->shape.c != (long long)w->shape.c * s.groups)
        qg_reject(t, QG_ESHAPE, "conv2d: x " QG_SHAPE_FMT " has %d channels, w " QG_SHAPE_FMT " reads %d in each of %d groups",
                  QG_SHAPE_ARGS(x->shape), x->shape.c, QG_SHAPE_ARGS(w->shape), w->shape.c, s.groups);
    else if (w->shape.n % s.groups != 0)
        qg_reject(t, QG_ESHAPE, "conv2d: w " QG_SHAPE_FMT " has %d outputs, which %d groups do not divide",
                  QG_SHAPE_ARGS(w->shape), w->shape.n, s.groups);
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
    qg__conv g = { .h = x->shape.h + 2 * s.pad_h + s.extra_h, .w = x->shape.w + 2 * s.pad_w + s.extra_w,
                   .c = w->shape.c, .oc = w->shape.n / s.groups, .kh = w->shape.h, .kw = w->shape.w, .stride = s.stride };
    g.oh = (g.h - g.kh) / s.stride + 1;
    g.ow = (g.w - g.kw) / s.stride + 1;
    return g;
}

static qg_var *conv_of_groups(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape shape, bool sums)
{
    const qg__conv g = geometry(x, w, spec);
    qg_var *y = qg_record(t, &conv2d_op, shape, x, w, b);
    if (!y) return NULL;
    conv *c = qg__save_with_sums(t, y, sizeof *c, sums);
    if (!c) return NULL;
    const bool framed = spec.pad_h || spec.pad_w || spec.extra_h || spec.extra_w;
    *c = (conv){ .spec   = spec,
                 .g      = g,
                 .image  = framed ? (size_t)(g.h * g.w * g.c) : 0,
                 .mirror = spec.stride == 1 && g.oh == x->shape.h && g.ow == x->shape.w };
    c->k = c->mirror && qg__winograd_fits(&g) ? QG_KERNELS(qg__winograd_kernels) : QG_KERNELS(qg__conv_kernels);

    job j    = { .c = c, .k = c->k, .norm = QG_KERNELS(qg__norm_kernels), .y = y };
    j.packed = floats(t, (size_t)spec.groups * qg__conv_forward_size(j.k, &g));
    j.images = c->image ? floats(t, (size_t)qg_threads() * c->image) : NULL;
    if (!take_scratch(t, &j) || !j.packed || (c->image && !j.images)) return NULL;
    qg_parallel(pieces_of(&j, g.oc), pack_forward_piece, &j);
    qg_parallel(y->shape.n, forward_piece, &j);
    return y;
}

/* 0 stands for 1. */
static qg_conv_spec completed(qg_conv_spec s)
{
    if (s.stride == 0) s.stride = 1;
    if (s.groups == 0) s.groups = 1;
    return s;
}

qg_shape qg__conv2d_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec spec)
{
    spec = completed(spec);
    if (!valid(t, x, w, b, spec)) return (qg_shape){ 0 };
    const qg__conv g = geometry(x, w, spec);
    return (qg_shape){ x->shape.n, g.oh, g.ow, w->shape.n };
}

qg_var *qg_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec)
{
    if (!x || !w) return NULL;
    const qg_shape shape = qg__conv2d_shape(t, x, w, b, spec);
    if (!shape.n) return NULL;
    spec = completed(spec);
    const bool     depthwise = spec.groups > 1 && spec.groups == x->shape.c;
    /* A following batch norm reads the sums per image; for single pixels it sums by slices itself. */
    const bool     sums = spec.sums && qg_tape_mode(t) == QG_TRAIN && shape.h * shape.w > 1;
    qg_var        *y    = (depthwise ? qg__depthwise_conv2d : conv_of_groups)(t, x, w, b, spec, shape, sums);
    if (y) y->flops = 2.0 * (double)qg_count(y->shape) * (double)qg_row(w->shape);
    return y;
}
