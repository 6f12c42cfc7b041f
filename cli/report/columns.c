#include "cli/report/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

qg_status columns_of_run(columns *t, qg_run *run)
{
    *t = (columns){ 0 };
    if (!qg_run_column(run, "epoch", &t->rows)) return qg_errcode();
    int n = 0;
    while (qg_run_column_name(run, n)) n++;
    t->name   = calloc((size_t)n, sizeof *t->name);
    t->column = calloc((size_t)n, sizeof *t->column);
    if (!t->name || !t->column) return qg_fail(QG_EMEM, "out of memory for %d columns", n);
    for (; t->columns < n; t->columns++) {
        t->name[t->columns]   = qg_run_column_name(run, t->columns);
        t->column[t->columns] = qg_run_column(run, t->name[t->columns], &t->rows);
    }
    return QG_OK;
}

const double *columns_find(const columns *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->name[i], name)) return t->column[i];
    return NULL;
}

void columns_free(columns *t)
{
    free(t->name);
    free(t->column);
    free(t->own);
    *t = (columns){ 0 };
}

/* In two passes, because accuracies are much larger than their deviations. */
static void average_row(const double *const *column, const columns *const *of, int n, int row, double *mean, double *deviation)
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

/* Memory for rows of the columns of another. */
static bool begin(columns *t, const columns *of, int rows)
{
    const size_t n = (size_t)of->columns;
    *t             = (columns){ .columns = of->columns, .rows = rows };
    t->name        = calloc(n + 1, sizeof *t->name);
    t->column      = calloc(n + 1, sizeof *t->column);
    t->own         = calloc(n * (size_t)rows + 1, sizeof *t->own);
    for (size_t i = 0; t->name && t->column && t->own && i < n; i++) {
        t->name[i]   = of->name[i];
        t->column[i] = t->own + i * (size_t)rows;
    }
    return t->name && t->column && t->own;
}

qg_status columns_average(const columns *const *of, int n, columns *mean, columns *low, columns *high)
{
    const double **column = calloc((size_t)n, sizeof *column);
    int            rows   = 0;
    for (int k = 0; k < n; k++) rows = of[k]->rows > rows ? of[k]->rows : rows;
    const bool has_mean = begin(mean, of[0], rows), has_low = begin(low, of[0], rows), has_high = begin(high, of[0], rows);
    const bool fits     = column && has_mean && has_low && has_high;
    for (int i = 0; fits && i < mean->columns; i++) {
        for (int k = 0; k < n; k++) column[k] = columns_find(of[k], of[0]->name[i]);
        for (int row = 0; row < rows; row++) {
            const size_t at = (size_t)i * (size_t)rows + (size_t)row;
            double       apart;
            average_row(column, of, n, row, &mean->own[at], &apart);
            low->own[at]  = mean->own[at] - apart;
            high->own[at] = mean->own[at] + apart;
        }
    }
    free(column);
    if (fits) return QG_OK;
    columns_free(mean), columns_free(low), columns_free(high);
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
