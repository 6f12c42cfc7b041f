/* cli/config/config.h — a configuration: the options that are set, as values and as texts.
 *
 * As a file it is `key = value` lines, a subset of TOML: strings, numbers, booleans, arrays of
 * strings, comments; no tables, no dates, an array on one line.  Four keys are for people and for the
 * table of results, and decide nothing: reproduces, reported, provenance, deviations.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/config/options.h"
#include "cli/config/recipe.h"
#include "cli/paths.h"

#define RECIPES "examples/recipes"          /* relative to the working directory */

typedef enum provenance { FROM_CODE, FROM_REPLICATION, FROM_MEMORY } provenance;

/* {0} is empty. */
struct config {
    char       *text[OPTIONS];              /* the one spelling; NULL: unset; a list has one item per line */

    /* What the texts say; 0 or NULL where an option is unset. */
    recipe      recipe;
    const char *file, *named;               /* --config, --recipe */
    const char *out, *init, *run, *add;
    bool        resume, force, best, check, profile, paper, markdown, json, help;
    double      budget, seconds;
    qg_shape    image;
    const char *data_digest, *class_digest, *init_digest, *init_recipe;
    const char *reproduces, *reported, *deviations;
    provenance  provenance;
};

/* Set an option.  A list grows; an item replaces the one that has the same text before its '='.  Fails
 * as option_parse and with QG_EMEM; the option then has no meaningful value. */
QG_MUST_CHECK
qg_status   config_set(config *c, const option *o, const char *text);
void        config_unset(config *c, const char *name);

/* Set in c what is set in top, for options whose use has all bits of with and none of without. */
QG_MUST_CHECK
qg_status   config_over(config *c, const config *top, unsigned with, unsigned without);

/* The spelling of an option in the table; NULL: unset. */
const char *config_text(const config *c, const char *name);

/* Set what the text of a file says; origin is for messages, "FILE:LINE: ..".  Fails with QG_EARG
 * (syntax, an unknown key, a value that is not legal), and then may have set some of it. */
QG_MUST_CHECK
qg_status   config_parse(config *c, const char *text, const char *origin);
QG_MUST_CHECK
qg_status   config_read(config *c, const char *path);

/* The file for every set option whose use has all the bits; from malloc, NULL without memory. */
char       *config_print(const config *c, unsigned use);
QG_MUST_CHECK
qg_status   config_write(const config *c, const char *path);

/* The item after this one in the text of a list; "" after the last. */
const char *list_next(const char *item);

/* The first option with all bits of with and none of without that is set in asked and has another value
 * in c, or NULL.  Of a list every item must be in c. */
const option *config_conflict(const config *c, const config *asked, unsigned with, unsigned without);

/* The same in both directions: the first such option in which a and b differ, or NULL. */
const option *config_difference(const config *a, const config *b, unsigned with, unsigned without);
void        config_free(config *c);

/* --- where configurations come from (cli/config/resolve.c) ---------------------------------- */

/* What asked, its --config or --recipe file and the model's recipe add up to: defaults < model < file <
 * asked.  With a stored configuration (of a run that is resumed) it is that one instead, and asked must not
 * contradict what decides the run's bytes.  Only keys of a configuration end up in *out.
 * Fails with QG_EARG; *usage tells whether the command line is to blame or a file. */
QG_MUST_CHECK
qg_status   config_resolve(const config *asked, const config *stored, config *out, bool *usage);

/* The options of a resolved configuration go together.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   config_check(const config *c);

/* The config.toml of a run.  Fails with QG_EFORMAT: it names no model; QG_EIO, QG_EARG. */
QG_MUST_CHECK
qg_status   config_stored(const char *path, config *c);

/* The same, resolved and checked. */
QG_MUST_CHECK
qg_status   config_of_run(const char *path, config *c);

/* The path of the file that --config or --recipe names; empty: neither does.  Fails with QG_EARG: both
 * are given; there is no such recipe, and the message lists those available. */
QG_MUST_CHECK
qg_status   config_path(const config *asked, char path[PATH_BYTES]);

#endif
