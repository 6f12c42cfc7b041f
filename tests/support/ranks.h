/* tests/support/ranks.h — several ranks without MPI: processes that reach each other over sockets.  Messages under way arrive
 * at odd times, which are other ones on each rank and the same in each run but for the time the processes take. */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <stdint.h>

/* Runs work on so many ranks, each a process with so many threads, and fails the test unless all return the same; the
 * result is that.  A rank that exits otherwise fails the test, too. */
uint64_t run_ranks(int ranks, int threads, uint64_t (*work)(void *context), void *context);

#endif
