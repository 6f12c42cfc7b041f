/* What the engine refuses, and by which status; what it says of a net; memory and threads of the caller. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "infer/infer.h"
#include "tests/support/environment.h"
#include "tests/support/packed.h"

enum { LINE = 64 };

static void *lines(size_t bytes)
{
    void *p = aligned_alloc(LINE, (bytes / LINE + 2) * LINE);
    assert_non_null(p);
    memset(p, 0xA5, (bytes / LINE + 2) * LINE);
    return p;
}

/* --- a small net of most kinds ------------------------------------------------------------------- */

static const float normal[] = { 0.5f, 0.25f, 0.25f, 0.5f };
static const float scales[] = { 0.5f, -0.25f, 0.125f, 0.0f, 0.5f, -1.0f, /* signs */ 0.0f };
static const float first_w[] = { 1, -1, 1,  -1, 1,  1, 1, -1, -1, -1, -1, 1,
                                 1, 1,  -1, -1, -1, 1, 1, -1, 1,  1,  -1, 1 };
static const float second[] = { 0.25f, 0.5f, 0.5f, -0.25f, 0.0f, 0.25f, /* 2 bits */ -0.5f, 0.0f, 0.5f };
static const float second_w[] = { 1, 0, -1, 1, -1, 0 };
static const float slopes[] = { 0.25f, 0.5f };
static const float bounds[] = { -1.0f, 1.0f };
static const float thresholds[] = { 0.0f, 0.25f, 0.5f, -1.0f, 0.0f, 1.0f, 2.0f };
static const float last[] = { 1.0f, 1.0f, 1.0f, 0.0f, 0.5f, -0.5f };
static const float last_w[] = {
    0.5f, -0.25f, 1.0f, 2.0f, -1.0f, 0.125f, 1.0f, 1.0f, 0.5f, 0.25f, 0.0f, -2.0f
};
static const char *const notes[] = { "class-names", "zero/one/two", "name", "h\xC3\xA9", "empty", "" };

static const packed_step steps[] = {
    { { .kind = QG__PRODUCT, .z = -1, .h = 4, .w = 5, .c = 2, .oh = 3, .ow = 4, .oc = 3, .kh = 2, .kw = 2, .stride = 1, .groups = 1,
        .w_lowest = -1, .w_step = 2, .w_count = 2, .w_bits = 1, .coding = QG__AS_BITS, .q_lowest = -1, .q_step = 2, .q_count = 2 },
      scales, first_w, "conv1" },
    { { .kind = QG__MAXPOOL, .x = 1, .z = -1, .h = 3, .w = 4, .c = 3, .oh = 1, .ow = 2, .oc = 3, .kh = 2, .kw = 2, .stride = 2,
        .coding = QG__AS_BITS, .q_lowest = -1, .q_step = 2, .q_count = 2 }, NULL, NULL, "pool1" },
    { { .kind = QG__PRODUCT, .x = 2, .z = -1, .h = 1, .w = 2, .c = 3, .oh = 1, .ow = 2, .oc = 2, .kh = 1, .kw = 1, .stride = 1, .groups = 1,
        .w_lowest = -1, .w_step = 1, .w_count = 3, .w_bits = 2, .two_sided = 1, .relu = 1 }, second, second_w, "conv2" },
    { { .kind = QG__PRELU, .x = 3, .z = -1, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 2, .oc = 2 }, slopes, NULL, "prelu" },
    { { .kind = QG__CLIP, .x = 4, .z = -1, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 2, .oc = 2 }, bounds, NULL, "clip" },
    { { .kind = QG__ADD, .x = 5, .z = 4, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 2, .oc = 2 }, NULL, NULL, "add" },
    { { .kind = QG__QUANTIZE, .x = 6, .z = -1, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 2, .oc = 2, .q_lowest = 0, .q_step = 1, .q_count = 4 },
      thresholds, NULL, "quant" },
    { { .kind = QG__AVGPOOL, .x = 7, .z = -1, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 2, .oc = 2, .kh = 1, .kw = 2, .stride = 1, .flag = 1 },
      NULL, NULL, "avg" },
    { { .kind = QG__PRODUCT, .x = 8, .z = -1, .h = 1, .w = 2, .c = 2, .oh = 1, .ow = 1, .oc = 3, .kh = 1, .kw = 2, .stride = 1, .groups = 1,
        .w_bits = QG__FLOAT_BITS }, last, last_w, "fc" },
};
enum { STEPS = sizeof steps / sizeof *steps, IMAGE = 4 * 5 * 2 };

static const packed_net small = { 4, 5, 2, 2, normal, STEPS, steps, 3, notes };

/* --- refusals -------------------------------------------------------------------------------------- */

static qg_infer_status status_of(const uint8_t *file, size_t n)
{
    size_t                bytes;
    const qg_infer_status s = qg_infer_size(file, n, &bytes);
    if (s) assert_int_equal(bytes, 0);
    /* Load finds the same. */
    void           *memory = lines(1 << 16);
    const qg_infer *net    = (const qg_infer *)memory;
    assert_int_equal(qg_infer_load(file, n, memory, 1 << 16, &net), s);
    if (s) assert_null(net);
    free(memory);
    return s;
}

