/* The residual nets for CIFAR-10. */
#include <stdio.h>

#include "layers/models/parts.h"

/* A net that is being declared. */
typedef struct residual {
    qg_net              *net;
    const qg_model_spec *s;
    bool                 pre;       /* qg_residual_order */
    qg_shortcut_kind     kind;
    int                  convs, shortcuts;
} residual;

/* --- parts of a block --------------------------------------------------------------------- */

static qg_layer *batchnorm(residual *r, qg_layer *x)
{
    return qg_net_batchnorm_with(r->net, (qg_batchnorm_spec){ .after = x });
}

/* Quantizers of a convolution yet to be declared, skip convolutions ahead. */
static qg__model_quants ahead(const residual *r, int skip)
{
    return qg__model_numbered(r->s, "conv", r->convs + skip + 1, r->convs + skip == 0, false);
}

static bool rectifies(qg_quant input) { return input.scheme && input.scheme->rectifies; }

static qg_layer *conv3(residual *r, qg_layer *x, qg__model_quants q, int channels, int stride)
{
    r->convs++;
    return qg_net_conv2d(r->net, (qg_conv2d_spec){ .out = channels, .kernel = 3, .pad = 1, .stride = stride,
                                                   .no_bias = true, .after = x, QG_QUANTS(q) });
}

/* The nonlinearity that both the next block and its shortcut read: the input quantizer if it rectifies,
 * otherwise relu. */
static qg_layer *nonlinearity(residual *r, qg_quant input)
{
    return rectifies(input) ? qg_net_quantize(r->net, input) : qg_net_relu(r->net);
}

/* Readers of an input that is already quantized do not quantize it again. */
static qg__model_quants reads_quantized(qg__model_quants q)
{
    if (rectifies(q.input)) q.input = (qg_quant){ 0 };
    return q;
}

/* --- shortcuts ---------------------------------------------------------------------------- */

/* Half the size, twice the channels, without parameters; x is the last declared layer. */
static qg_layer *narrow(residual *r, qg_layer *x, int channels)
{
    if (r->kind == QG_SHORTCUT_A) return qg_net_shortcut(r->net, x, 2, channels);
    return qg_net_shortcut(r->net, qg_net_avgpool(r->net, 2), 1, channels);
}

/* The same, learned; x has passed the nonlinearity.  In post-activation order a batch norm ends every
 * branch. */
static qg_layer *project(residual *r, qg_layer *x, int channels)
{
    char name[32];
    snprintf(name, sizeof name, "shortcut%d", ++r->shortcuts);
    const qg__model_quants q = reads_quantized(qg__model_quant(r->s, name, false, false));
    qg_layer *y = qg_net_conv2d(r->net, (qg_conv2d_spec){ .out = channels, .kernel = 1, .stride = 2, .no_bias = true,
                                                          .after = x, .name = name, QG_QUANTS(q) });
    return r->pre ? y : batchnorm(r, y);
}

/* --- blocks ------------------------------------------------------------------------------- */

/* conv3 - bn - act - conv3 - bn, plus the shortcut, - act.             [1512.03385v1, fig. 2]
 * The block before has already quantized the input of the first convolution. */
static qg_layer *post_block(residual *r, qg_layer *x, int channels, bool widen)
{
    const qg__model_quants a = reads_quantized(ahead(r, 0)), b = ahead(r, 1);
    qg_layer *shortcut = !widen                      ? x
                         : r->kind == QG_SHORTCUT_B ? project(r, x, channels)
                                                    : narrow(r, x, channels);
    conv3(r, x, a, channels, widen ? 2 : 1);
    qg__model_between(r->net, (qg_batchnorm_spec){ 0 }, b.input, 0);
    qg_layer *y = batchnorm(r, conv3(r, NULL, b, channels, 1));
    return qg_net_add(r->net, y, shortcut);
}

/* bn - act - conv3 - bn - act - conv3, plus the shortcut.               [1603.05027v3, fig. 1]
 * The shortcut of the very first block, and every 1x1 convolution, begins after bn - act; the others carry
 * the sum itself. */
