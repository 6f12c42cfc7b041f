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
    qg_var     *x[OPERANDS];
    float      *memory;
    const void *spec;       /* of the row */
} operands;

typedef struct op_row {
    const char *name;
    /* One of these: an op that takes its operands alone, or a function that knows what else it takes. */
    qg_var   *(*of1)(qg_tape *t, qg_var *x);
    qg_var   *(*of2)(qg_tape *t, qg_var *x, qg_var *z);
    qg_var   *(*of3)(qg_tape *t, qg_var *x, qg_var *w, qg_var *b);
    qg_var   *(*build)(qg_tape *t, const operands *o);
    const void *spec;       /* which build reads */
    struct {
        const char *name;
        qg_shape    shape;
        float       centre, spread;     /* as gradcheck_fill; spread 0: 1 */
    } on[OPERANDS];         /* ends with a NULL name, or is full */
} op_row;

static const uint16_t label[] = { 3, 0, 6, 1, 3 };

/* --- ops with arguments -------------------------------------------------------------------- */

static const qg_conv_spec plain = { 0 }, same = { .pad_h = 1, .pad_w = 1 };
static const qg_conv_spec strided = { .stride = 2, .pad_h = 1, .pad_w = 2 };
static const qg_conv_spec ones    = { .pad_h = 1, .pad_w = 1, .pad_value = -1 };
static const qg_conv_spec uneven  = { .stride = 2, .extra_h = 1, .pad_w = 1, .extra_w = 1 };
static const qg_conv_spec grouped = { .pad_h = 1, .pad_w = 1, .groups = 3 };
static const qg_conv_spec depthwise = { .pad_h = 1, .pad_w = 1, .groups = 5 };
static const qg_conv_spec depthwise_strided = {
    .stride = 2, .extra_h = 1, .extra_w = 1, .pad_value = -1, .groups = 5
};

static qg_var *conv(qg_tape *t, const operands *o)
{
    return qg_conv2d(t, o->x[0], o->x[1], o->x[2], *(const qg_conv_spec *)o->spec);
}

static const qg_pool_spec twos = { .size = 2 }, threes = { .size = 3 };
static const qg_pool_spec overlap = { .size = 3, .stride = 2, .pad = 1 };
static const qg_pool_spec overlap_own = { .size = 3, .stride = 2, .pad = 1, .exclude_pad = true };

static qg_var *maxpool(qg_tape *t, const operands *o)
{
    return qg_maxpool_with(t, o->x[0], *(const qg_pool_spec *)o->spec);
}

static qg_var *avgpool(qg_tape *t, const operands *o)
{
    return qg_avgpool_with(t, o->x[0], *(const qg_pool_spec *)o->spec);
}

static const unsigned channels = QG_AXIS_C, columns = QG_AXIS_N | QG_AXIS_W;
static const unsigned pixels = QG_AXIS_H | QG_AXIS_W, all = QG_AXES;

static qg_var *sum(qg_tape *t, const operands *o)  { return qg_sum(t, o->x[0], *(const unsigned *)o->spec); }
static qg_var *mean(qg_tape *t, const operands *o) { return qg_mean(t, o->x[0], *(const unsigned *)o->spec); }

static qg_var *square(qg_tape *t, const operands *o) { return qg_mul(t, o->x[0], o->x[0]); }
static qg_var *twice(qg_tape *t, const operands *o) { return qg_add(t, o->x[0], o->x[0]); }
static qg_var *scale(qg_tape *t, const operands *o) { return qg_scale(t, o->x[0], -1.5f); }
static qg_var *clip(qg_tape *t, const operands *o) { return qg_clip(t, o->x[0], -1, 2); }
static qg_var *affine(qg_tape *t, const operands *o) { return qg_affine(t, o->x[0], -3, 0.5f); }
static qg_var *reshape(qg_tape *t, const operands *o) { return qg_reshape(t, o->x[0], (qg_shape){ 0, 1, 21, 1 }); }
static qg_var *rprelu(qg_tape *t, const operands *o) { return qg_rprelu(t, o->x[0], o->x[1], o->x[2], o->x[3]); }
static qg_var *broadcast(qg_tape *t, const operands *o) { return qg_broadcast(t, o->x[0], (qg_shape){ 2, 4, 5, 3 }); }
static qg_var *concat(qg_tape *t, const operands *o) { return qg_concat(t, 3, o->x); }

static qg_var *slice(qg_tape *t, const operands *o)
{
    return qg_slice(t, o->x[0], (qg_shape){ 0, 1, 2, 1 }, (qg_shape){ 1, 2, 0, 2 });
}

