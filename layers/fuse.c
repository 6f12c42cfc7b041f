/* What qg_net_build folds, so that batch norm, activation and pooling are one pass over memory. */
#include "layers/batchnorm.h"
#include "layers/net_private.h"

static void count_readers(qg_net *net)
{
    for (int i = 0; i < net->layers; i++) {
        if (net->layer[i]->after) net->layer[i]->after->readers++;
        if (net->layer[i]->with) net->layer[i]->with->readers++;
    }
}

/* The one layer that reads l, or NULL: others would see the fused result. */
static qg_layer *only_reader(const qg_net *net, const qg_layer *l)
{
    if (l->readers != 1) return NULL;
    for (int i = l->index + 1; i < net->layers; i++)
        if (net->layer[i]->after == l || net->layer[i]->with == l) return net->layer[i];
    return NULL;
}

/* The batch norm reads the other operand of the sum behind it; that one must be there first.  The
 * sum then passes the batch norm's result on, so that has to be its first operand. */
static bool take_add(qg_batchnorm *bn, qg_layer *l)
{
    qg_layer *other = l->after == &bn->layer ? l->with : l->after;
    if (other->index > bn->layer.index) return false;
    bn->layer.with = other;
    l->after       = &bn->layer;
    l->with        = other;
    return true;
}

/* Walks forward from the batch norm as long as the next layer can join it.  Pooling and a function
 * that never decreases commute, so relu - maxpool and maxpool - relu are the same pass. */
static void fuse_after(qg_net *net, qg_batchnorm *bn)
{
    for (qg_layer *l = only_reader(net, &bn->layer); l; l = only_reader(net, l)) {
        qg_product *product = qg_layer_product(l);
        const int   pool    = qg__maxpool_size(l);
        if (pool > 1 && pool <= QG_NORM_POOL && bn->pool == 0 && !bn->add) {
            bn->pool = pool;
            l->fused = true;
        } else if (qg__is_add(l) && !bn->add && bn->pool == 0 && !bn->relu && take_add(bn, l)) {
            bn->add  = true;
            l->fused = true;
        } else if (qg__is_relu(l) && !bn->relu) {
            bn->relu = true;
            l->fused = true;
        } else if (product && qg_quant_fuses(product->input_slot.q)) {
            bn->slot             = &product->input_slot;
            product->input_fused = true;
            return;
        } else if (qg__quantize_slot(l) && qg_quant_fuses(qg__quantize_slot(l)->q)) {
            bn->slot = qg__quantize_slot(l);
            l->fused = true;
            return;
        } else {
            return;
        }
    }
}

/* There is a weight quantizer to fold in front of, nothing stands between product and norm, and the
 * norm has an offset to become the bias. */
static bool foldable(const qg_product *p, const qg_batchnorm *bn)
{
    const qg_scheme *input = p->input_slot.q.scheme;
    return p->weight_slot.q.scheme && !(input && input->scale_output) && !bn->spec.no_shift;
}

void qg__net_fuse(qg_net *net)
{
    count_readers(net);
    for (int i = 0; i < net->layers; i++) {
        qg_batchnorm *bn = qg__batchnorm(net->layer[i]);
        if (!bn || bn->spec.whole) continue;
        qg_product *before = net->layer[i]->after ? qg_layer_product(net->layer[i]->after) : NULL;
        if (before && before->layer.readers != 1) before = NULL;
        if (before && net->spec.fold_batchnorm && foldable(before, bn)) {
            before->norm     = bn;
            before->no_bias  = true;
            bn->layer.fused  = true;
            continue;
        }
        fuse_after(net, bn);
        if (!before) continue;
        before->no_bias = true;     /* the batch mean would take it out again */
        before->sums    = true;
    }
}
