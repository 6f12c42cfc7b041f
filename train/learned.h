/* train/learned.h — the values that the quantizers of a net learn and track, by name.  Internal. */
#ifndef QG_LEARNED_H
#define QG_LEARNED_H

#include "layers/layer.h"

typedef struct qg__learned_list {
    const qg_param **param;         /* "conv1.weight.wp", ..: in the order of the layers; without what is quiet */
    const qg_learned **entry;       /* what the scheme says of each */
    int              count;
} qg__learned_list;

/* Lists the values of a built net, which must outlive the list.  Fails with QG_EMEM. */
QG_MUST_CHECK qg_status qg__learned_begin(qg__learned_list *l, qg_net *net);
void                    qg__learned_end(qg__learned_list *l);

/* The minimum, mean and maximum of p. */
typedef struct qg__learned_values {
    double least, mean, greatest;
} qg__learned_values;
qg__learned_values qg__learned_values_of(const qg_param *p);

/* Writes the values outside the normal range of their scheme (qg_learned.low, .high) to text: "conv2.weight.span is
 * 0.06, not 0.25 .. 100".  After three values the rest are only counted.  Returns false if all values are normal. */
bool qg__learned_unhealthy(const qg__learned_list *l, char *text, size_t bytes);

#endif
