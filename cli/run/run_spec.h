/* cli/run/run_spec.h — what a configuration means for qg_fit. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "cli/config/config.h"
#include "train/run.h"

/* fit points into the rest, so it cannot be copied. */
typedef struct run_spec {
    qg_fit_spec fit;
    char       *identity, *file;            /* the configuration in checkpoints, and as config.toml */
    qg_note     about[5];
} run_spec;

/* Sets everything that c decides, without directory, images, optimizer and events.  c must outlive *s.  Fails with
 * QG_EMEM. */
QG_MUST_CHECK
qg_status run_spec_begin(run_spec *s, config *c);
void      run_spec_end(run_spec *s);

/* Finds the run that --run names: a directory, or a checkpoint that stands alone.
 *
 * p, *f    its files, and which of them has the weights: QG__RUN_LAST or, if best, QG__RUN_BEST; of a single file, itself
 * c        its configuration: config.toml or, without one, what the checkpoint notes
 *
 * Fails with QG_EARG, QG_EIO, QG_EFORMAT, as config_of_run. */
QG_MUST_CHECK
qg_status run_find(const char *name, bool best, qg__run_paths *p, qg__run_file *f, config *c);

#endif
