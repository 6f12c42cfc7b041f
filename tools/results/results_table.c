#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/results/results.h"

#define TITLE "# Reproduced papers\n"

static const char head[] =
    TITLE
    "\n"
    "Published test accuracies and ours, one row for each recipe.  [Reproducing\n"
    "papers](../docs/reproducing.md) tells how to repeat a row (`build/qgrad results --repeat ROW`) and\n"
    "how to add one.  `qgrad results` writes this page from the logs in this directory, and `make test`\n"
    "compares it with them.  Sources and deviations come from `examples/recipes/ROW.toml`.\n"
    "\n"
    "- *reported*: the test accuracy in % of the source.  *paper*: read in the paper.  *code*: read in the\n"
    "  authors' own code or log.  *replication*: read in another author's replication.  *memory*: quoted\n"
    "  from memory, so it may be wrong, and no conclusion rests on it.  *none*: no published number for\n"
    "  this net and recipe is known.\n"
    "- *ours*: mean ± sample standard deviation over the seeds, after the last epoch.\n"
    "- *best*: mean of the best epochs.  They are chosen on the test set, so this number is too high,\n"
    "  unless the command has `--validation`: then they are chosen on images held out of the training\n"
    "  set.\n"
    "- *± test*: binomial standard error of a single run, due to the size of the test set.\n"
    "- *minutes*: per run, with tests and files, on a machine that other programs used as well.  It does\n"
    "  not measure [speed](../docs/performance.md).\n"
    "- *arithmetic*: the version of the [arithmetic](../docs/arithmetic.md) of the runs.  Version 2, and\n"
    "  3 of nets with a gradient quantizer, give the same bits on every machine.  The bits of version 1\n"
    "  depended on the machine, so only the commit of such a run (see Runs) repeats it.\n"
    "- *net*: the bytes of a trained net, which `build/qgrad predict --packed results/ROW/net.qg IMAGE..`\n"
    "  runs.  The link of the row leads to its model card.\n";

/* --- one row: the runs first..last-1 -------------------------------------------------------- */

typedef struct row {
    const results *all;
    int            first, last;
    qg_recipe   recipe;              /* the file as it is now: what it says of itself */
} row;

static const char *begins_with(const row *w) { return w->recipe.init_recipe; }

static double last_percent(const logged_run *r) { return 100 * r->result.test_accuracy; }
static double best_percent(const logged_run *r) { return 100 * r->result.best_test_accuracy; }
static double margin(const logged_run *r) { return 100 * r->result.test_accuracy_stderr; }
static double minutes(const logged_run *r) { return r->metrics.seconds / 60; }

static double mean(const row *w, results_number of, double *deviation)
{
    return results_mean(&w->all->run[w->first], w->last - w->first, of, deviation);
}

/* "99.35 ± 0.04"; without the deviation if there is only one run. */
static void print_mean(const row *w, results_number of, FILE *out)
{
    double deviation;
    fprintf(out, " %.2f", mean(w, of, &deviation));
    if (w->last - w->first > 1) fprintf(out, " ± %.2f", deviation);
    fputs(" |", out);
}

