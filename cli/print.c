#include "cli/print.h"

#include <stdarg.h>
#include <string.h>

#include "core/io/utf8.h"

enum { TEXT_BYTES = 8192 };

void print_safe(FILE *out, const char *fmt, ...)
{
    char    text[TEXT_BYTES], shown[QG_SHOWN_BYTES];
    size_t  newlines = 0;
    va_list args;
    for (size_t n = strlen(fmt); newlines < n && fmt[n - 1 - newlines] == '\n';) newlines++;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t n = strlen(text), at = 0;
    while (at + newlines < n) {
        at += qg_utf8_show(text + at, n - newlines - at, shown);
        fputs(shown, out);
    }
    while (newlines-- > 0) fputc('\n', out);
}
