/* layers/models/models.h — the models: nets of the papers, with their training recipes. */
#ifndef QG_MODELS_H
#define QG_MODELS_H

#include "core/io/keys.h"
#include "layers/net.h"

/* Quantizers of one product that differ from the net's: --layer conv1:weight=float. */
typedef struct qg_choice {
    const char *layer;              /* "conv1" */
    bool        has_weight, has_input, has_gradient;
    qg_quant    weight, input, gradient;
} qg_choice;

/* Options of models.  A key means the same in every model that has it. */
typedef enum qg_model_key {
    QG_MODEL_DEPTH,                 /* hidden layers */
    QG_MODEL_WIDTH,                 /* units of a hidden layer; of convolutions: a multiple of the paper's channels */
    QG_MODEL_DROPOUT,               /* rate before every product but the first */
    QG_MODEL_INPUT_DROPOUT,         /* rate before the first product */
    QG_MODEL_ORDER,                 /* qg_residual_order */
    QG_MODEL_SHORTCUT,              /* qg_shortcut_kind */
    QG_MODEL_KEYS
} qg_model_key;

typedef enum qg_residual_order {
    QG_POST_ACTIVATION,             /* conv - bn - act - conv - bn, + shortcut, act     [1512.03385] */
    QG_PRE_ACTIVATION,              /* bn - act - conv - bn - act - conv, + shortcut    [1603.05027] */
    QG_BIREAL                       /* act - conv - bn, + a shortcut per convolution    [1808.00278] */
} qg_residual_order;

/* How a shortcut halves the size and doubles the channels. */
typedef enum qg_shortcut_kind {
    QG_SHORTCUT_A,                  /* every second pixel, zeros for new channels */
    QG_SHORTCUT_POOL,               /* means of 2x2 pixels, zeros for new channels, as in TTQ */
    QG_SHORTCUT_B,                  /* a 1x1 convolution */
    QG_SHORTCUT_POOL_B              /* means of 2x2 pixels, then a 1x1 convolution, as in Bi-Real Net; in nets as text */
} qg_shortcut_kind;

typedef enum qg_first_last {
    QG_FIRST_LAST_AUTO,             /* float if one of the schemes keeps the ends in float (qg_scheme.float_ends), else quantized */
    QG_FIRST_LAST_FLOAT,
    QG_FIRST_LAST_QUANTIZED
} qg_first_last;

typedef struct qg_model_spec {
    int              height, width, channels, classes;
    uint64_t         seed;
    qg_initial_weights initial_weights;
    qg_quant         weight;        /* of every product */
    qg_quant         input;         /* of every product but the first, which reads the image; tfc, sfc
                                       and lfc quantize the image too */
    qg_quant         gradient;      /* of every product's dL/dy */
    qg_first_last    first_last;    /* whether the first and last product are quantized */
    bool             fold_batchnorm;    /* these three as in qg_net_spec */
    bool             batchnorm_per_rank;
    uint64_t         freeze_batchnorm_after;
    uint64_t         quantize_weights_after, quantize_inputs_after;     /* as in qg_net_spec */
    double           option[QG_MODEL_KEYS];     /* [QG_MODEL_WIDTH] = 0.25; 0: the model's default */
    const qg_choice *choice;        /* exceptions for single layers */
    int              choices;
    const char      *text;          /* of qg_model_text: the net; NULL for the others */
} qg_model_spec;

enum { QG_MODEL_TEXT_BYTES = 512 };

typedef struct qg_model {
    const char     *name;           /* "lenet5" */
    const char     *about;          /* one line: architecture and paper */
    const char     *recipe;         /* the paper's training, as text for --config */
    qg_shape        image;          /* the paper's input */
    const qg_key   *keys;           /* its options; NULL: none */
    const char     *net;            /* as text (layers/models/text.h), where $ stands for the number of classes, and
                                       $64 for 64 channels times the option width */
    /* In place of .net, writes the text, given every option.  Neither: spec->text is it. */
    void          (*text)(const qg_model_spec *spec, char text[QG_MODEL_TEXT_BYTES]);
} qg_model;

extern const qg_model *const qg_models[];       /* ends with NULL */
const qg_model *qg_model_find(const char *name);                /* NULL: no such model, QG_EARG */

/* Any net, written as text (layers/models/text.h); not in the list. */
extern const qg_model  qg_model_text;

/* Declares the model's net, which the caller builds.  NULL: out of memory, or QG_EARG: the model does not
 * have an option, an option is out of range, or an exception names a layer that does not exist. */
qg_net         *qg_model_declare(const qg_model *m, qg_model_spec spec);

#endif
