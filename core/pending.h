/* core/pending.h — gradients on their way between ranks while the backward pass goes on (internal).
 *
 *     qg__pending_sum(t, y, sum, n);      in y's backward
 *     ..                                  the backward of other layers
 *     y->op->arrive(t, y, total);         when the sum of all ranks is there
 *
 * Until then the gradients of y's operands that do not count images, which arrive adds to, are incomplete: the tape puts off
 * every op that reads or adds to one (qg_backward).  So each gradient is added up in the same order as without ranks.
 *
 * Every rank sends each part of its numbers to the rank that adds them up, and that one sends the sum to all.  Messages of
 * all gradients are under way at once, and move on when the tape asks, between two ops.
 */
#ifndef QG_PENDING_H
#define QG_PENDING_H

#include "core/slices.h"

typedef struct qg__pending {
    struct qg__pending *next;
    qg_var      *y;
    float       *data;              /* [n] */
    float       *part;              /* [ranks - 1][stride] what the others have of this one's part, to be added up */
    size_t       n, stride, bytes;  /* bytes: of this buffer */
    size_t       start[QG_SLICES + 1];      /* start[r] .. start[r + 1] of data is rank r's part */
    bool         summed;            /* this rank's part is complete, and goes to the others */
    qg__transfer messages;
} qg__pending;

/* In the order in which they were sent off. */
typedef struct qg__queue {
    qg__pending *first;
    size_t       bytes;             /* of all buffers */
    int          begun;             /* how many in this pass */
    double       since, waited;     /* when the queue was last empty; qg__traffic.seconds then */
} qg__queue;

/* Sends off sum [n], which is copied: arrive will get the sum of all ranks' sums, added as a tree (core/slices.h).
 * false: the step has failed. */
bool qg__pending_sum(qg_tape *t, qg_var *y, const float *sum, size_t n);

/* A buffer for n numbers, which are to be added up, or gathered.  Waits for earlier ones if too much is under way.  NULL: the
 * step has failed. */
qg__pending *qg__pending_new(qg_tape *t, qg_var *y, size_t n, bool adds);

/* Sends off data, likewise. */
bool qg__pending_add(qg_tape *t, qg__pending *p);

/* Sends off data, of which data + start[r] .. data + start[r + 1] is what rank r has: arrive will get all of it. */
bool qg__pending_gather(qg_tape *t, qg__pending *p, const size_t *start);

/* Moves the messages on, and calls arrive of what is complete; all: waits for everything. */
bool qg__pending_move(qg_tape *t, bool all);

/* Whether arrive of something under way will add to this gradient. */
bool qg__pending_adds(const qg__queue *q, const float *grad);

/* Forgets what is under way, after a failure. */
void qg__pending_drop(qg__queue *q);

/* --- what the tape has for it --- */

qg__queue *qg__tape_queue(qg_tape *t);
void      *qg__tape_lend(qg_tape *t, size_t *bytes);    /* memory until the step ends or it is given back; *bytes may grow */
void       qg__tape_give(qg_tape *t, void *memory, size_t bytes);

#endif
