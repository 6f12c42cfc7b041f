#include "layers/models/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/paths.h"
#include "layers/layer.h"
#include "layers/models/parts.h"

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

/* Puts numbers in the place of $ and $64.  false: there is no room for it. */
static bool write_net(const char *net, const qg_model_spec *spec, char text[QG_MODEL_TEXT_BYTES])
{
    enum { NUMBER = 12 };
    size_t n = 0;
    while (*net && n + NUMBER < QG_MODEL_TEXT_BYTES) {
        if (*net != '$') {
            text[n++] = *net++;
            continue;
        }
        char      *end;
        const long scaled = lround((double)strtol(net + 1, &end, 10) * spec->option[QG_MODEL_WIDTH]);
        const int  number = end == net + 1 ? spec->classes : scaled < 1 ? 1 : (int)scaled;
        n += (size_t)snprintf(text + n, NUMBER, "%d", number);
        net = end;
    }
    text[n] = '\0';
    return !*net;
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
    char text[QG_MODEL_TEXT_BYTES] = "";
    if (m->net && !write_net(m->net, &spec, text)) return qg__refuse(QG_EARG, "%s: its text is too long", m->name);
    if (m->text) m->text(&spec, text);
    qg_net *net = qg__net_from_text(*text ? text : spec.text, &spec);
    /* Building one without layers tells what has failed. */
    if (!net || !qg_net_layers(net) || !check_choices(m, &spec, net)) return net;
    qg_net_free(net);
    return NULL;
}

static bool keeps_ends(qg_quant q) { return q.scheme && q.scheme->float_ends; }

bool qg__model_keeps_ends(qg_quant weight, qg_quant input, qg_quant gradient)
{
    return keeps_ends(weight) || keeps_ends(input) || keeps_ends(gradient);
}
