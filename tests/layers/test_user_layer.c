/* A layer of one's own: nothing of the library knows it, and it is as good as a built-in one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/testing.h"

#include "infer/infer.h"
#include "qgrad.h"
#include "tests/support/nets.h"
#include "tests/support/onnx.h"
#include "tests/support/room.h"

/* --- the layer ------------------------------------------------------------------------------ */

/* y = x + b, one b per channel, at first all of them start. */
typedef struct offset {
    qg_layer  layer;
    float     start;
    qg_param *b;
} offset;

static qg_status offset_build(qg_layer *l)
{
    offset *o = (offset *)l;
    o->b      = qg_layer_declare(l, "b", (qg_param){ .shape = { 1, 1, 1, l->in.c }, .group = QG_BIASES });
    return o->b ? QG_OK : QG_EMEM;
}

static void offset_start(qg_layer *l, uint64_t key)
{
    offset *o = (offset *)l;
    for (int i = 0; i < l->in.c; i++) o->b->value[i] = o->start;
}

static qg_var *offset_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_bias(t, x, qg_parameter(t, ((offset *)l)->b));
}

/* 1 x + b */
static int offset_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    float    *numbers;
    const int c = l->out.c,
              y = qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_AFFINE, .x = x }, &numbers);
    for (int k = 0; numbers && k < c; k++)
        numbers[k] = 1, numbers[c + k] = ((const offset *)l)->b->value[k];
    return y;
}

static const qg_layer_type offset_type = { .name = "offset",
                                           .size = sizeof(offset),
                                           .build = offset_build,
                                           .start = offset_start,
                                           .forward = offset_forward,
                                           .pack = offset_pack };

static qg_layer *add_offset(qg_net *net, float start)
{
    offset *o = qg_net_append(net, &offset_type, NULL, "off", NULL);
    if (!o) return NULL;
    o->start = start;
    return &o->layer;
}

/* --- in a net ------------------------------------------------------------------------------- */

enum { N = 24, H = 9, W = 7, CLASSES = 3 };

static const qg_shape images = { N, H, W, 1 };

/* An offset stands between a product and a batch norm, which therefore does not take the bias away. */
static qg_net *net_with_offsets(uint64_t seed)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = seed });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = qg_twn((qg_twn_spec){ 0 }) });
    add_offset(net, 0.25f);
    qg_net_batchnorm(net), qg_net_relu(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    add_offset(net, 0);
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static void it_has_a_name_and_parameters(void **state)
{
    qg_net    *net = net_with_offsets(1);
    qg_params *p   = qg_net_params(net);
    assert_string_equal(qg_net_layer(net, 1)->name, "off1");
    assert_string_equal(qg_net_layer(net, 5)->name, "off2");
    const qg_param *b = qg_params_find(p, "off1.b");
    assert_non_null(b);
    for (int i = 0; i < 5; i++) assert_true(b->value[i] == 0.25f);
    assert_non_null(qg_params_find(p, "conv1.bias"));
    assert_null(add_offset(net, 1));                    /* too late */
    assert_message("offset: declared after qg_net_build");
    qg_net_free(net);
}

/* Its build fails for want of memory, as it says, and the net for the reason. */
static qg_status twice_build(qg_layer *l)
{
    const qg_status first = offset_build(l);
    return first ? first : offset_build(l);
}

static void a_failed_declaration_keeps_its_reason(void **state)
{
    static const qg_layer_type twice = { .name = "twice", .size = sizeof(offset), .build = twice_build,
                                         .forward = offset_forward };
    float    image[H * W];
    qg_net  *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 1 });
    qg_tape *t   = qg_tape_new();
    assert_non_null(qg_net_append(net, &twice, NULL, "twice", NULL));
    assert_none(qg_net_build(net), "parameter twice1.b: the name is taken");
    assert_int_equal(qg_errcode(), QG_EARG);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_null(qg_net_forward(net, t, (qg_tensor){ { 1, H, W, 1 }, image }));
    assert_int_equal(qg_tape_status(t), QG_EARG);
    qg_tape_free(t), qg_net_free(net);
}

