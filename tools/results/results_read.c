#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/io/paths.h"
#include "tools/results/results.h"
#include "train/evaluate.h"
#include "train/run.h"

/* --- one run ------------------------------------------------------------------------------ */

static void end_run(logged_run *r)
{
    qg__recipe_clear(&r->config);
    qg__metrics_end(&r->metrics);
    results_net_end(r);
}

static qg_status differs(const char *dir, const char *what, double said, double found)
{
    return qg_fail(QG_EFORMAT, "%s: result.json has %s %.9g, but the other logs %.9g", dir, what, said, found);
}

/* Whether two numbers can be sums of the same terms, each printed with nine digits. */
static bool close_to(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b) + 1e-6; }

/* Checks result.json against config.toml and metrics.csv. */
static qg_status verify(const logged_run *r, const char *dir)
{
    const qg_fit_result *a = &r->result;
    const qg__metrics *m = &r->metrics;
    const bool held      = m->validates;        /* the test is then in result.json alone */
    const struct {
        const char *what;
        double      said, found;
    } same[] = {
        { "seed", (double)a->seed, (double)r->config.seed },
        { "epochs", (double)a->epochs, (double)m->epochs },
        { held ? "validation_accuracy" : "test_accuracy", held ? a->validation_accuracy : a->test_accuracy,
          held ? m->last.validation_accuracy : m->last.test_accuracy },
        { "train_loss", a->train_loss, m->last.train_loss },
        { held ? "best_validation_accuracy" : "best_test_accuracy",
          held ? a->best_validation_accuracy : a->best_test_accuracy,
          held ? m->best.validation_accuracy : m->best.test_accuracy },
        { "best_epoch", (double)a->best_epoch, m->best.epoch },
    };
    if (!(a->test_accuracy >= 0 && a->test_accuracy <= 1) || a->test_images == 0)
        return qg_fail(QG_EFORMAT, "%s: a test_accuracy of %.9g on %" PRIu64 " images is impossible", dir,
                       a->test_accuracy, a->test_images);
    const double right = a->test_accuracy * (double)a->test_images;
    if (!close_to(right, round(right)))
        return qg_fail(QG_EFORMAT, "%s: a test_accuracy of %.9g is not a whole number of %" PRIu64 " images", dir,
                       a->test_accuracy, a->test_images);
    const double best = a->best_test_accuracy;
    if (!(best >= 0 && best <= 1))
        return qg_fail(QG_EFORMAT, "%s: a best_test_accuracy of %.9g is impossible", dir, best);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!(same[i].said == same[i].found)) return differs(dir, same[i].what, same[i].said, same[i].found);
    if (*m->last.digest && strcmp(m->last.digest, a->digest))
        return qg_fail(QG_EFORMAT, "%s: result.json has digest %s, but the last row of metrics.csv has %s", dir, a->digest, m->last.digest);
    const double margin = qg_proportion_error(a->test_accuracy, a->test_images);
    if (!close_to(a->test_accuracy_stderr, margin))
        return differs(dir, "test_accuracy_stderr", a->test_accuracy_stderr, margin);
    if (!close_to(a->seconds, m->seconds)) return differs(dir, "seconds", a->seconds, m->seconds);
    const double rate = qg__metrics_rate(m);
    return close_to(a->images_per_second, rate) ? QG_OK : differs(dir, "images_per_second", a->images_per_second, rate);
}

static qg_status finished(const logged_run *r, const char *dir)
{
    const int epochs = r->config.epochs;
    if (r->result.complete && qg__recipe_is_over(&r->config, r->metrics.epochs, (int)r->metrics.best.epoch)) return QG_OK;
    return qg_fail(QG_ESTATE, "%s: is not finished: %d of %d epochs are done", dir,
                   r->metrics.epochs, epochs);
}

/* While quantizers wait, epochs do not count as the best.  The logs do not say when an epoch ended, so it may be the one of
 * result.json if none after it is better. */
static uint64_t best_from(const logged_run *r)
{
    return r->config.quantize_after.count || r->config.quantize_weights_after.count ? r->result.best_epoch : 0;
}

static qg_status read_run(logged_run *r, const char *dir)
{
    qg__run_paths p;
    *r               = (logged_run){ .seed = 0 };
    qg_status status = qg__run_paths_of(dir, &p);
    if (!status && !qg__path_exists(p.file[QG__RUN_CONFIG]) && !qg__path_exists(p.file[QG__RUN_LAST])) status = qg__run_absent(dir);
    if (!status) status = qg__recipe_read(&r->config, p.file[QG__RUN_CONFIG]);
    if (!status) status = qg__result_read(&r->result, QG_BY_PATH, p.file[QG__RUN_RESULT]);
    if (!status) status = qg__metrics_read(&r->metrics, QG_BY_PATH, p.file[QG__RUN_METRICS], -1, best_from(r));
    const char *row = r->config.named;
    if (!status && !qg__recipe_value(&r->config, "data"))
        status = qg_fail(QG_EFORMAT, "%s/config.toml: the data set is missing", dir);
    if (!status && !row)
        status = qg_fail(QG_EARG, "%s: was not trained with --recipe, so it has no row in the table", dir);
    if (!status) status = finished(r, dir);
    if (!status) status = verify(r, dir);
    if (!status) {
        snprintf(r->row, sizeof r->row, "%s", row);
        r->seed = r->result.seed;
        qg__recipe_unset(&r->config, "data-dir");       /* of the machine, not of the run */
    } else {
        end_run(r);
    }
    return status;
}

/* --- all of them -------------------------------------------------------------------------- */

static int by_row_and_seed(const void *a, const void *b)
{
    const logged_run *x = a, *y = b;
    const int         rows = strcmp(x->row, y->row);
    return rows ? rows : (x->seed > y->seed) - (x->seed < y->seed);
}

