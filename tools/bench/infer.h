/* tools/bench/infer.h — qgrad bench infer: the engine's kernels beside float convolutions, on one thread. */
#ifndef TOOLS_BENCH_INFER_H
#define TOOLS_BENCH_INFER_H

#include "cli/config/config.h"

int bench_infer(const config *asked);

#endif
