#include "train/init.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "core/io/safetensors.h"
#include "layers/plan.h"

/* The source of the weights, and the net that receives them. */
typedef struct transfer {
    qg_net           *net, *trained;    /* see init_weights */
    const qg_archive *from;
    const char       *path, *except;
} transfer;

/* A quantizer of a net, and one of the values that it learns or tracks. */
typedef struct place {
    qg_layer         *layer;
    qg_role           role;
    const qg_slot    *slot;             /* NULL: no quantizer learns it */
    const qg_learned *learned;
} place;

static place place_of(qg_net *net, const qg_param *p)
{
    for (int i = 0; i < qg_net_layers(net); i++)
        for (int r = 0; r < QG_ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), qg_roles[r]);
            for (int k = 0; slot && k < QG_MAX_LEARNED; k++)
                if (slot->param[k] == p)
                    return (place){ qg_net_layer(net, i), qg_roles[r], slot, &slot->q.scheme->learned[k] };
        }
    return (place){ .slot = NULL };
}

static bool same_quantizer(qg_quant a, qg_quant b)
{
    return a.scheme == b.scheme && a.bits == b.bits && a.per_channel == b.per_channel &&
           !memcmp(a.arg, b.arg, sizeof a.arg);
}

static bool is_excepted(const transfer *t, const char *name)
{
    char            layer[QG__INIT_LAYER];
    const qg_layer *owner = qg__owner_of(t->net, name);
    for (const char *at = t->except; qg__list_next(&at, layer, sizeof layer);)
        if (owner ? !strcmp(owner->name, layer) : qg__is_of_layer(name, layer)) return true;
    return false;
}

/* The file's array for p; NULL if it has none, or none that p is to have. */
static const qg_named_array *entry_for(const transfer *t, const qg_param *p)
{
    if (is_excepted(t, p->name)) return NULL;
    const place    at    = place_of(t->net, p);
    /* By name, since models with other quantizers have other layers between the products. */
    const qg_slot *other = at.slot ? qg_layer_slot(qg__net_named(t->trained, at.layer->name), at.role) : NULL;
    if (other && !same_quantizer(at.slot->q, other->q)) return NULL;
    return qg_archive_find(t->from, p->name);
}

/* Whether name, "conv1.weight.wp", is a value that a quantizer learned. */
static bool has_name_of_learned(const char *name)
{
    for (const char *role = strchr(name, '.'); role; role = strchr(role + 1, '.'))
        for (int r = 0; r < QG_ROLES; r++) {
            const char  *word = qg_role_name(qg_roles[r]);
            const size_t n    = strlen(word);
            if (!strncmp(role + 1, word, n) && role[1 + n] == '.') return true;
        }
    return false;
}

/* Whether the array belongs to a run, not to its net (train/run.c, train/code_stats.c, optim/). */
static bool is_of_run(const char *name)
{
    return !strncmp(name, "run.", 4) || !strncmp(name, "codes.", 6) || !strncmp(name, "optim.", 6) ||
           !strncmp(name, "ema.", 4);
}

/* What does not fit. */
typedef struct misfits {
    char  arrays[1536];                     /* "fc2.weight: shape mismatch: checkpoint [10,512], model [3,512], .." */
    char *layers;                           /* qg__init_report.misfit */
    bool  too_many;
} misfits;

static void add_misfit(misfits *bad, const char *name, const char *text)
{
    char   layer[QG__INIT_LAYER], known[QG__INIT_LAYER];
    size_t used = strlen(bad->layers);
    qg__list_append(bad->arrays, sizeof bad->arrays, text);
    snprintf(layer, sizeof layer, "%.*s", (int)strcspn(name, "."), name);
    for (const char *at = used ? bad->layers : NULL; qg__list_next(&at, known, sizeof known);)
        if (!strcmp(known, layer)) return;
    bad->too_many |= used + strlen(layer) + 2 > QG__INIT_MISFIT;
    if (!bad->too_many) snprintf(bad->layers + used, QG__INIT_MISFIT - used, used ? ",%s" : "%s", layer);
}

