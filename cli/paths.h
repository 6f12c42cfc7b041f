/* cli/paths.h — names of files and directories. */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

enum { PATH_BYTES = 4096 };

/* dir/name.  Fails with QG_EARG: too long, or dir is empty. */
QG_MUST_CHECK
qg_status path_join(const char *dir, const char *name, char path[PATH_BYTES]);

bool      path_exists(const char *path);        /* true for a dangling link, too */
void      path_print(const char *path, FILE *out);  /* as a word for a shell, in quotes if it needs them */

/* Makes the directory and its parents.  *created: it did not exist.  Fails with QG_EIO. */
QG_MUST_CHECK
qg_status path_make(const char *dir, bool *created);

/* The n bytes of a file and a zero behind them; *text is the caller's to free().  Fails as
 * qg_file_read (core/io/file.h); then *text is NULL. */
QG_MUST_CHECK
qg_status text_read(const char *path, size_t limit, char **text, size_t *n);

#endif
