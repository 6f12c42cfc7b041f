/* cli/bench/bench.h — qgrad bench: what one benchmark has measured, and how it is told. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/config/config.h"
#include "core/profile.h"

typedef struct bench {
    config     asked, config;
    bool       forward;         /* bench eval: QG_EVAL, no loss, no backward, no update */
    recipe     recipe;
    qg_loader *data;
    qg_net    *net;
    qg_optim  *optim;           /* NULL: bench eval */
    qg_tape   *tape;
    qg_profile profile;
    double     batch, update;   /* seconds for gathering batches and for the optimizer */
    double     flops;           /* of the products, for one image */
    float     *ms;              /* of every measured step, in order of size */
    float     *peak;            /* multiply-adds in registers right behind each step, GFLOP/s, likewise */
    int        steps;
    uint64_t   taken;           /* steps, the warm-up's too */
    double     seconds;         /* of all measured steps */
    double     median;          /* ms */
    double     median_peak;     /* 0 with --profile, whose times a burst would disturb */
} bench;

/* For people, or with --json for programs; with --profile also op by op. */
void   bench_print(const bench *b);

/* What this machine can do: multiply-adds in registers, and a triad over main memory. */
int    bench_peak(const config *asked);

/* The first of the two for so many seconds or a millisecond, on all threads, in GFLOP/s.  On a machine
 * that others share it is the measure of what a step could have had at that moment. */
double bench_burst(double seconds);

#endif
