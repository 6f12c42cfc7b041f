/* quant/operand.h — what quantizers of one tensor check before they touch anything (internal).
 *
 * On top of quant/check.h; op and name go into the message.
 */
#ifndef QG_OPERAND_H
#define QG_OPERAND_H

#include "quant/check.h"
#include "quant/surrogate.h"

/* x and y, or x, dy and dx: F32, all of one shape. */
QG_MUST_CHECK
qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y);
QG_MUST_CHECK
qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy,
                             const qg_array *dx);

/* axis is one of x; the channels it splits x into. */
QG_MUST_CHECK
qg_status qg__check_channels(const char *op, const char *name, int axis, const qg_array *x,
                             qg_split *split);

/* a is NULL, or F32 [n]. */
QG_MUST_CHECK
qg_status qg__check_optional_vector(const char *op, const char *name, const qg_array *a, size_t n);

QG_MUST_CHECK
qg_status qg__check_int(const char *op, const char *name, int v, int least, int most);
QG_MUST_CHECK
qg_status qg__check_above_zero(const char *op, const char *name, float v);     /* finite, above 0 */
QG_MUST_CHECK
qg_status qg__check_threshold(const char *op, const char *name, float v);    /* finite, 0 or more */

/* dx = dy s'(x): the gradient of an operator that learns nothing. */
QG_MUST_CHECK
qg_status qg__surrogate_gradient(const char *op, const qg_array *x, const qg_array *dy, qg_surrogate s, qg_array *dx);

/* 0 for every element of an F32 array: the backward operators accumulate into it. */
void qg__zero(const qg_array *a);

/* The elements of an F32 array, or NULL for none. */
static inline float *qg__floats(const qg_array *a) { return a ? a->data : NULL; }

#endif
