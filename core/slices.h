/* core/slices.h — how a batch is cut, and sums over it (internal).
 *
 * A batch is cut into QG_SLICES slices (core/kernels/parallel.h).  A process computes a run of them: all, or its part if
 * processes share the batch (core/dist/ranks.h).  A sum over the batch has an order that depends on the batch alone:
 *
 *     slices      a part per slice, and every process adds all parts in index order (qg__slices_gather)
 *     images      a part per image, likewise (qg__images_gather)
 *     tree        large arrays, one per slice, added in pairs of neighbours, these in pairs, and so on (qg__tree); a process
 *                 has a whole subtree (qg__reduce)
 *
 * With one process these calls do nothing but what their name says: all parts are here.
 */
#ifndef QG_SLICES_H
#define QG_SLICES_H

#include <stddef.h>

#include "core/kernels/parallel.h"
#include "core/status.h"
#include "core/tape.h"

typedef struct qg__slices {
    int  n;                 /* images in the batch */
    int  first, count;      /* those that are here: the first of them, and their number */
    int  from, to;          /* the slices that are here */
    bool shared;            /* other processes have the other ones */
} qg__slices;

/* The images of v, which are its first axis. */
qg__slices qg__slices_of(const qg_var *v);

/* The same, as if they were a batch of their own. */
static inline qg__slices qg__slices_alone(const qg_var *v)
{
    return (qg__slices){ .n = v->shape.n, .count = v->shape.n, .to = QG_SLICES };
}

/* How many of n images are here if the batch is shared by all processes; *first: where they begin. */
int        qg__images_here(int n, int *first);

/* The first image of a slice, counted from the first image that is here. */
static inline int qg__slice_first(qg__slices b, int slice) { return qg_slice_at(b.n, slice) - b.first; }

/* --- parts that are needed at once ---------------------------------------------------------- */

/* parts [QG_SLICES][bytes] or [b.n][bytes]: those that are here are filled in, and the others arrive.  false: the step
 * has failed. */
bool      qg__slices_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes);
bool      qg__images_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes);

/* Adds to sum [n] what images first .. end-1 contribute, counted from the first image that is here. */
typedef void (*qg__sum_images)(void *context, int first, int end, double *sum);

/* Sums over the batch [n], in double, slice by slice, in scratch.  NULL: the step has failed. */
const double *qg__sum_slices(qg_tape *t, qg__slices b, size_t n, qg__sum_images add, void *context);

/* The values of v for the whole batch: v's own, or in scratch what all processes have.  NULL data: the step has failed. */
qg_tensor qg__whole_batch(qg_tape *t, const qg_var *v);

/* --- sums that may arrive later -------------------------------------------------------------- */

/* part[0][i] becomes the sum of the arrays part[k][i], i < n, k < count, a power of two; they are stride floats apart. */
void      qg__tree(int count, size_t stride, size_t n, float *part);

/* Adds a sum to gradients of y's operands. */
typedef void (*qg__add)(qg_tape *t, qg_var *y, float *sum);

/* Calls add with the sum over the batch of y, of which sum [n] is the part of the slices b: at once, or, if b is shared, when
 * the other parts have arrived.  Until then the tape puts off every op that reads or adds to the gradient of an operand of y
 * that does not count images.  false: the step has failed. */
bool      qg__reduce(qg_tape *t, qg_var *y, qg__slices b, float *sum, size_t n, qg__add add);

/* Scratch for such a sum, which is then not copied.  NULL: the step has failed. */
float    *qg__reduce_room(qg_tape *t, qg_var *y, qg__slices b, size_t n);

/* --- products that are sums over the batch ---------------------------------------------------- */

/* Floats in the longest vector, that of AVX-512.  On every machine, matrices are divided between threads and
 * processes at multiples of it. */
enum { QG_LONGEST_VECTOR = 16 };

/* A matrix [rows][count] that depends on all images: each process computes some of its columns. */
typedef struct qg__columns {
    int  rows, count;
    int  from, to;          /* those that are computed here: all, unless shared */
    bool shared;
} qg__columns;

qg__columns qg__columns_of(qg__slices b, int rows, int count);

/* The columns of the gradient of a weight, y->in[1], that are computed here reach the other processes, perhaps
 * later, as in qg__reduce.  false: the step has failed. */
bool        qg__columns_gather_gradient(qg_tape *t, qg_var *y, qg__columns c);

#endif
