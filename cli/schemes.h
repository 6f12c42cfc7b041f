/* cli/schemes.h — the one list of quantization schemes: what --weight and --input may say. */
#ifndef CLI_SCHEMES_H
#define CLI_SCHEMES_H

#include <stdio.h>

#include "layers/models/models.h"

/* Bits of a use. */
enum { FOR_WEIGHT = 1, FOR_INPUT = 2 };

/* "twn" or "twn:threshold=0.5,..": the quantizer, and its one spelling (options at their default
 * are left out).  Fails with QG_EARG; the message lists the names that are legal. */
QG_MUST_CHECK
qg_status scheme_parse(const char *text, unsigned use, qg_quant *out, char *canonical, size_t bytes);

/* "conv1:weight=SCHEME" or "conv1:input=SCHEME" into *out, whose layer points into name.  Fails
 * with QG_EARG. */
enum { LAYER_NAME_BYTES = 64 };
QG_MUST_CHECK
qg_status choice_parse(const char *text, qg_choice *out, char name[LAYER_NAME_BYTES],
                       char *canonical, size_t bytes);

void      schemes_help(FILE *out);

/* Row i of the table, with its options at their defaults; name NULL: there are fewer.  quant.scheme
 * is NULL where nothing is quantized. */
typedef struct scheme_text {
    const char *name, *about;
    unsigned    use;
    qg_quant    quant;
} scheme_text;
scheme_text scheme_at(int i);

#endif
