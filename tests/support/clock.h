/* tests/support/clock.h — a simulated clock that advances by one second per reading, so that code that depends on time
 * behaves the same on every machine.  For programs that the Makefile links with -Wl,--wrap=clock_gettime. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdbool.h>

extern bool clock_ticks;            /* false: the machine's own */

/* The n-th reading from now on sends this process a signal; 0: none. */
void clock_raises(int signal, long n);

/* Every n-th reading is an hour earlier than the one before it, as no clock of this kind should be; 0: none. */
void clock_turns_back(long n);

#endif
