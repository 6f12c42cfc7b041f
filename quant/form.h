/* quant/form.h — the forms of quantized tensors.
 *
 *     sign       y = +a where x >= t, else -a; both plus b                     t and b are 0 in most schemes
 *     ternary    y = +p where x > D,  -n where x < -D,  else 0                 strict on both sides
 *     uniform    y = step times an integer, for x clipped to two ends
 *
 * Sources compute uniform levels in different orders of float operations, which round differently.
 * Each order is a form; qg_levels holds the constants of all of them:
 *
 *     lsq        y = round(clip(x / step, lo, hi)) step             lo and hi are codes
 *     pact       y = round(clip(x, 0, hi) steps / hi) hi / steps
 *     linear     y = floor(clip(x, 0, hi) / hi steps + 1/2) / steps hi
 *     dorefa     y = round(clip(x, 0, 1) steps) / steps
 *     tanh       y = 2 round((tanh(x) / (2 hi) + 1/2) steps) / steps - 1              or that times hi
 *     unit       y = round(clip(x / hi, -1, 1) steps) / steps       or odd multiples of 1 / steps
 *     scaled     y = round(clip(x, lo, hi) steps) step
 *     nudged     y = round((clip(x, lo, hi) - lo) / step - zero) step
 *
 * A form has constants.  The numbers that share the same constants are a span: the whole tensor, or
 * one channel.  A scheme computes the constants of a span (qg_scheme.constants).  quant/engine.c
 * derives the rest from the form: threads and channels, the op on the tape, the elementwise
 * function that a batch norm applies to its result (qg_norm_fused), the operators on plain arrays,
 * the gradients of learned values, and integer codes.
 */
#ifndef QG_FORM_H
#define QG_FORM_H

#include "core/io/array.h"
#include "core/kernels/cpu.h"
#include "quant/quant.h"

#include <stdbool.h>
#include <stdint.h>

/* a, t and b of sign. */
typedef struct qg_signed {
    float scale, threshold, offset;
    float inverse;              /* of a standardised weight: 1 / deviation (qg_mix); 0: it has none */
} qg_signed;

/* D, p and n of ternary.  If D is NaN, y is 0 everywhere. */
typedef struct qg_ternary {
    float delta, positive, negative;
} qg_ternary;

/* Each uniform form reads some of these. */
typedef struct qg_levels {
    float lo, hi;               /* the ends at which x is clipped; of lsq, the smallest and largest code */
    float step;                 /* the value of code 1 */
    float steps;                /* number of steps from lo to hi; 0: clip without rounding.  scaled,
                                   nudged: number of steps in 1.0 */
    float variant;              /* if not 0: dorefa, scaled: ties go up, not to even.  unit: 0 is a
                                   level.  tanh: times hi.  nudged: divides by step instead of multiplying by steps,
                                   which differs at ties */
    float from, to;             /* scaled: the slope is 1 between these, not between lo and hi.
                                   unit: from is 1 / hi, by which x is multiplied.  nudged: the
                                   range before it was shifted */
    float zero;                 /* nudged: steps from lo to 0 */
} qg_levels;

/* The most sums that a backward loop computes (below). */
enum { QG_FORM_SUMS = 2 };

typedef struct qg_constants {
    union {
        qg_signed  sign;
        qg_ternary ternary;
        qg_levels  uniform;
    };
    float gain[QG_FORM_SUMS];   /* dL/d(learned value i) = gain[i] sum[i], with the sum of
                                   qg_form_loops.backward; 0: 1 */
} qg_constants;

/* The integers that codes may be: lowest, lowest + step, .., count of them.  count 0: unknown. */
typedef struct qg_code_set {
    int lowest, step, count;
    int each;               /* 0: every channel may have all these codes.  Else each channel of a
                               weight has a zero point, and `each` consecutive codes that include
                               0 (.step is 1); .count covers all places where they may begin */
} qg_code_set;

/* A tensor as integers: value[i] = scale[channel of i] * code[i].  The channel is the row i / qg_row(shape) of a
 * weight with n_scale == shape.n, else 0.  If two_sided, negative codes use negative[] instead of scale[].
 * The caller zeroes the struct and owns the arrays: code has qg_count(shape) elements, scale and negative have
 * shape.n. */
