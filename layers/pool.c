#include <limits.h>
#include <stdio.h>

#include "layers/plan.h"

typedef struct pool {
    qg_layer       layer;
    qg_pool2d_spec spec;
} pool;

static const qg_key keys[] = {
    { .name = "size", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(pool, spec.size) },
    { .name = "stride", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(pool, spec.stride) },
    { .name = "pad", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(pool, spec.pad) },
    { .name = "exclude-pad", .is = QG_KEY_FLAG, .at = offsetof(pool, spec.exclude_pad) },
    { .name = NULL }
};

static qg_pool_spec spec_of(const qg_layer *l)
{
    const qg_pool2d_spec s      = ((const pool *)l)->spec;
    const int            stride = s.stride ? s.stride : s.size;
    return (qg_pool_spec){ s.size, stride, s.pad, s.exclude_pad };
}

static qg_status build(qg_layer *l)
{
    const qg_pool_spec s = spec_of(l);
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

static qg_status build_global(qg_layer *l)
{
    l->out = (qg_shape){ 1, 1, 1, l->in.c };
    return QG_OK;
}

static bool is_max(const qg_layer *l) { return l->type->traits & QG_CHOOSES; }

static qg_var *forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return (is_max(l) ? qg_maxpool_with : qg_avgpool_with)(t, x, spec_of(l));
}

static qg_var *forward_global(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_global_avgpool(t, x);
}

/* Max pooling commutes with nondecreasing functions, so relu - maxpool and maxpool - relu are the
 * same pass. */
static bool join_max(qg_layer *l, qg_step *s)
{
    const qg_pool_spec p            = spec_of(l);
    const bool         side_by_side = p.stride == p.size && p.pad == 0;
    if (!side_by_side || p.size < 2 || p.size > QG_NORM_POOL || s->pool || s->z) return false;
    s->pool = p.size;
    return true;
}

static int pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    const qg_pool_spec s = spec_of(l);
    return qg_graph_add(g, l,
                        (qg_node){ .kind = is_max(l) ? QG_NODE_MAXPOOL : QG_NODE_AVGPOOL,
                                   .x = x,
                                   .kernel_h = s.size,
                                   .kernel_w = s.size,
                                   .stride = s.stride,
                                   .pad = s.pad,
                                   .exclude_pad = s.exclude_pad },
                        NULL);
}

static int pack_global(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(g, l,
                        (qg_node){ .kind = QG_NODE_AVGPOOL,
                                   .x = x,
                                   .kernel_h = l->in.h,
                                   .kernel_w = l->in.w,
                                   .stride = 1 },
                        NULL);
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    const qg_pool_spec s = spec_of(l);
    int at = snprintf(text, bytes, "%dx%d", s.size, s.size);
    if (s.stride != s.size) at += snprintf(text + at, bytes - (size_t)at, " stride %d", s.stride);
    if (s.pad) snprintf(text + at, bytes - (size_t)at, " pad %d", s.pad);
}

const qg_layer_type qg__maxpool_type = {
    .name = "maxpool",
    .size = sizeof(pool),
    .traits = QG_CHOOSES,
    .keys = keys,
    .build = build,
    .forward = forward,
    .join = join_max,
    .pack = pack,
    .describe = describe,
};
const qg_layer_type qg__avgpool_type = {
    .name = "avgpool",
    .size = sizeof(pool),
    .keys = keys,
    .build = build,
    .forward = forward,
    .pack = pack,
    .describe = describe,
};
const qg_layer_type qg__global_type = {
    .name = "global avgpool",
    .size = sizeof(pool),
    .build = build_global,
    .forward = forward_global,
    .pack = pack_global,
};

static qg_layer *append(qg_net *net, const qg_layer_type *type, qg_pool2d_spec spec)
{
    pool *p = qg_net_append(net, type, spec.after, "pool", spec.name);
    if (!p) return NULL;
    if (spec.stride == spec.size) spec.stride = 0;
    p->spec = spec;
    return &p->layer;
}

qg_layer *qg_net_maxpool_with(qg_net *net, qg_pool2d_spec spec)
{
    return append(net, &qg__maxpool_type, spec);
}

qg_layer *qg_net_maxpool(qg_net *net, int size)
{
    return qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = size });
}

qg_layer *qg_net_global_avgpool(qg_net *net)
{
    return append(net, &qg__global_type, (qg_pool2d_spec){ 0 });
}
qg_layer *qg_net_avgpool_with(qg_net *net, qg_pool2d_spec spec)
{
    return append(net, &qg__avgpool_type, spec);
}

qg_layer *qg_net_avgpool(qg_net *net, int size)
{
    return qg_net_avgpool_with(net, (qg_pool2d_spec){ .size = size });
}
