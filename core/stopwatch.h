/* core/stopwatch.h — times the ops of a tape for its profile.  Internal. */
#ifndef QG_STOPWATCH_H
#define QG_STOPWATCH_H

#include "core/profile.h"
#include "core/tape.h"

typedef struct qg__stopwatch {
    qg_profile     *profile;    /* NULL: nothing is timed */
    qg_profile_row *running;    /* the op whose forward is being timed, since when, and its var */
    double          since;
    const qg_var   *timed;
} qg__stopwatch;

/* The op that is running ends, and the one called op begins; "-": what lies between ops, NULL: nothing. */
void  qg__watch_forward(qg__stopwatch *w, const char *op);
void  qg__watch_record(qg__stopwatch *w, const qg_var *y);      /* y is what it records */

/* Run y's backward. */
void  qg__watch_backward(qg__stopwatch *w, qg_tape *t, qg_var *y);

#endif
