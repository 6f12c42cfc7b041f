/* tools/bench/bench.h — the benchmarks, and what they share: steps of a net that are measured. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "cli/config/config.h"
#include "cli/run/packed.h"
#include "core/profile.h"
#include "core/dist/exchange.h"
#include "train/recipe_keys.h"

/* A net in the engine. */
typedef struct packed_speed {
    double images_per_second;
    double median_us, p99_us;       /* of a call */
    int    calls;
    packed_net net;
    double *step_us;                /* of one image, in the fastest call; NULL without profile */
} packed_speed;                     /* {0} is empty */

typedef struct bench {
    config    *asked;
    const qg_recipe *config;    /* what asked describes */
    bool       forward;         /* bench eval: QG_EVAL, no loss, no backward, no update */
    bool       packed;          /* bench packed: forward in QG_TRAIN, then the engine */
    packed_speed engine;
    int        engine_batch;    /* of --batch; the loader's is SEEN_IMAGES or more */
    qg_recipe  recipe;          /* the same, as it is measured; borrowed texts */
    qg_fit_spec spec;
    qg_loader *data;
    qg_net    *net;
    qg_optim  *optim;           /* NULL: bench eval */
    qg_tape   *tape;
    qg_shape   image;
    qg_profile profile;
    double     backward_done;   /* when the last backward pass ended */
    double     batch, update;   /* seconds for gathering batches and for the optimizer */
    double     flops;           /* of the products, for one image */
    double    *ms;              /* of every measured step, in order of size */
    double    *peak;            /* multiply-adds in registers right behind each step, GFLOP/s, likewise */
    int        steps;
    uint64_t   taken;           /* steps, the warm-up's too */
    double     seconds;         /* of all measured steps */
    double     median;          /* ms */
    double     median_peak;     /* 0 with --profile, whose times a burst would disturb */
    qg__traffic traffic;        /* with other ranks, in all measured steps */
    double    *exchange;        /* ms of every measured step spent on it, in order of size */
    double     median_exchange;
} bench;

/* Runs the benchmark that argv[1] names.  Returns the exit status, as the benchmarks with a file of their own do. */
int       bench_main(int argc, char **argv);

/* bench scaling: measures each number of ranks beside the model of docs/scaling.md; on one rank with --link, projects from what one
 * process computes.  bench peak: multiply-adds, and a triad over main memory, for every number of threads.  bench memory: the bandwidth
 * of depthwise convolutions, x read once and y written once, in turns with the triad.  bench infer: the engine's kernels beside float
 * convolutions, on one thread. */
int       bench_scaling(config *asked);
int       bench_peak(config *asked);
int       bench_memory(config *asked);
int       bench_infer(config *asked);

/* Multiply-adds in registers for so many seconds or a millisecond, on all threads, in GFLOP/s.  On a machine that others share it is the
 * measure of what a step could have had at that moment. */
double    bench_burst(double seconds);

/* Without --data and --image: mnist if it is there, else noise.  Sets asked's data. */
QG_MUST_CHECK
qg_status bench_choose_data(config *asked);

/* The loader, net, optimizer and tape of b->recipe. */
QG_MUST_CHECK
qg_status bench_build(bench *b);

/* The next batch of full size. */
QG_MUST_CHECK
qg_status bench_next(bench *b, qg_batch *batch);

/* One step of training, or forward. */
QG_MUST_CHECK
qg_status bench_step(bench *b);

/* Steps for config_number(b->asked, "seconds"), after a few that do not count.  It may be called again. */
QG_MUST_CHECK
qg_status bench_measure(bench *b);

double    bench_images_per_second(const bench *b);

/* Sorts n values and returns the one in the middle. */
double    bench_median(double *value, int n);

void      bench_free(bench *b);             /* all but asked and config */

/* Model, schemes and data, on stdout. */
void      bench_print_net(const bench *b);
void      bench_json_net(const bench *b, qg__json *j);

/* Packs the net, with the weights that it has, and runs it on images [batch][h][w][c] on qg_threads() threads for so many seconds.
 * A call is one batch, of which each thread has an equal part; where the batch is smaller than the number of threads, each runs
 * batches of its own, and images_per_second counts those of all.  Fails as qg_export, and with QG_EMEM.
 * packed_speed_free, also after a failure. */
QG_MUST_CHECK
qg_status packed_speed_measure(const qg_net *net, int batch, const float *images, double seconds, bool profile, packed_speed *s);
void      packed_speed_free(packed_speed *s);
void      packed_speed_print(const packed_speed *s);
void      packed_speed_json(const packed_speed *s, qg__json *j);

#endif
