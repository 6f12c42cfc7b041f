/* qgrad train. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/config/config.h"
#include "cli/print.h"
#include "cli/report/follow.h"
#include "cli/run/place.h"
#include "cli/run/progress.h"
#include "cli/run/report.h"
#include "cli/run/run_spec.h"
#include "cli/run/stop.h"
#include "core/clock.h"
#include "core/kernels/parallel.h"
#include "core/dist/ranks.h"
#include "train/init.h"
#include "train/reader.h"

/* The verb: its options, and the run they set up. */
typedef struct training {
    const char     *program;
    config         *asked;
    qg_recipe       config;
    run_paths       paths;
    qg_fit_spec     spec;
    qg_loader      *train, *test;
    qg_net         *net;
    qg_optim       *optim;
    qg__init_report init;
    qg_run          teacher;        /* its net is NULL: none */
    progress        progress;
    follower        follower;
    bool            unfollowed;     /* a warning has said so */
    double          began;          /* the process, for --budget */
    bool            goes_on;        /* with a run that has a config.toml */
    int             extends;        /* one of so many epochs, which gets more; 0: it keeps its own */
    char            place[QG__PATH_BYTES];  /* the directory, or before its number; empty: one that may exist */
    bool            took_place;             /* and made it */
    char            missed[PLACE_MISSED_BYTES]; /* a run that --resume may have been meant for; empty: none */
} training;

/* Without --out: the run that --resume finds, or a name that is free. */
static qg_status choose_place(training *t, qg_recipe *c, char dir[QG__PATH_BYTES])
{
    bool      found  = false;
    qg_status status = place_name(t->asked, c, dir);
    if (!status && t->asked->resume) status = place_find(t->asked, c, dir, &found, t->missed);
    if (status || found || t->asked->force) return status;
    strcpy(t->place, dir);
    return place_take(dir, false);
}

/* The run directory: --out, or a name derived from the recipe or the configuration. */
static qg_status choose_directory_here(training *t, bool *usage)
{
    char      dir[QG__PATH_BYTES];
    qg_recipe c      = { 0 };
    qg_status status = QG_OK;
    *usage           = true;
    if (t->asked->out) status = run_directory("out", t->asked->out, dir);
    else status = config_resolve(t->asked, NULL, &c, usage);
    if (!status && !t->asked->out) status = choose_place(t, &c, dir);
    qg__recipe_clear(&c);
    return status ? status : run_paths_of(dir, &t->paths);
}

/* On ranks the first one chooses, since it also makes the directory. */
static qg_status choose_directory(training *t, bool *usage)
{
    qg_status status = QG_OK;
    *usage           = false;
    if (qg_rank() == 0) status = choose_directory_here(t, usage);
    if (status || qg_ranks() == 1) return status;
    return qg_ranks_broadcast(&t->paths, sizeof t->paths);
}

static qg_status configure(training *t, bool *usage)
{
    const char *path   = t->paths.file[RUN_CONFIG];
    qg_recipe   stored = { 0 };
    qg_status   status = QG_OK;
    *usage             = false;
    t->goes_on         = t->asked->resume && qg__path_exists(path);
    if (t->goes_on) status = qg__recipe_stored(path, &stored);
    if (!status) status = config_resolve(t->asked, t->goes_on ? &stored : NULL, &t->config, usage);
    if (!status && t->goes_on && stored.epochs < t->config.epochs) t->extends = stored.epochs;
    qg__recipe_clear(&stored);
    if (status && t->asked->resume && !t->goes_on && !t->asked->recipe.model.type)
        return qg_fail(QG_EARG, "%s contains no run to resume, and %s", t->paths.dir, qg_errmsg());
    if (status) return status;
    *usage = true;
    status = qg__recipe_trains(&t->config);
    if (!status && t->asked->resume && t->asked->force)
        status = qg_fail(QG_EARG, "--resume and --force exclude each other");
    return status;
}

