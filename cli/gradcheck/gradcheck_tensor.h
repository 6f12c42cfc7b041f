/* cli/gradcheck/gradcheck_tensor.h — rows about a whole tensor and what its quantizer learns.
 *
 * Where a quantizer's backward is a pretended one, the differences are those of its surrogate: the
 * function without rounding, plus the rounding errors as they were before anything moved.
 */
#ifndef CLI_GRADCHECK_TENSOR_H
#define CLI_GRADCHECK_TENSOR_H

#include "cli/gradcheck/gradcheck.h"
#include "core/io/array.h"
#include "quant/scheme.h"

/* The tensor: a weight of three output channels, or three images. */
enum { TENSOR_ROWS = 3, TENSOR_ROW = 11, TENSOR_N = TENSOR_ROWS * TENSOR_ROW };

/* Values of x and of what is learned before anything moved. */
typedef struct held {
    float x[TENSOR_N], learned[QG_MAX_LEARNED];
} held;

/* A quantizer as the functions on arrays have it. */
typedef struct plain {
    const char *learned[2];         /* the numbers it learns; NULL: no more */
    qg_status (*forward)(const qg_array *x, const float *learned, qg_array *y);
    qg_status (*backward)(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx,
                          float *dlearned);
} plain;

typedef struct tensor_row {
    const char  *name;
    int          checked;           /* 0: x; i: the i-th number that is learned */
    qg_quant   (*quant)(void);      /* a scheme; NULL: */
    const plain *plain;             /* functions on arrays */
    double     (*surrogate)(const held *was, size_t i, const float *x, const float *learned);
                                    /* element i; NULL: the quantizer itself */
    float        learned[QG_MAX_LEARNED];   /* values, one for all channels */
    float        spread;            /* of x about 0 */
    float        kink[3];           /* x keeps away from these, if not 0, */
    float        margin;            /* by this much */
    float        tolerance;         /* 0: 1e-3 */
    const char  *reason;            /* of the tolerance */
    const char  *why;               /* of gradcheck_line */
} tensor_row;

qg_status tensor_check(const tensor_row *row, gradcheck_line *line);

#endif
