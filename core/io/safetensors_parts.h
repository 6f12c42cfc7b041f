/* core/io/safetensors_parts.h — the inside of an archive: core/io/safetensors_header.c lists what its header
 * says, core/io/safetensors.c holds that against the file.  Internal. */
#ifndef QG_SAFETENSORS_PARTS_H
#define QG_SAFETENSORS_PARTS_H

#include "core/io/json.h"
#include "core/io/safetensors.h"

struct qg_archive {
    unsigned char    *file;          /* names and notes were decoded inside its header */
    unsigned char    *aligned;       /* the arrays again, if the file does not align them */
    qg_archive_entry *entries;
    size_t            count;
    qg_note          *notes;
    size_t            note_count;
};

/* The header that j begins with, into the lists of a, in its order.  False: malformed, or without
 * memory; what was read until then is in the lists. */
bool qg__safetensors_header(qg_json *j, qg_archive *a);

#endif
