#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/safetensors.h"
#include "core/io/state.h"
#include "tests/support/bytes.h"
#include "tests/support/foreign.h"
#include "tests/support/room.h"
#include "tests/support/small_state.h"

#define TRAILING_DATA "tests/golden/safetensors/05_trailing_data"

/* One array per type, of awkward sizes, an empty one, a scalar and one of every dimension. */
enum { ARRAYS = 13, ARRAY_BYTES = 65 * 8 };

static qg_state *all_types(unsigned char data[ARRAYS][ARRAY_BYTES])
{
    static const qg_dtype dtypes[] = {
#define X(code, text, bytes) code,
        QG_DTYPE_LIST(X)
#undef X
    };
    static const size_t sizes[] = { 1, 3, 31, 33, 63, 65, 64, 2, 5, 7 };
    qg_state           *s       = qg_state_new();
    for (int i = 0; i < 10; i++)
        qg_state_add(s, qg__dtype_name(dtypes[i]), array_of(dtypes[i], data[i], sizes[i]));
    qg_state_add(s, "empty", (qg_array){ QG_F32, 3, { 3, 0, 31 }, NULL });
    qg_state_add(s, "scalar", (qg_array){ QG_F64, 0, { 0 }, data[11] });
    qg_state_add(s, "", (qg_array){ QG_U8, 8, { 1, 2, 3, 1, 1, 5, 1, 2 }, data[12] });
    return s;
}

static void round_trip_of_every_type(void **state)
{
    static _Alignas(8) unsigned char out[ARRAYS][ARRAY_BYTES], in[ARRAYS][ARRAY_BYTES];
    for (size_t i = 0; i < ARRAYS; i++)
        for (size_t k = 0; k < ARRAY_BYTES; k++)
            out[i][k] = (unsigned char)((i * ARRAY_BYTES + k) * 2654435761u >> 7 | 1);
    memset(in, 0, sizeof in);
    qg_state *from = all_types(out), *to = all_types(in);
    qg_state_set_note(from, "text", "\"quoted\"\n\ttab \\ \x1F \x7F caf\xC3\xA9 \xF0\x9D\x84\x9E /");
    qg_state_set_note(from, "", "no key");
    qg_state_set_note(from, "epoch", "1");
    qg_state_set_note(from, "epoch", "2");
    qg_state_set_note(to, "stale", "goes away");
    assert_int_equal(qg_state_save(from, in_room("a")), QG_OK);
    assert_int_equal(qg_state_load(to, in_room("a")), QG_OK);
    assert_string_equal(qg_state_find_note(to, "text"), qg_state_find_note(from, "text"));
    assert_string_equal(qg_state_find_note(to, ""), "no key");
    assert_string_equal(qg_state_find_note(to, "epoch"), "2");
    assert_null(qg_state_find_note(to, "stale"));

    /* Exactly the bytes of the arrays arrived: saved again they give the same file, and what lies
     * behind each array is still zero. */
    unsigned char *first, *second;
    size_t         n, m;
    assert_int_equal(qg_state_save(to, in_room("b")), QG_OK);
    read_all(in_room("a"), &first, &n);
    read_all(in_room("b"), &second, &m);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
    free(first);
    free(second);

    qg_archive *a = qg_archive_open(in_room("a"));
    assert_non_null(a);
    const qg_named_array *e = qg_archive_entries(a, &n);
    assert_int_equal(n, ARRAYS);
    for (size_t i = 0; i < n; i++) assert_true(e[i].viewable);
    assert_memory_equal(qg_archive_find(a, "scalar")->array.data, out[11], 8);
    assert_memory_equal(in[11], out[11], 8);
    assert_int_equal(in[11][8], 0);
    assert_int_equal(in[0][3], out[0][3]);      /* F32 [1] */
    assert_int_equal(in[0][4], 0);
    assert_int_equal(qg_archive_find(a, "")->array.dims[5], 5);
    assert_int_equal(qg_archive_find(a, "empty")->array.dims[2], 31);
    qg_archive_free(a);
    qg_state_free(from);
    qg_state_free(to);
}

