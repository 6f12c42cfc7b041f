/* Rows of qgrad gradcheck about ops, whose operands are parameters.  Values keep clear of every kink by more than
 * 2h = 1/32 (relu, clip, hinge), and those that compete for a maximum are more than 4h apart. */
#include <string.h>

#include "cli/gradcheck/gradcheck.h"
#include "core/ops/ops.h"
#include "core/rng.h"
#include "quant/scheme.h"

/* What xnor_scale borrows. */
static const qg_shape signs = { 2, 3, 4, 3 };
enum { SIGNS = 2 * 3 * 4 * 3 };

enum {
    OPERANDS = 4,           /* most of a row */
    CHANNELS = 4,           /* most of a batch norm */
    MEMORY   = SIGNS,       /* floats */
    KEY      = 11           /* of all values that are drawn */
};

/* NULL where a row has none; memory that lasts for the step. */
typedef struct operands {
    qg_var *x[OPERANDS];
    float  *memory;
} operands;

typedef struct op_row {
    const char *name;
    qg_var   *(*build)(qg_tape *t, const operands *o);
    struct {
        const char *name;
        qg_shape    shape;
        float       centre, spread;     /* as gradcheck_fill; spread 0: 1 */
    } operand[OPERANDS];                /* ends with a NULL name, or is full */
} op_row;

static const uint16_t label[] = { 3, 0, 6, 1, 3 };

static qg_var *conv(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ 0 });
}

static qg_var *conv_strided(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .stride = 2, .pad_h = 1, .pad_w = 2 });
}

static qg_var *conv_same(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .pad_h = 1, .pad_w = 1 });
}

static qg_var *conv_ones(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .pad_value = -1 });
}

static qg_var *conv_uneven(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .stride = 2, .extra_h = 1, .pad_w = 1, .extra_w = 1 });
}

static qg_var *conv_groups(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .groups = 3 });
}

static qg_var *depthwise(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .groups = 5 });
}

static qg_var *depthwise_strided(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], NULL,
                     (qg_conv_spec){ .stride = 2, .extra_h = 1, .extra_w = 1, .pad_value = -1, .groups = 5 });
}

static qg_var *dense(qg_tape *t, const operands *o) { return qg_dense(t, o->x[0], o->x[1], o->x[2]); }
static qg_var *add(qg_tape *t, const operands *o) { return qg_add(t, o->x[0], o->x[1]); }
static qg_var *sub(qg_tape *t, const operands *o) { return qg_sub(t, o->x[0], o->x[1]); }
static qg_var *mul(qg_tape *t, const operands *o) { return qg_mul(t, o->x[0], o->x[1]); }
static qg_var *square(qg_tape *t, const operands *o) { return qg_mul(t, o->x[0], o->x[0]); }
static qg_var *twice(qg_tape *t, const operands *o) { return qg_add(t, o->x[0], o->x[0]); }
static qg_var *scale(qg_tape *t, const operands *o) { return qg_scale(t, o->x[0], -1.5f); }
static qg_var *bias(qg_tape *t, const operands *o) { return qg_bias(t, o->x[0], o->x[1]); }
static qg_var *relu(qg_tape *t, const operands *o) { return qg_relu(t, o->x[0]); }
static qg_var *clip(qg_tape *t, const operands *o) { return qg_clip(t, o->x[0], -1, 2); }
static qg_var *affine(qg_tape *t, const operands *o) { return qg_affine(t, o->x[0], -3, 0.5f); }
static qg_var *reshape(qg_tape *t, const operands *o) { return qg_reshape(t, o->x[0], (qg_shape){ 0, 1, 21, 1 }); }
static qg_var *hardtanh(qg_tape *t, const operands *o) { return qg_hardtanh(t, o->x[0]); }
static qg_var *sigmoid(qg_tape *t, const operands *o) { return qg_sigmoid(t, o->x[0]); }
static qg_var *tanh_op(qg_tape *t, const operands *o) { return qg_tanh(t, o->x[0]); }
static qg_var *prelu(qg_tape *t, const operands *o) { return qg_prelu(t, o->x[0], o->x[1]); }
static qg_var *rprelu(qg_tape *t, const operands *o) { return qg_rprelu(t, o->x[0], o->x[1], o->x[2], o->x[3]); }
static qg_var *softmax(qg_tape *t, const operands *o) { return qg_softmax(t, o->x[0]); }
static qg_var *sum_channels(qg_tape *t, const operands *o) { return qg_sum(t, o->x[0], QG_AXIS_C); }
static qg_var *sum_batch(qg_tape *t, const operands *o) { return qg_sum(t, o->x[0], QG_AXIS_N | QG_AXIS_W); }
static qg_var *mean_image(qg_tape *t, const operands *o) { return qg_mean(t, o->x[0], QG_AXIS_H | QG_AXIS_W); }
static qg_var *mean_all(qg_tape *t, const operands *o) { return qg_mean(t, o->x[0], QG_AXES); }
static qg_var *broadcast(qg_tape *t, const operands *o) { return qg_broadcast(t, o->x[0], (qg_shape){ 2, 4, 5, 3 }); }
static qg_var *concat(qg_tape *t, const operands *o) { return qg_concat(t, 3, o->x); }

