/* The one place that sees stb_image: everything else calls the two functions below. */
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "datasets/dataset.h"

#if defined(__GNUC__)
/* gcc looks for unused functions at the end of the file, so this one is not taken back. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/* What a damaged file leaves unset is 0, so that the same bytes always give the same pixels. */
static void *grow(void *p, size_t was, size_t is)
{
    char *grown = realloc(p, is);
    if (grown && is > was) memset(grown + was, 0, is - was);
    return grown;
}

#define STBI_MALLOC(n) calloc(1, n)
#define STBI_REALLOC_SIZED(p, was, is) grow(p, was, is)
#define STBI_FREE(p) free(p)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC    /* a program that links qgrad may bring its own */
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
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

/* A sheet of the sample has less than one million bytes, one of CIFAR-10 23 million. */
#define MAX_BYTES ((size_t)1 << 26)

/* Pixels of an image: 8192 x 8192.  A few bytes can promise a picture beyond any memory. */
#define MAX_PIXELS ((int64_t)1 << 26)

static uint8_t *decode(const char *path, const uint8_t *bytes, int n, qg_shape want)
{
    qg_shape is = { .n = 1 };
    /* The size is known before anything is unpacked, so a wrong file costs no memory. */
    if (!stbi_info_from_memory(bytes, n, &is.w, &is.h, &is.c)) {
        qg_fail(QG_EFORMAT, "'%s' is not a readable PNG: %s", path, stbi_failure_reason());
        return NULL;
    }
    const int bits = stbi_is_16_bit_from_memory(bytes, n) ? 16 : 8;
    if (!qg_shape_equal(is, want) || bits != 8) {
        qg_fail(QG_EFORMAT, "'%s' is %d x %d, %d channels of %d bits, expected %d x %d, %d of 8",
                path, is.w, is.h, is.c, bits, want.w, want.h, want.c);
        return NULL;
    }
    if (!qg__png_check(path, bytes, (size_t)n, (int64_t)is.w * is.h)) return NULL;
    uint8_t *pixels = stbi_load_from_memory(bytes, n, &is.w, &is.h, &is.c, want.c);
    if (!pixels) qg_fail(QG_EFORMAT, "'%s' is damaged: %s", path, stbi_failure_reason());
    return pixels;
}

uint8_t *qg__png_read(const char *path, int height, int width, int channels)
{
    uint8_t *bytes = NULL;
    size_t   n     = 0;
    if (qg_file_read(path, MAX_BYTES, &bytes, &n)) return NULL;
    uint8_t *pixels = decode(path, bytes, (int)n, (qg_shape){ 1, height, width, channels });
    free(bytes);
    return pixels;
}

static uint32_t little_endian(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

/* Or no BMP.  The decoder takes what is missing of one for pixels.  Rows are padded to four bytes; an
 * OS/2 header, of 12 bytes, has its depth two fields earlier. */
static bool bmp_is_whole(const uint8_t *bytes, size_t n, int width, int64_t height)
{
    enum { HEADER = 30 };
    if (n < HEADER || bytes[0] != 'B' || bytes[1] != 'M') return true;
    const size_t bits = little_endian(bytes + (little_endian(bytes + 14, 4) == 12 ? 24 : 28), 2);
    const size_t row  = ((size_t)width * bits + 31) / 32 * 4;
    return little_endian(bytes + 10, 4) + row * (size_t)height <= n;
}

static uint8_t *decode_any(const char *path, const uint8_t *bytes, int n, int channels, int *height,
                           int *width)
{
    int kept;
    if (!stbi_info_from_memory(bytes, n, width, height, &kept)) {
        qg_fail(QG_EFORMAT, "'%s' is no readable PNG, JPEG or BMP: %s", path, stbi_failure_reason());
        return NULL;
    }
    const int64_t rows = llabs((int64_t)*height);       /* of a BMP that begins at the top: negative */
    if (*width < 1 || rows < 1) {
        qg_fail(QG_EFORMAT, "'%s' is %d x %d: without pixels", path, *width, *height);
        return NULL;
    }
    if (*width * rows > MAX_PIXELS) {
        qg_fail(QG_EFORMAT, "'%s' is %d x %lld: more than %d million pixels", path, *width, (long long)rows,
                (int)(MAX_PIXELS / 1000000));
        return NULL;
    }
    if (!bmp_is_whole(bytes, (size_t)n, *width, rows)) {
        qg_fail(QG_EFORMAT, "'%s' is damaged: pixels are missing", path);
        return NULL;
    }
    if (!qg__png_check(path, bytes, (size_t)n, *width * rows)) return NULL;
    uint8_t *pixels = stbi_load_from_memory(bytes, n, width, height, &kept, channels);
    if (!pixels) qg_fail(QG_EFORMAT, "'%s' is damaged: %s", path, stbi_failure_reason());
    return pixels;
}

uint8_t *qg__image_read(const char *path, int channels, int *height, int *width)
{
    uint8_t *bytes = NULL;
    size_t   n     = 0;
    if (qg_file_read(path, MAX_BYTES, &bytes, &n)) return NULL;
    uint8_t *pixels = decode_any(path, bytes, (int)n, channels, height, width);
    free(bytes);
    return pixels;
}
