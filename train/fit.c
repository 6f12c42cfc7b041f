/* Training in a run directory: steps, a test after each epoch, checkpoints, and how a run begins, continues and ends. */
#include "train/fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/io/safetensors.h"
#include "core/kernels/cpu.h"
#include "core/kernels/parallel.h"
#include "core/dist/exchange.h"
#include "core/rng.h"
#include "datasets/dataset.h"
#include "layers/plan.h"
#include "train/distil.h"
#include "train/reader.h"
#include "train/measure.h"
#include "train/patches.h"
#include "train/result.h"
#include "train/run.h"
#include "train/statistics.h"

static const double CHECKPOINT_SECONDS = 10;

typedef struct fit {
    const qg_fit_spec *spec;
    qg__run            run;
    qg_tape           *of_teacher;  /* the tape on which the teacher runs; NULL: no teacher */
    qg_fit_result      before;      /* what earlier processes left; {0}: nothing */
    qg_fit_result      now;         /* what result.json has */
    double             began;       /* the call, for the budget */
    double             saved;       /* when the last checkpoint was written */
    double             epoch_began; /* in this process, less what earlier processes spent on it */
    double             stepping;    /* seconds in the steps of this epoch, in this process */
    uint64_t           stepped;     /* images of these steps */
    qg_fit_end         ended;
    bool               asked;       /* to stop, on some rank */
    bool               warned;      /* that the accuracy is that of chance */
    bool               tested;      /* with validation: the test images have been measured */
    qg__measured       last, best;  /* their results, with the last and with the best weights */
} fit;

static uint64_t batches(const fit *f) { return (uint64_t)qg_loader_batches(f->spec->train); }

/* Images per second. */
static double rate(const fit *f) { return f->stepping > 0 ? (double)f->stepped / f->stepping : 0; }

/* All ranks must return the same: they stop after the same step. */
static bool must_stop(fit *f)
{
    f->asked = qg_ranks_any(f->spec->stop && *f->spec->stop);
    return f->asked || (f->spec->budget != 0 && qg_ranks_any(qg__now() - f->began >= f->spec->budget));
}

/* Only rank 0 writes files. */
static bool keeps_files(void) { return qg_rank() == 0; }

/* --- what the program is told ------------------------------------------------------------- */

static qg_fit_progress progress(const fit *f)
{
    const qg__run_record *at     = &f->run.record;
    const double          images = (double)at->images, speed = rate(f);
    const double left = (double)qg_loader_shape(f->spec->train).n * (f->spec->epochs - (double)at->epoch) - images;
    return (qg_fit_progress){ .epoch             = at->epoch,
                              .epochs            = (uint64_t)f->spec->epochs,
                              .batch             = at->batch,
                              .batches           = batches(f),
                              .loss              = at->images ? at->loss / images : 0,
                              .accuracy          = at->images ? (double)at->correct / images : 0,
                              .images_per_second = speed,
                              .seconds_left      = speed > 0 ? left / speed : 0 };
}

static void report(const fit *f, void (*event)(void *user, const qg_fit_progress *p))
{
    const qg_fit_progress p = progress(f);
    if (event) event(f->spec->events.user, &p);
}

/* With validation, the test fields of the record hold the results of the validation images, and the
 * test images are measured at the end of the run. */
static void put_accuracies(const fit *f, qg_fit_result *to)
{
    const qg__run_record *at   = &f->run.record;
    const bool            some = at->epoch > 0 || (f->spec->epochs == 0 && at->tested > 0);
    const bool            held = f->spec->validation;
    const double          last = some ? at->test_accuracy : NAN, best = some ? at->best_accuracy : NAN;
    to->test_accuracy            = held ? f->tested ? f->last.accuracy : NAN : last;
    to->best_test_accuracy       = held ? f->tested ? f->best.accuracy : NAN : best;
    to->test_images              = held ? f->last.images : at->tested;
    to->test_accuracy_stderr     = isnan(to->test_accuracy) ? NAN : qg_proportion_error(to->test_accuracy, to->test_images);
    to->validation_accuracy      = held ? last : NAN;
    to->best_validation_accuracy = held ? best : NAN;
    to->validation_images        = held ? (uint64_t)qg_loader_shape(f->spec->validation).n : 0;
}

