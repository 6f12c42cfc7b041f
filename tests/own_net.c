/* Trains a net, a scheme and images of its own with qg_fit: for tests/bits.sh, and for the runs in
 * tests/earlier, which it must be able to continue.  Prints the digest of the weights and the loss of the
 * last epoch.
 *
 *     own_net DIRECTORY EPOCHS [STEPS [TEACHER]]      stops after STEPS, unless these are 0 */
#include <stdlib.h>

#include "qgrad.h"

enum { SIDE = 8, CLASSES = 3, TRAIN = 96, TEST = 30 };

static volatile sig_atomic_t stop;
static int                   steps;

static void count_step(void *user, const qg_fit_progress *p)
{
    (void)user, (void)p;
    if (--steps == 0) stop = 1;
}

static qg_constants bands_constants(qg_quant q, qg_span w, const float *learned)
{
    (void)learned;
    const float mean = qg_span_mean_abs(w);
    return (
        qg_constants){ .ternary = { .delta = (float)q.arg[0] * mean, .positive = mean, .negative = mean } };
}

static const qg_scheme bands = {
    .name      = "bands",
    .bits      = 2,
    .roles     = QG_WEIGHT,
    .form      = &qg_ternary_form,
    .ops       = QG_FORM_OPS("bands"),
    .constants = bands_constants,
    .explain   = "q(w) = mean|w| sign(w) where |w| > threshold mean|w|, else 0;  s(w) = w",
};

static qg_net *own_net(void)
{
    const qg_quant  mine = qg_quant_defaults((qg_quant){ .scheme = &bands, .arg = { 0.6f } });
    qg_net         *net  = qg_net_new((qg_net_spec){ .height = SIDE, .width = SIDE, .channels = 1, .seed = 7,
                                                     .quantize_weights_after = 5 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1, .name = "stem" });
    qg_net_batchnorm(net);
    qg_layer *x = qg_net_rprelu(net, (qg_prelu_spec){ 0 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1, .groups = 2, .weight = mine,
                                         .input = qg_lsq((qg_lsq_spec){ .bits = 4 }) });
    qg_layer *sum = qg_net_add(net, qg_net_batchnorm(net), x);
    qg_net_conv2d(net, (qg_conv2d_spec){
                           .out = 4, .kernel = 1, .weight = qg_ttq((qg_ttq_spec){ 0 }), .after = sum });
    qg_layer *b = qg_net_prelu(net, (qg_prelu_spec){ .shared = true });
    qg_net_concat(net, sum, b);
    qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 2, .pad = 1 });
    qg_net_dropout(net, 0.25f);
    qg_net_quantize(net, qg_fake_quant((qg_fake_quant_spec){ .bits = 4, .range = QG_RANGE_OBSERVED }));
    qg_net_dense(net,
                 (qg_dense_spec){ .out = CLASSES, .weight = qg_twn((qg_twn_spec){ .per_channel = true }) });
    if (!qg_net_build(net)) exit(qg_print_error("own_net"));
    return net;
}

/* Noise, brighter in a row, a column or a diagonal, which is the class. */
static qg_loader *own_images(int n, uint64_t key, const qg_preprocess *as)
{
    static uint8_t  image[TRAIN][SIDE][SIDE];
    static uint16_t label[TRAIN];
    for (int i = 0; i < n; i++) {
        const uint64_t k    = qg_rng_fork(key, (uint64_t)i);
        const int      line = (int)(qg_bits(k, SIDE * SIDE) % SIDE);
        label[i] = (uint16_t)(i % CLASSES);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int along[CLASSES] = { x, y, (x + y) % SIDE };
                image[i][y][x] = (uint8_t)(qg_bits(k, (uint64_t)(y * SIDE + x)) % 192 +
                                           (along[label[i]] == line ? 63 : 0));
            }
    }
    return qg_arrays((qg_shape){ n, SIDE, SIDE, 1 }, image[0][0], label, CLASSES,
                     (qg_loader_spec){ .batch = 12, .seed = 7, .in_order = as != NULL, .preprocess = as,
                                       .normalise = { .kind = QG_PER_CHANNEL },
                                       .augment = { .pad = as ? 0 : 1 }, .validation = { .images = as ? 0 : 24 } });
}

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: own_net DIRECTORY EPOCHS [STEPS [TEACHER]]\n"), 2;
    qg_net       *net   = own_net(), *teacher = NULL;
    qg_loader *train = own_images(TRAIN, 1, NULL), *test = own_images(TEST, 2, qg_loader_preprocess(train));
    qg_optim     *adam  = qg_adam(qg_net_params(net), (qg_adam_spec){ .lr = 0.01f });
    qg_fit_result r;
    char          path[512];
    steps = argc > 3 ? atoi(argv[3]) : 0;
    if (argc > 4) {
        snprintf(path, sizeof path, "%s/best.safetensors", argv[4]);
        if (qg_net_load(teacher = own_net(), path)) return qg_print_error("own_net");
    }
    if (qg_fit(net, (qg_fit_spec){ .dir = argv[1], .config = "optimizer = \"adam\"\n", .train = train,
                                   .test = test, .validation = qg_loader_validation(train), .optim = adam,
                                   .epochs = atoi(argv[2]), .seed = 3, .label_smoothing = 0.1f,
                                   .clip_norm = 2, .ema_decay = 0.9f, .teacher = { .net = teacher },
                                   .stop = &stop, .events.step = count_step }, &r))
        return qg_print_error("own_net");
    printf("%s %.9g\n", r.digest, r.train_loss);
    qg_loader_free(test), qg_loader_free(train), qg_optim_free(adam), qg_net_free(net), qg_net_free(teacher);
    return 0;
}
