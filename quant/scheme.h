/* quant/scheme.h — for scheme authors, inside the library and outside.
 *
 * A scheme is one constant in a file of its own, and a constructor that returns a qg_quant naming
 * it.  Nothing in the library lists schemes (cli/schemes.c does, for the command line), so a user's
 * scheme is as good as a built-in one: see tests/test_user_scheme.c.
 */
#ifndef QG_SCHEME_H
#define QG_SCHEME_H

#include "quant/codes.h"
#include "quant/quant.h"

enum { QG_LEARNED = 4 };

/* One thing that a scheme trains (a scale, a range) or tracks (an observed range, a count). */
typedef struct qg_learned {
    const char *name;           /* "wp": the parameter is then "conv1.weight.wp"; NULL ends the list */
    bool        per_channel;    /* one per channel where the quantizer is per_channel; else one */
    bool        tracked;        /* no gradient: the scheme updates it itself in QG_TRAIN */
    float       decay;          /* weight decay of its own; 0: none */
    float       lr_scale;       /* 0: 1 */
} qg_learned;

typedef enum qg_role { QG_WEIGHT = 1, QG_INPUT = 2, QG_GRADIENT = 4 } qg_role;

struct qg_scheme {
    const char       *name;     /* "twn": in summaries, checkpoints, on the command line */
    const char       *explain;  /* formula, surrogate, paper, deviations: plain text */
    const qg_learned *learned;  /* ends with a NULL name; NULL: nothing */
    unsigned          roles;    /* what it may quantize: qg_role, or-ed */
    bool              rectifies;  /* as an input it is its own nonlinearity: takes the place of relu */
    float             clip;     /* keep latent weights in [-clip, clip] after each step; 0: free */

    /* Initial values of what is learned, from the initial weights x.  NULL: zeros.  An activation
     * has no values yet: x.data is NULL then, and the scheme starts from its first batch. */
    void    (*start)(qg_quant q, qg_tensor x, float *const *learned);

    /* Records the op. */
    qg_var *(*apply)(qg_tape *t, qg_quant q, qg_var *x, qg_var *const *learned);

    /* The same as an elementwise function, so that qg_norm can fuse it; NULL: cannot be.  It must
     * not decrease anywhere and must compute exactly what apply does. */
    qg_activation (*activation)(qg_quant q, qg_var *const *learned);

    /* Integer codes and scales of what apply would give: x = scale * code (+ offset).  NULL: not
     * few-valued. */
    qg_status (*encode)(qg_quant q, qg_tensor x, const float *const *learned, qg_codes *out);
};

/* Shape of learned entry l for a quantizer on x: [1,1,1,1], or [1,1,1,channels] (x.n for a weight,
 * x.c for an activation). */
qg_shape qg_learned_shape(qg_quant q, const qg_learned *l, qg_shape x, qg_role role);
int      qg_learned_count(qg_quant q);

/* q.after lies ahead of the tape's step: the quantizer still passes x (as relu, if it rectifies). */
bool     qg_quant_waits(qg_quant q, const qg_tape *t);

/* --- parts most schemes share --------------------------------------------------------------- */

/* Records a quantizer whose backward is the surrogate s, {0} being the identity, and nothing else;
 * the caller then fills y->data.  straight is used when s is the identity and sets
 * .straight_through, sloped otherwise; both have qg_surrogate_backward. */
qg_var *qg_record_surrogate(qg_tape *t, const qg_op *straight, const qg_op *sloped, qg_var *x,
                            qg_surrogate s);
void    qg_surrogate_backward(qg_tape *t, qg_var *y);

/* qg_activation.backward for a surrogate held in .slope and .arg. */
void    qg_surrogate_activation_backward(const qg_activation *f, size_t n, const float *x,
                                         const float *dy, float *dx, double *dk);

#endif
