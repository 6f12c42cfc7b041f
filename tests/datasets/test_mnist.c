#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/loader.h"
#include "tests/support/room.h"

#define IMAGES "t10k-images-idx3-ubyte"
#define LABELS "t10k-labels-idx1-ubyte"

/* The beginnings of messages. */
#define IN_IMAGES "'./" IMAGES "'"
#define IN_LABELS "'./" LABELS "'"

/* Three images of 2 x 5, values counted from 1, and their labels. */
enum { N = 3, H = 2, W = 5, IMAGES_BYTES = 16 + N * H * W, LABELS_BYTES = 8 + N };

struct files {
    uint8_t images[IMAGES_BYTES + 1], labels[LABELS_BYTES + 1];
    size_t  n_images, n_labels;
};

static struct files good(void)
{
    struct files f = { .n_images = IMAGES_BYTES, .n_labels = LABELS_BYTES };
    memcpy(f.images, "\0\0\10\3\0\0\0\3\0\0\0\2\0\0\0\5", 16);
    memcpy(f.labels, "\0\0\10\1\0\0\0\3\7\0\11", LABELS_BYTES);
    for (int i = 0; i < N * H * W; i++) f.images[16 + i] = (uint8_t)(i + 1);
    return f;
}

/* Every test runs in an empty directory of its own. */
static int enter(void **state)
{
    return room_enter(state) || chdir(room);
}

static int leave(void **state)
{
    return chdir("/") || room_leave(state);
}

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static qg_loader *load(const struct files *f)
{
    write_file(IMAGES, f->images, f->n_images);
    write_file(LABELS, f->labels, f->n_labels);
    return qg_mnist_test(".", (qg_loader_spec){ .batch = 2, .in_order = true });
}

static void assert_fails(const struct files *f, const char *message)
{
    assert_null(load(f));
    assert_string_equal(qg_errmsg(), message);
}

static void check_good(qg_loader *l)
{
    const uint8_t labels[N] = { 7, 0, 9 };
    qg_batch      b;
    int           next = 0;
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ N, H, W, 1 }));
    assert_int_equal(qg_loader_classes(l), 10);
    while (qg_loader_next(l, &b)) {
        assert_memory_equal(b.y, labels + next, (size_t)b.x.shape.n);
        for (int i = 0; i < b.x.shape.n * H * W; i++)
            assert_int_equal(lroundf(b.x.data[i] * 255.0f), next * H * W + i + 1);
        next += b.x.shape.n;
    }
    assert_int_equal(next, N);
}

static void test_good_files(void **state)
{
    (void)state;
    const struct files f = good();
    qg_loader         *l = load(&f);
    check_good(l);
    qg_loader_free(l);

    assert_int_equal(rename(IMAGES, "train-images-idx3-ubyte"), 0);
    assert_int_equal(rename(LABELS, "train-labels-idx1-ubyte"), 0);
    l = qg_mnist_train(".", (qg_loader_spec){ .batch = 3, .in_order = true });
    check_good(l);
    qg_loader_free(l);
}

