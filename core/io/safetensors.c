#include "core/io/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/safetensors_parts.h"

/* Nothing in a file is believed before it is checked. */

enum { LENGTH_BYTES = 8, ALIGN = 8 };

void *qg_grown(void *array, size_t n, size_t element_bytes)
{
    /* The capacity is the smallest power of two that holds n, so it need not be stored. */
    if (n & (n - 1)) return array;
    size_t bytes;
    if (__builtin_mul_overflow(n ? 2 * n : 1, element_bytes, &bytes)) return NULL;
    return realloc(array, bytes);
}

static int by_place(const void *left, const void *right)
{
    const qg_archive_entry *l = left, *r = right;
    if (l->offset != r->offset) return l->offset < r->offset ? -1 : 1;
    return (l->bytes > r->bytes) - (l->bytes < r->bytes);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const qg_archive_entry *)left)->name, ((const qg_archive_entry *)right)->name);
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const qg_note *)left)->key, ((const qg_note *)right)->key);
}

/* The arrays must tile the data: each begins where the one before it ends. */
static qg_status check_layout(qg_archive *a, const char *path, size_t data_bytes)
{
    size_t at = 0;
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_place);
    for (size_t i = 0; i < a->count; i++) {
        const qg_archive_entry *e = &a->entries[i];
        if (e->offset != at)
            return qg_fail(QG_EFORMAT, "'%s' is malformed: '%s' is at byte %zu of data, not at %zu",
                           path, e->name, e->offset, at);
        at += e->bytes;
    }
    if (at != data_bytes)
        return qg_fail(QG_EFORMAT, "'%s' is malformed: %zu bytes of data, its header describes %zu",
                       path, data_bytes, at);

    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_name);
    if (a->note_count) qsort(a->notes, a->note_count, sizeof *a->notes, by_key);
    for (size_t i = 1; i < a->count; i++)
        if (by_name(&a->entries[i - 1], &a->entries[i]) == 0)
            return qg_fail(QG_EFORMAT, "'%s' is malformed: array '%s' occurs twice", path,
                           a->entries[i].name);
    for (size_t i = 1; i < a->note_count; i++)
        if (by_key(&a->notes[i - 1], &a->notes[i]) == 0)
            return qg_fail(QG_EFORMAT, "'%s' is malformed: metadata key '%s' occurs twice", path,
                           a->notes[i].key);
    return QG_OK;
}

