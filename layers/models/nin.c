/* Network in Network (arXiv:1312.4400) as XNOR-Net was replicated on CIFAR-10: XNOR-Net-PyTorch, CIFAR_10/models/nin.py. */
#include "layers/models/parts.h"

#define NORM  "BN(eps=1e-4)-"
#define PLAIN "BN(eps=1e-4,no-scale,no-shift)-"

/* Every binary block is bn - sign - convolution - relu, with a dropout after the sign where the image has just shrunk.
 * The replication keeps gamma at 0.01 or more and draws weights with deviation 0.05; neither is so here. */
static void net(const qg_model_spec *s, char *text)
{
    qg__model_text(text,
                           "192C5-" PLAIN "R-" NORM "160C1-R-" NORM "96C1-R-MP3s2p1-"
                           NORM "D0.5-192C5-R-" NORM "192C1-R-" NORM "192C1-R-AP3s2p1-"
                           NORM "D0.5-192C3-R-" NORM "192C1-R-" PLAIN "%dC1-R-GAP", s->classes);
}

const qg_model qg__model_nin = {
    .name  = "nin",
    .about = "Network in Network: nine convolutions of 192-160-96, 192-192-192 and 192-192-10 channels, binary by default (XNOR-Net-PyTorch)",

    /* CIFAR_10/main.py: the rate divided by ten at epochs 120, 200, 240 and 280. */
    .recipe = "epochs = 320\n"
              "batch = 128\n"
              "optimizer = \"adam\"\n"
              "lr = 0.01\n"
              "weight-decay = 1e-5\n"
              "schedule = \"step:at=0.375+0.625+0.75+0.875,factor=0.1\"\n"
              "loss = \"cross-entropy\"\n"
              "weight = \"xnor:as=paper,latent=centred\"\n"
              "input = \"xnor:scale=off\"\n"
              "first-last = \"float\"\n",
    .image   = QG_CIFAR_IMAGE,
    .text = net,
};
