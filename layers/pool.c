#include <stdio.h>

#include "layers/plan.h"

typedef struct pool {
    qg_layer       layer;
    qg_pool2d_spec spec;
} pool;

static qg_status build(qg_net *net, qg_layer *l)
{
    (void)net;
    const qg_pool2d_spec s = ((pool *)l)->spec;
    if (s.size < 1) return qg_fail(QG_EARG, "%s: size is %d, must be at least 1", l->name, s.size);
    if (s.stride < 1 || s.pad < 0 || s.pad >= s.size)
        return qg_fail(QG_EARG, "%s: stride %d must be at least 1 and pad %d in 0..%d, less than the size", l->name, s.stride,
                       s.pad, s.size - 1);
    if (!qg__row_fits(l->in.h + 2LL * s.pad, l->in.w + 2LL * s.pad, l->in.c))
        return qg_fail(QG_ESHAPE, "%s: its input " QG_SHAPE_FMT " padded by %d is too large", l->name, QG_SHAPE_ARGS(l->in),
                       s.pad);
    const int h = l->in.h + 2 * s.pad, w = l->in.w + 2 * s.pad;
    if (h < s.size || w < s.size)
        return qg_fail(QG_ESHAPE, "%s: input " QG_SHAPE_FMT " padded by %d is smaller than its %dx%d window", l->name,
                       QG_SHAPE_ARGS(l->in), s.pad, s.size, s.size);
    l->out = (qg_shape){ 1, (h - s.size) / s.stride + 1, (w - s.size) / s.stride + 1, l->in.c };
    return QG_OK;
}

static qg_status build_global(qg_net *net, qg_layer *l)
{
    (void)net;
    l->out = (qg_shape){ 1, 1, 1, l->in.c };
    return QG_OK;
}

static qg_pool_spec spec_of(const qg_layer *l)
{
    const qg_pool2d_spec s = ((const pool *)l)->spec;
    return (qg_pool_spec){ .size = s.size, .stride = s.stride, .pad = s.pad, .exclude_pad = s.exclude_pad };
}

static qg_var *forward_max(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    return qg_maxpool_with(t, x, spec_of(l));
}

static qg_var *forward_avg(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    return qg_avgpool_with(t, x, spec_of(l));
}

static qg_var *forward_global(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)l, (void)z;
    return qg_global_avgpool(t, x);
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    const qg_pool2d_spec s = ((const pool *)l)->spec;
    int at = snprintf(text, bytes, "%dx%d", s.size, s.size);
    if (s.stride != s.size) at += snprintf(text + at, bytes - (size_t)at, " stride %d", s.stride);
    if (s.pad) snprintf(text + at, bytes - (size_t)at, " pad %d", s.pad);
}

static const qg_layer_type max_type = {
    .name = "maxpool",
    .size = sizeof(pool),
    .build = build,
    .forward = forward_max,
    .describe = describe,
};
static const qg_layer_type avg_type = {
    .name = "avgpool",
    .size = sizeof(pool),
    .build = build,
    .forward = forward_avg,
    .describe = describe,
};
static const qg_layer_type global_type = {
    .name = "global avgpool",
    .size = sizeof(pool),
    .build = build_global,
    .forward = forward_global,
};

static qg_layer *append(qg_net *net, const qg_layer_type *type, qg_pool2d_spec spec)
{
    pool *p = qg_net_append(net, type, spec.after, "pool", spec.name);
    if (!p) return NULL;
    if (spec.stride == 0) spec.stride = spec.size;
    p->spec = spec;
    return &p->layer;
}

qg_layer *qg_net_maxpool(qg_net *net, int size) { return append(net, &max_type, (qg_pool2d_spec){ .size = size }); }
qg_layer *qg_net_avgpool(qg_net *net, int size) { return append(net, &avg_type, (qg_pool2d_spec){ .size = size }); }
qg_layer *qg_net_global_avgpool(qg_net *net)    { return append(net, &global_type, (qg_pool2d_spec){ 0 }); }

qg_layer *qg_net_maxpool_with(qg_net *net, qg_pool2d_spec spec) { return append(net, &max_type, spec); }
qg_layer *qg_net_avgpool_with(qg_net *net, qg_pool2d_spec spec) { return append(net, &avg_type, spec); }

bool qg__is_maxpool(const qg_layer *l) { return l->type == &max_type; }

bool qg__pooling_of(const qg_layer *l, qg__pooling *p)
{
    const bool global = l->type == &global_type;
    if (!global && l->type != &max_type && l->type != &avg_type) return false;
    const qg_pool2d_spec s = ((const pool *)l)->spec;
    *p = global ? (qg__pooling){ .h = l->in.h, .w = l->in.w, .stride = 1 }
                : (qg__pooling){ .max = l->type == &max_type, .exclude_pad = s.exclude_pad, .h = s.size, .w = s.size,
                                 .stride = s.stride, .pad = s.pad };
    return true;
}

int qg__maxpool_size(const qg_layer *l)
{
    const qg_pool2d_spec s = l->type == &max_type ? ((const pool *)l)->spec : (qg_pool2d_spec){ 0 };
    return s.stride == s.size && s.pad == 0 ? s.size : 0;
}
