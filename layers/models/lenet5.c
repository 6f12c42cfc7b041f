/* LeNet-5 as the ternary papers draw it, and as XNOR-Net was replicated. */
#include "layers/models/parts.h"

#define NET "32C5p0-BN-R-MP2-64C5p0-BN-R-MP2-512FC-BN-R-"

static void net(const qg_model_spec *s, char *text) { qg__model_text(text, NET "%d", s->classes); }

const qg_model qg__model_lenet5 = {
    .name  = "lenet5",
    .about = NET "10 (TWN, arXiv:1605.04711)",

    /* The authors' solver: 30,000 iterations of 50 images, the rate divided by ten after 15,000 and
     * 25,000 of them.  The paper has an SVM loss, the released code a softmax; this is the code's. */
    .recipe = "epochs = 25\n"
              "batch = 50\n"
              "optimizer = \"sgd\"\n"
              "lr = 0.01\n"
              "momentum = 0.9\n"
              "weight-decay = 1e-4\n"
              "schedule = \"step:at=0.5+0.83333,factor=0.1\"\n"
              "loss = \"cross-entropy\"\n",
    .image   = QG_MNIST_IMAGE,
    .text = net,
};

/* --- the replication of XNOR-Net ----------------------------------------------------------- */

/* Every binary block is bn - sign - product - relu, so that the batch norm comes after the pooling.
 * The replication keeps gamma at 0.01 or more; here it is free. */
#define NET_XNOR "20C5p0-BN(eps=1e-4,no-scale,no-shift)-R-MP2-BN(eps=1e-4)-50C5p0-R-MP2-BN(eps=1e-4)-500FC-R-"

static void net_xnor(const qg_model_spec *s, char *text)
{
    qg__model_text(text, NET_XNOR "%d", s->classes);
}

const qg_model qg__model_lenet5_xnor = {
    .name  = "lenet5-xnor",
    .about = NET_XNOR "10, binary (XNOR-Net-PyTorch)",

    /* XNOR-Net-PyTorch, MNIST: the rate divided by ten every 15 epochs.  The paper has no MNIST. */
    .recipe = "epochs = 60\n"
              "batch = 128\n"
              "optimizer = \"adam\"\n"
              "lr = 0.01\n"
              "weight-decay = 1e-5\n"
              "schedule = \"step:every=0.25,factor=0.1\"\n"
              "loss = \"cross-entropy\"\n"
              "weight = \"xnor:as=paper,latent=centred\"\n"
              "input = \"xnor:scale=off\"\n"
              "first-last = \"float\"\n",
    .image   = QG_MNIST_IMAGE,
    .text = net_xnor,
};
