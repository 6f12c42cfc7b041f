#include "layers/export/c_program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/plan.h"

void *qg__c_take(qg__c_program *p, size_t n, size_t each)
{
    const size_t bytes  = (n ? n : 1) * each;
    void        *memory = p->status ? NULL : qg__arena_take(&p->arena, bytes);
    if (memory) memset(memory, 0, bytes);
    else if (!p->status) p->status = qg_fail(QG_EMEM, "out of memory: a net in C");
    return memory;
}

static const qg__packed_step *record(const qg__c_program *p, int value) { return &p->s->record[value - 1].r; }

qg__codes qg__c_codes(const qg__c_program *p, int value)
{
    return value ? qg__codes_of_value(record(p, value)) : (qg__codes){ 0 };
}

size_t qg__c_numbers(const qg__c_program *p, int value)
{
    const qg_net_spec s = p->net->spec;
    if (!value) return (size_t)s.height * (size_t)s.width * (size_t)s.channels;
    const qg__packed_step *r = record(p, value);
    return (size_t)r->oh * (size_t)r->ow * (size_t)r->oc;
}

/* --- products ------------------------------------------------------------------------------- */

/* Whether all weights are 0 or powers of two, so that no product need be fused with its sum. */
static bool multiplies_exactly(const qg__packed_step *r)
{
    for (int u = 0; u < r->w_count; u++) {
        const int w = abs(r->w_lowest + r->w_step * u);
        if (r->w_zeros || w & (w - 1)) return false;
    }
    return true;
}

static qg__c_input input_of(const qg__packed_step *r, qg__codes x)
{
    const qg__product q = qg__product_of(r, x);
    if (qg__product_is_exact(&q)) return QG__C_CODES;
    return !r->w_count ? QG__C_FLOATS : multiplies_exactly(r) ? QG__C_EXACT : QG__C_FUSED;
}

/* As a packed file has them. */
static void pack_weights(qg__c_program *p, qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r;
    const size_t           oc = (size_t)r->oc, n = qg__row_numbers(r), bytes = qg__row_bytes(r);
    const int64_t          most  = r->w_lowest + (int64_t)r->w_step * (r->w_count - 1);
    const int64_t          least = r->w_zeros ? -most : r->w_lowest;
    if (oc * bytes > INT32_MAX)
        p->status = qg_fail(QG_ESHAPE, "%s: its weights have %zu bytes, in C at most 2^31 - 1", t->s->name,
                            oc * bytes);
    if (!r->w_count) return;
    t->weights = qg__c_take(p, oc, bytes);
    for (size_t o = 0; t->weights && o < oc; o++) qg__pack_row(t->weights + o * bytes, r, n, t->s->w + o * n);
    if (p->row < (r->two_sided ? 2 : 1) * n) p->row = (r->two_sided ? 2 : 1) * n;
    while (least < -((int64_t)1 << (p->weight_bits - 1)) || most >= (int64_t)1 << (p->weight_bits - 1))
        p->weight_bits *= 2;
}

/* Leaves out infinite thresholds and, after a relu, those that 0 reaches. */
static void find_thresholds(qg__c_stage *t)
{
    const qg__packed_step *r   = &t->s->r;
    const float           *all = t->s->floats + qg__step_own_floats(r);
    int                    n   = r->q_count - 1;
    while (t->first < n && (all[t->first] == -INFINITY || (r->relu && all[t->first] <= 0))) t->first++;
    while (n > t->first && all[n - 1] == INFINITY) n--;
    t->threshold  = all + t->first;
    t->thresholds = n - t->first;
    t->result     = r->coding == QG__AS_FLOATS ? QG__C_LEVEL : QG__C_BY_THRESHOLDS;
}

static void find_product(qg__c_program *p, qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r;
    t->input  = input_of(r, qg__c_codes(p, r->x));
    t->result = QG__C_RESULT;
    pack_weights(p, t);
    if (!r->q_count || p->status) return;
    find_thresholds(t);
    if (t->result == QG__C_BY_THRESHOLDS && t->input == QG__C_CODES && !r->two_sided)
        qg__c_codes_of_sums(p, t);
}

/* --- bytes of images ------------------------------------------------------------------------ */

/* The codes of bytes, if those of a channel are normalised alike (datasets/normalise.h). */
static void find_table(qg__c_program *p, qg__c_stage *t)
{
    const qg__packed_step *r = &t->s->r;
    if (r->x || r->coding == QG__AS_FLOATS || p->spec.floats_only || p->spec.numbers > r->c) return;
    t->table       = qg__c_take(p, (size_t)r->c, QG__C_BYTES);
    t->is_identity = t->table;
    for (size_t i = 0; t->table && i < (size_t)r->c * QG__C_BYTES; i++) {
        const size_t k    = p->spec.numbers == 1 ? 0 : i / QG__C_BYTES;
        const int    byte = (int)(i % QG__C_BYTES);
        const float x = ((float)byte / 255.0f - p->spec.mean[k]) / p->spec.deviation[k];
        int         u = 0;
        while (u < t->thresholds && x >= t->threshold[u]) u++;
        t->table[i]    = (uint8_t)(r->q_step * (t->first + u));
        t->is_identity = t->is_identity && t->table[i] == byte;
    }
}

/* --- stages --------------------------------------------------------------------------------- */

static int readers(const qg__c_program *p, int value)
{
    int n = 0;
    for (int i = 1; i <= p->s->count; i++) n += (record(p, i)->x == value) + (record(p, i)->z == value);
    return n;
}

