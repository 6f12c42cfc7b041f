/* What a net holds: initial weights, files, and that running it by hand is running it. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/file.h"
#include "layers/plan.h"
#include "tests/support/foreign.h"
#include "tests/support/nets.h"
#include "tests/support/room.h"

enum { H = 9, W = 7, C = 3, N = 3, CLASSES = 4 };

static qg_net *net_of(uint64_t seed, int width, qg_quant conv2)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = seed });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = width, .kernel = 3 });
    qg_net_batchnorm(net);
    qg_net_relu(net);
    qg_net_maxpool(net, 2);
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 2, .weight = conv2 });
    qg_net_batchnorm(net);
    qg_net_dense(net, (qg_dense_spec){ .out = CLASSES });
    if (!qg_net_build(net)) fail_msg("%s", qg_errmsg());
    return net;
}

static qg_var *forward(qg_net *net, qg_tape *t, qg_mode mode)
{
    static float image[N * H * W * C];
    fill_uniform(image, N * H * W * C, -1, 1, 1);
    qg_tape_begin(t, mode, 1, 0);
    qg_var *y = qg_net_forward(net, t, (qg_tensor){ { N, H, W, C }, image });
    if (!y) fail_msg("%s", qg_errmsg());
    return y;
}

static void layers_by_hand_are_the_net(void **state)
{
    qg_net  *net = net_of(1, 6, (qg_quant){ 0 });
    qg_tape *t   = qg_tape_new();
    float    image[N * H * W * C], logits[N * CLASSES];
    fill_uniform(image, N * H * W * C, -1, 1, 1);
    for (int mode = QG_TRAIN; mode <= QG_EVAL; mode++) {
        memcpy(logits, forward(net, t, (qg_mode)mode)->data, sizeof logits);
        qg_tape_begin(t, (qg_mode)mode, 1, 0);
        qg_var *x = qg_input(t, (qg_tensor){ { N, H, W, C }, image });
        for (int i = 0; i < qg_net_layers(net); i++) x = qg_apply(qg_net_layer(net, i), t, x);
        assert_memory_equal(x->data, logits, sizeof logits);
    }
    qg_tape_free(t);
    qg_net_free(net);
}

static void a_failed_tape_stays_failed(void **state)
{
    qg_net  *net = net_of(1, 6, (qg_quant){ 0 });
    qg_tape *t   = qg_tape_new();
    float    image[H * W * C] = { 0 };
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_reject(t, QG_EARG, "the first");
    assert_null(qg_net_forward(net, t, (qg_tensor){ { 1, H, W, C }, image }));
    assert_null(qg_apply(qg_net_layer(net, 0), t, qg_input(t, (qg_tensor){ { 1, H, W, C }, image })));
    assert_failed(qg_backward(t, NULL), QG_EARG, "the first");
    qg_tape_free(t);
    qg_net_free(net);
}

/* --- initial weights ------------------------------------------------------------------------ */

static void a_seed_gives_the_same_net(void **state)
{
    qg_net *a = net_of(7, 6, (qg_quant){ 0 }), *b = net_of(7, 6, (qg_quant){ 0 });
    qg_net *c = net_of(8, 6, (qg_quant){ 0 });
    assert_true(qg_params_digest(qg_net_params(a)) == qg_params_digest(qg_net_params(b)));
    assert_true(qg_params_digest(qg_net_params(a)) != qg_params_digest(qg_net_params(c)));
    qg_net_free(a), qg_net_free(b), qg_net_free(c);
}

static void layers_draw_for_themselves(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 1, .width = 1, .channels = 31, .seed = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 31 });
    qg_net_dense(net, (qg_dense_spec){ .out = 31 });
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    assert_memory_not_equal(qg_params_find(p, "fc1.weight")->value, qg_params_find(p, "fc2.weight")->value,
                            31 * 31 * sizeof(float));
    qg_net_free(net);
}

static void quantizing_a_layer_leaves_all_initial_weights(void **state)
{
    const qg_quant schemes[] = { qg_twn((qg_twn_spec){ 0 }),
                                 qg_binary((qg_binary_spec){ .per_channel = true }) };
    qg_net        *plain = net_of(7, 6, (qg_quant){ 0 });
    for (int i = 0; i < COUNT(schemes); i++) {
        qg_net *quantized = net_of(7, 6, schemes[i]);
        assert_true(qg_params_digest(qg_net_params(plain)) == qg_params_digest(qg_net_params(quantized)));
        qg_net_free(quantized);
    }
    qg_net_free(plain);
}

/* Uniform in +-b has variance b^2 / 3; the largest of n draws is within b (1 - 20 / n) but for one
 * seed in e^20, and the mean of n squares within 5 deviations, b^2 0.3 / sqrt(n) each. */
