/* core/io/safetensors.h — the file format of core/io/state.h.  Internal. */
#ifndef QG_SAFETENSORS_H
#define QG_SAFETENSORS_H

#include "core/io/state.h"

#define QG_SAFETENSORS_METADATA "__metadata__"

/* qg_archive_open in two steps, so that a caller can compare names and shapes before the data take memory.
 * The first gives everything but array.data, which is NULL until the second; path must live as long. */
QG_MUST_CHECK
qg_status qg_safetensors_open(const char *path, qg_archive **archive);
QG_MUST_CHECK
qg_status qg_safetensors_load(qg_archive *a);

/* qg_state_save.  The lists are sorted by name and by key. */
QG_MUST_CHECK
qg_status qg_safetensors_write(const char *path, const qg_named_array *entries, size_t count,
                               const qg_note *notes, size_t note_count);

#endif
