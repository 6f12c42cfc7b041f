/* Arrays of NumPy: what is read, and what is refused. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/loader.h"
#include "datasets/sets.h"
#include "tests/support/room.h"

enum { N = 6, H = 2, W = 3, ROW = H * W };

/* A file of the format's version with this dictionary, whose header is padded to n bytes, and values. */
static void write_npy(const char *name, int version, const char *dictionary, const void *values, size_t n)
{
    unsigned char bytes[1024] = "\x93NUMPY";
    const size_t  begin = version == 1 ? 10 : 12, length = 128 - begin;
    assert_true(strlen(dictionary) < length && n <= sizeof bytes - 128);
    bytes[6] = (unsigned char)version;
    bytes[8] = (unsigned char)length;
    memset(bytes + begin, ' ', length);
    memcpy(bytes + begin, dictionary, strlen(dictionary));
    bytes[127] = '\n';
    memcpy(bytes + 128, values, n);
    write_in_room(name, bytes, 128 + n);
}

static const uint8_t ordinary[N] = { 0, 1, 2, 1, 0, 2 };

static void write_images(const char *dictionary, size_t bytes)
{
    uint8_t values[256];
    for (int i = 0; i < 256; i++) values[i] = (uint8_t)i;
    write_npy("x.npy", 1, dictionary, values, bytes);
}

static void write_ordinary(void)
{
    write_images("{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2, 3), }", N * ROW);
    write_npy("y.npy", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", ordinary, N);
}

static qg_loader *load(int classes)
{
    char images[ROOM_BYTES];
    snprintf(images, sizeof images, "%s", in_room("x.npy"));
    return qg_npy(images, in_room("y.npy"), classes, (qg_loader_spec){ .batch = N, .in_order = true });
}

/* The labels of y.npy are the ordinary ones. */
static void assert_loads(int channels)
{
    qg_loader *l = load(0);
    qg_batch   b;
    if (!l) fail_msg("%s", qg_errmsg());
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ N, H, W / channels, channels }));
    assert_int_equal(qg_loader_classes(l), 3);
    assert_true(qg_loader_next(l, &b));
    for (int i = 0; i < N; i++) assert_int_equal(b.y[i], ordinary[i]);
    for (int i = 0; i < N * ROW; i++) assert_int_equal(lroundf(255 * b.x.data[i]), i);
    assert_null(qg_loader_warning(l));
    qg_loader_free(l);
}

static void every_version_and_spelling_is_read(void **state)
{
    uint8_t values[N * ROW];
    for (int i = 0; i < N * ROW; i++) values[i] = (uint8_t)i;
    write_ordinary();
    for (int version = 1; version <= 3; version++) {
        write_npy("x.npy", version, "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2, 3), }", values,
                  N * ROW);
        assert_loads(1);
    }
    static const char *const same[] = { "{\"shape\":(6,2,3),\"descr\":\"|u1\",\"fortran_order\":False}",
                                        "{'fortran_order': False , 'shape': ( 6L, 2L,3L,) ,'descr': '<u1'}" };
    for (int i = 0; i < 2; i++) {
        write_images(same[i], N * ROW);
        assert_loads(1);
    }
    write_images("{'descr': '|u1', 'fortran_order': False, 'shape': (6, 2, 1, 3), }", N * ROW);
    assert_loads(3);
}

static void labels_of_every_integer_type(void **state)
{
    static const struct {
        const char *type;
        int bytes;
    } types[] = { { "|u1", 1 }, { "|i1", 1 }, { "<u2", 2 }, { "<i2", 2 },
                  { "<u4", 4 }, { "<i4", 4 }, { "<u8", 8 }, { "<i8", 8 } };
    char text[96];
    write_ordinary();
    for (int t = 0; t < 8; t++) {
        uint8_t values[8 * N] = { 0 };
        for (int i = 0; i < N; i++) values[i * types[t].bytes] = ordinary[i];
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", types[t].type,
                 t % 2 ? "6," : "6, 1");
        write_npy("y.npy", 1, text, values, (size_t)(N * types[t].bytes));
        assert_loads(1);
        memset(values, 0xff, sizeof values);        /* -1, or the greatest */
        write_npy("y.npy", 1, text, values, (size_t)(N * types[t].bytes));
        if (types[t].type[1] == 'i' || types[t].bytes == 8)
            assert_none(load(0), "y.npy': label 0 is -1, not in 0..");
        else if (types[t].bytes == 4) assert_none(load(0), "label 0 is 4294967295, not in 0..");
    }
}

