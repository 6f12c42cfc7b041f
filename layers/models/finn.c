/* The nets of FINN as Brevitas trains them (bnn_pynq): TFC, SFC, LFC and CNV.  Weights and activations
 * are -1 and +1, or 2 bits on [-1, 1].  TFC, SFC and LFC quantize the image, as 2 x - 1, like any other
 * input; CNV's recipe gives it 8 bits.  A norm with one scale and one shift for all classes follows
 * the last product, so integers suffice to find the largest score. */
#include "layers/models/parts.h"

#define IMAGE "AF(scale=2,shift=-1)-"
#define SCORES "%dFCb0-BN(whole,eps=1e-4)"

/* Three hidden dense layers. */
static void net_fc(const qg_model_spec *s, int width, char *text)
{
    qg__model_text(text, "IQ-" IMAGE "3*(D0.2-%dFCb0-BN-R)-D0.2-" SCORES, width, s->classes);
}

static void net_tfc(const qg_model_spec *s, char *text) { net_fc(s, 64, text); }
static void net_sfc(const qg_model_spec *s, char *text) { net_fc(s, 256, text); }
static void net_lfc(const qg_model_spec *s, char *text) { net_fc(s, 1024, text); }

#define CONV(n) "2*(" #n "C3p0b0-BN(eps=1e-4)-R)-"

/* Six convolutions without padding.  The source pools after the quantizer.  Quantizing keeps the order, so the
 * values are the same here, but the gradient goes to the largest number and not to the first of equal codes. */
static void net_cnv(const qg_model_spec *s, char *text)
{
    qg__model_text(text,
                   IMAGE CONV(64) "MP2k-" CONV(128) "MP2k-" CONV(256)
                   "2*(512FCb0-BN(eps=1e-4)-R)-" SCORES, s->classes);
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
    "first-last = \"quantized\"\n"                                                                \
    "weight = \"unit:as=paper,bits=1\"\n"                                                         \
    "input = \"unit:bits=1\"\n"

#define ABOUT_FC(n) "three hidden dense layers of " #n ", dropout 0.2, image quantized too, binary by default (BNN-PYNQ)"

const qg_model qg__model_tfc = { .name    = "tfc",
                                .about   = ABOUT_FC(64),
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .text = net_tfc };

const qg_model qg__model_sfc = { .name    = "sfc",
                                .about   = ABOUT_FC(256),
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .text = net_sfc };

const qg_model qg__model_lfc = { .name    = "lfc",
                                .about   = ABOUT_FC(1024),
                                .recipe  = RECIPE,
                                .image   = QG_MNIST_IMAGE,
                                .text = net_lfc };

/* The image in steps of 1/128: 8 bits from -1 to 1 - 1/128. */
const qg_model qg__model_cnv = {
    .name    = "cnv",
    .about   = "two 3x3 convolutions each of 64, 128 and 256 channels without padding, two dense layers of 512, image in 8 bits, the rest binary (BNN-PYNQ)",
    .recipe  = RECIPE "layer = [\"conv1:input=fake_quant:bits=8,range=fixed,min=-1,max=0.9921875\"]\n",
    .image   = QG_CIFAR_IMAGE,
    .text = net_cnv,
};
