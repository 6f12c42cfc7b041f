/* core/tape_parts.h — the inside of a tape: core/tape.c records on it, core/backward.c walks it.
 * Internal. */
#ifndef QG_TAPE_PARTS_H
#define QG_TAPE_PARTS_H

#include "core/arena.h"
#include "core/stopwatch.h"
#include "core/tape.h"

/* A gradient buffer that waits to be used again; this is written into the buffer itself. */
typedef struct qg__spare {
    struct qg__spare *next;
    size_t            bytes;
} qg__spare;

struct qg_tape {
    qg_arena      vars;         /* never smaller again: a var of an earlier step can still be looked at */
    qg_arena      step;         /* values, gradients, what ops saved */
    qg_arena      scratch;      /* rewound when the next op starts */
    size_t        peak;         /* the most that was taken of the three at once */
    const char   *taker;        /* who takes memory, for messages: the name of an op, "input", .. */
    qg_var       *newest;
    qg__spare    *spares;
    qg_mode       mode;
    qg_status     status;       /* the first failure of this step */
    char          why[512];     /* and its message: later failures elsewhere do not replace it */
    uint64_t      begun;        /* how often qg_tape_begin was called */
    uint64_t      at;           /* the step's number */
    uint64_t      key;
    uint64_t      draws;        /* keys given out in this step */
    bool          walked;       /* backward has begun: values may have made room for gradients */
    qg__stopwatch watch;
};

/* Memory of an arena of t.  NULL: there is none, and t has failed. */
void *qg__tape_take(qg_tape *t, qg_arena *a, size_t bytes);

#endif
