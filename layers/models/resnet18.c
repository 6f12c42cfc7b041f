/* ResNet-18 for 32x32 images, and Bi-Real Net-18: a 3x3 convolution without pooling in place of ImageNet's first layers,
 * then stages of 64, 128, 256 and 512 channels. */
#include "layers/models/parts.h"

/* Two blocks of two convolutions; the first halves the size, and a 1x1 convolution is its shortcut. */
#define STAGE "-{%dC3s2-BN-R-%dC3-BN}:B-R-{%dC3-BN-R-%dC3-BN}-R"

static void net(const qg_model_spec *s, char *text)
{
    const int a = qg__model_scaled(s, 64), b = qg__model_scaled(s, 128);
    const int c = qg__model_scaled(s, 256), d = qg__model_scaled(s, 512);
    qg__model_text(text, "%dC3-BN-R-2*({%dC3-BN-R-%dC3-BN}-R)" STAGE STAGE STAGE "-GAP-%d",
                           a, a, a, b, b, b, b, c, c, c, c, d, d, d, d, s->classes);
}

const qg_model qg__model_resnet18 = {
    .name  = "resnet18",
    .about = "ResNet-18 for 32x32 images, 64-128-256-512 channels, 1x1 shortcuts (He et al., arXiv:1512.03385v1, table 1)",

    /* The paper's training for CIFAR-10, section 4.2, as of resnet20; it has this net for ImageNet only. */
    .recipe = "epochs = 164\n"
              "batch = 128\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.1\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"
              "loss = \"cross-entropy\"\n",
    .image   = QG_CIFAR_IMAGE,
    .keys    = qg__model_width_keys,
    .text = net,
};

/* --- Bi-Real Net -------------------------------------------------------------------------- */

/* Every convolution has its own shortcut, which carries the real-valued sum: sign - conv - bn, plus the shortcut.  Where
 * the size halves, the shortcut is means of 2x2 pixels, a real-valued 1x1 convolution and a batch norm.  The relu is the
 * nonlinearity of the same net without an input quantizer; the sign replaces it. */
#define BIREAL_STAGE "-{R-%dC3s2-BN}:poolB-3*{R-%dC3-BN}"

static void net_bireal(const qg_model_spec *s, char *text)
{
    const int a = qg__model_scaled(s, 64), b = qg__model_scaled(s, 128);
    const int c = qg__model_scaled(s, 256), d = qg__model_scaled(s, 512);
    qg__model_text(text, "%dC3-BN-4*{R-%dC3-BN}" BIREAL_STAGE BIREAL_STAGE BIREAL_STAGE "-GAP-%d",
                           a, a, b, b, c, c, d, d, s->classes);
}

#define REAL(layer) "\"" layer ":weight=float\", \"" layer ":input=float\""

const qg_model qg__model_birealnet18 = {
    .name  = "birealnet18",
    .about = "ResNet-18 with one real-valued shortcut per convolution, binary by default (Bi-Real Net, arXiv:1808.00278)",

    /* The training that the authors released for ImageNet (pytorch_implementation/BiReal18_34), with their piecewise
     * polynomial surrogate.  The weights of the first layer, the last one and the shortcuts are real. */
    .recipe = "epochs = 256\n"
              "batch = 512\n"
              "optimizer = \"adam\"\n"
              "lr = 0.001\n"
              "schedule = \"linear\"\n"
              "loss = \"cross-entropy\"\n"
              "label-smoothing = 0.1\n"
              "weight = \"magnitude-aware:as=paper\"\n"
              "input = \"sign:surrogate=approx-sign\"\n"
              "first-last = \"float\"\n"
              "layer = [" REAL("shortcut1") ", " REAL("shortcut2") ", " REAL("shortcut3") "]\n",
    .image   = QG_CIFAR_IMAGE,
    .keys    = qg__model_width_keys,
    .text = net_bireal,
};
