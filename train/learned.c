#include "train/learned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FAR = 100;          /* times what a scale would start with */

static void add(qg__learned_list *l, qg_layer *layer, const qg_slot *slot)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *entry = &slot->q.scheme->learned[i];
        if (entry->quiet) continue;
        l->layer[l->count]   = layer;
        l->slot[l->count]    = slot;
        l->at[l->count]      = i;
        l->entry[l->count]   = entry;
        l->param[l->count++] = slot->param[i];
    }
}

/* Numbers of the scratch that suggest needs for a slot. */
static size_t scratch_of(const qg_slot *slot)
{
    size_t n = slot->of ? qg_count(slot->of->shape) : 0;
    for (int i = 0; i < QG_MAX_LEARNED; i++) n += slot->param[i] ? qg_count(slot->param[i]->shape) : 0;
    return n;
}

static qg_status allocate(qg__learned_list *l, size_t most, size_t scratch, size_t values)
{
    l->param   = calloc(most, sizeof *l->param);
    l->entry   = calloc(most, sizeof *l->entry);
    l->layer   = calloc(most, sizeof *l->layer);
    l->slot    = calloc(most, sizeof *l->slot);
    l->at      = calloc(most, sizeof *l->at);
    l->told    = calloc(most, sizeof *l->told);
    l->scratch = calloc(scratch + 1, sizeof *l->scratch);
    l->was     = calloc(most, sizeof *l->was);
    l->values  = calloc(values + 1, sizeof *l->values);
    if (l->param && l->entry && l->layer && l->slot && l->at && l->told && l->scratch && l->was && l->values) return QG_OK;
    return qg_fail(QG_EMEM, "out of memory for %zu learned values", most);
}

qg_status qg__learned_begin(qg__learned_list *l, qg_net *net)
{
    const int    slots   = qg_net_layers(net) * QG_ROLES;
    const size_t most    = (size_t)slots * QG_MAX_LEARNED + 1;
    size_t       scratch = 0, values = 0;
    *l = (qg__learned_list){ .count = 0 };
    for (int i = 0; i < slots; i++) {
        const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i / QG_ROLES), qg_roles[i % QG_ROLES]);
        const size_t   n    = slot && slot->q.scheme ? scratch_of(slot) : 0;
        if (n > scratch) scratch = n;
        if (n) values += n - (slot->of ? qg_count(slot->of->shape) : 0);
    }
    if (allocate(l, most, scratch, values)) return QG_EMEM;
    for (int i = 0; i < slots; i++) {
        qg_layer      *layer = qg_net_layer(net, i / QG_ROLES);
        const qg_slot *slot  = qg_layer_slot(layer, qg_roles[i % QG_ROLES]);
        if (slot) add(l, layer, slot);
    }
    float *to = l->values;
    for (int i = 0; i < l->count; i++) {
        l->was[i] = to;
        to += qg_count(l->param[i]->shape);
    }
    return QG_OK;
}

void qg__learned_end(qg__learned_list *l)
{
    free(l->param), free(l->entry);
    free(l->layer), free(l->slot), free(l->at);
    free(l->told), free(l->scratch);
    free(l->was), free(l->values);
    *l = (qg__learned_list){ .count = 0 };
}

/* The next step or test raises a value to the least that is legal. */
static double value_of(const qg_param *p, const qg_learned *entry, size_t i)
{
    const float v = p->value[i];
    return (double)(entry->least > 0 && v != 0 && v < entry->least ? entry->least : v);
}

