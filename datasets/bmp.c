/* BMP files, by stb_image: the one place that sees it. */
#include <stdlib.h>
#include <string.h>

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

static uint32_t little_endian(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

/* stb_image takes what is missing for pixels.  Rows are padded to four bytes; an OS/2 header, of 12 bytes, has
 * its depth two fields earlier. */
static bool is_whole(const qg__image *m, int64_t h, int w)
{
    enum { HEADER = 30 };
    if (m->n < HEADER) return false;
    const size_t bits = little_endian(m->bytes + (little_endian(m->bytes + 14, 4) == 12 ? 24 : 28), 2);
    const size_t row  = ((size_t)w * bits + 31) / 32 * 4;
    return little_endian(m->bytes + 10, 4) + row * (size_t)h <= m->n;
}

bool qg__bmp_decode(qg__image *m)
{
    int w, h, kept;
    if (!stbi_info_from_memory(m->bytes, (int)m->n, &w, &h, &kept)) return qg__image_damaged(m, stbi_failure_reason());
    const int64_t rows = llabs((int64_t)h);         /* of a BMP that begins at the top: negative */
    if (!qg__image_fits(m, rows, w)) return false;
    if (!is_whole(m, rows, w)) return qg__image_damaged(m, "pixels are missing");
    m->c      = 3;
    m->pixels = stbi_load_from_memory(m->bytes, (int)m->n, &m->w, &m->h, &kept, m->c);
    return m->pixels || qg__image_damaged(m, stbi_failure_reason());
}
