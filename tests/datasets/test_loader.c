#include "tests/support/testing.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "datasets/dataset.h"

/* One image more or less than a piece or a batch, and sizes far from both. */
static const int SIZES[]   = { 1, 3, 7, 8, 9, 31, 33, 63, 65, 200 };
static const int BATCHES[] = { 1, 3, 7, 8, 9, 31, 64, 1000 };

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* n <= 256 images of [1][3][2], every value i; label i % 7. */
static qg_loader *numbered(int n, qg_loader_spec spec)
{
    qg__dataset set = { .shape = { n, 1, 3, 2 }, .classes = 7 };
    assert_true(qg__dataset_allocate(&set));
    for (int i = 0; i < n; i++) {
        memset(set.images + i * 6, i, 6);
        set.labels[i] = (uint8_t)(i % 7);
    }
    return qg__loader_new(set, spec);
}

/* The number of image i of a batch, after a check that its values and label agree. */
static int number(const qg_batch *b, int i)
{
    const float *x = b->x.data + i * 6;
    const int    v = (int)lroundf(x[0] * 255.0f);
    for (int k = 1; k < 6; k++) assert_true(x[k] == x[0]);
    assert_int_equal(b->y[i], v % 7);
    return v;
}

/* The rest of an epoch, as numbers; how many. */
static int run_epoch(qg_loader *l, int *order)
{
    int n = 0;
    for (qg_batch b; qg_loader_next(l, &b);)
        for (int i = 0; i < b.x.shape.n; i++) order[n++] = number(&b, i);
    return n;
}

static void assert_fails(qg_loader *l, const char *message)
{
    assert_null(l);
    assert_string_equal(qg_errmsg(), message);
}

static void test_values_are_exact(void **state)
{
    qg__dataset set = { .shape = { 1, 16, 16, 1 }, .classes = 1 };
    assert_true(qg__dataset_allocate(&set));
    for (int i = 0; i < 256; i++) set.images[i] = (uint8_t)i;
    set.labels[0] = 0;
    qg_loader *l  = qg__loader_new(set, (qg_loader_spec){ .batch = 1 });
    qg_batch   b;
    assert_true(qg_loader_next(l, &b));
    /* Rounding the double quotient to float gives the correctly rounded one: 53 >= 2 * 24 + 2. */
    for (int i = 0; i < 256; i++) assert_true(b.x.data[i] == (float)(i / 255.0));
    qg_loader_free(l);
}

static void test_shapes_and_steps(void **state)
{
    qg_loader     *l = numbered(7, (qg_loader_spec){ .batch = 3, .in_order = true });
    const qg_shape s = qg_loader_shape(l);
    assert_true(qg_shape_equal(s, (qg_shape){ 7, 1, 3, 2 }));
    assert_int_equal(qg_loader_classes(l), 7);
    assert_int_equal(qg_loader_batches(l), 3);

    const int lengths[] = { 3, 3, 1 };
    float    *data      = NULL;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        qg_batch b;
        int      next = 0;
        for (uint64_t k = 0; k < 3; k++) {
            assert_true(qg_loader_next(l, &b));
            assert_true(qg_shape_equal(b.x.shape, (qg_shape){ lengths[k], 1, 3, 2 }));
            assert_int_equal(b.step, epoch * 3 + k);
            assert_int_equal((uintptr_t)b.x.data % 64, 0);
            if (data) assert_ptr_equal(b.x.data, data);
            data = b.x.data;
            for (int i = 0; i < lengths[k]; i++) assert_int_equal(number(&b, i), next++);
        }
        assert_false(qg_loader_next(l, &b));
    }
    qg_loader_free(l);
}

