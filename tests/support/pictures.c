#include "tests/support/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A zlib stream of stored blocks, one per row, each row behind its filter 0. */
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

void write_png(const char *path, const uint8_t *pixels, int h, int w)
{
    const size_t row  = 3 * (size_t)w;
    uint8_t     *data = malloc(16 + (size_t)h * (row + 6));
    FILE        *f    = fopen(path, "wb");
    assert_non_null(f);
    assert_non_null(data);
    assert_true(row < 65535);
    uint8_t head[17] = { 'I', 'H', 'D', 'R', 0, 0, (uint8_t)(w >> 8), (uint8_t)(w & 255),
                         0,   0,   (uint8_t)(h >> 8), (uint8_t)(h & 255), 8, 2, 0, 0, 0 };
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, f);
    put_chunk(f, head, sizeof head);
    memcpy(data, "IDAT", 4);
    put_chunk(f, data, 4 + store(pixels, h, row, data + 4));
    put_chunk(f, (const uint8_t *)"IEND", 4);
    assert_int_equal(fclose(f), 0);
    free(data);
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
