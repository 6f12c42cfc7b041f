/* The plan of a net: which layers take in those after them (layers/plan.h). */
#include "layers/plan.h"

qg_layer *qg__layer_before(const qg_layer *l, unsigned passed)
{
    qg_layer *before = l->after;
    while (qg__has_trait(before, passed)) before = before->after;
    return before;
}

/* The only layer that reads l; NULL if there are others, which would see the folded result. */
static qg_layer *only_reader(const qg_layer *l)
{
    const qg_net *net = l->net;
    if (l->readers != 1) return NULL;
    for (int i = l->index + 1; i < net->layers; i++)
        if (net->layer[i]->after == l || net->layer[i]->with == l) return net->layer[i];
    return NULL;
}

/* l, if it is a batch norm per channel. */
static qg_batchnorm *norm_of(qg_layer *l)
{
    qg_batchnorm *bn = qg__batchnorm(l);
    return bn && !bn->spec.whole ? bn : NULL;
}

qg_batchnorm *qg__only_batchnorm(const qg_layer *l) { return norm_of(only_reader(l)); }

qg_batchnorm *qg__next_batchnorm(const qg_layer *l)
{
    qg_layer *reader = only_reader(l);
    while (qg__has_trait(reader, QG_CHOOSES | QG_PASSES)) reader = only_reader(reader);
    return norm_of(reader);
}

/* s also computes l, whose own step is dropped. */
static void cover(qg_step *s, qg_layer *l)
{
    l->net->step[l->index].layer = NULL;
    s->result                    = l;
}

/* The layer that s may compute next; NULL: its result so far is read by others. */
static qg_layer *follower(const qg_layer *l) { return l->result ? NULL : only_reader(l); }

/* Walks forward from the batch norm while the next layer can join it, at most to a quantizer. */
static void fold_into_batchnorm(qg_step *s)
{
    for (qg_layer *l = follower(s->layer); l && !s->slot && l->type->join && l->type->join(l, s);
         l = follower(l))
        cover(s, l);
}

/* A batch norm can be folded into a quantized weight, if the product's result is not scaled before
 * the norm, and if the norm has a beta, which becomes the bias. */
static bool foldable(const qg_product *p, const qg_batchnorm *bn)
{
    const qg_scheme *input = p->input_slot.q.scheme;
    return p->weight_slot.q.scheme && !(input && input->scale_output) && !bn->spec.no_shift;
}

/* Takes the layers after s into it. */
static void fold(qg_step *s)
{
    const qg_product   *product = qg_layer_product(s->layer);
    const qg_batchnorm *bn      = qg__batchnorm(s->layer);
    if (bn && !bn->spec.whole) fold_into_batchnorm(s);
    if (!product || !s->layer->net->spec.fold_batchnorm) return;
    qg_batchnorm *next = qg__only_batchnorm(s->layer);
    if (!next || s->layer->result || !foldable(product, next)) return;
    s->norm = next;
    cover(s, &next->layer);
}

qg_status qg__net_plan(qg_net *net)
{
    if (net->spec.fold_batchnorm && net->spec.batchnorm_per_rank)
        return qg_fail(QG_EARG, "net: fold_batchnorm and batchnorm_per_rank exclude each other");
    net->step = qg__arena_take(&net->arena, (size_t)net->layers * sizeof *net->step);
    if (!net->step) return QG_EMEM;
    for (int i = 0; i < net->layers; i++) {
        qg_layer *l  = net->layer[i];
        net->step[i] = (qg_step){ .layer = l, .x = l->after, .z = l->with, .result = l };
    }
    /* In order of declaration, so a step has been taken in before its own turn comes. */
    for (int i = 0; i < net->layers; i++)
        if (net->step[i].layer) fold(&net->step[i]);
    bool folded = false;            /* now close the gaps */
    for (int i = 0; i < net->layers; i++) {
        if (!net->step[i].layer) continue;
        folded = folded || net->step[i].norm;
        net->step[net->steps++] = net->step[i];
    }
    if (net->spec.fold_batchnorm && !folded)
        return qg_fail(QG_EARG, "net: fold_batchnorm: no layer has a quantized weight and a batch norm that can be "
                       "folded into it");
    return QG_OK;
}

const qg_step *qg__net_step(const qg_net *net, const qg_layer *l)
{
    for (int i = 0; i < net->steps; i++)
        if (net->step[i].layer == l) return &net->step[i];
    return NULL;
}

qg_var *qg__step_run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z)
{
    const qg_layer_type *type = s->layer->type;
    if (s->layer->net->skips && qg__has_trait(s->layer, QG_PASSES)) return x;
    return type->run ? type->run(s, t, x, z) : type->forward(s->layer, t, x, z);
}

/* --- traits ------------------------------------------------------------------------------- */

bool qg__has_trait(const qg_layer *l, unsigned traits)
{
    return l && (l->type->traits & traits) != 0;
}

qg_product *qg_layer_product(qg_layer *l)
{
    return qg__has_trait(l, QG_MULTIPLIES) ? (qg_product *)l : NULL;
}

qg_batchnorm *qg__batchnorm(qg_layer *l)
{
    return qg__has_trait(l, QG_NORMALISES) ? (qg_batchnorm *)l : NULL;
}

const qg_slot *qg__quantize_slot(qg_layer *l)
{
    return qg__has_trait(l, QG_QUANTIZES) ? qg_layer_slot(l, QG_INPUT) : NULL;
}
