/* cli/run/files.h — the files of a run (train/fit.h). */
#ifndef CLI_RUN_FILES_H
#define CLI_RUN_FILES_H

#include "core/io/paths.h"

typedef enum run_file { RUN_CONFIG, RUN_METRICS, RUN_RESULT, RUN_LAST, RUN_BEST, RUN_WHITENING, RUN_FILES } run_file;

extern const char *const run_file_names[RUN_FILES];     /* "config.toml" */

typedef struct run_paths {
    char dir[QG__PATH_BYTES], file[RUN_FILES][QG__PATH_BYTES];
} run_paths;

/* Fails with QG_EARG: a path is too long, or dir is empty. */
QG_MUST_CHECK
qg_status run_paths_of(const char *dir, run_paths *p);

#endif