static void bytes_are_canonical(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"qgrad-checksum\":\"qgrad-hash64 e1a1937609f51926 0fd29d8914f1466b\","
        "\"a\":\"\\u001f\\n\\\"\",\"b\":\"/\"},"
        "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"B\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
        "\"a\":{\"dtype\":\"U32\",\"shape\":[1],\"data_offsets\":[16,20]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[20,20]},"
        "\"h\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[20,22]},"
        "\"a.b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[22,25]}}";
    static const char data[] = "\1\0\0\0\0\0\0\200"       /* step */
                               "\0\0\200\77\0\0\0\300"    /* B */
                               "\4\3\2\1\376\377"         /* a, h */
                               "\0\1\377";                 /* a.b */
    const size_t      padded = (sizeof header - 1 + 7) / 8 * 8;
    const size_t      total  = 8 + padded + sizeof data - 1;
    unsigned char     golden[1024];
    memset(golden, ' ', sizeof golden);
    put_u64(golden, padded);
    memcpy(golden + 8, header, sizeof header - 1);
    memcpy(golden + 8 + padded, data, sizeof data - 1);

    int64_t  step  = INT64_MIN + 1;
    float    f[2]  = { 1, -2 };
    uint32_t u     = 0x01020304;
    int16_t  h     = -2;
    int8_t   b[3]  = { 0, 1, -1 };
    const struct {
        const char *name;
        qg_array    array;
    } list[] = {
        { "a", { QG_U32, 1, { 1 }, &u } },      { "a.b", { QG_I8, 1, { 3 }, b } },
        { "none", { QG_F32, 1, { 0 }, NULL } }, { "B", { QG_F32, 2, { 1, 2 }, f } },
        { "h", { QG_I16, 1, { 1 }, &h } },      { "step", { QG_I64, 0, { 0 }, &step } },
    };
    for (size_t start = 0; start < 6; start++) {
        qg_state *s = qg_state_new();
        qg_state_set_note(s, start % 2 ? "a" : "b", start % 2 ? "\x1F\n\"" : "/");
        for (size_t i = 0; i < 6; i++) {
            const size_t k = (start + i * 5) % 6;
            qg_state_add(s, list[k].name, list[k].array);
        }
        qg_state_set_note(s, start % 2 ? "b" : "a", start % 2 ? "/" : "\x1F\n\"");
        assert_int_equal(qg_state_save(s, in_room("a")), QG_OK);
        unsigned char *bytes;
        size_t         n;
        read_all(in_room("a"), &bytes, &n);
        assert_int_equal(n, total);
        assert_memory_equal(bytes, golden, n);
        free(bytes);
        qg_state_free(s);
    }
}

static void empty_state(void **state)
{
    qg_state *s = qg_state_new();
    assert_int_equal(qg_state_save(s, in_room("a")), QG_OK);
    unsigned char *bytes;
    size_t         n;
    read_all(in_room("a"), &bytes, &n);
    static const char golden[] = "\130\0\0\0\0\0\0\0{\"__metadata__\":{\"qgrad-checksum\":\"qgrad-hash64 "
                                 "60dd354d774a0db9 cbf29ce484222325\"}}    ";
    assert_int_equal(n, sizeof golden - 1);
    assert_memory_equal(bytes, golden, n);
    free(bytes);
    assert_int_equal(qg_state_load(s, in_room("a")), QG_OK);
    qg_state_free(s);
}

