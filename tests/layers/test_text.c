/* Nets as text: what they declare, the messages of wrong texts, and where quantizers go. */
#include "tests/support/testing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "core/io/paths.h"
#include "layers/layer.h"
#include "layers/models/text.h"
#include "tests/support/nets.h"

enum { TEXT = 8192 };

static const qg_model_spec small = { .height = 8, .width = 8, .channels = 3, .classes = 10 };

static qg_quant twn(void)    { return qg_twn((qg_twn_spec){ 0 }); }
static qg_quant sign(void)   { return qg_sign((qg_sign_spec){ 0 }); }
static qg_quant dorefa(void) { return qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 }); }

/* One line per layer: name, type, what it reads, output, quantizers. */
static const char *layers_of(const qg_net *net, char text[TEXT])
{
    size_t at = 0;
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer         *l = qg_net_layer(net, i);
        const qg_product *p = qg_layer_product(l);
        at += (size_t)snprintf(text + at, TEXT - at, "%s %s(%s%s%s) %d %d %d", l->name, l->type->name,
                               l->after ? l->after->name : "", l->with ? "," : "", l->with ? l->with->name : "",
                               l->out.h, l->out.w, l->out.c);
        for (int k = 0; p && k < QG_ROLES; k++) {
            const qg_slot *slot = qg_layer_slot(l, qg_roles[k]);
            at += (size_t)snprintf(text + at, TEXT - at, " %s", slot->q.scheme ? slot->q.scheme->name : "-");
        }
        at += (size_t)snprintf(text + at, TEXT - at, "\n");
    }
    return text;
}

