#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datasets/image.h"
#include "datasets/loader.h"
#include "datasets/preprocess.h"
#include "datasets/sets.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"

static void make_class(const char *name) { assert_int_equal(mkdir(in_room(name), 0700), 0); }

/* [h][w][3], no two values alike in a small picture. */
static void fill(uint8_t *p, int h, int w, int first)
{
    for (int i = 0; i < h * w * 3; i++) p[i] = (uint8_t)(first + 3 * i);
}

static void test_classes_and_images_by_name(void **state)
{
    uint8_t p[4][5 * 7 * 3];
    for (int i = 0; i < 4; i++) fill(p[i], 5, 7, 40 * i);
    make_class("zebra");
    make_class("Ant");
    make_class("bee");
    make_class(".hidden");
    write_png(in_room("bee/b.png"), p[2], 5, 7);
    write_bmp(in_room("bee/a.BMP"), p[1], 5, 7);
    write_bmp(in_room("zebra/1.bmp"), p[3], 5, 7);
    write_png(in_room("Ant/x.png"), p[0], 5, 7);
    write_text("bee/readme.txt", "no picture");
    write_text("bee/.a.png", "no picture");
    write_text("notes.png", "no class");

    qg_loader *l = qg_folder(room, (qg_shape){ 1, 5, 7, 3 },
                             (qg_loader_spec){ .batch = 9, .in_order = true });
    if (!l) fail_msg("%s", qg_errmsg());
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ 4, 5, 7, 3 }));
    assert_int_equal(qg_loader_classes(l), 3);
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    static const uint16_t labels[] = { 0, 1, 1, 2 };
    assert_memory_equal(b.y, labels, sizeof labels);
    for (int i = 0; i < 4 * 5 * 7 * 3; i++)
        assert_int_equal(lroundf(255 * b.x.data[i]), p[i / 105][i % 105]);
    qg_loader_free(l);

    /* One by one, in memory and in files; the files of images in another order are not known. */
    for (int how = 0; how < 3; how++) {
        float x[105];
        char  file[1024];
        l = qg_folder(room, (qg_shape){ 1, 5, 7, 3 },
                      (qg_loader_spec){ .batch = 3, .in_order = how < 2, .cache_bytes = how == 1 ? 200 : 0,
                                        .augment = { .pad = 2, .flip = true } });
        if (!l) fail_msg("%s", qg_errmsg());
        for (uint64_t i = 0; i < 4; i++) {
            assert_ok(qg_loader_image(l, i, x));
            for (int k = 0; k < 105; k++) assert_int_equal(lroundf(255 * x[k]), p[i][k]);
        }
        assert_int_equal(qg_loader_image(l, 4, x), QG_EARG);
        assert_true(qg_loader_file(l, 2, file, sizeof file) == (how < 2));
        if (how < 2) assert_string_equal(file, in_room("bee/b.png"));
        assert_false(qg_loader_file(l, 2, file, strlen(room)) || qg_loader_file(l, 4, file, sizeof file));
        assert_true(qg_loader_next(l, &b) && b.n == 3);         /* the position is still the start */
        qg_loader_free(l);
    }

    /* Held out: in memory, the files of neither part are known. */
    for (int cached = 0; cached < 2; cached++) {
        char file[1024];
        l = qg_folder(room, (qg_shape){ 1, 5, 7, 3 },
                      (qg_loader_spec){ .batch = 3, .in_order = true, .cache_bytes = cached ? 200 : 0,
                                        .validation = { .images = 1 } });
        if (!l) fail_msg("%s", qg_errmsg());
        assert_true(qg_loader_file(l, 0, file, sizeof file) == (cached == 1));
        assert_true(qg_loader_file(qg_loader_validation(l), 0, file, sizeof file) == (cached == 1));
        if (cached) assert_non_null(strstr(file, "/bee/"));
        qg_loader_free(l);
    }

    const uint16_t chosen[] = { 2, 0 };
    l = qg_folder(room, (qg_shape){ 1, 5, 7, 3 },
                  (qg_loader_spec){ .batch = 9, .in_order = true, .classes = chosen, .n_classes = 2 });
    if (!l) fail_msg("%s", qg_errmsg());
    assert_memory_equal(qg_loader_class_names(l), "zebra\0Ant", 10);
    assert_true(qg_loader_next(l, &b) && b.x.shape.n == 2);
    assert_memory_equal(b.y, ((const uint16_t[]){ 1, 0 }), 2 * sizeof *b.y);
    qg_loader_free(l);
}