static qg_var *slice(qg_tape *t, const operands *o)
{
    return qg_slice(t, o->x[0], (qg_shape){ 0, 1, 2, 1 }, (qg_shape){ 1, 2, 0, 2 });
}

static qg_var *dropout(qg_tape *t, const operands *o) { return qg_dropout(t, o->x[0], 0.4f); }
static qg_var *maxpool(qg_tape *t, const operands *o) { return qg_maxpool(t, o->x[0], 2); }
static qg_var *maxpool3(qg_tape *t, const operands *o) { return qg_maxpool(t, o->x[0], 3); }
static qg_var *avgpool(qg_tape *t, const operands *o) { return qg_avgpool(t, o->x[0], 2); }

static const qg_pool_spec overlap = { .size = 3, .stride = 2, .pad = 1 };
static const qg_pool_spec overlap_own = { .size = 3, .stride = 2, .pad = 1, .exclude_pad = true };
static qg_var *maxpool_overlap(qg_tape *t, const operands *o) { return qg_maxpool_with(t, o->x[0], overlap); }
static qg_var *avgpool_overlap(qg_tape *t, const operands *o) { return qg_avgpool_with(t, o->x[0], overlap); }
static qg_var *avgpool_own(qg_tape *t, const operands *o) { return qg_avgpool_with(t, o->x[0], overlap_own); }

static qg_var *global_avgpool(qg_tape *t, const operands *o) { return qg_global_avgpool(t, o->x[0]); }
static qg_var *shortcut(qg_tape *t, const operands *o) { return qg_shortcut(t, o->x[0], 2, 7); }
static qg_var *cross_entropy(qg_tape *t, const operands *o) { return qg_cross_entropy(t, o->x[0], label); }
static qg_var *kl(qg_tape *t, const operands *o) { return qg_kl(t, o->x[0], o->x[1], 3); }
static qg_var *mse(qg_tape *t, const operands *o) { return qg_mse(t, o->x[0], o->x[1]); }

static qg_var *smoothed(qg_tape *t, const operands *o)
{
    return qg_cross_entropy_with(t, o->x[0], label, (qg_cross_entropy_spec){ .smoothing = 0.1f });
}

static qg_var *squared_hinge(qg_tape *t, const operands *o) { return qg_squared_hinge(t, o->x[0], label); }

/* The scale of a product whose inputs are signs, a constant of the backward. */
static qg_var *xnor_scale(qg_tape *t, const operands *o)
{
    const qg_quant q = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    gradcheck_fill(o->memory, SIGNS, 0, 1, KEY);
    return q.scheme->scale_output(t, q, qg_input(t, (qg_tensor){ signs, o->memory }), (qg_windows){ 3, 3, 1, 1, 1 },
                                  o->x[0]);
}

/* --- batch norm --------------------------------------------------------------------------- */

