/* quant/operand.h — operands and attributes of the operators on plain arrays (internal).
 *
 * An operator describes its operands and attributes in tables and checks both before it writes anything.  A check
 * returns QG_OK, or fails with a message that names the operator, the culprit, its value and what it must be.
 */
#ifndef QG_OPERAND_H
#define QG_OPERAND_H

#include <stdbool.h>

#include "quant/scheme.h"

/* --- the tables ------------------------------------------------------------------------------- */

/* Sets of dtypes. */
enum {
    QG__F32   = 1 << QG_F32,
    QG__I8    = 1 << QG_I8,
    QG__U8    = 1 << QG_U8,
    QG__I32   = 1 << QG_I32,
    QG__BYTES = QG__I8 | QG__U8,
    QG__CODES = QG__BYTES | 1 << QG_I16 | 1 << QG_U16 | QG__I32
};

typedef enum qg__values { QG__ANY_VALUE, QG__FINITE, QG__POSITIVE } qg__values;     /* positive: and finite */

/* What is 0 asks for nothing.  Names in `like`, `along` and `least` are those of earlier rows. */
typedef struct qg__operand {
    const char     *name;
    const qg_array *a;
    unsigned        dtypes;
    bool            optional;   /* may be NULL */
    bool            scalar;     /* of rank 0 */
    int             rank;
    const char     *like;       /* has the shape of that operand */
    const char     *along;      /* one element for each slice of that operand: [dim axis], or rank 0 if axis is -1 */
    int             axis;
    const char     *axis_name;  /* NULL: "axis" */
    bool            any_rank;   /* one element may have any rank, if axis is -1, */
    bool            or_one;     /* or if the axis has one index */
    qg__values      values;     /* of F32 elements */
    const char     *least;      /* no element is below the same element of that operand */
} qg__operand;

/* Checks the rows in order; in each, the view, the dtype, the shape, then the values. */
QG_MUST_CHECK
qg_status qg__check_operands(const char *op, const qg__operand *rows, size_t n);

#define QG__CHECK_OPERANDS(op, rows) qg__check_operands(op, rows, sizeof(rows) / sizeof *(rows))

typedef struct qg__attribute {
    const char *name;
    int64_t     value, least, most;
    const char *words;          /* what the message says it must be; NULL: least .. most */
} qg__attribute;

QG_MUST_CHECK
qg_status qg__check_attributes(const char *op, const qg__attribute *rows, size_t n);

#define QG__CHECK_ATTRIBUTES(op, rows) qg__check_attributes(op, rows, sizeof(rows) / sizeof *(rows))

/* --- tables of one or two rows ------------------------------------------------------------------- */

/* x and y, or x, dy and dx: F32, all of one shape. */
QG_MUST_CHECK
qg_status qg__check_forward(const char *op, const qg_array *x, const qg_array *y);
QG_MUST_CHECK
qg_status qg__check_backward(const char *op, const qg_array *x, const qg_array *dy,
                             const qg_array *dx);

/* Two F32 arrays of one shape. */
QG_MUST_CHECK
qg_status qg__check_pair(const char *op, const char *a_name, const qg_array *a, const char *b_name,
                         const qg_array *b);

/* a is F32 and has the shape of b, whose data is not looked at. */
QG_MUST_CHECK
qg_status qg__check_same_shape(const char *op, const char *name, const qg_array *a, const char *b_name,
                               const qg_array *b);

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

/* max - min, of finite ends, is a finite float32. */
QG_MUST_CHECK
qg_status qg__check_width(const char *op, const char *name, float min, float max);

/* --- reading and writing ------------------------------------------------------------------------- */

/* The slices along an axis; the whole array is one slice if axis is -1. */
qg_split qg__split_at(const qg_array *a, int axis);

/* dx = dy s'(x): the gradient of an operator that learns nothing.  own: the surrogate if s is {0}. */
QG_MUST_CHECK
qg_status qg__surrogate_gradient(const char *op, const qg_array *x, const qg_array *dy, qg_surrogate s, qg_surrogate own,
                                 qg_array *dx);

/* y = q(x) by the form of a scheme, with the same constants for all of x; and dx, where s {0} is the scheme's own, and the sums
 * of the form unless sum is NULL. */
QG_MUST_CHECK
qg_status qg__form_operator(const char *op, const qg_scheme *scheme, qg_constants k, const qg_array *x, qg_array *y);
QG_MUST_CHECK
qg_status qg__form_operator_gradient(const char *op, const qg_scheme *scheme, qg_constants k, qg_surrogate s, const qg_array *x,
                                     const qg_array *dy, qg_array *dx, double (*sum)[QG_FORM_SUMS]);

/* 0 for every element of an F32 array: the backward operators accumulate into it. */
void qg__zero(const qg_array *a);

/* The elements of an F32 array, or NULL for none. */
static inline float *qg__floats(const qg_array *a) { return a ? a->data : NULL; }

#endif
