/* The training that a recipe describes: what qg_fit is told, and what the recipe notes of images and weights. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dist/ranks.h"
#include "core/kernels/parallel.h"
#include "layers/plan.h"
#include "train/reader.h"
#include "train/result.h"

/* --- for qg_fit --------------------------------------------------------------------------- */

/* A surrogate that is annealed reaches its end with the run, so in a longer one it was another. */
static bool anneals(const qg_recipe *r)
{
    bool any = r->weight.surrogate.to != 0 || r->input.surrogate.to != 0;
    for (int i = 0; i < r->exceptions.count; i++) {
        const qg_choice *c = &r->exceptions.item[i].choice;
        any |= c->weight.surrogate.to != 0 || c->input.surrogate.to != 0;
    }
    return any;
}

static const char *or_unset(const char *text) { return text ? text : "unset"; }

/* Keys may have been added since the file was written, so values are compared and not texts.  Whether the span may differ
 * is qg_fit's to say. */
qg_status qg__recipe_same(const qg_recipe *r, const char *said, const char *path, qg_fit_span *was)
{
    qg_recipe         stored = { .epochs = 0 };
    qg_status         status = qg__recipe_parse_stored(&stored, said, path);
    const qg_recipe_key *o      = status ? NULL : qg__recipe_difference(r, &stored, QG_RECIPE_IDENTITY, QG_RECIPE_EXTENDS);
    if (!status && qg__recipe_value(&stored, "epochs")) was->epochs = stored.epochs;
    if (!status) was->patience = stored.patience;
    if (!status && qg__recipe_value(&stored, "schedule")) was->schedule = stored.schedule;
    if (!status && !o && was->epochs != r->epochs && anneals(r))
        status = qg_fail(QG_EARG, "%s: epochs: the run cannot be extended: a surrogate of it is annealed over %d epochs", path,
                         was->epochs);
    if (o)
        status = qg_fail(QG_EFORMAT, "%s: belongs to a run with %s %s, not %s", path, o->name,
                         or_unset(stored.text[o - qg_recipe_keys]), or_unset(r->text[o - qg_recipe_keys]));
    qg__recipe_clear(&stored);
    return status;
}

static qg_status same(void *user, const char *said, const char *path, qg_fit_span *was)
{
    return qg__recipe_same(user, said, path, was);
}

qg_status qg__recipe_spec(qg_recipe *r, qg_fit_spec *spec)
{
    static const char *const about[] = { "model", "data", "weight", "input", "gradient" };
    free(r->identity), free(r->file);
    r->identity = qg__recipe_print(r, QG_RECIPE_IDENTITY);
    r->file     = qg__recipe_print(r, 0);
    for (int i = 0; i < 5; i++) r->about[i] = (qg_note){ about[i], qg__recipe_value(r, about[i]) };
    r->about[1].value = r->data.name;
    *spec             = qg__recipe_fit(r);
    spec->config      = r->identity;
    spec->file        = r->file;
    spec->about       = r->about;
    spec->abouts      = 5;
    spec->same        = same;
    spec->user        = r;
    return r->identity && r->file ? QG_OK : qg_fail(QG_EMEM, "out of memory for the configuration");
}

/* --- what it notes ------------------------------------------------------------------------ */

/* Runs of older versions recorded no digest and continue without one. */
static qg_status note_digest(qg_recipe *r, const char *goes_on, const char *key, const char *what, uint64_t digest)
{
    const char *stored = qg__recipe_value(r, key);
    char        found[32];
    if (!stored && goes_on) return QG_OK;
    snprintf(found, sizeof found, "%016" PRIx64, digest);
    if (stored && strcmp(stored, found) && !goes_on)
        return qg_fail(QG_EARG, "%s: the %s have digest %s, but the configuration is of a run with %s; "
                       "to train on these, pass --data-dir", r->data.name, what, found, stored);
    if (stored && strcmp(stored, found))
        return qg_fail(QG_EARG, "%s: the %s have digest %s, but the run started with %s (%s)", r->data.name, what, found, stored,
                       goes_on);
    return qg__recipe_put(r, key, found);
}

qg_status qg__recipe_note_images(qg_recipe *r, const char *goes_on, const qg_loader *train, const qg_loader *test)
{
    const uint64_t names  = qg__loader_class_digest(train);
    qg_status      status = QG_OK;
    if (test) status = note_digest(r, goes_on, "data-digest", "images", qg__data_digest(train, test));
    if (!status && (names || r->class_digest))
        status = note_digest(r, goes_on, "class-digest", "names of the classes", names);
    return status;
}

/* Results of norms that are not synchronised depend on the number of ranks, which is therefore part of the recipe. */
static qg_status note_ranks(qg_recipe *r, bool goes_on)
{
    char        here[16];
    const char *stored = qg__recipe_value(r, "ranks");
    snprintf(here, sizeof here, "%d", qg_ranks());
    if (r->norm_sync != QG__NORM_SYNC_OFF) return QG_OK;
    if (goes_on && stored && strcmp(stored, here))
        return qg_fail(QG_EARG, "norm-sync off: the run began on %s ranks, which its batch norms depend on, and cannot go on with %s",
                       stored, here);
    return qg__recipe_put(r, "ranks", here);
}