/* Notes why p cannot take the entry e of the file, if it cannot. */
static void compare(const qg_param *p, const qg_named_array *e, misfits *bad)
{
    char           text[1024], here[QG__SHAPE_BYTES], there[QG__SHAPE_BYTES];
    const qg_array mine = qg__param_array(p);
    if (e && !strcmp(e->dtype, "F32") && qg__array_same_shape(e->array, mine)) return;
    qg__array_shape(&mine, here);
    if (e) qg__array_shape(&e->array, there);
    if (e && !strcmp(e->dtype, "F32"))
        snprintf(text, sizeof text, "%s: shape mismatch: checkpoint %s, model %s", p->name, there, here);
    else if (e) snprintf(text, sizeof text, "%s: type mismatch: checkpoint %s %s, model F32 %s", p->name, e->dtype, there, here);
    else snprintf(text, sizeof text, "%s %s is missing", p->name, here);
    add_misfit(bad, p->name, text);
}

static bool has_layer(const qg_archive *a, const char *layer)
{
    size_t                n;
    const qg_named_array *entry = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++)
        if (!is_of_run(entry[i].name) && qg__is_of_layer(entry[i].name, layer)) return true;
    return false;
}

static qg_status check_excepted(const transfer *t)
{
    char layer[QG__INIT_LAYER];
    for (const char *at = t->except; qg__list_next(&at, layer, sizeof layer);)
        if (!qg_net_find(t->net, layer) && !has_layer(t->from, layer))
            return qg_fail(QG_EARG, "%s: cannot except '%s': %s", t->path, layer, qg_errmsg());
    return QG_OK;
}

static qg_status check_values(const qg_param *p, const qg_named_array *e, const char *path)
{
    const float *v = e->array.data;
    for (size_t i = 0, n = qg_count(p->shape); i < n; i++) {
        if (!isfinite(v[i])) return qg_fail(QG_ENAN, "%s: %s contains a value that is not finite", path, p->name);
        if (p->flips && v[i] != 1 && v[i] != -1)
            return qg_fail(QG_EARG, "%s: %s has no latent weights, so only -1 and +1 are allowed", path, p->name);
    }
    return QG_OK;
}

/* Reports every mismatch before anything is copied. */
static qg_status check(const transfer *t, qg__init_report *report)
{
    misfits               bad = { .layers = report->misfit };
    size_t                n;
    const qg_params      *params = qg_net_params(t->net);
    const qg_named_array *entry  = qg_archive_entries(t->from, &n);
    for (int i = 0; i < params->count; i++) {
        const qg_param       *p  = params->item[i];
        const qg_named_array *e  = entry_for(t, p);
        const place           at = place_of(t->net, p);
        if (is_excepted(t, p->name)) continue;
        if (e || !at.slot) compare(p, e, &bad);
        else if (!at.learned->quiet) qg__list_append(report->kept, sizeof report->kept, p->name);
    }
    for (size_t i = 0; i < n; i++) {
        char text[160];
        if (qg_params_find(params, entry[i].name) || is_of_run(entry[i].name) || is_excepted(t, entry[i].name)) continue;
        if (has_name_of_learned(entry[i].name)) {
            qg__list_append(report->unused, sizeof report->unused, entry[i].name);
            continue;
        }
        snprintf(text, sizeof text, "%.128s is not part of this net", entry[i].name);
        add_misfit(&bad, entry[i].name, text);
    }
    if (bad.too_many) *bad.layers = '\0';
    return *bad.arrays ? qg_fail(QG_ESHAPE, "%s: does not fit the net: %s", t->path, bad.arrays) : QG_OK;
}

static void copy(const transfer *t)
{
    const qg_params *params = qg_net_params(t->net);
    for (int i = 0; i < params->count; i++) {
        const qg_param       *p = params->item[i];
        const qg_named_array *e = entry_for(t, p);
        if (e) memcpy(p->value, e->array.data, qg_count(p->shape) * sizeof(float));
    }
}

/* Starting may change the weight, which stays here. */
static qg_status start_from_weight(qg_layer *l, qg_slot *slot)
{
    const size_t n    = qg_count(slot->of->shape);
    float       *kept = malloc(2 * n * sizeof *kept);
    if (!kept) return qg_fail(QG_EMEM, "%s: out of memory", l->name);
    memcpy(kept, slot->of->value, n * sizeof *kept);
    qg_slot_start(slot, qg_layer_weight(l, kept + n));
    memcpy(slot->of->value, kept, n * sizeof *kept);
    free(kept);
    return QG_OK;
}

/* Values that are only tracked have followed the weight while its quantizer waited. */
static bool starts_late(const qg_binding *b, uint64_t after)
{
    const qg_quant *q = &b->q;
    if (q->after != after || b->frozen) return false;
    for (int i = 0; i < qg_learned_count(*q); i++)
        if (!q->scheme->learned[i].tracked) return true;
    return false;
}

