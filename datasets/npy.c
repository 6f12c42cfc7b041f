/* The .npy format: "\x93NUMPY", two bytes of version, the length of the header (two bytes in version 1,
 * else four), a header that is the literal of a Python dictionary, padded with blanks, and the values.
 *
 *     {'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * Source   numpy.lib.format, NEP 1. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "datasets/dataset.h"

enum { MOST_HEADER = 1 << 16, MOST_RANK = 8, DESCR_BYTES = 16, MOST_SIDE = 4096, CHUNK = 4096 };

typedef struct npy {
    qg_reader reader;           /* at the first value */
    char      descr[DESCR_BYTES];       /* "<i8" */
    int       rank;
    uint64_t  dims[MOST_RANK];
    uint64_t  count;            /* of values */
    int       bytes;            /* of a value */
} npy;

/* --- the header --------------------------------------------------------------------------- */

typedef struct literal {
    const char *path, *at;
    npy        *to;
    unsigned    seen;           /* bits of the three keys */
} literal;

static bool bad(const literal *l, const char *what)
{
    return qg_fail(QG_EFORMAT, "'%s': its header is not that of an .npy file: %s", l->path, what), false;
}

static void skip_blank(literal *l) { l->at += strspn(l->at, " \t\n"); }

static bool accept(literal *l, char c)
{
    skip_blank(l);
    if (*l->at != c) return false;
    l->at++;
    return true;
}

static bool read_string(literal *l, char *to, size_t bytes)
{
    skip_blank(l);
    const char quote[] = { *l->at, '\0' };
    if (*quote != '\'' && *quote != '"') return bad(l, "a string is missing");
    const size_t n = strcspn(++l->at, quote);
    if (!l->at[n] || n >= bytes) return bad(l, l->at[n] ? "a string is too long" : "a string does not end");
    memcpy(to, l->at, n);
    to[n] = '\0';
    l->at += n + 1;
    return true;
}

static bool read_descr(literal *l)
{
    skip_blank(l);
    if (*l->at != '[') return read_string(l, l->to->descr, sizeof l->to->descr);
    return qg_fail(QG_EFORMAT, "'%s' is an array of records, not of numbers", l->path), false;
}

static bool read_order(literal *l)
{
    skip_blank(l);
    if (!strncmp(l->at, "False", 5)) return l->at += 5, true;
    if (strncmp(l->at, "True", 4)) return bad(l, "fortran_order is neither True nor False");
    return qg_fail(QG_EFORMAT, "'%s' is in Fortran order; save numpy.ascontiguousarray of it", l->path),
           false;
}

/* An extent; Python 2 wrote 60000L. */
static bool read_extent(literal *l, uint64_t *to)
{
    skip_blank(l);
    char *end;
    if (*l->at < '0' || *l->at > '9') return bad(l, "an extent of the shape is not a number");
    const unsigned long long n = strtoull(l->at, &end, 10);
    if (n > INT_MAX)
        return qg_fail(QG_EFORMAT, "'%s' has an extent of %.*s, more than %d", l->path,
                       (int)(end - l->at < 32 ? end - l->at : 32), l->at, INT_MAX), false;
    *to   = n;
    l->at = end + (*end == 'L');
    return true;
}

static bool read_shape(literal *l)
{
    npy *to  = l->to;
    to->rank = 0;
    if (!accept(l, '(')) return bad(l, "the shape is not a tuple");
    while (!accept(l, ')')) {
        if (to->rank == MOST_RANK) return bad(l, "more than 8 axes");
        if (!read_extent(l, &to->dims[to->rank++])) return false;
        if (accept(l, ',')) continue;
        if (accept(l, ')')) return true;
        return bad(l, "the shape is not a tuple");
    }
    return true;
}

static bool read_key(literal *l)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    static bool (*const read[])(literal *l) = { read_descr, read_order, read_shape };
    char key[16];
    int  k = 0;
    if (!read_string(l, key, sizeof key)) return false;
    if (!accept(l, ':')) return bad(l, "expected 'key': value");
    while (k < 3 && strcmp(keys[k], key)) k++;
    if (k == 3 || l->seen >> k & 1) return bad(l, k == 3 ? "an unknown key" : "a key is there twice");
    l->seen |= 1u << k;
    return read[k](l);
}

static bool read_dictionary(literal *l)
{
    if (!accept(l, '{')) return bad(l, "it does not begin with {");
    while (!accept(l, '}')) {
        if (!read_key(l)) return false;
        if (accept(l, ',')) continue;
        if (accept(l, '}')) break;
        return bad(l, "expected , or }");
    }
    skip_blank(l);
    if (*l->at) return bad(l, "something follows the dictionary");
    return l->seen == 7 || bad(l, "descr, fortran_order or shape is missing");
}

static qg_status truncated(const char *path)
{
    return qg_fail(QG_EFORMAT, "'%s' is truncated: its header ends early", path);
}

