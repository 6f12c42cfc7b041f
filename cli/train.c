/* qgrad train. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The verb: its options, and the run they set up. */
typedef struct training {
    config       *asked;
    run_paths     paths;
    qg_training  *of;               /* what the recipe describes, or NULL */
    progress      progress;
    follower      follower;
    bool          unfollowed;       /* a warning has said so */
    double        began;            /* the process, for --budget */
    bool          goes_on;          /* with a run that has a config.toml */
    int           had;              /* a run that goes on had so many epochs */
    char          place[QG__PATH_BYTES];    /* the directory, or before its number; empty: one that may exist */
    size_t        made;                     /* of it (qg__path_make) */
    char          missed[PLACE_MISSED_BYTES];   /* a run that --resume may have been meant for; empty: none */
} training;

/* --- the run ------------------------------------------------------------------------------ */

/* Without --out: the run that --resume finds, or a name that is free. */
static qg_status choose_place(training *t, char dir[QG__PATH_BYTES])
{
    bool      found  = false;
    qg_status status = place_name(t->asked, dir);
    if (!status && config_flag(t->asked, "resume")) place_find(t->asked, dir, &found, t->missed);
    if (status || found || config_flag(t->asked, "force")) return status;
    strcpy(t->place, dir);
    return place_take(dir, NULL);
}

/* The run directory: --out, or a name derived from the recipe or the configuration.  On ranks the first one chooses, since it also
 * makes the directory. */
static qg_status choose_directory(training *t)
{
    char        dir[QG__PATH_BYTES] = "";
    const char *out                 = config_text(t->asked, "out");
    qg_status   status              = QG_OK;
    if (qg_rank() == 0) status = out ? run_directory("out", out, dir) : choose_place(t, dir);
    if (!status && qg_rank() == 0) status = run_paths_of(dir, &t->paths);
    return status || qg_ranks() == 1 ? status : qg_ranks_broadcast(&t->paths, sizeof t->paths);
}

/* Of a run that goes on, the directory has the configuration; qg_recipe_build compares it with what is asked for. */
static qg_status look_at_run(training *t)
{
    t->goes_on = config_flag(t->asked, "resume") && qg__path_exists(t->paths.file[RUN_CONFIG]);
    if (!t->goes_on) return QG_OK;
    qg_recipe *run = qg_recipe_of_run(t->paths.dir);
    if (run) t->had = atoi(qg_recipe_get(run, "epochs"));
    qg_recipe_free(run);
    return run ? QG_OK : qg_errcode();
}

/* What is wrong with the command line is found before any image is read. */
static qg_status configure(training *t)
{
    config    *asked   = t->asked;
    const bool resumes = config_flag(asked, "resume"), named = config_text(asked, "out");
    if (resumes && config_flag(asked, "force")) return qg_fail(QG_EARG, "--resume and --force exclude each other");
    const bool net = config_text(asked, "model") || config_text(asked, "recipe") ||
                     config_text(asked, "config");
    if (resumes && !named && !net)
        return qg_fail(QG_EARG, "--resume: which run? pass its directory with --out (qgrad runs lists them), or "
                       "the options that it began with");
    qg_status status = config_read(asked);
    if (status) return status;
    if (!named) status = qg_recipe_check(asked->recipe);
    if (!status) status = choose_directory(t);
    if (!status) status = look_at_run(t);
    if (status || !named || t->goes_on) return status;
    status = qg_recipe_check(asked->recipe);
    if (status && resumes && !net && qg__path_exists(t->paths.file[RUN_LAST]))
        return qg_fail(status, "%s: config.toml is missing; pass the options that the run began with, or "
                       "start another run from its weights with --init", t->paths.dir);
    if (status && resumes && !net)
        return qg_fail(status, "%s contains no run to resume, and %s", t->paths.dir, qg_errmsg());
    return status;
}

/* --- what is printed ---------------------------------------------------------------------- */

static report report_of(const training *t) { return (report){ .program = t->asked->program, .of = t->of, .paths = &t->paths }; }

static const char *get(const training *t, const char *key) { return qg_recipe_get(t->of->recipe, key); }

static void print_init(const training *t)
{
    const qg_training *of = t->of;
    const char        *except = get(t, "init-except");
    print_safe(stdout, "starts from %d arrays of %s with digest %s\n", of->init_arrays,
               config_text(t->asked, "init"), get(t, "init-digest"));
    if (except) print_safe(stdout, "  except for: %s\n", except);
    if (*of->init_kept)
        print_safe(stdout, "  of quantizers that it lacks or has with other options, so initialised as usual: %s\n",
                   of->init_kept);
    if (*of->init_unused) print_safe(stdout, "not used by this net: %s\n", of->init_unused);
    putchar('\n');
}

