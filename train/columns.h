/* train/columns.h — a metrics.csv as columns of numbers.  Internal. */
#ifndef QG_COLUMNS_H
#define QG_COLUMNS_H

#include <stdbool.h>

#include "core/status.h"

typedef struct qg__columns {
    char    *text;              /* the header line, cut into names; NULL: they are those of another */
    char   **name;              /* [columns] */
    double **column;            /* [columns][rows]; NaN where the file has none; may be infinite */
    int      columns, rows;
} qg__columns;                  /* {0} is empty */

/* Reads the whole rows of the file at path.  Fails with QG_EIO, QG_EMEM, and QG_EFORMAT: there is no column "epoch", or a row
 * has more or fewer fields than the header, or one that is no number. */
QG_MUST_CHECK
qg_status     qg__columns_read(qg__columns *t, const char *path);
const double *qg__columns_find(const qg__columns *t, const char *name);     /* NULL: there is none */

void          qg__columns_free(qg__columns *t);

#endif
