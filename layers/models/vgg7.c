#include "layers/models/vgg7.h"

#include <stdio.h>

#include "layers/models/parts.h"

enum { CONVS = 6 };

static qg_net *declare(qg_model_spec s)
{
    static const int channels[CONVS] = { 128, 128, 256, 256, 512, 512 };
    qg_model_quants  conv[CONVS];
    for (int i = 0; i < CONVS; i++) {
        char name[16];
        snprintf(name, sizeof name, "conv%d", i + 1);
        conv[i] = qg_model_quant(&s, name, i == 0, false);
    }
    const qg_model_quants fc1 = qg_model_quant(&s, "fc1", false, false);
    const qg_model_quants fc2 = qg_model_quant(&s, "fc2", false, true);

    qg_net *net = qg_net_new(qg__model_net(&s));
    for (int i = 0; i < CONVS; i++) {
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = channels[i], .kernel = 3, .pad = 1, QG_QUANTS(conv[i]) });
        qg__model_between(net, i + 1 < CONVS ? conv[i + 1].input : fc1.input, i % 2 ? 2 : 0);
    }
    qg_net_dense(net, (qg_dense_spec){ .out = 1024, QG_QUANTS(fc1) });
    qg__model_between(net, fc2.input, 0);
    qg_net_dense(net, (qg_dense_spec){ .out = s.classes, QG_QUANTS(fc2) });
    return net;
}

const qg_model qg_model_vgg7 = {
    .name  = "vgg7",
    .about = "2x128C3-MP2-2x256C3-MP2-2x512C3-MP2-1024FC-10, batch norm behind every hidden product (TWN, arXiv:1605.04711)",

    /* TWN's table 1.  A third party reports that 0.1 gave dead outputs and 0.01 trained. */
    .recipe = "epochs = 160\n"
              "batch = 100\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.1\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"
              "loss = \"softmax\"\n",
    .declare = declare,
};
