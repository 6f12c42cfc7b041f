#include "cli/run/trainer.h"

#include <inttypes.h>

#include "cli/run/measure.h"
#include "core/rng.h"

static const double CHECKPOINT_SECONDS = 10;

double trainer_rate(const trainer *t)
{
    return t->stepping > 0 ? (double)t->stepped / t->stepping : 0;
}

static bool must_stop(const trainer *t)
{
    return *t->stop || now_seconds() - t->began >= t->budget;
}

bool trainer_finished(const trainer *t)
{
    return t->run.record.epoch == (uint64_t)t->recipe->epochs;
}

/* --- one step, one epoch ------------------------------------------------------------------ */

uint64_t trainer_batches(const trainer *t) { return (uint64_t)qg_loader_batches(t->train); }

/* The learning rate is a function of the step only, so checkpoints do not store it. */
static double rate_at(const trainer *t, uint64_t step)
{
    const double steps = (double)trainer_batches(t) * t->recipe->epochs;
    return qg_schedule_lr(&t->recipe->schedule, t->recipe->lr, (double)step / steps);
}

static qg_status step(trainer *t, const qg_batch *b)
{
    const run_record *at = &t->run.record;
    qg_tape_begin(t->run.tape, QG_TRAIN, qg_rng_fork(at->seed, QG_STREAM_TAPE), b->step);
    qg_var *scores = qg_net_forward(t->run.net, t->run.tape, b->x);
    qg_var *loss   = recipe_loss(t->recipe, t->run.tape, scores, b->y);
    qg_optim_set_lr(t->run.optim, (float)rate_at(t, b->step));
    qg_status status = qg_backward(t->run.tape, loss);
    if (!status) status = qg_optim_step(t->run.optim);
    if (status)
        return qg_fail(status, "epoch %" PRIu64 ", step %" PRIu64 ": %s", at->epoch + 1, b->step + 1,
                       qg_errmsg());
    run_record    *to = &t->run.record;
    const uint64_t n  = (uint64_t)b->x.shape.n;
    to->loss += (double)loss->data[0] * (double)n;
    to->correct += (uint64_t)qg_correct(scores, b->y);
    to->images += n;
    to->batch++;
    to->steps = b->step + 1;
    t->stepped += n;
    return QG_OK;
}

static void show(trainer *t)
{
    if (!progress_due(&t->progress)) return;
    const run_record *at   = &t->run.record;
    const double      rate = trainer_rate(t);
    const double      left =
        (double)qg_loader_shape(t->train).n * (t->recipe->epochs - (double)at->epoch) -
        (double)at->images;
    char eta[32];
    print_duration(rate > 0 ? left / rate : 0, eta);
    progress_draw(&t->progress,
                  "epoch %" PRIu64 "/%d  step %" PRIu64 "/%" PRIu64
                  "  loss %.4f  accuracy %.2f %%  %.0f images/s  ETA %s",
                  at->epoch + 1, t->recipe->epochs, at->batch, trainer_batches(t),
                  at->loss / (double)at->images, 100 * (double)at->correct / (double)at->images,
                  rate, eta);
}

report trainer_report(const trainer *t)
{
    const double rate = metrics_rate(&t->run.metrics);
    return (report){ .run     = &t->run,
                     .before  = &t->before,
                     .seconds = trainer_finished(t) ? 0 : now_seconds() - t->epoch_began,
                     .rate    = rate > 0 ? rate : trainer_rate(t) };
}

/* Writes result.json, then the checkpoint; cli/run/run.c explains the order. */
static qg_status save(trainer *t)
{
    const report r      = trainer_report(t);
    qg_status    status = run_check_place(&t->run);
    if (!status) status = report_save(&r);
    return status ? status : run_save(&t->run);
}

static qg_status save_if_due(trainer *t)
{
    if (now_seconds() - t->saved < CHECKPOINT_SECONDS) return QG_OK;
    const qg_status status = save(t);
    t->saved               = now_seconds();
    return status;
}

