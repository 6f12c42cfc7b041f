/* The two layers that multiply: conv2d and dense.  Each has a latent weight, three quantizer slots and
 * possibly a bias; they differ in shapes and in the op they record. */
#include <limits.h>
#include <stdio.h>

#include "core/ops/conv2d.h"
#include "core/rng.h"
#include "layers/evaluate.h"
#include "layers/integer.h"

typedef struct conv2d {
    qg_product     product;
    qg_conv2d_spec spec;            /* as declared; its quantizers and no_bias are the product's */
} conv2d;

typedef struct dense {
    qg_product product;
    int        out;
} dense;

/* --- what they share ---------------------------------------------------------------------- */

/* Subtracts the mean of the n weights w from each, then clips them. */
static void centre(const qg_param *p, float *w, size_t n)
{
    const float bound = p->clip > 0 ? p->clip : INFINITY;
    double      sum   = 0;
    for (size_t i = 0; i < n; i++) sum += (double)w[i];
    const float mean = (float)(sum / (double)n);
    for (size_t i = 0; i < n; i++) w[i] = qg_clipped(w[i] - mean, bound);
}

/* Projections (qg_param.project) of latent weights: their mean over the input channels becomes 0,
 * for each pixel of a kernel, or over all inputs of a dense layer. */
static void centre_pixels(const qg_param *p, float *row)
{
    const size_t n = (size_t)p->shape.c;
    for (float *w = row, *end = row + qg_row(p->shape); w < end; w += n) centre(p, w, n);
}

static void centre_row(const qg_param *p, float *row) { centre(p, row, qg_row(p->shape)); }

/* Declares weight, bias and the learned values of the slots.  w, x: shapes of the weight and of an
 * image; rank: axes of the weight in files; inputs: input channels of one output; fan_out: see
 * start. */
static qg_status declare(qg_product *p, qg_shape w, int rank, size_t inputs, double fan_out, qg_shape x)
{
    qg_layer        *l       = &p->layer;
    const qg_quant   q       = p->weight_slot.q;
    const qg_scheme *scheme  = q.scheme;
    const bool       centred = scheme && scheme->centred, pixels = inputs < qg_row(w);
    if (centred && inputs == 1)
        return qg_fail(QG_EARG, "%s: %s with centred latent weights has a single input channel: "
                       "all its weights would be 0", l->name, scheme->name);
    p->weight = qg_layer_declare(
        l, "weight",
        (qg_param){ .shape    = w,
                    .rank     = rank,
                    .group    = QG_WEIGHTS,
                    .clip     = scheme ? scheme->clip : 0,
                    .flips    = scheme && scheme->flips,
                    .project  = !centred ? NULL : pixels ? centre_pixels : centre_row,
                    .lr_scale = scheme && scheme->lr_scale ? scheme->lr_scale(q, (double)qg_row(w), fan_out) : 0 });
    if (!p->weight) return qg_errcode();
    p->weight_slot.of = p->weight;
    p->batchnorm = qg__only_batchnorm(l);       /* it would subtract a bias again */
    if (!p->no_bias && !p->batchnorm) {
        p->bias = qg_layer_declare(l, "bias", (qg_param){ .shape = { 1, 1, 1, w.n }, .group = QG_BIASES });
        if (!p->bias) return qg_errcode();
    }
    qg_status s = qg_slot_declare(l, &p->weight_slot, QG_WEIGHT, w);
    p->weight_slot.bound.inputs = inputs;
    if (!s) s = qg_slot_declare(l, &p->input_slot, QG_INPUT, x);
    return s ? s : qg_slot_declare(l, &p->gradient_slot, QG_GRADIENT, l->out);
}

/* Weight i is drawn from (key, i), as qg_initial_weights says. */
static void draw(uint64_t key, qg_initial_weights initial, double fan_in, double fan_out, size_t n, float *w)
{
    const float bound = (float)sqrt(6.0 / (fan_in + fan_out)), deviation = (float)sqrt(2.0 / fan_in);
    for (size_t i = 0; i < n; i++)
        w[i] = initial == QG_INITIAL_HE ? deviation * qg_normal(key, i)
                                        : bound * (2.0f * qg_uniform(key, i) - 1.0f);
}

