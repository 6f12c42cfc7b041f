#include <inttypes.h>
#include <string.h>

#include "tools/results/results.h"

qg_status results_recipe(const char *row, qg_recipe *r)
{
    char      path[QG__PATH_BYTES];
    config    asked  = { 0 };
    qg_status status = config_set(&asked, "recipe", row);
    if (!status) status = config_path(&asked, path);
    if (!status) status = qg__recipe_read(r, path);
    config_free(&asked);
    return status;
}

const qg_recipe_key *results_conflict(const logged_run *a, const logged_run *b)
{
    return qg__recipe_difference(&a->config, &b->config, QG_RECIPE_IDENTITY, QG_RECIPE_PER_RUN);
}

/* Adds to asked the options of run that differ from what asked describes.  Options that this lacks are left to the next round. */
static qg_status ask_for_the_rest(const logged_run *run, bool all, config *asked)
{
    const qg_recipe *c      = qg__recipe_full(asked->recipe);
    qg_status        status = c ? QG_OK : qg_errcode();
    bool             differs[QG__RECIPE_KEYS];
    for (int i = 0; i < QG__RECIPE_KEYS && c; i++) {
        const char *own = run->config.text[i], *is = c->text[i];
        const bool  may = qg_recipe_keys[i].is & QG_RECIPE_IDENTITY && !(qg_recipe_keys[i].is & QG_RECIPE_PER_RUN);
        differs[i]      = may && own && (is ? strcmp(own, is) != 0 : all);
    }
    for (int i = 0; i < QG__RECIPE_KEYS && !status; i++)
        if (differs[i]) status = config_take(asked, &qg_recipe_keys[i], run->config.text[i]);
    return status;
}

/* Writes the options in which run differs from its recipe to asked.  Some options, such as the optimizer, change which
 * others exist and what their defaults are, so this takes two rounds. */
static qg_status find_overrides(const logged_run *run, config *asked)
{
    qg_status status = config_set(asked, "recipe", run->row);
    if (!status) status = config_read(asked);
    for (int i = 0; i < 2 && !status; i++) status = ask_for_the_rest(run, i > 0, asked);
    const qg_recipe     *c = status ? NULL : qg__recipe_full(asked->recipe);
    const qg_recipe_key *o = c ? qg__recipe_difference(c, &run->config, QG_RECIPE_IDENTITY, QG_RECIPE_PER_RUN) : NULL;
    if (!status && !c) status = qg_errcode();
    if (o)
        status = qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": the current recipe cannot produce this run's %s",
                         run->row, run->seed, o->name);
    return status;
}

qg_status results_ask(const logged_run *run, config *asked)
{
    char            seed[32];
    const qg_status status = find_overrides(run, asked);
    snprintf(seed, sizeof seed, "%" PRIu64, run->seed);
    return status ? status : config_set(asked, "seed", seed);
}

/* Writes each item of a list after its own "--layer". */
static void print_option(const option *o, const char *value, FILE *out)
{
    for (const char *line = value; line && *line; line = qg__lines_next(line)) {
        fprintf(out, " --%s", o->name);
        if (o->kind != QG_RECIPE_FLAG) fprintf(out, " %.*s", (int)strcspn(line, "\n"), line);
    }
}

qg_status results_overrides(const logged_run *run, FILE *out)
{
    config    asked  = { 0 };
    qg_status status = find_overrides(run, &asked);
    for (int i = 0; i < OPTIONS && !status; i++) {
        const option *o = option_at(i);
        if (!strcmp(o->name, "recipe")) continue;
        const char *text = config_text_of(&asked, o);
        if (o->kind == QG_RECIPE_FLAG && text && strcmp(text, "true"))
            status = qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": was trained without its recipe's %s, which no command "
                             "line can express", run->row, run->seed, o->name);
        else print_option(o, text, out);
    }
    config_free(&asked);
    return status;
}

qg_status results_command(const logged_run *run, const char *begins_with, FILE *out)
{
    fprintf(out, "--recipe %s", run->row);
    const qg_status status = results_overrides(run, out);
    if (begins_with) fprintf(out, " --init runs/%s/seed-%" PRIu64, begins_with, run->seed);
    fprintf(out, " --seed %" PRIu64, run->seed);
    return status;
}

/* --- what runs began with and saw --------------------------------------------------------- */

qg_status results_check_init(const results *all, const logged_run *run, const char *begins_with)
{
    const char       *digest = run->config.init_digest;
    const logged_run *other  = begins_with ? results_find(all, begins_with, run->seed) : NULL;
    if (run->config.teacher_digest)
        return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": learned from a teacher (--teacher), which no recipe can name", run->row,
                       run->seed);
    if (!begins_with && digest)
        return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": started from weights (--init), but its recipe names no other run",
                       run->row, run->seed);
    if (!begins_with || (digest && other && !strcmp(other->result.digest, digest))) return QG_OK;
    if (!digest)
        return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": did not start from the weights of %s", run->row, run->seed, begins_with);
    if (!other)
        return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": started from weights of %s, but " RESULTS " has no run of it with "
                       "this seed", run->row, run->seed, begins_with);
    return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": started from weights with digest %s, but %s with this seed ended in "
                   "%s; to replace both runs, remove " RESULTS "/%s/seed-%" PRIu64 " if it is there, add the run of %s, "
                   "then this one", run->row, run->seed, digest, begins_with, other->result.digest, run->row,
                   run->seed, begins_with);
}

const logged_run *results_witness(const results *all, const char *data)
{
    for (int i = 0; i < all->runs; i++)
        if (!strcmp(qg__recipe_value(&all->run[i].config, "data"), data) && all->run[i].config.data_digest)
            return &all->run[i];
    return NULL;
}

qg_status results_check_images(const results *all, const logged_run *run)
{
    const char       *data = qg__recipe_value(&run->config, "data"), *saw = run->config.data_digest;
    const logged_run *other = results_witness(all, data);
    if (!saw || !strcmp(saw, other->config.data_digest)) return QG_OK;
    return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": its %s has digest %s, and that of %s, seed %" PRIu64 ", has %s",
                   run->row, run->seed, data, saw, other->row, other->seed,
                   other->config.data_digest);
}
