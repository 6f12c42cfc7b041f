#include "tests/support/testing.h"

#include <math.h>

#include "core/ops/ops.h"

typedef qg_var *(*loss_op)(qg_tape *t, qg_var *x, const uint8_t *labels);
static const loss_op     losses[] = { qg_cross_entropy, qg_squared_hinge };
static const char *const names[]  = { "cross_entropy", "squared_hinge" };

static qg_tape *begin(qg_mode mode)
{
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    qg_tape_begin(t, mode, 1, 0);
    return t;
}

static float value(loss_op op, qg_shape s, float *x, const uint8_t *labels)
{
    qg_tape *t = begin(QG_EVAL);
    qg_var  *y = op(t, qg_input(t, (qg_tensor){ s, x }), labels);
    assert_non_null(y);
    assert_true(qg_shape_equal(y->shape, (qg_shape){ 1, 1, 1, 1 }));
    assert_null(y->saved);
    const float v = y->data[0];
    qg_tape_free(t);
    return v;
}

/* --- values ------------------------------------------------------------------------------- */

static void cross_entropy_by_hand(void **state)
{
    /* Equal scores: log 4.  Scores log 1, log 2, log 3, log 4 and label 2: log(10 / 3). */
    float x[] = { 7, 7, 7, 7, 0, 0.693147181f, 1.09861229f, 1.38629436f };
    const uint8_t labels[] = { 1, 2 };
    const float   a = 1.38629436f, b = 1.20397280f, mean = (a + b) / 2;
    const float   got[] = { value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 4 }, x, labels),
                            value(qg_cross_entropy, (qg_shape){ 2, 1, 1, 4 }, x, labels) };
    assert_close(got, (float[]){ a, mean }, 2, 2e-7);       /* two roundings near 1 */
}

static void cross_entropy_neither_overflows_nor_vanishes(void **state)
{
    float         x[] = { 1e30f, -1e30f, 0, -1e4f, -1e4f, -1e4f };
    const uint8_t right[] = { 0, 1 }, wrong[] = { 2, 1 };
    const float   got[]   = { value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x, right),
                              value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x + 3, right) };
    assert_close(got, (float[]){ 0, 1.09861229f }, 2, 1e-6);
    const float far = value(qg_cross_entropy, (qg_shape){ 1, 1, 1, 3 }, x, wrong);
    assert_true(far > 0.9e30f && far < 1.1e30f);
}

static void squared_hinge_by_hand(void **state)
{
    /* Label 1 of 2, -1, 0.5: (1 + 2)^2 + (1 + 1)^2 + (1 + 0.5)^2 over 3; the second row's is 0. */
    float         x[]      = { 2, -1, 0.5f, -3, -1, 1 };
    const uint8_t labels[] = { 1, 2 };
    const float   got[]    = { value(qg_squared_hinge, (qg_shape){ 2, 1, 1, 3 }, x, labels) };
    assert_close(got, (float[]){ (9 + 4 + 2.25f) / 6 }, 1, 2e-7);
}

/* A sum in float would lose one of 65536 equal rows in 10^4 and more. */
static void the_mean_is_taken_in_double(void **state)
{
    enum { N = 65536 };
    static float   x[2 * N];
    static uint8_t labels[N];
    for (int i = 0; i < N; i++) x[2 * i] = 0.3f;
    const float got = value(qg_cross_entropy, (qg_shape){ N, 1, 1, 2 }, x, labels);
    assert_close(&got, (float[]){ (float)log1p(exp(-(double)0.3f)) }, 1, 6e-8);
}

static void nan_survives(void **state)
{
    const uint8_t labels[] = { 0 };
    for (int op = 0; op < 2; op++)
        for (int at = 0; at < 3; at++) {
            float x[] = { 1, 2, 3 };
            x[at]     = NAN;
            assert_true(isnan(value(losses[op], (qg_shape){ 1, 1, 1, 3 }, x, labels)));
        }
}

/* --- gradients ---------------------------------------------------------------------------- */

static void cross_entropy_gradient_by_hand(void **state)
{
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 2, 1, 1, 2 });
    assert_ok(qg_params_allocate(&p));
    x->value[3]      = 1.09861229f;                 /* softmax of (0, log 3) is (1/4, 3/4) */
    uint8_t  label[] = { 1, 0 };
    qg_tape *t       = begin(QG_TRAIN);
    qg_var  *y       = qg_scale(t, qg_cross_entropy(t, qg_parameter(t, x), label), 4);
    label[0] = label[1] = 200;                      /* labels may go once the op has returned */
    assert_ok(qg_backward(t, y));
    assert_close(x->grad, (float[]){ 1, -1, -1.5f, 1.5f }, 4, 3e-7);
    qg_tape_free(t);
    qg_params_release(&p);
}

typedef struct setting {
    loss_op op;
    uint8_t labels[33];
} setting;

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const setting *s = context;
    qg_var        *x = qg_parameter(t, p->item[0]), *v = qg_scale(t, x, 1.7f);
    qg_var        *y = qg_add(t, s->op(t, v, s->labels), s->op(t, v, s->labels));
    return qg_add(t, y, s->op(t, x, s->labels));
}

static void gradients(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 1, 2 }, { 31, 1, 1, 10 }, { 33, 1, 1, 15 } };
    for (int op = 0; op < 2; op++)
        for (size_t k = 0; k < 4; k++) {
            qg_params p = { 0 };
            setting   s = { .op = losses[op] };
            declare(&p, "x", shapes[k]);
            allocate_apart(&p, 3);
            for (int i = 0; i < shapes[k].n; i++)
                s.labels[i] = (uint8_t)((size_t)(7 * i) % qg_row(shapes[k]));
            /* The slope of the hinge has a kink at s x = 1, at which no value of the small shapes
             * lies; of many, the few near it add less than the tolerance. */
            assert_gradcheck((qg_gradcheck_spec){ .name = names[op], .params = &p, .build = build,
                                                  .context = &s });
            qg_params_release(&p);
        }
}

/* --- counting ----------------------------------------------------------------------------- */

static void correct_rows_are_counted(void **state)
{
    float    x[] = { 1, 2, 3, 3, 2, 1, 5, 5, 5, 5, 5, 5, NAN, 1, 0, 1, NAN, 0, 0, 0, 1 };
    qg_tape *t   = begin(QG_EVAL);
    qg_var  *v   = qg_input(t, (qg_tensor){ { 7, 1, 1, 3 }, x });
    /* right, wrong, the first of equals, a later one, twice a NaN, a label that is none. */
    assert_int_equal(qg_correct(v, (uint8_t[]){ 2, 2, 0, 1, 0, 0, 3 }), 2);
    assert_int_equal(qg_correct(v, (uint8_t[]){ 0, 0, 1, 0, 1, 1, 2 }), 3);
    assert_int_equal(qg_correct(NULL, (uint8_t[]){ 0 }), 0);
    assert_int_equal(qg_correct(v, NULL), 0);
    v = qg_input(t, (qg_tensor){ { 1, 1, 3, 1 }, x });      /* no row, but three scores of one class */
    assert_int_equal(qg_correct(v, (uint8_t[]){ 2 }), 0);
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_by_hand),
        cmocka_unit_test(cross_entropy_neither_overflows_nor_vanishes),
        cmocka_unit_test(squared_hinge_by_hand),
        cmocka_unit_test(the_mean_is_taken_in_double),
        cmocka_unit_test(nan_survives),
        cmocka_unit_test(cross_entropy_gradient_by_hand),
        cmocka_unit_test(gradients),
        cmocka_unit_test(correct_rows_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
