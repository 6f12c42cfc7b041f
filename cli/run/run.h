/* cli/run/run.h — a run directory: config.toml, metrics.csv, result.json, last.safetensors, best.safetensors. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/config/config.h"
#include "cli/run/metrics.h"

/* Where a run stands: everything in a checkpoint that neither the net nor the optimizer holds. */
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
    int        lock;                        /* the directory, locked; -1: not claimed */
    bool       created;                     /* by this process */
    config    *config;                      /* of the run, resolved; borrowed */
    char      *identity;                    /* the part of it that checkpoints hold, as text */
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

/* Make the directory of r->paths, if need be, and lock it against other processes.  An existing run is an
 * error with RUN_NEW and becomes dir.old or dir.old-2, .. with RUN_FORCE.
 * Fails with QG_EIO, QG_ESTATE (it holds a run; another process works in it), QG_EARG. */
QG_MUST_CHECK
qg_status run_claim(run *r, run_mode mode);

/* What the files of the run hold: r->net, which the caller has made and r owns (NULL: that failed), its
 * optimizer, and the run's own record. */
QG_MUST_CHECK
qg_status run_compose(run *r, config *c);

/* config.toml, metrics.csv without rows, and the checkpoint before the first step.  On failure they go
 * again unless a run that never began had left them, and the directory if run_claim made it.  Fails with
 * QG_ESTATE: the directory holds a run that has begun, and no checkpoint. */
QG_MUST_CHECK
qg_status run_create(run *r);

bool      run_has_checkpoint(const run *r);

/* Everything as last.safetensors has it; metrics.csv is read as far as the checkpoint goes, and
 * stays as it is until the run goes on.  A failure changes no file.  Fails as qg_state_load, and
 * with QG_EARG: it is of a run with another configuration. */
QG_MUST_CHECK
qg_status run_load(run *r);
QG_MUST_CHECK
qg_status run_check_best(const run *r);     /* best.safetensors, which nobody can make again, is there, of no earlier
                                               epoch and of this run */
QG_MUST_CHECK
qg_status run_keep_config(run *r, bool anew);   /* writes config.toml if it is missing, or anew */

/* The size of the run's images and how many classes they have, as f, RUN_LAST or RUN_BEST, notes it;
 * 0 classes if an older version wrote the file.  Fails as qg_archive_open. */
QG_MUST_CHECK
qg_status run_noted_size(const run *r, run_file f, qg_shape *image, int *classes);

/* For use, not to go on: the parameters, tracked arrays and record.steps of f, RUN_LAST or RUN_BEST. */
QG_MUST_CHECK
qg_status run_load_weights(run *r, run_file f);

/* A finished epoch: first what it adds, then result.json, then the checkpoint.  In that order any of
 * the writes may be the last one that succeeds. */
QG_MUST_CHECK qg_status run_add_epoch(run *r, metrics_row row, bool better);
QG_MUST_CHECK qg_status run_save(run *r);           /* the checkpoint */

/* What is locked is still what the path names: else another run may be there by now.  Before every write.
 * Fails with QG_ESTATE, QG_EIO. */
QG_MUST_CHECK qg_status run_check_place(const run *r);
QG_MUST_CHECK qg_status run_cut_metrics(run *r);    /* once, when a loaded run goes on */

void run_end(run *r);                       /* frees, the net too, and unlocks */

#endif
