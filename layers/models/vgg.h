/* layers/models/vgg.h — VGG-7 and VGG-Small, the CIFAR-10 nets of the ternary and binary papers. */
#ifndef QG_VGG_H
#define QG_VGG_H

#include "layers/models/models.h"

extern const qg_model qg_model_vgg7, qg_model_vgg_small;

#endif