/* A name is cut nowhere: numbers after it could not tell two layers apart. */
static void a_long_prefix_is_refused(void **state)
{
    char prefix[81];
    for (size_t n = 36; n < sizeof prefix; n += 44) {
        memset(prefix, 'p', n);
        prefix[n]   = '\0';
        qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 1 });
        for (int i = 0; i < 2; i++)
            assert_true((qg_net_append(net, &offset_type, NULL, prefix, NULL) != NULL) == (n == 36));
        if (n > 36) assert_none(qg_net_build(net), "offset: the prefix 'pppp");
        qg_net_free(net);
    }
}

static void layer_by_layer_is_the_net(void **state)
{
    float    image[N * H * W];
    uint16_t label[N];
    qg_net  *net = net_with_offsets(2);
    qg_tape *t   = qg_tape_new();
    fill_bands(images, CLASSES, 5, image, label);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *whole = qg_net_forward(net, t, (qg_tensor){ images, image });
    qg_var       *x     = qg_input(t, (qg_tensor){ images, image });
    for (int i = 0; i < qg_net_layers(net); i++) x = qg_apply(qg_net_layer(net, i), t, x);
    assert_true(whole && x);
    assert_memory_equal(x->data, whole->data, qg_count(whole->shape) * sizeof(float));
    qg_tape_free(t);
    qg_net_free(net);
}

static void it_trains_and_survives_its_file(void **state)
{
    float     image[N * H * W], first = 0, loss = 0;
    uint16_t  label[N];
    qg_net   *net = net_with_offsets(3), *other = net_with_offsets(4);
    qg_optim *o   = qg_adam(qg_net_params(net), (qg_adam_spec){ .lr = 0.01f });
    qg_tape  *t   = qg_tape_new();
    fill_bands(images, CLASSES, 5, image, label);
    for (uint64_t s = 0; s < 40; s++) {
        loss = train_step(net, t, o, (qg_tensor){ images, image }, label, s);
        if (s == 0) first = loss;
    }
    assert_true(loss < first / 2);
    assert_true(qg_params_find(qg_net_params(net), "off2.b")->value[0] != 0);
    assert_ok(qg_net_save(net, in_room("net")));
    assert_ok(qg_net_load(other, in_room("net")));
    assert_true(qg_params_digest(qg_net_params(net)) == qg_params_digest(qg_net_params(other)));
    qg_tape_free(t);
    qg_optim_free(o);
    qg_net_free(net), qg_net_free(other);
}

/* --- with two inputs ------------------------------------------------------------------------ */

/* x sigmoid(z), z one number per channel. */
static qg_var *excite_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_mul(t, x, qg_broadcast(t, qg_sigmoid(t, z), x->shape));
}

static const qg_layer_type excite_type = { .name = "excite", .size = sizeof(qg_layer), .traits = QG_READS_TWO,
                                           .forward = excite_forward };

/* conv1, pool1, fc1, ex1, fc2 */
static qg_net *net_with_excite(const qg_layer_type *type, qg_layer **excite)
{
    qg_net   *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 3 });
    qg_layer *x   = qg_net_conv2d(net, (qg_conv2d_spec){ .out = 4, .kernel = 3 });
    qg_net_global_avgpool(net);
    qg_layer *z = qg_net_mark_output(qg_net_dense(net, (qg_dense_spec){ .out = 4 }));
    *excite     = qg_net_append(net, type, x, "ex", NULL);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!z || !*excite) fail_msg("%s", qg_errmsg());
    return net;
}

static qg_var *build_excite(qg_tape *t, const qg_params *p, void *context)
{
    static float image[3 * H * W];
    fill_uniform(image, 3 * H * W, 0, 1, 1);
    return qg_net_forward(context, t, (qg_tensor){ { 3, H, W, 1 }, image });
}

