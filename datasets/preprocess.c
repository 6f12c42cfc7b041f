#include "datasets/preprocess.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/io/file.h"
#include "core/io/number.h"
#include "core/io/safetensors.h"
#include "datasets/image.h"
#include "datasets/normalise.h"

/* --- as text ------------------------------------------------------------------------------ */

/* In the order of value: low, high. */
static const qg_key range_keys[] = {
    { .name = "low", .min = -INFINITY, .max = INFINITY, .is = QG_KEY_REQUIRED, .below = "high",
      .about = "what byte 0 becomes" },
    { .name = "high", .min = -INFINITY, .max = INFINITY, .is = QG_KEY_REQUIRED,
      .about = "what byte 255 becomes" },
    { .name = NULL }
};

/* In the order of value: how many, and after these the numbers. */
static const qg_key channel_keys[] = {
    { .name = "mean", .min = -INFINITY, .max = INFINITY, .is = QG_KEY_SERIES, .most = QG_MOST_GIVEN,
      .about = "of each channel, 0.49+0.48+0.45, where bytes are 0..1; default: of the images" },
    { .name = "deviation", .max = INFINITY, .is = QG_KEY_SERIES | QG_KEY_ABOVE_MIN, .most = QG_MOST_GIVEN,
      .about = "the standard deviations" },
    { .name = NULL }
};

const qg_variant qg_normalisations[] = {
    [QG_TO_UNIT]     = { "unit", "bytes over 255, 0 to 1", NULL },
    [QG_TO_RANGE]    = { "range", "the same, scaled to another range, as in range:low=-1,high=1", range_keys },
    [QG_PER_CHANNEL] = { "channel", "mean 0 and deviation 1 in each channel", channel_keys },
    [QG_PER_PIXEL]   = { "pixel", "the same in each value of an image", NULL },
    [QG_WHITEN]      = { "whiten", "global contrast normalisation, then ZCA", NULL },
    { .name = NULL }
};

enum { TEXT_BYTES = 256, MOST_VALUES = 1 << 26 };

/* One number is for all channels. */
static void repeat_first(int n, double *count, double *number)
{
    for (int k = 1; k < n; k++) number[k] = number[0];
    if (n) *count = n;
}

qg_status qg__normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes)
{
    double value[QG_MAX_VALUES] = { 0 };
    int    kind;
    if (qg__variants_parse("normalisation", text, qg_normalisations, &kind, value)) return QG_EARG;
    *n = (qg_normalise){ .kind = (qg_normalise_kind)kind };
    if (n->kind == QG_TO_RANGE) n->low = (float)value[0], n->high = (float)value[1];
    if (n->kind == QG_PER_CHANNEL) {
        if (value[0] == 1) repeat_first((int)value[1], &value[0], value + 2);
        if (value[1] == 1) repeat_first((int)value[0], &value[1], value + 2 + QG_MOST_GIVEN);
        if (value[0] != value[1])
            return qg_fail(QG_EARG, "channel: mean has %g numbers, but deviation has %g", value[0], value[1]);
        n->given = (int)value[0];
        for (int k = 0; k < n->given; k++) {
            n->mean[k]      = (float)value[2 + k];
            n->deviation[k] = (float)value[2 + QG_MOST_GIVEN + k];
        }
    }
    qg_keys_print(qg_normalisations[kind].name, qg_normalisations[kind].keys, value, canonical, bytes);
    return QG_OK;
}

/* The values of its keys. */
static void values_of(qg_normalise n, double value[QG_MAX_VALUES])
{
    const bool range = n.kind == QG_TO_RANGE;
    value[0]         = range ? (double)n.low : n.given;
    value[1]         = range ? (double)n.high : n.given;
    for (int k = 0; k < QG_MOST_GIVEN; k++) {
        value[2 + k]                 = (double)n.mean[k];
        value[2 + QG_MOST_GIVEN + k] = (double)n.deviation[k];
    }
}