/* Points the views into the file or, if one of them were not aligned there, into a copy. */
static qg_status place_data(qg_archive *a, const char *path, unsigned char *data)
{
    bool   aligned = true;
    size_t total   = 0;
    for (size_t i = 0; i < a->count; i++) {
        const qg_archive_entry *e = &a->entries[i];
        const size_t bytes        = e->viewable ? qg_dtype_bytes(e->array.dtype) : 1;
        aligned &= e->bytes == 0 || (uintptr_t)(data + e->offset) % bytes == 0;
        total += (e->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (!aligned && !(a->aligned = malloc(total)))
        return qg_fail(QG_EMEM, "out of memory: %zu bytes of '%s'", total, path);
    unsigned char *to = a->aligned;
    for (size_t i = 0; i < a->count; i++) {
        qg_archive_entry *e = &a->entries[i];
        if (e->bytes == 0) continue;
        e->array.data = data + e->offset;
        if (aligned) continue;
        e->array.data = memcpy(to, data + e->offset, e->bytes);
        to += (e->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return QG_OK;
}

/* The length of the header at the start of a file of n bytes, of which 8 are there if n >= 8. */
static qg_status header_length(const unsigned char *file, const char *path, size_t n, size_t *header)
{
    if (n < LENGTH_BYTES)
        return qg_fail(QG_EFORMAT, "'%s' is malformed: %zu bytes, at least 8 are needed", path, n);
    const uint64_t length = qg_get_u64(file);
    if (length > QG_SAFETENSORS_MAX_HEADER || length > n - LENGTH_BYTES)
        return qg_fail(QG_EFORMAT, "'%s' is malformed: a header of %ju bytes in a file of %zu",
                       path, (uintmax_t)length, n);
    *header = (size_t)length;
    return QG_OK;
}

/* The header, which is there, against the n bytes of the file, which need not be. */
static qg_status parse_header(qg_archive *a, const char *path, size_t n, size_t *start)
{
    size_t          length = 0;
    const qg_status status = header_length(a->file, path, n, &length);
    if (status) return status;
    unsigned char *header = a->file + LENGTH_BYTES, *data = header + length;
    if (!qg_utf8_valid((const char *)header, length))
        return qg_fail(QG_EFORMAT, "'%s' is malformed: its header is not UTF-8", path);
    qg_json j = { .path = path, .start = header, .at = header, .end = data };
    if (!qg__safetensors_header(&j, a)) return j.status;
    *start = LENGTH_BYTES + length;
    return check_layout(a, path, n - *start);
}

qg_status qg_safetensors_parse(unsigned char *bytes, size_t n, const char *path,
                               qg_archive **archive)
{
    qg_archive *a = calloc(1, sizeof *a);
    if (!a) {
        free(bytes);
        return qg_fail(QG_EMEM, "out of memory: an archive for '%s'", path);
    }
    a->file     = bytes;
    size_t    start;
    qg_status s = parse_header(a, path, n, &start);
    if (!s) s = place_data(a, path, a->file + start);
    if (s) qg_archive_free(a);
    else *archive = a;
    return s;
}

/* Whether the file is what its header says, before memory is asked for all of it. */
static qg_status check_ahead(const char *path)
{
    qg_archive a = { 0 };
    size_t     n, size, length = 0, start;
    qg_status  s = qg_file_start(path, LENGTH_BYTES, &a.file, &n, &size);
    if (s) return s;
    s = header_length(a.file, path, size, &length);
    free(a.file);
    a.file = NULL;
    if (!s) s = qg_file_start(path, LENGTH_BYTES + length, &a.file, &n, &size);
    if (!s && (n < LENGTH_BYTES + length || qg_get_u64(a.file) != length))
        s = qg_fail(QG_EIO, "cannot read '%s': it changed while being read", path);
    if (!s) s = parse_header(&a, path, size, &start);
    free(a.file);
    free(a.entries);
    free(a.notes);
    return s;
}

qg_status qg_safetensors_read(const char *path, qg_archive **archive)
{
    unsigned char *bytes;
    size_t         n;
    qg_status      s = check_ahead(path);
    if (!s) s = qg_file_read(path, SIZE_MAX, &bytes, &n);
    return s ? s : qg_safetensors_parse(bytes, n, path, archive);
}

qg_archive *qg_archive_open(const char *path)
{
    qg_archive *a = NULL;
    return qg_safetensors_read(path, &a) ? NULL : a;
}

void qg_archive_free(qg_archive *a)
{
    if (!a) return;
    free(a->file);
    free(a->aligned);
    free(a->entries);
    free(a->notes);
    free(a);
}

const qg_archive_entry *qg_archive_entries(const qg_archive *a, size_t *count)
{
    *count = a ? a->count : 0;
    return a ? a->entries : NULL;
}

const qg_archive_entry *qg_archive_find(const qg_archive *a, const char *name)
{
    const qg_archive_entry key = { .name = name };
    return a && name && a->count ? bsearch(&key, a->entries, a->count, sizeof key, by_name) : NULL;
}

const qg_note *qg_archive_notes(const qg_archive *a, size_t *count)
{
    *count = a ? a->note_count : 0;
    return a ? a->notes : NULL;
}

const char *qg_archive_noted(const qg_archive *a, const char *key)
{
    const qg_note wanted = { .key = key };
    if (!a || !key || a->note_count == 0) return NULL;
    const qg_note *n = bsearch(&wanted, a->notes, a->note_count, sizeof wanted, by_key);
    return n ? n->value : NULL;
}
