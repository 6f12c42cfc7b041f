/* cli/gradcheck/gradcheck_quantizer.h — one check of a quantizer: of its tensor, or of one number that it learns.
 *
 * The gradient of a quantizer is that of a smooth function, its surrogate, which the scheme states (qg_scheme.surrogate).
 * A gradient for which none is stated is not checked.
 */
#ifndef CLI_GRADCHECK_QUANTIZER_H
#define CLI_GRADCHECK_QUANTIZER_H

#include "cli/gradcheck/gradcheck.h"
#include "quant/scheme.h"

/* The tensor: a weight of three output channels, or three images. */
enum { TENSOR_ROWS = 3, TENSOR_ROW = 11, TENSOR_N = TENSOR_ROWS * TENSOR_ROW };

typedef struct subject {
    const char  *name;
    qg_quant     q;
    size_t       numbers;               /* of qg_binding; 0: those of x */
    int          checked;               /* 0: x; i: the i-th learned number */
    bool         against_loss;          /* with differences of the quantizer itself, not of its surrogate */
    const char  *why;                   /* of gradcheck_line */

    /* Values before a check moves them; learned numbers are alike in all channels. */
    double       x[TENSOR_N], learned[QG_MAX_LEARNED];
} subject;

/* How many of what q learns or tracks have a gradient. */
int      quantizer_learned(qg_quant q);

/* Sets x and learned of k, and the line. */
qg_status quantizer_check(subject *k, gradcheck_line *line);

#endif