bool qg__normalise_fits(qg_normalise n) { return n.kind != QG_TO_UNIT && n.kind != QG_TO_RANGE && !n.given; }

const qg_key qg__image_keys[] = {
    { .name = "size", .min = 1, .max = 4096, .is = QG_KEY_WHOLE | QG_KEY_SIZE, .most = 3,
      .about = "height, width and channels, as in 32x32x3" },
    { .name = NULL }
};

qg_status qg__image_parse(const char *text, qg_shape *image)
{
    double value[1 + 3];
    if (qg_keys_parse(NULL, text, qg__image_keys, value)) return QG_EARG;
    *image = (qg_shape){ 1, (int)value[1], (int)value[2], (int)value[3] };
    return QG_OK;
}

/* --- images ------------------------------------------------------------------------------- */

qg_shape     qg_preprocess_shape(const qg_preprocess *p) { return p ? p->shape : (qg_shape){ 0 }; }
qg_normalise qg_preprocess_normalise(const qg_preprocess *p)
{
    return p ? p->normalise : (qg_normalise){ 0 };
}

static bool same_floats(const float *a, const float *b, size_t n)
{
    return a && b ? !memcmp(a, b, n * sizeof *a) : a == b;
}

bool qg__preprocess_equal(const qg_preprocess *a, const qg_preprocess *b)
{
    if (!a || !b || !qg_shape_equal(a->shape, b->shape)) return false;
    const qg_normalise m = a->normalise, n = b->normalise;
    const size_t       row = qg_row(a->shape);
    return m.kind == n.kind && m.low == n.low && m.high == n.high && same_floats(a->mean, b->mean, row) &&
           same_floats(a->deviation, b->deviation, row) && same_floats(a->whitening, b->whitening, row * row);
}

/* A set of one image.  images is not written to. */
static qg_status whiten_one(const qg_preprocess *p, const uint8_t *bytes, float *x)
{
    const qg__dataset one = { .shape = p->shape, .classes = 1, .images = (uint8_t *)bytes };
    float            *to  = qg__whiten(p, &one);
    if (!to) return qg_errcode();
    memcpy(x, to, qg_row(p->shape) * sizeof *x);
    free(to);
    return QG_OK;
}

qg_status qg_preprocess_bytes(const qg_preprocess *p, const uint8_t *bytes, float *x)
{
    if (!p) return QG_EARG;              /* the message says why the preprocessing is NULL */
    if (p->whitening) return whiten_one(p, bytes, x);
    qg__normalise(p, bytes, 0, qg_row(p->shape), x);
    return QG_OK;
}

qg_status qg_image_read(const char *path, qg_shape image, uint8_t *bytes, bool *deep)
{
    bool here;
    if (!path) return qg_fail(QG_EARG, "the path of an image is NULL");
    if (!bytes) return qg__image_wanted(path, image);
    return qg__image_resized(path, image, bytes, deep ? deep : &here) ? QG_OK : qg_errcode();
}

qg_status qg_preprocess_image(const qg_preprocess *p, const char *path, float *x)
{
    if (!p) return QG_EARG;
    if (!path) return qg_fail(QG_EARG, "the path of an image is NULL");
    if (qg_image_read(path, p->shape, NULL, NULL)) return QG_EARG;
    uint8_t *bytes = malloc(qg_row(p->shape));
    if (!bytes) return qg_fail(QG_EMEM, "'%s': out of memory", path);
    qg_status status = qg_image_read(path, p->shape, bytes, NULL);
    if (!status) status = qg_preprocess_bytes(p, bytes, x);
    free(bytes);
    return status;
}

/* --- to a checkpoint ---------------------------------------------------------------------- */

/* How many numbers of mean and deviation say them all: those of a channel repeat for each pixel. */
static size_t distinct(const qg_preprocess *p)
{
    return p->normalise.kind == QG_PER_CHANNEL ? (size_t)p->shape.c : qg_row(p->shape);
}

