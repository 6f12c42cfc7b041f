/* Image files, whole, damaged and hostile. */
#include "tests/support/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/io/file.h"
#include "datasets/image.h"
#include "tests/support/pictures.h"
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

/* The n bytes of rows, each with its filter byte first, compressed and split into two chunks; and the end. */
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
    write_in_room("p.png", p->byte, p->n);
    return in_room("p.png");
}

/* [H][W][3] from malloc, or NULL: refused with a message that names the file. */
static uint8_t *read_png(const png *p)
{
    int         h = 0, w = 0;
    const char *path   = write_file(p);
    uint8_t    *pixels = qg__image_read(path, 3, &h, &w, &(bool){ 0 });
    if (pixels && (h != H || w != W)) fail_msg("read as %d x %d", h, w);
    if (!pixels) assert_message(path);
    return pixels;
}

static void assert_refused(const png *p, const char *reason)
{
    assert_none(read_png(p), reason);
    assert_none(qg__png_read(in_room("p.png"), &(qg_shape){ 1, H, W, 3 }), reason);
}

/* The same pixels, or none. */
static void assert_safe(const png *p, const uint8_t *expected, size_t changed)
{
    uint8_t *pixels = read_png(p);
    if (pixels && memcmp(pixels, expected, H * W * 3))
        fail_msg("byte %zu changed, and with it the pixels", changed);
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
    const png stored = coloured(0), packed = coloured(9), palette = indexed();
    check_every_byte(&stored);
    check_every_byte(&packed);
    check_every_byte(&palette);
}

/* Even with a new CRC, the checksum of the compressed data finds the change. */
static void a_changed_byte_with_a_right_crc_changes_no_pixel(void **state)
{
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
                if (now && memcmp(now, pixels, H * W * 3))
                    fail_msg("level %d: byte %zu changed the pixels", level, i);
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
    const png whole = coloured(0);
    png       p     = whole;
    p.byte[HEADER_END + 10] ^= 1;                                   /* in the text */
    assert_refused(&p, "is damaged: tEXt: CRC error");
    p = whole;
    p.byte[p.n - 1] ^= 1;
    assert_refused(&p, "is damaged: IEND: CRC error");
    p = whole;
    p.n -= 12;
    assert_refused(&p, "is damaged: it is truncated");
    p.n -= 3;
    assert_refused(&p, "is damaged: it is truncated");
    /* Bytes after the end are not part of the image. */
    p = whole;
    memcpy(p.byte + p.n, "more", 4);
    p.n += 4;
    uint8_t *pixels = read_png(&p);
    if (!pixels) fail_msg("%s", qg_errmsg());
    free(pixels);
}

/* n bytes of rows, packed into a stream that lacks its last bytes. */
static void assert_stream_refused(size_t n, size_t cut, const char *reason)
{
    static const uint8_t zeros[1 << 16];
    uint8_t              packed[MOST];
    uLongf               length = sizeof packed;
    png                  p      = begin(2);
    assert_int_equal(compress2(packed, &length, zeros, n, 9), Z_OK);
    add_chunk(&p, "IDAT", packed, length - cut);
    add_chunk(&p, "IEND", NULL, 0);
    assert_refused(&p, reason);
}

static void the_compressed_data_are_those_of_the_image(void **state)
{
    assert_stream_refused(1 << 16, 0, "is damaged: IDAT: Too much image data");
    assert_stream_refused(1 << 16, 4, "is damaged: Not enough image data");
    assert_stream_refused(H * ROW - 1, 0, "is damaged: Not enough image data");
    assert_stream_refused(H * ROW, 4, "is damaged: Not enough image data");     /* the sum is missing */
}

