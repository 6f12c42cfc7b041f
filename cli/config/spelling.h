/* cli/config/spelling.h — "name:key=value,key=value": how schemes and models are spelt on the command line. */
#ifndef CLI_SPELLING_H
#define CLI_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Bits of spelling_option.is. */
enum {
    WHOLE = 1,              /* a whole number */
    SHOWN = 2               /* part of the one spelling at its default, too */
};

/* threshold=0.7 behind the colon: a number in min..max (or also), or one of the words in
 * "identity|clip", whose value is its index. */
typedef struct spelling_option {
    const char *name;
    double      fallback;   /* of a number, outside of its range: what the owner does by itself */
    double      min, max;
    const char *words;
    unsigned    is;
    double      also;       /* a number outside of min..max that is legal as well; 0: none */
    const char *when;       /* "range=learned|fixed" or "bits=2..8": what another option must be for this one
                               to have an effect; NULL: always has one */
    const char *below;      /* another number, which must be greater; NULL: none */
} spelling_option;

/* How many of at most `most` options there are; the list ends with a NULL name. */
int       spelling_count(const spelling_option *o, int most);
int       spelling_words(const spelling_option *o);                 /* how many; 0: a number */

/* The n characters at at are word, whole. */
bool      spelling_same(const char *word, const char *at, size_t n);

/* Values of the n options in text, fallbacks for those it does not mention.  Fails with QG_EARG: an
 * option there is not, or twice, or without effect (when), a value that is not legal; the message lists
 * what is. */
QG_MUST_CHECK
qg_status spelling_parse(const char *text, const spelling_option *o, int n, double *value);

/* The one spelling: options at their fallback are left out, unless SHOWN. */
void      spelling_print(const char *name, const spelling_option *o, int n, const double *value, char *text,
                         size_t bytes);
void      spelling_value(const spelling_option *o, double value, char text[64]);   /* of one option */

#endif
