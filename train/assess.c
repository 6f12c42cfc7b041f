#include "train/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/grow.h"
#include "core/io/number.h"
#include "core/kernels/functions.h"

qg_status qg__assess_begin(qg_assessment *a, int classes, int worst)
{
    const size_t n = (size_t)classes;
    if (worst < 0) return qg_fail(QG_EARG, "evaluate: worst is %d, must be 0 or more", worst);
    *a = (qg_assessment){ .classes    = classes,
                           .labelled   = calloc(n, sizeof *a->labelled),
                           .predicted  = calloc(n, sizeof *a->predicted),
                           .hit        = calloc(n, sizeof *a->hit),
                           .worst      = calloc((size_t)worst + 1, sizeof *a->worst),
                           .most_worst = worst };
    if (a->labelled && a->predicted && a->hit && a->worst) return QG_OK;
    qg_assessment_free(a);
    return qg_fail(QG_EMEM, "out of memory to count the mistakes in %d classes", classes);
}

void qg_assessment_free(qg_assessment *a)
{
    if (!a) return;
    free(a->labelled), free(a->predicted), free(a->hit);
    free(a->confused), free(a->worst);
    *a = (qg_assessment){ .classes = 0 };
}

/* --- one image ---------------------------------------------------------------------------- */

/* Inserts m where it belongs: images come in order, so an equal one is later.  The last one of a full list is dropped. */
static void keep_if_worse(qg_assessment *a, const qg_mistake *m)
{
    int at = a->n_worst;
    while (at > 0 && m->loss > a->worst[at - 1].loss) at--;
    if (at == a->most_worst) return;
    if (a->n_worst < a->most_worst) a->n_worst++;
    memmove(&a->worst[at + 1], &a->worst[at], (size_t)(a->n_worst - 1 - at) * sizeof *a->worst);
    a->worst[at] = *m;
}

static qg_status add_confused(qg_assessment *a, int label, int predicted)
{
    qg_confused *more = qg_grown(a->confused, a->n_confused, sizeof *more);
    if (!more) return qg_fail(QG_EMEM, "out of memory for %zu mistakes", a->n_confused + 1);
    a->confused                  = more;
    a->confused[a->n_confused++] = (qg_confused){ label, predicted, 1 };
    return QG_OK;
}

static void add_to_bin(qg_assessment *a, double confidence, bool correct)
{
    const int            i   = (int)ceil(confidence * QG_CALIBRATION_BINS) - 1;
    qg_calibration_bin *bin = &a->bin[i < 0 ? 0 : i < QG_CALIBRATION_BINS ? i : QG_CALIBRATION_BINS - 1];
    bin->images++;
    bin->correct += correct;
    bin->confidence += confidence;
}

static int highest(const float *scores, int classes)
{
    int best = 0;
    for (int k = 1; k < classes; k++)
        if (scores[k] > scores[best]) best = k;
    return best;
}

/* exp(score - the highest) of each class, unless e is NULL, and their sum. */
static double exponentials(const float *scores, int classes, int best, double *e)
{
    double sum = 0;
    for (int k = 0; k < classes; k++) {
        const double one = qg__exp((double)scores[k] - (double)scores[best]);
        if (e) e[k] = one;
        sum += one;
    }
    return sum;
}

void qg_probabilities(const float *scores, int classes, double *p)
{
    const double sum = exponentials(scores, classes, highest(scores, classes), p);
    for (int k = 0; k < classes; k++) p[k] /= sum;
}

qg_status qg__assess_add(qg_assessment *a, const float *scores, int label)
{
    if (label < 0 || label >= a->classes) return qg_fail(QG_EARG, "label %d is not in 0..%d", label, a->classes - 1);
    for (int k = 0; k < a->classes; k++)
        if (!isfinite(scores[k]))
            return qg_fail(QG_ENAN, "score %d of image %llu is %g", k, (unsigned long long)a->images,
                           qg__number_shown(scores[k]));
    const int        best = highest(scores, a->classes);
    const double     sum  = exponentials(scores, a->classes, best, NULL);
    const double     loss = (double)scores[best] - (double)scores[label] + qg__log(sum);
    const qg_mistake m    = { .image       = a->images,
                              .label       = label,
                              .predicted   = best,
                              .loss        = loss,
                              .confidence  = 1 / sum,
                              .probability = qg__exp(-loss) };
    const bool      correct = best == label;
    const qg_status status  = correct ? QG_OK : add_confused(a, label, best);
    if (status) return status;
    a->images++;
    a->labelled[label]++;
    a->predicted[best]++;
    a->hit[label] += correct;
    a->correct += correct;
    add_to_bin(a, m.confidence, correct);
    if (!correct) keep_if_worse(a, &m);
    return QG_OK;
}

/* --- all of them -------------------------------------------------------------------------- */

static int by_classes(const void *x, const void *y)
{
    const qg_confused *a = x, *b = y;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

static int by_count(const void *x, const void *y)
{
    const qg_confused *a = x, *b = y;
    if (a->count != b->count) return a->count > b->count ? -1 : 1;
    return by_classes(x, y);
}

void qg__assess_sort(qg_assessment *a)
{
    size_t n = 0;
    if (!a->n_confused) return;
    qsort(a->confused, a->n_confused, sizeof *a->confused, by_classes);
    for (size_t i = 0; i < a->n_confused; i++) {
        if (n && !by_classes(&a->confused[n - 1], &a->confused[i])) a->confused[n - 1].count += a->confused[i].count;
        else a->confused[n++] = a->confused[i];
    }
    a->n_confused = n;
    qsort(a->confused, n, sizeof *a->confused, by_count);
}

uint64_t qg_assessment_confusion(const qg_assessment *a, int label, int predicted)
{
    if (label == predicted) return a->hit[label];
    for (size_t i = 0; i < a->n_confused; i++)
        if (a->confused[i].label == label && a->confused[i].predicted == predicted) return a->confused[i].count;
    return 0;
}

static double share(uint64_t part, uint64_t of) { return of ? (double)part / (double)of : NAN; }

double qg_assessment_recall(const qg_assessment *a, int k) { return share(a->hit[k], a->labelled[k]); }
double qg_assessment_precision(const qg_assessment *a, int k) { return share(a->hit[k], a->predicted[k]); }

double qg_assessment_calibration_error(const qg_assessment *a)
{
    double sum = 0;
    for (int i = 0; i < QG_CALIBRATION_BINS; i++) sum += fabs((double)a->bin[i].correct - a->bin[i].confidence);
    return a->images ? sum / (double)a->images : NAN;
}
