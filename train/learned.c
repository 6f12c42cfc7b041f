#include "train/learned.h"

#include <stdio.h>
#include <stdlib.h>

static void add(qg__learned_list *l, const qg_slot *slot)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *entry = &slot->q.scheme->learned[i];
        if (entry->quiet) continue;
        l->entry[l->count]   = entry;
        l->param[l->count++] = slot->param[i];
    }
}

qg_status qg__learned_begin(qg__learned_list *l, qg_net *net)
{
    const int    layers = qg_net_layers(net);
    const size_t most   = (size_t)layers * QG_ROLES * QG_MAX_LEARNED + 1;
    *l = (qg__learned_list){ .param = calloc(most, sizeof *l->param), .entry = calloc(most, sizeof *l->entry) };
    if (!l->param || !l->entry) return qg_fail(QG_EMEM, "out of memory for %zu learned values", most);
    for (int i = 0; i < layers; i++)
        for (int r = 0; r < QG_ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), qg_roles[r]);
            if (slot) add(l, slot);
        }
    return QG_OK;
}

void qg__learned_end(qg__learned_list *l)
{
    free(l->param);
    free(l->entry);
    *l = (qg__learned_list){ 0 };
}

qg__learned_values qg__learned_values_of(const qg_param *p)
{
    const size_t   n = qg_count(p->shape);
    qg__learned_values s = { (double)p->value[0], 0, (double)p->value[0] };
    for (size_t i = 0; i < n; i++) {
        const double v = (double)p->value[i];
        s.least    = v < s.least ? v : s.least;
        s.greatest = v > s.greatest ? v : s.greatest;
        s.mean += v / (double)n;
    }
    return s;
}

static bool unhealthy(const qg_learned *entry, double value)
{
    if (entry->low == 0 && entry->high == 0) return false;
    return value != 0 && !(value >= (double)entry->low && value <= (double)entry->high);
}

bool qg__learned_unhealthy(const qg__learned_list *l, char *text, size_t bytes)
{
    enum { NAMED = 3 };
    int    found = 0;
    size_t used  = 0;
    for (int i = 0; i < l->count; i++) {
        const qg__learned_values v = qg__learned_values_of(l->param[i]);
        const bool           low = unhealthy(l->entry[i], v.least);
        if (!low && !unhealthy(l->entry[i], v.greatest)) continue;
        if (found++ >= NAMED || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s is %.3g, not %g .. %g", found > 1 ? "; " : "",
                                 l->param[i]->name, low ? v.least : v.greatest, (double)l->entry[i]->low,
                                 (double)l->entry[i]->high);
    }
    if (found > NAMED && used < bytes) snprintf(text + used, bytes - used, "; and %d more", found - NAMED);
    return found > 0;
}
