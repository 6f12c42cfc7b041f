#include "core/walk.h"
#include "tests/support/testing.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "layers/layer.h"
#include "layers/net.h"
#include "optim/optim.h"
#include "tests/support/nets.h"

static qg_net *small_net(void) { return qg_net_new((qg_net_spec){ .height = 9, .width = 7, .channels = 3, .seed = 1 }); }

/* --- bad declarations ---------------------------------------------------------------------- */

typedef enum kind { CONV, DENSE, MAXPOOL, AVGPOOL, POOL, DROPOUT, BATCHNORM, QUANTIZE, AFFINE, ADD, ADD_NULL, TWICE } kind;

typedef struct mistake {
    kind              kind;
    qg_status         status;
    const char       *says;
    qg_conv2d_spec    conv;
    qg_dense_spec     dense;
    qg_batchnorm_spec norm;
    qg_pool2d_spec    pool;
    qg_quant          quant;
    float             number;
} mistake;

static void make(qg_net *net, const mistake *m)
{
    qg_layer *relu;
    switch (m->kind) {
    case CONV: qg_net_conv2d(net, m->conv); break;
    case DENSE: qg_net_dense(net, m->dense); break;
    case MAXPOOL: qg_net_maxpool(net, (int)m->number); break;
    case AVGPOOL: qg_net_avgpool(net, (int)m->number); break;
    case POOL: qg_net_maxpool_with(net, m->pool); break;
    case DROPOUT: qg_net_dropout(net, m->number); break;
    case BATCHNORM: qg_net_batchnorm_with(net, m->norm); break;
    case QUANTIZE: qg_net_quantize(net, m->quant); break;
    case AFFINE: qg_net_affine(net, 2, m->number); break;
    case ADD: relu = qg_net_relu(net), qg_net_add(net, relu, qg_net_maxpool(net, 2)); break;
    case ADD_NULL: qg_net_add(net, qg_net_relu(net), NULL); break;
    case TWICE: qg_net_dense(net, m->dense), qg_net_dense(net, m->dense); break;
    }
}

/* The build and every later call tell of m, and not of the mistake that follows. */
static void check_mistake(const mistake *m, qg_tape *t)
{
    static float image[9 * 7 * 3];
    qg_net      *net = small_net();
    make(net, m);
    qg_net_maxpool(net, 8);
    assert_none(qg_net_build(net), m->says);
    qg_fail(QG_EIO, "something else");
    assert_none(qg_net_build(net), m->says);
    assert_null(qg_net_params(net));
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_net_forward(net, t, (qg_tensor){ { 1, 9, 7, 3 }, image }));
    if (qg_tape_status(t) != m->status) fail_msg("%s: status %d", m->says, (int)qg_tape_status(t));
    assert_message(m->says);
    qg_net_free(net);
}

