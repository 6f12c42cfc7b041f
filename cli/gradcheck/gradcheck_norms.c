/* Rows of qgrad gradcheck: batch norm, alone, with what qg_norm does on its way, and folded.  Values keep
 * clear of every kink, and of each other, as in cli/gradcheck/gradcheck_ops.c. */
#include <string.h>

#include "cli/gradcheck/gradcheck_op.h"

enum { CHANNELS = 4 };

typedef struct running {
    float mean[CHANNELS], var[CHANNELS];
} running;

/* Running statistics are updated by each step; every step of a check has the same before it. */
static qg_norm_spec start(void *context)
{
    running *r = context;
    const float mean[CHANNELS] = { 0.5f, -1, 0.25f, 0 }, var[CHANNELS] = { 1, 2, 0.5f, 3 };
    memcpy(r->mean, mean, sizeof mean);
    memcpy(r->var, var, sizeof var);
    return (qg_norm_spec){ .mean = r->mean, .var = r->var };
}

static qg_var *norm_with(qg_tape *t, const qg_params *p, qg_norm_spec spec)
{
    return qg_norm(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2), spec);
}

static qg_var *norm(qg_tape *t, const qg_params *p, void *context)
{
    return norm_with(t, p, start(context));
}

static qg_var *norm_frozen(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.frozen = true;
    return norm_with(t, p, spec);
}

static qg_var *norm_relu(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.relu = true;
    return norm_with(t, p, spec);
}

static qg_var *norm_pool(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.pool = 2;
    return norm_with(t, p, spec);
}

static qg_var *norm_pool_relu(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.pool = 2;
    spec.relu = true;
    return norm_with(t, p, spec);
}

static qg_var *norm_add(qg_tape *t, const qg_params *p, void *context)
{
    qg_norm_spec spec = start(context);
    spec.add = op_in(t, p, 3);
    return norm_with(t, p, spec);
}

static qg_var *fold_weight(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_weight(t, op_in(t, p, 0), op_in(t, p, 1), start(context));
}

static qg_var *fold_bias(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_bias(t, op_in(t, p, 0), op_in(t, p, 1), start(context));
}

static qg_var *fold_correct(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_correct(t, op_in(t, p, 0), op_in(t, p, 1), op_in(t, p, 2), op_in(t, p, 3), start(context));
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
    qg_var             *a = op_in(t, p, 3);
    const qg_activation f = { .forward   = cubic,
                              .backward  = cubic_backward,
                              .k         = { a->data[0] },
                              .n_learned = 1,
                              .learned   = { a } };
    spec.act = f;
    return norm_with(t, p, spec);
}

static const op_row rows[] = {
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
};

static qg_status check(int i, gradcheck_line *line)
{
    running r;
    return op_check(&rows[i], &r, line);
}

const gradcheck_table gradcheck_norms = { "batch norm", sizeof rows / sizeof *rows, check };
