/* train/measure.h — the loss of a step, loss and accuracy on a split, and where they have stopped being finite.  Internal. */
#ifndef QG_MEASURE_H
#define QG_MEASURE_H

#include "train/evaluate.h"
#include "train/fit.h"

typedef struct qg__measured {
    uint64_t images;
    double   loss, accuracy;        /* means over them */
} qg__measured;

/* The loss that the spec asks for. */
qg_var   *qg__loss(const qg_fit_spec *spec, qg_tape *t, qg_var *scores, const qg_batch *b);

/* Reads this batch of this epoch, wherever a listener has moved the loader.  false: the end of the epoch, or
 * qg_loader_status. */
bool      qg__read_batch(qg_loader *l, uint64_t epoch, uint64_t batch, qg_batch *b);

/* Measures over all batches of images, of the test or the validation split, in the epoch in which the loader
 * is, and leaves the loader where it was.  steps: the training steps so far, because a quantizer may start late.
 * all: counts every image, and is sorted at the end; NULL: not wanted.  If *spec->stop becomes nonzero, the
 * measurement ends early, sets *stopped and leaves *out unchanged.
 * Fails with QG_ENAN (the loss is not finite), QG_ESHAPE (all has another number of classes than the scores) and as the ops. */
QG_MUST_CHECK
qg_status qg__measure(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                      qg_assessment *all, qg__measured *out, bool *stopped);

/* The fraction of the images whose label has the highest score, where scores are averaged as
 * qg_evaluate_spec.tta says.  Fails with QG_EMEM and as the ops and the loader. */
QG_MUST_CHECK
qg_status qg__measure_views(const qg_fit_spec *spec, qg_loader *images, qg_net *net, qg_tape *tape, uint64_t steps,
                            double *accuracy);

/* An assessment, image by image: begin, add every image in order, sort.  worst: how many mistakes to keep, 0 or more.  Fails with
 * QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_begin(qg_assessment *a, int classes, int worst);

/* Counts an image with these scores [classes] and this label, 0 .. classes - 1.
 *
 * Memory   16 bytes for each mistake until qg__assess_sort, then for each pair of classes that is confused.
 * Fails    QG_ENAN: a score is not finite; QG_EARG: the label; QG_EMEM. */
QG_MUST_CHECK
qg_status qg__assess_add(qg_assessment *a, const float *scores, int label);

/* Merges equal pairs of confused and sorts them; to be called once, after the last image. */
void      qg__assess_sort(qg_assessment *a);

/* The newest pass of net on t gave a loss that is not finite.  Says in which layer this began, in the order in which the
 * layers ran: "conv2 is the first layer whose result is not finite", and which of its parameters is not, if one
 * is.  false: the results of all layers are finite.  To be called before the next qg_tape_begin and instead of
 * qg_backward, and by all ranks. */
enum { QG__DIVERGED_BYTES = 256 };
bool      qg__diverged_forward(const qg_net *net, qg_tape *t, char text[QG__DIVERGED_BYTES]);

/* The same of gradients, after qg_backward: "going backward, that of fc1.weight is the first".  Empty: all are finite. */
void      qg__diverged_backward(const qg_net *net, char text[QG__DIVERGED_BYTES]);

#endif
