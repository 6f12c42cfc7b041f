#include "train/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/number.h"
#include "core/io/paths.h"
#include "train/result.h"

enum { MOST_BYTES = 1 << 28 };

static int count(const char *text, size_t n, char c)
{
    int found = 0;
    for (size_t i = 0; i < n; i++) found += text[i] == c;
    return found;
}

/* Cuts the header into names. */
static void take_names(qg__columns *t)
{
    char *at = t->text;
    for (int i = 0; i < t->columns; i++) {
        const size_t n = strcspn(at, ",\n");
        t->name[i]     = at;
        at[n]          = '\0';
        at += n + 1;
    }
}

/* As metrics.csv has it: also nan and inf, of either sign, and nothing. */
static bool take_number(const char *at, size_t n, double *v)
{
    const bool   negative = n > 0 && *at == '-';
    const char  *word     = at + negative;
    const size_t letters  = n - negative;
    if (n > 0 && qg__number_read(at, n, v)) return true;
    *v = NAN;
    if (n == 0 || (letters == 3 && !memcmp(word, "nan", 3))) return true;
    *v = negative ? -INFINITY : INFINITY;
    return letters == 3 && !memcmp(word, "inf", 3);
}

/* A digest is text, even if its digits are those of a number. */
static qg_status take_row(qg__columns *t, int row, const char *at, const char *path)
{
    for (int i = 0; i < t->columns; i++) {
        const size_t n = strcspn(at, ",\n");
        if (!strcmp(t->name[i], QG__METRICS_DIGEST)) t->column[i][row] = NAN;
        else if (!take_number(at, n, &t->column[i][row]))
            return qg_fail(QG_EFORMAT, "%s: line %d, %s is not a number", path, row + 2, t->name[i]);
        if (at[n] != (i + 1 < t->columns ? ',' : '\n'))
            return qg_fail(QG_EFORMAT, "%s: line %d has not %d fields", path, row + 2, t->columns);
        at += n + 1;
    }
    return QG_OK;
}

static qg_status take_rows(qg__columns *t, const char *at, const char *path)
{
    for (int row = 0; row < t->rows; row++, at = strchr(at, '\n') + 1) {
        const qg_status s = take_row(t, row, at, path);
        if (s) return s;
    }
    return QG_OK;
}

/* Memory for t->columns and t->rows. */
static bool allocate(qg__columns *t)
{
    const size_t columns = (size_t)t->columns, rows = (size_t)t->rows;
    t->name    = calloc(columns, sizeof *t->name);
    t->column  = calloc(columns, sizeof *t->column);
    double *at = calloc(columns * rows + 1, sizeof *at);
    if (!t->name || !t->column || !at) {
        free(at);
        return false;
    }
    for (size_t i = 0; i < columns; i++) t->column[i] = at + i * rows;
    return true;
}

qg_status qg__columns_read(qg__columns *t, const char *path)
{
    size_t n;
    *t               = (qg__columns){ 0 };
    qg_status status = qg__text_read(QG_BY_PATH, path, MOST_BYTES, &t->text, &n);
    if (status) return status;
    char *end = strchr(t->text, '\n');
    if (!end) status = qg_fail(QG_EFORMAT, "%s: is no metrics.csv", path);
    if (!status) {
        t->columns = count(t->text, (size_t)(end - t->text), ',') + 1;
        t->rows    = count(end + 1, n - (size_t)(end + 1 - t->text), '\n');
        if (!allocate(t)) status = qg_fail(QG_EMEM, "out of memory for the %d rows of %s", t->rows, path);
    }
    if (!status) take_names(t);
    if (!status && !qg__columns_find(t, "epoch"))
        status = qg_fail(QG_EFORMAT, "%s: has no column 'epoch'", path);
    if (!status) status = take_rows(t, end + 1, path);
    if (status) qg__columns_free(t);
    return status;
}

const double *qg__columns_find(const qg__columns *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->name[i], name)) return t->column[i];
    return NULL;
}

void qg__columns_free(qg__columns *t)
{
    if (t->column) free(t->column[0]);
    free(t->column);
    free(t->name);
    free(t->text);
    *t = (qg__columns){ 0 };
}

/* --- of a run ------------------------------------------------------------------------------ */

/* What metrics.csv says.  Whether the run is over depends on its recipe, which a run of a program does not have. */
static qg_status result_of_metrics(const qg__run_paths *p, qg_fit_result *r)
{
    qg__metrics m;
    qg_recipe   stored = { 0 };
    qg_status   status = qg__metrics_read(&m, QG_BY_PATH, p->file[QG__RUN_METRICS], -1, 0);
    *r = (qg_fit_result){ .test_accuracy = NAN, .best_test_accuracy = NAN, .validation_accuracy = NAN,
                          .best_validation_accuracy = NAN, .arithmetic = 1 };
    if (!status) {
        const int best = (int)m.best.epoch;
        r->epochs      = (uint64_t)m.epochs;
        r->seconds     = m.seconds;
        r->complete    = !qg__recipe_stored(p->file[QG__RUN_CONFIG], &stored) && qg__recipe_is_over(&stored, m.epochs, best);
        r->out_of_patience = r->complete && m.epochs < stored.epochs;
    }
    if (!status && m.epochs) {
        snprintf(r->digest, sizeof r->digest, "%s", m.last.digest);
        r->best_epoch               = (uint64_t)m.best.epoch;
        r->test_accuracy            = m.last.test_accuracy;
        r->best_test_accuracy       = m.best.test_accuracy;
        r->validation_accuracy      = m.last.validation_accuracy;
        r->best_validation_accuracy = m.best.validation_accuracy;
    }
    qg__recipe_clear(&stored);
    qg__metrics_end(&m);
    return status;
}

qg_status qg_run_result(const char *dir, qg_fit_result *result)
{
    qg__run_paths   p;
    const qg_status status = qg__run_paths_of(dir, &p);
    if (status) return status;
    if (!result) return qg_fail(QG_EARG, "%s: the result to fill is NULL", dir);
    if (qg__path_exists(p.file[QG__RUN_RESULT]) || !qg__path_exists(p.file[QG__RUN_METRICS]))
        return qg__result_read(result, QG_BY_PATH, p.file[QG__RUN_RESULT]);
    return result_of_metrics(&p, result);
}

static qg_status read_columns(qg_run *r)
{
    if (!r) return QG_EARG;                 /* the message says why the run is NULL */
    return r->columns.text ? QG_OK : qg__columns_read(&r->columns, r->paths.file[QG__RUN_METRICS]);
}

const char *qg_run_column_name(qg_run *r, int i)
{
    return !read_columns(r) && i >= 0 && i < r->columns.columns ? r->columns.name[i] : NULL;
}

const double *qg_run_column(qg_run *r, const char *name, int *epochs)
{
    *epochs = 0;
    if (read_columns(r)) return NULL;
    const double *column = name ? qg__columns_find(&r->columns, name) : NULL;
    if (!column) qg_fail(QG_EARG, "%s: has no column '%s'", r->paths.file[QG__RUN_METRICS], name ? name : "");
    *epochs = column ? r->columns.rows : 0;
    return column;
}
