/* Where the values of a recipe come from: what was asked, a file, the model's recipe, defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/models/parts.h"
#include "quant/scheme.h"
#include "train/recipe_keys.h"

/* --- options of optimizers ------------------------------------------------------------------ */

enum { OF_SGD = 1 << QG__SGD, OF_ADAM = 1 << QG__ADAM, OF_BOP = 1 << QG__BOP };

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
static void drop_foreign(qg_recipe *r, const qg_recipe *asked)
{
    const char *given = qg__recipe_value(r, "optimizer"), *other = qg__recipe_value(asked, "optimizer");
    if (!given || !other || !strcmp(given, other)) return;
    for (int i = 0; i < OWN; i++) qg__recipe_unset(r, own[i].key);
}

static qg_status check_optimizer(const qg_recipe *r)
{
    static const char *const names[] = { "sgd", "adam", "bop" };
    const unsigned           chosen  = 1u << r->optimizer;
    for (int i = 0; i < OWN; i++) {
        const char *text  = qg__recipe_value(r, own[i].key);
        unsigned    owners = 0;
        for (int k = 0; k < OWN; k++)
            if (!strcmp(own[k].key, own[i].key)) owners |= own[k].owners;
        if (!text || !strcmp(text, "false") || (owners & chosen)) continue;
        char list[32] = "";
        for (int k = 0; k < QG__OPTIMIZERS; k++)
            if (owners >> k & 1) snprintf(list + strlen(list), sizeof list - strlen(list), *list ? " and %s" : "%s", names[k]);
        return qg_fail(QG_EARG, "%s is an option of %s, not of %s", own[i].key, list, names[r->optimizer]);
    }
    return QG_OK;
}

/* --- adding up ------------------------------------------------------------------------------ */

static qg_status set_fallback(qg_recipe *r, const char *name, const char *text)
{
    return !text || qg__recipe_value(r, name) ? QG_OK : qg__recipe_put(r, name, text);
}

/* Version 1 of the defaults quantized them for every scheme. */
static const char *first_last_of(const qg_recipe *r)
{
    return r->defaults != 1 && qg__model_keeps_ends(r->weight, r->input, r->gradient) ? "float" : "quantized";
}

/* stored: that of a run, or NULL. */
static qg_status fill(qg_recipe *r, const qg_recipe *stored)
{
    char      version[16];
    snprintf(version, sizeof version, "%d", QG_DEFAULTS);
    qg_status status = set_fallback(r, "defaults", version);
    if (!status) status = set_fallback(r, "first-last", first_last_of(r));
    for (int i = 0; i < QG__RECIPE_KEYS && !status; i++)
        if (!((stored || r->defaults == 1) && qg_recipe_keys[i].absent))
            status = set_fallback(r, qg_recipe_keys[i].name, qg_recipe_keys[i].fallback);
    if (!status && r->teacher_run) status = set_fallback(r, "distil", "");
    for (int i = 0; i < OWN && !status; i++)
        if (own[i].owners >> r->optimizer & 1) status = set_fallback(r, own[i].key, own[i].fallback);
    return status;
}

static qg_status merge(const qg_recipe *asked, qg_recipe *out)
{
    const qg_model *model = asked->model.type;
    if (!model) {
        char names[QG_RECIPE_VALUE_BYTES] = "";
        qg__model_names(names, sizeof names);
        return qg_fail(QG_EARG, "--model is missing; available: %s", names);
    }
    if (model->recipe && qg__recipe_parse(out, model->recipe, qg__recipe_value(asked, "model"))) return QG_EARG;
    drop_foreign(out, asked);
    const qg_status status = qg__recipe_over(out, asked, 0, 0);
    return status ? status : fill(out, NULL);
}

/* The items of a list on one line. */
static void in_one_line(const char *value, char text[QG_RECIPE_VALUE_BYTES])
{
    snprintf(text, QG_RECIPE_VALUE_BYTES, "%s", value ? value : "unset");
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
}

static qg_status keeps(const qg_recipe_key *o, const qg_recipe *run, const qg_recipe *asked, const char *why)
{
    char old[QG_RECIPE_VALUE_BYTES], new[QG_RECIPE_VALUE_BYTES];
    in_one_line(run->text[o - qg_recipe_keys], old), in_one_line(asked->text[o - qg_recipe_keys], new);
    return qg_fail(QG_EARG, "%s is %s in the run, but %s was requested; %s", o->name, old, new, why);
}

/* Only the command line extends a run: a recipe that was changed is another one.  Without a schedule there, the run's own keeps
 * its steps and its warm-up in their epochs. */
static qg_status extend(qg_recipe *run, const qg_recipe *line)
{
    char      schedule[QG_RECIPE_VALUE_BYTES];
    const int was = run->epochs, is = line->epochs;
    if (qg__recipe_value(line, "epochs") && is < was)
        return keeps(qg__recipe_key("epochs"), run, line, "a run can be extended, but not shortened");
    if (qg__recipe_value(line, "epochs") && is > was && was > 0 && !qg__recipe_value(line, "schedule")) {
        const qg_schedule s = qg_schedule_extend(&run->schedule, was, is);
        qg_schedule_print(&s, schedule, sizeof schedule);
        if (qg__recipe_put(run, "schedule", schedule))
            return qg_fail(QG_EARG, "epochs: the schedule of the run cannot be continued: %s", qg_errmsg());
    }
    return qg__recipe_over(run, line, QG_RECIPE_EXTENDS, 0);
}