static void it_may_read_two_layers(void **state)
{
    qg_layer *l;
    qg_net   *net = net_with_excite(&excite_type, &l);
    qg_tape  *t   = qg_tape_new();
    float     x[4] = { 0 };
    l->with       = qg_net_find(net, "fc1");
    assert_non_null(qg_net_build(net));
    assert_gradcheck((qg_gradcheck_spec){ .name = "excite", .params = qg_net_params(net),
                                          .build = build_excite, .context = net });
    qg_tape_begin(t, QG_EVAL, 0, 0);
    assert_none(qg_apply(l, t, qg_input(t, (qg_tensor){ { 1, 1, 1, 4 }, x })), "ex1: has two inputs, but");
    qg_tape_free(t), qg_net_free(net);
}

static void a_second_input_must_come_before(void **state)
{
    qg_net     *other = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 3 });
    qg_layer   *l, *apart = qg_net_dense(other, (qg_dense_spec){ .out = 4, .name = "apart" });
    qg_layer_type silent  = excite_type;
    silent.traits         = 0;
    const struct {
        const char *with, *says;
    } rows[] = { { NULL, "ex1: reads two layers (QG_READS_TWO), but its field with is NULL" },
                 { "ex1", "ex1: reads ex1, which is not declared before it" },
                 { "fc2", "ex1: reads fc2, which is not declared before it" },
                 { "apart", "ex1: reads apart, which belongs to another net" } };
    for (int i = 0; i < COUNT(rows); i++) {
        qg_net *net = net_with_excite(&excite_type, &l);
        l->with     = i == 3 ? apart : rows[i].with ? qg_net_find(net, rows[i].with) : NULL;
        assert_none(qg_net_build(net), rows[i].says);
        assert_int_equal(qg_errcode(), QG_EARG);
        qg_net_free(net);
    }
    qg_net *net = net_with_excite(&silent, &l);
    l->with     = qg_net_find(net, "fc1");
    assert_none(qg_net_build(net), "ex1: reads fc1 as well, but its type is not QG_READS_TWO");
    qg_net_free(net), qg_net_free(other);
}

/* --- with a quantizer ----------------------------------------------------------------------- */

/* y = w x for each channel, w quantized. */
typedef struct gain {
    qg_layer  layer;
    qg_slot   weight;
    qg_param *shift;
} gain;

static qg_status gain_build(qg_layer *l)
{
    gain          *g = (gain *)l;
    const qg_shape w = { l->in.c, 1, 1, l->in.c };
    l->macs      = (uint64_t)qg_count(l->in) * (uint64_t)l->in.c;
    g->weight.of = qg_layer_declare(l, "weight", (qg_param){ .shape = w, .group = QG_WEIGHTS });
    g->shift     = qg_layer_declare(l, "shift", (qg_param){ .shape = { 1, 1, 1, l->in.c }, .group = QG_BIASES });
    return g->weight.of && g->shift ? qg_slot_declare(l, &g->weight, QG_WEIGHT, w) : QG_EMEM;
}

static void gain_start(qg_layer *l, uint64_t key)
{
    gain *g = (gain *)l;
    fill_uniform(g->weight.of->value, qg_count(g->weight.of->shape), -1, 1, key);
    qg_slot_start(&g->weight, (qg_tensor){ g->weight.of->shape, g->weight.of->value });
}

static qg_var *gain_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    gain *g = (gain *)l;
    return qg_conv2d(t, x, qg_slot_apply(&g->weight, t, qg_parameter(t, g->weight.of)), qg_parameter(t, g->shift),
                     (qg_conv_spec){ .stride = 1 });
}

static qg_slot *gain_slot(qg_layer *l, qg_role role) { return role == QG_WEIGHT ? &((gain *)l)->weight : NULL; }

static const qg_layer_type gain_type = { .name    = "gain",
                                         .size    = sizeof(gain),
                                         .build   = gain_build,
                                         .start   = gain_start,
                                         .forward = gain_forward,
                                         .slot    = gain_slot };

static qg_net *net_with_gain(qg_quant weight)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 3, .seed = 1 });
    gain   *g   = qg_net_append(net, &gain_type, NULL, "gain", NULL);
    g->weight.q = weight;
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

