#include "layers/integer.h"

#include <math.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/slices.h"
#include "core/walk.h"
#include "infer/kernels/correlate.h"
#include "infer/kernels/floats.h"
#include "infer/kernels/isa.h"
#include "layers/evaluate.h"

/* What the op saves. */
typedef struct integer {
    float            *sums;         /* first: core/ops/conv2d.h */
    qg_gradient_coder coder;
    qg__evaluation    e;            /* y = x * w */
    qg__product       turned;       /* dx = dy * w turned by half a turn */
    qg__correlation   pair;         /* dw from x and dy */
    uint8_t          *x;            /* codes [n][h][w][c] */
} integer;

/* --- what fits -------------------------------------------------------------------------------- */

static qg__codes gradient_codes(const qg_product *p)
{
    const qg_quant q = p->gradient_slot.q;
    if (!q.scheme || !q.scheme->code_gradient) return (qg__codes){ 0 };
    const qg_code_set s = q.scheme->codes(q);
    return (qg__codes){ s.lowest, s.step, s.count };
}

/* dx of a convolution is one of dy, with zeros between its pixels if the stride is not 1, and padded
 * so that dx has the size of x. */
static qg__product turned_of(const qg__product *p, qg__codes dy)
{
    const qg__geometry g = p->g;
    qg__product        t = { .groups = 1, .x = dy, .w = p->w, .x_bytes = true };
    t.g = (qg__geometry){ .h      = (g.oh - 1) * g.stride + 1,
                          .w      = (g.ow - 1) * g.stride + 1,
                          .c      = g.oc,
                          .oh     = g.h,
                          .ow     = g.w,
                          .oc     = g.c,
                          .kh     = g.kh,
                          .kw     = g.kw,
                          .stride = 1,
                          .top    = g.kh - 1 - g.top,
                          .left   = g.kw - 1 - g.left };
    return t;
}

static bool has_kernels(const qg__product *p) { return qg__product_fits(p) && qg__product_finishes(p); }

/* The products of dx and dw beside p, that of y; x is bytes in all of them.  A scale or zero point must
 * not depend on a channel that a sum runs over. */
static bool fits(const qg_product *layer, qg__product *p, qg__product *turned, qg__correlation *pair)
{
    const qg__codes dy = gradient_codes(layer);
    p->x_bytes = true;
    *turned    = turned_of(p, dy);
    *pair      = (qg__correlation){ p->g, p->x, dy };
    if (!dy.count || !p->x.count || !p->w.count || p->two_sided || p->zeros) return false;
    if (layer->weight_slot.q.per_channel || p->groups > 1 || p->pad != 0.0f) return false;
    if (qg__results(&p->g) == 1) return false;
    return turned->g.top >= 0 && turned->g.left >= 0 && qg__product_may_be_bytes(p) && has_kernels(p) &&
           has_kernels(turned) && qg__correlation_fits(pair);
}

bool qg_layer_trains_in_integers(qg_layer *l)
{
    const qg_product *p = qg_layer_product(l);
    qg__product       shape, turned;
    qg__correlation   pair;
    if (!p || !l->net->built) return false;
    if (!p->gradient_slot.q.scheme || !p->weight_slot.q.scheme || !qg__read_slot_in_training(p)) return false;
    if (qg__evaluation_scales(p) || qg_product_is_folded(p)) return false;
    qg__evaluation_shape(p, &shape);
    return fits(p, &shape, &turned, &pair);
}

/* --- forward ---------------------------------------------------------------------------------- */

typedef struct job {
    const integer *s;
    qg_isa         isa;
    qg_var        *y;
    const float   *a, *b;           /* factors of the product at hand */
    void          *packed;          /* its weights */
    char          *scratch;         /* [workers][bytes] */
    size_t         bytes;

    /* Backward: */
    qg__slices     at;
    float         *scale;           /* of dy of each image */
    size_t         code_bytes;      /* of dy in scratch */
    const qg__correlate_kernels *correlate;
    uint8_t       *xs, *dys;        /* packed images, each of so many bytes; NULL: no dw */
    size_t         x_bytes, dy_bytes;
    float         *acc;             /* [workers][LEVELS][unit_floats] */
    size_t         unit_floats;
    float         *dw;
    bool           adds;            /* to dw */
} job;

