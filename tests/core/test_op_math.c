#include "tests/support/testing.h"

#include <math.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"

static qg_tape *begin(qg_mode mode)
{
    qg_tape *t = qg_tape_new();
    assert_non_null(t);
    qg_tape_begin(t, mode, 1, 0);
    return t;
}

/* --- values ------------------------------------------------------------------------------- */

static void values_by_hand(void **state)
{
    (void)state;
    float    x[] = { 1, -2, NAN, 4, 5, 6 }, z[] = { 10, 20, 30, NAN, 50, 60 };
    float    b[] = { 100, -1, 0.5f };
    qg_tape *t   = begin(QG_EVAL);
    qg_var  *vx  = qg_input(t, (qg_tensor){ { 2, 1, 1, 3 }, x });
    qg_var  *vz  = qg_input(t, (qg_tensor){ { 2, 1, 1, 3 }, z });
    qg_var  *vb  = qg_input(t, (qg_tensor){ { 1, 1, 1, 3 }, b });
    qg_var  *sum = qg_add(t, vx, vz), *half = qg_scale(t, vx, 0.5f), *biased = qg_bias(t, vx, vb);
    assert_non_null(sum), assert_non_null(half), assert_non_null(biased);
    assert_true(isnan(sum->data[2]) && isnan(sum->data[3]));
    assert_true(isnan(half->data[2]) && isnan(biased->data[2]));
    assert_close(sum->data, (float[]){ 11, 18 }, 2, 0);
    assert_close(sum->data + 4, (float[]){ 55, 66 }, 2, 0);
    assert_close(half->data + 3, (float[]){ 2, 2.5f, 3 }, 3, 0);
    assert_close(biased->data, (float[]){ 101, -3 }, 2, 0);
    assert_close(biased->data + 3, (float[]){ 104, 4, 6.5f }, 3, 0);
    const qg_var *line = qg_affine(t, vx, 2, -1), *row = qg_reshape(t, vx, (qg_shape){ 0, 3, 1, 1 });
    assert_close(line->data, (float[]){ 1, -5 }, 2, 0);
    assert_close(line->data + 3, (float[]){ 7, 9, 11 }, 3, 0);
    assert_true(isnan(line->data[2]) && row->shape.n == 2 && row->shape.h == 3 && row->shape.c == 1);
    assert_memory_equal(row->data, x, sizeof x);
    assert_null(sum->saved), assert_null(half->saved), assert_null(biased->saved);
    qg_tape_free(t);
}

/* Tensors of one block less one, one block, and a few with a rest; channels 1, 3 and more than one
 * block. */
static void every_element_is_reached(void **state)
{
    (void)state;
    const qg_shape shapes[] = { { 1, 1, 1, 1 },        { 3, 31, 33, 3 }, { 1, 1, QG_BLOCK - 1, 1 },
                                { 1, 1, QG_BLOCK, 1 }, { 63, 9, 65, 1 }, { 3, 1, 1, QG_BLOCK + 1 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        qg_params p = { 0 };
        qg_param *x = declare(&p, "x", shapes[s]);
        qg_param *b = declare(&p, "b", (qg_shape){ 1, 1, 1, shapes[s].c });
        allocate_apart(&p, 6);
        qg_tape *t = begin(QG_TRAIN);
        qg_var  *y = qg_bias(t, qg_parameter(t, x), qg_parameter(t, b));
        qg_var  *z = qg_add(t, y, qg_scale(t, y, 2));
        assert_non_null(z);
        for (size_t i = 0, m = qg_count(shapes[s]); i < m; i++) {
            const float want = x->value[i] + b->value[i % (size_t)shapes[s].c];
            if (y->data[i] != want || z->data[i] != want + 2 * want)
                fail_msg("shape %zu at %zu", s, i);
        }
        qg_tape_free(t);
        qg_params_release(&p);
    }
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_var *build_add(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    return qg_add(t, qg_add(t, v, v), qg_parameter(t, p->item[1]));
}

/* Each way by which a gradient may arrive: fresh, twice from one op, and on top of another. */
static qg_var *build_all(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    qg_var *x = qg_parameter(t, p->item[0]), *b = qg_parameter(t, p->item[1]);
    qg_var *v = qg_scale(t, x, -1.5f);
    qg_var *d = qg_add(t, v, v);
    qg_var *y = qg_bias(t, qg_add(t, d, v), qg_scale(t, b, 3));
    const qg_shape row = { 0, (int)qg_row(x->shape), 1, 1 };
    qg_var *z = qg_reshape(t, qg_affine(t, qg_reshape(t, y, row), 0.5f, 3), y->shape);
    return qg_add(t, qg_add(t, qg_bias(t, qg_scale(t, y, 0.25f), b), z), y);
}

/* x as its own bias. */
static qg_var *build_self(qg_tape *t, const qg_params *p, void *context)
{
    (void)context;
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    return qg_bias(t, v, v);
}

static void gradients(void **state)
{
    (void)state;
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 3, 1, 31 }, { 2, 31, 33, 65 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        qg_params p = { 0 }, q = { 0 };
        declare(&p, "x", shapes[s]);
        declare(&p, "z", shapes[s]);
        declare(&q, "x", shapes[s]);
        declare(&q, "b", (qg_shape){ 1, 1, 1, shapes[s].c });
        allocate_apart(&p, 7);
        allocate_apart(&q, 8);
        assert_gradcheck((qg_gradcheck_spec){ .name = "add", .params = &p, .build = build_add });
        assert_gradcheck((qg_gradcheck_spec){ .name = "all", .params = &q, .build = build_all });
        qg_params_release(&p);
        qg_params_release(&q);
    }
    qg_params p = { 0 };
    declare(&p, "x", (qg_shape){ 1, 1, 1, 33 });
    allocate_apart(&p, 9);
    assert_gradcheck((qg_gradcheck_spec){ .name = "self", .params = &p, .build = build_self });
    qg_params_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(every_element_is_reached),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
