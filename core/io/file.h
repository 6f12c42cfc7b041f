/* core/io/file.h — reading and replacing whole files; little-endian numbers.
 *
 * A file is written under another name and then renamed, so a reader finds the old bytes or the new ones and
 * never a part of either.
 */
#ifndef QG_FILE_H
#define QG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* The n bytes of a regular file.
 *
 * Range    At most limit bytes.  An empty file gives n = 0 and a pointer that is not NULL.
 * Memory   The caller frees *bytes with free(); a failure leaves *bytes and *n as they were.
 * Fails    QG_EIO: the file cannot be opened or read, is not a regular file, or changed while being read.
 *          QG_EFORMAT: it is longer than limit.  QG_EMEM.  The message names the path and the reason.
 */
QG_MUST_CHECK
qg_status qg_file_read(const char *path, size_t limit, unsigned char **bytes, size_t *n);

/* The same file in parts, from its start.
 *
 * Memory   path is borrowed until close, which may be called twice, and after open has failed.
 * Fails    As qg_file_read.  A file that another replaces is read to its end all the same; one that has grown
 *          or shrunk is QG_EIO, at the latest with its last byte.
 */
typedef struct qg_reader {
    const char *path;
    int         descriptor;         /* -1: closed */
    size_t      left;               /* bytes not yet taken */
} qg_reader;

QG_MUST_CHECK
qg_status qg_reader_open(qg_reader *r, const char *path);
QG_MUST_CHECK
qg_status qg_reader_take(qg_reader *r, size_t n, void *to);         /* the next n bytes, n <= left */
void      qg_reader_close(qg_reader *r);

/* Replace the file at path, or create it, all or nothing.
 *
 *     qg_file *f = qg_file_begin(path);
 *     qg_file_put(f, header, sizeof header);
 *     if (qg_file_commit(f)) ...
 *
 * The bytes go to path.tmp in the same directory.  commit flushes them to the disk, renames the file and
 * flushes the directory; discard removes path.tmp.  Either frees f.  The temporary name is always the same,
 * so the next writer replaces what a killed process left behind; a path may have one writer at a time.  A
 * path that is a symbolic link is replaced, not followed.
 *
 * Fails    Sticky: the first failure of begin or put is kept and commit reports it: QG_EIO with the path and
 *          the reason, or QG_EMEM.  Then path.tmp is gone and the old file is as it was.  begin returns NULL
 *          only without memory; put and discard ignore NULL, commit(NULL) is QG_EMEM.  If the directory
 *          cannot be flushed, commit fails with QG_EIO although the file is whole: a power loss may bring
 *          back the old one.  A file system that cannot flush directories is no failure, nor is a directory that
 *          may be written but not read.
 */
typedef struct qg_file qg_file;

qg_file  *qg_file_begin(const char *path);
void      qg_file_put(qg_file *f, const void *bytes, size_t n);
QG_MUST_CHECK
qg_status qg_file_commit(qg_file *f);
void      qg_file_discard(qg_file *f);

/* Little-endian numbers at any address, on any machine. */
static inline uint16_t qg_get_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t qg_get_u32(const unsigned char *p)
{
    return (uint32_t)qg_get_u16(p) | (uint32_t)qg_get_u16(p + 2) << 16;
}

static inline uint64_t qg_get_u64(const unsigned char *p)
{
    return (uint64_t)qg_get_u32(p) | (uint64_t)qg_get_u32(p + 4) << 32;
}

static inline void qg_put_u16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)(v & 255);
    p[1] = (unsigned char)(v >> 8);
}

static inline void qg_put_u32(unsigned char *p, uint32_t v)
{
    qg_put_u16(p, (uint16_t)(v & 65535));
    qg_put_u16(p + 2, (uint16_t)(v >> 16));
}

static inline void qg_put_u64(unsigned char *p, uint64_t v)
{
    qg_put_u32(p, (uint32_t)(v & UINT32_MAX));
    qg_put_u32(p + 4, (uint32_t)(v >> 32));
}

#endif
