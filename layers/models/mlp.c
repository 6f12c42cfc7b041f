/* The multilayer perceptron of BinaryConnect and BNN. */
#include <stdio.h>

#include "core/io/number.h"
#include "layers/models/parts.h"

#define NORM "BN(eps=1e-4,momentum=0.15)"

/* "D0.2", joined to its neighbour; nothing for a rate that is 0 as a float. */
static const char *dropout(const char *before, double rate, const char *after, char text[40])
{
    char number[QG_NUMBER_BYTES];
    qg__number_print_float(number, (float)rate);
    *text = '\0';
    if ((float)rate != 0) snprintf(text, 40, "%sD%s%s", before, number, after);
    return text;
}

/* Dense - batch norm - relu, depth times, then dense - batch norm.  A binary input replaces the relu,
 * which makes it BNN's net. */
static void net(const qg_model_spec *s, char *text)
{
    char image[40], hidden[40];
    qg__model_text(text, "%s%d*(%dFC-" NORM "-R%s)-%d-" NORM,
                   dropout("", s->option[QG_MODEL_INPUT_DROPOUT], "-", image),
                   (int)s->option[QG_MODEL_DEPTH], (int)s->option[QG_MODEL_WIDTH],
                   dropout("-", s->option[QG_MODEL_DROPOUT], "", hidden), s->classes);
}

static const qg_key keys[] = {
    { .name = "depth", .fallback = 3, .min = 1, .max = 16, .is = QG_KEY_WHOLE },
    { .name = "width", .fallback = 2048, .min = 1, .max = 65536, .is = QG_KEY_WHOLE },
    { .name = "dropout", .max = 0.99 },
    { .name = "input-dropout", .max = 0.99 },
    { .name = NULL }
};

const qg_model qg__model_mlp = {
    .name  = "mlp",
    .about = "dense layers, 3x2048 by default, batch norm after each, the last included (BinaryConnect, arXiv:1511.00363)",

    /* As the authors' released code; the paper has 3x1024 and SGD.  Train it with
     * --weight binaryconnect:draw=stoch,start=unit,glorot-lr=adam. */
    .recipe = "epochs = 250\n"
              "batch = 100\n"
              "optimizer = \"adam\"\n"
              "lr = 0.001\n"
              "schedule = \"exponential:factor=0.003\"\n"
              "loss = \"squared-hinge\"\n",
    .image  = QG_MNIST_IMAGE,
    .keys   = keys,
    .text = net,
};
