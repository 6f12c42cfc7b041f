/* Checksums of PNG files, which the decoder does not look at. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "datasets/dataset.h"
#include "tests/support/room.h"

enum { H = 5, W = 6, ROW = 1 + 3 * W, MOST = 1024, SIGNATURE = 8, HEADER_END = 33 };

/* A PNG in memory. */
typedef struct png {
    uint8_t byte[MOST];
    size_t  n;
} png;

static void put_big(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i) & 255);
}

static void add_chunk(png *p, const char *name, const void *data, size_t n)
{
    uint8_t *at = p->byte + p->n;
    assert_true(p->n + n + 12 <= MOST);
    put_big(at, (uint32_t)n);
    memcpy(at + 4, name, 4);
    if (n) memcpy(at + 8, data, n);
    put_big(at + 8 + n, (uint32_t)crc32(0, at + 4, (uInt)n + 4));
    p->n += n + 12;
}

/* The start of an image of H x W, of 8 bits. */
static png begin(int colour_type)
{
    png     p    = { .byte = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, .n = SIGNATURE };
    uint8_t h[13] = { [3] = W, [7] = H, [8] = 8, [9] = (uint8_t)colour_type };
    add_chunk(&p, "IHDR", h, sizeof h);
    return p;
}

/* The n bytes of rows, each behind its filter, compressed, in two chunks; and the end. */
static void finish(png *p, const uint8_t *rows, size_t n, int level)
{
    uint8_t packed[MOST];
    uLongf  length = sizeof packed;
    assert_int_equal(compress2(packed, &length, rows, n, level), Z_OK);
    add_chunk(p, "IDAT", packed, 20);
    add_chunk(p, "IDAT", packed + 20, length - 20);
    add_chunk(p, "IEND", NULL, 0);
}

/* An RGB image, and a text that no pixel depends on. */
static png coloured(int level)
{
    uint8_t rows[H * ROW] = { 0 };
    png     p             = begin(2);
    for (int i = 0; i < H * ROW; i++) rows[i] = (uint8_t)(i % ROW == 0 ? 0 : i % 7 * 30);
    add_chunk(&p, "tEXt", "Title\0six by five", 17);
    finish(&p, rows, sizeof rows, level);
    return p;
}

/* The same size with a palette of three. */
static png indexed(void)
{
    static const uint8_t colours[] = { 1, 2, 3, 40, 50, 60, 200, 210, 220 };
    uint8_t              rows[H * (1 + W)] = { 0 };
    png                  p                 = begin(3);
    for (int i = 0; i < H * (1 + W); i++) rows[i] = (uint8_t)(i % (1 + W) == 0 ? 0 : i % 3);
    add_chunk(&p, "PLTE", colours, sizeof colours);
    finish(&p, rows, sizeof rows, 9);
    return p;
}

static const char *write_file(const png *p)
{
    const char *path = in_room("p.png");
    FILE       *f    = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p->byte, 1, p->n, f), p->n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* [H][W][3] from malloc, or NULL: refused with a message that names the file. */
static uint8_t *read_png(const png *p)
{
    int         h = 0, w = 0;
    const char *path   = write_file(p);
    uint8_t    *pixels = qg__image_read(path, 3, &h, &w);
    if (pixels && (h != H || w != W)) fail_msg("read as %d x %d", h, w);
    if (!pixels) assert_message(path);
    return pixels;
}

static void assert_refused(const png *p, const char *reason)
{
    assert_null(read_png(p));
    assert_message(reason);
    assert_null(qg__png_read(in_room("p.png"), H, W, 3));
    assert_message(reason);
}

/* The same pixels, or none. */
static void assert_safe(const png *p, const uint8_t *expected, size_t changed)
{
    uint8_t *pixels = read_png(p);
    if (pixels && memcmp(pixels, expected, H * W * 3)) fail_msg("byte %zu changed, and with it the pixels", changed);
    free(pixels);
}

