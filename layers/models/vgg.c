/* VGG-7 and VGG-Small, the CIFAR-10 nets of the ternary and binary papers. */
#include <math.h>

#include "layers/models/parts.h"

enum { CONVS = 6 };

static const int channels[CONVS] = { 128, 128, 256, 256, 512, 512 };

static int scaled(const qg_model_spec *s, int n)
{
    const long most = lround(n * s->option[QG_MODEL_WIDTH]);
    return most < 1 ? 1 : (int)most;
}

/* 2x128C3 - MP2 - 2x256C3 - MP2 - 2x512C3 - MP2, hidden dense units (0: none), classes. */
static qg_net *declare(qg_model_spec s, int hidden)
{
    const qg_batchnorm_spec norm = { 0 };
    const qg_model_quants   fc1 = qg_model_quant(&s, "fc1", false, !hidden);
    const qg_model_quants   fc2 = qg_model_quant(&s, "fc2", false, true);
    qg_model_quants         conv[CONVS];
    for (int i = 0; i < CONVS; i++) conv[i] = qg__model_numbered(&s, "conv", i + 1, i == 0, false);

    qg_net *net = qg_net_new(qg__model_net(&s));
    for (int i = 0; i < CONVS; i++) {
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = scaled(&s, channels[i]), .kernel = 3, .pad = 1,
                                             QG_QUANTS(conv[i]) });
        qg__model_between(net, norm, i + 1 < CONVS ? conv[i + 1].input : fc1.input, i % 2 ? 2 : 0);
    }
    qg_net_dense(net, (qg_dense_spec){ .out = hidden ? scaled(&s, hidden) : s.classes, QG_QUANTS(fc1) });
    if (!hidden) return net;
    qg__model_between(net, norm, fc2.input, 0);
    qg_net_dense(net, (qg_dense_spec){ .out = s.classes, QG_QUANTS(fc2) });
    return net;
}

static qg_net *declare7(qg_model_spec s)     { return declare(s, 1024); }
static qg_net *declare_small(qg_model_spec s) { return declare(s, 0); }

static const qg_key keys[] = { { .name = "width", .fallback = 1, .min = 0.0625, .max = 4 }, { .name = NULL } };

const qg_model qg_model_vgg7 = {
    .name  = "vgg7",
    .about = "2x128C3-MP2-2x256C3-MP2-2x512C3-MP2-1024FC-10, batch norm after every hidden product (TWN, arXiv:1605.04711)",

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
    .keys    = keys,
    .declare = declare7,
};

const qg_model qg_model_vgg_small = {
    .name  = "vgg-small",
    .about = "2x128C3-MP2-2x256C3-MP2-2x512C3-MP2-10, vgg7 without its hidden dense layer (IR-Net, arXiv:1909.10788)",

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
    .keys    = keys,
    .declare = declare_small,
};