/* One line says what was skipped and what may be a mistake. */
static void test_what_may_be_a_mistake_is_warned_about(void **state)
{
    uint8_t p[2 * 2 * 3];
    char    want[1024];
    fill(p, 2, 2, 0);
    const qg_shape       one  = { 1, 2, 2, 3 };
    const qg_loader_spec spec = { .batch = 1 };
    make_class("cat");
    write_bmp(in_room("cat/p.bmp"), p, 2, 2);
    qg_loader *l = qg_folder(room, one, spec);
    snprintf(want, sizeof want, "'%s': 'cat' is the only class, so there is nothing to learn", room);
    assert_string_equal(qg_loader_warning(l), want);
    qg_loader_free(l);

    make_class("dog"), make_class("dog/puppies"), make_class("dog/.git");
    write_bmp(in_room("dog/p.bmp"), p, 2, 2);
    write_bmp(in_room("dog/puppies/q.bmp"), p, 2, 2);
    l = qg_folder(room, one, (qg_loader_spec){ .batch = 1, .validation = { 0 } });
    assert_int_equal(qg_loader_shape(l).n, 2);
    snprintf(want, sizeof want, "'%s': skipped 1 folder within a class, such as '%s'", room,
             in_room("dog/puppies"));
    assert_string_equal(qg_loader_warning(l), want);
    qg_loader_free(l);

    /* A folder may be called like an image, and so may a link to one. */
    make_class("dog/old.png");
    assert_int_equal(symlink("puppies", in_room("dog/new.JPG")), 0);
    l = qg_folder(room, one, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    assert_int_equal(qg_loader_shape(l).n, 2);
    snprintf(want, sizeof want, "'%s': skipped 3 folders within classes, such as '%s'", room,
             in_room("dog/new.JPG"));
    assert_string_equal(qg_loader_warning(l), want);
    qg_loader_free(l);
    assert_int_equal(rmdir(in_room("dog/old.png")) | unlink(in_room("dog/new.JPG")), 0);

    make_class("Dog");
    write_bmp(in_room("Dog/p.bmp"), p, 2, 2);
    write_text("labels.csv", "x"), write_text("cat/a.webp", "x"), write_text("cat/b.gif", "x");
    assert_int_equal(symlink("nowhere", in_room("cat/c.tif")), 0);
    l = qg_folder(room, one, spec);
    assert_non_null(strstr(qg_loader_warning(l),
                           ": skipped 1 folder within a class, 3 files that are not PNG, JPEG or BMP, 1 file "
                           "next to the classes, such as '"));
    assert_non_null(
        strstr(qg_loader_warning(l), "/labels.csv'; the classes 'Dog' and 'dog' differ only in case"));
    qg_loader_free(l);
    assert_null(qg_loader_warning(NULL));
}

/* Once for the set, whether its images are in memory or stay in their files, and with a part held out or
 * not. */
static void test_images_of_16_bits_are_warned_about(void **state)
{
    uint8_t p[2 * 2 * 3];
    char    want[256];
    fill(p, 2, 2, 0);
    make_class("a"), make_class("b");
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "%c/%d.png", i % 2 ? 'b' : 'a', i);
        if (i < 2) write_deep_png(in_room(name), 0x1234, 2, 2);
        else write_png(in_room(name), p, 2, 2);
    }
    snprintf(want, sizeof want,
             "'%s': 2 images have 16 bits per value, such as 'a/0.png'; only the high 8 of them are used",
             room);
    for (int i = 0; i < 4; i++) {
        qg_batch   b;
        qg_loader *l = qg_folder(room, (qg_shape){ 1, 2, 2, 1 },
                                 (qg_loader_spec){ .batch = 4, .in_order = true, .cache_bytes = i % 2 ? 5 : 0,
                                                   .validation = { .images = i / 2 } });
        if (!l) fail_msg("%s", qg_errmsg());
        assert_string_equal(qg_loader_warning(l), want);
        assert_true(qg_loader_next(l, &b) && (i / 2 || lroundf(255 * b.x.data[0]) == 0x12));
        if (i / 2) assert_null(qg_loader_warning(qg_loader_validation(l)));
        qg_loader_free(l);
    }
    assert_int_equal(unlink(in_room("a/0.png")), 0);
    qg_loader *l = qg_folder(room, (qg_shape){ 1, 2, 2, 1 }, (qg_loader_spec){ .batch = 4 });
    assert_non_null(strstr(qg_loader_warning(l), "': 1 image has 16 bits per value, such as 'b/1.png'"));
    qg_loader_free(l);
}

