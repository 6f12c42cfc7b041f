/* The canonical text of a net: net -> text -> net gives the same bits, and text -> net -> text the same text. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qgrad.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"

static qg_net *built(qg_net *net)
{
    if (!net || !qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static char *text_of(const qg_net *net)
{
    char *text = qg_net_print(net);
    if (!text) fail_msg("%s", qg_errmsg());
    return text;
}

/* Digests of the initial weights, and of those after two steps. */
static void train(qg_net *net, qg_shape image, uint64_t digest[2])
{
    enum { N = 4 };
    static float    x[N * 32 * 32 * 3];
    static uint16_t label[N];
    image.n           = N;
    qg_params *params = qg_net_params(net);
    qg_optim  *o      = qg_sgd(params, (qg_sgd_spec){ .lr = 0.05f });
    qg_tape   *t      = qg_tape_new();
    fill_bands(image, 10, 3, x, label);
    digest[0] = qg_params_digest(params);
    for (int i = 0; i < 2 && o; i++) train_step(net, t, o, (qg_tensor){ image, x }, label, (uint64_t)i);
    digest[1] = qg_params_digest(params);
    qg_tape_free(t);
    qg_optim_free(o);
}

/* Takes the net, which is not built yet. */
static void assert_returns(qg_net *net, qg_shape image, const char *what)
{
    uint64_t a[2], b[2];
    if (!net) fail_msg("%s: %s", what, qg_errmsg());
    char   *before = text_of(net);
    qg_net *same   = qg_net_parse(before);
    if (!same) fail_msg("%s: %s\n%s", what, qg_errmsg(), before);
    char *again = text_of(same);
    assert_string_equal(again, before);
    built(net), built(same);
    char *after = text_of(net);
    assert_string_equal(after, before);
    train(net, image, a), train(same, image, b);
    if (a[0] != b[0] || a[1] != b[1]) fail_msg("%s: other bits\n%s", what, before);
    assert_int_equal(packed_size(net), packed_size(same));
    free(before), free(again), free(after);
    qg_net_free(net), qg_net_free(same);
}

/* --- nets ----------------------------------------------------------------------------------- */

static void every_model_returns(void **state)
{
    static const char *const schemes[][2] = {
        { "float", "float" }, { "twn", "sign" }, { "ttq:per-channel=yes", "dorefa:bits=2" },
        { "lsq:bits=4", "fake_quant:range=observed" },
    };
    for (const qg_model *const *m = qg_models; *m; m++)
        for (int k = 0; k < COUNT(schemes); k++) {
            if (!every_combination() && (m - qg_models + k) % 2) continue;
            const qg_shape image = (*m)->image;
            qg_model_spec  spec  = { image.h, image.w, image.c, 10, .seed = 1ull << 63 | 5, .first_last = QG_FIRST_LAST_QUANTIZED };
            for (const qg_key *key = (*m)->keys; key && key->name; key++)
                if (!strcmp(key->name, "width")) spec.option[QG_MODEL_WIDTH] = key->fallback == 1 ? 0.125 : 16;
            if (k && image.h > 28 && strstr((*m)->name, "resnet4")) continue;
            assert_ok(qg_quant_parse(schemes[k][0], QG_WEIGHT, &spec.weight));
            assert_ok(qg_quant_parse(schemes[k][1], QG_INPUT, &spec.input));
            assert_returns(qg_model_declare(*m, spec), image, (*m)->name);
        }
}