static void start(qg_product *p, uint64_t key, double fan_out)
{
    const qg_shape w = p->weight->shape;
    draw(key, p->layer.net->spec.initial_weights, (double)qg_row(w), fan_out, qg_count(w), p->weight->value);
    qg_param_project(p->weight);
    qg_slot_start(&p->weight_slot, (qg_tensor){ w, p->weight->value });
    qg_slot_start(&p->input_slot, (qg_tensor){ .shape = p->layer.in });
}

static qg_var *quantized_weight(const qg_product *p, qg_tape *t)
{
    return qg_slot_apply(&p->weight_slot, t, qg_parameter(t, p->weight));
}

static qg_var *bias(const qg_product *p, qg_tape *t) { return p->bias ? qg_parameter(t, p->bias) : NULL; }

/* Whether the input quantizer also scales the result, as XNOR-Net's does; a bias is added
 * afterwards. */
static bool scales_output(const qg_product *p, const qg_tape *t)
{
    const qg_quant q = p->input_slot.q;
    return t && q.scheme && q.scheme->scale_output && !qg__quant_is_delayed(q, qg_tape_step(t));
}

/* Records y = x w^T + b, a convolution or a dense product; b may be NULL. */
typedef qg_var *(*multiply)(const qg_step *s, qg_tape *t, qg_var *x, qg_var *w, qg_var *b);

/* Records a product, and the quantizer of its gradient, which runs before the backward of the
 * product. */
static qg_var *slotted_product(const qg_step *s, qg_tape *t, multiply product, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_slot_apply(&((const qg_product *)s->layer)->gradient_slot, t, product(s, t, x, w, b));
}

/* What conv2d and dense differ in: the product, the shape of its result, and the op that QG_EVAL
 * records in its place. */
typedef struct product_ops {
    multiply      product;
    qg_shape    (*shape)(const qg_step *s, qg_tape *t, const qg_var *x, const qg_var *w);
    const qg_op   evaluated;
} product_ops;

/* The product and the batch norm after it, which is folded into the weight before that is
 * quantized:
 *
 *     y = x Q(w gamma / sqrt(var + eps))^T + beta - mean gamma / sqrt(var + eps)
 *
 * With statistics of the batch, var and mean are those of z = x w^T, so there are two products
 * (core/ops/ops.h, qg_fold_weight). */
static qg_var *folded(const qg_step *s, qg_tape *t, qg_var *x, multiply product)
{
    const qg_product   *p     = (const qg_product *)s->layer;
    const qg_batchnorm *bn    = s->norm;
    const qg_norm_spec  spec  = qg__batchnorm_spec(bn, t);
    qg_var             *gamma = bn->gamma ? qg_parameter(t, bn->gamma) : NULL;
    qg_var             *beta  = qg_parameter(t, bn->beta);
    qg_var             *w     = qg_parameter(t, p->weight);
    qg_var             *q     = qg_slot_apply(&p->weight_slot, t, qg_fold_weight(t, w, gamma, spec));
    if (spec.frozen)
        return slotted_product(s, t, product, x, q, qg_fold_bias(t, gamma, beta, spec));
    /* C leaves the order of arguments open, and bits depend on it. */
    qg_var *z = slotted_product(s, t, product, x, w, NULL);
    return qg_fold_correct(t, slotted_product(s, t, product, x, q, NULL), z, gamma, beta, spec);
}

static qg_var *biased(const qg_product *p, qg_tape *t, qg_var *y) { return p->bias ? qg_bias(t, y, bias(p, t)) : y; }

/* The result y of a product, scaled by the input quantizer, plus the bias. */
static qg_var *scaled(const qg_product *p, qg_tape *t, qg_var *x, qg_var *y)
{
    const qg_quant     q       = p->input_slot.q;
    const qg_shape     w       = p->weight->shape;
    const qg_conv_spec c       = p->conv;
    qg_windows         windows = { w.h, w.w, c.stride, c.pad_h, c.pad_w };
    if (!x || !y) return NULL;
    /* A dense layer reads any input with as many numbers. */
    if (p->layer.type == &qg__dense_type)
        windows = (qg_windows){ x->shape.h, x->shape.w, 1, 0, 0 };
    return biased(p, t, q.scheme->scale_output(t, q, x, windows, y));
}

