/* qgrad-bench BENCHMARK .., which `qgrad bench` runs. */
#include "cli/start.h"
#include "tools/bench/bench.h"

int main(int argc, char **argv) { return program_run("qgrad-bench", argc, argv, bench_main); }
