/* quant/codes.h — a few-valued tensor as integers: the bridge from float tensors to packed ones. */
#ifndef QG_CODES_H
#define QG_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tensor.h"

/* value[i] = scale[channel of i] * code[i]; the channel is the row i / qg_row(shape) of a weight
 * with n_scale == shape.n, else 0.  two_sided: where code[i] < 0 it is negative * code[i].  The
 * caller zeroes the struct, owns both arrays and sizes them: code for qg_count(shape), scale for
 * shape.n. */
typedef struct qg_codes {
    int32_t *code;
    float   *scale;
    int      n_scale;       /* 1 or shape.n; set by encode */
    bool     two_sided;     /* a scale of its own for each sign, as TTQ has; n_scale is then 1 */
    float    negative;      /* that of negative codes */
    int      bits;          /* of a packed code; set by encode */
} qg_codes;

#endif