static void labels_need_two_bytes(void **state)
{
    static const char two[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }";
    static const int  greatest[] = { 255, 256, 257, QG_MAX_CLASSES - 1 };
    qg_batch          b;
    write_ordinary();
    for (int i = 0; i < 4; i++) {
        const uint16_t values[N] = { 0, 1, 2, (uint16_t)greatest[i], 3, 4 };
        write_npy("y.npy", 1, two, values, sizeof values);
        qg_loader *l = load(0);
        if (!l) fail_msg("%s", qg_errmsg());
        assert_int_equal(qg_loader_classes(l), greatest[i] + 1);
        assert_true(qg_loader_next(l, &b));
        assert_memory_equal(b.y, values, sizeof values);
        qg_loader_free(l);
    }
    const uint16_t beyond[N] = { 0, QG_MAX_CLASSES };
    write_npy("y.npy", 1, two, beyond, sizeof beyond);
    assert_none(load(0), "y.npy': label 1 is 65535, not in 0..65534");
}

static void classes_may_be_more_than_the_labels_need(void **state)
{
    int classes;
    write_ordinary();
    qg_loader *l = load(9);
    assert_int_equal(qg_loader_classes(l), 9);
    qg_loader_free(l);
    assert_ok(qg__npy_classes(in_room("y.npy"), &classes));
    assert_int_equal(classes, 3);
    assert_none(load(2), "y.npy': the greatest label is 2, with classes 0..1");
    assert_none(load(-1), "classes is -1, must be 0..");
    assert_none(load(QG_MAX_CLASSES + 1), "must be 0..");
}

static void axes_in_another_order_are_warned_about(void **state)
{
    write_ordinary();
    write_images("{'descr': '|u1', 'fortran_order': False, 'shape': (6, 1, 5, 5), }", N * 25);
    qg_loader *l = load(0);
    assert_non_null(
        strstr(qg_loader_warning(l),
               "x.npy' has images of height 1, width 5 and 5 channels; if the axes of the images are "
               "n, c, h, w, use x.transpose(0, 2, 3, 1)"));
    qg_loader_free(l);
    qg_shape s;
    assert_ok(qg__npy_shape(in_room("x.npy"), &s));
    assert_true(qg_shape_equal(s, (qg_shape){ N, 1, 5, 5 }));
}

static void assert_images_refused(const char *dictionary, size_t bytes, const char *why)
{
    write_images(dictionary, bytes);
    assert_none(load(0), why);
    assert_message("x.npy'");
    assert_int_equal(qg_errcode(), QG_EFORMAT);
}

#define SHAPED(text) "{'descr': '|u1', 'fortran_order': False, 'shape': " text ", }"

