/* core/io/file.h — reading and replacing whole files; numbers of foreign files.
 *
 * A file is written under another name and then renamed, so a reader finds the old bytes or the new ones and
 * never a part of either.
 *
 * The functions that end in _in find the file in an open directory: dir is its descriptor, and the name of the file is
 * what follows the last slash of path, which otherwise only serves messages.  So the file is the same wherever the
 * directory has been moved to.  With QG_BY_PATH for dir, path is where the file is.
 */
#ifndef QG_FILE_H
#define QG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { QG_BY_PATH = -1 };

/* The n bytes of a regular file.
 *
 * Range    At most limit bytes.  An empty file gives n = 0 and a pointer that is not NULL.
 * Memory   The caller frees *bytes with free(); a failure leaves *bytes and *n as they were.
 * Fails    QG_EIO: the file cannot be opened or read, is not a regular file, or changed while being read.
 *          QG_EFORMAT: it is longer than limit.  QG_EMEM.  The message names the path and the reason.
 */
QG_MUST_CHECK
qg_status qg__file_read_in(int dir, const char *path, size_t limit, unsigned char **bytes, size_t *n);

/* The same file in parts, from its start.
 *
 * Memory   path is borrowed until close, which may be called twice, and after open has failed.
 * Fails    As qg__file_read_in.  A file that another replaces is read to its end all the same; one that has grown
 *          or shrunk is QG_EIO, at the latest with its last byte.
 */
typedef struct qg_reader {
    const char *path;
    int         descriptor;         /* -1: closed */
    size_t      left;               /* bytes not yet taken */
} qg_reader;

QG_MUST_CHECK
qg_status qg__reader_open_in(qg_reader *r, int dir, const char *path);
QG_MUST_CHECK
qg_status qg__reader_take(qg_reader *r, size_t n, void *to);        /* the next n bytes, n <= left */
void      qg__reader_close(qg_reader *r);

/* Replace the file at path, or create it, all or nothing.
 *
 *     qg_file *f = qg__file_begin_in(QG_BY_PATH, path);
 *     qg__file_put(f, header, sizeof header);
 *     if (qg__file_commit(f)) ...
 *
 * The bytes go to a temporary file in the same directory, path.PID-N.tmp, where N is the first number from 0 that
 * gives a new file.  commit flushes them to the disk, renames the file, flushes the directory and frees f.  Any
 * number of threads and processes may write the same path at the same time: the last one that commits remains.  A
 * process that is killed leaves one temporary file for each file that it was writing; qg__file_sweep_in removes them.
 * A path that is a symbolic link is replaced, not followed.
 *
 * Memory   dir is borrowed until commit.
 * Fails    Sticky: the first failure of begin or put is kept and commit reports it: QG_EIO with the path and
 *          the reason, or QG_EMEM.  Then the temporary file is gone and the old file is as it was.  begin returns NULL
 *          only without memory; put ignores NULL, commit(NULL) is QG_EMEM.  If the directory
 *          cannot be flushed, commit fails with QG_EIO although the file is whole: a power loss may bring
 *          back the old one.  A file system that cannot flush directories is no failure, nor is a directory that
 *          may be written but not read.
 */
typedef struct qg_file qg_file;

qg_file  *qg__file_begin_in(int dir, const char *path);
void      qg__file_put(qg_file *f, const void *bytes, size_t n);
QG_MUST_CHECK
qg_status qg__file_commit(qg_file *f);

/* Removes the temporary files of killed writers of path.  Only for a caller who knows that no other process is
 * writing path, such as the holder of a lock. */
void      qg__file_sweep_in(int dir, const char *path);

/* Whether there is a file, or a dangling link.  Fails with QG_EIO if the system cannot tell; then *exists is true. */
QG_MUST_CHECK
qg_status qg__file_exists_in(int dir, const char *path, bool *exists);
void      qg__file_remove_in(int dir, const char *path);        /* if it exists and can be removed */

/* Flush the directory that contains path, so that a power loss undoes no creation or renaming there.  Fails with QG_EIO
 * as qg__file_commit. */
QG_MUST_CHECK
qg_status qg__file_flush_name_in(int dir, const char *path);

/* A number of 1 to 4 bytes, the highest first if big. */
static inline uint32_t qg__number_of(const uint8_t *p, int bytes, bool big)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | p[big ? i : bytes - 1 - i];
    return v;
}

#endif
