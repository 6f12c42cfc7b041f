/* Layers of one elementwise op, and the sum of two layers. */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "layers/plan.h"

/* --- relu, hardtanh, sigmoid, tanh -------------------------------------------------------- */

static bool join_relu(qg_layer *l, qg_step *s)
{
    if (s->relu) return false;
    return s->relu = true;
}

/* A layer of an op without numbers.  Only QG_NODE_CLIP has ends. */
#define UNARY(op, kind_, traits_, join_)                                                              \
    static qg_var *forward_##op(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)                        \
    {                                                                                                 \
        return qg_##op(t, x);                                                                         \
    }                                                                                                 \
    static int pack_##op(const qg_layer *l, qg_graph *g, int x, int z)                                \
    {                                                                                                 \
        float    *ends;                                                                               \
        const int y = qg_graph_add(g, l, (qg_node){ .kind = kind_, .x = x }, &ends);                  \
        if (ends) ends[0] = -1.0f, ends[1] = 1.0f;                                                    \
        return y;                                                                                     \
    }                                                                                                 \
    const qg_layer_type qg__##op##_type = { .name = #op, .size = sizeof(qg_layer), .traits = traits_, \
                                            .forward = forward_##op, .join = join_,                   \
                                            .pack = pack_##op };                                      \
    qg_layer *qg_net_##op(qg_net *net)                                                                \
    {                                                                                                 \
        return qg_net_append(net, &qg__##op##_type, NULL, #op, NULL);                                 \
    }

UNARY(relu, QG_NODE_RELU, QG_RECTIFIES, join_relu)
UNARY(hardtanh, QG_NODE_CLIP, 0, NULL)
UNARY(sigmoid, QG_NODE_SIGMOID, 0, NULL)
UNARY(tanh, QG_NODE_TANH, 0, NULL)

/* --- affine ------------------------------------------------------------------------------- */

typedef struct affine {
    qg_layer layer;
    float    a, b;
} affine;

static const qg_key affine_keys[] = {
    { .name = "scale", .min = -INFINITY, .max = INFINITY, .at = offsetof(affine, a) },
    { .name = "shift", .min = -INFINITY, .max = INFINITY, .at = offsetof(affine, b) },
    { .name = NULL }
};

static qg_var *forward_affine(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    const affine *f = (const affine *)l;
    return qg_affine(t, x, f->a, f->b);
}

static qg_status build_affine(qg_layer *l)
{
    const affine *f = (const affine *)l;
    if (isfinite(f->a) && isfinite(f->b)) return QG_OK;
    return qg_fail(QG_EARG, "%s: %g x + %g, both numbers must be finite", l->name, (double)f->a, (double)f->b);
}

static void describe_affine(const qg_layer *l, char *text, size_t bytes)
{
    const affine *f = (const affine *)l;
    snprintf(text, bytes, "%g x %c %g", (double)f->a, f->b < 0 ? '-' : '+', fabs((double)f->b));
}

static int pack_affine(const qg_layer *l, qg_graph *g, int x, int z)
{
    const affine *f = (const affine *)l;
    float        *numbers;
    const int     c = l->out.c,
              y = qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_AFFINE, .x = x }, &numbers);
    for (int k = 0; numbers && k < c; k++) numbers[k] = f->a, numbers[c + k] = f->b;
    return y;
}

const qg_layer_type qg__affine_type = {
    .name = "affine",
    .size = sizeof(affine),
    .keys = affine_keys,
    .build = build_affine,
    .forward = forward_affine,
    .describe = describe_affine,
    .pack = pack_affine,
};

qg_layer *qg_net_affine(qg_net *net, float a, float b)
{
    affine *f = qg_net_append(net, &qg__affine_type, NULL, "affine", NULL);
    if (!f) return NULL;
    f->a = a, f->b = b;
    return &f->layer;
}

/* --- dropout ------------------------------------------------------------------------------ */

typedef struct dropout {
    qg_layer layer;
    float    rate;
} dropout;

static const qg_key dropout_keys[] = {
    { .name = "rate", .max = 1, .at = offsetof(dropout, rate) },
    { .name = NULL }
};

static qg_status build_dropout(qg_layer *l)
{
    const float rate = ((dropout *)l)->rate;
    if (rate >= 0 && rate < 1) return QG_OK;
    return qg_fail(QG_EARG, "%s: rate is %g, must be 0 or more and less than 1", l->name, (double)rate);
}

static qg_var *forward_dropout(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_dropout(t, x, ((dropout *)l)->rate);
}

static void describe_dropout(const qg_layer *l, char *text, size_t bytes)
{
    snprintf(text, bytes, "%g", (double)((const dropout *)l)->rate);
}

const qg_layer_type qg__dropout_type = {
    .name = "dropout",
    .size = sizeof(dropout),
    .traits = QG_PASSES,
    .keys = dropout_keys,
    .build = build_dropout,
    .forward = forward_dropout,
    .describe = describe_dropout,
};

