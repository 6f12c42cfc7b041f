#include "cli/recipe.h"

#include <string.h>

#include "layers/layer.h"

/* --- which options hold ------------------------------------------------------------------- */

/* The keys of a configuration that from has, onto c. */
static qg_status over_saved(config *c, const config *from)
{
    config saved = *from;
    for (int i = 0; i < OPTIONS; i++)
        if (!(options[i].use & SAVED)) saved.value[i] = NULL;
    return config_over(c, &saved);
}

/* Another optimizer than the recipe's: what the recipe says of its own has no meaning for it. */
static void drop_foreign(config *c, const config *asked)
{
    const char *own = config_text(c, "optimizer"), *other = config_text(asked, "optimizer");
    if (!own || !other || !strcmp(own, other)) return;
    config_unset(c, "lr");
    config_unset(c, "momentum");
    config_unset(c, "nesterov");
    config_unset(c, "weight-decay");
}

static qg_status set_fallback(config *c, const char *name, const char *text)
{
    return config_text(c, name) ? QG_OK : config_set(c, option_find(name), text);
}

static qg_status fill(config *c)
{
    for (int i = 0; i < OPTIONS; i++)
        if ((options[i].use & SAVED) && options[i].fallback &&
            set_fallback(c, options[i].name, options[i].fallback))
            return QG_EARG;
    const bool adam = !strcmp(config_text(c, "optimizer"), "adam");
    if (set_fallback(c, "lr", adam ? "0.001" : "0.01")) return QG_EARG;
    return adam ? QG_OK : set_fallback(c, "momentum", "0.9");
}

static qg_status merge(const config *asked, config *out)
{
    const char *name = config_text(asked, "model");
    if (!name) {
        char names[VALUE_BYTES] = "";
        for (const qg_model *const *m = qg_models; *m; m++)
            list_append(names, sizeof names, (*m)->name);
        return qg_fail(QG_EARG, "--model is missing; there is %s", names);
    }
    const qg_model *model = qg_model_find(name);
    QG_ASSERT(model);                           /* config_set has checked the name */
    if (model->recipe && config_parse(out, model->recipe, name)) return QG_EARG;
    drop_foreign(out, asked);
    const qg_status status = over_saved(out, asked);
    return status ? status : fill(out);
}

static qg_status continue_stored(const config *asked, const config *stored, config *out)
{
    qg_status status = over_saved(out, stored);
    if (!status) status = fill(out);
    if (status) return status;
    const option *o = config_conflict(out, asked, IDENTITY);
    if (o) {
        const char *old = out->value[o - options];
        return qg_fail(QG_EARG, "%s is %s in the run, but %s is asked for; a run keeps what it began "
                       "with", o->name, old ? old : "unset", asked->value[o - options]);
    }
    return over_saved(out, asked);
}

qg_status recipe_resolve(const config *asked, const config *stored, config *out, bool *usage)
{
    config      all  = { { 0 } };
    const char *path = config_text(asked, "config");
    *usage           = false;
    qg_status status = path ? config_read(&all, path) : QG_OK;
    if (!status) status = config_over(&all, asked);
    if (!status && stored) status = continue_stored(&all, stored, out);
    else if (!status) {
        *usage = true;
        status = merge(&all, out);
    }
    config_free(&all);
    return status;
}

/* --- as types ----------------------------------------------------------------------------- */

static qg_status read_choices(const char *list, recipe *r)
{
    for (const char *line = list; line && *line;) {
        char         item[VALUE_BYTES], canonical[VALUE_BYTES];
        const size_t n = strcspn(line, "\n");
        snprintf(item, sizeof item, "%.*s", (int)n, line);
        if (r->choices == CHOICES)
            return qg_fail(QG_EARG, "more than %d exceptions for layers", CHOICES);
        const int i = r->choices++;
        if (choice_parse(item, &r->choice[i], r->choice_name[i], canonical, sizeof canonical))
            return QG_EARG;
        line += n + (line[n] == '\n');
    }
    return QG_OK;
}

