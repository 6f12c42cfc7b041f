/* layers/models/parts.h — the models of the zoo, and what they share (internal). */
#ifndef QG_MODEL_PARTS_H
#define QG_MODEL_PARTS_H

#include "layers/models/models.h"
#include "quant/scheme.h"

/* Each is defined beside its layers, in the file of its family; qg_models lists them. */
extern const qg_model qg_model_lenet5, qg_model_lenet5_xnor;
extern const qg_model qg_model_mlp;
extern const qg_model qg_model_vgg7, qg_model_vgg_small;
extern const qg_model qg_model_resnet20, qg_model_resnet32, qg_model_resnet44, qg_model_resnet56;
extern const qg_model qg_model_tfc, qg_model_sfc, qg_model_lfc, qg_model_cnv;

/* The three quantizers of a product's spec. */
#define QG_QUANTS(p) .weight = (p).weight, .input = (p).input, .gradient = (p).gradient

/* The images that papers train on. */
#define QG_MNIST_IMAGE { 1, 28, 28, 1 }
#define QG_CIFAR_IMAGE { 1, 32, 32, 3 }

/* The part of a model's spec that is the net's. */
qg_net_spec     qg__model_net(const qg_model_spec *spec);

/* qg_model_quant of "conv3" or "fc3". */
qg_model_quants qg__model_numbered(const qg_model_spec *spec, const char *prefix, int number, bool first,
                                   bool last);

/* What stands between a product and the next: batch norm, nonlinearity, pooling (0: none).
 *
 * A next input that rectifies takes the place of the relu.  A binary one also pulls the pooling in
 * front of the batch norm: the maximum over a window of signs is +1 nearly everywhere. */
void            qg__model_between(qg_net *net, qg_batchnorm_spec norm, qg_quant next_input, int pool);

/* A relu, unless the next input takes its place. */
void            qg__model_relu(qg_net *net, qg_quant next_input);

/* Dropout in front of a product.  Its input quantizer, if any, goes in front of the dropout and out of
 * *input: what is dropped is 0 to the product, and no code.  Rate 0: nothing happens. */
void            qg__model_dropout(qg_net *net, qg_quant *input, double rate);

#endif
