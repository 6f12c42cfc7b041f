/* PNG files, by libpng.  Whatever differs from a whole file is an error, also where libpng would only warn:
 * every CRC is compared, and zlib compares the sum of the compressed data. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/status.h"
#include "datasets/image.h"

typedef struct reading {
    qg__picture *m;
    size_t       at;        /* the byte of the file that comes next */
    png_structp  png;
    png_infop    info;
    png_bytep   *rows;      /* [h] */
} reading;

static void fail(png_structp png, png_const_charp why)
{
    const reading *r = png_get_error_ptr(png);
    /* Theirs, and zlib's "insufficient memory". */
    if (strstr(why, "memory")) qg_fail(QG_EMEM, "out of memory: '%s'", r->m->path);
    else qg__image_damaged(r->m, why);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp why) { }

static void take(png_structp png, png_bytep to, size_t n)
{
    reading *r = png_get_io_ptr(png);
    if (n > r->m->n - r->at) png_error(png, "it is truncated");
    memcpy(to, r->m->bytes + r->at, n);
    r->at += n;
}

/* The file has the shape that is wanted, and 8 bits per value. */
static bool is_wanted(const reading *r, int h, int w)
{
    const qg_shape *want    = r->m->want;
    const int       bits    = png_get_bit_depth(r->png, r->info);
    const bool      palette = png_get_color_type(r->png, r->info) == PNG_COLOR_TYPE_PALETTE;
    const int       c       = palette ? 3 : png_get_channels(r->png, r->info);
    if (!want || ((h == want->h || !want->h) && w == want->w && c == want->c && bits == 8)) return true;
    char height[16] = "any height";
    if (want->h) snprintf(height, sizeof height, "%d", want->h);
    qg_fail(QG_EFORMAT, "'%s' is %d x %d, %d channel%s of %d bit%s, expected %d x %s, %d of 8", r->m->path, w,
            h, c, c == 1 ? "" : "s", bits, bits == 1 ? "" : "s", want->w, height, want->c);
    return false;
}

/* libpng leaves through longjmp, so what changes meanwhile stands in *r and *r->m. */
static bool decode(reading *r)
{
    png_structp png = r->png;
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, r, take);
    png_set_benign_errors(png, 0);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    /* Colour profiles, texts and the like are skipped. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);        /* qg__image_fits limits the size */
    png_read_info(png, r->info);

    const int  h       = (int)png_get_image_height(png, r->info);
    const int  w       = (int)png_get_image_width(png, r->info);
    const bool colours = png_get_color_type(png, r->info) & PNG_COLOR_MASK_COLOR;
    const int  c       = r->m->grey && !colours ? 1 : 3;
    if (!is_wanted(r, h, w)) return false;
    r->m->deep = png_get_bit_depth(png, r->info) == 16;
    if (!qg__image_allocate(r->m, h, w, c)) return false;
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    if (c == 3) png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, r->info);

    r->rows = malloc((size_t)h * sizeof *r->rows);
    if (!r->rows) return qg_fail(QG_EMEM, "out of memory: the rows of '%s'", r->m->path), false;
    for (int y = 0; y < h; y++) r->rows[y] = r->m->pixels + (size_t)y * (size_t)w * (size_t)c;
    png_read_image(png, r->rows);
    png_read_end(png, NULL);
    return true;
}

/* Of a file that libpng has read to its end, so its chunks and their checksums are right. */
static int orientation_of(const qg__picture *m)
{
    enum { SIGNATURE = 8, HEAD = 8, CRC = 4 };
    for (size_t at = SIGNATURE; m->n - at > HEAD + CRC;) {
        const uint8_t *chunk  = m->bytes + at;
        const size_t   length = qg__number_of(chunk, 4, true), rest = m->n - at - HEAD - CRC;
        if (length > rest || !memcmp(chunk + 4, "IEND", 4)) break;
        if (!memcmp(chunk + 4, "eXIf", 4)) return qg__exif_orientation(chunk + HEAD, length);
        at += HEAD + length + CRC;
    }
    return 1;
}

bool qg__png_decode(qg__picture *m)
{
    reading r = { .m = m };
    r.png     = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    r.info    = r.png ? png_create_info_struct(r.png) : NULL;
    bool ok   = false;
    if (r.info) ok = decode(&r);
    else qg_fail(QG_EMEM, "out of memory: '%s' cannot be decoded", m->path);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    free(r.rows);
    return ok && (m->want || qg__image_turn(m, orientation_of(m)));
}
