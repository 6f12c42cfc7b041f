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

static int mirrored(int i, int n)
{
    while (i < 0 || i >= n) i = i < 0 ? -i : 2 * (n - 1) - i;
    return i;
}

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

/* Which number of which key decides what, as docs/arithmetic.md has it. */
static void test_draws_are_those_of_the_definition(void **state)
{
    enum { SEED = 3, PAD = 2 };
    qg_loader_spec spec   = { .batch = N, .in_order = true, .seed = SEED };
    spec.augment          = (qg_augment){ .pad = PAD, .flip = true };
    qg_loader     *l      = coded(spec);
    const float   *images = epoch(l);
    for (int j = 0; j < N; j++) {
        const uint64_t key   = qg_rng_fork(qg_rng_fork(qg_rng_fork(SEED, 3), 0), (uint64_t)j);
        const int      down  = (int)(qg_bits(key, 0) % (2 * PAD + 1)) - PAD;
        const int      right = (int)(qg_bits(key, 1) % (2 * PAD + 1)) - PAD;
        assert_true(is_crop(images + j * ROW, QG_BORDER_ZERO, down, right, qg_bits(key, 2) % 2));
    }
    qg_loader_free(l);
    spec.augment = (qg_augment){ .cutout = 1 };
    l            = coded(spec);
    images       = epoch(l);
    for (int j = 0; j < N; j++) {
        const uint64_t key = qg_rng_fork(qg_rng_fork(qg_rng_fork(SEED, 3), 0), (uint64_t)j);
        const int      row = (int)(qg_bits(key, 3) % H), column = (int)(qg_bits(key, 4) % W);
        assert_int_equal(pixel(images + j * ROW, row, column, 0), 0);
    }
    qg_loader_free(l);
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

/* The value of the unlimited image between pixels, by bilinear interpolation. */
static double between(qg_border border, double y, double x, int c)
{
    const int    top = (int)floor(y), left = (int)floor(x);
    const double v = y - top, u = x - left;
    return (1 - v) * ((1 - u) * expected(border, top, left, c) + u * expected(border, top, left + 1, c)) +
           v * ((1 - u) * expected(border, top + 1, left, c) + u * expected(border, top + 1, left + 1, c));
}

/* Whether pixel (y, x) is the image at the center, (3, 2.5), plus a shifted, rotated and scaled distance.
 * Slopes are those of floats of up to 255, wrong by 1e-6; at 5 pixels of 24 per pixel that makes 1e-4. */
static bool is_warped(const float *image, qg_border border, double along, double across, int down, int right)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++) {
                const double v = 255 * (double)image[(y * W + x) * C + c];
                const double dy = y + down - 3, dx = x + right - 2.5;
                const double my = 3 + along * dy - across * dx, mx = 2.5 + across * dy + along * dx;
                if (fabs(v - between(border, my, mx, c)) > 0.01) return false;
            }
    return true;
}

/* Checks every image and notes the least and the greatest angle in degrees, and size less 1. */
static void assert_warped(const qg_augment *a, double least[2], double most[2])
{
    const int    pad    = a->pad;
    qg_loader   *l      = coded((qg_loader_spec){ .batch = N, .in_order = true, .seed = 4, .augment = *a });
    const float *images = epoch(l);
    int          seen[9] = { 0 };
    for (int i = 0; i < N; i++) {
        /* code is 24 y + 4 x + c + 1, and interpolation keeps slopes, which tell angle and size. */
        const float *image = images + i * ROW, *at = image + (3 * W + 2) * C;
        const double down  = 255 * ((double)at[W * C] - (double)at[0]);
        const double right = 255 * ((double)at[C] - (double)at[0]);
        const double along = (24 * down + 4 * right) / 592, across = (4 * down - 24 * right) / 592;
        const double is[]    = { atan2(across, along) * 180 / acos(-1), 1 / hypot(across, along) - 1 };
        int          matches = 0;
        for (int y = -pad; y <= pad; y++)
            for (int x = -pad; x <= pad; x++)
                if (is_warped(image, a->border, along, across, y, x))
                    matches++, seen[3 * (y + pad) + x + pad]++;
        assert_int_equal(matches, 1);
        for (int k = 0; k < 2; k++) least[k] = fmin(least[k], is[k]), most[k] = fmax(most[k], is[k]);
    }
    for (int y = 0; y <= 2 * pad; y++)
        for (int x = 0; x <= 2 * pad; x++) assert_true(seen[3 * y + x] > 0);
    qg_loader_free(l);
}