/* Every kind of PNG becomes 8-bit grey or RGB; an alpha channel is dropped. */
static void every_kind_of_png(void **state)
{
    static const struct {
        const char *name;
        uint8_t     type, depth, bytes, first[8], rgb[3], grey;
    } kinds[] = {
        { "grey, 1 bit", 0, 1, 1, { 0x80 }, { 255, 255, 255 }, 255 },
        { "grey, 4 bits", 0, 4, 3, { 0x20 }, { 34, 34, 34 }, 34 },
        { "grey, 16 bits", 0, 16, 2 * W, { 0x12, 0xff }, { 0x12, 0x12, 0x12 }, 0x12 },
        { "RGB", 2, 8, 3 * W, { 10, 20, 200 }, { 10, 20, 200 }, 37 },
        { "RGB, 16 bits", 2, 16, 6 * W, { 10, 255, 20, 255, 200, 255 }, { 10, 20, 200 }, 37 },
        { "grey and alpha", 4, 8, 2 * W, { 99, 1 }, { 99, 99, 99 }, 99 },
        { "RGB and alpha", 6, 8, 4 * W, { 10, 20, 200, 1 }, { 10, 20, 200 }, 37 },
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint8_t rows[H * (1 + 6 * W)] = { 0 };
        png     p                     = begin(kinds[k].type);
        p.byte[SIGNATURE + 16] = kinds[k].depth;
        put_big(p.byte + HEADER_END - 4, (uint32_t)crc32(0, p.byte + SIGNATURE + 4, 17));
        memcpy(rows + 1, kinds[k].first, sizeof kinds[k].first);
        finish(&p, rows, H * (1 + (size_t)kinds[k].bytes), 0);
        int            h, w;
        const char    *path = write_file(&p);
        uint8_t *const rgb = qg__image_read(path, 3, &h, &w, &(bool){ 0 }), *const grey = qg__image_read(path, 1, &h, &w, &(bool){ 0 });
        if (!rgb || !grey) fail_msg("%s: %s", kinds[k].name, qg_errmsg());
        if (memcmp(rgb, kinds[k].rgb, 3) || grey[0] != kinds[k].grey)
            fail_msg("%s: the first pixel is %d %d %d, or %d", kinds[k].name, rgb[0], rgb[1], rgb[2],
                     grey[0]);
        free(rgb);
        free(grey);
    }
}

/* Readers that expect a PNG never reach another decoder. */
static void a_png_is_no_other_format(void **state)
{
    const uint8_t pixels[3 * 8 * 8] = { 0 };
    const char   *path              = in_room("p.png");
    qg_shape      want              = { 1, 8, 8, 3 };
    write_bmp(path, pixels, 8, 8);
    assert_none(qg__png_read(path, &want), "p.png' is not a PNG file");
    write_jpeg(path, (jpeg){ 8, 8, 1, { 128 }, 1, 0 });
    assert_none(qg__png_read(path, &want), "p.png' is not a PNG file");
    write_png(path, pixels, 8, 8);
    want.h = 0;
    uint8_t *read = qg__png_read(path, &want);
    if (!read) fail_msg("%s", qg_errmsg());
    assert_int_equal(want.h, 8);
    free(read);
    want.w = 9;
    assert_none(qg__png_read(path, &want), "is 8 x 8, 3 channels of 8 bits, expected 9 x 8, 3 of 8");
}

static void check_jpeg(jpeg p, const uint8_t rgb[3], uint8_t grey)
{
    int         h = 0, w = 0;
    const char *path = in_room("p.jpg");
    write_jpeg(path, p);
    for (int c = 1; c <= 3; c += 2) {
        uint8_t *pixels = qg__image_read(path, c, &h, &w, &(bool){ 0 });
        if (!pixels) fail_msg("%d components, %d scans: %s", p.components, p.scans, qg_errmsg());
        assert_int_equal(h, p.h);
        assert_int_equal(w, p.w);
        for (int i = 0; i < h * w * c; i++)
            if (pixels[i] != (c == 1 ? grey : rgb[i % 3]))
                fail_msg("%d components, %d scans: value %d of %d is %d", p.components, p.scans, i, c,
                         pixels[i]);
        free(pixels);
    }
}

static void every_kind_of_jpeg(void **state)
{
    check_jpeg((jpeg){ 16, 24, 1, { 170 }, 1, 0 }, (const uint8_t[]){ 170, 170, 170 }, 170);
    check_jpeg((jpeg){ 16, 24, 1, { 80 }, 100, 0 }, (const uint8_t[]){ 80, 80, 80 }, 80);
    /* R = Y + 1.402 (Cr - 128), B = Y + 1.772 (Cb - 128), G = Y - 0.344 (Cb - 128) - 0.714 (Cr - 128) */
    check_jpeg((jpeg){ 8, 16, 3, { 160, 96, 170 }, 1, 0 }, (const uint8_t[]){ 219, 141, 103 }, 160);
    /* A tenth of each ink, inverted, and black: 160 x 170 / 255 .. */
    check_jpeg((jpeg){ 8, 8, 4, { 160, 190, 90, 170 }, 1, 0 }, (const uint8_t[]){ 107, 127, 60 }, 113);
}

