/* The passes of a convolution: images are padded, groups copied out, and weight gradients summed slice by slice. */
#include <string.h>

#include "core/kernels/conv_kernel.h"
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/slices.h"

/* --- one group or several --------------------------------------------------------------------- */

/* A weight gradient is the sum of those of the slices of the batch, added as a tree (core/slices.h).  Packed gradients of
 * fewer bytes have an array per slice, and threads split the slices.  Of a larger one, threads split each slice in turn by
 * units of the kernel, and sums that wait for their neighbours in the tree need only a few arrays.  Both give the same
 * bits. */
enum { SLICED_BYTES = 2 << 20 };

/* The work buffers of one pass. */
typedef struct job {
    const qg__convolution  *c;
    const qg__conv_kernels *k;
    const qg__norm_kernels *norm;
    qg_var                *y;
    float                 *packed;      /* weights, packed for the pass */
    float                 *images;      /* padded: [workers], or those of the run */
    float                 *gradients;   /* [workers] padded dx, or padded dy where that is mirrored */
    float                 *acc;         /* weight gradients, packed, one group after another: [slices that are here] */
    float                 *scratch;     /* [workers] */
    float                 *group;       /* [workers] images of one group: x or dx, x, y or dy */
    size_t                 acc_size, scratch_size;
    qg__slices             at;
    int                    first, run;  /* the images that units read: the first, and their number */
    int                    adds;        /* what follows the units of a slice: sums of the tree */
    struct {
        float *to, *from;
    } add[8];
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

/* The shape of an image of one group. */
static qg_shape group_shape(const job *j, group_place place)
{
    qg_shape s = place == GROUP_Y ? j->y->shape : j->y->in[0]->shape;
    s.c /= j->c->spec.groups;
    return s;
}

static size_t group_size(const job *j)
{
    return 2 * qg_row(group_shape(j, GROUP_X)) + qg_row(group_shape(j, GROUP_Y));
}

static float *group_at(const job *j, group_place place, int worker)
{
    return j->group + (size_t)worker * group_size(j) + (size_t)place * qg_row(group_shape(j, GROUP_X));
}

/* Group k of an image: in place if there is no other. */
static const float *take_group(const job *j, group_place place, const float *image, int k, int worker)
{
    const qg_shape s = group_shape(j, place);
    const size_t   c = (size_t)s.c, all = c * (size_t)j->c->spec.groups;
    if (!j->group) return image;
    float *to = group_at(j, place, worker);
    for (size_t at = 0; at < qg_row(s); at += c, image += all) memcpy(to + at, image + (size_t)k * c, c * sizeof *to);
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
    const qg_shape s = group_shape(j, place);
    const size_t   c = (size_t)s.c, all = c * (size_t)j->c->spec.groups;
    if (!j->group) return;
    const float *from = group_at(j, place, worker);
    for (size_t at = 0; at < qg_row(s); at += c, image += all) add_image(c, from + at, assign, image + (size_t)k * c);
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
    const job *j      = context;
    const int  blocks = qg__conv_blocks(j->k, j->c->g.oc), group = piece / blocks, block = piece % blocks;
    j->k->pack_forward(&j->c->g, block, j->y->in[1]->data + (size_t)group * weights_of_group(j),
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
                      b ? b->data + k * j->c->g.oc : NULL, false, group_output(j, GROUP_Y, y, worker), scratch_of(j, worker));
        put_group(j, GROUP_Y, k, worker, true, y);
    }
    qg__gather_sums(j->norm, j->y, i);
}

static int pieces_of(const job *j, int channels) { return j->c->spec.groups * qg__conv_blocks(j->k, channels); }

bool qg__conv_value(qg_tape *t, qg_var *y)
{
    const qg__convolution *c = y->saved;
    job j    = { .c = c, .k = c->k, .norm = QG_KERNELS(qg__norm_kernels), .y = y };
    j.packed = floats(t, (size_t)c->spec.groups * qg__conv_forward_size(j.k, &c->g));
    j.images = c->image ? floats(t, (size_t)qg_threads() * c->image) : NULL;
    if (!take_scratch(t, &j) || !j.packed || (c->image && !j.images)) return false;
    qg_parallel(pieces_of(&j, c->g.oc), pack_forward_piece, &j);
    qg_parallel(y->shape.n, forward_piece, &j);
    return true;
}

/* --- backward ----------------------------------------------------------------------------- */

static void pack_backward_piece(void *context, int piece, int worker)
{
    const job *j      = context;
    const int  blocks = qg__conv_blocks(j->k, j->c->g.c), group = piece / blocks, block = piece % blocks;
    j->k->pack_backward(&j->c->g, block, j->y->in[1]->data + (size_t)group * weights_of_group(j),
                        j->packed + (size_t)group * qg__conv_backward_size(j->k, &j->c->g));
}

