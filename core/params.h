/* core/params.h — the parameters of a net: declared one by one, then allocated as one block.
 *
 * Trained parameters lie back to back in one vector of values and one of gradients, which is all
 * an optimizer sees.  Tracked arrays (running statistics, observed ranges) live in a block of
 * their own: they are named and saved like parameters, and no optimizer touches them.
 *
 * A parameter describes its legal values: those within .clip and .least .. .greatest, those that .project
 * does not change, or, with .flips, the initial values with any signs.  An optimizer enforces this at
 * the end of each step.
 */
#ifndef QG_PARAMS_H
#define QG_PARAMS_H

#include <stdint.h>

#include "core/arena.h"
#include "core/status.h"
#include "core/tensor.h"

/* Parameters of one group share a learning rate and a decay (optim/optim.h). */
typedef enum qg_group {
    QG_WEIGHTS,             /* of conv2d and dense; the only group that decays by default */
    QG_BIASES,
    QG_NORMS,               /* gamma and beta, slopes of PReLU */
    QG_SCALES,              /* learned by quantizers: scales, ranges, steps, bounds */
    QG_TRACKED,             /* not trained: running statistics, observed ranges */
    QG_GROUPS
} qg_group;

typedef struct qg_param qg_param;
struct qg_param {
    const char *name;       /* "conv1.weight"; unique */
    qg_shape    shape;
    qg_group    group;
    float       lr_scale;   /* multiplies its updates, in addition to its group's; 0: 1 */
    float       decay;      /* its own weight decay, in place of its group's; 0: its group's */
    float       clip;       /* the update of each step clips values to [-clip, clip]; 0: free */
    float       least;      /* it also moves values into [least, greatest], but a value of 0 counts as */
    float       greatest;   /* unknown and stays; both 0: free */
    bool        flips;      /* binary weights without latent values: an optimizer may only
                               change their signs */
    bool        frozen;     /* keeps its value: no gradient, no update */
    int         rank;       /* axes of its array in files: 4, 2 [n][c], 1 [c]; 0: as few as fit */

    /* For conditions on a row as a whole, such as a mean of 0, in place of the clip:
     * makes one row [h][w][c] of value legal.  Called after each step for every row, rows in
     * parallel.  NULL: none. */
    void      (*project)(const qg_param *p, float *row);

    float      *value;      /* [shape]; NULL until allocated */
    float      *grad;       /* dL/dvalue, accumulated until the optimizer clears it; NULL if tracked */
    size_t      offset;     /* of value in qg_params.value, or .tracked if tracked; in floats */
};

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

/* The parameter with this name.  NULL, QG_EARG: there is none; NULL without a message: p is
 * NULL. */
qg_param *qg_params_find(const qg_params *p, const char *name);

/* w within [-clip, clip]; NaN stays NaN. */
static inline float qg_clipped(float w, float clip)
{
    const float below = clip < w ? clip : w;            /* in this order, for NaN */
    return -clip > below ? -clip : below;
}

/* Moves n values w of p into [least, greatest], if it has these bounds.  0 and NaN stay. */
void      qg_param_bound(const qg_param *p, size_t n, float *w);

/* Projects every row, if p has a projection. */
void      qg_param_project(const qg_param *p);

/* Zeroes the gradients, as an optimizer does after its step.  Needed when no step follows: if an
 * optimizer has refused one, or a backward pass ran out of memory. */
void      qg_params_clear_gradients(qg_params *p);

/* The number of trained values, without padding and tracked arrays. */
size_t    qg_params_trained(const qg_params *p);

/* 64-bit FNV-1a hash of names, shapes and values, tracked arrays included.  Two nets with the same
 * declaration and the same digest compute the same.  The digest does not cover the declaration: layers
 * without parameters leave no trace in it. */
uint64_t  qg_params_digest(const qg_params *p);

void      qg_params_release(qg_params *p);

#endif
