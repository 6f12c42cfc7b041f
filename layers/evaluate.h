/* layers/evaluate.h — the arithmetic of evaluation (internal).
 *
 * In QG_EVAL a product is computed as the engine computes it (infer/product.h), whatever it was in training: with exact
 * integers where both operands are codes, and with the scales of both, the bias and the batch norm that alone follows in two
 * factors per channel:
 *
 *     z = fl(fl(a acc) + b)       a = scale(w) scale(x) gamma / sqrt(var + eps)
 *                                 b = beta + (bias - mean) gamma / sqrt(var + eps)
 *
 * a and b are each computed in double and rounded once.  acc sums codes of the weight, minus the zero point of their channel if
 * channels have zero points of their own, times codes or floats x.  TTQ's positive and negative weights have accumulators of their own:
 * z = fl(fl(fl(a accP) - fl(an accN)) + b).  XNOR-Net's scale map K multiplies fl(a acc), a rounding of its own, and neither bias
 * nor norm is part of a and b then.  A batch norm that does not follow a product alone is fl(fl(a x) + b) of floats, and so is
 * one that qg_apply runs.
 *
 * b is never -0, so z is not -0 either.  The code of a NaN is the lowest; a weight with a NaN or an infinity is floats.  An
 * image with either is refused, as the engine refuses it: it could get other codes there, where codes and not floats are
 * pooled.  (So may finite values that are so large that a sum overflows.)
 *
 * layers/export/ writes the same numbers to files.
 */
#ifndef QG_LAYER_EVALUATE_H
#define QG_LAYER_EVALUATE_H

#include "infer/product.h"
#include "layers/plan.h"

/* As qg_layer_reads, in a step of training, where dropout scales what it passes. */
const qg_slot *qg__read_slot_in_training(const qg_product *p);

/* The codes of the numbers that a slot quantizes, at this step of training.  .count is 0 for floats: without a quantizer
 * (slot may be NULL), while it waits, without rounding, with a scale per channel or one that depends on the numbers, or with
 * more than 256 codes.  x = scale * code up to roundings; 1 for floats.  Fails with what the quantizer reports: if nothing has
 * been seen yet, with QG_ESTATE, and the codes are those that the arguments declare. */
qg_status qg__slot_codes(const qg_slot *slot, uint64_t step, qg__codes *codes, float *scale);

/* Whether positive and negative codes have scales of their own.  Then those of a weight have two accumulators, and those of an
 * input are floats. */
bool      qg__is_two_sided(qg_quant q);

/* What a product computes in QG_EVAL at this step of training. */
typedef struct qg__evaluation {
    qg__product  p;
    float        x_scale;       /* of codes */
    qg__scales   k;             /* a, an, b */
    const float *w_scale;       /* [oc]; of positive weights, if there are two */
    const float *w;             /* [oc][kh][kw][c / groups]: codes as integers, or floats; with p.zeros each row has its zero
                                   point before it, and codes are not negative */
} qg__evaluation;

/* memory: qg__evaluation_floats(p) floats, to which the result points.  Fails with what the quantizers report. */
size_t    qg__evaluation_floats(const qg_product *p);
QG_MUST_CHECK
qg_status qg__evaluation_of(const qg_product *p, uint64_t step, float *memory, qg__evaluation *e);

/* Numbers of a row of w. */
size_t    qg__evaluation_row(const qg__product *p);

/* The shape alone, for sizes of files.  It depends on values only in where the codes of a range begin (x.lowest, w.lowest), and
 * takes no account of steps of training. */
void      qg__evaluation_shape(const qg_product *p, qg__product *shape);

/* Whether the quantizer of its input scales the result of p, to which bias and batch norm are added afterwards. */
bool      qg__evaluation_scales(const qg_product *p);

/* Whether the batch norm that follows p is part of a and b in QG_EVAL. */
bool      qg__evaluation_has_norm(const qg_product *p);

/* a and b of a batch norm that follows another layer. */
void      qg__norm_scales(const qg_batchnorm *bn, float *a, float *b);

/* The least x of each code but the first, threshold[count - 1], found by bisection over all floats with the quantizer itself,
 * and the values of the codes, level[count], none of them -0; either may be NULL.  The threshold of a code that no x has is
 * infinite.  codes are those of qg__slot_codes, count > 0.
 * Fails with QG_EARG: a code is none of them, or codes decrease with x. */
QG_MUST_CHECK
qg_status qg__slot_thresholds(const qg_slot *slot, qg__codes codes, float *threshold, float *level);

/* The n numbers x quantized in QG_EVAL. */
QG_MUST_CHECK
qg_status qg__slot_values(const qg_slot *slot, int n, const float *x, float *y);

/* --- for layers/net.c ---------------------------------------------------------------------------- */

/* Whether all values of images are finite.  QG_ENAN: the message names the first one that is not. */
QG_MUST_CHECK
qg_status qg__evaluation_takes(qg_tensor images);

/* --- for layers/integer.c ----------------------------------------------------------------------- */

/* The same of images x, quantized by slot, in a step of training: b is the bias alone. */
QG_MUST_CHECK
qg_status   qg__evaluation_in_training(const qg_product *p, const qg_slot *slot, uint64_t step, qg_shape x, float *memory,
                                       qg__evaluation *e);

/* Packs the weight, qg__product_weight_bytes, on all threads. */
void        qg__evaluation_pack(qg_isa isa, const qg__evaluation *e, void *packed);

/* The codes of x, of so many pixels, as the product reads them: x itself, or written to codes. */
const void *qg__evaluation_code(qg_isa isa, const qg__evaluation *e, size_t pixels, const float *x, void *codes);

/* --- for layers/product.c ----------------------------------------------------------------------- */

/* Sets sizes->g, .groups and .pad, a float, for images x (layers/product.c). */
void    qg__product_sizes(const qg_product *p, qg_shape x, qg__product *sizes);

/* Records the product of a step in QG_EVAL as an op; x is quantized and y the shape of the result, both checked.  A step of
 * qg_apply, which has no result, is not aware of the layers around it. */
qg_var *qg__evaluate(const qg_step *s, qg_tape *t, qg_var *x, const qg_op *op, qg_shape y);

#endif
