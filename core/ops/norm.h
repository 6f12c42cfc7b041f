/* core/ops/norm.h — what batch norms share: statistics over a batch, and what follows from them (internal). */
#ifndef QG_OPS_NORM_H
#define QG_OPS_NORM_H

#include "core/kernels/norm_kernel.h"
#include "core/ops/ops.h"
#include "core/slices.h"

double qg__norm_eps_of(qg_norm_spec spec);                      /* 0 stands for 1e-5 */
double qg__norm_deviation(qg_norm_spec spec, size_t k);         /* sqrt(var + eps) of the running variance */
float  qg__norm_unbiased_of(double m, double var);              /* of m numbers, with their biased variance */

/* Moves the running statistics of channel k towards those of a batch.  One that is not finite leaves them
 * alone: they would never recover, and its loss is refused. */
void   qg__norm_track(qg_norm_spec spec, size_t k, float centre, float unbiased);

/* Whether x, called name in messages, has c channels, statistics are there, the constants are legal, and
 * gamma and beta have c numbers or are NULL.  If not, the step fails with QG_ESHAPE or QG_EARG. */
bool   qg__norm_fits(qg_tape *t, const char *op, const char *name, const qg_var *x, int c,
                     const qg_var *gamma, const qg_var *beta, qg_norm_spec spec);

/* --- one norm: y->in is x, gamma, beta ---------------------------------------------------- */

/* Its pieces of work are blocks of rows: the images of the batch or, if images are vectors, its slices, each
 * seen as one column. */
typedef struct qg__norm_block {
    qg__window window;          /* its rows and columns, without pooling */
    size_t     at, numbers;     /* where it begins in x, and how many numbers it has; a slice may have none */
    int        index;           /* among all blocks of the batch */
} qg__norm_block;

/* [c] z = a (x - mean) + b */
typedef struct qg__norm_statistics {
    qg__slices at;              /* the images of the batch */
    int        blocks;          /* that are here */
    bool       of_batch;        /* the statistics are those of this batch: dx sees them */
    float     *mean, *rest;     /* the mean, rounded, and what rounding took off it; QG_EVAL: 0 */
    float     *inv;             /* 1 / sqrt(var + eps); QG_EVAL: 1 */
    float     *a, *b;           /* QG_EVAL: z = fl(fl(a x) + b) */
    float     *spread;          /* the unbiased variance of the images of this rank, and the running
                                   statistics are left alone; NULL: they follow the batch */
} qg__norm_statistics;

enum { QG__NORM_VECTORS = 5 };  /* of c floats, spread apart */

/* In `vectors`; nothing is computed yet. */
qg__norm_statistics qg__norm_begin(const qg_var *x, qg_norm_spec spec, qg__slices at, float *vectors);

/* Fills them in: from sums over the batch, or from the running ones.  false: the step has failed. */
bool           qg__norm_measure(qg_tape *t, const qg_var *y, qg_norm_spec spec, const qg__norm_statistics *s);

/* [c] of the batch of x, the variance biased.  false: the step has failed. */
bool           qg__norm_batch(qg_tape *t, const qg_var *x, double *mean, double *var);

/* Block i of those that are here, and how many the whole batch has. */
qg__norm_block qg__norm_block_at(const qg__norm_statistics *s, const qg_var *x, int i);
int            qg__norm_all_blocks(const qg__norm_statistics *s, const qg_var *x);

/* Values of the blocks of the batch, as many bytes each: those that are here reach all processes, and the
 * others arrive.  false: the step has failed. */
bool           qg__norm_gather(qg_tape *t, const qg__norm_statistics *s, const qg_var *x, void *values,
                               size_t bytes);

/* QG_EVAL: z of a block.  Kernels would contract it. */
void           qg__norm_evaluate(const qg__norm_statistics *s, qg__norm_block block, const float *x, float *z);

/* What follows from the sums [blocks][2][c] over dz and over dz (x - mean). */
typedef struct qg__norm_slopes {
    float *dbeta, *dgamma;      /* [c] */
    float *p, *q;               /* [c]  dx = a dz + p (x - mean) + q */
} qg__norm_slopes;

/* NULL dbeta: the step has failed. */
qg__norm_slopes qg__norm_slopes_of(qg_tape *t, const qg__norm_statistics *s, const qg_var *x,
                                   const float *sums);

/* Adds to the gradient of gamma or beta, if it has one. */
void qg__norm_learn(qg_var *v, const float *gradient);

/* --- in one pass with what follows (core/ops/norm_fused.c) --------------------------------- */

/* dL/dlearned[j], of the sum over the batch that f->backward took. */
static inline float qg__activation_gradient(const qg_activation *f, int j, double sum)
{
    return (float)((f->gain[j] == 0 ? 1.0 : (double)f->gain[j]) * sum);
}

/* qg_norm_fused in QG_EVAL of an x that is normalised already. */
qg_var *qg__norm_rest(qg_tape *t, qg_var *x, qg_var *gamma, qg_var *beta, qg_norm_spec spec,
                      qg_norm_fusion with);

#endif
