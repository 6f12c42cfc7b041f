/* layers/evaluate.h — the arithmetic of evaluation (internal).
 *
 * In QG_EVAL a product is computed as the engine computes it (infer/product.h), whatever it was in training: with exact
 * integers where both operands are codes, and with the scales of both, the bias and the batch norm that alone follows in two factors
 * per channel:
 *
 *     z = fl(fl(a acc) + b)       a = scale(w) scale(x) gamma / sqrt(var + eps)
 *                                 b = beta + (bias - mean) gamma / sqrt(var + eps)
 *
 * a and b are each computed in double and rounded once.  TTQ's positive and negative weights have accumulators of their own:
 * z = fl(fl(fl(a accP) - fl(an accN)) + b).  XNOR-Net's scale map K multiplies fl(a acc) first, and neither bias nor norm is part of a
 * and b then.  A batch norm that does not follow a product alone is fl(fl(a x) + b) of floats.
 *
 * layers/export/ writes the same numbers to files.
 */
#ifndef QG_EVALUATE_H
#define QG_EVALUATE_H

#include "infer/product.h"
#include "layers/plan.h"

/* The codes of an operand, as its quantizer says; .count is 0 for floats: without a quantizer, while it waits (step), without
 * rounding, per channel of an input, with more than 256 codes, or not set yet.  scale: x = scale * code; 1 for floats. */
qg__codes qg__slot_codes(const qg_slot *slot, qg_shape x, uint64_t step, float *scale);

/* What a product computes in QG_EVAL at this step of training. */
typedef struct qg__evaluation {
    qg__product  p;
    float        x_scale;       /* of codes */
    qg__scales   k;             /* a, an, b */
    const float *w;             /* [oc][kh][kw][c / groups]: codes as integers, or floats */
} qg__evaluation;

/* memory: qg__evaluation_floats(p) floats, to which the result points.  Fails with what the quantizers report. */
size_t    qg__evaluation_floats(const qg_product *p);
QG_MUST_CHECK
qg_status qg__evaluation_of(const qg_product *p, uint64_t step, float *memory, qg__evaluation *e);

/* The shapes alone, with the codes that the quantizers declare: needs no values.  For sizes of files. */
void      qg__evaluation_shape(const qg_product *p, qg__product *shape);

/* Whether the batch norm that follows p is part of a and b in QG_EVAL. */
bool      qg__evaluation_has_norm(const qg_product *p);

/* a and b of a batch norm that follows another layer. */
void      qg__norm_scales(const qg_batchnorm *bn, float *a, float *b);

/* The least x of each code but the first, threshold[count - 1], found by bisection over all floats with the quantizer itself,
 * and the values of the codes, level[count]; either may be NULL. */
QG_MUST_CHECK
qg_status qg__slot_thresholds(const qg_slot *slot, qg__codes codes, float *threshold, float *level);

/* Records the product of a step in QG_EVAL; x is quantized. */
qg_var   *qg__evaluate(const qg_step *s, qg_tape *t, qg_var *x);

#endif
