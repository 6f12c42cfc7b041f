/* layers/models/mlp.h — the multilayer perceptron of BinaryConnect and BNN. */
#ifndef QG_MLP_H
#define QG_MLP_H

#include "layers/models/models.h"

extern const qg_model qg_model_mlp;

#endif
