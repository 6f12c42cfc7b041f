/* quant/quant.h — quantizers: which values a tensor may take, and which gradient it receives.
 *
 * A quantizer is a pair: q(x) is computed in the forward pass, and the surrogate s(x) is differentiated in the
 * backward pass.  The file of each scheme gives both formulas; tests compare dL/dx with the slope of s.  {0} is the
 * identity, so a layer without quantizers is an ordinary layer.
 */
#ifndef QG_QUANT_H
#define QG_QUANT_H

#include "core/ops/ops.h"
#include "quant/surrogate.h"

typedef struct qg_scheme qg_scheme;         /* quant/scheme.h */

typedef enum qg_role { QG_WEIGHT = 1, QG_INPUT = 2, QG_GRADIENT = 4 } qg_role;

typedef struct qg_quant {
    const qg_scheme *scheme;    /* NULL: the values pass unchanged */
    int              bits;      /* per code: 1 binary, 2 ternary, k uniform */
    bool             per_channel;  /* one scale per channel: n of a weight, c of any other tensor */
    bool             as_paper;  /* asked for with as=paper or .as_paper: stands in texts, changes nothing by itself */
    uint64_t         after;     /* training steps before the quantizer starts; until then x passes unchanged */
    qg_role          role;      /* the kind of tensor it is for: that of qg_quant_parse, of the field it was given as, or of
                                   qg_bind.  0: an input if the scheme quantizes inputs */
    qg_surrogate     surrogate; /* {0}: the scheme's own */
    double           arg[8];    /* the scheme's own arguments, in the order of its keys (quant/scheme.h) */
} qg_quant;

/* In the constructors below, 0 selects the default of an argument.  Names, ranges and defaults come from the
 * scheme's keys, which the command line also reads; `qgrad explain SCHEME` lists them.  Constructors never fail; the
 * function that uses the quantizer reports an argument out of range. */

/* --- weights ------------------------------------------------------------------------------ */

/* {-a, 0, +a}: q = a sign(w) where |w| > threshold mean|w|, over the tensor or per output channel.
 *                                                                                  quant/reference/ternary.h */
typedef struct qg_twn_spec {
    float        threshold;     /* 0: 0.7 */
    bool         per_channel;   /* the paper has one threshold and one a for the tensor */
    qg_surrogate surrogate;     /* {0}: identity, unclipped */
} qg_twn_spec;
qg_quant qg_twn(qg_twn_spec spec);

/* {-1, 0, +1}: Larq's SteTern, q = sign(w) where |w| > threshold.                  quant/reference/ternary.h */
typedef struct qg_ste_tern_spec {
    float        threshold;     /* as a multiple of mean|w|, as in TWN; 0: 0.7 */
    bool         absolute;      /* threshold is a value; 0: 0.05 */
    bool         plain_gradient;    /* else dw is divided by mean|w| */
    bool         as_paper;      /* both, as in Larq */
    qg_surrogate surrogate;     /* {0}: clip at 1 */
} qg_ste_tern_spec;
qg_quant qg_ste_tern(qg_ste_tern_spec spec);

/* The sign of the gradient of Wn. */
typedef enum qg_ttq_rule {
    QG_TTQ_EXACT,           /* -sum: the derivative of q */
    QG_TTQ_AS_PRINTED       /* +sum: eq. 7, Blueoil */
} qg_ttq_rule;

/* {-Wn, 0, +Wp}: both learned, as "wp" and "wn".                                   quant/reference/ternary.h */
typedef struct qg_ttq_spec {
    float        threshold;     /* as a fraction of max|w|; 0: 0.05 */
    qg_ttq_rule  rule;          /* sign of dWn: exact, or as the paper prints it */
    bool         start_at_one;          /* Wp, Wn start at 1; else at the mean |w| of the weights they replace,
                                           or if there are none, of the other side */
    bool         per_channel;           /* D, Wp and Wn per output channel; the paper has one of each per tensor */
    bool         summed_gradient;       /* of Wp, Wn; else times 1 / sqrt(number of weights), as LSQ's */
    bool         scaled_weights;        /* eq. 8, dw = Wp dq, dq or Wn dq; else dw = dq */
    float        scale_lr;      /* learning rate of Wp and Wn relative to that of the weights; 0: 0.1, as_paper 1 */
    float        decay;         /* weight decay of Wp and Wn; the authors' code uses that of the weights, 2e-4 */
    bool         as_paper;      /* at one, summed, eq. 8, rate 1: the paper's rule, for its learning rates */
    qg_surrogate surrogate;     /* {0}: as scaled_weights says */
} qg_ttq_spec;
qg_quant qg_ttq(qg_ttq_spec spec);