static void initial_weights_have_the_papers_bound(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 9, .width = 9, .channels = 16, .seed = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 32, .kernel = 3, .kernel_w = 5 });
    qg_net_dense(net, (qg_dense_spec){ .out = 20 });
    qg_net_batchnorm(net);
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    const struct { const char *name; double in, out; } fans[] = {
        { "conv1.weight", 3 * 5 * 16, 3 * 5 * 32 }, { "fc1.weight", 7 * 5 * 32, 20 },
    };
    for (int i = 0; i < 2; i++) {
        const qg_param *w     = qg_params_find(p, fans[i].name);
        const double    bound = sqrt(6 / (fans[i].in + fans[i].out)), n = (double)qg_count(w->shape);
        double          most = 0, squares = 0;
        for (size_t k = 0; k < qg_count(w->shape); k++) {
            most = fmax(most, fabs((double)w->value[k]));
            squares += (double)w->value[k] * (double)w->value[k] / n;
        }
        assert_true(most <= bound * (1 + 1e-6) && most > bound * (1 - 20 / n));
        assert_true(fabs(squares / (bound * bound) - 1.0 / 3) < 5 * 0.3 / sqrt(n));
    }
    for (int k = 0; k < 20; k++) {
        assert_true(qg_params_find(p, "bn1.gamma")->value[k] == 1);
        assert_true(qg_params_find(p, "bn1.beta")->value[k] == 0);
        assert_true(qg_params_find(p, "bn1.running_mean")->value[k] == 0);
        assert_true(qg_params_find(p, "bn1.running_var")->value[k] == 1);
    }
    qg_net_free(net);
}

/* Of n normal draws with variance v, the means of x, x^2 and x^4 have deviations of sqrt(v / n), v sqrt(2 / n)
 * and v^2 sqrt(96 / n); each is within five of them.  The mean x^4 of uniform draws is 1.8 v^2, not 3 v^2. */
static void initial_weights_may_be_normal(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 9, .width = 9, .channels = 16, .seed = 3,
                                            .initial_weights = QG_INITIAL_HE });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 32, .kernel = 3, .kernel_w = 5 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 256, .kernel = 3, .groups = QG_DEPTHWISE });
    qg_net_dense(net, (qg_dense_spec){ .out = 20 });
    qg_params *p = qg_net_build(net);
    assert_non_null(p);
    const struct { const char *name; double in; } fans[] = {
        { "conv1.weight", 3 * 5 * 16 }, { "conv2.weight", 3 * 3 }, { "fc1.weight", 5 * 3 * 256 },
    };
    for (int i = 0; i < 3; i++) {
        const qg_param *w = qg_params_find(p, fans[i].name);
        const double    v = 2 / fans[i].in, n = (double)qg_count(w->shape);
        double          sum = 0, squares = 0, fourth = 0;
        for (size_t k = 0; k < qg_count(w->shape); k++) {
            const double square = (double)w->value[k] * (double)w->value[k];
            sum += (double)w->value[k], squares += square, fourth += square * square;
        }
        assert_true(fabs(sum / n) < 5 * sqrt(v / n));
        assert_true(fabs(squares / n / v - 1) < 5 * sqrt(2 / n));
        assert_true(fabs(fourth / n / v / v - 3) < 5 * sqrt(96 / n));
    }
    qg_net_free(net);
}

/* --- files --------------------------------------------------------------------------------- */

static const char *path;

static int choose_path(void **state)
{
    path = scratch_file();
    return path ? 0 : -1;
}

static void a_net_survives_its_file(void **state)
{
    qg_net  *a = net_of(1, 6, (qg_quant){ 0 }), *b = net_of(2, 6, (qg_quant){ 0 });
    qg_tape *t = qg_tape_new();
    float    logits[N * CLASSES];
    forward(a, t, QG_TRAIN);            /* moves the running statistics */
    memcpy(logits, forward(a, t, QG_EVAL)->data, sizeof logits);
    assert_ok(qg_net_save(a, path));
    assert_ok(qg_net_load(b, path));
    assert_true(qg_params_digest(qg_net_params(a)) == qg_params_digest(qg_net_params(b)));
    assert_memory_equal(forward(b, t, QG_EVAL)->data, logits, sizeof logits);
    qg_tape_free(t);
    qg_net_free(a), qg_net_free(b);
}

/* In the file, where was occurs once. */
static void exchange(float was, float is)
{
    unsigned char *bytes;
    size_t         n, at = 0;
    assert_ok(qg__file_read_in(QG_BY_PATH, path, 1 << 20, &bytes, &n));
    while (at + sizeof was <= n && memcmp(bytes + at, &was, sizeof was)) at++;
    assert_true(at + sizeof was <= n);
    memcpy(bytes + at, &is, sizeof is);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(bytes);
}