/* The preprocessing of a run that goes on; NULL: its images decide it again.  A matrix of whitening takes a minute to
 * compute, and another processor may compute another one. */
static qg_preprocess *stored_preprocess(const training *t)
{
    const bool whitens = t->config.normalise.kind == QG_WHITEN;
    return t->goes_on && whitens ? qg_preprocess_open(t->paths.file[RUN_LAST]) : NULL;
}

/* Weights to begin with, unless the run has a checkpoint. */
static qg_status start(training *t)
{
    bool      resumes = false;
    qg_status status  = t->asked->resume ? qg__file_exists_in(QG_BY_PATH, t->paths.file[RUN_LAST], &resumes) : QG_OK;
    return status ? status : qg__recipe_init(&t->config, t->net, t->asked->init, t->goes_on, resumes, &t->init);
}

/* Whatever the run needs: images, net, optimizer, and the rest of the spec. */
static qg_status build(training *t)
{
    const qg_recipe *r = &t->config;
    qg_set_threads(r->threads);
    qg_preprocess *stored = stored_preprocess(t);
    t->train = qg__recipe_data(r, false, stored);
    qg_preprocess_free(stored);
    t->test  = qg__recipe_test_of(r, t->train);
    if (!t->test) return QG_EIO;
    if (qg_rank() == 0) report_presets(), report_warning(t->train), report_warning(t->test);
    qg_status status = qg__recipe_note_data(&t->config, t->goes_on ? t->paths.file[RUN_CONFIG] : NULL, t->train, t->test);
    if (status) return status;
    t->net = qg__recipe_net(r, qg_loader_shape(t->train), qg_loader_classes(t->train));
    if (t->net && start(t)) return QG_EARG;
    if (t->net && qg__recipe_teacher(&t->config, t->goes_on, t->train, &t->teacher)) return QG_EARG;
    t->optim = t->net ? qg__recipe_optim(r, qg_net_params(t->net)) : NULL;
    return t->optim ? qg__recipe_spec(&t->config, &t->spec) : QG_EMEM;
}

/* --- what is printed ---------------------------------------------------------------------- */

static report report_of(const training *t)
{
    return (report){ .program = t->program,
                     .config  = &t->config,
                     .paths   = &t->paths,
                     .spec    = &t->spec,
                     .net     = t->net };
}

static void print_init(const qg__init_report *r, const char *except)
{
    printf("starts from %d arrays with digest %s\n", r->taken, r->digest);
    if (except) print_safe(stdout, "  except for: %s\n", except);
    if (*r->kept) print_safe(stdout, "  not in the file, so initialised as usual: %s\n", r->kept);
    if (*r->unused) print_safe(stdout, "not used by this net: %s\n", r->unused);
    putchar('\n');
}

/* What a run that begins now may not be meant to do. */
static void print_warnings(const training *t, const qg_fit_progress *p)
{
    if (t->asked->resume && !t->goes_on && p->epoch == 0 && p->batch == 0)
        print_safe(stderr, "qgrad: warning: --resume found no run %s%s%s; a new one starts in %s\n",
                   t->asked->out ? "there" : "with these options", *t->missed ? "; " : "", t->missed, t->paths.dir);
    if (t->extends)
        print_safe(stderr, "qgrad: the run goes on to epoch %d instead of %d, with schedule %s\n", t->config.epochs, t->extends,
                   qg__recipe_value(&t->config, "schedule"));
}

static void print_head(void *user, const qg_fit_progress *p)
{
    const training *t = user;
    const report    r = report_of(t);
    print_warnings(t, p);
    if (!t->asked->json) report_head(&r, stdout);
    if (!t->asked->json && t->init.taken) print_init(&t->init, t->config.init_except);
    if (!t->asked->json && t->teacher.net)
        print_safe(stdout, "learns from %s with digest %s: %s\n\n", t->config.teacher_run, t->config.teacher_digest, qg__recipe_value(&t->config, "distil"));
    fflush(stdout);
}

