/* Where the values of a configuration come from: the command line, a file, the model's recipe, defaults. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config/config.h"
#include "cli/config/models.h"
#include "cli/config/share.h"
#include "quant/scheme.h"

/* --- the file of --config or --recipe ------------------------------------------------------- */

#define ENDING ".toml"

static int is_recipe(const struct dirent *e)
{
    const size_t n = strlen(e->d_name), m = strlen(ENDING);
    return *e->d_name != '.' && n > m && !strcmp(e->d_name + n - m, ENDING);
}

static qg_status unknown(const char *path)
{
    char            names[1536] = "", dir[QG__PATH_BYTES];
    struct dirent **entry;
    share_find(RECIPES, dir);
    const int n = scandir(dir, &entry, is_recipe, alphasort);
    for (int i = 0; i < n; i++) {
        char name[sizeof entry[i]->d_name];
        snprintf(name, sizeof name, "%.*s", (int)(strlen(entry[i]->d_name) - strlen(ENDING)), entry[i]->d_name);
        qg__list_append(names, sizeof names, name);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    return qg_fail(QG_EARG, "recipe: %s does not exist; available: %s", path,
                   *names ? names : "none in this directory");
}

qg_status config_path(const config *asked, char path[QG__PATH_BYTES])
{
    *path = '\0';
    if (asked->file && asked->named)
        return qg_fail(QG_EARG, "--recipe and --config exclude each other");
    if (asked->file) {
        if (strlen(asked->file) >= QG__PATH_BYTES) return qg_fail(QG_EARG, "config: the path is too long");
        share_find(asked->file, path);
    }
    if (asked->named) {
        snprintf(path, QG__PATH_BYTES, RECIPES "/%s" ENDING, asked->named);
        share_find(path, path);
    }
    return asked->named && !qg__path_exists(path) ? unknown(path) : QG_OK;
}

/* --- options of optimizers ------------------------------------------------------------------ */

enum { OF_SGD = 1 << SGD, OF_ADAM = 1 << ADAM, OF_BOP = 1 << BOP };

/* The optimizers that have an option, and its default there. */
static const struct {
    const char *key;
    unsigned    owners;
    const char *fallback;
} own[] = {
    { "lr", OF_SGD | OF_BOP, "0.01" },    { "lr", OF_ADAM, "0.001" },
    { "weight-decay", OF_SGD | OF_ADAM | OF_BOP, NULL },
    { "momentum", OF_SGD, "0.9" },        { "nesterov", OF_SGD, NULL },
    { "beta1", OF_ADAM | OF_BOP, "0.9" }, { "beta2", OF_ADAM | OF_BOP, "0.999" },
    { "gamma", OF_BOP, "1e-4" },          { "threshold", OF_BOP, "1e-8" },
};

enum { OWN = sizeof own / sizeof *own };

/* A recipe's options for its optimizer are meaningless for another one. */
static void drop_foreign(config *c, const config *asked)
{
    const char *given = config_text(c, "optimizer"), *other = config_text(asked, "optimizer");
    if (!given || !other || !strcmp(given, other)) return;
    for (int i = 0; i < OWN; i++) config_unset(c, own[i].key);
}

static qg_status check_optimizer(const config *c)
{
    static const char *const names[] = { "sgd", "adam", "bop" };
    const unsigned           chosen  = 1u << c->recipe.optimizer;
    for (int i = 0; i < OWN; i++) {
        const char *text  = config_text(c, own[i].key);
        unsigned    owners = 0;
        for (int k = 0; k < OWN; k++)
            if (!strcmp(own[k].key, own[i].key)) owners |= own[k].owners;
        if (!text || !strcmp(text, "false") || (owners & chosen)) continue;
        char list[32] = "";
        for (int k = 0; k < OPTIMIZERS; k++)
            if (owners >> k & 1) snprintf(list + strlen(list), sizeof list - strlen(list), *list ? " and %s" : "%s", names[k]);
        return qg_fail(QG_EARG, "%s is an option of %s, not of %s", own[i].key, list, names[c->recipe.optimizer]);
    }
    return QG_OK;
}

/* --- adding up ------------------------------------------------------------------------------ */

static qg_status set_fallback(config *c, const char *name, const char *text)
{
    return !text || config_text(c, name) ? QG_OK : config_set(c, option_find(name), text);
}

/* Version 1 of the defaults quantized them for every scheme. */
static const char *first_last_of(const config *c)
{
    const recipe *r = &c->recipe;
    return c->defaults != 1 && qg_model_keeps_ends(r->weight, r->input, r->gradient) ? "float" : "quantized";
}

/* stored: that of a run, or NULL. */
static qg_status fill(config *c, const config *stored)
{
    char      version[16];
    snprintf(version, sizeof version, "%d", QG_DEFAULTS);
    qg_status status = set_fallback(c, "defaults", version);
    if (!status) status = set_fallback(c, "first-last", first_last_of(c));
    for (int i = 0; i < OPTIONS && !status; i++)
        if ((options[i].use & SAVED) && !((stored || c->defaults == 1) && options[i].absent))
            status = set_fallback(c, options[i].name, options[i].fallback);
    for (int i = 0; i < OWN && !status; i++)
        if (own[i].owners >> c->recipe.optimizer & 1) status = set_fallback(c, own[i].key, own[i].fallback);
    return status;
}

static qg_status merge(const config *asked, config *out)
{
    const qg_model *model = asked->recipe.model.type;
    if (!model) {
        char names[VALUE_BYTES] = "";
        model_names(names, sizeof names);
        return qg_fail(QG_EARG, "--model is missing; available: %s", names);
    }
    if (model->recipe && config_parse(out, model->recipe, config_text(asked, "model"))) return QG_EARG;
    drop_foreign(out, asked);
    const qg_status status = config_over(out, asked, SAVED, 0);
    return status ? status : fill(out, NULL);
}

/* The items of a list on one line. */
static void in_one_line(const char *value, char text[VALUE_BYTES])
{
    snprintf(text, VALUE_BYTES, "%s", value ? value : "unset");
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
}

static qg_status keeps(const option *o, const config *run, const config *asked, const char *why)
{
    char old[VALUE_BYTES], new[VALUE_BYTES];
    in_one_line(run->text[o - options], old), in_one_line(asked->text[o - options], new);
    return qg_fail(QG_EARG, "%s is %s in the run, but %s was requested; %s", o->name, old, new, why);
}

/* Only the command line extends a run: a recipe that was changed is another one.  Without a schedule there, the run's own keeps
 * its steps and its warm-up in their epochs. */
static qg_status extend(config *run, const config *line)
{
    char      schedule[VALUE_BYTES];
    const int was = run->recipe.epochs, is = line->recipe.epochs;
    if (config_text(line, "epochs") && is < was)
        return keeps(option_find("epochs"), run, line, "a run can be extended, but not shortened");
    if (config_text(line, "epochs") && is > was && !config_text(line, "schedule")) {
        const qg_schedule s = qg_schedule_extend(&run->recipe.schedule, was, is);
        qg_schedule_print(&s, schedule, sizeof schedule);
        if (config_set(run, option_find("schedule"), schedule))
            return qg_fail(QG_EARG, "epochs: the schedule of the run cannot be continued: %s", qg_errmsg());
    }
    return config_over(run, line, EXTENDS, 0);
}

/* What is asked of a run of version 1 is meant as when it began, unless a file says what it means. */
static qg_status ask_as(int version, config *asked)
{
    qg_status status = QG_OK;
    for (int i = 0; version == 1 && asked->defaults != QG_DEFAULTS && i < OPTIONS && !status; i++) {
        char *said = asked->said[i];
        if (!said) continue;
        asked->said[i] = NULL;
        config_unset(asked, options[i].name);
        for (const char *line = said; *line && !status; line = list_next(line)) {
            char item[VALUE_BYTES], text[VALUE_BYTES];
            snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
            status = scheme_rewrite(options[i].name, item, 1, QG_DEFAULTS, text, sizeof text);
            if (!status) status = config_set(asked, &options[i], text);
        }
        free(said);
    }
    return status;
}

static qg_status continue_stored(const config *asked, const config *line, const config *stored, config *out)
{
    static const char initial[] = "a run keeps its initial options";
    qg_status         status    = config_over(out, stored, SAVED, 0);
    if (!status) status = fill(out, stored);
    if (status) return status;
    const option *o = config_conflict(out, asked, IDENTITY, EXTENDS);
    if (o) return keeps(o, out, asked, initial);
    status = extend(out, line);
    if (status) return status;
    o = config_conflict(out, asked, EXTENDS, 0);
    return o ? keeps(o, out, asked, initial) : config_over(out, asked, SAVED, DECIDES);
}

/* The file that asked names, and asked over it. */
static qg_status gather(const config *asked, config *all, bool *usage)
{
    char      path[QG__PATH_BYTES];
    qg_status status = config_path(asked, path);
    *usage           = status != QG_OK;
    if (status) return status;
    if (*path) status = config_read(all, path);
    drop_foreign(all, asked);
    if (config_text(asked, "data") || asked->recipe.data_dir)
        config_unset(all, "data-digest"), config_unset(all, "class-digest");
    config_unset(all, "epoch-steps");           /* follows from the images and the batch */
    if (asked->init) config_unset(all, "init-digest");
    if (asked->teacher) config_unset(all, "teacher-digest");
    return status ? status : config_over(all, asked, 0, 0);
}

qg_status config_resolve(const config *asked, const config *stored, config *out, bool *usage)
{
    config    all    = { 0 };
    qg_status status = gather(asked, &all, usage);
    if (!status && stored) {
        status = ask_as(stored->defaults, &all);
        config_unset(&all, "defaults");         /* those of the run stay */
        if (!status) status = continue_stored(&all, asked, stored, out);
    } else if (!status) {
        *usage = true;
        status = merge(&all, out);
    }
    config_free(&all);
    return status;
}

qg_status config_resolve_as(const config *asked, const config *run, config *out)
{
    config    all = { 0 };
    bool      usage;
    qg_status status = gather(asked, &all, &usage);
    if (!status) status = ask_as(run->defaults, &all);
    if (!status && run->defaults == 1) status = set_fallback(&all, "defaults", "1");
    if (!status) status = merge(&all, out);
    config_free(&all);
    return status;
}

qg_status config_check(const config *c)
{
    const qg_status status = check_optimizer(c);
    return status ? status : recipe_check(&c->recipe);
}

qg_status config_stored(const char *path, config *c)
{
    qg_status status = config_read(c, path);
    if (!status && !c->recipe.model.type) status = qg_fail(QG_EFORMAT, "%s: the model is missing", path);
    return status;
}

qg_status config_of_run(const char *path, config *c)
{
    config    stored = { 0 };
    bool      usage;
    qg_status status = config_stored(path, &stored);
    if (!status) status = config_resolve(&(config){ 0 }, &stored, c, &usage);
    config_free(&stored);
    return status ? status : config_check(c);
}
