/* datasets/augment.h — random changes of one image.  Internal. */
#ifndef QG_AUGMENT_H
#define QG_AUGMENT_H

#include "datasets/normalise.h"

/* An image of a set, as bytes or already normalised. */
typedef struct qg__image {
    const qg_preprocess *preprocess;
    const uint8_t       *bytes;         /* [h][w][c], or NULL: */
    const float         *floats;        /* [h][w][c], normalised */
    qg_shape             shape;
} qg__image;

/* Fails with QG_EARG: a is out of bounds for images of this shape. */
QG_MUST_CHECK
qg_status qg__augment_check(const qg_augment *a, qg_shape image);
bool      qg__augment_resamples(const qg_augment *a);

/* Normalises an image and shows it from row `down` and column `right` on, which may be negative, perhaps
 * mirrored left to right.
 *
 * Shapes   to [h][w][c]. */
void      qg__shift(const qg__image *from, qg_border border, int down, int right, bool mirrored, float *to);

/* Normalises and augments an image.  What is drawn is a function of key.
 *
 * Shapes   to [h][w][c].
 * Memory   plain [h][w][c] is scratch; it may be NULL unless a resamples. */
void      qg__augment(const qg_augment *a, uint64_t key, const qg__image *from, float *plain, float *to);

#endif
