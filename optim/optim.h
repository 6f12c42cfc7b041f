/* optim/optim.h — turn gradients into steps.  Sees the parameters as one flat vector in groups. */
#ifndef QG_OPTIM_H
#define QG_OPTIM_H

#include "core/params.h"
#include "core/state.h"

typedef struct qg_optim qg_optim;

typedef struct qg_sgd_spec {
    float lr;               /* required, > 0 */
    float momentum;         /* 0: plain;  v = momentum v + g + decay w,  w -= lr v */
    bool  nesterov;         /* w -= lr (g + decay w + momentum v) */
    float weight_decay;     /* of QG_WEIGHTS; biases, norms and quantizers decay only if told to */
} qg_sgd_spec;

typedef struct qg_adam_spec {
    float lr;               /* required, > 0 */
    float beta1, beta2;     /* 0: 0.9, 0.999 */
    float eps;              /* 0: 1e-8 */
    float weight_decay;     /* decoupled: w -= lr decay w, beside the moments; of QG_WEIGHTS */
} qg_adam_spec;

/* Both borrow p, which must be allocated and outlive the optimizer.  NULL: bad spec, out of memory.
 * Papers: Adam, Kingma, Ba 2014, arXiv:1412.6980v9, algorithm 1; decoupled decay, Loshchilov,
 * Hutter 2017, arXiv:1711.05101v3. */
qg_optim *qg_sgd(qg_params *p, qg_sgd_spec spec);
qg_optim *qg_adam(qg_params *p, qg_adam_spec spec);

/* A group's own share of the learning rate, and its own decay. */
typedef struct qg_group_spec {
    float lr_scale;         /* its learning rate is lr * lr_scale; 0 freezes the group */
    float weight_decay;
} qg_group_spec;
void      qg_optim_set_group(qg_optim *o, qg_group g, qg_group_spec spec);

void      qg_optim_set_lr(qg_optim *o, float lr);

/* One update: decay, moments, step, clip of latent weights, and clearing of the gradients, in one
 * pass.  Fails with QG_ENAN when a gradient is not finite (the message names the parameter), and
 * then has touched nothing. */
QG_MUST_CHECK
qg_status qg_optim_step(qg_optim *o);

/* Adds the moments and the step count to s, as "optim.momentum", "optim.step" and the like. */
void      qg_optim_state(qg_optim *o, qg_state *s);
void      qg_optim_free(qg_optim *o);

#endif
