/* cli/bench/infer.h — qgrad bench infer: the engine's kernels beside float convolutions, on one thread. */
#ifndef CLI_BENCH_INFER_H
#define CLI_BENCH_INFER_H

#include "cli/config/config.h"

int bench_infer(const config *asked);

#endif