/* The digests of the images, which decide about a run as its keys do but are no keys of a new one, the number of ranks, and what
 * delays in epochs mean in steps.  goes_on: the file of a run that goes on, whose images these must be; NULL: a new one. */
static qg_status note_data(qg_recipe *r, const char *goes_on, const qg_loader *train, const qg_loader *test)
{
    char      steps[16];
    qg_status status = qg__recipe_note_images(r, goes_on, train, test);
    if (!status) status = note_ranks(r, goes_on);
    if (status || !qg__recipe_waits_epochs(r)) return status;
    snprintf(steps, sizeof steps, "%d", qg_loader_batches(train));
    return qg__recipe_put(r, "epoch-steps", steps);
}

/* Without initial weights: a run that has a checkpoint needs none. */
static qg_status begin_without(const qg_recipe *r, bool has_checkpoint)
{
    const char *other = r->init_recipe, *digest = r->init_digest;
    if ((!other && !digest && !r->init_except) || has_checkpoint) return QG_OK;
    if (!other && !digest) return qg_fail(QG_EARG, "init-except: the run starts from no other weights; pass --init RUN");
    if (digest) return qg_fail(QG_EARG, "the run starts from weights with digest %s; pass their location with --init", digest);
    return qg_fail(QG_EARG, "the recipe starts from another run's weights; pass --init runs/%s/seed-%s", other,
                   qg__recipe_value(r, "seed"));
}

/* Starts net from the weights in source, and notes their digest; their path is not part of a recipe.  NULL: the recipe must need
 * none, or the run has a checkpoint. */
static qg_status note_init(qg_recipe *r, qg_net *net, const char *source, bool goes_on, bool has_checkpoint, qg__init_report *init)
{
    const char *stored = r->init_digest;
    if (!source) return begin_without(r, has_checkpoint);
    const qg_status status = qg__reader_init(net, source, r->init_except, init);
    if (status == QG_ESHAPE && init->foreign)
        return qg_fail(status, "--init: %s; qgrad import makes a run of a net of another program",
                       qg_errmsg());
    if (status && *init->misfit)
        return qg_fail(status, "--init: %s; to start these layers afresh, pass --init-except %s", qg_errmsg(), init->misfit);
    if (status) return qg_fail(status, "--init: %s", qg_errmsg());
    if (goes_on && !stored) return qg_fail(QG_EARG, "--init: the run started without initial weights, and cannot take any now");
    if (stored && strcmp(stored, init->digest))
        return qg_fail(QG_EARG, "%s: its weights have digest %s, but the run started with %s", source, init->digest, stored);
    return qg__recipe_put(r, "init-digest", init->digest);
}

/* The teacher that the recipe names, if it names one, and its digest; its location may change, its weights may not. */
static qg_status note_teacher(qg_recipe *r, bool goes_on, const qg_loader *images, qg_run *teacher)
{
    const char *name = r->teacher_run, *stored = r->teacher_digest;
    char        found[17];
    if (!name && !stored && !qg__recipe_value(r, "distil")) return QG_OK;
    if (!name) return qg_fail(QG_EARG, "distil: the teacher is missing; pass its run with --teacher");
    const qg_status status = qg__reader_teach(teacher, name, r, images);
    if (status) return qg_fail(status, "--teacher: %s", qg_errmsg());
    qg__digest(teacher->net, found);
    if (goes_on && !stored) return qg_fail(QG_EARG, "--teacher: the run started without a teacher, and cannot take one now");
    if (stored && strcmp(stored, found))
        return qg_fail(QG_EARG, "--teacher %s: its weights have digest %s, but the run started with a teacher of digest %s", name,
                       found, stored);
    return qg__recipe_put(r, "teacher-digest", found);
}

/* --- one training ------------------------------------------------------------------------- */

typedef struct training {
    qg_training     of;             /* first */
    qg__run_paths   paths;
    bool            goes_on;        /* with a run that has a config.toml */
    qg_run          teacher;        /* its net is NULL: none */
    qg__init_report init;
} training;

/* The 0 of an imported run, or of one that measured its initial net, is no wish to train nothing again. */
static qg_status check_epochs(const qg_recipe *asked)
{
    const qg_recipe *file = asked->base;
    const bool       zero = file && qg__recipe_value(file, "epochs") && file->epochs == 0;
    if (!zero || qg__recipe_value(asked, "epochs") || !qg__recipe_is_of_run(file)) return QG_OK;
    return qg_fail(QG_EARG, "epochs is 0 in the configuration, which is of a run that was not trained, such as "
                   "an imported one; pass the number of epochs with --epochs");
}

