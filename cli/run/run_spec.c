#include "cli/run/run_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"

const char *const run_file_names[RUN_FILES] = { "config.toml",       "metrics.csv",      "result.json",
                                                "last.safetensors", "best.safetensors", "whitening.safetensors" };

qg_status run_paths_of(const char *dir, run_paths *p)
{
    qg_status status = QG_OK;
    for (int i = 0; i < RUN_FILES && !status; i++) status = qg__path_join(dir, run_file_names[i], p->file[i]);
    if (!status) strcpy(p->dir, dir);
    return status;
}

qg_status run_directory(const char *key, const char *text, char dir[QG__PATH_BYTES])
{
    const size_t n = qg__path_length(text);
    if (n >= QG__PATH_BYTES) return qg_fail(QG_EARG, "%s: the path is too long", key);
    snprintf(dir, QG__PATH_BYTES, "%.*s", (int)n, text);
    return QG_OK;
}

const char *run_file_name(const qg_run *r)
{
    const char *kind = qg_run_note(r, "kind");
    return run_file_names[kind && !strcmp(kind, "weights") ? RUN_BEST : RUN_LAST];
}

bool run_data_names_files(const char *data) { return !strncmp(data, "arrays", 6) && (!data[6] || data[6] == ':'); }

void run_digest(qg_run *r, char text[17])
{
    snprintf(text, 17, "%016" PRIx64, qg_params_digest(qg_net_params(qg_run_net(r))));
}

const char *run_data_name(const char *data, char name[64])
{
    snprintf(name, 64, "%.*s", (int)strcspn(data, ":"), data);
    return name;
}

qg_run *run_open(const config *asked)
{
    if (!config_text(asked, "run")) {
        qg_fail(QG_EARG, "--run is missing: the directory of a run, or a checkpoint");
        return NULL;
    }
    qg_run     *r       = qg_run_open(config_text(asked, "run"), config_flag(asked, "best") ? QG_RUN_BEST : QG_RUN_LAST);
    if (r && config_flag(asked, "best") && strcmp(run_file_name(r), run_file_names[RUN_BEST])) {
        qg_fail(QG_EARG, "--best: %s is another checkpoint; name the directory of the run",
                config_text(asked, "run"));
        qg_run_close(r);
        return NULL;
    }
    const char *threads = r ? qg_run_get(r, "threads") : NULL;
    if (r) qg_set_threads(config_text(asked, "threads") ? config_integer(asked, "threads") : threads ? atoi(threads) : 0);
    return r;
}
