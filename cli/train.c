/* qgrad train. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/init.h"
#include "cli/config/config.h"
#include "cli/config/models.h"
#include "cli/run/report.h"
#include "cli/run/trainer.h"
#include "core/kernels/parallel.h"
#include "layers/plan.h"

/* The signal that asked the run to stop; 0: none. */
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

/* The verb: its options, and the loop they set up. */
typedef struct training {
    const char *program;
    config     *asked;
    config      config;
    trainer     trainer;
    init_report init;
    bool        goes_on;            /* with a run that has a config.toml */
} training;

/* The run directory: --out, or a name derived from the recipe or the configuration. */
static qg_status choose_directory(training *t, bool *usage)
{
    char      dir[PATH_BYTES];
    config    c      = { 0 };
    qg_status status = QG_OK;
    *usage           = true;
    if (t->asked->out) {
        size_t n = strlen(t->asked->out);
        while (n > 1 && t->asked->out[n - 1] == '/') n--;
        if (n >= PATH_BYTES) return qg_fail(QG_EARG, "out: the path is too long");
        snprintf(dir, sizeof dir, "%.*s", (int)n, t->asked->out);
    } else {
        status = config_resolve(t->asked, NULL, &c, usage);
    }
    if (!status && !t->asked->out) {
        const char *weight = config_text(&c, "weight"), *named = t->asked->named;
        char        model[VALUE_BYTES];
        model_file_name(config_text(&c, "model"), model, sizeof model);
        if (named) snprintf(dir, PATH_BYTES, "runs/%s/seed-%s", named, config_text(&c, "seed"));
        else snprintf(dir, PATH_BYTES, "runs/%s-%.*s-%s", model,
                 (int)strcspn(weight, ":"), weight, config_text(&c, "seed"));
    }
    config_free(&c);
    return status ? status : run_paths_of(dir, &t->trainer.run.paths);
}

static qg_status configure(training *t, bool *usage)
{
    const char *path   = t->trainer.run.paths.file[RUN_CONFIG];
    config      stored = { 0 };
    qg_status   status = QG_OK;
    *usage             = false;
    t->goes_on         = t->asked->resume && path_exists(path);
    if (t->goes_on) status = config_stored(path, &stored);
    if (!status) status = config_resolve(t->asked, t->goes_on ? &stored : NULL, &t->config, usage);
    config_free(&stored);
    if (status && t->asked->resume && !t->goes_on && !t->asked->recipe.model.type)
        return qg_fail(QG_EARG, "%s contains no run to resume, and %s", t->trainer.run.paths.dir, qg_errmsg());
    if (status) return status;
    *usage = true;
    status = config_check(&t->config);
    if (!status) status = recipe_trains(&t->config.recipe);
    if (!status && t->asked->resume && t->asked->force)
        status = qg_fail(QG_EARG, "--resume and --force exclude each other");
    return status;
}

/* A mismatch would otherwise show after an epoch of training. */
static qg_status check_images(const trainer *w)
{
    const qg_shape a = qg_loader_shape(w->train), b = qg_loader_shape(w->test);
    if (a.h == b.h && a.w == b.w && a.c == b.c) return QG_OK;
    return qg_fail(QG_EFORMAT, "%s: test images are %dx%dx%d, training images %dx%dx%d",
                   w->recipe->data.name, b.h, b.w, b.c, a.h, a.w, a.c);
}

/* A batch norm with one number per channel in an image, or NULL. */
static const char *smallest_norm(const qg_net *net)
{
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer           *l  = qg_net_layer(net, i);
        const qg_batchnorm *bn = qg__batchnorm(l);
        if (bn && l->in.h == 1 && l->in.w == 1 && (l->in.c == 1 || !bn->spec.whole)) return l->name;
    }
    return NULL;
}

