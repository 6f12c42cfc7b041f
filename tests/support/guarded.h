/* tests/support/guarded.h — arrays for kernels that notice what is written beside them. */
#ifndef GUARDED_H
#define GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* n floats between NaNs; they are NaN, too, at first. */
typedef struct guarded {
    float *block, *at;
    size_t n, behind;
} guarded;

guarded guard(size_t n);                    /* as a user's array: one float off a vector's alignment */
guarded aligned(size_t n);                  /* on a line of the cache */

/* Uniform in -1..1, or whole numbers in -4..4.  What kernels only read ends with its block: a read past the end is seen by
 * ASan and valgrind. */
guarded values(size_t n, uint64_t key, bool whole);

void    zero(guarded a);
void    release(guarded a);                 /* and checks that the guards are still NaN */

#endif
