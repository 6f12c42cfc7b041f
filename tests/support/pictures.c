#include "tests/support/pictures.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tests/support/testing.h"

static void put_big(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(v >> shift & 255), f);
}

static void put_little(FILE *f, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) fputc((int)(v >> 8 * i & 255), f);
}

static uint32_t crc(const uint8_t *bytes, size_t n)
{
    uint32_t c = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
    }
    return ~c;
}

/* data begins with its four letters. */
static void put_chunk(FILE *f, const uint8_t *data, size_t n)
{
    put_big(f, (uint32_t)(n - 4));
    fwrite(data, 1, n, f);
    put_big(f, crc(data, n));
}

/* A zlib stream of stored blocks, one per row; a filter byte, 0, precedes each row. */
static size_t store(const uint8_t *pixels, int h, size_t row, uint8_t *to)
{
    uint8_t *at = to;
    uint32_t a = 1, b = 0;
    *at++ = 0x78;
    *at++ = 0x01;
    for (int y = 0; y < h; y++) {
        const size_t n = row + 1;
        *at++          = y == h - 1;
        *at++          = (uint8_t)(n & 255);
        *at++          = (uint8_t)(n >> 8);
        *at++          = (uint8_t)(~n & 255);
        *at++          = (uint8_t)(~n >> 8 & 255);
        *at            = 0;
        memcpy(at + 1, pixels + (size_t)y * row, row);
        for (size_t i = 0; i < n; i++) {
            a = (a + at[i]) % 65521;
            b = (b + a) % 65521;
        }
        at += n;
    }
    const uint32_t adler = b << 16 | a;
    for (int shift = 24; shift >= 0; shift -= 8) *at++ = (uint8_t)(adler >> shift & 255);
    return (size_t)(at - to);
}

/* bytes [h][row], `depth` bits for each value and the type of colours of PNG. */
static void write_rows(const char *path, const uint8_t *bytes, int h, int w, size_t row, int depth, int type)
{
    uint8_t     *data = malloc(16 + (size_t)h * (row + 6));
    FILE        *f    = fopen(path, "wb");
    assert_non_null(f);
    assert_non_null(data);
    assert_true(row < 65535);
    uint8_t head[17] = { 'I', 'H', 'D', 'R', 0, 0, (uint8_t)(w >> 8), (uint8_t)(w & 255),
                         0,   0,   (uint8_t)(h >> 8), (uint8_t)(h & 255), (uint8_t)depth, (uint8_t)type, 0, 0, 0 };
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, f);
    put_chunk(f, head, sizeof head);
    memcpy(data, "IDAT", 4);
    put_chunk(f, data, 4 + store(bytes, h, row, data + 4));
    put_chunk(f, (const uint8_t *)"IEND", 4);
    assert_int_equal(fclose(f), 0);
    free(data);
}

void write_png(const char *path, const uint8_t *pixels, int h, int w) { write_rows(path, pixels, h, w, 3 * (size_t)w, 8, 2); }

void write_deep_png(const char *path, int value, int h, int w)
{
    const size_t row   = 2 * (size_t)w;
    uint8_t     *bytes = malloc((size_t)h * row);
    assert_non_null(bytes);
    for (size_t i = 0; i < (size_t)h * row; i++) bytes[i] = (uint8_t)(i % 2 ? value & 255 : value >> 8);
    write_rows(path, bytes, h, w, row, 16, 0);
    free(bytes);
}

/* Rows from the bottom up, blue first, each padded to a multiple of four bytes. */
void write_bmp(const char *path, const uint8_t *pixels, int h, int w)
{
    const int pitch = (3 * w + 3) / 4 * 4;
    FILE     *f     = fopen(path, "wb");
    assert_non_null(f);
    fputs("BM", f);
    put_little(f, (uint32_t)(54 + pitch * h), 4);
    put_little(f, 0, 4);
    put_little(f, 54, 4);
    put_little(f, 40, 4);
    put_little(f, (uint32_t)w, 4);
    put_little(f, (uint32_t)h, 4);
    put_little(f, 1, 2);
    put_little(f, 24, 2);
    for (int i = 0; i < 6; i++) put_little(f, 0, 4);
    for (int y = h - 1; y >= 0; y--) {
        for (int x = 0; x < w; x++)
            for (int c = 2; c >= 0; c--) fputc(pixels[(y * w + x) * 3 + c], f);
        for (int i = 3 * w; i < pitch; i++) fputc(0, f);
    }
    assert_int_equal(fclose(f), 0);
}