/* Every layer of the library and every field of its declaration. */
static void every_layer_returns(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 16, .width = 12, .channels = 3, .seed = 9, .freeze_batchnorm_after = 7,
                                            .quantize_weights_after = 2, .quantize_inputs_after = 1,
                                            .initial_weights = QG_INITIAL_HE });
    qg_net_affine(net, 2, -1);
    qg_layer *stem = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .kernel_w = 5, .pad = 2, .no_bias = true, .name = "my stem \xc3\xa9" });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .eps = 1e-4f, .momentum = 0.15f, .no_scale = true, .freeze_after = 3 });
    qg_net_relu(net);
    qg_net_maxpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 2, .pad = 1 });
    qg_layer *a = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .same = true, .groups = 2, .pad_value = 0.5f });
    qg_net_prelu(net, (qg_prelu_spec){ .start = 0.1f, .shared = true });
    qg_net_conv2d(net, (qg_conv2d_spec){ .kernel = 3, .pad = 1, .groups = QG_DEPTHWISE,
                                         .weight = qg_twn((qg_twn_spec){ .threshold = 0.6f }),
                                         .input = qg_lsq((qg_lsq_spec){ .bits = 3 }),
                                         .gradient = qg_dorefa_gradient((qg_dorefa_gradient_spec){ 0 }) });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .no_shift = true });
    qg_layer *sum = qg_net_add(net, qg_net_rprelu(net, (qg_prelu_spec){ 0 }), a);
    qg_net_hardtanh(net), qg_net_sigmoid(net), qg_net_tanh(net);
    qg_quant sign = qg_sign((qg_sign_spec){ .surrogate = qg_surrogate_annealed_tanh(40) });
    sign.after = 1;
    qg_net_quantize(net, sign);
    qg_net_avgpool_with(net, (qg_pool2d_spec){ .size = 3, .stride = 1, .pad = 1, .exclude_pad = true });
    qg_layer *b = qg_net_dropout(net, 0.1f);
    qg_net_concat(net, b, qg_net_mark_output(qg_net_shortcut(net, sum, 1, 10)));
    qg_net_avgpool(net, 2), qg_net_maxpool(net, 1);
    qg_net_global_avgpool(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 6, .no_bias = true, .weight = qg_xnor((qg_xnor_spec){ 0 }) });
    qg_net_batchnorm_with(net, (qg_batchnorm_spec){ .whole = true });
    qg_quant late = qg_fake_quant((qg_fake_quant_spec){ .range = QG_RANGE_OBSERVED, .freeze_after = 9, .decay = 0.9f });
    late.after    = 5;
    qg_net_dense(net, (qg_dense_spec){ .out = 10, .input = late, .name = "last" });
    assert_non_null(stem);
    char *text = text_of(net);
    assert_string_equal(text,
        "net(height=16,width=12,channels=3,freeze-batchnorm-after=7,quantize-weights-after=2,"
        "quantize-inputs-after=1,initial-weights=he) seed=9\n"
        "affine1 affine(scale=2,shift=-1)\n"
        "\"my stem \xc3\xa9\" conv2d(out=8,kernel=3,kernel-w=5,pad=2,no-bias)\n"
        "bn1 batchnorm(eps=0.0001,momentum=0.15,no-scale,freeze-after=3)\n"
        "relu1 relu\n"
        "pool1 maxpool(size=3,stride=2,pad=1)\n"
        "conv1 conv2d(out=8,kernel=3,same,groups=2,pad-value=0.5)\n"
        "prelu1 prelu(start=0.1,shared)\n"
        "conv2 conv2d(kernel=3,pad=1,groups=-1) weight=twn:threshold=0.6 input=lsq:bits=3 gradient=dorefa:bits=6\n"
        "bn2 batchnorm(no-shift,freeze-after=7)\n"
        "rprelu1 rprelu\n"
        "add1 add with=conv1\n"
        "hardtanh1 hardtanh\n"
        "sigmoid1 sigmoid\n"
        "tanh1 tanh\n"
        "quant1 quantize input=sign:surrogate=annealed-tanh input-anneal=40\n"
        "pool2 avgpool(size=3,stride=1,pad=1,exclude-pad)\n"
        "drop1 dropout(rate=0.1)\n"
        "shortcut1 shortcut(stride=1,channels=10) after=add1 result\n"
        "concat1 concat after=drop1 with=shortcut1\n"
        "pool3 avgpool(size=2)\n"
        "pool4 maxpool(size=1)\n"
        "pool5 \"global avgpool\"\n"
        "fc1 dense(out=6,no-bias) weight=xnor\n"
        "bn3 batchnorm(whole,freeze-after=7)\n"
        "last dense(out=10) input=fake_quant:bits=8,range=observed,decay=0.9,freeze-after=9 input-after=5\n");
    free(text);
    assert_returns(net, (qg_shape){ 1, 16, 12, 3 }, "every layer");
}