static void test_grey(void **state)
{
    uint8_t p[2 * 2 * 3];
    for (int i = 0; i < 4; i++) memset(p + 3 * i, 60 * i, 3);
    make_class("one");
    write_bmp(in_room("one/p.bmp"), p, 2, 2);
    qg_loader *l = qg_folder(room, (qg_shape){ 1, 2, 2, 1 }, (qg_loader_spec){ .batch = 1 });
    if (!l) fail_msg("%s", qg_errmsg());
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    for (int i = 0; i < 4; i++) assert_int_equal(lroundf(255 * b.x.data[i]), 60 * i);
    qg_loader_free(l);
}

static void assert_refused(const char *culprit, const char *reason)
{
    assert_none(qg_folder(room, (qg_shape){ 1, 4, 4, 3 }, (qg_loader_spec){ .batch = 1 }), culprit);
    assert_message(reason);
}

static void test_refusals(void **state)
{
    uint8_t    p[4 * 4 * 3];
    char       bytes[256];
    const qg_loader_spec spec = { .batch = 1 };
    assert_none(qg_folder(NULL, (qg_shape){ 1, 4, 4, 3 }, spec), "the directory of the images is NULL");
    assert_none(qg_folder(room, (qg_shape){ 1, 4, 4, 2 }, spec),
                "images of 2 channels are wanted, but image files have 1 or 3");
    assert_none(qg_folder(room, (qg_shape){ 1, 4097, 4, 3 }, spec),
                "images of 4097x4 pixels are wanted, but sides must be 1..4096");
    assert_none(qg_folder(room, (qg_shape){ 1, 4, 0, 1 }, spec), "images of 4x0 pixels are wanted");
    assert_null(qg_folder("/nowhere/at/all", (qg_shape){ 1, 4, 4, 3 }, spec));
    assert_message("cannot list '/nowhere/at/all': No such file");
    assert_refused(room, "has 0 folders; it needs one per class");

    make_class("a");
    make_class("b");
    fill(p, 4, 4, 0);
    write_bmp(in_room("a/1.bmp"), p, 4, 4);
    assert_refused(in_room("b"), "contains no PNG, JPEG or BMP file; each folder in '");
    make_class("b/inner");
    write_text("b/c.gif", "x");
    assert_refused(in_room("b"), "contains no PNG, JPEG or BMP file, but 1 folder(s) and 1 other file(s); "
                                 "each folder in '");
    write_text("b/2.jpg", "no picture");
    assert_refused(in_room("b/2.jpg"), "is not a PNG, JPEG or BMP file");

    assert_int_equal(unlink(in_room("b/2.jpg")), 0);
    write_png(in_room("b/3.png"), p, 4, 4);
    assert_int_equal(truncate(in_room("b/3.png"), 60), 0);
    assert_refused(in_room("b/3.png"), "is damaged: ");

    /* A BMP of 60,000 x 60,000 in 60 bytes. */
    FILE *f = fopen(in_room("a/1.bmp"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, 60, f), 60);
    fclose(f);
    static const struct {
        char        sides[8];           /* width and height, little endian; a negative height begins at the
                                           top */
        const char *reason;
    } heads[] = { { "\x60\xea\0\0\x60\xea\0", "is 60000 x 60000: more than" },
                  { "\x60\xea\0\0\x60\xea\xff\xff", "is 60000 x 5536: more than" },
                  { "\x60\xea\0\0\0\0\0", "is 60000 x 0: without pixels" } };
    for (int i = 0; i < 3; i++) {
        memcpy(bytes + 18, heads[i].sides, 8);
        write_in_room("a/0.bmp", bytes, 60);
        assert_refused(in_room("a/0.bmp"), heads[i].reason);
    }
    assert_int_equal(unlink(in_room("a/0.bmp")), 0);
    assert_int_equal(truncate(in_room("a/1.bmp"), 60), 0);
    assert_refused(in_room("a/1.bmp"), "is damaged: pixels are missing");
}

/* 257 classes, which a byte could not tell apart. */
static void test_many_classes(void **state)
{
    uint8_t  p[3] = { 0 };
    char     name[32], image[48];
    qg_batch b;
    for (int i = 0; i < 257; i++) {
        snprintf(name, sizeof name, "%05d", i);
        snprintf(image, sizeof image, "%s/1.bmp", name);
        make_class(name);
        p[0] = (uint8_t)i, p[1] = (uint8_t)(i >> 8);
        write_bmp(in_room(image), p, 1, 1);
    }
    qg_loader *l = qg_folder(room, (qg_shape){ 1, 1, 1, 3 }, (qg_loader_spec){ .batch = 257, .seed = 1 });
    if (!l) fail_msg("%s", qg_errmsg());
    assert_int_equal(qg_loader_classes(l), 257);
    assert_true(qg_loader_next(l, &b));
    for (int i = 0; i < 257; i++)
        assert_int_equal(b.y[i], lroundf(255 * b.x.data[3 * i]) + 256 * lroundf(255 * b.x.data[3 * i + 1]));
    qg_loader_free(l);
}