/* k bits, odd multiples of 1 / (2^k - 1); 1 bit: sign(w) mean|w|.                  quant/reference/dorefa.h */
typedef struct qg_dorefa_weight_spec {
    int          bits;          /* 1 .. 16; 0: 2; 32: float, the result is {0} */
    bool         through_max;   /* differentiate max|tanh w| as well, as tensorpack does */
    bool         times_max;     /* not with through_max: q times max|tanh w|, which is a constant */
    bool         per_channel;   /* one max|tanh w| (with 1 bit, mean|w|) per output channel */
    qg_surrogate surrogate;     /* {0}: the slope of tanh(w) / max; 1 bit: identity */
} qg_dorefa_weight_spec;
qg_quant qg_dorefa_weight(qg_dorefa_weight_spec spec);

/* {-a, +a}: q = a sign(w), a = mean|w|, over the tensor or per output channel.     quant/reference/binary.h */
typedef struct qg_binary_spec {
    bool         per_channel;
    qg_surrogate surrogate;     /* {0}: identity, unclipped */
} qg_binary_spec;
qg_quant qg_binary(qg_binary_spec spec);

/* Gradient rules of XNOR-Net; formulas in quant/reference/binary.h. */
typedef enum qg_xnor_rule {
    QG_XNOR_DEFAULT,        /* of the scheme: identity; of the operators: exact */
    QG_XNOR_EXACT,          /* the chain rule */
    QG_XNOR_PAPER,
    QG_XNOR_AUTHORS,
    QG_XNOR_AUTHORS_ADAM,
    QG_XNOR_IDENTITY
} qg_xnor_rule;

/* {-a, +a} per output channel with a gradient rule of XNOR-Net.                    quant/reference/binary.h */
typedef struct qg_xnor_spec {
    qg_xnor_rule rule;          /* 0: identity, dw = dq; with as_paper exact */
    bool         centred;       /* as released: subtract the mean over the input channels from the latent
                                   weights and keep them in [-1, 1].  Requires two input channels or more */
    bool         as_paper;      /* the exact rule, unless rule is set */
    qg_surrogate surrogate;     /* {0}: the rule's own, clip at 1 or identity */
} qg_xnor_spec;
qg_quant qg_xnor(qg_xnor_spec spec);

/* {-a, +a} per output channel, dw = a dq s'(w): Bi-Real Net.                     quant/reference/binary.h */
typedef struct qg_magnitude_aware_spec {
    qg_surrogate surrogate;     /* {0}: clip at 1 */
    bool         plain_gradient;    /* dw = a dq s'(w); else times sqrt(number of weights of the channel) */
    bool         as_paper;      /* plain */
} qg_magnitude_aware_spec;
qg_quant qg_magnitude_aware(qg_magnitude_aware_spec spec);

/* Factor on the learning rate of a latent weight, a power of s = 1 / sqrt(1.5 / (fan in + fan out)) with
 * fan in = kh kw in and fan out = kh kw out.                            [BinaryConnect, 1511.00363] */
typedef enum qg_glorot_lr {
    QG_GLOROT_OFF,          /* 1 */
    QG_GLOROT_ADAM,         /* s: the size of Adam's step does not depend on that of the gradient */
    QG_GLOROT_SGD           /* s^2: for SGD, with or without momentum */
} qg_glorot_lr;

/* In QG_TRAIN; QG_EVAL takes the sign. */
typedef enum qg_draw {
    QG_DRAW_SIGN,
    QG_DRAW_STOCHASTIC      /* +1 with probability (w + 1) / 2 */
} qg_draw;

/* {-1, +1}, latent weights kept in [-1, 1].                                      quant/reference/binary.h */
typedef struct qg_binaryconnect_spec {
    qg_draw      draw;
    bool         float_eval;    /* in QG_EVAL, use the latent weights instead of the sign, as the released code
                                   does with QG_DRAW_STOCHASTIC; such a net is not binary */
    bool         unit_start;    /* stretch the initial weights to fill [-1, 1], as the released code does */
    qg_glorot_lr glorot_lr;     /* the released code combines it with unit_start */
    bool         plain_gradient;    /* else dw is divided by mean|w| */
    bool         as_paper;      /* plain */
    qg_surrogate surrogate;     /* {0}: identity */
} qg_binaryconnect_spec;
qg_quant qg_binaryconnect(qg_binaryconnect_spec spec);