/* --- JPEG --------------------------------------------------------------------------------- */

typedef struct bits {
    FILE *f;
    int   byte, n;          /* n bits of byte are there */
} bits;

static void put_bits(bits *b, int value, int n)
{
    while (n--) {
        b->byte = b->byte << 1 | (value >> n & 1);
        if (++b->n < 8) continue;
        fputc(b->byte, b->f);
        if (b->byte == 0xff) fputc(0, b->f);
        b->byte = b->n = 0;
    }
}

static void put_segment(FILE *f, int marker, const uint8_t *data, int n)
{
    const uint8_t head[] = { 0xff, (uint8_t)marker, (uint8_t)((n + 2) >> 8), (uint8_t)((n + 2) & 255) };
    fwrite(head, 1, 4, f);
    fwrite(data, 1, (size_t)n, f);
}

/* The code 0 means a zero difference or a block without more coefficients, 10 a difference of six bits. */
static void put_huffman(FILE *f, int class, int codes)
{
    uint8_t table[17 + 16 * 255] = { (uint8_t)(class << 4), 1, 1 };
    int     n                    = 2;
    table[18] = 6;
    if (codes) {
        memset(table + 1, codes, 16);
        n = 16 * codes;
    }
    put_segment(f, 0xc4, table, 17 + n);
}

/* Differences between blocks, the first of which has all of the value. */
static void put_blocks(bits *b, const jpeg *p, bool dc, bool ac)
{
    for (int i = 0; i < p->h / 8 * (p->w / 8); i++)
        for (int c = 0; c < p->components; c++) {
            const int d = i ? 0 : p->value[c] - 128;
            if (dc && d) put_bits(b, 2, 2), put_bits(b, d < 0 ? d + 63 : d, 6);
            if (dc && !d) put_bits(b, 0, 1);
            if (ac) put_bits(b, 0, 1);
        }
    if (b->n) put_bits(b, 255, 8 - b->n);
}

/* Frequencies first..last, of which bit `low` and, in a first scan of them, all above it. */
static void put_scan(FILE *f, const jpeg *p, int first, int last, int high, int low)
{
    bits    b        = { .f = f };
    uint8_t scan[12] = { (uint8_t)p->components };
    int     n        = 1;
    for (int c = 0; c < p->components; c++, n += 2) scan[n] = (uint8_t)(c + 1);
    scan[n++] = (uint8_t)first;
    scan[n++] = (uint8_t)last;
    scan[n++] = (uint8_t)(high << 4 | low);
    put_segment(f, 0xda, scan, n);
    put_blocks(&b, p, first == 0, last > 0);
}

void write_jpeg(const char *path, jpeg p)
{
    enum { BITS = 14 };
    uint8_t frame[18] = { 8, (uint8_t)(p.h >> 8), (uint8_t)(p.h & 255), (uint8_t)(p.w >> 8), (uint8_t)(p.w & 255),
                          (uint8_t)p.components };
    uint8_t quantum[65] = { 0 };
    FILE   *f           = fopen(path, "wb");
    assert_non_null(f);
    for (int c = 0; c < p.components; c++) frame[6 + 3 * c] = (uint8_t)(c + 1), frame[7 + 3 * c] = 0x11;
    memset(quantum + 1, 8, 64);             /* a step of the mean is a step of the value */
    fwrite("\xff\xd8", 1, 2, f);
    if (p.components == 4) put_segment(f, 0xee, (const uint8_t *)"Adobe\0\144\0\0\0\0\0", 12);
    put_segment(f, 0xdb, quantum, 65);
    put_segment(f, p.scans == 1 ? 0xc0 : 0xc2, frame, 6 + 3 * p.components);
    put_huffman(f, 0, 0);
    put_huffman(f, 1, p.codes);
    put_scan(f, &p, 0, p.scans == 1 ? 63 : 0, 0, 0);
    for (int i = 0; i < p.scans - 1; i++) {
        const int low = BITS - 1 - i % BITS;
        put_scan(f, &p, 1 + i / BITS, 1 + i / BITS, i % BITS ? low + 1 : 0, low);
    }
    fwrite("\xff\xd9", 1, 2, f);
    assert_int_equal(fclose(f), 0);
}

