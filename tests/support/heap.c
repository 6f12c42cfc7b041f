#include "tests/support/heap.h"

#include <stddef.h>

long heap_calls, heap_denied;
bool heap_denies_on;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int   __real_posix_memalign(void **p, size_t align, size_t bytes);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int   __wrap_posix_memalign(void **p, size_t align, size_t bytes);
char *__wrap_strdup(const char *s);

static bool denied(void)
{
    heap_calls++;
    return heap_denied && (heap_denies_on ? heap_calls >= heap_denied : heap_calls == heap_denied);
}

void *__wrap_malloc(size_t bytes)           { return denied() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t n, size_t bytes) { return denied() ? NULL : __real_calloc(n, bytes); }
void *__wrap_realloc(void *p, size_t bytes) { return denied() ? NULL : __real_realloc(p, bytes); }
char *__wrap_strdup(const char *s)          { return denied() ? NULL : __real_strdup(s); }

void *__wrap_aligned_alloc(size_t align, size_t bytes) { return denied() ? NULL : __real_aligned_alloc(align, bytes); }

int __wrap_posix_memalign(void **p, size_t align, size_t bytes)
{
    enum { NO_MEMORY = 12 };
    return denied() ? NO_MEMORY : __real_posix_memalign(p, align, bytes);
}
