/* quant/check.h — what operators on plain arrays ask of their operands before they write anything.
 *
 * Each returns QG_OK or fails with a message that names the operator, the operand, what it is and
 * what it has to be.
 */
#ifndef QG_CHECK_H
#define QG_CHECK_H

#include "core/io/array.h"
#include "core/status.h"

/* A whole view: rank 0 .. QG_MAX_RANK, a size that fits memory, data unless empty; this dtype. */
QG_MUST_CHECK
qg_status qg__check_array(const char *op, const char *name, const qg_array *a, qg_dtype dtype);

/* The same with a dtype of codes: int8, uint8, int16, uint16 or int32. */
QG_MUST_CHECK
qg_status qg__check_codes(const char *op, const char *name, const qg_array *a);

/* The same of any dtype. */
QG_MUST_CHECK
qg_status qg__check_view(const char *op, const char *name, const qg_array *a);

QG_MUST_CHECK
qg_status qg__check_rank(const char *op, const char *name, const qg_array *a, int rank);

/* a has the rank and dims of b. */
QG_MUST_CHECK
qg_status qg__check_same_shape(const char *op, const char *name, const qg_array *a,
                               const char *b_name, const qg_array *b);

/* Two float32 arrays of one shape. */
QG_MUST_CHECK
qg_status qg__check_pair(const char *op, const char *a_name, const qg_array *a, const char *b_name,
                         const qg_array *b);

/* a has rank 1 and n elements. */
QG_MUST_CHECK
qg_status qg__check_vector(const char *op, const char *name, const qg_array *a, size_t n);

/* axis is -1, for none, or one of x. */
QG_MUST_CHECK
qg_status qg__check_axis(const char *op, const char *name, int axis, const qg_array *x);

/* a has rank 0 if axis is -1, else the shape [dim axis] of x. */
QG_MUST_CHECK
qg_status qg__check_along(const char *op, const char *name, const qg_array *a, int axis,
                          const qg_array *x);

/* max - min, of finite ends, is a finite float32. */
QG_MUST_CHECK
qg_status qg__check_width(const char *op, const char *name, float min, float max);

/* About an axis; axis -1: 1 x 1 x all. */
qg_split qg__split_at(const qg_array *a, int axis);

#endif
