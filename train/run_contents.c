/* What a run's net contains, for other programs: its weights as arrays, and what a file of it notes. */
#include <stdlib.h>
#include <string.h>

#include "layers/plan.h"
#include "train/reader.h"
#include "train/result.h"

/* --- weights ------------------------------------------------------------------------------ */

/* The quantizer of weight i; NULL: there are no more, or the run has failed. */
static const qg_slot *find(qg_run *r, int i, qg_layer **at)
{
    const qg_net *net = qg_run_net(r);
    for (int k = 0; net && i >= 0 && k < qg_net_layers(net); k++) {
        *at                 = qg_net_layer(net, k);
        const qg_slot *slot = qg_layer_slot(*at, QG_WEIGHT);
        if (slot && slot->of && i-- == 0) return slot;
    }
    return NULL;
}

qg_run_weight qg_run_weight_at(qg_run *r, int i)
{
    qg_layer      *l;
    const qg_slot *slot = find(r, i, &l);
    return slot ? (qg_run_weight){ l->name, slot->of->shape, slot->of->value } : (qg_run_weight){ 0 };
}

static qg_status encode(const qg_slot *slot, qg_tensor w, int32_t *code, int *bits)
{
    qg_codes codes = { .code = code, .scale = malloc((size_t)w.shape.n * sizeof *codes.scale) };
    if (!codes.scale) return qg_fail(QG_EMEM, "out of memory for %d scales", w.shape.n);
    const qg_status status = qg_slot_encode(slot, w, &codes);
    free(codes.scale);
    if (status) return qg_fail(status, "%s: %s", slot->of->name, qg_errmsg());
    *bits = codes.bits;
    return QG_OK;
}

static qg_status quantize(qg_run *r, const qg_slot *slot, qg_tensor w, float *value, int32_t *code, int *bits)
{
    qg_tape_begin(r->tape, QG_EVAL, 0, r->steps);
    const qg_var *q = qg_slot_apply(slot, r->tape, qg_input(r->tape, w));
    if (!q) return qg_tape_status(r->tape);
    memcpy(value, q->data, qg_count(w.shape) * sizeof *value);
    const bool waits = slot->q.after > r->steps, floats = slot->q.bits >= QG_FLOAT_BITS;
    return !waits && !floats && qg_has_codes(slot->q) ? encode(slot, w, code, bits) : QG_OK;
}

qg_status qg_run_weight_quantized(qg_run *r, int i, float *value, int32_t *code, int *bits)
{
    qg_layer      *l;
    const qg_slot *slot = find(r, i, &l);
    *bits               = 0;
    if (!r) return QG_EARG;                 /* the message says why the run is NULL */
    if (slot && slot->unknown)
        return qg_fail(QG_EARG, "%s: only its program can quantize it: %s", slot->of->name, slot->unknown);
    if (!slot) return qg_run_net(r) ? qg_fail(QG_EARG, "%s: has no weight %d", qg_run_directory(r), i) : qg_errcode();
    float          *folded = malloc(qg_count(slot->of->shape) * sizeof *folded);
    const qg_status status = folded ? quantize(r, slot, qg_layer_weight(l, folded), value, code, bits)
                                    : qg_fail(QG_EMEM, "out of memory for %zu weights", qg_count(slot->of->shape));
    free(folded);
    return status;
}

/* --- files -------------------------------------------------------------------------------- */

static void note(qg_run_export *e, const char *key, const char *value)
{
    if (value) e->note[e->spec.notes++] = (qg_note){ key, value };
}

/* Kept until the run is closed, also if qg_run_test names the classes of other images. */
static qg_status find_own_names(qg_run *r)
{
    qg__class_names own;
    if (r->own_names) return QG_OK;
    const char *noted  = qg_run_note(r, "class-names");
    qg_status   status = qg__class_names_begin(&own, noted, r->recipe.data.name, r->classes);
    if (status) return status;
    status = qg__class_names_join(&own, &r->own_names);
    qg__class_names_end(&own);
    return status;
}

qg_status qg_run_export_of(qg_run *r, qg_run_export *e)
{
    *e = (qg_run_export){ .spec = { .note = e->note } };
    qg_status status = qg_run_predict(r, 0, NULL, NULL);
    if (!status) status = find_own_names(r);
    if (status) return status;
    if (qg_preprocess_numbers(qg_run_preprocess(r), &e->spec.numbers, &e->spec.mean, &e->spec.deviation))
        return qg_fail(QG_EARG, "%s: an exported net cannot express how its images are normalised: %s",
                       qg_run_directory(r), qg_errmsg());
    qg__digest(r->net, e->digest);
    const char *data = qg_run_config(r) ? NULL : qg_run_get(r, "data"), *kind = qg_run_note(r, "kind");
    note(e, "model", qg_run_get(r, "model"));
    note(e, "data", data && !strncmp(data, "arrays:", 7) ? "arrays" : data);       /* without the paths of files */
    note(e, "class-names", r->own_names);
    note(e, "digest", e->digest);
    note(e, "file", kind && !strcmp(kind, "weights") ? "best.safetensors" : "last.safetensors");
    e->spec.step = qg__step_given(r->steps);
    return QG_OK;
}
