/* tools/bench/peak.h — what this machine can do: multiply-adds in registers, and a triad over main memory. */
#ifndef TOOLS_BENCH_PEAK_H
#define TOOLS_BENCH_PEAK_H

#include "cli/config/config.h"

/* qgrad bench peak: both, for every number of threads. */
int    bench_peak(const config *asked);

/* qgrad bench memory: the bandwidth of depthwise convolutions, x read once and y written once, in turns with that of the triad. */
int    bench_memory(const config *asked);

/* The multiply-adds for so many seconds or a millisecond, on all threads, in GFLOP/s.  On a machine that
 * others share it is the measure of what a step could have had at that moment. */
double bench_burst(double seconds);

#endif