/* Each scheme with the defaults of its text, and as the constructors of C give it. */
static void every_scheme_returns(void **state)
{
    for (const qg_scheme *const *s = qg_schemes; *s; s++)
        for (int r = 0; r < QG_ROLES; r++) {
            qg_quant      q;
            char          spelling[QG_SPELLING_BYTES];
            const qg_role role = qg_roles[r];
            if (!((*s)->roles & role) || qg_quant_parse(qg_scheme_spelling(*s, role, spelling, sizeof spelling), role, &q)) continue;
            qg_net *net = qg_net_new((qg_net_spec){ .height = 8, .width = 8, .channels = 3, .seed = 2 });
            qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3 });
            qg_net_batchnorm(net);
            qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3,
                                                 .weight = role == QG_WEIGHT ? q : (qg_quant){ 0 },
                                                 .input = role == QG_INPUT ? q : (qg_quant){ 0 },
                                                 .gradient = role == QG_GRADIENT ? q : (qg_quant){ 0 } });
            qg_net_batchnorm(net);
            qg_net_dense(net, (qg_dense_spec){ .out = 10 });
            assert_returns(net, (qg_shape){ 1, 8, 8, 3 }, (*s)->name);
        }
    const qg_quant of_c[] = {
        qg_ttq((qg_ttq_spec){ .as_paper = true, .decay = 2e-4f }),
        qg_binary((qg_binary_spec){ .per_channel = true, .surrogate = qg_surrogate_swish(4) }),
        qg_bnn((qg_bnn_spec){ .surrogate = qg_surrogate_clip(0.5f) }),
        qg_bnn((qg_bnn_spec){ .surrogate = qg_surrogate_clip(1) }),
        qg_twn((qg_twn_spec){ .surrogate = qg_surrogate_identity() }),
        qg_lsq((qg_lsq_spec){ .bits = 4 }),
        qg_irnet((qg_irnet_spec){ .surrogate = qg_surrogate_annealed_tanh(0) }),
        qg_unit((qg_unit_spec){ .bits = 3, .zero = true }),
        qg_qdq((qg_qdq_spec){ .bits = 4, .range_given = true, .min = -0.2f, .max = 0.3f }),
    };
    for (int i = 0; i < COUNT(of_c); i++) {
        const bool fold = i == COUNT(of_c) - 2;
        qg_net *net = qg_net_new((qg_net_spec){ .height = 8, .width = 8, .channels = 3, .fold_batchnorm = fold });
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = of_c[i] });
        qg_net_batchnorm(net);
        qg_net_dense(net, (qg_dense_spec){ .out = 10 });
        assert_returns(net, (qg_shape){ 1, 8, 8, 3 }, of_c[i].scheme->name);
    }
}

/* --- what has no text ----------------------------------------------------------------------- */

static qg_var *own_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z) { return qg_scale(t, x, 2); }

static const qg_layer_type own_type = { .name = "relu", .size = sizeof(qg_layer), .forward = own_forward };

static void own_slope(float arg, size_t n, const float *x, const float *dy, float *dx)
{
    for (size_t i = 0; i < n; i++) dx[i] += dy[i];
}

static void what_is_ones_own_is_named(void **state)
{
    const qg_scheme own = { .name = "twn", .roles = QG_WEIGHT, .bits = 2, .form = &qg_ternary_form };
    qg_surrogate    slow = qg_surrogate_annealed_tanh(40);
    slow.arg             = 0.001f;
    const struct { qg_quant q; float pad; const qg_layer_type *type; const char *says; } rows[] = {
        { .type = &own_type, .says = "own1: its type 'relu' is not the library's" },
        { .q = { .scheme = &own, .bits = 2 }, .says = "conv1: the scheme twn of its weight or the surrogate is not" },
        { .q = qg_twn((qg_twn_spec){ .surrogate = { .slope = own_slope } }), .says = "conv1: the scheme twn of its weight or the surrogate" },
        { .q = qg_twn((qg_twn_spec){ .surrogate = qg_surrogate_tanh(0) }), .says = "conv1: the scheme twn of its weight or the surrogate" },
        { .q = qg_twn((qg_twn_spec){ .surrogate = qg_surrogate_clip(2000) }), .says = "conv1: the scheme twn of its weight or the surrogate" },
        { .q = qg_irnet((qg_irnet_spec){ .surrogate = slow }), .says = "conv1: the scheme irnet of its weight or the surrogate" },
        { .pad = -0.0f, .says = "conv1: pad-value is -0, which has no text" },
        { .pad = NAN, .says = "conv1: pad-value" },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = 8, .width = 8, .channels = 3 });
        qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = rows[i].q, .pad_value = rows[i].pad });
        if (rows[i].type) qg_net_append(net, rows[i].type, NULL, "own", NULL);
        assert_none(qg_net_print(net), rows[i].says);
        assert_int_equal(qg_errcode(), QG_EARG);
        if (rows[i].q.surrogate.slope) assert_non_null(qg_net_build(net));      /* legal, without a name */
        qg_net_free(net);
    }
    assert_none(qg_net_print(NULL), "net");
    qg_net *failed = qg_net_new((qg_net_spec){ .height = 0, .width = 8, .channels = 3 });
    assert_none(qg_net_print(failed), "net: the image is 0 x 8 x 3");
    qg_net_free(failed);
}

