/* cli/config/schemes.h — quantization schemes by name: the values of --weight, --input and --gradient.  Their names
 * and options are in the schemes (quant/scheme.h). */
#ifndef CLI_SCHEMES_H
#define CLI_SCHEMES_H

#include <stdbool.h>
#include <stdio.h>

#include "layers/models/models.h"

void      schemes_help(FILE *out, unsigned uses);

/* Enumerates all schemes: each row of the table with its defaults, and its variants that an option selects, such as
 * fake_quant:range=observed. */
typedef struct scheme_text {
    const char *name, *about;       /* of the row */
    char        spelling[96];       /* the name with the words that decide the scheme */
    unsigned    use;
    qg_quant    quant;              /* scheme NULL: nothing is quantized */
} scheme_text;
/* After an empty line, the options of the schemes of this name, each once: range, default, purpose, and for which
 * operands where others lack it.  SCHEMES_SHARE says the rest, if they have the options of the library's schemes. */
void      scheme_options_help(const char *name, FILE *out);
bool      scheme_shares(const char *name);
#define SCHEMES_SHARE                                                                                  \
    "as=paper is the rule of the source; where it is not listed, that is the default.  surrogate is one of\n" QG_SURROGATE_WORDS ";\n" \
    "surrogate-arg is the bound of clip, the beta of swish or the temperature of tanh.  A default of [auto]\n" \
    "depends on the other options.\n"
bool      scheme_at(int i, scheme_text *out);       /* false if there are at most i */
qg_status scheme_unknown(const char *name);         /* QG_EARG; options may follow the name */

/* Scheme i and one of its roles, float left out; false: there are fewer than i + 1. */
bool        scheme_in_role(int i, const qg_scheme **scheme, unsigned *role);

/* Appends the names of the schemes for any of these uses, each once, float first: "float, twn, .."
 * (qg__list_append). */
void        scheme_names(unsigned uses, char *text, size_t bytes);

#endif