/* The pool that record i computes, too; NULL: none. */
static const qg__record *pool_of(const qg__c_program *p, int i)
{
    if (i + 1 == p->s->count || p->s->record[i].r.kind != QG__PRODUCT || readers(p, i + 1) != 1) return NULL;
    const qg__packed_step *r = &p->s->record[i + 1].r;
    if (r->kind != QG__MAXPOOL || r->x != i + 1 || r->top || r->left) return NULL;
    return r->kh == r->stride && r->kw == r->stride ? &p->s->record[i + 1] : NULL;
}

static bool is_taken(const qg__c_program *p, const char *name)
{
    for (int k = 0; k < p->stages; k++)
        if (!strcmp(p->stage[k].name, name)) return true;
    return false;
}

/* A layer's name as an identifier: what is no letter or digit becomes _, a leading digit gets an n, and a
 * name that is taken a number. */
static char *identifier(qg__c_program *p, const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const size_t      n         = strlen(name) + 2, all = n + 13;
    char             *to        = qg__c_take(p, all, 1);
    if (!to) return NULL;
    snprintf(to, all, "%s%s", name[0] >= '0' && name[0] <= '9' ? "n" : "", name);
    for (char *c = to; *c; c++)
        if (!strchr(allowed, *c)) *c = '_';
    char *end = to + strlen(to);
    for (int i = 2; is_taken(p, to); i++) snprintf(end, 13, "_%d", i);
    return to;
}

static void find_stages(qg__c_program *p)
{
    p->stage = qg__c_take(p, (size_t)p->s->count, sizeof *p->stage);
    for (int i = 0; i < p->s->count && !p->status; i++) {
        qg__c_stage *t = &p->stage[p->stages];
        t->s           = &p->s->record[i];
        t->pool        = pool_of(p, i);
        t->name        = identifier(p, t->pool ? t->pool->name : t->s->name);
        i += t->pool != NULL;
        t->value = i + 1;
        if (qg__c_is_product(t)) find_product(p, t);
        if (t->s->r.kind == QG__QUANTIZE) {
            find_thresholds(t);
            find_table(p, t);
        }
        p->stages++;
    }
}

/* --- places of values ----------------------------------------------------------------------- */

/* Scores, bytes of images and floats of the caller have places of their own. */
static void find_lives(qg__c_program *p)
{
    p->value = qg__c_take(p, (size_t)p->s->count + 1, sizeof *p->value);
    for (int v = 0; !p->status && v <= p->s->count; v++)
        p->value[v] = (qg__c_place){ .first = -1, .last = -1, .owner = v,
                                     .bytes = qg__c_numbers(p, v) * (qg__c_codes(p, v).count ? 1 : 4) };
    for (int i = 0; !p->status && i < p->stages; i++) {
        const qg__c_stage *t = &p->stage[i];
        qg__c_place       *y = &p->value[t->value];
        y->needed                   = t->value < p->s->count && !t->is_identity;
        y->first                    = y->last = i;
        p->value[t->s->r.x].last    = i;
        if (t->s->r.z >= 0) p->value[t->s->r.z].last = i;
        if (!t->table && !p->spec.floats_only && (!t->s->r.x || !t->s->r.z)) p->value[0].needed = true;
    }
    for (int i = 0; !p->status && i < p->stages; i++) {
        const qg__c_stage *t = &p->stage[i];
        qg__c_place       *x = &p->value[t->s->r.x], *y = &p->value[t->value];
        const bool         in_place = qg__is_elementwise(t->s->r.kind) && t->s->r.x != t->s->r.z;
        if (!in_place || x->last != i || !x->needed || !y->needed || t->table) continue;
        y->owner                     = x->owner;
        p->value[y->owner].last      = y->last;
        if (p->value[y->owner].bytes < y->bytes) p->value[y->owner].bytes = y->bytes;
    }
}

/* Whether a has a place where b would be, while b is needed. */
static bool meets(const qg__c_place *a, const qg__c_place *b)
{
    return a->placed && a->first <= b->last && b->first <= a->last && a->at < b->at + b->bytes &&
           b->at < a->at + a->bytes;
}

/* The largest first, each at the first place that is free as long as it is needed. */
static void find_places(qg__c_program *p)
{
    for (qg__c_place *next = NULL;; next = NULL) {
        for (int v = 0; v <= p->s->count; v++) {
            qg__c_place *own = &p->value[v];
            if (!own->needed || own->owner != v || own->placed) continue;
            if (!next || own->bytes > next->bytes) next = own;
        }
        if (!next) return;
        for (int v = 0; v <= p->s->count; v++)
            if (meets(&p->value[v], next)) next->at = p->value[v].at + p->value[v].bytes, v = -1;
        next->placed = true;
        if (p->memory < next->at + next->bytes) p->memory = next->at + next->bytes;
    }
}

qg_status qg__c_program_find(qg__c_program *p)
{
    p->weight_bits = 8;
    find_stages(p);
    find_lives(p);
    for (int v = 0; !p->status && v <= p->s->count; v++) p->value[v].bytes = (p->value[v].bytes + 3) / 4 * 4;
    if (!p->status) find_places(p);
    if (!p->status && p->memory > INT32_MAX)
        p->status = qg_fail(QG_ESHAPE, "net: its values need %zu bytes, in C at most 2^31 - 1", p->memory);
    return p->status;
}
