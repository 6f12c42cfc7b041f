/* What a run is told that does not learn. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/kernels/functions.h"
#include "datasets/dataset.h"
#include "layers/evaluate.h"
#include "quant/engine.h"
#include "train/evaluate.h"
#include "train/statistics.h"

enum { STEPS = 100 };                           /* before, a net may be slow */
static const double SAME = 0.999;               /* share of a code that is all codes */
static const double MOST_OF_TWO = 0.75, MOST_OF_MANY = 0.5;
static const double WORSE = 1.5;                /* times the cross entropy of equal scores */

/* --- chance ------------------------------------------------------------------------------- */

typedef struct frequent {
    int    label, images;       /* the most frequent label, and how many images there are */
    double share;               /* of images with it; NaN: not known */
} frequent;

static frequent most_frequent(const qg_loader *l)
{
    const int       classes = qg_loader_classes(l), n = qg_loader_shape(l).n;
    const uint16_t *label = qg_loader_labels(l);
    int            *count = calloc((size_t)classes, sizeof *count), most = 0;
    if (!count) return (frequent){ .share = NAN };
    for (int i = 0; i < n; i++) count[label[i]]++;
    for (int k = 1; k < classes; k++) most = count[k] > count[most] ? k : most;
    const frequent f = { .label = most, .images = n, .share = (double)count[most] / n };
    free(count);
    return f;
}

static bool is_chance(double accuracy, frequent f)
{
    return accuracy <= f.share + 2 * qg_proportion_error(f.share, (uint64_t)f.images);
}

/* --- causes, the first of which is told --------------------------------------------------- */

static bool has_started(const qg__run *r, const qg_slot *slot)
{
    return slot && slot->q.scheme && !qg__quant_is_delayed(slot->q, r->record.steps);
}

static double loss_of_equal_scores(const qg__run *r) { return qg__log(qg_loader_classes(r->spec->train)); }

/* Whether the training loss is cross entropy, and at least so many times that of equal scores. */
static bool loss_is(const qg__run *r, double times)
{
    return !r->spec->loss && !r->spec->teacher.net && r->record.train_loss >= times * loss_of_equal_scores(r);
}

/* A net whose loss is worse than that of equal scores has not learned its training images either.
 * Validation images were training images, so they have the same classes. */
static bool only_tests_fail(const qg__run *r, frequent train, frequent chooses, char text[QG__CHANCE_BYTES])
{
    const double accuracy = r->record.train_accuracy, test = r->record.test_accuracy;
    const double gap      = accuracy - test - 2 * qg_proportion_error(test, (uint64_t)chooses.images);
    if (is_chance(accuracy, train) || loss_is(r, 1) || !(gap > 0)) return false;
    snprintf(text, QG__CHANCE_BYTES, "%.2f %% of the training images are, so %s", 100 * accuracy,
             qg__statistics_lag(r) && !qg__reestimates(r)
                 ? "the running statistics of batch norms may lag behind the weights; let them be "
                   "estimated again before each test"
             : r->spec->validation ? "the net overfits; it may need fewer weights, more images or augmentation"
                                   : "these images may have other classes, or be normalised in another way");
    return true;
}

static bool one_class_dominates(const qg__run *r, frequent train, char text[QG__CHANCE_BYTES])
{
    const bool two = qg_loader_classes(r->spec->train) == 2;
    if (train.share < (two ? MOST_OF_TWO : MOST_OF_MANY)) return false;
    snprintf(text, QG__CHANCE_BYTES, "%.0f %% of the training images have class %d; train on about as "
             "many of each", 100 * train.share, train.label);
    return true;
}

static bool codes_are_the_same(const qg__run *r, char text[QG__CHANCE_BYTES])
{
    for (int i = 0; i < r->code_stats.rows; i++) {
        const qg__code_stats_row *row  = &r->code_stats.row[i];
        const qg_slot            *slot = qg_layer_slot(row->layer, QG_WEIGHT);
        bool                      same = row->zeros >= SAME;
        for (int k = 0; k < row->shares; k++) same |= row->share[k] >= SAME;
        if (!same || !has_started(r, slot)) continue;
        snprintf(text, QG__CHANCE_BYTES, "all weights of %s have the same code of %s; give it a threshold "
                 "relative to the weights, or weights a larger start", row->layer->name,
                 slot->q.scheme->name);
        return true;
    }
    return false;
}

/* The product whose result l reads; NULL: none, or there is a batch norm in between. */
static const qg_product *read_without_norm(const qg_layer *l)
{
    for (qg_layer *of = l->after; of && !qg__batchnorm(of); of = of->after)
        if (qg_layer_product(of)) return qg_layer_product(of);
    return NULL;
}

