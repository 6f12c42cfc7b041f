/* quant/schemes/fake_quant_tape.h — fake quantization with a given range, on the tape (internal).
 *
 * quant/schemes/fake_quant.h says what is computed; here it is an elementwise function (one range) or an
 * op (a range per channel).  Where min and max are vars with a gradient, they get it.
 */
#ifndef QG_FAKE_QUANT_TAPE_H
#define QG_FAKE_QUANT_TAPE_H

#include "core/io/array.h"
#include "quant/schemes/fake_quant.h"
#include "quant/scheme.h"

/* The two forward rules of quant/schemes/fake_quant.h. */
typedef enum qg__fake_quant_rule { QG_FAKE_QUANT_DIVIDE, QG_FAKE_QUANT_MULTIPLY } qg__fake_quant_rule;

/* y for channels of a split with a range each, on every thread.  Rows and columns multiply; a split
 * of one channel follows the rule. */
void qg__fake_quant_forward(qg_split c, const qg_fake_quant_range *r, qg__fake_quant_rule rule,
                            const float *x, float *y);

/* One range.  min and max are NULL unless they are trained; their gradients are multiplied by
 * grad_scale.  s {0}: the mask. */
qg_activation qg__fake_quant_activation(const qg_fake_quant_range *r, qg__fake_quant_rule rule,
                                        qg_surrogate s, qg_var *min, qg_var *max, float grad_scale);

/* A range per channel of c: records the op and returns its ranges [c.depth], which the caller sets
 * before it calls qg__fake_quant_forward (multiply). */
qg_fake_quant_range *qg__record_fake_quant_channels(qg_tape *t, qg_split c, qg_surrogate s, qg_var *x,
                                                    qg_var *min, qg_var *max, float grad_scale, qg_var **y);

#endif
