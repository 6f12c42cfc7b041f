/* Parts of tensors: channels one after the other, a box cut out, and pixels apart with more channels.  All copy
 * between a tensor and a box in it. */
#include <limits.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

/* part[n,i,j,k] is data[at.n + n, at.h + i stride, at.w + j stride, at.c + k] of a tensor of this shape. */
typedef struct side {
    float   *data;
    qg_shape shape, at;
    int      stride;
} side;

typedef struct job {
    qg_shape part;
    side     to, from;
    bool     add;           /* to what is there */
    bool     clear;         /* the rest of `to` becomes 0 */
} job;

static side all_of(qg_shape shape, float *data) { return (side){ data, shape, { 0 }, 1 }; }

static float *pixel(const side *s, int image, int h, int w)
{
    const size_t i = (size_t)(h * s->stride + s->at.h), j = (size_t)(w * s->stride + s->at.w);
    return s->data + (size_t)(image + s->at.n) * qg_row(s->shape) +
           (i * (size_t)s->shape.w + j) * (size_t)s->shape.c + s->at.c;
}

static void copy_image(void *context, int image, int worker)
{
    const job   *j = context;
    const size_t c = (size_t)j->part.c, row = qg_row(j->to.shape);
    if (j->clear) memset(j->to.data + (size_t)image * row, 0, row * sizeof(float));
    for (int h = 0; h < j->part.h; h++)
        for (int i = 0; i < j->part.w; i++) {
            float       *to   = pixel(&j->to, image, h, i);
            const float *from = pixel(&j->from, image, h, i);
            if (!j->add) memcpy(to, from, c * sizeof *to);
            else
                for (size_t k = 0; k < c; k++) to[k] += from[k];
        }
}

static void copy(job j) { qg_parallel(j.part.n, copy_image, &j); }

/* --- concat ------------------------------------------------------------------------------- */

/* y = x1, x2, .. along the channels:  dx1 = the first channels of dy, .. */
static void concat_backward(qg_tape *t, qg_var *y)
{
    qg_shape at = { 0 };
    for (int i = 0; i < QG_OPERANDS && y->in[i]; i++) {
        const qg_var *x   = y->in[i];
        bool          add = !x->fresh;
        for (int k = 0; k < i; k++) add = add || y->in[k] == x;     /* one var may be several operands */
        if (x->grad)
            copy((job){ x->shape, all_of(x->shape, x->grad), { y->grad, y->shape, at, 1 }, .add = add });
        at.c += x->shape.c;
    }
}

static const qg_op concat = { "concat", concat_backward, .assigns = true };

qg_var *qg_concat(qg_tape *t, int count, qg_var *const *x)
{
    if (count < 1 || count > QG_OPERANDS)
        return qg_reject(t, QG_EARG, "concat: %d operands, must be 1..%d", count, QG_OPERANDS);
    if (!x) return qg__reject_null(t, "concat");
    for (int i = 0; i < count; i++)
        if (!x[i]) return NULL;
    qg_shape  s = x[0]->shape;
    long long c = s.c;
    for (int i = 1; i < count; i++) {
        const qg_shape z = x[i]->shape;
        if (z.n != s.n || z.h != s.h || z.w != s.w)
            return qg_reject(t, QG_ESHAPE, "concat: operands " QG_SHAPE_FMT " and " QG_SHAPE_FMT " differ in more than "
                             "channels", QG_SHAPE_ARGS(s), QG_SHAPE_ARGS(z));
        c += z.c;
    }
    if (c > INT_MAX)
        return qg_reject(t, QG_ESHAPE, "concat: %lld channels, more than %d, x " QG_SHAPE_FMT, c, INT_MAX,
                         QG_SHAPE_ARGS(s));
    s.c       = (int)c;
    qg_var *y = qg_record(t, &concat, s, x[0], count > 1 ? x[1] : NULL, count > 2 ? x[2] : NULL);
    for (int i = 3; y && i < count; i++)
        if (!qg_add_operand(y, i, x[i])) return NULL;
    qg_shape at = { 0 };
    for (int i = 0; y && i < count; at.c += x[i++]->shape.c)
        copy((job){ x[i]->shape, { y->data, s, at, 1 }, all_of(x[i]->shape, x[i]->data) });
    return y;
}

