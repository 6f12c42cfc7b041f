/* infer/slice.h — copies of images as the kernels of products want them (internal).
 *
 * A slice has some of an image's channels, and a frame of one value around them; or all of its pixels as
 * the channels of one.
 */
#ifndef QG_INFER_SLICE_H
#define QG_INFER_SLICE_H

#include "infer/product.h"

typedef struct qg__slice {
    qg__coding from, to;            /* the same, or bits and bytes */
    qg__codes  x;
    int        h, w, c;             /* of the image */
    int        first, channels;     /* that the slice has */
    int        repeat;              /* each so many times in turn; 1 for bits */
    int        to_h, to_w;          /* of the slice */
    int        top, left;           /* rows and columns of the frame before the image; >= 0 */
    bool       flat;                /* from bits to bits: one pixel of h * w * c channels, and no frame */
    float      pad;                 /* what the frame has; a value of x */
} qg__slice;

size_t qg__slice_source_bytes(const qg__slice *s);
size_t qg__slice_bytes(const qg__slice *s);
void   qg__slice_copy(const qg__slice *s, const void *image, void *slice);

#endif
