/* tools/bench/scaling.h — qgrad bench scaling: training on 1, 2, 4 .. ranks. */
#ifndef TOOLS_BENCH_SCALING_H
#define TOOLS_BENCH_SCALING_H

#include "cli/config/config.h"

/* On several ranks: measures each number of them beside the model of docs/scaling.md.  On one rank with --link: projects from
 * what one process computes.  Returns the exit status. */
int bench_scaling(config *asked);

#endif
