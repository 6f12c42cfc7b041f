#include <stdio.h>

#include "core/ops/norm.h"
#include "layers/evaluate.h"

static const qg_key keys[] = {
    { .name = "eps", .max = INFINITY, .at = offsetof(qg_batchnorm, spec.eps) },
    { .name = "momentum", .max = 1, .at = offsetof(qg_batchnorm, spec.momentum) },
    { .name = "no-scale", .is = QG_KEY_FLAG, .at = offsetof(qg_batchnorm, spec.no_scale) },
    { .name = "no-shift", .is = QG_KEY_FLAG, .at = offsetof(qg_batchnorm, spec.no_shift) },
    { .name = "whole", .is = QG_KEY_FLAG, .at = offsetof(qg_batchnorm, spec.whole) },
    { .name = "freeze-after", .max = QG__MAX_STEPS, .is = QG_KEY_WHOLE, .at = offsetof(qg_batchnorm, spec.freeze_after) },
    { .name = NULL }
};

static qg_status build(qg_layer *l)
{
    qg_batchnorm  *bn = (qg_batchnorm *)l;
    const qg_shape c  = { 1, 1, 1, bn->spec.whole ? 1 : l->in.c };
    if (!(bn->spec.eps >= 0 && isfinite(bn->spec.eps)) || !(bn->spec.momentum >= 0 && bn->spec.momentum <= 1))
        return qg_fail(QG_EARG, "%s: eps is %g, must be 0 (for 1e-5) or more; momentum is %g, must be 0 (for 0.1) to 1",
                       l->name, (double)bn->spec.eps, (double)bn->spec.momentum);
    bn->gamma = bn->spec.no_scale ? NULL : qg_layer_declare(l, "gamma", (qg_param){ .shape = c, .group = QG_NORMS });
    bn->beta  = bn->spec.no_shift ? NULL : qg_layer_declare(l, "beta", (qg_param){ .shape = c, .group = QG_NORMS });
    bn->mean  = qg_layer_declare(l, "running_mean", (qg_param){ .shape = c, .group = QG_TRACKED });
    bn->var   = qg_layer_declare(l, "running_var", (qg_param){ .shape = c, .group = QG_TRACKED });
    const bool declared = (bn->gamma || bn->spec.no_scale) && (bn->beta || bn->spec.no_shift) && bn->mean && bn->var;
    return declared ? QG_OK : qg_errcode();
}

static void start(qg_layer *l, uint64_t key)
{
    const qg_batchnorm *bn = (qg_batchnorm *)l;
    for (int k = 0; k < bn->var->shape.c; k++) {
        if (bn->gamma) bn->gamma->value[k] = 1.0f;
        bn->var->value[k] = 1.0f;
    }
}

bool qg__batchnorm_frozen(const qg_batchnorm *bn, uint64_t step)
{
    return bn->layer.frozen || (bn->spec.freeze_after && step >= bn->spec.freeze_after);
}

qg_norm_spec qg__batchnorm_spec(const qg_batchnorm *bn, const qg_tape *t)
{
    return (qg_norm_spec){ .mean     = bn->mean->value,
                           .var      = bn->var->value,
                           .momentum = bn->spec.momentum,
                           .eps      = bn->spec.eps,
                           .per_rank = bn->layer.net->spec.batchnorm_per_rank,
                           .frozen   = qg__batchnorm_frozen(bn, t ? qg_tape_step(t) : 0) };
}

/* As a single channel, all values share their statistics. */
static qg_var *whole(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec)
{
    if (!x) return NULL;
    const qg_shape row = { 0, 1, (int)qg_row(x->shape), 1 };
    return qg_reshape(t, qg_norm(t, qg_reshape(t, x, row), gamma, beta, spec), x->shape);
}

/* In QG_EVAL the product before it has included it in its factors, if both are steps of the net. */
static bool is_done(const qg_step *s, const qg_tape *t)
{
    const qg_product *p = s->result ? qg_layer_product((qg_layer *)s->x) : NULL;
    return p && t && qg_tape_mode(t) == QG_EVAL && qg__evaluation_has_norm(p);
}

static qg_var *run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z)
{
    const qg_batchnorm *bn   = (const qg_batchnorm *)s->layer;
    const qg_norm_spec  spec = qg__batchnorm_spec(bn, t);
    qg_norm_fusion      with = { .pool = s->pool, .add = z, .relu = s->relu };
    const bool          fused = !s->slot || qg__slot_fuse(s->slot, t, &with);
    const bool          plain = with.pool <= 1 && !with.add && !with.relu && !with.act.forward;
    qg_var    *gamma = bn->gamma ? qg_parameter(t, bn->gamma) : NULL;
    qg_var    *beta  = bn->beta ? qg_parameter(t, bn->beta) : NULL;
    if (bn->spec.whole) return whole(t, x, gamma, beta, spec);
    qg_var    *y     = is_done(s, t) ? qg__norm_rest(t, x, gamma, beta, spec, with)
                       : plain       ? qg_norm(t, x, gamma, beta, spec)
                                     : qg_norm_fused(t, x, gamma, beta, spec, with);
    return fused ? y : qg_slot_apply(s->slot, t, y);
}

static void describe(const qg_layer *l, char *text, size_t bytes)
{
    if (((const qg_batchnorm *)l)->spec.whole) snprintf(text, bytes, "whole");
}

/* With one factor and one offset for all channels, each has them. */
static int pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    const qg_batchnorm *bn = (const qg_batchnorm *)l;
    const int           c = l->out.c;
    float              *a;
    const int           y = qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_AFFINE, .x = x }, &a);
    if (!a) return y;
    qg__norm_scales(bn, a, a + c);
    for (int k = 1; k < c && bn->spec.whole; k++) a[k] = a[0], a[c + k] = a[c];
    return y;
}

const qg_layer_type qg__batchnorm_type = { .name = "batchnorm",
                                         .size = sizeof(qg_batchnorm),
                                         .keys = keys,
                                         .traits = QG_NORMALISES,
                                         .build = build,
                                         .start = start,
                                         .run = run,
                                         .pack = pack,
                                         .describe = describe };

qg_layer *qg_net_batchnorm_with(qg_net *net, qg_batchnorm_spec spec)
{
    qg_batchnorm *bn = qg_net_append(net, &qg__batchnorm_type, spec.after, "bn", spec.name);
    if (!bn) return NULL;
    bn->spec = spec;
    if (spec.freeze_after == 0) bn->spec.freeze_after = net->spec.freeze_batchnorm_after;
    return &bn->layer;
}

qg_layer *qg_net_batchnorm(qg_net *net) { return qg_net_batchnorm_with(net, (qg_batchnorm_spec){ 0 }); }
