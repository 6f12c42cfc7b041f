#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "core/io/state.h"
#include "tests/support/bytes.h"
#include "tests/support/foreign.h"
#include "tests/support/room.h"
#include "tests/support/small_state.h"

#define GOLDEN "tests/golden/safetensors/"

static qg_status read_archive(const char *path, qg_archive **archive)
{
    *archive = qg_archive_open(path);
    return *archive ? QG_OK : qg_errcode();
}

/* The verdict on a file of n bytes. */
static qg_status parse(const void *bytes, size_t n, qg_archive **archive)
{
    static int file = -1;               /* rewritten in place: the tests below write tens of thousands */
    if (file < 0) file = open(in_room("parsed"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)n), 0);
    assert_int_equal(pwrite(file, bytes, n, 0), n);
    return read_archive(in_room("parsed"), archive);
}

/* A file of this header and the data bytes 0, 1, 2 ... */
static qg_status parse_header(const char *header, size_t data_bytes, qg_archive **archive)
{
    const size_t   length = strlen(header);
    unsigned char *bytes  = calloc(1, 8 + length + data_bytes);
    assert_non_null(bytes);
    put_u64(bytes, length);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) bytes[8 + length + i] = (unsigned char)i;
    const qg_status s = parse(bytes, 8 + length + data_bytes, archive);
    free(bytes);
    return s;
}

/* Reads everything an archive offers; volatile, so that no read is optimised away. */
static void touch(const qg_archive *a)
{
    volatile unsigned     sum = 0;
    size_t                n;
    const qg_named_array *e = qg_archive_entries(a, &n);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(qg_archive_find(a, e[i].name), &e[i]);
        const unsigned char *p = e[i].array.data;
        for (size_t k = 0; k < e[i].bytes; k++) sum = sum + p[k];
        if (e[i].viewable)
            assert_int_equal(e[i].bytes,
                             qg_array_count(&e[i].array) * qg__dtype_bytes(e[i].array.dtype));
    }
    const qg_note *notes = qg__archive_notes(a, &n);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(qg_archive_noted(a, notes[i].key), notes[i].value);
        sum = sum + (unsigned)strlen(notes[i].value);
    }
}

/* What the reference implementation says of each file; 21 alone is ours to reject. */
static const struct {
    const char *file;
    int         accept;
} verdicts[] = {
    { "00_ok", 1 },
    { "01_ok_empty_tensor", 1 },
    { "02_ok_scalar", 1 },
    { "03_ok_no_tensors", 1 },
    { "04_ok_trailing_spaces", 1 },
    { "05_trailing_data", 0 },
    { "06_hole", 0 },
    { "07_overlap", 0 },
    { "08_size_mismatch", 0 },
    { "09_end_before_begin", 0 },
    { "10_beyond_eof", 0 },
    { "11_negative_shape", 0 },
    { "12_overflow_shape", 0 },
    { "13_overflow_wrap_zero", 0 },
    { "14_float_shape", 0 },
    { "15_unknown_dtype", 0 },
    { "16_len_huge", 0 },
    { "17_len_gt_file", 0 },
    { "18_len_100MB+1", 0 },
    { "19_short7", 0 },
    { "20_len0", 0 },
    { "21_dup_key", 0 },
    { "22_dup_key_diff", 0 },
    { "23_meta_nonstring", 0 },
    { "24_meta_string", 1 },
    { "25_array_root", 0 },
    { "26_bad_utf8", 0 },
    { "27_leading_space", 1 },
    { "28_extra_field", 1 },
    { "29_missing_offsets", 0 },
    { "30_order_swapped_ok", 1 },
    { "31_F4_3elems", 0 },
    { "32_F4_4elems", 1 },
    { "33_deep_nesting", 0 },
    { "34_escaped_name", 1 },
    { "35_three_offsets", 0 },
    { "36_trailing_garbage_in_header", 0 },
    { "37_unaligned_header_ok", 1 },
};

static void verdicts_of_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
        char path[64];
        snprintf(path, sizeof path, GOLDEN "%s", verdicts[i].file);
        qg_archive     *a = NULL;
        const qg_status s = read_archive(path, &a);
        if (s != (verdicts[i].accept ? QG_OK : QG_EFORMAT))
            fail_msg("%s: %s", path, s ? qg_errmsg() : "accepted");
        if (s) {
            assert_null(a);
            assert_non_null(strstr(qg_errmsg(), path));
        } else {
            touch(a);
        }
        qg_archive_free(a);
    }
}

