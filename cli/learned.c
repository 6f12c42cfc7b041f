#include "cli/learned.h"

#include <stdlib.h>

static void add(learned_list *l, const qg_slot *slot)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *entry = &slot->q.scheme->learned[i];
        if (!entry->quiet) l->param[l->count++] = slot->param[i];
    }
}

qg_status learned_begin(learned_list *l, qg_net *net)
{
    const int    layers = qg_net_layers(net);
    const size_t most   = (size_t)layers * QG_ROLES * QG_LEARNED + 1;
    *l                  = (learned_list){ .param = calloc(most, sizeof *l->param) };
    if (!l->param) return qg_fail(QG_EMEM, "out of memory for %zu learned values", most);
    for (int i = 0; i < layers; i++)
        for (int r = 0; r < QG_ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), qg_roles[r]);
            if (slot) add(l, slot);
        }
    return QG_OK;
}

void learned_end(learned_list *l)
{
    free(l->param);
    *l = (learned_list){ 0 };
}

learned_span learned_span_of(const qg_param *p)
{
    const size_t n = qg_count(p->shape);
    learned_span s = { (double)p->value[0], 0, (double)p->value[0] };
    for (size_t i = 0; i < n; i++) {
        const double v = (double)p->value[i];
        s.least    = v < s.least ? v : s.least;
        s.greatest = v > s.greatest ? v : s.greatest;
        s.mean += v / (double)n;
    }
    return s;
}
