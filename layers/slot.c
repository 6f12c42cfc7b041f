#include <stdio.h>

#include "layers/plan.h"

const qg_role qg_roles[QG_ROLES] = { QG_WEIGHT, QG_INPUT, QG_GRADIENT };

const qg_slot *qg_layer_slot(qg_layer *l, qg_role role)
{
    return l && l->type->slot ? l->type->slot(l, role) : NULL;
}

qg_tensor qg_layer_weight(qg_layer *l, float *folded)
{
    const qg_product *p    = qg_layer_product(l);
    const qg_slot    *slot = qg_layer_slot(l, QG_WEIGHT);
    if (p) return p->weight ? qg__product_weight(p, folded) : (qg_tensor){ .data = NULL };
    return slot && slot->of ? (qg_tensor){ slot->of->shape, slot->of->value } : (qg_tensor){ .data = NULL };
}

/* x: the shape of the operand. */
static qg_status bind(qg_layer *l, const qg_slot *slot, qg_role role, qg_shape x, qg_binding *b)
{
    const qg_scheme *scheme = slot->q.scheme;
    if (!scheme) return QG_OK;
    const qg_status s = qg_bind(slot->q, role, x, b);
    if (s) return qg_fail(s, "%s.%s: %s", l->name, qg_role_name(role), qg_errmsg());
    if (scheme->scale_output && !qg_layer_product(l))
        return qg_fail(QG_EARG, "%s: %s scales the result of a product and cannot be a layer of its own; "
                       "%s:scale=off does not scale, or use it as the input of conv2d or dense", l->name,
                       scheme->name, scheme->name);
    return QG_OK;
}

qg_status qg__slot_check(qg_layer *l, const qg_slot *slot, qg_role role)
{
    qg_binding b;
    return bind(l, slot, role, l->in, &b);
}

uint64_t qg__slot_delay(const qg_net *net, qg_role role)
{
    return role == QG_WEIGHT ? net->spec.quantize_weights_after : role == QG_INPUT ? net->spec.quantize_inputs_after : 0;
}

qg_status qg_slot_declare(qg_layer *l, qg_slot *slot, qg_role role, qg_shape x)
{
    if (!slot->q.scheme) return QG_OK;
    if (slot->q.after == 0) slot->q.after = qg__slot_delay(l->net, role);
    const qg_status s = bind(l, slot, role, x, &slot->bound);
    if (s) return s;
    slot->q = slot->bound.q;
    const qg_scheme *scheme = slot->q.scheme;       /* the role may have chosen another */
    for (int i = 0; i < qg_learned_count(slot->q); i++) {
        const qg_learned *learned = &scheme->learned[i];
        char              name[128];
        float             least, greatest;
        snprintf(name, sizeof name, "%s.%s", qg_role_name(role), learned->name);
        qg__learned_bounds(slot->q, i, &least, &greatest);
        slot->param[i] = qg_layer_declare(
            l, name,
            (qg_param){ .shape    = qg_learned_shape(slot->q, learned, x, role),
                        .group    = learned->tracked ? QG_TRACKED : QG_SCALES,
                        .lr_scale = scheme->scale_lr ? scheme->scale_lr(slot->q) : 0,
                        .decay    = scheme->decay ? scheme->decay(slot->q) : 0,
                        .least    = least,
                        .greatest = greatest });
        if (!slot->param[i]) return qg_errcode();
    }
    return QG_OK;
}

void qg_slot_start(qg_slot *slot, qg_tensor x)
{
    float *value[QG_MAX_LEARNED] = { 0 };
    const qg__hooks hooks = slot->q.scheme ? qg__scheme_hooks(slot->q.scheme) : (qg__hooks){ 0 };
    if (!hooks.start) return;
    for (int i = 0; i < QG_MAX_LEARNED; i++)
        if (slot->param[i]) value[i] = slot->param[i]->value;
    hooks.start(slot->q, x, value);
}

/* false: the tape has failed. */
static bool take_vars(const qg_slot *slot, qg_tape *t, qg_var *learned[QG_MAX_LEARNED])
{
    for (int i = 0; i < QG_MAX_LEARNED; i++) learned[i] = slot->param[i] ? qg_parameter(t, slot->param[i]) : NULL;
    for (int i = 0; i < qg_learned_count(slot->q); i++)
        if (!learned[i]) return false;
    return true;
}

qg_status qg_slot_encode(const qg_slot *slot, qg_tensor x, qg_codes *out)
{
    const float *learned[QG_MAX_LEARNED];
    for (int i = 0; i < QG_MAX_LEARNED; i++) learned[i] = slot->param[i] ? slot->param[i]->value : NULL;
    return qg_encode(slot->q, x, learned, out);
}

qg_var *qg_slot_apply(const qg_slot *slot, qg_tape *t, qg_var *x)
{
    qg_var *learned[QG_MAX_LEARNED];
    if (!x || !slot->q.scheme) return x;
    if (!slot->bound.q.scheme) return qg_reject(t, QG_ESTATE, "%s: the quantizer is not declared", slot->q.scheme->name);
    return take_vars(slot, t, learned) ? qg_quantize_bound(t, &slot->bound, x, learned) : NULL;
}

bool qg__slot_fuse(const qg_slot *slot, qg_tape *t, qg_norm_fusion *with)
{
    qg_var *learned[QG_MAX_LEARNED];
    if (!take_vars(slot, t, learned) || qg__quant_observes(&slot->bound, t, learned)) return false;
    if (!qg__quant_is_delayed(slot->q, qg_tape_step(t))) {
        with->act = slot->q.scheme->activation(t, &slot->bound, learned);
        if (!with->act.forward) return false;
    } else if (slot->q.scheme->rectifies) {
        with->relu = true;
    }
    return true;
}
