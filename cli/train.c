/* qgrad train. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "core/parallel.h"
#include "core/rng.h"

static const double CHECKPOINT_SECONDS = 10;

/* The number of the signal that asks the run to stop; 0: none. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int number) { stop_signal = number; }

/* The second signal of a kind ends the process at once, and the checkpoint is then the last one
 * that was written. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

typedef struct trainer {
    const char *program;
    config      asked, config;
    recipe      recipe;
    run         run;
    qg_loader  *train, *test;
    qg_net     *net;
    qg_optim   *optim;
    qg_tape    *tape;
    progress    progress;
    double      began;                  /* the process, for --budget */
    double      budget;                 /* seconds; infinite: none */
    double      saved;                  /* when the last checkpoint was written */
    double      epoch_began;            /* in this process */
    double      stepping;               /* seconds in the steps of this epoch, in this process */
    uint64_t    stepped;                /* images of these steps */
} trainer;

static bool must_stop(const trainer *t)
{
    return stop_signal || now_seconds() - t->began >= t->budget;
}

static bool finished(const trainer *t)
{
    return t->run.record.epoch == (uint64_t)t->recipe.epochs;
}

/* --- one step, one epoch ------------------------------------------------------------------ */

static uint64_t batches(const trainer *t) { return (uint64_t)qg_loader_batches(t->train); }

/* The learning rate is a function of the step alone, so it needs no place in a checkpoint. */
static double rate_at(const trainer *t, uint64_t step)
{
    const double steps = (double)batches(t) * t->recipe.epochs;
    return qg_schedule_lr(&t->recipe.schedule, t->recipe.lr, (double)step / steps);
}

static qg_status step(trainer *t, const qg_batch *b)
{
    const run_record *at = &t->run.record;
    qg_tape_begin(t->tape, QG_TRAIN, qg_rng_fork(at->seed, QG_STREAM_TAPE), b->step);
    qg_var *scores = qg_net_forward(t->net, t->tape, b->x);
    qg_var *loss   = recipe_loss(&t->recipe, t->tape, scores, b->y);
    qg_optim_set_lr(t->optim, (float)rate_at(t, b->step));
    qg_status status = qg_backward(t->tape, loss);
    if (!status) status = qg_optim_step(t->optim);
    if (status)
        return qg_fail(status, "epoch %" PRIu64 ", step %" PRIu64 ": %s", at->epoch + 1, b->step + 1,
                       qg_errmsg());
    run_record    *to = &t->run.record;
    const uint64_t n  = (uint64_t)b->x.shape.n;
    to->loss += (double)loss->data[0] * (double)n;
    to->correct += (uint64_t)qg_correct(scores, b->y);
    to->images += n;
    to->batch++;
    t->stepped += n;
    return QG_OK;
}

static void show(trainer *t)
{
    if (!progress_due(&t->progress)) return;
    const run_record *at   = &t->run.record;
    const double      rate = t->stepping > 0 ? (double)t->stepped / t->stepping : 0;
    const double      left =
        (double)qg_loader_shape(t->train).n * (t->recipe.epochs - (double)at->epoch) - (double)at->images;
    char eta[32];
    print_duration(rate > 0 ? left / rate : 0, eta);
    progress_draw(&t->progress,
                  "epoch %" PRIu64 "/%d  step %" PRIu64 "/%" PRIu64
                  "  loss %.4f  accuracy %.2f %%  %.0f images/s  ETA %s",
                  at->epoch + 1, t->recipe.epochs, at->batch, batches(t), at->loss / (double)at->images,
                  100 * (double)at->correct / (double)at->images, rate, eta);
}

static qg_status save_if_due(trainer *t)
{
    if (now_seconds() - t->saved < CHECKPOINT_SECONDS) return QG_OK;
    const qg_status status = run_save(&t->run);
    t->saved               = now_seconds();
    return status;
}

/* The steps that the epoch has left.  *stopped: it was asked to stop before the end. */
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

/* Loss and accuracy on the test split, into the record.  *stopped: it was asked to stop first, and
 * the record is as it was. */
