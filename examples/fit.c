/* A net and images of one's own, trained in a run directory.  Stop it with Ctrl-C or kill it at any moment;
 * when it is started again, it continues, and ends with the same bytes.
 *
 *     fit [directory [epochs]] */
#include <signal.h>
#include <stdlib.h>

#include "qgrad.h"

enum { SIDE = 12, CLASSES = 4, TRAIN = 1000, TEST = 200, CHANNELS = 16 };

static volatile sig_atomic_t stop;

static void on_signal(int number) { stop = number; }

/* conv - bn - relu - conv - bn, + x, relu, with ternary weights and inputs of 4 bits. */
static qg_layer *block(qg_net *net, qg_layer *x)
{
    const qg_conv2d_spec conv = { .out = CHANNELS, .kernel = 3, .pad = 1, .after = x,
                                  .weight = qg_twn((qg_twn_spec){ 0 }),
                                  .input  = qg_lsq((qg_lsq_spec){ .bits = 4 }) };
    qg_net_conv2d   (net, conv);
    qg_net_batchnorm(net);
    qg_net_conv2d   (net, (qg_conv2d_spec){ .out = CHANNELS, .kernel = 3, .pad = 1, .weight = conv.weight,
                                            .input = conv.input });
    qg_net_add      (net, qg_net_batchnorm(net), x);
    return qg_net_relu(net);
}

static qg_net *my_net(void)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 7 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = CHANNELS, .kernel = 3, .pad = 1 });
    block(net, block(net, qg_net_relu(net)));
    qg_net_global_avgpool(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    return net;
}

/* Noise with a brighter line in one of four directions, which is the class. */
static qg_loader *my_images(int n, uint64_t key, const qg_preprocess *as)
{
    static uint8_t  image[TRAIN][SIDE][SIDE];
    static uint16_t label[TRAIN];
    for (int i = 0; i < n; i++) {
        const uint64_t k    = qg_rng_fork(key, (uint64_t)i);
        const int      line = (int)(qg_bits(k, SIDE * SIDE) % SIDE);
        label[i]            = (uint8_t)(i % CLASSES);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int along[CLASSES] = { x, y, (x + y) % SIDE, (x - y + SIDE) % SIDE };
                image[i][y][x] = (uint8_t)(qg_bits(k, (uint64_t)(y * SIDE + x)) % 192 +
                                           (along[label[i]] == line ? 63 : 0));
            }
    }
    return qg_arrays((qg_shape){ n, SIDE, SIDE, 1 }, image[0][0], label, CLASSES,
                     (qg_loader_spec){ .batch = 50, .seed = 7, .in_order = as != NULL,
                                       .normalise = { .kind = QG_PER_CHANNEL }, .preprocess = as });
}

static void print_epoch(void *user, const qg_epoch *e, const qg_fit_result *r)
{
    (void)user, (void)r;
    printf("epoch %2.0f   train loss %.4f   test accuracy %.1f %%\n", e->epoch, e->train_loss,
           100 * e->test_accuracy);
}

int main(int argc, char **argv)
{
    qg_net       *net   = my_net();
    qg_optim     *sgd   = qg_sgd(qg_net_build(net), (qg_sgd_spec){ .lr = 0.1f, .momentum = 0.9f });
    qg_loader    *train = my_images(TRAIN, 1, NULL), *test = my_images(TEST, 2, qg_loader_preprocess(train));
    qg_fit_result r;
    if (signal(SIGINT, on_signal) == SIG_IGN) signal(SIGINT, SIG_IGN);      /* as in jobs in the background */
    signal(SIGTERM, on_signal);
    if (qg_fit(net, (qg_fit_spec){ .dir = argc > 1 ? argv[1] : "runs/fit", .train = train, .test = test,
                                   .config = "optimizer = \"sgd, momentum 0.9\"\n", .optim = sgd,
                                   .epochs = argc > 2 ? atoi(argv[2]) : 8, .schedule = { .kind = QG_COSINE },
                                   .stop = &stop, .events.epoch = print_epoch }, &r))
        return qg_print_error("fit");
    printf("%s: best %.1f %%\n", r.complete ? "finished" : "stopped; start it again to continue",
           100 * r.best_test_accuracy);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(sgd), qg_net_free(net);
    return 0;
}
