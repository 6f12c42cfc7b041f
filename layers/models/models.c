#include "layers/models/models.h"

#include <string.h>

#include "layers/models/lenet5.h"

const qg_model *const qg_models[] = { &qg_model_lenet5, NULL };

const qg_model *qg_model_find(const char *name)
{
    for (const qg_model *const *m = qg_models; *m; m++)
        if (!strcmp((*m)->name, name)) return *m;
    return NULL;
}

void qg_model_quant(const qg_model_spec *spec, const char *name, bool first, bool last,
                    qg_quant *weight, qg_quant *input)
{
    const bool keep = spec->first_last_float && (first || last);
    *weight         = keep ? (qg_quant){ 0 } : spec->weight;
    *input          = keep || first ? (qg_quant){ 0 } : spec->input;
    for (int i = 0; i < spec->choices; i++) {
        if (strcmp(spec->choice[i].layer, name)) continue;
        if (spec->choice[i].has_weight) *weight = spec->choice[i].weight;
        if (spec->choice[i].has_input) *input = spec->choice[i].input;
    }
}
