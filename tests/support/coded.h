/* tests/support/coded.h — every scheme in every role, with the arguments that make a difference to codes. */
#ifndef CODED_H
#define CODED_H

#include "quant/schemes/formulas.h"

typedef struct tested_scheme {
    const qg_scheme *scheme;    /* NULL: float */
    const char      *arguments;
    bool             codes;     /* its numbers are codes; else floats */
} tested_scheme;

enum { TESTED_WEIGHTS = 44, TESTED_INPUTS = 25 };
extern const tested_scheme tested_weights[TESTED_WEIGHTS], tested_inputs[TESTED_INPUTS];

qg_quant tested_quant(const tested_scheme *e, qg_role role);

#endif
