/* core/arena.h — memory that is taken piece by piece and given back all at once.
 *
 * A chain of blocks with a bump pointer.  Growth appends a block, so addresses never move; rewind
 * keeps the blocks, so the second step, which asks for the same sizes in the same order, finds
 * them and never reaches the heap.
 */
#ifndef QG_ARENA_H
#define QG_ARENA_H

#include <stddef.h>

typedef struct qg_arena_block qg_arena_block;

typedef struct qg_arena {
    qg_arena_block *first, *current;
    size_t          used, peak;    /* bytes handed out since the last rewind; the most ever */
    size_t          reserved;      /* bytes of all blocks */
} qg_arena;                        /* {0} is an empty arena */

void *qg_arena_take(qg_arena *a, size_t bytes);   /* 64-byte aligned, not zeroed; or NULL */
char *qg_arena_text(qg_arena *a, const char *s);  /* a copy of s; or NULL */
void  qg_arena_rewind(qg_arena *a);               /* to the start */
void  qg_arena_merge(qg_arena *a);                /* and what was a chain is one block, as large as the most
                                                     that was in use */
void  qg_arena_settle(qg_arena *a);               /* to the start; merged where blocks that were too small
                                                     have come to hold as much again as was ever in use */
void  qg_arena_release(qg_arena *a);              /* every block goes back to the heap */

#endif
