#include "layers/models/lenet5.h"

#include "quant/scheme.h"

/* What stands between a product and the next one.  A quantizer that rectifies takes the place of
 * the relu.
 * A binary one also pulls the pooling in front of the batch norm: the maximum over a window of
 * signs is +1 nearly everywhere. */
static void between(qg_net *net, qg_quant next_input, int pool)
{
    const bool binary = next_input.scheme && next_input.bits == 1;
    if (binary && pool) qg_net_maxpool(net, pool);
    qg_net_batchnorm(net);
    if (!next_input.scheme || !next_input.scheme->rectifies) qg_net_relu(net);
    if (!binary && pool) qg_net_maxpool(net, pool);
}

/* The three operands of a product's spec. */
#define QUANTS(p) .weight = (p).weight, .input = (p).input, .gradient = (p).gradient

static qg_net *declare(qg_model_spec s)
{
    const qg_model_quants conv1 = qg_model_quant(&s, "conv1", true, false);
    const qg_model_quants conv2 = qg_model_quant(&s, "conv2", false, false);
    const qg_model_quants fc1   = qg_model_quant(&s, "fc1", false, false);
    const qg_model_quants fc2   = qg_model_quant(&s, "fc2", false, true);

    qg_net *net = qg_net_new((qg_net_spec){ .height                 = s.height,
                                            .width                  = s.width,
                                            .channels               = s.channels,
                                            .seed                   = s.seed,
                                            .fold_batchnorm         = s.fold_batchnorm,
                                            .freeze_batchnorm_after = s.freeze_batchnorm_after });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 32, .kernel = 5, QUANTS(conv1) });
    between(net, conv2.input, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 64, .kernel = 5, QUANTS(conv2) });
    between(net, fc1.input, 2);
    qg_net_dense(net, (qg_dense_spec){ .out = 512, QUANTS(fc1) });
    between(net, fc2.input, 0);
    qg_net_dense(net, (qg_dense_spec){ .out = s.classes, QUANTS(fc2) });
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
