/* quant/operand.h — what the operators on typed views check before they touch anything (internal).
 *
 * op and name go into the message: "twn_weight_quantizer: y is F64 [3], legal: F32 [3], as x".
 */
#ifndef QG_OPERAND_H
#define QG_OPERAND_H

#include "core/array.h"
#include "core/status.h"
#include "quant/reduce.h"

QG_MUST_CHECK qg_status qg__check_f32(const char *op, const char *name, const qg_array *a);
QG_MUST_CHECK qg_status qg__check_like(const char *op, const char *name, const qg_array *a,
                                       const char *model_name, const qg_array *model);
QG_MUST_CHECK qg_status qg__check_vector(const char *op, const char *name, const qg_array *a, size_t n);

/* x and y, or x, dy and dx: F32, all of one shape. */
QG_MUST_CHECK qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y);
QG_MUST_CHECK qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy,
                                           const qg_array *dx);

/* axis in 0 .. rank - 1 of x; the channels it splits x into. */
QG_MUST_CHECK qg_status qg__check_axis(const char *op, const char *name, int axis, const qg_array *x,
                                       qg_channels *split);
QG_MUST_CHECK qg_status qg__check_int(const char *op, const char *name, long long v, long long least,
                                      long long most);
QG_MUST_CHECK qg_status qg__check_positive(const char *op, const char *name, float v);    /* finite, > 0 */
QG_MUST_CHECK qg_status qg__check_threshold(const char *op, const char *name, float v);   /* finite, >= 0 */

/* 0 for every element of an F32 view: the backward operators accumulate into it. */
void qg__zero(const qg_array *a);

static inline float *qg__floats(const qg_array *a) { return a->data; }

#endif