/* Floats in a padded dx, or dy. */
static size_t gradient_size(const qg__convolution *c)
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
    const qg__convolution *c = j->c;
    const qg__conv m = qg__conv_mirror(&c->g);
    if (c->image) {
        const qg__frame f    = frame(c->spec);
        float          *copy = gradient_buffer(j, worker);
        qg__pad(c->g.oh, c->g.ow, c->g.oc, (qg__frame){ f.bottom, f.right, f.top, f.left, 0.0f }, dy, copy);
        dy = copy;
    }
    c->k->forward(&m, dy, w, NULL, !fresh, dx, scratch_of(j, worker));
}

/* y = x * w:  dx of an image of one group.  It is computed in place if it is assigned and x was not padded; else in a
 * buffer whose border is discarded. */
static void input_gradient(const job *j, const float *dy, const float *w, bool fresh, int worker, float *dx)
{
    const qg__convolution *c = j->c;
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
    const int  end = qg__slice_first(j->at, j->at.from + slice + 1);
    if (acc) memset(acc, 0, j->acc_size * sizeof *acc);
    for (int i = qg__slice_first(j->at, j->at.from + slice); i < end; i++)
        for (int k = 0; k < j->c->spec.groups; k++) group_gradients(j, i, k, worker, acc);
}

/* Some of the numbers of acc: sets them to zero, or does the sums of the tree that follow. */
static void clear_run(const job *j, size_t at, size_t n) { memset(j->acc + at, 0, n * sizeof *j->acc); }

static void add_run(const job *j, size_t at, size_t n)
{
    for (int k = 0; k < j->adds; k++) add_image(n, j->add[k].from + at, false, j->add[k].to + at);
}

/* The sums that a slice without images completes. */
static void add_block_piece(void *context, int piece, int worker)
{
    const job   *j = context;
    const size_t n = packed_of_group(j) / (size_t)qg__conv_blocks(j->k, j->c->g.oc);
    add_run(j, (size_t)piece * n, n);
}

/* The weights of one group, over a slice. */
static void group_piece(void *context, int k, int worker)
{
    const job   *j = context;
    const size_t n = packed_of_group(j), at = (size_t)k * n;
    clear_run(j, at, n);
    for (int i = j->first; i < j->first + j->run; i++) group_gradients(j, i, k, worker, j->acc);
    add_run(j, at, n);
}

static void pad_piece(void *context, int i, int worker)
{
    const job *j = context;
    padded(j, j->y->in[0]->data + (size_t)(j->first + i) * x_row(j), padding_of(j, i));     /* each has its own buffer */
}

/* A unit of the kernel, over a slice. */
static void unit_piece(void *context, int unit, int worker)
{
    const job   *j = context;
    const float *x = j->c->image ? j->images : j->y->in[0]->data + (size_t)j->first * x_row(j);
    size_t       at, n;
    for (int i = 0; (n = j->k->unit_run(&j->c->g, unit, i, &at)) > 0; i++) clear_run(j, at, n);
    j->k->weight_gradient(&j->c->g, unit, unit + 1, j->run, x, j->y->grad + (size_t)j->first * y_row(j),
                          j->acc, scratch_of(j, worker));
    for (int i = 0; (n = j->k->unit_run(&j->c->g, unit, i, &at)) > 0; i++) add_run(j, at, n);
}

static void add_slices_piece(void *context, int piece, int worker)
{
    const job   *j    = context;
    const size_t size = packed_of_group(j) / (size_t)qg__conv_blocks(j->k, j->c->g.oc);
    qg__tree(j->at.to - j->at.from, j->acc_size, size, j->acc + (size_t)piece * size);
}

static void add_weight_piece(void *context, int piece, int worker)
{
    const job *j      = context;
    const int  blocks = qg__conv_blocks(j->k, j->c->g.oc), group = piece / blocks, block = piece % blocks;
    j->k->add_weight_gradient(&j->c->g, block, j->acc + (size_t)group * packed_of_group(j),
                              j->y->in[1]->grad + (size_t)group * weights_of_group(j));
}

static void add_both_piece(void *context, int piece, int worker)
{
    add_slices_piece(context, piece, worker);
    add_weight_piece(context, piece, worker);
}

static void add_weight(qg_tape *t, qg_var *y, float *acc)
{
    const qg__convolution *c = y->saved;
    job         j = { .c = c, .k = c->k, .y = y, .acc = acc };
    qg_parallel(pieces_of(&j, c->g.oc), add_weight_piece, &j);
}

/* Sums that wait for their neighbours: of slices side by side, 2^height of them; NULL: they have no images. */
typedef struct waiting {
    float *sum;
    int    height;
} waiting;

enum { WAITING = 5 };       /* at most: heights 0 .. 4 of 16 slices */
_Static_assert(QG_SLICES <= 1 << (WAITING - 1), "a sum waits at each height");