static void test_rotations_and_sizes(void **state)
{
    static const qg_augment many[] = { { .rotate = 30, .scale = 0.2f },
                                       { .rotate = 180, .scale = 0.5f, .border = QG_BORDER_REFLECT },
                                       { .scale = 0.25f, .border = QG_BORDER_REPEAT },
                                       { .rotate = 1, .pad = 1 } };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        double       least[2] = { 0 }, most[2] = { 0 };
        const double end[]    = { (double)many[i].rotate, (double)many[i].scale };
        assert_warped(&many[i], least, most);
        /* None of 400 uniform draws is in a given twentieth with probability 1e-9. */
        for (int k = 0; k < 2; k++) {
            assert_true(most[k] >= 0.9 * end[k] && most[k] <= end[k] + 1e-3);
            assert_true(least[k] <= -0.9 * end[k] && least[k] >= -end[k] - 1e-3);
        }
    }
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
static const qg_augment WARPED = { .rotate = 9, .scale = 0.1f, .pad = 2, .flip = true };

/* An image is changed in the same way in any order and batch, and differently in another epoch or with
 * another seed. */
static void assert_keyed_by_image_and_epoch(qg_augment changes, int most_same)
{
    enum { EPOCHS = 4 };
    static float a[EPOCHS][N * ROW];
    qg_loader   *l = coded((qg_loader_spec){ .batch = N, .in_order = true, .seed = 5, .augment = changes });
    for (int e = 0; e < EPOCHS; e++) {
        memcpy(a[e], epoch(l), sizeof a[e]);
        for (int k = 0; k < e; k++) assert_memory_not_equal(a[e], a[k], sizeof a[e]);
    }
    qg_loader_free(l);
    int same = 0;
    for (int i = 0; i < N; i++) same += !memcmp(a[0] + i * ROW, a[1] + i * ROW, ROW * sizeof(float));
    assert_in_range(same, 0, most_same);

    qg_loader *other = coded((qg_loader_spec){ .batch = N, .in_order = true, .seed = 6, .augment = changes });
    assert_memory_not_equal(epoch(other), a[0], sizeof a[0]);
    qg_loader_free(other);

    /* Shuffled, in batches of 31, after a seek into the second epoch. */
    qg_loader *s = coded((qg_loader_spec){ .batch = 31, .seed = 5, .augment = changes });
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

static void test_keyed_by_image_and_epoch(void **state)
{
    assert_keyed_by_image_and_epoch(ALL, 8);    /* 50 crops and flips, 42 cutouts: 0.2 of 400 pairs agree */
    assert_keyed_by_image_and_epoch(WARPED, 0); /* 2^48 angles and sizes */
}

static void assert_same_with_threads(qg_augment changes)
{
    static float a[3][N * ROW];
    for (int threads = 1; threads <= 3; threads++) {
        qg_set_threads(threads);
        qg_loader *l = coded((qg_loader_spec){ .batch     = N,
                                               .seed      = 9,
                                               .normalise = { .kind = QG_PER_CHANNEL },
                                               .augment   = changes });
        memcpy(a[threads - 1], epoch(l), sizeof a[0]);
        qg_loader_free(l);
    }
    qg_set_threads(0);
    assert_memory_equal(a[0], a[1], sizeof a[0]);
    assert_memory_equal(a[0], a[2], sizeof a[0]);
}

static void test_threads_change_nothing(void **state)
{
    assert_same_with_threads(ALL);
    assert_same_with_threads(WARPED);
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
                  { { .rotate = 181 }, "images can be rotated by 0..180 degrees, not by 181" },
                  { { .rotate = NAN }, "degrees, not by nan" },
                  { { .scale = 0.75f }, "images can be scaled by 0..0.5, not by 0.75" },
                  { { .scale = -1 }, "0..0.5, not by -1" },
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
        cmocka_unit_test(test_draws_are_those_of_the_definition),
        cmocka_unit_test(test_rotations_and_sizes),
        cmocka_unit_test(test_zeros_are_the_mean),       cmocka_unit_test(test_keyed_by_image_and_epoch),
        cmocka_unit_test(test_threads_change_nothing),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