/* A run without epochs measures its initial net. */
static bool has_measured(const fit *f) { return f->spec->epochs > 0 || f->run.record.tested > 0; }

static bool is_complete(const fit *f)
{
    return qg__run_is_finished(&f->run) && has_measured(f) && (f->tested || !f->spec->validation);
}

/* A process that found the run complete is not listed in result.json. */
static qg_fit_result result(const fit *f)
{
    const qg__run_record *at    = &f->run.record;
    const bool            some  = at->epoch > 0, worked = !f->before.complete;
    const double          known = qg__metrics_rate(&f->run.metrics);
    qg_fit_result         now   = { .best_epoch        = at->best_epoch,
                                    .train_loss        = some ? at->train_loss : NAN,
                                    .epochs            = at->epoch,
                                    .batch             = at->batch,
                                    .batches           = batches(f),
                                    .complete          = is_complete(f),
                                    .images_per_second = known > 0 ? known : rate(f),
                                    .seconds           = f->run.metrics.seconds,
                                    .threads           = (uint64_t)qg_threads(),
                                    .seed              = f->spec->seed,
                                    .arithmetic        = qg__run_arithmetic(&f->run) };
    put_accuracies(f, &now);
    now.ended           = now.complete ? QG_FIT_OVER : f->ended;
    now.out_of_patience = qg__run_is_finished(&f->run) && at->epoch < (uint64_t)f->spec->epochs;
    if (!now.complete) now.seconds += qg__now() - f->epoch_began;
    qg__result_join(now.cpu_path, f->before.cpu_path, worked ? qg_cpu_path() : "");
    qg__result_join(now.commit, f->before.commit, worked ? qg_commit() : "");
    qg__digest(f->run.net, now.digest);
    return now;
}

/* --- files -------------------------------------------------------------------------------- */

/* No digest is one of NaN, which has no bits of its own: a loss may be finite without a weight being so, where a quantizer
 * looks at its sign alone. */
static qg_status check_finite(const fit *f)
{
    return qg__state_check_finite(f->run.last, f->run.paths.file[QG__RUN_LAST]);
}

static qg_status save_result(fit *f)
{
    f->now = result(f);
    return qg__result_save(&f->now, f->spec, f->run.net, f->run.lock, f->run.paths.file[QG__RUN_RESULT]);
}

/* Writes result.json, then the checkpoint; train/run.c explains the order. */
static qg_status save(fit *f)
{
    if (!keeps_files()) return QG_OK;
    qg_status status = qg__run_check_place(&f->run);
    if (!status) status = check_finite(f);
    if (status) return status;
    status = save_result(f);
    return status ? status : qg__run_save(&f->run);
}

/* Writes the lost result.json of a complete run alone: its checkpoint stays the one that other processes
 * wrote. */
static qg_status save_lost(fit *f)
{
    if (!keeps_files()) return QG_OK;
    f->before.complete = true;
    return save_result(f);
}

static qg_status save_if_due(fit *f)
{
    if (qg__now() - f->saved < CHECKPOINT_SECONDS) return QG_OK;
    const qg_status status = save(f);
    f->saved               = qg__now();
    return status;
}

/* --- one step, one epoch ------------------------------------------------------------------ */

/* Starts the quantizers of weights that are delayed until this step.  Their scales are computed
 * from the weights of now, and averages that still contain older scales would fit neither, so the
 * averages begin anew. */
static qg_status start_weights(fit *f, uint64_t step)
{
    bool      any;
    qg_status status = qg__start_quantizers(f->run.net, step, &any);
    return any && !status && f->run.ema ? qg_ema_restart(f->run.ema) : status;
}

/* When a quantizer starts, the averages of the weights begin anew. */
static qg_status begin_step(fit *f, uint64_t step)
{
    const qg__run *r = &f->run;
    return r->ema && step != 0 && qg__last_start(r->net, step, false) == step ? qg_ema_restart(r->ema) : QG_OK;
}