/* One message tells every difference, and a failed load changes nothing. */
static void mismatches_are_listed(void **state)
{
    static float w[32 * 25], other[32 * 25];
    double       d[3] = { 1, 2, 3 };
    qg_state    *s    = qg_state_new();
    for (size_t i = 0; i < 32 * 25; i++) w[i] = 1;
    qg_state_add(s, "conv1.weight", (qg_array){ QG_F32, 4, { 32, 5, 5, 1 }, w });
    qg_state_add(s, "fits", array_of(QG_F32, w, 3));
    qg_state_add(s, "bn.mean", array_of(QG_F64, d, 3));
    qg_state_add(s, "rank", (qg_array){ QG_F32, 2, { 3, 1 }, w });
    qg_state_add(s, "extra", array_of(QG_F32, w, 1));
    assert_int_equal(qg_state_save(s, in_room("a")), QG_OK);
    qg_state_free(s);

    s = qg_state_new();
    qg_state_add(s, "conv1.weight", (qg_array){ QG_F32, 4, { 20, 5, 5, 1 }, other });
    qg_state_add(s, "fits", array_of(QG_F32, other, 3));
    qg_state_add(s, "bn.mean", array_of(QG_F32, other, 3));
    qg_state_add(s, "rank", array_of(QG_F32, other, 3));
    qg_state_add(s, "fc.bias", array_of(QG_F32, other, 10));
    qg_state_set_note(s, "mine", "stays");
    assert_int_equal(qg_state_load(s, in_room("a")), QG_ESHAPE);
    char expected[512];
    snprintf(expected, sizeof expected,
             "'%s' does not fit: bn.mean: file F64 [3], expected F32 [3]; "
             "conv1.weight: file [32,5,5,1], expected [20,5,5,1]; extra: only in the file; "
             "fc.bias: missing in the file; rank: file [3,1], expected [3]", in_room("a"));
    assert_string_equal(qg_errmsg(), expected);
    for (size_t i = 0; i < 32 * 25; i++) assert_true(other[i] == 0);
    assert_string_equal(qg_state_find_note(s, "mine"), "stays");
    qg_state_free(s);
}

static void long_lists_of_mismatches_are_cut(void **state)
{
    qg_state *empty = qg_state_new(), *s = qg_state_new();
    assert_int_equal(qg_state_save(empty, in_room("a")), QG_OK);
    char  name[600];
    float x = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "%02d.weight", i);
        qg_state_add(s, name, array_of(QG_F32, &x, 1));
    }
    assert_int_equal(qg_state_load(s, in_room("a")), QG_ESHAPE);
    const size_t length = strlen(qg_errmsg());
    assert_in_range(length, 1900, 2047);
    unsigned last, more;
    const char *semicolon = strrchr(qg_errmsg(), ';');
    assert_int_equal(sscanf(semicolon, "; and %u more", &more), 1);
    assert_string_equal(semicolon + strlen(semicolon) - 5, " more");
    while (*--semicolon != ';') continue;
    assert_int_equal(sscanf(semicolon, "; %u.weight: missing", &last), 1);
    assert_int_equal(last + 1 + more, 100);
    qg_state_free(s);

    /* The longest line there is: a name that is cut and two shapes of 20-digit numbers. */
    const size_t h    = SIZE_MAX;
    qg_array     wide = { QG_F32, 8, { 0, h, h, h, h, h, h, h }, NULL };
    s                 = qg_state_new();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    qg_state_add(s, name, wide);
    assert_int_equal(qg_state_save(s, in_room("a")), QG_OK);
    qg_state_free(s);
    s = qg_state_new();
    wide.dtype   = QG_F64;
    wide.dims[7] = 9;
    qg_state_add(s, name, wide);
    assert_int_equal(qg_state_load(s, in_room("a")), QG_ESHAPE);
    assert_non_null(strstr(qg_errmsg(), "18446744073709551615,9]"));
    qg_state_free(s);
    qg_state_free(empty);
}

/* The first failure stays, whatever follows, and save and load tell it. */
static void assert_sticks(qg_state *s, qg_status added, const char *reason)
{
    assert_int_equal(added, QG_EARG);
    qg_fail(QG_ENAN, "another failure in between");
    assert_int_equal(qg_state_set_note(s, "k", "v"), QG_EARG);
    assert_null(qg_state_find_note(s, "k"));
    assert_int_equal(qg_state_save(s, in_room("b")), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), reason));
    qg_fail(QG_ENAN, "another failure in between");
    assert_int_equal(qg_state_load(s, in_room("a")), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), reason));
    qg_state_free(s);
}