qg_status qg__start_quantizers(qg_net *net, uint64_t after, bool *any)
{
    qg_status status = QG_OK;
    *any             = false;
    for (int i = 0; i < qg_net_layers(net) && !status; i++) {
        qg_layer *l    = qg_net_layer(net, i);
        qg_slot  *slot = l->type->slot ? l->type->slot(l, QG_WEIGHT) : NULL;
        if (!slot || !slot->of || !slot->q.scheme) continue;
        if (after != 0 && !starts_late(&slot->bound, after)) continue;
        status = start_from_weight(l, slot);
        *any   = true;
    }
    return status;
}

/* Of all weights of the run that wrote the file, as in its log; of what this net took, if they are unknown or some were
 * to be left out. */
static uint64_t digest_of(const transfer *t, const qg_params *taken)
{
    const qg_params *of    = t->trained && !t->except ? qg_net_params(t->trained) : taken;
    const size_t     count = of == taken ? 0 : (size_t)of->count;
    qg_param        *copy  = calloc(count + 1, sizeof *copy), **item = calloc(count + 1, sizeof *item);
    bool             whole = copy && item && count;
    for (size_t i = 0; whole && i < count; i++) {
        const qg_named_array *e    = qg_archive_find(t->from, of->item[i]->name);
        const qg_array        mine = qg__param_array(of->item[i]);
        whole   = e && !strcmp(e->dtype, "F32") && qg__array_same_shape(e->array, mine);
        copy[i] = *of->item[i], item[i] = &copy[i];
        if (whole) copy[i].value = (float *)(uintptr_t)e->array.data;       /* which is only read */
    }
    const uint64_t digest = qg_params_digest(whole ? &(qg_params){ .item = item, .count = of->count } : taken);
    free(copy), free(item);
    return digest;
}

/* Whether p was projected where it was trained; to do so again would move the last bits of its values. */
static bool is_projected(const transfer *t, const qg_param *p)
{
    const qg_param *was = t->trained ? qg_params_find(qg_net_params(t->trained), p->name) : NULL;
    return was && was->project == p->project && was->clip == p->clip;
}

static qg_status take(const transfer *t, qg__init_report *report)
{
    const qg_params *params = qg_net_params(t->net);
    qg_params        taken  = { .item = calloc((size_t)params->count + 1, sizeof *taken.item) };
    qg_status        status = taken.item ? QG_OK : qg_fail(QG_EMEM, "%s: out of memory", t->path);
    bool             any;
    for (int i = 0; i < params->count && !status; i++) {
        const qg_named_array *e = entry_for(t, params->item[i]);
        if (!e) continue;
        status                    = check_values(params->item[i], e, t->path);
        taken.item[taken.count++] = params->item[i];
    }
    if (!status) {
        copy(t);
        status = qg__start_quantizers(t->net, 0, &any);
    }
    if (!status) {
        copy(t);                        /* the learned values that the file has */
        report->taken = taken.count;
        snprintf(report->digest, sizeof report->digest, "%016" PRIx64, digest_of(t, &taken));
        /* Projects the loaded weights, as the initial random weights are projected. */
        for (int i = 0; i < taken.count; i++)
            if (!is_projected(t, taken.item[i])) qg_param_project(taken.item[i]);
    }
    free(taken.item);
    return status;
}

qg_status qg__init_weights(qg_net *net, const char *source, qg_net *trained, const char *except, qg__init_report *report)
{
    char path[QG__PATH_BYTES];
    *report           = (qg__init_report){ .taken = 0 };
    const bool is_run = qg__path_is_directory(source);
    qg_status  status = is_run ? qg__path_join(source, "last.safetensors", path) : QG_OK;
    if (status) return status;
    if (!is_run) snprintf(path, sizeof path, "%s", source);
    qg_archive *a;
    status = qg__safetensors_open(QG_BY_PATH, path, &a);
    if (status) return status;
    report->foreign  = !qg_archive_noted(a, "format");
    const transfer t = { net, trained, a, path, except };
    status           = check_excepted(&t);
    if (!status) status = check(&t, report);
    if (!status) status = qg__safetensors_load(a);      /* nothing is read of a file that does not fit */
    if (!status) status = take(&t, report);
    qg_archive_free(a);
    return status;
}
