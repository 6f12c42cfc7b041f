/* cli/report/columns.h — the columns of several runs as one. */
#ifndef CLI_REPORT_COLUMNS_H
#define CLI_REPORT_COLUMNS_H

#include "train/columns.h"

/* The mean of each column of the first of n files over those that have it, row by row, and this mean less and plus the
 * deviation (of n - 1), which are NaN where fewer than two have a number.  The names are those of the first, which must outlive
 * all three.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status     metric_columns_average(const qg__columns *const *of, int n, qg__columns *mean, qg__columns *low,
                                     qg__columns *high);

/* What a column says of its layer: "zeros", "flipped", "code.0", "weight.wp"; the dot before it ends the name of the layer,
 * which may have dots itself.  NULL: it is of the whole run. */
const char   *metric_column_part(const char *name);

#endif
