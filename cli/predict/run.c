/* The scores of a run's weights. */
#include <stdlib.h>
#include <string.h>

#include "cli/predict/scorer.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "train/result.h"

typedef struct run_scorer {
    qg_recipe      config;
    used_run       used;
    qg_preprocess *as;
    float         *x;           /* [scorer_most][h][w][c] */
    qg_shape       image;
} run_scorer;

static qg_status score(void *from, int n, const uint8_t *bytes, float *scores)
{
    run_scorer    *r   = from;
    const qg__run *run = &r->used.run;
    const uint64_t key = qg_rng_fork(r->config.seed, QG_STREAM_TAPE);
    const size_t   row = qg_row(r->image);
    qg_status      status = QG_OK;
    for (size_t i = 0; i < (size_t)n && !status; i++) status = qg_preprocess_bytes(r->as, bytes + i * row, r->x + i * row);
    if (status) return status;
    qg_tape_begin(run->tape, QG_EVAL, key, run->record.steps);
    const qg_shape shape = { n, r->image.h, r->image.w, r->image.c };
    const qg_var  *y     = qg_net_forward(r->used.net, run->tape, (qg_tensor){ shape, r->x });
    if (!y) return qg_tape_status(run->tape);
    memcpy(scores, y->data, qg_count(y->shape) * sizeof *scores);
    return QG_OK;
}

static void describe(const void *from, qg__json *j)
{
    const run_scorer *r = from;
    char              digest[17];
    qg__digest(r->used.net, digest);
    qg__json_path(j, "run", r->used.run.paths.dir);
    qg__json_text(j, "file", qg__run_file_name(r->used.file));
    qg__json_text(j, "model", qg__recipe_value(&r->config, "model"));
    qg__json_text(j, "weight", qg__recipe_value(&r->config, "weight"));
    qg__json_text(j, "digest", digest);
}

static void end(void *from)
{
    run_scorer *r = from;
    if (!r) return;
    used_run_end(&r->used);
    qg_preprocess_free(r->as);
    qg__recipe_clear(&r->config);
    free(r->x);
    free(r);
}

static qg_status open_run(run_scorer *r, const config *asked, int *classes)
{
    qg_status   status = used_run_find(&r->used, asked->run, asked->best, &r->config);
    const char *path   = r->used.run.paths.file[r->used.file];
    if (status) return status;
    qg_set_threads(config_text(asked, "threads") ? asked->recipe.threads : r->config.threads);
    r->as = qg_preprocess_open(path);
    if (!r->as) return qg_errcode();
    r->image = qg_preprocess_shape(r->as);
    status   = qg__run_noted_size(&r->used.run, r->used.file, &(qg_shape){ 0 }, classes);
    if (!status && !*classes) status = qg_fail(QG_ESTATE, "%s: it does not say how many classes its net has", path);
    if (!status) status = used_run_load(&r->used, &r->config, &r->config, r->image, *classes);
    r->x = malloc((size_t)scorer_most(r->image) * qg_row(r->image) * sizeof *r->x);
    return status || r->x ? status : qg_fail(QG_EMEM, "out of memory for %d images", scorer_most(r->image));
}

qg_status scorer_of_run(scorer *s, const config *asked)
{
    int         classes = 0;
    run_scorer *r       = calloc(1, sizeof *r);
    if (!r) return qg_fail(QG_EMEM, "out of memory for a run");
    r->used = (used_run)NO_RUN;
    *s      = (scorer){ .from = r, .score = score, .describe = describe, .end = end };
    const qg_status status = open_run(r, asked, &classes);
    s->image               = r->image;
    return status ? status
                  : class_names_of(&s->classes, r->used.run.paths.file[r->used.file], r->config.data.name, classes);
}
