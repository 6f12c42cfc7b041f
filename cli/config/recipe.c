#include "cli/config/recipe.h"

#include <stdio.h>
#include <string.h>

#include "cli/config/models.h"
#include "cli/paths.h"
#include "layers/layer.h"

/* --- as types ----------------------------------------------------------------------------- */

static qg_status read_choices(const char *list, recipe *r)
{
    for (const char *line = list; line && *line; line = list_next(line)) {
        char item[VALUE_BYTES], canonical[VALUE_BYTES];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
        if (r->choices == CHOICES)
            return qg_fail(QG_EARG, "more than %d exceptions for layers", CHOICES);
        const int i = r->choices++;
        if (choice_parse(item, &r->choice[i], r->choice_name[i], canonical, sizeof canonical))
            return QG_EARG;
    }
    return QG_OK;
}

/* A surrogate that is annealed gets there with the last step. */
static qg_quant paced(qg_quant q, uint64_t steps)
{
    if (q.surrogate.to != 0) q.surrogate.steps = steps;
    return q;
}

static qg_quant delayed(qg_quant q, const recipe *r)
{
    if (q.scheme) q.after = r->quantize_after;
    return q;
}

static qg_net *declare(const recipe *r, qg_shape images, int classes)
{
    const uint64_t steps = (uint64_t)r->epochs * (uint64_t)((images.n + r->batch - 1) / r->batch);
    qg_choice      choice[CHOICES];
    for (int i = 0; i < r->choices; i++) {
        choice[i]        = r->choice[i];
        choice[i].weight = paced(choice[i].weight, steps);
        choice[i].input  = delayed(paced(choice[i].input, steps), r);
    }
    qg_model_spec spec = {
        .height                 = images.h,
        .width                  = images.w,
        .channels               = images.c,
        .classes                = classes,
        .seed                   = r->seed,
        .weight                 = paced(r->weight, steps),
        .input                  = delayed(paced(r->input, steps), r),
        .gradient               = r->gradient,
        .first_last_float       = r->first_last_float,
        .fold_batchnorm         = r->fold_batchnorm,
        .freeze_batchnorm_after = r->freeze_batchnorm_after,
        .choice                 = choice,
        .choices                = r->choices,
    };
    memcpy(spec.option, r->model_option, sizeof spec.option);
    return qg_model_declare(r->model, spec);
}

/* Each quantizer may stand where the model puts it. */
static qg_status check_quantizers(const recipe *r, const qg_net *net)
{
    bool weights = false, inputs = false;
    for (int k = 0; k < qg_net_layers(net); k++) {
        qg_layer *l = qg_net_layer(net, k);
        for (int i = 0; i < QG_ROLES; i++) {
            const qg_slot  *slot   = qg_layer_slot(l, qg_roles[i]);
            const qg_status status = slot ? qg_slot_check(l, slot, qg_roles[i]) : QG_OK;
            if (status) return status;
            weights |= slot && slot->q.scheme && qg_roles[i] == QG_WEIGHT;
            inputs |= slot && slot->q.scheme && qg_roles[i] == QG_INPUT;
        }
    }
    if (r->fold_batchnorm && !weights)
        return qg_fail(QG_EARG, "fold-batchnorm: there is no quantized weight to fold into");
    if (r->quantize_after && !inputs)
        return qg_fail(QG_EARG, "quantize-after: there is no input quantizer to wait");
    return QG_OK;
}

static qg_status check_net(const recipe *r)
{
    qg_net *net = declare(r, r->data->image, r->data->classes);
    if (!net) return QG_EARG;
    const qg_status status = check_quantizers(r, net);
    qg_net_free(net);
    return status;
}

qg_status recipe_trains(const recipe *r)
{
    const bool bop   = !strcmp(r->optimizer, "bop");
    bool       flips = false;
    qg_net    *net   = declare(r, r->data->image, r->data->classes);
    if (!net) return QG_EMEM;
    for (int k = 0; k < qg_net_layers(net); k++) {
        const qg_slot *slot = qg_layer_slot(qg_net_layer(net, k), QG_WEIGHT);
        flips |= slot && slot->q.scheme && slot->q.scheme->flips;
    }
    qg_net_free(net);
    if (flips == bop) return QG_OK;
    return bop ? qg_fail(QG_EARG, "optimizer: bop trains weights of the scheme bop, and there are none; "
                                  "say --weight bop")
               : qg_fail(QG_EARG, "weight: %s does not train the scheme bop; say --optimizer bop",
                         r->optimizer);
}

/* What one optimizer has and the one that is chosen has not. */
static qg_status check_optimizer(const config *c)
{
    static const struct {
        const char *key, *owners;
    } own[] = { { "momentum", "sgd" }, { "nesterov", "sgd" }, { "beta1", "adam and bop" },
                { "beta2", "adam and bop" }, { "gamma", "bop" }, { "threshold", "bop" } };
    const char *chosen = config_text(c, "optimizer");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *text = config_text(c, own[i].key);
        if (text && strcmp(text, "false") && !strstr(own[i].owners, chosen))
            return qg_fail(QG_EARG, "%s is an option of %s, not of %s", own[i].key, own[i].owners, chosen);
    }
    return QG_OK;
}

static qg_status read_schemes(const config *c, recipe *r)
{
    const struct {
        const char *key;
        unsigned    use;
        qg_quant   *to;
    } slots[] = { { "weight", FOR_WEIGHT, &r->weight },
                  { "input", FOR_INPUT, &r->input },
                  { "gradient", FOR_GRADIENT, &r->gradient } };
    for (int i = 0; i < 3; i++) {
        char canonical[VALUE_BYTES];
        if (scheme_parse(config_text(c, slots[i].key), slots[i].use, slots[i].to, canonical,
                         sizeof canonical))
            return QG_EARG;
    }
    return read_choices(config_text(c, "layer"), r);
}