static bool repeats(const float *x, size_t n, size_t period)
{
    for (size_t i = period; i < n; i++)
        if (x[i] != x[i - period]) return false;
    return true;
}

qg_status qg_preprocess_numbers(const qg_preprocess *p, int *numbers, const float **mean,
                                const float **deviation)
{
    static const float zero = 0.0f, one = 1.0f;
    if (!p) return qg__fail_null(QG_EARG, "preprocess");
    if (p->whitening)
        return qg_fail(QG_EARG, "whitened images (normalise=whiten) have no mean and deviation of their own");
    const size_t period[] = { 1, (size_t)p->shape.c, qg_row(p->shape) };
    int          k        = 0;
    while (p->mean && k < 2 &&
           !(repeats(p->mean, period[2], period[k]) && repeats(p->deviation, period[2], period[k])))
        k++;
    *numbers   = (int)period[k];
    *mean      = p->mean ? p->mean : &zero;
    *deviation = p->mean ? p->deviation : &one;
    return QG_OK;
}

/* "0.4914 0.4822 0.4465" */
static void note_numbers(qg_state *s, const char *key, const float *x, size_t n)
{
    char *text = malloc(n * QG_NUMBER_BYTES);
    if (!text) {
        qg__state_fail(s, qg_fail(QG_EMEM, "out of memory: note '%s' of %zu numbers", key, n));
        return;
    }
    char *to = text;
    for (size_t i = 0; i < n; i++) {
        if (i) *to++ = ' ';
        qg__number_print_float(to, x[i]);
        to += strlen(to);
    }
    qg_state_set_note(s, key, text);
    free(text);
}

static uint64_t hash_of(const qg_preprocess *p)
{
    const size_t row = qg_row(p->shape);
    return qg_hash(qg_hash(QG_HASH_BASIS, p->mean, row * sizeof(float)), p->whitening,
                   row * row * sizeof(float));
}

void qg_preprocess_note(const qg_preprocess *p, qg_state *s)
{
    char text[TEXT_BYTES];
    if (!p) {
        qg__state_fail(s, QG_EARG);
        return;
    }
    snprintf(text, sizeof text, "%dx%dx%d", p->shape.h, p->shape.w, p->shape.c);
    qg_state_set_note(s, "image", text);
    const qg_variant *of      = &qg_normalisations[p->normalise.kind];
    double            value[QG_MAX_VALUES];
    values_of(p->normalise, value);
    qg_keys_print(of->name, of->keys, value, text, sizeof text);
    qg_state_set_note(s, "normalise", text);
    if (!qg__normalise_fits(p->normalise)) return;
    if (p->whitening) {
        snprintf(text, sizeof text, "%016" PRIx64, hash_of(p));
        qg_state_set_note(s, "normalise.whitening", text);
        return;
    }
    note_numbers(s, "normalise.mean", p->mean, distinct(p));
    note_numbers(s, "normalise.deviation", p->deviation, distinct(p));
}

bool qg_preprocess_state(const qg_preprocess *p, qg_state *s)
{
    if (!p || !p->whitening) return false;
    const size_t row = qg_row(p->shape);
    qg_state_add(s, "mean", (qg_array){ QG_F32, 1, { row }, p->mean });
    qg_state_add(s, "whitening", (qg_array){ QG_F32, 2, { row, row }, p->whitening });
    return true;
}

/* --- from a checkpoint -------------------------------------------------------------------- */

/* n numbers, repeated up to the size of an image; positive: a deviation. */
static qg_status read_numbers(const qg_preprocess *p, const qg_archive *a, const char *key, float *to,
                              bool positive)
{
    const size_t n    = distinct(p);
    const char  *text = qg_archive_noted(a, key);
    for (size_t i = 0; i < n; i++) {
        const size_t length = text ? strcspn(text, " ") : 0;
        double       value;
        if (!length || !qg__number_read(text, length, &value) || !isfinite((float)value) ||
            (positive && !((float)value > 0)))
            return qg_fail(QG_EFORMAT, "number %zu of its %s is not a %s", i + 1, key,
                           positive ? "positive float" : "float");
        to[i] = (float)value;
        text += length + (text[length] == ' ');
    }
    if (*text) return qg_fail(QG_EFORMAT, "its %s has more than %zu numbers", key, n);
    for (size_t i = n; i < qg_row(p->shape); i++) to[i] = to[i - n];
    return QG_OK;
}

