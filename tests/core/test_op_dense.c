#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "tests/support/nets.h"

/* n rows of h w c numbers, o outputs: around one block of 256 columns, and around vectors. */
static const struct sizes { qg_shape x; int o; } cases[] = {
    { { 1, 1, 1, 1 }, 1 },     { { 3, 1, 1, 31 }, 33 },  { { 7, 3, 5, 3 }, 10 },  { { 33, 1, 1, 65 }, 63 },
    { { 2, 1, 1, 256 }, 257 }, { { 9, 1, 1, 255 }, 1 },  { { 1, 2, 2, 65 }, 512 }, { { 65, 1, 257, 1 }, 31 },
    { { 8, 4, 4, 33 }, 64 },
};

static qg_params operands(const struct sizes *s)
{
    qg_params p = { 0 };
    declare(&p, "x", s->x);
    declare(&p, "w", (qg_shape){ s->o, s->x.h, s->x.w, s->x.c });
    declare(&p, "b", (qg_shape){ 1, 1, 1, s->o });
    assert_ok(qg_params_allocate(&p));
    for (int i = 0; i < 3; i++)
        fill_uniform(p.item[i]->value, qg_count(p.item[i]->shape), -1, 1, (uint64_t)i);
    return p;
}

/* All four results, one after another: y, dx, dw, db. */
typedef struct result {
    size_t n, o, k, count;
    float *dy, *y, *dx, *dw, *db;
} result;

static result result_new(const struct sizes *s)
{
    result r = { .n = (size_t)s->x.n, .o = (size_t)s->o, .k = qg_row(s->x) };
    r.count  = r.n * r.o + r.n * r.k + r.o * r.k + r.o;
    r.dy     = calloc(r.n * r.o + r.count, sizeof *r.dy);
    assert_non_null(r.dy);
    fill_uniform(r.dy, r.n * r.o, -1, 1, 9);
    r.y = r.dy + r.n * r.o, r.dx = r.y + r.n * r.o, r.dw = r.dx + r.n * r.k, r.db = r.dw + r.o * r.k;
    return r;
}

static void dense_ref(const qg_params *p, bool bias, result *r)
{
    const float *x = p->item[0]->value, *w = p->item[1]->value, *b = p->item[2]->value;
    for (size_t n = 0; n < r->n; n++)
        for (size_t o = 0; o < r->o; o++) {
            double y = bias ? (double)b[o] : 0;
            for (size_t k = 0; k < r->k; k++) y += (double)x[n * r->k + k] * (double)w[o * r->k + k];
            r->y[n * r->o + o] = (float)y;
        }
    for (size_t k = 0; k < r->k; k++) {
        for (size_t n = 0; n < r->n; n++) {
            double dx = 0;
            for (size_t o = 0; o < r->o; o++) dx += (double)r->dy[n * r->o + o] * (double)w[o * r->k + k];
            r->dx[n * r->k + k] = (float)dx;
        }
        for (size_t o = 0; o < r->o; o++) {
            double dw = 0;
            for (size_t n = 0; n < r->n; n++) dw += (double)r->dy[n * r->o + o] * (double)x[n * r->k + k];
            r->dw[o * r->k + k] = (float)dw;
        }
    }
    for (size_t o = 0; o < r->o; o++) {
        double db = 0;
        for (size_t n = 0; n < r->n; n++) db += (double)r->dy[n * r->o + o];
        r->db[o] = (float)db;
    }
}

typedef struct way {
    bool bias;
    bool fresh;         /* operands are results of an op: their gradients are assigned */
    bool twice;         /* the product is taken twice and added */
} way;

static qg_var *multiply(qg_tape *t, const qg_params *p, way v)
{
    qg_var *x = qg_parameter(t, p->item[0]), *w = qg_parameter(t, p->item[1]);
    qg_var *b = v.bias ? qg_parameter(t, p->item[2]) : NULL;
    if (v.fresh) x = qg_scale(t, x, 1), w = qg_scale(t, w, 1), b = b ? qg_scale(t, b, 1) : NULL;
    qg_var *y = qg_dense(t, x, w, b);
    return v.twice ? qg_add(t, y, qg_dense(t, x, w, b)) : y;
}

static void run(qg_params *p, way v, result *r)
{
    qg_tape *t = qg_tape_new();
    qg_params_clear_gradients(p);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = multiply(t, p, v);
    assert_non_null(y);
    assert_true(qg_shape_equal(y->shape, (qg_shape){ (int)r->n, 1, 1, (int)r->o }));
    assert_true(y->flops == 2.0 * (double)(r->n * r->o * r->k) || v.twice);
    memcpy(r->y, y->data, r->n * r->o * sizeof *r->y);
    assert_ok(qg_backward(t, weighed(t, y, r->dy)));
    memcpy(r->dx, p->item[0]->grad, r->n * r->k * sizeof *r->dx);
    memcpy(r->dw, p->item[1]->grad, r->o * r->k * sizeof *r->dw);
    memcpy(r->db, p->item[2]->grad, r->o * sizeof *r->db);
    qg_tape_free(t);
}

