/* layers/models/models.h — the zoo: nets of the papers, with their recipes. */
#ifndef QG_MODELS_H
#define QG_MODELS_H

#include "layers/net.h"

/* Quantizers of one product that differ from the net's: --layer conv1:weight=float. */
typedef struct qg_choice {
    const char *layer;              /* "conv1" */
    bool        has_weight, has_input, has_gradient;
    qg_quant    weight, input, gradient;
} qg_choice;

typedef struct qg_model_spec {
    int              height, width, channels, classes;
    uint64_t         seed;
    qg_quant         weight;        /* of every product */
    qg_quant         input;         /* of every product but the first, which reads the image */
    qg_quant         gradient;      /* of every product's dL/dy */
    bool             first_last_float;  /* all three of the first and last product stay float */
    bool             fold_batchnorm;    /* both as in qg_net_spec */
    uint64_t         freeze_batchnorm_after;
    const qg_choice *choice;        /* and exceptions */
    int              choices;
} qg_model_spec;

typedef struct qg_model {
    const char *name;               /* "lenet5" */
    const char *about;              /* one line: architecture and paper */
    const char *recipe;             /* the paper's training, in the language of --config */
    qg_net   *(*declare)(qg_model_spec spec);   /* not built yet; NULL: out of memory */
} qg_model;

extern const qg_model *const qg_models[];       /* ends with NULL */
const qg_model *qg_model_find(const char *name);                /* NULL: no such model */

/* What spec says of the product called name.  first: it reads the image. */
typedef struct qg_model_quants {
    qg_quant weight, input, gradient;
} qg_model_quants;
qg_model_quants qg_model_quant(const qg_model_spec *spec, const char *name, bool first, bool last);

#endif