static void assert_jpeg_refused(const char *what, const char *reason)
{
    int h, w;
    if (qg__image_read(in_room("p.jpg"), 3, &h, &w, &(bool){ 0 })) fail_msg("%s: not refused", what);
    if (!strstr(qg_errmsg(), "p.jpg'") || !strstr(qg_errmsg(), reason))
        fail_msg("%s: '%s' does not say '%s'", what, qg_errmsg(), reason);
}

/* Each used to reach memory that is not its own, or to take minutes. */
static void hostile_jpegs(void **state)
{
    static const struct {
        const char *what;
        jpeg        p;
        const char *reason;
    } files[] = {
        { "4080 codes", { 8, 8, 1, { 128 }, 1, 255 }, "is damaged: Bogus Huffman table definition" },
        { "more codes than bits allow", { 8, 8, 1, { 128 }, 1, 16 }, "is damaged: Bogus Huffman table definition" },
        { "101 scans", { 8, 8, 1, { 128 }, 101, 0 }, "has more than 100 scans" },
        { "too many pixels", { 65496, 1032, 1, { 128 }, 1, 0 }, "is 1032 x 65496: more than 67 million pixels" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_jpeg(in_room("p.jpg"), files[i].p);
        assert_jpeg_refused(files[i].what, files[i].reason);
    }
}

/* libjpeg would make up the pixels that are missing. */
static void a_jpeg_that_is_cut_is_refused(void **state)
{
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    write_jpeg(in_room("p.jpg"), (jpeg){ 64, 64, 1, { 170 }, 1, 0 });
    assert_ok(qg__file_read_in(QG_BY_PATH, in_room("p.jpg"), 1 << 20, &bytes, &n));
    for (size_t cut = 1; cut < n; cut++) {
        char what[64];
        snprintf(what, sizeof what, "without its last %zu", cut);
        write_in_room("p.jpg", bytes, n - cut);
        assert_jpeg_refused(what, n - cut < 3 ? "is not a PNG, JPEG or BMP file" : "is damaged: ");
    }
    free(bytes);
}

/* --- orientation -------------------------------------------------------------------------- */

enum { TALL = 5, WIDE = 11 };

/* The largest difference between a file and the picture. */
static int farthest(const char *path, const uint8_t picture[TALL * WIDE * 3])
{
    int      h = 0, w = 0, most = 0;
    uint8_t *pixels = qg__image_read(path, 3, &h, &w, &(bool){ 0 });
    if (!pixels) fail_msg("%s", qg_errmsg());
    if (h != TALL || w != WIDE) fail_msg("%s: read as %d x %d", path, h, w);
    for (int i = 0; i < TALL * WIDE * 3; i++)
        most = abs(pixels[i] - picture[i]) > most ? abs(pixels[i] - picture[i]) : most;
    free(pixels);
    return most;
}

/* No two parts of it are alike. */
static void paint(uint8_t picture[TALL * WIDE * 3])
{
    for (int i = 0; i < TALL * WIDE; i++) {
        picture[3 * i]     = (uint8_t)(20 * (i % WIDE));
        picture[3 * i + 1] = (uint8_t)(50 * (i / WIDE));
        picture[3 * i + 2] = 128;
    }
}

/* A file of 8 x 8 blocks that are turned is not compressed to exactly the same values. */
static void a_photograph_is_turned(void **state)
{
    uint8_t picture[TALL * WIDE * 3], stored[TALL * WIDE * 3], exif[EXIF_BYTES], rows[TALL * WIDE * 3 + WIDE];
    paint(picture);
    for (int o = 1; o <= 8; o++) {
        const int h = o >= 5 ? WIDE : TALL, w = o >= 5 ? TALL : WIDE;
        write_turned_photo(in_room("p.jpg"), picture, TALL, WIDE, o);
        if (farthest(in_room("p.jpg"), picture) > 8) fail_msg("orientation %d: the JPEG is not turned", o);

        png p = { .byte = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, .n = SIGNATURE };
        add_chunk(&p, "IHDR", (const uint8_t[]){ 0, 0, 0, (uint8_t)w, 0, 0, 0, (uint8_t)h, 8, 2, 0, 0, 0 },
                  13);
        store_turned(picture, TALL, WIDE, o, stored);
        write_exif(exif, o, o % 3);
        add_chunk(&p, "eXIf", exif + EXIF_NAME, EXIF_BYTES - EXIF_NAME);
        for (int y = 0; y < h; y++) {
            rows[y * (3 * w + 1)] = 0;
            memcpy(rows + y * (3 * w + 1) + 1, stored + y * 3 * w, (size_t)(3 * w));
        }
        finish(&p, rows, (size_t)(h * (3 * w + 1)), 9);
        if (farthest(write_file(&p), picture)) fail_msg("orientation %d: the PNG is not turned", o);
    }
}

/* The picture as it is stored. */
static void assert_not_turned(const char *what, const uint8_t *exif, size_t n)
{
    uint8_t picture[TALL * WIDE * 3];
    paint(picture);
    write_photo(in_room("p.jpg"), picture, TALL, WIDE, exif, n);
    if (farthest(in_room("p.jpg"), picture) > 8) fail_msg("%s: the picture is turned", what);
}

static void exif_that_is_malformed_is_ignored(void **state)
{
    static const struct {
        const char *what;
        int         at;
        uint8_t     byte;
    } wrong[] = {
        { "another name", 3, 'F' },           { "another mark", 5, 1 },          { "another order of bytes", 6, 'X' },
        { "two orders of bytes", 7, 'M' },    { "another number than 42", 8, 43 }, { "a directory beyond the block", 10, 25 },
        { "a directory far beyond", 13, 255 }, { "an empty directory", 14, 0 },  { "another tag", 16, 0x13 },
        { "a long", 18, 4 },                  { "two values", 20, 2 },           { "orientation 0", 24, 0 },
        { "orientation 9", 24, 9 },           { "orientation 262", 25, 1 },
    };
    uint8_t exif[EXIF_BYTES];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_exif(exif, 6, false);
        exif[wrong[i].at] = wrong[i].byte;
        assert_not_turned(wrong[i].what, exif, sizeof exif);
    }
    write_exif(exif, 6, false);
    for (size_t n = 0; n < 26; n++) assert_not_turned("a block that is cut", exif, n);
    exif[14] = exif[15] = 255, exif[16] = 0;
    assert_not_turned("65535 entries", exif, sizeof exif);
}