static qg_status evaluate(trainer *t, bool *stopped)
{
    double   sum = 0;
    uint64_t n = 0, correct = 0, i = 0;
    for (qg_batch b; qg_loader_next(t->test, &b); i++) {
        if ((*stopped = stop_signal != 0)) return qg_loader_seek(t->test, 0, 0);
        qg_tape_begin(t->tape, QG_EVAL, qg_rng_fork(t->run.record.seed, QG_STREAM_TAPE), i);
        qg_var *scores = qg_net_forward(t->net, t->tape, b.x);
        qg_var *loss   = recipe_loss(&t->recipe, t->tape, scores, b.y);
        if (!loss) return qg_tape_status(t->tape);
        sum += (double)loss->data[0] * (double)b.x.shape.n;
        correct += (uint64_t)qg_correct(scores, b.y);
        n += (uint64_t)b.x.shape.n;
    }
    if (!isfinite(sum))
        return qg_fail(QG_ENAN, "epoch %" PRIu64 ": the loss on the test images is not finite",
                       t->run.record.epoch + 1);
    t->run.record.tested        = n;
    t->run.record.test_loss     = sum / (double)n;
    t->run.record.test_accuracy = (double)correct / (double)n;
    return QG_OK;
}

static double epoch_rate(const trainer *t)
{
    return t->stepping > 0 ? (double)t->stepped / t->stepping : 0;
}

static void begin_epoch(trainer *t)
{
    t->epoch_began = now_seconds();
    t->stepping    = 0;
    t->stepped     = 0;
}

/* The record steps to the next epoch, and every file follows it. */
static qg_status end_epoch(trainer *t)
{
    run_record  *at     = &t->run.record;
    const double lr     = rate_at(t, at->epoch * batches(t) + at->batch - 1);
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
    qg_status status = census_count(&t->run.census);
    if (status) return status;
    const metrics_row row = { .epoch             = (double)at->epoch,
                              .lr                = lr,
                              .train_loss        = at->train_loss,
                              .train_accuracy    = at->train_accuracy,
                              .test_loss         = at->test_loss,
                              .test_accuracy     = at->test_accuracy,
                              .images_per_second = epoch_rate(t),
                              .seconds           = now_seconds() - t->epoch_began };
    status   = run_save_epoch(&t->run, row, better);
    t->saved = now_seconds();
    if (status) return status;
    const char *on = t->progress.colour ? "\033[32m" : "", *off = t->progress.colour ? "\033[0m" : "";
    progress_line(&t->progress,
                  "epoch %*" PRIu64 "/%d  lr %.3g  train loss %.4f  accuracy %.2f %%  "
                  "test loss %.4f  accuracy %s%.2f %%%s  %.0f images/s  %.1f s",
                  t->recipe.epochs >= 10 ? 2 : 1, at->epoch, t->recipe.epochs, lr, at->train_loss,
                  100 * at->train_accuracy, at->test_loss, better ? on : "", 100 * at->test_accuracy,
                  better ? off : "", row.images_per_second, row.seconds);
    return QG_OK;
}

/* To the end, or to where it must stop; then the checkpoint says where. */
static qg_status run_epochs(trainer *t)
{
    bool stopped = false;
    t->saved     = now_seconds();
    begin_epoch(t);
    while (!finished(t)) {
        qg_status status = run_steps(t, &stopped);
        if (!status && !stopped) status = evaluate(t, &stopped);
        if (!status && stopped) return run_save(&t->run);
        if (!status) status = end_epoch(t);
        if (status) return status;
        begin_epoch(t);
    }
    return QG_OK;
}

/* --- before and after --------------------------------------------------------------------- */

/* Where the run is to be: --out, or a name made of the configuration. */
static qg_status choose_directory(trainer *t, char dir[PATH_BYTES], bool *usage)
{
    const char *out = config_text(&t->asked, "out");
    *usage          = true;
    if (out) {
        if (strlen(out) >= PATH_BYTES) return qg_fail(QG_EARG, "out: the path is too long");
        strcpy(dir, out);
        return QG_OK;
    }
    config          c      = { { 0 } };
    const qg_status status = recipe_resolve(&t->asked, NULL, &c, usage);
    if (!status) {
        snprintf(dir, PATH_BYTES, "runs/%s-%s-%s", config_text(&c, "model"), config_text(&c, "weight"),
                 config_text(&c, "seed"));
        for (char *at = dir; *at; at++)
            if (strchr(":=,", *at)) *at = '-';
    }
    config_free(&c);
    return status;
}