/* Whether the product also sums its results per channel, for the batch statistics of the batch norm
 * after it. */
static bool sums_results(const qg_step *s, const qg_tape *t)
{
    const qg_product *p = (const qg_product *)s->layer;
    if (!p->batchnorm || s->norm || scales_output(p, t)) return false;
    return !qg__batchnorm_spec(p->batchnorm, t).frozen;
}

/* The product in QG_EVAL, folded and scaled or not (layers/evaluate.h).  q: x quantized. */
static qg_var *evaluated(const qg_step *s, qg_tape *t, qg_var *x, qg_var *q, const product_ops *k)
{
    const qg_product *p = (const qg_product *)s->layer;
    const qg_var     *w = qg_parameter(t, p->weight);
    const qg_shape    shape = q && w ? k->shape(s, t, q, w) : (qg_shape){ 0 };
    if (!shape.n) return NULL;
    qg_var *y = qg__evaluate(s, t, q, &k->evaluated, shape);
    if (!p->input_slot.q.scheme || !p->input_slot.q.scheme->scale_output) return y;
    return scales_output(p, t) ? scaled(p, t, x, y) : biased(p, t, y);
}

/* Runs a product, where Q quantizes the input, the weight, or the gradient on its way back:
 *
 *     y = Q(x) Q(w)^T + b,   dL/dy replaced by Q(dL/dy)
 */
static qg_var *run(const qg_step *s, qg_tape *t, qg_var *x, const product_ops *k)
{
    const qg_product *p = (const qg_product *)s->layer;
    qg_var           *q = s->input_done ? x : qg_slot_apply(&p->input_slot, t, x);
    const multiply    product = k->product;
    if (q && qg_tape_mode(t) == QG_EVAL) return evaluated(s, t, x, q, k);
    if (s->norm) return folded(s, t, q, product);
    if (qg_layer_trains_in_integers(s->layer)) {
        bool    taken;
        qg_var *w = quantized_weight(p, t), *b = bias(p, t);
        qg_var *y = qg__integer_conv2d(s, t, q, w, b, sums_results(s, t), &taken);
        return taken ? y : slotted_product(s, t, product, q, w, b);
    }
    if (!scales_output(p, t)) return slotted_product(s, t, product, q, quantized_weight(p, t), bias(p, t));
    qg_var *y = scaled(p, t, x, product(s, t, q, quantized_weight(p, t), NULL));
    return qg_slot_apply(&p->gradient_slot, t, y);
}

/* The batch norm folded into the weight of p; NULL: none. */
static const qg_batchnorm *folded_norm(const qg_product *p)
{
    const qg_step *s = qg__net_step(p->layer.net, &p->layer);
    return s ? s->norm : NULL;
}

bool qg_product_is_folded(const qg_product *p) { return folded_norm(p) != NULL; }

qg_tensor qg__product_weight(const qg_product *p, float *folded)
{
    const qg_batchnorm *bn    = folded_norm(p);
    const qg_shape      shape = p->weight->shape;
    if (!bn) return (qg_tensor){ shape, p->weight->value };
    const qg_norm_spec spec = { .var = bn->var->value, .eps = bn->spec.eps };
    const size_t       row  = qg_row(shape);
    for (size_t o = 0; o < (size_t)shape.n; o++) {
        const float a = qg__fold_factor(spec, bn->gamma ? bn->gamma->value : NULL, o);
        for (size_t i = o * row; i < (o + 1) * row; i++) folded[i] = p->weight->value[i] * a;
    }
    return (qg_tensor){ shape, folded };
}

/* The step of a batch norm before l takes over the quantizer of l's input, if that is elementwise,
 * but not the product itself: false. */
static bool join(qg_layer *l, qg_step *s)
{
    const qg_product *p = (const qg_product *)l;
    if (!qg__quant_fuses(p->input_slot.q)) return false;
    s->slot = &p->input_slot;
    l->net->step[l->index].input_done = true;
    return false;
}