static qg_net *built(qg_net *net)
{
    if (!net || !qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

/* Names the first layer that differs. */
static void assert_declares(const char *text, qg_model_spec spec, const char *expected)
{
    char    is[TEXT];
    qg_net *net = built(qg_net_from_text(text, spec));
    assert_string_equal(layers_of(net, is), expected);
    qg_net_free(net);
}

/* --- the notation ------------------------------------------------------------------------- */

/* The models print their own rates into texts: 1e-5 has an exponent, 1e-50 is 0 as a float. */
static void any_rate_of_dropout_is_read(void **state)
{
    static const double rates[] = { 0.99, 1e-5, 1e-40, 1e-50 };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        qg_model_spec spec = small;
        spec.option[QG_MODEL_DROPOUT] = spec.option[QG_MODEL_INPUT_DROPOUT] = rates[i];
        spec.option[QG_MODEL_WIDTH]   = 4;
        qg_net_free(built(qg_model_declare(qg_model_find("mlp"), spec)));
    }
    assert_declares("D1e-3-10", small, "drop1 dropout() 8 8 3\nfc1 dense(drop1) 1 1 10 - - -\n");
    assert_declares("D2.5e-1-D1e-05-10", small,
                    "drop1 dropout() 8 8 3\ndrop2 dropout(drop1) 8 8 3\nfc1 dense(drop2) 1 1 10 - - -\n");
}

static void every_part_declares_its_layer(void **state)
{
    assert_declares("16C3s2-BN-R-8C3x5p1b0-HT-AP2-D0.5-AF(scale=2,shift=-1)-MP2-12FCb0-R-10",
                    (qg_model_spec){ .height = 28, .width = 28, .channels = 1, .classes = 10 },
                    "conv1 conv2d() 14 14 16 - - -\n"
                    "bn1 batchnorm(conv1) 14 14 16\n"
                    "relu1 relu(bn1) 14 14 16\n"
                    "conv2 conv2d(relu1) 14 12 8 - - -\n"
                    "hardtanh1 hardtanh(conv2) 14 12 8\n"
                    "pool1 avgpool(hardtanh1) 7 6 8\n"
                    "drop1 dropout(pool1) 7 6 8\n"
                    "affine1 affine(drop1) 7 6 8\n"
                    "pool2 maxpool(affine1) 3 3 8\n"
                    "fc1 dense(pool2) 1 1 12 - - -\n"
                    "relu2 relu(fc1) 1 1 12\n"
                    "fc2 dense(relu2) 1 1 10 - - -\n");
}

static void windows_have_strides_and_padding(void **state)
{
    assert_declares("4C3-MP3s2p1-AP3s2-10", small,
                    "conv1 conv2d() 8 8 4 - - -\npool1 maxpool(conv1) 4 4 4\npool2 avgpool(pool1) 1 1 4\n"
                    "fc1 dense(pool2) 1 1 10 - - -\n");
    assert_declares("4C3-AP3p1s1-MP2p1-MP2s3-10", small,
                    "conv1 conv2d() 8 8 4 - - -\npool1 avgpool(conv1) 8 8 4\npool2 maxpool(pool1) 5 5 4\n"
                    "pool3 maxpool(pool2) 2 2 4\nfc1 dense(pool3) 1 1 10 - - -\n");
    /* A block knows their sizes. */
    assert_declares("4C3-{4C3-AP3s2p1}:pool-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 8 8 4 - - -\npool1 avgpool(conv2) 4 4 4\n"
                    "pool2 avgpool(conv1) 4 4 4\nshortcut1 shortcut(pool2) 4 4 4\nadd1 add(pool1,shortcut1) 4 4 4\n"
                    "fc1 dense(add1) 1 1 10 - - -\n");
}

static void groups_and_same_padding_are_suffixes(void **state)
{
    static const qg_shape weights[] = { { 32, 3, 3, 3 }, { 32, 3, 3, 1 }, { 64, 1, 1, 32 }, { 64, 3, 5, 1 }, { 24, 3, 3, 16 } };
    const char *text = "32C3s2psame-BN-R-DW3-BN-R-64C1-DW3s2x5psameb0-24C3g4p0-GAP-10";
    assert_declares(text, (qg_model_spec){ .height = 15, .width = 16, .channels = 3, .classes = 10 },
                    "conv1 conv2d() 8 8 32 - - -\nbn1 batchnorm(conv1) 8 8 32\nrelu1 relu(bn1) 8 8 32\n"
                    "conv2 conv2d(relu1) 8 8 32 - - -\nbn2 batchnorm(conv2) 8 8 32\nrelu2 relu(bn2) 8 8 32\n"
                    "conv3 conv2d(relu2) 8 8 64 - - -\nconv4 conv2d(conv3) 4 4 64 - - -\n"
                    "conv5 conv2d(conv4) 2 2 24 - - -\npool1 global avgpool(conv5) 1 1 24\n"
                    "fc1 dense(pool1) 1 1 10 - - -\n");
    qg_net *net = built(qg_net_from_text(text, (qg_model_spec){ .height = 15, .width = 16, .channels = 3, .classes = 10 }));
    for (int i = 0; i < COUNT(weights); i++) {
        char name[24];
        snprintf(name, sizeof name, "conv%d.weight", i + 1);
        assert_true(qg_shape_equal(qg_params_find(qg_net_params(net), name)->shape, weights[i]));
    }
    assert_null(qg_params_find(qg_net_params(net), "conv4.bias"));
    qg_net_free(net);
    /* A block whose stride is TensorFlow's; quantizers as for any product. */
    assert_declares("4C3-R-{DW3s2psame}:A-10", (qg_model_spec){ 7, 8, 3, 10, .weight = twn(), .input = dorefa(), .first_last = QG_FIRST_LAST_QUANTIZED },
                    "conv1 conv2d() 7 8 4 twn - -\nquant1 quantize(conv1) 7 8 4\nconv2 conv2d(quant1) 4 4 4 twn - -\n"
                    "shortcut1 shortcut(quant1) 4 4 4\nadd1 add(conv2,shortcut1) 4 4 4\nfc1 dense(add1) 1 1 10 twn dorefa -\n");
}

static void activations_have_short_names(void **state)
{
    assert_declares("4C3-PR-SG-TH-RPR-GAP-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nprelu1 prelu(conv1) 8 8 4\nsigmoid1 sigmoid(prelu1) 8 8 4\n"
                    "tanh1 tanh(sigmoid1) 8 8 4\nrprelu1 rprelu(tanh1) 8 8 4\npool1 global avgpool(rprelu1) 1 1 4\n"
                    "fc1 dense(pool1) 1 1 10 - - -\n");
    qg_net         *net   = built(qg_net_from_text("4C3-PR(start=0.5,shared)-PR-RPR(start=-1)-10", small));
    const qg_param *one   = qg_params_find(qg_net_params(net), "prelu1.slope");
    const qg_param *each  = qg_params_find(qg_net_params(net), "prelu2.slope");
    const qg_param *below = qg_params_find(qg_net_params(net), "rprelu1.slope");
    assert_true(qg_count(one->shape) == 1 && one->value[0] == 0.5f);
    assert_true(qg_count(each->shape) == 4 && each->value[3] == 0.25f);
    assert_true(below->value[0] == -1.0f);
    qg_net_free(net);
}

static void repetitions_are_written_out(void **state)
{
    static const char *const texts[][2] = {
        { "3*8FC-10", "8FC-8FC-8FC-10" },
        { "2*(8C3-R)-GAP-10", "8C3-R-8C3-R-GAP-10" },
        { "4C3-2*(2*{8C3-4C3}-R)-10", "4C3-{8C3-4C3}-{8C3-4C3}-R-{8C3-4C3}-{8C3-4C3}-R-10" },
        { "((8C3))-((R-10))", "8C3-R-10" },
    };
    const qg_model_spec spec = { 8, 8, 3, 10, .weight = twn() };
    for (int i = 0; i < COUNT(texts); i++) {
        char    a[TEXT];
        qg_net *net = built(qg_net_from_text(texts[i][0], spec));
        assert_declares(texts[i][1], spec, layers_of(net, a));
        qg_net_free(net);
    }
}

static void blocks_add_their_input(void **state)
{
    assert_declares("4C3-{4C3-BN}-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 8 8 4 - - -\nbn1 batchnorm(conv2) 8 8 4\n"
                    "add1 add(bn1,conv1) 8 8 4\nfc1 dense(add1) 1 1 10 - - -\n");
    assert_declares("4C3-{8C3s2}:A-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 4 4 8 - - -\nshortcut1 shortcut(conv1) 4 4 8\n"
                    "add1 add(conv2,shortcut1) 4 4 8\nfc1 dense(add1) 1 1 10 - - -\n");
    assert_declares("4C3-{8C3s2}:pool-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 4 4 8 - - -\npool1 avgpool(conv1) 4 4 4\n"
                    "shortcut1 shortcut(pool1) 4 4 8\nadd1 add(conv2,shortcut1) 4 4 8\nfc1 dense(add1) 1 1 10 - - -\n");
    assert_declares("4C3-{8C3}:pool-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 8 8 8 - - -\nshortcut1 shortcut(conv1) 8 8 8\n"
                    "add1 add(conv2,shortcut1) 8 8 8\nfc1 dense(add1) 1 1 10 - - -\n");
    /* The height of a signal cannot shrink. */
    assert_declares("4C3-{8C3s2}:A-10", (qg_model_spec){ .height = 1, .width = 9, .channels = 1, .classes = 10 },
                    "conv1 conv2d() 1 9 4 - - -\nconv2 conv2d(conv1) 1 5 8 - - -\nshortcut1 shortcut(conv1) 1 5 8\n"
                    "add1 add(conv2,shortcut1) 1 5 8\nfc1 dense(add1) 1 1 10 - - -\n");
    /* A second shortcut has another name, whatever the first one was; a batch norm ends both branches or none. */
    assert_declares("4C3-{8C3s2}:A-{2C3s2-BN}:B-{4C3}:B-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 4 4 8 - - -\nshortcut1 shortcut(conv1) 4 4 8\n"
                    "add1 add(conv2,shortcut1) 4 4 8\nconv3 conv2d(add1) 2 2 2 - - -\nbn1 batchnorm(conv3) 2 2 2\n"
                    "shortcut2 conv2d(add1) 2 2 2 - - -\nbn2 batchnorm(shortcut2) 2 2 2\nadd2 add(bn1,bn2) 2 2 2\n"
                    "conv4 conv2d(add2) 2 2 4 - - -\nshortcut3 conv2d(add2) 2 2 4 - - -\n"
                    "add3 add(conv4,shortcut3) 2 2 4\nfc1 dense(add3) 1 1 10 - - -\n");
    assert_declares("4C3-{8C3s2-BN}:poolB-{4C3}:poolB-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 4 4 8 - - -\nbn1 batchnorm(conv2) 4 4 8\n"
                    "pool1 avgpool(conv1) 4 4 4\nshortcut1 conv2d(pool1) 4 4 8 - - -\nbn2 batchnorm(shortcut1) 4 4 8\n"
                    "add1 add(bn1,bn2) 4 4 8\nconv3 conv2d(add1) 4 4 4 - - -\nshortcut2 conv2d(add1) 4 4 4 - - -\n"
                    "add2 add(conv3,shortcut2) 4 4 4\nfc1 dense(add2) 1 1 10 - - -\n");
    /* A shortcut before the block is declared before it. */
    assert_declares("4C3-pool:{8C3s2-BN}-poolB:{R-4C3s2}-A:{4C3}-10", small,
                    "conv1 conv2d() 8 8 4 - - -\npool1 avgpool(conv1) 4 4 4\nshortcut1 shortcut(pool1) 4 4 8\n"
                    "conv2 conv2d(conv1) 4 4 8 - - -\nbn1 batchnorm(conv2) 4 4 8\nadd1 add(bn1,shortcut1) 4 4 8\n"
                    "pool2 avgpool(add1) 2 2 8\nshortcut2 conv2d(pool2) 2 2 4 - - -\nrelu1 relu(add1) 4 4 8\n"
                    "conv3 conv2d(relu1) 2 2 4 - - -\nadd2 add(conv3,shortcut2) 2 2 4\n"
                    "conv4 conv2d(add2) 2 2 4 - - -\nadd3 add(conv4,add2) 2 2 4\nfc1 dense(add3) 1 1 10 - - -\n");
    assert_declares("4C3-{4C3-{4C3}}-10", small,
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 8 8 4 - - -\nconv3 conv2d(conv2) 8 8 4 - - -\n"
                    "add1 add(conv3,conv2) 8 8 4\nadd2 add(add1,conv1) 8 8 4\nfc1 dense(add2) 1 1 10 - - -\n");
}

/* --- quantizers --------------------------------------------------------------------------- */

static void inputs_are_quantized_where_the_header_says(void **state)
{
    const qg_model_spec plain = { 8, 8, 3, 10, .weight = twn() };
    qg_model_spec       binary = plain, rectified = plain, scaled = plain, one_bit = plain;
    one_bit.first_last = QG_FIRST_LAST_QUANTIZED;
    binary.input    = sign();
    scaled.input    = qg_xnor_activation((qg_xnor_activation_spec){ 0 });
    scaled.first_last = QG_FIRST_LAST_QUANTIZED;
    rectified.input = dorefa();
    rectified.first_last = QG_FIRST_LAST_QUANTIZED;
    assert_declares("4C3-BN-R-MP2-4C3-R-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\npool1 maxpool(conv1) 4 4 4\nbn1 batchnorm(pool1) 4 4 4\n"
                    "conv2 conv2d(bn1) 4 4 4 twn sign -\nfc1 dense(conv2) 1 1 10 twn sign -\n");
    assert_declares("4C3-BN-R-MP2-4C3-R-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nbn1 batchnorm(conv1) 8 8 4\npool1 maxpool(bn1) 4 4 4\n"
                    "conv2 conv2d(pool1) 4 4 4 twn dorefa -\nfc1 dense(conv2) 1 1 10 twn dorefa -\n");
    assert_declares("IQ-4C3-BN-R-MP2k-4C3-R-10", binary,
                    "conv1 conv2d() 8 8 4 twn sign -\nbn1 batchnorm(conv1) 8 8 4\npool1 maxpool(bn1) 4 4 4\n"
                    "conv2 conv2d(pool1) 4 4 4 twn sign -\nfc1 dense(conv2) 1 1 10 twn sign -\n");
    /* Q is a layer of its own; a mean of codes is not a code. */
    assert_declares("4C3-Q-{4C3}-Q-4C3-Q-MP2-Q-GAP-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\nconv2 conv2d(quant1) 8 8 4 twn - -\n"
                    "add1 add(conv2,quant1) 8 8 4\nquant2 quantize(add1) 8 8 4\nconv3 conv2d(quant2) 8 8 4 twn - -\n"
                    "quant3 quantize(conv3) 8 8 4\npool1 maxpool(quant3) 4 4 4\n"
                    "quant4 quantize(pool1) 4 4 4\n"
                    "pool2 global avgpool(quant4) 1 1 4\nfc1 dense(pool2) 1 1 10 twn sign -\n");
    /* Signs of what a relu leaves would all be +1, whatever pools stand between it and its product. */
    assert_declares("4C3-R-MP3s2p1-{4C3}-R-GAP-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\npool1 maxpool(conv1) 4 4 4\n"
                    "conv2 conv2d(pool1) 4 4 4 twn sign -\nadd1 add(conv2,pool1) 4 4 4\n"
                    "pool2 global avgpool(add1) 1 1 4\nfc1 dense(pool2) 1 1 10 twn sign -\n");
    assert_declares("4C3-R-MP2-{4C3}-R-GAP-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\npool1 maxpool(relu1) 4 4 4\n"
                    "conv2 conv2d(pool1) 4 4 4 twn dorefa -\nadd1 add(conv2,pool1) 4 4 4\n"
                    "relu2 relu(add1) 4 4 4\n"
                    "pool2 global avgpool(relu2) 1 1 4\nfc1 dense(pool2) 1 1 10 twn dorefa -\n");
    one_bit.input = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 1 });     /* 0 and 1 are no signs */
    assert_declares("4C3-R-AP2-4C3-10", one_bit,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\npool1 avgpool(relu1) 4 4 4\n"
                    "conv2 conv2d(pool1) 4 4 4 twn dorefa -\nfc1 dense(conv2) 1 1 10 twn dorefa -\n");
    assert_declares("4C3-Q-MP2-R-4C3-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\n"
                    "pool1 maxpool(quant1) 4 4 4\nconv2 conv2d(pool1) 4 4 4 twn - -\n"
                    "fc1 dense(conv2) 1 1 10 twn sign -\n");
    assert_declares("4C3-Q-BN-4C3-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\nbn1 batchnorm(relu1) 8 8 4\n"
                    "conv2 conv2d(bn1) 8 8 4 twn sign -\nfc1 dense(conv2) 1 1 10 twn sign -\n");
    assert_declares("4C3-Q-MP2-4C3-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\n"
                    "pool1 maxpool(quant1) 4 4 4\nconv2 conv2d(pool1) 4 4 4 twn - -\nfc1 dense(conv2) 1 1 10 twn sign -\n");
    assert_declares("4C3-Q-8C3-10", plain,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\nconv2 conv2d(relu1) 8 8 8 twn - -\n"
                    "fc1 dense(conv2) 1 1 10 twn - -\n");
    /* A Q that ends a block is a relu, as the sum is to be quantized; nothing is quantized twice. */
    assert_declares("4C3-{4C3-Q}-4C3-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nconv2 conv2d(conv1) 8 8 4 twn dorefa -\n"
                    "relu1 relu(conv2) 8 8 4\nadd1 add(relu1,conv1) 8 8 4\n"
                    "conv3 conv2d(add1) 8 8 4 twn dorefa -\nfc1 dense(conv3) 1 1 10 twn dorefa -\n");
    assert_declares("4C3-Q-D0.5-4C3-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\n"
                    "drop1 dropout(quant1) 8 8 4\n"
                    "conv2 conv2d(drop1) 8 8 4 twn - -\nfc1 dense(conv2) 1 1 10 twn dorefa -\n");
    /* Not right before the product: nothing is moved. */
    assert_declares("4C3-R-MP2-BN-4C3-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\npool1 maxpool(relu1) 4 4 4\n"
                    "bn1 batchnorm(pool1) 4 4 4\nconv2 conv2d(bn1) 4 4 4 twn sign -\nfc1 dense(conv2) 1 1 10 twn sign -\n");
    assert_declares("4C3-BN-R-D0.5-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nbn1 batchnorm(conv1) 8 8 4\nquant1 quantize(bn1) 8 8 4\n"
                    "drop1 dropout(quant1) 8 8 4\nfc1 dense(drop1) 1 1 10 twn - -\n");
    /* The block and its shortcut read what was quantized once. */
    assert_declares("4C3-R-{8C3s2}:B-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\nconv2 conv2d(quant1) 4 4 8 twn - -\n"
                    "shortcut1 conv2d(quant1) 4 4 8 twn - -\nadd1 add(conv2,shortcut1) 4 4 8\n"
                    "fc1 dense(add1) 1 1 10 twn dorefa -\n");
    /* A mean of codes is not a code. */
    assert_declares("4C3-R-{8C3s2}:poolB-10", rectified,
                    "conv1 conv2d() 8 8 4 twn - -\nquant1 quantize(conv1) 8 8 4\nconv2 conv2d(quant1) 4 4 8 twn - -\n"
                    "pool1 avgpool(quant1) 4 4 4\nshortcut1 conv2d(pool1) 4 4 8 twn dorefa -\n"
                    "add1 add(conv2,shortcut1) 4 4 8\nfc1 dense(add1) 1 1 10 twn dorefa -\n");
    /* xnor scales the result of its product: there is no layer of its own, and the shortcut reads floats. */
    assert_declares("4C3-Q-{4C3}-R-{8C3s2-Q-8C3}:B-10", scaled,
                    "conv1 conv2d() 8 8 4 twn - -\nconv2 conv2d(conv1) 8 8 4 twn xnor -\n"
                    "add1 add(conv2,conv1) 8 8 4\nconv3 conv2d(add1) 4 4 8 twn xnor -\n"
                    "conv4 conv2d(conv3) 4 4 8 twn xnor -\nshortcut1 conv2d(add1) 4 4 8 twn xnor -\n"
                    "add2 add(conv4,shortcut1) 4 4 8\nfc1 dense(add2) 1 1 10 twn xnor -\n");
    assert_declares("4C3-Q-Q-4C3-10", scaled,
                    "conv1 conv2d() 8 8 4 twn - -\nconv2 conv2d(conv1) 8 8 4 twn xnor -\n"
                    "fc1 dense(conv2) 1 1 10 twn xnor -\n");
    /* Inside a block, R is the nonlinearity of its branch alone. */
    assert_declares("4C3-{R-4C3-BN}-10", binary,
                    "conv1 conv2d() 8 8 4 twn - -\nconv2 conv2d(conv1) 8 8 4 twn sign -\nbn1 batchnorm(conv2) 8 8 4\n"
                    "add1 add(bn1,conv1) 8 8 4\nfc1 dense(add1) 1 1 10 twn sign -\n");
    assert_declares("4C3-{R-4C3-BN}-10", plain,
                    "conv1 conv2d() 8 8 4 twn - -\nrelu1 relu(conv1) 8 8 4\nconv2 conv2d(relu1) 8 8 4 twn - -\n"
                    "bn1 batchnorm(conv2) 8 8 4\nadd1 add(bn1,conv1) 8 8 4\nfc1 dense(add1) 1 1 10 twn - -\n");
}