static void test_another_size_is_resized(void **state)
{
    uint8_t p[6 * 6 * 3];
    make_class("a");
    for (int i = 0; i < 36; i++) memset(p + 3 * i, i / 6 < 3 ? 0 : 200, 3);
    write_png(in_room("a/1.png"), p, 6, 6);
    qg_loader *l = qg_folder(room, (qg_shape){ 1, 2, 3, 3 }, (qg_loader_spec){ .batch = 1 });
    if (!l) fail_msg("%s", qg_errmsg());
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    /* A triangle of half width 3 around the centre of row 1, and of row 4: weights 2/3, 1, 2/3, 1/3 of
     * rows 0..3, of which the last is bright. */
    for (int i = 0; i < 18; i++) assert_int_equal(lroundf(255 * b.x.data[i]), i < 9 ? 25 : 175);
    qg_loader_free(l);
}

static void test_resize(void **state)
{
    uint8_t in[12], out[64];
    memset(in, 77, sizeof in);
    /* One colour stays it; the same size changes nothing; growing is linear between the centres. */
    assert_ok(qg_image_resize(in, (qg_shape){ 1, 2, 3, 2 }, out, (qg_shape){ 1, 5, 3, 2 }));
    for (int i = 0; i < 30; i++) assert_int_equal(out[i], 77);
    for (int i = 0; i < 12; i++) in[i] = (uint8_t)(20 * i);
    assert_ok(qg_image_resize(in, (qg_shape){ 1, 2, 3, 2 }, out, (qg_shape){ 1, 2, 3, 2 }));
    assert_memory_equal(in, out, 12);
    const uint8_t two[] = { 0, 100 }, four[] = { 0, 25, 75, 100 };
    assert_ok(qg_image_resize(two, (qg_shape){ 1, 1, 2, 1 }, out, (qg_shape){ 1, 1, 4, 1 }));
    assert_memory_equal(out, four, 4);
    assert_ok(qg_image_resize(two, (qg_shape){ 1, 2, 1, 1 }, out, (qg_shape){ 1, 4, 1, 1 }));
    assert_memory_equal(out, four, 4);
    assert_int_equal(qg_image_resize(in, (qg_shape){ 1, 2, 2, 3 }, out, (qg_shape){ 1, 4, 4, 4 }), QG_ESHAPE);
    assert_message("an image of 3 channels cannot become one of 4");
    for (int i = 0; i < 10; i++) {
        qg_shape from = { 1, 1, 2, 1 }, to = { 1, 1, 4, 1 };
        *(int *[]){ &from.h, &from.w, &from.c, &to.h, &to.w }[i / 2] = -(i % 2);
        assert_failed(qg_image_resize(two, from, out, to), QG_ESHAPE, "cannot become one of");
    }
    assert_memory_equal(out, four, 4);
}

/* Labels are places in the list of names, so the lists must be the same. */
static void test_classes_that_differ_are_named(void **state)
{
    static const char *const names[] = { "a", "a/x", "a/y", "b", "b/x", "b/z", "c", "c/x" };
    char where[3][ROOM_BYTES];
    for (int i = 0; i < 8; i++) make_class(names[i]);
    for (int i = 0; i < 3; i++) strcpy(where[i], in_room((const char *const[]){ "a", "b", "c" }[i]));
    assert_ok(qg__folder_same_classes(where[0], where[0]));
    assert_failed(qg__folder_same_classes(where[0], where[1]), QG_EFORMAT, "b' has no class 'y', which '");
    assert_message("a' has");
    assert_failed(qg__folder_same_classes(where[1], where[0]), QG_EFORMAT, "b' has no class 'y', which '");
    assert_failed(qg__folder_same_classes(where[0], where[2]), QG_EFORMAT, "c' has 1 class, '");
    make_class("d"), make_class("d/X"), make_class("d/y");
    assert_failed(qg__folder_same_classes(where[0], in_room("d")), QG_EFORMAT,
                  "d' has the class 'X' where '");
    assert_message("a' has 'x', which differs only in case");
    assert_failed(qg__folder_same_classes(where[0], in_room("absent")), QG_EIO, "cannot list '");
    assert_message("absent'");
    assert_int_equal(qg__folder_same_classes(NULL, where[0]), QG_EARG);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_classes_and_images_by_name), TEST(test_grey),    TEST(test_refusals),
        TEST(test_many_classes),               TEST(test_another_size_is_resized), cmocka_unit_test(test_resize),
        TEST(test_classes_that_differ_are_named), TEST(test_what_may_be_a_mistake_is_warned_about),
        TEST(test_images_of_16_bits_are_warned_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
