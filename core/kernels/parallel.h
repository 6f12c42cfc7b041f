/* core/kernels/parallel.h — the library's threads.
 *
 * Work is cut into pieces whose shapes depend only on the problem: one image, one block of columns, one
 * of QG_SLICES slices of the batch.  Threads only choose which pieces they run.  A piece writes what no
 * other piece writes, and partial sums are added in index order, so results have the same bits for any
 * number of threads.
 */
#ifndef QG_PARALLEL_H
#define QG_PARALLEL_H

#include <stddef.h>

#include "core/status.h"

/* Slices of a batch for sums over it (core/slices.h).  Sixteen keep up to sixteen threads or ranks evenly loaded. */
enum { QG_SLICES = 16 };

/* Runs one piece.  worker is 0 .. qg_threads()-1; it selects per-thread scratch and nothing else. */
typedef void (*qg_piece)(void *context, int piece, int worker);

/* Runs every piece once and returns when all have run.  A loop uses only the calling thread if it
 * is nested in a piece, or if another thread is in qg_parallel at that time.  If the system starts
 * fewer threads than qg_threads() (RLIMIT_NPROC, memory), the loop uses those.  A process may fork
 * at any time; the child starts its own threads. */
void qg_parallel(int pieces, qg_piece run, void *context);

/* The same for pieces that call BLAS or LAPACK.  Each of their products uses one thread, since more would
 * change where its sums are cut.  OpenBLAS has one number of threads for the whole process: until the loop
 * ends it is 1 for the program's other threads too, then its former value is restored.
 *
 * OpenBLAS needs a buffer of 128 MiB of address space for each thread that multiplies, and retries forever if it gets
 * none.  So the buffers are reserved before the loop, which runs on fewer threads if there is room for fewer.
 *
 * OpenBLAS starts threads of its own when it is loaded.  If it cannot, because RLIMIT_NPROC, RLIMIT_AS or RLIMIT_DATA
 * is too small, it ends the process with SIGINT or retries forever, before main begins.  qgrad does not use these
 * threads.  A program that must run under such limits needs OPENBLAS_NUM_THREADS=1 in its environment when it is
 * started; build/qgrad restarts itself with it (cli/main.c).
 *
 * Fails with QG_EMEM if there is no room for a buffer.  Then no piece has run. */
QG_MUST_CHECK
qg_status qg_parallel_blas(int pieces, qg_piece run, void *context);

/* How many threads qg_parallel uses, the caller included.
 *
 * qg_set_threads sets the number for the process; n < 1 restores the default, OMP_NUM_THREADS or else every
 * core.  It is limited to QG_MAX_THREADS, and to one thread per 256 MiB where address space is limited
 * (RLIMIT_AS), of which OpenBLAS takes half.  The change reaches the calling thread at once and other
 * threads at their next qg_tape_begin, because a step takes scratch memory for the old number. */
enum { QG_MAX_THREADS = 256 };
int  qg_threads(void);
void qg_set_threads(int n);
void qg__threads_renew(void);          /* qg_tape_begin: adopt the process's number now */

/* Slice s of n items is [qg_slice_at(n, s), qg_slice_at(n, s + 1)). */
static inline int qg_slice_at(int n, int s) { return (int)((long long)n * s / QG_SLICES); }

/* Elementwise work is cut into blocks.  Block b of n elements is [qg_block(n, b), qg_block(n, b + 1)), b from 0 to
 * qg_blocks(n) - 1.  A block is 64 KiB of floats: three operands stay in the second-level cache of a core, and
 * the work outweighs waking a thread.  A tensor of one block runs on the calling thread. */
enum { QG_BLOCK = 16384 };

static inline int qg_blocks(size_t n) { return (int)((n + QG_BLOCK - 1) / QG_BLOCK); }

static inline size_t qg_block(size_t n, int b)
{
    const size_t at = (size_t)b * QG_BLOCK;
    return at < n ? at : n;
}

#endif
