/* Folders whose images do not stay in memory: they serve the bits of those that do, whatever the cache and
 * the threads, and never another image than at first. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/io/hash.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "datasets/files.h"
#include "datasets/normalise.h"
#include "tests/support/pictures.h"
#include "tests/support/room.h"

enum { CLASSES = 4, N = 45, SIDE = 6, ROW = 3 * SIDE * SIDE };

static const qg_shape image = { 1, SIDE, SIDE, 3 };

/* What qg__memory says; 0: the truth. */
static size_t memory;

size_t __real_qg__memory(void);
size_t __wrap_qg__memory(void);

size_t __wrap_qg__memory(void) { return memory ? memory : __real_qg__memory(); }

static const char *name_of(int i)
{
    static char name[32];
    snprintf(name, sizeof name, "%d/%02d.%s", i % CLASSES, i, i % 3 ? "png" : "bmp");
    return name;
}

/* Noise; every fifth image is of another size. */
static void write_image(int i, uint64_t key)
{
    uint8_t   p[3 * 9 * 9];
    const int side = i % 5 ? SIDE : 9;
    for (int k = 0; k < 3 * side * side; k++) p[k] = (uint8_t)qg_bits(key, (uint64_t)(i * 1000 + k));
    (i % 3 ? write_png : write_bmp)(in_room(name_of(i)), p, side, side);
}

static int enter(void **state)
{
    if (room_enter(state)) return -1;
    memory = 0;
    for (int i = 0; i < CLASSES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (mkdir(in_room(name), 0700)) return -1;
    }
    for (int i = 0; i < N; i++) write_image(i, 1);
    return 0;
}

/* A hash of all that a loader and that of its validation images serve in two epochs, and of what it says of
 * them. */