static void test_missing_files(void **state)
{
    (void)state;
    const struct files   f    = good();
    const qg_loader_spec spec = { .batch = 1 };
    assert_null(qg_mnist_test("no/such", spec));
    assert_non_null(strstr(qg_errmsg(), "'no/such/t10k-images-idx3-ubyte'"));
    write_file(IMAGES, f.images, f.n_images);
    assert_null(qg_mnist_test(".", spec));
    assert_non_null(strstr(qg_errmsg(), "'./t10k-labels-idx1-ubyte'"));
    assert_null(qg_mnist_train(".", spec));
    assert_non_null(strstr(qg_errmsg(), "'./train-images-idx3-ubyte'"));
    assert_null(qg_mnist_test(NULL, spec));
    assert_string_equal(qg_errmsg(), "the directory of 't10k-images-idx3-ubyte' is NULL");

    char long_path[5000];
    memset(long_path, 'd', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_null(qg_mnist_test(long_path, spec));
    assert_string_equal(qg_errmsg(),
                        "the path of 't10k-images-idx3-ubyte' is longer than 4095 bytes");
}

static void test_wrong_length(void **state)
{
    (void)state;
    struct files f = good();
    f.n_images     = 0;
    assert_fails(&f, IN_IMAGES " is truncated: 0 bytes, but its header alone has 16");
    f.n_images = 15;
    assert_fails(&f, IN_IMAGES " is truncated: 15 bytes, but its header alone has 16");
    f.n_images = 16;
    assert_fails(&f, IN_IMAGES " is truncated: 16 bytes, but its header promises more");
    f.n_images = IMAGES_BYTES - 1;
    assert_fails(&f, IN_IMAGES " is truncated: 45 bytes, but its header promises more");
    f.n_images = IMAGES_BYTES + 1;
    assert_fails(&f, IN_IMAGES " is too long: 47 bytes, but its header promises 46");
    f          = good();
    f.n_labels = 7;
    assert_fails(&f, IN_LABELS " is truncated: 7 bytes, but its header alone has 8");
    f.n_labels = LABELS_BYTES - 1;
    assert_fails(&f, IN_LABELS " is truncated: 10 bytes, but its header promises more");
    f.n_labels = LABELS_BYTES + 1;
    assert_fails(&f, IN_LABELS " is too long: 12 bytes, but its header promises 11");
}

static void test_wrong_header(void **state)
{
    (void)state;
    struct files f = good();
    f.images[0]    = 1;
    assert_fails(&f, IN_IMAGES " has magic number 0x01000803, expected 0x00000803 "
                     "(unsigned bytes, rank 3)");
    f           = good();
    f.images[2] = 0x0d;
    assert_fails(&f, IN_IMAGES " has magic number 0x00000d03, expected 0x00000803 "
                     "(unsigned bytes, rank 3)");
    f           = good();
    f.labels[3] = 2;
    assert_fails(&f, IN_LABELS " has magic number 0x00000802, expected 0x00000801 "
                     "(unsigned bytes, rank 1)");
    f = good();
    memcpy(f.images, "\x1f\x8b\x08", 3);
    assert_fails(&f, IN_IMAGES " is compressed with gzip; it must be unpacked first");

    const char *empty[] = { IN_IMAGES " is empty: extent 0 is 0",
                            IN_IMAGES " is empty: extent 1 is 0",
                            IN_IMAGES " is empty: extent 2 is 0" };
    for (int i = 0; i < 3; i++) {
        f                   = good();
        f.images[7 + 4 * i] = 0;
        assert_fails(&f, empty[i]);
    }
}

/* Extents far beyond the file.  The last two products are right modulo 2^32 and modulo 2^64. */
static void test_overflowing_header(void **state)
{
    (void)state;
    const uint8_t extents[][12] = {
        { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
        { 0x80, 0, 0, 0, 0, 0, 0, 2, 0x80, 0, 0, 0 },
        { 0, 0, 0, 1, 0x40, 0, 0, 0, 0, 0, 0, 4 },
        { 0x80, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 5 },
        { 0xb1, 0x79, 0x53, 0xa7, 0, 0x04, 0x6a, 0xf9, 0, 0, 0xfa, 0xc2 },
    };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        struct files f = good();
        memcpy(f.images + 4, extents[i], 12);
        assert_fails(&f, IN_IMAGES " is truncated: 46 bytes, but its header promises more");
    }
}

static void test_wrong_labels(void **state)
{
    (void)state;
    struct files f = good();
    f.labels[7]    = 2;
    f.n_labels     = LABELS_BYTES - 1;
    assert_fails(&f, IN_LABELS " has 2 labels for 3 images");
    f            = good();
    f.labels[10] = 10;
    assert_fails(&f, IN_LABELS ": label 2 is 10, but the classes are 0..9");
    f.labels[9] = 255;
    assert_fails(&f, IN_LABELS ": label 1 is 255, but the classes are 0..9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_files, enter, leave),
        cmocka_unit_test_setup_teardown(test_missing_files, enter, leave),
        cmocka_unit_test_setup_teardown(test_wrong_length, enter, leave),
        cmocka_unit_test_setup_teardown(test_wrong_header, enter, leave),
        cmocka_unit_test_setup_teardown(test_overflowing_header, enter, leave),
        cmocka_unit_test_setup_teardown(test_wrong_labels, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
