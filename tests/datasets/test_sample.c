#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/io/file.h"
#include "datasets/loader.h"
#include "tests/support/room.h"

#define SAMPLE "datasets/sample"

/* FNV-1a of the pixels in image order; tests/make_sample.py prints it from the published files, and
 * so without the sheets, their tiles or a PNG decoder. */
#define TRAIN_PIXELS 0x560648b5dc24c16eu
#define TEST_PIXELS  0xfeaecf662c02d8efu

static void check_decoded(qg_loader *l, int per_class, uint64_t pixels)
{
    uint64_t hash      = 0xcbf29ce484222325u;
    int      count[10] = { 0 };
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ 10 * per_class, 28, 28, 1 }));
    assert_int_equal(qg_loader_classes(l), 10);
    for (qg_batch b; qg_loader_next(l, &b);) {
        for (int i = 0; i < b.x.shape.n; i++) count[b.y[i]]++;
        for (size_t i = 0; i < qg_count(b.x.shape); i++)
            hash = (hash ^ (uint64_t)lroundf(b.x.data[i] * 255.0f)) * 0x100000001b3u;
    }
    for (int c = 0; c < 10; c++) assert_int_equal(count[c], per_class);
    assert_true(hash == pixels);
    qg_loader_free(l);
}

static void test_decodes(void **state)
{
    const qg_loader_spec spec = { .batch = 33, .in_order = true };
    check_decoded(qg_data_train("sample", SAMPLE, spec), 200, TRAIN_PIXELS);
    check_decoded(qg_data_test("sample", SAMPLE, spec), 50, TEST_PIXELS);
}

static void write_train(const void *bytes, size_t n) { write_in_room("train.png", bytes, n); }

static void assert_fails(const char *reason)
{
    char text[256];
    assert_null(qg_data_train("sample", room, (qg_loader_spec){ .batch = 1 }));
    snprintf(text, sizeof text, "'%s' %s", in_room("train.png"), reason);
    assert_message(text);
}

static void test_missing(void **state)
{
    assert_none(qg_data_train("sample", room, (qg_loader_spec){ .batch = 1 }), in_room("train.png"));
    assert_null(qg_data_test("sample", SAMPLE, (qg_loader_spec){ 0 }));
    assert_string_equal(qg_errmsg(), "batch is 0, but must be at least 1");
}

static void test_damaged(void **state)
{
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    write_train("", 0);
    assert_fails("is not a PNG file");
    write_train("P5 1400 1120 255\n", 17);
    assert_fails("is not a PNG file");
    assert_ok(qg__file_read_in(QG_BY_PATH, SAMPLE "/train.png", 1 << 20, &bytes, &n));
    write_train(bytes, 20);
    assert_fails("is damaged: ");
    write_train(bytes, n / 2);
    assert_fails("is damaged: ");
    bytes[50] ^= 0xff;      /* within the code lengths of the first deflate block */
    write_train(bytes, n);
    assert_fails("is damaged: ");
    free(bytes);
}

/* The sheet, whose header says another depth and colour type. */
static void write_retyped(unsigned char *bytes, size_t n, int depth, int colour_type)
{
    bytes[24] = (unsigned char)depth;
    bytes[25] = (unsigned char)colour_type;
    const unsigned long sum = crc32(0, bytes + 12, 17);
    for (int i = 0; i < 4; i++) bytes[29 + i] = (unsigned char)(sum >> (24 - 8 * i));
    write_train(bytes, n);
}

static void test_wrong_sheet(void **state)
{
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    assert_ok(qg__file_read_in(QG_BY_PATH, SAMPLE "/test.png", 1 << 20, &bytes, &n));
    write_train(bytes, n);
    assert_fails("is 560 x 700, 1 channel of 8 bits, expected 1400 x 1120, 1 of 8");
    free(bytes);

    assert_ok(qg__file_read_in(QG_BY_PATH, SAMPLE "/train.png", 1 << 20, &bytes, &n));
    write_retyped(bytes, n, 16, 0);
    assert_fails("is 1400 x 1120, 1 channel of 16 bits, expected 1400 x 1120, 1 of 8");
    write_retyped(bytes, n, 8, 2);
    assert_fails("is 1400 x 1120, 3 channels of 8 bits, expected 1400 x 1120, 1 of 8");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decodes),
        cmocka_unit_test_setup_teardown(test_missing, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(test_damaged, room_enter, room_leave),
        cmocka_unit_test_setup_teardown(test_wrong_sheet, room_enter, room_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
