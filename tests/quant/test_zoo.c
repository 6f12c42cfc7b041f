/* Every model of the zoo: its size, its order, a step of training, a resume, and wrong options. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layer.h"
#include "layers/models/models.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

static const qg_model *find(const char *name)
{
    const qg_model *m = qg_model_find(name);
    assert_non_null(m);
    return m;
}

/* On the paper's images, unless the spec has others. */
static qg_net *declared(const char *name, qg_model_spec spec)
{
    const qg_model *m = find(name);
    if (!spec.height) spec.height = m->image.h, spec.width = m->image.w;
    spec.channels = m->image.c, spec.classes = 10;
    return qg_model_declare(m, spec);
}

static qg_net *built(const char *name, qg_model_spec spec)
{
    qg_net *net = declared(name, spec);
    if (!qg_net_build(net)) fail_msg("%s: %s", name, qg_errmsg());
    return net;
}

/* --- sizes -------------------------------------------------------------------------------- */

typedef struct size {
    const char *model;
    double      option[QG_MODEL_KEYS];
    double      weights, macs;
    double      digits;                 /* half a unit of the last printed digit, relatively */
} size;

/* As papers and sources print them: thousands or millions to three digits or so. */
static const size sizes[] = {
    { "lenet5", { 0 }, 581e3, 4.27e6, 0.0012 },
    { "lenet5-xnor", { 0 }, 430e3, 2.29e6, 0.0022 },
    { "mlp", { [QG_MODEL_WIDTH] = 1024 }, 2.91e6, 2.91e6, 0.0018 },
    { "mlp", { 0 }, 10.0e6, 10.0e6, 0.005 },
    { "mlp", { [QG_MODEL_WIDTH] = 4096 }, 36.8e6, 36.8e6, 0.0014 },
    { "vgg7", { 0 }, 13.0e6, 616e6, 0.0039 },
    { "vgg7", { [QG_MODEL_WIDTH] = 0.5 }, 3.2e6, 155e6, 0.016 },
    { "vgg7", { [QG_MODEL_WIDTH] = 0.25 }, 0.81e6, 39.2e6, 0.0062 },
    { "vgg-small", { 0 }, 4.66e6, 608e6, 0.0011 },
    { "resnet20", { 0 }, 268e3, 40.6e6, 0.0019 },
    { "resnet20", { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_POOL }, 268e3, 40.6e6,
      0.0019 },
    { "resnet20", { [QG_MODEL_ORDER] = QG_BIREAL }, 268e3, 40.6e6, 0.0019 },
    { "resnet32", { 0 }, 462e3, 68.9e6, 0.0011 },
    { "resnet44", { 0 }, 655e3, 97.2e6, 0.0008 },
    { "resnet56", { 0 }, 849e3, 125e6, 0.004 },
    { "nin", { 0 }, 0.97e6, 222e6, 0.0052 },
    { "tfc", { 0 }, 59e3, 0.059e6, 0.0085 },
    { "sfc", { 0 }, 334e3, 0.334e6, 0.0015 },
    { "lfc", { 0 }, 2.91e6, 2.91e6, 0.0018 },
    { "cnv", { 0 }, 1.54e6, 59.5e6, 0.0033 },
};

static void sizes_are_those_that_are_printed(void **state)
{
    for (int i = 0; i < COUNT(sizes); i++) {
        qg_model_spec spec = { 0 };
        memcpy(spec.option, sizes[i].option, sizeof spec.option);
        qg_net *net     = built(sizes[i].model, spec);
        double  weights = 0, macs = 0;
        for (int k = 0; k < qg_net_layers(net); k++) {
            const qg_product *p = qg_layer_product(qg_net_layer(net, k));
            macs += (double)qg_net_layer(net, k)->macs;
            if (p) weights += (double)qg_count(p->weight->shape);
        }
        if (!(fabs(weights / sizes[i].weights - 1) <= sizes[i].digits && fabs(macs / sizes[i].macs - 1) <= sizes[i].digits))
            fail_msg("%s: %g weights and %g multiply-adds, not %g and %g", sizes[i].model, weights, macs,
                     sizes[i].weights, sizes[i].macs);
        qg_net_free(net);
    }
}

