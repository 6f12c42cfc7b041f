#include "cli/report/mistakes.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "datasets/preprocess.h"

/* --- pictures --------------------------------------------------------------------------------- */

enum { PICTURE_SIDE = 64 };

/* The bytes [h][w][c] as a PNG file in memory, from malloc; c is 1 or 3.  NULL: QG_EMEM. */
static uint8_t *encode(qg_shape shape, const uint8_t *bytes, size_t *n)
{
    png_image m = { .version = PNG_IMAGE_VERSION,
                    .width   = (png_uint_32)shape.w,
                    .height  = (png_uint_32)shape.h,
                    .format  = shape.c == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB };
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(m);
    uint8_t         *file = malloc(size);
    if (file && png_image_write_to_memory(&m, file, &size, 0, bytes, 0, NULL)) {
        *n = size;
        return file;
    }
    png_image_free(&m);
    free(file);
    qg_fail(QG_EMEM, "out of memory for a picture of %d x %d", shape.w, shape.h);
    return NULL;
}

static char *base64(const uint8_t *bytes, size_t n, const char *before)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t      head    = strlen(before);
    char             *text    = malloc(head + (n + 2) / 3 * 4 + 1), *to = text;
    if (!text) return NULL;
    memcpy(to, before, head);
    to += head;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned second = i + 1 < n ? bytes[i + 1] : 0, third = i + 2 < n ? bytes[i + 2] : 0;
        const unsigned v      = (unsigned)bytes[i] << 16 | second << 8 | third;
        *to++ = digit[v >> 18];
        *to++ = digit[v >> 12 & 63];
        *to++ = i + 1 < n ? digit[v >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digit[v & 63] : '=';
    }
    *to = '\0';
    return text;
}

/* Any normalisation becomes a picture if its own extremes become black and white. */
static void stretch(size_t n, const float *x, uint8_t *to)
{
    float least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) least = fminf(least, x[i]), most = fmaxf(most, x[i]);
    const float scale = most > least ? 255.0f / (most - least) : 0.0f;
    for (size_t i = 0; i < n; i++) to[i] = (uint8_t)lrintf((x[i] - least) * scale);
}

static qg_status draw(qg_shape s, const float *x, char **picture)
{
    const int      side  = s.h > s.w ? s.h : s.w;
    const qg_shape small = { 1, side > PICTURE_SIDE ? 1 + s.h * (PICTURE_SIDE - 1) / side : s.h,
                             side > PICTURE_SIDE ? 1 + s.w * (PICTURE_SIDE - 1) / side : s.w, s.c };
    uint8_t       *bytes = malloc(qg_row(s)), *shown = malloc(qg_row(small)), *png = NULL;
    size_t         n;
    if (bytes && shown) {
        stretch(qg_row(s), x, bytes);
        if (!qg_image_resize(bytes, s, shown, small)) png = encode(small, shown, &n);
    }
    *picture = png ? base64(png, n, "data:image/png;base64,") : NULL;
    free(png);
    free(shown);
    free(bytes);
    return *picture ? QG_OK : qg_fail(QG_EMEM, "out of memory for a picture");
}

qg_status mistakes_draw(mistakes *m, qg_loader *images)
{
    const qg_shape s      = qg_loader_shape(images);
    float         *x      = malloc(qg_row(s) * sizeof *x);
    qg_status      status = x ? QG_OK : qg_fail(QG_EMEM, "out of memory for an image");
    for (int i = 0; i < m->all.n_worst && !status && (s.c == 1 || s.c == 3); i++) {
        status = qg_loader_image(images, m->all.worst[i].image, x);
        if (!status) status = draw((qg_shape){ 1, s.h, s.w, s.c }, x, &m->picture[i]);
    }
    free(x);
    return status;
}

void mistakes_end(mistakes *m)
{
    for (int i = 0; i < WORST_IMAGES; i++) free(m->picture[i]);
    qg_assessment_free(&m->all);
    *m = (mistakes){ 0 };
}