/* Running statistics are updated by each step; every step of a check has the same before it. */
static qg_norm_spec with_statistics(const operands *o, qg_norm_spec spec)
{
    static const float mean[CHANNELS] = { 0.5f, -1, 0.25f, 0 }, var[CHANNELS] = { 1, 2, 0.5f, 3 };
    spec.mean = memcpy(o->memory, mean, sizeof mean);
    spec.var  = memcpy(o->memory + CHANNELS, var, sizeof var);
    return spec;
}

static qg_norm_spec folded(const operands *o) { return with_statistics(o, (qg_norm_spec){ 0 }); }

static qg_var *norm_of(qg_tape *t, const operands *o, bool frozen)
{
    return qg_norm(t, o->x[0], o->x[1], o->x[2], with_statistics(o, (qg_norm_spec){ .frozen = frozen }));
}

static qg_var *norm(qg_tape *t, const operands *o)        { return norm_of(t, o, false); }
static qg_var *norm_frozen(qg_tape *t, const operands *o) { return norm_of(t, o, true); }

static qg_var *fused(qg_tape *t, const operands *o, qg_norm_fusion with)
{
    return qg_norm_fused(t, o->x[0], o->x[1], o->x[2], with_statistics(o, (qg_norm_spec){ 0 }), with);
}

static qg_var *norm_relu(qg_tape *t, const operands *o)      { return fused(t, o, (qg_norm_fusion){ .relu = true }); }
static qg_var *norm_pool(qg_tape *t, const operands *o)      { return fused(t, o, (qg_norm_fusion){ .pool = 2 }); }
static qg_var *norm_pool_relu(qg_tape *t, const operands *o) { return fused(t, o, (qg_norm_fusion){ .pool = 2, .relu = true }); }
static qg_var *norm_add(qg_tape *t, const operands *o)       { return fused(t, o, (qg_norm_fusion){ .add = o->x[3] }); }

static qg_var *fold_weight(qg_tape *t, const operands *o)
{
    return qg_fold_weight(t, o->x[0], o->x[1], folded(o));
}

static qg_var *fold_bias(qg_tape *t, const operands *o) { return qg_fold_bias(t, o->x[0], o->x[1], folded(o)); }

static qg_var *fold_correct(qg_tape *t, const operands *o)
{
    return qg_fold_correct(t, o->x[0], o->x[1], o->x[2], o->x[3], folded(o));
}

/* y = x + a x^3 with a learned: an activation that qg_norm_fused applies on its way. */
static void cubic(const qg_activation *f, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] + f->k[0] * x[i] * x[i] * x[i];
}

static void cubic_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx, double *dk)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i], v = x[i];
        if (dk) dk[0] += (double)(g * v * v * v);
        dx[i] = g * (1 + 3 * f->k[0] * v * v);
    }
}

static qg_var *norm_activation(qg_tape *t, const operands *o)
{
    qg_var             *a = o->x[3];
    const qg_activation f = { .forward   = cubic,
                              .backward  = cubic_backward,
                              .k         = { a->data[0] },
                              .n_learned = 1,
                              .learned   = { a } };
    return fused(t, o, (qg_norm_fusion){ .act = f });
}

/* --- rows --------------------------------------------------------------------------------- */

