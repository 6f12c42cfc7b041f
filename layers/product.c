/* The two layers that multiply: conv2d and dense.  Each has a latent weight, two quantizer slots
 * and perhaps a bias; they differ in shapes and in the op they record. */
#include <stdio.h>

#include "layers/initial.h"
#include "layers/layer.h"

typedef struct conv2d {
    qg_product     product;
    qg_conv2d_spec spec;
} conv2d;

typedef struct dense {
    qg_product    product;
    qg_dense_spec spec;
} dense;

/* --- what they share ---------------------------------------------------------------------- */

static qg_status declare(qg_product *p, qg_shape w, qg_shape x)
{
    qg_layer        *l      = &p->layer;
    const qg_scheme *scheme = p->weight_slot.q.scheme;
    p->weight = qg_layer_declare(
        l, "weight", (qg_param){ .shape = w, .group = QG_WEIGHTS, .clip = scheme ? scheme->clip : 0 });
    if (!p->weight) return QG_EMEM;
    if (!p->no_bias) {
        p->bias = qg_layer_declare(l, "bias", (qg_param){ .shape = { 1, 1, 1, w.n }, .group = QG_BIASES });
        if (!p->bias) return QG_EMEM;
    }
    qg_status s = qg_slot_declare(l, &p->weight_slot, QG_WEIGHT, w);
    if (!s) s = qg_slot_declare(l, &p->input_slot, QG_INPUT, x);
    return s ? s : qg_slot_declare(l, &p->gradient_slot, QG_GRADIENT, l->out);
}

static void start(qg_product *p, uint64_t key, double fan_out)
{
    const qg_shape w = p->weight->shape;
    qg__glorot_uniform(p->weight, key, (double)qg_row(w), fan_out);
    qg_slot_start(&p->weight_slot, (qg_tensor){ w, p->weight->value });
    qg_slot_start(&p->input_slot, (qg_tensor){ .shape = p->layer.in });
}

static qg_var *quantized_input(const qg_product *p, qg_tape *t, qg_var *x)
{
    return p->input_fused ? x : qg_slot_apply(&p->input_slot, t, x);
}

static qg_var *quantized_weight(const qg_product *p, qg_tape *t)
{
    return qg_slot_apply(&p->weight_slot, t, qg_parameter(t, p->weight));
}

static qg_var *bias(const qg_product *p, qg_tape *t) { return p->bias ? qg_parameter(t, p->bias) : NULL; }

/* --- conv2d ------------------------------------------------------------------------------- */

enum { MOST_PAD = 1 << 20 };    /* beyond it, sizes leave an int */

static qg_status conv2d_build(qg_net *net, qg_layer *l)
{
    (void)net;
    conv2d              *c = (conv2d *)l;
    const qg_conv2d_spec s = c->spec;
    if (s.out < 1 || s.kernel < 1 || s.kernel_w < 1 || s.stride < 1 || s.pad < 0)
        return qg_fail(QG_EARG,
                       "%s: out %d, kernel %dx%d, stride %d must be at least 1 and pad %d at least 0",
                       l->name, s.out, s.kernel, s.kernel_w, s.stride, s.pad);
    if (s.pad > MOST_PAD) return qg_fail(QG_EARG, "%s: pad is %d, not 0..%d", l->name, s.pad, MOST_PAD);
    const int h = l->in.h + 2 * s.pad, w = l->in.w + 2 * s.pad;
    if (h < s.kernel || w < s.kernel_w)
        return qg_fail(QG_ESHAPE, "%s: kernel %dx%d is larger than its input " QG_SHAPE_FMT " padded by %d",
                       l->name, s.kernel, s.kernel_w, QG_SHAPE_ARGS(l->in), s.pad);
    l->out  = (qg_shape){ 1, (h - s.kernel) / s.stride + 1, (w - s.kernel_w) / s.stride + 1, s.out };
    l->macs = (uint64_t)qg_row(l->out) * (uint64_t)(s.kernel * s.kernel_w) * (uint64_t)l->in.c;
    return declare(&c->product, (qg_shape){ s.out, s.kernel, s.kernel_w, l->in.c }, l->in);
}

