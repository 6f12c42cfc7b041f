/* core/tape.h — reverse-mode differentiation.
 *
 * Calling an op computes its value at once and appends a var to the tape; qg_backward walks the
 * tape from newest to oldest.  A var and its value live until the next qg_tape_begin, which
 * invalidates them all, those of qg_input and qg_parameter too: call these again in each step.  An
 * op rejects a var of the last three steps; older vars must not be used.
 *
 * qg_backward reuses the memory of two kinds of values for gradients; their data is NULL
 * afterwards:
 *
 *     - the result of a conv2d or dense whose only reader is a batch norm;
 *     - a weight that was computed from a parameter, as quantizers do, and has one reader, a conv2d
 *       or dense.
 *
 * After a failure every op returns NULL.  An op that is given NULL returns NULL.  qg_backward reports the first
 * failure of the step, so that is the only place to check in QG_TRAIN.  In other modes check the result for NULL, or
 * qg_tape_status.
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

/* QG_TRAIN is for training, QG_EVAL for measuring.  QG_ESTIMATE is QG_EVAL, except that batch norms
 * use and update statistics as in QG_TRAIN.  It estimates the statistics for weights that stay as
 * they are. */
typedef enum qg_mode { QG_TRAIN, QG_EVAL, QG_ESTIMATE } qg_mode;

/* What the engine knows about an op.  There is no list of ops: each is such a constant, defined next to
 * the function that records it.  name and backward are required, and not checked. */
typedef struct qg_op {
    const char *name;                           /* in messages and profiles: "conv2d" */
    void (*backward)(qg_tape *t, qg_var *y);    /* in[i]->grad += dL/din[i] where in[i]->grad */
    bool assigns;           /* backward writes = instead of += where in[i]->fresh, which saves the engine
                               a pass of zeroing; false: gradients arrive zeroed */
    bool in_place;          /* backward writes dL/din[0] index by index, each after its last read of
                               in[0]'s value there, so the gradient may use the value's memory */
} qg_op;

enum { QG_OPERANDS = 8 };

struct qg_var {
    qg_shape     shape;
    float       *data;        /* value, [shape] */
    float       *grad;        /* dL/dvalue, [shape]; NULL until backward needs it and again after its op's
                                 backward has run (parameters keep theirs) */
    const qg_op *op;          /* NULL for inputs and parameters */
    qg_var      *in[QG_OPERANDS];  /* operands in formula order; NULL when absent */
    void        *saved;       /* what backward needs from forward; op-private */
    qg_tape     *tape;
    qg_var      *older;       /* previous var on it */
    double       flops;       /* multiply-adds of the forward product, times 2; 0: not counted */
    size_t       room;        /* bytes at grad, as many as shape needs or more */
    uint64_t     begun;       /* the step it belongs to: how often its tape had begun */
    int          readers;     /* ops that have it as an operand */
    int          batch;       /* images in the whole batch: shape.n, or more if other processes have
                                 the rest (core/slices.h).  0: the first axis does not count images,
                                 as in a parameter or a sum over the batch */
    bool         needs_grad;  /* a parameter lies upstream */
    bool         fresh;       /* grad holds nothing yet: assign (see qg_op.assigns) */
    uint8_t      marks;       /* the engine's (core/walk.h) */
};

qg_tape  *qg_tape_new(void);

/* Begin a step: forget every var and keep the memory.  A new tape is in QG_TRAIN at step 0.  step is the
 * number of updates that an optimizer has made so far, in QG_EVAL too; a delayed quantizer starts when it
 * reaches its delay.
 * key and step determine what random ops such as dropout draw: the same pair, the same draws.
 * `qgrad train --seed S` passes the key qg_rng_fork(S, QG_STREAM_TAPE).  Another mode fails the
 * step, QG_EARG, and so does a thread that does not round to nearest or flushes denormal numbers to
 * zero, QG_ESTATE: results would have other bits. */
void      qg_tape_begin(qg_tape *t, qg_mode mode, uint64_t key, uint64_t step);
qg_status qg_tape_status(const qg_tape *t);              /* the first failure of the current step */
void      qg_tape_profile(qg_tape *t, qg_profile *p);    /* time every op into p; NULL: stop */

/* From the next qg_tape_begin on, every var keeps its value and its gradient until the step ends: to look at them after
 * qg_backward, which otherwise gives their memory to other gradients.  Vars that no gradient has reached have grad NULL.  Results
 * have the same bits; the step takes more memory. */
void      qg_tape_retain(qg_tape *t, bool retain);
void      qg_tape_free(qg_tape *t);

qg_var   *qg_input(qg_tape *t, qg_tensor x);             /* borrows x; no gradient */
qg_var   *qg_parameter(qg_tape *t, const qg_param *p);   /* borrows p; its gradient accumulates.
                                                            A NULL p fails the step, QG_EARG */

/* Add the gradient of the loss to that of every parameter it depends on, once per qg_tape_begin.
 *
 * Shapes   loss [1,1,1,1].
 * Fails    With the first failure of the step; else QG_ESHAPE, QG_ENAN (the loss is not finite), QG_ESTATE
 *          (the mode is not QG_TRAIN, or qg_backward was already called in this step), QG_EMEM.  Running out of
 *          memory half way leaves gradients partly summed: call qg_params_clear_gradients. */
QG_MUST_CHECK
qg_status qg_backward(qg_tape *t, qg_var *loss);

/* For op authors.  Check operands and shapes, then qg_record, then compute into y->data. */
qg_mode   qg_tape_mode(const qg_tape *t);
uint64_t  qg_tape_step(const qg_tape *t);
uint64_t  qg_tape_key(qg_tape *t);                       /* a key for one op's draws in this step */
qg_var   *qg_record(qg_tape *t, const qg_op *op, qg_shape y, qg_var *a, qg_var *b, qg_var *c);
void      qg_drop_batch(qg_var *y);                      /* y is a sum over the batch: its first
                                                             axis counts no images (y->batch = 0) */
bool      qg_add_operand(qg_var *y, int at, qg_var *x);  /* one more operand, 3 <= at < QG_OPERANDS, else
                                                             QG_ASSERT aborts; x may be NULL.  false:
                                                             x cannot be read, and the step has failed */
void      qg_restore_batch(qg_var *y);                   /* y repeats an operand for each image: its
                                                             first axis counts images again */
void      qg_share_gradient(qg_var *y);                  /* dL/din[0] = dL/dy, and no other operand
                                                             has a gradient: if in[0] is a
                                                             parameter, y uses its gradient, and
                                                             backward never runs */
void     *qg_save(qg_tape *t, qg_var *y, size_t bytes);  /* y->saved; lives as long as y */
void     *qg_scratch(qg_tape *t, size_t bytes);          /* valid until the op returns */
QG_PRINTF(3, 4)
qg_var   *qg_reject(qg_tape *t, qg_status s, const char *fmt, ...);       /* fail the step; always NULL */
qg_var   *qg__reject_null(qg_tape *t, const char *what); /* the same: `what` is NULL, QG_EARG */

#endif
