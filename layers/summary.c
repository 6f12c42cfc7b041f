/* What a net is, in a table, and what it weighs. */
#include <inttypes.h>

#include "layers/batchnorm.h"
#include "layers/net_private.h"

static size_t weights(const qg_product *p) { return qg_count(p->weight->shape); }

/* A packed row starts on a byte, as one output channel of a packed kernel does. */
static size_t packed_weight_bytes(const qg_product *p)
{
    const qg_quant q = p->weight_slot.q;
    if (!q.scheme) return weights(p) * sizeof(float);
    const size_t row    = (qg_row(p->weight->shape) * (size_t)q.bits + 7) / 8;
    const size_t scales = q.per_channel ? (size_t)p->weight->shape.n : 1;
    return row * (size_t)p->weight->shape.n + scales * sizeof(float);
}

static size_t learned_bytes(const qg_slot *slot)
{
    size_t bytes = 0;
    for (int i = 0; i < QG_LEARNED; i++)
        if (slot->param[i]) bytes += qg_count(slot->param[i]->shape) * sizeof(float);
    return bytes;
}

/* Batch norm folds into one factor and one offset per channel, and takes a bias with it. */
static size_t other_bytes(const qg_net *net)
{
    size_t bytes = 0;
    for (int i = 0; i < net->layers; i++) {
        const qg_product *p = qg_layer_product(net->layer[i]);
        if (p && p->bias) bytes += qg_count(p->bias->shape) * sizeof(float);
        if (qg__batchnorm(net->layer[i])) bytes += 2 * (size_t)net->layer[i]->in.c * sizeof(float);
    }
    return bytes;
}

size_t qg_net_float_bytes(const qg_net *net)
{
    size_t bytes = other_bytes(net);
    for (int i = 0; i < net->layers; i++) {
        const qg_product *p = qg_layer_product(net->layer[i]);
        if (p) bytes += weights(p) * sizeof(float);
    }
    return bytes;
}

size_t qg_net_packed_bytes(const qg_net *net)
{
    size_t bytes = other_bytes(net);
    for (int i = 0; i < net->layers; i++) {
        const qg_product *p = qg_layer_product(net->layer[i]);
        if (p) bytes += packed_weight_bytes(p) + learned_bytes(&p->input_slot);
    }
    return bytes;
}

static const char *scheme_name(const qg_slot *slot, char *text, size_t bytes)
{
    if (!slot->q.scheme) return "float";
    snprintf(text, bytes, "%s%s", slot->q.scheme->name, slot->q.per_channel ? "/channel" : "");
    return text;
}

static void line(const qg_layer *l, FILE *out)
{
    char shape[40], what[40] = "", w[40], x[40];
    if (l->out.h == 1 && l->out.w == 1) snprintf(shape, sizeof shape, "%d", l->out.c);
    else snprintf(shape, sizeof shape, "%d x %d x %d", l->out.h, l->out.w, l->out.c);
    if (l->type->describe) l->type->describe(l, what, sizeof what);
    const qg_product *p = qg_layer_product((qg_layer *)l);
    fprintf(out, "%-8s %-14s %-16s %-14s", l->name, l->type->name, what, shape);
    if (p)
        fprintf(out, " %-26s %-26s %9zu %12" PRIu64 " %10zu", scheme_name(&p->weight_slot, w, sizeof w),
                scheme_name(&p->input_slot, x, sizeof x), weights(p), l->macs, packed_weight_bytes(p));
    fputc('\n', out);
}

void qg_net_summary(const qg_net *net, FILE *out)
{
    if (!net || !net->built) return;
    uint64_t macs  = 0;
    size_t   count = 0;
    fprintf(out, "%-8s %-14s %-16s %-14s %-26s %-26s %9s %12s %10s\n", "layer", "type", "", "output",
            "weight", "input", "weights", "mult-adds", "bytes");
    for (int i = 0; i < net->layers; i++) {
        const qg_product *p = qg_layer_product(net->layer[i]);
        line(net->layer[i], out);
        macs += net->layer[i]->macs;
        if (p) count += weights(p);
    }
    const size_t full = qg_net_float_bytes(net), packed = qg_net_packed_bytes(net);
    fprintf(out,
            "%zu weights, %zu parameters, %" PRIu64 " multiply-adds per image\n"
            "%zu bytes as float, %zu packed: %.1f times smaller\n",
            count, qg_params_trained(&net->params), macs, full, packed, (double)full / (double)packed);
}
