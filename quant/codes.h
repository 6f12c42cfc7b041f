/* quant/codes.h — a few-valued tensor as integers: the bridge from float tensors to packed ones. */
#ifndef QG_CODES_H
#define QG_CODES_H

#include <stdint.h>

#include "core/tensor.h"

/* value[i] = scale[channel of i] * code[i]; the channel is the row i / qg_row(shape) of a weight
 * with n_scale == shape.n, else 0.  The caller owns both arrays and sizes them: code for
 * qg_count(shape), scale for shape.n. */
typedef struct qg_codes {
    int32_t *code;
    float   *scale;
    int      n_scale;       /* 1 or shape.n; set by encode */
    int      bits;          /* of a packed code; set by encode */
} qg_codes;

#endif
