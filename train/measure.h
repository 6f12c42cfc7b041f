/* train/measure.h — the loss of a step, and loss and accuracy on a split.  Internal. */
#ifndef QG_MEASURE_H
#define QG_MEASURE_H

#include "train/assess.h"
#include "train/fit.h"

typedef struct qg__measured {
    uint64_t images;
    double   loss, accuracy;        /* means over them */
} qg__measured;

/* The loss that the spec asks for. */
qg_var   *qg__loss(const qg_fit_spec *spec, qg_tape *t, qg_var *scores, const qg_batch *b);

/* Measures over all batches of images, of the test or the validation split.  steps: the training steps so far, because a
 * quantizer may start late.  all: counts every image, and is sorted at the end; NULL: not wanted.  If *spec->stop becomes
 * nonzero, the measurement ends early, sets *stopped, leaves *out unchanged and resets the loader.
 * Fails with QG_ENAN (the loss is not finite), QG_ESHAPE (all has another number of classes than the scores) and as the ops. */
QG_MUST_CHECK
qg_status qg__measure(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                      qg_assessment *all, qg__measured *out, bool *stopped);

#endif
