/* cli/run/table.h — a table of texts in columns, for people, and the cells of CSV. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"

enum { TABLE_COLUMNS = 128 };

/* Its cells row by row, the titles first. */
typedef struct table {
    int    columns, titles;
    bool   right[TABLE_COLUMNS];            /* aligned to the right */
    char **cell;
    size_t cells;
    bool   failed;                          /* for want of memory */
} table;

table     table_begin(int columns);         /* at most TABLE_COLUMNS */
void      table_title(table *t, const char *text, bool right);
void      table_add(table *t, const char *text);        /* as a terminal can show it (core/io/utf8.h) */

/* Prints the table, two spaces between columns, and frees it.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status table_print(table *t, FILE *out);

/* A cell of CSV, in quotes where RFC 4180 wants them, and as a terminal can show it. */
void      table_put_csv(const char *text, FILE *out);

#endif