static qg_var *dropout(qg_tape *t, const operands *o) { return qg_dropout(t, o->x[0], 0.4f); }
static qg_var *shortcut(qg_tape *t, const operands *o) { return qg_shortcut(t, o->x[0], 2, 7); }
static qg_var *kl(qg_tape *t, const operands *o) { return qg_kl(t, o->x[0], o->x[1], 3); }

static const qg_cross_entropy_spec smoothed = { .smoothing = 0.1f }, hard = { 0 };

static qg_var *cross_entropy(qg_tape *t, const operands *o)
{
    return qg_cross_entropy_with(t, o->x[0], label, *(const qg_cross_entropy_spec *)o->spec);
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

static const qg_norm_spec learning = { 0 }, frozen = { .frozen = true };

static qg_var *norm(qg_tape *t, const operands *o)
{
    return qg_norm(t, o->x[0], o->x[1], o->x[2], with_statistics(o, *(const qg_norm_spec *)o->spec));
}

static const qg_norm_fusion relu = { .relu = true }, pool = { .pool = 2 };
static const qg_norm_fusion pool_relu = { .pool = 2, .relu = true };

static qg_var *fused_with(qg_tape *t, const operands *o, qg_norm_fusion with)
{
    return qg_norm_fused(t, o->x[0], o->x[1], o->x[2], with_statistics(o, learning), with);
}

static qg_var *fused(qg_tape *t, const operands *o)
{
    return fused_with(t, o, *(const qg_norm_fusion *)o->spec);
}

static qg_var *fused_add(qg_tape *t, const operands *o)
{
    return fused_with(t, o, (qg_norm_fusion){ .add = o->x[3] });
}

static qg_var *fold_weight(qg_tape *t, const operands *o)
{
    return qg_fold_weight(t, o->x[0], o->x[1], with_statistics(o, learning));
}

static qg_var *fold_bias(qg_tape *t, const operands *o)
{
    return qg_fold_bias(t, o->x[0], o->x[1], with_statistics(o, learning));
}

static qg_var *fold_correct(qg_tape *t, const operands *o)
{
    return qg_fold_correct(t, o->x[0], o->x[1], o->x[2], o->x[3], with_statistics(o, learning));
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
    return fused_with(t, o, (qg_norm_fusion){ .act = f });
}

/* --- rows --------------------------------------------------------------------------------- */

/* Operands by the usual name and shape; values of the last two reach beyond 1. */
#define X(n, h, w, c) { "x", { n, h, w, c }, 0, 0 }
#define W(n, h, w, c) { "w", { n, h, w, c }, 0, 0 }
#define Z(n, h, w, c) { "z", { n, h, w, c }, 0, 0 }
#define B(c)          { "b", { 1, 1, 1, c }, 0, 0 }
#define FEW           X(2, 3, 1, 5)
#define VALUES        { "x", { 3, 3, 1, 7 }, 0, 4 }
#define IMAGES        { "x", { 2, 4, 5, 3 }, 0, 8 }

static const op_row ops[] = {
    { "conv2d", .build = conv, .spec = &plain, .on = { X(2, 7, 6, 3), W(4, 3, 2, 3), B(4) } },
    { "conv2d without bias", .build = conv, .spec = &plain, .on = { X(2, 7, 6, 3), W(4, 3, 2, 3) } },
    { "conv2d, stride 2, padding 1 2", .build = conv, .spec = &strided, .on = { X(2, 7, 6, 3), W(4, 3, 2, 3), B(4) } },
    { "conv2d, 3x3 same", .build = conv, .spec = &same, .on = { X(2, 7, 6, 3), W(4, 3, 3, 3), B(4) } },
    { "conv2d, 3x3 same, 16 channels (Winograd's)", .build = conv, .spec = &same,
      .on = { X(1, 4, 4, 16), W(16, 3, 3, 16), B(16) } },
    { "conv2d, padded with -1", .build = conv, .spec = &ones, .on = { X(2, 7, 6, 3), W(4, 3, 3, 3), B(4) } },
    { "conv2d-same, stride 2", .build = conv, .spec = &uneven, .on = { X(2, 6, 7, 3), W(4, 3, 4, 3), B(4) } },
    { "conv2d-grouped", .build = conv, .spec = &grouped, .on = { X(2, 5, 4, 6), W(9, 3, 3, 2), B(9) } },
    { "conv2d-depthwise", .build = conv, .spec = &depthwise, .on = { X(2, 5, 4, 5), W(5, 3, 3, 1), B(5) } },
    { "conv2d-depthwise, 2 outputs each", .build = conv, .spec = &depthwise,
      .on = { X(2, 5, 4, 5), W(10, 3, 3, 1), B(10) } },
    { "conv2d-depthwise, stride 2, padded with -1", .build = conv, .spec = &depthwise_strided,
      .on = { X(2, 6, 8, 5), W(5, 3, 3, 1) } },
    { "dense", .of3 = qg_dense, .on = { X(3, 2, 2, 5), W(7, 1, 1, 20), B(7) } },
    { "dense without bias", .of3 = qg_dense, .on = { X(3, 1, 1, 33), W(5, 1, 1, 33) } },
    { "add", .of2 = qg_add, .on = { FEW, Z(2, 3, 1, 5) } },
    { "add, x twice", .build = twice, .on = { FEW } },
    { "sub", .of2 = qg_sub, .on = { FEW, Z(2, 3, 1, 5) } },
    { "mul", .of2 = qg_mul, .on = { FEW, Z(2, 3, 1, 5) } },
    { "mul, x twice", .build = square, .on = { FEW } },
    { "scale", .build = scale, .on = { FEW } },
    { "bias", .of2 = qg_bias, .on = { FEW, B(5) } },
    { "relu", .of1 = qg_relu, .on = { VALUES } },
    { "clip", .build = clip, .on = { VALUES } },
    { "affine", .build = affine, .on = { VALUES } },
    { "reshape", .build = reshape, .on = { VALUES } },
    { "hardtanh", .of1 = qg_hardtanh, .on = { VALUES } },
    { "sigmoid", .of1 = qg_sigmoid, .on = { VALUES } },
    { "tanh", .of1 = qg_tanh, .on = { VALUES } },
    { "prelu", .of2 = qg_prelu, .on = { VALUES, { "a", { 1, 1, 1, 7 }, 0.25f, 0 } } },
    { "prelu, one slope", .of2 = qg_prelu, .on = { VALUES, { "a", { 1, 1, 1, 1 }, 0.25f, 0 } } },
    { "rprelu", .build = rprelu,            /* x - g is 1/16 - 1/64 or more from 0 */
      .on = { VALUES, { "g", { 1, 1, 1, 7 }, 0, 1.0f / 64 }, { "a", { 1, 1, 1, 7 }, 0.25f, 0 }, Z(1, 1, 1, 7) } },
    { "softmax", .of1 = qg_softmax, .on = { VALUES } },
    { "sum over channels", .build = sum, .spec = &channels, .on = { IMAGES } },
    { "sum over images and columns", .build = sum, .spec = &columns, .on = { IMAGES } },
    { "mean over pixels", .build = mean, .spec = &pixels, .on = { IMAGES } },
    { "mean over all", .build = mean, .spec = &all, .on = { IMAGES } },
    { "broadcast", .build = broadcast, .on = { { "x", { 2, 1, 1, 3 }, 0, 8 } } },
    { "concat", .build = concat, .on = { X(2, 4, 5, 3), Z(2, 4, 5, 1), { "v", { 2, 4, 5, 2 }, 0, 0 } } },
    { "slice", .build = slice, .on = { IMAGES } },
    { "dropout", .build = dropout, .on = { VALUES } },
    { "maxpool 2", .build = maxpool, .spec = &twos, .on = { IMAGES } },
    { "maxpool 3", .build = maxpool, .spec = &threes, .on = { { "x", { 1, 6, 7, 3 }, 0, 8 } } },
    { "avgpool 2", .build = avgpool, .spec = &twos, .on = { IMAGES } },
    { "maxpool 3, stride 2, padded", .build = maxpool, .spec = &overlap, .on = { IMAGES } },
    { "avgpool 3, stride 2, padded", .build = avgpool, .spec = &overlap, .on = { IMAGES } },
    { "avgpool 3, stride 2, padding excluded", .build = avgpool, .spec = &overlap_own, .on = { IMAGES } },
    { "global avgpool", .of1 = qg_global_avgpool, .on = { IMAGES } },
    { "shortcut, stride 2, 3 to 7 channels", .build = shortcut, .on = { IMAGES } },
    { "xnor: scale of the product", .build = xnor_scale, .on = { { "y", { 2, 3, 4, 5 }, 0, 0 } } },
    { "cross entropy", .build = cross_entropy, .spec = &hard, .on = { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "cross entropy, smoothed labels", .build = cross_entropy, .spec = &smoothed, .on = { { "x", { 5, 1, 1, 7 }, 0, 2 } } },
    { "KL, temperature 3", .build = kl, .on = { { "x", { 5, 1, 1, 7 }, 0, 2 }, { "z", { 5, 1, 1, 7 }, 0, 3 } } },
    { "mean squared error", .of2 = qg_mse, .on = { { "x", { 5, 2, 1, 7 }, 0, 2 }, { "z", { 5, 2, 1, 7 }, 0, 3 } } },
    { "squared hinge", .build = squared_hinge, .on = { { "x", { 5, 1, 1, 7 }, 0, 3 } } },
};

#define SMALL        { "x", { 2, 4, 4, 2 }, 0, 4 }
#define GAMMA(c)     { "gamma", { 1, 1, 1, c }, 1, 0.5f }
#define BETA(c)      { "beta", { 1, 1, 1, c }, 0, 0 }
#define FAR_BETA(c)  { "beta", { 1, 1, 1, c }, 0, 16 }         /* of which relu keeps about half */

static const op_row norms[] = {
    { "batch norm", .build = norm, .spec = &learning, .on = { SMALL, GAMMA(2), BETA(2) } },
    { "batch norm without gamma, beta", .build = norm, .spec = &learning, .on = { SMALL } },
    { "batch norm, frozen", .build = norm, .spec = &frozen, .on = { SMALL, GAMMA(2), BETA(2) } },
    { "batch norm, relu", .build = fused, .spec = &relu, .on = { SMALL, GAMMA(2), FAR_BETA(2) } },
    { "batch norm, max pooling", .build = fused, .spec = &pool, .on = { SMALL, GAMMA(2), BETA(2) } },
    { "batch norm, max pooling, relu", .build = fused, .spec = &pool_relu, .on = { SMALL, GAMMA(2), FAR_BETA(2) } },
    { "batch norm, shortcut", .build = fused_add, .on = { SMALL, GAMMA(2), BETA(2), { "add", { 2, 4, 4, 2 }, 0, 0 } } },
    { "batch norm, learned activation", .build = norm_activation,
      .on = { SMALL, GAMMA(2), BETA(2), { "a", { 1, 1, 1, 1 }, 0.3f, 0 } } },
    { "batch norm folded, weight", .build = fold_weight, .on = { W(4, 3, 2, 3), GAMMA(4) } },
    { "batch norm folded, bias", .build = fold_bias, .on = { GAMMA(4), BETA(4) } },
    { "batch norm folded, correction", .build = fold_correct,
      .on = { { "y", { 2, 4, 4, 2 }, 0, 4 }, { "z", { 2, 4, 4, 2 }, 0, 4 }, GAMMA(2), BETA(2) } },
};

/* --- checks ------------------------------------------------------------------------------- */

typedef struct check {
    const op_row *row;
    float         memory[MEMORY];
} check;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    check        *k   = context;
    const op_row *row = k->row;
    operands      o   = { .memory = k->memory, .spec = row->spec };
    for (int i = 0; i < p->count; i++) o.x[i] = qg_parameter(t, p->item[i]);
    if (row->of1) return row->of1(t, o.x[0]);
    if (row->of2) return row->of2(t, o.x[0], o.x[1]);
    return row->of3 ? row->of3(t, o.x[0], o.x[1], o.x[2]) : row->build(t, &o);
}

static qg_status declare(const op_row *row, qg_params *p)
{
    for (int i = 0; i < OPERANDS && row->on[i].name; i++)
        if (!qg_params_declare(p, (qg_param){ .name = row->on[i].name, .shape = row->on[i].shape }))
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
        const float spread = row->on[i].spread;
        gradcheck_fill(p.item[i]->value, qg_count(p.item[i]->shape), row->on[i].centre, spread == 0 ? 1 : spread,
                       qg_rng_fork(KEY, (uint64_t)i));
    }
    if (!s)
        s = qg_gradcheck((qg_gradcheck_spec){ .name = row->name, .params = &p, .build = build, .context = &k },
                         &line.result);
    qg_params_release(&p);
    if (!s) gradcheck_add(r, &line);
    return s;
}

static qg_status check_rows(const op_row *row, size_t n, gradcheck_report *r)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < n && !s; i++) s = check_row(&row[i], r);
    return s;
}

qg_status gradcheck_ops(gradcheck_report *r, unsigned role)
{
    return check_rows(ops, sizeof ops / sizeof *ops, r);
}

qg_status gradcheck_norms(gradcheck_report *r, unsigned role)
{
    return check_rows(norms, sizeof norms / sizeof *norms, r);
}
