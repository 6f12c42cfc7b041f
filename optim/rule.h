/* optim/rule.h — for authors of optimizers.  A rule is a loop over floats and a constant of type qg_rule.
 *
 * optim.c checks the gradients, cuts the parameters into blocks and runs them on every thread; it also
 * handles groups, scales, bounds, frozen parameters and files.  A rule updates a run of floats.  The
 * rules of the library are in *_kernel.c files (core/kernels/cpu.h).  A rule of your own can be in any
 * file.  An elementwise loop gives the same bits on every instruction set if it is compiled with
 * -ffp-contract=off, so that no multiplication is fused with an addition.
 */
#ifndef QG_RULE_H
#define QG_RULE_H

#include <stdint.h>

#include "core/arena.h"
#include "optim/optim.h"

enum { QG_MOMENTS = 2 };

/* A run of consecutive floats of one parameter, which one call updates. */
typedef struct qg_stretch {
    const qg_param *param;                  /* the parameter */
    size_t          n;
    float          *w;                      /* [n] */
    float          *g;                      /* [n], finite; update must leave zeros */
    float          *moment[QG_MOMENTS];     /* [n] each, n_moments of them: state, such as a
                                               velocity, that steps carry on; initially 0 */
    float           lr;                     /* learning rate of this step, with the factors of group
                                               and parameter; may be 0 */
    float           decay;                  /* weight decay of this parameter */
    float           clip;                   /* clip the new w to [-clip, clip]; infinite if free */
    int64_t         step;                   /* counts updates; 1 in the first update */
} qg_stretch;

typedef struct qg_rule {
    const char *name;                       /* in messages: "adam" */
    int         n_moments;
    const char *moment[QG_MOMENTS];         /* in files: "optim.momentum.conv1.weight" */
    void (*update)(const void *spec, const qg_stretch *s);
    bool        flips;                      /* also trains parameters that flip (qg_param.flips) */
} qg_rule;

/* Copies spec, which has spec_bytes and may be NULL if that is 0, and passes the copy to every update.
 * weight_decay is that of QG_WEIGHTS.  A rule needs a name, update, and a name for each of its moments.
 * A rule without them is a broken contract: QG_ASSERT prints it and aborts.
 * NULL: lr or weight_decay is not a legal number, p is not allocated, or out of memory. */
qg_optim *qg_optim_new(qg_params *p, const qg_rule *rule, const void *spec, size_t spec_bytes,
                        float lr, float weight_decay);

/* --- internal ----------------------------------------------------------------------------- */

/* Replaces zeros by defaults; fails like qg_adam. */
QG_MUST_CHECK qg_status qg__adam_defaults(qg_adam_spec *spec);

const qg_param *qg__first_that_flips(const qg_params *p);       /* NULL: none does */

#endif