/* A copy without a byte to spare, so that sanitizers see what is read behind it. */
static qg_infer_status status_of_copy(const uint8_t *file, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, file, n);
    const qg_infer_status s = status_of(copy, n);
    free(copy);
    return s;
}

static void every_truncation_is_refused(void **state)
{
    size_t   n;
    uint8_t *file = packed_file(&small, &n);
    assert_int_equal(status_of(file, n), QG_INFER_OK);
    for (size_t cut = 0; cut < n; cut++) assert_int_equal(status_of_copy(file, cut), QG_INFER_EFORMAT);
    uint8_t *longer = calloc(n + 8, 1);
    assert_non_null(longer);
    memcpy(longer, file, n);
    assert_int_equal(status_of(longer, n + 8), QG_INFER_EFORMAT);
    free(longer), free(file);
}

static void every_flipped_bit_is_refused(void **state)
{
    size_t   n;
    uint8_t *file = packed_file(&small, &n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
        size_t                bytes;
        const qg_infer_status s = qg_infer_size(file, n, &bytes);
        assert_int_not_equal(s, QG_INFER_OK);
        if (bit / 8 >= QG__HEADER_BYTES) assert_int_equal(s, QG_INFER_ECHECKSUM);
        file[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(file);
}

/* One field of the header or of a record, with a right checksum. */
typedef struct change {
    int             step;       /* -1: the header */
    size_t          at;         /* in bytes */
    int32_t         value;
    qg_infer_status status;
} change;

#define FIELD(name) (offsetof(qg__packed_step, name))

static void contradictions_are_refused(void **state)
{
    static const change changes[] = {
        { -1, 8, 3, QG_INFER_EVERSION },        { -1, 8, 2, QG_INFER_OK },              { -1, 8, 0, QG_INFER_EFORMAT },         { -1, 12, 0, QG_INFER_EFORMAT },
        { -1, 12, STEPS - 1, QG_INFER_EFORMAT }, { -1, 12, STEPS + 1, QG_INFER_EFORMAT }, { -1, 12, -1, QG_INFER_EFORMAT },
        { -1, 20, 1, QG_INFER_EFORMAT },        { -1, 24, 5, QG_INFER_EFORMAT },        { -1, 24, 0, QG_INFER_EFORMAT },
        { -1, 24, -4, QG_INFER_EFORMAT },       { -1, 24, INT32_MAX, QG_INFER_EFORMAT }, { -1, 32, 1 << 30, QG_INFER_EFORMAT },
        { -1, 36, 1, QG_INFER_EFORMAT },        { -1, 36, 40, QG_INFER_EFORMAT },       { -1, 36, 0, QG_INFER_EFORMAT },
        { -1, 40, 2, QG_INFER_EFORMAT },        { -1, 40, 4, QG_INFER_EFORMAT },        { -1, 44, 1, QG_INFER_EFORMAT },
        { -1, 52, 1 << 24, QG_INFER_EFORMAT },
        { 0, FIELD(kind), -1, QG_INFER_EFORMAT }, { 0, FIELD(kind), QG__KINDS, QG_INFER_EFORMAT },
        { 0, FIELD(kind), QG__AFFINE, QG_INFER_EFORMAT },
        { 0, FIELD(x), 1, QG_INFER_EFORMAT },   { 0, FIELD(x), -1, QG_INFER_EFORMAT },  { 0, FIELD(z), 0, QG_INFER_EFORMAT },
        { 0, FIELD(z), -2, QG_INFER_EFORMAT },  { 0, FIELD(h), 3, QG_INFER_EFORMAT },   { 0, FIELD(c), 3, QG_INFER_EFORMAT },
        { 0, FIELD(oh), 0, QG_INFER_EFORMAT },  { 0, FIELD(oh), 2, QG_INFER_EFORMAT },  { 0, FIELD(ow), 1 << 30, QG_INFER_EFORMAT },
        { 0, FIELD(oc), 1 << 20, QG_INFER_EFORMAT }, { 0, FIELD(oc), 4, QG_INFER_EFORMAT },
        { 0, FIELD(kh), 0, QG_INFER_EFORMAT },  { 0, FIELD(kh), INT32_MAX, QG_INFER_EFORMAT }, { 0, FIELD(kw), -2, QG_INFER_EFORMAT },
        { 0, FIELD(stride), 0, QG_INFER_EFORMAT }, { 0, FIELD(top), -1, QG_INFER_EFORMAT }, { 0, FIELD(left), INT32_MIN, QG_INFER_EFORMAT },
        { 0, FIELD(groups), 0, QG_INFER_EFORMAT }, { 0, FIELD(groups), 2, QG_INFER_EFORMAT },
        { 0, FIELD(w_lowest), INT32_MIN, QG_INFER_EFORMAT }, { 0, FIELD(w_step), 0, QG_INFER_EFORMAT },
        { 0, FIELD(w_step), INT32_MAX, QG_INFER_EFORMAT }, { 0, FIELD(w_count), 3, QG_INFER_EFORMAT },
        { 0, FIELD(w_count), 1 << 17, QG_INFER_EFORMAT }, { 0, FIELD(w_bits), 2, QG_INFER_EFORMAT }, { 0, FIELD(w_bits), 0, QG_INFER_EFORMAT },
        { 0, FIELD(w_bits), 32, QG_INFER_EFORMAT }, { 0, FIELD(two_sided), 1, QG_INFER_EFORMAT }, { 0, FIELD(two_sided), 2, QG_INFER_EFORMAT },
        { 0, FIELD(pad), 0x7F800000, QG_INFER_EFORMAT }, { 0, FIELD(pad), 0x7FC00000, QG_INFER_EFORMAT },
        { 0, FIELD(relu), 2, QG_INFER_EFORMAT }, { 0, FIELD(flag), 1, QG_INFER_EFORMAT },
        { 0, FIELD(coding), QG__AS_BYTES, QG_INFER_EFORMAT }, { 0, FIELD(coding), 3, QG_INFER_EFORMAT }, { 0, FIELD(coding), -1, QG_INFER_EFORMAT },
        { 0, FIELD(coding), QG__AS_FLOATS, QG_INFER_EFORMAT }, { 0, FIELD(q_count), 0, QG_INFER_EFORMAT },
        { 0, FIELD(q_count), -1, QG_INFER_EFORMAT }, { 0, FIELD(q_count), 257, QG_INFER_EFORMAT }, { 0, FIELD(q_step), 0, QG_INFER_EFORMAT },
        { 0, FIELD(q_step), 1, QG_INFER_EFORMAT }, { 0, FIELD(q_lowest), 1 << 25, QG_INFER_EFORMAT },
        { 0, FIELD(q_scale), (int32_t)0xBF800000u, QG_INFER_EFORMAT }, { 0, FIELD(q_scale), 0x7F800000, QG_INFER_EFORMAT },
        { 0, sizeof(qg__packed_step), 1, QG_INFER_EFORMAT }, { 0, QG__STEP_BYTES - 4, 1, QG_INFER_EFORMAT },
        { 1, FIELD(coding), QG__AS_FLOATS, QG_INFER_EFORMAT }, { 1, FIELD(q_lowest), 0, QG_INFER_EFORMAT }, { 1, FIELD(q_count), 0, QG_INFER_EFORMAT },
        { 1, FIELD(top), 2, QG_INFER_EFORMAT }, { 1, FIELD(oh), 3, QG_INFER_EFORMAT }, { 1, FIELD(kh), 0, QG_INFER_EFORMAT },
        { 1, FIELD(stride), INT32_MAX, QG_INFER_EFORMAT }, { 1, FIELD(groups), 1, QG_INFER_EFORMAT }, { 1, FIELD(kind), QG__AVGPOOL, QG_INFER_EFORMAT },
        { 2, FIELD(x), 1, QG_INFER_EFORMAT }, { 2, FIELD(two_sided), 0, QG_INFER_EFORMAT }, { 2, FIELD(q_lowest), 1, QG_INFER_EFORMAT },
        { 2, FIELD(pad), 0x3F000000, QG_INFER_EFORMAT }, { 3, FIELD(kh), 1, QG_INFER_EFORMAT }, { 3, FIELD(oc), 3, QG_INFER_EFORMAT },
        { 3, FIELD(kind), QG__RPRELU, QG_INFER_EFORMAT }, { 3, FIELD(relu), 1, QG_INFER_EFORMAT }, { 3, FIELD(q_count), 2, QG_INFER_EFORMAT },
        { 5, FIELD(z), 0, QG_INFER_EFORMAT }, { 5, FIELD(z), 6, QG_INFER_EFORMAT }, { 5, FIELD(z), -1, QG_INFER_EFORMAT },
        { 5, FIELD(z), 2, QG_INFER_EFORMAT }, { 5, FIELD(kind), QG__CONCAT, QG_INFER_EFORMAT }, { 5, FIELD(kind), QG__MULTIPLY, QG_INFER_EFORMAT },
        { 5, FIELD(kind), QG__SHORTCUT, QG_INFER_EFORMAT }, { 5, FIELD(kind), QG__MEAN_ABS, QG_INFER_EFORMAT }, { 6, FIELD(q_count), 1, QG_INFER_EFORMAT },
        { 6, FIELD(coding), QG__AS_BYTES, QG_INFER_EFORMAT }, { 7, FIELD(flag), 2, QG_INFER_EFORMAT }, { 7, FIELD(x), 8, QG_INFER_EFORMAT },
        { 8, FIELD(coding), QG__AS_BYTES, QG_INFER_EFORMAT }, { 8, FIELD(w_lowest), 1, QG_INFER_EFORMAT }, { 8, FIELD(kw), 1 << 20, QG_INFER_EFORMAT },
        { 2, FIELD(w_zeros), 1, QG_INFER_EFORMAT }, { 3, FIELD(w_zeros), 1, QG_INFER_EFORMAT },
    };
    size_t   n;
    uint8_t *file = packed_file(&small, &n), *copy = malloc(n);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        memcpy(copy, file, n);
        packed_put(copy + (c->step < 0 ? 0 : packed_record(c->step)) + c->at, (uint32_t)c->value);
        packed_seal(copy, n);
        if (status_of(copy, n) != c->status)
            fail_msg("change %d: %s", (int)i, qg_infer_message(status_of(copy, n)));
    }
    free(file), free(copy);
}

static void a_file_has_16384_steps_at_most(void **state)
{
    enum { MOST = 16384 };
    static packed_step many[MOST + 1];
    for (int i = 0; i <= MOST; i++)
        many[i].r = (qg__packed_step){ .kind = QG__AVGPOOL, .x = i, .z = -1, .h = 1, .w = 1, .c = 1, .oh = 1,
                                       .ow = 1, .oc = 1, .kh = 1, .kw = 1, .stride = 1, .flag = 1 };
    for (int more = 0; more < 2; more++) {
        size_t         n, size;
        const uint8_t *file = packed_file(&(packed_net){ 1, 1, 1, 0, NULL, MOST + more, many, 0, NULL }, &n);
        assert_int_equal(qg_infer_size(file, n, &size), more ? QG_INFER_EFORMAT : QG_INFER_OK);
        free((void *)file);
    }
}

/* An image has 2^31 - 1 values, which take 2^33 - 4 bytes; those of all steps together take 2^40. */
static void values_are_at_most_so_many(void **state)
{
    enum { MOST = 128 };
    static packed_step many[MOST];
    size_t             n, size;
    uint8_t           *file;
    for (int i = 0; i < MOST; i++)
        many[i].r = (qg__packed_step){ .kind = QG__RELU, .x = i, .z = -1, .h = INT32_MAX, .w = 1, .c = 1,
                                       .oh = INT32_MAX, .ow = 1, .oc = 1 };
    if (SIZE_MAX == UINT64_MAX)
        for (int more = 0; more < 2; more++) {
            file = packed_file(&(packed_net){ INT32_MAX, 1, 1, 0, NULL, MOST - 1 + more, many, 0, NULL }, &n);
            assert_int_equal(qg_infer_size(file, n, &size), more ? QG_INFER_EFORMAT : QG_INFER_OK);
            free(file);
        }
    packed_step one = many[0];
    one.r.h = one.r.oh = 1 << 16, one.r.w = one.r.ow = 1 << 15;
    file = packed_file(&(packed_net){ 1 << 16, 1 << 15, 1, 0, NULL, 1, &one, 0, NULL }, &n);
    assert_int_equal(qg_infer_size(file, n, &size), QG_INFER_EFORMAT);
    free(file);
}

/* Where numbers of a step begin in the file. */
static size_t floats_at(int step)
{
    size_t at = packed_record(STEPS) + sizeof normal;
    for (int i = 0; i < step; i++) at += 4 * packed_floats(&steps[i].r);
    return at;
}

static void illegal_numbers_are_refused(void **state)
{
    static const struct {
        int   step;         /* -1: normalisation */
        int   number;
        float value;
        bool  legal;
    } changes[] = {
        { -1, 0, NAN, false },  { -1, 2, 0.0f, false }, { -1, 2, -1.0f, false },    { -1, 3, INFINITY, false }, { -1, 1, -7.0f, true },
        { 0, 0, NAN, false },   { 0, 1, INFINITY, false }, { 0, 5, -INFINITY, false }, { 0, 6, NAN, false },    { 0, 6, INFINITY, true },
        { 0, 6, -INFINITY, true }, { 2, 2, NAN, false }, { 3, 1, INFINITY, false },  { 4, 0, 1.0f, false },      { 4, 0, NAN, false },
        { 4, 1, INFINITY, true }, { 6, 1, 0.75f, false }, { 6, 1, 0.5f, true },      { 6, 1, NAN, false },       { 6, 3, NAN, false },
        { 6, 6, INFINITY, false }, { 8, 5, NAN, false },
    };
    size_t   n;
    uint8_t *file = packed_file(&small, &n), *copy = malloc(n);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(copy, file, n);
        const size_t at = changes[i].step < 0 ? packed_record(STEPS) : floats_at(changes[i].step);
        packed_put_float(copy + at + 4 * (size_t)changes[i].number, changes[i].value);
        packed_seal(copy, n);
        if ((status_of(copy, n) == QG_INFER_OK) != changes[i].legal) fail_msg("change %d", (int)i);
    }
    free(file), free(copy);
}

