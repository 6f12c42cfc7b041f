#include "cli/config/models.h"

#include <string.h>

#include "cli/config/options.h"

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
    double        value[QG_MAX_VALUES];
    const qg_key *keys   = (*model)->keys;
    const size_t  length = strlen(name);
    if (qg_keys_parse(name, text[length] ? text + length + 1 : NULL, keys, value)) return QG_EARG;
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const int i = qg_keys_find(keys, qg_model_keys[k], strlen(qg_model_keys[k]));
        chosen[k]   = i < 0 ? 0 : value[i];
    }
    qg_keys_print(name, keys, value, canonical, bytes);
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
    fprintf(out, "\nModels and their options, as in vgg7:width=0.25.  The training defaults of a model replace the values\n"
                 "in [..] above:\n");
    for (const qg_model *const *m = qg_models; *m; m++) keyed_help((*m)->name, (*m)->about, (*m)->keys, out);
}
