#include "core/io/file.h"

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

struct qg_file {
    char         *path, *tmp;
    int           fd;                      /* -1: not open */
    bool          failed;
    char          reason[REASON_BYTES];    /* of the first failure */
    size_t        used;                    /* bytes of buffer */
    unsigned char buffer[BUFFER_BYTES];
};

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

qg_status qg_reader_open(qg_reader *r, const char *path)
{
    *r = (qg_reader){ .path = path, .descriptor = -1 };
    if (!path) return qg_fail(QG_EARG, "the path of a file to read is NULL");
    /* Without O_NONBLOCK, open would wait for the writer of a pipe. */
    r->descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (r->descriptor < 0) return qg_fail(QG_EIO, "cannot open '%s': %s", path, strerror(errno));
    const qg_status s = measure(r);
    if (s) qg_reader_close(r);
    return s;
}

qg_status qg_reader_take(qg_reader *r, size_t n, void *to)
{
    size_t        got, more = 0;
    unsigned char beyond;
    if (read_fully(r->descriptor, to, n, &got)) return cannot_read(r, strerror(errno));
    r->left -= n;
    /* One byte after the last, to notice a file that grows. */
    if (r->left == 0 && read_fully(r->descriptor, &beyond, 1, &more)) return cannot_read(r, strerror(errno));
    return got == n && more == 0 ? QG_OK : cannot_read(r, "it changed while being read");
}

void qg_reader_close(qg_reader *r)
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
    const qg_status s = qg_reader_take(r, size, p);
    if (s) {
        free(p);
        return s;
    }
    *bytes = p;
    *n     = size;
    return QG_OK;
}

qg_status qg_file_read(const char *path, size_t limit, unsigned char **bytes, size_t *n)
{
    qg_reader r;
    qg_status s = qg_reader_open(&r, path);
    if (!s) s = read_all(&r, limit, bytes, n);
    qg_reader_close(&r);
    return s;
}

static void give_up(qg_file *f, const char *reason)
{
    if (f->failed) return;
    f->failed = true;
    snprintf(f->reason, sizeof f->reason, "%s", reason);
}

qg_file *qg_file_begin(const char *path)
{
    const size_t length = strlen(path);
    qg_file     *f      = malloc(sizeof *f + 2 * length + sizeof ".tmp" + 1);
    if (!f) {
        qg_fail(QG_EMEM, "out of memory: a buffer to write '%s'", path);
        return NULL;
    }
    f->path      = (char *)(f + 1);
    f->tmp       = f->path + length + 1;
    f->fd        = -1;
    f->failed    = false;
    f->used      = 0;
    f->reason[0] = '\0';
    memcpy(f->path, path, length + 1);
    memcpy(f->tmp, path, length);
    memcpy(f->tmp + length, ".tmp", sizeof ".tmp");

    /* Renaming over a device or a pipe would replace the node itself. */
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        give_up(f, S_ISDIR(st.st_mode) ? strerror(EISDIR) : "not a regular file");
        return f;
    }
    /* O_EXCL after unlink, not O_TRUNC: a link planted under this name is removed, not followed. */
    unlink(f->tmp);
    f->fd = open(f->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0) give_up(f, strerror(errno));
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

void qg_file_put(qg_file *f, const void *bytes, size_t n)
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

/* A rename reaches the disk when its directory does.  EINVAL: this file system cannot flush one.  EACCES: the
 * directory may be written but not read, so nothing can be said of it. */
static qg_status flush_directory(const qg_file *f)
{
    const char *slash = strrchr(f->path, '/');
    const size_t n    = !slash ? 1 : slash == f->path ? 1 : (size_t)(slash - f->path);
    memcpy(f->tmp, slash ? f->path : ".", n);       /* its name is no longer needed, and has the room */
    f->tmp[n]         = '\0';
    const int fd      = open(f->tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool failed = (fd < 0 || fsync(fd)) && errno != EINVAL && errno != EACCES;
    const int  reason = errno;
    if (fd >= 0) close(fd);
    if (!failed) return QG_OK;
    return qg_fail(QG_EIO, "cannot flush the directory of '%s': %s", f->path, strerror(reason));
}

static void close_and_remove(qg_file *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        unlink(f->tmp);
    }
    free(f);
}

qg_status qg_file_commit(qg_file *f)
{
    if (!f) return QG_EMEM;
    flush(f);
    if (!f->failed && fsync(f->fd)) give_up(f, strerror(errno));
    if (!f->failed && rename(f->tmp, f->path)) give_up(f, strerror(errno));
    if (f->failed) {
        const qg_status s = qg_fail(QG_EIO, "cannot write '%s': %s", f->path, f->reason);
        close_and_remove(f);
        return s;
    }
    close(f->fd);
    const qg_status s = flush_directory(f);
    free(f);
    return s;
}

void qg_file_discard(qg_file *f)
{
    if (f) close_and_remove(f);
}
