/* The nets of FINN as Brevitas trains them (bnn_pynq): TFC, SFC, LFC and CNV.  Weights and activations
 * are -1 and +1, or 2 bits on [-1, 1].  TFC, SFC and LFC quantize the image, as 2 x - 1, like any other
 * input; CNV's recipe gives it 8 bits.  A norm with one scale and one shift for all classes follows
 * the last product, so integers suffice to find the largest score. */
#include "layers/models/parts.h"

static qg_net *begin(const qg_model_spec *s)
{
    qg_net *net = qg_net_new(qg__model_net(s));
    qg_net_affine(net, 2, -1);
    return net;
}

static qg_net *end(qg_net *net)
{
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true, .eps = 1e-4f });
    return net;
}

/* --- three hidden dense layers ------------------------------------------------------------- */

static qg_net *declare_fc(qg_model_spec s, int width)
{
    enum { HIDDEN = 3 };
    const double dropout = 0.2;
    qg_net      *net     = begin(&s);
    for (int i = 0; i <= HIDDEN; i++) {
        qg_model_quants q = qg__model_numbered(&s, "fc", i + 1, i == 0 && s.first_last_float, i == HIDDEN);
        if (i > 0) qg__model_between(net, (qg_batchnorm_spec){ 0 }, q.input, 0);
        qg__model_dropout(net, &q.input, dropout);
        qg_net_dense(net, (qg_dense_spec){ .out = i < HIDDEN ? width : s.classes, .no_bias = true, QG_QUANTS(q) });
    }
    return end(net);
}

static qg_net *declare_tfc(qg_model_spec s) { return declare_fc(s, 64); }
static qg_net *declare_sfc(qg_model_spec s) { return declare_fc(s, 256); }
static qg_net *declare_lfc(qg_model_spec s) { return declare_fc(s, 1024); }

/* --- six convolutions without padding ------------------------------------------------------ */

/* The source pools after the quantizer.  Quantizing keeps the order, so the values are the same here, but
 * the gradient goes to the largest number and not to the first of equal codes. */
static void between(qg_net *net, qg_quant next_input, bool pool)
{
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .eps = 1e-4f });
    qg__model_relu(net, next_input);
    if (pool) qg_net_maxpool(net, 2);
}

static qg_net *declare_cnv(qg_model_spec s)
{
    enum { CONVS = 6, DENSES = 3, UNITS = 512 };
    static const int  channels[CONVS] = { 64, 64, 128, 128, 256, 256 };
    static const bool pool[CONVS]     = { false, true, false, true, false, false };
    qg_model_quants   conv[CONVS], fc[DENSES];
    for (int i = 0; i < CONVS; i++) conv[i] = qg__model_numbered(&s, "conv", i + 1, i == 0, false);
    for (int i = 0; i < DENSES; i++) fc[i] = qg__model_numbered(&s, "fc", i + 1, false, i == DENSES - 1);

    qg_net *net = begin(&s);
    for (int i = 0; i < CONVS; i++) {
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = channels[i], .kernel = 3, .no_bias = true, QG_QUANTS(conv[i]) });
        between(net, i + 1 < CONVS ? conv[i + 1].input : fc[0].input, pool[i]);
    }
    for (int i = 0; i < DENSES; i++) {
        if (i > 0) between(net, fc[i].input, false);
        qg_net_dense(net, (qg_dense_spec){ .out = i < DENSES - 1 ? UNITS : s.classes, .no_bias = true, QG_QUANTS(fc[i]) });
    }
    return end(net);
}

/* --- recipes ------------------------------------------------------------------------------ */

/* Brevitas, bnn_pynq: 1W1A; the rate is halved every 40 of 1,000 epochs.  With 2 bits anywhere there
 * are 500 epochs, and every is 0.08. */
#define RECIPE                                                                                     \
    "epochs = 1000\n"                                                                              \
    "batch = 100\n"                                                                                \
    "optimizer = \"adam\"\n"                                                                       \
    "lr = 0.02\n"                                                                                  \
    "schedule = \"step:every=0.04,factor=0.5\"\n"                                                  \
    "loss = \"squared-hinge\"\n"                                                                   \
    "weight = \"unit:bits=1\"\n"                                                                   \
    "input = \"unit:bits=1\"\n"

#define ABOUT_FC "FC-10, dropout 0.2, image quantized too, binary by default (BNN-PYNQ)"

const qg_model qg_model_tfc = { .name    = "tfc",
                                .about   = "3x64" ABOUT_FC,
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .declare = declare_tfc };

const qg_model qg_model_sfc = { .name    = "sfc",
                                .about   = "3x256" ABOUT_FC,
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .declare = declare_sfc };

const qg_model qg_model_lfc = { .name    = "lfc",
                                .about   = "3x1024" ABOUT_FC,
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .declare = declare_lfc };

/* The image in steps of 1/128: 8 bits from -1 to 1 - 1/128. */
const qg_model qg_model_cnv = {
    .name    = "cnv",
    .about   = "2x64C3-MP2-2x128C3-MP2-2x256C3-2x512FC-10 without padding, image in 8 bits, the rest binary (BNN-PYNQ)",
    .recipe  = RECIPE "layer = [\"conv1:input=fake_quant:bits=8,range=fixed,min=-1,max=0.9921875\"]\n",
    .image   = QG_CIFAR_IMAGE,
    .declare = declare_cnv,
};
