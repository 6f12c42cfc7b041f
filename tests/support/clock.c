#include "tests/support/clock.h"

#include <signal.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

bool clock_ticks;

static int    raised;
static long   raised_at, readings;
static time_t now = 1000000;
static long   turn;

void clock_turns_back(long n) { turn = n; }

void clock_raises(int signal, long n)
{
    raised    = signal;
    raised_at = n;
    readings  = 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (++readings == raised_at) raise(raised);
    if (!clock_ticks) return __real_clock_gettime(clock, t);
    now += turn && readings % turn == 0 ? -3600 : 1;
    *t = (struct timespec){ .tv_sec = now };
    return 0;
}
