#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/loader.h"
#include "tests/support/room.h"

enum { PIXELS = 1024, RECORD10 = 1 + 3 * PIXELS, RECORD100 = 2 + 3 * PIXELS };

static const char *const names[] = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                     "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin",
                                     "train.bin",        "test.bin" };

/* Byte k of plane c of image i. */
static uint8_t value(int i, int c, int k) { return (uint8_t)(17 * i + 85 * c + k); }

static void write_records(const char *name, int labels, int n, int first)
{
    FILE *f = fopen(in_room(name), "wb");
    assert_non_null(f);
    for (int i = first; i < first + n; i++) {
        if (labels == 2) fputc(i % 20, f);
        fputc(labels == 2 ? (i * 7) % 100 : i % 10, f);
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < PIXELS; k++) fputc(value(i, c, k), f);
    }
    assert_int_equal(fclose(f), 0);
}

static void write_train(void)
{
    for (int i = 0; i < 5; i++) write_records(names[i], 1, i + 1, i * (i + 1) / 2);
}

static void check(qg_loader *l, int n, int classes, int step)
{
    if (!l) fail_msg("%s", qg_errmsg());
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ n, 32, 32, 3 }));
    assert_int_equal(qg_loader_classes(l), classes);
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    for (int i = 0; i < n; i++) {
        assert_int_equal(b.y[i], i * step % classes);
        for (int k = 0; k < PIXELS; k++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(lroundf(255 * b.x.data[(i * PIXELS + k) * 3 + c]), value(i, c, k));
    }
    qg_loader_free(l);
}

static void test_reads(void **state)
{
    const qg_loader_spec spec = { .batch = 100, .in_order = true };
    write_train();
    write_records("test_batch.bin", 1, 3, 0);
    write_records("train.bin", 2, 25, 0);
    write_records("test.bin", 2, 1, 0);
    check(qg_data_train("cifar10", room, spec), 15, 10, 1);
    check(qg_data_test("cifar10", room, spec), 3, 10, 1);
    check(qg_data_train("cifar100", room, spec), 25, 100, 7);
    check(qg_data_test("cifar100", room, spec), 1, 100, 7);
}

static void assert_fails(qg_loader *l, const char *name, const char *reason)
{
    assert_null(l);
    assert_message(in_room(name));
    assert_message(reason);
}

static void test_missing(void **state)
{
    const qg_loader_spec spec = { .batch = 1 };
    write_train();
    unlink(in_room(names[3]));
    assert_fails(qg_data_train("cifar10", room, spec), names[3], "No such file");
    assert_fails(qg_data_test("cifar10", room, spec), "test_batch.bin", "No such file");
    assert_fails(qg_data_train("cifar100", room, spec), "train.bin", "No such file");
    write_records("test_batch.bin", 1, 1, 0);
    assert_none(qg_data_test("cifar10", room, (qg_loader_spec){ 0 }), "batch is 0");
}

static void test_truncated_and_foreign(void **state)
{
    const qg_loader_spec spec = { .batch = 1 };
    write_train();
    assert_int_equal(truncate(in_room(names[4]), 5 * RECORD10 - 1), 0);
    assert_fails(qg_data_train("cifar10", room, spec), names[4],
                 "is truncated or not a CIFAR-10 file: 15364 bytes are not a multiple of 3073");
    assert_int_equal(truncate(in_room(names[4]), 0), 0);
    assert_fails(qg_data_train("cifar10", room, spec), names[4],
                 "is truncated or not a CIFAR-10 file: 0 bytes");
    /* What Python or gzip wrote under the names of the binary version. */
    FILE *f = fopen(in_room(names[4]), "r+b");
    assert_non_null(f);
    assert_int_equal(fwrite("\x80\2}q", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    assert_fails(qg_data_train("cifar10", room, spec), names[4],
                 "is of the Python version of CIFAR-10; the binary version is needed");
    write_in_room(names[4], "\x1f\x8b\x08", 3);
    assert_fails(qg_data_train("cifar10", room, spec), names[4], "is compressed with gzip; unpack it first");

    /* The files of one set under the names of the other. */
    write_records("test.bin", 1, 3, 0);
    assert_fails(qg_data_test("cifar100", room, spec), "test.bin",
                 "is truncated or not a CIFAR-100 file: 9219 bytes");
    write_records("test_batch.bin", 2, 3, 0);
    assert_fails(qg_data_test("cifar10", room, spec), "test_batch.bin",
                 "is truncated or not a CIFAR-10 file: 9222 bytes");
}

static void test_wrong_labels(void **state)
{
    static const struct {
        const char *name;
        int         labels, at;
        uint8_t     label;
        const char *reason;
    } wrong[] = { { "test_batch.bin", 1, 2 * RECORD10, 10, "label 2 is 10, but the classes are 0..9" },
                  { "test.bin", 2, RECORD100 + 1, 100, "label 1 is 100, but the classes are 0..99" } };
    for (int i = 0; i < 2; i++) {
        write_records(wrong[i].name, wrong[i].labels, 3, 0);
        FILE *f = fopen(in_room(wrong[i].name), "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, wrong[i].at, SEEK_SET), 0);
        fputc(wrong[i].label, f);
        fclose(f);
        const qg_loader_spec spec = { .batch = 1 };
        assert_fails(i ? qg_data_test("cifar100", room, spec) : qg_data_test("cifar10", room, spec),
                     wrong[i].name, wrong[i].reason);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_reads),
        TEST(test_missing),
        TEST(test_truncated_and_foreign),
        TEST(test_wrong_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
