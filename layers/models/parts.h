/* layers/models/parts.h — what the models of the zoo have in common (internal). */
#ifndef QG_MODEL_PARTS_H
#define QG_MODEL_PARTS_H

#include "layers/models/models.h"
#include "quant/scheme.h"

/* The three quantizers of a product's spec. */
#define QG_QUANTS(p) .weight = (p).weight, .input = (p).input, .gradient = (p).gradient

/* The part of a model's spec that is the net's. */
qg_net_spec qg__model_net(const qg_model_spec *spec);

/* What stands between a product and the next: batch norm, nonlinearity, pooling (0: none).
 *
 * A next input that rectifies takes the place of the relu.  A binary one also pulls the pooling in
 * front of the batch norm: the maximum over a window of signs is +1 nearly everywhere. */
void qg__model_between(qg_net *net, qg_quant next_input, int pool);

#endif