static void the_first_bad_declaration_surfaces_at_build(void **state)
{
    const qg_quant twn = qg_twn((qg_twn_spec){ 0 }), sign = qg_sign((qg_sign_spec){ 0 });
    const qg_quant unknown_range = qg_fake_quant((qg_fake_quant_spec){ .range = (qg_range_kind)77 });
    const qg_quant bad_surrogate = qg_twn((qg_twn_spec){ .surrogate = qg_surrogate_clip(-1) });
    const mistake mistakes[] = {
        { CONV, QG_EARG, "conv1: out 0, kernel 3x3, stride 1 must be at least 1 and pad 0 at least 0", .conv = { .kernel = 3 } },
        { CONV, QG_EARG, "conv1: out 3, kernel 0x0, stride 1", .conv = { .out = 3 } },
        { CONV, QG_ESHAPE, "conv1: kernel 8x8 is larger than its input [1,9,7,3] padded by 0", .conv = { .out = 3, .kernel = 8 } },
        { CONV, QG_EARG, "conv1: out 3, kernel 3x3, stride -2", .conv = { .out = 3, .kernel = 3, .stride = -2 } },
        { CONV, QG_EARG, "conv1: pad is 2147483647, must be 0..1048576", .conv = { .out = 3, .kernel = 3, .pad = INT_MAX } },
        { CONV, QG_EARG, "conv1: pad_value is nan", .conv = { .out = 3, .kernel = 3, .pad_value = NAN } },
        { CONV, QG_EARG, "conv1: pad is 1, but same chooses the padding", .conv = { .out = 3, .kernel = 3, .pad = 1, .same = true } },
        { CONV, QG_ESHAPE, "conv1: its input [1,9,7,3] padded by ", .conv = { .out = 3, .kernel = INT_MAX, .same = true } },
        { CONV, QG_EARG, "conv1: groups is -2, must be at least 1, or QG_DEPTHWISE", .conv = { .out = 3, .kernel = 3, .groups = -2 } },
        { CONV, QG_EARG, "conv1: 2 groups do not divide its 3 input channels and 4 output channels",
          .conv = { .out = 4, .kernel = 3, .groups = 2 } },
        { CONV, QG_EARG, "conv1: 3 groups do not divide its 3 input channels and 4 output channels",
          .conv = { .out = 4, .kernel = 3, .groups = QG_DEPTHWISE } },
        { CONV, QG_EARG, "conv1: out 0, kernel 3x3", .conv = { .kernel = 3, .groups = 3 } },
        { CONV, QG_EARG, "conv1: xnor scales each result by a mean over all input channels, but its 3 "
                         "groups read only some of them; xnor:scale=off does not scale",
          .conv = { .kernel = 3, .groups = QG_DEPTHWISE, .input = qg_xnor_activation((qg_xnor_activation_spec){ 0 }) } },
        { CONV, QG_EARG, "conv1: xnor with centred latent weights has a single input channel",
          .conv = { .kernel = 3, .groups = QG_DEPTHWISE, .weight = qg_xnor((qg_xnor_spec){ .centred = true }) } },
        { CONV, QG_EARG, "conv1.weight: sign does not quantize weights", .conv = { .out = 3, .kernel = 3, .weight = sign } },
        { DENSE, QG_EARG, "head: out is -1, must be at least 1", .dense = { .out = -1, .name = "head" } },
        { DENSE, QG_EARG, "fc1.input: twn does not quantize inputs", .dense = { .out = 3, .input = twn } },
        { DENSE, QG_EARG, "fc1.gradient: twn does not quantize gradients", .dense = { .out = 3, .gradient = twn } },
        { DENSE, QG_EARG, "fc1.weight: fake_quant: range is 77, not one of learned|observed|percentile|fixed|current",
          .dense = { .out = 3, .weight = unknown_range } },
        { DENSE, QG_EARG, "fc1.weight: twn: surrogate: its bound, beta or temperature is -1, must be 0 or more",
          .dense = { .out = 3, .weight = bad_surrogate } },
        { DENSE, QG_EARG, "dense: the name '' is empty", .dense = { .out = 3, .name = "" } },
        { DENSE, QG_EARG, "is longer than 48 bytes",
          .dense = { .out = 3, .name = "a name that goes on and on and on until it is 49 b" } },
        { DENSE, QG_EARG, "is not UTF-8, as checkpoints have it", .dense = { .out = 3, .name = "caf\xe9" } },
        { DENSE, QG_EARG, "dense: the name 'a,b' has a comma or a quotation mark, which metrics.csv cannot have",
          .dense = { .out = 3, .name = "a,b" } },
        { DENSE, QG_EARG, "dense: the name 'a\"b' has a comma or a quotation mark", .dense = { .out = 3, .name = "a\"b" } },
        { DENSE, QG_EARG, "begins with codes, ema, optim or run", .dense = { .out = 3, .name = "ema" } },
        { DENSE, QG_EARG, "begins with codes, ema, optim or run", .dense = { .out = 3, .name = "run.fc" } },
        { DENSE, QG_EARG, "has a control character, which metrics.csv cannot have", .dense = { .out = 3, .name = "a\nb" } },
        { DENSE, QG_EARG, "has a control character", .dense = { .out = 3, .name = "a\x7f" } },
        { DENSE, QG_EARG, "has a control character", .dense = { .out = 3, .name = "\xe2\x80\xae" } },
        { TWICE, QG_EARG, "dense: the name 'a' is taken", .dense = { .out = 3, .name = "a" } },
        { MAXPOOL, QG_ESHAPE, "pool1: input [1,9,7,3] padded by 0 is smaller than its 8x8 window", .number = 8 },
        { AVGPOOL, QG_EARG, "pool1: size is 0, must be at least 1", .number = 0 },
        { POOL, QG_EARG, "pool1: stride -2 must be at least 1 and pad 1 in 0..2, less than the size",
          .pool = { .size = 3, .stride = -2, .pad = 1 } },
        { POOL, QG_EARG, "head: stride 2 must be at least 1 and pad 3 in 0..2",
          .pool = { .size = 3, .stride = 2, .pad = 3, .name = "head" } },
        { POOL, QG_EARG, "pool1: stride 3 must be at least 1 and pad -1 in 0..2", .pool = { .size = 3, .pad = -1 } },
        { POOL, QG_ESHAPE, "pool1: input [1,9,7,3] padded by 1 is smaller than its 10x10 window",
          .pool = { .size = 10, .pad = 1 } },
        { POOL, QG_ESHAPE, "pool1: its input [1,9,7,3] padded by 2147483646 is too large",
          .pool = { .size = INT_MAX, .pad = INT_MAX - 1 } },
        { DROPOUT, QG_EARG, "drop1: rate is 1, must be 0 or more and less than 1", .number = 1 },
        { DROPOUT, QG_EARG, "drop1: rate is nan", .number = NAN },
        { BATCHNORM, QG_EARG, "bn1: eps is -1, must be 0 (for 1e-5) or more", .norm = { .eps = -1 } },
        { BATCHNORM, QG_EARG, "bn1: eps is 0, must be 0 (for 1e-5) or more; momentum is 2, must be",
          .norm = { .momentum = 2 } },
        { QUANTIZE, QG_EARG, "quant1.input: twn does not quantize inputs", .quant = twn },
        { AFFINE, QG_EARG, "affine1: 2 x + nan, both numbers must be finite", .number = NAN },
        { ADD, QG_ESHAPE, "add1: relu1 gives [1,9,7,3], pool1 gives [1,4,3,3]", .number = 0 },
        { ADD_NULL, QG_EARG, "add: a layer is NULL", .number = 0 },
    };
    qg_tape *t = qg_tape_new();
    for (int i = 0; i < COUNT(mistakes); i++) check_mistake(&mistakes[i], t);
    qg_tape_free(t);
}