static qg_slot *product_slot(qg_layer *l, qg_role role)
{
    qg_product *p = (qg_product *)l;
    return role == QG_WEIGHT ? &p->weight_slot : role == QG_INPUT ? &p->input_slot : &p->gradient_slot;
}

static qg_layer *set_common(qg_product *p, bool no_bias, qg_quant weight, qg_quant input, qg_quant gradient)
{
    p->no_bias         = no_bias;
    p->weight_slot.q   = weight;
    p->input_slot.q    = input;
    p->gradient_slot.q = gradient;
    return &p->layer;
}

/* --- conv2d ------------------------------------------------------------------------------- */

#define AT(field) .at = offsetof(conv2d, field)
static const qg_key conv2d_keys[] = {
    { .name = "out", .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.out) },
    { .name = "kernel", .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.kernel) },
    { .name = "kernel-w", .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.kernel_w) },
    { .name = "stride", .fallback = 1, .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.stride) },
    { .name = "pad", .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.pad) },
    { .name = "same", .is = QG_KEY_FLAG, AT(spec.same) },
    { .name = "groups", .fallback = 1, .min = QG_DEPTHWISE, .max = INT_MAX, .is = QG_KEY_WHOLE, AT(spec.groups) },
    { .name = "pad-value", .min = -INFINITY, .max = INFINITY, AT(spec.pad_value) },
    { .name = "no-bias", .is = QG_KEY_FLAG, AT(product.no_bias) },
    { .name = NULL }
};

enum { MOST_PAD = 1 << 20 };    /* larger sizes may overflow an int */

static double conv2d_fan_out(const conv2d *c, qg_shape w)
{
    return (double)(qg_count(w) / (size_t)w.c / (size_t)c->product.conv.groups);
}

/* Padding of an extent, on both sides together, for ceil(extent / stride) windows. */
static int same_padding(int extent, int kernel, int stride)
{
    const int last = (extent - 1) / stride * stride;            /* where the last window begins */
    return kernel > extent - last ? kernel - (extent - last) : 0;
}

static qg_status check_numbers(const char *name, qg_conv2d_spec s)
{
    if (s.out < 1 || s.kernel < 1 || s.kernel_w < 1 || s.stride < 1 || s.pad < 0)
        return qg_fail(QG_EARG,
                       "%s: out %d, kernel %dx%d, stride %d must be at least 1 and pad %d at least 0",
                       name, s.out, s.kernel, s.kernel_w, s.stride, s.pad);
    if (!isfinite(s.pad_value))
        return qg_fail(QG_EARG, "%s: pad_value is %g, must be a finite number", name, (double)s.pad_value);
    if (s.pad > MOST_PAD) return qg_fail(QG_EARG, "%s: pad is %d, must be 0..%d", name, s.pad, MOST_PAD);
    if (s.same && s.pad)
        return qg_fail(QG_EARG, "%s: pad is %d, but same chooses the padding; set only one", name, s.pad);
    return QG_OK;
}

static qg_status check_groups(const conv2d *c, int groups, int out)
{
    const qg_layer  *l     = &c->product.layer;
    const qg_scheme *input = c->product.input_slot.q.scheme;
    if (groups < 1)
        return qg_fail(QG_EARG, "%s: groups is %d, must be at least 1, or QG_DEPTHWISE", l->name, groups);
    if (l->in.c % groups || out % groups)
        return qg_fail(QG_EARG, "%s: %d groups do not divide its %d input channels and %d output channels", l->name,
                       groups, l->in.c, out);
    if (groups > 1 && input && input->scale_output)
        return qg_fail(QG_EARG, "%s: %s scales each result by a mean over all input channels, but its %d groups read "
                       "only some of them; %s:scale=off does not scale", l->name, input->name, groups,
                       input->name);
    return QG_OK;
}

