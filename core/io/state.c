#include "core/io/state.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/grow.h"
#include "core/io/number.h"
#include "core/io/utf8.h"
#include "core/io/safetensors.h"

enum {
    MESSAGE_BYTES = 2048,                    /* of a list of arrays; the rest is counted */
    NAME_BYTES    = 200,                     /* of a name in a message */
    WHAT_BYTES    = 2 * QG__SHAPE_BYTES + 64,    /* two shapes, two dtypes */
};

/* Both lists are kept sorted, as the file has them. */
struct qg_state {
    qg_named_array *entries;
    size_t          count;
    qg_note        *notes;
    size_t          note_count;
    qg_status       status;          /* the first failure, and its message */
    char            message[512];
};

qg_state *qg_state_new(void)
{
    qg_state *s = calloc(1, sizeof *s);
    if (!s) qg_fail(QG_EMEM, "out of memory: a state");
    return s;
}

static void free_notes(qg_note *notes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((char *)notes[i].key);
        free((char *)notes[i].value);
    }
    free(notes);
}

void qg_state_free(qg_state *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) free((char *)s->entries[i].name);
    free(s->entries);
    free_notes(s->notes, s->note_count);
    free(s);
}

/* Keeps the message that was just set. */
static qg_status stick(qg_state *s, qg_status status)
{
    s->status = status;
    snprintf(s->message, sizeof s->message, "%s", qg_errmsg());
    return status;
}

static qg_status sticky(const qg_state *s)
{
    if (!s) return qg__fail_null(QG_EMEM, "state");
    return s->status ? qg_fail(s->status, "%s", s->message) : QG_OK;
}

/* The record of a, or why it cannot be in a state. */
static qg_status describe(const char *name, const qg_array *a, qg_named_array *e)
{
    if (!qg__utf8_valid(name, strlen(name)))
        return qg_fail(QG_EARG, "array name '%s' is not UTF-8", name);
    if (strcmp(name, QG_SAFETENSORS_METADATA) == 0)
        return qg_fail(QG_EARG, "array name '%s' is reserved by the format", name);
    if (a->rank < 0 || a->rank > QG_MAX_RANK)
        return qg_fail(QG_EARG, "array '%s' has rank %d, must be 0..8", name, a->rank);
    size_t n = qg__dtype_bytes(a->dtype);
    if (n == 0) return qg_fail(QG_EARG, "array '%s' has unknown dtype %d", name, (int)a->dtype);
    for (int i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(n, a->dims[i], &n))
            return qg_fail(QG_EARG, "array '%s' is larger than memory can be", name);
    if (n && !a->data) return qg_fail(QG_EARG, "array '%s' has no data", name);
    *e = (qg_named_array){ .name = name, .dtype = qg__dtype_name(a->dtype), .viewable = true, .array = *a, .bytes = n };
    return QG_OK;
}

qg_status qg_state_add(qg_state *s, const char *name, qg_array a)
{
    if (sticky(s)) return s ? s->status : QG_EMEM;
    if (!name) return stick(s, qg_fail(QG_EARG, "an array of a state has no name"));
    qg_named_array e;
    if (describe(name, &a, &e)) return stick(s, QG_EARG);
    size_t at = s->count;
    while (at > 0 && strcmp(s->entries[at - 1].name, name) > 0) at--;
    if (at > 0 && strcmp(s->entries[at - 1].name, name) == 0)
        return stick(s, qg_fail(QG_EARG, "array '%s' is added twice", name));

    qg_named_array *grown = qg_grown(s->entries, s->count, sizeof *grown);
    if (grown) s->entries = grown;
    e.name = grown ? strdup(name) : NULL;
    if (!e.name) return stick(s, qg_fail(QG_EMEM, "out of memory: a state of %zu arrays", s->count));
    memmove(grown + at + 1, grown + at, (s->count - at) * sizeof *grown);
    grown[at] = e;
    s->count++;
    return QG_OK;
}

void qg__state_add_named(qg_state *s, qg_shape shape, float *data, const char *fmt, ...)
{
    const size_t n = (size_t)shape.n, h = (size_t)shape.h, w = (size_t)shape.w, c = (size_t)shape.c;
    va_list      args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const size_t bytes = (size_t)vsnprintf(NULL, 0, fmt, args) + 1;
    char        *name  = malloc(bytes);
    if (name) vsnprintf(name, bytes, fmt, again);
    va_end(again);
    va_end(args);
    if (name) qg_state_add(s, name, (qg_array){ QG_F32, 4, { n, h, w, c }, data });
    else qg__state_fail(s, qg_fail(QG_EMEM, "out of memory: the name of an array"));
    free(name);
}

