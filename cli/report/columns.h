/* cli/report/columns.h — metrics.csv of a run, and of several runs as one. */
#ifndef CLI_REPORT_COLUMNS_H
#define CLI_REPORT_COLUMNS_H

#include "train/runs.h"

typedef struct columns {
    const char   **name;        /* [columns], borrowed */
    const double **column;      /* [columns][rows]; NaN where the file has none; may be infinite */
    double        *own;         /* what they point to; NULL: a run has them */
    int            columns, rows;
} columns;                      /* {0} is empty */

/* Those of a run, which must outlive them.  Fails as qg_run_column, and with QG_EMEM. */
QG_MUST_CHECK
qg_status     columns_of_run(columns *t, qg_run *run);
const double *columns_find(const columns *t, const char *name);     /* NULL: there is none */

/* The mean of each column of the first of n files over those that have it, row by row, and this mean less and plus the
 * deviation (of n - 1), which are NaN where fewer than two have a number.  The names are those of the first, which must outlive
 * all three.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status     columns_average(const columns *const *of, int n, columns *mean, columns *low, columns *high);
void          columns_free(columns *t);

/* What a column says of its layer: "zeros", "flipped", "code.0", "weight.wp"; the dot before it ends the name of the layer,
 * which may have dots itself.  NULL: it is of the whole run. */
const char   *metric_column_part(const char *name);

#endif
