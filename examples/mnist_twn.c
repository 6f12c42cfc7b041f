/* Trains a LeNet-5 whose weights are all in {-a, 0, +a}.
 *
 *     build/examples/mnist_twn [mnist|fashion-mnist|sample] */
#include "qgrad.h"

int main(int argc, char **argv)
{
    const char    *data    = argc > 1 ? argv[1] : "mnist";
    const qg_quant ternary = qg_twn((qg_twn_spec){ 0 });

    qg_net *net = qg_net_new((qg_net_spec){ .height = 28, .width = 28, .channels = 1, .seed = 7 });
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = 32, .kernel = 5, .weight = ternary });
    qg_net_batchnorm(net);
    qg_net_relu     (net);
    qg_net_maxpool  (net, 2);
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = 64, .kernel = 5, .weight = ternary });
    qg_net_batchnorm(net);
    qg_net_relu     (net);
    qg_net_maxpool  (net, 2);
    qg_net_dense    (net, (qg_dense_spec){ .out = 512, .weight = ternary });
    qg_net_batchnorm(net);
    qg_net_relu     (net);
    qg_net_dense    (net, (qg_dense_spec){ .out = 10, .weight = ternary });

    qg_params *params = qg_net_build(net);
    qg_optim  *adam   = qg_adam(params, (qg_adam_spec){ .lr = 1e-3f });
    qg_loader *train  = qg_data_train(data, NULL, (qg_loader_spec){ .batch = 64, .seed = 7 });
    qg_loader *test   = qg_data_test(data, NULL, (qg_loader_spec){ .batch = 64, .in_order = true });
    qg_tape   *tape   = qg_tape_new();
    if (!adam || !train || !test || !tape) return qg_print_error("mnist_twn");

    for (int epoch = 1; epoch <= 3; epoch++) {
        for (qg_batch b; qg_loader_next(train, &b);) {
            qg_tape_begin(tape, QG_TRAIN, 7, b.step);
            qg_var *logits = qg_net_forward(net, tape, b.x);
            qg_var *loss   = qg_cross_entropy(tape, logits, b.y);
            if (qg_backward(tape, loss) || qg_optim_step(adam)) return qg_print_error("mnist_twn");
        }
        qg_assessment a;
        if (qg_evaluate(net, test, (qg_evaluate_spec){ 0 }, &a)) return qg_print_error("mnist_twn");
        printf("epoch %d   test accuracy %.2f %%\n", epoch, 100 * a.accuracy);
        qg_assessment_free(&a);
    }
    if (qg_net_save(net, "mnist_twn.safetensors")) return qg_print_error("mnist_twn");

    qg_tape_free(tape), qg_optim_free(adam), qg_net_free(net);
    qg_loader_free(test), qg_loader_free(train);
    return 0;
}
