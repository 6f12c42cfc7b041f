#include <stdio.h>

#include "layers/plan.h"

typedef struct pool {
    qg_layer layer;
    int      size;          /* 0: the whole image */
} pool;

static qg_status build(qg_net *net, qg_layer *l)
{
    (void)net;
    const int size = ((pool *)l)->size;
    if (size < 1) return qg_fail(QG_EARG, "%s: size is %d, must be at least 1", l->name, size);
    if (l->in.h < size || l->in.w < size)
        return qg_fail(QG_ESHAPE, "%s: input " QG_SHAPE_FMT " is smaller than its %dx%d window", l->name,
                       QG_SHAPE_ARGS(l->in), size, size);
    l->out = (qg_shape){ 1, l->in.h / size, l->in.w / size, l->in.c };
    return QG_OK;
}

static qg_status build_global(qg_net *net, qg_layer *l)
{
    (void)net;
    l->out = (qg_shape){ 1, 1, 1, l->in.c };
    return QG_OK;
}

static qg_var *forward_max(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    return qg_maxpool(t, x, ((pool *)l)->size);
}

static qg_var *forward_avg(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    return qg_avgpool(t, x, ((pool *)l)->size);
}

static qg_var *forward_global(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)l, (void)z;
    return qg_global_avgpool(t, x);
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    const int size = ((const pool *)l)->size;
    snprintf(text, bytes, "%dx%d", size, size);
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

static qg_layer *append(qg_net *net, const qg_layer_type *type, qg_layer *after, int size)
{
    pool *p = qg_net_append(net, type, after, "pool", NULL);
    if (!p) return NULL;
    p->size = size;
    return &p->layer;
}

qg_layer *qg_net_maxpool(qg_net *net, int size) { return append(net, &max_type, NULL, size); }
qg_layer *qg_net_avgpool(qg_net *net, int size) { return append(net, &avg_type, NULL, size); }
qg_layer *qg_net_global_avgpool(qg_net *net)    { return append(net, &global_type, NULL, 0); }

qg_layer *qg__avgpool_after(qg_net *net, qg_layer *after, int size) { return append(net, &avg_type, after, size); }

int qg__maxpool_size(const qg_layer *l)
{
    return l->type == &max_type ? ((const pool *)l)->size : 0;
}
