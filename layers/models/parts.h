/* layers/models/parts.h — the models of the zoo, and what they share (internal). */
#ifndef QG_MODEL_PARTS_H
#define QG_MODEL_PARTS_H

#include "layers/models/models.h"
#include "quant/scheme.h"

/* Each is defined beside its layers, in the file of its family; qg_models lists them. */
extern const qg_model qg__model_lenet5, qg__model_lenet5_xnor;
extern const qg_model qg__model_mlp;
extern const qg_model qg__model_vgg7, qg__model_vgg_small;
extern const qg_model qg__model_resnet20, qg__model_resnet32, qg__model_resnet44, qg__model_resnet56;
extern const qg_model qg__model_resnet18, qg__model_birealnet18;
extern const qg_model qg__model_nin;
extern const qg_model qg__model_mobilenet;
extern const qg_model qg__model_tfc, qg__model_sfc, qg__model_lfc, qg__model_cnv;

/* The three quantizers of a product's spec. */
#define QG_QUANTS(p) .weight = (p).weight, .input = (p).input, .gradient = (p).gradient

/* Image sizes of the papers. */
#define QG_MNIST_IMAGE { 1, 28, 28, 1 }
#define QG_CIFAR_IMAGE { 1, 32, 32, 3 }

extern const char *const qg__model_keys[QG_MODEL_KEYS];     /* the names of options: "width" */

/* Whether one of these is a scheme with which models keep their first and last layer in float (qg_scheme.float_ends). */
bool            qg__model_keeps_ends(qg_quant weight, qg_quant input, qg_quant gradient);

/* The options of a model whose only option is its width, a multiple of the paper's channels; and n of these channels. */
extern const qg_key qg__model_width_keys[];
int             qg__model_scaled(const qg_model_spec *spec, int n);

/* The net's part of a model's spec. */
qg_net_spec     qg__model_net(const qg_model_spec *spec);

/* Whether the first and last product are not quantized. */
bool            qg__model_has_float_ends(const qg_model_spec *spec);

/* The quantizers that spec gives to the product called name.  first: it reads the image. */
typedef struct qg__model_quants {
    qg_quant weight, input, gradient;
} qg__model_quants;

qg__model_quants qg__model_quant(const qg_model_spec *spec, const char *name, bool first,
                                 bool last);

/* The same for "conv3" or "fc3". */
qg__model_quants qg__model_numbered(const qg_model_spec *spec, const char *prefix, int number,
                                    bool first, bool last);

/* Checks that text is a net, as qg_net_from_text does. */
QG_MUST_CHECK
qg_status       qg__net_text_check(const char *text);

/* Declares the net of a text. */
qg_net         *qg__net_from_text(const char *text, const qg_model_spec *spec);

/* A text as of printf, for qg_model.text. */
__attribute__((format(printf, 2, 3)))
void            qg__model_text(char text[QG_MODEL_TEXT_BYTES], const char *format, ...);

#endif
