#include "cli/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/print.h"
#include "core/io/utf8.h"

qg_status path_join(const char *dir, const char *name, char path[PATH_BYTES])
{
    if (!*dir) return qg_fail(QG_EARG, "the path of a directory is empty");
    if (snprintf(path, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES)
        return qg_fail(QG_EARG, "%.64s..: the path is longer than %d bytes", dir, PATH_BYTES - 1);
    return QG_OK;
}

bool path_exists(const char *path)
{
    bool exists;
    return qg_file_exists_in(QG_BY_PATH, path, &exists) || exists;
}

/* Nothing in it would be escaped. */
static bool is_shown(const char *path)
{
    char shown[PATH_BYTES];
    qg_utf8_printable(path, shown, sizeof shown);
    return !strcmp(path, shown);
}

void path_print(const char *path, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=,:@%";
    if (*path && !path[strspn(path, plain)]) {
        fputs(path, out);
        return;
    }
    /* In '..' every character stands for itself; in $'..' there are escapes. */
    const bool shows = is_shown(path);
    fputs(shows ? "'" : "$'", out);
    for (; *path; path++) {
        const unsigned char c = (unsigned char)*path;
        if (shows) fputs(c == '\'' ? "'\\''" : (char[]){ *path, '\0' }, out);
        else if (c == '\'' || c == '\\') fprintf(out, "\\%c", c);
        else fprintf(out, c < ' ' || c > '~' ? "\\%03o" : "%c", (unsigned)c);
    }
    fputc('\'', out);
}

qg_status path_make(const char *dir, bool *created)
{
    char   path[PATH_BYTES];
    size_t n = strlen(dir);
    if (n == 0 || n >= PATH_BYTES)
        return qg_fail(QG_EARG, "the name of a directory has %zu bytes", n);
    memcpy(path, dir, n + 1);
    for (char *c = path + 1;; c++) {
        if (*c && *c != '/') continue;
        const char end = *c;
        *c             = '\0';
        *created       = mkdir(path, 0777) == 0;
        if (!*created && errno != EEXIST)
            return qg_fail(QG_EIO, "cannot make directory %s: %s", path, strerror(errno));
        if (*created && qg_file_flush_name_in(QG_BY_PATH, path)) return QG_EIO;
        if (!end) return QG_OK;
        *c = end;
    }
}

/* Some network file systems have no locks, and say so in one of these ways. */
static bool means_no_locks(int why) { return why == ENOLCK || why == ENOSYS || why == EOPNOTSUPP; }

qg_status path_lock(int fd, const char *dir, bool wait)
{
    if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0) return QG_OK;
    const int why = errno;
    if (why == EWOULDBLOCK) return qg_fail(QG_ESTATE, "%s is locked by another process", dir);
    if (!means_no_locks(why)) return qg_fail(QG_EIO, "cannot lock %s: %s", dir, strerror(why));
    print_safe(stderr, "qgrad: warning: cannot lock %s: %s; no other process may write to it meanwhile\n", dir, strerror(why));
    return QG_OK;
}

qg_status text_read(int dir, const char *path, size_t limit, char **text, size_t *n)
{
    unsigned char  *bytes;
    const qg_status status = qg_file_read_in(dir, path, limit, &bytes, n);
    *text                  = NULL;
    if (status) return status;
    *text = malloc(*n + 1);
    if (*text) {
        memcpy(*text, bytes, *n);
        (*text)[*n] = '\0';
    }
    free(bytes);
    return *text ? QG_OK : qg_fail(QG_EMEM, "%s: out of memory", path);
}

/* Not with open_memstream: without memory, glibc's drops a part of the text and reports no error. */
qg_status text_print(qg_status (*print)(const void *what, FILE *out), const void *what, char **text, size_t *n)
{
    *text = NULL;
    for (size_t room = 1 << 13;; room *= 2) {
        char *to  = malloc(room);
        FILE *out = to ? fmemopen(to, room, "w") : NULL;
        if (!out) {
            free(to);
            return qg_fail(QG_EMEM, "out of memory: a text of %zu bytes", room);
        }
        const qg_status status = print(what, out);
        const bool      whole  = !fflush(out) && !ferror(out);
        *n = (size_t)ftell(out);
        fclose(out);
        if (!status && whole && *n < room) {
            to[*n] = '\0';
            *text  = to;
            return QG_OK;
        }
        free(to);
        if (status) return status;
    }
}