static uint64_t all_of(qg_loader_spec spec)
{
    uint64_t   h = QG_HASH_BASIS;
    qg_loader *l = qg_folder(room, image, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    assert_ok(qg_loader_seek(l, 3, 1));
    for (qg_loader *of = l; of; of = of == l ? qg_loader_validation(l) : NULL) {
        const uint64_t digest = qg__loader_digest(of);
        const qg_shape shape  = qg_loader_shape(of);
        h = qg_hash(qg_hash(h, &digest, sizeof digest), &shape, sizeof shape);
        for (int epoch = 0; epoch < 2; epoch++)
            for (qg_batch b; qg_loader_next(of, &b);) {
                h = qg_hash(h, b.x.data, qg_count(b.x.shape) * sizeof(float));
                h = qg_hash(h, b.y, (size_t)b.x.shape.n * sizeof *b.y);
            }
        assert_ok(qg_loader_status(of));
        assert_null(qg_loader_warning(of));
    }
    const qg_preprocess *p = qg_loader_preprocess(l);
    if (p->mean) h = qg_hash(qg_hash(h, p->mean, ROW * sizeof(float)), p->deviation, ROW * sizeof(float));
    qg_loader_free(l);
    return h;
}

static void no_cache_and_no_thread_changes_a_bit(void **state)
{
    static const uint16_t chosen[] = { 2, 0, 3 };
    const qg_loader_spec  specs[]  = {
        { .batch = 7, .seed = 5, .normalise = { .kind = QG_PER_CHANNEL }, .augment = { .pad = 2, .flip = true, .cutout = 2 },
          .validation = { .share = 0.2 } },
        { .batch = 50, .seed = 6, .normalise = { .kind = QG_PER_PIXEL }, .classes = chosen, .n_classes = 3, .validation = { .images = 9 } },
        { .batch = 8, .in_order = true },
    };
    static const size_t caches[] = { 1, ROW, 9 * ROW + 1, 30 * ROW, N * ROW - 1, N * ROW };
    for (int s = 0; s < 3; s++) {
        const uint64_t want = all_of(specs[s]);         /* in memory */
        for (int c = 0; c < 6; c++)
            for (int threads = 1; threads <= 3; threads++) {
                qg_loader_spec spec = specs[s];
                spec.cache_bytes    = caches[c];
                qg_set_threads(threads);
                assert_true(all_of(spec) == want);
            }
        qg_set_threads(0);
    }
}

/* The images of an epoch that can be served before the loader stops; *why: its message. */
static int served(qg_loader *l)
{
    int n = 0;
    for (qg_batch b; qg_loader_next(l, &b);) n += b.x.shape.n;
    return n;
}

static void assert_stops_at(qg_loader *l, int images, const char *name, const char *why)
{
    uint64_t epoch, batch;
    assert_int_equal(served(l), images);
    for (int again = 0; again < 2; again++) {           /* now and later */
        assert_failed(qg_loader_status(l), QG_EIO, why);
        assert_message(name);
        assert_int_equal(served(l), 0);
    }
    qg_loader_tell(l, &epoch, &batch);
    assert_true(epoch == 0 && batch == (uint64_t)images / 5);
    qg_loader_free(l);
}

/* Images of class 0 come first, 12 of them: 00, 04, .., 44.  The cache holds 00 and 04. */
static void another_image_is_never_served(void **state)
{
    const qg_loader_spec spec = { .batch = 5, .in_order = true, .cache_bytes = 2 * ROW };
    for (int threads = 1; threads <= 2; threads++) {
        qg_set_threads(threads);
        qg_loader *changed = qg_folder(room, image, spec), *gone = qg_folder(room, image, spec);
        write_image(4, 2);                              /* it is in the cache */
        write_image(24, 2), write_image(28, 2);
        assert_stops_at(changed, 5, "/0/24.bmp'", "has changed since it was first read");
        write_image(4, 1), write_image(24, 1), write_image(28, 1);
        assert_int_equal(unlink(in_room(name_of(40))), 0);
        assert_stops_at(gone, 10, "/0/40.png'", "No such file");
        write_image(40, 1);
        qg_loader *l = qg_folder(room, image, spec);    /* as it was */
        assert_int_equal(served(l), N);
        assert_ok(qg_loader_status(l));
        qg_loader_free(l);
    }
    qg_set_threads(0);
}

/* Flips a bit of byte `at` of a file, from its end if at is negative. */
static void damage(const char *name, long at)
{
    FILE *f = fopen(in_room(name), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
    assert_int_equal(fclose(f), 0);
}

/* The same for a PNG of write_png whose CRC remains right: that of IDAT, from its type at 37 on, precedes
 * the 12 bytes of IEND. */
static void damage_data(const char *name, long at)
{
    unsigned char bytes[1024];
    damage(name, at);
    FILE        *f   = fopen(in_room(name), "r+b");
    const size_t end = fread(bytes, 1, sizeof bytes, f) - 16;
    const uLong  sum = crc32(0, bytes + 37, (uInt)(end - 37));
    assert_int_equal(fseek(f, (long)end, SEEK_SET), 0);
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(sum >> shift & 255), f);
    assert_int_equal(fclose(f), 0);
}

/* A CRC, Adler's checksum, which is before it, and a pixel. */
static void a_damaged_file_is_refused_at_first(void **state)
{
    static const struct {
        void (*damage)(const char *name, long at);
        long        at;
        const char *why;
    } damages[] = { { damage, -13, "CRC error" },
                    { damage_data, -17, "incorrect data check" },
                    { damage_data, 60, "incorrect data check" } };
    for (int d = 0; d < 3; d++)
        for (size_t cache = 0; cache < 2; cache++)
            for (int threads = 1; threads <= 3; threads++) {
                const qg_loader_spec spec = { .batch = 5, .cache_bytes = cache };
                qg_set_threads(threads);
                damages[d].damage("1/41.png", damages[d].at), damages[d].damage("3/11.png", damages[d].at);
                assert_none(qg_folder(room, image, spec), "/1/41.png' is damaged"); /* the first of two */
                assert_message(damages[d].why);
                assert_int_equal(qg_errcode(), QG_EFORMAT);
                write_image(41, 1), write_image(11, 1);
            }
    qg_set_threads(0);

    /* And if it is damaged later. */
    qg_loader *l = qg_folder(room, image, (qg_loader_spec){ .batch = 5, .cache_bytes = 1, .in_order = true });
    damage("0/40.png", -13);
    assert_int_equal(served(l), 10);
    assert_failed(qg_loader_status(l), QG_EFORMAT, "/0/40.png' is damaged");
    qg_loader_free(l);
}

static void whitening_needs_all_images_in_memory(void **state)
{
    qg_loader_spec spec = { .batch = 5, .normalise = { .kind = QG_WHITEN }, .cache_bytes = N * ROW };
    qg_loader     *l    = qg_folder(room, image, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    spec.cache_bytes--;
    assert_none(qg_folder(room, image, spec),
                "whitening keeps all images in memory as floats, so a cache must hold the 4860 bytes");
    spec.preprocess = qg_loader_preprocess(l);
    assert_none(qg_folder(room, image, spec), "whitening keeps all images in memory");
    qg_loader_free(l);
}

static void large_sets_are_noticed(void **state)
{
    const qg_loader_spec spec = { .batch = 5, .seed = 2 };
    const uint64_t       want = all_of(spec);
    memory                    = 2 * N * ROW;            /* just enough */
    assert_true(all_of(spec) == want);
    memory--;
    qg_loader *l = qg_folder(room, image, spec);
    if (!l) fail_msg("%s", qg_errmsg());
    assert_non_null(
        strstr(qg_loader_warning(l),
               "': 45 images of 6x6x3 take 0 MiB of memory, but there are 0 MiB; they are decoded in "
               "every epoch, except as many as a cache of 0 MiB holds"));
    qg_loader_free(l);
    write_text("notes.txt", "x");
    l = qg_folder(room, image, spec);
    assert_non_null(strstr(qg_loader_warning(l), "': skipped 1 file next to the classes, such as '"));
    assert_non_null(strstr(qg_loader_warning(l), "/notes.txt'; '"));
    qg_loader_free(l);
    memory = 0;
    assert_true(qg__memory() > (size_t)1 << 24);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_cache_and_no_thread_changes_a_bit), TEST(another_image_is_never_served),
        TEST(a_damaged_file_is_refused_at_first),   TEST(whitening_needs_all_images_in_memory),
        TEST(large_sets_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
