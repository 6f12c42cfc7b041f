#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "datasets/dataset.h"

/* Images [H][W][C] whose value at (y, x, c) tells all three: 4 (W y + x) + c + 1, never 0. */
enum { H = 7, W = 6, C = 2, ROW = H * W * C, N = 400 };

static int code(int y, int x, int c) { return 4 * (W * y + x) + c + 1; }

static qg_loader *coded(qg_loader_spec spec)
{
    qg__dataset set = { .shape = { N, H, W, C }, .classes = 250 };
    assert_true(qg__dataset_allocate(&set));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < ROW; k++) set.images[i * ROW + k] = (uint8_t)code(k / C / W, k / C % W, k % C);
        set.labels[i] = (uint8_t)(i % 250);
    }
    qg_loader *l = qg__loader_new(set, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    return l;
}

static int pixel(const float *x, int row, int column, int c)
{
    return (int)lroundf(255 * x[(row * W + column) * C + c]);
}

/* The whole epoch, in_order and in one batch. */
static const float *epoch(qg_loader *l)
{
    qg_batch b;
    if (!qg_loader_next(l, &b)) assert_true(qg_loader_next(l, &b));
    assert_int_equal(b.x.shape.n, N);
    return b.x.data;
}

static int mirrored(int i, int n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; }
static int clamped(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* The pixel (y, x) of the unlimited image, by the definition of the border. */
static int expected(qg_border border, int y, int x, int c)
{
    if (border == QG_BORDER_REFLECT) return code(mirrored(y, H), mirrored(x, W), c);
    if (border == QG_BORDER_REPEAT) return code(clamped(y, H), clamped(x, W), c);
    return y < 0 || y >= H || x < 0 || x >= W ? 0 : code(y, x, c);
}

static bool is_crop(const float *image, qg_border border, int down, int right, bool flip)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++)
                if (pixel(image, y, flip ? W - 1 - x : x, c) != expected(border, y + down, x + right, c))
                    return false;
    return true;
}

static void test_crops_cover_every_offset(void **state)
{
    enum { PAD = 2, OFFSETS = 2 * PAD + 1 };
    for (int border = 0; border < 3; border++) {
        int        seen[2][OFFSETS][OFFSETS] = { 0 }, flips = 0;
        qg_loader *l = coded(
            (qg_loader_spec){ .batch = N,
                              .in_order = true,
                              .seed = 3,
                              .augment = { .pad = PAD, .border = (qg_border)border, .flip = true } });
        const float *images = epoch(l);
        for (int i = 0; i < N; i++) {
            int matches = 0;
            for (int k = 0; k < 2 * OFFSETS * OFFSETS; k++) {
                const int flip = k % 2, d = k / 2 / OFFSETS, r = k / 2 % OFFSETS;
                if (!is_crop(images + i * ROW, (qg_border)border, d - PAD, r - PAD, flip)) continue;
                matches++;
                seen[flip][d][r]++;
                flips += flip;
            }
            assert_int_equal(matches, 1);
        }
        /* 400 draws of 25 offsets: 16 each; none at all has probability 25 exp(-16).  Half of them are
         * flips: 200 +- 10. */
        for (int d = 0; d < OFFSETS; d++)
            for (int r = 0; r < OFFSETS; r++) assert_true(seen[0][d][r] + seen[1][d][r] > 0);
        assert_in_range(flips, 200 - 50, 200 + 50);
        qg_loader_free(l);
    }
}

static void test_cutout(void **state)
{
    enum { SIDE = 3 };
    int        full = 0, corner = 0;
    qg_loader *l = coded((qg_loader_spec){ .batch = N, .in_order = true, .augment = { .cutout = SIDE } });
    const float *images = epoch(l);
    for (int i = 0; i < N; i++) {
        int top = H, bottom = -1, left = W, right = -1, zeros = 0;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                const int v = pixel(images + i * ROW, y, x, 0);
                assert_true(v == 0 || v == code(y, x, 0));
                if (v) continue;
                zeros++;
                if (y < top) top = y;
                if (y > bottom) bottom = y;
                if (x < left) left = x;
                if (x > right) right = x;
            }
        /* A rectangle; smaller than the square only at a border. */
        const int h = bottom - top + 1, w = right - left + 1;
        assert_int_equal(zeros, h * w);
        assert_true(h == SIDE || (h == SIDE - 1 && (top == 0 || bottom == H - 1)));
        assert_true(w == SIDE || (w == SIDE - 1 && (left == 0 || right == W - 1)));
        full += zeros == SIDE * SIDE;
        corner += zeros == (SIDE - 1) * (SIDE - 1);
    }
    /* 5/7 4/6 of 400 lie inside: 190 +- 10; 4 of 42 pixels are corners: 38 +- 6. */
    assert_in_range(full, 190 - 50, 190 + 50);
    assert_in_range(corner, 38 - 30, 38 + 30);
    qg_loader_free(l);
}