/* Sizes in bytes that 64 bits cannot hold. */
static void sizes_beyond_any_memory_are_refused(void **state)
{
    const int huge = 1 << 30;
    for (int i = 0; i < 4; i++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = huge, .width = i ? huge : 64, .channels = i ? 16 : 1, .seed = 1 });
        if (i == 0) qg_net_dense(net, (qg_dense_spec){ .out = huge, .no_bias = true });
        if (i == 1) qg_net_dense(net, (qg_dense_spec){ .out = 3 });
        if (i == 2) qg_net_relu(net);
        if (i == 3) qg_net_conv2d(net, (qg_conv2d_spec){ .out = 3, .kernel = huge, .pad = 1 << 20 });
        assert_none(qg_net_build(net), i == 3 ? "padded by 1048576 is too large" : "beyond any memory");
        qg_net_free(net);
    }
    qg_net *net = qg_net_new((qg_net_spec){ .height = INT_MAX, .width = 1, .channels = 1, .seed = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 1, .pad = 1 });
    assert_none(qg_net_build(net), "conv1: its input [1,2147483647,1,1] padded by 1 is too large");
    qg_net_free(net);
}

/* A weight that no memory holds is no lack of memory. */
static void a_parameter_that_cannot_be_keeps_its_own_failure(void **state)
{
    const char *message = "parameter fc1.weight: shape [2147483647,32768,32768,1] is empty or beyond any memory";
    qg_net     *net     = qg_net_new((qg_net_spec){ .height = 32768, .width = 32768, .channels = 1, .seed = 1 });
    qg_tape    *t       = qg_tape_new();
    qg_net_dense(net, (qg_dense_spec){ .out = INT_MAX });
    assert_null(qg_net_build(net));
    assert_failed(qg_errcode(), QG_ESHAPE, message);
    qg_fail(QG_EIO, "something else in between");
    assert_failed(qg_net_save(net, "never-written"), QG_ESHAPE, message);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_null(qg_net_forward(net, t, (qg_tensor){ 0 }));
    assert_failed(qg_backward(t, NULL), QG_ESHAPE, message);
    assert_failed(qg_net_load(NULL, "never-read"), QG_EARG, "net: it is NULL");
    qg_tape_free(t), qg_net_free(net);
}

