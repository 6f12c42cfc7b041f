/* cli/config/scheme_table.h — the rows that cli/config/schemes.c reads: name, options, constructor. */
#ifndef CLI_SCHEME_TABLE_H
#define CLI_SCHEME_TABLE_H

#include "cli/config/spelling.h"
#include "layers/models/models.h"

enum { SCHEME_OPTIONS = 12, SCHEME_ROWS = 24 };

#define SURROGATES "identity|clip|approx-sign|swish|tanh|annealed-tanh"

typedef struct scheme_row {
    const char   *name;
    unsigned      use;      /* FOR_WEIGHT, .. or-ed */
    spelling_option option[SCHEME_OPTIONS];           /* ends with a NULL name */
    qg_quant    (*make)(const double *value);         /* from one value per option */
    const char   *about;
} scheme_row;

extern const scheme_row scheme_rows[SCHEME_ROWS];

#endif
