/* cli/run/learned.h — what the quantizers of a net learn and track, by name. */
#ifndef CLI_LEARNED_H
#define CLI_LEARNED_H

#include "layers/layer.h"

typedef struct learned_list {
    const qg_param **param;         /* "conv1.weight.wp", ..: in the order of the layers; without what is quiet */
    const qg_learned **entry;       /* what the scheme says of each */
    int              count;
} learned_list;

/* Of a built net, which must outlive it.  Fails with QG_EMEM. */
QG_MUST_CHECK qg_status learned_begin(learned_list *l, qg_net *net);
void                    learned_end(learned_list *l);

/* Least, mean and greatest value of p. */
typedef struct learned_values {
    double least, mean, greatest;
} learned_values;
learned_values learned_values_of(const qg_param *p);

/* Those outside of what their scheme calls healthy (qg_learned.low, .high), into text: "conv2.weight.span
 * is 0.06, not 0.25 .. 100", the rest as a number if they are many.  false: there is none. */
bool learned_unhealthy(const learned_list *l, char *text, size_t bytes);

#endif