static void nets_are_not_mixed(void **state)
{
    for (int i = 0; i < 3; i++) {
        qg_net   *net = small_net(), *other = small_net();
        qg_layer *theirs = qg_net_relu(other), *ours = qg_net_relu(net);
        if (i == 0) assert_null(qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 1, .after = theirs }));
        if (i == 1) assert_null(qg_net_add(net, theirs, ours));
        if (i == 2) assert_null(qg_net_add(net, ours, theirs));
        assert_none(qg_net_build(net), "belongs to another net");
        qg_net_free(net), qg_net_free(other);
    }
}

static void the_wrong_time_is_told(void **state)
{
    static float image[2 * 9 * 7 * 3];
    const qg_tensor x   = { { 2, 9, 7, 3 }, image };
    qg_tape        *t   = qg_tape_new();
    qg_net         *net = small_net();
    qg_layer       *relu = qg_net_relu(net), *add = qg_net_add(net, relu, relu);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_net_forward(net, t, x));
    assert_failed(qg_tape_status(t), QG_ESTATE, "net: run before qg_net_build");
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_none(qg_apply(relu, t, qg_input(t, x)), "relu1: applied before qg_net_build");
    assert_int_equal(qg_net_save(net, "never-written"), QG_ESTATE);
    assert_int_equal(qg_net_load(net, "never-read"), QG_ESTATE);
    assert_non_null(qg_net_build(net));
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_none(qg_apply(add, t, qg_input(t, x)), "add1: has two inputs, but qg_apply gives one");
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_net_forward(net, t, (qg_tensor){ { 2, 7, 9, 3 }, image }));
    assert_failed(qg_tape_status(t), QG_ESHAPE, "net: images are [2,7,9,3], the net was declared for [n,9,7,3]");
    assert_none(qg_net_relu(net), "relu: declared after qg_net_build");
    assert_null(qg_net_build(net));
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_net_forward(net, t, x));         /* it would be another net than was declared */
    assert_message("relu: declared after qg_net_build");
    qg_net_free(net);
    net = small_net();
    assert_none(qg_net_build(net), "net: no layer was declared");
    qg_net_free(net);
    net = small_net();
    qg_net_relu(net);
    assert_non_null(qg_net_build(net));
    assert_none(qg_net_build(net), "net: already built");
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_non_null(qg_net_forward(net, t, x));     /* and is none the worse */
    assert_non_null(qg_net_mark_output(qg_net_layer(net, 0)));
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_none(qg_net_forward(net, t, x), "relu1: marked as an output after qg_net_build");
    qg_net_free(net);
    net = qg_net_new((qg_net_spec){ .height = 9, .width = 0, .channels = 3, .seed = 1 });
    assert_null(qg_net_relu(net));
    assert_none(qg_net_build(net), "net: the image is 9 x 0 x 3, must be at least 1 x 1 x 1");
    qg_net_free(net);
    qg_tape_free(t);
}

/* qg_apply takes any x, but what a layer learns has the size of the x that it was declared for. */
static void another_x_is_refused(void **state)
{
    static float     image[2 * 9 * 7 * 16];
    const qg_tensor  wide = { { 2, 9, 7, 16 }, image }, low = { { 2, 2, 7, 3 }, image };
    qg_net          *net  = small_net();
    const qg_conv2d_spec in_integers = { .out = 4, .kernel = 3, .stride = 2,
                                         .weight = qg_twn((qg_twn_spec){ 0 }),
                                         .input = qg_dorefa_activation((qg_dorefa_activation_spec){ 0 }),
                                         .gradient = qg_stochastic_gradient((qg_stochastic_gradient_spec){ 0 }) };
    const qg_fake_quant_spec by_channel = { .range = QG_RANGE_OBSERVED, .per_channel = true };
    qg_layer *conv = qg_net_conv2d(net, in_integers), *each = qg_net_quantize(net, qg_fake_quant(by_channel));
    assert_non_null(qg_net_build(net));
    assert_true(qg_layer_trains_in_integers(conv));
    const struct { qg_layer *l; qg_tensor x; const char *says; } rows[] = {
        { conv, wide, "conv2d: x [2,9,7,16] has 16 channels, w [4,3,3,3] reads 3" },
        { conv, low, "x [2,2,7,3]" },
        { each, wide, "fake_quant: min is [1,1,1,4], for x [2,9,7,16] it must be [1,1,1,16]" },
    };
    qg_tape *t = qg_tape_new();
    for (int i = 0; i < COUNT(rows); i++) {
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_none(qg_apply(rows[i].l, t, qg_input(t, rows[i].x)), rows[i].says);
        assert_int_equal(qg_tape_status(t), QG_ESHAPE);
    }
    qg_tape_free(t);
    qg_net_free(net);
}

