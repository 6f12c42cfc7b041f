/* tests/support/heap.h — counts heap calls and makes them fail.
 *
 * For programs linked with -Wl,--wrap=malloc and so on (HEAP in the Makefile), in which every call from
 * qgrad's objects arrives here. */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>

extern long heap_calls;
extern long heap_denied;        /* the call that fails, counted as heap_calls; 0: none */
extern bool heap_denies_on;     /* and every call after it */

#endif
