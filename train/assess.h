/* train/assess.h — what a net gets wrong: which classes it confuses, how far its probabilities can be trusted, and its worst
 * mistakes.  Internal.
 *
 *     qg__assessment a;
 *     if (qg__assess_begin(&a, classes, 10)) ..
 *     for every image, in order: if (qg__assess_add(&a, scores, label)) ..
 *     qg__assess_sort(&a);
 *     .. read a, qg__assess_confusion, qg__assess_recall, ..
 *     qg__assess_end(&a);
 *
 * The probabilities of an image are the softmax of its scores, p_k = exp(s_k) / sum exp(s_j), in double.  The predicted class is
 * the one with the highest score, of equal ones the first (as in qg_correct).
 */
#ifndef QG_ASSESS_H
#define QG_ASSESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { QG__CALIBRATION_BINS = 15 };

/* Images of one class that were taken for another. */
typedef struct qg__confused {
    int      label, predicted;
    uint64_t count;
} qg__confused;

typedef struct qg__mistake {
    uint64_t image;             /* its index, in the order of qg__assess_add */
    int      label, predicted;
    double   loss;              /* -log p of the label: finite where p is 0 in double */
    double   confidence;        /* p of the predicted class; that of the label is exp(-loss) */
} qg__mistake;

/* Images by the probability of the predicted class: bin i has those in i / 15 < p <= (i + 1) / 15. */
typedef struct qg__calibration_bin {
    uint64_t images, correct;
    double   confidence;        /* summed over the images */
} qg__calibration_bin;

typedef struct qg__assessment {
    int                  classes;
    uint64_t             images, correct;
    uint64_t            *labelled, *predicted, *hit;    /* [classes]: images with this label; with this prediction; with both */
    qg__confused        *confused;                      /* the most frequent first, equal ones by label and prediction */
    size_t               n_confused;
    qg__mistake         *worst;                         /* the least probable labels first, equal ones by index */
    int                  n_worst, most_worst;
    qg__calibration_bin  bin[QG__CALIBRATION_BINS];
} qg__assessment;               /* {0} is empty */

/* worst: how many mistakes to keep, 0 or more.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_begin(qg__assessment *a, int classes, int worst);

/* Counts one image.
 *
 * Shapes   scores [classes].
 * Range    0 <= label < classes.
 * Memory   16 bytes for each mistake until qg__assess_sort, then for each pair of classes that is confused.
 * Fails    QG_ENAN: a score is not finite; QG_EARG: the label; QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_add(qg__assessment *a, const float *scores, int label);

/* Merges equal pairs of confused and sorts them; to be called once, after the last image. */
void      qg__assess_sort(qg__assessment *a);

/* After qg__assess_sort.  Images of class label that were predicted as another or the same. */
uint64_t  qg__assess_confusion(const qg__assessment *a, int label, int predicted);

/* Of the images of class k, the share that was predicted as k; of those predicted as k, the share that is.  NaN: there are
 * none. */
double    qg__assess_recall(const qg__assessment *a, int k);
double    qg__assess_precision(const qg__assessment *a, int k);

/* The expected calibration error over 15 bins of equal width:
 *
 *     ECE = sum_m |B_m| / n |acc(B_m) - conf(B_m)|        0: of images with probability p, a share p is right
 *
 * with acc and conf the means of correctness and of the predicted class's probability over the images of a bin.
 * NaN: no images.
 *
 * Paper    Guo, Pleiss, Sun, Weinberger 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599v2, eq. 3. */
double    qg__assess_calibration_error(const qg__assessment *a);
void      qg__assess_end(qg__assessment *a);

#endif
