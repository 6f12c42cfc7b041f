/* What a recipe describes: loaders, net, optimizer, training. */
#include "layers/plan.h"
#include "train/patches.h"
#include "train/recipe_keys.h"

#include <string.h>

#include "core/io/paths.h"
#include "layers/layer.h"
#include "train/run.h"

/* An annealed surrogate reaches its final value at the last step. */
static qg_quant paced(qg_quant q, uint64_t steps)
{
    if (q.surrogate.to != 0) q.surrogate.steps = steps;
    return q;
}

bool qg__recipe_waits_epochs(const qg_recipe *r)
{
    return r->quantize_after.epochs || r->quantize_weights_after.epochs || r->freeze_batchnorm_after.epochs;
}

/* In steps.  The run says how many an epoch has, or the training images do; nothing waits for what nobody knows. */
static uint64_t steps_of(const qg_recipe *r, qg__delay d, qg_shape images)
{
    const int known = images.n > 1 ? (images.n + r->batch - 1) / r->batch : 0;
    return d.epochs ? d.count * (r->epoch_steps ? r->epoch_steps : (uint64_t)known) : d.count;
}

/* classes 0: not known yet; a text has its own number, and the checks of another model need any. */
static qg_net *declare(const qg_recipe *r, qg_shape images, int classes)
{
    enum { ANY = 10 };
    const uint64_t steps = (uint64_t)r->epochs * (uint64_t)((images.n + r->batch - 1) / r->batch);
    const qg__exceptions *all = &r->exceptions;
    qg_choice      choice[QG__EXCEPTIONS];
    for (int i = 0; i < all->count; i++) {
        choice[i]        = all->item[i].choice;
        choice[i].layer  = all->item[i].layer;
        choice[i].weight = paced(choice[i].weight, steps);
        choice[i].input  = paced(choice[i].input, steps);
    }
    qg_model_spec spec = {
        .height                 = images.h,
        .width                  = images.w,
        .channels               = images.c,
        .classes                = classes || r->model.type == &qg_model_text ? classes : ANY,
        .seed                   = r->seed,
        .initial_weights        = r->initial_weights,
        .weight                 = paced(r->weight, steps),
        .input                  = paced(r->input, steps),
        .gradient               = r->gradient,
        .first_last             = r->first_last == QG__FIRST_LAST_FLOAT ? QG_FIRST_LAST_FLOAT : QG_FIRST_LAST_QUANTIZED,
        .fold_batchnorm         = r->fold_batchnorm,
        .batchnorm_per_rank     = r->norm_sync == QG__NORM_SYNC_OFF,
        .freeze_batchnorm_after = steps_of(r, r->freeze_batchnorm_after, images),
        .quantize_weights_after = steps_of(r, r->quantize_weights_after, images),
        .quantize_inputs_after  = steps_of(r, r->quantize_after, images),
        .choice                 = choice,
        .choices                = all->count,
        .text                   = r->model.text,
    };
    memcpy(spec.option, r->model.option, sizeof spec.option);
    qg_net *net = qg_model_declare(r->model.type, spec);
    /* A net keeps its failure until it is built.  One that lacks layers for want of memory is not to be judged. */
    if (!net || qg_net_params(net) || qg_errcode() != QG_EMEM) return net;
    qg_net_free(net);
    return NULL;
}

/* Checks that each quantizer is legal where the model uses it. */
static qg_status check_quantizers(const qg_recipe *r, const qg_net *net)
{
    bool weights = false, inputs = false;
    for (int k = 0; k < qg_net_layers(net); k++) {
        qg_layer *l = qg_net_layer(net, k);
        for (int i = 0; i < QG_ROLES; i++) {
            const qg_slot  *slot   = qg_layer_slot(l, qg_roles[i]);
            const qg_status status = slot ? qg__slot_check(l, slot, qg_roles[i]) : QG_OK;
            if (status) return status;
            weights |= slot && slot->q.scheme && qg_roles[i] == QG_WEIGHT;
            inputs |= slot && slot->q.scheme && qg_roles[i] == QG_INPUT;
        }
    }
    if (r->fold_batchnorm && !weights)
        return qg_fail(QG_EARG, "fold-batchnorm: no weight is quantized");
    if (r->fold_batchnorm && r->norm_sync == QG__NORM_SYNC_OFF)
        return qg_fail(QG_EARG, "norm-sync: batch norms that are folded into weights need the statistics of all ranks");
    if (r->quantize_after.count && !inputs)
        return qg_fail(QG_EARG, "quantize-after: no input is quantized");
    if (r->quantize_weights_after.count && !weights)
        return qg_fail(QG_EARG, "quantize-weights-after: no weight is quantized");
    return QG_OK;
}