/* What is asked of a run of version 1 is meant as when it began, unless a file says what it means. */
static qg_status ask_as(int version, qg_recipe *asked)
{
    qg_status status = QG_OK;
    for (int i = 0; version == 1 && asked->defaults != QG_DEFAULTS && i < QG__RECIPE_KEYS && !status; i++) {
        char *said = asked->said[i];
        if (!said) continue;
        asked->said[i] = NULL;
        qg__recipe_unset(asked, qg_recipe_keys[i].name);
        for (const char *line = said; *line && !status; line = qg__lines_next(line)) {
            char item[QG_RECIPE_VALUE_BYTES], text[QG_RECIPE_VALUE_BYTES];
            snprintf(item, sizeof item, "%.*s", (int)strcspn(line, "\n"), line);
            status = qg__scheme_rewrite(qg_recipe_keys[i].name, item, 1, QG_DEFAULTS, text, sizeof text);
            if (!status) status = qg__recipe_put(asked, qg_recipe_keys[i].name, text);
        }
        free(said);
    }
    return status;
}

static qg_status continue_stored(const qg_recipe *asked, const qg_recipe *line, const qg_recipe *stored, qg_recipe *out)
{
    static const char initial[] = "a run keeps its initial options; --init starts another from its weights";
    qg_status         status    = qg__recipe_over(out, stored, 0, 0);
    if (!status) status = fill(out, stored);
    if (status) return status;
    const qg_recipe_key *o = qg__recipe_conflict(out, asked, QG_RECIPE_IDENTITY, QG_RECIPE_EXTENDS);
    if (o) return keeps(o, out, asked, initial);
    status = extend(out, line);
    if (status) return status;
    o = qg__recipe_conflict(out, asked, QG_RECIPE_EXTENDS, 0);
    return o ? keeps(o, out, asked, initial) : qg__recipe_over(out, asked, 0, QG_RECIPE_IDENTITY);
}

bool qg__recipe_quantizes(const qg_recipe *r)
{
    return r->weight.scheme || r->input.scheme || r->gradient.scheme;
}

/* What a run without quantizers says about its ends decided nothing, and nobody may have chosen it. */
static void forget_ends(qg_recipe *run)
{
    const bool quantized = run->first_last == QG__FIRST_LAST_QUANTIZED;
    if (quantized && !qg__recipe_quantizes(run)) qg__recipe_unset(run, "first-last");
}

/* A file, and asked over it. */
static qg_status gather(const qg_recipe *asked, const qg_recipe *file, bool inits, qg_recipe *all)
{
    qg_status status = file ? qg__recipe_over(all, file, 0, 0) : QG_OK;
    if (file && qg__recipe_is_of_run(file)) forget_ends(all);
    drop_foreign(all, asked);
    /* The file's directory is that of its own set. */
    if (file && qg__recipe_value(asked, "data") && qg__recipe_value(file, "data") &&
        strcmp(asked->data.name, file->data.name))
        qg__recipe_unset(all, "data-dir");
    if (qg__recipe_value(asked, "data") || asked->data_dir)
        qg__recipe_unset(all, "data-digest"), qg__recipe_unset(all, "class-digest");
    qg__recipe_unset(all, "epoch-steps");       /* follows from the images and the batch */
    if (inits) qg__recipe_unset(all, "init-digest");
    if (asked->teacher_run) qg__recipe_unset(all, "teacher-digest");
    return status ? status : qg__recipe_over(all, asked, 0, 0);
}

qg_status qg__recipe_resolve(const qg_recipe *asked, const qg_recipe *file, bool inits, const qg_recipe *stored, qg_recipe *out)
{
    qg_recipe all    = { 0 };
    qg_status status = gather(asked, file, inits, &all);
    if (!status && stored) {
        status = ask_as(stored->defaults, &all);
        qg__recipe_unset(&all, "defaults");     /* those of the run stay */
        if (!status) status = continue_stored(&all, asked, stored, out);
    } else if (!status) {
        status = merge(&all, out);
    }
    qg__recipe_clear(&all);
    return status;
}

qg_status qg__recipe_check(const qg_recipe *r, bool trains)
{
    const qg_status status = check_optimizer(r);
    return status ? status : qg__recipe_check_net(r, trains);
}

qg_status qg__recipe_as_stored(const qg_recipe *stored, qg_recipe *out)
{
    const qg_recipe none = { .epochs = 0 };
    return qg__recipe_resolve(&none, NULL, false, stored, out);
}

qg_status qg__recipe_stored(const char *path, qg_recipe *r)
{
    qg_status status = qg__recipe_read(r, path);
    if (!status && !r->model.type) status = qg_fail(QG_EFORMAT, "%s: the model is missing", path);
    return status;
}

qg_status qg__recipe_of_run(const char *path, qg_recipe *r)
{
    qg_recipe stored = { .epochs = 0 };
    qg_status status = qg__recipe_stored(path, &stored);
    if (!status) status = qg__recipe_as_stored(&stored, r);
    qg__recipe_clear(&stored);
    return status;
}
