#include "cli/report/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In two passes, because accuracies are much larger than their deviations. */
static void average_row(const double *const *column, const qg__columns *const *of, int n, int row, double *mean, double *deviation)
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

qg_status metric_columns_average(const qg__columns *const *of, int n, qg__columns *mean, qg__columns *low,
                                 qg__columns *high)
{
    const double **column = calloc((size_t)n, sizeof *column);
    int            rows   = 0;
    for (int k = 0; k < n; k++) rows = of[k]->rows > rows ? of[k]->rows : rows;
    *mean = *low = *high = (qg__columns){ .columns = of[0]->columns, .rows = rows };
    const bool has_mean = qg__columns_allocate(mean), has_low = qg__columns_allocate(low), fits = qg__columns_allocate(high) && column && has_mean && has_low;
    for (int i = 0; fits && i < mean->columns; i++) {
        mean->name[i] = low->name[i] = high->name[i] = of[0]->name[i];
        for (int k = 0; k < n; k++) column[k] = qg__columns_find(of[k], of[0]->name[i]);
        for (int row = 0; row < rows; row++) {
            double apart;
            average_row(column, of, n, row, &mean->column[i][row], &apart);
            low->column[i][row]  = mean->column[i][row] - apart;
            high->column[i][row] = mean->column[i][row] + apart;
        }
    }
    free(column);
    if (fits) return QG_OK;
    qg__columns_free(mean), qg__columns_free(low), qg__columns_free(high);
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
