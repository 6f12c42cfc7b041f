#include "cli/init.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/options.h"
#include "cli/paths.h"
#include "layers/layer.h"

/* A quantizer of the net learns or tracks p. */
static bool is_learned(qg_net *net, const qg_param *p)
{
    for (int i = 0; i < qg_net_layers(net); i++)
        for (int r = 0; r < QG_ROLES; r++) {
            const qg_slot *slot = qg_layer_slot(qg_net_layer(net, i), qg_roles[r]);
            for (int k = 0; slot && k < QG_LEARNED; k++)
                if (slot->param[k] == p) return true;
        }
    return false;
}

/* "conv1.weight.wp": what some quantizer learned. */
static bool has_name_of_learned(const char *name)
{
    const char *role = strchr(name, '.');
    for (int r = 0; role && r < QG_ROLES; r++) {
        const char  *word = qg_role_name(qg_roles[r]);
        const size_t n    = strlen(word);
        if (!strncmp(role + 1, word, n) && role[1 + n] == '.') return true;
    }
    return false;
}

/* Of a run rather than of its net (cli/run.c, cli/census.c, optim/). */
static bool is_of_run(const char *name)
{
    return !strncmp(name, "run.", 4) || !strncmp(name, "codes.", 6) || !strncmp(name, "optim.", 6);
}

static bool same_shape(const qg_array *a, const qg_array *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static void print_shape(const qg_array *a, char text[128])
{
    size_t n = 0;
    *text    = '\0';
    for (int i = 0; i < a->rank && n < 100; i++)
        n += (size_t)snprintf(text + n, 128 - n, i ? ",%zu" : "%zu", a->dims[i]);
}

/* What keeps p from the entry e of the file, into bad. */
static void compare(qg_net *net, const qg_param *p, const qg_archive_entry *e, char *bad, size_t bytes)
{
    char           text[512], here[128], there[128];
    const qg_array mine = qg_param_array(p);
    if (!e && is_learned(net, p)) return;
    if (e && !strcmp(e->dtype, "F32") && same_shape(&e->array, &mine)) return;
    print_shape(&mine, here);
    if (e) print_shape(&e->array, there);
    if (e) snprintf(text, sizeof text, "%s is %s [%s] there and F32 [%s] here", p->name, e->dtype, there, here);
    else snprintf(text, sizeof text, "%s [%s] is missing", p->name, here);
    list_append(bad, bytes, text);
}

static qg_status check_values(const qg_param *p, const qg_archive_entry *e, const char *path)
{
    const float *v = e->array.data;
    for (size_t i = 0, n = qg_count(p->shape); i < n; i++) {
        if (!isfinite(v[i])) return qg_fail(QG_ENAN, "%s: %s holds a value that is not finite", path, p->name);
        if (p->binary && v[i] != 1 && v[i] != -1)
            return qg_fail(QG_EARG, "%s: %s has no latent weights, so it takes -1 and +1 alone", path, p->name);
    }
    return QG_OK;
}

/* Every mismatch, before anything is copied. */
static qg_status check(qg_net *net, const qg_archive *a, const char *path, init_report *report)
{
    char                    bad[1536] = "";
    size_t                  n;
    const qg_params        *params = qg_net_params(net);
    const qg_archive_entry *entry  = qg_archive_entries(a, &n);
    for (int i = 0; i < params->count; i++) {
        const qg_param *p = params->item[i];
        if (!qg_archive_find(a, p->name) && is_learned(net, p))
            list_append(report->kept, sizeof report->kept, p->name);
        compare(net, p, qg_archive_find(a, p->name), bad, sizeof bad);
    }
    for (size_t i = 0; i < n; i++) {
        char text[160];
        if (qg_params_find(params, entry[i].name) || is_of_run(entry[i].name)) continue;
        if (has_name_of_learned(entry[i].name)) {
            list_append(report->unused, sizeof report->unused, entry[i].name);
            continue;
        }
        snprintf(text, sizeof text, "%.128s has no place here", entry[i].name);
        list_append(bad, sizeof bad, text);
    }
    return *bad ? qg_fail(QG_ESHAPE, "%s: does not fit the net: %s", path, bad) : QG_OK;
}

static void copy(const qg_params *params, const qg_archive *a)
{
    for (int i = 0; i < params->count; i++) {
        const qg_param         *p = params->item[i];
        const qg_archive_entry *e = qg_archive_find(a, p->name);
        if (e) memcpy(p->value, e->array.data, qg_count(p->shape) * sizeof(float));
    }
}

/* As weights that were drawn are. */
static void centre(const qg_params *taken)
{
    for (int i = 0; i < taken->count; i++) qg_param_centre(taken->item[i]);
}

/* Scales and ranges that start from the weights start from these. */
static void start_quantizers(qg_net *net)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_product *p = qg_layer_product(qg_net_layer(net, i));
        if (p) qg_slot_start(&p->weight_slot, (qg_tensor){ p->weight->shape, p->weight->value });
    }
}

static qg_status take(qg_net *net, const qg_archive *a, const char *path, init_report *report)
{
    const qg_params *params = qg_net_params(net);
    qg_params        taken  = { .item = calloc((size_t)params->count + 1, sizeof *taken.item) };
    qg_status        status = taken.item ? QG_OK : qg_fail(QG_EMEM, "%s: out of memory", path);
    for (int i = 0; i < params->count && !status; i++) {
        const qg_archive_entry *e = qg_archive_find(a, params->item[i]->name);
        if (!e) continue;
        status                    = check_values(params->item[i], e, path);
        taken.item[taken.count++] = params->item[i];
    }
    if (!status) {
        copy(params, a);
        start_quantizers(net);
        copy(params, a);                /* starting may change weights */
        report->taken = taken.count;
        snprintf(report->digest, sizeof report->digest, "%016" PRIx64, qg_params_digest(&taken));
        centre(&taken);
    }
    free(taken.item);
    return status;
}

qg_status init_weights(qg_net *net, const char *source, init_report *report)
{
    char        path[PATH_BYTES];
    struct stat s;
    *report                = (init_report){ .taken = 0 };
    const bool is_run      = stat(source, &s) == 0 && S_ISDIR(s.st_mode);
    qg_status  status      = is_run ? path_join(source, "last.safetensors", path) : QG_OK;
    if (status) return status;
    if (!is_run) snprintf(path, sizeof path, "%s", source);
    qg_archive *a = qg_archive_open(path);
    if (!a) return QG_EFORMAT;
    status = check(net, a, path, report);
    if (!status) status = take(net, a, path, report);
    qg_archive_free(a);
    return status;
}