/* Zeros come after normalisation. */
static void test_zeros_are_the_mean(void **state)
{
    qg_loader *l = coded((qg_loader_spec){ .batch     = N,
                                           .in_order  = true,
                                           .normalise = { QG_TO_RANGE, -1, 1 },
                                           .augment   = { .pad = 6 - 1 } });
    const float *images = epoch(l);
    int          zeros  = 0;
    for (int i = 0; i < N * ROW; i++) {
        /* No code is at 127.5, so 0 is nothing but the border, and black would be -1. */
        zeros += images[i] == 0;
        assert_true(images[i] > -1);
    }
    assert_true(zeros > 0);
    qg_loader_free(l);
}

static const qg_augment ALL = { .pad = 2, .border = QG_BORDER_REFLECT, .flip = true, .cutout = 2 };

/* An image is changed in the same way in any order and batch, and differently in another epoch or with
 * another seed. */
static void test_keyed_by_image_and_epoch(void **state)
{
    enum { EPOCHS = 4 };
    static float a[EPOCHS][N * ROW];
    qg_loader   *l = coded((qg_loader_spec){ .batch = N, .in_order = true, .seed = 5, .augment = ALL });
    for (int e = 0; e < EPOCHS; e++) {
        memcpy(a[e], epoch(l), sizeof a[e]);
        for (int k = 0; k < e; k++) assert_memory_not_equal(a[e], a[k], sizeof a[e]);
    }
    qg_loader_free(l);
    int same = 0;
    for (int i = 0; i < N; i++) same += !memcmp(a[0] + i * ROW, a[1] + i * ROW, ROW * sizeof(float));
    /* 50 crops and flips times 42 cutouts: 0.2 of 400 pairs agree. */
    assert_in_range(same, 0, 8);

    qg_loader *other = coded((qg_loader_spec){ .batch = N, .in_order = true, .seed = 6, .augment = ALL });
    assert_memory_not_equal(epoch(other), a[0], sizeof a[0]);
    qg_loader_free(other);

    /* Shuffled, in batches of 31, after a seek into the second epoch. */
    qg_loader *s = coded((qg_loader_spec){ .batch = 31, .seed = 5, .augment = ALL });
    uint32_t   order[N];
    qg__permutation(qg_rng_fork(qg_rng_fork(5, QG_STREAM_SHUFFLE), 1), N, order);
    assert_ok(qg_loader_seek(s, 1, 4));
    int at = 4 * 31;
    for (qg_batch b; qg_loader_next(s, &b);)
        for (int i = 0; i < b.x.shape.n; i++, at++)
            assert_memory_equal(b.x.data + i * ROW, a[1] + (size_t)order[at] * ROW, ROW * sizeof(float));
    assert_int_equal(at, N);
    qg_loader_free(s);
}

static void test_threads_change_nothing(void **state)
{
    static float a[3][N * ROW];
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        qg_loader *l = coded((qg_loader_spec){ .batch     = N,
                                               .seed      = 9,
                                               .normalise = { .kind = QG_PER_CHANNEL },
                                               .augment   = ALL });
        memcpy(a[threads - 1], epoch(l), sizeof a[0]);
        qg_loader_free(l);
    }
    qg_set_threads(0);
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    assert_memory_equal(a[0], a[2], sizeof a[0]);
}

static void test_refusals(void **state)
{
    static const struct {
        qg_augment  a;
        const char *reason;
    } wrong[] = { { { .pad = 6 }, "images of 7x6 can be padded by 0..5, not by 6" },
                  { { .pad = -1 }, "can be padded by 0..5, not by -1" },
                  { { .cutout = 7 }, "images of 7x6 can have a cutout of 0..6, not of 7" },
                  { { .cutout = -1 }, "not of -1" },
                  { { .pad = 1, .border = (qg_border)3 }, "3 is not a kind of border" } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(qg_synthetic((qg_shape){ 1, H, W, C }, 3, 2,
                                 (qg_loader_spec){ .batch = 1, .augment = wrong[i].a }));
        assert_message(wrong[i].reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crops_cover_every_offset), cmocka_unit_test(test_cutout),
        cmocka_unit_test(test_zeros_are_the_mean),       cmocka_unit_test(test_keyed_by_image_and_epoch),
        cmocka_unit_test(test_threads_change_nothing),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
