/* core/kernels/dense_kernel.h — products of matrices, in one order of summation on every machine.
 *
 *     out[row][lane] = sum over s < steps of q(row, s) p(s, lane)
 *
 * The steps are cut into chains of QG_CHAIN.  A chain is a sum of fused multiply-adds that begins with 0, in
 * increasing order of s; the chains are added in order:
 *
 *     chain c = fma(q, p, .. fma(q, p, fma(q, p, 0)))      for the steps of chain c
 *     out     = ((chain 0 + chain 1) + chain 2) + ..       or  (((out + chain 0) + chain 1) + ..
 *
 * So no bit depends on the length of vectors, on tiles, or on how a caller cuts rows and lanes.  Short chains are
 * also more exact than one sum over all steps, whose roundings grow with what has been summed so far.
 */
#ifndef QG_DENSE_KERNEL_H
#define QG_DENSE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/kernels/cpu.h"

enum { QG_CHAIN = 128, QG_DENSE_ROWS = 512 };

/* A matrix: element (i, s) is at[i * item + s * step], where item or step is 1. */
typedef struct qg__matrix {
    const float *at;
    ptrdiff_t    item, step;
} qg__matrix;

typedef struct qg__dense_product {
    int        lanes, rows, steps;      /* each at least 1; rows at most QG_DENSE_ROWS */
    qg__matrix p, q;                    /* (lane, s) of p, (row, s) of q; q.step is 1 where p.step is */
    float     *out;
    ptrdiff_t  out_lane, out_row;       /* floats to the next lane and row; one of them is 1 */
    bool       add;                     /* the chains are added to out; out_lane is 1 */
} qg__dense_product;

typedef struct qg__dense_kernels {
    int lanes;                          /* floats in a vector */

    /* scratch: as many floats as that function returns, aligned to 64 bytes. */
    void   (*multiply)(const qg__dense_product *m, float *scratch);
    size_t (*scratch)(const qg__dense_product *m);
} qg__dense_kernels;

QG_DECLARE_KERNELS(qg__dense_kernels, qg__dense_kernels);

/* `most`, or the scratch of m if that is more, in whole lines of the cache: threads with an array of it each share no line. */
static inline size_t qg__dense_scratch(const qg__dense_kernels *k, const qg__dense_product *m, size_t most)
{
    enum { LINE = 16 };
    const size_t size = (k->scratch(m) + LINE - 1) / LINE * LINE;
    return size > most ? size : most;
}

#endif
