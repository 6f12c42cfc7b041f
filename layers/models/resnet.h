/* layers/models/resnet.h — the residual nets for CIFAR-10. */
#ifndef QG_RESNET_H
#define QG_RESNET_H

#include "layers/models/models.h"

extern const qg_model qg_model_resnet20, qg_model_resnet32, qg_model_resnet44, qg_model_resnet56;

#endif
