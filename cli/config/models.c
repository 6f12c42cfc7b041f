#include "cli/config/models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/config/options.h"
#include "core/io/hash.h"
#include "core/io/paths.h"
#include "layers/models/text.h"

const qg_model *model_of(const char *spelling)
{
    char name[QG_RECIPE_VALUE_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spelling, ":"), spelling);
    return qg_model_find(name);
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