/* Insert or replace, in a sorted list. */
static qg_status put_note(qg_note **notes, size_t *count, const char *key, const char *value)
{
    size_t at = *count;
    while (at > 0 && strcmp((*notes)[at - 1].key, key) > 0) at--;
    const bool replace = at > 0 && strcmp((*notes)[at - 1].key, key) == 0;
    qg_note   *grown   = replace ? *notes : qg_grown(*notes, *count, sizeof *grown);
    if (grown) *notes = grown;
    char *k = grown && !replace ? strdup(key) : NULL, *v = grown ? strdup(value) : NULL;
    if (!v || !(k || replace)) {
        free(k);
        free(v);
        return qg_fail(QG_EMEM, "out of memory: note '%s'", key);
    }
    if (replace) {
        free((char *)grown[at - 1].value);
        grown[at - 1].value = v;
        return QG_OK;
    }
    memmove(grown + at + 1, grown + at, (*count - at) * sizeof *grown);
    grown[at] = (qg_note){ k, v };
    ++*count;
    return QG_OK;
}

static qg_status remove_note(qg_state *s, const char *key)
{
    for (size_t i = 0; i < s->note_count; i++) {
        if (strcmp(s->notes[i].key, key)) continue;
        free((char *)s->notes[i].key);
        free((char *)s->notes[i].value);
        memmove(s->notes + i, s->notes + i + 1, (--s->note_count - i) * sizeof *s->notes);
        return QG_OK;
    }
    return QG_OK;
}

void qg__state_fail(qg_state *s, qg_status why)
{
    if (s && !s->status && why) stick(s, why);
}

const qg_named_array *qg__state_entries(const qg_state *s, size_t *count)
{
    *count = s->count;
    return s->entries;
}

qg_status qg_state_set_note(qg_state *s, const char *key, const char *value)
{
    if (sticky(s)) return s ? s->status : QG_EMEM;
    if (!key) return stick(s, qg_fail(QG_EARG, "a note of a state has no key"));
    if (!value) return remove_note(s, key);
    if (!qg__utf8_valid(key, strlen(key)) || !qg__utf8_valid(value, strlen(value)))
        return stick(s, qg_fail(QG_EARG, "note '%s' is not UTF-8", key));
    if (strcmp(key, QG_SAFETENSORS_CHECKSUM) && !strncmp(value, QG_SAFETENSORS_HASH, sizeof QG_SAFETENSORS_HASH - 1))
        return stick(s, qg_fail(QG_EARG, "note '%s' begins with \"" QG_SAFETENSORS_HASH "\", as only a checksum may", key));
    const qg_status status = put_note(&s->notes, &s->note_count, key, value);
    return status ? stick(s, status) : QG_OK;
}

const char *qg_state_find_note(const qg_state *s, const char *key)
{
    for (size_t i = 0; s && key && i < s->note_count; i++)
        if (strcmp(s->notes[i].key, key) == 0) return s->notes[i].value;
    return NULL;
}

/* Step functions swallow NaN (every comparison with it is false), so a net that was loaded with one would
 * compute something plausible. */
static qg_status check_finite(const qg_named_array *entries, size_t count, const char *path)
{
    for (size_t k = 0; k < count; k++) {
        const qg_named_array *e     = &entries[k];
        const float          *value = e->array.data;
        const size_t          n     = e->viewable && e->array.dtype == QG_F32 ? e->bytes / sizeof *value : 0;
        for (size_t i = 0; i < n; i++)
            if (!isfinite(value[i]))
                return qg_fail(QG_ENAN, "'%s': %s has the value %g, at %zu of %zu", path, e->name,
                               qg__number_shown(value[i]), i, n);
    }
    return QG_OK;
}

qg_status qg__state_check_finite(const qg_state *s, const char *path)
{
    return s ? check_finite(s->entries, s->count, path) : QG_OK;
}

qg_status qg__state_save_in(const qg_state *s, int dir, const char *path)
{
    qg_status status = sticky(s);
    if (!status && !path) return qg_fail(QG_EARG, "the path of a file to write is NULL");
    if (!status) status = check_finite(s->entries, s->count, path);
    return status ? status : qg__safetensors_write(dir, path, s->entries, s->count, s->notes, s->note_count);
}

qg_status qg_state_save(const qg_state *s, const char *path) { return qg__state_save_in(s, QG_BY_PATH, path); }

