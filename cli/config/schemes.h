/* cli/config/schemes.h — quantization schemes by name: what --weight, --input and --gradient may say.  What
 * each is called, and its options, are in the scheme itself (quant/scheme.h). */
#ifndef CLI_SCHEMES_H
#define CLI_SCHEMES_H

#include <stdbool.h>
#include <stdio.h>

#include "layers/models/models.h"

/* Bits of a use. */
enum { FOR_WEIGHT = QG_WEIGHT, FOR_INPUT = QG_INPUT, FOR_GRADIENT = QG_GRADIENT };

/* "twn" or "twn:threshold=0.5,..": the quantizer, and its one spelling (options at their default
 * are left out, but for bits and range).  Fails with QG_EARG; the message lists what is legal. */
QG_MUST_CHECK
qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes);

/* "conv1:weight=SCHEME", "conv1:input=SCHEME" or "conv1:gradient=SCHEME" into *out, whose layer
 * points into name.  Fails with QG_EARG. */
enum { LAYER_NAME_BYTES = 64 };
QG_MUST_CHECK
qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes);

void      schemes_help(FILE *out, unsigned uses);

/* Every scheme behind the names, one after the other: a row of the table at its defaults, and the
 * ways in which words of its options make another scheme of it, as fake_quant:range=observed. */
typedef struct scheme_text {
    const char *name, *about;       /* of the row */
    char        spelling[96];       /* the name with the words that decide the scheme */
    unsigned    use;
    qg_quant    quant;              /* scheme NULL: nothing is quantized */
} scheme_text;
void      scheme_options_help(const scheme_text *s, FILE *out);     /* its options: range, default, purpose */
bool      scheme_at(int i, scheme_text *out);       /* false: there are fewer than i + 1 */

#endif