qg__learned_values qg__learned_values_of(const qg_param *p, const qg_learned *entry)
{
    const size_t       n     = qg_count(p->shape);
    const double       first = value_of(p, entry, 0);
    qg__learned_values s     = { first, 0, first };
    for (size_t i = 0; i < n; i++) {
        const double v = value_of(p, entry, i);
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

static bool is_outside(const qg__learned_list *l, int i, char *text, size_t bytes)
{
    const qg_learned        *entry = l->entry[i];
    const qg__learned_values v     = qg__learned_values_of(l->param[i], entry);
    const bool               low   = unhealthy(entry, v.least);
    if (!low && !unhealthy(entry, v.greatest)) return false;
    snprintf(text, bytes, "%s is %.3g, not %g .. %g", l->param[i]->name, low ? v.least : v.greatest, (double)entry->low,
             (double)entry->high);
    return true;
}

/* What the scheme would start value i with: at the weights as they are, times scale, or without an input.  It is 0 where the
 * scheme needs to see more. */
static const float *suggest(const qg__learned_list *l, int i, float scale)
{
    const qg_slot *slot = l->slot[i];
    const size_t   n    = slot->of ? qg_count(slot->of->shape) : 0;
    qg_tensor      x    = { .shape = l->layer[i]->in };
    float         *to   = l->scratch + n, *value[QG_MAX_LEARNED] = { 0 };
    if (slot->of) {
        x = qg_layer_weight(l->layer[i], l->scratch);
        if (x.data && x.data != l->scratch) memcpy(l->scratch, x.data, n * sizeof *l->scratch);
        if (x.data) x.data = l->scratch;        /* start may change it */
        for (size_t k = 0; x.data && k < n; k++) l->scratch[k] *= scale;
    }
    for (int k = 0; k < QG_MAX_LEARNED && slot->param[k]; k++) {
        value[k] = to;
        to += qg_count(slot->param[k]->shape);
    }
    memset(l->scratch + n, 0, (size_t)(to - (l->scratch + n)) * sizeof *to);
    slot->q.scheme->start(slot->q, x, value);
    return value[l->at[i]];
}

static bool is_far(const qg__learned_list *l, int i, char *text, size_t bytes)
{
    const qg_learned *entry = l->entry[i];
    const qg_param   *p     = l->param[i];
    if (!(entry->least > 0) || entry->tracked || !l->slot[i]->q.scheme->start) return false;
    const float *start = suggest(l, i, 1);
    for (size_t k = 0; k < qg_count(p->shape); k++) {
        const bool   known = start[k] > entry->least;
        const double is = value_of(p, entry, k), want = (double)(known ? start[k] : l->was[i][k]);
        if (want == 0) l->was[i][k] = p->value[k];
        if (!(want > 0) || !(is > 0) || (is <= want * FAR && is * FAR >= want)) continue;
        const bool follows = l->slot[i]->of && suggest(l, i, 2)[k] != (float)want;      /* start is that now */
        snprintf(text, bytes, "%s is %.3g, but %s %.3g", p->name, is,
                 !known ? "it was" : follows ? "these weights suggest" : "it started at", want);
        return true;
    }
    return false;
}

static const char *remedy_of(const qg_learned *entry)
{
    return entry->remedy ? entry->remedy : "a lower learning rate of quantizers usually helps";
}

/* Adds what helps with the values at[n], once for each scheme and remedy. */
static void add_remedies(const qg__learned_list *l, const int *at, int n, char *text, size_t bytes)
{
    for (int i = 0; i < n; i++) {
        const char *name = l->slot[at[i]]->q.scheme->name, *remedy = remedy_of(l->entry[at[i]]);
        bool        told = false;
        for (int k = 0; k < i; k++)
            told |= !strcmp(l->slot[at[k]]->q.scheme->name, name) && !strcmp(remedy_of(l->entry[at[k]]), remedy);
        const size_t used = strlen(text);
        if (!told) snprintf(text + used, bytes - used, "; %s: %s", name, remedy);
    }
}

bool qg__learned_unhealthy(qg__learned_list *l, char *text, size_t bytes)
{
    enum { NAMED = 3 };
    int    found = 0, named[NAMED];
    size_t used  = 0;
    *text        = '\0';
    for (int i = 0; i < l->count; i++) {
        char one[256];
        if (l->told[i] || (!is_outside(l, i, one, sizeof one) && !is_far(l, i, one, sizeof one))) continue;
        l->told[i] = true;
        if (found < NAMED) named[found] = i;
        if (found++ < NAMED && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", found > 1 ? "; " : "", one);
    }
    if (found > NAMED && used < bytes) snprintf(text + used, bytes - used, "; and %d more", found - NAMED);
    add_remedies(l, named, found < NAMED ? found : NAMED, text, bytes);
    return found > 0;
}
