#include "cli/learned.h"

#include <stdlib.h>

static const qg_role roles[] = { QG_WEIGHT, QG_INPUT, QG_GRADIENT };

enum { ROLES = sizeof roles / sizeof *roles };

static void add(learned_list *l, const qg_slot *slot)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *entry = &slot->q.scheme->learned[i];
        if (!entry->quiet) l->row[l->rows++] = (learned_row){ slot->param[i], entry->tracked };
    }
}

qg_status learned_begin(learned_list *l, qg_net *net)
{
    const int    layers = qg_net_layers(net);
    const size_t most   = (size_t)layers * ROLES * QG_LEARNED + 1;
    *l                  = (learned_list){ .row = calloc(most, sizeof *l->row) };
    if (!l->row) return qg_fail(QG_EMEM, "out of memory for %zu learned values", most);
    for (int i = 0; i < layers; i++)
        for (int r = 0; r < ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), roles[r]);
            if (slot) add(l, slot);
        }
    return QG_OK;
}

void learned_end(learned_list *l)
{
    free(l->row);
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