static void test_every_epoch_is_a_permutation(void **state)
{
    for (size_t s = 0; s < COUNT(SIZES); s++) {
        for (size_t k = 0; k < COUNT(BATCHES); k++) {
            qg_loader *l = numbered(SIZES[s], (qg_loader_spec){ .batch = BATCHES[k], .seed = 5 });
            assert_int_equal(qg_loader_batches(l), (SIZES[s] + BATCHES[k] - 1) / BATCHES[k]);
            for (int epoch = 0; epoch < 3; epoch++) {
                int  order[256];
                bool seen[256] = { false };
                assert_int_equal(run_epoch(l, order), SIZES[s]);
                for (int i = 0; i < SIZES[s]; i++) {
                    assert_in_range(order[i], 0, SIZES[s] - 1);
                    assert_false(seen[order[i]]);
                    seen[order[i]] = true;
                }
            }
            qg_loader_free(l);
        }
    }
}

/* Two of these orders agree by chance with probability 1/63!. */
static void test_order_depends_on_seed_and_epoch_alone(void **state)
{
    enum { EPOCHS = 5 };
    int        a[EPOCHS][256], b[2][256], other[256];
    qg_loader *l = numbered(63, (qg_loader_spec){ .batch = 8, .seed = 5 });
    for (int e = 0; e < EPOCHS; e++) {
        run_epoch(l, a[e]);
        for (int k = 0; k < e; k++) assert_memory_not_equal(a[e], a[k], 63 * sizeof(int));
    }
    qg_loader_free(l);
    l = numbered(63, (qg_loader_spec){ .batch = 31, .seed = 5 });
    run_epoch(l, b[0]);
    run_epoch(l, b[1]);
    qg_loader_free(l);
    l = numbered(63, (qg_loader_spec){ .batch = 8, .seed = 6 });
    run_epoch(l, other);
    qg_loader_free(l);

    const size_t bytes = 63 * sizeof(int);
    assert_memory_equal(a[0], b[0], bytes);
    assert_memory_equal(a[1], b[1], bytes);
    assert_memory_not_equal(a[0], other, bytes);
}

static void test_threads_change_nothing(void **state)
{
    enum { N = 65, ROW = 33 * 31 * 3, EPOCHS = 2 };
    static float    x[3][EPOCHS * N * ROW];
    static uint16_t y[3][EPOCHS * N];
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        qg_loader *l = qg_synthetic((qg_shape){ 0, 33, 31, 3 }, N, 10,
                                    (qg_loader_spec){ .batch = 31, .seed = 9 });
        size_t     n = 0;
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            for (qg_batch b; qg_loader_next(l, &b);) {
                memcpy(x[threads - 1] + n * ROW, b.x.data, qg_count(b.x.shape) * sizeof(float));
                memcpy(y[threads - 1] + n, b.y, (size_t)b.x.shape.n * sizeof *b.y);
                n += (size_t)b.x.shape.n;
            }
        }
        assert_int_equal(n, EPOCHS * N);
        qg_loader_free(l);
    }
    qg_set_threads(0);
    for (int i = 1; i < 3; i++) {
        assert_memory_equal(x[i], x[0], sizeof x[0]);
        assert_memory_equal(y[i], y[0], sizeof y[0]);
    }
}

/* From every place, both loaders give the same until the end of the next epoch. */
static void check_seek(qg_loader_spec spec, qg_loader *jumping, uint64_t epoch, uint64_t batch)
{
    qg_loader *running = numbered(33, spec);
    qg_batch   a, b;
    for (uint64_t e = 0; e < epoch; e++)
        while (qg_loader_next(running, &a)) continue;
    for (uint64_t k = 0; k < batch; k++) assert_true(qg_loader_next(running, &a));

    assert_ok(qg_loader_seek(jumping, epoch, batch));
    for (int ends = 0; ends < 2;) {
        uint64_t at[4];
        qg_loader_tell(running, &at[0], &at[1]);
        qg_loader_tell(jumping, &at[2], &at[3]);
        assert_int_equal(at[0], at[2]);
        assert_int_equal(at[1], at[3]);
        const bool more = qg_loader_next(running, &a);
        assert_int_equal(qg_loader_next(jumping, &b), more);
        if (!more) {
            ends++;
            continue;
        }
        assert_true(a.step == b.step && qg_shape_equal(a.x.shape, b.x.shape));
        for (int i = 0; i < a.x.shape.n; i++) assert_int_equal(number(&a, i), number(&b, i));
    }
    qg_loader_free(running);
}

