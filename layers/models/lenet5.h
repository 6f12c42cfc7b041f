/* layers/models/lenet5.h — LeNet-5 as the ternary papers draw it. */
#ifndef QG_LENET5_H
#define QG_LENET5_H

#include "layers/models/models.h"

extern const qg_model qg_model_lenet5;

#endif
