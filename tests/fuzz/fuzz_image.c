/* Image files.  The first byte chooses channels and what the rest is:
 *     a file
 *     a PNG file whose checksums are repaired, since libpng reads nothing of a chunk with a wrong one
 *     the header of a PNG file and its rows with their filters, which are compressed here
 *     a file of a folder of images */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>

#include "datasets/image.h"
#include "datasets/loader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loading.h"
#include "tests/support/room.h"

enum { SIGNATURE = 8, LENGTH = 4, TYPE = 4, CRC = 4, HEADER = 13 };

static const uint8_t signature[SIGNATURE] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };

static uint32_t get_big(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

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
static void write_rows(const uint8_t *bytes, size_t n)
{
    uint8_t header[HEADER] = { 0 }, palette[768];
    if (n < HEADER) return;
    memcpy(header, bytes, HEADER);
    header[0] = header[1] = header[4] = header[5] = 0;          /* at most 65535 x 65535 */
    for (size_t i = 0; i < sizeof palette; i++) palette[i] = (uint8_t)(7 * i);
    uLongf   packed = compressBound(n - HEADER);
    uint8_t *idat   = malloc(packed);
    uint8_t *file   = malloc(SIGNATURE + 4 * (LENGTH + TYPE + CRC) + HEADER + sizeof palette + packed);
    MUST(idat && file && compress2(idat, &packed, bytes + HEADER, n - HEADER, 1) == Z_OK);
    memcpy(file, signature, SIGNATURE);
    uint8_t *at = put_chunk(file + SIGNATURE, "IHDR", header, HEADER);
    if (header[9] == 3) at = put_chunk(at, "PLTE", palette, 3 * (size_t)(header[8] < 8 ? 1 << (header[8] & 7) : 256));
    at = put_chunk(at, "IDAT", idat, packed);
    at = put_chunk(at, "IEND", NULL, 0);
    write_in_room("image.png", file, (size_t)(at - file));
    free(idat);
    free(file);
}

static void write_repaired(const uint8_t *bytes, size_t n)
{
    uint8_t *file = malloc(n ? n : 1);
    MUST(file);
    if (n) memcpy(file, bytes, n);
    repair(file, n);
    write_in_room("image.png", file, n);
    free(file);
}

static void read_folder(const uint8_t *bytes, size_t n, int channels)
{
    char dir[ROOM_BYTES];
    strcpy(dir, in_room("folder"));
    mkdir(dir, 0700);
    mkdir(in_room("folder/class"), 0700);
    write_in_room("folder/class/image.png", bytes, n);
    qg_loader *l = qg_folder(dir, (qg_shape){ 1, 3, 5, channels }, fuzz_loading((uint8_t)(n & 3)));
    fuzz_load(l);
    qg_loader_free(l);
}

static void read_image(const char *path, int channels)
{
    int      h, w;
    uint8_t *pixels = qg__image_read(path, channels, &h, &w), small[7 * 3 * 3];
    if (fuzz_got(pixels)) {
        const size_t count = (size_t)h * (size_t)w;
        MUST(h >= 1 && w >= 1 && count <= (size_t)1 << 26);
        fuzz_touch(pixels, count * (size_t)channels);
        if (count <= 1 << 14) MUST(qg__resize(pixels, (qg_shape){ 1, h, w, channels }, small, (qg_shape){ 1, 7, 3, channels }));
    }
    free(pixels);
}

static void read_sheet(const char *path, qg_shape want)
{
    const qg_shape asked  = want;
    uint8_t       *pixels = qg__png_read(path, &want);
    if (fuzz_got(pixels)) {
        MUST(want.h >= 1 && (want.h == asked.h || !asked.h) && want.w == asked.w && want.c == asked.c);
        fuzz_touch(pixels, qg_row(want));
    }
    free(pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n < 1) return 0;
    const int channels = bytes[0] & 1 ? 1 : 3, what = bytes[0] / 2 % 4;
    if (what == 3) {
        read_folder(bytes + 1, n - 1, channels);
        return 0;
    }
    if (what == 0) write_in_room("image.png", bytes + 1, n - 1);
    if (what == 1) write_repaired(bytes + 1, n - 1);
    if (what == 2) {
        if (n < 1 + HEADER) return 0;
        write_rows(bytes + 1, n - 1);
    }
    char path[ROOM_BYTES];
    strcpy(path, in_room("image.png"));
    read_image(path, channels);
    read_sheet(path, (qg_shape){ 1, bytes[0] & 8 ? 0 : 4, 1 + bytes[0] / 16, channels });
    return 0;
}