/* --- slice -------------------------------------------------------------------------------- */

/* y = the box of x at `at`:  dx = dy there, 0 elsewhere. */
static void slice_backward(qg_tape *t, qg_var *y)
{
    const qg_var   *x  = y->in[0];
    const qg_shape *at = y->saved;
    copy((job){ y->shape, { x->grad, x->shape, *at, 1 }, all_of(y->shape, y->grad), .add = true });
}

static const qg_op slice = { "slice", slice_backward, .assigns = false };

/* Replaces a size of 0 by the rest; false: not within n. */
static bool within(int at, int *size, int n)
{
    if (at < 0 || at >= n) return false;
    if (*size == 0) *size = n - at;
    return *size > 0 && *size <= n - at;
}

qg_var *qg_slice(qg_tape *t, qg_var *x, qg_shape at, qg_shape size)
{
    if (!x) return NULL;
    const qg_shape s = x->shape;
    qg_shape       y = size;
    if (!within(at.n, &y.n, s.n) || !within(at.h, &y.h, s.h) || !within(at.w, &y.w, s.w) || !within(at.c, &y.c, s.c))
        return qg_reject(t, QG_ESHAPE, "slice: " QG_SHAPE_FMT " at " QG_SHAPE_FMT " is not within x " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(size), QG_SHAPE_ARGS(at), QG_SHAPE_ARGS(s));
    if (qg__slices_of(x).shared && y.n != s.n)
        return qg_reject(t, QG_EARG, "slice: ranks share the images of x " QG_SHAPE_FMT ", so none can be cut off", QG_SHAPE_ARGS(s));
    qg_var *v = qg_record(t, &slice, y, x, NULL, NULL);
    if (!v) return NULL;
    copy((job){ y, all_of(y, v->data), { x->data, s, at, 1 } });
    if (!v->needs_grad) return v;
    qg_shape *saved = qg_save(t, v, sizeof *saved);
    if (!saved) return NULL;
    *saved = at;
    return v;
}

/* --- shortcut ----------------------------------------------------------------------------- */

/* Where channel 0 of x is in y. */
static qg_shape first_of(qg_shape x, qg_shape y) { return (qg_shape){ .c = (y.c - x.c) / 2 }; }

/* y[i,j,first + k] = x[i stride, j stride, k]:  dx[i stride, j stride, k] += dy[i,j,first + k] */
static void shortcut_backward(qg_tape *t, qg_var *y)
{
    const qg_var  *x = y->in[0];
    const int     *stride = y->saved;
    const qg_shape part = { y->shape.n, y->shape.h, y->shape.w, x->shape.c };
    if (!x->grad) return;
    copy((job){ part, { x->grad, x->shape, { 0 }, *stride },
                { y->grad, y->shape, first_of(x->shape, y->shape), 1 }, .add = true });
}

static const qg_op shortcut = { .name = "shortcut", .backward = shortcut_backward };

qg_var *qg_shortcut(qg_tape *t, qg_var *x, int stride, int channels)
{
    if (!x) return NULL;
    const qg_shape s = x->shape;
    if (stride < 1 || channels < s.c)
        return qg_reject(t, QG_EARG, "shortcut: stride %d must be at least 1 and channels %d at least those of x " QG_SHAPE_FMT,
                         stride, channels, QG_SHAPE_ARGS(s));
    const qg_shape shape = { s.n, (s.h - 1) / stride + 1, (s.w - 1) / stride + 1, channels };
    const qg_shape part  = { shape.n, shape.h, shape.w, s.c };
    qg_var        *y     = qg_record(t, &shortcut, shape, x, NULL, NULL);
    int           *saved = y ? qg_save(t, y, sizeof *saved) : NULL;
    if (!saved) return NULL;
    *saved = stride;
    copy((job){ part, { y->data, shape, first_of(s, shape), 1 }, { x->data, s, { 0 }, stride },
                .clear = true });
    return y;
}
