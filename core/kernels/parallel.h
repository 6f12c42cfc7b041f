/* core/kernels/parallel.h — the only threads in the tree.
 *
 * Work is cut into pieces whose shapes are fixed by the problem (one image, one column block, one
 * of QG_SLICES slices of the batch); threads only choose which of them they run.  A piece writes
 * what no other piece writes, and partial sums are added in index order, so results have the same
 * bits for any number of threads.
 */
#ifndef QG_PARALLEL_H
#define QG_PARALLEL_H

#include <stddef.h>

/* Slices of a batch for sums over it.  Eight keep two, four and eight threads evenly loaded. */
enum { QG_SLICES = 8 };

/* Runs one piece.  worker is 0 .. qg_threads()-1 and selects per-thread scratch, nothing else. */
typedef void (*qg_piece)(void *context, int piece, int worker);

/* Runs every piece once and returns when all have run.  A loop inside one of several pieces, or in a
 * second thread while another is in here, runs on its caller alone. */
void qg_parallel(int pieces, qg_piece run, void *context);

/* The same for pieces that call BLAS or LAPACK.  These run on one thread each: a second level of threads
 * would change where sums are cut.  Only the process as a whole has a number of OpenBLAS threads, so it is
 * 1 until the loop has ended, for other threads of the program too, and then what it was before. */
void qg_parallel_blas(int pieces, qg_piece run, void *context);

int  qg_threads(void);                 /* how many threads qg_parallel uses, the caller included */

/* At most QG_MOST_THREADS, and one per 256 MiB where address space is limited (RLIMIT_AS): OpenBLAS takes
 * half of that for each; n < 1: OMP_NUM_THREADS, else every core: as at first.  The number is the
 * process's.  A thread in the middle of a step has taken memory for the old one, so other threads than
 * the caller follow with their next qg_tape_begin. */
enum { QG_MOST_THREADS = 256 };
void qg_set_threads(int n);
void qg__threads_renew(void);          /* follow now: by qg_tape_begin */

/* Slice s of n items is [qg_slice(n, s), qg_slice(n, s + 1)). */
static inline int qg_slice(int n, int s) { return (int)((long long)n * s / QG_SLICES); }

#endif