static bool a_norm_is_missing(const qg__run *r, char text[QG__CHANCE_BYTES])
{
    for (int i = 0; i < qg_net_layers(r->net); i++) {
        qg_layer         *l      = qg_net_layer(r->net, i);
        const qg_product *reader = qg_layer_product(l), *from = reader ? read_without_norm(l) : NULL;
        if (!from) continue;
        const qg_slot    *read   = qg_layer_reads(l);
        const bool        input  = has_started(r, read);
        if (!input && !has_started(r, &from->weight_slot)) continue;
        snprintf(text, QG__CHANCE_BYTES, "%s quantizes %s (%s), and no batch norm is between %s and %s; put "
                 "one there", input ? l->name : from->layer.name, input ? "its input" : "its weights",
                 (input ? read : &from->weight_slot)->q.scheme->name, from->layer.name, l->name);
        return true;
    }
    return false;
}

/* The relu before p, also if what p reads is pooled or quantized in between; NULL: none. */
static const qg_layer *relu_before(const qg_product *p)
{
    const qg_layer *l = qg__layer_before(&p->layer, QG_CHOOSES | QG_PASSES | QG_QUANTIZES);
    return qg__has_trait(l, QG_RECTIFIES) ? l : NULL;
}

static bool a_relu_is_before_signs(const qg__run *r, char text[QG__CHANCE_BYTES])
{
    for (int i = 0; i < qg_net_layers(r->net); i++) {
        const qg_product *p    = qg_layer_product(qg_net_layer(r->net, i));
        const qg_slot    *read = p ? qg_layer_reads(qg_net_layer(r->net, i)) : NULL;
        const qg_layer   *relu = p ? relu_before(p) : NULL;
        if (!relu || !has_started(r, read) || !qg__takes_signs(read->q)) continue;
        snprintf(text, QG__CHANCE_BYTES, "%s quantizes its input (%s), but %s before it leaves no negative "
                 "values; remove %s", p->layer.name, read->q.scheme->name, relu->name, relu->name);
        return true;
    }
    return false;
}

/* The product that makes the scores, without a batch norm, from weights without a scale: the scores may be so
 * large that the loss tells nothing about the learning rate.  NULL: none. */
static const qg_product *unscaled_scores(const qg__run *r)
{
    qg_layer *l = qg_net_layer(r->net, qg_net_layers(r->net) - 1);
    while (l && !qg__batchnorm(l) && !qg_layer_product(l)) l = l->after;
    const qg_product *p = l ? qg_layer_product(l) : NULL;
    return p && has_started(r, &p->weight_slot) && p->weight_slot.q.scheme->scales == QG_UNSCALED ? p : NULL;
}

static bool scores_are_large(const qg__run *r, char text[QG__CHANCE_BYTES])
{
    const qg_product *p = unscaled_scores(r);
    if (!p || !loss_is(r, WORSE)) return false;
    snprintf(text, QG__CHANCE_BYTES, "%s quantizes its weights (%s) without a scale, and no batch norm is after "
             "it, so scores are large; put one there, or keep the weights of %s in float", p->layer.name,
             p->weight_slot.q.scheme->name, p->layer.name);
    return true;
}

static bool the_rate_is_high(const qg__run *r, double lr, char text[QG__CHANCE_BYTES])
{
    if (!loss_is(r, WORSE)) return false;
    snprintf(text, QG__CHANCE_BYTES, "the learning rate, %.3g, is too high: the training loss, %.3g, is "
             "above that of equal scores, %.3g", lr, r->record.train_loss, loss_of_equal_scores(r));
    return true;
}

static void find_cause(const qg__run *r, frequent train, frequent chooses, double lr,
                       char text[QG__CHANCE_BYTES])
{
    if (only_tests_fail(r, train, chooses, text) || one_class_dominates(r, train, text) ||
        codes_are_the_same(r, text) || a_relu_is_before_signs(r, text) || a_norm_is_missing(r, text) ||
        scores_are_large(r, text) || the_rate_is_high(r, lr, text))
        return;
    snprintf(text, QG__CHANCE_BYTES, "the learning rate, %.3g; a higher or a lower one, a warm-up, or float "
             "first and last layers may help", lr);
}

bool qg__is_at_chance(const qg__run *r, double lr, char text[QG__CHANCE_BYTES])
{
    const qg__run_record *at     = &r->record;
    const bool            held   = r->spec->validation;
    const qg_loader      *images = held ? r->spec->validation : r->spec->test;
    char                  cause[QG__CHANCE_BYTES];
    if (at->steps < STEPS || qg_loader_classes(images) < 2) return false;
    const frequent chooses = most_frequent(images), train = most_frequent(r->spec->train);
    if (isnan(train.share) || !is_chance(at->test_accuracy, chooses)) return false;
    find_cause(r, train, chooses, lr, cause);
    snprintf(text, QG__CHANCE_BYTES, "after epoch %" PRIu64 " %.2f %% of the %s images are classified "
             "correctly, no better than with one class for all (%.2f %% ± %.2f %%); likely cause: %.300s",
             at->epoch, 100 * at->test_accuracy, held ? "validation" : "test", 100 * chooses.share,
             100 * qg_proportion_error(chooses.share, (uint64_t)chooses.images), cause);
    return true;
}
