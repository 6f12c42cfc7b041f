#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"

enum { N = 5, H = 3, W = 3, IN = 2, OUT = 3, K = 2, MOST = 64 };

/* A convolution and what a batch norm behind it needs; item: x, w, gamma, beta. */
typedef struct fixture {
    qg_params params;
    float     mean[OUT], var[OUT];
    qg_tape  *tape;
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){ .tape = qg_tape_new() };
    assert_non_null(f->tape);
    declare(&f->params, "x", (qg_shape){ N, H, W, IN });
    declare(&f->params, "w", (qg_shape){ OUT, K, K, IN });
    declare(&f->params, "gamma", (qg_shape){ 1, 1, 1, OUT });
    declare(&f->params, "beta", (qg_shape){ 1, 1, 1, OUT });
    allocate_apart(&f->params, 3);
    for (int k = 0; k < OUT; k++) {
        f->mean[k] = 0.1f * (float)k - 0.2f;
        f->var[k]  = 0.5f + (float)k;
    }
}

static void close_fixture(fixture *f)
{
    qg_tape_free(f->tape);
    qg_params_release(&f->params);
}

static qg_norm_spec spec_of(fixture *f) { return (qg_norm_spec){ .mean = f->mean, .var = f->var }; }

static qg_var *item(fixture *f, int i) { return qg_parameter(f->tape, f->params.item[i]); }

static qg_var *normed(fixture *f, bool frozen)
{
    qg_norm_spec spec = spec_of(f);
    spec.frozen       = frozen;
    qg_var *z = qg_conv2d(f->tape, item(f, 0), item(f, 1), NULL, (qg_conv_spec){ 0 });
    return qg_norm(f->tape, z, item(f, 2), item(f, 3), spec);
}

static qg_var *folded(fixture *f, bool frozen)
{
    const qg_norm_spec spec = spec_of(f);
    qg_var *x = item(f, 0), *w = item(f, 1), *gamma = item(f, 2), *beta = item(f, 3);
    qg_var *q = qg_fold_weight(f->tape, w, gamma, spec);
    if (frozen)
        return qg_conv2d(f->tape, x, q, qg_fold_bias(f->tape, gamma, beta, spec), (qg_conv_spec){ 0 });
    qg_var *y = qg_conv2d(f->tape, x, q, NULL, (qg_conv_spec){ 0 });
    return qg_fold_correct(f->tape, y, qg_conv2d(f->tape, x, w, NULL, (qg_conv_spec){ 0 }), gamma, beta, spec);
}

/* sum of y^2 / 2 by way of the op under test's own gradient: dL/dy = y. */
static void square_backward(qg_tape *t, qg_var *y)
{
    for (size_t i = 0; i < qg_count(y->in[0]->shape); i++) y->in[0]->grad[i] += y->in[0]->data[i];
}

static const qg_op square_op = { .name = "square", .backward = square_backward };

static void run(fixture *f, qg_var *(*build)(fixture *f, bool frozen), bool frozen, float *y, float *grads)
{
    qg_params_clear_gradients(&f->params);
    qg_tape_begin(f->tape, QG_TRAIN, 1, 0);
    qg_var *out = build(f, frozen);
    if (!out) fail_msg("%s", qg_errmsg());
    memcpy(y, out->data, qg_count(out->shape) * sizeof *y);
    qg_var *loss = qg_record(f->tape, &square_op, (qg_shape){ 1, 1, 1, 1 }, out, NULL, NULL);
    assert_non_null(loss);
    loss->data[0] = 0.0f;
    assert_ok(qg_backward(f->tape, loss));
    memcpy(grads, f->params.grad, f->params.length * sizeof *grads);
}

/* The two orders of the same arithmetic, on numbers of size 1 and sums of some tens of them. */
static const double rounding = 2e-5;

static void without_rounding_it_is_batch_norm(void **state)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        fixture a, b;
        float   ya[N * H * W * OUT] = { 0 }, yb[N * H * W * OUT] = { 0 }, ga[512], gb[512];
        open_fixture(&a);
        open_fixture(&b);
        assert_true(a.params.length <= 512);
        run(&a, normed, frozen, ya, ga);
        run(&b, folded, frozen, yb, gb);
        assert_close(yb, ya, N * H * W * OUT, rounding);
        assert_close(gb, ga, a.params.length, rounding);
        assert_close(b.mean, a.mean, OUT, 1e-6);
        assert_close(b.var, a.var, OUT, 1e-6);
        assert_true(frozen == (a.mean[0] == -0.2f));
        close_fixture(&a);
        close_fixture(&b);
    }
}