/* twn would make zeros of a whole layer with a NaN in it, and no loss would tell. */
static void values_that_are_not_finite_are_refused(void **state)
{
    qg_net        *net    = net_of(1, 6, (qg_quant){ 0 });
    qg_param      *gamma  = qg_params_find(qg_net_params(net), "bn1.gamma");
    const float    bad[]  = { NAN, INFINITY, -INFINITY };
    const uint64_t before = qg_params_digest(qg_net_params(net));
    for (int i = 0; i < COUNT(bad); i++) {
        const float good = gamma->value[2], marked = 1234.5f;
        gamma->value[2]  = marked;
        assert_ok(qg_net_save(net, path));
        gamma->value[2] = bad[i];
        assert_int_equal(qg_net_save(net, path), QG_ENAN);      /* the file stays */
        assert_message("bn1.gamma has the value");
        gamma->value[2] = good;
        exchange(marked, bad[i]);
        forget_checksum(path);
        assert_failed(qg_net_load(net, path), QG_ENAN, "bn1.gamma has the value");
        assert_message(", at 2 of 6");
        assert_true(qg_params_digest(qg_net_params(net)) == before);
    }
    qg_net_free(net);
}

static void there_is_no_state_before_build(void **state)
{
    qg_net   *net = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C });
    qg_state *s   = qg_state_new();
    qg_net_dense(net, (qg_dense_spec){ .out = 3 });
    qg_net_state(net, s);
    assert_failed(qg_state_save(s, path), QG_ESTATE, "net: has no parameters before qg_net_build");
    qg_state_free(s);
    qg_net_free(net);
}

static void a_foreign_file_is_refused_with_every_mismatch(void **state)
{
    qg_net *narrow = net_of(1, 6, (qg_quant){ 0 });
    qg_net *other  = qg_net_new((qg_net_spec){ .height = H, .width = W, .channels = C, .seed = 1 });
    qg_net_conv2d(other, (qg_conv2d_spec){ .out = 8, .kernel = 3 });
    qg_net_batchnorm(other);
    qg_net_dense(other, (qg_dense_spec){ .out = CLASSES, .name = "head" });
    assert_non_null(qg_net_build(other));
    assert_ok(qg_net_save(narrow, path));
    const uint64_t before = qg_params_digest(qg_net_params(other));
    assert_int_equal(qg_net_load(other, path), QG_ESHAPE);
    static const char *const said[] = {
        "conv1.weight: file [6,3,3,3], expected [8,3,3,3]", "bn1.gamma: file [6], expected [8]",
        "bn1.beta: file [6], expected [8]", "bn1.running_mean: file [6], expected [8]",
        "bn1.running_var: file [6], expected [8]", "conv2.weight: only in the file", "bn2.gamma: only in the file",
        "bn2.beta: only", "bn2.running_mean: only", "bn2.running_var: only", "fc1.weight: only",
        "fc1.bias: only",
        "head.weight: missing in the file", "head.bias: missing in the file",
    };
    for (int i = 0; i < COUNT(said); i++) assert_message(said[i]);
    assert_message(path);
    assert_true(qg_params_digest(qg_net_params(other)) == before);
    assert_failed(qg_net_load(other, "/nowhere/at all"), QG_EIO, "/nowhere/at all");
    assert_int_equal(qg_net_save(other, "/nowhere/at all"), QG_EIO);
    qg_net_free(narrow), qg_net_free(other);
}

/* Whatever their extents, as the note in the file says. */
static void weights_are_saved_with_the_rank_of_their_layer(void **state)
{
    qg_net *net = qg_net_new((qg_net_spec){ .height = 2, .width = 2, .channels = 3 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 5, .kernel = 1 });
    qg_net_conv2d(net, (qg_conv2d_spec){ .out = 1, .kernel = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 1 });
    qg_net_dense(net, (qg_dense_spec){ .out = 1 });
    const qg_params *p = qg_net_build(net);
    const struct { const char *name; int rank; size_t dims[4]; } want[] = {
        { "conv1.weight", 4, { 5, 1, 1, 3 } }, { "conv2.weight", 4, { 1, 1, 1, 5 } },
        { "fc1.weight", 4, { 1, 2, 2, 1 } },   { "fc2.weight", 2, { 1, 1 } },
        { "conv2.bias", 1, { 1 } },
    };
    assert_non_null(p);
    for (int i = 0; i < COUNT(want); i++) {
        const qg_array a = qg__param_array(qg_params_find(p, want[i].name));
        assert_int_equal(a.rank, want[i].rank);
        for (int k = 0; k < a.rank; k++) assert_int_equal(a.dims[k], want[i].dims[k]);
    }
    qg_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_by_hand_are_the_net),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(a_failed_tape_stays_failed),
        cmocka_unit_test(a_seed_gives_the_same_net),
        cmocka_unit_test(layers_draw_for_themselves),
        cmocka_unit_test(quantizing_a_layer_leaves_all_initial_weights),
        cmocka_unit_test(initial_weights_have_the_papers_bound),
        cmocka_unit_test(initial_weights_may_be_normal),
        cmocka_unit_test(a_net_survives_its_file),
        cmocka_unit_test(weights_are_saved_with_the_rank_of_their_layer),
        cmocka_unit_test(there_is_no_state_before_build),
        cmocka_unit_test(a_foreign_file_is_refused_with_every_mismatch),
    };
    return cmocka_run_group_tests(tests, choose_path, NULL);
}
