/* core/io/paths.h — names of files and directories, and texts.  Internal. */
#ifndef QG_PATHS_H
#define QG_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/io/file.h"

enum { QG__PATH_BYTES = 4096 };

/* dir/name.  Fails with QG_EARG: too long, or dir is empty. */
QG_MUST_CHECK
qg_status qg__path_join(const char *dir, const char *name, char path[QG__PATH_BYTES]);

/* True if the system cannot tell, for callers that open it next (qg__file_exists_in). */
bool      qg__path_exists(const char *path);
bool      qg__path_is_directory(const char *path);      /* or a link to one */
size_t    qg__path_length(const char *path);            /* without slashes at its end; of "/" 1 */

/* The names in dir that do not begin with a dot, in the order of their bytes; *name for qg__names_free.  Returns how many; -1, with
 * errno: dir cannot be read. */
struct dirent;
int       qg__names(const char *dir, struct dirent ***name);
void      qg__names_free(struct dirent **name, int n);

/* The order of two names of n and m bytes: by their characters, but digits by the number that they are, as seed-2 before seed-10. */
int       qg__names_compare(const char *a, size_t n, const char *b, size_t m);

/* Makes the directory and its parents, so that a power loss does not undo it.  *made, unless NULL: the length of
 * the path of the first one that did not exist; 0: all did.  Fails with QG_EARG: the path is empty or too
 * long; QG_EIO, also if the umask makes a new directory useless; what was made is then removed. */
QG_MUST_CHECK
qg_status qg__path_make(const char *dir, size_t *made);
void      qg__path_unmake(int base, const char *dir, size_t made);      /* what it made, unless that is in use */

/* Locks the open directory fd, named dir in messages, against other processes.  wait: until they have released it.  If the
 * file system has no locks, it succeeds without one, and *unlocked has a warning, which is empty otherwise.  Fails with
 * QG_ESTATE if another process has the lock, and with QG_EIO. */
enum { QG__UNLOCKED_BYTES = QG__PATH_BYTES + 256 };
QG_MUST_CHECK
qg_status qg__path_lock(int fd, const char *dir, bool wait, char unlocked[QG__UNLOCKED_BYTES]);

/* Whether a process has the lock on the directory; false if the system cannot tell.  Asking does not make qg__path_lock
 * fail in another process. */
bool      qg__path_locked(const char *dir);

/* The n bytes of a file, without a byte order mark at its start, and a zero after them; *text is the
 * caller's to free().  dir is as in core/io/file.h.  Fails as qg__file_read_in; then *text is NULL. */
QG_MUST_CHECK
qg_status qg__text_read(int dir, const char *path, size_t limit, char **text, size_t *n);

/* The n bytes that print writes to out, and a zero after them; *text is the caller's to free().  print may be called
 * several times.  Fails as print does, and with QG_EMEM; then *text is NULL. */
QG_MUST_CHECK
qg_status qg__text_print(qg_status (*print)(const void *what, FILE *out), const void *what, char **text, size_t *n);

/* Appends a word to a list in text, "a" -> "a, b"; a word that does not fit is omitted. */
void      qg__list_append(char *text, size_t bytes, const char *word);

enum { QG__NEAREST_BYTES = 96 };

/* "; did you mean twn?": the word of a list "a, b" or "a|b" that resembles the n bytes of text, or else
 * begins as they do; "" if there is none.  Case, - and _ do not matter, nor the dashes before an option;
 * true and on resemble yes, false and off no. */
const char *qg__list_nearest(const char *list, const char *text, size_t n, char hint[QG__NEAREST_BYTES]);

/* The words of a list "a,b" one after the other, cut to bytes; false after the last:
 *     for (const char *at = list; qg__list_next(&at, word, sizeof word);) ..          NULL: an empty list */
bool      qg__list_next(const char **at, char *word, size_t bytes);

/* The item after this one in a text with an item per line; "" after the last.  old without the line that equals item before its
 * '=', followed by item; from malloc, NULL if out of memory. */
const char *qg__lines_next(const char *item);
char       *qg__lines_with(const char *old, const char *item);

/* Files that come with qgrad, the recipes and the sample, have the same relative paths in the source tree and in an
 * installation, below share/qgrad: $QGRAD_SHARE if it is set and not empty, else PREFIX/share/qgrad of `make`.  The directory
 * need not exist.  false: the path is too long. */
bool      qg__share_directory(char path[QG__PATH_BYTES]);

/* given, or the same path in qg__share_directory if given is relative, does not exist and is there.  found may be given
 * itself. */
void      qg__share_find(const char *given, char found[QG__PATH_BYTES]);

#endif
