/* tools/results/results.h — what results/ holds: logs of finished runs, results/RECIPE/seed-N/, and the packed net
 * of one of them, results/RECIPE/net.qg, with its model card. */
#ifndef TOOLS_RESULTS_H
#define TOOLS_RESULTS_H

#include <stdio.h>

#include "cli/config/config.h"
#include "train/metrics.h"
#include "train/recipe_keys.h"
#include "train/result.h"

#define RESULTS "results"
#define NET     "net.qg"

/* Rows whose names begin like this were trained in one way (docs/reproducing.md); a picture compares them. */
#define PROTOCOL "resnet20-60-"
#define SPEEDS   RESULTS "/protocol-speed.txt"

typedef struct row_net {
    unsigned char *file;                      /* NULL: there is none */
    size_t         bytes;
    qg_shape       image;                     /* of one image */
    int            scores;                    /* of one image */
} row_net;

typedef struct logged_run {
    char        row[QG_RECIPE_VALUE_BYTES];   /* the recipe it was trained with */
    uint64_t    seed;
    qg_recipe config;
    qg_fit_result result;
    qg__metrics metrics;
    row_net     net;                          /* if net.qg of the row has the weights of this run */
} logged_run;

typedef struct results {
    logged_run *run;                    /* by row, then by seed */
    int         runs;
    char        stray[QG__PATH_BYTES];  /* a net of a row without runs; empty: there is none */
} results;                              /* {0} is empty */

/* Reads all of results/; if it does not exist, the result is empty.  Fails as results_add, and with QG_EFORMAT if a
 * folder is not results/RECIPE/seed-N or contains another run. */
QG_MUST_CHECK
qg_status results_read(results *all);

/* Adds the run in dir, replacing a run of the same recipe and seed.  Returns it in *added.
 * Fails    QG_EIO, QG_EMEM.  QG_EARG: not trained with --recipe.  QG_ESTATE: not finished; without force also if the
 *          logs that it would replace have other images or options, or more epochs.
 *          QG_EFORMAT: config.toml, metrics.csv and result.json contradict each other. */
QG_MUST_CHECK
qg_status results_add(results *all, const char *dir, bool force, logged_run **added);

/* NULL: there is none. */
logged_run *results_find(const results *all, const char *row, uint64_t seed);

/* Reads net.qg of a row, if there is one, into the run of the row whose digest it has; without such a run it
 * is ignored.  Fails with QG_EIO, QG_EMEM, and with QG_EFORMAT if it is no packed net or too large. */
QG_MUST_CHECK
qg_status results_read_net(results *all, const char *row);

/* Gives r the packed net of its run in dir, and the other runs of the row none, if r is the first run of the
 * row under the current arithmetic, dir has the weights, and the file is small enough.
 * Fails    As qg_run_open and qg_export_bytes; QG_EFORMAT: the weights are not those of result.json. */
QG_MUST_CHECK
qg_status results_pack(results *all, logged_run *r, const char *dir);
void      results_net_end(logged_run *r);

/* Writes the model card, README.md beside net.qg, of a logged_run with a net.  Fails as results_recipe. */
QG_MUST_CHECK
qg_status results_card(const void *run, FILE *out);

/* Reads the recipe of a row as it is now; qg__recipe_clear.  Fails with QG_EARG, QG_EIO. */
QG_MUST_CHECK
qg_status results_recipe(const char *row, qg_recipe *r);

/* Writes the page, results/README.md.  Fails with QG_EMEM, and with QG_ESTATE if the runs of a row differ
 * in more than the seed, if their recipe is missing or cannot have produced them, if two runs used
 * different images under one name, or if a run did not start from the weights that its recipe names. */
QG_MUST_CHECK
qg_status results_print(const results *all, FILE *out);
bool      results_begins(const char *page);         /* with the title of such a page */

/* Writes the picture of the protocol, results/protocol.svg.  Fails with QG_EIO, QG_EMEM. */
QG_MUST_CHECK
qg_status results_plot(const void *all, FILE *out);
bool      results_have_protocol(const results *all);

/* The options of a command line that repeats the training of run: "--recipe lenet --epochs 3 --seed 1".
 * begins_with: the recipe whose weights this one starts from, or NULL. */
QG_MUST_CHECK
qg_status results_command(const logged_run *run, const char *begins_with, FILE *out);

/* Only the options that override the recipe, " --epochs 3"; usually none.  Fails in the same way. */
QG_MUST_CHECK
qg_status results_overrides(const logged_run *run, FILE *out);

/* Sets in asked, which is empty, the recipe of run, the options that override it, and the seed.
 * Fails with QG_ESTATE: the current recipe cannot produce the run. */
QG_MUST_CHECK
qg_status results_ask(const logged_run *run, config *asked);

/* A run of the table that is trained again. */
typedef struct repetition {
    const logged_run *of;
    int               epochs;           /* to compare */
    int               equal;            /* the first epochs, which are as in the log */
    int               differs;          /* the epoch that is not; 0: none so far */
    char              what[QG_FIT_TEXT + 64];        /* in what it differs: "digest .., but the log has .." */
    char              dir[QG__PATH_BYTES];
} repetition;

/* Trains the run of --repeat and --seed, the first of the row without it, in --out/ROW/seed-N up to
 * the first epoch that differs from its log, or for --epochs; what an earlier call has trained there
 * counts.  A run that starts with the weights of another begins with the --init, or trains that one
 * first; if this differs from its own log, *r is about it.  A signal ends it early: then stop_signal
 * (cli/run/stop.h) is set.  Fails as qg_recipe_fit, and with QG_EARG: there is no such run; it has
 * fewer epochs; the images or the initial weights are others. */
QG_MUST_CHECK
qg_status results_repeat(const results *all, const config *asked, repetition *r);

/* Checks that the run started from the last weights of the run of begins_with with the same seed, or, if begins_with
 * is NULL, from none.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status results_check_init(const results *all, const logged_run *run, const char *begins_with);

/* The first run on data of this name that recorded a digest of its images; NULL if none did. */
const logged_run *results_witness(const results *all, const char *data);

/* Checks that run used the same images as the other runs on data of this name that recorded a digest.  Fails with
 * QG_ESTATE. */
QG_MUST_CHECK
qg_status results_check_images(const results *all, const logged_run *run);

/* An option that affects the result and differs between a and b, other than the seed, the initial weights and the
 * data; NULL: none. */
const qg_recipe_key *results_conflict(const logged_run *a, const logged_run *b);

int       results_rows(const results *all);
int       results_row_end(const results *all, int first);   /* the index behind the runs of the row */

/* The mean of a number over the runs.  *deviation: that of the sample, NaN of a single run; deviation may be NULL. */
typedef double (*results_number)(const logged_run *r);
double    results_mean(const logged_run run[], int runs, results_number of, double *deviation);
void      results_end(results *all);

#endif
