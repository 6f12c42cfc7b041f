#include "layers/models/lenet5.h"

#include "layers/models/parts.h"

static qg_net *declare(qg_model_spec s)
{
    const qg_model_quants conv1 = qg_model_quant(&s, "conv1", true, false);
    const qg_model_quants conv2 = qg_model_quant(&s, "conv2", false, false);
    const qg_model_quants fc1   = qg_model_quant(&s, "fc1", false, false);
    const qg_model_quants fc2   = qg_model_quant(&s, "fc2", false, true);

    qg_net *net = qg_net_new(qg__model_net(&s));
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 32, .kernel = 5, QG_QUANTS(conv1) });
    qg__model_between(net, conv2.input, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 64, .kernel = 5, QG_QUANTS(conv2) });
    qg__model_between(net, fc1.input, 2);
    qg_net_dense(net, (qg_dense_spec){ .out = 512, QG_QUANTS(fc1) });
    qg__model_between(net, fc2.input, 0);
    qg_net_dense(net, (qg_dense_spec){ .out = s.classes, QG_QUANTS(fc2) });
    return net;
}

const qg_model qg_model_lenet5 = {
    .name  = "lenet5",
    .about = "32C5-MP2-64C5-MP2-512FC-10, batch norm behind every hidden product (TWN, arXiv:1605.04711)",

    /* The authors' solver: 30,000 iterations of 50 images, the rate divided by ten after 15,000 and
     * 25,000 of them.  They print an SVM loss and ship a softmax; this is what they ship. */
    .recipe = "epochs = 25\n"
              "batch = 50\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.01\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.83333,factor=0.1\"\n"
              "loss = \"softmax\"\n",
    .declare = declare,
};
