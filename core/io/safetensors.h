/* core/io/safetensors.h — the file format of core/io/state.h.  Internal. */
#ifndef QG_SAFETENSORS_H
#define QG_SAFETENSORS_H

#include "core/io/state.h"
#include "core/tensor.h"

#define QG_SAFETENSORS_METADATA "__metadata__"

/* The key of the checksum, and the prefix of its value.  Either shows that a file has a checksum, so a flipped bit in the
 * other is noticed. */
#define QG_SAFETENSORS_CHECKSUM "qgrad-checksum"
#define QG_SAFETENSORS_HASH     "qgrad-hash64 "

/* In all of these, dir is as in core/io/file.h. */

/* qg_archive_open in two steps, so that a caller can compare names and shapes before the data take memory.
 * The first gives everything but array.data, which is NULL until the second; path must live as long. */
QG_MUST_CHECK
qg_status qg__safetensors_open(int dir, const char *path, qg_archive **archive);
QG_MUST_CHECK
qg_status qg__safetensors_load(qg_archive *a);

/* qg_state_save.  The lists are sorted by name and by key. */
QG_MUST_CHECK
qg_status qg__safetensors_write(int dir, const char *path, const qg_named_array *entries, size_t count,
                                const qg_note *notes, size_t note_count);

/* qg_state_add of floats with all four sizes, under a name that is printed. */
QG_PRINTF(4, 5)
void      qg__state_add_named(qg_state *s, qg_shape shape, float *data, const char *fmt, ...);

/* Makes s fail with the message just set. */
void      qg__state_fail(qg_state *s, qg_status why);

QG_MUST_CHECK
qg_status qg__state_save_in(const qg_state *s, int dir, const char *path);

/* Whether it would save: QG_ENAN if not. */
qg_status qg__state_check_finite(const qg_state *s, const char *path);

/* qg_state_load.  part: the file may have more arrays than the list, as a checkpoint has those of an optimizer. */
QG_MUST_CHECK
qg_status qg__state_load_from(qg_state *s, int dir, const char *path, bool part);

/* What it would take over: everything is checked, and nothing is changed. */
QG_MUST_CHECK
qg_status qg__state_open(const qg_state *s, int dir, const char *path, bool part, qg_archive **archive);

/* All notes, sorted by key. */
const qg_note *qg__archive_notes(const qg_archive *a, size_t *count);

const char *qg__dtype_name(qg_dtype d);         /* "F32", as the format spells it */
size_t      qg__dtype_bytes(qg_dtype d);

/* The arrays of the list, in the order in which they were added. */
const qg_named_array *qg__state_entries(const qg_state *s, size_t *count);

#endif
