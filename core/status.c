#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/utf8.h"

/* Long enough for a list of mismatching tensors; longer text is cut, never overrun. */
enum { MESSAGE_BYTES = 1 << 14 };

static _Thread_local char      message[MESSAGE_BYTES] = "no error";
static _Thread_local qg_status code;

const char *qg_errmsg(void)
{
    return message;
}

qg_status qg_errcode(void)
{
    return code;
}

int qg_print_error(const char *program)
{
    fprintf(stderr, "%s: %s\n", program, message);
    return 1;
}

static void fail(qg_status s, const char *fmt, va_list args)
{
    char text[MESSAGE_BYTES];         /* an argument may be the old message itself */
    vsnprintf(text, sizeof text, fmt, args);
    qg__utf8_printable(text, message, sizeof message);
    code = s;
}

qg_status qg_fail(qg_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail(s, fmt, args);
    va_end(args);
    return s;
}

void *qg__refuse(qg_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fail(s, fmt, args);
    va_end(args);
    return NULL;
}

qg_status qg__fail_null(qg_status s, const char *what)
{
    static const char was[] = "; the last failure was: ";
    const char       *first = strstr(message, was);     /* of several NULLs in turn only one has a cause */
    if (!code) return qg_fail(s, "%s: it is NULL", what);
    return qg_fail(s, "%s: it is NULL%s%s", what, was, first ? first + strlen(was) : message);
}

_Noreturn void qg_assert_failed(const char *file, int line, const char *cond)
{
    fprintf(stderr, "%s:%d: broken contract: %s\n", file, line, cond);
    abort();
}