static qg_layer *pre_block(residual *r, qg_layer *x, int channels, bool widen)
{
    const bool            first = r->convs == 1, learned = r->kind == QG_SHORTCUT_B;
    const qg__model_quants a = ahead(r, 0), b = ahead(r, 1);
    qg_layer             *shortcut = widen && !learned ? narrow(r, x, channels) : x, *p = x;
    if (!first) {
        batchnorm(r, x);
        p = nonlinearity(r, a.input);
    }
    if (widen && learned) shortcut = project(r, p, channels);
    conv3(r, p, reads_quantized(a), channels, widen ? 2 : 1);
    qg__model_between(r->net, (qg_batchnorm_spec){ 0 }, b.input, 0);
    return qg_net_add(r->net, conv3(r, NULL, b, channels, 1), shortcut);
}

/* 3 stages of n blocks with 16, 32, 64 channels: 6 n + 2 layers with weights, and two more if shortcuts are
 * learned. */
static qg_net *declare(qg_model_spec s, int n)
{
    residual r = { .net  = qg_net_new(qg__model_net(&s)),
                   .s    = &s,
                   .pre  = s.option[QG_MODEL_ORDER] == QG_PRE_ACTIVATION,
                   .kind = (qg_shortcut_kind)s.option[QG_MODEL_SHORTCUT] };
    const qg__model_quants fc1 = qg__model_quant(&s, "fc1", false, true);
    batchnorm(&r, conv3(&r, NULL, ahead(&r, 0), 16, 1));
    qg_layer *x = nonlinearity(&r, ahead(&r, 0).input);
    for (int block = 0; block < 3 * n; block++) {
        const int  stage = block / n;
        const bool widen = stage > 0 && block % n == 0, last = block == 3 * n - 1;
        x = (r.pre ? pre_block : post_block)(&r, x, 16 << stage, widen);
        if (r.pre && last) batchnorm(&r, x);
        if (!r.pre || last) x = nonlinearity(&r, last ? fc1.input : ahead(&r, 0).input);
    }
    qg_net_global_avgpool(r.net);
    qg_net_dense(r.net, (qg_dense_spec){ .out = s.classes, QG_QUANTS(fc1) });
    return r.net;
}

static qg_net *declare20(qg_model_spec s) { return declare(s, 3); }
static qg_net *declare32(qg_model_spec s) { return declare(s, 5); }
static qg_net *declare44(qg_model_spec s) { return declare(s, 7); }
static qg_net *declare56(qg_model_spec s) { return declare(s, 9); }

static const qg_key keys[] = {
    { .name = "order", .words = "post|pre" },           /* qg_residual_order */
    { .name = "shortcut", .words = "A|pool|B" },        /* qg_shortcut_kind */
    { .name = NULL }
};

/* Section 4.2 of the paper: 64,000 iterations of 128 images, the rate divided by ten after 32,000 and
 * 48,000. */
#define MODEL(depth)                                                                               \
    {                                                                                              \
        .name   = "resnet" #depth,                                                                 \
        .about  = "ResNet-" #depth " for 32x32 images, 16-32-64 channels (He et al., arXiv:1512.03385)", \
        .recipe = "epochs = 164\n"                                                                 \
                  "batch = 128\n"                                                                  \
                  "optimizer = \"sgd\"\n"                                                          \
                  "lr = 0.1\n"                                                                     \
                  "momentum = 0.9\n"                                                               \
                  "weight-decay = 1e-4\n"                                                          \
                  "schedule = \"step:at=0.5+0.75,factor=0.1\"\n"                                   \
                  "loss = \"cross-entropy\"\n",                                                    \
        .image  = QG_CIFAR_IMAGE,                                                                  \
        .keys   = keys,                                                                            \
        .declare = declare##depth                                                                  \
    }

const qg_model qg_model_resnet20 = MODEL(20);
const qg_model qg_model_resnet32 = MODEL(32);
const qg_model qg_model_resnet44 = MODEL(44);
const qg_model qg_model_resnet56 = MODEL(56);