static void null_flows(void **state)
{
    qg_tape *t = qg_tape_new();
    qg_fail(QG_EIO, "untouched");
    assert_null(qg_net_conv2d(NULL, (qg_conv2d_spec){ 0 }));
    assert_null(qg_net_dense(NULL, (qg_dense_spec){ 0 }));
    assert_null(qg_net_batchnorm(NULL)), assert_null(qg_net_relu(NULL)), assert_null(qg_net_maxpool(NULL, 2));
    assert_null(qg_net_dropout(NULL, 0)), assert_null(qg_net_quantize(NULL, (qg_quant){ 0 }));
    assert_null(qg_net_add(NULL, NULL, NULL));
    qg_net *other = small_net();
    assert_null(qg_net_add(NULL, qg_net_relu(other), qg_net_relu(other)));
    qg_net_free(other);
    assert_null(qg_net_build(NULL)), assert_null(qg_net_params(NULL)), assert_null(qg_net_mark_output(NULL));
    assert_null(qg_net_forward(NULL, NULL, (qg_tensor){ 0 })), assert_null(qg_apply(NULL, NULL, NULL));
    qg_net_free(NULL);
    assert_int_equal(qg_net_layers(NULL), 0), assert_null(qg_net_layer(NULL, 0));
    assert_null(qg_layer_product(NULL)), assert_null(qg_params_find(NULL, "w"));
    assert_int_equal(qg_tape_status(NULL), QG_ESTATE), assert_int_equal(qg__tape_peak(NULL), 0);
    qg_tape_profile(NULL, NULL);
    assert_null(qg_adam(NULL, (qg_adam_spec){ .beta1 = 2 })), assert_null(qg_sgd(NULL, (qg_sgd_spec){ .momentum = 2 }));
    assert_string_equal(qg_errmsg(), "untouched");
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_null(qg_net_forward(NULL, t, (qg_tensor){ 0 }));
    assert_failed(qg_backward(t, NULL), QG_EARG, "net: it is NULL; the last failure was: untouched");
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_null(qg_apply(NULL, t, NULL));
    assert_failed(qg_backward(t, NULL), QG_EARG, "layer: it is NULL; the last failure was: untouched");
    qg_net *net = small_net();
    qg_net_dense(net, (qg_dense_spec){ .out = 3 });
    assert_null(qg_net_layer(net, 1)), assert_null(qg_net_layer(net, -1));
    assert_int_equal(qg_net_float_bytes(net) + packed_size(net), 0);     /* not built yet */
    assert_non_null(qg_net_build(net));
    assert_failed(qg_net_save(net, NULL), QG_EARG, "the path of a file to write is NULL");
    assert_failed(qg_net_load(net, NULL), QG_EARG, "the path of a file to read is NULL");
    qg_net_free(net);
    qg_tape_free(t);
}

/* Its reader names another, or was forgotten.  The last one's reader is the caller, and so are those of
 * declared results. */
static void a_layer_that_nobody_reads_is_named(void **state)
{
    for (int i = 0; i < 3; i++) {
        qg_net   *net  = small_net();
        qg_layer *relu = qg_net_relu(net);
        qg_layer *head = qg_net_dense(net, (qg_dense_spec){ .out = 3, .name = "head" });
        if (i == 1) qg_net_mark_output(head);
        if (i == 2) relu = qg_net_add(net, head, head);
        qg_net_dense(net, (qg_dense_spec){ .out = 2, .after = relu });
        if (i > 0) assert_non_null(qg_net_build(net));
        else assert_null(qg_net_build(net));
        if (i == 0) assert_message("head: no layer reads it, and the net's result is fc1; declare further results with "
                                   "qg_net_mark_output");
        qg_net_free(net);
    }
}

