/* layers/models/vgg7.h — VGG-7, the CIFAR-10 net of the ternary papers. */
#ifndef QG_VGG7_H
#define QG_VGG7_H

#include "layers/models/models.h"

extern const qg_model qg_model_vgg7;

#endif
