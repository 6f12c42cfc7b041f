#include "train/learned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/engine.h"

static const double FAR = 100;          /* times what a scale would start with */

/* Numbers of all that a slot learns and tracks. */
static size_t numbers_of(const qg_slot *slot)
{
    size_t n = 0;
    for (int i = 0; i < QG_MAX_LEARNED; i++) n += slot->param[i] ? qg_count(slot->param[i]->shape) : 0;
    return n;
}

/* was: the numbers of the items before. */
static void add(qg__learned_list *l, qg_layer *layer, const qg_slot *slot, size_t *was)
{
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *entry = &slot->q.scheme->learned[i];
        if (entry->quiet) continue;
        l->item[l->count++] = (qg__learned_item){ .param = slot->param[i],
                                                  .entry = entry,
                                                  .layer = layer,
                                                  .slot  = slot,
                                                  .at    = i,
                                                  .was   = l->values + *was };
        *was += qg_count(slot->param[i]->shape);
    }
}

qg_status qg__learned_begin(qg__learned_list *l, qg_net *net)
{
    const int    slots   = qg_net_layers(net) * QG_ROLES;
    const size_t most    = (size_t)slots * QG_MAX_LEARNED + 1;
    size_t       scratch = 0, values = 0, was = 0;
    for (int i = 0; i < slots; i++) {
        const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i / QG_ROLES), qg_roles[i % QG_ROLES]);
        if (!slot || !slot->q.scheme) continue;
        const size_t n = numbers_of(slot), all = n + (slot->of ? qg_count(slot->of->shape) : 0);
        values += n;
        if (all > scratch) scratch = all;
    }
    *l = (qg__learned_list){ .item = calloc(most, sizeof *l->item), .values = calloc(values + scratch + 1, sizeof(float)) };
    if (!l->item || !l->values) return qg_fail(QG_EMEM, "out of memory for %zu learned values", most);
    l->scratch = l->values + values;
    for (int i = 0; i < slots; i++) {
        qg_layer      *layer = qg_net_layer(net, i / QG_ROLES);
        const qg_slot *slot  = qg_layer_slot(layer, qg_roles[i % QG_ROLES]);
        if (slot) add(l, layer, slot, &was);
    }
    return QG_OK;
}

void qg__learned_end(qg__learned_list *l)
{
    free(l->item), free(l->values);
    *l = (qg__learned_list){ .count = 0 };
}

/* A value that was not trained here may be below the least that is legal; the next step or test raises it. */
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

static bool is_outside(const qg__learned_item *v, char *text, size_t bytes)
{
    const qg_learned        *entry = v->entry;
    const qg__learned_values s     = qg__learned_values_of(v->param, entry);
    const bool               low   = unhealthy(entry, s.least);
    if (!low && !unhealthy(entry, s.greatest)) return false;
    snprintf(text, bytes, "%s is %.3g, not %g .. %g", v->param->name, low ? s.least : s.greatest, (double)entry->low,
             (double)entry->high);
    return true;
}

/* What the scheme would start v with: at the weights as they are, times scale, or without an input.  It is 0 where the
 * scheme needs to see more. */
static const float *suggest(const qg__learned_list *l, const qg__learned_item *v, float scale)
{
    const qg_slot *slot = v->slot;
    const size_t   n    = slot->of ? qg_count(slot->of->shape) : 0;
    qg_tensor      x    = { .shape = v->layer->in };
    float         *to   = l->scratch + n, *value[QG_MAX_LEARNED] = { 0 };
    if (slot->of) {
        x = qg_layer_weight(v->layer, l->scratch);
        if (x.data && x.data != l->scratch) memcpy(l->scratch, x.data, n * sizeof *l->scratch);
        if (x.data) x.data = l->scratch;        /* start may change it */
        for (size_t k = 0; x.data && k < n; k++) l->scratch[k] *= scale;
    }
    for (int k = 0; k < QG_MAX_LEARNED && slot->param[k]; k++) {
        value[k] = to;
        to += qg_count(slot->param[k]->shape);
    }
    memset(l->scratch + n, 0, (size_t)(to - (l->scratch + n)) * sizeof *to);
    qg__scheme_hooks(slot->q.scheme).start(slot->q, x, value);
    return value[v->at];
}

static bool is_far(const qg__learned_list *l, qg__learned_item *v, char *text, size_t bytes)
{
    const qg_learned *entry = v->entry;
    const qg_param   *p     = v->param;
    if (!(entry->least > 0) || entry->tracked || !qg__scheme_hooks(v->slot->q.scheme).start) return false;
    const float *start = suggest(l, v, 1);
    for (size_t k = 0; k < qg_count(p->shape); k++) {
        const bool   known = start[k] > entry->least;
        const double is = value_of(p, entry, k), want = (double)(known ? start[k] : v->was[k]);
        if (want == 0) v->was[k] = p->value[k];
        if (!(want > 0) || !(is > 0) || (is <= want * FAR && is * FAR >= want)) continue;
        const bool follows = v->slot->of && suggest(l, v, 2)[k] != (float)want;         /* start is that now */
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

/* Adds what helps with the values, once for each scheme and remedy. */
static void add_remedies(qg__learned_item *const *of, int n, char *text, size_t bytes)
{
    for (int i = 0; i < n; i++) {
        const char *name = of[i]->slot->q.scheme->name, *remedy = remedy_of(of[i]->entry);
        bool        told = false;
        for (int k = 0; k < i; k++)
            told |= !strcmp(of[k]->slot->q.scheme->name, name) && !strcmp(remedy_of(of[k]->entry), remedy);
        const size_t used = strlen(text);
        if (!told) snprintf(text + used, bytes - used, "; %s: %s", name, remedy);
    }
}

bool qg__learned_unhealthy(qg__learned_list *l, char *text, size_t bytes)
{
    enum { NAMED = 3 };
    int               found = 0;
    qg__learned_item *named[NAMED];
    *text = '\0';
    for (qg__learned_item *v = l->item; v < l->item + l->count; v++) {
        char one[256];
        if (v->told || (!is_outside(v, one, sizeof one) && !is_far(l, v, one, sizeof one))) continue;
        v->told = true;
        const size_t used = strlen(text);
        if (found < NAMED) {
            named[found] = v;
            snprintf(text + used, bytes - used, "%s%s", found ? "; " : "", one);
        }
        found++;
    }
    const size_t used = strlen(text);
    if (found > NAMED) snprintf(text + used, bytes - used, "; and %d more", found - NAMED);
    add_remedies(named, found < NAMED ? found : NAMED, text, bytes);
    return found > 0;
}
