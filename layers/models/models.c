#include "layers/models/models.h"

#include <string.h>

#include "layers/models/lenet5.h"
#include "layers/models/parts.h"
#include "layers/models/resnet.h"
#include "layers/models/vgg7.h"

const qg_model *const qg_models[] = { &qg_model_lenet5, &qg_model_vgg7, &qg_model_resnet20, NULL };

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

qg_net_spec qg__model_net(const qg_model_spec *spec)
{
    return (qg_net_spec){ .height                 = spec->height,
                          .width                  = spec->width,
                          .channels               = spec->channels,
                          .seed                   = spec->seed,
                          .fold_batchnorm         = spec->fold_batchnorm,
                          .freeze_batchnorm_after = spec->freeze_batchnorm_after };
}

void qg__model_between(qg_net *net, qg_quant next_input, int pool)
{
    const bool binary = next_input.scheme && next_input.bits == 1;
    if (binary && pool) qg_net_maxpool(net, pool);
    qg_net_batchnorm(net);
    if (!next_input.scheme || !next_input.scheme->rectifies) qg_net_relu(net);
    if (!binary && pool) qg_net_maxpool(net, pool);
}
