#include "cli/config/models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/config/options.h"
#include "core/io/hash.h"
#include "core/io/paths.h"
#include "layers/models/text.h"

static qg_status parse_text(const char *text, chosen_model *m, char *canonical, size_t bytes)
{
    if (qg_net_text_check(text)) return QG_EARG;
    snprintf(m->text, sizeof m->text, "%s", text);
    snprintf(canonical, bytes, "%s", text);
    return QG_OK;
}

/* VGG7 is no text of a net, but vgg7 misspelt. */
static bool is_model_in_capitals(const char *name)
{
    for (const qg_model *const *m = qg_models; *m; m++)
        if (!strcasecmp((*m)->name, name) && strcmp((*m)->name, name)) return true;
    return false;
}

qg_status model_parse(const char *text, chosen_model *m, char *canonical, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    *m = (chosen_model){ .type = qg_model_find(name) };
    if (!m->type || is_model_in_capitals(name)) {
        char names[VALUE_BYTES] = "";
        model_names(names, sizeof names);
        return qg_fail(QG_EARG, "unknown model '%s'; available: %s, or a net as text: 32C5-BN-R-MP2-10", name, names);
    }
    if (m->type == &qg_model_text) return parse_text(text, m, canonical, bytes);
    double        value[QG_MAX_VALUES];
    const qg_key *keys   = m->type->keys;
    const size_t  length = strlen(name);
    if (qg_keys_parse(name, text[length] ? text + length + 1 : NULL, keys, value)) return QG_EARG;
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const int i  = qg_keys_find(keys, qg_model_keys[k], strlen(qg_model_keys[k]));
        m->option[k] = i < 0 ? 0 : value[i];
    }
    qg_keys_print(name, keys, value, canonical, bytes);
    return QG_OK;
}

void model_file_name(const char *spelling, char *name, size_t bytes)
{
    if (qg_model_find(spelling) == &qg_model_text) {
        snprintf(name, bytes, "net-%08" PRIx32, (uint32_t)qg_hash(QG_HASH_BASIS, spelling, strlen(spelling)));
        return;
    }
    snprintf(name, bytes, "%s", spelling);
    for (char *c = name; *c; c++)
        if (strchr(":,=", *c)) *c = '-';
}

void model_names(char *text, size_t bytes)
{
    for (const qg_model *const *m = qg_models; *m; m++) qg__list_append(text, bytes, (*m)->name);
}

void models_help(FILE *out)
{
    fprintf(out, "\nModels and their options, as in vgg7:width=0.25.  The training defaults of a model replace the values\n"
                 "in [..] above:\n");
    for (const qg_model *const *m = qg_models; *m; m++) keyed_help((*m)->name, (*m)->about, (*m)->keys, out);
    fprintf(out, "  32C5-BN-R-MP2-512FC-BN-R-10\n"
                 "                   a net of your own, as text (docs/models-and-data.md)\n");
}
