/* cli/config/schemes.h — quantization schemes by name: the values of --weight, --input and --gradient.  Their names
 * and options are in the schemes (quant/scheme.h). */
#ifndef CLI_SCHEMES_H
#define CLI_SCHEMES_H

#include <stdbool.h>
#include <stdio.h>

#include "layers/models/models.h"

/* Bits of a use. */
enum { FOR_WEIGHT = QG_WEIGHT, FOR_INPUT = QG_INPUT, FOR_GRADIENT = QG_GRADIENT };

/* Parses "twn" or "twn:threshold=0.5,..": the quantizer, and its canonical text, which omits options at their default
 * except bits and range.  Fails with QG_EARG; the message lists the legal values. */
QG_MUST_CHECK
qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes);

/* The value of an option, by its name, that names a scheme, "ttq" or "conv1:weight=ttq", with the same meaning under another version of the
 * defaults (quant/scheme.h).  Fails as scheme_parse. */
QG_MUST_CHECK
qg_status scheme_rewrite(const char *name, const char *text, int from, int to, char *out, size_t bytes);

/* Parses "conv1:weight=SCHEME", "conv1:input=SCHEME" or "conv1:gradient=SCHEME" to *out, whose layer
 * points to name.  Fails with QG_EARG. */
enum { LAYER_NAME_BYTES = 64 };
QG_MUST_CHECK
qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes);

void      schemes_help(FILE *out, unsigned uses);

/* Enumerates all schemes: each row of the table with its defaults, and its variants that an option selects, such as
 * fake_quant:range=observed. */
typedef struct scheme_text {
    const char *name, *about;       /* of the row */
    char        spelling[96];       /* the name with the words that decide the scheme */
    unsigned    use;
    qg_quant    quant;              /* scheme NULL: nothing is quantized */
} scheme_text;
void      scheme_options_help(const scheme_text *s, FILE *out);     /* its options: range, default, purpose */
bool      scheme_at(int i, scheme_text *out);       /* false if there are at most i */

/* Scheme i and one of its roles, float left out; false: there are fewer than i + 1. */
bool        scheme_in_role(int i, const qg_scheme **scheme, unsigned *role);

#endif