static void test_seek_is_running_there(void **state)
{
    for (int in_order = 0; in_order < 2; in_order++) {
        const qg_loader_spec spec = { .batch = 8, .seed = 5, .in_order = in_order };
        qg_loader           *l    = numbered(33, spec);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            for (uint64_t batch = 0; batch <= 5; batch++) {
                check_seek(spec, l, epoch, batch);
                /* Again, from within another epoch. */
                assert_ok(qg_loader_seek(l, 7, 3));
                qg_batch b;
                assert_true(qg_loader_next(l, &b));
                assert_int_equal(b.step, 7 * 5 + 3);
                check_seek(spec, l, epoch, batch);
            }
        qg_loader_free(l);
    }
}

static void test_seek_out_of_range(void **state)
{
    qg_loader *l = numbered(33, (qg_loader_spec){ .batch = 8 });
    assert_ok(qg_loader_seek(l, 2, 4));
    assert_int_equal(qg_loader_seek(l, 0, 6), QG_EARG);
    assert_string_equal(qg_errmsg(), "seek to batch 6, but an epoch has batches 0..5");
    assert_int_equal(qg_loader_seek(l, UINT64_MAX / 5, 0), QG_EARG);
    assert_string_equal(qg_errmsg(), "seek to epoch 3689348814741910323, but the last is "
                                     "3689348814741910321");
    uint64_t epoch, batch;
    qg_loader_tell(l, &epoch, &batch);
    assert_true(epoch == 2 && batch == 4);

    assert_ok(qg_loader_seek(l, UINT64_MAX / 5 - 2, 4));
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    assert_true(b.step == (UINT64_MAX / 5 - 2) * 5 + 4);
    qg_loader_free(l);
}

static void test_specs(void **state)
{
    assert_fails(numbered(3, (qg_loader_spec){ 0 }), "batch is 0, but must be at least 1");
    assert_fails(numbered(3, (qg_loader_spec){ .batch = -1 }),
                 "batch is -1, but must be at least 1");
    qg_loader *l = numbered(3, (qg_loader_spec){ .batch = INT_MAX });
    qg_batch   b;
    assert_int_equal(qg_loader_batches(l), 1);
    assert_true(qg_loader_next(l, &b));
    assert_int_equal(b.x.shape.n, 3);
    assert_false(qg_loader_next(l, &b));
    qg_loader_free(l);
}

static void test_synthetic(void **state)
{
    const qg_shape image = { 0, 5, 3, 2 };
    int            bytes[256] = { 0 };
    qg_loader_spec all        = { .batch = 300, .in_order = true };
    qg_loader     *a          = qg_synthetic(image, 300, 7, all);
    all.seed                  = 1;
    qg_loader     *b          = qg_synthetic(image, 300, 7, all);
    qg_batch       one, two;
    assert_true(qg_loader_next(a, &one) && qg_loader_next(b, &two));
    assert_true(qg_shape_equal(one.x.shape, (qg_shape){ 300, 5, 3, 2 }));
    assert_memory_equal(one.x.data, two.x.data, qg_count(one.x.shape) * sizeof(float));
    for (int i = 0; i < 300; i++) assert_int_equal(one.y[i], i % 7);
    /* 9000 draws of 256 values: 35 each, deviation 6.  Eight deviations away is not uniform. */
    for (int i = 0; i < 9000; i++) bytes[lroundf(one.x.data[i] * 255.0f)]++;
    for (int i = 0; i < 256; i++) assert_in_range(bytes[i], 1, 35 + 8 * 6);
    qg_loader_free(a);
    qg_loader_free(b);

    const qg_loader_spec spec = { .batch = 1 };
    assert_fails(qg_synthetic(image, 1, 0, spec), "classes is 0, must be 1..65535");
    assert_fails(qg_synthetic(image, 1, 65536, spec), "classes is 65536, must be 1..65535");
    assert_fails(qg_synthetic(image, 0, 1, spec),
                 "images [0,5,3,2] are empty or too large for memory");
    assert_fails(qg_synthetic((qg_shape){ 1, 5, -3, 2 }, 1, 1, spec),
                 "images [1,5,-3,2] are empty or too large for memory");
    assert_fails(qg_synthetic((qg_shape){ 1, INT_MAX, INT_MAX, INT_MAX }, 1, 1, spec),
                 "images [1,2147483647,2147483647,2147483647] are empty or too large for memory");
}

