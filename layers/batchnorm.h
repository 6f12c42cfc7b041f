/* layers/batchnorm.h — what the fusing pass knows of single layers (internal). */
#ifndef QG_BATCHNORM_H
#define QG_BATCHNORM_H

#include "layers/layer.h"

typedef struct qg_batchnorm {
    qg_layer          layer;
    qg_batchnorm_spec spec;
    qg_param         *gamma, *beta, *mean, *var;
    bool              relu;     /* fused: of the relu behind it */
    int               pool;     /* fused: window of the max pooling behind it; 0: none */
    bool              add;      /* fused: the sum behind it; its other operand is layer.with */
    const qg_slot    *slot;     /* fused: input quantizer of the product, or quantizer, behind it */
} qg_batchnorm;

/* Running statistics and constants, frozen or not in this step; nothing fused. */
qg_norm_spec  qg__batchnorm_spec(const qg_batchnorm *bn, const qg_tape *t);

qg_batchnorm *qg__batchnorm(qg_layer *l);           /* NULL: l is no batch norm */
int           qg__maxpool_size(const qg_layer *l);  /* 0: l is no max pooling */
bool          qg__is_relu(const qg_layer *l);
bool          qg__is_add(const qg_layer *l);
const qg_slot *qg__quantize_slot(qg_layer *l);      /* of a quantize layer; NULL: it is none */

#endif
