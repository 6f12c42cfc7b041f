/* cli/results/results.h — what results/ holds: the logs of finished runs, results/RECIPE/seed-N/. */
#ifndef CLI_RESULTS_H
#define CLI_RESULTS_H

#include <stdio.h>

#include "cli/config/config.h"
#include "cli/run/metrics.h"
#include "cli/run/result.h"

#define RESULTS "results"

typedef struct logged_run {
    char        row[VALUE_BYTES];       /* the recipe it was trained with */
    uint64_t    seed;
    config      config;
    result      result;
    metrics     metrics;
} logged_run;

typedef struct results {
    logged_run *run;                    /* by row, then by seed */
    int         runs;
} results;                              /* {0} is empty */

/* All of results/; where that is not there, nothing.  Fails as results_add, and with QG_EFORMAT: a
 * folder is not results/RECIPE/seed-N, or holds another run. */
QG_MUST_CHECK
qg_status results_read(results *all);

/* The run in dir, in place of the one that has its recipe and seed.  Returns it in *added.
 * Fails    QG_EIO, QG_EMEM.  QG_EARG: not trained with --recipe.  QG_ESTATE: not finished.
 *          QG_EFORMAT: config.toml, metrics.csv and result.json do not say the same. */
QG_MUST_CHECK
qg_status results_add(results *all, const char *dir, logged_run **added);

/* NULL: there is none. */
logged_run *results_find(const results *all, const char *row, uint64_t seed);

/* The page, results/README.md.  Fails with QG_EARG: a row's runs differ in more than the seed, or
 * its recipe is not there or cannot have led to them; two runs saw other images under one name; a run
 * did not begin with what its recipe names; QG_EMEM. */
QG_MUST_CHECK
qg_status results_print(const results *all, FILE *out);
bool      results_begins(const char *page);         /* with the title of such a page */

/* Of the words of a command line that trains run again: "--recipe lenet --epochs 3 --seed 1".
 * begins_with: the recipe with whose weights this one begins, or NULL. */
QG_MUST_CHECK
qg_status results_command(const logged_run *run, const char *begins_with, FILE *out);

/* Of these words the ones that override the recipe: " --epochs 3", mostly none.  Fails as it does. */
QG_MUST_CHECK
qg_status results_overrides(const logged_run *run, FILE *out);

/* The run began with the last weights of the run of begins_with with its seed, or, if that is NULL,
 * with none.  QG_EARG: it did not. */
QG_MUST_CHECK
qg_status results_check_init(const results *all, const logged_run *run, const char *begins_with);

/* The first run on data of this name that says which images it saw; NULL: none does. */
const logged_run *results_witness(const results *all, const char *data);

/* Every run on data of one name saw the same images, as far as runs say.  QG_EARG: this one did not. */
QG_MUST_CHECK
qg_status results_check_images(const results *all, const logged_run *run);

/* The option that decides bytes and has another value in b than in a, but for the seed and for what a
 * run begins with and sees; NULL: none. */
const option *results_conflict(const logged_run *a, const logged_run *b);

int       results_rows(const results *all);
void      results_end(results *all);

#endif
