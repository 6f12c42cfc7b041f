#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/io/utf8.h"
#include "core/io/number.h"

/* Writes the comma after the previous value, and the key of this one. */
static void lead(json *j, const char *key)
{
    if (j->comma) fputc(',', j->out);
    if (key) fprintf(j->out, "\"%s\":", key);
    j->comma = true;
}

json json_begin(FILE *out)
{
    fputc('{', out);
    return (json){ .out = out };
}

void json_end(json *j) { fputs("}\n", j->out); }

void json_text(json *j, const char *key, const char *value)
{
    lead(j, key);
    if (!value) {
        fputs("null", j->out);
        return;
    }
    /* A path may contain any bytes: if it is not UTF-8, each byte becomes the character with its number. */
    const size_t n     = strlen(value);
    const bool   valid = qg_utf8_valid(value, n);
    char         shown[QG_SHOWN_BYTES];
    fputc('"', j->out);
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)value[i];
        if (c == '"' || c == '\\') fprintf(j->out, "\\%c", c), i++;
        else if (!valid && c > '~') fprintf(j->out, "\\u%04x", (unsigned)c), i++;
        else i += qg_utf8_show(value + i, n - i, shown), fputs(shown, j->out);     /* its escapes are those of JSON */
    }
    fputc('"', j->out);
}

void json_real(json *j, const char *key, double value)
{
    lead(j, key);
    char text[QG_NUMBER_BYTES];
    qg_number_print(text, 9, value);
    fputs(isfinite(value) ? text : "null", j->out);
}

void json_integer(json *j, const char *key, uint64_t value)
{
    lead(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void json_flag(json *j, const char *key, bool value)
{
    lead(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_open(json *j, const char *key, char bracket)
{
    lead(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void json_close(json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}