static void exceptions_and_float_ends_apply(void **state)
{
    const qg_choice choice[] = { { .layer = "conv2", .has_weight = true }, { .layer = "fc1", .has_input = true, .input = sign() } };
    assert_declares("4C3-4C3-4C3-10", (qg_model_spec){ 8, 8, 3, 10, .weight = twn(), .first_last = QG_FIRST_LAST_FLOAT,
                                                      .choice = choice, .choices = 2 },
                    "conv1 conv2d() 8 8 4 - - -\nconv2 conv2d(conv1) 8 8 4 - - -\nconv3 conv2d(conv2) 8 8 4 twn - -\n"
                    "fc1 dense(conv3) 1 1 10 - sign -\n");
    const qg_choice conv9 = { .layer = "conv9", .has_weight = true };
    assert_none(qg_net_from_text("4C3-10", (qg_model_spec){ 8, 8, 3, 10, .choice = &conv9, .choices = 1 }),
                "net has no layer 'conv9' with a weight; available: conv1, fc1");
    assert_none(qg_net_from_text("500*(4C3)-10", (qg_model_spec){ 8, 8, 3, 10, .choice = &(qg_choice){ .layer = "fc2" }, .choices = 1 }),
                "net has no layer 'fc2' with a weight; available: conv1, conv2, ");
    assert_string_equal(strrchr(qg_errmsg(), ','), ", ..");
}