/* Of several blocks the first counts; segments of the same type may have something else. */
static void the_first_exif_counts(void **state)
{
    uint8_t        picture[TALL * WIDE * 3], first[EXIF_BYTES], second[EXIF_BYTES];
    unsigned char *bytes = NULL;
    size_t         n     = 0;
    static const uint8_t other[] = { 0xff, 0xe1, 0, 9, 'h', 't', 't', 'p', ':', '/', 0 },
                         head[] = { 0xff, 0xe1, 0, EXIF_BYTES + 2 };
    paint(picture);
    write_exif(first, 8, true), write_exif(second, 3, false);
    uint8_t *file = malloc(1 << 16);
    assert_non_null(file);
    uint8_t stored[TALL * WIDE * 3];
    store_turned(picture, TALL, WIDE, 8, stored);
    write_photo(in_room("p.jpg"), stored, WIDE, TALL, second, sizeof second);
    assert_ok(qg__file_read_in(QG_BY_PATH, in_room("p.jpg"), 1 << 15, &bytes, &n));
    uint8_t *at = file;
    memcpy(at, bytes, 2), at += 2;
    memcpy(at, other, sizeof other), at += sizeof other;
    memcpy(at, head, sizeof head), at += sizeof head;
    memcpy(at, first, sizeof first), at += sizeof first;
    memcpy(at, bytes + 2, n - 2), at += n - 2;
    write_in_room("p.jpg", file, (size_t)(at - file));
    assert_true(farthest(in_room("p.jpg"), picture) <= 8);

    /* A segment that promises more bytes than the file has, or fewer than its own length. */
    at = file + 2;
    memcpy(at, "\xff\xe1\xff\xff", 4), at += 4;
    memcpy(at, first, sizeof first), at += sizeof first;
    write_in_room("p.jpg", file, (size_t)(at - file));
    assert_jpeg_refused("a segment that is cut", "is damaged: ");
    write_in_room("p.jpg", file, 5);
    assert_jpeg_refused("half a length", "is damaged: ");
    free(bytes);
    free(file);
}

