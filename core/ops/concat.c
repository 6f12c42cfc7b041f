/* Parts of tensors: channels one after the other, and a box cut out.  Both copy between a tensor and a box in it. */
#include <limits.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

/* part[n,i,j,k] is whole[n + at.n, i + at.h, j + at.w, k + at.c]. */
typedef struct job {
    qg_shape part, whole, at;
    float   *to;
    const float *from;
    bool     cut;           /* from whole to part, else from part to whole */
    bool     add;           /* to what is there */
} job;

static void copy_image(void *context, int image, int worker)
{
    const job     *j = context;
    const qg_shape p = j->part, w = j->whole;
    const size_t   c = (size_t)p.c;
    size_t         in_part = (size_t)image * qg_row(p);
    for (int h = 0; h < p.h; h++)
        for (int i = 0; i < p.w; i++, in_part += c) {
            const size_t in_whole = ((((size_t)(image + j->at.n) * (size_t)w.h + (size_t)(h + j->at.h)) * (size_t)w.w +
                                      (size_t)(i + j->at.w)) * (size_t)w.c + (size_t)j->at.c);
            float       *to       = j->to + (j->cut ? in_part : in_whole);
            const float *from     = j->from + (j->cut ? in_whole : in_part);
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
            copy((job){ .part = x->shape, .whole = y->shape, .at = at, .to = x->grad, .from = y->grad, .cut = true,
                        .add = add });
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
        copy((job){ .part = x[i]->shape, .whole = s, .at = at, .to = y->data, .from = x[i]->data });
    return y;
}

/* --- slice -------------------------------------------------------------------------------- */

/* y = the box of x at `at`:  dx = dy there, 0 elsewhere. */
static void slice_backward(qg_tape *t, qg_var *y)
{
    const qg_var *x = y->in[0];
    copy((job){ .part = y->shape, .whole = x->shape, .at = *(const qg_shape *)y->saved, .to = x->grad, .from = y->grad,
                .add = true });
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
    copy((job){ .part = y, .whole = s, .at = at, .to = v->data, .from = x->data, .cut = true });
    if (!v->needs_grad) return v;
    qg_shape *saved = qg_save(t, v, sizeof *saved);
    if (!saved) return NULL;
    *saved = at;
    return v;
}
