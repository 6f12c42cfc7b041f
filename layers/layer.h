/* layers/layer.h — for layer authors: a struct that begins with qg_layer, and one constant. */
#ifndef QG_LAYER_H
#define QG_LAYER_H

#include "layers/net.h"
#include "quant/scheme.h"

typedef struct qg_step qg_step;             /* internal: layers/plan.h */

typedef struct qg_layer_type {
    const char *name;                       /* "conv2d" */
    size_t      size;                       /* of the whole struct */

    /* l->out and l->macs from l->in, checked; declares parameters.  Called once, by qg_net_build. */
    qg_status (*build)(qg_net *net, qg_layer *l);

    /* Initial values, once the parameters are allocated.  key is the layer's own.  NULL: zeros. */
    qg_status (*start)(qg_layer *l, uint64_t key);

    /* z is the second input of a layer that has one, else NULL. */
    qg_var   *(*forward)(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z);

    /* In place of forward, for a layer that does the work of others as well (layers/plan.h). */
    qg_var   *(*run)(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z);

    /* What the layer does, for the summary: "5x5, 32, ternary".  NULL: nothing to say. */
    void      (*describe)(const qg_layer *l, char *text, size_t bytes);
} qg_layer_type;

struct qg_layer {
    const qg_layer_type *type;
    const char          *name;              /* "conv1"; unique in its net */
    qg_net              *net;
    qg_layer            *after, *with;      /* what it reads; NULL: the image, nothing */
    qg_shape             in, out;           /* with n = 1 */
    int                  index;             /* in order of declaration, from 0 */
    int                  readers;           /* layers that read this one */
    bool                 result;            /* the caller reads it: qg_net_result */
    uint64_t             macs;              /* multiply-adds for one image */
};

/* A quantizer in a layer, with what its scheme learns as parameters of the net. */
typedef struct qg_slot {
    qg_quant  q;
    qg_param *param[QG_MAX_LEARNED];
} qg_slot;

/* The two operands of a product (conv2d or dense): its weight, and the quantizers. */
typedef struct qg_product {
    qg_layer  layer;
    qg_param *weight, *bias;                /* bias NULL: none */
    bool      no_bias;
    qg_slot   weight_slot, input_slot, gradient_slot;
    bool      feeds_batchnorm;              /* and nothing else: its bias is left out, since the batch
                                               mean would take it out again */
} qg_product;

/* l as a product, or NULL if it is none. */
qg_product *qg_layer_product(qg_layer *l);
size_t      qg_product_packed_bytes(const qg_product *p);   /* of the weight, with its scales */

/* A batch norm is folded into the weight (qg_net_spec.fold_batchnorm). */
bool        qg_product_is_folded(const qg_product *p);

/* The weight as its quantizer sees it in QG_EVAL.  If a batch norm is folded into it, that is computed
 * into folded, which has its size; otherwise folded may be NULL. */
qg_tensor   qg_product_weight(const qg_product *p, float *folded);

/* What quantizes this operand of l, perhaps {0}; NULL: l has no such operand. */
const qg_slot *qg_layer_slot(qg_layer *l, qg_role role);
enum { QG_ROLES = 3 };
extern const qg_role qg_roles[QG_ROLES];                    /* in that order */

/* p as a file holds it, its shape as others read it: [out,kh,kw,in] for a kernel and for
 * a matrix behind an image, else [out,in] for a matrix, [c] for a vector. */
qg_array  qg_param_array(const qg_param *p);

/* Appends a layer of the given type, zeroed but for its head.  name NULL: prefix and a number. */
void     *qg_net_append(qg_net *net, const qg_layer_type *type, qg_layer *after, const char *prefix,
                        const char *name);

/* "<layer>.<name>".  NULL: the net has failed with the reason, so build may return any failure. */
qg_param *qg_layer_declare(qg_layer *l, const char *name, qg_param spec);

/* Whether slot->q may stand there, with these constants.  Fails with QG_EARG. */
QG_MUST_CHECK
qg_status qg_slot_check(qg_layer *l, const qg_slot *slot, qg_role role);

/* Declares what slot->q learns as "<layer>.<role>.<entry>", "conv1.weight.wp"; x is the shape it
 * quantizes.  Fails as qg_slot_check. */
qg_status qg_slot_declare(qg_layer *l, qg_slot *slot, qg_role role, qg_shape x);
void      qg_slot_start(qg_slot *slot, qg_tensor x);                /* initial values */
qg_var   *qg_slot_apply(const qg_slot *slot, qg_tape *t, qg_var *x);/* x itself if q is {0} */

/* The same as part of a qg_norm: sets spec->act, or spec->relu while the quantizer waits.  false: in
 * this step it has to see its values whole (qg_scheme.observes), so qg_slot_apply follows instead;
 * both give the same bits. */
bool      qg_slot_fuse(const qg_slot *slot, qg_tape *t, qg_norm_spec *spec);

#endif
