/* core/io/state.h — what a run has to remember, as one file.
 *
 * A state is a list of named arrays and of notes.  Net, optimizer and loader each append theirs;
 * then the list is saved, or filled, as a whole.  The file is a safetensors file, which other
 * programs read too: a length, a JSON header, then the arrays, little-endian and row-major.
 */
#ifndef QG_STATE_H
#define QG_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/io/array.h"
#include "core/status.h"

/* The list.
 *
 * Range    Names and keys are UTF-8, notes any UTF-8 text; the name "__metadata__" is taken.  Array
 *          ranks 0 to 8; empty arrays are allowed.  A key that is noted twice keeps the last value,
 *          an array name that is added twice is an error.
 * Memory   Names, keys and values are copied; array data is borrowed until the state is freed.
 *          What noted returns is valid until the next note or load.
 * Fails    Sticky: the first failure (QG_EARG or QG_EMEM) is kept, later calls do nothing, and save
 *          and load report it.  So add and note need no check.  A NULL state stays without effect
 *          and gives QG_EMEM.
 */
typedef struct qg_state qg_state;

qg_state   *qg_state_new(void);
qg_status   qg_state_add(qg_state *s, const char *name, qg_array a);
qg_status   qg_state_note(qg_state *s, const char *key, const char *value);
const char *qg_state_noted(const qg_state *s, const char *key);  /* NULL: absent; the state's own */
void        qg_state_refuse(qg_state *s, qg_status why);         /* fails it with the message just set */
void        qg_state_free(qg_state *s);

/* Write the list to path, all or nothing (core/io/file.h).
 *
 * The bytes are a function of names, values and notes alone, not of the order of adding: notes
 * sorted by key, arrays by descending element size, then by name, without holes; the header is
 * padded with spaces to a multiple of eight, so every array of a mapped file is aligned.
 *
 * Fails    QG_ENAN: a 32-bit float is not finite, which no load would take; the message names its
 *          array.  QG_EIO, QG_EARG (a header above the format's 100 000 000 bytes), the sticky failure.
 */
QG_MUST_CHECK
qg_status qg_state_save(const qg_state *s, const char *path);

/* Fill the arrays of the list from path, and replace the notes by those of the file.
 *
 * The file must hold the arrays of the list, with the same types and shapes, and no others.
 * Everything is checked before anything is copied: a failure changes nothing.
 *
 * Fails    QG_ESHAPE: the message lists every array that is missing, unexpected or different, as
 *          far as it has room.  QG_ENAN: a 32-bit float is not finite; the message names its array.
 *          QG_EIO, QG_EFORMAT, QG_EMEM as qg_archive_open; the sticky failure.
 */
QG_MUST_CHECK
qg_status qg_state_load(qg_state *s, const char *path);

/* A file whose contents are not known beforehand. */
typedef struct qg_archive qg_archive;

typedef struct qg_archive_entry {
    const char *name;
    const char *dtype;              /* as the file spells it: "F32", but also "BF16" or "BOOL" */
    bool        viewable;           /* dtype is one of core/io/array.h's, so array.dtype says it too */
    qg_array    array;              /* a view of the archive's memory */
    size_t      offset, bytes;      /* where it is in the file, from the end of the header */
} qg_archive_entry;

typedef struct qg_note {
    const char *key, *value;
} qg_note;

/* Read and check a safetensors file.
 *
 * Range    Strict: what the format's reference implementation refuses is refused, and so are a key
 *          that occurs twice, a null in place of the metadata, more than 8 dimensions and a NUL
 *          (\u0000) inside a string.  The header may hold 100 000 000 bytes.
 * Memory   The archive owns everything it returns, until qg_archive_free.  It holds the whole file,
 *          and a second copy of the arrays if the file does not align them.
 * Fails    NULL with a message; the codes behind it, which qg_state_load returns, are QG_EIO,
 *          QG_EFORMAT (it names the file, what is wrong and where) and QG_EMEM.
 */
qg_archive *qg_archive_open(const char *path);
void        qg_archive_free(qg_archive *a);

/* All entries, sorted by name; all notes, sorted by key.  One of them: NULL if absent. */
const qg_archive_entry *qg_archive_entries(const qg_archive *a, size_t *count);
const qg_note          *qg_archive_notes(const qg_archive *a, size_t *count);
const qg_archive_entry *qg_archive_find(const qg_archive *a, const char *name);
const char             *qg_archive_noted(const qg_archive *a, const char *key);

#endif
