#include <math.h>
#include <stdio.h>

#include "layers/plan.h"

static const float SLOPE = 0.25f;       /* [He et al. 2015, arXiv:1502.01852v1, sec. 2.1] */

typedef struct prelu {
    qg_layer      layer;
    qg_prelu_spec spec;
    qg_param     *slope, *x_shift, *y_shift;    /* the shifts of PReLU are NULL */
} prelu;

static const qg_key keys[] = {
    { .name = "start", .min = -INFINITY, .max = INFINITY, .at = offsetof(prelu, spec.start) },
    { .name = "shared", .is = QG_KEY_FLAG, .at = offsetof(prelu, spec.shared) },
    { .name = NULL }
};

static qg_status build(qg_layer *l)
{
    prelu *p = (prelu *)l;
    if (!isfinite(p->spec.start))
        return qg_fail(QG_EARG, "%s: start is %g, must be finite", l->name, (double)p->spec.start);
    const int c = p->spec.shared ? 1 : l->in.c;
    p->slope    = qg_layer_declare(l, "slope", (qg_param){ .shape = { 1, 1, 1, c }, .group = QG_NORMS });
    return p->slope ? QG_OK : QG_EMEM;
}

static qg_status build_shifts(qg_layer *l)
{
    prelu          *p     = (prelu *)l;
    const qg_param  shift = { .shape = { 1, 1, 1, l->in.c }, .group = QG_BIASES };
    const qg_status s     = build(l);
    if (s) return s;
    p->x_shift = qg_layer_declare(l, "x_shift", shift);
    p->y_shift = qg_layer_declare(l, "y_shift", shift);
    return p->x_shift && p->y_shift ? QG_OK : QG_EMEM;
}

static void start(qg_layer *l, uint64_t key)
{
    const prelu *p = (prelu *)l;
    for (int k = 0; k < p->slope->shape.c; k++) p->slope->value[k] = p->spec.start == 0 ? SLOPE : p->spec.start;
}

static qg_var *forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_prelu(t, x, qg_parameter(t, ((prelu *)l)->slope));
}

static qg_var *forward_shifts(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    const prelu *p = (prelu *)l;
    qg_var      *g = qg_parameter(t, p->x_shift), *a = qg_parameter(t, p->slope);
    return qg_rprelu(t, x, g, a, qg_parameter(t, p->y_shift));
}

/* One number per channel, or the same for all. */
static float *put(const qg_param *p, int c, float *numbers)
{
    for (int k = 0; k < c; k++) *numbers++ = p->value[p->shape.c == 1 ? 0 : k];
    return numbers;
}

static int pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    const prelu       *p    = (const prelu *)l;
    const qg_node_kind kind = p->x_shift ? QG_NODE_RPRELU : QG_NODE_PRELU;
    float             *numbers;
    const int          y = qg_graph_add(g, l, (qg_node){ .kind = kind, .x = x }, &numbers);
    if (numbers && p->x_shift) numbers = put(p->x_shift, l->out.c, numbers);
    if (numbers) numbers = put(p->slope, l->out.c, numbers);
    if (numbers && p->y_shift) put(p->y_shift, l->out.c, numbers);
    return y;
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    if (((const prelu *)l)->spec.shared) snprintf(text, bytes, "one slope");
}

const qg_layer_type qg__prelu_type = { .name = "prelu",
                                          .size = sizeof(prelu),
                                          .keys = keys,
                                          .build = build,
                                          .start = start,
                                          .forward = forward,
                                          .pack = pack,
                                          .describe = describe };
const qg_layer_type qg__rprelu_type = { .name = "rprelu",
                                           .size = sizeof(prelu),
                                           .keys = keys,
                                           .build = build_shifts,
                                           .start = start,
                                           .forward = forward_shifts,
                                           .pack = pack,
                                           .describe = describe };

static qg_layer *append(qg_net *net, const qg_layer_type *type, qg_prelu_spec spec)
{
    prelu *p = qg_net_append(net, type, spec.after, type->name, spec.name);
    if (!p) return NULL;
    p->spec = spec;
    return &p->layer;
}

qg_layer *qg_net_prelu(qg_net *net, qg_prelu_spec spec)
{
    return append(net, &qg__prelu_type, spec);
}
qg_layer *qg_net_rprelu(qg_net *net, qg_prelu_spec spec)
{
    return append(net, &qg__rprelu_type, spec);
}