/* A byte of a row or of the text, counted from the end of the numbers. */
static void illegal_rows_and_texts_are_refused(void **state)
{
    size_t   n;
    uint8_t *file = packed_file(&small, &n), *copy = malloc(n);
    assert_non_null(copy);
    /* Rows: three of 8 bits, two of 6 bits, three of 16 bytes. */
    const size_t rows = floats_at(STEPS), text = rows + 3 + 2 + 48;
    const struct {
        size_t  at;
        uint8_t value;
    } changes[] = {
        { rows + 3, 0x03 },             /* a fourth ternary weight */
        { rows + 4, 0x80 },             /* fills the byte */
        { text + 5, 'x' },              /* no end of the first name */
        { text, 0 },                    /* one text more */
        { text, 0x80 },                 /* UTF-8 that only continues */
        { text, 0xC0 },                 /* begins a character that the next byte does not continue */
        { text, 0xFF },
        { n - 1, 'x' },                 /* the last text has no end */
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(copy, file, n);
        copy[changes[i].at] = changes[i].value;
        packed_seal(copy, n);
        if (status_of(copy, n) != QG_INFER_EFORMAT) fail_msg("change %d", (int)i);
    }
    free(file), free(copy);
}

/* Sums of codes and quantizers must fit, whatever a record says. */
static void refuses_products_that_are_too_large(void **state)
{
    enum { TAPS = 70000 };
    float *w = calloc(TAPS, sizeof *w);
    assert_non_null(w);
    const packed_step long_sum[] = {
        { { .kind = QG__QUANTIZE, .z = -1, .h = 1, .w = 1, .c = TAPS, .oh = 1, .ow = 1, .oc = TAPS, .coding = QG__AS_BYTES, .q_step = 1, .q_count = 256 },
          NULL, NULL, NULL },
        { { .kind = QG__PRODUCT, .x = 1, .z = -1, .h = 1, .w = 1, .c = TAPS, .oh = 1, .ow = 1, .oc = 1, .kh = 1, .kw = 1, .stride = 1, .groups = 1,
            .w_lowest = -127, .w_step = 1, .w_count = 255, .w_bits = 8 }, scales, w, NULL },
    };
    float       levels[255];
    packed_step step[2] = { long_sum[0], long_sum[1] };
    for (int i = 0; i < 255; i++) levels[i] = (float)i;
    step[0].floats = levels;
    const packed_net net = { 1, 1, TAPS, 0, NULL, 2, step, 0, NULL };
    size_t           n;
    uint8_t         *file = packed_file(&net, &n);
    assert_int_equal(status_of(file, n), QG_INFER_EFORMAT);
    free(file), free(w);
}

