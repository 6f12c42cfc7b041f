/* layers/net.h — declare, build, run.
 *
 * Layers are appended in order.  Each infers its input size from the layer before it, or from the one
 * named in .after.  qg_net_build allocates the parameters and reports bad declarations: after a failed
 * declaration, every further call on the net does nothing.  Declaring a layer after qg_net_build makes
 * every further qg_net_forward fail.
 *
 * qg_net_build folds layers that can run together.  A batch norm and the sum, relu, max pooling and
 * elementwise quantizer that follow it run in one pass over memory (qg_norm_fused), unless windows
 * overlap, are padded or exceed QG_NORM_POOL, or the sum comes after the relu or the pooling.  The
 * layers stay as they were declared, and the summary shows them.  A conv2d or dense whose only reader
 * is a batch norm gets no bias, because the batch mean would subtract it again.
 *
 * .fold_batchnorm folds a batch norm into the conv2d or dense before it, for weights that will be
 * integers: the weight is multiplied by gamma / sqrt(var + eps) before it is quantized, and the
 * norm itself is not run (core/ops/ops.h, qg_fold_weight).  A norm with .no_shift or .whole is not
 * folded, nor one after a product whose input quantizer scales the result (qg_xnor_activation).  If
 * nothing can be folded, qg_net_build fails with QG_EARG.  Until the statistics are frozen, a
 * training step computes the product twice.  The folded weight changes size when gamma and the
 * statistics move.  With 8 bits a range that follows it (QG_RANGE_CURRENT) fits better than a
 * learned one.
 */
#ifndef QG_NET_H
#define QG_NET_H

#include <stdio.h>

#include "core/ops/ops.h"
#include "core/io/state.h"
#include "quant/quant.h"

typedef struct qg_net   qg_net;
typedef struct qg_layer qg_layer;           /* layers/layer.h; owned by its net */

/* How the initial weights of products are drawn.  Fan in are the weights of one output. */
typedef enum qg_initial_weights {
    QG_INITIAL_GLOROT,      /* uniform in +-sqrt(6 / (fan in + fan out))     [Glorot, Bengio 2010, eq. 16] */
    QG_INITIAL_HE           /* normal with variance 2 / fan in      [He 2015, arXiv:1502.01852v1, eq. 10] */
} qg_initial_weights;

typedef struct qg_net_spec {
    int      height, width, channels;       /* of one input image */
    uint64_t seed;                          /* of the initial weights */
    bool     fold_batchnorm;                /* into the quantized weight before it; see above */
    uint64_t freeze_batchnorm_after;        /* steps; training then uses the running statistics
                                               and no longer updates them.  0: never */
    uint64_t quantize_weights_after;        /* delay of quantizers of weights without an .after,
                                               in training steps (qg_loader_batches per
                                               epoch); 0: none */
    uint64_t quantize_inputs_after;         /* the same for inputs */
    bool     batchnorm_per_rank;            /* training uses the statistics of each rank's own images (core/dist/ranks.h), so
                                               results depend on the number of ranks; not with fold_batchnorm */
    qg_initial_weights initial_weights;     /* of products */
} qg_net_spec;

enum { QG_DEPTHWISE = -1 };

typedef struct qg_conv2d_spec {
    int         out;        /* output channels; required, unless depthwise: 0 is as many as the input has */
    int         kernel;     /* height, and width unless kernel_w is set; required */
    int         kernel_w;   /* 0: square */
    int         stride;     /* 0: 1 */
    int         pad;        /* on each side */
    bool        same;       /* in place of pad, TensorFlow's "same": the output has h / stride rows and w / stride
                               columns, rounded up; an odd row or column of padding is the last */
    int         groups;     /* 0: 1.  Each reads its own part of the input channels and computes its own part of
                               the outputs.  QG_DEPTHWISE: one group for each input channel */
    float       pad_value;  /* 0, or +1/-1 after a binary activation */
    bool        no_bias;
    qg_quant    weight;     /* {0}: float */
    qg_quant    input;      /* {0}: float; applied to x before the product */
    qg_quant    gradient;   /* {0}: float; applied to dL/dy before the product's backward */
    qg_layer   *after;      /* NULL: the layer declared before this one */
    const char *name;       /* NULL: "conv1", "conv2", .. in order */
} qg_conv2d_spec;

typedef struct qg_dense_spec {
    int         out;        /* required */
    bool        no_bias;
    qg_quant    weight, input, gradient;
    qg_layer   *after;
    const char *name;       /* NULL: "fc1", "fc2", .. */
} qg_dense_spec;