/* A quantizer that waits for longer than the run takes. */
static void warn_of_waiting(const training *t, uint64_t steps)
{
    for (int i = 0; i < qg_net_layers(t->of->net) && steps; i++)
        for (int r = 0; r < QG_ROLES; r++) {
            qg_layer      *l    = qg_net_layer(t->of->net, i);
            const qg_slot *slot = qg_layer_slot(l, qg_roles[r]);
            if (!slot || !slot->q.scheme || slot->q.after < steps) continue;
            const bool tested = slot->q.after == steps && qg_roles[r] != QG_GRADIENT;
            print_safe(stderr, "qgrad: warning: a quantizer of %s waits for %llu steps, and the run has %llu; it "
                       "trains %s\n", l->name, (unsigned long long)slot->q.after, (unsigned long long)steps,
                       tested ? "without this quantizer, and is tested with it"
                              : "and is tested without this quantizer");
            return;
        }
}

/* Images that are normalised in another way than those that the weights of --init know. */
static void warn_of_normalisation(const training *t, qg_run *from, const char *init)
{
    const char *was = qg_run_get(from, "normalise"), *now = get(t, "normalise");
    if (was && strcmp(was, now))
        print_safe(stderr, "qgrad: warning: the images of %s were normalised by %s (--normalise), and "
                   "these are by %s\n", init, was, now);
}

/* Images that validate this run, on which those weights were trained: that run held out none, or others. */
static void warn_of_seen(const training *t, qg_run *from, const char *init)
{
    const char   *is = get(t, "data-digest"), *was = qg_run_get(from, "data-digest");
    const char   *seed = qg_run_get(from, "validation") ? qg_run_get(from, "seed") : NULL;
    qg_fit_result log;
    if (!get(t, "validation") || qg_run_result(qg_run_directory(from), &log) || !log.epochs) return;
    if (was && is && !strcmp(was, is) && (!seed || strcmp(seed, get(t, "seed"))))
        print_safe(stderr, "qgrad: warning: %s was trained on images that validate this run; give both the same "
                   "--validation and --seed\n", init);
}

static void warn_of_source(const training *t)
{
    const char *init = config_text(t->asked, "init");
    qg_run     *from = init && !t->goes_on ? qg_run_open(init, QG_RUN_LAST) : NULL;
    if (from) warn_of_normalisation(t, from, init), warn_of_seen(t, from, init);
    qg_run_close(from);
}

/* What a run that begins now may not be meant to do. */
static void print_warnings(const training *t, const qg_fit_progress *p)
{
    const int epochs = t->of->fit.epochs;
    warn_of_waiting(t, p->epochs * p->batches);
    warn_of_source(t);
    if (config_flag(t->asked, "resume") && !t->goes_on && p->epoch == 0 && p->batch == 0)
        print_safe(stderr, "qgrad: warning: --resume found no run %s%s%s; a new one starts in %s\n",
                   config_text(t->asked, "out") ? "there" : "with these options", *t->missed ? "; " : "", t->missed, t->paths.dir);
    for (int r = 0; r < QG_ROLES; r++)
        report_unused(t->of->net, qg_roles[r], get(t, qg_role_name(qg_roles[r])), get(t, "first-last"));
    if (t->goes_on && t->had < epochs)
        print_safe(stderr, "qgrad: the run continues to epoch %d instead of %d, with schedule %s\n", epochs, t->had, get(t, "schedule"));
}

static void print_head(void *user, const qg_fit_progress *p)
{
    const training *t = user;
    const report    r = report_of(t);
    print_warnings(t, p);
    if (config_flag(t->asked, "json")) return;
    report_head(&r, stdout);
    if (t->of->init_arrays) print_init(t);
    if (get(t, "whiten-patches")) print_safe(stdout, "%s whitens patches of the images, and is not trained\n\n", get(t, "whiten-patches"));
    if (get(t, "teacher"))
        print_safe(stdout, "learns from %s with digest %s: %s\n\n", get(t, "teacher"), get(t, "teacher-digest"), get(t, "distil"));
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
    const int   epochs = t->of->fit.epochs;
    const bool  better = r->best_epoch == r->epochs, held = r->validation_images > 0;
    const char *on = t->progress.colour ? "\033[32m" : "", *off = t->progress.colour ? "\033[0m" : "";
    progress_line(&t->progress,
                  "epoch %*" PRIu64 "/%d  lr %.3g  train loss %.4f  accuracy %.2f %%  "
                  "%s loss %.4f  accuracy %s%.2f %%%s  %.0f images/s  %.1f s",
                  epochs >= 10 ? 2 : 1, r->epochs, epochs, e->lr, e->train_loss, 100 * e->train_accuracy,
                  held ? "validation" : "test", held ? e->validation_loss : e->test_loss, better ? on : "",
                  100 * (held ? e->validation_accuracy : e->test_accuracy), better ? off : "", e->images_per_second,
                  e->seconds);
    warn_of_page(t, follow_run(&t->follower, t->paths.dir));
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
    case QG_FIT_AT_CHANCE: progress_line(&t->progress, "qgrad: warning: %s", text); return;
    case QG_FIT_UNLOCKED:
    case QG_FIT_ADVICE:
    case QG_FIT_SMALL_BATCH: print_safe(stderr, "qgrad: warning: %s\n", text);
    }
}

