/* qgrad results --repeat: trains a row on this machine, and compares it with its log after every epoch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/run/stop.h"
#include "core/io/number.h"
#include "tools/results/results.h"
#include "train/run.h"
#include "train/runs.h"

/* What stop_signal has if the training has done its part. */
enum { ENOUGH = -1 };

/* Whether both are the same number in a log. */
static bool same_as_printed(double a, double b)
{
    char x[QG_NUMBER_BYTES], y[QG_NUMBER_BYTES];
    qg__number_print(x, 9, a), qg__number_print(y, 9, b);
    return !strcmp(x, y);
}

/* The first number in which an epoch differs from its row in a log without digests; NULL: none. */
static const char *different_number(const qg_epoch *a, const qg_epoch *b, double *is, double *was)
{
    const struct {
        const char *name;
        double      is, was;
    } of[] = { { "lr", a->lr, b->lr },
               { "train_loss", a->train_loss, b->train_loss },
               { "train_accuracy", a->train_accuracy, b->train_accuracy },
               { "test_loss", a->test_loss, b->test_loss },
               { "test_accuracy", a->test_accuracy, b->test_accuracy },
               { "validation_loss", a->validation_loss, b->validation_loss },
               { "validation_accuracy", a->validation_accuracy, b->validation_accuracy } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!same_as_printed(of[i].is, of[i].was)) return *is = of[i].is, *was = of[i].was, of[i].name;
    return NULL;
}

/* Compares one epoch.  The log of an earlier version has one digest, of the last. */
static void compare(repetition *r, const qg_epoch *e)
{
    const logged_run *of = r->of;
    qg_epoch          logged;
    const char       *name;
    double            is, was;
    if (r->differs || !qg__metrics_row(&of->metrics, (int)e->epoch - 1, &logged)) return;
    const bool  last   = e->epoch == of->metrics.epochs;
    const char *digest = *logged.digest ? logged.digest : last ? of->result.digest : e->digest;
    if (!*logged.digest && (name = different_number(e, &logged, &is, &was)) != NULL)
        snprintf(r->what, sizeof r->what, "%s %.9g, but the log has %.9g", name, is, was);
    else if (strcmp(e->digest, digest))
        snprintf(r->what, sizeof r->what, "digest %s, but the log has %s", e->digest, digest);
    else r->equal = (int)e->epoch;
    r->differs = r->equal != (int)e->epoch ? (int)e->epoch : 0;
}

static void on_epoch(void *user, const qg_epoch *e, const qg_fit_result *result)
{
    repetition *r = user;
    compare(r, e);
    if (!r->differs)
        print_safe(stderr, "%s, seed %" PRIu64 ": epoch %d of %d as in the log, digest %s\n", r->of->row,
                   r->of->seed, r->equal, r->epochs, e->digest);
    /* The last epoch ends by itself, after it has read the test images. */
    const bool ends = e->epoch == r->of->metrics.epochs;
    if (!ends && (r->differs || r->equal >= r->epochs) && !stop_signal) stop_signal = ENOUGH;
}

static void on_notice(void *user, qg_fit_notice what, const char *text)
{
    print_safe(stderr, "qgrad: warning: %s\n", text);
}

/* What an earlier call of this program has trained in the directory.  *done: all that is asked for; a run whose weights
 * another one starts with must be complete, since its last epoch has a row before they are written. */
static qg_status compare_rows(repetition *r, bool *done)
{
    qg__run_paths p;
    qg__metrics   m;
    qg_epoch      e;
    qg_fit_result was;
    qg_status     status = qg__run_paths_of(r->dir, &p);
    *done                = false;
    if (status || !qg__path_exists(p.file[QG__RUN_METRICS])) return status;
    const bool noted = !qg_run_result(r->dir, &was);
    if (noted && strcmp(was.commit, qg_commit()))
        return qg_fail(QG_ESTATE, "%s: was trained by commit %s, and this program is of %s; remove it, or name another directory "
                       "with --out", r->dir, was.commit, qg_commit());
    status = qg__metrics_read(&m, QG_BY_PATH, p.file[QG__RUN_METRICS], -1, 0);
    for (int i = 0; !status && i < r->epochs && qg__metrics_row(&m, i, &e); i++) compare(r, &e);
    qg__metrics_end(&m);
    *done = r->differs || (r->equal >= r->epochs && (r->epochs < r->of->metrics.epochs || (noted && was.complete)));
    return status;
}

/* Whether the training sees the images and begins with the weights of the logged run. */
static qg_status check_digests(const repetition *r, const qg_training *t)
{
    static const char *const keys[] = { "data-digest", "class-digest", "init-digest" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *was = qg__recipe_value(&r->of->config, keys[i]);
        const char *is  = qg_recipe_get(t->recipe, keys[i]);
        if (was && (!is || strcmp(is, was)))
            return qg_fail(QG_EARG, "%s, seed %" PRIu64 ": has %s %s, but the log has %s", r->of->row, r->of->seed, keys[i],
                           is ? is : "none", was);
    }
    return QG_OK;
}