/* The variance of one number is 0, so such a batch norm gives its shift for any input, and no gradient. */
static qg_status check_batches(const trainer *w)
{
    const int   n = qg_loader_shape(w->train).n, batch = w->recipe->batch < n ? w->recipe->batch : n;
    const char *norm = smallest_norm(w->run.net);
    if (!norm || (batch > 1 && n % batch != 1)) return QG_OK;
    if (batch == 1)
        return qg_fail(QG_EARG, "batches of 1 image give %s one value per channel, whose variance is 0; it needs 2 or more",
                       norm);
    print_safe(stderr,
               "qgrad: warning: the last batch of an epoch has 1 of the %d images, so %s has one value per channel, whose "
               "variance is 0; choose another --batch\n", n, norm);
    return QG_OK;
}

/* The digest of the images is part of the configuration, their directory is not.  Runs of older versions recorded no
 * digest and continue without one. */
static qg_status note(training *t, const char *key, const char *what, uint64_t digest)
{
    const char *stored = config_text(&t->config, key);
    char        found[32];
    if (!stored && t->goes_on) return QG_OK;
    snprintf(found, sizeof found, "%016" PRIx64, digest);
    if (stored && strcmp(stored, found))
        return qg_fail(QG_EARG, "%s: the %s have digest %s, but the run started with %s (%s)", t->config.recipe.data.name,
                       what, found, stored, t->trainer.run.paths.file[RUN_CONFIG]);
    return config_set(&t->config, option_find(key), found);
}

static qg_status note_images(training *t)
{
    const trainer  *w      = &t->trainer;
    const uint64_t  names  = qg_loader_class_digest(w->train);
    const qg_status status = note(t, "data-digest", "images", data_digest(w->train, w->test));
    return status || !names ? status : note(t, "class-digest", "names of the classes", names);
}

/* Without --init: a run that has a checkpoint needs no weights to begin with. */
static qg_status begin_without(const training *t)
{
    const char *other = t->config.init_recipe, *digest = t->config.init_digest;
    if (!other && !digest) return QG_OK;
    bool            resumes = false;
    const qg_status status  = t->asked->resume ? run_has(&t->trainer.run, RUN_LAST, &resumes) : QG_OK;
    if (status || resumes) return status;
    if (digest)
        return qg_fail(QG_EARG, "the run starts from weights with digest %s; pass their location with --init", digest);
    return qg_fail(QG_EARG, "the recipe starts from another run's weights; pass --init runs/%s/seed-%s", other,
                   config_text(&t->config, "seed"));
}

/* The digest of the initial weights is part of the configuration, their path is not. */
static qg_status begin_with(training *t, const char *source)
{
    const char     *stored = t->config.init_digest, *found = t->init.digest;
    const qg_status status = init_weights(t->trainer.run.net, source, NULL, &t->init);
    if (status) return qg_fail(status, "--init %s", qg_errmsg());
    if (t->goes_on && !stored) return qg_fail(QG_EARG, "--init: the run started without initial weights, and cannot take any now");
    if (stored && strcmp(stored, found))
        return qg_fail(QG_EARG, "%s: its weights have digest %s, but the run started with %s", source, found, stored);
    return config_set(&t->config, option_find("init-digest"), found);
}

static qg_status build(training *t)
{
    trainer *w = &t->trainer;
    w->recipe  = &t->config.recipe;
    qg_set_threads(w->recipe->threads);
    w->train = recipe_data(w->recipe, false, NULL);
    w->test  = w->train ? recipe_data(w->recipe, true, w->train) : NULL;
    if (!w->test) return QG_EIO;
    qg_status status = check_images(w);
    if (!status) status = note_images(t);
    if (status) return status;
    const char *init = t->asked->init;
    w->run.net       = recipe_net(w->recipe, qg_loader_shape(w->train), qg_loader_classes(w->train));
    if (w->run.net && (check_batches(w) || (init ? begin_with(t, init) : begin_without(t)))) return QG_EARG;
    return run_compose(&w->run, &t->config);
}

/* The result.json of earlier processes.  Runs of older versions have no such file. */
static qg_status read_before(trainer *w)
{
    bool            has;
    const qg_status status = run_has(&w->run, RUN_RESULT, &has);
    if (status || !has) return status;
    return result_read(&w->before, w->run.lock, w->run.paths.file[RUN_RESULT]);
}

