/* cli/scheme_table.h — the rows that cli/schemes.c reads: name, options, constructor. */
#ifndef CLI_SCHEME_TABLE_H
#define CLI_SCHEME_TABLE_H

#include "layers/models/models.h"

enum { SCHEME_OPTIONS = 12, SCHEME_ROWS = 22 };

/* Bits of scheme_option.is. */
enum {
    WHOLE = 1,              /* a whole number */
    SHOWN = 2               /* part of the one spelling at its default, too */
};

/* threshold=0.7 behind the colon: a number in min..max (or also), or one of the words in
 * "identity|clip", whose value is its index. */
typedef struct scheme_option {
    const char *name;
    double      fallback;   /* of a number, outside of its range: what the scheme does by itself */
    double      min, max;
    const char *words;
    unsigned    is;
    double      also;       /* a number outside of min..max that is legal as well; 0: none */
} scheme_option;

#define SURROGATES "identity|clip|approx-sign|swish|tanh|annealed-tanh"

typedef struct scheme_row {
    const char   *name;
    unsigned      use;      /* FOR_WEIGHT, .. or-ed */
    scheme_option option[SCHEME_OPTIONS];           /* ends with a NULL name */
    /* One value per option.  Fails with QG_EARG: options that contradict each other. */
    qg_status   (*make)(const double *value, qg_quant *q);
    const char   *about;
} scheme_row;

extern const scheme_row scheme_rows[SCHEME_ROWS];

#endif