static const char REMEDIES[] = "a lower learning rate, a warm-up, or a limit on the norm of the gradients usually helps";
static const char OWN_LOSS[] = "the program's own function .loss gave it";

/* The message of a failed step or test: when it was, and for a loss or gradient that is not finite,
 * the layer where that began. */
static qg_status failed(const fit *f, qg_status status, const char *when, const qg_var *loss)
{
    char        why[QG__DIVERGED_BYTES] = "", text[1024];
    const char *remedy = REMEDIES;
    snprintf(text, sizeof text, "%s", qg_errmsg());
    if (status != QG_ENAN) return qg_fail(status, "%s: %s", when, text);
    if (loss && isfinite(loss->data[0])) qg__diverged_backward(f->run.net, why);
    else if (loss && !qg__diverged_forward(f->run.net, f->run.tape, why) && f->spec->loss &&
             !f->spec->teacher.net)
        remedy = isnan(loss->data[0]) ? OWN_LOSS : REMEDIES;
    return qg_fail(status, "%s: %s%s%s; %s", when, text, *why ? "; " : "", why, remedy);
}

static qg_status step(fit *f, const qg_batch *b)
{
    qg__run        *r  = &f->run;
    qg__run_record *at = &r->record;
    if (begin_step(f, b->step)) return qg_errcode();
    qg_tape_begin(r->tape, QG_TRAIN, qg_rng_fork(at->seed, QG_STREAM_TAPE), b->step);
    qg_var *scores = qg_net_forward(r->net, r->tape, b->x);
    qg_var *loss   = qg__loss(f->spec, r->tape, scores, b);
    if (f->of_teacher) loss = qg__distil(&f->spec->teacher, f->of_teacher, r->tape, scores, loss, b);
    qg_optim_set_lr(f->spec->optim, (float)qg__run_rate(&f->run, b->step));
    qg_status status = qg_backward(r->tape, loss);
    if (!status) status = qg_optim_step(f->spec->optim);
    if (!status && r->ema) status = qg_ema_update(r->ema);
    if (status) {
        char when[64];
        snprintf(when, sizeof when, "epoch %" PRIu64 ", step %" PRIu64, at->epoch + 1, b->step + 1);
        return failed(f, status, when, loss);
    }
    const uint64_t n = (uint64_t)b->n;
    at->loss += (double)loss->data[0] * (double)n;
    at->correct += (uint64_t)qg_count_correct(scores, b->y);
    at->images += n;
    at->batch++;
    at->steps = b->step + 1;
    f->stepped += n;
    return start_weights(f, at->steps);         /* a test may come next */
}

/* Runs the remaining steps of the epoch.  *stopped: it was asked to stop before the end. */
static qg_status run_steps(fit *f, bool *stopped)
{
    qg_loader            *train = f->spec->train;
    const qg__run_record *at    = &f->run.record;
    double                from  = qg__now();
    *stopped = false;
    for (qg_batch b; !(*stopped = must_stop(f)) && qg__read_batch(train, at->epoch, at->batch, &b);) {
        qg_status status = step(f, &b);
        f->stepping += qg__now() - from;
        if (!status) status = save_if_due(f);
        if (status) return status;
        report(f, f->spec->events.step);
        from = qg__now();
    }
    return qg_loader_status(train);
}

/* Measures the net as it is.  *stopped: it was asked to stop first. */
static qg_status measure(fit *f, qg_loader *images, qg__measured *m, bool *stopped)
{
    const qg_status status = qg__measure(f->spec, images, f->run.net, f->run.tape, f->run.record.steps, NULL, m, stopped);
    f->asked |= *stopped;
    return status;
}

/* The same, after the running statistics of batch norms were estimated anew, which the net keeps.
 * If this is stopped, the tracked arrays of the last step return, and the run estimates again when it
 * continues. */
static qg_status measure_anew(fit *f, qg_loader *images, qg__measured *m, bool *stopped)
{
    qg__statistics s;
    qg_status      status = qg__reestimate(&s, &f->run, stopped);
    f->asked |= *stopped;
    if (!status && !*stopped) status = measure(f, images, m, stopped);
    if (status || *stopped) qg__statistics_undo(&s);
    qg__statistics_end(&s);
    return status;
}

