/* What is particular to ONNX files: layouts, names, sums that floats do not have.  test_export.c compares
 * the scores of every scheme, layer and model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/export/graph.h"
#include "layers/export/writer.h"
#include "layers/plan.h"
#include "tests/support/coded.h"
#include "tests/support/nets.h"
#include "tests/support/onnx.h"
#include "tests/support/testing.h"

enum { MOST_IMAGES = 2, MOST_SCORES = 64 };

typedef struct rig {
    qg_net  *net;
    qg_tape *t;
    qg_shape image;             /* of MOST_IMAGES */
    float   *x;                 /* [n][h][w][c] */
} rig;

/* Ranges look at the images. */
static void begin(rig *r, qg_net *net)
{
    *r = (rig) { .net = net,
                 .t = qg_tape_new(),
                 .image = { MOST_IMAGES, net->spec.height, net->spec.width, net->spec.channels } };
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    r->x = malloc(qg_count(r->image) * sizeof *r->x);
    assert_non_null(r->x);
    fill_uniform(r->x, qg_count(r->image), 0, 1, 16);
    qg_tape_begin(r->t, QG_TRAIN, 1, 0);
    if (!qg_net_forward(net, r->t, (qg_tensor){ r->image, r->x })) fail_msg("%s", qg_errmsg());
}

static void end(rig *r)
{
    free(r->x);
    qg_tape_free(r->t);
    qg_net_free(r->net);
}

static void read_export(const rig *r, qg_export_spec spec, onnx_model *m)
{
    unsigned char *file;
    size_t         bytes;
    spec.format = QG_EXPORT_ONNX;
    assert_ok(qg_export_bytes(r->net, spec, &file, &bytes));
    const char *fault = onnx_read(m, file, bytes);
    if (fault) fail_msg("%s", fault);
    /* What begins one is how the command knows its own files (cli/run/output.c). */
    assert_memory_equal(file, "\010\007\022\005qgrad", 9);
    free(file);
}

/* [n][c][h][w] of [n][h][w][c]. */
static void channels_first(qg_shape s, const float *x, float *to)
{
    const size_t c = (size_t)s.c, pixels = qg_row(s) / c;
    for (size_t i = 0; i < qg_count(s); i++)
        to[i] = x[i / (c * pixels) * c * pixels + i % pixels * c + i / pixels % c];
}

/* The scores are those of evaluation. */
static void check_run(rig *r, onnx_model *m, const float *images, const char *what)
{
    float scores[MOST_IMAGES * MOST_SCORES];
    qg_tape_begin(r->t, QG_EVAL, 1, 1);
    const qg_var *y = qg_net_forward(r->net, r->t, (qg_tensor){ r->image, r->x });
    if (!y) fail_msg("%s: %s", what, qg_errmsg());
    assert_true(qg_row(y->shape) <= MOST_SCORES);
    assert_int_equal(m->out.dim[1], qg_row(y->shape));
    const char *fault = onnx_run(m, MOST_IMAGES, images, scores);
    if (fault) fail_msg("%s: %s", what, fault);
    for (size_t i = 0; i < qg_count(y->shape); i++)
        if (scores[i] != y->data[i])
            fail_msg("%s: score %zu is %.9g, in evaluation %.9g", what, i, (double)scores[i],
                     (double)y->data[i]);
}

/* As the caller has normalised them. */
static void check_floats(rig *r, onnx_model *m, const char *what)
{
    float *x = malloc(qg_count(r->image) * sizeof *x);
    assert_non_null(x);
    read_export(r, (qg_export_spec){ .floats_only = true }, m);
    channels_first(r->image, r->x, x);
    check_run(r, m, x, what);
    free(x);
}

static qg_net *small(void)
{
    const qg_quant w = qg_twn((qg_twn_spec){ 0 }), x = qg_pact((qg_pact_spec){ 0 });
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 6, .width = 5, .channels = 3, .seed = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 8, .kernel = 3 });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out = 4, .weight = w, .input = x });
    return net;
}

static void bytes_and_floats_are_normalised(void **state)
{
    static const qg_note notes[] = { { "data", "cats" }, { "class-names", "a/\303\244/d" } };
    static const int     numbers[] = { 1, 3, 90 };
    float                mean[90], deviation[90], bytes[180], unit[180], x[180];
    rig                  r;
    begin(&r, small());
    fill_uniform(mean, 90, 0, 1, 1);
    fill_uniform(deviation, 90, 0.1f, 1, 2);
    for (int i = 0; i < 180; i++) bytes[i] = (float)(i * 37 % 256), unit[i] = bytes[i] / 255.0f;
    channels_first(r.image, unit, x);
    for (int k = 0; k < COUNT(numbers); k++)
        for (int nchw = 0; nchw < 2; nchw++) {
            const int      m    = numbers[k];
            qg_export_spec spec = {
                .numbers = m, .mean = mean, .deviation = deviation, .nchw = nchw, .notes = 2, .note = notes
            };
            onnx_model     model;
            for (int i = 0; i < 180; i++) r.x[i] = (unit[i] - mean[i % m]) / deviation[i % m];
            read_export(&r, spec, &model);
            assert_int_equal(model.in.type, nchw ? ONNX_FLOAT : ONNX_UINT8);
            assert_int_equal(model.in.dims, 4);
            assert_int_equal(model.in.dim[1], nchw ? 3 : 6);
            assert_int_equal(model.in.dim[3], nchw ? 5 : 3);
            assert_string_equal(model.in.name, "image");
            assert_string_equal(model.out.name, "scores");
            assert_int_equal(model.notes, 2);
            assert_string_equal(model.key[1], "class-names");
            assert_string_equal(model.value[1], notes[1].value);
            check_run(&r, &model, nchw ? x : bytes, "normalised");
            onnx_free(&model);
        }
    end(&r);
}

