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
    size_t n = strlen(text);
    while (n > 1 && text[n - 1] == '/') n--;
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
    const char *threads = r ? qg_run_get(r, "threads") : NULL;
    if (r) qg_set_threads(config_text(asked, "threads") ? config_integer(asked, "threads") : threads ? atoi(threads) : 0);
    return r;
}

static void note(run_export *e, const char *key, const char *value)
{
    if (value) e->note[e->spec.notes++] = (qg_note){ key, value };
}

/* As --data takes it; without the paths of files. */
static const char *data_note(const char *data) { return run_data_names_files(data) ? "arrays" : data; }

qg_status run_export_of(qg_run *r, run_export *e)
{
    *e = (run_export){ .spec = { .note = e->note } };
    const qg_status status = qg_run_predict(r, 0, NULL, NULL);
    if (status) return status;
    if (qg_preprocess_numbers(qg_run_preprocess(r), &e->spec.numbers, &e->spec.mean, &e->spec.deviation))
        return qg_fail(QG_EARG, "%s: an exported net cannot express how its images are normalised: %s", qg_run_directory(r), qg_errmsg());
    run_digest(r, e->digest);
    note(e, "model", qg_run_get(r, "model"));
    if (!qg_run_config(r)) note(e, "data", data_note(qg_run_get(r, "data")));
    note(e, "class-names", qg_run_note(r, "class-names"));
    note(e, "digest", e->digest);
    note(e, "file", run_file_name(r));
    e->spec.step = qg_run_steps(r);
    return QG_OK;
}