static qg_status print_outcome(const training *t, const qg_fit_result *result)
{
    report r = report_of(t);
    r.result = *result;
    r.page   = KEPT_PAGE;
    if (!result->complete) {
        const bool over    = result->epochs == (uint64_t)t->of->fit.epochs || result->out_of_patience;
        const bool trained = result->batch == 0 && over;
        if (trained) fprintf(stderr, "qgrad: stopped before the last test");
        else
            fprintf(stderr, "qgrad: stopped in epoch %" PRIu64 " after step %" PRIu64 " of %" PRIu64,
                    result->epochs + 1, result->batch, result->batches);
        fprintf(stderr, "; continue with: %s train --resume --out ", t->asked->program);
        print_path(t->paths.dir, stderr);
        fputc('\n', stderr);
    }
    if (config_flag(t->asked, "json")) return qg_fit_result_print(result, &t->of->fit, t->of->net, stdout);
    report_result(&r, stdout);
    return QG_OK;
}

/* --- the verb ----------------------------------------------------------------------------- */

/* For qg_fit: 0 without --budget. */
static double time_left(const training *t)
{
    const double left = config_number(t->asked, "budget") - (qg__now() - t->began);
    return !config_text(t->asked, "budget") ? 0 : left > 0 ? left : -1;
}

static qg_status build(training *t)
{
    const config *asked = t->asked;
    const bool    resumes = config_flag(asked, "resume");
    t->of = qg_recipe_build(asked->recipe, (qg_fit_spec){
        .dir    = t->paths.dir,
        .mode   = resumes ? QG_FIT_RESUME : config_flag(asked, "force") ? QG_FIT_FORCE : QG_FIT_NEW,
        .init   = config_text(asked, "init"),
        .stop   = &stop_signal,
        .events = { t, print_head, print_step, print_epoch, print_notice, take_scores },
    });
    if (!t->of) return qg_errcode();
    if (qg_rank() == 0) report_warning(t->of->train), report_warning(t->of->test);
    t->follower = (follower){ .test = t->of->test, .codes = config_flag(asked, "watch") };
    return QG_OK;
}

/* Takes the directory just before the run is made in it, so that what was wrong until then leaves none. */
static qg_status take_place(training *t)
{
    if (!*t->place) return QG_OK;
    const qg_status status = place_take(t->place, &t->made);
    return status ? status : run_paths_of(t->place, &t->paths);
}

static int train(training *t)
{
    qg_fit_result result;
    qg_status     status = qg_ranks_begin(NULL, NULL);
    if (!status && qg_ranks() == 1 && qg_ranks_started() > 1)
        fprintf(stderr, "qgrad: warning: each of the %d processes that mpirun has started trains by itself; qgrad-mpi (make mpi) shares the work\n",
                qg_ranks_started());
    if (!status) status = configure(t);
    if (status) return print_failure(t->asked);
    status = build(t);
    stop_begin();               /* until here, reading and whitening images included, there is nothing to save */
    if (!status) status = take_place(t);
    if (!status) t->of->fit.budget = time_left(t);
    if (!status) status = qg_fit(t->of->net, t->of->fit, &result);
    if (status) qg__path_unmake(AT_FDCWD, t->paths.dir, t->made);
    progress_clear(&t->progress);
    if (status) return print_failure(t->asked);
    t->follower.codes = false;
    if (result.complete && t->follower.found.split) warn_of_page(t, follow_run(&t->follower, t->paths.dir));
    if (qg_rank() == 0) status = print_outcome(t, &result);
    if (status) return print_failure(t->asked);
    qg_ranks_end();
    if (result.complete) return EXIT_DONE;
    if (stop_signal) return 128 + stop_signal;
    return result.ended == QG_FIT_STOPPED ? 128 + SIGTERM : EXIT_BUDGET;    /* another rank got the signal */
}

static int train_main(config *asked)
{
    training  t      = { .asked = asked, .began = qg__now(), .progress = progress_begin() };
    const int status = train(&t);
    follow_end(&t.follower);
    qg_training_free(t.of);
    return status;
}

static const verb_option own_options[] = {
    { "out", .first = true }, { "resume", .first = true }, { "force", .first = true }, { "watch" }, { NULL }
};

const verb train_verb = {
    .name = "train", .about = "Train a net and store weights and metrics in a run directory",
    .usage = "train --model NAME [--data NAME] [--weight SCHEME] [options]", .run = train_main,
    .shares = true,
    .options = (const verb_option *const[]){ net_options, step_options, training_options, common_options, own_options, NULL },
};
