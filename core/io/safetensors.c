#include "core/io/safetensors.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/grow.h"
#include "core/io/hash.h"
#include "core/io/json.h"
#include "core/io/paths.h"
#include "core/io/utf8.h"

enum { LENGTH_BYTES = 8, ALIGN = 8, MAX_HEADER = 100000000 };

/* Array data is copied between memory and file unchanged, since core/status.h refuses big-endian machines. */

struct qg_archive {
    qg_reader       file;            /* after the header, before the data */
    unsigned char  *header;          /* names and notes are decoded in place */
    unsigned char  *data;            /* the arrays, each aligned */
    qg_named_array *entries;
    size_t          count;
    qg_note        *notes;
    size_t          note_count;
    const char     *checksum;        /* of the data, as the file has it; NULL: a file without a checksum */
};

/* --- the checksum ------------------------------------------------------------------------- */

/* Its value is the prefix, the hash of the header, a space, and the hash of the data, each with 16 digits.  They hash the
 * contents, not the bytes of the file: another program may write the same entries in another order. */
enum { HASH_BYTES = sizeof QG_SAFETENSORS_HASH - 1, DIGITS = 16, HASH_TEXT = HASH_BYTES + 2 * DIGITS + 2 };

static bool is_checksum(const char *key) { return strcmp(key, QG_SAFETENSORS_CHECKSUM) == 0; }

static uint64_t hash_text(uint64_t h, const char *text) { return qg_hash_words(h, text, strlen(text)); }

/* The lists are sorted by name and by key. */
static uint64_t hash_header(const qg_named_array *entries, size_t count, const qg_note *notes, size_t note_count)
{
    uint64_t h = QG_HASH_BASIS;
    for (size_t i = 0; i < note_count; i++)
        if (!is_checksum(notes[i].key)) h = hash_text(hash_text(h, notes[i].key), notes[i].value);
    h = qg_hash_word(h, count);
    for (size_t i = 0; i < count; i++) {
        const qg_named_array *e = &entries[i];
        h = hash_text(hash_text(h, e->name), e->dtype);
        h = qg_hash_words(h, e->array.dims, (size_t)e->array.rank * sizeof *e->array.dims);
    }
    return h;
}

static uint64_t hash_data(const qg_named_array *entries, size_t count)
{
    uint64_t h = QG_HASH_BASIS;
    for (size_t i = 0; i < count; i++) h = qg_hash_words(h, entries[i].array.data, entries[i].bytes);
    return h;
}

static qg_status damaged(const qg_archive *a, const char *what)
{
    return qg_fail(QG_EFORMAT, "'%s' is damaged, or was changed by another program: its checksum %s", a->file.path, what);
}

/* --- the header --------------------------------------------------------------------------- */

/* Everything in a file is checked before it is used, and no number in a file determines how much memory is taken: the
 * lists grow with the entries that were read, and header and data are parts of a file of known size. */

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
    if (!qg__json_string(j, &name)) return false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *type = &dtypes[i];
            return true;
        }
    return qg__json_bad(j, "unknown dtype");
}

static bool read_shape(qg_json *j, qg_array *a)
{
    if (!qg__json_expect(j, '[')) return false;
    a->rank = 0;
    for (bool first = true, more;; first = false) {
        if (!qg__json_next(j, first, ']', &more)) return false;
        if (!more) return true;
        if (a->rank == QG_MAX_RANK) return qg__json_bad(j, "more than 8 dimensions");
        if (!qg__json_size(j, &a->dims[a->rank++])) return false;
    }
}

static bool read_offsets(qg_json *j, qg_named_array *e)
{
    size_t end;
    if (!(qg__json_expect(j, '[') && qg__json_size(j, &e->offset) && qg__json_expect(j, ',') &&
          qg__json_size(j, &end) && qg__json_expect(j, ']')))
        return false;
    if (end < e->offset) return qg__json_bad(j, "data_offsets end before they begin");
    e->bytes = end - e->offset;
    return true;
}

/* The product of the dimensions, element by element as the reference implementation multiplies:
 * an overflow counts even if a zero follows. */
static bool check_size(qg_json *j, const qg_named_array *e, unsigned bits)
{
    size_t n = 1;
    for (int i = 0; i < e->array.rank; i++)
        if (__builtin_mul_overflow(n, e->array.dims[i], &n))
            return qg__json_bad(j, "shape too large");
    if (__builtin_mul_overflow(n, bits, &n)) return qg__json_bad(j, "shape too large");
    if (n % 8) return qg__json_bad(j, "array ends inside a byte");
    return n / 8 == e->bytes || qg__json_bad(j, "data_offsets do not fit dtype and shape");
}

