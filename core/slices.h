/* core/slices.h — the part of a batch that this rank computes, and sums over the whole of it (internal).
 *
 * A batch is cut into QG_SLICES slices (core/kernels/parallel.h).  Ranks have QG_SLICES / qg_ranks() of them each, side
 * by side, so a rank has a run of images.  A sum over the batch has an order that depends on the batch alone:
 *
 *     slices      qg__slices_gather: a value per slice, and every rank adds all of them in index order
 *     images      qg__images_gather: a value per image, likewise
 *     tree        qg__tree: large arrays, one per slice, added in pairs of neighbours, these in pairs, and so on: ranks have
 *                 whole subtrees, and add these likewise (core/pending.h)
 *
 * With one rank, or if the batch is not shared, the first two do nothing.
 */
#ifndef QG_SLICES_H
#define QG_SLICES_H

#include <stddef.h>

#include "core/kernels/parallel.h"
#include "core/status.h"
#include "core/tape.h"

typedef struct qg__slices {
    int  n;                 /* images in the batch */
    int  first, count;      /* those that are here: the first of them, and their number */
    int  from, to;          /* the slices that are here */
    bool shared;            /* other ranks have the other ones */
} qg__slices;

/* The images of v, which are its first axis. */
qg__slices qg__slices_of(const qg_var *v);

/* The same, as if they were the batch of this rank alone. */
qg__slices qg__slices_alone(const qg_var *v);

/* How many of n images are here if the batch is shared by all ranks; *first: where they begin. */
int        qg__images_here(int n, int *first);

/* The first image of a slice, counted from the first image that is here. */
static inline int qg__slice_first(qg__slices b, int slice) { return qg_slice_at(b.n, slice) - b.first; }

/* parts [QG_SLICES][bytes] or [b.n][bytes]: those that are here are filled in, and the others arrive.  false: the step
 * has failed. */
bool qg__slices_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes);
bool qg__images_gather(qg_tape *t, qg__slices b, void *parts, size_t bytes);

/* The values of v for the whole batch: v's own, or in scratch what all ranks have.  NULL data: the step has failed. */
qg_tensor  qg__whole_batch(qg_tape *t, const qg_var *v);

/* part[0][i] becomes the sum of the arrays part[k][i], i < n, k < count, a power of two; they are stride floats apart. */
void qg__tree(int count, size_t stride, size_t n, float *part);

/* start [ranks + 1] in bytes: data + start[r] .. data + start[r + 1] is what rank r has; afterwards every rank has all of it. */
bool qg__ranks_gather(qg_tape *t, void *data, const size_t *start);

/* Whether an exchange has succeeded; if not, the step fails with its error. */
bool qg__ranks_passed(qg_tape *t, qg_status status);

/* --- without a tape --- */

/* Rank 0's bytes reach the others. */
QG_MUST_CHECK
qg_status qg__ranks_broadcast(void *data, size_t bytes);

/* text [bytes], which is empty on most ranks, becomes that of the first rank where it is not. */
QG_MUST_CHECK
qg_status qg__ranks_tell(char *text, size_t bytes);

/* A batch that a loader has divided: x is this rank's part of n images.  qg_input knows it by its address. */
void qg__ranks_serve(const float *x, int n);
int  qg__ranks_served(const float *x, int here);    /* n; 0: not divided */

/* --- how ranks reach each other --- */

/* Sends to a rank and receives from it, as many bytes. */
typedef qg_status (*qg__exchange)(void *context, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);

/* How many processes mpirun or srun says that it has started, before qg_ranks_begin and without MPI, too.  1: this one alone. */
int       qg__ranks_started(void);

/* For tests: this process is rank of ranks, and reaches the others by `exchange` instead of MPI.  ranks 1: it is alone
 * again. */
void      qg__ranks_join(int rank, int ranks, qg__exchange exchange, void *context);

QG_MUST_CHECK
qg_status qg__ranks_exchange(int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);

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

/* For tests, after qg__ranks_join: messages under way.  Without it qg__ranks_post exchanges at once. */
void      qg__ranks_join_later(qg__post post, qg__arrived arrived);
QG_MUST_CHECK
qg_status qg__ranks_post(qg__transfer *m, int other, const void *out, void *in, size_t bytes_out, size_t bytes_in);
QG_MUST_CHECK
qg_status qg__ranks_arrived(qg__transfer *m, bool wait, bool *all);
/* What is still under way, since the step has failed.  No exchange succeeds from then on, and other ranks may still read and
 * write the memory of these messages, so it must not be freed (qg__ranks_lost). */
void      qg__ranks_forget(qg__transfer *m);
bool      qg__ranks_lost(void);

/* For measurements: from now on this process acts as rank of ranks, and reaches the others by `exchange` and `post`, which leaves
 * the transfer empty; NULL: as the program began. */
void      qg__ranks_act(int rank, int ranks, qg__exchange exchange, qg__post post, void *context);

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