/* Before, there are none; after a failure there never will be. */
static void parameters_are_there_once_the_net_is_built(void **state)
{
    qg_net *net = small_net();
    qg_net_relu(net);
    assert_null(qg_net_params(net));
    assert_none(qg_sgd(qg_net_params(net), (qg_sgd_spec){ .lr = 1 }), "net: has no parameters before qg_net_build");
    qg_net_dense(net, (qg_dense_spec){ .out = 0, .name = "none" });
    assert_null(qg_net_build(net));
    qg_fail(QG_EIO, "something else in between");
    assert_none(qg_net_params(net), "none: out is 0");
    qg_net_free(net);
}

/* --- names and shapes ---------------------------------------------------------------------- */

static void names_and_shapes_are_inferred(void **state)
{
    static const struct { const char *name; int h, w, c; uint64_t macs; } expected[] = {
        { "conv1", 5, 4, 4, 5 * 4 * 4 * 27 }, { "bn1", 5, 4, 4, 0 }, { "conv3", 5, 4, 2, 5 * 4 * 2 * 4 },
        { "conv2", 6, 4, 5, 6 * 4 * 5 * 2 * 3 * 2 }, { "relu1", 6, 4, 5, 0 }, { "drop1", 6, 4, 5, 0 },
        { "fc1", 1, 1, 8, 120 * 8 }, { "conv4", 5, 4, 1, 5 * 4 * 4 }, { "pool1", 2, 2, 1, 0 },
        { "pool2", 1, 1, 1, 0 },
    };
    qg_net *net = small_net();
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3, .stride = 2, .pad = 1 });
    qg_layer *bn = qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 2, .kernel = 1, .name = "conv3" });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 2, .kernel_w = 3, .pad = 1, .stride = 1,
                                         .no_bias = true });
    qg_net_relu(net);
    qg_net_dropout(net, 0.5f);
    qg_net_dense(net, (qg_dense_spec){ .out = 8 });
    qg_net_mark_output(qg_net_layer(net, 6));
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 1, .after = bn });
    qg_net_maxpool(net, 2);
    qg_net_global_avgpool(net);
    const qg_params *p = qg_net_build(net);
    assert_non_null(p);
    assert_int_equal(qg_net_layers(net), COUNT(expected));
    for (int i = 0; i < COUNT(expected); i++) {
        const qg_layer *l = qg_net_layer(net, i);
        assert_string_equal(l->name, expected[i].name);
        assert_true(qg_shape_equal(l->out, (qg_shape){ 1, expected[i].h, expected[i].w, expected[i].c }));
        assert_int_equal(l->macs, expected[i].macs);
    }
    assert_true(qg_shape_equal(qg_params_find(p, "conv2.weight")->shape, (qg_shape){ 5, 2, 3, 2 }));
    assert_true(qg_shape_equal(qg_params_find(p, "fc1.weight")->shape, (qg_shape){ 8, 6, 4, 5 }));
    assert_null(qg_params_find(p, "conv1.bias")), assert_null(qg_params_find(p, "conv2.bias"));
    assert_non_null(qg_params_find(p, "conv3.bias")), assert_non_null(qg_params_find(p, "fc1.bias"));
    assert_int_equal(qg_params_find(p, "bn1.running_var")->group, QG_TRACKED);
    qg_net_free(net);
}

