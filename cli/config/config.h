/* cli/config/config.h — what a command line asks for: a recipe, and the options that belong to no recipe. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/config/options.h"
#include "core/io/paths.h"

#define RECIPES "examples/recipes"          /* relative to the working directory, or where qgrad is installed */

extern const qg_key config_link_keys[];     /* of --link: latency in microseconds, gbits */

/* {0} is empty. */
struct config {
    qg_recipe *recipe;                      /* the keys that are set; NULL: none yet */
    bool       has_read;                    /* and what config_read has read */
    char      *text[OPTIONS];               /* the canonical texts; NULL: unset; a list has one item per line */
    char      *values[OPTIONS];             /* of sweep: its lists (cli/config/lists.h), one value per line; NULL: none */
    const verb *verb;                       /* that is asked; NULL: none */
    const char *program;                    /* how this one was called */
    const char *word;                       /* the argument that belongs to no option, of verb.has_operand; NULL: none */
    char     **operand;                     /* [operands], the same of verb.has_operands */
    int        operands;
};

/* Checks the value of an option, and writes its canonical text.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status   config_check(const option *o, const char *text, char canonical[QG_RECIPE_VALUE_BYTES]);

/* Set an option; NULL unsets it.  A list grows; an item replaces the one that has the same text before its '='.  Fails as
 * config_check and with QG_EMEM. */
QG_MUST_CHECK
qg_status   config_set(config *c, const char *name, const char *text);

/* Sets an option to a canonical text, a list item by item.  Fails as config_set. */
QG_MUST_CHECK
qg_status   config_take(config *c, const option *o, const char *text);

/* The canonical text of an option; NULL: unset. */
const char *config_text(const config *c, const char *name);
const char *config_text_of(const config *c, const option *o);

/* Its value; false or 0 if it is unset. */
bool        config_flag(const config *c, const char *name);
int         config_integer(const config *c, const char *name);
double      config_number(const config *c, const char *name);
int         config_word(const config *c, const char *name);             /* the index among the option's words */
size_t      config_bytes(const config *c, const char *name);            /* "1G"; at least 1 if it is set */
qg_shape    config_image(const config *c);                              /* --image */
void        config_free(config *c);

/* Adds to the recipe what the file of --config or --recipe says, unless that was done before: then it describes the training that
 * is asked for. */
QG_MUST_CHECK
qg_status   config_read(config *asked);

/* The path of the file that --config or --recipe names, as qg__share_find finds it; empty if neither is given.  Fails with
 * QG_EARG if both are given, or if the recipe does not exist; the message lists the available recipes. */
QG_MUST_CHECK
qg_status   config_path(const config *asked, char path[QG__PATH_BYTES]);

#endif
