/* layers/models/lenet5.h — LeNet-5 as the ternary papers draw it, and as XNOR-Net was replicated. */
#ifndef QG_LENET5_H
#define QG_LENET5_H

#include "layers/models/models.h"

extern const qg_model qg_model_lenet5, qg_model_lenet5_xnor;

#endif
