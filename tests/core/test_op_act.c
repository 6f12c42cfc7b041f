#include "tests/support/testing.h"

#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"

enum { N = 9 };

/* Inside and outside every bound, and on each of them. */
static const float X[N] = { -INFINITY, -2, -1, -0.5f, -0.0f, 0, 1, 2, 3 };

static qg_var *use_relu(qg_tape *t, qg_var *x)     { return qg_relu(t, x); }
static qg_var *use_clip(qg_tape *t, qg_var *x)     { return qg_clip(t, x, -0.5f, 2); }
static qg_var *use_open(qg_tape *t, qg_var *x)     { return qg_clip(t, x, 0, INFINITY); }
static qg_var *use_hardtanh(qg_tape *t, qg_var *x) { return qg_hardtanh(t, x); }

static const struct row {
    const char *name;
    qg_var   *(*op)(qg_tape *t, qg_var *x);
    float       y[N], dx[N];
} rows[] = {
    { "relu", use_relu, { 0, 0, 0, 0, 0, 0, 1, 2, 3 }, { 0, 0, 0, 0, 0, 0, 1, 1, 1 } },
    { "clip", use_clip, { -.5f, -.5f, -.5f, -.5f, 0, 0, 1, 2, 2 }, { 0, 0, 0, 1, 1, 1, 1, 1, 0 } },
    { "clip to inf", use_open, { 0, 0, 0, 0, 0, 0, 1, 2, 3 }, { 0, 0, 0, 0, 1, 1, 1, 1, 1 } },
    { "hard", use_hardtanh, { -1, -1, -1, -.5f, 0, 0, 1, 1, 1 }, { 0, 0, 1, 1, 1, 1, 1, 0, 0 } },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void values_and_slopes_by_hand(void **state)
{
    (void)state;
    for (size_t r = 0; r < ROWS; r++) {
        qg_params p = { 0 };
        qg_param *x = declare(&p, "x", (qg_shape){ 1, 3, 3, 1 });
        qg_tape  *t = qg_tape_new();
        allocate_apart(&p, 1);
        for (int i = 0; i < N; i++) x->value[i] = X[i];
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        qg_var *y = rows[r].op(t, qg_parameter(t, x));
        assert_int_equal(qg_backward(t, total(t, y)), QG_OK);
        assert_close(y->data, rows[r].y, N, 0);
        assert_close(x->grad, rows[r].dx, N, 0);
        qg_tape_free(t);
        qg_params_release(&p);
    }
}

static void nan_survives_and_evaluation_saves_nothing(void **state)
{
    (void)state;
    float    x[] = { 1, NAN, -1 };
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    for (size_t r = 0; r < ROWS; r++) {
        const qg_var *y = rows[r].op(t, qg_input(t, (qg_tensor){ { 3, 1, 1, 1 }, x }));
        assert_non_null(y);
        assert_true(isnan(y->data[1]));
        assert_false(isnan(y->data[0]) || isnan(y->data[2]));
        assert_null(y->saved);
    }
    qg_tape_free(t);
}

/* Twice the same op: once on a gradient that is fresh, once on top of what is there. */
static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const struct row *r = context;
    qg_var           *v = qg_scale(t, qg_parameter(t, p->item[0]), 3);
    return qg_add(t, r->op(t, v), qg_scale(t, r->op(t, v), 0.5f));
}

static void gradients(void **state)
{
    (void)state;
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 3, 1, 31 }, { 1, 5, 65, 63 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t r = 0; r < ROWS; r++) {
            qg_params p = { 0 };
            qg_param *x = declare(&p, "x", shapes[s]);
            allocate_apart(&p, 3);
            /* 3 x is 0.05 + 0.3 times an integer: 0.05 or more from every bound, 0, -0.5, 2 and
             * +-1, and moves by 3 * 2 / 128 < 0.05. */
            for (size_t i = 0; i < qg_count(shapes[s]); i++)
                x->value[i] = rintf(x->value[i] * 10) / 10 + 0.05f / 3;
            struct row row = rows[r];
            assert_gradcheck((qg_gradcheck_spec){ .name = row.name, .params = &p, .build = build,
                                                  .context = &row, .h = 1.0f / 128 });
            qg_params_release(&p);
        }
}

/* Every op against its formula, over several blocks. */
static void every_element_is_reached(void **state)
{
    (void)state;
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 1, 3, 1, QG_BLOCK - 1 });
    qg_tape  *t = qg_tape_new();
    allocate_apart(&p, 5);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_scale(t, qg_parameter(t, x), 2);
    qg_var *a = qg_relu(t, v), *b = qg_hardtanh(t, v);
    assert_int_equal(qg_backward(t, total(t, qg_add(t, a, b))), QG_OK);
    for (size_t i = 0, m = qg_count(x->shape); i < m; i++) {
        const float u = v->data[i];
        assert_true(a->data[i] == fmaxf(u, 0));
        assert_true(b->data[i] == fminf(fmaxf(u, -1), 1));
        assert_true(x->grad[i] == 2.0f * (float)((u > 0) + (fabsf(u) <= 1)));
    }
    qg_tape_free(t);
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_slopes_by_hand),
        cmocka_unit_test(nan_survives_and_evaluation_saves_nothing),
        cmocka_unit_test(gradients),
        cmocka_unit_test(every_element_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
