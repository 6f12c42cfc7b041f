#include "datasets/normalise.h"
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/dataset.h"
#include "datasets/preprocess.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"

enum { H = 5, W = 4, C = 3, ROW = H * W * C, N = 90 };

static const qg_normalise kinds[] = {
    { .kind = QG_TO_UNIT }, { QG_TO_RANGE, -1, 3 }, { .kind = QG_PER_CHANNEL }, { .kind = QG_PER_PIXEL }, { .kind = QG_WHITEN },
    { .kind = QG_PER_CHANNEL, .given = C, .mean = { 0.4914f, 0.5f, 0.5f }, .deviation = { 0.247f, 0.25f, 0.25f } },
    { .kind = QG_PER_CHANNEL, .given = 1, .mean = { -0.1f }, .deviation = { 1e-3f } }
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static uint8_t byte_at(int i, int k) { return (uint8_t)(i * 37 + k * 11 + i * k % 23); }

static qg_loader *loader(qg_normalise how)
{
    qg__dataset set = { .shape = { N, H, W, C }, .classes = 2 };
    assert_true(qg__dataset_allocate(&set));
    for (int i = 0; i < N * ROW; i++) set.images[i] = byte_at(i / ROW, i % ROW);
    memset(set.labels, 0, N * sizeof *set.labels);
    qg_loader *l = qg__loader_new(set, (qg_loader_spec){ .batch = N, .in_order = true, .normalise = how });
    if (!l) fail_msg("%s", qg_errmsg());
    return l;
}

static void save(qg_state *s, const char *name)
{
    assert_ok(qg_state_save(s, in_room(name)));
    qg_state_free(s);
}

/* Saves the preprocessing of l, and reads it back. */
static qg_preprocess *stored(const qg_loader *l)
{
    qg_state *s = qg_state_new(), *whitening = qg_state_new();
    qg_preprocess_note(qg_loader_preprocess(l), s);
    qg_preprocess_state(qg_loader_preprocess(l), whitening);
    save(s, "a.safetensors");
    save(whitening, "whitening.safetensors");
    qg_preprocess *p = qg_preprocess_open(in_room("a.safetensors"));
    if (!p) fail_msg("%s", qg_errmsg());
    return p;
}

/* Image i of a batch, from its bytes and from a file. */
static void assert_as_in_training(const qg_preprocess *p, const float *batch, int i)
{
    uint8_t bytes[ROW];
    float   x[ROW], of_file[ROW];
    for (int k = 0; k < ROW; k++) bytes[k] = byte_at(i, k);
    write_png(in_room("i.png"), bytes, H, W);
    assert_ok(qg_preprocess_bytes(p, bytes, x));
    assert_ok(qg_preprocess_image(p, in_room("i.png"), of_file));
    assert_memory_equal(of_file, x, sizeof x);
    assert_memory_equal(x, batch + i * ROW, sizeof x);
}

static void an_image_is_preprocessed_as_in_training(void **state)
{
    for (int i = 0; i < KINDS; i++) {
        qg_loader *l = loader(kinds[i]);
        qg_batch   b;
        assert_true(qg_loader_next(l, &b));
        qg_preprocess *p = stored(l);
        assert_true(qg_shape_equal(qg_preprocess_shape(p), (qg_shape){ 1, H, W, C }));
        assert_int_equal(qg_preprocess_normalise(p).kind, kinds[i].kind);
        assert_as_in_training(qg_loader_preprocess(l), b.x.data, 7);
        assert_as_in_training(p, b.x.data, 7);
        assert_as_in_training(p, b.x.data, N - 1);
        qg_preprocess_free(p);
        qg_loader_free(l);
    }
}

/* A loader with the preprocessing of a file serves the same numbers as one that fitted it. */
static void a_loader_takes_a_stored_preprocessing(void **state)
{
    for (int i = 0; i < KINDS; i++) {
        qg_loader     *l = loader(kinds[i]);
        qg_preprocess *p = stored(l);
        qg__dataset set = { .shape = { 2, H, W, C }, .classes = 2 };
        qg_batch    a, b;
        assert_true(qg__dataset_allocate(&set));
        for (int k = 0; k < 2 * ROW; k++) set.images[k] = byte_at(k / ROW, k % ROW);
        memset(set.labels, 0, 2 * sizeof *set.labels);
        qg_loader *other = qg__loader_new(set,
                                          (qg_loader_spec){ .batch = 2, .in_order = true, .preprocess = p });
        qg_preprocess_free(p);                              /* copied */
        assert_true(qg_loader_next(l, &a) && qg_loader_next(other, &b));
        assert_memory_equal(b.x.data, a.x.data, 2 * ROW * sizeof(float));
        qg_loader_free(other);
        qg_loader_free(l);
    }
}

/* (byte / 255 - mean) / deviation are the bits of training, with as few numbers as there can be. */
static void numbers_are_those_of_training(void **state)
{
    static const int expected[] = {
        [QG_TO_UNIT] = 1, [QG_TO_RANGE] = 1, [QG_PER_CHANNEL] = C, [QG_PER_PIXEL] = ROW
    };
    for (int i = 0; i < KINDS; i++) {
        qg_loader           *l = loader(kinds[i]);
        const qg_preprocess *p = qg_loader_preprocess(l);
        const float         *mean, *deviation;
        int                  n;
        qg_batch             b;
        assert_true(qg_loader_next(l, &b));
        if (kinds[i].kind == QG_WHITEN) {
            assert_failed(qg_preprocess_numbers(p, &n, &mean, &deviation), QG_EARG, "whitened images");
        } else {
            assert_ok(qg_preprocess_numbers(p, &n, &mean, &deviation));
            assert_int_equal(n, kinds[i].given ? kinds[i].given : expected[kinds[i].kind]);
            for (int k = 0; k < ROW; k++)
                assert_true(b.x.data[ROW + k] ==
                            ((float)byte_at(1, k) / 255.0f - mean[k % n]) / deviation[k % n]);
        }
        qg_loader_free(l);
    }
    assert_failed(qg_preprocess_numbers(NULL, NULL, NULL, NULL), QG_EARG, "preprocess");
}

static void another_size_is_resized(void **state)
{
    uint8_t bytes[2 * H * 2 * W * C];
    float   x[ROW];
    memset(bytes, 51, sizeof bytes);                        /* 51 / 255 = 0.2 */
    write_png(in_room("large.png"), bytes, 2 * H, 2 * W);
    qg_loader *l = loader((qg_normalise){ .kind = QG_TO_UNIT });
    assert_ok(qg_preprocess_image(qg_loader_preprocess(l), in_room("large.png"), x));
    for (int k = 0; k < ROW; k++) assert_true(x[k] == 0.2f);
    qg_loader_free(l);
}

/* Images of n channels, of which only those of 1 and 3 can come from files. */
static qg_preprocess *of_channels(int n)
{
    char image[16];
    qg_state *s = qg_state_new();
    snprintf(image, sizeof image, "8x8x%d", n);
    qg_state_set_note(s, "image", image);
    qg_state_set_note(s, "normalise", "unit");
    save(s, "a.safetensors");
    qg_preprocess *p = qg_preprocess_open(in_room("a.safetensors"));
    if (!p) fail_msg("%s", qg_errmsg());
    return p;
}

static void grey_and_colour_become_what_the_net_takes(void **state)
{
    uint8_t bytes[8 * 8 * 4];
    float   x[8 * 8 * 4];
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 64; i++) bytes[3 * i] = 255, bytes[3 * i + 1] = 0, bytes[3 * i + 2] = 51;
    write_png(in_room("red.png"), bytes, 8, 8);
    write_jpeg(in_room("grey.jpg"), (jpeg){ 8, 8, .components = 1, .value = { 128 }, .scans = 1 });
    qg_preprocess *grey = of_channels(1), *colour = of_channels(3);
    assert_ok(qg_preprocess_image(grey, in_room("red.png"), x));
    for (int i = 0; i < 64; i++) assert_true(x[i] == ((77 * 255 + 29 * 51) >> 8) / 255.0f);
    assert_ok(qg_preprocess_image(colour, in_room("grey.jpg"), x));
    for (int i = 0; i < 3 * 64; i++) assert_true(x[i] == 128 / 255.0f);
    qg_preprocess_free(grey), qg_preprocess_free(colour);
    for (int n = 2; n <= 4; n += 2) {
        qg_preprocess *p = of_channels(n);
        char part[128];
        snprintf(part, sizeof part, "red.png': images of %d channels are wanted, but image files have 1 or 3",
                 n);
        assert_failed(qg_preprocess_image(p, in_room("red.png"), x), QG_EARG, part);
        assert_ok(qg_preprocess_bytes(p, bytes, x));
        qg_preprocess_free(p);
    }
}

