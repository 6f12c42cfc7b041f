/* cli/report/columns.h — a metrics.csv as columns of numbers. */
#ifndef CLI_REPORT_COLUMNS_H
#define CLI_REPORT_COLUMNS_H

#include "core/status.h"

typedef struct metric_columns {
    char    *text;              /* the header line, cut into names; NULL: they are those of another */
    char   **name;              /* [columns] */
    double **column;            /* [columns][rows]; NaN where the file has none; may be infinite */
    int      columns, rows;
} metric_columns;

/* Reads the whole rows of the file at path.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT: there is no column "epoch", or a row
 * has more or fewer fields than the header, or one that is no number. */
QG_MUST_CHECK
qg_status     metric_columns_read(metric_columns *t, const char *path);
const double *metric_columns_find(const metric_columns *t, const char *name);      /* NULL: there is none */

/* The mean of each column of the first of n files over those that have it, row by row, and this mean less and plus the
 * deviation (of n - 1), which are NaN where fewer than two have a number.  The names are those of the first, which must outlive
 * all three.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status     metric_columns_average(const metric_columns *const *of, int n, metric_columns *mean, metric_columns *low,
                                     metric_columns *high);

/* What a column says of its layer: "zeros", "flipped", "code.0", "weight.wp"; the dot before it ends the name of the layer,
 * which may have dots itself.  NULL: it is of the whole run. */
const char   *metric_column_part(const char *name);
void          metric_columns_free(metric_columns *t);

#endif