static void print_step(void *user, const qg_fit_progress *p)
{
    training *t = user;
    char      eta[32];
    if (!progress_due(&t->progress)) return;
    print_duration(p->seconds_left, eta);
    progress_draw(&t->progress,
                  "epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64
                  "  loss %.4f  accuracy %.2f %%  %.0f images/s  ETA %s",
                  p->epoch + 1, p->epochs, p->batch, p->batches, p->loss, 100 * p->accuracy, p->images_per_second, eta);
}

/* The run goes on without its page. */
static void warn_of_page(training *t, qg_status status)
{
    if (!status || t->unfollowed) return;
    print_safe(stderr, "qgrad: warning: %s is not up to date: %s\n", KEPT_PAGE, qg_errmsg());
    t->unfollowed = true;
}

static void print_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    training   *t      = user;
    const int   epochs = t->config.epochs;
    const bool  better = r->best_epoch == r->epochs, held = r->validation_images > 0;
    const char *on = t->progress.colour ? "\033[32m" : "", *off = t->progress.colour ? "\033[0m" : "";
    progress_line(&t->progress,
                  "epoch %*" PRIu64 "/%d  lr %.3g  train loss %.4f  accuracy %.2f %%  "
                  "%s loss %.4f  accuracy %s%.2f %%%s  %.0f images/s  %.1f s",
                  epochs >= 10 ? 2 : 1, r->epochs, epochs, e->lr, e->train_loss, 100 * e->train_accuracy,
                  held ? "validation" : "test", held ? e->validation_loss : e->test_loss, better ? on : "",
                  100 * (held ? e->validation_accuracy : e->test_accuracy), better ? off : "", e->images_per_second,
                  e->seconds);
    warn_of_page(t, follow_epoch(&t->follower, t->paths.dir));
}

static void take_scores(void *user, qg_loader *images, const qg_batch *b, const qg_var *scores)
{
    training *t = user;
    follow_scores(&t->follower, images, b, scores);
}

static void print_notice(void *user, qg_fit_notice what, const char *text)
{
    training *t = user;
    switch (what) {
    case QG_FIT_RENAMED: print_safe(stderr, "qgrad: %s\n", text); return;
    case QG_FIT_DRIFTED:
    case QG_FIT_AT_CHANCE: progress_line(&t->progress, "warning: %s", text); return;
    case QG_FIT_UNLOCKED:
    case QG_FIT_ADVICE:
    case QG_FIT_OTHER_KERNELS:
    case QG_FIT_SMALL_BATCH: print_safe(stderr, "qgrad: warning: %s\n", text);
    }
}

static void print_outcome(const training *t, const qg_fit_result *result)
{
    report r = report_of(t);
    r.result = *result;
    r.page   = KEPT_PAGE;
    if (!result->complete) {
        fprintf(stderr,
                "qgrad: stopped in epoch %" PRIu64 " after step %" PRIu64 " of %" PRIu64
                "; continue with: %s train --resume --out ",
                result->epochs + 1, result->batch, result->batches, t->program);
        print_path(t->paths.dir, stderr);
        fputc('\n', stderr);
    }
    if (t->asked->json) report_json(&r, stdout);
    else report_result(&r, stdout);
}

/* --- the verb ----------------------------------------------------------------------------- */

