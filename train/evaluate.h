/* train/evaluate.h — measures a net on images: its accuracy, which classes it confuses, how
 * reliable its probabilities are, and its worst mistakes.
 *
 *     qg_assessment a;
 *     if (qg_evaluate(net, test, (qg_evaluate_spec){ .worst = 10 }, &a)) ..
 *     printf("%.2f %%\n", 100 * a.accuracy);
 *     qg_assessment_free(&a);
 *
 * The probabilities of an image are the softmax of its scores, p_k = exp(s_k) / sum exp(s_j), in double.  The predicted class is
 * the one with the highest score, of equal ones the first (as in qg_count_correct).
 */
#ifndef QG_EVALUATE_H
#define QG_EVALUATE_H

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datasets/loader.h"
#include "layers/net.h"

enum { QG_CALIBRATION_BINS = 15 };

/* Images of one class that were predicted as another. */
typedef struct qg_confused {
    int      label, predicted;
    uint64_t count;
} qg_confused;

typedef struct qg_mistake {
    uint64_t image;             /* its index, in the order of the loader */
    int      label, predicted;
    double   loss;              /* -log p of the label: finite where p is 0 in double */
    double   confidence;        /* p of the predicted class */
    double   probability;       /* p of the label */
} qg_mistake;

/* Images by the probability of the predicted class: bin i has those in i / 15 < p <= (i + 1) / 15. */
typedef struct qg_calibration_bin {
    uint64_t images, correct;
    double   confidence;        /* summed over the images */
} qg_calibration_bin;

typedef struct qg_assessment {
    double              loss, accuracy;                 /* means over the images */
    double              tta_accuracy;                   /* that of qg_evaluate_spec.tta; 0: not asked for */
    int                 classes;
    uint64_t            images, correct;
    uint64_t           *labelled, *predicted, *hit;     /* [classes]: images with this label; with this prediction; with both */
    qg_confused        *confused;                       /* the most frequent first, equal ones by label and prediction */
    size_t              n_confused;
    qg_mistake         *worst;                          /* the least probable labels first, equal ones by index */
    int                 n_worst, most_worst;
    qg_calibration_bin  bin[QG_CALIBRATION_BINS];
} qg_assessment;                /* {0} is empty */

typedef struct qg_evaluate_spec {
    int         worst;          /* how many of the worst mistakes to keep */
    bool        tta;            /* test-time augmentation: measure .tta_accuracy as well, of the mean of the
                                   scores of the image, weight 1/2, and of the image moved by a pixel up and
                                   left, and down and right, weight 1/4 each, its border reflected; each half
                                   mirrored.  Nothing else depends on it.   arXiv:2404.00498v2, sec. 3.5 */
    uint64_t    seed;           /* of noise, which a few schemes need */
    uint64_t    steps;          /* of training so far, since a quantizer may start late; 0: long after any delay,
                                   UINT64_MAX: none */
    qg_var   *(*loss)(void *user, qg_tape *t, qg_var *scores, const qg_batch *b);    /* as in qg_fit_spec; NULL: cross entropy */
    void       *user;           /* passed to it */
} qg_evaluate_spec;

/* Measures a built net on all batches of images, which should be .in_order, in QG_EVAL, from the start of the epoch
 * on.  The loader then stands where it was, so a loop may measure the images that it trains on.
 *
 * Memory   *a is the caller's; qg_assessment_free, also after a failure.  16 bytes for each mistake meanwhile.
 * Fails    QG_ENAN: a score or the loss is not finite; QG_ESHAPE: the net has another number of scores than the images have classes;
 *          QG_EMEM; and as the ops and the loader. */
QG_MUST_CHECK
qg_status qg_evaluate(qg_net *net, qg_loader *images, qg_evaluate_spec spec, qg_assessment *a);

/* The same of scores that are known already, those of the next batch of images, as qg_fit_events.scores
 * gets them.  *a is {0} before the first, and whole, but for .loss, once all images have been added.
 *
 * Fails    QG_ENAN, QG_ESHAPE and QG_EMEM as above; *a has what came before. */
QG_MUST_CHECK
qg_status qg_assessment_add(qg_assessment *a, const qg_loader *images, const qg_batch *b,
                            const qg_var *scores, int worst);

/* The probabilities p [classes] of an image with these scores, which are finite. */
void      qg_probabilities(const float *scores, int classes, double *p);

/* Images of class label that were predicted as another or the same. */
uint64_t  qg_assessment_confusion(const qg_assessment *a, int label, int predicted);

/* Recall: the fraction of the images of class k that were predicted as k.  Precision: the fraction
 * of the images predicted as k that are of class k.  NaN if there are no such images. */
double    qg_assessment_recall(const qg_assessment *a, int k);
double    qg_assessment_precision(const qg_assessment *a, int k);

/* The binomial standard error of a proportion p of n, such as an accuracy on n images: sqrt(p (1 - p) / n); 0: n is 0. */
static inline double qg_proportion_error(double p, uint64_t n) { return n ? sqrt(p * (1 - p) / (double)n) : 0; }

/* The expected calibration error over 15 bins of equal width:
 *
 *     ECE = sum_m |B_m| / n |acc(B_m) - conf(B_m)|        0: where p is predicted, a fraction p is right
 *
 * with acc and conf the means of correctness and of the predicted class's probability over the images of a bin.
 * NaN: no images.
 *
 * Paper    Guo, Pleiss, Sun, Weinberger 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599v2, eq. 3. */
double    qg_assessment_calibration_error(const qg_assessment *a);
void      qg_assessment_free(qg_assessment *a);         /* NULL is ignored */

#endif