static qg_status read_images(const config *c, recipe *r)
{
    char      canonical[VALUE_BYTES];
    qg_status status = data_parse(config_text(c, "data"), &r->data_row, canonical, sizeof canonical);
    if (!status)
        status = normalise_parse(config_text(c, "normalise"), &r->normalise, canonical, sizeof canonical);
    if (!status) status = augment_parse(config_text(c, "augment"), &r->augment, canonical, sizeof canonical);
    return status;
}

static float real(const config *c, const char *name) { return (float)config_real(c, name); }

qg_status recipe_read(const config *c, recipe *r)
{
    *r = (recipe){
        .model_text             = config_text(c, "model"),
        .data                   = &r->data_row,
        .data_dir               = config_text(c, "data-dir"),
        .first_last_float       = config_says(c, "first-last", "float"),
        .quantize_after         = (uint64_t)config_integer(c, "quantize-after"),
        .fold_batchnorm         = config_flag(c, "fold-batchnorm"),
        .freeze_batchnorm_after = (uint64_t)config_integer(c, "freeze-batchnorm-after"),
        .epochs                 = (int)config_integer(c, "epochs"),
        .batch                  = (int)config_integer(c, "batch"),
        .threads                = (int)config_integer(c, "threads"),
        .seed                   = (uint64_t)config_integer(c, "seed"),
        .lr                     = config_real(c, "lr"),
        .optimizer              = config_text(c, "optimizer"),
        .nesterov               = config_flag(c, "nesterov"),
        .squared_hinge          = config_says(c, "loss", "squared-hinge"),
        .momentum               = real(c, "momentum"),
        .beta1                  = real(c, "beta1"),
        .beta2                  = real(c, "beta2"),
        .gamma                  = real(c, "gamma"),
        .threshold              = real(c, "threshold"),
        .weight_decay           = real(c, "weight-decay"),
        .norms      = { .lr_scale = real(c, "norm-lr-scale"), .weight_decay = real(c, "norm-decay") },
        .quantizers = { .lr_scale     = real(c, "quantizer-lr-scale"),
                        .weight_decay = real(c, "quantizer-decay") },
    };
    char      canonical[VALUE_BYTES];
    qg_status status = model_parse(r->model_text, &r->model, r->model_option, canonical, sizeof canonical);
    if (!status) status = check_optimizer(c);
    if (!status) status = read_images(c, r);
    if (!status) status = read_schemes(c, r);
    if (!status) status = qg_schedule_parse(config_text(c, "schedule"), &r->schedule);
    return status ? status : check_net(r);
}

qg_status recipe_stored(const char *dir, config *c)
{
    char      path[PATH_BYTES];
    qg_status status = path_join(dir, "config.toml", path);
    if (!status) status = config_read(c, path);
    if (!status && !config_text(c, "model")) status = qg_fail(QG_EFORMAT, "%s: names no model", path);
    return status;
}

qg_status recipe_of_run(const char *dir, config *c, recipe *r)
{
    config    stored = { { 0 } };
    bool      usage;
    qg_status status = recipe_stored(dir, &stored);
    if (!status) status = recipe_resolve(&(config){ { 0 } }, &stored, c, &usage);
    config_free(&stored);
    return status ? status : recipe_read(c, r);
}

/* --- what is built from it ---------------------------------------------------------------- */

bool recipe_image(const config *asked, qg_shape *image)
{
    const char *text = config_text(asked, "image");
    return text && image_parse(text, image) == QG_OK;
}

qg_loader_spec recipe_loading(const recipe *r, bool test)
{
    return (qg_loader_spec){ .batch     = r->batch,
                             .seed      = r->seed,
                             .in_order  = test,
                             .normalise = r->normalise,
                             .augment   = test ? (qg_augment){ 0 } : r->augment };
}

qg_loader *recipe_data(const recipe *r, bool test, const qg_loader *as)
{
    qg_loader_spec spec = recipe_loading(r, test);
    if (test && normalise_fits(r->normalise)) {
        QG_ASSERT(as);
        spec.normalise_as = as;
    }
    return data_open(r->data, r->data_dir, test, spec);
}

qg_net *recipe_net(const recipe *r, qg_shape images, int classes)
{
    qg_net *net = declare(r, images, classes);
    if (qg_net_build(net)) return net;
    qg_net_free(net);
    return NULL;
}

static qg_optim *new_optim(const recipe *r, qg_params *p)
{
    const qg_adam_spec adam = { .lr           = (float)r->lr,
                                .beta1        = r->beta1,
                                .beta2        = r->beta2,
                                .weight_decay = r->weight_decay };
    if (!strcmp(r->optimizer, "adam")) return qg_adam(p, adam);
    if (!strcmp(r->optimizer, "bop"))
        return qg_bop(p, (qg_bop_spec){ .gamma = r->gamma, .threshold = r->threshold, .rest = adam });
    return qg_sgd(p, (qg_sgd_spec){ .lr           = (float)r->lr,
                                    .momentum     = r->momentum,
                                    .nesterov     = r->nesterov,
                                    .weight_decay = r->weight_decay });
}

qg_optim *recipe_optim(const recipe *r, qg_params *p)
{
    qg_optim *o = new_optim(r, p);
    qg_optim_set_group(o, QG_NORMS, r->norms);
    qg_optim_set_group(o, QG_SCALES, r->quantizers);
    return o;
}

qg_var *recipe_loss(const recipe *r, qg_tape *t, qg_var *scores, const uint8_t *labels)
{
    return r->squared_hinge ? qg_squared_hinge(t, scores, labels)
                            : qg_cross_entropy(t, scores, labels);
}
