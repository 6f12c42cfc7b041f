/* cli/config/config.h — a configuration: the options that are set, as values and as texts.
 *
 * As a file it is `key = value` lines, a subset of TOML: strings, numbers, booleans, arrays of
 * strings, comments; no tables, no dates, an array on one line.  Four keys have no effect on a run and are only
 * for readers and for the table of results: reproduces, reported, provenance, deviations.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/config/options.h"
#include "cli/config/recipe.h"
#include "core/io/paths.h"

#define RECIPES "examples/recipes"          /* relative to the working directory, or share_directory */

/* In the order of the option's words. */
typedef enum plot_role { PLOT_ANY, PLOT_WEIGHT, PLOT_INPUT, PLOT_GRADIENT } plot_role;
typedef enum provenance { FROM_PAPER, FROM_CODE, FROM_REPLICATION, FROM_MEMORY } provenance;

/* Two nodes exchange n bytes in seconds + n / bytes_per_second. */
typedef struct link_speed {
    double seconds, bytes_per_second;
} link_speed;

enum { MOST_LINKS = 4 };
typedef struct links {
    link_speed item[MOST_LINKS];
    int        count;
} links;

/* {0} is empty. */
struct config {
    char       *text[OPTIONS];              /* the canonical text; NULL: unset; a list has one item per line */
    char       *said[OPTIONS];              /* of an option that names schemes: the same as it was given, since what a
                                               canonical text omits depends on the version of the defaults */

    char       *values[OPTIONS];            /* of sweep: its lists (cli/config/lists.h), one value per line; NULL: none */

    /* The values of the texts; 0 or NULL if an option is unset. */
    recipe      recipe;
    const char *file, *named;               /* --config, --recipe */
    const char *out, *init, *init_except, *teacher, *run, *add, *sort, *packed;
    bool        resume, force, best, check, profile, paper, confusion, per_class, markdown, list, csv, json, watch, histogram, help;
    double      budget, seconds;
    int         ranks, calibrate, top, worst, jobs, array;
    int         to, requantize;             /* indices of the words of the table */
    int         defaults;                   /* version of the defaults (quant/scheme.h); 0: the current one */
    qg_shape    image;
    links       links;
    plot_role   role;
    const char *data_digest, *class_digest, *init_digest, *init_recipe, *teacher_digest;
    char      **operand;                    /* [operands], arguments that belong to no option, of verb.has_operands */
    int         operands;
    const char *reproduces, *reported, *deviations;
    provenance  provenance;
};

/* Set an option.  A list grows; an item replaces the one that has the same text before its '='.  Fails
 * as option_parse and with QG_EMEM; the option then has no meaningful value. */
QG_MUST_CHECK
qg_status   config_set(config *c, const option *o, const char *text);
void        config_unset(config *c, const char *name);

/* Sets in c the options that are set in top and whose use has all bits of with and none of without. */
QG_MUST_CHECK
qg_status   config_over(config *c, const config *top, unsigned with, unsigned without);

/* The canonical text of an option of the table; NULL: unset. */
const char *config_text(const config *c, const char *name);

/* A text that a run wrote says with which version of the defaults: a line `defaults = 2`.  Runs of version 1 did not say it; they
 * are known by options that only runs write.  Their schemes become texts of the current version when they are read, and are written as they
 * were, so that such a run keeps its bytes.
 *
 * Sets the options in the text of a file; origin is for messages, "FILE:LINE: ..".  Fails with QG_EARG (syntax, an
 * unknown key, an illegal value), and may then have set some options. */
QG_MUST_CHECK
qg_status   config_parse(config *c, const char *text, const char *origin);
QG_MUST_CHECK
qg_status   config_read(config *c, const char *path);

/* The text of a file with every set option whose use has all these bits; from malloc, NULL if out of memory. */
char       *config_print(const config *c, unsigned use);
QG_MUST_CHECK
qg_status   config_write(const config *c, int dir, const char *path);

/* The item after this one in the text of a list; "" after the last. */
const char *list_next(const char *item);

/* The first option with all bits of with and none of without that is set in asked and has another value
 * in c, or NULL.  Of a list every item must be in c. */
const option *config_conflict(const config *c, const config *asked, unsigned with, unsigned without);

/* The same in both directions: the first such option in which a and b differ, or NULL. */
const option *config_difference(const config *a, const config *b, unsigned with, unsigned without);
void        config_free(config *c);

/* --- where configurations come from (cli/config/resolve.c) ---------------------------------- */

/* Combines asked, its --config or --recipe file and the model's recipe: defaults < model < file < asked.  With a stored
 * configuration (of a run that is resumed) the result is that one, and asked must not contradict an option that
 * decides the run's bytes.  Only keys of a configuration are set in *out.
 * Fails with QG_EARG; *usage tells whether the error is in the command line or in a file. */
QG_MUST_CHECK
qg_status   config_resolve(const config *asked, const config *stored, config *out, bool *usage);

/* The configuration of a new run, as the version of run would have combined it: whether run is what was asked for. */
QG_MUST_CHECK
qg_status   config_resolve_as(const config *asked, const config *run, config *out);

/* Checks that the options of a resolved configuration are compatible.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   config_check(const config *c);

/* The config.toml of a run.  Fails with QG_EFORMAT: it names no model; QG_EIO, QG_EARG. */
QG_MUST_CHECK
qg_status   config_stored(const char *path, config *c);

/* The same, resolved and checked. */
QG_MUST_CHECK
qg_status   config_of_run(const char *path, config *c);

/* The path of the file that --config or --recipe names, as share_find finds it; empty if neither is given.  Fails with
 * QG_EARG if both are given, or if the recipe does not exist; the message lists the available recipes. */
QG_MUST_CHECK
qg_status   config_path(const config *asked, char path[QG__PATH_BYTES]);

#endif