static char *scratch_of(const job *j, int worker) { return j->scratch + (size_t)worker * j->bytes; }

/* The images of a piece are computed at once, since kernels transform weights once for all of them. */
typedef struct images {
    int first, n;
} images;

static int images_at_once(const qg_var *y) { return (y->shape.n + QG_SLICES - 1) / QG_SLICES; }

static images images_of(const qg_var *y, int piece)
{
    const int each = images_at_once(y), first = piece * each, left = y->shape.n - first;
    return (images){ first, left < each ? left : each };
}

static void in_images(qg_piece run, job *j)
{
    const int each = images_at_once(j->y);
    qg_parallel((j->y->shape.n + each - 1) / each, run, j);
}

static void forward_piece(void *context, int piece, int worker)
{
    const job         *j       = context;
    const qg__product *p       = &j->s->e.p;
    const images       i       = images_of(j->y, piece);
    const size_t       pixels  = qg__pixels(&p->g), image = pixels * (size_t)p->g.c;
    const float       *x       = j->y->in[0]->data + (size_t)i.first * image;
    uint8_t           *codes   = j->s->x + (size_t)i.first * image;
    float             *results = j->y->data + (size_t)i.first * qg_row(j->y->shape);
    const qg__finish   finish  = { .a = j->a, .b = j->b };
    const bool         finite  = QG_KERNELS_OF(j->isa, qg__float_kernels)->are_finite((size_t)i.n * image, x);
    (void)qg__evaluation_code(j->isa, &j->s->e, (size_t)i.n * pixels, x, codes);
    qg__product_run_finished(j->isa, p, i.n, codes, j->packed, &finish, results, scratch_of(j, worker));
    /* A NaN has the lowest code, but must reach the loss. */
    if (!finite)
        for (size_t k = 0; k < (size_t)i.n * qg_row(j->y->shape); k++) results[k] = NAN;
    for (int k = i.first; k < i.first + i.n; k++) qg__gather_sums(QG_KERNELS(qg__norm_kernels), j->y, k);
}

static bool multiply(qg_tape *t, qg_var *y)
{
    const integer     *s = y->saved;
    const qg__product *p = &s->e.p;
    job j = { .s = s, .isa = qg__infer_isa(), .y = y, .a = s->e.k.a, .b = s->e.k.b };
    j.packed  = qg_scratch(t, qg__product_weight_bytes(j.isa, p));
    j.bytes   = qg__lines_of(qg__product_scratch_bytes(j.isa, p, images_at_once(y)));
    j.scratch = qg_scratch(t, (size_t)qg_threads() * j.bytes);
    if (!j.packed || !j.scratch) return false;
    qg__evaluation_pack(j.isa, &s->e, j.packed);
    in_images(forward_piece, &j);
    return true;
}

/* --- the gradient of x -------------------------------------------------------------------------- */

/* The kernel of input channel k, turned by half a turn, with the outputs innermost. */
static void turn_kernel(const integer *s, int k, float *row)
{
    const qg__geometry *g    = &s->e.p.g;
    const int           taps = g->kh * g->kw;
    for (int tap = taps - 1; tap >= 0; tap--)
        for (int o = 0; o < g->oc; o++)
            *row++ = s->e.w[((size_t)o * (size_t)taps + (size_t)tap) * (size_t)g->c + (size_t)k];
}

static void pack_turned_piece(void *context, int piece, int worker)
{
    const job *j   = context;
    float     *row = (float *)(void *)scratch_of(j, worker);
    const int  unit = qg__product_pack_unit(&j->s->turned), end = (piece + 1) * unit;
    for (int k = piece * unit; k < end && k < j->s->turned.g.oc; k++) {
        turn_kernel(j->s, k, row);
        qg__product_pack(j->isa, &j->s->turned, k, row, j->packed);
    }
}

/* dy of an image with zeros between its pixels. */
static void dilate(const integer *s, const uint8_t *dy, uint8_t *to)
{
    const qg__geometry *g = &s->turned.g, *of = &s->e.p.g;
    const size_t        c = (size_t)g->c;
    memset(to, -s->pair.dy.lowest, qg__pixels(g) * c);
    for (int r = 0; r < of->oh; r++)
        for (int q = 0; q < of->ow; q++, dy += c)
            memcpy(to + (size_t)((r * g->w + q) * of->stride) * c, dy, c);
}