static qg_status read_notes(qg_preprocess *p, const qg_archive *a)
{
    const char *image = qg_archive_noted(a, "image"), *normalise = qg_archive_noted(a, "normalise");
    char        text[TEXT_BYTES];
    if (!image || !normalise) return qg_fail(QG_ESTATE, "it does not say how its images are preprocessed");
    if (qg__image_parse(image, &p->shape) || qg__normalise_parse(normalise, &p->normalise, text, sizeof text))
        return QG_EFORMAT;
    if (qg_row(p->shape) > MOST_VALUES)
        return qg_fail(QG_EFORMAT, "images of %s are larger than those of any data set", image);
    return QG_OK;
}

/* The matrix in the directory of the checkpoint. */
static qg_status read_whitening(qg_preprocess *p, const qg_archive *a, const char *path)
{
    const char *noted = qg_archive_noted(a, "normalise.whitening"), *name = strrchr(path, '/');
    char        beside[QG__PATH_BYTES], dir[QG__PATH_BYTES], found[17];
    snprintf(dir, sizeof dir, "%.*s", name ? (int)(name - path) + !(name - path) : 1, name ? path : ".");
    if (!noted) return qg_fail(QG_EFORMAT, "it does not say which matrix whitens its images");
    if (!qg__dataset_path(dir, QG_WHITENING_FILE, beside)) return QG_EARG;
    qg_state *s = qg_state_new();
    qg_preprocess_state(p, s);
    qg_status status = qg_state_load(s, beside);
    qg_state_free(s);
    snprintf(found, sizeof found, "%016" PRIx64, status ? 0 : hash_of(p));
    if (status || !strcmp(found, noted)) return status;
    return qg_fail(QG_EFORMAT, "its images are whitened by matrix %s, but %s has %s", noted, beside, found);
}

static qg_status read_statistics(qg_preprocess *p, const qg_archive *a, const char *path)
{
    qg_status status = qg__preprocess_allocate(p);
    if (status || p->normalise.kind == QG_TO_UNIT) return status;
    if (p->normalise.kind == QG_TO_RANGE) return qg__preprocess_range(p) ? QG_EFORMAT : QG_OK;
    if (p->normalise.given) return qg__preprocess_given(p) ? QG_EFORMAT : QG_OK;
    if (p->whitening) return read_whitening(p, a, path);
    status = read_numbers(p, a, "normalise.mean", p->mean, false);
    return status ? status : read_numbers(p, a, "normalise.deviation", p->deviation, true);
}

qg_preprocess *qg__preprocess_read(const qg_archive *a, const char *path)
{
    qg_preprocess *p = calloc(1, sizeof *p);
    qg_status status = p ? read_notes(p, a) : qg_fail(QG_EMEM, "out of memory");
    if (!status) status = read_statistics(p, a, path);
    if (!status) return p;
    qg_preprocess_free(p);
    return qg__refuse(status, "%s: %s", path, qg_errmsg());
}

qg_preprocess *qg_preprocess_open(const char *path)
{
    qg_archive *a;
    if (!path) return qg__refuse(QG_EARG, "the path of a checkpoint is NULL");
    if (qg__safetensors_open(QG_BY_PATH, path, &a)) return NULL;
    qg_preprocess *p = qg__preprocess_read(a, path);
    qg_archive_free(a);
    return p;
}

void qg_preprocess_free(qg_preprocess *p)
{
    if (!p) return;
    qg__preprocess_clear(p);
    free(p);
}
