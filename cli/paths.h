/* cli/paths.h — names of files and directories, and texts. */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/io/file.h"

enum { PATH_BYTES = 4096 };

/* dir/name.  Fails with QG_EARG: too long, or dir is empty. */
QG_MUST_CHECK
qg_status path_join(const char *dir, const char *name, char path[PATH_BYTES]);

/* True if the system cannot tell, for callers that open it next (qg_file_exists_in). */
bool      path_exists(const char *path);

/* As a word for a shell, in quotes if it needs them; as $'..', which bash, ksh and zsh read, if a terminal would act on its
 * characters. */
void      path_print(const char *path, FILE *out);

/* Makes the directory and its parents, so that a power loss does not undo it.  *created: it did not exist.  Fails with
 * QG_EIO. */
QG_MUST_CHECK
qg_status path_make(const char *dir, bool *created);

/* Locks the open directory fd, named dir in messages, against other processes.  wait: until they have released it.  If the
 * file system has no locks, it succeeds without one and prints a warning on stderr.  Fails with QG_ESTATE if another
 * process has the lock, and with QG_EIO. */
QG_MUST_CHECK
qg_status path_lock(int fd, const char *dir, bool wait);

/* The n bytes of a file and a zero behind them; *text is the caller's to free().  Here and in all of cli/, dir is as in
 * core/io/file.h.  Fails as qg_file_read_in; then *text is NULL. */
QG_MUST_CHECK
qg_status text_read(int dir, const char *path, size_t limit, char **text, size_t *n);

/* The n bytes that print writes to out, and a zero after them; *text is the caller's to free().  print may be called
 * several times.  Fails as print does, and with QG_EMEM; then *text is NULL. */
QG_MUST_CHECK
qg_status text_print(qg_status (*print)(const void *what, FILE *out), const void *what, char **text, size_t *n);

#endif
