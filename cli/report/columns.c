#include "cli/report/columns.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/number.h"
#include "core/io/paths.h"

enum { MOST_BYTES = 1 << 28 };

static int count(const char *text, size_t n, char c)
{
    int found = 0;
    for (size_t i = 0; i < n; i++) found += text[i] == c;
    return found;
}

/* Cuts the header into names. */
static void take_names(metric_columns *t)
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
    if (n > 0 && qg_number_read(at, n, v)) return true;
    *v = NAN;
    if (n == 0 || (letters == 3 && !memcmp(word, "nan", 3))) return true;
    *v = negative ? -INFINITY : INFINITY;
    return letters == 3 && !memcmp(word, "inf", 3);
}

static qg_status take_row(metric_columns *t, int row, const char *at, const char *path)
{
    for (int i = 0; i < t->columns; i++) {
        const size_t n = strcspn(at, ",\n");
        if (!take_number(at, n, &t->column[i][row]))
            return qg_fail(QG_EFORMAT, "%s: line %d, %s is not a number", path, row + 2, t->name[i]);
        if (at[n] != (i + 1 < t->columns ? ',' : '\n'))
            return qg_fail(QG_EFORMAT, "%s: line %d has not %d fields", path, row + 2, t->columns);
        at += n + 1;
    }
    return QG_OK;
}

static qg_status take_rows(metric_columns *t, const char *at, const char *path)
{
    for (int row = 0; row < t->rows; row++, at = strchr(at, '\n') + 1) {
        const qg_status s = take_row(t, row, at, path);
        if (s) return s;
    }
    return QG_OK;
}

static bool take_memory(metric_columns *t)
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

qg_status metric_columns_read(metric_columns *t, const char *path)
{
    size_t n;
    *t               = (metric_columns){ 0 };
    qg_status status = qg__text_read(QG_BY_PATH, path, MOST_BYTES, &t->text, &n);
    if (status) return status;
    char *end = strchr(t->text, '\n');
    if (!end) status = qg_fail(QG_EFORMAT, "%s: is no metrics.csv", path);
    if (!status) {
        t->columns = count(t->text, (size_t)(end - t->text), ',') + 1;
        t->rows    = count(end + 1, n - (size_t)(end + 1 - t->text), '\n');
        if (!take_memory(t)) status = qg_fail(QG_EMEM, "out of memory for the %d rows of %s", t->rows, path);
    }
    if (!status) take_names(t);
    if (!status && !metric_columns_find(t, "epoch"))
        status = qg_fail(QG_EFORMAT, "%s: has no column 'epoch'", path);
    if (!status) status = take_rows(t, end + 1, path);
    if (status) metric_columns_free(t);
    return status;
}

const double *metric_columns_find(const metric_columns *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->name[i], name)) return t->column[i];
    return NULL;
}

/* In two passes, because accuracies are much larger than their deviations. */
static void average_row(const double *const *column, const metric_columns *const *of, int n, int row, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    int    found = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < n; k++) {
            const double x = column[k] && row < of[k]->rows ? column[k][row] : (double)NAN;
            if (!isfinite(x)) continue;
            if (pass == 0) sum += x, found++;
            else squares += (x - sum / found) * (x - sum / found);
        }
    *mean      = found ? sum / found : (double)NAN;
    *deviation = found > 1 ? sqrt(squares / (found - 1)) : (double)NAN;
}

qg_status metric_columns_average(const metric_columns *const *of, int n, metric_columns *mean, metric_columns *low,
                                 metric_columns *high)
{
    const double **column = calloc((size_t)n, sizeof *column);
    int            rows   = 0;
    for (int k = 0; k < n; k++) rows = of[k]->rows > rows ? of[k]->rows : rows;
    *mean = *low = *high = (metric_columns){ .columns = of[0]->columns, .rows = rows };
    const bool has_mean = take_memory(mean), has_low = take_memory(low), fits = take_memory(high) && column && has_mean && has_low;
    for (int i = 0; fits && i < mean->columns; i++) {
        mean->name[i] = low->name[i] = high->name[i] = of[0]->name[i];
        for (int k = 0; k < n; k++) column[k] = metric_columns_find(of[k], of[0]->name[i]);
        for (int row = 0; row < rows; row++) {
            double apart;
            average_row(column, of, n, row, &mean->column[i][row], &apart);
            low->column[i][row]  = mean->column[i][row] - apart;
            high->column[i][row] = mean->column[i][row] + apart;
        }
    }
    free(column);
    if (fits) return QG_OK;
    metric_columns_free(mean), metric_columns_free(low), metric_columns_free(high);
    return qg_fail(QG_EMEM, "out of memory for the means of %d rows", rows);
}

const char *metric_column_part(const char *name)
{
    static const char *const parts[] = { "zeros", "flipped", "code.", "weight.", "input.", "gradient." };
    for (const char *at = name + strlen(name); at-- > name;)        /* the last; others are of the layer's name */
        for (size_t i = 0; *at == '.' && i < sizeof parts / sizeof *parts; i++) {
            const size_t n = strlen(parts[i]);
            if (!strncmp(at + 1, parts[i], n) && (parts[i][n - 1] == '.' || !at[1 + n])) return at + 1;
        }
    return NULL;
}

void metric_columns_free(metric_columns *t)
{
    if (t->column) free(t->column[0]);
    free(t->column);
    free(t->name);
    free(t->text);
    *t = (metric_columns){ 0 };
}
