#include "core/io/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Headers are written a few bytes at a time; a system call each would dominate. */
enum { BUFFER_BYTES = 1 << 16, REASON_BYTES = 128 };

/* The name of a temporary file is that of the file and a dot, the process, a hyphen, a number, and this. */
static const char TEMPORARY[] = ".tmp";
enum { MOST_NUMBERS = 10000, SUFFIX_BYTES = 48 };

struct qg_file {
    int           dir;
    char         *path, *tmp;              /* tmp: as names in dir */
    int           fd;                      /* -1: not open */
    bool          failed;
    char          reason[REASON_BYTES];    /* of the first failure */
    size_t        used;                    /* bytes of buffer */
    unsigned char buffer[BUFFER_BYTES];
};

/* --- directories -------------------------------------------------------------------------- */

/* dir and path as openat and its like want them. */
static int at_of(int dir) { return dir < 0 ? AT_FDCWD : dir; }

static const char *name_of(int dir, const char *path)
{
    const char *slash = dir < 0 ? NULL : strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens the directory that contains path; -1 on error. */
static int open_parent(int dir, const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (dir >= 0) return openat(dir, ".", flags);
    const char  *slash = strrchr(path, '/');
    const size_t n     = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char        *copy  = n ? strndup(path, n) : NULL;
    const int    fd    = n && !copy ? -1 : open(n ? copy : ".", flags);
    free(copy);
    return fd;
}

/* Three errors are no failure.  EINVAL, ENOTSUP: this file system cannot flush a directory.  EACCES: the directory may be
 * written but not read, so it cannot be opened to be flushed. */
qg_status qg__file_flush_name_in(int dir, const char *path)
{
    const int  fd     = open_parent(dir, path);
    const bool failed = (fd < 0 || fsync(fd)) && errno != EINVAL && errno != ENOTSUP && errno != EACCES;
    const int  reason = errno;
    if (fd >= 0) close(fd);
    if (!failed) return QG_OK;
    return qg_fail(QG_EIO, "cannot flush the directory of '%s': %s", path, strerror(reason));
}

qg_status qg__file_exists_in(int dir, const char *path, bool *exists)
{
    struct stat s;
    const bool  found = fstatat(at_of(dir), name_of(dir, path), &s, AT_SYMLINK_NOFOLLOW) == 0;
    *exists           = found || (errno != ENOENT && errno != ENOTDIR);
    return found == *exists ? QG_OK : qg_fail(QG_EIO, "cannot find out whether '%s' exists: %s", path, strerror(errno));
}

void qg__file_remove_in(int dir, const char *path) { unlinkat(at_of(dir), name_of(dir, path), 0); }

/* Whether a temporary file of name is called that: .12-0.tmp follows name. */
static bool is_temporary(const char *entry, const char *name, size_t length)
{
    static const char digits[] = "0123456789";
    if (strncmp(entry, name, length)) return false;
    const char  *rest    = entry + length;
    const size_t process = *rest == '.' ? strspn(rest + 1, digits) : 0;
    if (!process || rest[1 + process] != '-') return false;
    rest += 2 + process;
    const size_t number = strspn(rest, digits);
    return number && strcmp(rest + number, TEMPORARY) == 0;
}

void qg__file_sweep_in(int dir, const char *path)
{
    const int    fd     = open_parent(dir, path);
    DIR         *list   = fd < 0 ? NULL : fdopendir(fd);
    const char  *slash  = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = strlen(name);
    if (!list && fd >= 0) close(fd);
    for (const struct dirent *e; list && (e = readdir(list));)
        if (is_temporary(e->d_name, name, length)) unlinkat(fd, e->d_name, 0);
    if (list) closedir(list);
}

/* --- reading ------------------------------------------------------------------------------ */

/* Reads until n bytes or the end of the file; -1 on error. */
static int read_fully(int fd, unsigned char *to, size_t n, size_t *got)
{
    *got = 0;
    while (*got < n) {
        const ssize_t r = read(fd, to + *got, n - *got);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return -1;
        if (r == 0) return 0;
        *got += (size_t)r;
    }
    return 0;
}

static qg_status cannot_read(const qg_reader *r, const char *why)
{
    return qg_fail(QG_EIO, "cannot read '%s': %s", r->path, why);
}

static qg_status measure(qg_reader *r)
{
    struct stat st;
    if (fstat(r->descriptor, &st)) return cannot_read(r, strerror(errno));
    if (!S_ISREG(st.st_mode)) return cannot_read(r, S_ISDIR(st.st_mode) ? strerror(EISDIR) : "not a regular file");
    if ((uintmax_t)st.st_size >= SIZE_MAX)
        return qg_fail(QG_EFORMAT, "'%s' has %ju bytes, more than memory can hold", r->path, (uintmax_t)st.st_size);
    r->left = (size_t)st.st_size;
    return QG_OK;
}

qg_status qg__reader_open_in(qg_reader *r, int dir, const char *path)
{
    *r = (qg_reader){ .path = path, .descriptor = -1 };
    if (!path) return qg_fail(QG_EARG, "the path of a file to read is NULL");
    /* Without O_NONBLOCK, open would wait for the writer of a pipe. */
    r->descriptor = openat(at_of(dir), name_of(dir, path), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (r->descriptor < 0) return qg_fail(QG_EIO, "cannot open '%s': %s", path, strerror(errno));
    const qg_status s = measure(r);
    if (s) qg__reader_close(r);
    return s;
}

qg_status qg__reader_take(qg_reader *r, size_t n, void *to)
{
    size_t        got, more = 0;
    unsigned char beyond;
    if (read_fully(r->descriptor, to, n, &got)) return cannot_read(r, strerror(errno));
    r->left -= n;
    /* One byte after the last, to notice a file that grows. */
    if (r->left == 0 && read_fully(r->descriptor, &beyond, 1, &more)) return cannot_read(r, strerror(errno));
    return got == n && more == 0 ? QG_OK : cannot_read(r, "it changed while being read");
}

void qg__reader_close(qg_reader *r)
{
    if (r->descriptor >= 0) close(r->descriptor);
    r->descriptor = -1;
}

static qg_status read_all(qg_reader *r, size_t limit, unsigned char **bytes, size_t *n)
{
    const size_t size = r->left;
    if (size > limit) return qg_fail(QG_EFORMAT, "'%s' has %zu bytes, must be %zu at most", r->path, size, limit);
    unsigned char *p = malloc(size ? size : 1);
    if (!p) return qg_fail(QG_EMEM, "out of memory: %zu bytes of '%s'", size, r->path);
    const qg_status s = qg__reader_take(r, size, p);
    if (s) {
        free(p);
        return s;
    }
    *bytes = p;
    *n     = size;
    return QG_OK;
}

qg_status qg__file_read_in(int dir, const char *path, size_t limit, unsigned char **bytes, size_t *n)
{
    qg_reader r;
    qg_status s = qg__reader_open_in(&r, dir, path);
    if (!s) s = read_all(&r, limit, bytes, n);
    qg__reader_close(&r);
    return s;
}

/* --- writing ------------------------------------------------------------------------------ */

static void give_up(qg_file *f, const char *reason)
{
    if (f->failed) return;
    f->failed = true;
    snprintf(f->reason, sizeof f->reason, "%s", reason);
}

/* O_EXCL: no other writer has this name, and a link planted under it is not followed. */
static void open_temporary(qg_file *f, const char *name)
{
    const size_t n = strlen(name);
    memcpy(f->tmp, name, n);
    errno = EEXIST;
    for (int i = 0; i < MOST_NUMBERS && f->fd < 0 && errno == EEXIST; i++) {
        snprintf(f->tmp + n, SUFFIX_BYTES, ".%ld-%d%s", (long)getpid(), i, TEMPORARY);
        f->fd = openat(at_of(f->dir), f->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (f->fd < 0) give_up(f, strerror(errno));
}

qg_file *qg__file_begin_in(int dir, const char *path)
{
    const size_t length = strlen(path) + 1;
    qg_file     *f      = malloc(sizeof *f + 2 * length + SUFFIX_BYTES);
    if (!f) {
        qg_fail(QG_EMEM, "out of memory: a buffer to write '%s'", path);
        return NULL;
    }
    f->dir       = dir;
    f->path      = (char *)(f + 1);
    f->tmp       = f->path + length;
    f->fd        = -1;
    f->failed    = false;
    f->used      = 0;
    f->reason[0] = '\0';
    memcpy(f->path, path, length);

    /* Renaming over a device or a pipe would replace the node itself. */
    const char *name = name_of(dir, path);
    struct stat st;
    if (fstatat(at_of(dir), name, &st, 0) == 0 && !S_ISREG(st.st_mode))
        give_up(f, S_ISDIR(st.st_mode) ? strerror(EISDIR) : "not a regular file");
    else
        open_temporary(f, name);
    return f;
}

static void write_fully(qg_file *f, const unsigned char *from, size_t n)
{
    while (n > 0 && !f->failed) {
        const ssize_t w = write(f->fd, from, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) {
            give_up(f, strerror(errno));
            return;
        }
        from += w;
        n -= (size_t)w;
    }
}

static void flush(qg_file *f)
{
    write_fully(f, f->buffer, f->used);
    f->used = 0;
}

void qg__file_put(qg_file *f, const void *bytes, size_t n)
{
    if (!f || f->failed || n == 0) return;
    if (n > BUFFER_BYTES - f->used) flush(f);
    if (n > BUFFER_BYTES) {
        write_fully(f, bytes, n);
        return;
    }
    memcpy(f->buffer + f->used, bytes, n);
    f->used += n;
}

qg_status qg__file_commit(qg_file *f)
{
    if (!f) return QG_EMEM;
    flush(f);
    if (!f->failed && fsync(f->fd)) give_up(f, strerror(errno));
    const int at = at_of(f->dir);
    if (!f->failed && renameat(at, f->tmp, at, name_of(f->dir, f->path))) give_up(f, strerror(errno));
    if (f->fd >= 0) close(f->fd);
    if (f->failed && f->fd >= 0) unlinkat(at, f->tmp, 0);
    /* A rename reaches the disk when its directory does. */
    const qg_status s = f->failed ? qg_fail(QG_EIO, "cannot write '%s': %s", f->path, f->reason)
                                  : qg__file_flush_name_in(f->dir, f->path);
    free(f);
    return s;
}