/* Digests of the initial weights, and of those after a step of SGD. */
static void train_a_step(qg_net *net, uint64_t digest[2])
{
    static float   x[2 * 16 * 16 * 3];
    static uint16_t label[2];
    const qg_shape image = { 2, 16, 16, 3 };
    qg_optim      *o     = qg_sgd(qg_net_params(net), (qg_sgd_spec){ .lr = 0.1f });
    qg_tape       *t     = qg_tape_new();
    fill_bands(image, 10, 3, x, label);
    digest[0] = qg_params_digest(qg_net_params(net));
    train_step(net, t, o, (qg_tensor){ image, x }, label, 0);
    digest[1] = qg_params_digest(qg_net_params(net));
    assert_true(digest[0] != digest[1]);
    qg_tape_free(t);
    qg_optim_free(o);
}

#define SEPARABLE(stride, out) "-DW3" stride "-BN-R-" out "C1-BN-R"
#define STAGE(n)  "-{" n "C3s2-BN-R-" n "C3-BN}:B-R-{" n "C3-BN-R-" n "C3-BN}-R"
#define BIREAL(n) "-{R-" n "C3s2-BN}:poolB-3*{R-" n "C3-BN}"
#define FINN(n)   "IQ-AF(scale=2,shift=-1)-3*(D0.2-" n "FCb0-BN-R)-D0.2-10FCb0-BN(whole,eps=1e-4)"
#define CNV(n)    "2*(" n "C3p0b0-BN(eps=1e-4)-R)-"
#define POST(in, s, out)  in "{" out "C3" s "b0-BN-R-" out "C3b0-BN}-Q-2*({" out "C3b0-BN-R-" out "C3b0-BN}-Q)-"
#define PRE(in, s, out)   in "{BN-Q-" out "C3" s "b0-BN-R-" out "C3b0}-2*{BN-Q-" out "C3b0-BN-R-" out "C3b0}-"
#define PRE_B(out)        "BN-Q-B:{" out "C3s2b0-BN-R-" out "C3b0}-2*{BN-Q-" out "C3b0-BN-R-" out "C3b0}-"