/* Continues from the checkpoint.  moved: the images have moved, and config.toml must record their new directory. */
static qg_status take_up(trainer *w, bool moved)
{
    const run_record *at     = &w->run.record;
    const uint64_t    images = (uint64_t)qg_loader_shape(w->train).n;
    qg_status         status = run_load(&w->run);
    if (!status) status = run_check_best(&w->run);
    if (!status) status = read_before(w);
    w->before.complete &= trainer_finished(w);
    if (!status && (at->batch > trainer_batches(w) || at->images > images))
        status = qg_fail(QG_EFORMAT, "%s: the checkpoint belongs to a run with more training images",
                         w->run.paths.dir);
    if (!status && at->steps != at->epoch * trainer_batches(w) + at->batch)
        status = qg_fail(QG_EFORMAT, "%s: the checkpoint is %" PRIu64 " steps after the start, not %" PRIu64
                         " epochs of %" PRIu64 " and %" PRIu64, w->run.paths.dir, at->steps, at->epoch,
                         trainer_batches(w), at->batch);
    if (!status && !trainer_finished(w)) status = qg_loader_seek(w->train, at->epoch, at->batch);
    if (!status) status = run_keep_config(&w->run, moved);      /* nothing is written before all is accepted */
    return status || trainer_finished(w) ? status : run_cut_metrics(&w->run);
}

static void print_outcome(const training *t)
{
    const trainer    *w  = &t->trainer;
    const run_record *at = &w->run.record;
    report            r  = trainer_report(w);
    r.program            = t->program;
    if (!trainer_finished(w)) {
        fprintf(stderr,
                "qgrad: stopped in epoch %" PRIu64 " after step %" PRIu64 " of %" PRIu64
                "; continue with: %s train --resume --out ",
                at->epoch + 1, at->batch, trainer_batches(w), t->program);
        path_print(w->run.paths.dir, stderr);
        fputc('\n', stderr);
    }
    if (t->asked->json) report_json(&r, stdout);
    else report_result(&r, stdout);
}

static void print_init(const init_report *r)
{
    printf("starts from %d arrays with digest %s\n", r->taken, r->digest);
    if (*r->kept) print_safe(stdout, "  not in the file, so initialised as usual: %s\n", r->kept);
    if (*r->unused) print_safe(stdout, "not used by this net: %s\n", r->unused);
    putchar('\n');
}

static void print_head(const training *t)
{
    const trainer *w = &t->trainer;
    const report   r = trainer_report(w);
    if (!t->asked->json) report_head(&r, stdout, w->train, w->test);
    if (!t->asked->json && t->init.taken) print_init(&t->init);
    fflush(stdout);
}

static int train(training *t)
{
    trainer       *w = &t->trainer;
    bool           usage;
    const run_mode mode   = t->asked->resume ? RUN_RESUME : t->asked->force ? RUN_FORCE : RUN_NEW;
    qg_status      status = choose_directory(t, &usage);
    if (!status) status = configure(t, &usage);
    if (status) return options_report("qgrad train", usage);
    w->budget = config_text(t->asked, "budget") ? t->asked->budget : INFINITY;
    status = build(t);
    catch_signals();            /* until here, reading and whitening images included, there is nothing to save */
    if (!status) status = run_claim(&w->run, mode);
    bool loads = false;
    if (!status) status = run_has(&w->run, RUN_LAST, &loads);
    if (!status) status = loads ? take_up(w, t->asked->recipe.data_dir) : run_create(&w->run);
    if (!status) {
        print_head(t);
        status = trainer_run(w);
    }
    progress_clear(&w->progress);
    if (status) return qg_report("qgrad train");
    print_outcome(t);
    return stop_signal && !trainer_finished(w) ? 128 + stop_signal : EXIT_DONE;
}

int train_main(const char *program, const char *operand, config *asked)
{
    (void)operand;
    training t = { .program = program,
                   .asked   = asked,
                   .trainer = { .run      = { .lock = QG_BY_PATH },
                                .stop     = &stop_signal,
                                .began    = now_seconds(),
                                .progress = progress_begin() } };
    const int status = train(&t);
    run_end(&t.trainer.run);
    qg_loader_free(t.trainer.test);
    qg_loader_free(t.trainer.train);
    config_free(&t.config);
    return status;
}