static bool read_tensor(qg_json *j, qg_named_array *e)
{
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    enum { DTYPE, SHAPE, OFFSETS, FIELDS };
    bool                seen[FIELDS] = { false };
    const struct dtype *type         = NULL;
    if (!qg__json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg__json_key(j, first, &key)) return false;
        if (!key) break;
        int f = 0;
        while (f < FIELDS && strcmp(key, fields[f]) != 0) f++;
        if (f < FIELDS && seen[f]) return qg__json_bad(j, "field occurs twice");
        if (f < FIELDS) seen[f] = true;
        const bool good = f == DTYPE     ? read_dtype(j, &type)
                          : f == SHAPE   ? read_shape(j, &e->array)
                          : f == OFFSETS ? read_offsets(j, e)
                                         : qg__json_skip(j);
        if (!good) return false;
    }
    for (int f = 0; f < FIELDS; f++)
        if (!seen[f]) return qg__json_bad(j, "dtype, shape or data_offsets missing");
    e->dtype       = type->name;
    e->viewable    = type->viewable;
    e->array.dtype = type->dtype;
    return check_size(j, e, type->bits);
}

static bool read_notes(qg_json *j, qg_archive *a)
{
    if (!qg__json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg__json_key(j, first, &key)) return false;
        if (!key) return true;
        qg_note *notes = qg_grown(a->notes, a->note_count, sizeof *notes);
        if (!notes) return out_of_memory(j);
        a->notes             = notes;
        notes[a->note_count] = (qg_note){ .key = key };
        if (!qg__json_string(j, &notes[a->note_count].value)) return false;
        a->note_count++;
    }
}

/* Reads the header into the lists of a.  After a failure they hold the entries before it. */
static bool read_lists(qg_json *j, qg_archive *a)
{
    bool has_notes = false;
    if (!qg__json_expect(j, '{')) return false;
    for (bool first = true;; first = false) {
        const char *key;
        if (!qg__json_key(j, first, &key)) return false;
        if (!key) return qg__json_at_end(j);
        if (strcmp(key, QG_SAFETENSORS_METADATA) == 0) {
            if (has_notes) return qg__json_bad(j, "metadata occur twice");
            if (!read_notes(j, a)) return false;
            has_notes = true;
            continue;
        }
        qg_named_array *entries = qg_grown(a->entries, a->count, sizeof *entries);
        if (!entries) return out_of_memory(j);
        a->entries        = entries;
        entries[a->count] = (qg_named_array){ .name = key };
        if (!read_tensor(j, &entries[a->count])) return false;
        a->count++;
    }
}

/* --- reading ------------------------------------------------------------------------------ */

static int by_place(const void *left, const void *right)
{
    const qg_named_array *l = left, *r = right;
    if (l->offset != r->offset) return l->offset < r->offset ? -1 : 1;
    return (l->bytes > r->bytes) - (l->bytes < r->bytes);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const qg_named_array *)left)->name, ((const qg_named_array *)right)->name);
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const qg_note *)left)->key, ((const qg_note *)right)->key);
}

/* The arrays must tile the data: each begins where the one before it ends.  Leaves both lists sorted. */
static qg_status check_layout(qg_archive *a)
{
    const char  *path       = a->file.path;
    const size_t data_bytes = a->file.left;
    size_t       at         = 0;
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_place);
    for (size_t i = 0; i < a->count; i++) {
        const qg_named_array *e = &a->entries[i];
        if (e->offset != at)
            return qg_fail(QG_EFORMAT, "'%s' is malformed: '%s' is at byte %zu of data, not at %zu",
                           path, e->name, e->offset, at);
        at += e->bytes;
    }
    if (at != data_bytes)
        return qg_fail(QG_EFORMAT, "'%s' is %s: %zu bytes of data, its header describes %zu",
                       path, data_bytes < at ? "truncated" : "malformed", data_bytes, at);

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

/* Finds the checksum and compares its first part, the hash of the header. */
static qg_status check_header(qg_archive *a)
{
    const char *found = qg_archive_noted(a, QG_SAFETENSORS_CHECKSUM);
    char        text[HASH_TEXT];
    for (size_t i = 0; i < a->note_count; i++)
        if (!is_checksum(a->notes[i].key) && !strncmp(a->notes[i].value, QG_SAFETENSORS_HASH, HASH_BYTES))
            return damaged(a, "has another name");
    if (!found) return QG_OK;
    const int n = snprintf(text, sizeof text, QG_SAFETENSORS_HASH "%016" PRIx64 " ",
                           hash_header(a->entries, a->count, a->notes, a->note_count));
    if (strncmp(found, text, (size_t)n)) return damaged(a, "is not that of its names, shapes and notes");
    a->checksum = found + n;
    return QG_OK;
}

