/* quant/codes.h — a few-valued tensor as integers: the bridge from float tensors to packed ones. */
#ifndef QG_CODES_H
#define QG_CODES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tensor.h"

/* value[i] = scale[channel of i] * code[i]; the channel is the row i / qg_row(shape) of a weight
 * with n_scale == shape.n, else 0.  Where two_sided and code[i] < 0, negative[] takes the place of scale[].
 * The caller zeroes the struct, owns the arrays and sizes them: code for qg_count(shape), scale and
 * negative for shape.n. */
typedef struct qg_codes {
    int32_t *code;
    float   *scale;
    float   *negative;      /* written if two_sided; NULL: not wanted */
    int      n_scale;       /* 1 or shape.n; set by encode */
    bool     two_sided;     /* negative codes have scales of their own, as TTQ's; set by encode */
    int      bits;          /* of a packed code; set by encode */
} qg_codes;

#endif
