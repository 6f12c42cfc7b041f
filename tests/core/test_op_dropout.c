#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"

enum { M = 100 * 1000 };    /* several blocks */

typedef struct fixture {
    qg_tape  *t;
    qg_params p;
    qg_param *x;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f   = (fixture){ .t = qg_tape_new() };
    f.x = declare(&f.p, "x", (qg_shape){ 100, 1, 1, 1000 });
    assert_int_equal(qg_params_allocate(&f.p), QG_OK);
    for (size_t i = 0; i < M; i++) f.x->value[i] = 1;
    *state = &f;
    return f.t ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    qg_tape_free(f->t);
    qg_params_release(&f->p);
    return 0;
}

static qg_var *draw(fixture *f, uint64_t key, uint64_t step, float rate)
{
    qg_tape_begin(f->t, QG_TRAIN, key, step);
    qg_var *y = qg_dropout(f->t, qg_parameter(f->t, f->x), rate);
    assert_non_null(y);
    return y;
}

static void elements_are_dropped_at_the_rate_and_the_rest_grows(void **state)
{
    fixture    *f       = *state;
    const float rates[] = { 0.1f, 0.25f, 0.5f, 0.9f };
    for (int k = 0; k < 4; k++) {
        const double  r       = (double)rates[k];
        const qg_var *y       = draw(f, 5, (uint64_t)k, rates[k]);
        int           dropped = 0;
        for (size_t i = 0; i < M; i++) {
            if (y->data[i] == 0) dropped++;
            else assert_close(y->data + i, (float[]){ 1 / (1 - rates[k]) }, 1, 2e-6);  /* near 10 */
        }
        /* A count of M draws strays by sqrt(M r (1 - r)): five deviations. */
        assert_true(fabs(dropped - M * r) < 5 * sqrt(M * r * (1 - r)));
    }
}

static void the_same_key_and_step_drop_the_same(void **state)
{
    fixture *f    = *state;
    float   *mask = malloc(M * sizeof *mask);
    assert_non_null(mask);
    memcpy(mask, draw(f, 5, 9, 0.5f)->data, M * sizeof *mask);
    qg_var *y = draw(f, 5, 9, 0.5f);
    assert_memory_equal(y->data, mask, M * sizeof *mask);
    const qg_var *z    = qg_dropout(f->t, y, 0.5f);         /* a second op of the step draws anew */
    int           both = 0;
    for (size_t i = 0; i < M; i++) both += z->data[i] != 0;
    assert_true(fabs(both - M / 4.0) < 5 * sqrt(M * 0.25 * 0.75));
    for (uint64_t k = 0; k < 2; k++) {                          /* so does another key or step */
        y         = draw(f, 5 + k, 9 + !k, 0.5f);
        int equal = 0;
        for (size_t i = 0; i < M; i++) equal += y->data[i] == mask[i];
        assert_true(fabs(equal - M / 2.0) < 5 * sqrt(M * 0.25));
    }
    free(mask);
}

static void the_gradient_has_the_same_mask(void **state)
{
    fixture *f = *state;
    qg_var  *y = draw(f, 7, 0, 0.5f);
    y          = qg_dropout(f->t, qg_dropout(f->t, y, 0.25f), 0.1f);    /* fresh gradients too */
    assert_int_equal(qg_backward(f->t, total(f->t, y)), QG_OK);
    assert_close(f->x->grad, y->data, M, 5e-7);     /* x = 1, so y is its slope; near 3, 2 ulps */
    int alive = 0;
    for (size_t i = 0; i < M; i++) alive += y->data[i] != 0;
    assert_in_range(alive, M / 4, M / 2);
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    qg_var *x = qg_parameter(t, p->item[0]);
    return qg_add(t, qg_dropout(t, x, 0.5f), qg_dropout(t, qg_scale(t, x, 2), 0.25f));
}

static void gradients(void **state)
{
    (void)state;
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 31, 33 }, { 1, 65, 63, 5 } };
    for (int s = 0; s < 3; s++) {
        qg_params p = { 0 };
        declare(&p, "x", shapes[s]);
        allocate_apart(&p, 2);
        assert_gradcheck((qg_gradcheck_spec){ .name = "dropout", .params = &p, .build = build });
        qg_params_release(&p);
    }
}

static void evaluation_and_rate_0_leave_x_alone(void **state)
{
    fixture *f = *state;
    qg_tape_begin(f->t, QG_EVAL, 1, 0);
    qg_var *x = qg_parameter(f->t, f->x);
    assert_ptr_equal(qg_dropout(f->t, x, 0.5f), x);
    qg_tape_begin(f->t, QG_TRAIN, 1, 0);
    x = qg_parameter(f->t, f->x);
    assert_ptr_equal(qg_dropout(f->t, x, 0), x);
    /* What others draw does not depend on the rate. */
    const uint64_t after = qg_tape_key(f->t);
    draw(f, 1, 0, 0.5f);
    assert_true(qg_tape_key(f->t) == after);
}

static void nan_survives_being_dropped(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < 64; i++) f->x->value[i] = NAN;
    const qg_var *y = draw(f, 1, 0, 0.5f);
    for (size_t i = 0; i < 64; i++) assert_true(isnan(y->data[i]));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(elements_are_dropped_at_the_rate_and_the_rest_grows),
        CASE(the_same_key_and_step_drop_the_same),
        CASE(the_gradient_has_the_same_mask),
        CASE(gradients),
        CASE(evaluation_and_rate_0_leave_x_alone),
        CASE(nan_survives_being_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