/* Exactly, on 32 x 32 x 3.  All parameters, too, as of PyTorch's nets with the same layers: batch norms have two values
 * per channel, a product has a bias unless a batch norm reads it.
 *
 * resnet18   Two blocks of two 3x3 convolutions per stage of n channels, of which the first halves the size and reads
 *            n / 2 channels: 9 n (n / 2 + 3 n) + n n / 2 weights with its shortcut, at (2048 / n)^2 pixels.
 * birealnet18   The same products; its shortcuts shrink before their convolution.
 * mobilenet  Depthwise and pointwise products of 13 blocks, at the size after the block's stride.
 * nin        From left to right, at 32^2, 16^2 and 8^2 pixels.  A bias in every product but the first; the first and the
 *            last of nine norms have no values. */
enum {
    STAGE1 = 4 * 9 * 64 * 64, STAGE2 = 9 * 128 * (64 + 3 * 128) + 128 * 64, STAGE3 = 9 * 256 * (128 + 3 * 256) + 256 * 128,
    STAGE4 = 9 * 512 * (256 + 3 * 512) + 512 * 256,
    RES18 = 9 * 3 * 64 + STAGE1 + STAGE2 + STAGE3 + STAGE4 + 5120,
    RES18_MACS = 1024 * (9 * 3 * 64 + STAGE1) + 256 * STAGE2 + 64 * STAGE3 + 16 * STAGE4 + 5120,
    RES18_NORMS = 5 * 64 + 5 * 128 + 5 * 256 + 5 * 512,         /* four in a stage, and the first or the shortcut's */
    MOBILE_DEPTHWISE = 9 * (32 + 64 + 2 * 128 + 2 * 256 + 6 * 512 + 1024),
    MOBILE_POINTWISE = 32 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256 + 256 * 512 + 5 * 512 * 512 + 512 * 1024 + 1024 * 1024,
    MOBILE = 9 * 3 * 32 + MOBILE_DEPTHWISE + MOBILE_POINTWISE + 10240,
    MOBILE_NORMS = 32 + MOBILE_DEPTHWISE / 9 + 64 + 2 * 128 + 2 * 256 + 6 * 512 + 2 * 1024,
    MOBILE_MACS = 1024 * (9 * 3 * 32 + 9 * 32 + 32 * 64) + 256 * (9 * (64 + 128) + 64 * 128 + 128 * 128) +
                  64 * (9 * (128 + 256) + 128 * 256 + 256 * 256) + 16 * (9 * (256 + 5 * 512) + 256 * 512 + 5 * 512 * 512) +
                  4 * (9 * (512 + 1024) + 512 * 1024 + 1024 * 1024) + 10240,
    NIN1 = 25 * 3 * 192 + 192 * 160 + 160 * 96, NIN2 = 25 * 96 * 192 + 2 * 192 * 192, NIN3 = 9 * 192 * 192 + 192 * 192 + 192 * 10,
    NIN_NORMS = 192 + 160 + 96 + 192 + 192 + 192 + 192,
    NIN_BIASES = 160 + 96 + 5 * 192 + 10,
};

static void sizes_are_those_of_the_layers(void **state)
{
    const struct { const char *model; size_t weights, macs, parameters; } rows[] = {
        { "resnet18", RES18, RES18_MACS, RES18 + 2 * RES18_NORMS + 10 },
        { "birealnet18", RES18, RES18_MACS, RES18 + 2 * RES18_NORMS + 10 },
        { "mobilenet", MOBILE, MOBILE_MACS, MOBILE + 2 * MOBILE_NORMS + 10 },
        { "nin", NIN1 + NIN2 + NIN3, 1024 * NIN1 + 256 * NIN2 + 64 * NIN3, NIN1 + NIN2 + NIN3 + 2 * NIN_NORMS + NIN_BIASES },
    };
    assert_int_equal(rows[0].weights, 11164352), assert_int_equal(rows[0].parameters, 11173962);
    assert_int_equal(rows[0].macs, 555422720);
    for (int i = 0; i < COUNT(rows); i++) {
        qg_net          *net = built(rows[i].model, (qg_model_spec){ 0 });
        const qg_params *p   = qg_net_params(net);
        size_t           weights = 0, macs = 0, parameters = 0;
        for (int k = 0; k < qg_net_layers(net); k++) {
            const qg_product *product = qg_layer_product(qg_net_layer(net, k));
            macs += qg_net_layer(net, k)->macs;
            if (product) weights += qg_count(product->weight->shape);
        }
        for (int k = 0; k < p->count; k++) parameters += p->item[k]->grad ? qg_count(p->item[k]->shape) : 0;
        assert_int_equal(weights, rows[i].weights);
        assert_int_equal(macs, rows[i].macs);
        assert_int_equal(parameters, rows[i].parameters);
        qg_net_free(net);
    }
}

