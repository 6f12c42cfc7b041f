/* datasets/normalise.h — the statistics by which images are normalised.  Internal. */
#ifndef QG_NORMALISE_H
#define QG_NORMALISE_H

#include "core/io/keys.h"
#include "datasets/dataset.h"

/* x = byte / 255 is normalised to x without mean, to (x - mean) / deviation with deviation, and as a whole
 * image with whitening (QG_WHITEN). */
struct qg_preprocess {
    qg_shape     shape;         /* of one image */
    qg_normalise normalise;
    float       *mean;          /* [row]; NULL under QG_TO_UNIT */
    float       *deviation;     /* [row] or NULL */
    float       *whitening;     /* [row][row] or NULL; symmetric */
};                              /* {0} is empty; the arrays come from malloc */

/* Parses "channel" or "range:low=-1,high=1"; canonical receives the only spelling of the value.  Fails with
 * QG_EARG; the message lists the kinds. */
QG_MUST_CHECK
qg_status qg__normalise_parse(const char *text, qg_normalise *n, char *canonical, size_t bytes);
qg_status qg__normalise_check(qg_normalise how);    /* QG_EARG: statistics of bytes in place of 0..1 */
bool      qg__normalise_fits(qg_normalise n);       /* whether the statistics of a kind come from images */

/* Height, width and channels, each 1..4096, of "32x32x3".  Fails with QG_EARG. */
extern const qg_key qg__image_keys[];
QG_MUST_CHECK
qg_status qg__image_parse(const char *text, qg_shape *image);

/* How many sums the statistics of a kind need: one for each channel or value of an image; 0: none. */
size_t    qg__sums_width(qg_normalise_kind kind, qg_shape image);

/* From the sums of a set; QG_WHITEN from its images.  Fails with QG_EARG, QG_EMEM or QG_ENAN; *p
 * is then {0}. */
QG_MUST_CHECK
qg_status qg__preprocess_fit(qg_preprocess *p, const qg__dataset *set, qg_normalise how);
QG_MUST_CHECK
qg_status qg__preprocess_copy(qg_preprocess *p, const qg_preprocess *from);
void      qg__preprocess_clear(qg_preprocess *p);

/* Whether x is the same for every image. */
bool      qg__preprocess_equal(const qg_preprocess *a, const qg_preprocess *b);

/* The arrays that a kind has, for images of p->shape; their contents are undefined.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status qg__preprocess_allocate(qg_preprocess *p);

/* Mean and deviation of QG_TO_RANGE, and of QG_PER_CHANNEL as given.  Fail with QG_EARG. */
QG_MUST_CHECK
qg_status qg__preprocess_range(qg_preprocess *p);
QG_MUST_CHECK
qg_status qg__preprocess_given(qg_preprocess *p);

/* qg_preprocess_open of a file whose header has been read. */
qg_preprocess *qg__preprocess_read(const qg_archive *a, const char *path);

/* Values k .. k + n - 1 of an image; p must not be for whitening. */
void      qg__normalise(const qg_preprocess *p, const uint8_t *image, size_t k, size_t n, float *to);

/* --- datasets/whiten.c -------------------------------------------------------------------- */

/* Mean and whitening, for qg__preprocess_fit. */
QG_MUST_CHECK
qg_status qg__whiten_fit(qg_preprocess *p, const qg__dataset *set);

/* All images of a set, [n][row], from malloc; NULL, QG_EMEM. */
float    *qg__whiten(const qg_preprocess *p, const qg__dataset *set);

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
