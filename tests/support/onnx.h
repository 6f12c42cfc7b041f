/* tests/support/onnx.h — reads ONNX files of qgrad and runs them, slowly and plainly.
 *
 * Reading checks what every reader relies on: that messages are whole, names unique, nodes in an order in
 * which they can run, operators and attributes those that the interpreter knows, and that constants have
 * all their bytes. */
#ifndef TESTS_ONNX_H
#define TESTS_ONNX_H

#include <stdint.h>

#include "layers/export/graph.h"

enum { ONNX_DIMS = 6, ONNX_INPUTS = 5, ONNX_NAME = 160 };
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_DOUBLE = 11
};

typedef struct onnx_tensor {
    char    name[ONNX_NAME];
    int     type, dims;
    int64_t dim[ONNX_DIMS];
    size_t  n;
    double *data;               /* integers and floats exactly */
} onnx_tensor;

typedef struct onnx_attribute {
    char    name[32];
    int     count;              /* 0: .v[0] is one integer */
    int64_t v[8];
} onnx_attribute;

typedef struct onnx_node {
    char           type[32], input[ONNX_INPUTS][ONNX_NAME], output[ONNX_NAME];
    onnx_attribute attribute[8];
    int            inputs, attributes;
} onnx_node;

typedef struct onnx_model {
    int          ir, opset, nodes, tensors, notes;
    onnx_node   *node;
    onnx_tensor *tensor;        /* constants, then what nodes compute */
    onnx_tensor  in, out;       /* without data */
    char         key[8][64], value[8][256];
    bool         finite;        /* whether all values of the last run are */
    qg_arena     arena;
} onnx_model;

/* NULL: nothing is wrong; else what is.  onnx_free also after a failure. */
const char *onnx_read(onnx_model *m, const unsigned char *file, size_t n);

/* scores [images][dim[1] of m->out].  x: numbers of the images in the layout of m->in.  A convolution of
 * floats is summed as the engine sums it (infer/kernels/plain.h), anything else in double, rounded once. */
const char *onnx_run(onnx_model *m, int images, const float *x, float *scores);
void        onnx_free(onnx_model *m);

int         onnx_count(const onnx_model *m, const char *type);      /* nodes of a type */

/* Whether onnx_run gives the bits of evaluation, if all values are finite: no record sums floats in another
 * order. */
bool        onnx_is_exact(const qg__records *s);

#endif