/* Threads split the kernel.  All of them read the same images, which are therefore padded first, one slice of the batch
 * at a time to save memory. */
static void weight_of_slice(job *j)
{
    if (j->group) qg_parallel(j->c->spec.groups, group_piece, j);
    else {
        if (j->c->image) qg_parallel(j->run, pad_piece, j);
        qg_parallel(j->k->units(&j->c->g), unit_piece, j);
    }
}

/* The sums of the tree that slice i ends, between arrays of which `top` wait; the result waits in their place. */
static int plan_adds(job *j, waiting *stack, int top)
{
    j->adds = 0;
    while (top > 1 && stack[top - 1].height == stack[top - 2].height) {
        waiting *left = &stack[top - 2], *right = &stack[top - 1];
        if (left->sum && right->sum) j->add[j->adds].to = left->sum, j->add[j->adds++].from = right->sum;
        if (!left->sum) left->sum = right->sum;
        left->height++;
        top--;
    }
    return top;
}

/* An array of which no sum waits. */
static float *unused(qg_tape *t, const job *j, float *array[WAITING], const waiting *stack, int top)
{
    int i = 0;
    for (bool used = true; used && i < WAITING; i += used) {
        used = false;
        for (int k = 0; k < top && array[i]; k++) used |= stack[k].sum == array[i];
    }
    QG_ASSERT(i < WAITING);
    if (!array[i]) array[i] = floats(t, j->acc_size);
    return array[i];
}

/* A large weight.  A slice is computed in an array of its own; then what it completes is added, unit by unit, while that
 * is in a cache. */
static bool large_weight_gradient(qg_tape *t, job *j)
{
    const size_t images = j->group ? (size_t)qg_threads() : (size_t)(j->at.n / QG_SLICES + 1);
    float       *array[WAITING] = { NULL };
    waiting      stack[WAITING + 1];
    int          top = 0;
    array[0] = qg__reduce_room(t, j->y, j->at, j->acc_size);    /* the first one, in which the whole sum ends up */
    if (!array[0]) return false;
    j->images = j->c->image ? floats(t, images * j->c->image) : NULL;
    if (j->c->image && !j->images) return false;
    for (int s = j->at.from; s < j->at.to; s++) {
        j->first     = qg__slice_first(j->at, s);
        j->run       = qg__slice_first(j->at, s + 1) - j->first;
        if (j->run && !(j->acc = unused(t, j, array, stack, top))) return false;
        stack[top++] = (waiting){ j->run ? j->acc : NULL, 0 };
        top          = plan_adds(j, stack, top);
        if (j->run) weight_of_slice(j);
        else if (j->adds) qg_parallel(pieces_of(j, j->c->g.oc), add_block_piece, j);
    }
    QG_ASSERT(stack[0].sum == array[0]);
    j->acc = NULL;                      /* done: the following slices compute only dx */
    return qg__reduce(t, j->y, j->at, array[0], j->acc_size, add_weight);
}

void qg__conv_gradients(qg_tape *t, qg_var *y)
{
    const qg__convolution *c = y->saved;
    qg_var     *x = y->in[0], *w = y->in[1];
    const size_t workers = (size_t)qg_threads(), groups = (size_t)c->spec.groups;
    job          j = { .c = c, .k = c->k, .y = y, .at = qg__slices_of(y) };
    const int    slices = j.at.to - j.at.from;
    if (!take_scratch(t, &j)) return;
    j.acc_size = groups * packed_of_group(&j);
    if (w->grad && w->fresh) memset(w->grad, 0, qg_count(w->shape) * sizeof(float));
    w->fresh = false;           /* w or b may be x: the code below adds to it */

    const size_t collected = groups * qg__conv_points(j.k, &c->g) * (size_t)c->g.c * (size_t)c->g.oc;
    const bool   sliced    = j.at.n >= QG_SLICES && collected * sizeof(float) < SLICED_BYTES;
    if (w->grad && !sliced && !large_weight_gradient(t, &j)) return;
    if (w->grad && sliced) {
        j.acc    = floats(t, (size_t)slices * j.acc_size);
        j.images = c->image ? floats(t, workers * c->image) : NULL;
        if (!j.acc || (c->image && !j.images)) return;
    }
    if (x->grad) {
        j.packed    = floats(t, groups * qg__conv_backward_size(j.k, &c->g));
        j.gradients = floats(t, workers * gradient_size(c));
        if (!j.packed || !j.gradients) return;
        qg_parallel(pieces_of(&j, c->g.c), pack_backward_piece, &j);
    }
    if (j.acc || j.packed) qg_parallel(slices, slice_piece, &j);
    if (j.acc) qg_parallel(pieces_of(&j, c->g.oc), j.at.shared ? add_slices_piece : add_both_piece, &j);
    if (j.acc && j.at.shared) (void)qg__reduce(t, y, j.at, j.acc, j.acc_size, add_weight);
}
