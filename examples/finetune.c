/* Fine-tunes LeNet-5 to three digits: a last layer of its own on the convolutions of another run, which
 * stay as they are.  Without MNIST, train with --data sample: it takes three classes of that.
 *
 *     build/qgrad train --model lenet5 --epochs 1 --out runs/ten
 *     build/examples/finetune [runs/ten [runs/three]] */
#include "qgrad.h"

static qg_loader *images(bool test)
{
    static const uint16_t classes[] = { 0, 1, 7 };
    const qg_loader_spec spec = {
        .batch = 64, .seed = 1, .in_order = test, .classes = classes, .n_classes = 3
    };
    qg_loader *(*open)(const char *text, const char *dir, qg_loader_spec spec) = test ? qg_data_test
                                                                                      : qg_data_train;
    qg_loader *mnist = open("mnist", NULL, spec);
    return mnist ? mnist : open("sample", NULL, spec);
}

int main(int argc, char **argv)
{
    qg_net       *net  = qg_model_declare(qg_model_find("lenet5"),
                                          (qg_model_spec){ .height = 28, .width = 28, .channels = 1,
                                                           .classes = 3, .seed = 1 });
    qg_optim     *adam = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 1e-3f });
    qg_loader    *train = images(false), *test = images(true);
    qg_fit_result r;
    if (qg_fit(net, (qg_fit_spec){ .dir         = argc > 2 ? argv[2] : "runs/three",
                                   .config      = "optimizer = \"adam\"\n",
                                   .train       = train,
                                   .test        = test,
                                   .optim       = adam,
                                   .epochs      = 1,
                                   .init        = argc > 1 ? argv[1] : "runs/ten",
                                   .init_except = "fc2",
                                   .freeze      = "conv1,conv2" }, &r))
        return qg_print_error("finetune");
    printf("test accuracy %.2f %% of %d images\n", 100 * r.test_accuracy, qg_loader_shape(test).n);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(adam), qg_net_free(net);
    return 0;
}
