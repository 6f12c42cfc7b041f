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

typedef enum qg_role { QG_WEIGHT = 1, QG_INPUT = 2, QG_GRADIENT = 4 } qg_role;

typedef struct qg_quant {
    const qg_scheme *scheme;    /* NULL: leave the values alone */
    int              bits;      /* of a code: 1 binary, 2 ternary, k uniform */
    bool             per_channel;  /* one scale per channel: n of a weight, c of anything else */
    uint64_t         after;     /* steps of training before it starts to quantize; until then x passes */
    uint64_t         freeze_after;  /* steps after which an observed range stays as it is; 0: never */
    qg_role          role;      /* what it quantizes, and how many numbers one such tensor has (one */
    size_t           numbers;   /* image's, unless a weight).  A layer sets both; by hand, 0 means
                                   QG_INPUT and what x says */
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

/* --- ranges and steps, learned or observed -------------------------------------------------- */

/* Where the range of fake_quant comes from. */
typedef enum qg_range_kind {
    QG_RANGE_LEARNED,       /* min and max are trained, from what the first values span */
    QG_RANGE_OBSERVED,      /* moving average of each batch's min and max */
    QG_RANGE_PERCENTILE,    /* moving average of each batch's lower and upper percentile */
    QG_RANGE_FIXED,         /* given */
    QG_RANGE_CURRENT        /* weights: -max|w| .. max|w| of every step */
} qg_range_kind;

/* 2^bits levels between min and max, 0 among them; a relu stays in front of it.  What each kind of
 * range means when it is empty, not yet seen or turned over: quant/scheme_fake_quant.c. */
typedef struct qg_fake_quant_spec {
    int           bits;         /* 2 .. 16; 0: 8 */
    bool          narrow_range; /* one level less, so that symmetric ranges have a centre */
    bool          per_channel;  /* a range for each output channel of a weight, or channel of x */
    qg_range_kind range;
    float         min, max;     /* QG_RANGE_FIXED: min < max; both 0: -6, 6 */
    float         decay;        /* of the moving averages, 0 < decay < 1; 0: 0.99 */
    float         percentile;   /* 50 < percentile <= 100; 0: 99.99 */
    uint64_t      freeze_after; /* steps; then observed ranges stay.  0: never */
    qg_surrogate  surrogate;    /* of dx; {0}: 1 inside the range, 0 outside */
} qg_fake_quant_spec;
qg_quant qg_fake_quant(qg_fake_quant_spec spec);

/* Learned step: q = s round(clip(x / s, -qn, qp)).                               quant/scheme_lsq.c */
typedef struct qg_lsq_spec {
    int          bits;          /* 1 .. 16, signed 2 .. 16; required */
    bool         is_signed;     /* weights; else codes begin at 0 and it takes the place of relu */
    qg_surrogate surrogate;     /* of dx; {0}: 1 strictly inside the range, else 0 */
} qg_lsq_spec;
qg_quant qg_lsq(qg_lsq_spec spec);

/* Learned clip: q in {0, a/n, .., a}, n = 2^bits - 1.  In place of relu.        quant/scheme_pact.c */
typedef struct qg_pact_spec {
    int          bits;          /* 1 .. 16, or 32: clip only; required */
    float        alpha;         /* at first; 0: 10 */
    qg_surrogate surrogate;     /* of dx; {0}: 1 for 0 <= x < a, else 0 */
} qg_pact_spec;
qg_quant qg_pact(qg_pact_spec spec);

/* Fixed clip: q in {0, M/n, .., M}, n = 2^bits - 1.  In place of relu.        quant/scheme_linear.c */
typedef struct qg_linear_mid_tread_half_spec {
    int          bits;          /* 1 .. 16, or 32: clip only; 0: 2 */
    float        max_value;     /* M > 0; 0: 2 */
    qg_surrogate surrogate;     /* of dx; {0}: 1 for 0 < x < M, else 0 */
} qg_linear_mid_tread_half_spec;
qg_quant qg_linear_mid_tread_half(qg_linear_mid_tread_half_spec spec);

/* --- use ---------------------------------------------------------------------------------- */

/* x quantized by q; x itself when q is {0}.  learned: the vars of what the scheme says it learns
 * or tracks, in its order (quant/scheme.h), or NULL when that is nothing.  In QG_TRAIN an observed
 * range moves, and values that are not set yet are taken from x; in QG_EVAL nothing changes, and x
 * passes (as relu, if the scheme rectifies) as long as there is nothing to quantize with. */
qg_var *qg_quantize(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);

#endif
