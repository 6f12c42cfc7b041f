#include "cli/print.h"

#include <stdarg.h>
#include <string.h>

#include "core/io/paths.h"
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
        at += qg__utf8_show(text + at, n - newlines - at, shown);
        fputs(shown, out);
    }
    while (newlines-- > 0) fputc('\n', out);
}

void print_path(const char *path, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    if (*path && !path[strspn(path, plain)]) {
        fputs(path, out);
        return;
    }
    /* In '..' every character stands for itself; in $'..' there are escapes. */
    char shown[QG__PATH_BYTES];
    qg__utf8_printable(path, shown, sizeof shown);
    const bool shows = !strcmp(path, shown);
    fputs(shows ? "'" : "$'", out);
    for (; *path; path++) {
        const unsigned char c = (unsigned char)*path;
        if (shows) fputs(c == '\'' ? "'\\''" : (char[]){ *path, '\0' }, out);
        else if (c == '\'' || c == '\\') fprintf(out, "\\%c", c);
        else fprintf(out, c < ' ' || c > '~' ? "\\%03o" : "%c", (unsigned)c);
    }
    fputc('\'', out);
}
