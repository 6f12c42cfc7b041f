/* core/walk.h — the backward walk from inside: the memory of gradients, and what may come between two ops (internal). */
#ifndef QG_WALK_H
#define QG_WALK_H

#include "core/profile.h"
#include "core/tape.h"

/* --- for ops --- */

/* y is a product of in[0] with the weight in[1].  Its backward does not read y->data, and nobody reads in[1] after it, if that was
 * computed from a parameter.  The memory of both may then serve gradients. */
void qg__mark_product(qg_var *y);

/* What y has saved begins with the sums of its images (core/ops/conv2d.h). */
void qg__mark_summed(qg_var *y);
bool qg__has_sums(const qg_var *y);

/* Whether y->grad stays as it is (qg_tape_retain); else backward, its last reader, may write to it. */
bool qg__retained(const qg_tape *t);

/* y is x, in its memory; for ops that only change gradients. */
qg_var *qg__record_view(qg_tape *t, const qg_op *op, qg_var *x);

/* --- the memory of gradients (core/gradients.c) --- */

typedef struct qg__gradients {
    struct qg__spare *spares;   /* buffers that are free */
    bool              retained; /* none is, until the next step */
} qg__gradients;

/* Memory until the step ends or it is given back; *bytes may grow.  NULL: the step has failed. */
void     *qg__lend(qg_tape *t, size_t *bytes);
void      qg__give(qg_tape *t, void *memory, size_t bytes);

bool      qg__gradient_take(qg_tape *t, qg_var *v);             /* v->grad, not zeroed */
qg_status qg__gradients_ready(qg_tape *t, const qg_var *y);     /* those of y's operands, before y's backward */
void      qg__gradients_done(qg_tape *t, qg_var *y);            /* y's own, after it */
bool      qg__gradient_shared(const qg_var *v);                 /* v->grad is that of in[0] (qg_share_gradient) */

/* --- what the tape has for others --- */

qg__gradients *qg__tape_gradients(qg_tape *t);
void          *qg__tape_take(qg_tape *t, size_t bytes);         /* memory until the step ends.  NULL: the step has failed */
size_t         qg__tape_peak(const qg_tape *t);                 /* the most bytes in use at once so far */
/* Attach keeps a pointer for its owner until the step ends; attached returns the newest, or NULL. */
void           qg__tape_attach(qg_tape *t, const void *owner, void *what);
void          *qg__tape_attached(const qg_tape *t, const void *owner);
bool           qg__tape_walks(const qg_tape *t);                /* qg_backward is running */
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
qg__hook     **qg__tape_hook(qg_tape *t);                       /* NULL at the start of a step */

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