static qg_status configure(trainer *t, const char *dir, bool *usage)
{
    char      path[PATH_BYTES];
    config    stored = { { 0 } };
    qg_status status = path_join(dir, "config.toml", path);
    *usage           = false;
    const bool on    = !status && config_flag(&t->asked, "resume") && path_exists(path);
    if (on) status = config_read(&stored, path);
    if (!status) status = recipe_resolve(&t->asked, on ? &stored : NULL, &t->config, usage);
    config_free(&stored);
    if (status) return status;
    *usage = true;
    status = recipe_read(&t->config, &t->recipe);
    if (!status && config_flag(&t->asked, "resume") && config_flag(&t->asked, "force"))
        status = qg_fail(QG_EARG, "--resume goes on with a run and --force begins another; not both");
    return status;
}

static qg_status build(trainer *t)
{
    qg_set_threads(t->recipe.threads);
    t->train = recipe_data(&t->recipe, false);
    t->test  = t->train ? recipe_data(&t->recipe, true) : NULL;
    if (!t->test) return QG_EIO;
    t->net   = recipe_net(&t->recipe, qg_loader_shape(t->train), qg_loader_classes(t->train));
    t->optim = t->net ? recipe_optim(&t->recipe, qg_net_params(t->net)) : NULL;
    t->tape  = t->optim ? qg_tape_new() : NULL;
    if (!t->tape) return QG_EMEM;
    return run_compose(&t->run, &t->config, t->net, t->optim);
}

static qg_status take_up(trainer *t)
{
    const run_record *at     = &t->run.record;
    qg_status         status = run_load(&t->run);
    if (!status && (at->batch > batches(t) || at->images > (uint64_t)qg_loader_shape(t->train).n))
        status = qg_fail(QG_EFORMAT, "%s: the checkpoint is of a run with more data than there is",
                         t->run.dir);
    if (status || finished(t)) return status;
    status = qg_loader_seek(t->train, at->epoch, at->batch);
    return status ? status : run_cut_metrics(&t->run);
}

static void print_outcome(const trainer *t)
{
    const run_record *at = &t->run.record;
    report r = { .program = t->program, .config = &t->config, .recipe = &t->recipe, .run = &t->run,
                 .net = t->net, .rate = metrics_rate(&t->run.metrics) };
    if (!finished(t)) {
        r.seconds = now_seconds() - t->epoch_began;
        if (r.rate <= 0) r.rate = epoch_rate(t);
        fprintf(stderr, "qgrad: stopped in epoch %" PRIu64 " after step %" PRIu64 " of %" PRIu64
                        "; go on with: %s train --resume --out %s\n",
                at->epoch + 1, at->batch, batches(t), t->program, t->run.dir);
    }
    if (config_flag(&t->asked, "json")) report_json(&r, stdout);
    else report_result(&r, stdout);
}

static void print_head(const trainer *t)
{
    const report r = { .config = &t->config, .recipe = &t->recipe, .run = &t->run, .net = t->net };
    if (!config_flag(&t->asked, "json")) report_head(&r, stdout, t->train, t->test);
    fflush(stdout);
}

static int train(trainer *t)
{
    char            dir[PATH_BYTES];
    bool            usage;
    const run_mode  mode = config_flag(&t->asked, "resume")  ? RUN_RESUME
                           : config_flag(&t->asked, "force") ? RUN_FORCE
                                                             : RUN_NEW;
    qg_status status = choose_directory(t, dir, &usage);
    if (!status) status = configure(t, dir, &usage);
    if (status) return qg_report("qgrad train"), usage ? EXIT_USAGE : EXIT_FAILED;
    t->budget = config_text(&t->asked, "budget") ? config_real(&t->asked, "budget") : INFINITY;
    catch_signals();
    status = build(t);
    if (!status) status = run_claim(&t->run, dir, mode);
    const bool loads = !status && run_has_checkpoint(&t->run);
    if (!status) status = loads ? take_up(t) : run_create(&t->run);
    if (!status) {
        print_head(t);
        status = run_epochs(t);
    }
    progress_clear(&t->progress);
    if (status) return qg_report("qgrad train");
    print_outcome(t);
    return stop_signal && !finished(t) ? 128 + stop_signal : EXIT_DONE;
}

int train_main(const verb *v, const char *program, int argc, char **argv)
{
    trainer t = { .program  = program,
                  .run      = { .lock = -1 },
                  .began    = now_seconds(),
                  .progress = progress_begin() };
    int     status = options_parse(v, argc, argv, &t.asked);
    if (status < 0) status = train(&t);
    qg_tape_free(t.tape);
    qg_optim_free(t.optim);
    run_end(&t.run);
    qg_net_free(t.net);
    qg_loader_free(t.test);
    qg_loader_free(t.train);
    config_free(&t.config);
    config_free(&t.asked);
    return status;
}