static qg_status resolve(training *t, const qg_recipe *asked, const qg_fit_spec *spec)
{
    qg_recipe stored = { .epochs = 0 };
    qg_status status = spec->dir ? qg__run_paths_of(spec->dir, &t->paths) : QG_OK;
    if (status) return status;
    t->goes_on = spec->mode == QG_FIT_RESUME && spec->dir && qg__path_exists(t->paths.file[QG__RUN_CONFIG]);
    status     = t->goes_on ? qg__recipe_stored(t->paths.file[QG__RUN_CONFIG], &stored) : check_epochs(asked);
    if (!status)
        status = qg__recipe_resolve(asked, asked->base, spec->init, t->goes_on ? &stored : NULL, t->of.recipe);
    qg__recipe_clear(&stored);
    if (!status && !t->goes_on) status = qg__normalise_check(t->of.recipe->normalise);
    return status ? status : qg__recipe_check(t->of.recipe, true);
}

/* The images of the recipe, and of a run that goes on the preprocessing: a matrix of whitening takes a minute to compute, and
 * another processor may compute another one. */
static qg_status open_images(training *t)
{
    qg_recipe     *r       = t->of.recipe;
    const bool     whitens = r->normalise.kind == QG_WHITEN;
    qg_preprocess *stored  = t->goes_on && whitens ? qg_preprocess_open(t->paths.file[QG__RUN_LAST]) : NULL;
    t->of.train            = qg__recipe_data(r, false, stored);
    qg_preprocess_free(stored);
    t->of.test = qg__recipe_test_of(r, t->of.train);
    if (!t->of.test) return qg_errcode();
    return note_data(r, t->goes_on ? t->paths.file[QG__RUN_CONFIG] : NULL, t->of.train, t->of.test);
}

static qg_status make(training *t, const qg_fit_spec *spec)
{
    qg_recipe *r      = t->of.recipe;
    bool       begun  = false;
    qg_status  status = open_images(t);
    if (status) return status;
    t->of.net = qg__recipe_net(r, qg_loader_shape(t->of.train), qg_loader_classes(t->of.train));
    if (!t->of.net) return qg_errcode();
    if (spec->mode == QG_FIT_RESUME && spec->dir) status = qg__file_exists_in(QG_BY_PATH, t->paths.file[QG__RUN_LAST], &begun);
    if (!status) status = note_init(r, t->of.net, spec->init, t->goes_on, begun, &t->init);
    if (!status) status = note_teacher(r, t->goes_on, t->of.train, &t->teacher);
    if (status) return status;
    t->of.optim = qg__recipe_optim(r, qg_net_params(t->of.net));
    return t->of.optim ? qg__recipe_spec(r, &t->of.fit) : qg_errcode();
}

static qg_status build(training *t, const qg_recipe *asked, const qg_fit_spec *spec)
{
    qg_fit_spec *to     = &t->of.fit;
    qg_status    status = qg__recipe_status(asked);
    t->of.recipe        = status ? NULL : qg_recipe_new();
    if (!t->of.recipe) return status ? status : QG_EMEM;
    status = resolve(t, asked, spec);
    if (status) return status;
    t->of.recipe->resolved = true;
    qg_set_threads(t->of.recipe->threads);
    status            = make(t, spec);
    to->dir           = spec->dir;
    to->mode          = spec->mode;
    to->budget        = spec->budget;
    to->stop          = spec->stop;
    to->events        = spec->events;
    to->train         = t->of.train;
    to->test          = t->of.test;
    to->validation    = t->of.train ? qg_loader_validation(t->of.train) : NULL;
    to->optim         = t->of.optim;
    to->teacher.net   = t->teacher.net;
    to->teacher.steps = qg__step_given(t->teacher.steps);
    to->renew_file    = asked->data_dir || asked->teacher_run;      /* they may have moved */
    t->of.init_arrays = t->init.taken;
    t->of.init_kept   = t->init.kept;
    t->of.init_unused = t->init.unused;
    return status;
}

qg_training *qg_recipe_build(qg_recipe *r, qg_fit_spec spec)
{
    training *t = calloc(1, sizeof *t);
    if (!t) (void)qg_fail(QG_EMEM, "out of memory for a training");
    if (!t || !build(t, r, &spec)) return t ? &t->of : NULL;
    qg_training_free(&t->of);
    return NULL;
}

void qg_training_free(qg_training *t)
{
    training *all = (training *)t;
    if (!t) return;
    qg_optim_free(t->optim);
    qg_net_free(t->net);
    qg_loader_free(t->test);
    qg_loader_free(t->train);
    qg__reader_clear(&all->teacher);
    qg_recipe_free(t->recipe);
    free(all);
}

qg_status qg_recipe_fit(qg_recipe *r, qg_fit_spec spec, qg_fit_result *result)
{
    qg_training    *t      = qg_recipe_build(r, spec);
    const qg_status status = t ? qg_fit(t->net, t->fit, result) : qg_errcode();
    qg_training_free(t);
    return status;
}
