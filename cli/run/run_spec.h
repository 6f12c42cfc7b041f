/* cli/run/run_spec.h — a run that an option names, and its files (train/fit.h). */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "cli/config/config.h"
#include "core/io/paths.h"
#include "train/runs.h"

typedef enum run_file { RUN_CONFIG, RUN_METRICS, RUN_RESULT, RUN_LAST, RUN_BEST, RUN_WHITENING, RUN_FILES } run_file;

extern const char *const run_file_names[RUN_FILES];     /* "config.toml" */

typedef struct run_paths {
    char dir[QG__PATH_BYTES], file[RUN_FILES][QG__PATH_BYTES];
} run_paths;

/* Fails with QG_EARG: a path is too long, or dir is empty. */
QG_MUST_CHECK
qg_status run_paths_of(const char *dir, run_paths *p);

/* The directory that an option names, without slashes at the end.  Fails with QG_EARG: too long. */
QG_MUST_CHECK
qg_status run_directory(const char *key, const char *text, char dir[QG__PATH_BYTES]);

const char *run_file_name(const qg_run *r);             /* "last.safetensors" or "best.safetensors" */
void        run_digest(qg_run *r, char text[17]);       /* of its net, which is loaded */

bool        run_data_names_files(const char *data);     /* whether this --data names files itself, as arrays do */

/* "mnist" of "mnist:classes=0+1". */
const char *run_data_name(const char *data, char name[64]);

/* Opens the run that --run names, with the weights that --best chooses, and sets the threads: --threads, or as many as it was
 * trained with.  Fails with NULL, as qg_run_open. */
qg_run     *run_open(const config *asked);

#endif
