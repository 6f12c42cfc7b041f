/* y = x * w + b.  The passes over images, groups and slices are in core/ops/conv_pass.c, those of one channel per group in
 * depthwise.c; conv_summed.c has what a norm after it reads. */
#include "core/kernels/parallel.h"
#include "core/ops/conv2d.h"
#include "core/slices.h"
#include "core/walk.h"

/* --- what fits ---------------------------------------------------------------------------- */

static bool valid(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec s)
{
    const long long rows    = x->shape.h + 2LL * s.pad_h + s.extra_h;
    const long long columns = x->shape.w + 2LL * s.pad_w + s.extra_w;
    if (s.stride < 1 || s.pad_h < 0 || s.pad_w < 0)
        return qg_reject(t, QG_EARG, "conv2d: stride %d must be at least 1, padding %d and %d at least 0",
                         s.stride, s.pad_h, s.pad_w);
    if (s.groups < 1 || s.extra_h < 0 || s.extra_w < 0)
        return qg_reject(t, QG_EARG, "conv2d: groups %d must be at least 1, extra padding %d and %d at least 0",
                         s.groups, s.extra_h, s.extra_w);
    if (s.groups == 1 && x->shape.c != w->shape.c)
        return qg_reject(t, QG_ESHAPE,
                         "conv2d: x " QG_SHAPE_FMT " has %d channel%s, w " QG_SHAPE_FMT " reads %d",
                         QG_SHAPE_ARGS(x->shape), x->shape.c, x->shape.c == 1 ? "" : "s", QG_SHAPE_ARGS(w->shape),
                         w->shape.c);
    if (x->shape.c != (long long)w->shape.c * s.groups)
        return qg_reject(t, QG_ESHAPE,
                         "conv2d: x " QG_SHAPE_FMT " has %d channel%s, w " QG_SHAPE_FMT " reads %d in each of %d groups",
                         QG_SHAPE_ARGS(x->shape), x->shape.c, x->shape.c == 1 ? "" : "s", QG_SHAPE_ARGS(w->shape),
                         w->shape.c, s.groups);
    if (w->shape.n % s.groups != 0)
        return qg_reject(t, QG_ESHAPE, "conv2d: w " QG_SHAPE_FMT " has %d outputs, which %d groups do not divide",
                         QG_SHAPE_ARGS(w->shape), w->shape.n, s.groups);
    if (!qg__row_fits(rows, columns, x->shape.c))
        return qg_reject(t, QG_ESHAPE, "conv2d: x " QG_SHAPE_FMT " padded by %d and %d is too large",
                         QG_SHAPE_ARGS(x->shape), s.pad_h, s.pad_w);
    if (rows < w->shape.h || columns < w->shape.w)
        return qg_reject(t, QG_ESHAPE,
                         "conv2d: x " QG_SHAPE_FMT " padded by %d and %d is smaller than the kernel of w " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(x->shape), s.pad_h, s.pad_w, QG_SHAPE_ARGS(w->shape));
    if (b && qg_count(b->shape) != (size_t)w->shape.n)
        return qg_reject(t, QG_ESHAPE, "conv2d: w " QG_SHAPE_FMT " has %d outputs, b is " QG_SHAPE_FMT,
                         QG_SHAPE_ARGS(w->shape), w->shape.n, QG_SHAPE_ARGS(b->shape));
    return true;
}

/* Of one group, x padded. */
static qg__conv geometry(const qg_var *x, const qg_var *w, qg_conv_spec s)
{
    qg__conv g = { .h = x->shape.h + 2 * s.pad_h + s.extra_h, .w = x->shape.w + 2 * s.pad_w + s.extra_w,
                   .c = w->shape.c, .oc = w->shape.n / s.groups,
                   .kh = w->shape.h, .kw = w->shape.w, .stride = s.stride };
    g.oh = (g.h - g.kh) / s.stride + 1;
    g.ow = (g.w - g.kw) / s.stride + 1;
    return g;
}

/* The shape of the result, and spec with 1 where 0 stands for it.  n 0: the step has failed. */
static qg_shape fit(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec *spec)
{
    if (spec->stride == 0) spec->stride = 1;
    if (spec->groups == 0) spec->groups = 1;
    if (!valid(t, x, w, b, *spec)) return (qg_shape){ 0 };
    const qg__conv g = geometry(x, w, *spec);
    return (qg_shape){ x->shape.n, g.oh, g.ow, w->shape.n };
}