static void check_every_byte(const png *whole)
{
    static const uint8_t masks[] = { 0x01, 0x04, 0x20, 0x80, 0xff };
    uint8_t             *pixels  = read_png(whole);
    if (!pixels) fail_msg("%s", qg_errmsg());
    for (size_t i = 0; i < whole->n; i++)
        for (size_t k = 0; k < sizeof masks; k++) {
            png p = *whole;
            p.byte[i] ^= masks[k];
            assert_safe(&p, pixels, i);
        }
    free(pixels);
}

static void a_changed_byte_changes_no_pixel(void **state)
{
    (void)state;
    const png stored = coloured(0), packed = coloured(9), palette = indexed();
    check_every_byte(&stored);
    check_every_byte(&packed);
    check_every_byte(&palette);
}

/* Whoever computes the CRC again has still to get the sum of the compressed data right. */
static void a_changed_byte_behind_a_right_crc_changes_no_pixel(void **state)
{
    (void)state;
    for (int level = 0; level <= 9; level += 9) {
        const png whole  = coloured(level);
        uint8_t  *pixels = read_png(&whole);
        size_t    refused = 0;
        if (!pixels) fail_msg("%s", qg_errmsg());
        for (size_t at = HEADER_END + 29; at + 12 < whole.n;) {       /* from the first IDAT to IEND */
            const size_t n = (size_t)whole.byte[at + 2] << 8 | whole.byte[at + 3];
            for (size_t i = at + 8; i < at + 8 + n; i++) {
                png p = whole;
                p.byte[i] ^= 0x10;
                put_big(p.byte + at + 8 + n, (uint32_t)crc32(0, p.byte + at + 4, (uInt)n + 4));
                uint8_t *now = read_png(&p);
                if (now && memcmp(now, pixels, H * W * 3)) fail_msg("level %d: byte %zu changed the pixels", level, i);
                refused += !now;
                free(now);
            }
            at += n + 12;
        }
        assert_true(refused > 0);
        free(pixels);
    }
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    const png whole = coloured(0);
    png       p     = whole;
    p.byte[HEADER_END + 10] ^= 1;                                   /* in the text */
    assert_refused(&p, "is damaged: the checksum of its tEXt chunk at byte 33 is wrong");
    p = whole;
    p.byte[p.n - 1] ^= 1;
    assert_refused(&p, "the checksum of its IEND chunk at byte ");
    p = whole;
    p.n -= 12;
    assert_refused(&p, "is damaged: it ends without an IEND chunk");
    p.n -= 3;
    assert_refused(&p, "is damaged: it ends within its IDAT chunk at byte ");
    /* What follows the end is no part of the image. */
    p = whole;
    memcpy(p.byte + p.n, "more", 4);
    p.n += 4;
    uint8_t *pixels = read_png(&p);
    if (!pixels) fail_msg("%s", qg_errmsg());
    free(pixels);
}

static void the_compressed_data_are_those_of_the_image(void **state)
{
    (void)state;
    static const uint8_t zeros[1 << 16];
    uint8_t              packed[MOST];
    uLongf               length = sizeof packed;
    png                  p      = begin(2);
    assert_int_equal(compress2(packed, &length, zeros, sizeof zeros, 9), Z_OK);
    add_chunk(&p, "IDAT", packed, length);
    add_chunk(&p, "IEND", NULL, 0);
    assert_refused(&p, "its compressed data hold more than its pixels");
    p = begin(2);
    finish(&p, zeros, H * ROW - 1, 0);
    assert_refused(&p, "is ");
    p = begin(2);
    add_chunk(&p, "IDAT", packed, length - 4);
    add_chunk(&p, "IEND", NULL, 0);
    assert_refused(&p, "is ");
    /* A stream that lacks its sum. */
    p      = begin(2);
    length = sizeof packed;
    assert_int_equal(compress2(packed, &length, zeros, H * ROW, 9), Z_OK);
    add_chunk(&p, "IDAT", packed, length - 4);
    add_chunk(&p, "IEND", NULL, 0);
    assert_refused(&p, "its compressed data end too early");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_enter, room_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_changed_byte_changes_no_pixel),
        TEST(a_changed_byte_behind_a_right_crc_changes_no_pixel),
        TEST(what_is_wrong_is_said),
        TEST(the_compressed_data_are_those_of_the_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