/* A label may be any number below the greatest count of classes, and which of them it is never loses a
 * bit. */
static void test_labels_take_two_bytes(void **state)
{
    static const int     counts[] = { 256, 257, QG_MAX_CLASSES };
    const qg_shape       pixel    = { 1, 1, 1, 1 };
    const qg_loader_spec spec     = { .batch = 4096, .in_order = true };
    qg_batch             b;
    for (int i = 0; i < 3; i++) {
        qg_loader *l = qg_synthetic(pixel, counts[i], counts[i], spec);
        int        n = 0;
        assert_int_equal(qg_loader_classes(l), counts[i]);
        for (; qg_loader_next(l, &b); n += b.x.shape.n)
            for (int k = 0; k < b.x.shape.n; k++) assert_int_equal(b.y[k], n + k);
        assert_int_equal(n, counts[i]);
        qg_loader_free(l);
    }

    const uint8_t  x[4]     = { 0 };
    const uint16_t y[4]     = { 0, 256, 65534, 512 }, chosen[] = { 65534, 256 },
                       beyond[] = { 65534, 65535, 0, 0 };
    const qg_shape shape    = { 4, 1, 1, 1 };
    qg_loader *l = qg_arrays(shape, x, y, QG_MAX_CLASSES,
                             (qg_loader_spec){
                                 .batch = 4, .in_order = true, .classes = chosen, .n_classes = 2 });
    if (!l) fail_msg("%s", qg_errmsg());
    assert_true(qg_loader_next(l, &b) && b.x.shape.n == 2 && b.y[0] == 1 && b.y[1] == 0);
    assert_memory_equal(qg_loader_class_names(l), "65534\000256", 10);
    qg_loader_free(l);
    assert_fails(qg_arrays(shape, x, beyond, QG_MAX_CLASSES, spec),
                 "label 1 is 65535, with classes 0..65534");
    assert_fails(qg_arrays(shape, x, y, QG_MAX_CLASSES + 1, spec), "classes is 65536, must be 1..65535");

    /* Labels that differ in the high byte alone. */
    const uint16_t other[4] = { 0, 0, 65534, 512 };
    qg_loader     *one = qg_arrays(shape, x, y, 65535, spec), *two = qg_arrays(shape, x, other, 65535, spec);
    assert_true(qg__loader_digest(one) != qg__loader_digest(two));
    qg_loader_free(one), qg_loader_free(two);
}

/* As runs note them: eight slices, here of one image each, with labels of one byte up to 256 classes and of
 * two above. */
static void test_digests_by_definition(void **state)
{
    static const int counts[] = { 7, 256, 257, QG_MAX_CLASSES };
    const qg_shape   shape    = { 8, 1, 1, 1 };
    const uint8_t    x[8]     = { 9, 8, 7, 6, 5, 4, 3, 2 };
    const uint16_t   y[8]     = { 0, 6, 5, 4, 3, 2, 1, 0 };
    for (int i = 0; i < 4; i++) {
        uint64_t of[8];
        for (int k = 0; k < 8; k++)
            of[k] = qg_hash(qg_hash(QG_HASH_BASIS, &x[k], 1), &y[k], counts[i] > 256 ? 2 : 1);
        qg_loader *l = qg_arrays(shape, x, y, counts[i], (qg_loader_spec){ .batch = 1 });
        assert_true(qg__loader_digest(l) ==
                    qg_hash(qg_hash(QG_HASH_BASIS, &shape, sizeof shape), of, sizeof of));
        qg_loader_free(l);
    }
}