static qg_status fit(training *t, qg_fit_result *result)
{
    const config *asked = t->asked;
    qg_fit_spec  *s     = &t->spec;
    const double  left  = asked->budget - (qg__now() - t->began);
    s->dir              = t->paths.dir;
    s->mode             = asked->resume ? QG_FIT_RESUME : asked->force ? QG_FIT_FORCE : QG_FIT_NEW;
    s->train            = t->train;
    s->test             = t->test;
    s->validation       = qg_loader_validation(t->train);
    s->optim            = t->optim;
    s->renew_file       = asked->recipe.data_dir || asked->recipe.teacher_run;     /* they may have moved */
    s->teacher.net      = t->teacher.net;
    s->teacher.steps    = t->teacher.steps;
    s->stop             = &stop_signal;
    s->events           = (qg_fit_events){ t, print_head, print_step, print_epoch, print_notice, take_scores };
    t->follower         = (follower){ .test = t->test, .codes = asked->watch, .out = stderr };
    if (config_text(asked, "budget")) s->budget = left > 0 ? left : -1;
    return qg_fit(t->net, *s, result);
}

/* Takes the directory just before the run is made in it, so that what was wrong until then leaves none. */
static qg_status take_place(training *t)
{
    if (!*t->place) return QG_OK;
    const qg_status status = place_take(t->place, true);
    t->took_place          = !status;
    return status ? status : run_paths_of(t->place, &t->paths);
}

/* One rank that fails ends all of them, with one line. */
static int fail(int code)
{
    char line[1024];
    snprintf(line, sizeof line, "qgrad train: %.1000s", qg_errmsg());
    qg_ranks_abort(code, line);
    return code;
}

static int train(training *t)
{
    bool          usage;
    qg_fit_result result;
    qg_status     status = qg_ranks_begin(NULL, NULL);
    if (!status && qg_ranks() == 1 && qg_ranks_started() > 1)
        fprintf(stderr, "qgrad: warning: each of the %d processes that mpirun has started trains alone; qgrad-mpi (make mpi) shares the work\n",
                qg_ranks_started());
    if (t->asked->recipe.norm_sync == QG__NORM_SYNC_ON) qg__recipe_unset(&t->asked->recipe, "norm-sync");    /* as a run that does not say so */
    if (!status) status = choose_directory(t, &usage);
    else usage = true;
    if (!status) status = configure(t, &usage);
    if (status && qg_ranks() > 1) return fail(EXIT_USAGE);
    if (status) return options_report("qgrad train", usage);
    status = build(t);
    stop_begin();               /* until here, reading and whitening images included, there is nothing to save */
    if (!status) status = take_place(t);
    if (!status) status = fit(t, &result);
    if (status && t->took_place) rmdir(t->paths.dir);       /* if it is empty */
    progress_clear(&t->progress);
    if (status && qg_ranks() > 1) return fail(EXIT_FAILED);
    if (status) return qg_print_error("qgrad train");
    if (result.complete && t->follower.found.split) warn_of_page(t, follow_test(&t->follower, t->paths.dir));
    if (qg_rank() == 0) print_outcome(t, &result);
    qg_ranks_end();
    if (result.complete) return EXIT_DONE;
    if (stop_signal) return 128 + stop_signal;
    return result.ended == QG_FIT_STOPPED ? 128 + SIGTERM : EXIT_BUDGET;    /* another rank got the signal */
}

static int train_main(const char *program, const char *operand, config *asked)
{
    (void)operand;
    training  t      = { .program = program, .asked = asked, .began = qg__now(), .progress = progress_begin() };
    const int status = train(&t);
    follow_end(&t.follower);
    qg__reader_clear(&t.teacher);
    qg_optim_free(t.optim);
    qg_net_free(t.net);
    qg_loader_free(t.test);
    qg_loader_free(t.train);
    qg__recipe_clear(&t.config);
    return status;
}

static const verb_option own_options[] = {
    { "out", .first = true }, { "resume", .first = true }, { "force", .first = true }, { NULL }
};

const verb train_verb = {
    .name = "train", .about = "Train a net and store weights and metrics in a run directory",
    .usage = "train --model NAME [--data NAME] [--weight SCHEME] [options]", .run = train_main,
    .shares = true,
    .options = (const verb_option *const[]){ net_options, step_options, training_options, common_options, own_options, NULL },
};