/* Measures with the averages of the weights, if there are any. */
static qg_status measure_last(fit *f, qg_loader *images, bool anew, qg__measured *m, bool *stopped)
{
    qg__run_swap(&f->run);
    const qg_status status = (anew ? measure_anew : measure)(f, images, m, stopped);
    qg__run_swap(&f->run);
    return status;
}

/* Measures the split that chooses and updates the record.  *stopped: it was asked to stop first, and the record is
 * unchanged. */
static qg_status evaluate(fit *f, bool anew, bool *stopped)
{
    qg__run_record *at = &f->run.record;
    qg__measured    m;
    qg_loader      *images = f->spec->validation ? f->spec->validation : f->spec->test;
    const qg_status status = measure_last(f, images, anew, &m, stopped);
    if (status) {
        char when[32];
        snprintf(when, sizeof when, "epoch %" PRIu64, at->epoch + 1);
        return failed(f, status, when, NULL);
    }
    if (*stopped) return QG_OK;
    at->tested        = m.images;
    at->test_loss     = m.loss;
    at->test_accuracy = m.accuracy;
    return QG_OK;
}

static void begin_epoch(fit *f)
{
    f->epoch_began = qg__now();
    f->stepping    = 0;
    f->stepped     = 0;
}

/* A learned range or scale that no longer fits costs accuracy, and nothing else would show it. */
static void warn(fit *f, double lr)
{
    char drifted[1024], text[QG__CHANCE_BYTES];
    if (qg__learned_unhealthy(&f->run.learned, drifted, sizeof drifted)) qg__run_notice(&f->run, QG_FIT_DRIFTED, drifted);
    if (f->warned || !qg__is_at_chance(&f->run, lr, text)) return;
    f->warned = true;
    qg__run_notice(&f->run, QG_FIT_AT_CHANCE, text);
}

/* Advances the record to the next epoch and writes every file. */
static qg_status end_epoch(fit *f)
{
    const bool      held   = f->spec->validation;
    qg__run_record *at     = &f->run.record;
    const double    lr     = qg__run_rate(&f->run, at->epoch * batches(f) + at->batch - 1);
    const uint64_t  from   = qg__first_quantized_epoch(&f->run);
    const bool      first  = at->best_epoch < from && at->epoch + 1 >= from;        /* of the quantized net */
    const bool      better = first || at->best_epoch == 0 || at->test_accuracy > at->best_accuracy;
    at->train_loss         = at->loss / (double)at->images;
    at->train_accuracy     = (double)at->correct / (double)at->images;
    at->loss               = 0;
    at->correct = at->images = at->batch = 0;
    at->epoch++;
    if (better) {
        at->best_accuracy = at->test_accuracy;
        at->best_epoch    = at->epoch;
    }
    qg_status status = check_finite(f);
    if (!status) status = qg__code_stats_count(&f->run.code_stats);
    if (status) return status;
    qg_epoch row = { .epoch               = (double)at->epoch,
                     .lr                  = lr,
                     .train_loss          = at->train_loss,
                     .train_accuracy      = at->train_accuracy,
                     .test_loss           = held ? NAN : at->test_loss,
                     .test_accuracy       = held ? NAN : at->test_accuracy,
                     .validation_loss     = held ? at->test_loss : NAN,
                     .validation_accuracy = held ? at->test_accuracy : NAN,
                     .images_per_second   = rate(f),
                     .seconds             = qg__now() - f->epoch_began };
    qg__digest(f->run.net, row.digest);
    if (keeps_files()) status = qg__run_add_epoch(&f->run, row, better);
    begin_epoch(f);
    if (!status) status = save(f);
    f->saved = qg__now();
    if (status) return status;
    if (f->spec->events.epoch) f->spec->events.epoch(f->spec->events.user, &row, &f->now);
    warn(f, lr);
    begin_epoch(f);             /* files and listeners took their time after the epoch, not in the next one */
    return QG_OK;
}

