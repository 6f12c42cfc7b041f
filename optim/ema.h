/* optim/ema.h — an exponential moving average of the weights, which often tests better than the last weights.
 *
 *     qg_ema *ema = qg_ema_new(params, (qg_ema_spec){ 0 });
 *     each step:  if (qg_optim_step(adam) || qg_ema_update(ema)) ..
 *     to test:    if (qg_ema_swap(ema)) ..       the net has the averages,
 *                 qg_net_forward ..              which qg_net_save would save, too,
 *                 if (qg_ema_swap(ema)) ..       and now its own weights again
 */
#ifndef QG_EMA_H
#define QG_EMA_H

#include "core/params.h"
#include "core/io/state.h"

typedef struct qg_ema qg_ema;

/* With n the number of updates, this one included:
 *
 *     average += (1 - d) (w - average)        initially w
 *     d        = min(decay, (1 + n) / (10 + n))
 *
 * The second term forgets the initial weights quickly; with .no_warmup, d is decay from the start. */
typedef struct qg_ema_spec {
    float decay;            /* 0: 0.999; less than 1 */
    bool  no_warmup;
} qg_ema_spec;

/* Averages every trained parameter; clips and projections hold for the averages.  A parameter that flips is
 * copied instead, since the mean of signs is no sign.  Tracked arrays, such as running statistics, are not
 * averaged: a net with swapped weights reads the latest ones.
 *
 * Borrows p, which must be allocated and outlive the result.
 * Memory   As many floats as p has.
 * Fails    NULL: decay is out of range, p is not allocated, out of memory.  A NULL p gives NULL and keeps
 *          the message.
 * Papers   Polyak, Juditsky 1992 (averages); the warm-up is that of TensorFlow's ExponentialMovingAverage
 *          with num_updates. */
qg_ema   *qg_ema_new(qg_params *p, qg_ema_spec spec);

/* After each step of the optimizer.  The result has the same bits for any number of threads.
 * Fails: QG_ESTATE (e is NULL, the averages are swapped in, or a loaded count is out of range). */
QG_MUST_CHECK qg_status qg_ema_update(qg_ema *e);

/* Forgets what it has averaged: the averages are the weights of this moment, and the count of updates is 0.
 * For a step in which the net becomes another one, as when its quantizers start; otherwise averages of
 * learned scales would keep values that never fitted.  Fails: QG_ESTATE (e is NULL, or the averages are
 * swapped in). */
QG_MUST_CHECK qg_status qg_ema_restart(qg_ema *e);

/* Exchanges weights and averages; a second call undoes it.  Do not train, or save a checkpoint to resume
 * from, in between.  Fails: QG_ESTATE (e is NULL). */
QG_MUST_CHECK qg_status qg_ema_swap(qg_ema *e);

/* Adds to s, as views: the average of each parameter with its shape [n,h,w,c], as "ema.conv1.weight", and
 * the number of updates, "ema.steps", I64. */
void      qg_ema_state(qg_ema *e, qg_state *s);
void      qg_ema_free(qg_ema *e);

#endif
