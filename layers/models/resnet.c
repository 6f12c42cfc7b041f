#include "layers/models/resnet.h"

#include <stdio.h>

#include "layers/models/parts.h"

static qg_model_quants quants(const qg_model_spec *s, int *n_conv, bool first)
{
    char name[16];
    snprintf(name, sizeof name, "conv%d", ++*n_conv);
    return qg_model_quant(s, name, first, false);
}

/* The nonlinearity that both the next block and its shortcut read: the input quantizer where it
 * rectifies, else relu. */
static qg_layer *nonlinearity(qg_net *net, qg_quant input)
{
    return input.scheme && input.scheme->rectifies ? qg_net_quantize(net, input) : qg_net_relu(net);
}

/* conv3 - bn - act - conv3 - bn, plus the shortcut, - act.             [1512.03385v1, fig. 2]
 * The first convolution reads what the block before has already quantized. */
static qg_layer *block(qg_net *net, qg_layer *x, qg_model_quants a, qg_model_quants b, int channels,
                       int stride, bool widen)
{
    qg_layer *shortcut = widen ? qg_net_shortcut(net, x, stride, channels) : x;
    if (a.input.scheme && a.input.scheme->rectifies) a.input = (qg_quant){ 0 };
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = channels, .kernel = 3, .pad = 1, .stride = stride,
                                         .after = x, QG_QUANTS(a) });
    qg__model_between(net, b.input, 0);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = channels, .kernel = 3, .pad = 1, QG_QUANTS(b) });
    qg_layer *y = qg_net_batchnorm(net);
    return qg_net_add(net, y, shortcut);
}

/* 3 stages of n blocks with 16, 32, 64 channels: 6 n + 2 layers with weights. */
static qg_net *declare(qg_model_spec s, int n)
{
    int             n_conv = 0;
    qg_model_quants first  = quants(&s, &n_conv, true);
    qg_net         *net    = qg_net_new(qg__model_net(&s));
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 16, .kernel = 3, .pad = 1, QG_QUANTS(first) });
    qg_net_batchnorm(net);
    qg_layer *x = nonlinearity(net, s.input);
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < n; i++) {
            const bool            widen = stage > 0 && i == 0;
            const qg_model_quants a = quants(&s, &n_conv, false), b = quants(&s, &n_conv, false);
            block(net, x, a, b, 16 << stage, widen ? 2 : 1, widen);
            x = nonlinearity(net, s.input);
        }
    qg_net_global_avgpool(net);
    const qg_model_quants last = qg_model_quant(&s, "fc1", false, true);
    qg_net_dense(net, (qg_dense_spec){ .out = s.classes, QG_QUANTS(last) });
    return net;
}

static qg_net *declare20(qg_model_spec s) { return declare(s, 3); }

const qg_model qg_model_resnet20 = {
    .name  = "resnet20",
    .about = "ResNet-20 for 32x32 images, 16-32-64 channels, zero-padded shortcuts (He et al., arXiv:1512.03385)",

    /* Section 4.2: 64,000 iterations of 128 images, the rate divided by ten after 32,000 and 48,000. */
    .recipe = "epochs = 164\n"
              "batch = 128\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.1\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"
              "loss = \"softmax\"\n",
    .declare = declare20,
};
