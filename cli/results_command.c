#include <inttypes.h>
#include <string.h>

#include "cli/recipe.h"
#include "cli/results.h"

/* What the command line has its own words for. */
static bool is_told_apart(const option *o) { return !strcmp(o->name, "seed") || !strcmp(o->name, "init-digest"); }

/* What the recipe alone, or with the words of asked, leads to. */
static qg_status resolve(const config *asked, config *out)
{
    bool usage;
    config_free(out);
    return recipe_resolve(asked, NULL, out, &usage);
}

/* The part of c that decides a run's bytes but for the seed and what it begins with; borrowed. */
static config identity(const config *c)
{
    config same = *c;
    for (int i = 0; i < OPTIONS; i++)
        if ((options[i].use & IDENTITY) != IDENTITY || is_told_apart(&options[i])) same.value[i] = NULL;
    return same;
}

static const option *conflict(const config *a, const config *b)
{
    const config  x = identity(a), y = identity(b);
    const option *o = config_conflict(&x, &y, IDENTITY);
    return o ? o : config_conflict(&y, &x, IDENTITY);
}

const option *results_conflict(const logged_run *a, const logged_run *b)
{
    const option *o = option_find("init-digest");
    if (!config_text(&a->config, o->name) != !config_text(&b->config, o->name)) return o;
    return conflict(&a->config, &b->config);
}

/* The options in which run differs from its recipe, into asked. */
static qg_status ask(const logged_run *run, config *asked)
{
    config    c      = { { 0 } };
    qg_status status = config_set(asked, option_find("recipe"), run->row);
    if (!status) status = resolve(asked, &c);
    if (!status) {
        config own = identity(&run->config);
        for (int i = 0; i < OPTIONS; i++)
            if (own.value[i] && c.value[i] && !strcmp(own.value[i], c.value[i])) own.value[i] = NULL;
        status = config_over(asked, &own);
    }
    if (!status) status = resolve(asked, &c);
    const option *o = status ? NULL : conflict(&c, &run->config);
    if (o)
        status = qg_fail(QG_EARG, "%s, seed %" PRIu64 ": the recipe as it is now cannot have led to this run's %s",
                         run->row, run->seed, o->name);
    config_free(&c);
    return status;
}

/* Every item of a list behind its own "--layer". */
static void print_option(const option *o, const char *value, FILE *out)
{
    for (const char *line = value; line && *line;) {
        const int n = (int)strcspn(line, "\n");
        if (o->kind == OPTION_FLAG) fprintf(out, " --%s", o->name);
        else fprintf(out, " --%s %.*s", o->name, n, line);
        line += n + (line[n] == '\n');
    }
}

static void print_init(const results *all, const char *digest, FILE *out)
{
    for (int i = 0; i < all->runs; i++) {
        if (strcmp(all->run[i].result.digest, digest)) continue;
        fprintf(out, " --init runs/%s/seed-%" PRIu64, all->run[i].row, all->run[i].seed);
        return;
    }
    fprintf(out, " --init WEIGHTS-OF-%s", digest);
}

qg_status results_overrides(const logged_run *run, FILE *out)
{
    config          asked  = { { 0 } };
    const qg_status status = ask(run, &asked);
    for (int i = 0; i < OPTIONS && !status; i++)
        if (strcmp(options[i].name, "recipe")) print_option(&options[i], asked.value[i], out);
    config_free(&asked);
    return status;
}

qg_status results_command(const results *all, const logged_run *run, FILE *out)
{
    const char *init = config_text(&run->config, "init-digest");
    fprintf(out, "--recipe %s", run->row);
    const qg_status status = results_overrides(run, out);
    if (init) print_init(all, init, out);
    fprintf(out, " --seed %" PRIu64, run->seed);
    return status;
}
