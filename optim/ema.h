/* optim/ema.h — an exponential moving average of the weights, which often tests better than the last weights.
 *
 *     qg_ema *ema = qg_ema_new(params, (qg_ema_spec){ 0 });
 *     each step:  if (qg_optim_step(adam) || qg_ema_update(ema)) ..
 *     to test:    if (qg_ema_swap(ema)) ..       the net now has the averages, and
 *                 qg_net_forward ..              qg_net_save would save them
 *                 if (qg_ema_swap(ema)) ..       the net has its own weights again
 */
#ifndef QG_EMA_H
#define QG_EMA_H

#include "core/params.h"
#include "core/io/state.h"

typedef struct qg_ema qg_ema;

/* With n the number of updates, including this one:
 *
 *     average += (1 - d) (w - average)        initially w
 *     d        = min(decay, (1 + n) / (10 + n))
 *
 * The second term forgets the initial weights quickly; with .no_warmup, d is decay from the start. */
typedef struct qg_ema_spec {
    float decay;            /* 0: 0.999; less than 1 */
    bool  no_warmup;
} qg_ema_spec;

/* Averages every trained parameter; clips, bounds and projections also apply to the averages, except to
 * those of frozen parameters, which stay what they are.  A parameter that flips is copied instead,
 * because the mean of signs is not a sign.  Tracked arrays, such as running statistics, are not
 * averaged: a net with swapped weights reads their latest values.
 *
 * Borrows p, which must be allocated and outlive the result.
 * Memory   As many floats as p has.
 * Fails    NULL: decay is out of range, p is not allocated, or out of memory.  If p is NULL, the
 *          result is NULL and the message of the last failure stays.
 * Papers   Polyak, Juditsky 1992 (averages).  The warm-up follows TensorFlow's
 *          ExponentialMovingAverage with num_updates. */
qg_ema   *qg_ema_new(qg_params *p, qg_ema_spec spec);

/* Call it after each step of the optimizer.  The result has the same bits for any number of
 * threads.
 * Fails: QG_ESTATE (e is NULL, the averages are swapped in, or a loaded count is out of range). */
QG_MUST_CHECK qg_status qg_ema_update(qg_ema *e);

/* Starts again: the averages become the current weights, and the count of updates 0.  Use it at a
 * step that changes what the net computes, such as the start of its quantizers; otherwise averages
 * of learned scales would include values from before.  Fails: QG_ESTATE (e is NULL, or the
 * averages are swapped in). */
QG_MUST_CHECK qg_status qg_ema_restart(qg_ema *e);

/* Exchanges weights and averages; a second call undoes it.  Between the two calls, do not train,
 * and do not save a checkpoint to resume from.  Fails: QG_ESTATE (e is NULL). */
QG_MUST_CHECK qg_status qg_ema_swap(qg_ema *e);

/* Adds to s, as views: the average of each parameter with its shape [n,h,w,c], as "ema.conv1.weight", and
 * the number of updates, "ema.steps", I64. */
void      qg_ema_state(qg_ema *e, qg_state *s);
void      qg_ema_free(qg_ema *e);

#endif