/* A 1x1 convolution from 16 to 32 and one from 32 to 64 channels are all that shortcut B adds. */
static void learned_shortcuts_weigh_two_convolutions(void **state)
{
    for (int order = QG_POST_ACTIVATION; order <= QG_PRE_ACTIVATION; order++) {
        size_t count[2] = { 0 };
        for (int b = 0; b < 2; b++) {
            qg_net *net = built("resnet20", (qg_model_spec){ .option = { [QG_MODEL_ORDER]    = order,
                                                                        [QG_MODEL_SHORTCUT] = b ? QG_SHORTCUT_B : 0 } });
            for (int k = 0; k < qg_net_layers(net); k++) {
                const qg_product *p = qg_layer_product(qg_net_layer(net, k));
                if (p) count[b] += qg_count(p->weight->shape);
            }
            qg_net_free(net);
        }
        assert_int_equal(count[1] - count[0], 16 * 32 + 32 * 64);
    }
}

/* --- orders ------------------------------------------------------------------------------- */

/* Types of the layers, and where each sum comes from: "conv2d batchnorm relu add:relu1". */
static void assert_begins(const char *model, qg_model_spec spec, const char *expected)
{
    char    text[4096];
    size_t  at  = 0;
    qg_net *net = built(model, spec);
    for (int i = 0; i < qg_net_layers(net) && at < sizeof text - 64; i++) {
        const qg_layer *l = qg_net_layer(net, i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i ? " " : "", l->type->name);
        /* Folding may have moved the operand to the batch norm before. */
        if (!strcmp(l->type->name, "add")) at += (size_t)snprintf(text + at, sizeof text - at, ":%s", l->with->name);
    }
    if (strncmp(text, expected, strlen(expected))) fail_msg("%s is\n%s\nnot\n%s", model, text, expected);
    qg_net_free(net);
}

static void layers_stand_in_their_papers_order(void **state)
{
    const qg_quant sign = qg_sign((qg_sign_spec){ 0 });
    const qg_quant unit = qg_unit((qg_unit_spec){ .bits = 2 });
    const qg_quant lsq  = qg_lsq((qg_lsq_spec){ .bits = 2 });
    assert_begins("lenet5-xnor", (qg_model_spec){ .input = sign, .first_last = QG_FIRST_LAST_FLOAT },
                  "conv2d batchnorm relu maxpool batchnorm conv2d relu maxpool batchnorm dense relu dense");
    assert_begins("mlp", (qg_model_spec){ .option = { [QG_MODEL_DEPTH] = 1 } }, "dense batchnorm relu dense batchnorm");
    assert_begins("mlp", (qg_model_spec){ .input = sign, .option = { [QG_MODEL_DEPTH] = 1, [QG_MODEL_DROPOUT] = 0.5,
                                                                    [QG_MODEL_INPUT_DROPOUT] = 0.2 } },
                  "dropout dense batchnorm quantize dropout dense batchnorm");
    assert_begins("tfc", (qg_model_spec){ .weight = unit, .input = unit, .first_last = QG_FIRST_LAST_QUANTIZED },
                  "affine quantize dropout dense batchnorm quantize dropout dense batchnorm quantize dropout "
                  "dense batchnorm quantize dropout dense batchnorm");
    assert_begins("cnv", (qg_model_spec){ .input = sign },
                  "affine conv2d batchnorm conv2d batchnorm maxpool conv2d batchnorm conv2d batchnorm maxpool "
                  "conv2d batchnorm conv2d batchnorm dense batchnorm dense batchnorm dense batchnorm");
    assert_begins("resnet18", (qg_model_spec){ 0 },
                  "conv2d batchnorm relu conv2d batchnorm relu conv2d batchnorm add:relu1 relu "
                  "conv2d batchnorm relu conv2d batchnorm add:relu3 relu "
                  "conv2d batchnorm relu conv2d batchnorm conv2d batchnorm add:bn8 relu "
                  "conv2d batchnorm relu conv2d batchnorm add:relu7 relu");
    assert_begins("birealnet18", (qg_model_spec){ .input = sign },
                  "conv2d batchnorm conv2d batchnorm add:bn1 conv2d batchnorm add:add1 conv2d batchnorm add:add2 "
                  "conv2d batchnorm add:add3 conv2d batchnorm avgpool conv2d batchnorm add:bn7 conv2d batchnorm add:add5");
    assert_begins("birealnet18", (qg_model_spec){ 0 }, "conv2d batchnorm relu conv2d batchnorm add:bn1 relu conv2d batchnorm");
    assert_begins("nin", (qg_model_spec){ .input = sign, .first_last = QG_FIRST_LAST_FLOAT },
                  "conv2d batchnorm relu batchnorm conv2d relu batchnorm conv2d relu maxpool batchnorm quantize dropout conv2d "
                  "relu batchnorm conv2d relu batchnorm conv2d relu avgpool batchnorm quantize dropout conv2d relu "
                  "batchnorm conv2d relu batchnorm conv2d relu global avgpool");
    assert_begins("resnet20", (qg_model_spec){ 0 },
                  "conv2d batchnorm relu conv2d batchnorm relu conv2d batchnorm add:relu1 relu "
                  "conv2d batchnorm relu conv2d batchnorm add:relu3 relu "
                  "conv2d batchnorm relu conv2d batchnorm add:relu5 relu shortcut conv2d");
    const qg_model_spec bireal = { .input = sign, .option = { [QG_MODEL_ORDER] = QG_BIREAL } };
    assert_begins("resnet20", bireal,
                  "conv2d batchnorm conv2d batchnorm add:bn1 conv2d batchnorm add:add1 "
                  "conv2d batchnorm add:add2 conv2d batchnorm add:add3 conv2d batchnorm add:add4 conv2d batchnorm add:add5 "
                  "shortcut conv2d batchnorm add:shortcut1 conv2d batchnorm add:add7");
    /* The sum is carried on bare; what the two branches share is normalised once. */
    assert_begins("resnet20", (qg_model_spec){ .option = { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION } },
                  "conv2d batchnorm relu conv2d batchnorm relu conv2d add:relu1 "
                  "batchnorm relu conv2d batchnorm relu conv2d add:add1 "
                  "batchnorm relu conv2d batchnorm relu conv2d add:add2 "
                  "shortcut batchnorm relu conv2d batchnorm relu conv2d add:shortcut1 batchnorm");
    assert_begins("resnet20", (qg_model_spec){ .input = lsq, .option = { [QG_MODEL_ORDER]    = QG_PRE_ACTIVATION,
                                                                        [QG_MODEL_SHORTCUT] = QG_SHORTCUT_B } },
                  "conv2d batchnorm quantize conv2d batchnorm conv2d add:quant1 "
                  "batchnorm quantize conv2d batchnorm conv2d add:add1 "
                  "batchnorm quantize conv2d batchnorm conv2d add:add2 "
                  "batchnorm quantize conv2d conv2d batchnorm conv2d add:shortcut1 batchnorm");
}

