/* The checksums of a PNG, which stb_image does not compare: a CRC-32 in each chunk, and an Adler-32 at
 * the end of the compressed pixels. */
#define ZLIB_CONST
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "datasets/dataset.h"

enum { SIGNATURE = 8, FRAME = 12 };     /* a chunk is its data and FRAME bytes: length, name, CRC */

typedef struct image {
    const char *path;
    uLong       most;                   /* bytes that its pixels can be */
    z_stream    z;
    bool        unpacked;               /* the compressed data have ended */
} image;

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_chunk(const uint8_t *chunk, const char *name) { return !memcmp(chunk + 4, name, 4); }

/* A damaged name may be any bytes. */
static const char *printable_name(const uint8_t *chunk, char name[5])
{
    for (int i = 0; i < 4; i++) {
        const uint8_t lower = chunk[4 + i] | 0x20;
        name[i]             = lower >= 'a' && lower <= 'z' ? (char)chunk[4 + i] : '?';
    }
    name[4] = '\0';
    return name;
}

static bool refuse(const image *m, const char *why)
{
    qg_fail(QG_EFORMAT, "'%s' is damaged: %s", m->path, why);
    return false;
}

/* A part of the compressed data.  zlib compares their sum when they end; the pixels are not kept. */
static bool unpack(image *m, const uint8_t *data, uint32_t n)
{
    unsigned char sink[1 << 14];
    int           result = Z_OK;
    m->z.next_in         = data;
    m->z.avail_in        = n;
    while (!m->unpacked && result == Z_OK) {
        m->z.next_out  = sink;
        m->z.avail_out = sizeof sink;
        result         = inflate(&m->z, Z_NO_FLUSH);
        m->unpacked    = result == Z_STREAM_END;
        if (m->z.total_out > m->most) return refuse(m, "its compressed data hold more than its pixels");
    }
    if (m->unpacked || result == Z_BUF_ERROR) return true;     /* the next chunk goes on */
    if (result == Z_MEM_ERROR) return qg_fail(QG_EMEM, "out of memory: unpacking '%s'", m->path), false;
    return refuse(m, m->z.msg ? m->z.msg : "its compressed data are no zlib stream");
}

static bool check_chunks(image *m, const uint8_t *bytes, size_t n)
{
    char name[5], why[80];
    for (size_t at = SIGNATURE; n - at >= FRAME;) {
        const uint8_t *chunk  = bytes + at;
        const uint32_t length = big_endian(chunk);
        if (length > n - at - FRAME) {
            snprintf(why, sizeof why, "it ends within its %s chunk at byte %zu", printable_name(chunk, name), at);
            return refuse(m, why);
        }
        if (crc32(0, chunk + 4, length + 4) != big_endian(chunk + 8 + length)) {
            snprintf(why, sizeof why, "the checksum of its %s chunk at byte %zu is wrong", printable_name(chunk, name), at);
            return refuse(m, why);
        }
        if (is_chunk(chunk, "IDAT") && !unpack(m, chunk + 8, length)) return false;
        if (is_chunk(chunk, "IEND")) return m->unpacked || refuse(m, "its compressed data end too early");
        at += length + FRAME;
    }
    return refuse(m, "it ends without an IEND chunk");
}

bool qg__png_check(const char *path, const uint8_t *bytes, size_t n, int64_t pixels)
{
    /* A pixel has 8 bytes at most and a row a filter byte.  Interlaced, an image of h rows has fewer than
     * 2 h + 7 of them, and no row is without a pixel. */
    image m = { .path = path, .most = 10 * (uLong)pixels + 7 };
    if (n < SIGNATURE || memcmp(bytes, "\x89PNG\r\n\x1a\n", SIGNATURE)) return true;
    if (inflateInit(&m.z) != Z_OK) return qg_fail(QG_EMEM, "out of memory: unpacking '%s'", path), false;
    const bool ok = check_chunks(&m, bytes, n);
    inflateEnd(&m.z);
    return ok;
}