typedef struct qg_batchnorm_spec {
    float       eps;        /* 0: 1e-5 */
    float       momentum;   /* weight of the newest batch in the running statistics; 0: 0.1 */
    bool        no_scale;   /* no gamma: it is 1 */
    bool        no_shift;   /* no beta: it is 0 */
    bool        whole;      /* one mean, variance, gamma and beta for all channels and pixels: the
                               TensorNorm of FINN's nets.  Nothing is folded into it */
    qg_layer   *after;      /* NULL: the layer declared before this one */
    uint64_t    freeze_after;  /* as qg_net_spec.freeze_batchnorm_after; 0: the net's */
    const char *name;       /* NULL: "bn1", "bn2", .. */
} qg_batchnorm_spec;

typedef struct qg_pool2d_spec {
    int         size;       /* of the square window; required */
    int         stride;     /* 0: size */
    int         pad;        /* on each side, less than size */
    bool        exclude_pad;    /* the mean of avgpool counts pixels of the image only */
    qg_layer   *after;      /* NULL: the layer declared before this one */
    const char *name;       /* NULL: "pool1", "pool2", .. */
} qg_pool2d_spec;

typedef struct qg_prelu_spec {
    float       start;      /* initial slopes, finite; 0: 0.25 */
    bool        shared;     /* one slope for all channels */
    qg_layer   *after;      /* NULL: the layer declared before this one */
    const char *name;       /* NULL: "prelu1", "prelu2", ..; "rprelu1", .. */
} qg_prelu_spec;

qg_net   *qg_net_new(qg_net_spec spec);
qg_layer *qg_net_conv2d(qg_net *net, qg_conv2d_spec spec);
qg_layer *qg_net_dense(qg_net *net, qg_dense_spec spec);       /* reads h w c as one row: no flatten layer */
qg_layer *qg_net_batchnorm(qg_net *net);                       /* of the layer before */
qg_layer *qg_net_batchnorm_with(qg_net *net, qg_batchnorm_spec spec);
qg_layer *qg_net_relu(qg_net *net);
qg_layer *qg_net_hardtanh(qg_net *net);
qg_layer *qg_net_sigmoid(qg_net *net);
qg_layer *qg_net_tanh(qg_net *net);
qg_layer *qg_net_prelu(qg_net *net, qg_prelu_spec spec);       /* slope x where x < 0: qg_prelu */
qg_layer *qg_net_rprelu(qg_net *net, qg_prelu_spec spec);      /* and shifts, initially 0 */
qg_layer *qg_net_affine(qg_net *net, float a, float b);        /* a x + b: 2 x - 1 of an image */
qg_layer *qg_net_maxpool(qg_net *net, int size);               /* stride = size */
qg_layer *qg_net_avgpool(qg_net *net, int size);
qg_layer *qg_net_maxpool_with(qg_net *net, qg_pool2d_spec spec);   /* qg_maxpool_with: overlap, padding */
qg_layer *qg_net_avgpool_with(qg_net *net, qg_pool2d_spec spec);
qg_layer *qg_net_global_avgpool(qg_net *net);
qg_layer *qg_net_dropout(qg_net *net, float rate);
qg_layer *qg_net_quantize(qg_net *net, qg_quant activation);
qg_layer *qg_net_add(qg_net *net, qg_layer *a, qg_layer *b);   /* the shapes must be equal */
qg_layer *qg_net_concat(qg_net *net, qg_layer *a, qg_layer *b);    /* the channels of a, then those of b; the
                                                                      heights and widths must be equal */
qg_layer *qg_net_shortcut(qg_net *net, qg_layer *after, int stride, int channels);  /* qg_shortcut */
qg_layer *qg_net_mark_output(qg_layer *l);  /* before qg_net_build; returns l.  The program reads its result
                                               (qg_net_output, qg_apply): it needs no
                                               other reader and is not folded */

/* Computes shapes, allocates parameters and draws initial weights.  A layer that no other reads is
 * an error, unless it is the last or marked by qg_net_mark_output.  Initially the weights of
 * products are those of .initial_weights, gamma and running variances are 1, slopes are those of
 * qg_prelu_spec, learned values of quantizers those of their schemes, the rest is 0.  The net owns the
 * parameters.  NULL on failure. */
qg_params *qg_net_build(qg_net *net);
qg_params *qg_net_params(const qg_net *net);                   /* NULL before qg_net_build: QG_ESTATE */

/* The layer with this name, "conv1".  NULL, QG_EARG: there is none; the message lists those that have parameters, or all
 * if the net is not built. */
qg_layer  *qg_net_find(const qg_net *net, const char *name);

