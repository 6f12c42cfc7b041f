/* tools/bench/bench.h — steps of a net that are measured. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "tools/bench/packed.h"
#include "cli/config/config.h"
#include "core/profile.h"
#include "core/dist/exchange.h"
#include "train/fit.h"

typedef struct bench {
    config    *asked;
    qg_recipe config;
    bool       forward;         /* bench eval: QG_EVAL, no loss, no backward, no update */
    bool       packed;          /* bench packed: forward in QG_TRAIN, then the engine */
    packed_speed engine;
    int        engine_batch;    /* of --batch; the loader's is SEEN_IMAGES or more */
    qg_recipe  recipe;         /* borrowed texts */
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
    float     *ms;              /* of every measured step, in order of size */
    float     *peak;            /* multiply-adds in registers right behind each step, GFLOP/s, likewise */
    int        steps;
    uint64_t   taken;           /* steps, the warm-up's too */
    double     seconds;         /* of all measured steps */
    double     median;          /* ms */
    double     median_peak;     /* 0 with --profile, whose times a burst would disturb */
    qg__traffic traffic;        /* with other ranks, in all measured steps */
    float     *exchange;        /* ms of every measured step spent on it, in order of size */
    double     median_exchange;
} bench;

/* Runs the benchmark that argv[1] names.  Returns the exit status. */
int       bench_main(int argc, char **argv);

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

/* Steps for b->asked->seconds, after a few that do not count.  It may be called again. */
QG_MUST_CHECK
qg_status bench_measure(bench *b);

double    bench_images_per_second(const bench *b);

/* Sorts n values and returns the one in the middle. */
double    bench_median(float *value, int n);

void      bench_free(bench *b);             /* all but asked and config */

/* Model, schemes and data, on stdout. */
void      bench_print_net(const bench *b);
void      bench_json_net(const bench *b, qg__json *j);

#endif
