#include "core/io/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/io/utf8.h"
#include "core/io/number.h"

/* Writes the comma after the previous value, and the key of this one. */
static void lead(qg__json *j, const char *key)
{
    if (j->comma) fputc(',', j->out);
    if (key) fprintf(j->out, "\"%s\":", key);
    j->comma = true;
}

qg__json qg__json_begin(FILE *out)
{
    fputc('{', out);
    return (qg__json){ .out = out };
}

void qg__json_end(qg__json *j) { fputs("}\n", j->out); }

static void put_text(qg__json *j, const char *key, const char *value, bool path)
{
    lead(j, key);
    if (!value) {
        fputs("null", j->out);
        return;
    }
    const size_t n = strlen(value);
    char         shown[QG_SHOWN_BYTES];
    fputc('"', j->out);
    for (size_t i = 0; i < n;) {
        const char   c    = value[i];
        const size_t used = qg__utf8_show(value + i, n - i, shown);
        if (path && c == '\\' && value[i + 1] == 'x') fputs("\\\\x5c", j->out);
        else if (c == '"' || c == '\\') fprintf(j->out, "\\%c", c);
        else if (shown[0] == '\\' && shown[1] == 'x') fprintf(j->out, "\\%s", shown);
        else fputs(shown, j->out);          /* its other escapes are those of JSON */
        i += used;
    }
    fputc('"', j->out);
}

void qg__json_text(qg__json *j, const char *key, const char *value)
{
    put_text(j, key, value, false);
}

void qg__json_path(qg__json *j, const char *key, const char *path) { put_text(j, key, path, true); }

void qg__json_real(qg__json *j, const char *key, double value)
{
    lead(j, key);
    char text[QG_NUMBER_BYTES];
    qg__number_print(text, 9, value);
    fputs(isfinite(value) ? text : "null", j->out);
}

void qg__json_integer(qg__json *j, const char *key, uint64_t value)
{
    lead(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void qg__json_bytes(qg__json *j, const char *key, size_t bytes)
{
    if (bytes) qg__json_integer(j, key, bytes);
    else qg__json_text(j, key, NULL);
}

void qg__json_flag(qg__json *j, const char *key, bool value)
{
    lead(j, key);
    fputs(value ? "true" : "false", j->out);
}

void qg__json_open(qg__json *j, const char *key, char bracket)
{
    lead(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void qg__json_close(qg__json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}
