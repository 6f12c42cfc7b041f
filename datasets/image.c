#include "datasets/image.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/io/file.h"
#include "datasets/preprocess.h"

/* A sheet of the sample has less than one million bytes, one of CIFAR-10 23 million. */
#define MAX_BYTES ((size_t)1 << 26)

/* 8192 x 8192.  A few bytes can promise an image beyond any memory. */
#define MAX_PIXELS ((int64_t)1 << 26)

static const struct format {
    const char *signature;
    size_t      length;
    bool (*decode)(qg__picture *m);
} formats[] = {
    { "\x89PNG\r\n\x1a\n", 8, qg__png_decode },
    { "\xff\xd8\xff", 3, qg__jpeg_decode },
    { "BM", 2, qg__bmp_decode },
};

bool qg_image_named(const char *name)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg", ".bmp" };
    const char              *ending    = name ? strrchr(name, '.') : NULL;
    for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(ending, endings[i])) return true;
    return false;
}

bool qg__image_damaged(const qg__picture *m, const char *why)
{
    return qg_fail(QG_EFORMAT, "'%s' is damaged: %s", m->path, why), false;
}

bool qg__image_fits(const qg__picture *m, int64_t h, int64_t w)
{
    const int64_t largest = INT32_MAX;
    if (h < 1 || w < 1)
        return qg_fail(QG_EFORMAT, "'%s' is %lld x %lld: without pixels", m->path, (long long)w,
                       (long long)h), false;
    if (h > largest || w > largest || h * w > MAX_PIXELS)
        return qg_fail(QG_EFORMAT, "'%s' is %lld x %lld: more than %d million pixels", m->path, (long long)w,
                       (long long)h, (int)(MAX_PIXELS / 1000000)), false;
    return true;
}

bool qg__image_allocate(qg__picture *m, int64_t h, int64_t w, int c)
{
    if (!qg__image_fits(m, h, w)) return false;
    m->h      = (int)h;
    m->w      = (int)w;
    m->c      = c;
    m->pixels = calloc((size_t)(h * w), (size_t)c);
    if (!m->pixels) qg_fail(QG_EMEM, "out of memory: '%s' is %d x %d", m->path, m->w, m->h);
    return m->pixels != NULL;
}

/* In place.  The weights sum to 256. */
static void to_grey(qg__picture *m)
{
    const size_t n = (size_t)m->h * (size_t)m->w;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = m->pixels + 3 * i;
        m->pixels[i]     = (uint8_t)((77 * p[0] + 150 * p[1] + 29 * p[2]) >> 8);
    }
    m->c = 1;
}

/* Reads the file by the first n formats; m has path, want and grey. */
static bool read_by(qg__picture *m, size_t n, const char *names)
{
    uint8_t *bytes = NULL;
    if (qg__file_read_in(QG_BY_PATH, m->path, MAX_BYTES, &bytes, &m->n)) return false;
    m->bytes                    = bytes;
    const struct format *format = NULL;
    for (size_t i = 0; i < n && !format; i++)
        if (m->n >= formats[i].length && !memcmp(bytes, formats[i].signature, formats[i].length))
            format = &formats[i];
    if (!format) qg_fail(QG_EFORMAT, "'%s' is not a %s file", m->path, names);
    const bool ok = format && format->decode(m);
    free(bytes);
    m->bytes = NULL;
    if (ok) return true;
    free(m->pixels);
    m->pixels = NULL;
    return false;
}

enum { MOST_SIDE = 4096 };

/* All decoders give 1 or 3 channels. */
static qg_status check_channels(const char *by, int channels)
{
    if (channels == 1 || channels == 3) return QG_OK;
    return qg_fail(QG_EARG, "'%s': images of %d channels are wanted, but image files have 1 or 3", by,
                   channels);
}

qg_status qg__image_wanted(const char *by, qg_shape want)
{
    if (check_channels(by, want.c)) return QG_EARG;
    if (want.h >= 1 && want.w >= 1 && want.h <= MOST_SIDE && want.w <= MOST_SIDE) return QG_OK;
    return qg_fail(QG_EARG, "'%s': images of %dx%d pixels are wanted, but sides must be 1..%d", by, want.h,
                   want.w, (int)MOST_SIDE);
}

uint8_t *qg__image_read(const char *path, int channels, int *height, int *width, bool *deep)
{
    qg__picture m = { .path = path, .grey = channels == 1 };
    if (check_channels(path, channels) || !read_by(&m, sizeof formats / sizeof *formats, "PNG, JPEG or BMP"))
        return NULL;
    if (channels == 1 && m.c == 3) to_grey(&m);
    *height = m.h;
    *width  = m.w;
    *deep   = m.deep;
    return m.pixels;
}

bool qg__image_resized(const char *path, qg_shape want, uint8_t *to, bool *deep)
{
    qg_shape is = { .n = 1, .c = want.c };
    *deep       = false;
    uint8_t *pixels = qg__image_wanted(path, want) ? NULL : qg__image_read(path, want.c, &is.h, &is.w, deep);
    if (!pixels) return false;
    const bool fits = is.h == want.h && is.w == want.w;
    if (fits) memcpy(to, pixels, qg_row(want));
    const bool ok = fits || !qg_image_resize(pixels, is, to, want);
    free(pixels);
    if (!ok) qg_fail(qg_errcode(), "'%s': %s", path, qg_errmsg());
    return ok;
}

uint8_t *qg__png_read(const char *path, qg_shape *want)
{
    if (check_channels(path, want->c)) return NULL;
    qg__picture m = { .path = path, .want = want, .grey = want->c == 1 };
    if (!read_by(&m, 1, "PNG")) return NULL;
    want->h = m.h;
    return m.pixels;
}
