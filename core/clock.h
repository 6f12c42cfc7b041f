/* core/clock.h — the time and the memory of the process.  Internal. */
#ifndef QG_CLOCK_H
#define QG_CLOCK_H

#include <stddef.h>

/* Seconds of a clock that only goes forward.  Only readings of one thread belong together. */
double qg__now(void);

/* The most bytes of memory that the process has had so far; 0: the system cannot tell. */
size_t qg__peak_rss_bytes(void);

#endif
