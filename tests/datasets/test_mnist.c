#include "tests/support/testing.h"

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
static int enter(void **state) { return room_enter(state) || chdir(room); }
static int leave(void **state) { return chdir("/") || room_leave(state); }

static qg_loader *load(const struct files *f)
{
    write_in_room(IMAGES, f->images, f->n_images);
    write_in_room(LABELS, f->labels, f->n_labels);
    return qg_data_test("mnist", ".", (qg_loader_spec){ .batch = 2, .in_order = true });
}

static void check_good(qg_loader *l)
{
    const uint16_t labels[N] = { 7, 0, 9 };
    qg_batch      b;
    int           next = 0;
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ N, H, W, 1 }));
    assert_int_equal(qg_loader_classes(l), 10);
    while (qg_loader_next(l, &b)) {
        assert_memory_equal(b.y, labels + next, (size_t)b.x.shape.n * sizeof *b.y);
        for (int i = 0; i < b.x.shape.n * H * W; i++)
            assert_int_equal(lroundf(b.x.data[i] * 255.0f), next * H * W + i + 1);
        next += b.x.shape.n;
    }
    assert_int_equal(next, N);
}

static void test_good_files(void **state)
{
    const struct files f = good();
    qg_loader         *l = load(&f);
    check_good(l);
    qg_loader_free(l);

    assert_int_equal(rename(IMAGES, "train-images-idx3-ubyte"), 0);
    assert_int_equal(rename(LABELS, "train-labels-idx1-ubyte"), 0);
    l = qg_data_train("mnist", ".", (qg_loader_spec){ .batch = 3, .in_order = true });
    check_good(l);
    qg_loader_free(l);
}

static void test_missing_files(void **state)
{
    const struct files   f    = good();
    const qg_loader_spec spec = { .batch = 1 };
    assert_none(qg_data_test("mnist", "no/such", spec), "'no/such/t10k-images-idx3-ubyte'");
    write_in_room(IMAGES, f.images, f.n_images);
    assert_none(qg_data_test("mnist", ".", spec), "'./t10k-labels-idx1-ubyte'");
    assert_none(qg_data_train("mnist", ".", spec), "'./train-images-idx3-ubyte'");

    char long_path[5000];
    memset(long_path, 'd', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    assert_null(qg_data_test("mnist", long_path, spec));
    assert_string_equal(qg_errmsg(),
                        "the path of 't10k-images-idx3-ubyte' is longer than 4095 bytes");
}

#define MAGIC_3 ", expected 0x00000803 (unsigned bytes, rank 3)"
#define MAGIC_1 ", expected 0x00000801 (unsigned bytes, rank 1)"
#define MORE " bytes, but its header promises more"

/* n bytes of one file differ from `at` on, and the file is longer or shorter.  The last two products of
 * extents are right modulo 2^32 and modulo 2^64. */
static const struct {
    bool        labels;
    int         longer, at, n;
    const char *bytes, *message;
} damaged[] = {
    { false, -IMAGES_BYTES, 0, 0, "", IN_IMAGES " is truncated: it has 0 bytes, and its header takes 16" },
    { false, 15 - IMAGES_BYTES, 0, 0, "", IN_IMAGES " is truncated: it has 15 bytes, and its header takes 16" },
    { false, 16 - IMAGES_BYTES, 0, 0, "", IN_IMAGES " is truncated: it has 16" MORE },
    { false, -1, 0, 0, "", IN_IMAGES " is truncated: it has 45" MORE },
    { false, 1, 0, 0, "", IN_IMAGES " is too long: it has 47 bytes, but its header promises 46" },
    { true, 7 - LABELS_BYTES, 0, 0, "", IN_LABELS " is truncated: it has 7 bytes, and its header takes 8" },
    { true, -1, 0, 0, "", IN_LABELS " is truncated: it has 10" MORE },
    { true, 1, 0, 0, "", IN_LABELS " is too long: it has 12 bytes, but its header promises 11" },
    { false, 0, 0, 1, "\1", IN_IMAGES " has magic number 0x01000803" MAGIC_3 },
    { false, 0, 2, 1, "\x0d", IN_IMAGES " has magic number 0x00000d03" MAGIC_3 },
    { true, 0, 3, 1, "\2", IN_LABELS " has magic number 0x00000802" MAGIC_1 },
    { false, 0, 0, 3, "\x1f\x8b\x08", IN_IMAGES " is compressed with gzip; unpack it first" },
    { false, 0, 7, 1, "\0", IN_IMAGES " is empty: extent 0 is 0" },
    { false, 0, 11, 1, "\0", IN_IMAGES " is empty: extent 1 is 0" },
    { false, 0, 15, 1, "\0", IN_IMAGES " is empty: extent 2 is 0" },
    { false, 0, 4, 12, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", IN_IMAGES " is truncated: it has 46" MORE },
    { false, 0, 4, 12, "\x80\0\0\0\0\0\0\2\x80\0\0\0", IN_IMAGES " is truncated: it has 46" MORE },
    { false, 0, 4, 12, "\0\0\0\1\x40\0\0\0\0\0\0\4", IN_IMAGES " is truncated: it has 46" MORE },
    { false, 0, 4, 12, "\x80\0\0\3\0\0\0\2\0\0\0\5", IN_IMAGES " is truncated: it has 46" MORE },
    { false, 0, 4, 12, "\xb1\x79\x53\xa7\0\4\x6a\xf9\0\0\xfa\xc2", IN_IMAGES " is truncated: it has 46" MORE },
    { true, -1, 7, 1, "\2", IN_LABELS " has 2 labels for 3 images" },
    { true, 0, 10, 1, "\12", IN_LABELS ": label 2 is 10, but the classes are 0..9" },
    { true, 0, 9, 1, "\377", IN_LABELS ": label 1 is 255, but the classes are 0..9" },
};

static void test_damaged_files(void **state)
{
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct files f = good();
        memcpy((damaged[i].labels ? f.labels : f.images) + damaged[i].at, damaged[i].bytes,
               (size_t)damaged[i].n);
        *(damaged[i].labels ? &f.n_labels : &f.n_images) += (size_t)damaged[i].longer;
        qg_loader *l = load(&f);
        if (l || strcmp(qg_errmsg(), damaged[i].message))
            fail_msg("case %zu: %s, expected %s", i, l ? "accepted" : qg_errmsg(), damaged[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_good_files, enter, leave),
        cmocka_unit_test_setup_teardown(test_missing_files, enter, leave),
        cmocka_unit_test_setup_teardown(test_damaged_files, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
