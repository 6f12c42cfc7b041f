/* layers/export/onnx_model.h — a file of ONNX, node after node (internal).
 *
 * The file is a message of Protocol Buffers, whose fields may come in any order.  So nodes and constants are
 * written as the graph is walked, in 60 lines that know the encoding.  A generator would need its library, a
 * description of all messages, 4,000 generated lines, and a tree of messages in memory.
 *
 *     qg__tensor y = qg__onnx_node(m, "Gemm", 2, (const qg__tensor[]){ x, w });
 *     qg__onnx_integer(m, "transB", 1);        an attribute of the newest node
 *
 * The first failure is kept in .status; what follows it has no effect.
 */
#ifndef QG_ONNX_MODEL_H
#define QG_ONNX_MODEL_H

#include "core/arena.h"
#include "layers/export/export.h"

typedef const char *qg__tensor;     /* its name, in the arena of the model */

typedef enum qg__element {
    QG__FLOAT = 1, QG__UINT8 = 2, QG__INT8 = 3, QG__INT32 = 6, QG__INT64 = 7, QG__DOUBLE = 11
} qg__element;                      /* TensorProto.DataType */

enum { QG__ONNX_DIMS = 4 };

typedef struct qg__onnx {
    unsigned char *bytes;           /* from malloc */
    size_t         n, room;
    const char    *part;            /* of the net, after which tensors are named */
    size_t         graph, node;     /* where the open messages begin; node 0: none */
    qg__tensor     newest;          /* output of the open node, which is written last */
    int            names;
    qg_arena       arena;
    qg_status      status;
} qg__onnx;                         /* {0} is empty */

void      *qg__onnx_take(qg__onnx *m, size_t bytes);        /* from the arena; NULL: .status */
void       qg__onnx_begin(qg__onnx *m, int notes, const qg_note *note);

qg__tensor qg__onnx_node(qg__onnx *m, const char *type, int n, const qg__tensor *inputs);
void       qg__onnx_integer(qg__onnx *m, const char *attribute, int64_t v);
void       qg__onnx_integers(qg__onnx *m, const char *attribute, int n, const int64_t *v);
/* data: all elements in order, little-endian, as this machine is (infer/infer.h); NULL after a failure. */
qg__tensor qg__onnx_constant(qg__onnx *m, const char *what, qg__element type, int dims, const int64_t *dim,
                             const void *data);

/* The newest node computes the result.  The first dimension of both is the number of images; dim[0] is not
 * read. */
typedef struct qg__onnx_end {
    const char *name;
    qg__element type;
    int         dims;
    int64_t     dim[QG__ONNX_DIMS];
} qg__onnx_end;
void       qg__onnx_finish(qg__onnx *m, qg__onnx_end input, qg__onnx_end output);

#endif