/* Copies all arrays of s and the number of steps from rank 0 to the other ranks.  of_first: the
 * status of rank 0, which read them from files; if it failed, all ranks fail. */
static qg_status take_from_first(fit *f, const qg_state *s, qg_status of_first)
{
    size_t                n;
    const qg_named_array *entry = qg__state_entries(s, &n);
    qg_status             status = of_first;
    if (qg_ranks() == 1) return status;
    if (qg_ranks_any(status)) return status ? status : qg_fail(QG_ESTATE, "rank 0 cannot read the files of the run");
    for (size_t i = 0; i < n && !status; i++)
        status = qg_ranks_broadcast(entry[i].array.data, qg_array_count(&entry[i].array) * qg__dtype_bytes(entry[i].array.dtype));
    return status ? status : qg_ranks_broadcast(&f->run.record.steps, sizeof f->run.record.steps);
}

static qg_status load_weights(fit *f, qg__run_file file)
{
    qg_status status = QG_OK;
    if (keeps_files()) status = qg__run_load_weights(&f->run, file);
    else if (file == QG__RUN_LAST) qg__run_swap(&f->run);
    return take_from_first(f, file == QG__RUN_LAST ? f->run.last : f->run.best, status);
}

/* Measures the test images with the weights of best.safetensors, and then loads those of the checkpoint again. */
static qg_status measure_best(fit *f, bool *stopped)
{
    qg_status       status = load_weights(f, QG__RUN_BEST);
    if (!status) status = measure(f, f->spec->test, &f->best, stopped);
    const qg_status after = status ? status : load_weights(f, QG__RUN_LAST);
    if (!after) qg__run_swap(&f->run);
    return after;
}

/* Reads the test images of a run with validation, once, when its last epoch is saved.  The results are a function of the two
 * files with weights, so a run that is killed meanwhile finds the same ones later. */
static qg_status test_at_end(fit *f)
{
    bool      stopped;
    qg_status status = measure_last(f, f->spec->test, false, &f->last, &stopped);
    if (!status && !stopped) f->best = f->last;
    if (!status && !stopped && f->run.record.best_epoch != f->run.record.epoch) status = measure_best(f, &stopped);
    if (status) return qg_fail(status, "test: %s", qg_errmsg());
    f->tested = !stopped;
    if (stopped) f->ended = QG_FIT_STOPPED;
    return save(f);
}

/* The first epoch of this process also counts the seconds that earlier processes spent on it: those
 * in result.json that metrics.csv does not include.  They may also come from an epoch whose
 * checkpoint was not written, and which is repeated. */
static void begin_first_epoch(fit *f)
{
    const double unlogged = f->before.seconds - f->run.metrics.seconds;
    begin_epoch(f);
    if (unlogged > 0) f->epoch_began -= unlogged;
}

/* Of a run without epochs: the initial net, as it is. */
static qg_status measure_start(fit *f)
{
    bool      stopped;
    qg_status status = evaluate(f, false, &stopped);
    if (!status && !stopped) {
        f->run.record.best_accuracy = f->run.record.test_accuracy;
        if (keeps_files()) status = qg__run_save_best(&f->run);
    }
    if (stopped) f->ended = QG_FIT_STOPPED;
    return status ? status : save(f);
}

static qg_status train(fit *f)
{
    bool stopped = false;
    f->saved     = qg__now();
    begin_first_epoch(f);
    if (!has_measured(f)) {
        const qg_status status = measure_start(f);
        if (status || !has_measured(f)) return status;
    }
    while (!qg__run_is_finished(&f->run)) {
        qg_status status = run_steps(f, &stopped);
        if (!status && !stopped) status = evaluate(f, qg__reestimates(&f->run), &stopped);
        if (!status && stopped) {
            f->ended = f->asked ? QG_FIT_STOPPED : QG_FIT_OUT_OF_TIME;
            return save(f);
        }
        if (!status) status = end_epoch(f);
        if (status) return status;
    }
    return f->spec->validation && !f->tested ? test_at_end(f) : QG_OK;
}

