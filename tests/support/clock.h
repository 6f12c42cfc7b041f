/* tests/support/clock.h — a clock that the test owns: it goes on by a second whenever it is read, so that what
 * depends on time does the same on every machine.  For programs that the Makefile links with
 * -Wl,--wrap=clock_gettime. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>

extern bool clock_ticks;            /* false: the machine's own */

/* The n-th reading from now on sends this process a signal; 0: none does. */
void clock_raises(int signal, long n);

#endif