static void scale_image(const job *j, int i, const float *from)
{
    const qg_var *x     = j->y->in[0];
    const size_t  row   = qg_row(x->shape);
    const float   scale = j->scale[i];
    float        *dx    = x->grad + (size_t)i * row;
    if (x->fresh)
        for (size_t k = 0; k < row; k++) dx[k] = from[k] * scale;
    else
        for (size_t k = 0; k < row; k++) dx[k] += from[k] * scale;
}

/* scratch: dx of these images if there is one already, their dilated dy, what the product needs. */
static void input_gradient(const job *j, images i, const uint8_t *dy, char *scratch)
{
    const integer   *s       = j->s;
    const qg_var    *x       = j->y->in[0];
    const size_t     row     = qg_row(x->shape), results = qg_row(j->y->shape);
    const size_t     dilated = qg__pixels(&s->turned.g) * (size_t)s->turned.g.c;
    const qg__finish finish  = { .a = j->a, .b = j->b };
    float *products = x->fresh ? x->grad + (size_t)i.first * row : (float *)(void *)scratch;
    scratch += qg__lines_of((size_t)i.n * row * sizeof *products);
    if (dilated > results) {
        uint8_t *to = (uint8_t *)scratch;
        for (int k = 0; k < i.n; k++) dilate(s, dy + (size_t)k * results, to + (size_t)k * dilated);
        dy       = to;
        scratch += qg__lines_of((size_t)i.n * dilated);
    }
    qg__product_run_finished(j->isa, &s->turned, i.n, dy, j->packed, &finish, products, scratch);
    for (int k = 0; k < i.n; k++) scale_image(j, i.first + k, products + (size_t)k * row);
}

/* dy as floats, for the gradient of a bias. */
static void decode(const job *j, int i, const uint8_t *codes)
{
    const size_t row = qg_row(j->y->shape);
    float       *dy  = j->y->grad + (size_t)i * row;
    for (size_t k = 0; k < row; k++) dy[k] = j->scale[i] * (float)(codes[k] + j->s->pair.dy.lowest);
}

/* Codes of dy, packed for dw, and dx. */
static void gradients_piece(void *context, int piece, int worker)
{
    const job     *j       = context;
    const integer *s       = j->s;
    const images   i       = images_of(j->y, piece);
    const size_t   results = qg_row(j->y->shape), image = qg_row(j->y->in[0]->shape);
    uint8_t       *codes   = (uint8_t *)scratch_of(j, worker);
    char          *rest    = (char *)codes + j->code_bytes;
    for (int k = i.first; k < i.first + i.n; k++) {
        uint8_t *own = codes + (size_t)(k - i.first) * results;
        j->scale[k]  = s->coder.q.scheme->code_gradient(&s->coder, k, own);
        if (j->dys) {
            j->correlate->pack_dy(&s->pair, own, j->dys + (size_t)k * j->dy_bytes);
            j->correlate->pack_x(&s->pair, s->x + (size_t)k * image, (uint8_t *)rest,
                                 j->xs + (size_t)k * j->x_bytes);
        }
        if (j->y->in[2]) decode(j, k, own);
    }
    if (j->packed) input_gradient(j, i, codes, rest);
}

/* --- the gradient of w -------------------------------------------------------------------------- */

enum { LEVELS = 5 };        /* of a tree of QG_SLICES slices */
_Static_assert(QG_SLICES <= 1 << (LEVELS - 1), "a sum waits at each level");

/* The sum of a unit over count slices, a power of two; what follows acc is for sums that wait. */
static void sum_slices(const job *j, int unit, int slice, int count, float *acc)
{
    const size_t n = j->unit_floats;
    if (count > 1) {
        sum_slices(j, unit, slice, count / 2, acc);
        sum_slices(j, unit, slice + count / 2, count / 2, acc + n);
        for (size_t k = 0; k < n; k++) acc[k] += acc[n + k];
        return;
    }
    memset(acc, 0, n * sizeof *acc);
    for (int i = qg__slice_first(j->at, slice), end = qg__slice_first(j->at, slice + 1); i < end; i++)
        j->correlate->add(&j->s->pair, unit, j->xs + (size_t)i * j->x_bytes, j->dys + (size_t)i * j->dy_bytes,
                          j->s->e.x_scale * j->scale[i], acc);
}

