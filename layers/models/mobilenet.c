/* MobileNet for 32x32 images: depthwise 3x3 and pointwise 1x1 convolutions in turn. */
#include "layers/models/parts.h"

#define BLOCK(depthwise) depthwise "-BN-R-%dC1-BN-R"
#define SAME   "-" BLOCK("DW3")
#define HALVED "-" BLOCK("DW3s2")

/* The first convolution and the first block keep the size of the image, which the paper's halve. */
static void net(const qg_model_spec *s, char *text)
{
    const int a = qg__model_scaled(s, 32), b = qg__model_scaled(s, 64), c = qg__model_scaled(s, 128);
    const int d = qg__model_scaled(s, 256), e = qg__model_scaled(s, 512);
    const int f = qg__model_scaled(s, 1024);
    qg__model_text(text,
                           "%dC3-BN-R" SAME HALVED SAME HALVED SAME HALVED "-5*(" BLOCK("DW3") ")" HALVED SAME "-GAP-%d",
                           a, b, c, c, d, d, e, e, f, f, s->classes);
}

const qg_model qg__model_mobilenet = {
    .name  = "mobilenet",
    .about = "MobileNet for 32x32 images: 13 blocks of DW3 and C1, 64 to 1024 channels (arXiv:1704.04861v1, table 1)",

    /* The paper trains on ImageNet, with RMSprop; this is ResNet's training on CIFAR-10, as of resnet18. */
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
