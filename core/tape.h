/* core/tape.h — reverse-mode differentiation.
 *
 * Calling an op computes its value at once and appends a var to the tape; qg_backward walks the
 * tape from newest to oldest.  A var and its value live until the next qg_tape_begin, whose vars take
 * their place: what qg_input and qg_parameter gave is no more, call them anew in each step.  An op refuses
 * a var of one of the three steps before; an older one's place may hold a var of this step.  Two kinds of
 * values give their memory to gradients, so that their data is NULL after qg_backward: a product that a
 * batch norm alone has read, and a weight that is a function of one parameter and that one product alone
 * has read.
 *
 * After a failure ops return NULL, ops given NULL return NULL, and qg_backward reports the first
 * failure: check there, nowhere else.
 */
#ifndef QG_TAPE_H
#define QG_TAPE_H

#include <stdint.h>

#include "core/params.h"
#include "core/status.h"
#include "core/tensor.h"

typedef struct qg_tape    qg_tape;
typedef struct qg_var     qg_var;
typedef struct qg_profile qg_profile;           /* core/profile.h */
typedef enum qg_mode { QG_TRAIN, QG_EVAL } qg_mode;

/* What an op knows about itself.  There is no list of ops: an op is this constant, defined beside
 * the function that records it. */
typedef struct qg_op {
    const char *name;                           /* in messages and profiles: "conv2d" */
    void (*backward)(qg_tape *t, qg_var *y);    /* in[i]->grad += dL/din[i] where in[i]->grad */
    bool assigns;           /* backward looks at in[i]->fresh and then writes = instead of +=, which
                               saves the engine a pass of zeroing; false: grads arrive zeroed */
    bool in_place;          /* backward writes dL/din[0] index by index, after its last look at in[0]'s
                               value there: the gradient may take the value's place */
    bool value_unused;      /* a product: its own backward does not read y->data, and in[1] is a weight,
                               which nobody reads after it if it was computed from a parameter */
    bool straight_through;  /* dL/din[0] is dL/dy and nothing else is learned: a parameter's
                               gradient is then accumulated in place and backward never runs */
} qg_op;

enum { QG_OPERANDS = 8 };

struct qg_var {
    qg_shape     shape;
    float       *data;        /* value, [shape] */
    float       *grad;        /* dL/dvalue, [shape]; NULL until backward needs it, and NULL again
                                 after its op has run (parameters keep theirs) */
    const qg_op *op;          /* NULL for inputs and parameters */
    qg_var      *in[QG_OPERANDS];  /* operands in formula order; NULL when absent */
    void        *saved;       /* what backward needs from forward; op-private */
    qg_tape     *tape;
    qg_var      *older;       /* previous var on it */
    float       *sums;        /* channel sums of data, image by image, if its op gathered them
                                 (core/kernels/norm_kernel.h); else NULL */
    double       flops;       /* multiply-adds of the forward product, times 2; 0: not counted */
    size_t       room;        /* bytes at grad, as many as shape needs or more */
    uint64_t     begun;       /* how often its tape had begun: the step that it belongs to */
    int          readers;     /* ops that have it as an operand */
    bool         needs_grad;  /* a parameter lies upstream */
    bool         fresh;       /* grad holds nothing yet: assign (see qg_op.assigns) */
    bool         spent;       /* its value has been read for the last time, but by its own op */
};

qg_tape  *qg_tape_new(void);

/* Forgets every var and keeps the memory.  step counts the updates made so far, in QG_EVAL too:
 * what is delayed asks for it.  key and step choose what random ops draw, such as dropout: the same
 * pair draws the same.  `qgrad train --seed S` passes the key qg_rng_fork(S, QG_STREAM_TAPE). */
void      qg_tape_begin(qg_tape *t, qg_mode mode, uint64_t key, uint64_t step);
size_t    qg_tape_peak(const qg_tape *t);                /* the most bytes that were in use at once so far */
qg_status qg_tape_status(const qg_tape *t);              /* of the current step: its first failure */
void      qg_tape_profile(qg_tape *t, qg_profile *p);    /* time every op into p; NULL: stop */
void      qg_tape_free(qg_tape *t);

qg_var   *qg_input(qg_tape *t, qg_tensor x);             /* borrows x; no gradient */
qg_var   *qg_parameter(qg_tape *t, const qg_param *p);   /* borrows p; its gradient accumulates.  NULL
                                                            fails the step, QG_EARG */

/* Fills the gradient of every parameter the loss depends on, once per qg_tape_begin.  loss is
 * 1,1,1,1.  Fails with the first failure of the step, QG_ESHAPE, QG_ENAN (the loss is not finite),
 * QG_ESTATE (QG_EVAL, or a second walk).
 * Out of memory half way (QG_EMEM) leaves gradients partly summed: qg_params_clear_gradients. */
QG_MUST_CHECK
qg_status qg_backward(qg_tape *t, qg_var *loss);

/* For op authors.  Check operands and shapes, then qg_record, then compute into y->data. */
qg_mode   qg_tape_mode(const qg_tape *t);
uint64_t  qg_tape_step(const qg_tape *t);
uint64_t  qg_tape_key(qg_tape *t);                       /* a key for one op's draws in this step */
qg_var   *qg_record(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c);
qg_var   *qg_record_view(qg_tape *t, const qg_op *op, qg_var *x);         /* y is x: its memory, its sums;
                                                                             for ops of backward alone */
bool      qg_operand(qg_var *y, int at, qg_var *x);      /* one more operand, at >= 3; x may be NULL.  false:
                                                             it cannot be read, and the tape has failed */
void     *qg_save(qg_tape *t, qg_var *y, size_t bytes);  /* y->saved; lives as long as y */
void     *qg_scratch(qg_tape *t, size_t bytes);          /* dies when the op returns */
QG_PRINTF(3, 4)
qg_var   *qg_reject(qg_tape *t, qg_status s, const char *fmt, ...);       /* always NULL */
qg_var   *qg_reject_null(qg_tape *t, const char *what);  /* the same by qg_fail_null, QG_EARG */

#endif