/* --- fine-tuning -------------------------------------------------------------------------- */

static qg_status start_from(fit *f, qg_net *net)
{
    const qg_fit_spec *s = f->spec;
    qg__init_report    init;
    if (!s->init) return s->init_except ? qg_fail(QG_EARG, "fit: init_except needs init") : QG_OK;
    const qg_status status = qg__reader_init(net, s->init, s->init_except, &init);
    if (status)
        return *init.misfit ? qg_fail(status, "init: %s; to start these layers afresh, set .init_except = \"%s\"", qg_errmsg(),
                                      init.misfit)
                            : qg_fail(status, "init: %s", qg_errmsg());
    strcpy(f->run.init_digest, init.digest);
    return QG_OK;
}

static qg_status freeze(const qg_fit_spec *s, qg_net *net)
{
    char             layer[QG__INIT_LAYER];
    const qg_params *p = qg_net_params(net);
    if (!s->freeze) return QG_OK;
    for (const char *at = s->freeze; qg__list_next(&at, layer, sizeof layer);)
        if (qg_net_freeze(net, layer)) return qg_fail(QG_EARG, "freeze: %s", qg_errmsg());
    for (int i = 0; i < p->count; i++)
        if (p->item[i]->group != QG_TRACKED && !p->item[i]->frozen) return QG_OK;
    return qg_fail(QG_EARG, "freeze: every parameter of the net is frozen");
}

static qg_status prepare(fit *f, qg_net *net)
{
    qg_status status = start_from(f, net);
    if (!status) status = freeze(f->spec, net);
    if (!status && f->spec->teacher.net && !(f->of_teacher = qg_tape_new())) status = QG_EMEM;
    return status;
}

/* --- the beginning ------------------------------------------------------------------------ */

/* The result.json of earlier processes.  Runs of older versions have no such file. */
static qg_status read_before(fit *f, bool *has)
{
    qg_status status = qg__run_has(&f->run, QG__RUN_RESULT, has);
    if (status || !*has) return status;
    status = qg__result_read(&f->before, f->run.lock, f->run.paths.file[QG__RUN_RESULT]);
    if (status != QG_EFORMAT) return status;
    return qg_fail(status, "%s; without this file the run goes on, and only its times, kernels and commits "
                   "are lost", qg_errmsg());
}

static qg_status check_position(const fit *f)
{
    const qg__run_record *at  = &f->run.record;
    const char           *dir = f->run.paths.dir;
    const uint64_t        n   = batches(f);
    if (at->batch > n || at->images > (uint64_t)qg_loader_shape(f->spec->train).n)
        return qg_fail(QG_EFORMAT, "%s: the checkpoint belongs to a run with more training images", dir);
    if (at->steps == at->epoch * n + at->batch) return QG_OK;
    return qg_fail(QG_EFORMAT, "%s: the checkpoint is %" PRIu64 " steps after the start, not %" PRIu64 " epochs of %" PRIu64
                   " and %" PRIu64, dir, at->steps, at->epoch, n, at->batch);
}

/* Continues from the checkpoint. */
static qg_status continue_run(fit *f)
{
    bool      has    = true;
    qg_status status = qg__run_load(&f->run);
    if (!status) status = qg__run_check_best(&f->run);
    if (!status) status = read_before(f, &has);
    const bool extends = !status && qg__run_is_extended(&f->run);
    f->before.complete &= qg__run_is_finished(&f->run);
    f->tested = f->spec->validation && f->before.complete;
    if (!status && (extends || !is_complete(f))) status = qg__run_check_arithmetic(&f->run);
    if (!status && extends) status = qg__run_check_extension(&f->run);
    if (f->tested) {
        f->last = (qg__measured){ .images = f->before.test_images, .accuracy = f->before.test_accuracy };
        f->best = (qg__measured){ .images = f->before.test_images, .accuracy = f->before.best_test_accuracy };
    }
    if (!status) status = check_position(f);
    if (!status && !qg__run_is_finished(&f->run)) status = qg__run_check_whitening(&f->run);
    if (!status) status = qg__run_keep_config(&f->run);         /* nothing is written before all is accepted */
    if (!status && extends) status = qg__run_extend(&f->run);
    if (!status && !qg__run_is_finished(&f->run)) status = qg__run_cut_metrics(&f->run);
    if (status) return status;
    if (!extends) return !has && is_complete(f) ? save_lost(f) : QG_OK;
    begin_first_epoch(f);
    return save(f);
}