qg_shape qg__conv2d_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec spec)
{
    return fit(t, x, w, b, &spec);
}

/* --- gradients ---------------------------------------------------------------------------- */

typedef struct bias_sums {
    const qg_var *y;
    double       *part;     /* [n][oc], from the first image that is here */
} bias_sums;

static void bias_piece(void *context, int i, int worker)
{
    const bias_sums *s  = context;
    const size_t     oc = (size_t)s->y->shape.c, row = qg_row(s->y->shape);
    const float     *dy = s->y->grad + (size_t)i * row;
    double          *sum = s->part + (size_t)i * oc;
    for (size_t k = 0; k < oc; k++) sum[k] = 0;
    for (size_t p = 0; p < row; p += oc)
        for (size_t k = 0; k < oc; k++) sum[k] += (double)dy[p + k];
}

bool qg__bias_gradient(qg_tape *t, const qg_var *y)
{
    qg_var          *b  = y->in[2];
    const qg__slices at = qg__slices_of(y);
    const size_t     oc = (size_t)y->shape.c, n = (size_t)at.n;
    double          *part = qg_scratch(t, n * oc * sizeof *part);
    if (!part) return false;
    qg_parallel(y->shape.n, bias_piece, &(bias_sums){ y, part + (size_t)at.first * oc });
    if (!qg__images_gather(t, at, part, oc * sizeof *part)) return false;
    for (size_t k = 0; k < oc; k++) {
        double sum = b->fresh ? 0.0 : (double)b->grad[k];
        for (size_t i = 0; i < n; i++) sum += part[i * oc + k];
        b->grad[k] = (float)sum;
    }
    b->fresh = false;
    return true;
}

/* y[n,i,j,o] = b[o] + sum over p,q,k of w[o,p,q,k] x[n, i stride + p - pad_h, j stride + q - pad_w, k]
 *     db[o]       = sum over n,i,j of dy[n,i,j,o]
 *     dw[o,p,q,k] = sum over n,i,j of dy[n,i,j,o] x[n, i stride + p - pad_h, j stride + q - pad_w, k]
 *     dx[n,u,v,k] = sum over o and all p,q,i,j that read it of w[o,p,q,k] dy[n,i,j,o] */
static void conv2d_backward(qg_tape *t, qg_var *y)
{
    const qg_var *b = y->in[2];
    if (b && b->grad && !qg__bias_gradient(t, y)) return;
    qg__conv_gradients(t, y);
}

static const qg_op conv2d_op = { .name = "conv2d", .backward = conv2d_backward, .assigns = true };

/* --- record ------------------------------------------------------------------------------- */

static qg_var *conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, qg_shape shape,
                      bool summed)
{
    qg_var *y = qg_record(t, &conv2d_op, shape, x, w, b);
    if (!y) return NULL;
    y->marks |= QG__IS_PRODUCT;
    qg__convolution *c = qg__save_with_sums(t, y, sizeof *c, summed);
    if (!c) return NULL;
    const qg__conv g      = geometry(x, w, spec);
    const bool     framed = spec.pad_h || spec.pad_w || spec.extra_h || spec.extra_w;
    *c = (qg__convolution){ .sums   = c->sums,
                            .spec   = spec,
                            .g      = g,
                            .image  = framed ? (size_t)(g.h * g.w * g.c) : 0,
                            .mirror = spec.stride == 1 && g.oh == x->shape.h && g.ow == x->shape.w };
    const bool winograd = c->mirror && qg__winograd_fits(&g);
    c->k = winograd ? QG_KERNELS(qg__winograd_kernels) : QG_KERNELS(qg__conv_kernels);
    return qg__conv_value(t, y) ? y : NULL;
}

qg_var *qg__conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec, bool summed)
{
    if (!x || !w) return NULL;
    const qg_shape shape = fit(t, x, w, b, &spec);
    if (!shape.n) return NULL;
    const bool depthwise = spec.groups > 1 && spec.groups == x->shape.c;
    qg_var    *y         = (depthwise ? qg__depthwise_conv2d : conv2d)(t, x, w, b, spec, shape, summed);
    if (y) y->flops = 2.0 * (double)qg_count(y->shape) * (double)qg_row(w->shape);
    return y;
}

qg_var *qg_conv2d(qg_tape *t, qg_var *x, qg_var *w, qg_var *b, qg_conv_spec spec)
{
    return qg__conv2d(t, x, w, b, spec, false);
}