/* 0 and 1 change nothing. */
static void unit_range_needs_no_statistics(void **state)
{
    const float zero = 0, one = 1;
    rig         r;
    onnx_model  m;
    begin(&r, small());
    read_export(&r, (qg_export_spec){ .numbers = 1, .mean = &zero, .deviation = &one }, &m);
    assert_int_equal(onnx_count(&m, "Div") + onnx_count(&m, "Sub"), 1);
    onnx_free(&m);
    end(&r);
}

/* Each layer after the image has codes of 8 bits. */
static qg_net *wide(int channels, int groups, int out)
{
    const qg_quant w = qg_lsq((qg_lsq_spec) { .bits = 8, .is_signed = true }),
                   x = qg_pact((qg_pact_spec) { .bits = 8, .alpha = 1 });
    qg_net *net = qg_net_new((qg_net_spec) { .height = 4, .width = 4, .channels = channels, .seed = 7 });
    if (groups)
        qg_net_conv2d(
            net, (qg_conv2d_spec) { .out = out, .kernel = 3, .groups = groups, .weight = w, .input = x });
    else qg_net_dense(net, (qg_dense_spec){ .out = out, .weight = w, .input = x });
    return net;
}

/* Up to 2^24 floats have all integers.  Beyond, sums of some channels are added as integers. */
static void large_sums_are_exact(void **state)
{
    static const struct { int channels, groups, out; bool split; } nets[] = {
        { 16, 0, 5, false }, { 400, 0, 5, true }, { 700, 1, 2, true }, { 1400, 2, 4, true }, { 60, 2, 4, false },
    };
    for (int i = 0; i < COUNT(nets); i++) {
        rig        r;
        onnx_model m;
        begin(&r, wide(nets[i].channels, nets[i].groups, nets[i].out));
        for (size_t k = 0; k < qg_count(r.image); k++) r.x[k] = 0.9f;       /* all codes are 230 */
        qg_param *w = qg_net_params(r.net)->item[0];
        for (size_t k = 0; k < qg_count(w->shape); k++) w->value[k] = 4 * fabsf(w->value[k]);
        check_floats(&r, &m, "large");
        assert_int_equal(onnx_count(&m, "Gather") > 0, nets[i].split);
        assert_int_equal(onnx_count(&m, "Conv") + onnx_count(&m, "Gemm") > 1, nets[i].split);
        onnx_free(&m);
        end(&r);
    }
}

static void a_channel_with_too_large_a_sum_is_refused(void **state)
{
    const qg_quant w = qg_lsq((qg_lsq_spec) { .bits = 8, .is_signed = true }),
                   x = qg_pact((qg_pact_spec) { .bits = 8, .alpha = 1 });
    unsigned char *file;
    size_t         bytes;
    rig            r;
    qg_net        *net = qg_net_new((qg_net_spec){ .height = 60, .width = 61, .channels = 1, .seed = 7 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 60, .weight = w, .input = x });
    begin(&r, net);
    for (int k = 0; k < 3600; k++) qg_net_params(net)->item[0]->value[k] = 9;
    assert_failed(qg_export_bytes(net, (qg_export_spec) { .format = QG_EXPORT_ONNX, .floats_only = true },
                                  &file, &bytes),
                  QG_EARG, "conv1: the sums of one of its channels may exceed 2^24");
    end(&r);
}

/* Results that are images, single pixels, and nothing new. */
static void scores_are_a_row_of_any_result(void **state)
{
    for (int k = 0; k < 5; k++) {
        rig        r;
        onnx_model m;
        qg_net *net = qg_net_new(
            (qg_net_spec) { .height = k == 3 ? 1 : 4, .width = k == 3 ? 1 : 3, .channels = 3, .seed = 7 });
        if (k == 0) qg_net_conv2d(net, (qg_conv2d_spec){ .out = 2, .kernel = 2 });
        if (k == 1) qg_net_maxpool(net, 3);
        if (k == 2) qg_net_shortcut(net, qg_net_relu(net), 1, 3);
        if (k == 3) qg_net_conv2d(net, (qg_conv2d_spec){ .out = 2, .kernel = 3, .pad = 1 });
        if (k == 4) qg_net_shortcut(net, qg_net_maxpool(net, 3), 1, 3);
        begin(&r, net);
        for (size_t i = 0; i < qg_count(r.image); i++) r.x[i] -= 0.5f;
        check_floats(&r, &m, "results");
        onnx_free(&m);
        end(&r);
    }
}

