/* BMP files, by stb_image: the one place that sees it. */
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/status.h"
#include "datasets/image.h"

#if defined(__GNUC__)
/* gcc looks for unused functions at the end of the file, so this one is not taken back. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/* What a damaged file leaves unset is 0, so that the same bytes always give the same pixels. */
#define STBI_MALLOC(n) calloc(1, n)
#define STBI_REALLOC(p, n) realloc(p, n)
#define STBI_FREE(p) free(p)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC    /* a program that links qgrad may bring its own */
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#else
#include <stb_image.h>
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* The pixels of a file begin at offset.  Rows are padded to four bytes. */
typedef struct layout {
    size_t offset, bits, row, colours;
} layout;

/* An OS/2 header, of 12 bytes, has its depth two fields earlier.  colours is what stb_image reads of the
 * palette. */
static layout layout_of(const qg__picture *m, int w)
{
    const size_t head   = qg__number_of(m->bytes + 14, 4, false);
    const bool   os2    = head == 12;
    const size_t offset = qg__number_of(m->bytes + 10, 4, false),
                 bits = qg__number_of(m->bytes + (os2 ? 24 : 28), 2, false);
    const size_t before = os2 ? 14 + 24 : 14 + head;
    return (layout){ offset, bits, ((size_t)w * bits + 31) / 32 * 4,
                     offset < before ? 0 : (offset - before) / (os2 ? 3 : 4) };
}

/* stb_image leaves a colour that is not in the palette unset, and refuses depths other than 1, 4 and 8 with
 * one. */
static bool has_colours(const qg__picture *m, layout l, size_t h, size_t w)
{
    if ((l.bits != 1 && l.bits != 4 && l.bits != 8) || l.colours >= (size_t)1 << l.bits) return true;
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) {
            const size_t  at   = x * l.bits;
            const uint8_t byte = m->bytes[l.offset + y * l.row + at / 8];
            if ((byte >> (8 - l.bits - at % 8) & ((1u << l.bits) - 1)) >= l.colours) return false;
        }
    return true;
}

static bool refuse(const qg__picture *m)
{
    const char *why = stbi_failure_reason();
    if (!strcmp(why, "outofmem"))
        return qg_fail(QG_EMEM, "out of memory: '%s' cannot be decoded", m->path), false;
    return qg_fail(QG_EFORMAT, "'%s' is damaged, or a BMP of a rare kind: %s", m->path, why), false;
}

bool qg__bmp_decode(qg__picture *m)
{
    int w, h, kept;
    if (!stbi_info_from_memory(m->bytes, (int)m->n, &w, &h, &kept)) return refuse(m);
    const int64_t rows = llabs((int64_t)h);         /* of a BMP that begins at the top: negative */
    if (!qg__image_fits(m, rows, w)) return false;
    enum { HEADER = 30 };
    const layout l = m->n < HEADER ? (layout){ 0 } : layout_of(m, w);
    if (l.row == 0 || l.offset + l.row * (size_t)rows > m->n)
        return qg__image_damaged(m, "pixels are missing");
    if (!has_colours(m, l, (size_t)rows, (size_t)w))
        return qg__image_damaged(m, "a colour is not in its palette");
    m->c      = 3;
    m->pixels = stbi_load_from_memory(m->bytes, (int)m->n, &m->w, &m->h, &kept, m->c);
    return m->pixels || refuse(m);
}