/* The zoo is text; these are written once more, as a user would. */
static void the_zoo_can_be_written_as_text(void **state)
{
    static const struct { const char *model, *text; double width; int order, shortcut, side; } rows[] = {
        { .model = "lenet5", .text = "32C5p0-BN-R-MP2-64C5p0-BN-R-MP2-512FC-BN-R-10" },
        { .model = "lenet5-xnor",
          .text = "20C5p0-BN(eps=1e-4,no-shift,no-scale)-R-MP2-BN(eps=0.0001)-50C5p0-R-MP2-BN(eps=1e-4)-500FC-R-10" },
        { .model = "mlp", .text = "3*(64FC-BN(eps=1e-4,momentum=0.15)-R)-10-BN(eps=1e-4,momentum=0.15)", .width = 64 },
        { .model = "vgg7",
          .text = "128C3-BN-R-128C3-BN-R-MP2-256C3-BN-R-256C3-BN-R-MP2-512C3-BN-R-512C3-BN-R-MP2-1024FC-BN-R-10" },
        { .model = "vgg-small", .text = "2*(128C3-BN-R)-MP2-2*(256C3-BN-R)-MP2-2*(512C3-BN-R)-MP2-10" },
        { .model = "resnet18",
          .text = "8C3-BN-R-2*({8C3-BN-R-8C3-BN}-R)" STAGE("16") STAGE("32") STAGE("64") "-GAP-10", .width = 0.125 },
        { .model = "birealnet18", .text = "8C3-BN-4*{R-8C3-BN}" BIREAL("16") BIREAL("32") BIREAL("64") "-GAP-10", .width = 0.125 },
        { .model = "mobilenet",
          .text = "4C3-BN-R" SEPARABLE("", "8") SEPARABLE("s2", "16") SEPARABLE("", "16") SEPARABLE("s2", "32")
                  SEPARABLE("", "32") SEPARABLE("s2", "64") "-5*(DW3-BN-R-64C1-BN-R)" SEPARABLE("s2", "128") SEPARABLE("", "128")
                  "-GAP-10",
          .width = 0.125 },
        { .model = "nin",
          .text = "192C5-BN(eps=1e-4,no-scale,no-shift)-R-BN(eps=1e-4)-160C1-R-BN(eps=1e-4)-96C1-R-MP3s2p1-BN(eps=1e-4)-D0.5-"
                  "192C5-R-2*(BN(eps=1e-4)-192C1-R)-AP3s2p1-BN(eps=1e-4)-D0.5-192C3-R-BN(eps=1e-4)-192C1-R-"
                  "BN(eps=1e-4,no-scale,no-shift)-10C1-R-GAP" },
        { .model = "resnet20", .text = "16C3b0-BN-Q-" POST("", "", "16") POST("A:", "s2", "32") POST("A:", "s2", "64") "GAP-10" },
        { .model = "resnet20", .shortcut = QG_SHORTCUT_B,
          .text = "16C3b0-BN-Q-" POST("", "", "16") POST("B:", "s2", "32") POST("B:", "s2", "64") "GAP-10" },
        { .model = "resnet20", .shortcut = QG_SHORTCUT_POOL, .order = QG_PRE_ACTIVATION,
          .text = "16C3b0-BN-Q-{16C3b0-BN-R-16C3b0}-2*{BN-Q-16C3b0-BN-R-16C3b0}-"
                  PRE("pool:", "s2", "32") PRE("pool:", "s2", "64") "BN-Q-GAP-10" },
        { .model = "resnet20", .shortcut = QG_SHORTCUT_B, .order = QG_PRE_ACTIVATION,
          .text = "16C3b0-BN-Q-{16C3b0-BN-R-16C3b0}-2*{BN-Q-16C3b0-BN-R-16C3b0}-" PRE_B("32") PRE_B("64") "BN-Q-GAP-10" },
        { .model = "tfc", .text = FINN("64") },
        { .model = "sfc", .text = FINN("256") },
        { .model = "lfc", .text = FINN("1024") },
        { .model = "cnv",
          .text = "AF(scale=2,shift=-1)-" CNV("64") "MP2k-" CNV("128") "MP2k-" CNV("256")
                  "2*(512FCb0-BN(eps=1e-4)-R)-10FCb0-BN(whole,eps=1e-4)",
          .side = 32 },
    };
    const qg_quant inputs[] = { { 0 }, dorefa(), sign() };
    for (int i = 0; i < COUNT(rows); i++)
        for (int k = 0; k < COUNT(inputs); k++) {
            const int     side = rows[i].side ? rows[i].side : 16;
            qg_model_spec spec = { side, side, 3, 10, .seed = 4, .weight = twn(), .input = inputs[k],
                                   .first_last = QG_FIRST_LAST_QUANTIZED }, mine = spec;
            spec.option[QG_MODEL_ORDER] = rows[i].order, spec.option[QG_MODEL_SHORTCUT] = rows[i].shortcut;
            char          a[TEXT], b[TEXT];
            uint64_t      expected[2], is[2];
            spec.option[QG_MODEL_WIDTH] = rows[i].width;
            qg_net *zoo = built(qg_model_declare(qg_model_find(rows[i].model), spec));
            qg_net *net = built(qg_net_from_text(rows[i].text, mine));
            assert_string_equal(layers_of(net, a), layers_of(zoo, b));
            if (k == 0 && side == 16) {
                train_a_step(zoo, expected), train_a_step(net, is);
                if (expected[0] != is[0] || expected[1] != is[1]) fail_msg("%s: the digests differ", rows[i].model);
            }
            qg_net_free(zoo);
            qg_net_free(net);
        }
}