static qg_status conv2d_start(qg_layer *l, uint64_t key)
{
    const qg_shape w = ((qg_product *)l)->weight->shape;
    start((qg_product *)l, key, (double)w.n * w.h * w.w);
    return QG_OK;
}

static qg_var *conv2d_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    const conv2d      *c    = (conv2d *)l;
    const qg_conv_spec spec = { .stride    = c->spec.stride,
                                .pad_h     = c->spec.pad,
                                .pad_w     = c->spec.pad,
                                .pad_value = c->spec.pad_value,
                                .sums      = c->product.sums };
    qg_var *q = quantized_input(&c->product, t, x);
    qg_var *y = qg_conv2d(t, q, quantized_weight(&c->product, t), bias(&c->product, t), spec);
    return qg_slot_apply(&c->product.gradient_slot, t, y);
}

static void conv2d_describe(const qg_layer *l, char *text, size_t bytes)
{
    const qg_conv2d_spec s = ((const conv2d *)l)->spec;
    int at = snprintf(text, bytes, "%dx%d", s.kernel, s.kernel_w);
    if (s.stride > 1) at += snprintf(text + at, bytes - (size_t)at, " stride %d", s.stride);
    if (s.pad) snprintf(text + at, bytes - (size_t)at, " pad %d", s.pad);
}

static const qg_layer_type conv2d_type = { "conv2d",     sizeof(conv2d), conv2d_build,
                                           conv2d_start, conv2d_forward, conv2d_describe };

qg_layer *qg_net_conv2d(qg_net *net, qg_conv2d_spec spec)
{
    conv2d *c = qg_net_append(net, &conv2d_type, spec.after, "conv", spec.name);
    if (!c) return NULL;
    if (spec.stride == 0) spec.stride = 1;
    if (spec.kernel_w == 0) spec.kernel_w = spec.kernel;
    c->spec                    = spec;
    c->product.no_bias         = spec.no_bias;
    c->product.weight_slot.q   = spec.weight;
    c->product.input_slot.q    = spec.input;
    c->product.gradient_slot.q = spec.gradient;
    return &c->product.layer;
}

/* --- dense -------------------------------------------------------------------------------- */

static qg_status dense_build(qg_net *net, qg_layer *l)
{
    (void)net;
    dense *d = (dense *)l;
    if (d->spec.out < 1) return qg_fail(QG_EARG, "%s: out is %d, not at least 1", l->name, d->spec.out);
    l->out  = (qg_shape){ 1, 1, 1, d->spec.out };
    l->macs = (uint64_t)qg_row(l->in) * (uint64_t)d->spec.out;
    /* The weight keeps its input's [h][w][c], so that one row is one output channel as in conv2d. */
    return declare(&d->product, (qg_shape){ d->spec.out, l->in.h, l->in.w, l->in.c }, l->in);
}

static qg_status dense_start(qg_layer *l, uint64_t key)
{
    start((qg_product *)l, key, (double)l->out.c);
    return QG_OK;
}

static qg_var *dense_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    (void)z;
    const dense *d = (dense *)l;
    qg_var      *q = quantized_input(&d->product, t, x);
    qg_var      *y = qg_dense(t, q, quantized_weight(&d->product, t), bias(&d->product, t));
    return qg_slot_apply(&d->product.gradient_slot, t, y);
}

static const qg_layer_type dense_type = { "dense",     sizeof(dense), dense_build,
                                          dense_start, dense_forward, NULL };

qg_layer *qg_net_dense(qg_net *net, qg_dense_spec spec)
{
    dense *d = qg_net_append(net, &dense_type, spec.after, "fc", spec.name);
    if (!d) return NULL;
    d->spec                    = spec;
    d->product.no_bias         = spec.no_bias;
    d->product.weight_slot.q   = spec.weight;
    d->product.input_slot.q    = spec.input;
    d->product.gradient_slot.q = spec.gradient;
    return &d->product.layer;
}

qg_product *qg_layer_product(qg_layer *l)
{
    return l->type == &conv2d_type || l->type == &dense_type ? (qg_product *)l : NULL;
}
