#include <stdio.h>
#include <string.h>

#include "cli/config/models.h"
#include "cli/config/recipe.h"
#include "cli/config/recipe_file.h"

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
    static const char *const own_keys[] = { "lr",    "momentum", "nesterov",  "weight-decay",
                                            "beta1", "beta2",    "gamma",     "threshold" };
    const char *own = config_text(c, "optimizer"), *other = config_text(asked, "optimizer");
    if (!own || !other || !strcmp(own, other)) return;
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++) config_unset(c, own_keys[i]);
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
    const bool adam = config_says(c, "optimizer", "adam"), bop = config_says(c, "optimizer", "bop");
    if (set_fallback(c, "lr", adam ? "0.001" : "0.01")) return QG_EARG;
    if (!adam && !bop) return set_fallback(c, "momentum", "0.9");
    if (bop && (set_fallback(c, "gamma", "1e-4") || set_fallback(c, "threshold", "1e-8")))
        return QG_EARG;
    return set_fallback(c, "beta1", "0.9") ? QG_EARG : set_fallback(c, "beta2", "0.999");
}

static qg_status merge(const config *asked, config *out)
{
    const char *name = config_text(asked, "model");
    if (!name) {
        char names[VALUE_BYTES] = "";
        model_names(names, sizeof names);
        return qg_fail(QG_EARG, "--model is missing; available: %s", names);
    }
    const qg_model *model;
    double          chosen[QG_MODEL_KEYS];
    char            canonical[VALUE_BYTES];
    if (model_parse(name, &model, chosen, canonical, sizeof canonical)) return QG_EARG;
    if (model->recipe && config_parse(out, model->recipe, name)) return QG_EARG;
    drop_foreign(out, asked);
    const qg_status status = over_saved(out, asked);
    return status ? status : fill(out);
}

/* The items of a list stand behind each other. */
static void in_one_line(const char *value, char text[VALUE_BYTES])
{
    snprintf(text, VALUE_BYTES, "%s", value ? value : "unset");
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
}

static qg_status continue_stored(const config *asked, const config *stored, config *out)
{
    qg_status status = over_saved(out, stored);
    if (!status) status = fill(out);
    if (status) return status;
    const option *o = config_conflict(out, asked, IDENTITY);
    if (o) {
        char old[VALUE_BYTES], new[VALUE_BYTES];
        in_one_line(out->value[o - options], old), in_one_line(asked->value[o - options], new);
        return qg_fail(QG_EARG, "%s is %s in the run, but %s is asked for; a run keeps what it began "
                       "with", o->name, old, new);
    }
    config rest = *asked;                       /* what it may change; in the other keys they agree */
    for (int i = 0; i < OPTIONS; i++)
        if ((options[i].use & IDENTITY) == IDENTITY) rest.value[i] = NULL;
    return over_saved(out, &rest);
}

qg_status recipe_resolve(const config *asked, const config *stored, config *out, bool *usage)
{
    config    all = { { 0 } };
    char      path[PATH_BYTES];
    qg_status status = recipe_file(asked, path);
    *usage           = status != QG_OK;
    if (status) return status;
    if (*path) status = config_read(&all, path);
    drop_foreign(&all, asked);
    if (config_text(asked, "data") || config_text(asked, "data-dir"))
        config_unset(&all, "data-digest"), config_unset(&all, "class-digest");
    if (config_text(asked, "init")) config_unset(&all, "init-digest");
    if (!status) status = config_over(&all, asked);
    if (!status && stored) status = continue_stored(&all, stored, out);
    else if (!status) {
        *usage = true;
        status = merge(&all, out);
    }
    config_free(&all);
    return status;
}
