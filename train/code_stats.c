#include "train/code_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Codes with at most this many bits lie in -128 .. 127, signed or not. */
enum { NARROW_BITS = 7 };

static qg_status encode(qg__code_stats_row *row, int32_t *codes, int *bits, qg_code_set *set)
{
    const qg_slot *slot = qg_layer_slot(row->layer, QG_WEIGHT);
    qg_codes        out    = { .code = codes, .scale = row->scale };
    const qg_status status = qg_slot_encode(slot, qg_layer_weight(row->layer, row->folded), &out);
    *bits = out.bits;
    *set  = out.set;
    return status ? qg_fail(status, "%s: %s", row->layer->name, qg_errmsg()) : QG_OK;
}

/* The lowest code of a range may move with it, so codes are told apart by their place in the set. */
static void count_shares(qg__code_stats_row *row, const int32_t *codes, qg_code_set set)
{
    size_t n[QG__SHARED_CODES] = { 0 };
    for (size_t i = 0; i < row->n && row->shares; i++) {
        const int k = (codes[i] - set.lowest) / set.step;
        if (k >= 0 && k < row->shares) n[k]++;          /* a user's scheme may be wrong */
    }
    for (int k = 0; k < row->shares; k++) row->share[k] = (double)n[k] / (double)row->n;
}

static void narrow(qg__code_stats_row *row)
{
    for (size_t i = 0; row->narrow && i < row->n; i++) row->narrow[i] = (int8_t)row->now[i];
}

static qg_status add(qg__code_stats *c, qg_layer *l, qg_shape weight)
{
    qg__code_stats_row *row       = &c->row[c->rows];
    const qg_product   *p         = qg_layer_product(l);
    const bool          is_folded = p && qg_product_is_folded(p);
    *row        = (qg__code_stats_row){ .layer = l, .n = qg_count(weight) };
    row->now    = malloc(row->n * sizeof *row->now);
    row->scale  = malloc((size_t)weight.n * sizeof *row->scale);
    row->folded = is_folded ? malloc(row->n * sizeof *row->folded) : NULL;
    c->rows++;
    if (!row->now || !row->scale || (is_folded && !row->folded))
        return qg_fail(QG_EMEM, "out of memory for the codes of %s", l->name);
    int             bits;
    qg_code_set     set;
    const qg_status status = encode(row, row->now, &bits, &set);
    row->shares = set.step > 0 && set.count <= QG__SHARED_CODES ? set.count : 0;
    if (status || bits > NARROW_BITS) return status;
    row->narrow = malloc(row->n);
    if (!row->narrow) return qg_fail(QG_EMEM, "out of memory for the codes of %s", l->name);
    narrow(row);
    return QG_OK;
}

qg_status qg__code_stats_begin(qg__code_stats *c, qg_net *net)
{
    const int layers  = qg_net_layers(net);
    size_t    largest = 1;
    *c                = (qg__code_stats){ .row = calloc((size_t)layers + 1, sizeof *c->row) };
    if (!c->row) return qg_fail(QG_EMEM, "out of memory for %d layers", layers);
    for (int i = 0; i < layers; i++) {
        qg_layer      *l    = qg_net_layer(net, i);
        const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
        if (!slot || !slot->of || !qg_has_codes(slot->q) || slot->q.bits >= 32) continue;       /* evaluated as floats */
        const qg_status status = add(c, l, slot->of->shape);
        if (status) return status;
        const size_t n = qg_count(slot->of->shape);
        if (n > largest) largest = n;
    }
    c->codes = malloc(largest * sizeof *c->codes);
    return c->codes ? QG_OK : qg_fail(QG_EMEM, "out of memory for %zu codes", largest);
}

qg_status qg__code_stats_count(qg__code_stats *c)
{
    for (int r = 0; r < c->rows; r++) {
        qg__code_stats_row *row = &c->row[r];
        int                 bits;
        qg_code_set         set;
        const qg_status status = encode(row, c->codes, &bits, &set);
        if (status) return status;
        size_t zeros = 0, flipped = 0;
        for (size_t i = 0; i < row->n; i++) {
            zeros += c->codes[i] == 0;
            flipped += c->codes[i] != row->now[i];
        }
        row->zeros   = (double)zeros / (double)row->n;
        row->flipped = (double)flipped / (double)row->n;
        count_shares(row, c->codes, set);
        memcpy(row->now, c->codes, row->n * sizeof *row->now);
        narrow(row);
    }
    return QG_OK;
}

void qg__code_stats_state(qg__code_stats *c, qg_state *s)
{
    for (int r = 0; r < c->rows; r++) {
        const qg__code_stats_row *row = &c->row[r];
        char                      name[128];
        snprintf(name, sizeof name, "codes.%s", row->layer->name);
        qg_state_add(s, name, (qg_array){ .dtype = row->narrow ? QG_I8 : QG_I32,
                                          .rank  = 1,
                                          .dims  = { row->n },
                                          .data  = row->narrow ? (void *)row->narrow : row->now });
    }
}

void qg__code_stats_loaded(qg__code_stats *c)
{
    for (int r = 0; r < c->rows; r++)
        for (size_t i = 0; c->row[r].narrow && i < c->row[r].n; i++)
            c->row[r].now[i] = c->row[r].narrow[i];
}

void qg__code_stats_end(qg__code_stats *c)
{
    for (int r = 0; r < c->rows; r++) {
        free(c->row[r].now);
        free(c->row[r].narrow);
        free(c->row[r].scale);
        free(c->row[r].folded);
    }
    free(c->row);
    free(c->codes);
    *c = (qg__code_stats){ 0 };
}
