/* core/io/state.h — everything a run has to remember, as one file.
 *
 * A state is a list of named arrays and of notes.  The net, the optimizer and the run append
 * theirs; then the list is saved, or filled from a file, as a whole.  Other programs can read the
 * file: it has the safetensors format, which is a length, a JSON header and the arrays,
 * little-endian and row-major.
 *
 * The note "qgrad-checksum" is a checksum of the names, types, shapes, data and other notes of a
 * file.  Every function that reads a file verifies it first, and fails with QG_EFORMAT and "is
 * damaged".  Every single flipped bit is detected; other damage goes unnoticed with a probability
 * of about 2^-64.  Files written by other programs have no checksum and are read without
 * verification.  A program that changes a file must remove this note.
 */
#ifndef QG_STATE_H
#define QG_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/io/array.h"
#include "core/status.h"

/* One array of a state or of a file. */
typedef struct qg_named_array {
    const char *name;
    const char *dtype;              /* as the file spells it: "F32", but also "BF16" or "BOOL" */
    bool        viewable;           /* dtype is one of core/io/array.h's, and array.dtype says the same */
    qg_array    array;
    size_t      offset;             /* in a file: where it is, from the end of the header */
    size_t      bytes;
} qg_named_array;

typedef struct qg_note {
    const char *key, *value;
} qg_note;

/* The list.
 *
 * Range    Names and keys are UTF-8, notes any UTF-8 text; the name "__metadata__" is reserved, and so are values
 *          that begin with "qgrad-hash64 ".  Array ranks are 0 to 8; arrays may be empty.  A key that is noted
 *          twice keeps the last value, and NULL removes it; adding an array name twice is an error.  The note of the
 *          checksum is ignored, as save writes its own; so all notes of another file may be copied.
 * Memory   Names, keys and values are copied; array data is borrowed until the state is freed.  The result of
 *          qg_state_find_note is valid until the next note or load.
 * Fails    Sticky: the first failure (QG_EARG or QG_EMEM) is kept, later calls do nothing, and save and load
 *          report it, so add and note need no check.  With a NULL state every call does nothing and returns
 *          QG_EMEM.
 */
typedef struct qg_state qg_state;

qg_state   *qg_state_new(void);
qg_status   qg_state_add(qg_state *s, const char *name, qg_array a);
qg_status   qg_state_set_note(qg_state *s, const char *key, const char *value);
const char *qg_state_find_note(const qg_state *s, const char *key); /* NULL: absent */
void        qg_state_free(qg_state *s);

/* Write the list to path, all or nothing: the bytes go to path.PID-N.tmp, which is flushed to the disk and renamed.
 * Any number of threads and processes may save to one path, and read it, at the same time; each
 * reader gets one complete file.  A process that is killed may leave its temporary file; remove it
 * when no process saves to path.
 *
 * The bytes depend only on names, values and notes, not on the order in which they were added: the
 * checksum
 * is first, the other notes are sorted by key, arrays by descending element size and then by name, without gaps.
 * Spaces pad the header to a multiple of eight, so that every array of a mapped file is aligned.
 *
 * Fails    QG_ENAN: a 32-bit float is not finite, which load would refuse; the message names its array.
 *          QG_EIO.  QG_EARG: the header is larger than the 100 000 000 bytes of the format.  The sticky failure.
 */
QG_MUST_CHECK
qg_status qg_state_save(const qg_state *s, const char *path);

/* Fill the arrays of the list from path, and replace the notes by those of the file.
 *
 * The file must hold exactly the arrays of the list, with the same types and shapes.  Everything is checked
 * before anything is copied, so a failure changes nothing.  Names, types and shapes are compared before the
 * data are read.
 *
 * Fails    QG_ESHAPE: the message lists the arrays that are missing, unexpected or different, as many as fit.
 *          QG_ENAN: a 32-bit float is not finite; the message names its array.  The failures of
 *          qg_archive_open.  The sticky failure.
 */
QG_MUST_CHECK
qg_status qg_state_load(qg_state *s, const char *path);

/* A file whose contents are not known beforehand. */
typedef struct qg_archive qg_archive;

/* Read and check a safetensors file.
 *
 * Range    Strict: it refuses what the format's reference implementation refuses, and also a key that occurs
 *          twice, a null in place of the metadata, more than 8 dimensions and a NUL (\u0000) inside a
 *          string.  The header may hold 100 000 000 bytes.
 * Memory   The archive owns everything it returns, until qg_archive_free.
 * Fails    NULL with a message; qg_errcode is QG_EIO, QG_EFORMAT (the message names the file, what is wrong
 *          and where), QG_EMEM or QG_EARG (no path).
 */
qg_archive *qg_archive_open(const char *path);
void        qg_archive_free(qg_archive *a);

/* All arrays, sorted by name; one of them, or a note; NULL if absent. */
const qg_named_array *qg_archive_entries(const qg_archive *a, size_t *count);
const qg_named_array *qg_archive_find(const qg_archive *a, const char *name);
const char           *qg_archive_noted(const qg_archive *a, const char *key);

#endif
