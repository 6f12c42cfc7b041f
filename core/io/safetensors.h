/* core/io/safetensors.h — the format behind core/io/state.h.  Internal. */
#ifndef QG_SAFETENSORS_H
#define QG_SAFETENSORS_H

#include <stddef.h>

#include "core/io/state.h"

/* Array data goes between memory and file as it stands.  A big-endian port would swap the bytes of
 * every element in qg_safetensors_write and _parse, and then drop this line. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

#define QG_SAFETENSORS_METADATA "__metadata__"

enum { QG_SAFETENSORS_MAX_HEADER = 100000000 };

typedef struct qg_entry {
    const char *name;
    qg_array    array;
} qg_entry;

/* qg_state_save.  Both lists come sorted, by name and by key. */
QG_MUST_CHECK
qg_status qg_safetensors_write(const char *path, const qg_entry *entries, size_t count,
                               const qg_note *notes, size_t note_count);

/* qg_archive_open, with its status. */
QG_MUST_CHECK
qg_status qg_safetensors_read(const char *path, qg_archive **archive);

/* The same for the n bytes of a file in memory from malloc(), which it takes over, failing or not.
 * path is for messages. */
QG_MUST_CHECK
qg_status qg_safetensors_parse(unsigned char *bytes, size_t n, const char *path,
                               qg_archive **archive);

/* Room for one element more than the n of a growing array: the array, perhaps elsewhere.  NULL
 * without memory; then the old one is still there. */
void *qg_grown(void *array, size_t n, size_t element_bytes);

#endif