/* {-1, +1}: the sign, latent weights kept in [-1, 1].                            quant/reference/binary.h */
typedef struct qg_bnn_spec {
    bool         unit_start;
    qg_glorot_lr glorot_lr;
    bool         plain_gradient;    /* these two as in qg_binaryconnect_spec */
    bool         as_paper;
    qg_surrogate surrogate;     /* {0}: clip at 1 */
} qg_bnn_spec;
qg_quant qg_bnn(qg_bnn_spec spec);

/* {-a, +a} per output channel, a power of 2: the signs of standardised weights.   quant/schemes/irnet.c */
typedef struct qg_irnet_spec {
    qg_surrogate surrogate;     /* of the standardised weight; {0}: qg_surrogate_annealed_tanh, whose pace the caller sets */
} qg_irnet_spec;
qg_quant qg_irnet(qg_irnet_spec spec);

/* {m - d, m + d}, mean and deviation of each output channel.                      quant/schemes/adabin.c */
typedef struct qg_adabin_spec {
    qg_surrogate surrogate;     /* as in qg_irnet_spec */
} qg_adabin_spec;
qg_quant qg_adabin(qg_adabin_spec spec);

/* {-a, +a}, a learned per output channel: the signs of standardised weights, where large weights receive no
 * gradient.  The caller sets the pace of tau: .surrogate.steps of the quantizer.    quant/schemes/recu.c */
typedef struct qg_recu_spec {
    float tau, final_tau;       /* the quantile at which weights are large, at first and at last: 0.51 .. 0.9999;
                                   0: 0.85 and 0.99 */
    bool  plain_scale;          /* learn a; else a sqrt(number of weights of the channel) */
    bool  as_paper;             /* plain */
} qg_recu_spec;
qg_quant qg_recu(qg_recu_spec spec);

/* {-1, +1} without latent weights.  The weights start as the signs of the initial weights; only qg_bop
 * (optim/optim.h) can train them, by flipping them. */
qg_quant qg_bop_weight(void);

/* --- activations -------------------------------------------------------------------------- */

/* {-1, +1}: q = sign(x), sign(0) = +1; the default surrogate is clip(x, -1, 1).    quant/reference/binary.h */
typedef struct qg_sign_spec {
    qg_surrogate surrogate;
} qg_sign_spec;
qg_quant qg_sign(qg_sign_spec spec);

/* {-1, +1} with XNOR-Net's scale map: the product of sign(x) is multiplied by K, the mean |x| in its window, or
 * for dense the mean |x| of the row.  K is a constant of the backward pass.        quant/reference/binary.h
 * Usable only as the input of a product.  Padding counts as 0 in K, whatever pad_value is. */
typedef struct qg_xnor_activation_spec {
    bool         no_scale;      /* without K, as the authors released it; the same as qg_sign */
    qg_surrogate surrogate;     /* {0}: clip at 1 */
} qg_xnor_activation_spec;
qg_quant qg_xnor_activation(qg_xnor_activation_spec spec);

/* {b - a, b + a}, both learned, with the slope of approx-sign.  QG_EVAL and the engine sum products of such inputs as
 * floats.                                                                 quant/schemes/adabin_input.c */
qg_quant qg_adabin_activation(void);

/* k bits in [0, 1]: multiples of 1 / (2^k - 1).                                    quant/reference/dorefa.h */
typedef struct qg_dorefa_activation_spec {
    int          bits;          /* 1 .. 16; 0: 2; 32: clip to [0, 1] without rounding */
    bool         ties_up;       /* floor(v + 1/2) instead of the paper's ties to even */
    qg_surrogate surrogate;     /* {0}: 1 on 0 <= x <= 1 */
} qg_dorefa_activation_spec;
qg_quant qg_dorefa_activation(qg_dorefa_activation_spec spec);

/* --- gradients ---------------------------------------------------------------------------- */

