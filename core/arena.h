/* core/arena.h — memory that is taken piece by piece and given back all at once.
 *
 * A chain of blocks with a bump pointer.  Growth appends a block, so addresses never move.  Rewind keeps the
 * blocks, so a second step, which asks for the same sizes in the same order, makes no heap call.
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

void *qg__arena_take(qg_arena *a, size_t bytes);   /* 64-byte aligned, not zeroed; or NULL */
char *qg__arena_text(qg_arena *a, const char *s);  /* a copy of s; or NULL */
void  qg__arena_rewind(qg_arena *a);               /* to the start */
void  qg__arena_merge(qg_arena *a);                /* to the start; replace a chain by one block, as large as the
                                                      most that was ever in use */
void  qg__arena_settle(qg_arena *a);               /* to the start; merge if the blocks hold more than twice what
                                                      was ever in use, because many were too small */
void  qg__arena_release(qg_arena *a);              /* every block goes back to the heap */

#endif
