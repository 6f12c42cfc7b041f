#include "train/made.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "train/result.h"

qg__made qg__made_begin(void) { return (qg__made){ .began = qg__now(), .run = { .lock = QG_BY_PATH } }; }

/* The run before its first step: compare train/fit.c. */
static qg_status begin(qg__made *m)
{
    qg_fit_spec *s      = &m->spec;
    qg_status    status = qg__recipe_spec(&m->recipe, s);
    m->optim            = qg__recipe_optim(&m->recipe, qg_net_params(m->net));
    if (status || !m->optim) return status ? status : QG_EMEM;
    s->mode       = QG_FIT_RESUME;
    s->train      = m->train;
    s->test       = m->test;
    s->validation = m->train ? qg_loader_validation(m->train) : NULL;
    s->optim      = m->optim;
    return qg__run_compose(&m->run, m->net, s);
}

static qg_status measure_on(qg__made *m, qg_loader *images, qg__measured *to)
{
    bool stopped;
    if (!images) return QG_OK;
    return qg__measure(&m->spec, images, m->net, m->run.tape, m->run.record.steps, NULL, to, &stopped);
}

/* The record has the results of the images that choose. */
static qg_status measure(qg__made *m)
{
    qg__run_record *at     = &m->run.record;
    qg_status       status = measure_on(m, m->test, &m->measured);
    if (!status) status = measure_on(m, m->spec.validation, &m->validated);
    if (status) return status;
    const qg__measured *by = m->spec.validation ? &m->validated : &m->measured;
    at->tested             = by->images;
    at->test_loss          = by->loss;
    at->test_accuracy = at->best_accuracy = by->accuracy;
    return QG_OK;
}

static qg_status write_result(const qg__made *m)
{
    const bool    whole    = m->recipe.epochs == 0;
    const double  accuracy = m->test ? m->measured.accuracy : NAN;
    qg_fit_result r = { .test_accuracy = accuracy,
                        .best_test_accuracy = accuracy,
                        .test_accuracy_stderr =
                            m->test ? qg_proportion_error(accuracy, m->measured.images) : NAN,
                        .test_images = m->measured.images,
                        .train_loss = NAN,
                        .seconds = qg__now() - m->began,
                        .seed = m->recipe.seed,
                        .threads = (uint64_t)qg_threads(),
                        .validation_accuracy = m->validated.accuracy,
                        .best_validation_accuracy = m->validated.accuracy,
                        .validation_images = m->validated.images,
                        .arithmetic = qg__arithmetic(m->net),
                        .complete = whole,
                        .ended = whole ? QG_FIT_OVER : QG_FIT_STOPPED };
    qg__result_join(r.cpu_path, "", qg_cpu_path());
    qg__result_join(r.commit, "", qg_commit());
    qg__digest(m->net, r.digest);
    return qg__result_save(&r, &m->spec, m->net, m->run.lock, m->run.paths.file[QG__RUN_RESULT]);
}

static void remove_files(const qg__run *r)
{
    for (qg__run_file f = 0; f < QG__RUN_FILES; f++) qg__file_remove_in(r->lock, r->paths.file[f]);
}

/* result.json is written last, so a run that has it is someone's. */
static qg_status check_part(const qg__run *r)
{
    bool            has;
    const qg_status status = qg__run_has(r, QG__RUN_RESULT, &has);
    if (status || !has) return status;
    return qg_fail(QG_ESTATE, "%s, where the files are prepared, already contains a run; rename it", r->paths.dir);
}

static qg_status write_files(qg__made *m)
{
    remove_files(&m->run);      /* of a process that was killed */
    qg_status status = qg__run_create(&m->run);
    if (!status) status = qg__run_save_best(&m->run);
    return status ? status : write_result(m);
}

qg_status qg__made_check_dir(const char *dir)
{
    bool exists;
    if (!dir || !*dir) return qg_fail(QG_EARG, "the path of a directory is %s", dir ? "empty" : "NULL");
    const qg_status status = qg__file_exists_in(QG_BY_PATH, dir, &exists);
    return status || !exists ? status : qg_fail(QG_ESTATE, "%s already exists", dir);
}

qg_status qg__made_write(qg__made *m, const char *dir)
{
    char      part[QG__PATH_BYTES], why[512];
    qg_status status = begin(m);
    if (!status) status = measure(m);
    if (!status && snprintf(part, sizeof part, "%.*s.part", (int)qg__path_length(dir), dir) >= QG__PATH_BYTES)
        status = qg_fail(QG_EARG, "out: the path is too long");
    if (!status) status = qg__run_paths_of(part, &m->run.paths);
    if (!status) status = qg__run_claim(&m->run);
    if (!status) status = check_part(&m->run);
    if (status) return status;
    status = write_files(m);
    if (!status && rename(part, dir))
        status = qg_fail(QG_EIO, "cannot rename %s to %s: %s", part, dir, strerror(errno));
    if (!status) return qg__file_flush_name_in(QG_BY_PATH, dir);
    snprintf(why, sizeof why, "%s", qg_errmsg());
    remove_files(&m->run);
    rmdir(part);
    return qg_fail(status, "%s", why);
}

void qg__made_end(qg__made *m)
{
    qg__run_end(&m->run);
    qg_optim_free(m->optim);
    qg_net_free(m->net);
    qg_loader_free(m->test);
    qg_loader_free(m->train);
    qg__recipe_clear(&m->recipe);
}