qg_layer *qg_net_dropout(qg_net *net, float rate)
{
    dropout *d = qg_net_append(net, &qg__dropout_type, NULL, "drop", NULL);
    if (!d) return NULL;
    d->rate = rate;
    return &d->layer;
}

/* --- quantize ----------------------------------------------------------------------------- */

typedef struct quantize {
    qg_layer layer;
    qg_slot  slot;
} quantize;

static qg_status build_quantize(qg_layer *l)
{
    return qg_slot_declare(l, &((quantize *)l)->slot, QG_INPUT, l->in);
}

static void start_quantize(qg_layer *l, uint64_t key)
{
    qg_slot_start(&((quantize *)l)->slot, (qg_tensor){ .shape = l->in });
}

static qg_var *forward_quantize(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_slot_apply(&((quantize *)l)->slot, t, x);
}

static void describe_quantize(const qg_layer *l, char *text, size_t bytes)
{
    (void)qg_scheme_spelling(((const quantize *)l)->slot.q.scheme, QG_INPUT, text, bytes);
}

/* What follows reads values that are quantized. */
static bool join_quantize(qg_layer *l, qg_step *s)
{
    const qg_slot *slot = &((quantize *)l)->slot;
    if (!qg__quant_fuses(slot->q)) return false;
    s->slot = slot;
    return true;
}

static qg_slot *slot_of_quantize(qg_layer *l, qg_role role) { return role == QG_INPUT ? &((quantize *)l)->slot : NULL; }

const qg_layer_type qg__quantize_type = {
    .name = "quantize",
    .size = sizeof(quantize),
    .traits = QG_QUANTIZES,
    .build = build_quantize,
    .start = start_quantize,
    .forward = forward_quantize,
    .join = join_quantize,
    .describe = describe_quantize,
    .slot = slot_of_quantize,
};

qg_layer *qg_net_quantize(qg_net *net, qg_quant activation)
{
    quantize *l = qg_net_append(net, &qg__quantize_type, NULL, "quant", NULL);
    if (!l) return NULL;
    l->slot.q = activation;
    return &l->layer;
}

/* --- add, concat -------------------------------------------------------------------------- */

static qg_status refuse_shapes(const qg_layer *l)
{
    return qg_fail(QG_ESHAPE, "%s: %s gives " QG_SHAPE_FMT ", %s gives " QG_SHAPE_FMT, l->name,
                   l->after ? l->after->name : "the image", QG_SHAPE_ARGS(l->in), l->with->name, QG_SHAPE_ARGS(l->with->out));
}

static qg_status build_add(qg_layer *l)
{
    return qg_shape_equal(l->in, l->with->out) ? QG_OK : refuse_shapes(l);
}

static qg_var *forward_add(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_add(t, x, z);
}

/* The batch norm adds the other operand, which must have been computed by then. */
static bool join_add(qg_layer *l, qg_step *s)
{
    const qg_layer *other = l->after == s->layer ? l->with : l->after;
    if (s->z || s->pool || s->relu || other->index > s->layer->index) return false;
    s->z = other;
    return true;
}

static int pack_add(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_ADD, .x = x, .z = z }, NULL);
}

const qg_layer_type qg__add_type = {
    .name = "add",
    .size = sizeof(qg_layer),
    .traits = QG_READS_TWO,
    .build = build_add,
    .forward = forward_add,
    .join = join_add,
    .pack = pack_add,
};

static qg_status build_concat(qg_layer *l)
{
    const qg_shape z = l->with->out;
    if (l->in.h != z.h || l->in.w != z.w || l->in.c > INT_MAX - z.c)
        return refuse_shapes(l);
    l->out.c += z.c;
    return QG_OK;
}

static qg_var *forward_concat(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_concat(t, 2, (qg_var *[]){ x, z });
}

static int pack_concat(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_CONCAT, .x = x, .z = z }, NULL);
}

const qg_layer_type qg__concat_type = {
    .name = "concat",
    .size = sizeof(qg_layer),
    .traits = QG_READS_TWO,
    .build = build_concat,
    .forward = forward_concat,
    .pack = pack_concat,
};

static qg_layer *append_pair(qg_net *net, const qg_layer_type *type, qg_layer *a, qg_layer *b)
{
    if (!net) return NULL;
    if (!a || !b) {         /* the declaration failed, and the net has already reported it */
        if (!net->status) qg__net_fail(net, qg_fail(QG_EARG, "%s: a layer is NULL", type->name));
        return NULL;
    }
    if (b->net != net)
        return qg__net_fail(net, qg_fail(QG_EARG, "%s: %s belongs to another net", type->name, b->name));
    qg_layer *l = qg_net_append(net, type, a, type->name, NULL);
    if (l) l->with = b;
    return l;
}

qg_layer *qg_net_add(qg_net *net, qg_layer *a, qg_layer *b)
{
    return append_pair(net, &qg__add_type, a, b);
}

qg_layer *qg_net_concat(qg_net *net, qg_layer *a, qg_layer *b)
{
    return append_pair(net, &qg__concat_type, a, b);
}