logged_run *results_find(const results *all, const char *row, uint64_t seed)
{
    for (int i = 0; i < all->runs; i++)
        if (!strcmp(all->run[i].row, row) && all->run[i].seed == seed) return &all->run[i];
    return NULL;
}

static const char *text_of(const logged_run *r, const qg_recipe_key *o)
{
    const char *text = r->config.text[o - qg_recipe_keys];
    return text ? text : "none";
}

/* The run of the logs may be gone, and a shorter one, one of another commit that is no longer nor of a newer arithmetic, or one of
 * other images or options, is no better copy of it. */
static qg_status check_replaced(const logged_run *old, const logged_run *r)
{
    enum { MOST = 100 };                        /* characters of a value */
    const char     *was = old->config.data_digest, *is = r->config.data_digest;
    const ptrdiff_t epochs = qg__recipe_key("epochs") - qg_recipe_keys;
    char            what[4 * MOST + QG_FIT_TEXT];
    qg_recipe       other = r->config;          /* borrowed texts */
    other.text[epochs] = old->config.text[epochs];
    const qg_recipe_key *o = qg__recipe_difference(&old->config, &other, QG_RECIPE_IDENTITY, QG_RECIPE_PER_RUN);
    if (o)
        snprintf(what, sizeof what, "have %s %.*s, but this run has %.*s", o->name, MOST, text_of(old, o), MOST, text_of(r, o));
    else if (was && is && strcmp(was, is))
        snprintf(what, sizeof what, "are from images with digest %.*s, but this run from %.*s", MOST, was, MOST, is);
    else if (r->metrics.epochs < old->metrics.epochs ||
             (r->metrics.epochs == old->metrics.epochs && strcmp(old->result.commit, r->result.commit) &&
              r->result.arithmetic <= old->result.arithmetic))
        snprintf(what, sizeof what, "have %d epochs (commit %.*s), but this run has %d (commit %.*s)", old->metrics.epochs, MOST,
                 old->result.commit, r->metrics.epochs, MOST, r->result.commit);
    else return QG_OK;
    return qg_fail(QG_ESTATE, "%s, seed %" PRIu64 ": the logs in " RESULTS "/%s/seed-%" PRIu64 " %s; to replace them, pass --force",
                   r->row, r->seed, r->row, r->seed, what);
}

qg_status results_add(results *all, const char *dir, bool force, logged_run **added)
{
    logged_run r;
    qg_status  status = read_run(&r, dir);
    if (status) return status;
    logged_run *old = results_find(all, r.row, r.seed);
    if (old && !force && (status = check_replaced(old, &r))) return end_run(&r), status;
    if (old) {
        end_run(old);
        *old = r;
    } else {
        logged_run *grown = realloc(all->run, ((size_t)all->runs + 1) * sizeof *grown);
        if (!grown) return end_run(&r), qg_fail(QG_EMEM, "%s: out of memory", dir);
        all->run              = grown;
        all->run[all->runs++] = r;
        qsort(all->run, (size_t)all->runs, sizeof *all->run, by_row_and_seed);
    }
    *added = results_find(all, r.row, r.seed);
    return QG_OK;
}

typedef qg_status (*visit)(results *all, const char *dir);

/* Visits the directories in dir, by name. */
static qg_status each_directory(results *all, const char *dir, visit f)
{
    struct dirent **entry;
    const int       n = qg__names(dir, &entry);
    qg_status       status = QG_OK;
    if (n < 0) return errno == ENOENT ? QG_OK : qg_fail(QG_EIO, "%s: %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        char        path[QG__PATH_BYTES];
        struct stat s;
        if (!status) status = qg__path_join(dir, entry[i]->d_name, path);
        const bool known = !status && stat(path, &s) == 0;
        if (known && S_ISDIR(s.st_mode)) status = f(all, path);
        else if (!known && !status && errno != ENOENT) status = qg_fail(QG_EIO, "%s: %s", path, strerror(errno));
    }
    qg__names_free(entry, n);
    return status;
}

static qg_status visit_run(results *all, const char *dir)
{
    char            place[QG__PATH_BYTES + 64];
    logged_run     *r;
    const qg_status status = results_add(all, dir, true, &r);
    if (status) return status;
    snprintf(place, sizeof place, RESULTS "/%s/seed-%" PRIu64, r->row, r->seed);
    return strcmp(place, dir) ? qg_fail(QG_EFORMAT, "%s: contains the run of %s", dir, place) : QG_OK;
}

static qg_status visit_row(results *all, const char *dir)
{
    const qg_status status = each_directory(all, dir, visit_run);
    return status ? status : results_read_net(all, dir + strlen(RESULTS "/"));
}

qg_status results_read(results *all) { return each_directory(all, RESULTS, visit_row); }

int results_row_end(const results *all, int first)
{
    int end = first;
    while (end < all->runs && !strcmp(all->run[end].row, all->run[first].row)) end++;
    return end;
}

int results_rows(const results *all)
{
    int rows = 0;
    for (int i = 0; i < all->runs; i = results_row_end(all, i)) rows++;
    return rows;
}

double results_mean(const logged_run run[], int runs, results_number of, double *deviation)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < runs; i++) sum += of(&run[i]);
    const double mean = sum / runs;
    for (int i = 0; i < runs; i++) squares += pow(of(&run[i]) - mean, 2);
    if (deviation) *deviation = sqrt(squares / (runs - 1));
    return mean;
}

void results_end(results *all)
{
    for (int i = 0; i < all->runs; i++) end_run(&all->run[i]);
    free(all->run);
    *all = (results){ 0 };
}