/* A new run could not be resumed if its optimizer had taken steps that the run has not. */
static qg_status check_unused(const qg_optim *o)
{
    if (qg_optim_steps(o) == 0) return QG_OK;
    return qg_fail(QG_EARG, "fit: a new run needs a new optimizer, but this one has taken %lld steps", (long long)qg_optim_steps(o));
}

/* Rank 0 opens the files, and the others take over what it has read. */
static qg_status share_run(fit *f, qg_status of_first)
{
    qg_status status = take_from_first(f, f->run.last, of_first);
    if (qg_ranks() == 1 || status) return status;
    qg__code_stats_loaded(&f->run.code_stats);
    status = qg_ranks_broadcast(&f->before, sizeof f->before);
    if (!status) status = qg_ranks_broadcast(&f->tested, sizeof f->tested);
    if (!status) status = qg_ranks_broadcast(&f->last, sizeof f->last);
    return status ? status : qg_ranks_broadcast(&f->best, sizeof f->best);
}

static qg_status open_files(fit *f)
{
    const qg_optim *optim  = f->spec->optim;
    bool            loads  = false;
    qg_status       status = qg__run_claim(&f->run);
    if (!status) status = qg__run_has(&f->run, QG__RUN_LAST, &loads);
    if (!status && !loads) status = check_unused(optim);
    if (status) return status;
    return loads ? continue_run(f) : qg__run_create(&f->run);
}

static qg_status open_run(fit *f, qg_net *net)
{
    const qg_fit_spec *s      = f->spec;
    qg_status status = qg__run_paths_of(s->dir, &f->run.paths);
    if (!status) status = qg__fit_check_net(&f->run, net);
    if (!status && s->whiten_patches && qg__patches_whiten(net, s->whiten_patches, s->train))
        status = qg_fail(qg_errcode(), "whiten-patches: %s", qg_errmsg());
    if (!status) status = qg__run_compose(&f->run, net, s);
    if (!status && s->mode != QG_FIT_RESUME) status = check_unused(s->optim);
    if (!status) status = qg__run_check_ranks(&f->run);
    if (!status) status = share_run(f, keeps_files() ? open_files(f) : QG_OK);
    if (!status && !qg__run_is_finished(&f->run)) status = qg_loader_seek(s->train, f->run.record.epoch, f->run.record.batch);
    if (!status && s->validation) status = qg_loader_seek(s->validation, 0, 0);
    return status ? status : qg_loader_seek(s->test, 0, 0);
}

qg_status qg_fit(qg_net *net, qg_fit_spec spec, qg_fit_result *r)
{
    fit f = { .spec = &spec, .run = { .spec = &spec, .lock = QG_BY_PATH }, .began = qg__now() };
    if (!keeps_files()) spec.events = (qg_fit_events){ 0 };
    if (spec.lr == 0 && spec.optim) spec.lr = (double)qg_optim_lr(spec.optim);
    qg_status status = qg__fit_check(net, &spec);
    if (!status && spec.teacher.net) status = qg__teacher_check(net, &spec.teacher);
    if (status) return status;
    if (spec.epochs == QG_NO_EPOCHS) spec.epochs = 0;
    if (spec.clip_norm != 0) qg_optim_set_clip_norm(spec.optim, spec.clip_norm);
    status = prepare(&f, net);
    if (!status) status = open_run(&f, net);
    if (!status) {
        report(&f, spec.events.begin);
        status = train(&f);
    }
    qg_optim_set_lr(spec.optim, (float)spec.lr);        /* not that of the last step: the next call may ask for it */
    if (!status && r) *r = result(&f);
    qg__run_end(&f.run);
    qg_tape_free(f.of_teacher);
    return status;
}