static int type_of(const onnx_model *m, const char *part)
{
    for (int i = 0; i < m->tensors; i++)
        if (strstr(m->tensor[i].name, part)) return m->tensor[i].type;
    return 0;
}

/* Codes take a byte each.  Scales stay outside of products of codes, and inside of those of floats if each
 * sign has its own. */
static void weights_take_the_least_type(void **state)
{
    static const struct { int w, x, type, lookups, products; } nets[] = {
        { 0, 0, ONNX_FLOAT, 0, 1 }, { 1, 0, ONNX_INT8, 0, 1 },  { 1, 19, ONNX_INT8, 0, 1 }, { 4, 0, ONNX_UINT8, 1, 1 },
        { 4, 19, ONNX_INT8, 0, 2 }, { 18, 19, ONNX_INT8, 0, 1 }, { 19, 19, ONNX_FLOAT, 1, 1 }, { 26, 19, ONNX_INT8, 0, 1 },
        { 31, 19, ONNX_UINT8, 0, 1 }, { 36, 19, ONNX_UINT8, 0, 1 },
    };
    for (int i = 0; i < COUNT(nets); i++) {
        rig        r;
        onnx_model m;
        qg_net    *net = qg_net_new((qg_net_spec){ .height = 3, .width = 3, .channels = 3, .seed = 7 });
        qg_net_dense(net, (qg_dense_spec) { .out = 6,
                                            .weight = tested_quant(&tested_weights[nets[i].w], QG_WEIGHT),
                                            .input = tested_quant(&tested_inputs[nets[i].x], QG_INPUT) });
        begin(&r, net);
        read_export(&r, (qg_export_spec){ .floats_only = true }, &m);
        if (type_of(&m, ".weight_") != nets[i].type || onnx_count(&m, "Gather") != nets[i].lookups ||
            onnx_count(&m, "Gemm") != nets[i].products)
            fail_msg("%s:%s: type %d, %d lookups, %d products",
                     tested_weights[nets[i].w].scheme ? tested_weights[nets[i].w].scheme->name : "float",
                     tested_weights[nets[i].w].arguments, type_of(&m, ".weight_"), onnx_count(&m, "Gather"),
                     onnx_count(&m, "Gemm"));
        onnx_free(&m);
        end(&r);
    }
}

/* Of evenly spaced thresholds, of ones that roundings have moved, and of others. */
static void codes_are_found_by_the_simplest_way(void **state)
{
    float           even[255], moved[255], few[3] = { -2, 0, 7 }, odd[255];
    qg__packed_step r = { .q_lowest = -128, .q_step = 1, .q_count = 256, .q_scale = 0.25f };
    for (int u = 0; u < 255; u++) {
        even[u]  = 0.25f * ((float)u - 127.5f);
        if (rintf(even[u] / 0.25f) < (float)(u - 127))
            even[u] = nextafterf(even[u], INFINITY); /* a tie that goes down */
        moved[u] = nextafterf(even[u], u % 3 ? INFINITY : -INFINITY);
        odd[u]   = (float)u * (float)u;
    }
    assert_int_equal(qg__rounding_of(&r, even).how, QG__ROUNDS);
    assert_int_equal(qg__rounding_of(&r, moved).how, QG__GUESSES);
    assert_int_equal(qg__rounding_of(&r, odd).how, QG__COMPARES);
    even[255 / 2] = even[255 / 2 - 1];
    assert_int_equal(qg__rounding_of(&r, even).how, QG__COMPARES);          /* a code that no number has */
    r.q_count = 4;
    assert_int_equal(qg__rounding_of(&r, few).how, QG__COMPARES);
}

/* A file that lacks bytes at its end is no model; what the reader of the tests accepts, others read. */
static void a_part_of_a_file_is_no_model(void **state)
{
    rig            r;
    unsigned char *file;
    size_t         bytes;
    begin(&r, small());
    assert_ok(qg_export_bytes(r.net, (qg_export_spec) { .format = QG_EXPORT_ONNX, .floats_only = true },
                              &file, &bytes));
    for (size_t n = 0; n < bytes; n++) {
        onnx_model m;
        if (!onnx_read(&m, file, n)) fail_msg("%zu of %zu bytes", n, bytes);
        onnx_free(&m);
    }
    free(file);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_floats_are_normalised),
        cmocka_unit_test(unit_range_needs_no_statistics),
        cmocka_unit_test(large_sums_are_exact),
        cmocka_unit_test(a_channel_with_too_large_a_sum_is_refused),
        cmocka_unit_test(scores_are_a_row_of_any_result),
        cmocka_unit_test(weights_take_the_least_type),
        cmocka_unit_test(codes_are_found_by_the_simplest_way),
        cmocka_unit_test(a_part_of_a_file_is_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
