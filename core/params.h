/* core/params.h — what a net is made of: declared one by one, then allocated as one block.
 *
 * Trained parameters lie back to back in one vector of values and one of gradients, which is all
 * an optimizer sees.  Tracked arrays (running statistics, observed ranges) live in a block of
 * their own: they are named and saved like parameters, and no optimizer touches them.
 */
#ifndef QG_PARAMS_H
#define QG_PARAMS_H

#include <stdint.h>

#include "core/arena.h"
#include "core/status.h"
#include "core/tensor.h"

/* Who shares a learning rate and a decay (optim/optim.h). */
typedef enum qg_group {
    QG_WEIGHTS,             /* of conv2d and dense; the only group that decays by default */
    QG_BIASES,
    QG_NORMS,               /* gamma and beta */
    QG_QUANTIZERS,          /* what a scheme learns: ranges, scales, steps, clips */
    QG_TRACKED,             /* not trained: running statistics, observed ranges */
    QG_GROUPS
} qg_group;

typedef struct qg_param {
    const char *name;       /* "conv1.weight"; unique */
    qg_shape    shape;
    qg_group    group;
    float       clip;       /* kept in [-clip, clip] after each step; 0: free */
    int         centred;    /* before that clip, runs of so many values lose their mean; 0: none */
    float       lr_scale;   /* of its updates, on top of its group's; 0: 1 */
    float       decay;      /* weight decay of its own, in place of its group's; 0: its group's */
    bool        binary;     /* its values are +-1 and flip: only qg_bop trains it */
    int         rank;       /* of its array in files: 4, 2 [n][c], 1 [c]; 0: the least that holds it */
    bool        frozen;     /* keeps its value: no gradient, no update */
    float      *value;      /* [shape]; NULL until allocated */
    float      *grad;       /* dL/dvalue, accumulated until the optimizer clears it; NULL if tracked */
    size_t      offset;     /* in qg_params.value, in floats, a multiple of 16 */
} qg_param;

typedef struct qg_params {
    int        count;       /* entries of item, in order of declaration */
    qg_param **item;
    size_t     length;      /* floats of value and of grad, padding included */
    float     *value;       /* every trained parameter; padding stays 0 */
    float     *grad;
    size_t     tracked_length;
    float     *tracked;
    int        capacity;
    qg_arena   arena;
} qg_params;                /* {0} is an empty set */

/* Copies spec and its name; value, grad and offset are set by qg_params_allocate.  NULL: out of
 * memory, a name that is taken, or an empty shape.  The result lives as long as p. */
qg_param *qg_params_declare(qg_params *p, qg_param spec);

/* One block for all, zeroed.  Fails with QG_ESTATE when called twice, QG_EMEM. */
QG_MUST_CHECK qg_status qg_params_allocate(qg_params *p);

/* NULL: none has the name, and the message says so, QG_EARG; or p is NULL, and the message stays. */
qg_param *qg_params_find(const qg_params *p, const char *name);

static inline float qg__clip(float w, float clip)
{
    const float below = clip < w ? clip : w;            /* in this order NaN stays NaN */
    return -clip > below ? -clip : below;
}

/* If p is centred: takes off the means of its runs, added in double, then clips. */
void      qg_param_centre(const qg_param *p);

/* Gradients become 0, as a step leaves them: after a step that an optimizer refused, or a backward that
 * ran out of memory, what was summed so far is dropped. */
void      qg_params_clear_gradients(qg_params *p);

/* How many numbers are trained, padding and tracked arrays left out. */
size_t    qg_params_trained(const qg_params *p);

/* 64-bit FNV-1a hash of names, shapes and values, tracked arrays included.  Two nets that were
 * declared alike and have the same digest compute the same; a quantizer that learns nothing leaves no
 * trace in it. */
uint64_t  qg_params_digest(const qg_params *p);

void      qg_params_release(qg_params *p);

#endif