/* m products of numbers in -1..1 and random sign: a walk of roundings that ends near m 2^-25 (see
 * test_op_conv2d.c).  Eight times that. */
static void assert_sums(float *actual, const float *expected, size_t n, size_t m, way v)
{
    for (size_t i = 0; v.twice && i < n; i++) actual[i] /= 2;
    assert_close(actual, expected, n, (double)(m + 1) * 0x1p-22);
}

static void is_its_definition(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        qg_params p = operands(&cases[i]);
        result    want = result_new(&cases[i]), got = result_new(&cases[i]);
        dense_ref(&p, i & 1, &want);
        for (int k = 0; k < 4; k++) {
            const way v = { .bias = i & 1, .fresh = k & 1, .twice = k & 2 };
            run(&p, v, &got);
            assert_sums(got.y, want.y, got.n * got.o, got.k, v);
            assert_sums(got.dx, want.dx, got.n * got.k, got.o, v);
            assert_sums(got.dw, want.dw, got.o * got.k, got.n, v);
            if (v.bias) assert_sums(got.db, want.db, got.o, got.n, v);
        }
        free(want.dy), free(got.dy);
        qg_params_release(&p);
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        const way v = { .bias = true, .fresh = i & 1, .twice = true };
        qg_params p = operands(&cases[i]);
        result    one = result_new(&cases[i]), more = result_new(&cases[i]);
        qg_set_threads(1);
        run(&p, v, &one);
        for (int threads = 2; threads <= 3; threads++) {
            qg_set_threads(threads);
            run(&p, v, &more);
            assert_memory_equal(one.y, more.y, one.count * sizeof *one.y);
        }
        free(one.dy), free(more.dy);
        qg_params_release(&p);
    }
    qg_set_threads(0);
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const way *v = context;
    return multiply(t, p, *v);
}

/* One var as x, w and b: every place adds its part. */
static qg_var *build_alias(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_scale(t, qg_parameter(t, p->item[0]), 1);
    return qg_dense(t, x, x, x->shape.n == (int)qg_count(x->shape) ? x : NULL);
}

static qg_var *build_bias_alias(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_scale(t, qg_parameter(t, p->item[0]), 1);
    return qg_dense(t, x, qg_parameter(t, p->item[1]), x);
}

static void gradients(void **state)
{
    for (int i = 0; i < COUNT(cases); i++) {
        way       v = { .bias = true, .fresh = i & 1, .twice = i & 2 };
        qg_params p = operands(&cases[i]);
        assert_gradcheck((qg_gradcheck_spec){ .name = "dense", .params = &p, .build = build, .context = &v });
        for (int frozen = 0; frozen < 3; frozen++) {
            p.item[frozen]->frozen = true;
            assert_gradcheck((qg_gradcheck_spec){ .name = "dense", .params = &p, .build = build,
                                                  .context = &v, .directions = 1 });
            p.item[frozen]->frozen = false;
        }
        qg_params_release(&p);
    }
}

static void one_var_may_stand_in_several_places(void **state)
{
    const qg_shape shapes[] = { { 3, 2, 2, 5 }, { 1, 1, 1, 1 }, { 31, 1, 1, 1 } };
    for (int i = 0; i < COUNT(shapes); i++) {
        qg_params p = { 0 };
        declare(&p, "x", shapes[i]);
        allocate_apart(&p, 5);
        assert_gradcheck((qg_gradcheck_spec){ .name = "dense(x,x)", .params = &p, .build = build_alias });
        qg_params_release(&p);
    }
    qg_params p = { 0 };
    declare(&p, "x", (qg_shape){ 1, 1, 1, 33 });
    declare(&p, "w", (qg_shape){ 33, 1, 1, 33 });
    allocate_apart(&p, 5);
    assert_gradcheck((qg_gradcheck_spec){ .name = "dense(x,w,x)", .params = &p, .build = build_bias_alias });
    qg_params_release(&p);
}

static void nan_survives(void **state)
{
    float    x[6] = { 1, NAN, 2, 3, 4, 5 }, w[6] = { 0, 0, 0, 1, 1, 1 };
    qg_tape *t    = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *y = qg_dense(t, qg_input(t, (qg_tensor){ { 2, 1, 1, 3 }, x }),
                         qg_input(t, (qg_tensor){ { 2, 1, 1, 3 }, w }), NULL);
    assert_true(isnan(y->data[0]) && isnan(y->data[1]));        /* 0 times NaN is NaN */
    assert_true(y->data[2] == 0 && y->data[3] == 12);
    assert_false(y->needs_grad);
    qg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_its_definition),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(gradients),
        cmocka_unit_test(one_var_may_stand_in_several_places),
        cmocka_unit_test(nan_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
