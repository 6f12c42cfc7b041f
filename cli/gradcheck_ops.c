/* Rows of qgrad gradcheck: the ops.  Values keep clear of every kink by more than 2h = 1/32 (relu,
 * clip, hinge), and those that compete for a maximum are more than 4h apart. */
#include "cli/gradcheck.h"

#include <string.h>

#include "core/ops.h"
#include "core/rng.h"
#include "quant/scheme.h"

enum { OPERANDS = 4, CHANNELS = 4, LABELS = 5, KEY = 11 };

typedef struct operand {
    const char *name;
    qg_shape    shape;
    float       centre, spread;         /* as gradcheck_fill; spread 0: 1 */
} operand;

/* What an op borrows beside its operands. */
typedef struct loan {
    float   mean[CHANNELS], var[CHANNELS];
    uint8_t label[LABELS];
    float   image[2 * 3 * 4 * 3];
} loan;

typedef struct op_row {
    const char *name;
    qg_var   *(*build)(qg_tape *t, const qg_params *p, void *context);
    operand     operand[OPERANDS];      /* ends with a NULL name */
} op_row;

/* Running statistics are updated by each step; every step of a check has the same before it. */
static qg_norm_spec start(loan *l)
{
    const float mean[CHANNELS] = { 0.5f, -1, 0.25f, 0 }, var[CHANNELS] = { 1, 2, 0.5f, 3 };
    memcpy(l->mean, mean, sizeof mean);
    memcpy(l->var, var, sizeof var);
    return (qg_norm_spec){ .mean = l->mean, .var = l->var };
}

/* Operand i; NULL if there is none. */
static qg_var *at(qg_tape *t, const qg_params *p, int i)
{
    return i < p->count ? qg_parameter(t, p->item[i]) : NULL;
}

static qg_var *conv(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), (qg_conv_spec){ 0 });
}

static qg_var *conv_strided(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, at(t, p, 0), at(t, p, 1), at(t, p, 2),
                     (qg_conv_spec){ .stride = 2, .pad_h = 1, .pad_w = 2 });
}

static qg_var *conv_same(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, at(t, p, 0), at(t, p, 1), at(t, p, 2),
                     (qg_conv_spec){ .pad_h = 1, .pad_w = 1 });
}

static qg_var *conv_ones(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_conv2d(t, at(t, p, 0), at(t, p, 1), at(t, p, 2),
                     (qg_conv_spec){ .pad_h = 1, .pad_w = 1, .pad_value = -1 });
}

static qg_var *dense(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_dense(t, at(t, p, 0), at(t, p, 1), at(t, p, 2));
}

static qg_var *add(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_add(t, at(t, p, 0), at(t, p, 1));
}

static qg_var *twice(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_add(t, at(t, p, 0), at(t, p, 0));
}

static qg_var *scale(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_scale(t, at(t, p, 0), -1.5f);
}

static qg_var *bias(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_bias(t, at(t, p, 0), at(t, p, 1));
}

static qg_var *relu(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_relu(t, at(t, p, 0));
}

static qg_var *clip(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_clip(t, at(t, p, 0), -1, 2);
}

static qg_var *affine(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_affine(t, at(t, p, 0), -3, 0.5f);
}

static qg_var *reshape(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_reshape(t, at(t, p, 0), (qg_shape){ 0, 1, 21, 1 });
}

static qg_var *hardtanh(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_hardtanh(t, at(t, p, 0));
}

static qg_var *dropout(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_dropout(t, at(t, p, 0), 0.4f);
}

static qg_var *maxpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_maxpool(t, at(t, p, 0), 2);
}

static qg_var *maxpool3(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_maxpool(t, at(t, p, 0), 3);
}

static qg_var *avgpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_avgpool(t, at(t, p, 0), 2);
}

static qg_var *global_avgpool(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_global_avgpool(t, at(t, p, 0));
}

static qg_var *shortcut(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    return qg_shortcut(t, at(t, p, 0), 2, 7);
}

