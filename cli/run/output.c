#include "cli/run/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run/run_spec.h"
#include "core/io/file.h"

#define PAGE_SUFFIX ".html"
#define PAGE_START  "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name="

/* What a kind is called, the suffix of its names, NULL: any, and how its files begin, which is what their
 * writers write first. */
static const struct {
    const char *name, *suffix, *start;
    bool        kept;
} kinds[] = {
    [OUTPUT_PACKED]    = { "a packed net", NULL, "\211qgnet\r\n", false },
    /* IR version, producer */
    [OUTPUT_ONNX]      = { "an ONNX file of qgrad", NULL, "\010\007\022\005qgrad", false },
    [OUTPUT_C]         = { "a net in C", NULL, "/* A net in C99, written by qgrad export --to c.\n", false },
    [OUTPUT_PICTURE]   = { "a picture of qgrad", ".svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=", false },
    [OUTPUT_PAGE]      = { "a page of qgrad report", PAGE_SUFFIX, PAGE_START, false },
    [OUTPUT_KEPT_PAGE] = { "a page of qgrad report", PAGE_SUFFIX, PAGE_START, true },
};

enum { MOST_START = 128 };

/* stdout or stderr, if this file is what it leads to; -1: neither. */
static int stream_of(const struct stat *s)
{
    struct stat of;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (!fstat(fd, &of) && of.st_dev == s->st_dev && of.st_ino == s->st_ino) return fd;
    return -1;
}

/* Bytes go there one after the other, and nothing that is there is lost. */
static bool is_stream(output_kind kind, const struct stat *s)
{
    const bool passes = S_ISFIFO(s->st_mode) || S_ISCHR(s->st_mode) || S_ISSOCK(s->st_mode);
    return !kinds[kind].kept && (passes || stream_of(s) >= 0);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *output_suffix(const char *path)
{
    const char *name = name_of(path), *dot = strrchr(name, '.');
    return dot && dot > name && isalpha((unsigned char)dot[1]) ? dot : NULL;
}

/* Whether the name promises another format; .htm is short for .html. */
static bool ends_otherwise(const char *path, output_kind kind)
{
    const char *suffix = output_suffix(path), *own = kinds[kind].suffix;
    const bool  is_page = own && !strcmp(own, PAGE_SUFFIX);
    return own && suffix && strcasecmp(suffix, own) && (!is_page || strcasecmp(suffix, ".htm"));
}

static bool is_name_of_run(const char *path)
{
    const char *name = name_of(path);
    for (run_file f = 0; f < RUN_FILES; f++)
        if (!strcmp(name, run_file_names[f])) return true;
    return false;
}

/* The first bytes of a file; -1 on error. */
static ssize_t read_start(const char *path, char *to, size_t n)
{
    const int     fd  = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, to, n);
    const int     why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return got;
}

qg_status output_check(const char *path, output_kind kind)
{
    const char  *start  = kinds[kind].start;
    const size_t length = strlen(start);
    char         begins[MOST_START];
    struct stat  s;
    if (is_name_of_run(path)) return qg_fail(QG_EARG, "'%s' is the name of a file of a run; choose another name", path);
    const bool found = !stat(path, &s);
    const int  why   = errno;
    if (found && is_stream(kind, &s)) return QG_OK;
    if (ends_otherwise(path, kind))
        return qg_fail(QG_EARG, "'%s': the name of %s ends in %s; choose another name", path,
                       kinds[kind].name, kinds[kind].suffix);
    if (!found && (why == ENOENT || why == ENOTDIR)) return QG_OK;          /* the writer tells which directory is missing */
    const ssize_t n = found ? read_start(path, begins, length) : -1;
    if (n < 0) return qg_fail(QG_EIO, "cannot read '%s', which would be replaced: %s", path, strerror(errno));
    if (n == 0 || ((size_t)n == length && !memcmp(begins, start, length))) return QG_OK;
    return qg_fail(QG_ESTATE, "'%s' is not %s, so it is not replaced; choose another name, or remove it", path, kinds[kind].name);
}

static qg_status write_stream(const char *path, const struct stat *s, const char *from, size_t n)
{
    const int own = stream_of(s), fd = own >= 0 ? own : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    fflush(stdout);
    while (fd >= 0 && n > 0) {
        const ssize_t w = write(fd, from, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) break;
        from += w;
        n -= (size_t)w;
    }
    const int why = errno;
    if (own < 0 && fd >= 0) close(fd);
    return fd >= 0 && !n ? QG_OK : qg_fail(QG_EIO, "cannot write '%s': %s", path, strerror(why));
}

qg_status output_write_in(int dir, const char *path, output_kind kind, const void *bytes, size_t n)
{
    struct stat     s;
    const qg_status status = output_check(path, kind);
    if (status) return status;
    if (!stat(path, &s) && is_stream(kind, &s)) return write_stream(path, &s, bytes, n);
    qg_file *f = qg__file_begin_in(dir, path);
    qg__file_put(f, bytes, n);
    return qg__file_commit(f);
}

qg_status output_write(const char *path, output_kind kind, const void *bytes, size_t n)
{
    return output_write_in(QG_BY_PATH, path, kind, bytes, n);
}

qg_status output_print(const char *path, output_kind kind, qg_status (*print)(const void *what, FILE *out), const void *what)
{
    char     *text;
    size_t    n;
    qg_status status = qg__text_print(print, what, &text, &n);
    if (!status) status = output_write(path, kind, text, n);
    free(text);
    return status;
}

bool output_is_stdout(const char *path)
{
    struct stat s;
    return path && !stat(path, &s) && stream_of(&s) == STDOUT_FILENO;
}