/* 9 weights and 3 shifts.  No packed file can have a layer that does not say how. */
static void its_weights_count_in_bytes(void **state)
{
    qg_net *plain = net_with_gain((qg_quant){ 0 }), *ternary = net_with_gain(qg_ttq((qg_ttq_spec){ 0 }));
    assert_int_equal(qg_net_float_bytes(plain), 4 * (9 + 3));
    assert_int_equal(qg_net_float_bytes(ternary), 4 * (9 + 3));
    assert_int_equal(packed_size(ternary), 0);
    assert_message("gain1: an exported net cannot express layers of the type 'gain'");
    assert_int_equal(qg_layer_packed_bytes(qg_net_layer(ternary, 0)), 0);
    qg_net_free(plain), qg_net_free(ternary);
}

static void its_quantizer_is_in_the_summary(void **state)
{
    char    text[4096] = "";
    qg_net *net        = net_with_gain(qg_ttq((qg_ttq_spec){ 0 }));
    FILE   *out        = fmemopen(text, sizeof text, "w");
    qg_net_summary(net, out);
    fclose(out);
    assert_non_null(strstr(text, "ttq        2  float    32         9 "));
    assert_non_null(strstr(text, "gain1.weight     ttq, 2 bits; learns wp "));
    assert_non_null(strstr(text, "9 weights, 14 parameters"));
    qg_net_free(net);
}

/* --- in files ------------------------------------------------------------------------------- */

/* clip(x / 5 + 1/2, 0, 1) and the larger of two pixels: several nodes, and one that keeps codes. */
static qg_var *gate_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_clip(t, qg_affine(t, x, 0.2f, 0.5f), 0, 1);
}

static int gate_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    float    *numbers, *ends;
    const int line =
        qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_AFFINE, .x = x, .part = "line" }, &numbers);
    for (int k = 0; numbers && k < l->out.c; k++) numbers[k] = 0.2f, numbers[l->out.c + k] = 0.5f;
    const int y = qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_CLIP, .x = line }, &ends);
    if (ends) ends[0] = 0, ends[1] = 1;
    return y;
}

static qg_status larger_build(qg_layer *l)
{
    l->out.h = l->in.h - 1, l->out.w = l->in.w - 1;
    return QG_OK;
}

static qg_var *larger_forward(qg_layer *l, qg_tape *t, qg_var *x, qg_var *z)
{
    return qg_maxpool_with(t, x, (qg_pool_spec){ .size = 2, .stride = 1 });
}

static int larger_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(
        g, l,
        (qg_node){ .kind = QG_NODE_MAXPOOL, .x = x, .kernel_h = 2, .kernel_w = 2, .stride = 1 },
        NULL);
}

static const qg_layer_type gate_type = { .name = "gate",
                                         .size = sizeof(qg_layer),
                                         .forward = gate_forward,
                                         .pack = gate_pack };
static const qg_layer_type larger_type = { .name = "larger",
                                           .size = sizeof(qg_layer),
                                           .traits = QG_CHOOSES,
                                           .build = larger_build,
                                           .forward = larger_forward,
                                           .pack = larger_pack };