/* A list of mismatches, cut to fit a message. */
typedef struct report {
    char   text[MESSAGE_BYTES];
    size_t used, listed, left_out;
} report;

static void complain(report *r, const char *name, const char *what)
{
    enum { ROOM_FOR_THE_REST = sizeof "; and 18446744073709551615 more" };
    char         line[NAME_BYTES + WHAT_BYTES + 4];
    const char  *joint  = r->listed ? "; " : "";
    const int    length =
        snprintf(line, sizeof line, "%s%.*s: %s", joint, NAME_BYTES, name, what);
    const size_t n = (size_t)length;
    if (r->left_out || r->used + n + ROOM_FOR_THE_REST > sizeof r->text) {
        r->left_out++;
        return;
    }
    memcpy(r->text + r->used, line, n + 1);
    r->used += n;
    r->listed++;
}

static void compare(report *r, const qg_named_array *file, const qg_named_array *net)
{
    const bool same = strcmp(file->dtype, net->dtype) == 0;
    if (same && qg__array_same_shape(file->array, net->array)) return;
    char left[QG__SHAPE_BYTES], right[QG__SHAPE_BYTES], what[WHAT_BYTES];
    qg__array_shape(&file->array, left);
    qg__array_shape(&net->array, right);
    if (same) snprintf(what, sizeof what, "file %s, expected %s", left, right);
    else snprintf(what, sizeof what, "file %s %s, expected %s %s", file->dtype, left, net->dtype, right);
    complain(r, file->name, what);
}

/* Both lists are sorted by name, so one walk visits every array of either.  part: the file may have more arrays. */
static qg_status compare_all(const qg_state *s, const qg_archive *a, const char *path, bool part)
{
    report                r = { .listed = 0 };
    size_t                n;
    const qg_named_array *file   = qg_archive_entries(a, &n);
    const int             length = snprintf(r.text, sizeof r.text, "'%.1000s' does not fit: ", path);
    r.used                       = (size_t)length;
    for (size_t i = 0, j = 0; i < s->count || j < n;) {
        const char *name  = i < s->count ? s->entries[i].name : NULL;
        const int   order = !name ? 1 : j == n ? -1 : strcmp(name, file[j].name);
        if (order < 0) complain(&r, name, "missing in the file");
        else if (order > 0 && !part) complain(&r, file[j].name, "only in the file");
        else if (order == 0) compare(&r, &file[j], &s->entries[i]);
        i += order <= 0;
        j += order >= 0;
    }
    if (r.listed == 0) return QG_OK;
    if (r.left_out) snprintf(r.text + r.used, sizeof r.text - r.used, "; and %zu more", r.left_out);
    return qg_fail(QG_ESHAPE, "%s", r.text);
}

/* Copies what was compared.  Everything that can fail comes before the first change. */
static qg_status fill(qg_state *s, const qg_archive *a)
{
    size_t                n, copied = 0;
    qg_status             status = QG_OK;
    qg_note              *notes  = NULL;
    const qg_note        *from   = qg__archive_notes(a, &n);
    for (size_t i = 0; i < n && !status; i++)
        status = put_note(&notes, &copied, from[i].key, from[i].value);
    if (status) {
        free_notes(notes, copied);
        return status;
    }
    free_notes(s->notes, s->note_count);
    s->notes      = notes;
    s->note_count = n;
    for (size_t i = 0; i < s->count; i++) {
        const qg_named_array *from_file = qg_archive_find(a, s->entries[i].name);
        if (from_file->bytes) memcpy(s->entries[i].array.data, from_file->array.data, from_file->bytes);
    }
    return QG_OK;
}

qg_status qg__state_open(const qg_state *s, int dir, const char *path, bool part, qg_archive **archive)
{
    size_t      n;
    qg_archive *a      = NULL;
    qg_status   status = sticky(s);
    if (!status) status = qg__safetensors_open(dir, path, &a);
    if (!status) status = compare_all(s, a, path, part);
    if (!status) status = qg__safetensors_load(a);
    const qg_named_array *file = status ? NULL : qg_archive_entries(a, &n);
    if (!status) status = check_finite(file, n, path);
    if (!status) *archive = a;
    else qg_archive_free(a);
    return status;
}

qg_status qg__state_load_from(qg_state *s, int dir, const char *path, bool part)
{
    qg_archive *a;
    qg_status   status = qg__state_open(s, dir, path, part, &a);
    if (status) return status;
    status = fill(s, a);
    qg_archive_free(a);
    return status;
}

qg_status qg_state_load(qg_state *s, const char *path) { return qg__state_load_from(s, QG_BY_PATH, path, false); }
