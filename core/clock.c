#include "core/clock.h"

#include <sys/resource.h>
#include <time.h>

/* The system's clock should never go back, but that of a virtual machine that moved, or one that
 * another library replaces, may do so.  Time then continues from where it was: durations are not
 * negative, and a budget ends. */
static _Thread_local double last, lost;

double qg__now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (now + lost < last) lost = last - now;
    last = now + lost;
    return last;
}

size_t qg__peak_rss_bytes(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u)) return 0;
#ifdef __APPLE__
    return (size_t)u.ru_maxrss;
#else
    return (size_t)u.ru_maxrss * 1024;
#endif
}