/* Quantizes dL/dy of a product to k bits, per sample.  The forward pass is unchanged.  quant/reference/dorefa.h */
typedef struct qg_dorefa_gradient_spec {
    int  bits;                  /* 1 .. 16; 0: 6; 32: float, the result is {0} */
    bool no_noise;              /* for experiments; the paper's noise makes the result unbiased */
} qg_dorefa_gradient_spec;
qg_quant qg_dorefa_gradient(qg_dorefa_gradient_spec spec);

/* Quantizes dL/dy of a product to codes -n .. n times one step for the batch, n = 2^(bits-1) - 1, rounded at
 * random.  The forward pass is unchanged.                             quant/schemes/stochastic_gradient.c */
typedef struct qg_stochastic_gradient_spec {
    int   bits;                 /* 2 .. 8; 0: 8 */
    bool  no_noise;             /* for experiments: to the nearest code, ties to even, which is biased */
    float percentile;           /* of |dL/dy|, 50.01 .. 100: it becomes code n, larger values are
                                   clipped.  0: 100, the largest */
} qg_stochastic_gradient_spec;
qg_quant qg_stochastic_gradient(qg_stochastic_gradient_spec spec);

/* --- ranges and steps, learned or observed -------------------------------------------------- */

/* The source of fake_quant's range. */
typedef enum qg_range_kind {
    QG_RANGE_LEARNED,       /* min and max are trained; they start at those of the first values */
    QG_RANGE_OBSERVED,      /* moving average of each batch's min and max */
    QG_RANGE_PERCENTILE,    /* moving average of each batch's lower and upper percentile */
    QG_RANGE_FIXED,         /* given */
    QG_RANGE_CURRENT        /* weights only: -max|w| .. max|w|, computed in every step */
} qg_range_kind;

/* 2^bits levels between min and max, which include 0.  It does not replace a relu.  For ranges that are empty,
 * inverted or not yet observed, see qg_range in quant/scheme.h. */
typedef struct qg_fake_quant_spec {
    int           bits;         /* 2 .. 16; 0: 8 */
    bool          narrow_range; /* one level fewer, so that symmetric ranges have a centre */
    bool          per_channel;  /* one range per output channel of a weight, or per channel of x */
    qg_range_kind range;
    float         min, max;     /* QG_RANGE_FIXED: the range, min < max; both 0: -6, 6.  QG_RANGE_LEARNED: the
                                   initial range, min <= 0 <= max; both 0: that of the first values.
                                   Each is -1e6 .. 1e6 */
    float         decay;        /* of the moving averages, 0.001 .. 0.999999; 0: 0.99 */
    float         percentile;   /* for QG_RANGE_PERCENTILE, 50.01 .. 100; 0: 99.99 */
    uint64_t      freeze_after; /* steps after which an observed range is fixed; 0: never.  A field that belongs
                                   to another kind of range is an error */
    bool          sum_gradient; /* QG_RANGE_LEARNED: dmin and dmax are plain sums, as TensorFlow's, not multiplied by
                                   1 / sqrt(number of values) */
    qg_surrogate  surrogate;    /* of dx; {0}: 1 inside the range, 0 outside */
} qg_fake_quant_spec;
qg_quant qg_fake_quant(qg_fake_quant_spec spec);

/* Learned step: q = s round(clip(x / s, -qn, qp)).                               quant/reference/uniform.h */
typedef struct qg_lsq_spec {
    int          bits;          /* 1 .. 16, signed 2 .. 16; 0: 2 */
    bool         is_signed;     /* of inputs, whose codes else begin at 0 and which then replaces relu.  The codes of
                                   weights are always signed */
    bool         per_channel;   /* of weights: one step per output channel */
    qg_surrogate surrogate;     /* of dx; {0}: 1 strictly inside the range, else 0 */
} qg_lsq_spec;
qg_quant qg_lsq(qg_lsq_spec spec);

/* Learned clip: q in {0, a/n, .., a}, n = 2^bits - 1.  Replaces relu.           quant/reference/uniform.h */
typedef struct qg_pact_spec {
    int          bits;          /* 1 .. 16, or 32: clip only; 0: 4 */
    float        alpha;         /* initial value, 1e-6 .. 1e6; 0: 10 */
    float        decay;         /* weight decay of alpha; 0: 2e-4 */
    qg_surrogate surrogate;     /* of dx; {0}: 1 for 0 <= x < a, else 0 */
} qg_pact_spec;
qg_quant qg_pact(qg_pact_spec spec);