static qg_status train(repetition *r, const config *asked, const char *init)
{
    static const char *const own[] = { "data-dir", "threads" };
    config       c      = { 0 };
    qg_training *t      = NULL;
    qg_status    status = results_ask(r->of, &c);
    for (int i = 0; i < 2 && !status; i++)
        if (config_text(asked, own[i])) status = config_set(&c, own[i], config_text(asked, own[i]));
    if (!status) {
        const qg_fit_events events = { .user = r, .epoch = on_epoch, .notice = on_notice };
        t      = qg_recipe_build(c.recipe, (qg_fit_spec){ .dir    = r->dir,
                                                          .mode   = QG_FIT_RESUME,
                                                          .init   = init,
                                                          .stop   = &stop_signal,
                                                          .events = events });
        status = t ? check_digests(r, t) : qg_errcode();
    }
    if (!status) status = qg_fit(t->net, t->fit, NULL);
    if (stop_signal == ENOUGH) stop_signal = 0;
    qg_training_free(t);
    config_free(&c);
    return status;
}

/* Trains the run, and first, unless init has it, the one whose weights it starts with. */
static qg_status repeat(const results *all, repetition *r, const config *asked, const char *init)
{
    const char *out   = config_text(asked, "out") ? config_text(asked, "out") : "runs/repeat";
    const char *other = r->of->config.init_recipe;
    repetition  first = { .of = other && !init ? results_find(all, other, r->of->seed) : NULL };
    qg_status   status = QG_OK;
    const uint64_t version = qg__recipe_arithmetic(&r->of->config);
    if (r->of->result.arithmetic != version)
        print_safe(stderr,
                   "qgrad: warning: the log of %s, seed %" PRIu64 ", is of version %" PRIu64
                   " of the arithmetic, and this program trains it under version %" PRIu64
                   ", so an epoch is expected to differ\n",
                   r->of->row, r->of->seed, r->of->result.arithmetic, version);
    const int n = snprintf(r->dir, sizeof r->dir, "%s/%s/seed-%" PRIu64, out, r->of->row, r->of->seed);
    if (n >= QG__PATH_BYTES) return qg_fail(QG_EARG, "--out: the path is too long");
    bool done;
    status = compare_rows(r, &done);
    if (status || done) return status;
    if (first.of) {
        first.epochs = first.of->metrics.epochs;
        status       = repeat(all, &first, asked, NULL);
        if (status) return status;
        if (first.differs || stop_signal) return *r = first, QG_OK;
        init = first.dir;
    } else if (other && !init) {
        return qg_fail(QG_EARG,
                       "%s starts with the weights of %s, of which " RESULTS " has no run with seed %" PRIu64
                       "; pass its run with --init", r->of->row, other, r->of->seed);
    }
    return train(r, asked, init);
}

/* Says which rows there are, or which seeds the row has. */
static qg_status no_run(const results *all, const char *row, const char *seed)
{
    char rows[2048] = "", seeds[256] = "", number[24], hint[QG__NEAREST_BYTES];
    for (int i = 0; i < all->runs; i++) {
        const logged_run *r = &all->run[i];
        snprintf(number, sizeof number, "%" PRIu64, r->seed);
        if (!strcmp(r->row, row)) qg__list_append(seeds, sizeof seeds, number);
        else if (!i || strcmp(r->row, r[-1].row)) qg__list_append(rows, sizeof rows, r->row);
    }
    if (*seeds) return qg_fail(QG_EARG, RESULTS " has no run of %s with seed %s; it has %s", row, seed, seeds);
    return qg_fail(QG_EARG, RESULTS " has no run of %s; it has those of %s%s", row, rows,
                   qg__list_nearest(rows, row, strlen(row), hint));
}

qg_status results_repeat(const results *all, const config *asked, repetition *r)
{
    const char *row = config_text(asked, "repeat"), *seed = config_text(asked, "seed");
    *r = (repetition){ .of = seed ? results_find(all, row, strtoull(seed, NULL, 10)) : NULL };
    for (int i = 0; i < all->runs && !seed && !r->of; i++)
        if (!strcmp(all->run[i].row, row)) r->of = &all->run[i];
    if (!r->of) return no_run(all, row, seed);
    r->epochs = r->of->metrics.epochs;
    if (config_text(asked, "epochs")) r->epochs = config_integer(asked, "epochs");
    if (r->epochs < 1) return qg_fail(QG_EARG, "--epochs is %d, must be at least 1", r->epochs);
    if (r->epochs > r->of->metrics.epochs)
        return qg_fail(QG_EARG, "--epochs %d: the log of %s has %d", r->epochs, row, r->of->metrics.epochs);
    if (config_text(asked, "init") && !qg__recipe_value(&r->of->config, "init-digest"))
        return qg_fail(QG_EARG, "--init: %s does not start from the weights of another run", row);
    stop_begin();
    return repeat(all, r, asked, config_text(asked, "init"));
}
