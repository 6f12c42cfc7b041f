/* cli/config/config.h — what a command line asks for: a recipe, and the options that belong to no recipe. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/config/options.h"
#include "core/io/paths.h"
#include "train/recipe_keys.h"

#define RECIPES "examples/recipes"          /* relative to the working directory, or where qgrad is installed */

/* In the order of the option's words. */
typedef enum plot_role { PLOT_ANY, PLOT_WEIGHT, PLOT_INPUT, PLOT_GRADIENT } plot_role;

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
    qg_recipe recipe;
    char       *text[OPTIONS];              /* the canonical text of the other options; NULL: unset; a list has one item per line */
    char       *values[OPTIONS];            /* of sweep: its lists (cli/config/lists.h), one value per line; NULL: none */

    /* The values of these texts; 0 or NULL if an option is unset. */
    const char *file;                       /* --config */
    const char *out, *init, *run, *add, *sort, *packed;
    bool        resume, force, best, check, profile, paper, confusion, per_class, markdown, list, csv, json, watch, histogram, help;
    double      budget, seconds;
    int         calibrate, top, worst, jobs, array;
    int         to, requantize;             /* indices of the words of the table */
    qg_shape    image;
    links       links;
    plot_role   role;
    char      **operand;                    /* [operands], arguments that belong to no option, of verb.has_operands */
    int         operands;
};

/* Set an option.  A list grows; an item replaces the one that has the same text before its '='.  Fails
 * as qg__option_parse and with QG_EMEM; the option then has no meaningful value. */
QG_MUST_CHECK
qg_status   config_set(config *c, const option *o, const char *text);

/* Sets in c the keys of a recipe, and of the other options those of a verb, that are set in top. */
QG_MUST_CHECK
qg_status   config_over(config *c, const config *top, const verb *v);

/* The canonical text of an option of the table; NULL: unset. */
const char *config_text(const config *c, const char *name);
const char *config_text_of(const config *c, const option *o);
void        config_free(config *c);

/* The recipe of a training that asked describes: with its --config or --recipe file, and the defaults; qg__recipe_resolve.
 * *usage tells whether an error is in the command line or in a file. */
QG_MUST_CHECK
qg_status   config_resolve(const config *asked, const qg_recipe *stored, qg_recipe *out, bool *usage);

/* The same of a new run, as the version of run would have combined it: whether run is what was asked for. */
QG_MUST_CHECK
qg_status   config_resolve_as(const config *asked, const qg_recipe *run, qg_recipe *out);

/* The path of the file that --config or --recipe names, as qg__share_find finds it; empty if neither is given.  Fails with
 * QG_EARG if both are given, or if the recipe does not exist; the message lists the available recipes. */
QG_MUST_CHECK
qg_status   config_path(const config *asked, char path[QG__PATH_BYTES]);

#endif
