/* core/io/array.h — a typed view with a real rank.
 *
 * Tensors of the engine are float32 and have no rank (core/tensor.h).  The arrays of a checkpoint have a rank, as
 * do the operands of the operators named after TensorFlow's and Blueoil's, whose definitions use rank and axis.
 * A view owns nothing.
 */
#ifndef QG_ARRAY_H
#define QG_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QG_DTYPE_LIST(X)                                                                           \
    X(QG_F32, "F32", 4)                                                                            \
    X(QG_F64, "F64", 8)                                                                            \
    X(QG_I8, "I8", 1)                                                                              \
    X(QG_U8, "U8", 1)                                                                              \
    X(QG_I16, "I16", 2)                                                                            \
    X(QG_U16, "U16", 2)                                                                            \
    X(QG_I32, "I32", 4)                                                                            \
    X(QG_U32, "U32", 4)                                                                            \
    X(QG_I64, "I64", 8)                                                                            \
    X(QG_U64, "U64", 8)

typedef enum qg_dtype {
#define X(code, text, bytes) code,
    QG_DTYPE_LIST(X)
#undef X
} qg_dtype;

enum {
    QG_MAX_RANK = 8,
    QG_NO_AXIS  = -1            /* of an attribute named axis: one range or scale for the whole array */
};

typedef struct qg_array {
    qg_dtype dtype;
    int      rank;                  /* 0: one element */
    size_t   dims[QG_MAX_RANK];     /* outermost first; the first rank entries count */
    void    *data;                  /* row-major, contiguous, aligned for dtype; NULL if empty */
} qg_array;

/* An array as outer x depth x inner elements: element (o, channel, i) is data[(o * depth + channel) * inner + i]. */
typedef struct qg_split {
    size_t outer, depth, inner;
} qg_split;

size_t qg_array_count(const qg_array *a);       /* elements; 1 for rank 0 */
bool   qg__array_same_shape(qg_array a, qg_array b);

/* "[20,5,5,1]", for messages.  Returns text. */
enum { QG__SHAPE_BYTES = QG_MAX_RANK * 21 + 3 };
const char *qg__array_shape(const qg_array *a, char text[QG__SHAPE_BYTES]);

#endif
