#include <stdio.h>

#include "layers/layer.h"

qg_status qg_slot_declare(qg_layer *l, qg_slot *slot, const char *slot_name, qg_shape x)
{
    const qg_scheme *scheme = slot->q.scheme;
    const bool       weight = slot_name[0] == 'w';
    if (!scheme) return QG_OK;
    if (weight ? !scheme->weight : !scheme->input)
        return qg_fail(QG_EARG, "%s: %s quantizes %s, not %s", l->name, scheme->name,
                       weight ? "activations" : "weights", weight ? "weights" : "activations");
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *learned = &scheme->learned[i];
        char              name[128];
        snprintf(name, sizeof name, "%s.%s", slot_name, learned->name);
        slot->param[i] = qg_layer_declare(
            l, name,
            (qg_param){ .shape    = qg_learned_shape(slot->q, learned, x, weight),
                        .group    = learned->tracked ? QG_TRACKED : QG_QUANTIZERS,
                        .decay    = learned->decay,
                        .lr_scale = learned->lr_scale });
        if (!slot->param[i]) return QG_EARG;
    }
    return QG_OK;
}

void qg_slot_start(qg_slot *slot, qg_tensor x)
{
    float *value[QG_LEARNED] = { 0 };
    if (!slot->q.scheme || !slot->q.scheme->start) return;
    for (int i = 0; i < QG_LEARNED; i++)
        if (slot->param[i]) value[i] = slot->param[i]->value;
    slot->q.scheme->start(slot->q, x, value);
}

void qg_slot_vars(const qg_slot *slot, qg_tape *t, qg_var **learned)
{
    for (int i = 0; i < QG_LEARNED; i++)
        learned[i] = slot->param[i] ? qg_parameter(t, slot->param[i]) : NULL;
}

qg_var *qg_slot_apply(const qg_slot *slot, qg_tape *t, qg_var *x)
{
    qg_var *learned[QG_LEARNED];
    if (!x || !slot->q.scheme) return x;
    qg_slot_vars(slot, t, learned);
    return qg_quantize(t, slot->q, x, learned);
}