/* Fixed clip: q in {0, M/n, .., M}, n = 2^bits - 1.  Replaces relu.           quant/reference/uniform.h */
typedef struct qg_linear_spec {
    int          bits;          /* 1 .. 16, or 32: clip only; 0: 2 */
    float        max_value;     /* M, 1e-6 .. 1e6; 0: 2 */
    qg_surrogate surrogate;     /* of dx; {0}: 1 for 0 < x < M, else 0 */
} qg_linear_spec;
qg_quant qg_linear(qg_linear_spec spec);

/* Fixed range, for weights and inputs: odd multiples of 1 / (2^bits - 1) in [-1, 1], or with zero all multiples
 * of 1 / (2^(bits-1) - 1).  For inputs it replaces relu.                       quant/schemes/unit.c */
typedef struct qg_unit_spec {
    int          bits;          /* 1 .. 8, with zero 2 .. 8; 0: 2 */
    bool         zero;          /* 0 is a level, which leaves one level fewer */
    bool         fixed;         /* weights are quantized as they are and start stretched to [-1, 1]; else they are
                                   divided by twice their mean |w| first */
    bool         as_paper;      /* fixed */
    qg_surrogate surrogate;     /* of dx; {0}: clip at 1, of the quotient */
} qg_unit_spec;
qg_quant qg_unit(qg_unit_spec spec);

/* Codes of `bits` bits times one factor, so 0 is a level: TensorFlow's quantize_and_dequantize.  It does not replace a
 * relu.                                                                           quant/reference/qdq.h */
typedef struct qg_qdq_spec {
    int          bits;          /* 2 .. 16, unsigned 1 .. 16; 0: 8 */
    bool         is_unsigned;   /* codes 0 .. 2^bits - 1, for ranges that begin at 0 */
    bool         narrow_range;  /* not with is_unsigned: leave out the lowest code */
    bool         range_given;   /* min .. max; else those of x, measured in each step */
    float        min, max;      /* with range_given, min < max, each -1e6 .. 1e6; both 0: -6, 6 */
    bool         ties_up;       /* floor(v + 1/2) instead of ties to even */
    bool         per_channel;   /* not with range_given: one range per output channel of a weight, or per channel of x */
    qg_surrogate surrogate;     /* of dx; {0}: with range_given 1 where min <= x <= max, else 0; otherwise 1 */
} qg_qdq_spec;
qg_quant qg_qdq(qg_qdq_spec spec);

/* --- by name -------------------------------------------------------------------------------- */

/* The quantizer that "ttq:threshold=0.05" names for tensors of a role; "float" is {0}.
 *
 * Fails    QG_EARG: no such scheme for this role, or an illegal argument; the message lists what is legal. */
QG_MUST_CHECK
qg_status qg_quant_parse(const char *text, qg_role role, qg_quant *q);

/* --- use ---------------------------------------------------------------------------------- */

/* x quantized by q; x itself if q is {0}.  learned: one var for each value that the scheme learns or tracks, in the
 * scheme's order (quant/scheme.h); NULL if it has none.  QG_TRAIN updates observed ranges and initialises values
 * that are all 0, from x where they depend on it.  QG_EVAL changes nothing; until a range or lsq's step is set, x
 * passes unchanged (through relu, if the scheme rectifies). */
qg_var *qg_quantize(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);

/* A quantizer and what is known of its tensor, checked once.  Layers make theirs when the net is built. */
typedef struct qg_binding {
    qg_quant q;                 /* with its role */
    size_t   numbers;           /* elements of the weight, or of one image of an input */
    size_t   inputs;            /* input channels of a weight; for dense, all inputs */
    bool     frozen;            /* once it has observed a tensor, it observes no other */
} qg_binding;

/* Binds q to tensors of a role and of the shape of x, of which n counts for weights only.  Of what remains open it takes what
 * the role requires: lsq's codes of weights are signed.
 *
 * Fails    QG_EARG: an illegal argument, or a scheme that is not for this role. */
QG_MUST_CHECK
qg_status qg_bind(qg_quant q, qg_role role, qg_shape x, qg_binding *b);

/* As qg_quantize, with what qg_bind has checked, and without initial values but those of observed ranges and steps.
 * Fails with QG_ESHAPE: x needs learned values of other shapes; QG_EARG: b is NULL. */
qg_var *qg_quantize_bound(qg_tape *t, const qg_binding *b, qg_var *x, qg_var *const *learned);

#endif
