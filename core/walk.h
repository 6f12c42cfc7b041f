/* core/walk.h — the backward walk from inside: the memory of gradients, and what may come between two ops (internal). */
#ifndef QG_WALK_H
#define QG_WALK_H

#include "core/profile.h"
#include "core/tape.h"

/* --- for ops --- */

/* Bits of qg_var.marks. */
enum {
    QG__IS_PRODUCT = 1,     /* of in[0] with the weight in[1].  Its backward does not read its data, and nobody reads in[1] after
                               it, if that was computed from a parameter.  The memory of both may then serve gradients */
    QG__HAS_SUMS = 2,       /* what it has saved begins with the sums of its images (core/ops/conv2d.h) */
    QG__IS_SPENT = 4        /* only its own backward still reads its data */
};

/* y is x, in its memory; for ops that only change gradients. */
qg_var *qg__record_view(qg_tape *t, const qg_op *op, qg_var *x);

/* --- the memory of gradients (core/gradients.c) --- */

/* Memory until the step ends or it is given back; *bytes may grow.  NULL: the step has failed. */
void     *qg__lend(qg_tape *t, size_t *bytes);
void      qg__give(qg_tape *t, void *memory, size_t bytes);

bool      qg__gradient_take(qg_tape *t, qg_var *v);             /* v->grad, not zeroed */
qg_status qg__gradients_ready(qg_tape *t, const qg_var *y);     /* those of y's operands, before y's backward */
void      qg__gradients_done(qg_tape *t, qg_var *y);            /* y's own, after it */
bool      qg__gradient_shared(const qg_var *v);                 /* v->grad is that of in[0] (qg_share_gradient) */

/* --- what the tape has for others --- */

/* After a failure in a layer: the message begins with the layer's name, which many ops do not know. */
void           qg__tape_locate(qg_tape *t, const char *layer);

void          *qg__tape_take(qg_tape *t, size_t bytes);         /* memory until the step ends.  NULL: the step has failed */
size_t         qg__tape_peak(const qg_tape *t);                 /* the most bytes in use at once so far */
/* Attach keeps a pointer for its owner until the step ends; attached returns the newest, or NULL. */
void           qg__tape_attach(qg_tape *t, const void *owner, void *what);
void          *qg__tape_attached(const qg_tape *t, const void *owner);
qg_status      qg__tape_ready(qg_tape *t, const qg_var *v);     /* qg__gradients_ready, for v's op */
qg_status      qg__tape_visit(qg_tape *t, qg_var *v);           /* v's backward, if it has any, with all that is around it */

/* Whoever has gradients under way follows the walk from then on, to the end of the step. */
typedef struct qg__hook qg__hook;
struct qg__hook {
    /* Instead of qg__tape_visit: now or later.  v NULL: the walk has ended, and everything must arrive. */
    qg_status (*visit)(qg_tape *t, qg_var *v);
    /* The step has ended, or failed.  false: others may still write to its memory, which must not be freed. */
    bool      (*drop)(qg_tape *t);
};

/* The backward pass of a step. */
typedef struct qg__walk {
    struct qg__spare *spares;   /* buffers of gradients that are free */
    qg__hook         *hook;     /* puts off ops that wait for other processes; NULL at the start of a step */
    bool              runs;     /* qg_backward is running */
    bool              retained; /* gradients stay as they are (qg_tape_retain); else backward, the last reader of y->grad,
                                   may write to it, and its memory serves others */
} qg__walk;
qg__walk      *qg__tape_walk(qg_tape *t);

/* --- the time of ops (core/profile.c) --- */

typedef struct qg__stopwatch {
    qg_profile     *profile;    /* NULL: nothing is timed */
    qg_profile_row *running;    /* the op whose forward is being timed, */
    double          since;      /* since when, */
    const qg_var   *timed;      /* and what it has recorded */
} qg__stopwatch;

/* The running op ends, and the one called op begins; "-": what lies between ops, NULL: nothing.  An op computes
 * between its own record and the next one, so one reading of the clock per record times them all. */
void qg__watch_forward(qg__stopwatch *w, const char *op);
void qg__watch_record(qg__stopwatch *w, const qg_var *y);
void qg__watch_backward(qg__stopwatch *w, qg_tape *t, qg_var *y);      /* runs it */

#endif