static qg_net *declare(const recipe *r, qg_shape image, int classes)
{
    return r->model->declare((qg_model_spec){
        .height           = image.h,
        .width            = image.w,
        .channels         = image.c,
        .classes          = classes,
        .seed             = r->seed,
        .weight           = r->weight,
        .input            = r->input,
        .first_last_float = r->first_last_float,
        .choice           = r->choice,
        .choices          = r->choices,
    });
}

/* Every --layer names a product of the model. */
static qg_status check_choices(const recipe *r)
{
    qg_net   *net    = r->choices ? declare(r, r->data->image, r->data->classes) : NULL;
    qg_status status = QG_OK;
    for (int i = 0; net && i < r->choices && !status; i++) {
        char names[VALUE_BYTES] = "";
        bool found              = false;
        for (int k = 0; k < qg_net_layers(net); k++) {
            qg_layer *l = qg_net_layer(net, k);
            if (!qg_layer_product(l)) continue;
            list_append(names, sizeof names, l->name);
            found |= !strcmp(l->name, r->choice[i].layer);
        }
        if (!found)
            status = qg_fail(QG_EARG, "layer: %s has no layer '%s' with a weight; there is %s",
                             r->model->name, r->choice[i].layer, names);
    }
    qg_net_free(net);
    return status;
}

static bool says(const config *c, const char *name, const char *word)
{
    return !strcmp(config_text(c, name), word);
}

qg_status recipe_read(const config *c, recipe *r)
{
    char canonical[VALUE_BYTES];
    *r = (recipe){
        .model            = qg_model_find(config_text(c, "model")),
        .data             = data_find(config_text(c, "data")),
        .data_dir         = config_text(c, "data-dir"),
        .first_last_float = says(c, "first-last", "float"),
        .epochs           = (int)config_integer(c, "epochs"),
        .batch            = (int)config_integer(c, "batch"),
        .threads          = (int)config_integer(c, "threads"),
        .seed             = (uint64_t)config_integer(c, "seed"),
        .lr               = config_real(c, "lr"),
        .adam             = says(c, "optimizer", "adam"),
        .nesterov         = config_flag(c, "nesterov"),
        .squared_hinge    = says(c, "loss", "squared-hinge"),
        .momentum         = (float)config_real(c, "momentum"),
        .weight_decay     = (float)config_real(c, "weight-decay"),
    };
    if (r->adam && (config_text(c, "momentum") || r->nesterov))
        return qg_fail(QG_EARG, "momentum and nesterov are options of sgd, not of adam");
    if (scheme_parse(config_text(c, "weight"), FOR_WEIGHT, &r->weight, canonical, sizeof canonical) ||
        scheme_parse(config_text(c, "input"), FOR_INPUT, &r->input, canonical, sizeof canonical) ||
        qg_schedule_parse(config_text(c, "schedule"), &r->schedule))
        return QG_EARG;
    const qg_status status = read_choices(config_text(c, "layer"), r);
    return status ? status : check_choices(r);
}

/* --- what is built from it ---------------------------------------------------------------- */

qg_loader *recipe_data(const recipe *r, bool test)
{
    return data_open(r->data, r->data_dir, test,
                     (qg_loader_spec){ .batch = r->batch, .seed = r->seed, .in_order = test });
}

qg_net *recipe_net(const recipe *r, qg_shape image, int classes)
{
    qg_net *net = declare(r, image, classes);
    if (qg_net_build(net)) return net;
    qg_net_free(net);
    return NULL;
}

qg_optim *recipe_optim(const recipe *r, qg_params *p)
{
    const float lr = (float)r->lr;
    if (r->adam) return qg_adam(p, (qg_adam_spec){ .lr = lr, .weight_decay = r->weight_decay });
    return qg_sgd(p, (qg_sgd_spec){ .lr           = lr,
                                    .momentum     = r->momentum,
                                    .nesterov     = r->nesterov,
                                    .weight_decay = r->weight_decay });
}

qg_var *recipe_loss(const recipe *r, qg_tape *t, qg_var *scores, const uint8_t *labels)
{
    return r->squared_hinge ? qg_squared_hinge(t, scores, labels)
                            : qg_cross_entropy(t, scores, labels);
}
