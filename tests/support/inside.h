/* tests/support/inside.h — verbs of the program in a child of the test itself, by the clock of support/clock.h.  For
 * test programs that the Makefile links with cli/ and with that clock. */
#ifndef INSIDE_H
#define INSIDE_H

#include <sys/types.h>

/* As qgrad(line), of `train` or `bench`, with a second between any two readings of the clock. */
int   qgrad_inside(const char *line);

/* The same; at its n-th reading of the clock it gets a signal. */
int   qgrad_signalled(const char *line, int signal, long reading);

/* In the background; returns when it has read the clock so often, and stands still until SIGCONT. */
pid_t start_until(const char *line, long reading);

/* Goes on with the run in root/name until it is complete, so many readings of the clock each time: some processes end
 * inside an epoch. */
void  finish_in_sittings(const char *name, int readings);

#endif
