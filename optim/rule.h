/* optim/rule.h — for authors of optimizers: a loop over floats and one constant.
 *
 * optim.c checks the gradients, cuts the parameters into blocks, runs them on every thread and
 * knows groups, scales, frozen parameters and files.  A rule sees a run of floats and changes it.
 * Loop and constant stand in a *_kernel.c of their own (core/kernels/cpu.h): elementwise and without
 * contraction, it gives the same bits on every instruction set.
 */
#ifndef QG_RULE_H
#define QG_RULE_H

#include <stdint.h>

#include "optim/optim.h"

enum { QG_MOMENTS = 2 };

/* A part of one parameter. */
typedef struct qg_stretch {
    const qg_param *param;                  /* whose floats these are */
    size_t          n;
    float          *w;                      /* [n] */
    float          *g;                      /* [n], finite; update leaves zeros */
    float          *moment[QG_MOMENTS];     /* [n] each, as many as the rule has; at first zeros */
    float           lr;                     /* with the scales of group and parameter; 0 is legal */
    float           decay;
    float           clip;                   /* clip the new w to [-clip, clip]; infinite if free */
    int64_t         step;                   /* 1 in the first */
} qg_stretch;

typedef struct qg_rule {
    const char *name;                       /* in messages: "adam" */
    int         n_moments;
    const char *moment[QG_MOMENTS];         /* in files: "optim.momentum.conv1.weight" */
    void (*update)(const void *spec, const qg_stretch *s);
    bool        flips;                      /* also trains parameters that flip (qg_param.flips) */
} qg_rule;

/* Copies spec, spec_bytes of it, and hands it to every update.  weight_decay is that of QG_WEIGHTS.
 * NULL if p is NULL, with the message left as it is, and as qg_sgd. */
qg_optim *qg__optim_new(qg_params *p, const qg_rule *rule, const void *spec, size_t spec_bytes,
                        float lr, float weight_decay);

/* Fills in what is 0; fails as qg_adam. */
QG_MUST_CHECK qg_status qg__adam_defaults(qg_adam_spec *spec);

#endif
