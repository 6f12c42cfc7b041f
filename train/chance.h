/* train/chance.h — what a run is told that does not learn.  Internal. */
#ifndef QG_CHANCE_H
#define QG_CHANCE_H

#include "train/run.h"

enum { QG__CHANCE_BYTES = 512 };

/* Whether after the epoch that r has just finished the images that choose the best epoch are classified
 * no better than if all got their most frequent class, up to two standard errors.  Writes this and the
 * likely cause to text: the training images are classified better; most of them have one class; all
 * codes of a weight are the same; a batch norm is missing beside a quantizer; or the learning rate,
 * which in the last step was lr.  Always false in the first 100 steps of a run. */
bool qg__is_at_chance(const qg__run *r, double lr, char text[QG__CHANCE_BYTES]);

#endif
