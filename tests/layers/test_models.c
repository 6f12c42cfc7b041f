#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layer.h"
#include "layers/models/models.h"
#include "core/io/number.h"
#include "tests/support/nets.h"

static qg_net *lenet5(qg_model_spec spec)
{
    spec.height = spec.width = 28, spec.channels = 1, spec.classes = 10, spec.seed = 11;
    qg_net *net = qg_model_declare(qg_model_find("lenet5"), spec);
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static qg_quant twn(void)    { return qg_twn((qg_twn_spec){ 0 }); }
static qg_quant binary(void) { return qg_binary((qg_binary_spec){ 0 }); }
static qg_quant rows(void)   { return qg_binary((qg_binary_spec){ .per_channel = true }); }
static qg_quant sign(void)   { return qg_sign((qg_sign_spec){ 0 }); }

/* "conv2d batchnorm relu ..", and of each product its quantizers: "conv2d:twn:sign". */
static const char *order(const qg_net *net, char text[512])
{
    size_t at = 0;
    for (int i = 0; i < qg_net_layers(net); i++) {
        qg_layer         *l = qg_net_layer(net, i);
        const qg_product *p = qg_layer_product(l);
        at += (size_t)snprintf(text + at, 512 - at, "%s%s", i ? " " : "", l->type->name);
        if (!p) continue;
        const qg_scheme *w = p->weight_slot.q.scheme, *x = p->input_slot.q.scheme;
        at += (size_t)snprintf(text + at, 512 - at, ":%s:%s", w ? w->name : "-", x ? x->name : "-");
    }
    return text;
}

#define AS_DRAWN(w)                                                                                \
    "conv2d:" w ":- batchnorm relu maxpool conv2d:" w ":- batchnorm relu maxpool "                 \
    "dense:" w ":- batchnorm relu dense:" w ":-"

/* A sign input takes the place of the relu before it, and pooling comes before the batch norm; the image is
 * never signed. */
static void quantizers_go_where_the_spec_says(void **state)
{
    const qg_choice choice[] = {
        { .layer = "conv1", .has_weight = true },
        { .layer = "fc1", .has_weight = true, .weight = rows(), .has_input = true, .input = sign() },
        { .layer = "fc2", .has_input = true, .input = sign() },
    };
    const struct { qg_model_spec spec; const char *order; } nets[] = {
        { { 0 }, AS_DRAWN("-") },
        { { .weight = twn() }, AS_DRAWN("twn") },
        { { .weight = binary() }, AS_DRAWN("binary") },
        { { .weight = rows() }, AS_DRAWN("binary-channel") },
        { { .weight = twn(), .first_last = QG_FIRST_LAST_FLOAT },
          "conv2d:-:- batchnorm relu maxpool conv2d:twn:- batchnorm relu maxpool dense:twn:- batchnorm relu dense:-:-" },
        { { .weight = binary(), .input = sign() },
          "conv2d:binary:- maxpool batchnorm conv2d:binary:sign maxpool batchnorm dense:binary:sign batchnorm "
          "dense:binary:sign" },
        { { .weight = binary(), .input = sign(), .first_last = QG_FIRST_LAST_FLOAT },
          "conv2d:-:- maxpool batchnorm conv2d:binary:sign maxpool batchnorm dense:binary:sign batchnorm relu dense:-:-" },
        { { .weight = twn(), .choice = choice, .choices = 2 },
          "conv2d:-:- batchnorm relu maxpool conv2d:twn:- maxpool batchnorm dense:binary-channel:sign batchnorm relu "
          "dense:twn:-" },
        /* A choice outranks first_last_float. */
        { { .weight = twn(), .first_last = QG_FIRST_LAST_FLOAT, .choice = choice + 2, .choices = 1 },
          "conv2d:-:- batchnorm relu maxpool conv2d:twn:- batchnorm relu maxpool dense:twn:- batchnorm dense:-:sign" },
    };
    for (int i = 0; i < COUNT(nets); i++) {
        char    text[512];
        qg_net *net = lenet5(nets[i].spec);
        assert_string_equal(order(net, text), nets[i].order);
        qg_net_free(net);
    }
}

static void exceptions_name_a_layer(void **state)
{
    static const qg_choice conv9 = { .layer = "conv9", .has_weight = true }, nameless = { .has_weight = true };
    static const struct { const qg_choice *choice; const char *says; } rows[] = {
        { &conv9, "lenet5 has no layer 'conv9' with a weight; available: conv1, conv2, fc1, fc2" },
        { &nameless, "lenet5: exception 0 names no layer" },
        { NULL, "lenet5: exception 0 names no layer" },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const qg_model_spec spec = { 28, 28, 1, 10, .choice = rows[i].choice, .choices = 1 };
        assert_none(qg_model_declare(qg_model_find("lenet5"), spec), rows[i].says);
    }
}

static void models_are_found_by_name(void **state)
{
    assert_ptr_equal(qg_model_find("lenet5"), qg_models[0]);
    assert_string_equal(qg_models[0]->name, "lenet5");
    assert_null(qg_model_find("lenet"));
    assert_null(qg_model_declare(qg_model_find("lenet"), (qg_model_spec){ .height = 28, .classes = 10 }));
    assert_message("model: it is NULL; the last failure was: unknown model 'lenet'");
    assert_null(qg_model_find(""));
}

/* --- what it weighs ------------------------------------------------------------------------- */

/* The summary, columns one space apart. */
static const char *summary(const qg_net *net, char *text, size_t bytes)
{
    FILE  *out = tmpfile();
    size_t n   = 0;
    assert_non_null(out);
    qg_net_summary(net, out);
    rewind(out);
    for (int c = getc(out), before = 0; c != EOF && n + 1 < bytes; before = c, c = getc(out))
        if (c != ' ' || before != ' ') text[n++] = (char)c;
    text[n] = 0;
    fclose(out);
    return text;
}

/* From the shapes in the name alone: 32C5 - MP2 - 64C5 - MP2 - 512FC - 10, 28 x 28 images. */
enum {
    CONV1 = 32 * 25, CONV2 = 64 * 25 * 32, FC1 = 512 * 64 * 4 * 4, FC2 = 10 * 512,
    WEIGHTS = CONV1 + CONV2 + FC1 + FC2,
    MACS    = CONV1 * 24 * 24 + CONV2 * 8 * 8 + FC1 + FC2,
    FOLDED  = (32 + 64 + 512) * 2 * 4 + 10 * 4,     /* two floats per normalised channel, one bias */
    /* Of the packed file: header, six steps and their names, a factor and an offset per channel. */
    AROUND  = 64 + 6 * 128 + (int)sizeof "relu1 pool1 relu2 pool2 relu3 fc2" + (32 + 64 + 512 + 10) * 2 * 4,
};

static void the_summary_adds_up(void **state)
{
    char text[4096], line[200];
    assert_int_equal(WEIGHTS, 581408);
    assert_int_equal(MACS, 4267008);
    const struct { qg_model_spec spec; size_t packed; const char *product, *ratio; } nets[] = {
        /* Two bits of 25 weights take 7 bytes, not 6.25: 32 rows of conv1 lose 24 bytes. */
        { { .weight = twn() }, WEIGHTS / 4 + 24, " twn 2 float 32 51200 3276800 13312\n", "15.4 times smaller" },
        { { 0 }, WEIGHTS * 4, " float 32 float 32 51200 3276800 205312\n", "about as large" },
        /* 25 bits of conv1's rows take 4 bytes. */
        { { .weight = binary() }, 32 * 4 + (WEIGHTS - CONV1) / 8, " binary 1 float 32 51200 3276800 6912\n", "29.7 times smaller" },
        { { .weight = rows() }, 32 * 4 + (WEIGHTS - CONV1) / 8, " binary-channel 1 float 32 51200 3276800 6912\n", "29.7 times smaller" },
    };
    for (int i = 0; i < COUNT(nets); i++) {
        const size_t full = WEIGHTS * 4 + FOLDED, packed = nets[i].packed + AROUND;
        qg_net *net = lenet5(nets[i].spec);
        assert_int_equal(qg_net_float_bytes(net), full);
        assert_int_equal(packed_size(net), packed);
        summary(net, text, sizeof text);
        snprintf(line, sizeof line,
                 "581408 weights, %d parameters, 4267008 multiply-adds per image\n"
                 "%zu bytes as float, %zu packed: %s\n",
                 WEIGHTS + FOLDED / 4, full, packed, nets[i].ratio);
        if (!strstr(text, line)) fail_msg("%s\ndoes not say\n%s", text, line);
        if (!strstr(text, nets[i].product)) fail_msg("%s\ndoes not say\n%s", text, nets[i].product);
        assert_non_null(strstr(text, "conv2 conv2d 5x5 8 x 8 x 64 "));
        assert_non_null(strstr(text, "relu2 relu 8 x 8 x 64"));        /* fused, and declared all the same */
        qg_net_free(net);
    }
}

static void a_file_may_be_larger(void **state)
{
    char text[32];
    assert_string_equal(qg__number_ratio(text, 1000, 2000), "2.0 times smaller");
    assert_string_equal(qg__number_ratio(text, 2500, 1000), "2.5 times larger");
    assert_string_equal(qg__number_ratio(text, 999, 1000), "about as large");
    assert_string_equal(qg__number_ratio(text, 1049, 1000), "about as large");
    assert_string_equal(qg__number_ratio(text, 1000, 1050), "1.1 times smaller");
}

/* --- the others ----------------------------------------------------------------------------- */

static uint64_t macs(const qg_net *net)
{
    uint64_t sum = 0;
    for (int i = 0; i < qg_net_layers(net); i++) sum += qg_net_layer(net, i)->macs;
    return sum;
}

/* Weights and multiply-adds on 32 x 32 x 3, from the figures of the papers: vgg7 is 2x128C3 - MP2 -
 * 2x256C3 - MP2 - 2x512C3 - MP2 - 1024FC; resnet20 three stages of six 3x3 convolutions. */
static void the_larger_models_have_their_papers_sizes(void **state)
{
    const size_t vgg_convs = 9u * (3 * 128 + 128 * 128 + 128 * 256 + 256 * 256 + 256 * 512 + 512 * 512);
    const size_t vgg_macs  = 9u * (32 * 32 * (3 * 128 + 128 * 128) + 16 * 16 * (128 * 256 + 256 * 256) +
                                  8 * 8 * (256 * 512 + 512 * 512));
    const size_t vgg_dense = 512 * 4 * 4 * 1024 + 1024 * 10;
    const size_t first = 9u * 3 * 16, wide = 9u * 6 * 16 * 16, half = 9u * (16 * 32 + 5 * 32 * 32);
    const size_t quarter = 9u * (32 * 64 + 5 * 64 * 64);
    const struct { const char *name; size_t weights, macs; } nets[] = {
        { "vgg7", vgg_convs + vgg_dense, vgg_macs + vgg_dense },
        { "resnet20", first + wide + half + quarter + 640,
          32 * 32 * (first + wide) + 16 * 16 * half + 8 * 8 * quarter + 640 },
    };
    char text[16384], line[100];
    for (int i = 0; i < COUNT(nets); i++) {
        qg_net *net = qg_model_declare(qg_model_find(nets[i].name), (qg_model_spec){ 32, 32, 3, 10, .weight = twn() });
        assert_non_null(qg_net_build(net));
        snprintf(line, sizeof line, "%zu weights, ", nets[i].weights);
        if (!strstr(summary(net, text, sizeof text), line)) fail_msg("%s\ndoes not say %s", text, line);
        assert_int_equal(macs(net), nets[i].macs);
        qg_net_free(net);
    }
}

/* --- training ------------------------------------------------------------------------------- */

typedef struct variant {
    const char   *model;
    int           side, channels, classes, steps;
    qg_model_spec spec;
} variant;

/* The loss falls to half of log(classes), that of a guess: the mean of the last seventh of the steps, since
 * with signs all the way a single one is noisy. */
static void assert_learns(const variant *v, int row)
{
    enum { N = 10 };
    static float    image[N * 28 * 28];
    static uint16_t label[N];
    const qg_tensor x    = { { N, v->side, v->side, v->channels }, image };
    const int       tail = v->steps / 7;
    qg_model_spec   spec = v->spec;
    spec.height = spec.width = v->side, spec.channels = v->channels, spec.classes = v->classes, spec.seed = 11;
    fill_bands(x.shape, v->classes, 1, image, label);
    qg_net   *net  = qg_model_declare(qg_model_find(v->model), spec);
    qg_optim *o    = qg_adam(qg_net_build(net), (qg_adam_spec){ .lr = 1e-3f });
    qg_tape  *t    = qg_tape_new();
    double    last = 0;
    for (int step = 0; step < v->steps; step++) {
        const float loss = train_step(net, t, o, x, label, (uint64_t)step);
        if (step >= v->steps - tail) last += (double)loss / tail;
    }
    if (!(last < log(v->classes) / 2)) fail_msg("%s, variant %d: the loss is still %g", v->model, row, last);
    qg_tape_free(t), qg_optim_free(o), qg_net_free(net);
}

static void every_variant_learns(void **state)
{
    const variant variants[] = {
        { "lenet5", 28, 1, 10, 12, { 0 } },
        { "lenet5", 28, 1, 10, 12, { .weight = twn() } },
        { "lenet5", 28, 1, 10, 12, { .weight = binary() } },
        { "lenet5", 28, 1, 10, 12, { .weight = rows() } },
        { "lenet5", 28, 1, 10, 12, { .weight = binary(), .input = sign() } },
        { "lenet5", 28, 1, 10, 12, { .weight = twn(), .input = sign(), .first_last = QG_FIRST_LAST_FLOAT } },
        { "resnet20", 8, 3, 3, 70, { .weight = twn() } },
        { "resnet20", 8, 3, 3, 70, { .weight = rows(), .input = sign() } },
        { "resnet20", 8, 3, 3, 70, { .input = sign(), .first_last = QG_FIRST_LAST_FLOAT } },
    };
    for (int i = 0; i < COUNT(variants); i++) assert_learns(&variants[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantizers_go_where_the_spec_says),
        cmocka_unit_test(exceptions_name_a_layer),
        cmocka_unit_test(models_are_found_by_name),
        cmocka_unit_test(the_summary_adds_up),
        cmocka_unit_test(a_file_may_be_larger),
        cmocka_unit_test(the_larger_models_have_their_papers_sizes),
        cmocka_unit_test(every_variant_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
