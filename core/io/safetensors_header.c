#include <string.h>

#include "core/io/safetensors_parts.h"

/* Nothing is allocated by a number that a file states: the lists grow with what was read. */

static const struct dtype {
    const char *name;
    unsigned    bits;                /* of one element */
    bool        viewable;
    qg_dtype    dtype;               /* if viewable */
} dtypes[] = {
#define X(code, text, bytes) { text, 8 * bytes, true, code },
    QG_DTYPE_LIST(X)
#undef X
    { "BOOL", 8, false, 0 },        { "F16", 16, false, 0 },        { "BF16", 16, false, 0 },
    { "F8_E4M3", 8, false, 0 },     { "F8_E5M2", 8, false, 0 },     { "F8_E8M0", 8, false, 0 },
    { "F8_E4M3FNUZ", 8, false, 0 }, { "F8_E5M2FNUZ", 8, false, 0 }, { "F6_E2M3", 6, false, 0 },
    { "F6_E3M2", 6, false, 0 },     { "F4", 4, false, 0 },          { "C64", 64, false, 0 },
};

static bool out_of_memory(qg_json *j)
{
    j->status = qg_fail(QG_EMEM, "out of memory: the header of '%s'", j->path);
    return false;
}

static bool read_dtype(qg_json *j, const struct dtype **type)
{
    const char *name;
    if (!qg_json_string(j, &name)) return false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *type = &dtypes[i];
            return true;
        }
    return qg_json_bad(j, "unknown dtype");
}

static bool read_shape(qg_json *j, qg_array *a)
{
    if (!qg_json_expect(j, '[')) return false;
    a->rank = 0;
    for (bool first = true, more;; first = false) {
        if (!qg_json_next(j, first, ']', &more)) return false;
        if (!more) return true;
        if (a->rank == QG_MAX_RANK) return qg_json_bad(j, "more than 8 dimensions");
        if (!qg_json_size(j, &a->dims[a->rank++])) return false;
    }
}

static bool read_offsets(qg_json *j, qg_archive_entry *e)
{
    size_t end;
    if (!(qg_json_expect(j, '[') && qg_json_size(j, &e->offset) && qg_json_expect(j, ',') &&
          qg_json_size(j, &end) && qg_json_expect(j, ']')))
        return false;
    if (end < e->offset) return qg_json_bad(j, "data_offsets end before they begin");
    e->bytes = end - e->offset;
    return true;
}

/* The product of the dimensions, element by element as the reference implementation multiplies:
 * an overflow counts even if a zero follows. */
static bool check_size(qg_json *j, const qg_archive_entry *e, unsigned bits)
{
    size_t n = 1;
    for (int i = 0; i < e->array.rank; i++)
        if (__builtin_mul_overflow(n, e->array.dims[i], &n))
            return qg_json_bad(j, "shape too large");
    if (__builtin_mul_overflow(n, bits, &n)) return qg_json_bad(j, "shape too large");
    if (n % 8) return qg_json_bad(j, "array ends inside a byte");
    return n / 8 == e->bytes || qg_json_bad(j, "data_offsets do not fit dtype and shape");
}

static bool read_tensor(qg_json *j, qg_archive_entry *e)
{
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    enum { DTYPE, SHAPE, OFFSETS, FIELDS };
    bool                seen[FIELDS] = { false };
    const struct dtype *type         = NULL;
    if (!qg_json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg_json_key(j, first, &key)) return false;
        if (!key) break;
        int f = 0;
        while (f < FIELDS && strcmp(key, fields[f]) != 0) f++;
        if (f < FIELDS && seen[f]) return qg_json_bad(j, "field occurs twice");
        if (f < FIELDS) seen[f] = true;
        const bool good = f == DTYPE     ? read_dtype(j, &type)
                          : f == SHAPE   ? read_shape(j, &e->array)
                          : f == OFFSETS ? read_offsets(j, e)
                                         : qg_json_skip(j);
        if (!good) return false;
    }
    for (int f = 0; f < FIELDS; f++)
        if (!seen[f]) return qg_json_bad(j, "dtype, shape or data_offsets missing");
    e->dtype       = type->name;
    e->viewable    = type->viewable;
    e->array.dtype = type->dtype;
    return check_size(j, e, type->bits);
}

static bool read_notes(qg_json *j, qg_archive *a)
{
    if (!qg_json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg_json_key(j, first, &key)) return false;
        if (!key) return true;
        qg_note *notes = qg_grown(a->notes, a->note_count, sizeof *notes);
        if (!notes) return out_of_memory(j);
        a->notes             = notes;
        notes[a->note_count] = (qg_note){ .key = key };
        if (!qg_json_string(j, &notes[a->note_count].value)) return false;
        a->note_count++;
    }
}

bool qg__safetensors_header(qg_json *j, qg_archive *a)
{
    bool has_notes = false;
    if (!qg_json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg_json_key(j, first, &key)) return false;
        if (!key) return qg_json_end(j);
        if (strcmp(key, QG_SAFETENSORS_METADATA) == 0) {
            if (has_notes) return qg_json_bad(j, "metadata occur twice");
            if (!read_notes(j, a)) return false;
            has_notes = true;
            continue;
        }
        qg_archive_entry *entries = qg_grown(a->entries, a->count, sizeof *entries);
        if (!entries) return out_of_memory(j);
        a->entries        = entries;
        entries[a->count] = (qg_archive_entry){ .name = key };
        if (!read_tensor(j, &entries[a->count])) return false;
        a->count++;
    }
}
