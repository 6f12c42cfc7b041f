/* tests/support/inside.h — runs commands of the program in a forked child of the test, with the clock of
 * support/clock.h.  For test programs that the Makefile links with cli/ and with that clock. */
#ifndef INSIDE_H
#define INSIDE_H

#include <sys/types.h>

/* Like qgrad(line), for `train` or `bench`, with one second between two readings of the clock. */
int   qgrad_inside(const char *line);

/* The same, with a signal at the n-th reading of the clock. */
int   qgrad_signalled(const char *line, int signal, long reading);

/* The same, with a clock that turns back at every n-th reading. */
int   qgrad_turned_back(const char *line, long n);

/* In the background, until finish (support/program.h). */
pid_t start_inside(const char *line);

/* The same: returns when the child has read the clock that often; the child then pauses until SIGCONT. */
pid_t start_until(const char *line, long reading);

/* Resumes the run in root/name until it is complete, with that many readings of the clock per process, so some
 * processes end within an epoch. */
void  finish_in_sittings(const char *name, int readings);

#endif
