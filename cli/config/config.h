/* cli/config/config.h — a configuration: a value for each option that is set, in the table's order.
 *
 * As a file it is `key = value` lines, a subset of TOML: strings, numbers, booleans, arrays of
 * strings, comments; no tables, no dates, an array on one line.  Four keys are for people and for the
 * table of results, and decide nothing: reproduces, reported, provenance, deviations.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/config/options.h"

struct config {
    char *value[OPTIONS];       /* in its one spelling; NULL: unset; a list has one item per line */
};                              /* {0} is empty */

/* Set an option, after option_check.  A list grows; an item replaces the one that has the same text
 * before its '='.  Fails with QG_EARG, QG_EMEM. */
QG_MUST_CHECK
qg_status   config_set(config *c, const option *o, const char *text);
void        config_unset(config *c, const char *name);

/* What is set in top is set in c. */
QG_MUST_CHECK
qg_status   config_over(config *c, const config *top);

/* The value of an option that is in the table.  A number that is unset is its fallback, or 0. */
const char *config_text(const config *c, const char *name);        /* NULL: unset */
bool        config_flag(const config *c, const char *name);        /* unset: false */
bool        config_says(const config *c, const char *name, const char *word);      /* it is set to that */
double      config_real(const config *c, const char *name);
int64_t     config_integer(const config *c, const char *name);

/* Set what the text of a file says; origin serves messages, "FILE:LINE: ..".  Fails with QG_EARG
 * (syntax, an unknown key, a value that is not legal), and then may have set some of it. */
QG_MUST_CHECK
qg_status   config_parse(config *c, const char *text, const char *origin);
QG_MUST_CHECK
qg_status   config_read(config *c, const char *path);

/* The file for every set option whose use has all the bits; from malloc, NULL without memory. */
char       *config_print(const config *c, unsigned use);
QG_MUST_CHECK
qg_status   config_write(const config *c, const char *path);

/* The item behind this one in the value of a list, whose items are lines; "" behind the last. */
const char *list_next(const char *item);

/* The first option with all these bits that is set in asked and has another value in c, or NULL.  Of a
 * list every item must be in c. */
const option *config_conflict(const config *c, const config *asked, unsigned use);

/* The same of either in the other: the first option with all these bits in which they differ, or NULL. */
const option *config_difference(const config *a, const config *b, unsigned use);
void        config_free(config *c);

#endif
