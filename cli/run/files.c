#include "cli/run/files.h"

#include <string.h>

const char *const run_file_names[RUN_FILES] = { "config.toml",       "metrics.csv",      "result.json",
                                                "last.safetensors", "best.safetensors", "whitening.safetensors" };

qg_status run_paths_of(const char *dir, run_paths *p)
{
    qg_status status = QG_OK;
    for (int i = 0; i < RUN_FILES && !status; i++) status = qg__path_join(dir, run_file_names[i], p->file[i]);
    if (!status) strcpy(p->dir, dir);
    return status;
}
