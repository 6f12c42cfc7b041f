/* cli/gradcheck/gradcheck_quantizer.h — one check of a quantizer: of its tensor, or of one number that it learns.
 *
 * The gradient of a quantizer is that of a smooth function, its surrogate, which the scheme states (qg_scheme.surrogate).
 * A gradient for which none is stated is not checked.
 */
#ifndef CLI_GRADCHECK_QUANTIZER_H
#define CLI_GRADCHECK_QUANTIZER_H

#include "cli/gradcheck/gradcheck.h"
#include "core/io/array.h"
#include "quant/scheme.h"

/* The tensor: a weight of three output channels, or three images. */
enum { TENSOR_ROWS = 3, TENSOR_ROW = 11, TENSOR_N = TENSOR_ROWS * TENSOR_ROW };

/* A quantizer as two functions on arrays, or as an op, which must have the gradients of a scheme. */
typedef struct plain {
    const char *name, *quantizer;       /* "ttq_weight_quantizer", "ttq:threshold=0.25" */
    unsigned    role;
    qg_status (*forward)(const qg_array *x, const float *learned, qg_array *y);
    qg_status (*backward)(const qg_array *x, const float *learned, const qg_array *dy, qg_array *dx, float *dlearned);
    qg_var   *(*op)(qg_tape *t, qg_var *x, qg_var *const *learned);
} plain;

typedef struct subject {
    const char  *name;
    qg_quant     q;
    size_t       numbers;               /* of qg_binding; 0: those of x */
    const plain *plain;                 /* checked in place of q; NULL: q */
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

extern const plain *const gradcheck_plain;      /* ends with a NULL name */
qg_var  *plain_apply(qg_tape *t, const plain *f, qg_var *x, qg_var *const *learned);

#endif
