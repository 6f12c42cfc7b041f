/* quant/quant.h — few-valued tensors, and the gradient we pretend they have.
 *
 * A quantizer is a pair: q(x), used forward, and a surrogate s(x), differentiated backward.  Both
 * are written out in the file of each scheme; tests compare dL/dx with the slope of s.  {0} is the
 * identity, so a layer whose quantizer was never set is an ordinary layer.
 */
#ifndef QG_QUANT_H
#define QG_QUANT_H

#include "core/ops.h"
#include "quant/ste.h"

typedef struct qg_scheme qg_scheme;         /* quant/scheme.h */

typedef struct qg_quant {
    const qg_scheme *scheme;    /* NULL: leave the values alone */
    int              bits;      /* of a code: 1 binary, 2 ternary, k uniform */
    bool             per_channel;  /* one scale per output channel of a weight, not one in all */
    uint64_t         after;     /* steps of training before it starts to quantize; until then x passes */
    qg_surrogate     surrogate; /* {0}: the scheme's own */
    float            arg[8];    /* the scheme's constants, set by its constructor and read by it alone */
} qg_quant;

/* --- weights ------------------------------------------------------------------------------ */

/* {-a, 0, +a}: q = a sign(w) where |w| > threshold mean|w|.  threshold 0: 0.7.     quant/twn.c */
typedef struct qg_twn_spec {
    float threshold;
} qg_twn_spec;
qg_quant qg_twn(qg_twn_spec spec);

/* {-a, +a}: q = a sign(w), a = mean|w|, over the tensor or per output channel.     quant/binary.c */
typedef struct qg_binary_spec {
    bool         per_channel;
    qg_surrogate surrogate;     /* {0}: identity, unclipped, as TWN's binary rows */
} qg_binary_spec;
qg_quant qg_binary(qg_binary_spec spec);

/* --- activations -------------------------------------------------------------------------- */

/* {-1, +1}: q = sign(x), sign(0) = +1; surrogate clip(x, -1, 1) unless given.      quant/binary.c */
typedef struct qg_binary_activation_spec {
    qg_surrogate surrogate;
} qg_binary_activation_spec;
qg_quant qg_binary_activation(qg_binary_activation_spec spec);

/* --- use ---------------------------------------------------------------------------------- */

/* x quantized by q; x itself when q is {0}.  learned: the vars of what the scheme says it learns
 * or tracks, in its order (quant/scheme.h), or NULL when that is nothing. */
qg_var *qg_quantize(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);

#endif
