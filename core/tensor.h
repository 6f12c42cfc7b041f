/* core/tensor.h — shapes and views.
 *
 * Every tensor is float32, contiguous and indexed [n][h][w][c]; there is no rank.  A batch of
 * vectors is n,1,1,c, a bias 1,1,1,c, a scalar 1,1,1,1.  Weights use the same struct as
 * [out][kh][kw][in], so one output channel is one contiguous row.
 */
#ifndef QG_TENSOR_H
#define QG_TENSOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct qg_shape {
    int n;                  /* images in a batch; output channels of a weight */
    int h, w;               /* rows, columns; of the kernel for a weight */
    int c;                  /* channels, innermost; input channels of a weight */
} qg_shape;

/* A view: a shape, and memory that it does not own. */
typedef struct qg_tensor {
    qg_shape shape;
    float   *data;          /* 64-byte aligned if it came from a qg_arena */
    int      batch;         /* images in the whole batch, if several processes share it and data has
                               only some of them (core/dist/ranks.h); 0: data has them all */
} qg_tensor;

/* To print a shape in a message: printf("x " QG_SHAPE_FMT, QG_SHAPE_ARGS(x->shape)). */
#define QG_SHAPE_FMT     "[%d,%d,%d,%d]"
#define QG_SHAPE_ARGS(s) (s).n, (s).h, (s).w, (s).c

/* Floats of one image, or of one row (output channel) of a weight; and of the whole tensor. */
static inline size_t qg_row(qg_shape s)   { return (size_t)s.h * (size_t)s.w * (size_t)s.c; }
static inline size_t qg_count(qg_shape s) { return (size_t)s.n * qg_row(s); }

/* Every extent is at least 1, and the shape has at most 2^58 numbers, so sizes in bytes fit 64 bits. */
static inline bool qg_shape_valid(qg_shape s)
{
    return s.n > 0 && s.h > 0 && s.w > 0 && s.c > 0 && s.n <= (1LL << 58) / s.h / s.w / s.c;
}

/* Kernels count the numbers of an image of h x w x c, each at least 1, in an int. */
static inline bool qg__row_fits(long long h, long long w, long long c) { return h <= INT_MAX / w / c; }

static inline bool qg_shape_equal(qg_shape a, qg_shape b)
{
    return a.n == b.n && a.h == b.h && a.w == b.w && a.c == b.c;
}

/* Whether images of a and of b have the same size. */
static inline bool qg__same_size(qg_shape a, qg_shape b) { return a.h == b.h && a.w == b.w && a.c == b.c; }

#endif
