/* core/clock.h — the time.  Internal. */
#ifndef QG_CLOCK_H
#define QG_CLOCK_H

#include <time.h>

/* Seconds of a clock that only goes forward. */
static inline double qg__now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
