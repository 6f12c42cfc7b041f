/* core/io/grow.h — arrays that grow by one element at a time.  Internal. */
#ifndef QG_GROW_H
#define QG_GROW_H

#include <stddef.h>
#include <stdlib.h>

/* Room for one element more than the n of array: the array, perhaps moved, or NULL without memory; then the
 * old array is still valid.  The capacity is the smallest power of two that holds n, so it is not stored. */
static inline void *qg_grown(void *array, size_t n, size_t element_bytes)
{
    if (n & (n - 1)) return array;
    size_t bytes;
    if (__builtin_mul_overflow(n ? 2 * n : 1, element_bytes, &bytes)) return NULL;
    return realloc(array, bytes);
}

#endif