/* Takes the text of the header. */
static qg_status take_header(npy *f, const char *path, char text[MOST_HEADER + 1])
{
    unsigned char head[12] = { 0 };
    if (f->reader.left < 10)
        return qg_fail(QG_EFORMAT, "'%s' is not an .npy file: it has %zu bytes", path, f->reader.left);
    qg_status status = qg__reader_take(&f->reader, 10, head);
    if (status) return status;
    if (!memcmp(head, "PK\x03\x04", 4))
        return qg_fail(QG_EFORMAT, "'%s' is an .npz archive; save each array with numpy.save", path);
    if (memcmp(head, "\x93NUMPY", 6))
        return qg_fail(QG_EFORMAT, "'%s' is not an .npy file: it begins with other bytes", path);
    if (head[6] < 1 || head[6] > 3)
        return qg_fail(QG_EFORMAT, "'%s' has version %d.%d of the format, not 1 to 3", path, head[6],
                       head[7]);
    if (head[6] > 1 && f->reader.left < 2) return truncated(path);
    if (head[6] > 1) status = qg__reader_take(&f->reader, 2, head + 10);
    if (status) return status;
    const size_t n = qg__number_of(head + 8, 4, false);
    if (n > MOST_HEADER)
        return qg_fail(QG_EFORMAT, "'%s' has a header of %zu bytes, more than %d", path, n, (int)MOST_HEADER);
    if (n > f->reader.left) return truncated(path);
    status  = qg__reader_take(&f->reader, n, text);
    text[n] = '\0';
    return status || strlen(text) == n ? status
                                       : qg_fail(QG_EFORMAT, "'%s': its header contains a zero byte", path);
}

/* The file has exactly the values of its shape. */
static qg_status check_size(npy *f, const char *path)
{
    f->count = 1;
    for (int i = 0; i < f->rank; i++) {
        if (!f->dims[i]) return qg_fail(QG_EFORMAT, "'%s' is empty: axis %d has no elements", path, i);
        if (f->count > UINT64_MAX / 8 / f->dims[i])
            return qg_fail(QG_EFORMAT, "'%s' promises more values than any file has", path);
        f->count *= f->dims[i];
    }
    const uint64_t want = f->count * (uint64_t)f->bytes;
    if (f->reader.left == want) return QG_OK;
    return qg_fail(QG_EFORMAT, "'%s' is %s: its shape promises %" PRIu64 " bytes of values, but it has %zu",
                   path, f->reader.left < want ? "truncated" : "too long", want, f->reader.left);
}

/* Opens a file and reads its header.  types: the legal descr, each after a blank. */
static qg_status npy_open(npy *f, const char *path, const char *types, const char *what)
{
    char      text[MOST_HEADER + 1], quoted[DESCR_BYTES + 2];
    literal   l      = { .path = path, .at = text, .to = f };
    qg_status status = path ? qg__reader_open_in(&f->reader, QG_BY_PATH, path)
                            : qg_fail(QG_EARG, "the path of an array is NULL");
    if (path && status) (void)qg__dataset_absent(path);
    if (!path || status) return status;
    status = take_header(f, path, text);
    if (!status && !read_dictionary(&l)) status = qg_errcode();
    const char *order = f->descr;
    f->bytes          = order[0] ? atoi(order + (order[1] ? 2 : 1)) : 0;
    if (!status && f->bytes == 1 && (*order == '<' || *order == '>' || *order == '=')) f->descr[0] = '|';
    snprintf(quoted, sizeof quoted, " %s ", f->descr);
    if (!status && !strstr(types, quoted))
        status = qg_fail(QG_EFORMAT, "'%s' has values of type '%s', but %s", path, f->descr, what);
    return status ? status : check_size(f, path);
}

/* astype alone would make floats in 0..1 black. */
#define IMAGES                                                                                               \
    " |u1 ",                                                                                                 \
        "images are bytes ('|u1'), where white is 255: save numpy.rint(255 * x).astype('u1') of 0 <= x <= 1"
#define LABELS                                                                                               \
    " |u1 |i1 <u2 <i2 <u4 <i4 <u8 <i8 ",                                                                     \
        "labels are integers in little-endian order: save them with numpy.int64"

/* --- images ------------------------------------------------------------------------------- */

static qg_status shape_of(const npy *f, const char *path, qg_shape *to)
{
    const uint64_t *d = f->dims, c = f->rank == 4 ? d[3] : 1;
    if (f->rank != 3 && f->rank != 4)
        return qg_fail(QG_EFORMAT,
                       "'%s' has %d axes, but images have the three n, h, w or the four n, h, w, c", path,
                       f->rank);
    if (d[1] > MOST_SIDE || d[2] > MOST_SIDE || c > MOST_SIDE)
        return qg_fail(QG_EFORMAT, "'%s' has images of %" PRIu64 "x%" PRIu64 "x%" PRIu64 ", and no side or "
                       "number of channels may exceed %d", path, d[1], d[2], c, (int)MOST_SIDE);
    *to = (qg_shape){ (int)d[0], (int)d[1], (int)d[2], (int)c };
    return QG_OK;
}