typedef struct qg_codes {
    int32_t *code;
    float   *scale;
    float   *negative;      /* written if two_sided; may be NULL */
    int      n_scale;       /* 1 or shape.n; set by encode */
    bool     two_sided;     /* negative codes have their own scales, as in TTQ; set by encode */
    int      bits;          /* per packed code; set by encode */
    qg_code_set set;        /* which all codes belong to, whether x has them or not; set by encode */
} qg_codes;

/* The loops of a form. */
typedef struct qg_form_loops {
    void (*values)(const qg_constants *k, size_t n, const float *x, float *y);

    /* dx += dy times the slope of the form, sum[] += the sums below.  dx and sum may be NULL.
     * n <= QG_CHUNK (256, quant/reduce.h).
     *     sign       slope a                 sum[0]: dy sign(x - t)               sum[1]: dy
     *     ternary    slope p, 1 or n         sum[0]: dy where x > D           sum[1]: dy where x < -D
     *     lsq        slope 1 inside          sum[0]: dy dy/dstep
     *     pact       slope 1 inside          sum[0]: dy where x >= hi
     *     nudged     slope 1 inside          sum[0]: dy where x < lo          sum[1]: dy where x > hi
     *     linear, dorefa, scaled             slope 1 inside, no sums
     *     unit                               slope 1 / hi inside, no sums
     *     tanh               slope of tanh(x) / hi, with variant of tanh(x), no sums
     * Whether the ends count as inside depends on the source: lsq and linear exclude both, pact the upper one. */
    void (*backward)(const qg_constants *k, size_t n, const float *x, const float *dy, float *dx, double *sum);

    /* The codes of n <= QG_CHUNK numbers.  NULL: the values divided by uniform.step. */
    void (*codes)(const qg_constants *k, size_t n, const float *x, int32_t *code);
} qg_form_loops;

typedef struct qg_form {
    const qg_form_loops *loops[QG_ISA_AVX512 + 1];  /* for each instruction set, by qg_isa; all may be the same */
    void (*scales)(const qg_constants *k, float *positive, float *negative);    /* of positive and negative codes */
    qg_code_set (*set)(const qg_constants *k);      /* by arguments; NULL: qg_scheme.codes has it */
} qg_form;

extern const qg_form qg_sign_form, qg_ternary_form;
extern const qg_form qg_lsq_form, qg_pact_form, qg_linear_form, qg_dorefa_form, qg_tanh_form, qg_unit_form, qg_scaled_form,
                     qg_nudged_form;

/* The gradient of x if it is not s'(x) dy, where s is the quantizer's surrogate (qg_scheme.mix):
 *
 *     dx += through s'(x) dy + direct dy + coupled sign(x)
 *
 * or that of a standardised weight, z = (x - mean) inverse, where mean and deviation are differentiated: with
 * g = through s'(z) dy
 *
 *     dx += inverse (g - mean g - z sum(g z) / freedom) + coupled z + added
 */
typedef struct qg_mix {
    float  through, direct, coupled;
    bool   standardised;
    float  mean, inverse, added;
    float  within;              /* g is 0 where |z| is greater; 0: nowhere */
    double freedom;             /* of the deviation: n, or n - 1 */
} qg_mix;

/* --- spans ------------------------------------------------------------------------------------ */

/* Channel `channel` of x, or all of x if the split has one channel.  A split (core/io/array.h)
 * describes x as [outer][depth][inner], where depth counts the channels. */
typedef struct qg_span {
    const float *x;
    qg_split    split;
    size_t       channel;
    size_t       n;             /* numbers in the span */
    size_t       numbers, inputs;       /* of the tensor, as in qg_binding; 0: unknown */
    qg_isa       isa;           /* whose kernels read them */
} qg_span;

/* Statistics.  Sums are taken in double, in an order that depends on the split only. */
double qg_span_sum_abs_above(qg_span s, float d, size_t *count);    /* sum and count of |x| > d, d >= 0 */
float  qg_span_mean_abs(qg_span s);                                 /* sum |x| / n; 0 if n is 0 */
float  qg_span_max_abs(qg_span s);                                  /* 0 if n is 0; NaN if any x is */
double qg_span_mean(qg_span s, double *distance, double *squares);  /* with the sums of |x - mean| and (x - mean)^2 */
void   qg_span_min_max(qg_span s, float *min, float *max);          /* NaN is left out; 0 and 0 without a number */

#endif
