/* cli/report/table.h — a metrics.csv as columns of numbers. */
#ifndef CLI_REPORT_TABLE_H
#define CLI_REPORT_TABLE_H

#include "core/status.h"

typedef struct table {
    char    *text;              /* the header line, cut into names */
    char   **name;              /* [columns] */
    double **column;            /* [columns][rows]; NaN where the file has none */
    int      columns, rows;
} table;

/* Reads the whole rows of the file at path.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT: there is no column "epoch", or a row has
 * more or fewer fields than the header, or one that is no number. */
QG_MUST_CHECK
qg_status     table_read(table *t, const char *path);
const double *table_column(const table *t, const char *name);      /* NULL: there is none */
void          table_free(table *t);

#endif
