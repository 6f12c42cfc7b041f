/* What fits qg_conv2d, and the shape of its result. */
#include "core/ops/conv2d.h"

/* 0 stands for 1. */
static qg_conv_spec completed(qg_conv_spec s)
{
    if (s.stride == 0) s.stride = 1;
    if (s.groups == 0) s.groups = 1;
    return s;
}

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
    const long long rows    = x->shape.h + 2LL * s.pad_h + s.extra_h;
    const long long columns = x->shape.w + 2LL * s.pad_w + s.extra_w;
    if (!valid_spec(t, s)) return false;
    if (s.groups == 1 && x->shape.c != w->shape.c)
        qg_reject(t, QG_ESHAPE,
                  "conv2d: x " QG_SHAPE_FMT " has %d channel%s, w " QG_SHAPE_FMT " reads %d",
                  QG_SHAPE_ARGS(x->shape), x->shape.c, x->shape.c == 1 ? "" : "s", QG_SHAPE_ARGS(w->shape),
                  w->shape.c);
    else if (x->shape.c != (long long)w->shape.c * s.groups)
        qg_reject(t, QG_ESHAPE,
                  "conv2d: x " QG_SHAPE_FMT " has %d channel%s, w " QG_SHAPE_FMT " reads %d in each of %d groups",
                  QG_SHAPE_ARGS(x->shape), x->shape.c, x->shape.c == 1 ? "" : "s", QG_SHAPE_ARGS(w->shape),
                  w->shape.c, s.groups);
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

qg__conv qg__conv_geometry(const qg_var *x, const qg_var *w, qg_conv_spec s)
{
    qg__conv g = { .h = x->shape.h + 2 * s.pad_h + s.extra_h, .w = x->shape.w + 2 * s.pad_w + s.extra_w,
                   .c = w->shape.c, .oc = w->shape.n / s.groups,
                   .kh = w->shape.h, .kw = w->shape.w, .stride = s.stride };
    g.oh = (g.h - g.kh) / s.stride + 1;
    g.ow = (g.w - g.kw) / s.stride + 1;
    return g;
}

qg_shape qg__conv_fit(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec *spec)
{
    *spec = completed(*spec);
    if (!valid(t, x, w, b, *spec)) return (qg_shape){ 0 };
    const qg__conv g = qg__conv_geometry(x, w, *spec);
    return (qg_shape){ x->shape.n, g.oh, g.ow, w->shape.n };
}

qg_shape qg__conv2d_shape(qg_tape *t, const qg_var *x, const qg_var *w, const qg_var *b, qg_conv_spec spec)
{
    return qg__conv_fit(t, x, w, b, &spec);
}
