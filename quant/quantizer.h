/* quant/quantizer.h — a quantizer with its learned values, on plain arrays: for programs that have no tape, and for other
 * languages.
 *
 *     qg_quantizer *z = qg_quantizer_parse("ttq:threshold=0.05", QG_WEIGHT, (qg_shape){ 64, 5, 5, 32 });
 *     if (!z || qg_quantizer_forward(z, QG_TRAIN, w, q) || qg_quantizer_backward(z, dq, dw)) ..
 *     qg_quantizer_free(z);
 *
 * It computes what a layer of a net computes, on the same kernels.  What a scheme does to the product of its tensor, such as
 * XNOR-Net's scale map, is left out.  Nothing is trained: the caller applies the gradients to x and to the learned values.
 */
#ifndef QG_QUANTIZER_H
#define QG_QUANTIZER_H

#include "core/tape.h"
#include "quant/quant.h"

typedef struct qg_quantizer qg_quantizer;

/* For tensors of this shape: a weight [out][kh][kw][in] or an input [n][h][w][c].  The second reads the scheme as
 * qg_quant_parse does.
 *
 * Memory   The caller frees it.
 * Fails    NULL: QG_EARG (illegal arguments, or a scheme that is not for this role), QG_ESHAPE, QG_EMEM. */
qg_quantizer *qg_quantizer_new(qg_quant q, qg_role role, qg_shape shape);
qg_quantizer *qg_quantizer_parse(const char *scheme, qg_role role, qg_shape shape);
void          qg_quantizer_free(qg_quantizer *z);

/* The seed of its random draws, 1 unless it is set: give the quantizers of a net different ones.  step: that of the
 * next forward, 0 unless it is set, for a quantizer that takes the place of another. */
void          qg_quantizer_seed(qg_quantizer *z, uint64_t seed, uint64_t step);

/* Once z has observed a tensor, it observes no other, so observed ranges keep their values. */
void          qg_quantizer_freeze(qg_quantizer *z);

/* y = q(x).  The first call initialises what the scheme learns from x, unless the caller has set any
 * of it to a number other than 0: then set all of it.  QG_TRAIN counts steps, on which random draws and
 * delays depend, and updates observed ranges; QG_EVAL changes nothing.
 *
 * Shapes   x and y of shape; y may be x.
 * Fails    QG_EARG, QG_ESTATE, QG_EMEM, QG_ENAN: a range is not finite; y is then unchanged. */
QG_MUST_CHECK
qg_status qg_quantizer_forward(qg_quantizer *z, qg_mode mode, const float *x, float *y);

/* For dL/dy = dy, dx = dL/dx, and the gradients of the learned values, without those of earlier calls.
 *
 * Shapes   dy and dx of shape; dx may be dy.
 * Fails    QG_ESTATE: the last qg_quantizer_forward was not in QG_TRAIN or failed, or its backward has
 *          run.  QG_EMEM. */
QG_MUST_CHECK
qg_status qg_quantizer_backward(qg_quantizer *z, const float *dy, float *dx);

/* What the scheme learns or tracks, entry i: "wp", its numbers (one, or one per channel), which the caller may change, and their
 * gradients.  An entry such as lsq's "seen" says whether the others are initialised. */
typedef struct qg_quantizer_entry {
    const char  *name;
    int          n;             /* 0: there are at most i entries, and the rest is NULL */
    float       *value;         /* the quantizer's, until it is freed */
    const float *gradient;      /* NULL: tracked, not trained */
} qg_quantizer_entry;
qg_quantizer_entry qg_quantizer_learned(qg_quantizer *z, int i);

#endif
