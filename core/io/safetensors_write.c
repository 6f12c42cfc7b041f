#include "core/io/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "core/io/file.h"

typedef struct list {
    const qg_entry *entries;
    size_t          count;
    const qg_note  *notes;
    size_t          note_count;
} list;

/* Where the header goes.  Without a file it is only measured, for its length precedes it. */
typedef struct sink {
    qg_file *file;
    size_t   n;
} sink;

static void put_bytes(sink *out, const char *bytes, size_t n)
{
    qg_file_put(out->file, bytes, n);
    out->n += n;
}

static void put(sink *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_size(sink *out, size_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%zu", v);
    put(out, text);
}

/* Escapes what JSON requires and no more, in the forms of the reference implementation. */
static void put_string(sink *out, const char *text)
{
    static const char special[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
    put(out, "\"");
    for (; *text; text++) {
        const char *s = strchr(special, *text);
        if (s) {
            const char escape[] = { '\\', name[s - special] };
            put_bytes(out, escape, sizeof escape);
        } else if ((unsigned char)*text < 0x20) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text);
            put(out, escape);
        } else {
            put_bytes(out, text, 1);
        }
    }
    put(out, "\"");
}

static void put_entry(sink *out, const qg_entry *e, size_t offset, size_t bytes)
{
    put_string(out, e->name);
    put(out, ":{\"dtype\":\"");
    put(out, qg_dtype_name(e->array.dtype));
    put(out, "\",\"shape\":[");
    for (int i = 0; i < e->array.rank; i++) {
        if (i) put(out, ",");
        put_size(out, e->array.dims[i]);
    }
    put(out, "],\"data_offsets\":[");
    put_size(out, offset);
    put(out, ",");
    put_size(out, offset + bytes);
    put(out, "]}");
}

static size_t array_bytes(const qg_array *a)
{
    return qg_array_count(a) * qg_dtype_bytes(a->dtype);
}

/* The entry after e in the order of the file, or the first: by descending element size, and in the
 * order of the list, which is by name. */
static const qg_entry *next_in_file(const list *l, const qg_entry *e)
{
    size_t i    = e ? (size_t)(e - l->entries) + 1 : 0;
    size_t size = e ? qg_dtype_bytes(e->array.dtype) : 8;
    for (; size > 0; size /= 2, i = 0)
        for (; i < l->count; i++)
            if (qg_dtype_bytes(l->entries[i].array.dtype) == size) return &l->entries[i];
    return NULL;
}

static size_t put_header(const list *l, qg_file *file)
{
    sink   out    = { .file = file };
    size_t offset = 0;
    put(&out, "{");
    if (l->note_count) put(&out, "\"" QG_SAFETENSORS_METADATA "\":{");
    for (size_t i = 0; i < l->note_count; i++) {
        if (i) put(&out, ",");
        put_string(&out, l->notes[i].key);
        put(&out, ":");
        put_string(&out, l->notes[i].value);
    }
    if (l->note_count) put(&out, "}");
    for (const qg_entry *e = NULL; (e = next_in_file(l, e));) {
        const size_t bytes = array_bytes(&e->array);
        if (out.n > 1) put(&out, ",");
        put_entry(&out, e, offset, bytes);
        offset += bytes;
    }
    put(&out, "}");
    while (out.n % 8) put(&out, " ");
    return out.n;
}

qg_status qg_safetensors_write(const char *path, const qg_entry *entries, size_t count,
                               const qg_note *notes, size_t note_count)
{
    const list   l      = { entries, count, notes, note_count };
    const size_t length = put_header(&l, NULL);
    if (length > QG_SAFETENSORS_MAX_HEADER)
        return qg_fail(QG_EARG, "cannot write '%s': its header has %zu bytes, must be %d at most",
                       path, length, QG_SAFETENSORS_MAX_HEADER);
    unsigned char prefix[8];
    qg_put_u64(prefix, length);
    qg_file *file = qg_file_begin(path);
    qg_file_put(file, prefix, sizeof prefix);
    put_header(&l, file);
    for (const qg_entry *e = NULL; (e = next_in_file(&l, e));)
        qg_file_put(file, e->array.data, array_bytes(&e->array));
    return qg_file_commit(file);
}