/* --- memory of the caller --------------------------------------------------------------------------- */

typedef struct loaded {
    void           *memory;
    const qg_infer *net;
} loaded;

static loaded load(const packed_net *p)
{
    size_t   n, bytes;
    uint8_t *file = packed_file(p, &n);
    loaded   l;
    assert_int_equal(qg_infer_size(file, n, &bytes), QG_INFER_OK);
    l.memory = lines(bytes);
    assert_int_equal(qg_infer_load(file, n, l.memory, bytes, &l.net), QG_INFER_OK);
    free(file);
    return l;
}

static void memory_is_checked(void **state)
{
    size_t          n, bytes;
    uint8_t        *file = packed_file(&small, &n);
    const qg_infer *net;
    assert_int_equal(qg_infer_size(file, n, &bytes), QG_INFER_OK);
    assert_int_equal(bytes % LINE, 0);
    uint8_t *memory = lines(bytes);
    assert_int_equal(qg_infer_load(file, n, memory, bytes - 1, &net), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_load(file, n, memory + 16, bytes, &net), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_load(file, n, NULL, bytes, &net), QG_INFER_EMEMORY);
    assert_null(net);
    assert_int_equal(qg_infer_context_bytes(net, 3) + qg_infer_weight_bytes(net), 0);
    assert_int_equal(qg_infer_scores(net) + qg_infer_input(net).h + qg_infer_steps(net) +
                         qg_infer_images_at_once(net),
                     0);
    assert_int_equal(qg_infer_fixed_point(net), 0);
    assert_true(!qg_infer_note(net, NULL) && !qg_infer_note(net, "data") && !qg_infer_step_name(net, 0) &&
                !qg_infer_step_kind(net, 0));
    assert_int_equal(qg_infer_load(file, n, memory, bytes, NULL), QG_INFER_EARG);
    assert_int_equal(qg_infer_load(NULL, n, memory, bytes, &net), QG_INFER_EARG);
    assert_int_equal(qg_infer_load_with(file, n, (qg_infer_requantize)7, memory, bytes, &net), QG_INFER_EARG);
    assert_int_equal(qg_infer_size(NULL, n, &bytes), QG_INFER_EARG);
    assert_int_equal(qg_infer_size(file, n, NULL), QG_INFER_EARG);
    assert_int_equal(qg_infer_load_with(file, n, QG_INFER_TFLITE, memory, bytes, NULL), QG_INFER_EARG);
    assert_int_equal(qg_infer_load_with(NULL, n, QG_INFER_TFLITE, NULL, bytes, &net), QG_INFER_EMEMORY);
    free(memory), free(file);

    loaded       l = load(&small);
    const size_t needed = qg_infer_context_bytes(l.net, 3);
    float        x[3 * IMAGE] = { 0 }, y[9];
    uint8_t     *context = lines(needed), raw[IMAGE] = { 0 };
    assert_int_equal(needed % LINE, 0);
    assert_int_equal(qg_infer_context_bytes(l.net, 0), 0);
    assert_int_equal(qg_infer_run(l.net, 3, x, y, context, needed), QG_INFER_OK);
    assert_int_equal(qg_infer_run(l.net, 3, x, y, context, needed - 1), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_run(l.net, 3, x, y, context + 8, needed), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_run(l.net, 3, x, y, NULL, needed), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_run(l.net, -1, x, y, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run(l.net, 1, NULL, y, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run(l.net, 1, x, NULL, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run(NULL, 1, x, y, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run(l.net, 0, NULL, NULL, NULL, 0), QG_INFER_OK);
    assert_int_equal(qg_infer_run_bytes(NULL, 1, raw, y, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run_bytes(l.net, 1, NULL, y, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run_bytes(l.net, 1, raw, NULL, context, needed), QG_INFER_EARG);
    assert_int_equal(qg_infer_run_bytes(l.net, 1, raw, y, NULL, needed), QG_INFER_EMEMORY);
    assert_int_equal(qg_infer_run_observed(NULL, 1, x, y, context, needed, NULL, NULL), QG_INFER_EARG);
    assert_int_equal(qg_infer_run_observed(l.net, 1, NULL, y, context, needed, NULL, NULL), QG_INFER_EARG);
    assert_int_equal(qg_infer_run_observed(l.net, 1, x, y, context, needed, NULL, NULL), QG_INFER_OK);
    free(context), free(l.memory);
}

/* Rows with zero points need version 2. */
static void zero_points_are_checked(void **state)
{
    static const float       ab[] = { 1, 1, 1, 0, 0, 0 },
                             w[] = { 2, 0, 1, /* of the second row */ 0, 2, 2, 1, 1, 0 };
    static const packed_step one  = {
        { .kind = QG__PRODUCT, .z = -1, .h = 1, .w = 1, .c = 2, .oh = 1, .ow = 1, .oc = 3, .kh = 1, .kw = 1, .stride = 1, .groups = 1,
           .w_step = 1, .w_count = 3, .w_bits = 2, .w_zeros = 1 }, ab, w, NULL };
    static const change changes[] = {
        { -1, 8, 2, QG_INFER_OK }, { -1, 8, 1, QG_INFER_EFORMAT }, { -1, 8, 3, QG_INFER_EVERSION },
        { 0, FIELD(w_zeros), 0, QG_INFER_EFORMAT }, { 0, FIELD(w_zeros), 2, QG_INFER_EFORMAT }, { 0, FIELD(w_zeros), -1, QG_INFER_EFORMAT },
        { 0, FIELD(two_sided), 1, QG_INFER_EFORMAT }, { 0, FIELD(w_lowest), -1, QG_INFER_EFORMAT }, { 0, FIELD(w_step), 2, QG_INFER_EFORMAT },
        { 0, FIELD(w_count), 2, QG_INFER_EFORMAT }, { 0, FIELD(w_count), 4, QG_INFER_OK }, { 0, FIELD(w_count), 0, QG_INFER_EFORMAT },
        { 0, sizeof(qg__packed_step), 1, QG_INFER_EFORMAT },
    };
    const packed_net net = { 1, 1, 2, 0, NULL, 1, &one, 0, NULL };
    size_t           n;
    uint8_t         *file = packed_file(&net, &n), *copy = malloc(n);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        memcpy(copy, file, n);
        packed_put(copy + (c->step < 0 ? 0 : packed_record(c->step)) + c->at, (uint32_t)c->value);
        packed_seal(copy, n);
        if (status_of(copy, n) != c->status)
            fail_msg("change %d: %s", (int)i, qg_infer_message(status_of(copy, n)));
    }
    const size_t rows = packed_record(1) + sizeof ab;       /* three rows of 6 bits */
    memcpy(copy, file, n);
    copy[rows] |= 3;                                        /* the zero point is no code */
    packed_seal(copy, n);
    assert_int_equal(status_of(copy, n), QG_INFER_EFORMAT);
    free(copy), free(file);

    loaded      l = load(&net);
    const float x[] = { 1, 10 };
    float       y[3];
    void       *context = lines(qg_infer_context_bytes(l.net, 1));
    assert_int_equal(qg_infer_run(l.net, 1, x, y, context, qg_infer_context_bytes(l.net, 1)), QG_INFER_OK);
    assert_true(y[0] == -12 && y[1] == 22 && y[2] == -10);      /* (0 - 2) 1 + (1 - 2) 10, .. */
    free(context), free(l.memory);
}

/* --- what a net says --------------------------------------------------------------------------------- */

static void the_net_describes_itself(void **state)
{
    set_variable("QGRAD_PRODUCTS", "bits");
    loaded               l  = load(&small);
    const qg_infer_shape in = qg_infer_input(l.net);
    assert_true(in.h == 4 && in.w == 5 && in.c == 2);
    assert_int_equal(qg_infer_scores(l.net), 3);
    assert_string_equal(qg_infer_note(l.net, "class-names"), "zero/one/two");
    assert_string_equal(qg_infer_note(l.net, "name"), "h\xC3\xA9");
    assert_string_equal(qg_infer_note(l.net, "empty"), "");
    assert_null(qg_infer_note(l.net, "zero/one/two"));
    assert_null(qg_infer_note(l.net, ""));
    assert_null(qg_infer_note(l.net, NULL));
    assert_int_equal(qg_infer_steps(l.net), STEPS);
    assert_string_equal(qg_infer_step_name(l.net, 0), "conv1");
    assert_string_equal(qg_infer_step_name(l.net, STEPS - 1), "fc");
    assert_string_equal(qg_infer_step_kind(l.net, 0), "product, 1 bit x floats");
    assert_string_equal(qg_infer_step_kind(l.net, 1), "maxpool");
    assert_string_equal(qg_infer_step_kind(l.net, 2), "product, 2 x 1 bits, as bits");
    assert_string_equal(qg_infer_step_kind(l.net, STEPS - 1), "product, floats");
    assert_null(qg_infer_step_name(l.net, STEPS));
    assert_null(qg_infer_step_kind(l.net, -1));
    assert_true(qg_infer_weight_bytes(l.net) > 0 && qg_infer_images_at_once(l.net) >= 1);
    for (int s = QG_INFER_OK; s <= QG_INFER_ENAN + 1; s++)
        assert_true(strlen(qg_infer_message((qg_infer_status)s)) > 5);
    free(l.memory);
}

/* Weights of common widths take at most 1.2 times the bytes of the file. */
static void weights_stay_packed(void **state)
{
    static const qg__codes w[] = { { -1, 2, 2 }, { -1, 1, 3 }, { -3, 2, 4 }, { -127, 1, 255 } };
    enum { C = 128, ROW = 9 * C };
    float *values = calloc(C * ROW, sizeof *values), *ab = calloc(2 * C, sizeof *ab);
    assert_non_null(values), assert_non_null(ab);
    for (int path = 0; path <= (int)widest_path(); path++)
        for (size_t i = 0; i < sizeof w / sizeof *w; i++)
            for (int coded = 0; coded < 2; coded++) {
                use_path(path);
                for (int k = 0; k < C * ROW; k++)
                    values[k] = (float)(w[i].lowest + w[i].step * (k % w[i].count));
                int bits = 1;
                while (1 << bits < w[i].count) bits++;
                const qg__product p = { .groups = 1, .x = { -1, 2, 2 }, .w = w[i] };
                packed_step step[2] = {
                    { { .kind = QG__QUANTIZE, .z = -1, .h = 3, .w = 3, .c = C, .oh = 3, .ow = 3, .oc = C, .coding = (int32_t)qg__product_coding(&p),
                        .q_lowest = -1, .q_step = 2, .q_count = 2 }, ab, NULL, NULL },
                    { { .kind = QG__PRODUCT, .x = coded, .z = -1, .h = 3, .w = 3, .c = C, .oh = 1, .ow = 1, .oc = C, .kh = 3, .kw = 3, .stride = 1,
                        .groups = 1, .w_lowest = w[i].lowest, .w_step = w[i].step, .w_count = w[i].count, .w_bits = bits }, ab, values, NULL },
                };
                loaded l = load(&(packed_net){ 3, 3, C, 0, NULL, coded + 1, step + !coded, 0, NULL });
                const double file = (double)packed_row_bytes(&step[1].r) * C;
                assert_true((double)qg_infer_weight_bytes(l.net) <= 1.2 * file);
                free(l.memory);
            }
    free(values), free(ab);
}

/* --- running ------------------------------------------------------------------------------------------ */

static void bytes_are_normalised(void **state)
{
    loaded       l = load(&small);
    const size_t bytes = qg_infer_context_bytes(l.net, 2);
    uint8_t      raw[2 * IMAGE];
    float        x[2 * IMAGE], by_hand[6], by_engine[6];
    void        *context = lines(bytes);
    for (int i = 0; i < 2 * IMAGE; i++) {
        raw[i] = (uint8_t)(37 * i);
        x[i]   = ((float)raw[i] / 255.0f - normal[i % 2]) / normal[2 + i % 2];
    }
    assert_int_equal(qg_infer_run(l.net, 2, x, by_hand, context, bytes), QG_INFER_OK);
    assert_int_equal(qg_infer_run_bytes(l.net, 2, raw, by_engine, context, bytes), QG_INFER_OK);
    assert_memory_equal(by_hand, by_engine, sizeof by_hand);
    free(context), free(l.memory);

    packed_net plain    = small;
    plain.normal        = 0;
    plain.normalisation = NULL;
    l                   = load(&plain);
    context             = lines(bytes);
    assert_int_equal(qg_infer_run_bytes(l.net, 2, raw, by_engine, context, bytes), QG_INFER_EARG);
    free(context), free(l.memory);
}

/* Neither loads nor runs. */
static void another_rounding_is_refused(void **state)
{
    loaded       l     = load(&small);
    const size_t bytes = qg_infer_context_bytes(l.net, 1);
    float        x[IMAGE] = { 0 }, y[3];
    void        *context = lines(bytes);
    size_t       n, size;
    uint8_t     *file = packed_file(&small, &n), *memory;
    assert_int_equal(qg_infer_size(file, n, &size), QG_INFER_OK);
    memory = lines(size);
    for (int i = 0; i < FLOAT_MODES; i++) {
        const qg_infer *net;
        set_float_mode(i);
        const qg_infer_status loads = qg_infer_load(file, n, memory, size, &net);
        const qg_infer_status runs  = qg_infer_run(l.net, 1, x, y, context, bytes);
        set_float_mode(-1);
        assert_int_equal(loads, QG_INFER_EMODE);
        assert_int_equal(runs, QG_INFER_EMODE);
        assert_int_equal(qg_infer_run(l.net, 1, x, y, context, bytes), QG_INFER_OK);
    }
    free(context), free(memory), free(file), free(l.memory);
}

/* Wherever it is, in the first image or in a later group of them. */
static void images_must_be_finite(void **state)
{
    static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY },
                       good[] = { FLT_MAX, -FLT_MAX, 0x1p-149f, -0.0f };
    loaded       l = load(&small);
    const int    n = qg_infer_images_at_once(l.net) + 2, all = n * IMAGE;
    const size_t bytes = qg_infer_context_bytes(l.net, n);
    float       *x = calloc((size_t)all, sizeof *x), *y = calloc((size_t)n * 3, sizeof *y);
    void        *context = lines(bytes);
    assert_non_null(x), assert_non_null(y);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 5; k++) {
            const int at = k < 3 ? k * (all - 1) / 2 : (k - 3) * 17 + IMAGE - 1;
            x[at]        = bad[i];
            assert_int_equal(qg_infer_run(l.net, n, x, y, context, bytes), QG_INFER_ENAN);
            assert_int_equal(qg_infer_run_observed(l.net, n, x, y, context, bytes, NULL, NULL),
                             QG_INFER_ENAN);
            x[at] = good[i];
            assert_int_equal(qg_infer_run(l.net, n, x, y, context, bytes), QG_INFER_OK);
            x[at] = 0;
        }
    free(x), free(context), free(l.memory);

    /* Bytes that are not finite once they are normalised: 0 is, and 1 is not. */
    static const float tiny[] = { 0.0f, 0.0f, 0x1p-149f, 1.0f };
    packed_net         steep = small;
    uint8_t            raw[IMAGE] = { 0 };
    steep.normalisation = tiny;
    l                   = load(&steep);
    context             = lines(bytes);
    assert_int_equal(qg_infer_run_bytes(l.net, 1, raw, y, context, bytes), QG_INFER_OK);
    raw[IMAGE - 2] = 1;
    assert_int_equal(qg_infer_run_bytes(l.net, 1, raw, y, context, bytes), QG_INFER_ENAN);
    free(y), free(context), free(l.memory);
}

static void count_steps(void *user, int step)
{
    int *seen = user;
    assert_int_equal(*seen % STEPS, step);
    ++*seen;
}

static void steps_are_observed_in_order(void **state)
{
    loaded       l = load(&small);
    const int    n = qg_infer_images_at_once(l.net) + 1;
    const size_t bytes = qg_infer_context_bytes(l.net, n);
    float       *x = calloc((size_t)n * IMAGE, sizeof *x), *y = calloc((size_t)n * 3, sizeof *y), alone[3];
    void        *context = lines(bytes);
    int          seen = 0;
    assert_non_null(x), assert_non_null(y);
    for (int i = 0; i < n * IMAGE; i++) x[i] = qg_uniform(1, (uint64_t)i) - 0.5f;
    assert_int_equal(qg_infer_run_observed(l.net, n, x, y, context, bytes, count_steps, &seen), QG_INFER_OK);
    assert_int_equal(seen, 2 * STEPS);      /* a group and one image more */
    /* Images do not depend on the group that they are in. */
    for (int i = 0; i < n; i += 7) {
        assert_int_equal(qg_infer_run(l.net, 1, x + i * IMAGE, alone, context, bytes), QG_INFER_OK);
        assert_memory_equal(alone, y + 3 * i, sizeof alone);
    }
    free(x), free(y), free(context), free(l.memory);
}

/* --- threads -------------------------------------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 50, BATCH = 5 };

typedef struct job {
    const qg_infer *net;
    const float    *x, *expected;
    bool            same;
} job;

static void *run_rounds(void *user)
{
    job         *j = user;
    const size_t bytes = qg_infer_context_bytes(j->net, BATCH);
    void        *context = aligned_alloc(LINE, bytes);
    float        y[3 * BATCH];
    j->same = context != NULL;
    for (int i = 0; j->same && i < ROUNDS; i++)
        j->same = !qg_infer_run(j->net, BATCH, j->x, y, context, bytes) && !memcmp(y, j->expected, sizeof y);
    free(context);
    return NULL;
}

static void threads_share_a_net(void **state)
{
    loaded    l = load(&small);
    float     x[THREADS][BATCH * IMAGE], expected[THREADS][3 * BATCH];
    job       jobs[THREADS];
    pthread_t thread[THREADS];
    const size_t bytes = qg_infer_context_bytes(l.net, BATCH);
    void        *context = lines(bytes);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < BATCH * IMAGE; i++) x[t][i] = qg_uniform((uint64_t)t, (uint64_t)i) - 0.5f;
        assert_int_equal(qg_infer_run(l.net, BATCH, x[t], expected[t], context, bytes), QG_INFER_OK);
        jobs[t] = (job){ l.net, x[t], expected[t], false };
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, run_rounds, &jobs[t]), 0);
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(thread[t], NULL), 0);
        assert_true(jobs[t].same);
    }
    free(context), free(l.memory);
}

#define WITH_PATHS(test) cmocka_unit_test_teardown(test, restore_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(zero_points_are_checked),
        cmocka_unit_test(a_file_has_16384_steps_at_most),
        cmocka_unit_test(values_are_at_most_so_many),
        cmocka_unit_test(illegal_numbers_are_refused),
        cmocka_unit_test(illegal_rows_and_texts_are_refused),
        cmocka_unit_test(refuses_products_that_are_too_large),
        cmocka_unit_test(memory_is_checked),
        WITH_PATHS(the_net_describes_itself),
        WITH_PATHS(weights_stay_packed),
        cmocka_unit_test(bytes_are_normalised),
        cmocka_unit_test(another_rounding_is_refused),
        cmocka_unit_test(images_must_be_finite),
        cmocka_unit_test(steps_are_observed_in_order),
        cmocka_unit_test(threads_share_a_net),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