/* Writes text of a recipe to a table cell, with bars escaped. */
static void print_cell(const char *before, const char *text, FILE *out)
{
    fputs(before, out);
    for (; *text; text++) fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void print_reported(const row *w, FILE *out)
{
    const char *text = w->recipe.reported, *from = qg__recipe_value(&w->recipe, "provenance");
    const bool  memory = from && w->recipe.provenance == QG__FROM_MEMORY;
    print_cell(memory ? " reported " : " ", text ? text : "none", out);     /* for this net and recipe */
    if (text && from) fprintf(out, " (%s)", from);
    fputs(" |", out);
}

static void print_seeds(const row *w, FILE *out)
{
    for (int i = w->first; i < w->last; i++)
        fprintf(out, "%s%" PRIu64, i == w->first ? " " : ", ", w->all->run[i].seed);
    fputs(" |", out);
}

static uint64_t arithmetic(const logged_run *r) { return r->result.arithmetic; }
static uint64_t epochs(const logged_run *r) { return r->result.epochs; }

/* Each value once, in the order of the seeds. */
static void print_each(const row *w, uint64_t (*of)(const logged_run *r), FILE *out)
{
    for (int i = w->first; i < w->last; i++) {
        const uint64_t value = of(&w->all->run[i]);
        bool           said  = false;
        for (int k = w->first; k < i; k++) said |= of(&w->all->run[k]) == value;
        if (!said) fprintf(out, "%s%" PRIu64, i == w->first ? " " : ", ", value);
    }
    fputs(" |", out);
}

static void print_net(const row *w, FILE *out)
{
    for (int i = w->first; i < w->last; i++) {
        const logged_run *r = &w->all->run[i];
        if (r->net.file) fprintf(out, " [%zu](%s/" NET ")", r->net.bytes, r->row);
    }
    fputs(" |", out);
}

static qg_status print_row(const row *w, FILE *out)
{
    const logged_run *r = &w->all->run[w->first];
    const char       *paper = w->recipe.reproduces;
    fprintf(out, "| [%s](%s) |", r->row, r->row);
    print_cell(" ", paper ? paper : "-", out);
    fputs(" |", out);
    print_reported(w, out);
    print_mean(w, last_percent, out);
    print_mean(w, best_percent, out);
    fprintf(out, " %.2f |", mean(w, margin, NULL));
    print_seeds(w, out);
    print_each(w, epochs, out);
    fprintf(out, " %.1f |", mean(w, minutes, NULL));
    print_each(w, arithmetic, out);
    print_net(w, out);
    fputs(" `build/qgrad train ", out);
    const qg_status status = results_command(r, begins_with(w), out);
    fputs("` |\n", out);
    return status;
}

static qg_status print_overrides(const void *run, FILE *out) { return results_overrides(run, out); }

static qg_status print_deviations(const row *w, FILE *out)
{
    const char *text = w->recipe.deviations, *of = w->recipe.reproduces;
    if (!text) text = of ? "None listed" : "Does not reproduce a paper";
    char           *words;
    size_t          n;
    const qg_status status = qg__text_print(print_overrides, &w->all->run[w->first], &words, &n);
    fprintf(out, "- **%s**: %s", w->all->run[w->first].row, text);
    if (!status && *words) fprintf(out, ". Trained with `%s`", words + 1);
    fputs(".\n", out);
    free(words);
    return status;
}

static qg_status print_runs(const row *w, FILE *out)
{
    for (int i = w->first; i < w->last; i++) {
        const logged_run *r = &w->all->run[i];
        fprintf(out,
                "| %s | %" PRIu64 " | %.2f | %.2f (%" PRIu64 ") | %.1f | %.0f | %" PRIu64
                " | %s | %" PRIu64 " | %s |\n",
                r->row, r->seed, last_percent(r), best_percent(r), r->result.best_epoch, minutes(r),
                r->result.images_per_second, r->result.threads, r->result.commit, r->result.arithmetic, r->result.digest);
    }
    return QG_OK;
}

/* Once for each data set. */
static void print_images(const results *all, FILE *out)
{
    fputs("\n## Images\n\n"
          "Digests of the training and test images and labels.  Every run that recorded a digest has the same one.\n\n", out);
    for (int i = 0; i < all->runs; i++) {
        const qg_recipe *c    = &all->run[i].config;
        const char   *data = qg__recipe_value(c, "data");
        if (results_witness(all, data) == &all->run[i])
            fprintf(out, "- %s: %s\n", data, c->data_digest);
    }
}

/* --- the page ----------------------------------------------------------------------------- */

typedef qg_status (*print)(const row *w, FILE *out);

/* Checks that r belongs to the row and agrees with the other runs of the table. */
static qg_status check_run(const row *w, const logged_run *r)
{
    const logged_run *first = &w->all->run[w->first];
    const qg_recipe_key *o     = results_conflict(first, r);
    if (o)
        return qg_fail(QG_ESTATE, "%s: the runs with seeds %" PRIu64 " and %" PRIu64 " differ in %s", r->row,
                       first->seed, r->seed, o->name);
    const qg_status status = results_check_images(w->all, r);
    return status ? status : results_check_init(w->all, r, begins_with(w));
}

/* Fills w with the run at index first and the following runs of the same recipe. */
static qg_status open_row(row *w, const results *all, int first)
{
    const logged_run *r = all->run;
    *w = (row){ .all = all, .first = first, .last = results_row_end(all, first) };
    qg_status status = results_recipe(r[first].row, &w->recipe);
    for (int i = first; i < w->last && !status; i++) status = check_run(w, &r[i]);
    return status;
}

static qg_status each_row(const row *w, int rows, print f, FILE *out)
{
    qg_status status = QG_OK;
    for (int i = 0; i < rows && !status; i++) status = f(&w[i], out);
    return status;
}

static qg_status print_rows(const row *w, int rows, FILE *out)
{
    fputs("\n| row | what it reproduces | reported | ours | best | ± test | seeds | epochs | minutes"
          " | arithmetic | net | command |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|\n", out);
    qg_status status = each_row(w, rows, print_row, out);
    fputs("\n## Deviations from the sources\n\n", out);
    if (!status) status = each_row(w, rows, print_deviations, out);
    fputs("\n## Runs\n\n"
          "*commit* is that of the program, with `-dirty` if its sources had uncommitted changes.  A cell with two names\n"
          "belongs to a run that another program resumed.  *threads* are those of the last part of a\n"
          "run; *minutes* and *images/s* cover the whole run.  *digest* is that of the last weights.\n\n"
          "| row | seed | last | best (epoch) | minutes | images/s | threads | commit | arithmetic"
          " | digest |\n"
          "|---|---|---|---|---|---|---|---|---|---|\n", out);
    return status ? status : each_row(w, rows, print_runs, out);
}

bool results_begins(const char *page) { return !strncmp(page, TITLE, strlen(TITLE)); }

qg_status results_print(const results *all, FILE *out)
{
    const int rows = results_rows(all);
    fputs(head, out);
    if (!rows) {
        fputs("\nNo run has been added yet.\n", out);
        return QG_OK;
    }
    row *w = calloc((size_t)rows, sizeof *w);
    if (!w) return qg_fail(QG_EMEM, "out of memory for the table of results");
    qg_status status = QG_OK;
    for (int i = 0; i < rows && !status; i++) status = open_row(&w[i], all, i ? w[i - 1].last : 0);
    if (!status) status = print_rows(w, rows, out);
    for (int i = 0; i < rows; i++) qg__recipe_clear(&w[i].recipe);
    free(w);
    if (!status) print_images(all, out);
    return status;
}
