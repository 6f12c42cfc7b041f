/* train/learned.h — the values that the quantizers of a net learn and track, by name.  Internal. */
#ifndef QG_LEARNED_H
#define QG_LEARNED_H

#include "layers/layer.h"

typedef struct qg__learned_item {
    const qg_param   *param;        /* "conv1.weight.wp" */
    const qg_learned *entry;        /* what the scheme says of it */
    qg_layer         *layer;
    const qg_slot    *slot;         /* of the layer, */
    int               at;           /* and which of its values this is */
    bool              told;         /* by qg__learned_unhealthy */
    float            *was;          /* the values that qg__learned_unhealthy saw first; 0: unknown */
} qg__learned_item;

typedef struct qg__learned_list {
    qg__learned_item *item;         /* in the order of the layers; without what is quiet */
    int               count;
    float            *values;       /* of all was, */
    float            *scratch;      /* and after them room for a weight, and for what its scheme would start with */
} qg__learned_list;

/* Lists the values of a built net, which must outlive the list.  Fails with QG_EMEM. */
QG_MUST_CHECK qg_status qg__learned_begin(qg__learned_list *l, qg_net *net);
void                    qg__learned_end(qg__learned_list *l);

/* The minimum, mean and maximum of p as the net computes with them: what an update moved below entry->least counts as that.  A
 * value of 0 stays, since it is unknown yet. */
typedef struct qg__learned_values {
    double least, mean, greatest;
} qg__learned_values;
qg__learned_values qg__learned_values_of(const qg_param *p, const qg_learned *entry);

/* Writes the values that have become unhealthy to text, each of them once:
 *
 *     outside the normal range of the scheme (qg_learned.low, .high): "conv2.weight.span is 0.06, not 0.25 .. 100"
 *     a positive scale (qg_learned.least) that is 100 times as large as, or 100 times smaller than, the one with which the
 *     scheme would start at the weights as they are now: "conv2.weight.step is 9, but these weights suggest 0.02"
 *     or, where that depends on no weights, with which it has started: "conv2.input.alpha is 0.01, but it started at 10"; where the
 *     first batch decided that, the one that the first call saw: "conv2.input.step is 7, but it was 0.06"
 *
 * After three values the rest are only counted.  What usually helps follows (qg_learned.remedy), after the name of the scheme: "; lsq:
 * a lower learning rate of quantizers usually helps".  Returns false if there is none. */
bool qg__learned_unhealthy(qg__learned_list *l, char *text, size_t bytes);

#endif