static void unit_piece(void *context, int unit, int worker)
{
    const job *j   = context;
    float     *acc = j->acc + (size_t)worker * LEVELS * j->unit_floats;
    sum_slices(j, unit, j->at.from, j->at.to - j->at.from, acc);
    j->correlate->unpack(&j->s->pair, unit, acc, j->adds, j->dw);
}

static void add_weight(qg_tape *t, qg_var *y, float *sum)
{
    float *dw = y->in[1]->grad;
    for (size_t k = 0, n = qg_count(y->in[1]->shape); k < n; k++) dw[k] += sum[k];
}

static bool weight_gradient(qg_tape *t, job *j)
{
    enum { LINE = 16 };     /* floats */
    qg_var      *w = j->y->in[1];
    const size_t n = qg_count(w->shape);
    j->unit_floats = (j->correlate->unit_floats(&j->s->pair) + LINE - 1) / LINE * LINE;
    j->acc         = qg_scratch(t, (size_t)qg_threads() * LEVELS * j->unit_floats * sizeof *j->acc);
    j->dw          = j->at.shared ? qg__reduce_room(t, j->y, j->at, n) : w->grad;
    j->adds        = !j->at.shared && !w->fresh;
    if (!j->acc || !j->dw) return false;
    if (j->at.shared && w->fresh) memset(w->grad, 0, n * sizeof *w->grad);
    w->fresh = false;
    qg_parallel(j->correlate->units(&j->s->pair), unit_piece, j);
    return !j->at.shared || qg__reduce(t, j->y, j->at, j->dw, n, add_weight);
}

/* --- backward ------------------------------------------------------------------------------------ */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Memory of gradients_piece, and of pack_turned_piece before it. */
static bool take_scratch(qg_tape *t, job *j)
{
    const integer *s    = j->s;
    const qg_var  *x    = j->y->in[0], *w = j->y->in[1];
    const size_t   n    = (size_t)j->y->shape.n, each = (size_t)images_at_once(j->y);
    size_t         rest = 0;
    j->code_bytes = qg__lines_of(each * qg_row(j->y->shape));
    j->scale      = qg_scratch(t, n * sizeof *j->scale);
    if (w->grad) {
        j->x_bytes  = qg__lines_of(j->correlate->x_bytes(&s->pair));
        j->dy_bytes = qg__lines_of(j->correlate->dy_bytes(&s->pair));
        j->xs       = qg_scratch(t, n * j->x_bytes);
        j->dys      = qg_scratch(t, n * j->dy_bytes);
        rest        = j->correlate->frame_bytes(&s->pair);
        if (!j->xs || !j->dys) return false;
    }
    if (x->grad) {
        const qg__geometry *g = &s->turned.g;
        j->packed = qg_scratch(t, qg__product_weight_bytes(j->isa, &s->turned));
        rest      = larger(rest, qg__row(g) * sizeof(float));
        rest      = larger(rest, qg__lines_of(each * qg_row(x->shape) * sizeof(float)) +
                                     qg__lines_of(each * qg__pixels(g) * (size_t)g->c) +
                                     qg__product_scratch_bytes(j->isa, &s->turned, (int)each));
        if (!j->packed) return false;
    }
    j->bytes   = j->code_bytes + qg__lines_of(rest);
    j->scratch = qg_scratch(t, (size_t)qg_threads() * j->bytes);
    return j->scale && j->scratch;
}

/* The factors of dx, [c] each. */
static bool take_factors(qg_tape *t, job *j)
{
    const size_t c = (size_t)j->s->turned.g.oc;
    float       *a = qg_scratch(t, 2 * c * sizeof *a);
    for (size_t k = 0; a && k < c; k++) a[k] = j->s->e.w_scale[0], a[c + k] = 0.0f;
    j->a = a, j->b = a + c;
    return a;
}

