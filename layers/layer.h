/* layers/layer.h — for authors of layers.  A layer is a struct that begins with qg_layer and a constant of
 * type qg_layer_type. */
#ifndef QG_LAYER_H
#define QG_LAYER_H

#include "layers/net.h"
#include "quant/scheme.h"

typedef struct qg_step  qg_step;            /* internal: layers/plan.h */
typedef struct qg_slot  qg_slot;
typedef struct qg_graph qg_graph;           /* a net that leaves the library: qg_graph_add */

/* What the result of a layer is in QG_EVAL, as the layers around it have to know. */
typedef enum qg_trait {
    QG_PASSES     = 1,                      /* its input, unchanged: a dropout */
    QG_RECTIFIES  = 2,                      /* max(x, 0) of each value: a relu */
    QG_CHOOSES    = 4,                      /* maxima of its input, of codes codes: max pooling */
    QG_QUANTIZES  = 8,                      /* its input, quantized by slot(l, QG_INPUT) */
    QG_MULTIPLIES = 16,                     /* a product: the struct begins with qg_product; internal */
    QG_NORMALISES = 32,                     /* a batch norm of layers/batchnorm.c; internal */
    QG_READS_TWO  = 64                      /* computed from two layers, l->after and l->with, which is set
                                               once qg_net_append has returned l */
} qg_trait;

/* Required are name, size, and forward or run.  A type without them is a broken contract: QG_ASSERT in
 * qg_net_append prints it and aborts. */
typedef struct qg_layer_type {
    const char *name;                       /* "conv2d" */
    size_t      size;                       /* of the whole struct */
    unsigned    traits;                     /* qg_trait, or-ed */

    /* The names, ranges and defaults of what a declaration sets, without names, inputs and quantizers, as they
     * stand in the text of a net (qg_net_print).  .at is where they are in the struct (offsetof): an int if the
     * key has words or is a whole number, a uint64_t if its max exceeds an int, a bool for a flag, else a
     * float.  NULL: a declaration sets nothing. */
    const qg_key *keys;

    /* Checks the declaration, sets l->out, which is l->in, and l->macs, and declares parameters.  qg_net_build
     * calls it once.  NULL: nothing of this. */
    qg_status (*build)(qg_layer *l);

    /* Sets initial values, once the parameters are allocated.  key is the layer's own.  NULL: zeros. */
    void      (*start)(qg_layer *l, uint64_t key);

    /* x and z are the results of l->after and l->with; z is NULL for a layer with one input.  What a layer
     * keeps from one step to the next, such as a running mean, is a parameter of QG_TRACKED: only these are
     * saved, and restored where a test is stopped.  It may change in QG_TRAIN, and in QG_ESTIMATE as the
     * statistics of batch norms do, but not in QG_EVAL. */
    qg_var   *(*forward)(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z);

    /* Replaces forward for a layer that also computes others folded into it (layers/plan.h). */
    qg_var   *(*run)(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z);

    /* Adds l to the step of a batch norm before it (layers/plan.h).  false: the step cannot also
     * compute l.  NULL: no step can. */
    bool      (*join)(qg_layer *l, qg_step *s);

    /* Adds nodes to the graph that compute from the values x and z what l computes in QG_EVAL, with
     * the same bits; z is QG_NO_VALUE for a layer with one input.  Returns the value of the last
     * node (qg_graph_add).  Not called for QG_MULTIPLIES, QG_QUANTIZES and QG_PASSES.  NULL: no
     * packed file can express l. */
    int       (*pack)(const qg_layer *l, qg_graph *g, int x, int z);

    /* Text for the summary: "5x5, 32, ternary".  NULL: none. */
    void      (*describe)(const qg_layer *l, char *text, size_t bytes);

    /* The quantizer of this operand, for summaries, sizes in bytes, counts of codes and learned values; NULL: the layer
     * has no such operand.  NULL here: it has none at all. */
    qg_slot  *(*slot)(qg_layer *l, qg_role role);
} qg_layer_type;

struct qg_layer {
    const qg_layer_type *type;
    const char          *name;              /* "conv1"; unique in its net */
    int                  number;            /* 1, if the net has chosen this name; else 0 */
    qg_net              *net;
    qg_layer            *after, *with;      /* its inputs; NULL: the image, nothing.  with is declared before
                                               this layer, and set in QG_READS_TWO alone */
    qg_shape             in, out;           /* of one image: n = 1 */
    int                  index;             /* in order of declaration, from 0 */
    int                  readers;           /* how many layers read this one */
    bool                 result;            /* the caller reads it as well (qg_net_mark_output) */
    bool                 frozen;            /* its parameters and statistics keep their values (qg_net_freeze) */
    uint64_t             macs;              /* multiply-adds for one image */
};

/* A quantizer in a layer, and the parameters that its scheme learns. */
struct qg_slot {
    qg_quant   q;                           /* as declared; qg_slot_declare sets its role and delay */
    qg_binding bound;                       /* q and its tensor, once declared */
    qg_param  *of;                          /* what it quantizes: the weight, whether q is {0} or not; NULL: what the
                                               layer reads, or a gradient */
    qg_param  *param[QG_MAX_LEARNED];
    const char *unknown;                    /* of a net read from a checkpoint: the words for a quantizer that only the program
                                               knows that trained it, and q is {0}; NULL: q says it */
};