/* The layers that keep their weights. */
static qg_status check_frozen(const qg_recipe *r, const qg_net *net)
{
    char layer[QG__LAYER_NAME];
    for (const char *at = r->freeze; qg__list_next(&at, layer, sizeof layer);)
        if (!qg_net_find(net, layer)) return qg_fail(QG_EARG, "freeze: %s", qg_errmsg());
    if (!r->whiten_patches || !qg__patches_check(net, r->whiten_patches)) return QG_OK;
    return qg_fail(qg_errcode(), "whiten-patches: %s", qg_errmsg());
}

qg_status qg__recipe_check_cache(const qg_recipe *r)
{
    if (!r->cache || qg__data_is_folder(&r->data)) return QG_OK;
    return qg_fail(QG_EARG, "cache: only images of a folder are decoded when they are needed; %s stays in memory", r->data.name);
}

/* Only the optimizer bop flips weights, and it trains no others. */
static qg_status check_flips(const qg_recipe *r, const qg_net *net)
{
    const bool bop   = r->optimizer == QG__BOP;
    bool       flips = false;
    for (int k = 0; k < qg_net_layers(net); k++) {
        const qg_slot *slot = qg_layer_slot(qg_net_layer(net, k), QG_WEIGHT);
        flips |= slot && slot->q.scheme && slot->q.scheme->flips;
    }
    if (flips == bop) return QG_OK;
    return bop ? qg_fail(QG_EARG, "optimizer: bop only trains weights of the scheme bop; "
                                  "use --weight bop")
               : qg_fail(QG_EARG, "weight: %s cannot train the scheme bop; pass --optimizer bop",
                         r->optimizer == QG__ADAM ? "adam" : "sgd");
}

qg_status qg__recipe_check_net(const qg_recipe *r, bool trains)
{
    if (r->label_smoothing > 0 && r->loss != QG__CROSS_ENTROPY)
        return qg_fail(QG_EARG, "label-smoothing is an option of the cross entropy");
    const qg_status status = qg__recipe_check_cache(r);
    if (status) return status;
    const qg_shape image = qg__data_image(&r->data, r->data_dir);
    if (!image.h) return QG_OK;                 /* the files will say it */
    qg_net *net = declare(r, image, r->data.classes);
    if (!net) return qg_fail(qg_errcode(), "%s%s", qg_errmsg(), qg__npy_order(image));
    qg_status failed = check_quantizers(r, net);
    if (!failed) failed = check_frozen(r, net);
    if (!failed && trains) failed = check_flips(r, net);
    qg_net_free(net);
    return failed;
}

/* --- what is built from it ---------------------------------------------------------------- */

qg_loader_spec qg__recipe_loading(const qg_recipe *r, bool test)
{
    return (qg_loader_spec){ .batch     = r->batch,
                             .seed      = r->seed,
                             .in_order  = test,
                             .normalise = r->normalise,
                             .augment   = test ? (qg_augment){ 0 } : r->augment,
                             .validation = test ? (qg_holdout){ 0 } : r->validation,
                             .cache_bytes = r->cache };
}

qg_loader *qg__recipe_data(const qg_recipe *r, bool test, const qg_preprocess *as)
{
    qg_loader_spec spec = qg__recipe_loading(r, test);
    if (qg__normalise_fits(r->normalise)) {
        QG_ASSERT(as || !test);
        spec.preprocess = as;
    }
    return qg__data_open(&r->data, r->data_dir, test, spec);
}

