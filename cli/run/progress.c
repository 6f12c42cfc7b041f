#include "cli/run/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"

static const double REDRAW_SECONDS = 0.1;

void print_duration(double seconds, char text[32])
{
    const long s = seconds < 0 ? 0 : seconds > 3.6e8 ? 360000000L : (long)(seconds + 0.5);
    if (s < 3600) snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
    else snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

progress progress_begin(void)
{
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    const bool  live = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb");
    return (progress){ .live = live, .colour = live && !(plain && *plain) };
}

bool progress_due(const progress *p) { return p->live && qg__now() - p->drawn >= REDRAW_SECONDS; }

void progress_clear(progress *p)
{
    if (p->width) fprintf(stderr, "\r%*s\r", p->width, "");
    p->width = 0;
}

/* A wrapped line cannot be redrawn, so the line is truncated. */
static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void progress_draw(progress *p, const char *fmt, ...)
{
    char    text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const int columns = terminal_columns();
    if (columns < (int)sizeof text) text[columns - 1] = '\0';
    const int width = (int)strlen(text);
    fprintf(stderr, "\r%s%*s", text, width < p->width ? p->width - width : 0, "");
    fflush(stderr);
    p->width = width;
    p->drawn = qg__now();
}

void progress_line(progress *p, const char *fmt, ...)
{
    va_list args;
    progress_clear(p);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
}