/* Freezes a layer of a built net, for fine-tuning: its parameters keep their values, those that its
 * quantizers learn included, and so do observed ranges, once they have observed a batch.  A frozen
 * batch norm uses its running statistics in training as well.  A batch norm per channel that is the
 * only reader of a frozen conv2d or dense, perhaps after max pooling or dropout, is frozen with it.
 * A layer without parameters may also be named; nothing changes.
 *
 * Fails    QG_EARG: no layer has this name; the message lists those that have parameters.  QG_ESTATE: the net is not
 *          built. */
QG_MUST_CHECK
qg_status  qg_net_freeze(qg_net *net, const char *layer);

/* Runs every layer in order and returns the result of the last.
 * Fails    As the ops, and in QG_EVAL with QG_ENAN if a value of x is not finite. */
qg_var    *qg_net_forward(qg_net *net, qg_tape *t, qg_tensor x);

/* The result of the layer with this name in the newest qg_net_forward of net in this step of t, for
 * example of a second head.  A layer that is folded into another has no result of its own, unless
 * it was marked by qg_net_mark_output.  In QG_EVAL a product that only a batch norm reads is folded
 * with it as well.  Read values before qg_backward, which reuses the memory of some (core/tape.h).
 * Fails     NULL.  QG_EARG: no layer has the name, or the layer is folded; QG_ESTATE: the net has
 * not run in this step. */
qg_var    *qg_net_output(const qg_net *net, qg_tape *t, const char *name);

/* Runs one layer as it was declared, with nothing folded into it; the caller chooses the order.  For a
 * layer with two inputs, call its op, qg_add or qg_concat. */
qg_var    *qg_apply(qg_layer *l, qg_tape *t, qg_var *x);

/* Prints one line per layer: name, what it does, output, quantizers, weights, multiply-adds, bytes.
 * Fails    QG_EARG: net or out is NULL; the failure of the net, or QG_ESTATE: it is not built; QG_EMEM. */
qg_status  qg_net_summary(const qg_net *net, FILE *out);
int        qg_net_layers(const qg_net *net);
qg_layer  *qg_net_layer(const qg_net *net, int index);         /* 0 .. qg_net_layers - 1, else NULL */

/* float_bytes: bytes of all parameters that evaluation reads, as floats; a batch norm has two per
 * channel, or one if it is folded into a weight.  packed_bytes: bytes of the packed file
 * (layers/export/export.h) without normalisation and notes, which adds a header and the steps.  0
 * before qg_net_build; packed_bytes is also 0, with the reason in qg_errmsg, if no packed file can
 * express the net.  Fails only with QG_EMEM. */
size_t     qg_net_float_bytes(const qg_net *net);
QG_MUST_CHECK qg_status qg_net_packed_bytes(const qg_net *net, size_t *bytes);

/* Adds every parameter and tracked array to s under its name.  Weights are laid out as in memory:
 * [out][kh][kw][in] for conv2d; [out][in] for dense, or [out][h][w][in] if it reads an image.  qg_net_load
 * takes files with exactly these arrays, as qg_net_save and `qgrad train` (best.safetensors) write them. */
void       qg_net_state(qg_net *net, qg_state *s);
QG_MUST_CHECK qg_status qg_net_save(qg_net *net, const char *path);
QG_MUST_CHECK qg_status qg_net_load(qg_net *net, const char *path);     /* all or nothing */
void       qg_net_free(qg_net *net);

/* --- as text -------------------------------------------------------------------------------- */

/* The canonical text of a net, from which qg_net_parse declares the same net again: the same layers
 * with the same names, and for the same seed the same bits.  One line describes the image, and one
 * each layer: its name, its type with what differs from the defaults, and its quantizers as on the
 * command line.  A layer reads the one before it unless the line has after=NAME.
 *
 *     net(height=28,width=28,channels=1) seed=1
 *     conv1 conv2d(out=32,kernel=5) weight=twn
 *     bn1 batchnorm
 *     relu1 relu
 *     pool1 maxpool(size=2)
 *     fc1 dense(out=10) weight=twn input=sign
 *
 * A built net has the text that it had before.  Parameters and qg_net_freeze are not part of it.
 *
 * Memory   The caller frees the text.
 * Fails    NULL.  QG_EARG: a layer's type, a scheme or a surrogate is your own, so that only your
 *          program can declare the net; or a number has no text (-0, NaN, or out of its key's range); the
 *          message names the layer.  The failure of the net.  QG_EMEM. */
char      *qg_net_print(const qg_net *net);

/* Declares the net that a text describes; the caller builds it.
 * Fails    NULL.  QG_EARG: the message names the line and what is wrong with it.  QG_EMEM. */
qg_net    *qg_net_parse(const char *text);

#endif