static qg_var *norm(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *norm_frozen(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.frozen = true;
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *norm_relu(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.relu = true;
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *norm_pool(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.pool = 2;
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *norm_pool_relu(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.pool = 2;
    spec.relu = true;
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *norm_add(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.add = at(t, p, 3);
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

static qg_var *fold_weight(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_weight(t, at(t, p, 0), at(t, p, 1), start(context));
}

static qg_var *fold_bias(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_bias(t, at(t, p, 0), at(t, p, 1), start(context));
}

static qg_var *fold_correct(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_correct(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), at(t, p, 3), start(context));
}

static qg_var *cross_entropy(qg_tape *t, const qg_params *p, void *context)
{
    loan *l = context;
    return qg_cross_entropy(t, at(t, p, 0), l->label);
}

static qg_var *squared_hinge(qg_tape *t, const qg_params *p, void *context)
{
    loan *l = context;
    return qg_squared_hinge(t, at(t, p, 0), l->label);
}

/* y = x + a x^3 with a learned: an activation that qg_norm applies on its way. */
static void cubic(const qg_activation *f, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] + f->k[0] * x[i] * x[i] * x[i];
}

static void cubic_backward(const qg_activation *f, size_t n, const float *x, const float *dy,
                           float *dx, double *dk)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i], v = x[i];
        if (dk) dk[0] += (double)(g * v * v * v);
        dx[i] = g * (1 + 3 * f->k[0] * v * v);
    }
}

static qg_var *norm_activation(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec        spec = start(context);
    qg_var             *a = at(t, p, 3);
    const qg_activation f = { .forward   = cubic,
                              .backward  = cubic_backward,
                              .k         = { a->data[0] },
                              .n_learned = 1,
                              .learned   = { a } };
    spec.act = f;
    return qg_norm(t, at(t, p, 0), at(t, p, 1), at(t, p, 2), spec);
}

/* The scale of a product whose inputs are signs, a constant of the backward. */
static qg_var *xnor_scale(qg_tape *t, const qg_params *p, void *context)
{
    loan          *l = context;
    const qg_quant q = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    const qg_shape s = { 2, 3, 4, 3 };
    gradcheck_fill(l->image, qg_count(s), 0, 1, KEY);
    return q.scheme->scale_output(t, q, qg_input(t, (qg_tensor){ s, l->image }), (qg_windows){ 3, 3, 1, 1, 1 },
                                  at(t, p, 0));
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
    { "batch norm", norm,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm without gamma, beta", norm,
      { { "x", { 2, 4, 4, 2 }, 0, 4 } } },
    { "batch norm, frozen", norm_frozen,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm, relu", norm_relu,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 16 } } },
    { "batch norm, max pooling", norm_pool,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 0 } } },
    { "batch norm, max pooling, relu", norm_pool_relu,
      { { "x", { 2, 4, 4, 2 }, 0, 4 }, { "gamma", { 1, 1, 1, 2 }, 1, 0.5f },
        { "beta", { 1, 1, 1, 2 }, 0, 16 } } },
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
    { "xnor: scale of the product", xnor_scale,
      { { "y", { 2, 3, 4, 5 }, 0, 0 } } },
    { "cross entropy", cross_entropy,
      { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "squared hinge", squared_hinge,
      { { "x", { 5, 1, 1, 7 }, 0, 3 } } },
};

enum { ROWS = sizeof rows / sizeof *rows };

static qg_status declare(const op_row *row, qg_params *p)
{
    for (int i = 0; i < OPERANDS && row->operand[i].name; i++)
        if (!qg_params_declare(
                p, (qg_param){ .name = row->operand[i].name, .shape = row->operand[i].shape }))
            return QG_EMEM;
    const qg_status s = qg_params_allocate(p);
    for (int i = 0; i < p->count && !s; i++) {
        const operand *o = &row->operand[i];
        gradcheck_fill(p->item[i]->value, qg_count(o->shape), o->centre,
                       o->spread == 0 ? 1 : o->spread, qg_rng_fork(KEY, (uint64_t)i));
    }
    return s;
}

static qg_status check(int i, gradcheck_line *line)
{
    const op_row *row = &rows[i];
    loan          l   = { .label = { 3, 0, 6, 1, 3 } };
    qg_params     p   = { 0 };
    *line             = (gradcheck_line){ .name = row->name, .against = "differences" };
    qg_status s       = declare(row, &p);
    if (!s)
        s = qg_gradcheck(
            (qg_gradcheck_spec){
                .name = row->name, .params = &p, .build = row->build, .context = &l },
            &line->result);
    qg_params_release(&p);
    return s;
}

const gradcheck_table gradcheck_ops = { "ops", ROWS, check };
