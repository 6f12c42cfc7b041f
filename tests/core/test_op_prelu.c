/* PReLU and RPReLU: values, slopes at the kink, sums over the batch. */
#include "tests/support/testing.h"

#include <math.h>
#include <string.h>

#include "core/ops/ops.h"
#include "tests/support/nets.h"

enum { A, G, Z, X };

typedef struct fixture {
    qg_tape  *t;
    qg_params p;
    qg_param *of[4];
    qg_var   *v[4];
} fixture;

static fixture open_fixture(qg_shape x, int slopes)
{
    static const char *const name[] = { "a", "g", "z" };
    fixture f = { .t = qg_tape_new() };
    for (int i = A; i < X; i++) f.of[i] = declare(&f.p, name[i], (qg_shape){ 1, 1, 1, i == A ? slopes : x.c });
    f.of[X] = declare(&f.p, "x", x);
    allocate_apart(&f.p, 5);
    qg_tape_begin(f.t, QG_TRAIN, 1, 0);
    return f;
}

static void read_parameters(fixture *f)
{
    for (int i = 0; i < 4; i++) f->v[i] = qg_parameter(f->t, f->of[i]);
}

static void close_fixture(fixture *f)
{
    qg_tape_free(f->t);
    qg_params_release(&f->p);
}

static const float x_value[] = { -2, 4, 0, -1, 3, -0.0f };

/* Two pixels of three channels, slopes 1/2, -1 and 1/4. */
static fixture by_hand(int slopes)
{
    fixture f = open_fixture((qg_shape){ 1, 2, 1, 3 }, slopes);
    memcpy(f.of[X]->value, x_value, sizeof x_value);
    memcpy(f.of[A]->value, (const float[]){ 0.5f, -1, 0.25f }, (size_t)slopes * sizeof(float));
    memcpy(f.of[G]->value, (const float[]){ -1, 4, 1 }, 3 * sizeof(float));
    memcpy(f.of[Z]->value, (const float[]){ 10, 20, 30 }, 3 * sizeof(float));
    read_parameters(&f);
    return f;
}

static const float r[] = { 1, 2, 3, 4, 5, 6 };      /* dL/dy */

static void prelu_by_hand(void **state)
{
    fixture f = by_hand(3);
    qg_var *y = qg_prelu(f.t, f.v[X], f.v[A]);
    assert_ok(qg_backward(f.t, weighed(f.t, y, r)));
    assert_close(y->data, (float[]){ -1, 4, 0, -0.5f, 3, 0 }, 6, 0);
    assert_true(signbit(y->data[5]) && !signbit(y->data[2]));
    assert_close(f.of[X]->grad, (float[]){ 0.5f, 2, 0.75f, 2, 5, 1.5f }, 6, 0);        /* the slope at 0 is a */
    assert_close(f.of[A]->grad, (float[]){ -2 - 4, 0, 0 }, 3, 0);
    close_fixture(&f);
}

static void one_slope_by_hand(void **state)
{
    fixture f = by_hand(1);
    qg_var *y = qg_prelu(f.t, f.v[X], f.v[A]);
    assert_ok(qg_backward(f.t, weighed(f.t, y, r)));
    assert_close(y->data, (float[]){ -1, 4, 0, -0.5f, 3, 0 }, 6, 0);
    assert_close(f.of[X]->grad, (float[]){ 0.5f, 2, 1.5f, 2, 5, 3 }, 6, 0);
    assert_close(f.of[A]->grad, (float[]){ -6 }, 1, 0);
    close_fixture(&f);
}