/* --- photographs -------------------------------------------------------------------------- */

void write_photo(const char *path, const uint8_t *pixels, int h, int w, const void *exif, size_t n)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr       errors;
    FILE                       *f = fopen(path, "wb");
    assert_non_null(f);
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    jpeg_stdio_dest(&j, f);
    j.image_height     = (JDIMENSION)h;
    j.image_width      = (JDIMENSION)w;
    j.input_components = 3;
    j.in_color_space   = JCS_RGB;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 100, TRUE);
    j.comp_info[0].h_samp_factor = j.comp_info[0].v_samp_factor = 1;      /* colours of all pixels */
    jpeg_start_compress(&j, TRUE);
    if (n) jpeg_write_marker(&j, JPEG_APP0 + 1, exif, (unsigned)n);
    for (int y = 0; y < h; y++) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)y * (size_t)w * 3);
        jpeg_write_scanlines(&j, &row, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    assert_int_equal(fclose(f), 0);
}

/* Offsets count from the byte after the name: a directory at 8 with one entry, and the end of the list of directories. */
void write_exif(uint8_t to[EXIF_BYTES], int orientation, bool big)
{
    const uint8_t o = (uint8_t)orientation;
    const uint8_t little_first[EXIF_BYTES] = { 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, o };
    const uint8_t big_first[EXIF_BYTES]    = { 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, o };
    memcpy(to, big ? big_first : little_first, EXIF_BYTES);
}

/* From [h][w][3]: left to right, or by a right angle against the clock, to [w][h][3]. */
static void mirror(const uint8_t *from, int h, int w, uint8_t *to)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) memcpy(to + (y * w + x) * 3, from + (y * w + w - 1 - x) * 3, 3);
}

static void turn_left(const uint8_t *from, int h, int w, uint8_t *to)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) memcpy(to + ((w - 1 - x) * h + y) * 3, from + (y * w + x) * 3, 3);
}

/* The decoder mirrors the file in 2, 4, 5 and 7 and turns it right 0, 2, 3, 1 times, so the picture is turned left and mirrored. */
void store_turned(const uint8_t *pixels, int h, int w, int orientation, uint8_t *to)
{
    static const int left[]     = { 0, 0, 0, 2, 2, 3, 1, 1, 3 };
    static const int mirrored[] = { 0, 0, 1, 0, 1, 1, 0, 1, 0 };
    const size_t     bytes      = (size_t)(h * w * 3);
    uint8_t         *from       = malloc(bytes);
    assert_non_null(from);
    memcpy(to, pixels, bytes);
    for (int i = 0; i < left[orientation]; i++) {
        memcpy(from, to, bytes);
        turn_left(from, i % 2 ? w : h, i % 2 ? h : w, to);
    }
    memcpy(from, to, bytes);
    if (mirrored[orientation]) mirror(from, orientation >= 5 ? w : h, orientation >= 5 ? h : w, to);
    free(from);
}

void write_turned_photo(const char *path, const uint8_t *pixels, int h, int w, int orientation)
{
    uint8_t  exif[EXIF_BYTES];
    uint8_t *stored = malloc((size_t)(h * w * 3));
    assert_non_null(stored);
    store_turned(pixels, h, w, orientation, stored);
    write_exif(exif, orientation, orientation % 2);
    write_photo(path, stored, orientation >= 5 ? w : h, orientation >= 5 ? h : w, exif, sizeof exif);
    free(stored);
}
