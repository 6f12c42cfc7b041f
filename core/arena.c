#include "core/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"

/* One cache line, and one AVX-512 register. */
enum { ALIGN = 64, BLOCK_BYTES = 1 << 20 };

struct qg_arena_block {
    qg_arena_block *next;
    size_t          size, at;      /* bytes of payload; bytes of it in use */
    unsigned char  *payload;
};

static qg_arena_block *block_new(qg_arena *a, size_t size)
{
    if (size < BLOCK_BYTES) size = BLOCK_BYTES;
    const size_t head = (sizeof(qg_arena_block) + ALIGN - 1) / ALIGN * ALIGN;
    if (size > SIZE_MAX - head) return NULL;
    qg_arena_block *b = aligned_alloc(ALIGN, head + size);
    if (!b) return NULL;
    *b = (qg_arena_block){ .size = size, .payload = (unsigned char *)b + head };
    a->reserved += size;
    return b;
}

/* The blocks after the current one are empty.  The first that is large enough serves the request; if none is, a new
 * block is appended. */
static qg_arena_block *block_for(qg_arena *a, size_t bytes)
{
    qg_arena_block *last = a->current;
    for (qg_arena_block *b = last ? last->next : a->first; b; last = b, b = b->next)
        if (b->size >= bytes) return b;
    qg_arena_block *b = block_new(a, bytes);
    if (!b) return NULL;
    if (last) last->next = b;
    else a->first = b;
    return b;
}

void *qg__arena_take(qg_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) goto failed;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    qg_arena_block *b = a->current;
    if (!b || b->size - b->at < bytes) {
        b = block_for(a, bytes);
        if (!b) goto failed;
        a->current = b;
    }
    void *p = b->payload + b->at;
    b->at += bytes;
    a->used += bytes;
    if (a->used > a->peak) a->peak = a->used;
    return p;
failed:
    qg_fail(QG_EMEM, "out of memory: %zu bytes more than the %zu in use", bytes, a->used);
    return NULL;
}

char *qg__arena_text(qg_arena *a, const char *s)
{
    const size_t n = strlen(s) + 1;
    char        *p = qg__arena_take(a, n);
    return p ? memcpy(p, s, n) : NULL;
}

void qg__arena_rewind(qg_arena *a)
{
    for (qg_arena_block *b = a->first; b; b = b->next) b->at = 0;
    a->current = NULL;
    a->used    = 0;
}

void qg__arena_merge(qg_arena *a)
{
    qg__arena_rewind(a);
    if (!a->first || !a->first->next) return;
    const size_t peak = a->peak;
    qg__arena_release(a);
    a->peak  = peak;
    a->first = block_new(a, peak);
}

void qg__arena_settle(qg_arena *a)
{
    if (a->reserved / 2 > a->peak) qg__arena_merge(a);
    else qg__arena_rewind(a);
}

void qg__arena_release(qg_arena *a)
{
    for (qg_arena_block *b = a->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (qg_arena){ 0 };
}