/* Written by hand, a batch norm takes the step from the net, as one that is declared in C does. */
static void norms_freeze_with_the_net(void **state)
{
    qg_net *net  = qg_net_parse("net(height=8,width=8,channels=3,freeze-batchnorm-after=7)\nbn1 batchnorm\n"
                                "bn2 batchnorm(freeze-after=3)\n");
    char   *text = net ? qg_net_print(net) : NULL;
    assert_string_equal(text, "net(height=8,width=8,channels=3,freeze-batchnorm-after=7) seed=0\n"
                              "bn1 batchnorm(freeze-after=7)\nbn2 batchnorm(freeze-after=3)\n");
    free(text);
    qg_net_free(net);
}

#define NET "net(height=8,width=8,channels=3)\n"

static void a_wrong_text_is_shown_at_its_line(void **state)
{
    static const struct { const char *text, *says; } rows[] = {
        { "", "text of a net: line 1: '' is not net(height=..,width=..,channels=..)" },
        { "conv1 conv2d", "line 1: 'conv1' is not net(" },
        { "net(height=8,width=8)", "line 1: channels is missing" },
        { "net(height=8,width=8,channels=3", "line 1: 'net(height=8,width=8,channels=3' lacks its ')'" },
        { "net(height=0,width=8,channels=3)", "line 1: height is 0" },
        { "net(height=8,width=8,channels=3) seed=x", "line 1: 'x' is no whole number" },
        { "net(height=8,width=8,channels=3) sed=1", "line 1: unknown word 'sed=1' after net(..)" },
        { NET "conv1\n", "line 2: the type is missing" },
        { NET "conv1 conv3d", "line 2: unknown type 'conv3d'" },
        { NET "conv1 conv2d(out=x)", "line 2: " },
        { NET "conv1 conv2d(size=3)", "line 2: " },
        { NET "a relu\n\na relu", "line 4: relu: the name 'a' is taken" },
        { NET "a relu\nb relu after=c", "line 3: no layer before it is named 'c'" },
        { NET "a relu\nb add", "line 3: with= is missing" },
        { NET "a relu\nb add with=c", "line 3: no layer before it is named 'c'" },
        { NET "a add with=a", "line 2: no layer before it is named 'a'" },
        { NET "a relu\nb concat with=b", "line 3: no layer before it is named 'b'" },
        { "net(height=4,width=4,channels=1) seed=18446744073709551616\na relu", "'18446744073709551616' is no whole number" },
        { NET "a relu with=a", "line 2: unknown word 'with=a'" },
        { NET "a relu input=sign", "line 2: the type relu has no quantizer of its input" },
        { NET "a dense(out=3) weight=sine", "line 2: " },
        { NET "a dense(out=3) weight-after=3", "line 2: 'weight-after=3' needs weight=.. before it" },
        { NET "a dense(out=3) weight=twn weight-after=-3", "line 2: '-3' is no whole number" },
        { NET "\"a relu", "line 2: a quotation mark is not closed" },
        { NET "a relu results", "line 2: unknown word 'results'" },
        { NULL, "text" },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        assert_none(qg_net_parse(rows[i].text), rows[i].says);
        assert_int_equal(qg_errcode(), QG_EARG);
    }
    char longest[700];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_none(qg_net_parse(longest), "line 1: a word is longer than 511 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_returns),
        cmocka_unit_test(every_layer_returns),
        cmocka_unit_test(every_scheme_returns),
        cmocka_unit_test(what_is_ones_own_is_named),
        cmocka_unit_test(norms_freeze_with_the_net),
        cmocka_unit_test(a_wrong_text_is_shown_at_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
