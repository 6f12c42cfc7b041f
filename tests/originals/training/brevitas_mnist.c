/* The dense nets of Brevitas' BNN-PYNQ examples without dropout, trained as its trainer does.
 *
 *     brevitas_mnist WIDTH WEIGHT-BITS INPUT-BITS EPS BATCHES START [TRACE] */
#include "tests/originals/training/steps.h"

#include <stdio.h>
#include <stdlib.h>

enum { OWN_ARGUMENTS = 4, HIDDEN = 3, CLASSES = 10 };

static float eps;           /* of Adam */

static qg_optim *optim(qg_params *p)
{
    return qg_adam(p, (qg_adam_spec){ .lr = 0.02f, .eps = eps });
}

/* One bit is a sign, more have a level at 0.  Brevitas clips the codes after rounding, so an input's gradient
 * passes to half a step beyond the last level, where qg_unit's own surrogate ends at that level.  Weights do
 * not show it: they stay in [-1, 1]. */
static qg_quant levels(int bits)
{
    if (bits == 1) return qg_unit((qg_unit_spec){ .bits = 1, .as_paper = true });
    const float last = (float)((1 << (bits - 1)) - 1);
    return qg_unit((qg_unit_spec){
        .bits = bits, .zero = true, .as_paper = true, .surrogate = qg_surrogate_clip(1 + 0.5f / last) });
}

/* The image, 2 x - 1, is quantized like any other input. */
static qg_net *declare(int width, qg_quant weight, qg_quant input)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1 });
    qg_net_affine(net, 2, -1);
    for (int i = 0; i < HIDDEN; i++) {
        qg_net_dense(net, (qg_dense_spec){ .out = width, .no_bias = true, .weight = weight, .input = input });
        qg_net_batchnorm(net);
    }
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .no_bias = true, .weight = weight, .input = input });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true, .eps = 1e-4f });
    return net;
}

int main(int argc, char **argv)
{
    if (argc <= OWN_ARGUMENTS) {
        fprintf(stderr, "usage: brevitas_mnist WIDTH WEIGHT-BITS INPUT-BITS EPS BATCHES START [TRACE]\n");
        return 2;
    }
    eps = strtof(argv[4], NULL);
    qg_net *net = declare(atoi(argv[1]), levels(atoi(argv[2])), levels(atoi(argv[3])));
    return train_steps(argc - OWN_ARGUMENTS, argv + OWN_ARGUMENTS,
                       (original_training){ .net = net, .optim = optim, .loss = qg_squared_hinge });
}
