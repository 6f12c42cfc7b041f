/* cli/config/lists.h — lists of values for the options of a training, and all their combinations.
 *
 * An option that is given several times has each of these values.  In one value, a comma separates two of them
 *
 *     --lr 0.1,0.03           in numbers, words and recipes
 *     --seed 1..3,7           whole numbers may be ranges, which include both ends
 *     --weight twn,ttq:threshold=0.05,gradient=scaled
 *                             in values with keys, unless key= follows: these are twn and ttq:threshold=0.05,gradient=scaled
 *
 * but not in --augment, --distil, --layer, names of files and lists of layers, to which commas belong, nor in parentheses.
 * Of --layer there is no list: as in train, every item holds.
 */
#ifndef CLI_LISTS_H
#define CLI_LISTS_H

#include "cli/config/config.h"

enum { MOST_COMBINATIONS = 10000 };

/* Whether asked->values, and not asked itself, has the option. */
bool        lists_take(const option *o);

/* Whether no value of it changes a result, as of --threads; then there is no list of it. */
bool        lists_is_free(const option *o);

/* Adds the values in text.  Fails with QG_EARG (not legal, or one that is there already), QG_EMEM. */
QG_MUST_CHECK
qg_status   lists_add(config *asked, const option *o, const char *text);

int         lists_count(const config *asked, const option *o);          /* of its values */

/* How many combinations there are, at least 1.  Fails with QG_EARG: more than MOST_COMBINATIONS. */
QG_MUST_CHECK
qg_status   lists_combinations(const config *asked, int *n);

/* Which of the option's values combination k, from 0, has.  The last option of the table with several values changes
 * fastest. */
int         lists_index(const config *asked, int k, const option *o);

/* Its text, "" if the option is not given. */
void        lists_value(const config *asked, int k, const option *o, char text[QG_RECIPE_VALUE_BYTES]);

/* Sets in *one the options of combination k, and those that have no lists.  Fails as config_set. */
QG_MUST_CHECK
qg_status   lists_pick(const config *asked, int k, config *one);

void        lists_help(FILE *out);

#endif
