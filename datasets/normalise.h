/* datasets/normalise.h — the statistics by which a loader normalises.  Internal. */
#ifndef QG_NORMALISE_H
#define QG_NORMALISE_H

#include "datasets/dataset.h"

/* x = byte / 255 is normalised to x without mean, to (x - mean) / deviation with deviation, and as a whole image
 * with whitening (QG_WHITEN). */
typedef struct qg__statistics {
    size_t row;             /* of an image */
    float *mean;            /* [row]; NULL under QG_TO_UNIT */
    float *deviation;       /* [row] or NULL */
    float *whitening;       /* [row][row] or NULL; symmetric */
} qg__statistics;           /* {0} is QG_TO_UNIT; the arrays come from malloc */

/* From the images of a set.  Fails with QG_EARG, QG_EMEM or QG_ENAN; *s is then {0}. */
QG_MUST_CHECK
qg_status qg__statistics_fit(qg__statistics *s, const qg__dataset *set, qg_normalise how);
QG_MUST_CHECK
qg_status qg__statistics_copy(qg__statistics *s, const qg__statistics *from);
void      qg__statistics_free(qg__statistics *s);

/* Values k .. k + n - 1 of an image; s must not be for whitening. */
void      qg__normalise(const qg__statistics *s, const uint8_t *image, size_t k, size_t n, float *to);

/* --- datasets/whiten.c -------------------------------------------------------------------- */

/* Mean and whitening, for qg__statistics_fit. */
QG_MUST_CHECK
qg_status qg__whiten_fit(qg__statistics *s, const qg__dataset *set);

/* All images of a set, [n][row], from malloc; NULL, QG_EMEM. */
float    *qg__whiten(const qg__statistics *s, const qg__dataset *set);

/* a = sum over j of value[j] v_j v_j^T.
 *
 * Shapes   a [n][n], of which only a[i][k] with k <= i is read; row j of it becomes v_j, of length 1.
 *          value [n], ascending.
 * Memory   2 n^2 doubles of scratch, freed again.  One thread, so the bits depend on a alone.
 * Fails    QG_EMEM.  QG_EARG: n is too large for LAPACK.  QG_ENAN: no convergence, as with values that are
 *          not finite.
 */
QG_MUST_CHECK
qg_status qg__eigen(int n, double *a, double *value);

#endif