/* A text in the description of a model, or in the table of docs/models-and-data.md, is that of the model. */
static void assert_is_text_of(const qg_model *m, const char *from)
{
    char                text[512], a[TEXT], b[TEXT];
    const qg_model_spec spec = { 32, 32, 3, 10, .seed = 4, .weight = twn() };
    snprintf(text, sizeof text, "%.*s", (int)strcspn(from, " `"), from);
    if (text[strlen(text) - 1] == ',') text[strlen(text) - 1] = '\0';
    qg_net *own = built(qg_model_declare(m, spec)), *net = qg_net_from_text(text, spec);
    if (!net) fail_msg("%s: %s", m->name, qg_errmsg());
    assert_string_equal(layers_of(built(net), a), layers_of(own, b));
    qg_net_free(own);
    qg_net_free(net);
}

static bool looks_like_text(const char *s) { return strstr(s, "C3-") || strstr(s, "C5-") || strstr(s, "FC-") || strstr(s, "MP2"); }

static void descriptions_that_look_like_texts_are(void **state)
{
    char           *page, row[64];
    size_t          n;
    int             described = 0, in_table = 0;
    assert_ok(qg__text_read(QG_BY_PATH, "docs/models-and-data.md", 1 << 20, &page, &n));
    for (const qg_model *const *m = qg_models; *m; m++) {
        if (looks_like_text((*m)->about)) {
            assert_is_text_of(*m, (*m)->about), described++;
            if ((*m)->keys) fail_msg("%s: its options change its text", (*m)->name);
        }
        snprintf(row, sizeof row, "\n| `%s", (*m)->name);
        const char *at = strstr(page, row), *cell = at ? strchr(at + strlen(row), '|') : NULL;
        if (!at || (at[strlen(row)] != '`' && at[strlen(row)] != ':')) continue;
        char what[512];
        snprintf(what, sizeof what, "%.*s", (int)strcspn(cell + 2, "|"), cell + 2);
        if (looks_like_text(what)) assert_is_text_of(*m, what + (*what == '`')), in_table++;
    }
    assert_true(described >= 2 && in_table >= 3);
    free(page);
}

