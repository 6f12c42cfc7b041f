#include "layers/models/models.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/io/paths.h"
#include "layers/layer.h"
#include "layers/models/parts.h"

const qg_model *const qg_models[] = {
    &qg__model_lenet5,      &qg__model_lenet5_xnor, &qg__model_mlp,      &qg__model_vgg7,     &qg__model_vgg_small,
    &qg__model_resnet20,    &qg__model_resnet32,    &qg__model_resnet44, &qg__model_resnet56, &qg__model_resnet18,
    &qg__model_birealnet18, &qg__model_mobilenet,   &qg__model_nin,      &qg__model_tfc,      &qg__model_sfc,
    &qg__model_lfc,         &qg__model_cnv,         NULL,
};

const qg_model *qg_model_find(const char *name)
{
    for (const qg_model *const *m = qg_models; name && *m; m++)
        if (!strcmp((*m)->name, name)) return *m;
    /* No name of a model begins like a text. */
    if (name && *name && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789({", *name)) return &qg_model_text;
    qg_fail(QG_EARG, "unknown model '%s'", name ? name : "NULL");
    return NULL;
}

const char *const qg__model_keys[QG_MODEL_KEYS] = {
    [QG_MODEL_DEPTH]         = "depth",
    [QG_MODEL_WIDTH]         = "width",
    [QG_MODEL_DROPOUT]       = "dropout",
    [QG_MODEL_INPUT_DROPOUT] = "input-dropout",
    [QG_MODEL_ORDER]         = "order",
    [QG_MODEL_SHORTCUT]      = "shortcut",
};

/* Replaces 0 by the defaults and checks the ranges. */
static qg_status settle(const qg_model *m, double option[QG_MODEL_KEYS])
{
    double value[QG_MAX_KEYS] = { 0 };
    for (int k = 0; k < QG_MODEL_KEYS; k++) {
        const int i = qg_keys_find(m->keys, qg__model_keys[k], strlen(qg__model_keys[k]));
        if (i < 0 && option[k] == 0) continue;
        if (i < 0)
            return qg_fail(QG_EARG, "%s: option %s is set to %g, but the model does not have it", m->name,
                           qg__model_keys[k], option[k]);
        if (option[k] == 0) option[k] = m->keys[i].fallback;
        value[i] = option[k];
    }
    return qg__keys_check(m->name, m->keys, value);
}

/* Every exception must name a product of the net. */
static qg_status check_choices(const qg_model *m, const qg_model_spec *spec, const qg_net *net)
{
    for (int i = 0; i < spec->choices; i++) {
        char names[512] = "";
        bool found      = false;
        for (int k = 0; k < qg_net_layers(net); k++) {
            qg_layer *l = qg_net_layer(net, k);
            if (!qg_layer_product(l)) continue;
            found |= !strcmp(l->name, spec->choice[i].layer);
            qg__list_append(names, sizeof names, l->name);
        }
        if (!found)
            return qg_fail(QG_EARG, "layer: %s has no layer '%s' with a weight; available: %s", m->name,
                           spec->choice[i].layer, names);
    }
    return QG_OK;
}

qg_net *qg_model_declare(const qg_model *m, qg_model_spec spec)
{
    if (!m) {
        qg__fail_null(QG_EARG, "model");
        return NULL;
    }
    if (settle(m, spec.option)) return NULL;
    for (int i = 0; i < spec.choices; i++)
        if (!spec.choice || !spec.choice[i].layer)
            return qg__refuse(QG_EARG, "%s: exception %d names no layer", m->name, i);
    char text[QG_MODEL_TEXT_BYTES];
    if (m->text) m->text(&spec, text);
    qg_net *net = qg__net_from_text(m->text ? text : spec.text, &spec);
    if (!net || !check_choices(m, &spec, net)) return net;
    qg_net_free(net);
    return NULL;
}

static bool keeps_ends(qg_quant q) { return q.scheme && q.scheme->float_ends; }

bool qg__model_keeps_ends(qg_quant weight, qg_quant input, qg_quant gradient)
{
    return keeps_ends(weight) || keeps_ends(input) || keeps_ends(gradient);
}

bool qg__model_has_float_ends(const qg_model_spec *s)
{
    return s->first_last == QG_FIRST_LAST_AUTO ? qg__model_keeps_ends(s->weight, s->input, s->gradient)
                                               : s->first_last == QG_FIRST_LAST_FLOAT;
}

qg__model_quants qg__model_quant(const qg_model_spec *spec, const char *name, bool first, bool last)
{
    qg__model_quants q = { 0 };
    if (!(first || last) || !qg__model_has_float_ends(spec)) {
        q = (qg__model_quants){ spec->weight, spec->input, spec->gradient };
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

/* --- parts -------------------------------------------------------------------------------- */

const qg_key qg__model_width_keys[] = { { .name = "width", .fallback = 1, .min = 0.0625, .max = 4 }, { .name = NULL } };

int qg__model_scaled(const qg_model_spec *spec, int n)
{
    const long most = lround(n * spec->option[QG_MODEL_WIDTH]);
    return most < 1 ? 1 : (int)most;
}

qg_net_spec qg__model_net(const qg_model_spec *spec)
{
    return (qg_net_spec){ .height                 = spec->height,
                          .width                  = spec->width,
                          .channels               = spec->channels,
                          .seed                   = spec->seed,
                          .initial_weights        = spec->initial_weights,
                          .fold_batchnorm         = spec->fold_batchnorm,
                          .batchnorm_per_rank     = spec->batchnorm_per_rank,
                          .freeze_batchnorm_after = spec->freeze_batchnorm_after,
                          .quantize_weights_after = spec->quantize_weights_after,
                          .quantize_inputs_after  = spec->quantize_inputs_after };
}

qg__model_quants qg__model_numbered(const qg_model_spec *spec, const char *prefix, int number,
                                    bool first, bool last)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", prefix, number);
    return qg__model_quant(spec, name, first, last);
}

void qg__model_text(char text[QG_MODEL_TEXT_BYTES], const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(text, QG_MODEL_TEXT_BYTES, format, values);
    va_end(values);
}
