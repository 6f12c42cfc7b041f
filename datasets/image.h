/* datasets/image.h — image files.  Internal.
 *
 * Limits   64 MiB a file; 8192 x 8192 pixels, or as many in another shape; 100 scans of a progressive JPEG.
 *          They bound the time and memory that a few hostile bytes can claim.
 */
#ifndef QG_IMAGE_H
#define QG_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "core/tensor.h"

/* Whether images of this shape can be made of files: they have 1 channel (grey) or 3, and sides of 1..4096.
 * The message begins with what wants them.  QG_EARG. */
QG_MUST_CHECK
qg_status qg__image_wanted(const char *by, qg_shape want);

/* A PNG, JPEG or BMP file of any size, as [*height][*width][channels], channels 1 (grey) or 3, from malloc;
 * a photograph is turned as its Exif block says.  *deep: the file has 16 bits per value, of which the high
 * ones are read.  NULL, and a message that names the file, if it is damaged or beyond a limit, or with other
 * channels. */
uint8_t *qg__image_read(const char *path, int channels, int *height, int *width, bool *deep);

/* The same, resized to want.  False, and a message that names the file, also as qg__image_wanted; to may
 * then hold anything. */
bool     qg__image_resized(const char *path, qg_shape want, uint8_t *to, bool *deep);

/* The pixels [h][w][c] of an 8-bit PNG of exactly this shape, from malloc; want->h 0 accepts any height and
 * becomes the file's.  NULL, and a message that names the file, if it is anything else. */
uint8_t *qg__png_read(const char *path, qg_shape *want);

/* --- between image.c and the decoders ----------------------------------------------------- */

enum { QG__IMAGE_SCANS = 100 };

/* A file and what becomes of it. */
typedef struct qg__picture {
    const char     *path;
    const uint8_t  *bytes;          /* [n], the file */
    size_t          n;
    const qg_shape *want;           /* the only shape that is accepted; NULL: any */
    bool            grey;           /* a file without colour is decoded to one channel */
    int             h, w, c;        /* c is 1 or 3 */
    bool            deep;           /* the file has 16 bits per value */
    uint8_t        *pixels;         /* [h][w][c], from malloc; a caller frees it, also after a failure */
} qg__picture;

/* Each is given a file with the signature of its format.  False, and a message, on failure. */
bool qg__png_decode(qg__picture *m);
bool qg__jpeg_decode(qg__picture *m);
bool qg__bmp_decode(qg__picture *m);

/* The size is within the limits; false, and a message, if it is not. */
bool qg__image_fits(const qg__picture *m, int64_t h, int64_t w);

/* The orientation, 1 to 8, that an Exif block [n] states, without the "Exif" before it; 1 if it states
 * none or is malformed. */
int  qg__exif_orientation(const uint8_t *bytes, size_t n);

/* Turns the pixels of an image with this orientation as it is to be seen.  False, QG_EMEM. */
bool qg__image_turn(qg__picture *m, int orientation);

/* Sets the size and allocates pixels, all 0; false if the size is beyond the limits, or QG_EMEM. */
bool qg__image_allocate(qg__picture *m, int64_t h, int64_t w, int c);

/* Fails with QG_EFORMAT: the file is damaged, and why.  False. */
bool qg__image_damaged(const qg__picture *m, const char *why);

#endif
