/* The multilayer perceptron of BinaryConnect and BNN. */
#include "layers/models/parts.h"

/* Dense - batch norm - relu, depth times, then dense - batch norm.  A binary input replaces the relu,
 * which makes it BNN's net. */
static qg_net *declare(qg_model_spec s)
{
    const int               depth = (int)s.option[QG_MODEL_DEPTH], width = (int)s.option[QG_MODEL_WIDTH];
    const qg_batchnorm_spec norm  = { .eps = 1e-4f, .momentum = 0.15f };
    qg_net                 *net   = qg_net_new(qg__model_net(&s));
    for (int i = 0; i <= depth; i++) {
        qg_model_quants q = qg__model_numbered(&s, "fc", i + 1, i == 0, i == depth);
        if (i > 0) qg__model_between(net, norm, q.input, 0);
        qg__model_dropout(net, &q.input, s.option[i > 0 ? QG_MODEL_DROPOUT : QG_MODEL_INPUT_DROPOUT]);
        qg_net_dense(net, (qg_dense_spec){ .out = i < depth ? width : s.classes, QG_QUANTS(q) });
    }
    qg_net_batchnorm_with(net, norm);
    return net;
}

static const qg_key keys[] = {
    { .name = "depth", .fallback = 3, .min = 1, .max = 16, .is = QG_KEY_WHOLE },
    { .name = "width", .fallback = 2048, .min = 1, .max = 65536, .is = QG_KEY_WHOLE },
    { .name = "dropout", .max = 0.99 },
    { .name = "input-dropout", .max = 0.99 },
    { .name = NULL }
};

const qg_model qg_model_mlp = {
    .name  = "mlp",
    .about = "dense layers, 3x2048 by default, batch norm after each, the last included (BinaryConnect, arXiv:1511.00363)",

    /* As the authors' released code; the paper has 3x1024 and SGD.  Train it with
     * --weight binaryconnect:draw=stoch,start=unit,glorot-lr=adam. */
    .recipe = "epochs = 250\n"
              "batch = 100\n"
              "optimizer = \"adam\"\n"
              "lr = 0.001\n"
              "schedule = \"exponential:factor=0.003\"\n"
              "loss = \"squared-hinge\"\n",
    .image  = QG_MNIST_IMAGE,
    .keys   = keys,
    .declare = declare,
};