/* 4 x 1 pixels of 8 bits, with a palette of three colours. */
static void a_bmp_has_the_colours_that_it_uses(void **state)
{
    uint8_t bmp[70] = { 'B', 'M', [10] = 66, [14] = 40, [18] = 4, [22] = 1, [26] = 1, [28] = 8, [46] = 3,
                        [54] = 1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 0, 2, 1, 0, 2 };
    static const uint8_t expected[] = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7 };
    int                  h, w;
    write_in_room("p.bmp", bmp, sizeof bmp);
    uint8_t *pixels = qg__image_read(in_room("p.bmp"), 3, &h, &w, &(bool){ 0 });
    if (!pixels) fail_msg("%s", qg_errmsg());
    assert_memory_equal(pixels, expected, sizeof expected);
    free(pixels);
    bmp[69] = 3;
    write_in_room("p.bmp", bmp, sizeof bmp);
    assert_none(qg__image_read(in_room("p.bmp"), 3, &h, &w, &(bool){ 0 }),
                "p.bmp' is damaged: a colour is not in its palette");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, room_enter, room_leave)

/* --- what images may become ---------------------------------------------------------------- */

/* The room is exactly as large as the shape, and keeps its bytes. */
static void assert_unwanted(qg_shape want, const char *part)
{
    const size_t n  = want.c > 0 ? qg_row(want) : 1;
    uint8_t     *to = malloc(n);
    bool         deep;
    assert_non_null(to);
    memset(to, 7, n);
    assert_false(qg__image_resized(in_room("p.png"), want, to, &deep));
    for (size_t i = 0; i < n; i++) assert_int_equal(to[i], 7);
    assert_int_equal(qg_errcode(), QG_EARG);
    assert_message(part);
    free(to);
}

static void images_have_one_channel_or_three(void **state)
{
    const uint8_t pixels[2 * 2 * 3] = { 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120 };
    uint8_t       to[2 * 2 * 3];
    int           h, w;
    bool          deep;
    write_png(in_room("p.png"), pixels, 2, 2);
    static const struct { int c; const char *part; } of[] = {
        { 2, "p.png': images of 2 channels are wanted, but image files have 1 or 3" },
        { 4, "p.png': images of 4 channels" },
        { 64, "p.png': images of 64 channels" },
        { 2048, "p.png': images of 2048 channels" },
        { 0, "p.png': images of 0 channels" },
        { -1, "p.png': images of -1 channels" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_unwanted((qg_shape){ 1, 2, 2, of[i].c }, of[i].part);        /* the size of the file, */
        assert_unwanted((qg_shape){ 1, 3, 5, of[i].c }, of[i].part);        /* and another one */
        assert_none(qg__image_read(in_room("p.png"), of[i].c, &h, &w, &(bool){ 0 }), of[i].part);
    }
    assert_true(qg__image_resized(in_room("p.png"), (qg_shape){ 1, 2, 2, 3 }, to, &deep));
    assert_memory_equal(to, pixels, sizeof pixels);
    assert_unwanted((qg_shape){ 1, 4097, 1, 1 },
                    "p.png': images of 4097x1 pixels are wanted, but sides must be 1..4096");
    assert_unwanted((qg_shape){ 1, 1, 5000, 3 }, "p.png': images of 1x5000 pixels are wanted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_changed_byte_changes_no_pixel),
        TEST(a_changed_byte_with_a_right_crc_changes_no_pixel),
        TEST(what_is_wrong_is_said),
        TEST(the_compressed_data_are_those_of_the_image),
        TEST(every_kind_of_png),
        TEST(a_png_is_no_other_format),
        TEST(every_kind_of_jpeg),
        TEST(hostile_jpegs),
        TEST(a_jpeg_that_is_cut_is_refused),
        TEST(a_photograph_is_turned),
        TEST(exif_that_is_malformed_is_ignored),
        TEST(the_first_exif_counts),
        TEST(a_bmp_has_the_colours_that_it_uses),
        TEST(images_have_one_channel_or_three),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
