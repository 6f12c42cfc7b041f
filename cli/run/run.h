/* cli/run/run.h — a run directory: config.toml, metrics.csv, result.json, last.safetensors, best.safetensors. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/config/config.h"
#include "cli/run/metrics.h"

/* The position of a run: everything in a checkpoint that belongs neither to the net nor to the optimizer. */
typedef struct run_record {
    uint64_t seed;                          /* the key of every random number of the run */
    uint64_t epoch, batch;                  /* finished epochs; steps taken in the current one */
    uint64_t steps;                         /* taken in all */
    uint64_t images, correct;               /* of the current epoch, so far */
    double   loss;                          /* summed over these images */
    uint64_t tested;                        /* images of the test split */
    double   train_loss, train_accuracy;    /* of the last finished epoch, */
    double   test_loss, test_accuracy;      /* means over images */
    uint64_t best_epoch;                    /* 1-based; 0: none yet */
    double   best_accuracy;
} run_record;

typedef enum run_file { RUN_CONFIG, RUN_METRICS, RUN_RESULT, RUN_LAST, RUN_BEST, RUN_FILES } run_file;

typedef struct run_paths {
    char dir[PATH_BYTES], file[RUN_FILES][PATH_BYTES];
} run_paths;

/* Fails with QG_EARG: a path is too long, or dir is empty. */
QG_MUST_CHECK
qg_status   run_paths_of(const char *dir, run_paths *p);
const char *run_file_name(run_file f);      /* "last.safetensors" */

typedef struct run {
    run_paths  paths;
    int        lock;                        /* the directory, locked; QG_BY_PATH: not claimed */
    bool       created;                     /* by this process */
    config    *config;                      /* of the run, resolved; borrowed */
    char      *identity;                    /* the part of it that checkpoints contain, as text */
    run_record record;
    code_stats     code_stats;
    learned_list learned;
    metrics    metrics;
    qg_state  *last, *best;
    qg_net    *net;
    qg_optim  *optim;
    qg_tape   *tape;
} run;

typedef enum run_mode { RUN_NEW, RUN_RESUME, RUN_FORCE } run_mode;

/* Creates the directory of r->paths if necessary and locks it against other processes.  An existing run is an error
 * with RUN_NEW; RUN_FORCE renames it to dir.old or dir.old-2, ..
 * Fails with QG_EIO, QG_EARG, and QG_ESTATE if it contains a run or another process is training in it. */
QG_MUST_CHECK
qg_status run_claim(run *r, run_mode mode);

/* Declares the contents of the run's files: r->net, which the caller made and r owns (NULL if that failed), its
 * optimizer, and the run's record. */
QG_MUST_CHECK
qg_status run_compose(run *r, config *c);

/* Writes config.toml, metrics.csv without rows, and the checkpoint before the first step.  A failure removes them
 * again, unless an earlier run that never began had left them, and the directory if run_claim made it.  Fails with
 * QG_ESTATE if the directory contains a run that has begun but has no checkpoint. */
QG_MUST_CHECK
qg_status run_create(run *r);

/* *has: the locked directory, or else paths.dir, contains f.  Fails with QG_EIO. */
QG_MUST_CHECK
qg_status run_has(const run *r, run_file f, bool *has);

/* Loads the run from last.safetensors and reads metrics.csv up to the checkpoint.  The files do not change until the
 * run continues.  Fails as qg_state_load, with QG_EFORMAT if a file is damaged or from an unknown version, and with
 * QG_EARG if the files belong to a run with another configuration. */
QG_MUST_CHECK
qg_status run_load(run *r);
QG_MUST_CHECK
qg_status run_check_best(const run *r);     /* Checks that best.safetensors, which cannot be regenerated, exists,
                                               belongs to this run and is not older than it should be */
QG_MUST_CHECK
qg_status run_keep_config(run *r, bool anew);   /* writes config.toml if it is missing; always if anew */

/* The image size and number of classes recorded in f, RUN_LAST or RUN_BEST; 0 classes if an older version wrote the
 * file.  Fails as qg_archive_open. */
QG_MUST_CHECK
qg_status run_noted_size(const run *r, run_file f, qg_shape *image, int *classes);

/* Loads the parameters, tracked arrays and record.steps of f, RUN_LAST or RUN_BEST, to use the net but not to continue
 * the run. */
QG_MUST_CHECK
qg_status run_load_weights(run *r, run_file f);

/* Saves a finished epoch: first metrics.csv and best.safetensors, then result.json, then the checkpoint.  In this order
 * any of the writes may be the last that succeeds. */
QG_MUST_CHECK qg_status run_add_epoch(run *r, metrics_row row, bool better);
QG_MUST_CHECK qg_status run_save(run *r);           /* the checkpoint */

/* Checks, before every write, that the path still names the locked directory, so that a run ends when its directory was
 * moved.  The files do not depend on this: all are in the locked directory, wherever it is.  Fails with QG_ESTATE,
 * QG_EIO. */
QG_MUST_CHECK qg_status run_check_place(const run *r);
QG_MUST_CHECK qg_status run_cut_metrics(run *r);    /* once, when a loaded run continues */

void run_end(run *r);                       /* frees everything, including the net, and unlocks */

#endif