/* The nonlinearity in front of a block is that block's, whatever the net's is. */
static void an_exception_reaches_the_block_it_names(void **state)
{
    const qg_choice choice = { .layer = "conv2", .has_input = true, .input = qg_lsq((qg_lsq_spec){ .bits = 2 }) };
    assert_begins("resnet20", (qg_model_spec){ .choice = &choice, .choices = 1 },
                  "conv2d batchnorm quantize conv2d batchnorm relu conv2d batchnorm add:quant1 relu conv2d");
}

/* What the last product reads is quantized as its input is, or not at all. */
static void a_float_end_keeps_its_relu(void **state)
{
    const qg_quant pact = qg_pact((qg_pact_spec){ .bits = 2 });
    for (int order = 0; order < 2; order++)
        for (int is_float = 0; is_float < 2; is_float++) {
            qg_net *net = built("resnet20", (qg_model_spec){ .input = pact, .first_last = is_float ? QG_FIRST_LAST_FLOAT : QG_FIRST_LAST_QUANTIZED,
                                                             .option = { [QG_MODEL_ORDER] = order } });
            const qg_layer *pool = qg_net_layer(net, qg_net_layers(net) - 2);
            const qg_layer *last = qg_net_layer(net, qg_net_layers(net) - 3);
            assert_string_equal(pool->type->name, "global avgpool");
            assert_string_equal(last->type->name, is_float ? "relu" : "quantize");
            qg_net_free(net);
        }
}

/* --- training ----------------------------------------------------------------------------- */

typedef struct variant {
    const char *model;
    double      option[QG_MODEL_KEYS];
    int         weight, input;          /* bits of unit; 0: float */
    bool        hinge;
} variant;

