/* VGG-7 and VGG-Small, the CIFAR-10 nets of the ternary and binary papers. */
#include "layers/models/parts.h"

#define CONVS "2*(%dC3-BN-R)-MP2-2*(%dC3-BN-R)-MP2-2*(%dC3-BN-R)-MP2"

static void net7(const qg_model_spec *s, char *text)
{
    qg__model_text(text, CONVS "-%dFC-BN-R-%d", qg__model_scaled(s, 128), qg__model_scaled(s, 256),
                   qg__model_scaled(s, 512), qg__model_scaled(s, 1024), s->classes);
}

static void net_small(const qg_model_spec *s, char *text)
{
    qg__model_text(text, CONVS "-%d", qg__model_scaled(s, 128), qg__model_scaled(s, 256),
                   qg__model_scaled(s, 512), s->classes);
}

const qg_model qg__model_vgg7 = {
    .name  = "vgg7",
    .about = "VGG-7: three times two 3x3 convolutions and a pool, 128-256-512 channels; dense layers of 1024 and 10 (TWN, arXiv:1605.04711)",

    /* TWN's table 1.  A third party reports that 0.1 gave dead outputs and 0.01 trained. */
    .recipe = "epochs = 160\n"
              "batch = 100\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.1\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"
              "loss = \"cross-entropy\"\n",
    .image   = QG_CIFAR_IMAGE,
    .keys    = qg__model_width_keys,
    .text = net7,
};

const qg_model qg__model_vgg_small = {
    .name  = "vgg-small",
    .about = "vgg7 without its hidden dense layer (IR-Net, arXiv:1909.10788)",

    /* The training that IR-Net's authors released for ResNet-20; for this net they report only the result. */
    .recipe = "epochs = 400\n"
              "batch = 128\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.1\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"cosine\"\n"
              "loss = \"cross-entropy\"\n",
    .image   = QG_CIFAR_IMAGE,
    .keys    = qg__model_width_keys,
    .text = net_small,
};
