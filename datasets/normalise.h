/* datasets/normalise.h — what a loader knows of its normalisation.  Internal. */
#ifndef QG_NORMALISE_H
#define QG_NORMALISE_H

#include "datasets/dataset.h"

/* x = byte / 255.  Without mean: x.  With deviation: (x - mean) / deviation.  With whitening: see
 * QG_WHITEN; no byte is turned into a float one by one then. */
typedef struct qg__statistics {
    size_t row;             /* of an image */
    float *mean;            /* [row]; NULL under QG_TO_UNIT */
    float *deviation;       /* [row] or NULL */
    float *whitening;       /* [row][row] or NULL; symmetric */
} qg__statistics;           /* {0} is QG_TO_UNIT; the arrays come from malloc */

/* From the images of a set.  Fails with QG_EARG, QG_EMEM, QG_ENAN, and frees what there is. */
QG_MUST_CHECK
qg_status qg__statistics_fit(qg__statistics *s, const qg__dataset *set, qg_normalise how);
QG_MUST_CHECK
qg_status qg__statistics_copy(qg__statistics *s, const qg__statistics *from);
void      qg__statistics_free(qg__statistics *s);

/* n values of an image, the first of which is value k of it, unless s is for whitening. */
void      qg__normalise(const qg__statistics *s, const uint8_t *image, size_t k, size_t n, float *to);

/* The parts of the above that datasets/whiten.c has: mean and whitening; and all images of a set,
 * [n][row], from malloc, NULL without memory. */
QG_MUST_CHECK
qg_status qg__whiten_fit(qg__statistics *s, const qg__dataset *set);
float    *qg__whiten(const qg__statistics *s, const qg__dataset *set);

#endif
