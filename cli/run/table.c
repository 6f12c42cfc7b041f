#include "cli/run/table.h"

#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"

enum { MOST_SHOWN = 6 };        /* a byte, as \u001b */

table table_begin(int columns) { return (table){ .columns = columns }; }

void table_title(table *t, const char *text, bool right)
{
    t->right[t->titles++] = right;
    table_add(t, text);
}

void table_add(table *t, const char *text)
{
    const size_t bytes = MOST_SHOWN * strlen(text) + 1;
    char       **grown = t->failed ? NULL : realloc(t->cell, (t->cells + 1) * sizeof *grown);
    char        *copy  = grown ? malloc(bytes) : NULL;
    if (grown) t->cell = grown;
    if (!copy) {
        t->failed = true;
        return;
    }
    qg__utf8_printable(text, copy, bytes);
    t->cell[t->cells++] = copy;
}

/* The characters that a terminal shows. */
static int text_width(const char *text)
{
    int n = 0;
    for (; *text; text++) n += (*text & 0xC0) != 0x80;
    return n;
}

static void pad(int n, FILE *out)
{
    for (; n > 0; n--) fputc(' ', out);
}

static void print_cells(const table *t, FILE *out)
{
    int width[TABLE_COLUMNS] = { 0 };
    for (size_t i = 0; i < t->cells; i++) {
        int *of = &width[i % (size_t)t->columns];
        if (text_width(t->cell[i]) > *of) *of = text_width(t->cell[i]);
    }
    for (size_t i = 0; i < t->cells; i++) {
        const int  c    = (int)(i % (size_t)t->columns), room = width[c] - text_width(t->cell[i]);
        const bool ends = c == t->columns - 1;
        if (t->right[c]) pad(room, out);
        fputs(t->cell[i], out);
        if (!ends && !t->right[c]) pad(room, out);
        fputs(ends ? "\n" : "  ", out);
    }
}

qg_status table_print(table *t, FILE *out)
{
    const bool failed = t->failed;
    if (!failed) print_cells(t, out);
    for (size_t i = 0; i < t->cells; i++) free(t->cell[i]);
    free(t->cell);
    *t = (table){ 0 };
    return failed ? qg_fail(QG_EMEM, "out of memory for a table") : QG_OK;
}

void table_put_csv(const char *text, FILE *out)
{
    const bool quoted = text[strcspn(text, ",\"")];
    char       shown[QG_SHOWN_BYTES];
    if (quoted) fputc('"', out);
    while (*text) {
        text += qg__utf8_show(text, strlen(text), shown);
        fputs(*shown == '"' ? "\"\"" : shown, out);
    }
    if (quoted) fputc('"', out);
}
