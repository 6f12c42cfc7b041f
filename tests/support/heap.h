/* tests/support/heap.h — counts calls of the heap, and denies them.
 *
 * For programs linked with -Wl,--wrap=malloc and so on (HEAP in the Makefile), in which every call from our
 * objects arrives here. */
#ifndef HEAP_H
#define HEAP_H

#include <stdbool.h>

extern long heap_calls;
extern long heap_denied;        /* the call that gets no memory, as heap_calls counts; 0: none */
extern bool heap_denies_on;     /* and every call after it */

#endif