static qg_status check_data(const qg_archive *a)
{
    char text[DIGITS + 1];
    if (!a->checksum) return QG_OK;
    snprintf(text, sizeof text, "%016" PRIx64, hash_data(a->entries, a->count));
    return strcmp(a->checksum, text) ? damaged(a, "is not that of its arrays") : QG_OK;
}

/* Files of other kinds that are often named in place of one. */
static const char *kind_of(uint64_t first)
{
    if ((first & 0xFFFFFFFF) == 0x04034b50)         /* "PK", of a zip archive */
        return "; if torch.save wrote it, save the state_dict() with safetensors.torch.save_file";
    if (first == 0x0a0d74656e677189)                /* "\211qgnet\r\n" */
        return ", but a packed net, which qgrad infer and predict --packed run";
    return "";
}

static qg_status read_header(qg_archive *a)
{
    const char   *path = a->file.path;
    const size_t  size = a->file.left;
    uint64_t      length;
    if (size < LENGTH_BYTES)
        return qg_fail(QG_EFORMAT, "'%s' is truncated: %zu bytes, at least 8 are needed", path, size);
    qg_status s = qg__reader_take(&a->file, sizeof length, &length);
    if (s) return s;
    if (*kind_of(length)) return qg_fail(QG_EFORMAT, "'%s' is no safetensors file%s", path, kind_of(length));
    if (length > MAX_HEADER || length > a->file.left)
        return qg_fail(QG_EFORMAT, "'%s' is no safetensors file, or is malformed: a header of %ju bytes in a file of %zu", path,
                       (uintmax_t)length, size);
    a->header = malloc(length ? (size_t)length : 1);
    if (!a->header) return qg_fail(QG_EMEM, "out of memory: %ju bytes of '%s'", (uintmax_t)length, path);
    s = qg__reader_take(&a->file, (size_t)length, a->header);
    if (s) return s;
    if (!qg__utf8_valid((const char *)a->header, (size_t)length))
        return qg_fail(QG_EFORMAT, "'%s' is malformed: its header is not UTF-8", path);
    qg_json j = { path, " of the header", a->header, a->header, a->header + length, QG_OK };
    if (!read_lists(&j, a)) return j.status;
    s = check_layout(a);
    return s ? s : check_header(a);
}

qg_status qg__safetensors_open(int dir, const char *path, qg_archive **archive)
{
    qg_archive *a = calloc(1, sizeof *a);
    if (!a) return qg_fail(QG_EMEM, "out of memory: an archive for '%s'", path ? path : "");
    qg_status s = qg__reader_open_in(&a->file, dir, path);
    if (!s) s = read_header(a);
    if (s) qg_archive_free(a);
    else *archive = a;
    return s;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* A file need not align its arrays, so each is read into an aligned place of its own. */
qg_status qg__safetensors_load(qg_archive *a)
{
    qg_status s     = QG_OK;
    size_t    total = 0;
    for (size_t i = 0; i < a->count; i++) total += aligned(a->entries[i].bytes);
    if (total && !(a->data = malloc(total)))
        return qg_fail(QG_EMEM, "out of memory: %zu bytes of '%s'", total, a->file.path);
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_place);
    unsigned char *to = a->data;
    for (size_t i = 0; i < a->count && !s; i++) {
        qg_named_array *e = &a->entries[i];
        if (e->bytes == 0) continue;
        s             = qg__reader_take(&a->file, e->bytes, to);
        e->array.data = to;
        to += aligned(e->bytes);
    }
    if (a->count) qsort(a->entries, a->count, sizeof *a->entries, by_name);
    qg__reader_close(&a->file);
    return s ? s : check_data(a);
}

qg_archive *qg_archive_open(const char *path)
{
    qg_archive *a = NULL;
    if (qg__safetensors_open(QG_BY_PATH, path, &a)) return NULL;
    if (!qg__safetensors_load(a)) return a;
    qg_archive_free(a);
    return NULL;
}

void qg_archive_free(qg_archive *a)
{
    if (!a) return;
    qg__reader_close(&a->file);
    free(a->header);
    free(a->data);
    free(a->entries);
    free(a->notes);
    free(a);
}

