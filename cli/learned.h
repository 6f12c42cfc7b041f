/* cli/learned.h — what the quantizers of a net learn and track, by name. */
#ifndef CLI_LEARNED_H
#define CLI_LEARNED_H

#include "layers/layer.h"

typedef struct learned_list {
    const qg_param **param;         /* "conv1.weight.wp", ..: in the order of the layers; without what is quiet */
    int              count;
} learned_list;

/* Of a built net, which must outlive it.  Fails with QG_EMEM. */
QG_MUST_CHECK qg_status learned_begin(learned_list *l, qg_net *net);
void                    learned_end(learned_list *l);

/* Least, mean and greatest value of p. */
typedef struct learned_span {
    double least, mean, greatest;
} learned_span;
learned_span learned_span_of(const qg_param *p);

#endif