static const op_row ops[] = {
    { "conv2d", conv, { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 }, { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d without bias", conv, { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 } } },
    { "conv2d, stride 2, padding 1 2", conv_strided,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 }, { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d, 3x3 same", conv_same,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 3, 3 }, 0, 0 }, { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d, 3x3 same, 16 channels (Winograd's)", conv_same,
      { { "x", { 1, 4, 4, 16 }, 0, 0 }, { "w", { 16, 3, 3, 16 }, 0, 0 }, { "b", { 1, 1, 1, 16 }, 0, 0 } } },
    { "conv2d, padded with -1", conv_ones,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 3, 3 }, 0, 0 }, { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d-same, stride 2", conv_uneven,
      { { "x", { 2, 6, 7, 3 }, 0, 0 }, { "w", { 4, 3, 4, 3 }, 0, 0 }, { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d-grouped", conv_groups,
      { { "x", { 2, 5, 4, 6 }, 0, 0 }, { "w", { 9, 3, 3, 2 }, 0, 0 }, { "b", { 1, 1, 1, 9 }, 0, 0 } } },
    { "conv2d-depthwise", depthwise,
      { { "x", { 2, 5, 4, 5 }, 0, 0 }, { "w", { 5, 3, 3, 1 }, 0, 0 }, { "b", { 1, 1, 1, 5 }, 0, 0 } } },
    { "conv2d-depthwise, 2 outputs each", depthwise,
      { { "x", { 2, 5, 4, 5 }, 0, 0 }, { "w", { 10, 3, 3, 1 }, 0, 0 }, { "b", { 1, 1, 1, 10 }, 0, 0 } } },
    { "conv2d-depthwise, stride 2, padded with -1", depthwise_strided,
      { { "x", { 2, 6, 8, 5 }, 0, 0 }, { "w", { 5, 3, 3, 1 }, 0, 0 } } },
    { "dense", dense,
      { { "x", { 3, 2, 2, 5 }, 0, 0 }, { "w", { 7, 1, 1, 20 }, 0, 0 }, { "b", { 1, 1, 1, 7 }, 0, 0 } } },
    { "dense without bias", dense, { { "x", { 3, 1, 1, 33 }, 0, 0 }, { "w", { 5, 1, 1, 33 }, 0, 0 } } },
    { "add", add, { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "z", { 2, 3, 1, 5 }, 0, 0 } } },
    { "add, x twice", twice, { { "x", { 2, 3, 1, 5 }, 0, 0 } } },
    { "sub", sub, { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "z", { 2, 3, 1, 5 }, 0, 0 } } },
    { "mul", mul, { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "z", { 2, 3, 1, 5 }, 0, 0 } } },
    { "mul, x twice", square, { { "x", { 2, 3, 1, 5 }, 0, 0 } } },
    { "scale", scale, { { "x", { 2, 3, 1, 5 }, 0, 0 } } },
    { "bias", bias, { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "b", { 1, 1, 1, 5 }, 0, 0 } } },
    { "relu", relu, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "clip", clip, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "affine", affine, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "reshape", reshape, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "hardtanh", hardtanh, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "sigmoid", sigmoid, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "tanh", tanh_op, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "prelu", prelu, { { "x", { 3, 3, 1, 7 }, 0, 4 }, { "a", { 1, 1, 1, 7 }, 0.25f, 0 } } },
    { "prelu, one slope", prelu, { { "x", { 3, 3, 1, 7 }, 0, 4 }, { "a", { 1, 1, 1, 1 }, 0.25f, 0 } } },
    { "rprelu", rprelu,             /* x - g is 1/16 - 1/64 or more from 0 */
      { { "x", { 3, 3, 1, 7 }, 0, 4 }, { "g", { 1, 1, 1, 7 }, 0, 1.0f / 64 }, { "a", { 1, 1, 1, 7 }, 0.25f, 0 },
        { "z", { 1, 1, 1, 7 }, 0, 0 } } },
    { "softmax", softmax, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "sum over channels", sum_channels, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "sum over images and columns", sum_batch, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "mean over pixels", mean_image, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "mean over all", mean_all, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "broadcast", broadcast, { { "x", { 2, 1, 1, 3 }, 0, 8 } } },
    { "concat", concat,
      { { "x", { 2, 4, 5, 3 }, 0, 0 }, { "z", { 2, 4, 5, 1 }, 0, 0 }, { "v", { 2, 4, 5, 2 }, 0, 0 } } },
    { "slice", slice, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "dropout", dropout, { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "maxpool 2", maxpool, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "maxpool 3", maxpool3, { { "x", { 1, 6, 7, 3 }, 0, 8 } } },
    { "avgpool 2", avgpool, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "maxpool 3, stride 2, padded", maxpool_overlap, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "avgpool 3, stride 2, padded", avgpool_overlap, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "avgpool 3, stride 2, padding excluded", avgpool_own, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "global avgpool", global_avgpool, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "shortcut, stride 2, 3 to 7 channels", shortcut, { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "xnor: scale of the product", xnor_scale, { { "y", { 2, 3, 4, 5 }, 0, 0 } } },
    { "cross entropy", cross_entropy, { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "cross entropy, smoothed labels", smoothed, { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "KL, temperature 3", kl, { { "x", { 5, 1, 1, 7 }, 0, 2 }, { "z", { 5, 1, 1, 7 }, 0, 3 } } },
    { "mean squared error", mse, { { "x", { 5, 2, 1, 7 }, 0, 2 }, { "z", { 5, 2, 1, 7 }, 0, 3 } } },
    { "squared hinge", squared_hinge, { { "x", { 5, 1, 1, 7 }, 0, 3 } } },
};

static const op_row norms[] = {
    { "batch norm", norm,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm without gamma, beta", norm, { { "x", { 2, 4, 4, 2 }, 0, 4 } } },
    { "batch norm, frozen", norm_frozen,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm, relu", norm_relu,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 16 } } },
    { "batch norm, max pooling", norm_pool,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm, max pooling, relu", norm_pool_relu,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 16 } } },
    { "batch norm, shortcut", norm_add,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 0 }, { "add", { 2, 4, 4, 2 }, 0, 0 } } },
    { "batch norm, learned activation", norm_activation,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 0 }, { "a", { 1, 1, 1, 1 }, 0.3f, 0 } } },
    { "batch norm folded, weight", fold_weight,
      { { "w", { 4, 3, 2, 3 }, 0, 0 }, { "gamma", { 1, 1, 1, 4 }, 1, 0.5f } } },
    { "batch norm folded, bias", fold_bias,
      { { "gamma", { 1, 1, 1, 4 }, 1, 0.5f }, { "beta", { 1, 1, 1, 4 }, 0, 0 } } },
    { "batch norm folded, correction", fold_correct,
      { { "y", { 2, 4, 4, 2 }, 0, 4 }, { "z", { 2, 4, 4, 2 }, 0, 4 },
        { "gamma", { 1, 1, 1, 2 }, 1, 0.5f }, { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
};

/* --- checks ------------------------------------------------------------------------------- */

typedef struct check {
    const op_row *row;
    float         memory[MEMORY];
} check;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    check   *k = context;
    operands o = { .memory = k->memory };
    for (int i = 0; i < p->count; i++) o.x[i] = qg_parameter(t, p->item[i]);
    return k->row->build(t, &o);
}

static qg_status declare(const op_row *row, qg_params *p)
{
    for (int i = 0; i < OPERANDS && row->operand[i].name; i++)
        if (!qg_params_declare(p, (qg_param){ .name = row->operand[i].name, .shape = row->operand[i].shape }))
            return QG_EMEM;
    return qg_params_allocate(p);
}

static qg_status check_row(const op_row *row, gradcheck_report *r)
{
    check          k    = { .row = row };
    qg_params      p    = { 0 };
    gradcheck_line line = { .name = row->name, .against = "differences" };
    qg_status      s    = declare(row, &p);
    for (int i = 0; i < p.count && !s; i++) {
        const float spread = row->operand[i].spread;
        gradcheck_fill(p.item[i]->value, qg_count(p.item[i]->shape), row->operand[i].centre, spread == 0 ? 1 : spread,
                       qg_rng_fork(KEY, (uint64_t)i));
    }
    if (!s)
        s = qg_gradcheck((qg_gradcheck_spec){ .name = row->name, .params = &p, .build = build, .context = &k },
                         &line.result);
    qg_params_release(&p);
    if (!s) gradcheck_add(r, &line);
    return s;
}

static qg_status run_ops(gradcheck_report *r)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < sizeof ops / sizeof *ops && !s; i++) s = check_row(&ops[i], r);
    return s;
}

static qg_status run_norms(gradcheck_report *r)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < sizeof norms / sizeof *norms && !s; i++) s = check_row(&norms[i], r);
    return s;
}

const gradcheck_table gradcheck_ops   = { "ops", run_ops };
const gradcheck_table gradcheck_norms = { "batch norm", run_norms };