static const variant variants[] = {
    { "lenet5", { 0 }, 0, 0, false },
    { "lenet5-xnor", { 0 }, 1, 1, false },
    { "mlp", { [QG_MODEL_DEPTH] = 2, [QG_MODEL_WIDTH] = 33 }, 0, 0, true },
    { "mlp", { [QG_MODEL_WIDTH] = 33, [QG_MODEL_DROPOUT] = 0.5, [QG_MODEL_INPUT_DROPOUT] = 0.2 }, 1, 1, true },
    { "vgg7", { [QG_MODEL_WIDTH] = 0.0625 }, 2, 0, false },
    { "vgg-small", { [QG_MODEL_WIDTH] = 0.0625 }, 1, 1, false },
    { "resnet20", { 0 }, 2, 0, false },
    { "resnet20", { [QG_MODEL_SHORTCUT] = QG_SHORTCUT_POOL }, 0, 2, false },
    { "resnet20", { [QG_MODEL_SHORTCUT] = QG_SHORTCUT_B }, 0, 2, false },
    { "resnet20", { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION }, 2, 2, false },
    { "resnet20", { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_POOL }, 0, 0, false },
    { "resnet20", { [QG_MODEL_ORDER] = QG_PRE_ACTIVATION, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_B }, 0, 0, false },
    { "resnet20", { [QG_MODEL_ORDER] = QG_BIREAL, [QG_MODEL_SHORTCUT] = QG_SHORTCUT_POOL }, 1, 1, false },
    { "resnet32", { 0 }, 0, 0, false },
    { "resnet44", { 0 }, 0, 0, false },
    { "resnet56", { 0 }, 0, 0, false },
    { "resnet18", { [QG_MODEL_WIDTH] = 0.0625 }, 2, 0, false },
    { "resnet18", { [QG_MODEL_WIDTH] = 0.0625 }, 0, 2, false },
    { "birealnet18", { [QG_MODEL_WIDTH] = 0.0625 }, 2, 0, false },
    { "birealnet18", { [QG_MODEL_WIDTH] = 0.0625 }, 1, 1, false },
    { "mobilenet", { [QG_MODEL_WIDTH] = 0.0625 }, 2, 0, false },
    { "mobilenet", { [QG_MODEL_WIDTH] = 0.0625 }, 0, 2, false },
    { "nin", { 0 }, 2, 0, false },
    { "nin", { 0 }, 1, 1, false },
    { "tfc", { 0 }, 1, 1, true },
    { "tfc", { 0 }, 1, 2, true },
    { "tfc", { 0 }, 2, 2, true },
    { "tfc", { 0 }, 0, 0, true },
    { "sfc", { 0 }, 2, 2, true },
    { "lfc", { 0 }, 1, 1, true },
    { "cnv", { 0 }, 1, 1, true },
    { "cnv", { 0 }, 2, 2, true },
};

static qg_quant unit_of(int bits, bool zero)
{
    return bits ? qg_unit((qg_unit_spec){ .bits = bits, .zero = zero && bits > 1 }) : (qg_quant){ 0 };
}

/* The image in 8 bits, as CNV's recipe has it. */
static const qg_quant *image_bits(void)
{
    static qg_quant q;
    q = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_FIXED, .min = -1, .max = 0.9921875f });
    return &q;
}

/* The paper's, but for nets that take any and would take long. */
static qg_shape image_of(const variant *v)
{
    qg_shape x = find(v->model)->image;
    if (x.h == 32 && strcmp(v->model, "cnv")) x.h = x.w = 8;
    return x;
}

typedef struct training {
    qg_net    *net;
    qg_optim  *optim;
    qg_tape   *tape;
    qg_params *params;
} training;

static training begin(const variant *v, uint64_t seed)
{
    const qg_choice image = { .layer = "conv1", .has_input = true, .input = *image_bits() };
    const qg_shape  x     = image_of(v);
    qg_model_spec   spec  = { .height = x.h, .width = x.w, .weight = unit_of(v->weight, true),
                              .input = unit_of(v->input, false), .seed = seed };
    memcpy(spec.option, v->option, sizeof spec.option);
    if (!strcmp(v->model, "cnv")) spec.choice = &image, spec.choices = 1;
    training r = { .net = built(v->model, spec), .tape = qg_tape_new() };
    r.params = qg_net_params(r.net);
    r.optim  = qg_adam(r.params, (qg_adam_spec){ .lr = 1e-3f });
    return r;
}

static void end(training *r) { qg_tape_free(r->tape), qg_optim_free(r->optim), qg_net_free(r->net); }

enum { N = 3 };

