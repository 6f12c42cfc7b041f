/* Rows of qgrad gradcheck: the ops but batch norm.  Values keep clear of every kink by more than 2h = 1/32 (relu,
 * clip, hinge), and those that compete for a maximum are more than 4h apart. */
#include "cli/gradcheck/gradcheck_op.h"
#include "quant/scheme.h"

/* What xnor_scale borrows. */
static const qg_shape signs = { 2, 3, 4, 3 };
enum { SIGNS = 2 * 3 * 4 * 3 };

static const uint8_t label[] = { 3, 0, 6, 1, 3 };

static qg_var *conv(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2), (qg_conv_spec){ 0 });
}

static qg_var *conv_strided(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2),
                     (qg_conv_spec){ .stride = 2, .pad_h = 1, .pad_w = 2 });
}

static qg_var *conv_same(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2),
                     (qg_conv_spec){ .pad_h = 1, .pad_w = 1 });
}

static qg_var *conv_ones(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2),
                     (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .pad_value = -1 });
}

static qg_var *dense(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_dense(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2));
}

static qg_var *add(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_add(t, op_in(t, p, 0), op_in(t, p, 1));
}

static qg_var *twice(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_add(t, op_in(t, p, 0), op_in(t, p, 0));
}

static qg_var *scale(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_scale(t, op_in(t, p, 0), -1.5f);
}

static qg_var *bias(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_bias(t, op_in(t, p, 0), op_in(t, p, 1));
}

static qg_var *relu(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_relu(t, op_in(t, p, 0));
}

static qg_var *clip(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_clip(t, op_in(t, p, 0), -1, 2);
}

static qg_var *affine(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_affine(t, op_in(t, p, 0), -3, 0.5f);
}

static qg_var *reshape(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_reshape(t, op_in(t, p, 0), (qg_shape){ 0, 1, 21, 1 });
}

static qg_var *hardtanh(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_hardtanh(t, op_in(t, p, 0));
}

static qg_var *dropout(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_dropout(t, op_in(t, p, 0), 0.4f);
}

static qg_var *maxpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_maxpool(t, op_in(t, p, 0), 2);
}

static qg_var *maxpool3(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_maxpool(t, op_in(t, p, 0), 3);
}

static qg_var *avgpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_avgpool(t, op_in(t, p, 0), 2);
}

static qg_var *global_avgpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_global_avgpool(t, op_in(t, p, 0));
}

static qg_var *shortcut(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_shortcut(t, op_in(t, p, 0), 2, 7);
}

static qg_var *cross_entropy(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_cross_entropy(t, op_in(t, p, 0), label);
}

static qg_var *squared_hinge(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_squared_hinge(t, op_in(t, p, 0), label);
}

/* The scale of a product whose inputs are signs, a constant of the backward. */
static qg_var *xnor_scale(qg_tape *t, const qg_params *p, void *context)
{
    float         *image = context;
    const qg_quant q     = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    gradcheck_fill(image, SIGNS, 0, 1, OP_KEY);
    return q.scheme->scale_output(t, q, qg_input(t, (qg_tensor){ signs, image }), (qg_windows){ 3, 3, 1, 1, 1 },
                                  op_in(t, p, 0));
}

static const op_row rows[] = {
    { "conv2d", conv,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 },
        { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d without bias", conv,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 } } },
    { "conv2d, stride 2, padding 1 2", conv_strided,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 2, 3 }, 0, 0 },
        { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d, 3x3 same", conv_same,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 3, 3 }, 0, 0 },
        { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "conv2d, 3x3 same, 16 channels (Winograd's)", conv_same,
      { { "x", { 1, 4, 4, 16 }, 0, 0 }, { "w", { 16, 3, 3, 16 }, 0, 0 },
        { "b", { 1, 1, 1, 16 }, 0, 0 } } },
    { "conv2d, padded with -1", conv_ones,
      { { "x", { 2, 7, 6, 3 }, 0, 0 }, { "w", { 4, 3, 3, 3 }, 0, 0 },
        { "b", { 1, 1, 1, 4 }, 0, 0 } } },
    { "dense", dense,
      { { "x", { 3, 2, 2, 5 }, 0, 0 }, { "w", { 7, 1, 1, 20 }, 0, 0 },
        { "b", { 1, 1, 1, 7 }, 0, 0 } } },
    { "dense without bias", dense,
      { { "x", { 3, 1, 1, 33 }, 0, 0 }, { "w", { 5, 1, 1, 33 }, 0, 0 } } },
    { "add", add,
      { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "z", { 2, 3, 1, 5 }, 0, 0 } } },
    { "add, x twice", twice,
      { { "x", { 2, 3, 1, 5 }, 0, 0 } } },
    { "scale", scale,
      { { "x", { 2, 3, 1, 5 }, 0, 0 } } },
    { "bias", bias,
      { { "x", { 2, 3, 1, 5 }, 0, 0 }, { "b", { 1, 1, 1, 5 }, 0, 0 } } },
    { "relu", relu,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "clip", clip,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "affine", affine,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "reshape", reshape,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "hardtanh", hardtanh,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "dropout", dropout,
      { { "x", { 3, 3, 1, 7 }, 0, 4 } } },
    { "maxpool 2", maxpool,
      { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "maxpool 3", maxpool3,
      { { "x", { 1, 6, 7, 3 }, 0, 8 } } },
    { "avgpool 2", avgpool,
      { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "global avgpool", global_avgpool,
      { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "shortcut, stride 2, 3 to 7 channels", shortcut,
      { { "x", { 2, 4, 5, 3 }, 0, 8 } } },
    { "xnor: scale of the product", xnor_scale,
      { { "y", { 2, 3, 4, 5 }, 0, 0 } } },
    { "cross entropy", cross_entropy,
      { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "squared hinge", squared_hinge,
      { { "x", { 5, 1, 1, 7 }, 0, 3 } } },
};

static qg_status check(int i, gradcheck_line *line)
{
    float image[SIGNS];
    return op_check(&rows[i], image, line);
}

const gradcheck_table gradcheck_ops = { "ops", sizeof rows / sizeof *rows, check };