/* Later changes of the arrays do not reach the loader. */
static void test_arrays_are_copied(void **state)
{
    enum { N = 5, H = 2, W = 3, C = 2, ROW = H * W * C };
    const qg_shape       shape = { N, H, W, C };
    const qg_loader_spec spec  = { .batch = N, .in_order = true };
    uint8_t              x[N * ROW];
    uint16_t             y[N] = { 2, 0, 1, 2, 0 };
    for (int i = 0; i < N * ROW; i++) x[i] = (uint8_t)(i * 7);
    qg_loader *l = qg_arrays(shape, x, y, 3, spec);
    assert_non_null(l);
    memset(x, 0, sizeof x), memset(y, 0, sizeof y);
    assert_true(qg_shape_equal(qg_loader_shape(l), shape));
    assert_int_equal(qg_loader_classes(l), 3);
    qg_batch b;
    assert_true(qg_loader_next(l, &b));
    for (int i = 0; i < N * ROW; i++) assert_true(b.x.data[i] == (float)(uint8_t)(i * 7) / 255);
    assert_memory_equal(b.y, ((const uint16_t[]){ 2, 0, 1, 2, 0 }), N * sizeof *b.y);
    assert_false(qg_loader_next(l, &b));
    assert_int_equal(qg_loader_bytes(l, 3, 2, NULL)[0], (uint8_t)(3 * ROW * 7));
    static const int outside[][2] = { { -1, 1 }, { 0, N + 1 }, { N, 1 }, { 2, -1 }, { INT32_MAX, 1 } };
    for (int i = 0; i < 5; i++) {
        assert_null(qg_loader_bytes(l, outside[i][0], outside[i][1], NULL));
        assert_true(qg_errcode() == QG_EARG);
    }
    qg_loader_free(l);
    y[3] = 3;
    assert_fails(qg_arrays(shape, x, y, 3, spec), "label 3 is 3, with classes 0..2");
    assert_fails(qg_arrays(shape, x, y, 0, spec), "classes is 0, must be 1..65535");
    assert_fails(qg_arrays(shape, NULL, y, 4, spec), "the images of a data set are NULL");
    assert_fails(qg_arrays(shape, x, NULL, 4, spec), "the labels of a data set are NULL");
    assert_fails(qg_arrays((qg_shape){ 0, H, W, C }, x, y, 4, spec),
                 "images [0,2,3,2] are empty or too large for memory");
    assert_null(qg_arrays(shape, x, y, 4, (qg_loader_spec){ .batch = 0 }));
}

/* Images 5, 6, 4, 5, 6, .. of the chosen classes: label 5 becomes 0, 2 becomes 1. */
/* Labels from 1 to 2 leave class 0 without images.  Of a test set, or what is held out, this is no
 * mistake. */
static void test_empty_classes_are_warned_about(void **state)
{
    const uint8_t  images[8] = { 2, 2, 2, 2, 2, 2, 2, 2 };
    const uint16_t from_one[8] = { 1, 2, 1, 2, 1, 2, 1, 2 }, gap[8] = { 0, 1, 4, 4, 4, 4, 4, 4 };
    const qg_shape shape = { 8, 1, 1, 1 };
    qg_loader     *l = qg_arrays(shape, images, from_one, 3, (qg_loader_spec){ .batch = 2 });
    assert_string_equal(qg_loader_warning(l),
                        "no image is of class 0; 1 of 3 classes is empty, and labels count from 0");
    qg_loader *test = qg_arrays(shape, images, from_one, 3, (qg_loader_spec){ .batch = 2, .in_order = true });
    assert_true(test && !qg_loader_warning(test));
    qg_loader_free(test), qg_loader_free(l);
    l = qg_arrays(shape, images, gap, 6, (qg_loader_spec){ .batch = 2 });
    assert_string_equal(qg_loader_warning(l),
                        "no image is of class 2, for example; 3 of 6 classes are empty");
    qg_loader_free(l);
    l = qg_arrays(shape, images, gap, 5,
                  (qg_loader_spec){ .batch = 2, .classes = (const uint16_t[]){ 4, 3 }, .n_classes = 2 });
    assert_string_equal(qg_loader_warning(l), "no image is of class 1; 1 of 2 classes is empty");
    qg_loader_free(l);
    l = qg_arrays(shape, images, gap, 5,
                  (qg_loader_spec){ .batch = 2,
                                    .classes = (const uint16_t[]){ 4, 0 },
                                    .n_classes = 2,
                                    .validation = { .images = 1 } });
    assert_true(l && !qg_loader_warning(l) && !qg_loader_warning(qg_loader_validation(l)));
    qg_loader_free(l);
}