qg_loader *qg__recipe_test_of(const qg_recipe *r, const qg_loader *train)
{
    if (!train || qg__data_check_classes(&r->data, r->data_dir)) return NULL;
    return qg__recipe_data(r, true, qg_loader_preprocess(train));
}

qg_net *qg__recipe_net(const qg_recipe *r, qg_shape images, int classes)
{
    qg_net *net = declare(r, images, classes);
    if (qg_net_build(net)) return net;
    qg_net_free(net);
    return NULL;
}

static qg_optim *new_optim(const qg_recipe *r, qg_params *p)
{
    const qg_adam_spec adam = { .lr           = (float)r->lr,
                                .beta1        = r->beta1,
                                .beta2        = r->beta2,
                                .weight_decay = r->weight_decay };
    if (r->optimizer == QG__ADAM) return qg_adam(p, adam);
    if (r->optimizer == QG__BOP)
        return qg_bop(p, (qg_bop_spec){ .gamma = r->gamma, .threshold = r->threshold, .rest = adam });
    return qg_sgd(p, (qg_sgd_spec){ .lr           = (float)r->lr,
                                    .momentum     = r->momentum,
                                    .nesterov     = r->nesterov,
                                    .weight_decay = r->weight_decay });
}

qg_optim *qg__recipe_optim(const qg_recipe *r, qg_params *p)
{
    qg_optim *o = new_optim(r, p);
    qg_optim_set_group(o, QG_NORMS, r->norms);
    qg_optim_set_group(o, QG_SCALES, r->quantizers);
    qg_optim_set_clip_norm(o, r->clip_norm);
    return o;
}

static qg_var *squared_hinge(void *user, qg_tape *t, qg_var *scores, const qg_batch *b)
{
    return qg_squared_hinge(t, scores, b->y);
}

qg_fit_spec qg__recipe_fit(const qg_recipe *r)
{
    return (qg_fit_spec){ .epochs          = r->epochs ? r->epochs : QG_NO_EPOCHS,
                          .seed            = r->seed,
                          .lr              = r->lr,
                          .schedule        = r->schedule,
                          .patience        = r->patience,
                          .label_smoothing = r->label_smoothing,
                          .ema_decay       = r->ema,
                          .keep_running_statistics = r->reestimate == QG__REESTIMATE_OFF,
                          .freeze          = r->freeze,
                          .whiten_patches  = r->whiten_patches,
                          .teacher         = r->teacher,
                          .loss            = r->loss == QG__SQUARED_HINGE ? squared_hinge : NULL };
}

bool qg__recipe_is_over(const qg_recipe *r, int epochs, int best_epoch)
{
    return epochs == r->epochs || (epochs < r->epochs && r->patience && epochs - best_epoch >= r->patience);
}

/* Which layers have a gradient quantizer depends on no size.  Images whose files are missing have none. */
uint64_t qg__recipe_arithmetic(const qg_recipe *r)
{
    static const qg_shape any = { 1, 224, 224, 3 };
    const qg_shape found   = qg__data_image(&r->data, r->data_dir), image = found.h ? found : any;
    qg_net        *net     = r->model.type && r->batch ? declare(r, image, r->data.classes) : NULL;
    const uint64_t version = net ? qg__arithmetic(net) : QG_ARITHMETIC;
    qg_net_free(net);
    return version;
}

uint64_t qg_recipe_arithmetic(qg_recipe *r)
{
    const qg_recipe *full = qg__recipe_full(r);
    return full ? qg__recipe_arithmetic(full) : QG_ARITHMETIC;
}

qg_net *qg_recipe_net(qg_recipe *r, qg_shape image, int classes)
{
    const qg_recipe *full = qg__recipe_full(r);
    if (!full) return NULL;
    qg_recipe sized    = *full;             /* borrowed texts */
    sized.data.image   = (qg_shape){ 1, image.h, image.w, image.c };
    sized.data.classes = classes;
    return qg__recipe_check(&sized, false) ? NULL : qg__recipe_net(full, image, classes);
}
