#include "tests/fuzz/pictures.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/room.h"

enum { SIGNATURE = 8, LENGTH = 4, TYPE = 4, CRC = 4, HEADER = 13 };

static const uint8_t signature[SIGNATURE] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };

static uint32_t get_big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void repair(uint8_t *png, size_t n)
{
    for (size_t at = SIGNATURE; at + LENGTH + TYPE + CRC <= n;) {
        const size_t length = get_big(png + at);
        if (length > n - at - LENGTH - TYPE - CRC) return;
        uint8_t *type = png + at + LENGTH;
        put_big(type + TYPE + length, (uint32_t)crc32(0, type, (uInt)(TYPE + length)));
        at += LENGTH + TYPE + length + CRC;
    }
}

static uint8_t *put_chunk(uint8_t *to, const char *type, const uint8_t *data, size_t n)
{
    put_big(to, (uint32_t)n);
    memcpy(to + LENGTH, type, TYPE);
    if (n) memcpy(to + LENGTH + TYPE, data, n);
    put_big(to + LENGTH + TYPE + n, (uint32_t)crc32(0, to + LENGTH, (uInt)(TYPE + n)));
    return to + LENGTH + TYPE + n + CRC;
}

/* A palette of 256 colours is only legal with some types, so the header says whether there is one. */
static void write_rows(const char *name, const uint8_t *bytes, size_t n)
{
    uint8_t header[HEADER] = { 0 }, palette[768];
    memcpy(header, bytes, HEADER);
    header[0] = header[1] = header[4] = header[5] = 0;          /* at most 65535 x 65535 */
    for (size_t i = 0; i < sizeof palette; i++) palette[i] = (uint8_t)(7 * i);
    uLongf   packed = compressBound(n - HEADER);
    uint8_t *idat   = malloc(packed);
    uint8_t *file   = malloc(SIGNATURE + 4 * (LENGTH + TYPE + CRC) + HEADER + sizeof palette + packed);
    MUST(idat && file && compress2(idat, &packed, bytes + HEADER, n - HEADER, 1) == Z_OK);
    memcpy(file, signature, SIGNATURE);
    uint8_t *at = put_chunk(file + SIGNATURE, "IHDR", header, HEADER);
    if (header[9] == 3)
        at = put_chunk(at, "PLTE", palette, 3 * (size_t)(header[8] < 8 ? 1 << (header[8] & 7) : 256));
    at = put_chunk(at, "IDAT", idat, packed);
    at = put_chunk(at, "IEND", NULL, 0);
    write_in_room(name, file, (size_t)(at - file));
    free(idat);
    free(file);
}

static void write_repaired(const char *name, const uint8_t *bytes, size_t n)
{
    uint8_t *file = malloc(n ? n : 1);
    MUST(file);
    if (n) memcpy(file, bytes, n);
    repair(file, n);
    write_in_room(name, file, n);
    free(file);
}

bool fuzz_picture(const char *name, fuzz_kind kind, const uint8_t *bytes, size_t n)
{
    if (kind == FUZZ_ROWS && n < HEADER) return false;
    if (kind == FUZZ_FILE) write_in_room(name, bytes, n);
    if (kind == FUZZ_REPAIRED) write_repaired(name, bytes, n);
    if (kind == FUZZ_ROWS) write_rows(name, bytes, n);
    return true;
}
