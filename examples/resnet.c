/* A net that is not a chain: ResNet-20 with ternary weights.  Each declaration returns a layer; a block
 * keeps its input layer and adds it to its last one.
 *
 *     build/examples/resnet [STEPS]        trains on noise in the shape of CIFAR-10 */
#include <stdlib.h>

#include "qgrad.h"

/* conv - bn - relu - conv - bn, + x or its shortcut, relu.     He et al. 2015, arXiv:1512.03385 */
static qg_layer *block(qg_net *net, qg_layer *x, int channels, int stride, qg_quant weight)
{
    qg_layer *shortcut = stride > 1 ? qg_net_shortcut(net, x, stride, channels) : x;
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = channels, .kernel = 3, .pad = 1, .stride = stride,
                                            .weight = weight, .after = x });
    qg_net_batchnorm(net);
    qg_net_relu     (net);
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = channels, .kernel = 3, .pad = 1, .weight = weight });
    qg_net_add      (net, qg_net_batchnorm(net), shortcut);
    return qg_net_relu(net);
}

int main(int argc, char **argv)
{
    const uint64_t steps   = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    const qg_quant ternary = qg_twn((qg_twn_spec){ 0 });

    qg_net *net = qg_net_new((qg_net_spec){ .height = 32, .width = 32, .channels = 3, .seed = 7 });
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = 16, .kernel = 3, .pad = 1 });
    qg_net_batchnorm(net);
    qg_layer *x = qg_net_relu(net);
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < 3; i++) x = block(net, x, 16 << stage, stage > 0 && i == 0 ? 2 : 1, ternary);
    qg_net_global_avgpool(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 10 });

    qg_params *params = qg_net_build(net);
    qg_optim  *sgd    = qg_sgd(params, (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f });
    qg_loader *train  = qg_synthetic((qg_shape){ 1, 32, 32, 3 }, 64, 10,
                                     (qg_loader_spec){ .batch = 32, .seed = 7 });
    qg_tape   *tape   = qg_tape_new();
    if (!sgd || !train || !tape) return qg_print_error("resnet");

    for (uint64_t step = 0; step < steps; )
        for (qg_batch b; step < steps && qg_loader_next(train, &b); step++) {
            qg_tape_begin(tape, QG_TRAIN, 7, step);
            qg_var *loss = qg_cross_entropy(tape, qg_net_forward(net, tape, b.x), b.y);
            if (qg_backward(tape, loss) || qg_optim_step(sgd)) return qg_print_error("resnet");
            printf("step %3llu   loss %.3f\n", (unsigned long long)step, (double)loss->data[0]);
        }
    qg_tape_free(tape), qg_loader_free(train), qg_optim_free(sgd), qg_net_free(net);
    return 0;
}
