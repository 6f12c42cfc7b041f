#include "cli/config/models.h"

#include <string.h>

#include "cli/config/options.h"
#include "cli/config/spelling.h"

/* The options a model has, side by side, and the key of each. */
static int options_of(const qg_model *m, spelling_option list[QG_MODEL_KEYS], int key[QG_MODEL_KEYS])
{
    int n = 0;
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const qg_model_option *o = &m->option[k];
        if (!o->name) continue;
        key[n]    = k;
        list[n++] = (spelling_option){ .name     = o->name,
                                       .fallback = o->fallback,
                                       .min      = o->min,
                                       .max      = o->max,
                                       .words    = o->words,
                                       .is       = o->whole ? WHOLE : 0 };
    }
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
    spelling_option list[QG_MODEL_KEYS];
    int             key[QG_MODEL_KEYS];
    double          value[QG_MODEL_KEYS];
    const int       n = options_of(*model, list, key);
    if (spelling_parse(text, list, n, value)) return QG_EARG;
    for (int k = 0; k < QG_MODEL_KEYS; k++) chosen[k] = 0;
    for (int i = 0; i < n; i++) chosen[key[i]] = value[i];
    spelling_print(name, list, n, value, canonical, bytes);
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
    fprintf(out, "\nModels, whose recipes stand in for [..], with options as in vgg7:width=0.25:\n");
    for (const qg_model *const *m = qg_models; *m; m++) {
        spelling_option list[QG_MODEL_KEYS];
        int             key[QG_MODEL_KEYS];
        const int       n = options_of(*m, list, key);
        fprintf(out, "  %-16s %s\n", (*m)->name, (*m)->about);
        for (int i = 0; i < n; i++) {
            char text[64], range[64];
            spelling_value(&list[i], list[i].fallback, text);
            if (list[i].words) snprintf(range, sizeof range, "%s", list[i].words);
            else snprintf(range, sizeof range, "%g..%g", list[i].min, list[i].max);
            fprintf(out, "%s%s=%s [%s]", i ? "; " : "                     ", list[i].name, range, text);
        }
        if (n) fputc('\n', out);
    }
}
