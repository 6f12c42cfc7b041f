#include <limits.h>
#include <stdio.h>

#include "layers/plan.h"

typedef struct shortcut {
    qg_layer layer;
    int      stride, channels;
} shortcut;

static const qg_key keys[] = {
    { .name = "stride", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(shortcut, stride) },
    { .name = "channels", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(shortcut, channels) },
    { .name = NULL }
};

static qg_status build(qg_layer *l)
{
    const shortcut *s = (shortcut *)l;
    if (s->stride < 1 || s->channels < l->in.c)
        return qg_fail(QG_EARG, "%s: stride %d must be at least 1 and channels %d at least those of " QG_SHAPE_FMT,
                       l->name, s->stride, s->channels, QG_SHAPE_ARGS(l->in));
    l->out = (qg_shape){ 1, (l->in.h - 1) / s->stride + 1, (l->in.w - 1) / s->stride + 1, s->channels };
    return QG_OK;
}

static qg_var *forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    const shortcut *s = (shortcut *)l;
    return qg_shortcut(t, x, s->stride, s->channels);
}

static int pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    const shortcut *s = (const shortcut *)l;
    return qg_graph_add(
        g, l,
        (qg_node){ .kind = QG_NODE_SHORTCUT, .x = x, .stride = s->stride, .channels = s->channels },
        NULL);
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    const shortcut *s = (const shortcut *)l;
    snprintf(text, bytes, "stride %d, to %d", s->stride, s->channels);
}

const qg_layer_type qg__shortcut_type = {
    .name = "shortcut",
    .size = sizeof(shortcut),
    .keys = keys,
    .build = build,
    .forward = forward,
    .describe = describe,
    .pack = pack,
};

qg_layer *qg_net_shortcut(qg_net *net, qg_layer *after, int stride, int channels)
{
    shortcut *s = qg_net_append(net, &qg__shortcut_type, after, "shortcut", NULL);
    if (!s) return NULL;
    s->stride   = stride;
    s->channels = channels;
    return &s->layer;
}