/* A cast of floats in 0..1 leaves 0 and 1.  A few dark images of a test may be as they are. */
static void test_bytes_of_0_and_1_are_warned_about(void **state)
{
    const uint16_t labels[2] = { 0, 1 };
    const qg_shape shape     = { 2, 1, 2, 1 };
    for (int most = 0; most < 3; most++) {
        const uint8_t images[4] = { 0, 0, 0, (uint8_t)most };
        for (int test = 0; test < 2; test++) {
            qg_loader *l =
                qg_arrays(shape, images, labels, 2, (qg_loader_spec){ .batch = 2, .in_order = test });
            if (most == 2 || test) assert_null(qg_loader_warning(l));
            else assert_string_equal(qg_loader_warning(l),
                                     "no byte of the images is above 1, but white is 255: multiply floats in "
                                     "0..1 by 255 before they become bytes");
            qg_loader_free(l);
        }
    }
}

static void test_chosen_classes_are_renumbered(void **state)
{
    const uint16_t       two[] = { 5, 2 }, all[] = { 0, 1, 2, 3, 4, 5, 6 };
    const qg_loader_spec spec  = { .batch = 4, .in_order = true, .classes = two, .n_classes = 2 };
    qg_loader           *l     = numbered(33, spec), *twice = numbered(33, spec);
    int                  n     = 0;
    static const int     images[] = { 2, 5, 9, 12, 16, 19, 23, 26, 30 };
    assert_non_null(l);
    assert_true(qg_shape_equal(qg_loader_shape(l), (qg_shape){ 9, 1, 3, 2 }));
    assert_int_equal(qg_loader_classes(l), 2);
    for (qg_batch b; qg_loader_next(l, &b);)
        for (int i = 0; i < b.x.shape.n; i++, n++) {
            assert_true(b.x.data[i * 6] == (float)images[n] / 255 &&
                        b.x.data[i * 6 + 5] == (float)images[n] / 255);
            assert_int_equal(b.y[i], images[n] % 7 == 5 ? 0 : 1);
        }
    assert_int_equal(n, 9);
    assert_memory_equal(qg_loader_class_names(l), "5\0002", 4);
    assert_true(qg__loader_digest(l) == qg__loader_digest(twice));
    qg_loader_free(twice);

    qg_loader *whole  = numbered(33, (qg_loader_spec){ .batch = 4 });
    qg_loader *chosen = numbered(33, (qg_loader_spec){ .batch = 4, .classes = all, .n_classes = 7 });
    assert_true(qg__loader_digest(whole) == qg__loader_digest(chosen) &&
                qg__loader_digest(whole) != qg__loader_digest(l));
    assert_true(!qg__loader_class_digest(whole) &&
                qg__loader_class_digest(chosen) != qg__loader_class_digest(l));
    qg_loader_free(whole), qg_loader_free(chosen), qg_loader_free(l);
}

static void test_classes_that_cannot_be_chosen(void **state)
{
    const uint16_t       classes[] = { 5, 7, 5 };
    const qg_loader_spec spec      = { .batch = 4, .classes = classes };
    for (int n = -1; n <= 0; n++) {
        qg_loader_spec s = spec;
        s.n_classes      = n;
        assert_null(numbered(33, s));
        assert_non_null(
            strstr(qg_errmsg(), n ? "n_classes is -1, but must be at least 1" : "n_classes is 0"));
    }
    assert_fails(numbered(33, (qg_loader_spec){ .batch = 4, .n_classes = 2 }),
                 "n_classes is 2, but classes is NULL");
    assert_fails(numbered(33, (qg_loader_spec){ .batch = 4, .classes = classes, .n_classes = 2 }),
                 "class 7 cannot be chosen, the classes are 0..6");
    assert_fails(numbered(33, (qg_loader_spec){ .batch = 4,
                                                .classes = (const uint16_t[]){ 5, 3, 5 },
                                                .n_classes = 3 }),
                 "class 5 is chosen twice");
    assert_fails(numbered(5, (qg_loader_spec){ .batch = 4, .classes = classes, .n_classes = 1 }),
                 "no image is of a chosen class");
}