const qg_named_array *qg_archive_entries(const qg_archive *a, size_t *count)
{
    *count = a ? a->count : 0;
    return a ? a->entries : NULL;
}

const qg_named_array *qg_archive_find(const qg_archive *a, const char *name)
{
    const qg_named_array key = { .name = name };
    return a && name && a->count ? bsearch(&key, a->entries, a->count, sizeof key, by_name) : NULL;
}

const qg_note *qg__archive_notes(const qg_archive *a, size_t *count)
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

/* --- writing ------------------------------------------------------------------------------ */

typedef struct list {
    const qg_named_array *entries;
    size_t          count;
    const qg_note  *notes;
    size_t          note_count;
    char            checksum[HASH_TEXT];
} list;

/* Escapes what JSON requires and no more, in the forms of the reference implementation.  A call for each of the 100
 * million letters that a header may have would take 18 s. */
static void put_string(FILE *out, const char *text)
{
    static const char special[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
    fputc('"', out);
    for (;; text++) {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\') plain++;
        fwrite(text, 1, plain, out);
        text += plain;
        if (!*text) break;
        const char *s = strchr(special, *text);
        if (s) fprintf(out, "\\%c", name[s - special]);
        else fprintf(out, "\\u%04x", (unsigned)*text);
    }
    fputc('"', out);
}

static void put_note(FILE *out, const char *key, const char *value)
{
    put_string(out, key);
    fputc(':', out);
    put_string(out, value);
}

static void put_entry(FILE *out, const qg_named_array *e, size_t offset)
{
    put_string(out, e->name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", e->dtype);
    for (int i = 0; i < e->array.rank; i++) fprintf(out, i ? ",%zu" : "%zu", e->array.dims[i]);
    fprintf(out, "],\"data_offsets\":[%zu,%zu]}", offset, offset + e->bytes);
}

/* The array that follows e in the file; the first if e is NULL.  The file has the arrays by descending element
 * size, those of one size in the order of the list, which is by name. */
static const qg_named_array *next_in_file(const list *l, const qg_named_array *e)
{
    size_t i    = e ? (size_t)(e - l->entries) + 1 : 0;
    size_t size = e ? qg__dtype_bytes(e->array.dtype) : 8;
    for (; size > 0; size /= 2, i = 0)
        for (; i < l->count; i++)
            if (qg__dtype_bytes(l->entries[i].array.dtype) == size) return &l->entries[i];
    return NULL;
}

static qg_status print_header(const void *what, FILE *out)
{
    const list *l      = what;
    size_t      offset = 0;
    fputs("{\"" QG_SAFETENSORS_METADATA "\":{", out);
    put_note(out, QG_SAFETENSORS_CHECKSUM, l->checksum);
    for (size_t i = 0; i < l->note_count; i++) {
        if (is_checksum(l->notes[i].key)) continue;             /* of the file that the notes are from */
        fputc(',', out);
        put_note(out, l->notes[i].key, l->notes[i].value);
    }
    fputc('}', out);
    for (const qg_named_array *e = NULL; (e = next_in_file(l, e));) {
        fputc(',', out);
        put_entry(out, e, offset);
        offset += e->bytes;
    }
    fputc('}', out);
    return QG_OK;
}

qg_status qg__safetensors_write(int dir, const char *path, const qg_named_array *entries, size_t count,
                                const qg_note *notes, size_t note_count)
{
    list l = { entries, count, notes, note_count, "" };
    snprintf(l.checksum, sizeof l.checksum, QG_SAFETENSORS_HASH "%016" PRIx64 " %016" PRIx64,
             hash_header(entries, count, notes, note_count), hash_data(entries, count));
    char           *header;
    size_t          n;
    const qg_status status = qg__text_print(print_header, &l, &header, &n);
    if (status) return status;
    const size_t   spaces = (ALIGN - n % ALIGN) % ALIGN;
    const uint64_t length = n + spaces;
    if (length > MAX_HEADER) {
        free(header);
        return qg_fail(QG_EARG, "cannot write '%s': its header has %ju bytes, must be %d at most",
                       path, (uintmax_t)length, MAX_HEADER);
    }
    qg_file *file = qg__file_begin_in(dir, path);
    qg__file_put(file, &length, sizeof length);
    qg__file_put(file, header, n);
    qg__file_put(file, "        ", spaces);
    for (const qg_named_array *e = NULL; (e = next_in_file(&l, e));)
        qg__file_put(file, e->array.data, e->bytes);
    free(header);
    return qg__file_commit(file);
}