/* docs/arithmetic.md: a key for each name, a number for each weight. */
static void weights_start_as_they_are_defined(void **state)
{
    for (int he = 0; he < 2; he++) {
        qg_net *net = qg_net_new((qg_net_spec){ .height = 9, .width = 7, .channels = 3, .seed = 11,
                                                .initial_weights = he ? QG_INITIAL_HE : QG_INITIAL_GLOROT });
        qg_net_conv2d(net, (qg_conv2d_spec){ .name = "stem", .out = 6, .kernel = 3 });
        qg_params *p   = qg_net_build(net);
        uint64_t   key = qg_rng_fork(11, 1);
        assert_non_null(p);
        for (const char *c = "stem"; *c; c++) key = qg_bits(key, (uint64_t)*c);
        const qg_param *w     = qg_params_find(p, "stem.weight");
        const float     bound = (float)sqrt(6.0 / (27 + 54)), deviation = (float)sqrt(2.0 / 27);
        for (size_t i = 0; i < 6 * 27; i++) {
            const float glorot = bound * (2 * qg_uniform(key, i) - 1);
            assert_true(w->value[i] == (he ? deviation * qg_normal(key, i) : glorot));
        }
        qg_net_free(net);
    }
}

/* Weights, bytes, fans and the summary of convolutions with groups.  Each output has a row of bits, a factor and an offset. */
static void groups_have_smaller_weights(void **state)
{
    static const struct { int h, w, c; qg_shape weight; uint64_t macs; size_t bytes; double fans; const char *what; } rows[] = {
        { 5, 4, 6, { 6, 3, 3, 3 }, 5 * 4 * 6 * 27, 6 * (4 + 8), 27 + 54, "3x3 stride 2 same " },
        { 5, 4, 9, { 9, 3, 3, 2 }, 5 * 4 * 9 * 18, 9 * (3 + 8), 18 + 27, "3x3 pad 1 groups 3 " },
        { 5, 4, 9, { 9, 3, 3, 1 }, 5 * 4 * 9 * 9, 9 * (2 + 8), 9 + 9, "3x3 same groups 9 " },
        { 3, 2, 18, { 18, 3, 2, 1 }, 3 * 2 * 18 * 6, 18 * (1 + 8), 6 + 12, "3x2 stride 2 same groups 9 " },
    };
    const qg_quant binary = qg_binary((qg_binary_spec){ 0 });
    qg_net        *net    = small_net();
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .stride = 2, .same = true, .weight = binary });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 9, .kernel = 3, .pad = 1, .groups = 3, .weight = binary });
    qg_net_conv2d(net, (qg_conv2d_spec){ .kernel = 3, .same = true, .groups = QG_DEPTHWISE, .weight = binary });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 18, .kernel = 3, .kernel_w = 2, .stride = 2, .same = true,
                                         .groups = QG_DEPTHWISE, .weight = binary });
    assert_non_null(qg_net_build(net));
    char  *text = NULL;
    size_t n    = 0;
    FILE  *out  = open_memstream(&text, &n);
    assert_non_null(out);
    qg_net_summary(net, out);
    assert_int_equal(fclose(out), 0);
    for (int i = 0; i < COUNT(rows); i++) {
        qg_layer         *l     = qg_net_layer(net, i);
        const qg_product *p     = qg_layer_product(l);
        const float       bound = (float)sqrt(6.0 / rows[i].fans);
        float             most  = 0;
        assert_true(qg_shape_equal(l->out, (qg_shape){ 1, rows[i].h, rows[i].w, rows[i].c }));
        assert_true(qg_shape_equal(p->weight->shape, rows[i].weight));
        assert_int_equal(l->macs, rows[i].macs);
        assert_int_equal(qg_layer_packed_bytes(l), rows[i].bytes);
        for (size_t k = 0; k < qg_count(p->weight->shape); k++) most = fmaxf(most, fabsf(p->weight->value[k]));
        assert_true(most <= bound && most > 0.9f * bound);      /* of 81 draws or more */
        if (!strstr(text, rows[i].what)) fail_msg("no '%s' in\n%s", rows[i].what, text);
    }
    free(text);
    qg_net_free(net);
}

/* How many products of a step of training are recorded as integers. */
static int integer_products(qg_net *net)
{
    static float image[2 * 9 * 7 * 3];
    int          count = 0;
    qg_tape     *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    const qg_var *y = qg_net_forward(net, t, (qg_tensor){ { 2, 9, 7, 3 }, image });
    assert_non_null(y);
    for (; y; y = y->older) count += y->op && !strcmp(y->op->name, "conv2d_int");
    qg_tape_free(t);
    return count;
}