/* A file of so many bytes, most of them in a hole, whose header has this length and begins with "{}". */
static void assert_refuses_huge(off_t bytes, uint64_t length, const char *why)
{
    const char   *path      = "huge.safetensors.tmp";
    unsigned char start[10] = { [8] = '{', [9] = '}' };
    FILE         *f         = fopen(path, "wb");
    qg_archive   *a         = NULL;
    put_u64(start, length);
    assert_non_null(f);
    assert_int_equal(fwrite(start, 1, sizeof start, f), sizeof start);
    assert_int_equal(fclose(f), 0);
    const bool      sparse = truncate(path, bytes) == 0;
    const qg_status s      = read_archive(path, &a);
    remove(path);
    assert_null(a);
    if (sparse) assert_int_equal(s, QG_EFORMAT);
    if (sparse) assert_non_null(strstr(qg_errmsg(), why));
    if (!sparse) skip();
}

/* Asking for the memory of 4 TB would be QG_EMEM. */
static void a_huge_file_is_judged_by_its_header(void **state)
{
    assert_refuses_huge((off_t)1 << 42, 2, "its header describes 0");
}

static void a_huge_header_is_not_read(void **state)
{
    assert_refuses_huge(200000000, 100000001, "a header of 100000001 bytes in a file of 200000000");
}

#define TENSOR(name) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"
#define SHAPED(dtype, shape, end)                                                                  \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[0," end "]}}"
#define EXTRA(value)                                                                               \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"x\":" value ",\"data_offsets\":[0,0]}}"

static void accepted_headers(void **state)
{
    static const struct {
        const char *header;
        size_t      data_bytes;
    } good[] = {
        { " \t\r\n{ } \t\r\n", 0 },
        { "{\"__metadata__\":{}}", 0 },
        { "{" TENSOR("\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD834\\udd1e") "}", 1 },
        { "{" TENSOR("\x7F\xC3\xA9\xE2\x82\xAC\xED\x9F\xBF") "}", 1 },
        { "{" TENSOR("\xF0\x9D\x84\x9E\xF4\x8F\xBF\xBF") "}", 1 },
        { SHAPED("BOOL", "3", "3"), 3 },
        { SHAPED("BF16", "1,3", "6"), 6 },
        { SHAPED("F16", "3", "6"), 6 },
        { SHAPED("C64", "1", "8"), 8 },
        { SHAPED("F8_E4M3", "3", "3"), 3 },
        { SHAPED("F8_E5M2", "3", "3"), 3 },
        { SHAPED("F8_E8M0", "3", "3"), 3 },
        { SHAPED("F6_E2M3", "4", "3"), 3 },
        { SHAPED("F6_E3M2", "8", "6"), 6 },
        { SHAPED("F64", "1,1,1,1,1,1,1,1", "8"), 8 },
        { SHAPED("F64", "0,18446744073709551615", "0"), 0 },
        { SHAPED("U8", " 1 , 1 ", " 1 "), 1 },
        { EXTRA("[true,false,null,-0.5e+3,1E9,\"\\n\",{},[],{\"a\":[{\"b\":0}]}]"), 0 },
        { EXTRA("\"dtype\""), 0 },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        qg_archive *a = NULL;
        if (parse_header(good[i].header, good[i].data_bytes, &a))
            fail_msg("%s: %s", good[i].header, qg_errmsg());
        touch(a);
        qg_archive_free(a);
    }
}