static bool copy_gradient(qg_tape *t, qg_var *y)
{
    const size_t bytes = qg_count(y->shape) * sizeof *y->grad;
    float       *copy  = qg_scratch(t, bytes);
    if (copy) y->grad = memcpy(copy, y->grad, bytes);
    return copy;
}

static void integer_backward(qg_tape *t, qg_var *y)
{
    integer         *s  = y->saved;
    const qg_scheme *dy = s->coder.q.scheme;
    const qg_var    *x  = y->in[0], *w = y->in[1], *b = y->in[2];
    job              j  = { .s = s, .isa = qg__infer_isa(), .y = y, .at = qg__slices_of(y),
                            .correlate = QG_INFER_KERNELS(qg__correlate_kernels) };
    if (dy->measure_gradient && !dy->measure_gradient(t, &s->coder)) return;
    if (!take_factors(t, &j) || !take_scratch(t, &j)) return;
    const int unit = qg__product_pack_unit(&s->turned);
    if (x->grad) qg_parallel((s->turned.g.oc + unit - 1) / unit, pack_turned_piece, &j);
    float *const retained = b && qg__tape_walk(t)->retained ? y->grad : NULL;      /* decode writes to a copy */
    if (retained && !copy_gradient(t, y)) return;
    in_images(gradients_piece, &j);
    const bool summed = !b || !b->grad || qg__bias_gradient(t, y);
    if (retained) y->grad = retained;
    if (summed && w->grad) (void)weight_gradient(t, &j);
}

static const qg_op integer_op = { .name = "conv2d_int", .backward = integer_backward, .assigns = true };

/* --- on the tape --------------------------------------------------------------------------------- */

/* Of a layer that runs alone, nobody knows what comes before it. */
static const qg_slot *slot_of(const qg_step *s)
{
    const qg_product *p = (const qg_product *)s->layer;
    if (s->result) return qg__read_slot_in_training(p);
    return p->input_slot.q.scheme ? &p->input_slot : NULL;
}

static qg_var *record(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, bool summed, integer s)
{
    const qg__geometry *g     = &s.e.p.g;
    const qg_shape      shape = { x->shape.n, g->oh, g->ow, g->oc };
    qg_var  *y   = qg_record(t, &integer_op, shape, x, w, b);
    integer *own = y ? qg__save_with_sums(t, y, sizeof *own, summed) : NULL;
    s.x = own ? qg__tape_take(t, qg_count(x->shape)) : NULL;
    if (!s.x) return NULL;
    s.sums    = own->sums;
    s.coder.y = y;
    *own      = s;
    y->flops  = 2.0 * (double)qg_count(shape) * (double)qg_row(w->shape);
    y->marks |= QG__IS_PRODUCT;
    if (!multiply(t, y)) return NULL;
    own->coder.key = qg_tape_key(t);
    return y;
}

/* Some schemes draw the codes of a step, so they are taken from the quantized weight w, a multiple of its
 * scale up to roundings. */
static void take_codes(const qg_var *w, float scale, float *codes)
{
    for (size_t k = 0, n = qg_count(w->shape); k < n && scale > 0.0f; k++) codes[k] = rintf(w->data[k] / scale);
}

qg_var *qg__integer_conv2d(const qg_step *step, qg_tape *t, qg_var *x, qg_var *w, qg_var *b, bool summed,
                           bool *taken)
{
    const qg_product *p      = (const qg_product *)step->layer;
    integer           s      = { .coder = { .q = p->gradient_slot.q } };
    float            *memory = qg__tape_take(t, qg__evaluation_floats(p) * sizeof *memory);
    *taken = true;
    if (!x || !w || !memory || !qg__conv2d_shape(t, x, w, b, p->conv).n) return NULL;
    const qg_status failed = qg__evaluation_in_training(p, slot_of(step), qg_tape_step(t), x->shape, memory,
                                                        &s.e);
    if (failed) return qg_reject(t, failed, "%s", qg_errmsg());
    *taken = !qg__quant_is_delayed(p->gradient_slot.q, qg_tape_step(t)) &&
             fits(p, &s.e.p, &s.turned, &s.pair);
    if (!*taken) return NULL;
    take_codes(w, s.e.w_scale[0], memory + (s.e.w - memory));
    return record(t, x, w, b, summed, s);
}
