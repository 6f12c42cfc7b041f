/* A layer of your own: Swish, an activation with a learned slope for each channel.
 *
 *     build/examples/own_layer [EPOCHS] */
#include <stdlib.h>

#include "qgrad.h"

/* y = x sigmoid(beta x).     [Ramachandran, Zoph, Le 2017, arXiv:1710.05941v2] */
typedef struct swish {
    qg_layer  layer;                    /* every layer begins with this */
    qg_param *beta;
} swish;

static qg_status swish_build(qg_layer *l)
{
    const qg_param beta = { .shape = { 1, 1, 1, l->in.c }, .group = QG_NORMS };
    ((swish *)l)->beta  = qg_layer_declare(l, "beta", beta);
    return ((swish *)l)->beta ? QG_OK : QG_EMEM;
}

static void swish_start(qg_layer *l, uint64_t key)
{
    (void)key;                          /* nothing is drawn: every slope starts at 1 */
    for (int k = 0; k < l->in.c; k++) ((swish *)l)->beta->value[k] = 1;
}

static qg_var *swish_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;                            /* for layers with two inputs */
    qg_var *beta = qg_parameter(t, ((swish *)l)->beta);
    return x ? qg_mul(t, x, qg_sigmoid(t, qg_mul(t, x, qg_broadcast(t, beta, x->shape)))) : NULL;
}

static const qg_layer_type swish_type = {
    .name = "swish", .size = sizeof(swish), .build = swish_build, .start = swish_start,
    .forward = swish_forward
};

int main(int argc, char **argv)
{
    qg_loader *train = qg_data_train("sample", NULL, (qg_loader_spec){ .batch = 50, .seed = 7 });
    qg_loader *test  = qg_data_test("sample", NULL, (qg_loader_spec){ .batch = 50 });
    qg_net    *net   = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1, .seed = 7 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 16, .kernel = 5, .stride = 2 });
    swish *s = qg_net_append(net, &swish_type, NULL, "swish", NULL);
    qg_net_dense(net, (qg_dense_spec){ .out = 10 });
    qg_optim     *adam = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 2e-3f });
    qg_fit_result r;
    if (qg_fit(net, (qg_fit_spec){ .dir = "runs/swish", .train = train, .test = test,
                                   .optim = adam, .epochs = argc > 1 ? atoi(argv[1]) : 3 }, &r))
        return qg_print_error("own_layer");
    printf("test accuracy %.2f %%\n", 100 * r.test_accuracy);
    printf("slope of the first channel %.4f\n", (double)s->beta->value[0]);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(adam), qg_net_free(net);
    return 0;
}
