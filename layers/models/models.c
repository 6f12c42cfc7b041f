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

qg_model_quants qg_model_quant(const qg_model_spec *spec, const char *name, bool first, bool last)
{
    qg_model_quants q = { 0 };
    if (!spec->first_last_float || !(first || last)) {
        q = (qg_model_quants){ spec->weight, spec->input, spec->gradient };
        if (first) q.input = (qg_quant){ 0 };
    }
    for (int i = 0; i < spec->choices; i++) {
        const qg_choice *c = &spec->choice[i];
        if (strcmp(c->layer, name)) continue;
        if (c->has_weight) q.weight = c->weight;
        if (c->has_input) q.input = c->input;
        if (c->has_gradient) q.gradient = c->gradient;
    }
    return q;
}