static void bad_arrays_stick(void **state)
{
    float           x = 0;
    const qg_array  one = array_of(QG_F32, &x, 1);
    qg_state       *s = qg_state_new();
    assert_int_equal(qg_state_add(s, "twice", one), QG_OK);
    assert_sticks(s, qg_state_add(s, "twice", one), "'twice' is added twice");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "__metadata__", one), "__metadata__");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "\xFF", one), "UTF-8");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "w", (qg_array){ .rank = 9, .data = &x }), "rank 9");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "w", (qg_array){ .rank = -1, .data = &x }), "rank -1");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "w", array_of((qg_dtype)99, &x, 1)), "99");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "w", array_of(QG_F32, NULL, 1)), "'w' has no data");
    s = qg_state_new();
    assert_sticks(s, qg_state_add(s, "w", array_of(QG_F32, &x, SIZE_MAX / 2)), "'w' is larger");
    s = qg_state_new();
    assert_sticks(s, qg_state_set_note(s, "key", "\xC3"), "'key' is not UTF-8");
    s = qg_state_new();
    assert_sticks(s, qg_state_set_note(s, NULL, "v"), "no key");
    s = qg_state_new();
    assert_sticks(s, qg_state_set_note(s, "key", "qgrad-hash64 0"), "as only a checksum may");
}

static void null_state(void **state)
{
    qg_state *s = qg_state_new();
    assert_null(qg_state_find_note(s, NULL));
    qg_state_free(s);
    qg__state_fail(NULL, QG_EARG);
    qg_fail(QG_ENAN, "the first failure");
    assert_int_equal(qg_state_add(NULL, "w", array_of(QG_F32, NULL, 0)), QG_EMEM);
    assert_int_equal(qg_state_set_note(NULL, "k", "v"), QG_EMEM);
    assert_int_equal(qg_state_save(NULL, in_room("a")), QG_EMEM);
    assert_int_equal(qg_state_load(NULL, in_room("a")), QG_EMEM);
    assert_null(qg_state_find_note(NULL, "k"));
    qg_state_free(NULL);
    qg_archive_free(NULL);
    assert_null(qg_archive_find(NULL, "w"));
    assert_null(qg_archive_noted(NULL, "k"));
    size_t n = 1;
    assert_null(qg_archive_entries(NULL, &n));
    assert_int_equal(n, 0);
    assert_string_equal(qg_errmsg(), "state: it is NULL; the last failure was: the first failure");
}

/* A terabyte that the header describes, and no state asks for: reading it would be QG_EMEM. */
static void a_huge_file_that_does_not_fit_is_refused_by_its_header(void **state)
{
    static const char header[] = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}";
    const char       *path     = in_room("huge");
    unsigned char     prefix[8];
    float             x = 3;
    FILE             *f = fopen(path, "wb");
    assert_non_null(f);
    put_u64(prefix, sizeof header - 1);
    assert_int_equal(fwrite(prefix, 1, sizeof prefix, f), sizeof prefix);
    assert_int_equal(fwrite(header, 1, sizeof header - 1, f), sizeof header - 1);
    assert_int_equal(fclose(f), 0);
    if (truncate(path, (off_t)(sizeof prefix + sizeof header - 1) + ((off_t)1 << 40))) skip();
    qg_state *s = qg_state_new();
    qg_state_add(s, "w", array_of(QG_F32, &x, 1));
    assert_int_equal(qg_state_load(s, path), QG_ESHAPE);
    assert_non_null(strstr(qg_errmsg(), "file U8 [1099511627776], expected F32 [1]"));
    qg_state_free(s);
}

static void bad_paths(void **state)
{
    float     x = 3;
    qg_state *s = qg_state_new();
    qg_state_add(s, "x", array_of(QG_F32, &x, 1));
    assert_int_equal(qg_state_load(s, in_room("missing")), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), in_room("missing")));
    assert_int_equal(qg_state_load(s, room), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), room));
    assert_int_equal(qg_state_load(s, TRAILING_DATA), QG_EFORMAT);
    assert_non_null(strstr(qg_errmsg(), TRAILING_DATA));
    assert_int_equal(qg_state_save(s, room), QG_EIO);
    assert_int_equal(qg_state_save(s, in_room("missing/a")), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), in_room("missing/a")));
    assert_null(qg_archive_open(in_room("missing")));
    assert_non_null(strstr(qg_errmsg(), in_room("missing")));
    assert_true(x == 3);
    qg_state_free(s);
}