/* Runs the remaining steps of the epoch.  *stopped: it was asked to stop before the end. */
static qg_status run_steps(trainer *t, bool *stopped)
{
    double from = now_seconds();
    *stopped    = false;
    for (qg_batch b; !(*stopped = must_stop(t)) && qg_loader_next(t->train, &b);) {
        qg_status status = step(t, &b);
        t->stepping += now_seconds() - from;
        if (!status) status = save_if_due(t);
        if (status) return status;
        show(t);
        from = now_seconds();
    }
    return QG_OK;
}

/* Measures the test split and updates the record.  *stopped: it was asked to stop first, and the record is
 * unchanged. */
static qg_status evaluate(trainer *t, bool *stopped)
{
    run_record     *at = &t->run.record;
    measured        m;
    const qg_status status = measure(t->recipe, t->run.net, t->run.tape, at->steps, t->test, t->stop, &m,
                                     stopped);
    if (status) return qg_fail(status, "epoch %" PRIu64 ": %s", at->epoch + 1, qg_errmsg());
    if (*stopped) return QG_OK;
    at->tested        = m.images;
    at->test_loss     = m.loss;
    at->test_accuracy = m.accuracy;
    return QG_OK;
}

static void begin_epoch(trainer *t)
{
    t->epoch_began = now_seconds();
    t->stepping    = 0;
    t->stepped     = 0;
}

/* A range or scale that has drifted costs accuracy and shows nowhere else. */
static void warn_of_learned(trainer *t)
{
    char text[512];
    if (learned_unhealthy(&t->run.learned, text, sizeof text))
        progress_line(&t->progress, "warning: %s; see qgrad explain SCHEME", text);
}

/* Advances the record to the next epoch and writes every file. */
static qg_status end_epoch(trainer *t)
{
    run_record  *at     = &t->run.record;
    const double lr     = rate_at(t, at->epoch * trainer_batches(t) + at->batch - 1);
    const bool   better = at->best_epoch == 0 || at->test_accuracy > at->best_accuracy;
    at->train_loss      = at->loss / (double)at->images;
    at->train_accuracy  = (double)at->correct / (double)at->images;
    at->loss            = 0;
    at->correct = at->images = at->batch = 0;
    at->epoch++;
    if (better) {
        at->best_accuracy = at->test_accuracy;
        at->best_epoch    = at->epoch;
    }
    qg_status status = code_stats_count(&t->run.code_stats);
    if (status) return status;
    const metrics_row row = { .epoch             = (double)at->epoch,
                              .lr                = lr,
                              .train_loss        = at->train_loss,
                              .train_accuracy    = at->train_accuracy,
                              .test_loss         = at->test_loss,
                              .test_accuracy     = at->test_accuracy,
                              .images_per_second = trainer_rate(t),
                              .seconds           = now_seconds() - t->epoch_began };
    status = run_add_epoch(&t->run, row, better);
    begin_epoch(t);
    if (!status) status = save(t);
    t->saved = now_seconds();
    if (status) return status;
    const char *on = t->progress.colour ? "\033[32m" : "", *off = t->progress.colour ? "\033[0m" : "";
    progress_line(&t->progress,
                  "epoch %*" PRIu64 "/%d  lr %.3g  train loss %.4f  accuracy %.2f %%  "
                  "test loss %.4f  accuracy %s%.2f %%%s  %.0f images/s  %.1f s",
                  t->recipe->epochs >= 10 ? 2 : 1, at->epoch, t->recipe->epochs, lr, at->train_loss,
                  100 * at->train_accuracy, at->test_loss, better ? on : "", 100 * at->test_accuracy,
                  better ? off : "", row.images_per_second, row.seconds);
    warn_of_learned(t);
    return QG_OK;
}

qg_status trainer_run(trainer *t)
{
    bool stopped = false;
    t->saved     = now_seconds();
    begin_epoch(t);
    /* The time of earlier processes that metrics.csv does not include: that of this epoch, or of an epoch whose
     * checkpoint was not written and that is repeated. */
    const double unlogged = t->before.seconds - t->run.metrics.seconds;
    if (unlogged > 0) t->epoch_began -= unlogged;
    while (!trainer_finished(t)) {
        qg_status status = run_steps(t, &stopped);
        if (!status && !stopped) status = evaluate(t, &stopped);
        if (!status && stopped) return save(t);
        if (!status) status = end_epoch(t);
        if (status) return status;
    }
    return QG_OK;
}
