#include "cli/report/gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/plan.h"
#include "train/result.h"

const char *const moment_name[MOMENTS] = { "start", "best", "last" };

/* --- weights -------------------------------------------------------------------------------- */

static qg_status take_layers(shown_run *r)
{
    const int n = qg_net_layers(r->used.net);
    r->layer    = calloc((size_t)n + 1, sizeof *r->layer);
    r->input    = calloc((size_t)n + 1, sizeof *r->input);
    if (!r->layer || !r->input) return qg_fail(QG_EMEM, "out of memory for %d layers", n);
    for (int i = 0; i < n; i++) {
        qg_layer      *l    = qg_net_layer(r->used.net, i);
        const qg_slot *slot = qg_layer_slot(l, QG_WEIGHT);
        if (slot && slot->of) r->layer[r->layers++].layer = l;
    }
    return QG_OK;
}

static qg_status measure(shown_run *r, qg_net *net, qg_tape *t, moment m)
{
    qg_status s = QG_OK;
    for (int i = 0; i < r->layers && !s; i++)
        s = weights_measure(qg_net_layer(net, r->layer[i].layer->index), t, &r->layer[i].weight[m]);
    return s;
}

/* The initial weights follow from the seed, unless others were loaded. */
static qg_status measure_start(shown_run *r, qg_tape *t, const shown_layer *before)
{
    for (int i = 0; before && i < r->layers; i++) r->layer[i].weight[AT_START] = before[i].weight[AT_START];
    if (before || r->config.init_digest || r->used.said) return QG_OK;
    qg_net         *net = recipe_net(&r->config.recipe, r->image, r->classes);
    const qg_status s   = net ? measure(r, net, t, AT_START) : qg_errcode();
    qg_net_free(net);
    return s;
}

/* The best weights may be those of an epoch that has not been saved as best.safetensors of this version. */
static qg_status measure_best(shown_run *r, qg_tape *t)
{
    used_run  best = NO_RUN;
    config    c    = { 0 };
    best.only_weights = true;
    qg_status s       = used_run_find(&best, r->dir, true, &c);
    if (!s) s = used_run_load(&best, &c, &c.recipe, r->image, r->classes);
    if (!s) s = measure(r, best.net, t, AT_BEST);
    used_run_end(&best);
    config_free(&c);
    return s;
}

static qg_status measure_all(shown_run *r, const shown_layer *before)
{
    const bool ends_with_best = r->result.best_epoch == r->result.epochs && r->result.batch == 0;
    qg_tape   *t = qg_tape_new();
    qg_status  s = t ? measure(r, r->used.net, t, AT_LAST) : QG_EMEM;
    for (int i = 0; ends_with_best && i < r->layers; i++) r->layer[i].weight[AT_BEST] = r->layer[i].weight[AT_LAST];
    if (!s && !ends_with_best) s = measure_best(r, t);
    if (!s) s = measure_start(r, t, before);
    qg_tape_free(t);
    return s;
}

qg_status shown_run_read(shown_run *r, const char *dir, const shown_layer *before)
{
    *r                   = (shown_run){ .used = NO_RUN };
    r->used.only_weights = true;
    qg_status s          = run_directory("run", dir, r->dir);
    if (!s) s = used_run_find(&r->used, r->dir, false, &r->config);
    const qg__run_paths *p = &r->used.run.paths;
    if (!s) s = qg__result_read(&r->result, QG_BY_PATH, p->file[QG__RUN_RESULT]);
    if (!s) s = metric_columns_read(&r->metrics, p->file[QG__RUN_METRICS]);
    if (!s) s = qg__run_noted_size(&r->used.run, r->used.file, &r->image, &r->classes);
    if (!s && !r->classes)
        s = qg_fail(QG_EFORMAT, "%s: its checkpoint is of an older version, which did not note the size of the images", r->dir);
    if (!s) s = used_run_load(&r->used, &r->config, &r->config.recipe, r->image, r->classes);
    if (!s) s = class_names_of(&r->names, p->file[r->used.file], r->config.recipe.data.name, r->classes);
    if (!s) s = take_layers(r);
    if (!s && r->metrics.rows == 0) s = qg_fail(QG_ESTATE, "%s: no epoch is finished yet", r->dir);
    return s ? s : measure_all(r, before);
}

/* --- inputs --------------------------------------------------------------------------------- */

/* Nothing is folded here, and the results of all layers stay in memory at the same time. */
enum { INPUT_IMAGES = 16 };

/* The quantizer of what l reads: that of a product, or of a quantize layer. */
static const qg_slot *quantizer_of(qg_layer *l)
{
    const qg_slot *slot = qg_layer_slot(l, QG_INPUT);
    return slot && slot->q.scheme ? slot : NULL;
}

static void count_values(size_t n, const float *q, shown_input *out)
{
    out->least = INFINITY, out->greatest = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        out->least    = fminf(out->least, q[i]);
        out->greatest = fmaxf(out->greatest, q[i]);
    }
    size_t zeros = 0, low = 0, high = 0;
    for (size_t i = 0; i < n; i++) {
        zeros += q[i] == 0.0f;
        low += q[i] == out->least;
        high += q[i] == out->greatest;
    }
    out->zeros   = (double)zeros / (double)n;
    out->lowest  = (double)low / (double)n;
    out->highest = (double)high / (double)n;
}

static qg_var *run_layer(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    if (!l->with) return qg_apply(l, t, x);
    return qg__is_add(l) ? qg_add(t, x, z) : qg_concat(t, 2, (qg_var *const[]){ x, z });
}

/* Layer by layer, as declared, so that what a layer reads can be seen. */
static qg_status run_layers(shown_run *r, qg_tape *t, qg_var *image, qg_var **result)
{
    for (int i = 0; i < qg_net_layers(r->used.net); i++) {
        qg_layer      *l    = qg_net_layer(r->used.net, i);
        qg_var        *x    = l->after ? result[l->after->index] : image;
        const qg_slot *slot = quantizer_of(l);
        const qg_var  *q    = slot ? qg_slot_apply(slot, t, x) : NULL;
        if (q) {
            shown_input *out = &r->input[r->inputs++];
            out->layer       = l->name;
            count_values(qg_count(q->shape), q->data, out);
        }
        result[i] = run_layer(l, t, x, l->with ? result[l->with->index] : NULL);
        if (!result[i]) return qg_tape_status(t);
    }
    return QG_OK;
}

qg_status shown_run_inputs(shown_run *r, qg_loader *images)
{
    qg_batch  b;
    qg_tape  *t      = qg_tape_new();
    qg_var  **result = calloc((size_t)qg_net_layers(r->used.net) + 1, sizeof *result);
    qg_status s      = t && result ? QG_OK : qg_fail(QG_EMEM, "out of memory for a tape");
    r->inputs        = 0;
    if (!s && qg_loader_next(images, &b)) {
        qg_tape_begin(t, QG_EVAL, 0, r->used.run.record.steps);
        if (b.x.shape.n > INPUT_IMAGES) b.x.shape.n = INPUT_IMAGES;
        r->input_images = b.x.shape.n;
        s               = run_layers(r, t, qg_input(t, b.x), result);
    }
    free(result);
    qg_tape_free(t);
    const qg_status after = qg_loader_seek(images, 0, 0);
    return s ? s : after;
}

void shown_run_free(shown_run *r)
{
    used_run_end(&r->used);
    metric_columns_free(&r->metrics);
    class_names_end(&r->names);
    free(r->layer);
    free(r->input);
    config_free(&r->config);
    *r = (shown_run){ .used = NO_RUN };
}
