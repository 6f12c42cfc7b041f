#include "cli/config/models.h"

#include <string.h>

#include "cli/config/options.h"
#include "core/io/keys.h"

/* The options a model has, side by side, and the key of each. */
static int options_of(const qg_model *m, qg_key list[QG_MODEL_KEYS + 1], int key[QG_MODEL_KEYS])
{
    int n = 0;
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const qg_model_option *o = &m->option[k];
        if (!o->name) continue;
        key[n]    = k;
        list[n++] = (qg_key){ .name     = o->name,
                              .fallback = o->fallback,
                              .min      = o->min,
                              .max      = o->max,
                              .words    = o->words,
                              .is       = o->whole ? QG_KEY_WHOLE : 0 };
    }
    list[n] = (qg_key){ .name = NULL };
    return n;
}

qg_status model_parse(const char *text, const qg_model **model, double chosen[QG_MODEL_KEYS], char *canonical,
                      size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    *model = qg_model_find(name);
    if (!*model) {
        char names[VALUE_BYTES] = "";
        model_names(names, sizeof names);
        return qg_fail(QG_EARG, "unknown model '%s'; available: %s", name, names);
    }
    qg_key       list[QG_MODEL_KEYS + 1];
    int          key[QG_MODEL_KEYS];
    double       value[QG_MODEL_KEYS];
    const int    n = options_of(*model, list, key);
    const size_t length = strlen(name);
    if (qg_keys_parse(name, text[length] ? text + length + 1 : NULL, list, value)) return QG_EARG;
    for (int k = 0; k < QG_MODEL_KEYS; k++) chosen[k] = 0;
    for (int i = 0; i < n; i++) chosen[key[i]] = value[i];
    qg_keys_print(name, list, value, canonical, bytes);
    return QG_OK;
}

void model_file_name(const char *spelling, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s", spelling);
    for (char *c = name; *c; c++)
        if (strchr(":,=", *c)) *c = '-';
}

void model_names(char *text, size_t bytes)
{
    for (const qg_model *const *m = qg_models; *m; m++) list_append(text, bytes, (*m)->name);
}

void models_help(FILE *out)
{
    fprintf(out, "\nModels.  Options follow the name, as in vgg7:width=0.25.  A model's training defaults replace those\n"
                 "in [..] above:\n");
    for (const qg_model *const *m = qg_models; *m; m++) {
        qg_key    list[QG_MODEL_KEYS + 1];
        int       key[QG_MODEL_KEYS];
        options_of(*m, list, key);
        keyed_help((*m)->name, (*m)->about, list, out);
    }
}