qg_status qg__npy_shape(const char *images, qg_shape *shape)
{
    npy       f      = { .reader = { .descriptor = -1 } };
    qg_status status = npy_open(&f, images, IMAGES);
    if (!status) status = shape_of(&f, images, shape);
    qg__reader_close(&f.reader);
    return status;
}

static qg_status read_images(const char *path, qg__dataset *set)
{
    npy       f      = { .reader = { .descriptor = -1 } };
    qg_status status = npy_open(&f, path, IMAGES);
    if (!status) status = shape_of(&f, path, &set->shape);
    if (!status && !qg__dataset_allocate(set)) status = qg_errcode();
    if (!status) status = qg__reader_take(&f.reader, qg_count(set->shape), set->images);
    qg__reader_close(&f.reader);
    return status;
}

const char *qg__npy_order(qg_shape s)
{
    const bool first = (s.h == 1 || s.h == 3) && s.w > 4 && s.c > 4;
    return first ? "; if the axes of the images are n, c, h, w, use x.transpose(0, 2, 3, 1)" : "";
}

static qg_status warn(const char *path, qg__dataset *set)
{
    const qg_shape s     = set->shape;
    const char    *order = qg__npy_order(s);
    if (!*order) return QG_OK;
    return qg__dataset_warn(set, "'%s' has images of height %d, width %d and %d channels%s", path, s.h, s.w,
                            s.c, order);
}

/* --- labels ------------------------------------------------------------------------------- */

/* One little-endian integer, as is: negative ones have their sign. */
static int64_t value_of(const unsigned char *at, int bytes, bool is_signed)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)at[i] << 8 * i;
    if (is_signed && bytes < 8 && at[bytes - 1] >> 7) v |= UINT64_MAX << 8 * bytes;
    return (int64_t)v;
}

/* Checks all labels; *classes: the greatest and 1.  to [count] receives them unless it is NULL. */
static qg_status take_labels(npy *f, const char *path, int *classes, uint16_t *to)
{
    unsigned char chunk[CHUNK];
    const bool    is_signed = f->descr[1] == 'i';
    int64_t       greatest  = 0;
    for (uint64_t i = 0; i < f->count;) {
        const uint64_t  room   = CHUNK / (uint64_t)f->bytes, n = f->count - i < room ? f->count - i : room;
        const qg_status status = qg__reader_take(&f->reader, (size_t)n * (size_t)f->bytes, chunk);
        if (status) return status;
        for (uint64_t k = 0; k < n; k++, i++) {
            const int64_t label = value_of(chunk + k * (uint64_t)f->bytes, f->bytes, is_signed);
            if (label < 0 || label >= QG_MAX_CLASSES)
                return qg_fail(QG_EFORMAT, "'%s': label %" PRIu64 " is %" PRId64 ", not in 0..%d", path, i,
                               label, QG_MAX_CLASSES - 1);
            greatest = label > greatest ? label : greatest;
            if (to) to[i] = (uint16_t)label;
        }
    }
    *classes = (int)greatest + 1;
    return QG_OK;
}

static qg_status read_labels(const char *path, uint64_t images, int *classes, uint16_t *to)
{
    npy       f      = { .reader = { .descriptor = -1 } };
    qg_status status = npy_open(&f, path, LABELS);
    if (!status && f.rank != 1 && !(f.rank == 2 && f.dims[1] == 1))
        status = qg_fail(QG_EFORMAT, "'%s' has %d axes, but labels have one%s", path, f.rank,
                         f.rank == 2 ? ": of rows with a 1 for the class, save y.argmax(1)" : "");
    if (!status && to && f.count != images)
        status = qg_fail(QG_EFORMAT, "'%s' has %" PRIu64 " label%s for %" PRIu64 " image%s", path, f.count,
                         f.count == 1 ? "" : "s", images, images == 1 ? "" : "s");
    if (!status) status = take_labels(&f, path, classes, to);
    qg__reader_close(&f.reader);
    return status;
}

qg_status qg__npy_classes(const char *labels, int *classes) { return read_labels(labels, 0, classes, NULL); }

qg_loader *qg_npy(const char *images, const char *labels, int classes, qg_loader_spec spec)
{
    qg__dataset set    = { .images = NULL };
    int         found  = 0;
    qg_status   status = read_images(images, &set);
    if (!status) status = read_labels(labels, (uint64_t)set.shape.n, &found, set.labels);
    if (!status && (classes < 0 || classes > QG_MAX_CLASSES))
        status = qg_fail(QG_EARG, "classes is %d, must be 0..%d", classes, QG_MAX_CLASSES);
    if (!status && classes && found > classes)
        status = qg_fail(QG_EFORMAT, "'%s': the greatest label is %d, with classes 0..%d", labels, found - 1,
                         classes - 1);
    set.classes = classes ? classes : found;
    if (!status) status = warn(images, &set);
    if (status) qg__dataset_free(&set);
    return qg__loader_new(set, spec);
}
