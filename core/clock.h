/* core/clock.h — the time.  Internal. */
#ifndef QG_CLOCK_H
#define QG_CLOCK_H

/* Seconds of a clock that only goes forward.  Only readings of one thread belong together. */
double qg__now(void);

#endif