static void test_digests_tell_sets_apart(void **state)
{
    uint64_t seen[8];
    int      n = 0;
    for (int i = 0; i < 6; i++) {
        qg__dataset set = { .shape = i == 5 ? (qg_shape){ 31, 3, 1, 2 } : (qg_shape){ 31, 1, 3, 2 },
                            .classes = 7 };
        assert_true(qg__dataset_allocate(&set));
        memset(set.images, 9, 31 * 6);
        for (int k = 0; k < 31; k++) set.labels[k] = 2;
        if (i == 1) set.images[0] = 8;
        if (i == 2) set.images[31 * 6 - 1] = 8;
        if (i == 3) set.labels[30] = 1;
        if (i == 4) set.shape.n = 30;
        qg_loader *l = qg__loader_new(set, (qg_loader_spec){ .batch = 4 });
        seen[n++]    = qg__loader_digest(l);
        for (int k = 0; k < n - 1; k++) assert_true(seen[k] != seen[n - 1]);
        qg_loader_free(l);
    }
    qg_set_threads(1);
    qg_loader *a = numbered(65, (qg_loader_spec){ .batch = 3, .seed = 1 });
    qg_set_threads(3);
    qg_loader *b = numbered(65,
                            (qg_loader_spec){ .batch = 8, .seed = 2, .normalise = { .kind = QG_WHITEN } });
    qg_set_threads(0);
    assert_true(qg__loader_digest(a) == qg__loader_digest(b));
    assert_true(qg__loader_digest(NULL) == 0);
    qg_loader_free(a);
    qg_loader_free(b);
}

static void test_null_flows(void **state)
{
    qg_loader_tell(NULL, NULL, NULL);
    qg_fail(QG_EARG, "the first failure");
    qg_batch b;
    uint64_t epoch = 1, batch = 1;
    assert_null(qg__loader_new((qg__dataset){ 0 }, (qg_loader_spec){ 0 }));
    assert_false(qg_loader_next(NULL, &b));
    qg_loader_tell(NULL, &epoch, &batch);
    assert_true(epoch == 0 && batch == 0);
    assert_int_equal(qg_loader_shape(NULL).n, 0);
    assert_int_equal(qg_loader_classes(NULL), 0);
    assert_int_equal(qg_loader_batches(NULL), 0);
    qg_loader_free(NULL);
    assert_string_equal(qg_errmsg(), "the first failure");
    assert_int_equal(qg_loader_seek(NULL, 0, 0), QG_EARG);
    assert_int_equal(qg_loader_status(NULL), QG_EARG);
    assert_string_equal(qg_errmsg(), "loader: it is NULL; the last failure was: the first failure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_exact),
        cmocka_unit_test(test_shapes_and_steps),
        cmocka_unit_test(test_every_epoch_is_a_permutation),
        cmocka_unit_test(test_order_depends_on_seed_and_epoch_alone),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_seek_is_running_there),
        cmocka_unit_test(test_seek_out_of_range),
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_labels_take_two_bytes),
        cmocka_unit_test(test_digests_by_definition),
        cmocka_unit_test(test_arrays_are_copied),
        cmocka_unit_test(test_empty_classes_are_warned_about),
        cmocka_unit_test(test_bytes_of_0_and_1_are_warned_about),
        cmocka_unit_test(test_chosen_classes_are_renumbered),
        cmocka_unit_test(test_classes_that_cannot_be_chosen),
        cmocka_unit_test(test_digests_tell_sets_apart),
        cmocka_unit_test(test_null_flows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
