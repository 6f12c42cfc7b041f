/* train/statistics.h — running statistics of batch norms, estimated anew from whole batches.  Internal.
 *
 *     if (qg__statistics_begin(&s, net, step)) ..
 *     for some batches of images:
 *         qg__statistics_next(&s);
 *         qg_net_forward(net, ..)          in QG_TRAIN or QG_ESTIMATE
 *         qg__statistics_add(&s, images of the batch);
 *     if (qg__statistics_set(&s)) ..
 *     qg__statistics_end(&s);
 *
 * With m values of a channel in all batches,
 *
 *     running_mean = sum x / m,    running_var = sum (x - running_mean)^2 / (m - 1)
 *
 * merged in double from the statistics of each batch [Chan, Golub, LeVeque 1979].  A batch norm
 * that is folded into a weight multiplies it by gamma / sqrt(var + eps) of the former running_var
 * in every batch.
 */
#ifndef QG_STATISTICS_H
#define QG_STATISTICS_H

#include "train/run.h"

typedef struct qg__statistics {
    qg_net          *net;
    qg_arena         memory;
    struct qg__norm *norm;
    int              norms;
    float           *was;           /* the tracked arrays of net at the beginning */
} qg__statistics;

/* Begins with the batch norms of net that are not frozen in this step of training.  Until
 * qg__statistics_end, their spec has another momentum, and none of them freezes.  Fails with
 * QG_EMEM; *s is then empty. */
QG_MUST_CHECK
qg_status qg__statistics_begin(qg__statistics *s, qg_net *net, uint64_t step);

void      qg__statistics_next(qg__statistics *s);
void      qg__statistics_add(qg__statistics *s, double images);

/* Sets the running statistics.  Fails with QG_EARG: a batch norm has seen a single value per
 * channel, which has no variance. */
QG_MUST_CHECK
qg_status qg__statistics_set(qg__statistics *s);
void      qg__statistics_undo(qg__statistics *s);   /* tracked arrays are as when it began */
void      qg__statistics_end(qg__statistics *s);    /* once, also of an empty one */

/* Memory for n things of this size, all bits 0.  NULL: QG_EMEM. */
void     *qg__zeros(qg_arena *a, size_t n, size_t size);

/* --- in a run --------------------------------------------------------------------------------- */

/* Whether running statistics, in which the newest batch weighs a tenth, may lag behind the weights,
 * since codes flip: weights are quantized by now, and a batch norm is not frozen
 *                                                 [Nagel et al. 2022, arXiv:2203.11086]. */
bool      qg__statistics_lag(const qg__run *r);

/* Whether a test is therefore preceded by an estimate. */
bool      qg__reestimates(const qg__run *r);

/* Estimates the statistics for the weights that the net has, in QG_ESTIMATE, from the first batches
 * of the next epoch, and leaves the loader at their beginning.  How many they are depends on the
 * number of batches alone.  If *spec->stop becomes nonzero, it ends early and sets *stopped.
 * After a failure or a stop the tracked arrays are unspecified until qg__statistics_undo.
 * Fails as the ops and the loader, and with QG_ENAN. */
QG_MUST_CHECK
qg_status qg__reestimate(qg__statistics *s, const qg__run *r, bool *stopped);

#endif