static void what_is_wrong_is_named(void **state)
{
    write_ordinary();
    assert_images_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 3), }", N * ROW,
                          "has values of type '<f4', but images are bytes ('|u1'), where white is 255: "
                          "save numpy.rint(255 * x).astype('u1') of 0 <= x <= 1");
    assert_images_refused("{'descr': '>u2', 'fortran_order': False, 'shape': (6, 2, 3), }", N * ROW,
                          "has values of type '>u2'");
    assert_images_refused("{'descr': '', 'fortran_order': False, 'shape': (6, 2, 3), }", N * ROW,
                          "has values of type ''");
    assert_images_refused("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (6,), }", N,
                          "is an array of records, not of numbers");
    assert_images_refused("{'descr': '|u1', 'fortran_order': True, 'shape': (6, 2, 3), }", N * ROW,
                          "is in Fortran order");
    assert_images_refused("{'descr': '|u1', 'fortran_order': 0, 'shape': (6, 2, 3), }", N * ROW,
                          "fortran_order is neither True nor False");
    assert_images_refused(SHAPED("(6, 2, 3)"), N * ROW - 1,
                          "is truncated: its shape promises 36 bytes of values, but it has 35");
    assert_images_refused(SHAPED("(6, 2, 3)"), N * ROW + 1,
                          "is too long: its shape promises 36 bytes of values, but it has 37");
    assert_images_refused(SHAPED("(6, 6)"), N * ROW,
                          "has 2 axes, but images have the three n, h, w or the four n, h, w, c");
    assert_images_refused(SHAPED("()"), 1, "has 0 axes");
    assert_images_refused(SHAPED("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 1, "more than 8 axes");
    assert_images_refused(SHAPED("(6, 0, 3)"), 0, "is empty: axis 1 has no elements");
    assert_images_refused(SHAPED("(2147483647, 2147483647, 2147483647)"), 9,
                          "promises more values than any file has");
    assert_images_refused(SHAPED("(2147483648, 1, 1)"), 9,
                          "has an extent of 2147483648, more than 2147483647");
    assert_images_refused(SHAPED("(99999999999999999999999999, 1, 1)"), 9,
                          "has an extent of 99999999999999999999999999, more than");
    assert_images_refused(SHAPED("(1, 1, 5000)"), 200, "is truncated");
    assert_images_refused(SHAPED("(-6, 2, 3)"), N * ROW, "an extent of the shape is not a number");
    assert_images_refused(SHAPED("[6, 2, 3]"), N * ROW, "the shape is not a tuple");
    assert_images_refused(SHAPED("(6 2, 3)"), N * ROW, "the shape is not a tuple");
    assert_images_refused("{'descr': '|u1', 'shape': (6, 2, 3), }", N * ROW,
                          "descr, fortran_order or shape is missing");
    assert_images_refused("{'descr': '|u1', 'descr': '|u1', 'shape': (6, 2, 3), }", N * ROW,
                          "a key is there twice");
    assert_images_refused("{'x': 1}", N * ROW, "an unknown key");
    assert_images_refused("{'descr': '|u1}", N * ROW, "a string does not end");
    assert_images_refused("{'descr': '|u1|u1|u1|u1|u1|u1'}", N * ROW, "a string is too long");
    assert_images_refused("{descr: '|u1'}", N * ROW, "a string is missing");
    assert_images_refused("{'descr' '|u1'}", N * ROW, "expected 'key': value");
    assert_images_refused("{'descr': '|u1' 'shape': (1,)}", N * ROW, "expected , or }");
    assert_images_refused(SHAPED("(6, 2, 3)") " x", N * ROW, "something follows the dictionary");
    assert_images_refused("(6, 2, 3)", N * ROW, "it does not begin with {");
}

static void assert_bytes_refused(const void *bytes, size_t n, const char *why)
{
    write_in_room("x.npy", bytes, n);
    assert_none(load(0), why);
}

static void files_of_other_formats_are_refused(void **state)
{
    write_ordinary();
    assert_bytes_refused("\x93NUMPY", 6, "is not an .npy file: it has 6 bytes");
    assert_bytes_refused("PK\x03\x04..........", 14, "is an .npz archive; save each array with numpy.save");
    assert_bytes_refused("\x89PNG..........", 14, "is not an .npy file: it begins with other bytes");
    assert_bytes_refused("\x93NUMPY\x04\0\x10\0................", 26,
                         "has version 4.0 of the format, not 1 to 3");
    assert_bytes_refused("\x93NUMPY\x01\0\x10\0..", 12, "is truncated: its header ends early");
    assert_bytes_refused("\x93NUMPY\x02\0\x10\0.", 11, "is truncated: its header ends early");
    assert_bytes_refused("\x93NUMPY\x02\0\xff\xff\xff\xff....", 16,
                         "has a header of 4294967295 bytes, more than 65536");
    assert_bytes_refused("\x93NUMPY\x01\0\x04\0{\0}\n", 14, "its header contains a zero byte");
    assert_int_equal(remove(in_room("x.npy")), 0);
    assert_none(load(0), "x.npy");
    assert_int_equal(qg_errcode(), QG_EIO);
    assert_none(qg_npy(NULL, NULL, 0, (qg_loader_spec){ .batch = 1 }), "the path of an array is NULL");
}

static void labels_must_fit(void **state)
{
    write_ordinary();
    write_npy("y.npy", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", ordinary, 5);
    assert_none(load(0), "y.npy' has 5 labels for 6 images");
    write_npy("y.npy", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", ordinary, N);
    assert_none(load(0), "y.npy' has 2 axes, but labels have one: of rows with a 1 for the class, save "
                         "y.argmax(1)");
    write_npy("y.npy", 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", ordinary, N);
    assert_none(load(0), "y.npy' has values of type '<f8', but labels are integers in little-endian order");
    write_npy("y.npy", 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (6,), }", ordinary, N);
    assert_none(load(0), "y.npy' has values of type '|b1'");
}

/* What a program asks before it declares a net. */
static void the_size_of_a_set_is_known_without_its_images(void **state)
{
    static const char arrays[] = "arrays:train=x.npy,train-labels=y.npy,test=x.npy,test-labels=y.npy";
    char              with[128];
    int               classes;
    write_ordinary();
    assert_true(qg_shape_equal(qg_data_image(arrays, room, &classes), (qg_shape){ 1, H, W, 1 }));
    assert_int_equal(classes, 0);
    snprintf(with, sizeof with, "%s,classes=7", arrays);
    assert_true(qg_shape_equal(qg_data_image(with, room, &classes), (qg_shape){ 1, H, W, 1 }));
    assert_int_equal(classes, 7);
    assert_true(qg_shape_equal(qg_data_image("folder:4x5x3", NULL, &classes), (qg_shape){ 1, 4, 5, 3 }));
    assert_int_equal(classes, 0);
    assert_true(qg_shape_equal(qg_data_image("cifar100", NULL, &classes), (qg_shape){ 1, 32, 32, 3 }));
    assert_int_equal(classes, 100);
    assert_true(qg_shape_equal(qg_data_image("cifar10:classes=3+5", NULL, NULL), (qg_shape){ 1, 32, 32, 3 }));
    const qg_loader_spec twice = { .batch = 1, .classes = (uint16_t[]){ 7 }, .n_classes = 1 };
    assert_none(qg_data_train("sample:classes=0+1", NULL, twice), "the text names classes, and so do .classes");
    assert_string_equal(qg_data_class("cifar10", 3), "cat");
    assert_true(!qg_data_class("mnist", 3) && !qg_data_class("cifar10", 10) && !qg_data_class("cifar10", -1));

    static const qg_status fails[] = { QG_EFORMAT, QG_EIO, QG_EARG };
    write_in_room("x.npy", "PK", 2);
    for (int i = 0; i < 3; i++) {
        const qg_shape none = qg_data_image(i < 2 ? arrays : "cifar11", room, &classes);
        assert_true(qg_shape_equal(none, (qg_shape){ 0 }) && classes == 0);
        assert_int_equal(qg_errcode(), fails[i]);
        if (i == 0) assert_int_equal(remove(in_room("x.npy")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_and_spelling_is_read),
        cmocka_unit_test(labels_of_every_integer_type),
        cmocka_unit_test(labels_need_two_bytes),
        cmocka_unit_test(classes_may_be_more_than_the_labels_need),
        cmocka_unit_test(axes_in_another_order_are_warned_about),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(files_of_other_formats_are_refused),
        cmocka_unit_test(labels_must_fit),
        cmocka_unit_test(the_size_of_a_set_is_known_without_its_images),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