/* --- wrong texts -------------------------------------------------------------------------- */

static void wrong_texts_are_shown_at_the_character(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        { "", "net '': character 1: a layer is missing" },
        { "-10", "character 1: '-' is no layer" },
        { "16C3-", "character 6: a layer is missing" },
        { "16C3--10", "character 6: '-' is no layer" },
        { "16C3 -10", "character 5: '-' is missing between two layers" },
        { "16C3R-10", "character 5: '-' is missing between two layers" },
        { "16C3-XY-10", "net '16C3-XY-10': character 6: 'XY' is no layer; available: 32C5, DW3, 512FC, 10, BN, R, PR, RPR, HT" },
        { "16C3-bn-10", "character 6: 'bn' is no layer" },
        { "16C3-BNR-10", "character 6: 'BNR' is no layer" },
        { "16C3-\xc3\xa9", "character 6: '\xc3\xa9' is no layer" },
        { "16C3-\xc3", "character 6: '\\xc3' is no layer" },
        { "R", "character 1: the net has no layer with weights" },
        { "(R-BN)", "character 1: the net has no layer with weights" },
        { "0C3-10", "character 1: the number of channels or units is 0" },
        { "4C3-PR(start=0)-10", "character 5: start is 0, but must not be" },
        { "4C3-D0.99999999-10", "the rate of a dropout must be between 0 and 1" },
        { "0-10", "character 1: the number of channels or units is 0" },
        { "1048577C3-10", "character 1: the number of channels or units is larger than 1048576" },
        { "99999999999999999999", "character 1: the number of channels or units is larger than 1048576" },
        { "16Q-10", "character 3: after a number: C (convolution), FC (dense) or * (repeated)" },
        { "16F-10", "character 3: after a number" },
        { "16C-10", "character 4: the size of the kernel is missing" },
        { "16C0-10", "character 4: the size of the kernel is 0" },
        { "16C4-10", "character 1: only a square kernel of odd size keeps the size of the image; give a padding, as in p0 or psame" },
        { "16C3x5-10", "character 1: only a square kernel" },
        { "16C3x-10", "character 6: the width of the kernel is missing" },
        { "16C3s-10", "character 6: the stride is missing" },
        { "16C3s0-10", "character 6: the stride is 0" },
        { "16C3p-10", "character 6: the padding is missing" },
        { "16C3s2s2-10", "character 7: this is given twice" },
        { "16C3psamep1-10", "character 10: this is given twice" },
        { "16C3-MP3psame-10", "character 10: the padding is missing" },
        { "16C3psam-10", "character 6: the padding is missing" },
        { "16C3ps2-10", "character 6: the padding is missing" },
        { "16C3same-10", "character 6: the stride is missing" },
        { "16C3g-10", "character 6: the number of groups is missing" },
        { "16C3g0-10", "character 6: the number of groups is 0" },
        { "16C3g3-10", "character 6: 3 groups do not divide 16 channels" },
        { "16C3s2g2-10", "character 1: 2 groups do not divide the 3 channels of its input" },
        { "6C3-BN-{6C1-R-8C3g4}:B-10", "character 15: 4 groups do not divide the 6 channels of its input" },
        { "16C3g2g2-10", "character 7: this is given twice" },
        { "DW-10", "character 3: the size of the kernel is missing" },
        { "4C3-IQ-10", "character 5: IQ stands only at the beginning of a net" },
        { "2*(IQ-10)", "character 4: IQ stands only at the beginning of a net" },
        { "4C3-AP2k-10", "character 8: '-' is missing between two layers" },
        { "4C3-A:{8C3s2}:A-10", "character 14: the block has a shortcut before it already" },
        { "4C3-A:8C3-10", "character 5: 'A' is no layer" },
        { "4C3-poolA:{8C3}-10", "character 5: 'poolA' is no layer" },
        { "A:{8C3}-10", "character 3: a block cannot begin the net" },
        { "4C3-pool:{8C3s3}-10", "character 10: the block turns [1,8,8,4] into [1,3,3,8]; means of 3x3 pixels do not give that size" },
        { "4C3-A:{8C9p0}-10", "character 8: a window of 9x9 is larger than its input" },
        { "DW0-10", "character 3: the size of the kernel is 0" },
        { "DW2-10", "character 1: only a square kernel of odd size keeps the size of the image; give a padding, as in p0 or psame" },
        { "DW3g3-10", "character 4: '-' is missing between two layers" },
        { "16DW3-10", "character 3: after a number: C (convolution), FC (dense) or * (repeated)" },
        { "16FCg2-10", "character 5: '-' is missing between two layers" },
        { "16C3b1-10", "character 5: b0 stands for no bias" },
        { "16C3b-10", "character 6: 0, for no bias, is missing" },
        { "16FCs2-10", "character 5: '-' is missing between two layers" },
        { "16C3-MP-10", "character 8: the size of the window is missing" },
        { "16C3-MP0-10", "character 8: the size of the window is 0" },
        { "16C3-MP3s-10", "character 10: the stride is missing" },
        { "16C3-MP3s0-10", "character 10: the stride is 0" },
        { "16C3-AP3p-10", "character 10: the padding is missing" },
        { "16C3-MP3s2s2-10", "character 11: this is given twice" },
        { "16C3-AP3p3-10", "character 8: the padding of a window must be less than its size" },
        { "16C3-MP9-10", "character 6: a window of 9x9 is larger than its input [1,8,8,16] padded by 0" },
        { "16C3-BN-R-MP9-10", "character 11: a window of 9x9 is larger than its input [1,8,8,16] padded by 0" },
        { "16C9p0-10", "character 1: a window of 9x9 is larger than its input [1,8,8,3] padded by 0" },
        { "16C3-8C11x3p1-10", "character 6: a window of 11x3 is larger than its input [1,8,8,16] padded by 1" },
        { "16C3-MP3x2-10", "character 9: '-' is missing between two layers" },
        { "16C3-GAP2-10", "character 9: '-' is missing between two layers" },
        { "16C3-D-10", "character 7: the rate of a dropout must be between 0 and 1, as in D0.5" },
        { "16C3-D1-10", "character 7: the rate of a dropout" },
        { "16C3-D.5.5-10", "character 7: the rate of a dropout" },
        { "16C3-BN(eps=2)-10", "character 8: BN: eps is 2, not in (0, 1]" },
        { "16C3-BN(size=2)-10", "character 8: BN: unknown option 'size'; available: eps, momentum, no-scale, no-shift, whole" },
        { "16C3-BN(eps=1e-4-10", "character 8: the parenthesis is not closed" },
        { "2*(16C3-R", "character 3: this bracket is not closed" },
        { "16C3-{16C3-R)-10", "character 6: this bracket is not closed" },
        { "16C3)-10", "character 5: this bracket was not opened" },
        { "0*16C3-10", "character 1: the number of repetitions is 0" },
        { "2*-10", "character 3: '-' is no layer" },
        { "()-10", "character 2: ')' is no layer" },
        { "16C3-{R}:C-10", "character 9: a shortcut is :A, :pool, :B or :poolB" },
        { "16C3-{R}:poolA-10", "character 9: a shortcut is :A, :pool, :B or :poolB" },
        { "16C3-{R}:-10", "character 9: a shortcut is :A, :pool, :B or :poolB" },
        { "16C3:A-10", "character 5: '-' is missing between two layers" },
        { "(((((((((((((((((16C3)))))))))))))))))-10", "character 17: more than 16 brackets are open here" },
        { "1000*(5*R)-10", "character 10: the net has more than 4096 layers" },
        { "2*3*R-10", "character 4: '-' is missing between two layers" },
        { "{16C3}-10", "character 1: a block cannot begin the net: its shortcut would be the image" },
        { "16C3-{32C3s2}-10", "character 6: the block turns [1,8,8,16] into [1,4,4,32]; name its shortcut: :A, :pool, :B or :poolB" },
        { "16C3-{16C3p0}:A-10", "character 6: the block turns [1,8,8,16] into [1,6,6,16]; no shortcut has a stride for that" },
        { "16C3-{16C3s3}:pool-10",
          "character 6: the block turns [1,8,8,16] into [1,3,3,16]; means of 3x3 pixels do not give that size; use :A or :B" },
        { "16C3-{16C3s3}:poolB-10", "character 6: the block turns [1,8,8,16] into [1,3,3,16]; means of 3x3 pixels" },
        { "16C3-{8C3}:A-10", "character 6: the block turns [1,8,8,16] into [1,8,8,8]; only shortcuts :B and :poolB reduce the channels" },
        { "16C3-12", "character 6: the net ends with 12 outputs, but the data has 10 classes" },
        { "16C3-10-12FC-BN", "character 9: the net ends with 12 outputs, but the data has 10 classes" },
    };
    for (int i = 0; i < COUNT(rows); i++)
        assert_none(qg_net_from_text(rows[i].text, small), rows[i].says);
    assert_none(qg_net_from_text(NULL, small), "the text of a net is NULL");
}

