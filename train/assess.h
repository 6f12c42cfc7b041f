/* train/assess.h — an assessment, image by image (train/evaluate.h).  Internal.
 *
 *     if (qg__assess_begin(&a, classes, 10)) ..
 *     for every image, in order: if (qg__assess_add(&a, scores, label)) ..
 *     qg__assess_sort(&a);
 */
#ifndef QG_ASSESS_H
#define QG_ASSESS_H

#include "train/evaluate.h"

/* worst: how many mistakes to keep, 0 or more.  Fails with QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_begin(qg_assessment *a, int classes, int worst);

/* Counts one image.
 *
 * Shapes   scores [classes].
 * Range    0 <= label < classes.
 * Memory   16 bytes for each mistake until qg__assess_sort, then for each pair of classes that is confused.
 * Fails    QG_ENAN: a score is not finite; QG_EARG: the label; QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_add(qg_assessment *a, const float *scores, int label);

/* Merges equal pairs of confused and sorts them; to be called once, after the last image. */
void      qg__assess_sort(qg_assessment *a);

#endif
