/* core/dist/exchange.h — how ranks reach each other (internal). */
#ifndef QG_EXCHANGE_H
#define QG_EXCHANGE_H

#include <stddef.h>

#include "core/dist/ranks.h"
#include "core/kernels/parallel.h"
#include "core/tape.h"

/* start [ranks + 1] in bytes: data + start[r] .. data + start[r + 1] is what rank r has; afterwards every rank has all of it. */
bool qg__ranks_gather(qg_tape *t, void *data, const size_t *start);

/* Whether an exchange has succeeded; if not, the step fails with its error. */
bool qg__ranks_passed(qg_tape *t, qg_status status);

/* --- without a tape --- */

/* text [bytes], which is empty on most ranks, becomes that of the first rank where it is not. */
QG_MUST_CHECK
qg_status qg__ranks_tell(char *text, size_t bytes);

/* --- how ranks reach each other --- */

/* Sends to a rank and receives from it, as many bytes. */
typedef qg_status (*qg__exchange)(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);

/* Messages to and from other ranks that are under way while this one computes. */
typedef struct qg__transfer {
    int   tag;                          /* the same on all ranks, 1 .. 32767; of no other transfer under way */
    int   n;
    void *request[2 * QG_SLICES];       /* of the link: of each message from a rank, then of that to it */
} qg__transfer;

/* The same as an exchange, but returns at once; out and in are left alone until the messages have arrived. */
typedef qg_status (*qg__post)(void *context, qg__transfer *m, int other, const void *out, void *in, size_t bytes_out,
                              size_t bytes_in);

/* *all: every message has arrived, and the transfer is empty.  wait: not before that. */
typedef qg_status (*qg__arrived)(void *context, qg__transfer *m, bool wait, bool *all);

typedef struct qg__link {
    qg__exchange exchange;
    qg__post     post;          /* NULL: exchange at once */
    qg__arrived  arrived;
    void        *context;
} qg__link;

/* For tests: this process is rank of ranks, and reaches the others by this link instead of MPI.  ranks 1: it is alone again. */
void      qg__ranks_join(int rank, int ranks, qg__link link);

/* For measurements: from now on this process acts as rank of ranks, and reaches the others by a link whose post leaves transfers
 * empty; {0}: as the program began. */
void      qg__ranks_act(int rank, int ranks, qg__link link);

QG_MUST_CHECK
qg_status qg__ranks_exchange(int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);
QG_MUST_CHECK
qg_status qg__ranks_post(qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);
QG_MUST_CHECK
qg_status qg__ranks_arrived(qg__transfer *m, bool wait, bool *all);
/* What is still under way, since the step has failed.  No exchange succeeds from then on, and other ranks may still read and
 * write the memory of these messages, so it must not be freed. */
void      qg__ranks_forget(qg__transfer *m);

/* Waits, asleep, until all ranks of the program call it; then the first `ranks` are the ranks.  false: this one is not among
 * them, and has nothing to do until it calls it again. */
bool      qg__ranks_among(int ranks);

/* What has been exchanged since the process began. */
typedef struct qg__traffic {
    double bytes, seconds;      /* sent; spent sending and waiting */
    long   messages;
    double hidden;              /* seconds in which messages were under way and this rank computed: at most, since it notices
                                   only between ops that they have arrived */
} qg__traffic;
qg__traffic qg__ranks_traffic(void);
void        qg__ranks_hid(double seconds);      /* adds to hidden */

#endif