static void rprelu_by_hand(void **state)
{
    /* x - g is -1, 0, -1, 0, -1, -1. */
    fixture f = by_hand(3);
    qg_var *y = qg_rprelu(f.t, f.v[X], f.v[G], f.v[A], f.v[Z]);
    assert_ok(qg_backward(f.t, weighed(f.t, y, r)));
    assert_close(y->data, (float[]){ 9.5f, 20, 29.75f, 10, 21, 29.75f }, 6, 0);
    assert_close(f.of[X]->grad, (float[]){ 0.5f, -2, 0.75f, 2, -5, 1.5f }, 6, 0);
    assert_close(f.of[A]->grad, (float[]){ -1, -5, -9 }, 3, 0);
    assert_close(f.of[G]->grad, (float[]){ -2.5f, 7, -2.25f }, 3, 0);
    assert_close(f.of[Z]->grad, (float[]){ 5, 7, 9 }, 3, 0);
    close_fixture(&f);
}

/* A float sum would lose one of many equal terms. */
static void sums_are_in_double(void **state)
{
    fixture      f = open_fixture((qg_shape){ 3, 301, 307, 1 }, 1);
    const size_t m = qg_count(f.of[X]->shape);
    for (size_t i = 0; i < m; i++) f.of[X]->value[i] = -0.3f;
    f.of[A]->value[0] = 1, f.of[G]->value[0] = f.of[Z]->value[0] = 0;
    read_parameters(&f);
    assert_ok(qg_backward(f.t, total(f.t, qg_rprelu(f.t, f.v[X], f.v[G], f.v[A], f.v[Z]))));
    assert_close(f.of[A]->grad, (float[]){ (float)((double)m * -(double)0.3f) }, 1, 0);
    assert_close(f.of[Z]->grad, (float[]){ (float)m }, 1, 0);
    close_fixture(&f);
}

static void nan_survives(void **state)
{
    for (int i = 0; i < 4; i++) {
        fixture f = by_hand(3);
        f.of[i]->value[0] = NAN;
        qg_var *y = qg_rprelu(f.t, f.v[X], f.v[G], f.v[A], f.v[Z]);
        assert_true(isnan(y->data[0]));
        assert_true(!isnan(y->data[1]));
        close_fixture(&f);
    }
}

/* Each operand fresh and added to; a slope that is also a shift; x that is its own slope. */
static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const bool shared = p->item[A]->shape.c == 1;
    qg_var    *v[4];
    for (int i = 0; i < 4; i++) v[i] = qg_scale(t, qg_parameter(t, p->item[i]), i == X ? 1 : 0.25f);
    qg_var *y = qg_rprelu(t, v[X], v[G], v[A], v[Z]);
    y         = qg_add(t, y, qg_prelu(t, v[X], v[A]));
    return shared ? y : qg_add(t, y, qg_rprelu(t, v[X], v[G], v[A], v[A]));
}

static void gradients(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 3, 5, 7 }, { 2, 31, 33, 17 } };
    for (int s = 0; s < COUNT(shapes); s++)
        for (int shared = 0; shared < 2; shared++) {
            fixture f = open_fixture(shapes[s], shared ? 1 : shapes[s].c);
            /* x is +-1/2 and more from 0; x - g/4 moves by less than 1/2 - 1/4. */
            for (size_t i = 0; i < qg_count(shapes[s]); i++)
                f.of[X]->value[i] += f.of[X]->value[i] > 0 ? 0.5f : -0.5f;
            assert_gradcheck((qg_gradcheck_spec){ .name = "rprelu", .params = &f.p, .build = build });
            close_fixture(&f);
        }
}

static qg_var *build_self(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    return qg_prelu(t, v, v);
}

static void x_may_be_its_own_slope(void **state)
{
    qg_params p = { 0 };
    qg_param *x = declare(&p, "x", (qg_shape){ 1, 1, 1, 33 });
    allocate_apart(&p, 2);
    for (int i = 0; i < 33; i++) x->value[i] += x->value[i] > 0 ? 0.5f : -0.5f;
    assert_gradcheck((qg_gradcheck_spec){ .name = "self", .params = &p, .build = build_self });
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prelu_by_hand),
        cmocka_unit_test(one_slope_by_hand),
        cmocka_unit_test(rprelu_by_hand),
        cmocka_unit_test(sums_are_in_double),
        cmocka_unit_test(nan_survives),
        cmocka_unit_test(gradients),
        cmocka_unit_test(x_may_be_its_own_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
