/* optim/optim.h — optimizers turn gradients into updates of the parameters. */
#ifndef QG_OPTIM_H
#define QG_OPTIM_H

#include "core/params.h"
#include "core/io/state.h"

typedef struct qg_optim qg_optim;

/* d = g + decay w is the gradient with weight decay; v is the momentum, initially 0:
 *
 *     plain      w -= lr d
 *     momentum   v  = momentum v + d      w -= lr v
 *     nesterov   v  = momentum v + d      w -= lr (d + momentum v)
 */
typedef struct qg_sgd_spec {
    float lr;               /* required, > 0 */
    float momentum;         /* 0: plain; less than 1 */
    bool  nesterov;         /* needs a momentum */
    float weight_decay;     /* of QG_WEIGHTS; qg_optim_set_group sets that of other groups */
} qg_sgd_spec;

/* m and v are the moments, initially 0; step counts from 1:
 *
 *     m  = beta1 m + (1 - beta1) g        m' = m / (1 - beta1^step)
 *     v  = beta2 v + (1 - beta2) g^2      v' = v / (1 - beta2^step)
 *     w -= lr (decay w + m' / (sqrt(v') + eps))
 */
typedef struct qg_adam_spec {
    float lr;               /* required, > 0 */
    float beta1, beta2;     /* 0: 0.9, 0.999; less than 1 */
    float eps;              /* 0: 1e-8 */
    float weight_decay;     /* decoupled: not part of g; of QG_WEIGHTS */
} qg_adam_spec;

/* Both borrow p, which must be allocated and outlive the optimizer.
 *
 * Range    g^2 is a float: above |g| = 1.8e19 it is infinite, and Adam stops moving that weight;
 *          saving a checkpoint then fails with QG_ENAN.
 * Memory   As many floats as p has, for each moment: none (plain SGD), one (momentum), two (Adam).
 * Fails    NULL: bad spec, p not allocated, out of memory.  A NULL p gives NULL and keeps the message.
 * Papers   Adam, Kingma, Ba 2014, arXiv:1412.6980v9, algorithm 1; decoupled decay, Loshchilov,
 *          Hutter 2017, arXiv:1711.05101v3.
 * Differs  The decay is multiplied by lr, as in PyTorch's AdamW; the paper multiplies it only by
 *          the schedule's factor.
 */
qg_optim *qg_sgd(qg_params *p, qg_sgd_spec spec);
qg_optim *qg_adam(qg_params *p, qg_adam_spec spec);

/* Trains parameters that flip (qg_param.flips: weights with the scheme bop) by this rule, and all
 * other parameters with Adam.
 *
 *     m = (1 - gamma) m + gamma g              initially 0
 *     w = -w if m w > 0 and |m| > threshold
 *
 * gamma follows the learning rate: each step uses gamma lr / rest.lr, at most 1, where lr is that
 * of the parameter (qg_group_spec).  A schedule that divides lr thus divides gamma too.  Decay and
 * clip do not apply to parameters that flip.
 *
 * Fails    As qg_adam; also QG_EARG if gamma or threshold is out of range, or if no parameter
 *          flips.
 * Paper    Helwegen et al. 2019, arXiv:1906.02107, algorithm 1; it divides gamma by ten every 100
 *          epochs and trains the rest with Adam at 0.01. */
typedef struct qg_bop_spec {
    float        gamma;     /* 0: 1e-4; at most 1 */
    float        threshold; /* 0: 1e-8 */
    qg_adam_spec rest;      /* rest.lr is required */
} qg_bop_spec;
qg_optim *qg_bop(qg_params *p, qg_bop_spec spec);

/* Settings of a group.  In the formulas, the lr of a parameter is the optimizer's lr, multiplied
 * by lr_scale of the group and by lr_scale of the parameter.  The decay is the parameter's own, or
 * else the group's. */
typedef struct qg_group_spec {
    float lr_scale;         /* 0: 1 */
    float weight_decay;     /* replaces weight_decay of the optimizer's spec, even if 0 */
    bool  frozen;           /* values and moments keep what they are */
} qg_group_spec;

/* Both take effect in the next step, which fails if a setting is out of range: a negative,
 * infinite or NaN number, or the group QG_TRACKED.  lr may be 0: moments are updated (but not by bop), and
 * w moves only where a clip or a projection moves it. */
void      qg_optim_set_group(qg_optim *o, qg_group g, qg_group_spec spec);
void      qg_optim_set_lr(qg_optim *o, float lr);
float     qg_optim_lr(const qg_optim *o);               /* of the next step; 0 if o is NULL */

/* Clips gradients by their norm.  Let length be the Euclidean norm of all gradients of parameters
 * that are not frozen; if it is greater than norm, every gradient is multiplied by norm / length,
 * before decay and moments.  0, the initial setting: off.  Takes effect in the next step, which
 * fails if norm is negative, infinite or NaN.  Like lr, norm is not part of qg_optim_state.
 *
 * qg_optim_norm returns the length, before clipping, in the last step that measured it; 0: no step
 * has.
 *                              [Pascanu, Mikolov, Bengio 2012, arXiv:1211.5063v2, algorithm 1.
 *                               PyTorch adds 1e-6 to the length.] */
void      qg_optim_set_clip_norm(qg_optim *o, float norm);
double    qg_optim_norm(const qg_optim *o);

/* One update: applies decay, moments, step, clip and bounds (qg_param.least, .greatest) and clears
 * the gradients, in one pass; then applies the projections (qg_param.project) of parameters that
 * have one.  A frozen parameter keeps its value and moments; its gradient is checked and cleared
 * like any other.  The result has the same bits for any number of threads and on every instruction
 * set.
 *
 * Memory   Nothing is allocated.
 * Fails    QG_ENAN: a gradient is not finite; the message names the first such parameter.  QG_EARG:
 *          a setting, or lr_scale, decay or clip of a parameter, is out of range.
 *          QG_ESTATE: o is NULL, or a checkpoint has set the count of steps out of range.  After a
 *          failure nothing has changed.
 */
QG_MUST_CHECK
qg_status qg_optim_step(qg_optim *o);
int64_t   qg_optim_steps(const qg_optim *o);            /* updates made, also before a checkpoint
                                                           was loaded; 0 if o is NULL */
const qg_params *qg_optim_params(const qg_optim *o);    /* what it updates; NULL if o is NULL */

/* Adds to s, as views: each parameter's moments with its shape [n,h,w,c], as
 * "optim.momentum.conv1.weight" (SGD), "optim.m.conv1.weight", "optim.v.conv1.weight" (Adam, Bop), and
 * the count of steps, "optim.step", I64.  Frozen parameters are included.  lr is not, because it
 * is a function of the run's progress (optim/schedule.h). */
void      qg_optim_state(qg_optim *o, qg_state *s);
void      qg_optim_free(qg_optim *o);

#endif