/* --- damaged files ------------------------------------------------------------------------ */

static void damaged_files_are_refused(void **state)
{
    static const struct { const char *image, *normalise, *mean, *deviation, *says; } rows[] = {
        { NULL, "unit", NULL, NULL, "it does not say how its images are preprocessed" },
        { "5x4x3", NULL, NULL, NULL, "it does not say how its images are preprocessed" },
        { "5x4", "unit", NULL, NULL, "size needs 3 numbers separated by x, not 2" },
        { "4097x1x1", "unit", NULL, NULL, "4097" },
        { "4096x4096x64", "unit", NULL, NULL, "images of 4096x4096x64 are larger than those of any data set" },
        { "5x4x3", "grey", NULL, NULL, "unknown normalisation 'grey'" },
        { "5x4x3", "range:low=-3e38,high=3e38", NULL, NULL, "its width must be a positive float" },
        { "5x4x3", "channel", NULL, "1 1 1", "number 1 of its normalise.mean is not a float" },
        { "5x4x3", "channel", "0 0", "1 1 1", "number 3 of its normalise.mean is not a float" },
        { "5x4x3", "channel", "0  0 0", "1 1 1", "number 2 of its normalise.mean is not a float" },
        { "5x4x3", "channel", "0 1e39 0", "1 1 1", "number 2 of its normalise.mean is not a float" },
        { "5x4x3", "channel", "0 x 0", "1 1 1", "number 2 of its normalise.mean is not a float" },
        { "5x4x3", "channel", "0 0 0 0", "1 1 1", "its normalise.mean has more than 3 numbers" },
        { "5x4x3", "channel", "0 0 0", "1 0 1", "number 2 of its normalise.deviation is not a positive float" },
        { "5x4x3", "channel", "0 0 0", "1 1 -1", "number 3 of its normalise.deviation is not a positive float" },
        { "5x4x3", "pixel", "0 0 0", "1 1 1", "number 4 of its normalise.mean is not a float" },
        { "5x4x3", "whiten", NULL, NULL, "it does not say which matrix whitens its images" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qg_state *s = qg_state_new();
        if (rows[i].image) qg_state_set_note(s, "image", rows[i].image);
        if (rows[i].normalise) qg_state_set_note(s, "normalise", rows[i].normalise);
        if (rows[i].mean) qg_state_set_note(s, "normalise.mean", rows[i].mean);
        if (rows[i].deviation) qg_state_set_note(s, "normalise.deviation", rows[i].deviation);
        save(s, "a.safetensors");
        assert_none(qg_preprocess_open(in_room("a.safetensors")), rows[i].says);
        assert_int_equal(qg_errcode(), rows[i].image && rows[i].normalise ? QG_EFORMAT : QG_ESTATE);
        assert_message("a.safetensors: ");
    }
}

static void the_matrix_must_be_that_of_the_checkpoint(void **state)
{
    qg_loader *l = loader((qg_normalise){ .kind = QG_WHITEN });
    qg_preprocess_free(stored(l));
    qg_state *s = qg_state_new();
    qg_preprocess_note(qg_loader_preprocess(l), s);
    qg_state_set_note(s, "normalise.whitening", "0123456789abcdef");
    save(s, "a.safetensors");
    assert_none(qg_preprocess_open(in_room("a.safetensors")),
                "its images are whitened by matrix 0123456789abcdef, but ");
    assert_int_equal(qg_errcode(), QG_EFORMAT);
    assert_int_equal(remove(in_room("whitening.safetensors")), 0);
    assert_none(qg_preprocess_open(in_room("a.safetensors")), "whitening.safetensors");
    assert_int_equal(qg_errcode(), QG_EIO);
    qg_loader_free(l);
}

static void what_is_stored_is_equal(void **state)
{
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++) {
            qg_loader     *l = loader(kinds[i]), *other = loader(kinds[k]);
            qg_preprocess *p = stored(l);
            assert_int_equal(qg__preprocess_equal(p, qg_loader_preprocess(other)), i == k);
            qg_preprocess_free(p), qg_loader_free(other), qg_loader_free(l);
        }
    qg_loader *l = loader((qg_normalise){ .kind = QG_PER_CHANNEL }), *fewer;
    fewer        = qg_synthetic(qg_preprocess_shape(qg_loader_preprocess(l)), 3, 2,
                                (qg_loader_spec){ .batch = 1, .normalise = { .kind = QG_PER_CHANNEL } });
    assert_false(
        qg__preprocess_equal(qg_loader_preprocess(fewer), qg_loader_preprocess(l))); /* other statistics */
    assert_false(qg__preprocess_equal(NULL, qg_loader_preprocess(l)));
    qg_loader_free(fewer), qg_loader_free(l);
}

static void bad_arguments_are_refused(void **state)
{
    float      x[ROW];
    qg_loader *l = loader((qg_normalise){ .kind = QG_TO_UNIT });
    assert_failed(qg_preprocess_image(qg_loader_preprocess(l), NULL, x), QG_EARG,
                  "the path of an image is NULL");
    assert_failed(qg_preprocess_image(qg_loader_preprocess(l), in_room("no.png"), x), QG_EIO, "no.png");
    qg_loader_free(l);
    assert_none(qg_preprocess_open(in_room("none")), "none");
    assert_int_equal(qg_preprocess_image(NULL, "a.png", x), QG_EARG);
    assert_message("none");
    qg_preprocess_free(NULL);
    assert_null(qg_loader_preprocess(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_image_is_preprocessed_as_in_training), TEST(a_loader_takes_a_stored_preprocessing),
        TEST(another_size_is_resized),                 TEST(grey_and_colour_become_what_the_net_takes),
        TEST(damaged_files_are_refused),               TEST(the_matrix_must_be_that_of_the_checkpoint),
        TEST(bad_arguments_are_refused),               TEST(what_is_stored_is_equal),
        TEST(numbers_are_those_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