/* A product, conv2d or dense: its parameters and quantizers. */
typedef struct qg_product {
    qg_layer     layer;
    qg_conv_spec conv;                      /* of dense: stride 1, no padding; the window is the
                                               whole input */
    qg_param    *weight, *bias;             /* bias may be NULL */
    bool         no_bias;
    qg_slot      weight_slot, input_slot, gradient_slot;
    const struct qg_batchnorm *batchnorm;   /* per channel, the only reader: its batch mean would
                                               subtract a bias again; NULL: other readers */
} qg_product;

/* l as a product; NULL: l does not multiply. */
qg_product *qg_layer_product(qg_layer *l);

/* A batch norm is folded into the weight (qg_net_spec.fold_batchnorm). */
bool        qg_product_is_folded(const qg_product *p);

/* The quantizer of this operand of l, possibly {0}; NULL: l has no such operand. */
const qg_slot *qg_layer_slot(qg_layer *l, qg_role role);

/* The weight of l as its quantizer sees it in QG_EVAL; .data is NULL if l has none.  If a batch
 * norm is folded into it, that is computed into folded, which has its size; otherwise folded may
 * be NULL. */
qg_tensor      qg_layer_weight(qg_layer *l, float *folded);
size_t         qg_layer_packed_bytes(qg_layer *l);          /* in a packed file, of the weight of a product and its numbers
                                                               per channel; 0: another layer */

/* The slot whose quantizer decides what product l reads in QG_EVAL: its own or, if that has none, the one
 * of the quantize layer before it, with nothing but max pooling and dropout in between.  NULL: l reads
 * floats, or is no product. */
const qg_slot *qg_layer_reads(qg_layer *l);

/* Whether steps of training compute l with integers (docs/arithmetic.md), because its input, weight and
 * gradient are codes: once all three quantizers have started.  false before qg_net_build. */
bool           qg_layer_trains_in_integers(qg_layer *l);

enum { QG_ROLES = 3 };
extern const qg_role qg_roles[QG_ROLES];                    /* in that order */

/* Appends a layer of the given type; all fields after the head are 0.  name NULL: prefix, at
 * most 36 bytes, and a number. */
void     *qg_net_append(qg_net *net, const qg_layer_type *type, qg_layer *after, const char *prefix,
                        const char *name);

/* Declares the parameter "<layer>.<name>".  NULL: the net has failed and keeps the reason, so build may
 * return any failure. */
qg_param *qg_layer_declare(qg_layer *l, const char *name, qg_param spec);

/* Declares the learned values of slot->q as "<layer>.<role>.<entry>", for example "conv1.weight.wp"; x is the shape
 * of the operand.  Fails with QG_EARG: slot->q may not quantize this operand, or an argument is illegal. */
qg_status qg_slot_declare(qg_layer *l, qg_slot *slot, qg_role role, qg_shape x);
void      qg_slot_start(qg_slot *slot, qg_tensor x);                /* initial values */
qg_var   *qg_slot_apply(const qg_slot *slot, qg_tape *t, qg_var *x);/* x itself for {0} */

/* Codes and scales of x, with what the slot has learned; requires qg_has_codes(slot->q).  Fails as qg_encode. */
QG_MUST_CHECK
qg_status qg_slot_encode(const qg_slot *slot, qg_tensor x, qg_codes *out);

/* --- files of other programs ------------------------------------------------------------------ */

/* What a node computes; and the numbers it has, one list after another, each with a value for every
 * channel.  a x + b is rounded twice.  All numbers must be finite. */
typedef enum qg_node_kind {
    QG_NODE_AFFINE,             /* a x + b; a, b */
    QG_NODE_RELU,
    QG_NODE_CLIP,               /* to lo .. hi, and nothing else */
    QG_NODE_SIGMOID,
    QG_NODE_TANH,
    QG_NODE_PRELU,              /* as qg_prelu; slope */
    QG_NODE_RPRELU,             /* as qg_rprelu; x shift, slope, y shift */
    QG_NODE_MAXPOOL,            /* windows; of floats or of codes, which it keeps */
    QG_NODE_AVGPOOL,            /* windows */
    QG_NODE_ADD,                /* x + z */
    QG_NODE_CONCAT,             /* the channels of x, then those of z */
    QG_NODE_SHORTCUT,           /* as qg_shortcut: stride, channels */
    QG_NODE_KINDS
} qg_node_kind;

enum { QG_NO_VALUE = -1 };

typedef struct qg_node {
    qg_node_kind kind;
    int          x, z;          /* the values it reads; z of QG_NODE_ADD and QG_NODE_CONCAT only */
    int          kernel_h, kernel_w, stride, pad;      /* of windows */
    bool         exclude_pad;   /* of means: as in qg_pool_spec */
    int          channels;      /* of the result of QG_NODE_SHORTCUT */
    const char  *part;          /* "mean": the node is called "layer1.mean".  NULL: it is called as
                                   the layer; for the last one, which gives the layer's result */
} qg_node;

/* Appends a node and returns its value.  *numbers receives the list of its numbers, which the
 * caller sets; NULL: it has none, or the graph has failed and keeps the reason.  numbers itself may
 * be NULL for a kind that has none.
 *
 * Fails    QG_NO_VALUE.  QG_EARG, which the export reports: the node reads a value that no node
 *          before it has, or its windows or operands do not fit. */
int qg_graph_add(qg_graph *g, const qg_layer *l, qg_node node, float **numbers);

#endif