/* What the summary says is what a step does. */
static void the_summary_names_products_that_train_in_integers(void **state)
{
    static const char NOTHING[] = "\nno product trains in integers, despite the gradient quantizers: "
                                  "docs/integer-training.md says why\n";
    /* Layers with a gradient quantizer: the first and the last one, and one between them that has none.
     * Layer 1 reads floats, and layer 6 is dense. */
    static const struct { int from, to, skipped; const char *line; } of[] = {
        { 1, 0, 0, NULL },
        { 1, 5, 3, "\nconv2, conv4 to conv5 train in integers: input, weight and gradient are codes\n" },
        { 2, 2, 0, "\nconv2 trains in integers: input, weight and gradient are codes\n" },
        { 1, 1, 0, NOTHING },
        { 6, 6, 0, NOTHING },
    };
    const qg_quant w = qg_dorefa_weight((qg_dorefa_weight_spec){ .bits = 2 });
    const qg_quant x = qg_dorefa_activation((qg_dorefa_activation_spec){ .bits = 2 });
    const qg_quant dy = qg_stochastic_gradient((qg_stochastic_gradient_spec){ 0 }), none = { 0 };
    for (int i = 0; i < COUNT(of); i++) {
        qg_net *net = small_net();
        for (int k = 1; k <= 6; k++) {
            const bool     has = k >= of[i].from && k <= of[i].to && k != of[i].skipped;
            const qg_quant d   = has ? dy : none;
            if (k == 6) qg_net_dense(net, (qg_dense_spec){ 4, .weight = w, .input = x, .gradient = d });
            else qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3, .pad = 1, .weight = w,
                                                      .input = k > 1 ? x : none, .gradient = d });
        }
        assert_false(qg_layer_trains_in_integers(qg_net_layer(net, 1)));        /* not built */
        assert_non_null(qg_net_build(net));
        char  *text = NULL;
        size_t n    = 0;
        FILE  *out  = open_memstream(&text, &n);
        qg_net_summary(net, out);
        assert_int_equal(fclose(out), 0);
        const bool is = of[i].line ? strstr(text, of[i].line) != NULL : !strstr(text, "integers");
        if (!is) fail_msg("row %d:\n%s", i, text);
        int count = 0;
        for (int k = 0; k < 6; k++) count += qg_layer_trains_in_integers(qg_net_layer(net, k));
        assert_int_equal(count, integer_products(net));
        free(text);
        qg_net_free(net);
    }
}

/* The smallest number that is free, also around names that the caller gave. */
static void layers_are_numbered(void **state)
{
    static const char *const given[] = { NULL, "fc3", NULL, NULL, "fc12", NULL };
    static const char *const names[] = { "fc1", "fc3", "fc2", "fc4", "fc12", "fc5" };
    qg_net *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 1 });
    for (int i = 0; i < COUNT(given); i++) {
        qg_layer *l = qg_net_dense(net, (qg_dense_spec){ .out = 1, .name = given[i] });
        assert_non_null(l);
        assert_string_equal(l->name, names[i]);
    }
    /* "fc1" and a number is no number after "fc". */
    const qg_layer_type *type = qg_net_layer(net, 0)->type;
    qg_layer            *l    = qg_net_append(net, type, NULL, "fc1", NULL);
    assert_non_null(l);
    assert_string_equal(l->name, "fc11");
    assert_string_equal(((qg_layer *)qg_net_append(net, type, NULL, "fc", NULL))->name, "fc6");
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_numbered),
        cmocka_unit_test(the_first_bad_declaration_surfaces_at_build),
        cmocka_unit_test(sizes_beyond_any_memory_are_refused),
        cmocka_unit_test(a_parameter_that_cannot_be_keeps_its_own_failure),
        cmocka_unit_test(nets_are_not_mixed),
        cmocka_unit_test(the_wrong_time_is_told),
        cmocka_unit_test(another_x_is_refused),
        cmocka_unit_test(null_flows),
        cmocka_unit_test(a_layer_that_nobody_reads_is_named),
        cmocka_unit_test(parameters_are_there_once_the_net_is_built),
        cmocka_unit_test(names_and_shapes_are_inferred),
        cmocka_unit_test(weights_start_as_they_are_defined),
        cmocka_unit_test(groups_have_smaller_weights),
        cmocka_unit_test(the_summary_names_products_that_train_in_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
