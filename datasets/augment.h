/* datasets/augment.h — one image, normalised and changed by chance.  Internal. */
#ifndef QG_AUGMENT_H
#define QG_AUGMENT_H

#include "datasets/normalise.h"

/* Where an image comes from; its values either are floats already or still have to be made. */
typedef struct qg__source {
    const qg__statistics *statistics;
    const uint8_t        *bytes;        /* [h][w][c], or NULL: */
    const float          *floats;       /* [h][w][c], normalised */
    qg_shape              shape;
} qg__source;

QG_MUST_CHECK
qg_status qg__augment_check(const qg_augment *a, qg_shape image);

/* to [h][w][c]; key is that of this image in this epoch. */
void      qg__augment(const qg_augment *a, uint64_t key, const qg__source *from, float *to);

#endif