static void failed_save_keeps_the_old_file(void **state)
{
    save_small(in_room("a"));
    unsigned char *before, *after;
    size_t         n, m;
    read_all(in_room("a"), &before, &n);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit small = { .rlim_cur = 8, .rlim_max = limit.rlim_max };
    void (*handler)(int)      = signal(SIGXFSZ, SIG_IGN);
    qg_state *s               = qg_state_new();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const qg_status status = qg_state_save(s, in_room("a"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, QG_EIO);
    assert_non_null(strstr(qg_errmsg(), in_room("a")));
    qg_state_free(s);

    float x[3] = { 1, 2, INFINITY };            /* nobody could load it again */
    s          = qg_state_new();
    qg_state_add(s, "w", array_of(QG_F32, x, 3));
    assert_int_equal(qg_state_save(s, in_room("a")), QG_ENAN);
    assert_non_null(strstr(qg_errmsg(), "/a': w has the value inf, at 2 of 3"));
    qg_state_free(s);
    glob_t left;
    assert_int_equal(glob(in_room("*tmp"), 0, NULL, &left), GLOB_NOMATCH);
    read_all(in_room("a"), &after, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
}

/* --- the checksum ------------------------------------------------------------------------- */

/* The constants are from another implementation. */
static void the_hash_of_words_is_what_it_was(void **state)
{
    static const unsigned char b[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    assert_true(qg_hash_words(QG_HASH_BASIS, NULL, 0) == 0x29c87fb521c0cbc8u);
    assert_true(qg_hash_words(QG_HASH_BASIS, b, 1) == 0x00118a5390bae9dau);
    assert_true(qg_hash_words(QG_HASH_BASIS, b, 8) == 0x1bfb9e84b9b81581u);
    assert_true(qg_hash_words(QG_HASH_BASIS, b, 9) == 0x46e0f922bf97acd8u);
}

/* What save_small has saved, or what a load has made of it. */
typedef struct small {
    float     f[6];
    int8_t    i[3];
    qg_state *state;
} small;

static void begin_small(small *s)
{
    *s = (small){ .state = qg_state_new() };
    qg_state_add(s->state, "codes", array_of(QG_I8, s->i, 3));
    qg_state_add(s->state, "caf\xC3\xA9\"\n", (qg_array){ QG_F32, 2, { 2, 3 }, s->f });
    qg_state_set_note(s->state, "mine", "stays");
}

static void assert_small(const small *s)
{
    static const float  f[6] = { 1, -2, 3, 0.5f, 0, 65 };
    static const int8_t i[3] = { -1, 0, 1 };
    assert_memory_equal(s->f, f, sizeof f);
    assert_memory_equal(s->i, i, sizeof i);
    assert_string_equal(qg_state_find_note(s->state, "k"), "v\x01");
    assert_string_equal(qg_state_find_note(s->state, "empty"), "");
    assert_string_equal(qg_state_find_note(s->state, "lines"), "a\nb\\");
    assert_non_null(qg_state_find_note(s->state, QG_SAFETENSORS_CHECKSUM));
}

static void assert_untouched(const small *s)
{
    static const float  f[6] = { 0 };
    static const int8_t i[3] = { 0 };
    assert_memory_equal(s->f, f, sizeof f);
    assert_memory_equal(s->i, i, sizeof i);
    assert_string_equal(qg_state_find_note(s->state, "mine"), "stays");
    assert_null(qg_state_find_note(s->state, "k"));
}

static void load_the_flipped(const char *path, size_t *loaded)
{
    small s;
    begin_small(&s);
    const qg_status status = qg_state_load(s.state, path);
    qg_archive     *a      = qg_archive_open(path);
    assert_int_equal(a == NULL, status != QG_OK);
    qg_archive_free(a);
    if (status == QG_OK) assert_small(&s), ++*loaded;
    else assert_untouched(&s);
    if (status == QG_EFORMAT) assert_true(strstr(qg_errmsg(), "is damaged") || strstr(qg_errmsg(), "is malformed") ||
                                          strstr(qg_errmsg(), "is truncated"));
    else assert_int_equal(status, QG_OK);
    qg_state_free(s.state);
}

static void every_flipped_bit_is_noticed(void **state)
{
    unsigned char *bytes;
    size_t         n, loaded = 0;
    char           path[ROOM_BYTES];
    snprintf(path, sizeof path, "%s", in_room("a"));
    save_small(path);
    read_all(path, &bytes, &n);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        const off_t         at   = (off_t)(bit / 8);
        const unsigned char flip = (unsigned char)(bytes[at] ^ 1 << bit % 8);
        assert_int_equal(pwrite(file, &flip, 1, at), 1);
        load_the_flipped(path, &loaded);
        assert_int_equal(pwrite(file, bytes + at, 1, at), 1);
    }
    assert_int_equal(loaded, 0);
    close(file);
    free(bytes);
}

/* Other programs write no checksum. */
static void a_file_without_a_checksum_loads(void **state)
{
    small         s;
    unsigned char one = 1;
    save_small(in_room("a"));
    forget_checksum(in_room("a"));
    begin_small(&s);
    assert_int_equal(qg_state_load(s.state, in_room("a")), QG_OK);
    assert_true(s.f[5] == 65);
    assert_null(qg_state_find_note(s.state, QG_SAFETENSORS_CHECKSUM));
    qg_state_free(s.state);
    const int file = open(in_room("a"), O_RDWR | O_CLOEXEC);
    const off_t end = lseek(file, 0, SEEK_END);
    assert_int_equal(pwrite(file, &one, 1, end - 1), 1);
    close(file);
    begin_small(&s);
    assert_int_equal(qg_state_load(s.state, in_room("a")), QG_OK);
    qg_state_free(s.state);
}

/* All notes of a file may be copied; its checksum is not kept with other contents. */
static void a_copied_checksum_is_replaced(void **state)
{
    small s;
    save_small(in_room("a"));
    begin_small(&s);
    assert_int_equal(qg_state_load(s.state, in_room("a")), QG_OK);
    s.f[0] = 7;
    assert_int_equal(qg_state_set_note(s.state, "more", "x"), QG_OK);
    assert_int_equal(qg_state_set_note(s.state, "empty", NULL), QG_OK);
    assert_int_equal(qg_state_set_note(s.state, "empty", NULL), QG_OK);
    assert_null(qg_state_find_note(s.state, "empty"));
    assert_int_equal(qg_state_save(s.state, in_room("b")), QG_OK);
    s.f[0] = 0;
    assert_int_equal(qg_state_load(s.state, in_room("b")), QG_OK);
    assert_true(s.f[0] == 7);
    assert_string_equal(qg_state_find_note(s.state, "more"), "x");
    assert_string_equal(qg_state_find_note(s.state, "lines"), "a\nb\\");
    assert_null(qg_state_find_note(s.state, "empty"));
    qg_state_free(s.state);
}

/* One that no program could read again is not written. */
static void a_header_has_100_million_bytes_at_most(void **state)
{
    enum { MOST = 100000000 };
    char     *note = malloc(MOST + 1);
    qg_state *s    = qg_state_new();
    assert_true(note && s);
    memset(note, 'x', MOST);
    note[MOST] = '\0';
    assert_int_equal(qg_state_set_note(s, "long", note), QG_OK);
    assert_int_equal(qg_state_save(s, in_room("long")), QG_EARG);
    assert_non_null(strstr(qg_errmsg(), "its header has 10000"));
    assert_int_equal(access(in_room("long"), F_OK), -1);
    qg_state_free(s);
    free(note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_of_every_type),
        cmocka_unit_test(bytes_are_canonical),
        cmocka_unit_test(empty_state),
        cmocka_unit_test(mismatches_are_listed),
        cmocka_unit_test(long_lists_of_mismatches_are_cut),
        cmocka_unit_test(bad_arrays_stick),
        cmocka_unit_test(null_state),
        cmocka_unit_test(a_huge_file_that_does_not_fit_is_refused_by_its_header),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(failed_save_keeps_the_old_file),
        cmocka_unit_test(the_hash_of_words_is_what_it_was),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(a_file_without_a_checksum_loads),
        cmocka_unit_test(a_copied_checksum_is_replaced),
        cmocka_unit_test(a_header_has_100_million_bytes_at_most),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