/* Forward and backward; a finite loss. */
static void run(const variant *v, training *r, uint64_t step)
{
    static float   image[N * 32 * 32 * 3];
    static uint16_t label[N];
    const qg_shape one = image_of(v), x = { N, one.h, one.w, one.c };
    fill_bands(x, 10, step, image, label);
    qg_tape_begin(r->tape, QG_TRAIN, 7, step);
    qg_var *scores = qg_net_forward(r->net, r->tape, (qg_tensor){ x, image });
    qg_var *loss   = (v->hinge ? qg_squared_hinge : qg_cross_entropy)(r->tape, scores, label);
    if (qg_backward(r->tape, loss)) fail_msg("%s, %d and %d bits: %s", v->model, v->weight, v->input, qg_errmsg());
    assert_true(isfinite(loss->data[0]));
}

static void assert_gradient_everywhere(const variant *v, const qg_params *p)
{
    for (int i = 0; i < p->count; i++) {
        const qg_param *x   = p->item[i];
        double          sum = 0;
        for (size_t k = 0, n = qg_count(x->shape); x->grad && k < n; k++) sum += fabs((double)x->grad[k]);
        if (x->grad && !(sum > 0 && isfinite(sum)))
            fail_msg("%s, %d and %d bits: the gradient of %s sums up to %g", v->model, v->weight, v->input, x->name, sum);
    }
}

static void store(training *r, const char *path, bool load)
{
    qg_state *s = qg_state_new();
    qg_net_state(r->net, s);
    qg_optim_state(r->optim, s);
    if (load ? qg_state_load(s, path) : qg_state_save(s, path)) fail_msg("%s", qg_errmsg());
    qg_state_free(s);
}

static void update(training *r)
{
    if (qg_optim_step(r->optim)) fail_msg("%s", qg_errmsg());
}

static void every_model_trains_and_resumes(void **state)
{
    const char *path = scratch_file();
    for (int i = 0; i < COUNT(variants); i++) {
        const variant *v = &variants[i];
        training       a = begin(v, 1), b = begin(v, 2);
        run(v, &a, 0);
        assert_gradient_everywhere(v, a.params);
        update(&a);
        store(&a, path, false);
        run(v, &a, 1), update(&a);
        assert_true(qg_params_digest(a.params) != qg_params_digest(b.params));
        store(&b, path, true);
        run(v, &b, 1), update(&b);
        if (qg_params_digest(a.params) != qg_params_digest(b.params))
            fail_msg("%s, %d and %d bits: another net after a resume", v->model, v->weight, v->input);
        end(&a), end(&b);
    }
}

/* --- wrong options ------------------------------------------------------------------------ */

static void assert_refuses(const char *model, qg_model_key key, double value, const char *part)
{
    qg_model_spec spec = { 0 };
    spec.option[key]   = value;
    assert_none(declared(model, spec), part);
}

static void wrong_options_are_named(void **state)
{
    assert_refuses("vgg7", QG_MODEL_WIDTH, 9, "vgg7: width is 9, not in 0.0625..4");
    assert_refuses("vgg7", QG_MODEL_WIDTH, NAN, "vgg7: width is nan, not in 0.0625..4");
    assert_refuses("vgg7", QG_MODEL_WIDTH, -1, "vgg7: width is -1");
    assert_refuses("mlp", QG_MODEL_DEPTH, 1.5, "mlp: depth is 1.5, not a whole number");
    assert_refuses("mlp", QG_MODEL_DROPOUT, 1, "mlp: dropout is 1, not in 0..0.99");
    assert_refuses("resnet20", QG_MODEL_SHORTCUT, 3, "resnet20: shortcut is 3, not one of A|pool|B");
    assert_refuses("birealnet18", QG_MODEL_WIDTH, 0.05, "birealnet18: width is 0.05, not in 0.0625..4");
    assert_refuses("nin", QG_MODEL_WIDTH, 2, "nin: option width is set to 2, but the model does not have it");
    assert_refuses("resnet20", QG_MODEL_WIDTH, 2, "resnet20: option width is set to 2, but the model does not have it");
    assert_refuses("lenet5", QG_MODEL_DEPTH, 2, "lenet5: option depth is set to 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_that_are_printed),
        cmocka_unit_test(sizes_are_those_of_the_layers),
        cmocka_unit_test(learned_shortcuts_weigh_two_convolutions),
        cmocka_unit_test(layers_stand_in_their_papers_order),
        cmocka_unit_test(an_exception_reaches_the_block_it_names),
        cmocka_unit_test(a_float_end_keeps_its_relu),
        cmocka_unit_test(every_model_trains_and_resumes),
        cmocka_unit_test(wrong_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