static void rejected_headers(void **state)
{
    static const struct {
        const char *header;
        size_t      data_bytes;
        const char *reason;
    } bad[] = {
        { "", 0, "expected '{'" },
        { "{", 0, "expected '\"'" },
        { "{} {}", 0, "more text" },
        { "{" TENSOR("a") ",}", 1, "expected '\"'" },
        { "{" TENSOR("a") " " TENSOR("b") "}", 1, "expected '}'" },
        { "{" TENSOR("a") "," TENSOR("\\u0061") "}", 1, "" },
        { "{\"a\":" EXTRA("1") "}", 0, "missing" },
        { "{\"a\":null}", 0, "expected '{'" },
        { "{\"a\"=1}", 0, "expected ':'" },
        { "{\"__metadata__\":null}", 0, "expected '{'" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice" },
        { "{\"__metadata__\":{\"k\":\"1\",\"\\u006b\":\"1\"}}", 0, "'k' occurs twice" },
        { "{\"__metadata__\":{\"k\":null}}", 0, "expected '\"'" },
        { "{" TENSOR("a\\u0000b") "}", 1, "NUL" },
        { "{" TENSOR("\\uD834") "}", 1, "surrogate" },
        { "{" TENSOR("\\uD834\\u0041") "}", 1, "surrogate" },
        { "{" TENSOR("\\uDD1E\\uD834") "}", 1, "surrogate" },
        { "{" TENSOR("\\u00g0") "}", 1, "hexadecimal" },
        { "{" TENSOR("\\x41") "}", 1, "escape" },
        { "{" TENSOR("a\nb") "}", 1, "control character" },
        { "{" TENSOR("\xC0\x80") "}", 1, "UTF-8" },
        { "{" TENSOR("\xE0\x9F\xBF") "}", 1, "UTF-8" },
        { "{" TENSOR("\xED\xA0\x80") "}", 1, "UTF-8" },
        { "{" TENSOR("\xF0\x8F\xBF\xBF") "}", 1, "UTF-8" },
        { "{" TENSOR("\xF4\x90\x80\x80") "}", 1, "UTF-8" },
        { "{" TENSOR("\xC3") "}", 1, "UTF-8" },
        { "{\"a\":{}}\xE2\x82", 0, "UTF-8" },
        { "\xEF\xBB\xBF{}", 0, "expected '{'" },
        { "{\"a", 0, "unterminated" },
        { "{\"a\\", 0, "escape" },
        { "{\"a\\u00", 0, "hexadecimal" },
        { "{\"a\\uD834\\", 0, "surrogate" },
        { SHAPED("u8", "1", "1"), 1, "unknown dtype" },
        { SHAPED("U8", "01", "1"), 1, "whole number" },
        { SHAPED("U8", "+1", "1"), 1, "whole number" },
        { SHAPED("U8", "1e0", "1"), 1, "expected ']'" },
        { SHAPED("U8", "\"1\"", "1"), 1, "whole number" },
        { SHAPED("U8", "1,", "1"), 1, "whole number" },
        { SHAPED("U8", "18446744073709551616", "0"), 0, "number too large" },
        { SHAPED("U8", "18446744073709551615", "18446744073709551615"), 0, "shape too large" },
        { SHAPED("U8", "4294967296,4294967296,0", "0"), 0, "shape too large" },
        { SHAPED("U8", "1,1,1,1,1,1,1,1,1", "1"), 1, "more than 8 dimensions" },
        { SHAPED("F6_E2M3", "2", "1"), 1, "inside a byte" },
        { SHAPED("U8", "1", "1,1"), 1, "expected ']'" },
        { SHAPED("U8", "2", "2"), 1, "1 bytes of data" },
        { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "field occurs twice" },
        { EXTRA("tru"), 0, "expected a value" },
        { EXTRA("-"), 0, "expected a value" },
        { EXTRA("1."), 0, "expected a value" },
        { EXTRA("1e"), 0, "expected a value" },
        { EXTRA("01"), 0, "expected '}'" },
        { EXTRA("[1 2]"), 0, "expected ']'" },
        { EXTRA("{1:2}"), 0, "expected '\"'" },
        { EXTRA(""), 0, "expected a value" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qg_archive     *a = NULL;
        const qg_status s = parse_header(bad[i].header, bad[i].data_bytes, &a);
        if (s != QG_EFORMAT || a || !strstr(qg_errmsg(), bad[i].reason))
            fail_msg("%s: %s", bad[i].header, s ? qg_errmsg() : "accepted");
    }
}

static void nesting_is_bounded(void **state)
{
    for (int depth = 127; depth <= 129; depth++) {
        char brackets[2 * 129 + 1], header[512];
        memset(brackets, '[', (size_t)depth);
        memset(brackets + depth, ']', (size_t)depth);
        brackets[2 * depth] = '\0';
        snprintf(header, sizeof header,
                 "{\"a\":{\"x\":%s,\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                 brackets);
        qg_archive *a = NULL;
        assert_int_equal(parse_header(header, 0, &a), depth > 128 ? QG_EFORMAT : QG_OK);
        if (depth > 128) assert_non_null(strstr(qg_errmsg(), "nested too deep"));
        qg_archive_free(a);
    }
}

/* Data whose place in the file does not suit its type is still aligned in the view. */
static void views_are_aligned(void **state)
{
    qg_archive *a = NULL;
    const char *header = "{\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                         "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[3,19]},"
                         "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[19,19]},"
                         "\"a\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[19,21]},"
                         "\"d\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[21,23]}}";
    assert_int_equal(parse_header(header, 23, &a), QG_OK);
    size_t                n;
    const qg_named_array *e = qg_archive_entries(a, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(e[i].name[0], 'a' + (int)i);      /* sorted by name */
        const unsigned char *p = e[i].array.data;
        for (size_t k = 0; k < e[i].bytes; k++) assert_int_equal(p[k], e[i].offset + k);
    }
    assert_int_equal((uintptr_t)e[0].array.data % 2, 0);
    assert_int_equal((uintptr_t)e[1].array.data % 8, 0);
    assert_null(e[4].array.data);
    assert_false(e[3].viewable);
    assert_string_equal(e[3].dtype, "BF16");
    assert_true(*(int64_t *)e[1].array.data == 0x0A09080706050403);
    assert_null(qg_archive_find(a, "f"));
    assert_null(qg_archive_noted(a, "a"));
    qg_archive_free(a);
}

static void every_truncation_is_rejected(void **state)
{
    unsigned char *bytes;
    size_t         n;
    save_small(in_room("a"));
    read_all(in_room("a"), &bytes, &n);
    for (size_t cut = 0; cut < n; cut++) {
        qg_archive *a = NULL;
        assert_int_equal(parse(bytes, cut, &a), QG_EFORMAT);
        assert_null(a);
    }
    qg_archive *a = NULL;
    assert_int_equal(parse(bytes, n, &a), QG_OK);
    qg_archive_free(a);
    free(bytes);
}

/* What happens to a file between its first bytes and its header. */
static const char *newer;               /* renamed over it */
static off_t       shorter;             /* or it is cut to this length */
static int         takes;

qg_status __real_qg__reader_take(qg_reader *r, size_t n, void *to);
qg_status __wrap_qg__reader_take(qg_reader *r, size_t n, void *to);

qg_status __wrap_qg__reader_take(qg_reader *r, size_t n, void *to)
{
    takes++;
    if (takes == 2 && newer) assert_int_equal(rename(newer, r->path), 0);
    if (takes == 2 && shorter) assert_int_equal(truncate(r->path, shorter), 0);
    return __real_qg__reader_take(r, n, to);
}

static void save_with_name(const char *path, const char *name)
{
    float     x[] = { 1, 2 };
    qg_state *s   = qg_state_new();
    qg_state_add(s, name, array_of(QG_F32, x, 2));
    assert_int_equal(qg_state_save(s, path), QG_OK);
    qg_state_free(s);
}

static void a_file_that_is_replaced_meanwhile_is_read_to_its_end(void **state)
{
    static const char *const names[] = { "short", "a much longer name than that, so that the header is longer" };
    char                     path[ROOM_BYTES], other[ROOM_BYTES];
    snprintf(path, sizeof path, "%s", in_room("read"));
    snprintf(other, sizeof other, "%s", in_room("newer"));
    for (int i = 0; i < 2; i++) {
        save_with_name(path, names[i]);
        save_with_name(other, names[1 - i]);
        newer = other, takes = 0;
        qg_archive *a = qg_archive_open(path);
        newer         = NULL;
        assert_non_null(qg_archive_find(a, names[i]));
        qg_archive_free(a);
        a = qg_archive_open(path);
        assert_non_null(qg_archive_find(a, names[1 - i]));
        qg_archive_free(a);
    }
}

static void a_file_that_is_cut_meanwhile_is_refused(void **state)
{
    save_with_name(in_room("cut"), "w");
    struct stat whole;
    assert_int_equal(stat(in_room("cut"), &whole), 0);
    shorter = whole.st_size - 2, takes = 0;         /* inside the data */
    assert_null(qg_archive_open(in_room("cut")));
    shorter = 0;
    assert_int_equal(qg_errcode(), QG_EIO);
    assert_non_null(strstr(qg_errmsg(), "changed while being read"));
}

/* Whatever one byte becomes, the verdict is clean and what is accepted can be read. */
static void corrupt(size_t *accepted, size_t *rejected)
{
    unsigned char *bytes;
    size_t         n;
    read_all(in_room("a"), &bytes, &n);
    const size_t header = 8 + (size_t)get_u64(bytes);
    for (size_t i = 0; i < header; i++) {
        const unsigned char good = bytes[i];
        for (int v = 0; v < 256; v++) {
            if (v == good) continue;
            bytes[i]          = (unsigned char)v;
            qg_archive     *a = NULL;
            const qg_status s = parse(bytes, n, &a);
            if (s == QG_OK) touch(a), ++*accepted;
            else assert_int_equal(s, QG_EFORMAT), ++*rejected;
            qg_archive_free(a);
        }
        bytes[i] = good;
    }
    free(bytes);
}

static void corruption_never_crashes(void **state)
{
    size_t accepted = 0, rejected = 0;
    save_small(in_room("a"));
    corrupt(&accepted, &rejected);
    assert_int_equal(accepted, 0);
    forget_checksum(in_room("a"));
    corrupt(&accepted, &rejected);
    assert_true(accepted > 0);              /* another letter in a name is another name */
    assert_true(rejected > accepted);       /* and most of the header is structure */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_of_the_reference),
        cmocka_unit_test(a_huge_file_is_judged_by_its_header),
        cmocka_unit_test(a_huge_header_is_not_read),
        cmocka_unit_test(accepted_headers),
        cmocka_unit_test(rejected_headers),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(views_are_aligned),
        cmocka_unit_test(every_truncation_is_rejected),
        cmocka_unit_test(a_file_that_is_replaced_meanwhile_is_read_to_its_end),
        cmocka_unit_test(a_file_that_is_cut_meanwhile_is_refused),
        cmocka_unit_test(corruption_never_crashes),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