static qg_status conv2d_build(qg_layer *l)
{
    conv2d        *c = (conv2d *)l;
    qg_conv2d_spec s = c->spec;
    const bool depthwise = s.groups == QG_DEPTHWISE;
    if (depthwise && s.out == 0) s.out = l->in.c;
    if (s.kernel_w == 0) s.kernel_w = s.kernel;
    const int groups = depthwise ? l->in.c : s.groups;
    qg_status status = check_numbers(l->name, s);
    if (!status) status = check_groups(c, groups, s.out);
    if (status) return status;
    const int down   = s.same ? same_padding(l->in.h, s.kernel, s.stride) : 2 * s.pad;
    const int across = s.same ? same_padding(l->in.w, s.kernel_w, s.stride) : 2 * s.pad;
    if (!qg__row_fits((long long)l->in.h + down, (long long)l->in.w + across, l->in.c))
        return qg_fail(QG_ESHAPE, "%s: its input " QG_SHAPE_FMT " padded by %d is too large", l->name,
                       QG_SHAPE_ARGS(l->in), down / 2);
    const int h = l->in.h + down, w = l->in.w + across;
    if (h < s.kernel || w < s.kernel_w)
        return qg_fail(QG_ESHAPE, "%s: kernel %dx%d is larger than its input " QG_SHAPE_FMT " padded by %d",
                       l->name, s.kernel, s.kernel_w, QG_SHAPE_ARGS(l->in), s.pad);
    c->product.conv = (qg_conv_spec){ .stride = s.stride,
                                      .pad_h = down / 2,
                                      .pad_w = across / 2,
                                      .extra_h = down % 2,
                                      .extra_w = across % 2,
                                      .pad_value = s.pad_value,
                                      .groups = groups };
    const qg_shape weight = { s.out, s.kernel, s.kernel_w, l->in.c / groups };
    l->out  = (qg_shape){ 1, (h - s.kernel) / s.stride + 1, (w - s.kernel_w) / s.stride + 1, s.out };
    l->macs = (uint64_t)qg_row(l->out) * (uint64_t)qg_row(weight);
    return declare(&c->product, weight, 4, (size_t)weight.c, conv2d_fan_out(c, weight), l->in);
}

static void conv2d_start(qg_layer *l, uint64_t key)
{
    conv2d *c = (conv2d *)l;
    start(&c->product, key, conv2d_fan_out(c, c->product.weight->shape));
}

static qg_var *convolve(const qg_step *s, qg_tape *t, qg_var *x, qg_var *w, qg_var *b)
{
    const qg_conv_spec spec = ((const qg_product *)s->layer)->conv;
    return qg__conv2d(t, x, w, b, spec, sums_results(s, t));
}

static qg_shape convolved(const qg_step *s, qg_tape *t, const qg_var *x, const qg_var *w)
{
    return qg__conv2d_shape(t, x, w, NULL, ((const qg_product *)s->layer)->conv);
}

static const product_ops convolution = { convolve, convolved, { .name = "conv2d" } };

static qg_var *conv2d_run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z)
{
    return run(s, t, x, &convolution);
}

static void conv2d_describe(const qg_layer *l, char *text, size_t bytes)
{
    const qg_conv2d_spec s = ((const conv2d *)l)->spec;
    int at = snprintf(text, bytes, "%dx%d", s.kernel, s.kernel_w ? s.kernel_w : s.kernel);
    if (s.stride > 1) at += snprintf(text + at, bytes - (size_t)at, " stride %d", s.stride);
    if (s.pad) at += snprintf(text + at, bytes - (size_t)at, " pad %d", s.pad);
    if (s.same) at += snprintf(text + at, bytes - (size_t)at, " same");
    const int groups = ((const conv2d *)l)->product.conv.groups;
    if (groups > 1) snprintf(text + at, bytes - (size_t)at, " groups %d", groups);
}

const qg_layer_type qg__conv2d_type = { .name = "conv2d",
                                           .size = sizeof(conv2d),
                                           .keys = conv2d_keys,
                                           .traits = QG_MULTIPLIES,
                                           .build = conv2d_build,
                                           .start = conv2d_start,
                                           .run = conv2d_run,
                                           .join = join,
                                           .describe = conv2d_describe,
                                           .slot = product_slot };

