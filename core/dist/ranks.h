/* core/dist/ranks.h — several processes that train one net, over MPI.
 *
 *     if (qg_ranks_begin(&argc, &argv)) return 1;
 *     ..                                                  the program of one process
 *     qg_ranks_end();
 *
 *     mpirun -n 4 build/program                           1, 2, 4, 8 or 16 ranks
 *
 * Every rank runs the same program and makes the same net, optimizer and loaders.  A loader then serves each rank its
 * part of every batch, ops exchange the sums over the batch, and weights, gradients and losses are the same on all
 * ranks: those of one process, to the bit.  All ranks must call the same functions of the library in the same order.
 * A batch with fewer images than ranks is not divided; every rank computes all of it.
 *
 * If a step fails on one rank, or a rank cannot continue, the others would wait for it forever.
 * The program must then call qg_ranks_abort, which ends all ranks, instead of continuing or
 * returning from main.  If another rank has ended, the step that needs it fails with QG_ESTATE,
 * unless MPI ends the program first, as mpirun does when a process is killed.
 *
 * A batch that does not come from a loader is computed by every rank, so it must be the same on
 * all of them.  An op of your own sees only the images of its rank; a sum over the batch in it is
 * incomplete.
 *
 * Programs are linked with a library built by `make mpi` (build/libqgrad-mpi.a).  In any other there is one rank.
 */
#ifndef QG_RANKS_H
#define QG_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* The largest number of ranks; the number of ranks must divide it. */
enum { QG_MAX_RANKS = 16 };

/* Begin, once in a program.  argc and argv are main's, or NULL.
 *
 * Fails    QG_EARG: the number of ranks does not divide QG_MAX_RANKS.  QG_ESTATE: MPI cannot begin, or has before. */
QG_MUST_CHECK
qg_status qg_ranks_begin(int *argc, char ***argv);
void      qg_ranks_end(void);           /* waits for the other ranks; from then on there is one */

int       qg_ranks(void);               /* 1 before qg_ranks_begin */
int       qg_rank(void);                /* 0 .. qg_ranks() - 1; rank 0 writes files */

/* Ends the program on all ranks with exit code `code`, because this rank cannot continue.  line,
 * or qg_errmsg() if line is NULL, is printed on stderr: once if all ranks fail alike, else by the
 * rank that fails, with its number.  If there is only one rank, it prints nothing and returns. */
void      qg_ranks_abort(int code, const char *line);

/* How many processes mpirun or srun has started, according to the environment.  It may be called before
 * qg_ranks_begin and in a program without MPI, whose processes would all do the same.  1: only this one. */
int       qg_ranks_started(void);

/* Sends rank 0's bytes to the other ranks, for example the name of a directory that rank 0 chose.  All
 * ranks call it.  Fails with QG_ESTATE: another rank has gone. */
QG_MUST_CHECK
qg_status qg_ranks_broadcast(void *data, size_t bytes);

/* Whether here is true on any rank.  All ranks must call it. */
bool      qg_ranks_any(bool here);

#endif
