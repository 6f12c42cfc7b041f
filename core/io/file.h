/* core/io/file.h — whole files in, whole files out, little-endian numbers.
 *
 * A file is read at once and checked in memory; a file is written beside its place and renamed into
 * it, so that a reader finds the old bytes or the new ones and never a part.
 */
#ifndef QG_FILE_H
#define QG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* The n bytes of a regular file.
 *
 * Range    At most limit bytes.  An empty file gives n = 0 and a pointer that is not NULL.
 * Memory   *bytes is the caller's to free(); on failure neither *bytes nor *n is touched.
 * Fails    QG_EIO: cannot be opened or read, not a regular file, changed while it was read.
 *          QG_EFORMAT: longer than limit.  QG_EMEM.  The message names the path and the reason.
 */
QG_MUST_CHECK
qg_status qg_file_read(const char *path, size_t limit, unsigned char **bytes, size_t *n);

/* Its first bytes alone, at most the given number: *n of them, in a file of *size.  Otherwise the same. */
QG_MUST_CHECK
qg_status qg_file_start(const char *path, size_t most, unsigned char **bytes, size_t *n, size_t *size);

/* Replace the file at path, or create it, all or nothing.
 *
 *     qg_file *f = qg_file_begin(path);
 *     qg_file_put(f, header, sizeof header);
 *     if (qg_file_commit(f)) ...
 *
 * The bytes go to path.tmp in the same directory.  Commit flushes them to the disk, renames and
 * flushes the directory; discard removes path.tmp.  Either frees f.  The name is always the same,
 * so what a killed process left behind is replaced by the next writer; one writer per path at a
 * time.  A path that is a symbolic link is replaced, not followed.
 *
 * Fails    Sticky: the first failure of begin or put is kept and commit reports it: QG_EIO with the
 *          path and the reason, or QG_EMEM.  Then path.tmp is gone and the old file is as it was.
 *          begin returns NULL only without memory; put and discard ignore NULL, commit(NULL) is
 *          QG_EMEM.  Where a directory cannot be flushed the file is still whole, but a power loss
 *          may bring the old one back; that is no failure.
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