/* The engine computes the bits of evaluation.  conv1's codes pass through the pooling to fc1. */
static void it_is_exported(void **state)
{
    const qg_quant twn = qg_twn((qg_twn_spec){ 0 }),
                   sign = qg_sign((qg_sign_spec){ 0 });
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 6 });
    qg_net_append(net, &gate_type, NULL, "gate", NULL);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 3, .weight = twn });
    add_offset(net, -0.01f);
    qg_net_batchnorm(net);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 6, .kernel = 3, .weight = twn });
    qg_net_append(net, &larger_type, NULL, "larger", NULL);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES, .weight = twn, .input = sign });
    add_offset(net, 0.25f);
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());

    float           image[N * H * W], scores[N * CLASSES];
    uint16_t        label[N];
    unsigned char  *file;
    size_t          bytes, memory, work;
    const qg_infer *engine;
    qg_tape        *t = qg_tape_new();
    fill_bands(images, CLASSES, 5, image, label);
    qg_tape_begin(t, QG_EVAL, 0, 0);
    const qg_var *y = qg_net_forward(net, t, (qg_tensor){ images, image });
    assert_non_null(y);
    if (qg_export_bytes(net, (qg_export_spec){ .floats_only = true }, &file, &bytes))
        fail_msg("%s", qg_errmsg());
    assert_int_equal(bytes, packed_size(net));
    assert_int_equal(qg_infer_size(file, bytes, &memory), QG_INFER_OK);
    void *m = aligned_alloc(64, memory);
    assert_int_equal(qg_infer_load(file, bytes, m, memory, &engine), QG_INFER_OK);
    work = qg_infer_context_bytes(engine, N);
    void *own = aligned_alloc(64, work);
    assert_int_equal(qg_infer_run(engine, N, image, scores, own, work), QG_INFER_OK);
    assert_memory_equal(scores, y->data, sizeof scores);
    assert_int_equal(qg_infer_steps(engine), 9); /* gate1 is two, and fc1.input is part of conv2 */
    free(file), free(m), free(own);

    onnx_model o;
    const qg_export_spec onnx = { .format = QG_EXPORT_ONNX, .floats_only = true };
    assert_ok(qg_export_bytes(net, onnx, &file, &bytes));
    assert_null(onnx_read(&o, file, bytes));
    assert_null(onnx_run(&o, N, image, scores));
    assert_memory_equal(scores, y->data, sizeof scores);
    onnx_free(&o);
    free(file);
    qg_tape_free(t);
    qg_net_free(net);
}

/* A type that is wrong about itself is told so, and no file is written. */
static int astray_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(g, l, (qg_node){ .kind = QG_NODE_ADD, .x = x, .z = 7 }, NULL);
}

static int narrow_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(
        g, l,
        (qg_node){ .kind = QG_NODE_AVGPOOL, .x = x, .kernel_h = 12, .kernel_w = 1, .stride = 1 },
        NULL);
}

static int other_shape_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    return qg_graph_add(
        g, l,
        (qg_node){ .kind = QG_NODE_AVGPOOL, .x = x, .kernel_h = 2, .kernel_w = 2, .stride = 2 },
        NULL);
}

static int absent_pack(const qg_layer *l, qg_graph *g, int x, int z)
{
    return 5;
}

static void a_wrong_graph_is_refused(void **state)
{
    static const struct {
        int (*pack)(const qg_layer *l, qg_graph *g, int x, int z);
        const char *says;
    } rows[] = {
        { astray_pack, "gate1: a node of its graph reads a value that no node before it has" },
        { narrow_pack, "gate1: a node of its graph has windows that do not fit into its input" },
        { other_shape_pack, "gate1: its graph gives [1,4,3,1], the layer [1,9,7,1]" },
        { absent_pack, "gate1: its graph gives a value that no node has" },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        const qg_layer_type type = { .name = "gate",
                                     .size = sizeof(qg_layer),
                                     .forward = gate_forward,
                                     .pack = rows[i].pack };
        qg_net             *net =
            qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = 1, .seed = 6 });
        qg_net_append(net, &type, NULL, "gate", NULL);
        qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
        assert_non_null(qg_net_build(net));
        assert_int_equal(packed_size(net), 0);
        assert_failed(qg_errcode(), QG_EARG, rows[i].says);
        qg_net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_may_read_two_layers),
        cmocka_unit_test(a_second_input_must_come_before),
        cmocka_unit_test(its_weights_count_in_bytes),
        cmocka_unit_test(its_quantizer_is_in_the_summary),
        cmocka_unit_test(it_is_exported),
        cmocka_unit_test(a_wrong_graph_is_refused),
        cmocka_unit_test(it_has_a_name_and_parameters),
        cmocka_unit_test(a_failed_declaration_keeps_its_reason),
        cmocka_unit_test(a_long_prefix_is_refused),
        cmocka_unit_test(layer_by_layer_is_the_net),
        cmocka_unit_test(it_trains_and_survives_its_file),
    };
    return cmocka_run_group_tests(tests, room_enter, room_leave);
}