/* Sizes that a layer refuses overflow nothing before it is asked; make asan would see it. */
static void sizes_beyond_an_int_are_refused(void **state)
{
    static const struct { const char *text; int side; const char *says; } rows[] = {
        { "8C3-{8C3s2}:A-10", INT_MAX, "conv1: " },
        { "8C3p1000-{8C3s2}:A-10", INT_MAX, "conv1: its input" },
        { "BN-{MP2}:A-10C3", INT_MIN, "net: the image is " },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        qg_model_spec spec = small;
        spec.height = spec.width = rows[i].side;
        qg_net *net = qg_net_from_text(rows[i].text, spec);
        assert_none(net ? qg_net_build(net) : NULL, rows[i].says);
        qg_net_free(net);
    }
}

/* A long text is cut in the message, the position is not. */
static void long_texts_are_cut_in_messages(void **state)
{
    char text[600] = "";
    for (int i = 0; i < 100; i++) strcat(text, "16C3-");
    strcat(text, "!");
    assert_none(qg_net_from_text(text, small), "-16C3-..': character 501: '!' is no layer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rate_of_dropout_is_read),
        cmocka_unit_test(every_part_declares_its_layer),
        cmocka_unit_test(windows_have_strides_and_padding),
        cmocka_unit_test(groups_and_same_padding_are_suffixes),
        cmocka_unit_test(activations_have_short_names),
        cmocka_unit_test(repetitions_are_written_out),
        cmocka_unit_test(blocks_add_their_input),
        cmocka_unit_test(inputs_are_quantized_where_the_header_says),
        cmocka_unit_test(exceptions_and_float_ends_apply),
        cmocka_unit_test(the_zoo_can_be_written_as_text),
        cmocka_unit_test(descriptions_that_look_like_texts_are),
        cmocka_unit_test(wrong_texts_are_shown_at_the_character),
        cmocka_unit_test(sizes_beyond_an_int_are_refused),
        cmocka_unit_test(long_texts_are_cut_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