static void bits_do_not_depend_on_threads(void **state)
{
    float y[3][N * H * W * OUT] = { { 0 } }, g[3][512] = { { 0 } };
    for (int threads = 1; threads <= 3; threads++) {
        fixture f;
        qg_set_threads(threads);
        open_fixture(&f);
        run(&f, folded, false, y[threads - 1], g[threads - 1]);
        close_fixture(&f);
    }
    qg_set_threads(0);
    assert_memory_equal(y[1], y[0], sizeof y[0]);
    assert_memory_equal(y[2], y[0], sizeof y[0]);
    assert_memory_equal(g[1], g[0], sizeof g[0]);
    assert_memory_equal(g[2], g[0], sizeof g[0]);
}

/* --- derivatives ------------------------------------------------------------------------------ */

static float mean_of[OUT], var_of[OUT];

/* The running statistics would move from one evaluation to the next. */
static qg_norm_spec fresh(void)
{
    for (int k = 0; k < OUT; k++) {
        mean_of[k] = 0.3f;
        var_of[k]  = 0.5f + (float)k;
    }
    return (qg_norm_spec){ .mean = mean_of, .var = var_of };
}

static qg_var *build_weight(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_weight(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]), fresh());
}

static qg_var *build_bias(qg_tape *t, const qg_params *p, void *context)
{
    return qg_fold_bias(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]), fresh());
}

static qg_var *build_correct(qg_tape *t, const qg_params *p, void *context)
{
    const bool plain = *(bool *)context;
    return qg_fold_correct(t, qg_parameter(t, p->item[0]), qg_parameter(t, p->item[1]),
                           plain ? NULL : qg_parameter(t, p->item[2]),
                           plain ? NULL : qg_parameter(t, p->item[3]), fresh());
}

static void derivatives(void **state)
{
    const qg_shape channels = { 1, 1, 1, OUT };
    qg_params      w = { 0 }, b = { 0 }, c = { 0 }, plain = { 0 };
    declare(&w, "w", (qg_shape){ OUT, 3, 1, 5 });
    declare(&w, "gamma", channels);
    declare(&b, "gamma", channels);
    declare(&b, "beta", channels);
    for (int i = 0; i < 2; i++) {
        qg_params *p = i ? &plain : &c;
        declare(p, "y", (qg_shape){ 3, 1, 11, OUT });
        declare(p, "z", (qg_shape){ 3, 1, 11, OUT });
        if (i) continue;
        declare(p, "gamma", channels);
        declare(p, "beta", channels);
    }
    qg_params *all[4] = { &w, &b, &c, &plain };
    for (int i = 0; i < 4; i++) allocate_apart(all[i], (uint64_t)i);
    bool no = false, yes = true;
    assert_gradcheck((qg_gradcheck_spec){ .name = "fold_weight", .params = &w, .build = build_weight });
    assert_gradcheck((qg_gradcheck_spec){ .name = "fold_bias", .params = &b, .build = build_bias });
    assert_gradcheck((qg_gradcheck_spec){ .name = "fold_correct", .params = &c, .build = build_correct, .context = &no });
    assert_gradcheck(
        (qg_gradcheck_spec){ .name = "fold_correct, plain", .params = &plain, .build = build_correct, .context = &yes });
    for (int i = 0; i < 4; i++) qg_params_release(all[i]);
}

static void shapes_are_checked(void **state)
{
    fixture f;
    open_fixture(&f);
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_null(qg_fold_weight(f.tape, item(&f, 0), item(&f, 2), spec_of(&f)));
    assert_message("fold_weight: w [5,3,3,2] has 5 channels, gamma is [1,1,1,3]");
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_null(qg_fold_bias(f.tape, item(&f, 0), item(&f, 2), spec_of(&f)));
    assert_message("fold_bias: beta [1,1,1,3] has 3 channels, gamma is [5,3,3,2]");
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_null(qg_fold_correct(f.tape, item(&f, 0), item(&f, 1), NULL, NULL, spec_of(&f)));
    assert_message("fold_correct: y is [5,3,3,2], z is [3,2,2,2]");
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_none(qg_fold_weight(f.tape, item(&f, 1), NULL, (qg_norm_spec){ 0 }), "running mean and var are required");
    qg_norm_spec spec = spec_of(&f);
    spec.eps          = -1;
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_none(qg_fold_bias(f.tape, NULL, item(&f, 2), spec), "fold_bias: eps is -1, must be 0 (for 1e-5) or more");
    spec.eps      = 0;
    spec.momentum = 2;
    qg_tape_begin(f.tape, QG_TRAIN, 1, 0);
    assert_none(qg_fold_weight(f.tape, item(&f, 1), NULL, spec), "fold_weight: momentum is 2, not in 0..1");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rounding_it_is_batch_norm),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(derivatives),
        cmocka_unit_test(shapes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