qg_layer *qg_net_conv2d(qg_net *net, qg_conv2d_spec spec)
{
    conv2d *c = qg_net_append(net, &qg__conv2d_type, spec.after, "conv", spec.name);
    if (!c) return NULL;
    c->spec = spec;
    if (spec.kernel_w == spec.kernel) c->spec.kernel_w = 0;
    if (spec.stride == 0) c->spec.stride = 1;
    if (spec.groups == 0) c->spec.groups = 1;
    return set_common(&c->product, spec.no_bias, spec.weight, spec.input, spec.gradient);
}

/* --- dense -------------------------------------------------------------------------------- */

static const qg_key dense_keys[] = {
    { .name = "out", .max = INT_MAX, .is = QG_KEY_WHOLE, .at = offsetof(dense, out) },
    { .name = "no-bias", .is = QG_KEY_FLAG, .at = offsetof(dense, product.no_bias) },
    { .name = NULL }
};

static qg_status dense_build(qg_layer *l)
{
    dense *d = (dense *)l;
    if (d->out < 1) return qg_fail(QG_EARG, "%s: out is %d, must be at least 1", l->name, d->out);
    l->out  = (qg_shape){ 1, 1, 1, d->out };
    d->product.conv = (qg_conv_spec){ .stride = 1, .groups = 1 };
    l->macs = (uint64_t)qg_row(l->in) * (uint64_t)d->out;
    /* The weight keeps its input's [h][w][c], so that one row is one output channel as in conv2d. */
    const qg_shape weight = { d->out, l->in.h, l->in.w, l->in.c };
    const int      rank   = l->in.h > 1 || l->in.w > 1 ? 4 : 2;
    return declare(&d->product, weight, rank, qg_row(weight), (double)l->out.c, l->in);
}

static void dense_start(qg_layer *l, uint64_t key) { start((qg_product *)l, key, (double)l->out.c); }

static qg_var *connect(const qg_step *s, qg_tape *t, qg_var *x, qg_var *w, qg_var *b)
{
    return qg_dense(t, x, w, b);
}

static qg_shape connected(const qg_step *s, qg_tape *t, const qg_var *x, const qg_var *w)
{
    return qg__dense_shape(t, x, w, NULL);
}

static const product_ops connection = { connect, connected, { .name = "dense" } };

static qg_var *dense_run(const qg_step *s, qg_tape *t, qg_var *x, qg_var *z)
{
    return run(s, t, x, &connection);
}

const qg_layer_type qg__dense_type = { .name = "dense",
                                          .size = sizeof(dense),
                                          .keys = dense_keys,
                                          .traits = QG_MULTIPLIES,
                                          .build = dense_build,
                                          .start = dense_start,
                                          .run = dense_run,
                                          .join = join,
                                          .slot = product_slot };

qg_layer *qg_net_dense(qg_net *net, qg_dense_spec spec)
{
    dense *d = qg_net_append(net, &qg__dense_type, spec.after, "fc", spec.name);
    if (!d) return NULL;
    d->out = spec.out;
    return set_common(&d->product, spec.no_bias, spec.weight, spec.input, spec.gradient);
}

/* If the window covers the whole input, x gets the h, w and c of the weight: a dense layer reads
 * any input with as many numbers as a row of its weight. */
void qg__product_sizes(const qg_product *p, qg_shape x, qg__product *sizes)
{
    const qg_shape     w = p->weight->shape;
    const qg_conv_spec s = p->conv;
    const bool whole = qg_row(x) == qg_row(w) && !s.pad_h && !s.pad_w && !s.extra_h && !s.extra_w;
    if (whole) x.h = w.h, x.w = w.w, x.c = w.c;
    *sizes = (qg__product){ .g = { .h = x.h,
                                   .w = x.w,
                                   .c = x.c,
                                   .oc = w.n,
                                   .kh = w.h,
                                   .kw = w.w,
                                   .stride = s.stride,
                                   .top = s.pad_h,
                                   .left = s.pad_w },
                            .groups = s.groups,
                            .pad = s.pad_value };
    sizes->g.oh = (x.h + 2 * s.pad_h + s.extra_h - w.h) / s.stride + 1;
    sizes->g.ow = (x.w + 2 * s.pad_w + s.extra_w - w.w) / s.stride + 1;
}
