/* Ops of core/ops/elementwise.c: bounds, sums and products by numbers, dropout. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/parallel.h"
#include "core/ops/ops.h"
#include "tests/support/nets.h"

/* A tape in training and a parameter x. */
typedef struct fixture {
    qg_tape  *t;
    qg_params p;
    qg_param *x;
} fixture;

static fixture open_fixture(qg_shape shape)
{
    fixture f = { .t = qg_tape_new() };
    f.x       = declare(&f.p, "x", shape);
    allocate_apart(&f.p, 5);
    qg_tape_begin(f.t, QG_TRAIN, 1, 0);
    return f;
}

static void close_fixture(fixture *f)
{
    qg_tape_free(f->t);
    qg_params_release(&f->p);
}

/* --- bounds ------------------------------------------------------------------------------- */

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
static void bounds_by_hand(void **state)
{
    for (int r = 0; r < COUNT(rows); r++) {
        fixture f = open_fixture((qg_shape){ 1, 3, 3, 1 });
        memcpy(f.x->value, X, sizeof X);
        qg_var *y = rows[r].op(f.t, qg_parameter(f.t, f.x));
        assert_ok(qg_backward(f.t, total(f.t, y)));
        for (int i = 0; i < N; i++)
            if (y->data[i] != rows[r].y[i] || f.x->grad[i] != rows[r].dx[i])
                fail_msg("%s of %g: %g, slope %g", rows[r].name, (double)X[i], (double)y->data[i],
                         (double)f.x->grad[i]);
        close_fixture(&f);
    }
}

static void bounds_keep_nan_and_save_nothing_in_evaluation(void **state)
{
    float    x[] = { 1, NAN, -1 };
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    for (int r = 0; r < COUNT(rows); r++) {
        const qg_var *y = rows[r].op(t, qg_input(t, (qg_tensor){ { 3, 1, 1, 1 }, x }));
        assert_non_null(y);
        assert_true(isnan(y->data[1]));
        assert_false(isnan(y->data[0]) || isnan(y->data[2]));
        assert_null(y->saved);
    }
    qg_tape_free(t);
}

/* Computed in double and rounded: at x = -2, -1/2, 0, 1, 3. */
static const struct row curves[] = {
    { "sigmoid", qg_sigmoid, { 0.119202922f, 0.377540669f, 0.5f, 0.731058579f, 0.952574127f },
      { 0.104993585f, 0.235003712f, 0.25f, 0.196611933f, 0.0451766597f } },
    { "tanh", qg_tanh, { -0.96402758f, -0.462117157f, 0, 0.761594156f, 0.995054754f },
      { 0.0706508249f, 0.786447733f, 1, 0.419974342f, 0.00986603717f } },
};
static const float curve_x[] = { -2, -0.5f, 0, 1, 3 };

static void curves_by_formula(void **state)
{
    for (int r = 0; r < COUNT(curves); r++) {
        fixture f = open_fixture((qg_shape){ 1, COUNT(curve_x), 1, 1 });
        memcpy(f.x->value, curve_x, sizeof curve_x);
        qg_var *y = curves[r].op(f.t, qg_parameter(f.t, f.x));
        assert_ok(qg_backward(f.t, total(f.t, y)));
        assert_memory_equal(y->data, curves[r].y, sizeof curve_x);      /* the nearest floats */
        assert_close(f.x->grad, curves[r].dx, COUNT(curve_x), 6e-8);    /* two roundings of y below 1 */
        close_fixture(&f);
    }
}

static void curves_end_in_their_limits_and_keep_nan(void **state)
{
    float    x[] = { -INFINITY, -1000, 1000, INFINITY, NAN };
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var       *v = qg_input(t, (qg_tensor){ { 1, 1, 1, 5 }, x });
    const qg_var *s = qg_sigmoid(t, v), *h = qg_tanh(t, v);
    assert_memory_equal(s->data, ((const float[]){ 0, 0, 1, 1 }), 4 * sizeof *x);
    assert_memory_equal(h->data, ((const float[]){ -1, -1, 1, 1 }), 4 * sizeof *x);
    assert_true(isnan(s->data[4]) && isnan(h->data[4]));
    assert_null(s->saved), assert_null(h->saved);
    qg_tape_free(t);
}

/* Twice the same op: once on a gradient that is fresh, once on top of what is there. */
static qg_var *build_twice(qg_tape *t, const qg_params *p, void *context)
{
    const struct row *r = context;
    qg_var           *v = qg_scale(t, qg_parameter(t, p->item[0]), 3);
    return qg_add(t, r->op(t, v), qg_scale(t, r->op(t, v), 0.5f));
}

static void gradients_of_bounds(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 3, 1, 31 }, { 1, 5, 65, 63 } };
    for (int s = 0; s < COUNT(shapes); s++)
        for (int r = 0; r < COUNT(rows); r++) {
            fixture f = open_fixture(shapes[s]);
            /* 3 x is 0.05 + 0.3 times an integer: 0.05 or more from every bound, 0, -0.5, 2 and
             * +-1, and moves by 3 * 2 / 128 < 0.05. */
            for (size_t i = 0; i < qg_count(shapes[s]); i++) f.x->value[i] = rintf(f.x->value[i] * 10) / 10 + 0.05f / 3;
            struct row row = rows[r];
            assert_gradcheck((qg_gradcheck_spec){ .name = row.name, .params = &f.p, .build = build_twice,
                                                  .context = &row, .h = 1.0f / 128 });
            close_fixture(&f);
        }
}

static void gradients_of_curves(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 3, 1, 31 }, { 1, 5, 65, 63 } };
    for (int s = 0; s < COUNT(shapes); s++)
        for (int r = 0; r < COUNT(curves); r++) {
            fixture    f   = open_fixture(shapes[s]);
            struct row row = curves[r];
            assert_gradcheck((qg_gradcheck_spec){ .name = row.name, .params = &f.p, .build = build_twice,
                                                  .context = &row });
            close_fixture(&f);
        }
}

/* Every op against its formula, over several blocks. */
static void bounds_reach_every_element(void **state)
{
    fixture f = open_fixture((qg_shape){ 1, 3, 1, QG_BLOCK - 1 });
    qg_var *v = qg_scale(f.t, qg_parameter(f.t, f.x), 2);
    qg_var *a = qg_relu(f.t, v), *b = qg_hardtanh(f.t, v);
    assert_ok(qg_backward(f.t, total(f.t, qg_add(f.t, a, b))));
    for (size_t i = 0, m = qg_count(f.x->shape); i < m; i++) {
        const float u = v->data[i];
        assert_true(a->data[i] == fmaxf(u, 0));
        assert_true(b->data[i] == fminf(fmaxf(u, -1), 1));
        assert_true(f.x->grad[i] == 2.0f * (float)((u > 0) + (fabsf(u) <= 1)));
    }
    close_fixture(&f);
}

/* --- sums and products -------------------------------------------------------------------- */

static void sums_by_hand(void **state)
{
    float    x[] = { 1, -2, NAN, 4, 5, 6 }, z[] = { 10, 20, 30, NAN, 50, 60 };
    float    b[] = { 100, -1, 0.5f };
    qg_tape *t   = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
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
    const qg_var *difference = qg_sub(t, vx, vz), *product = qg_mul(t, vx, vz);
    assert_close(difference->data, (float[]){ -9, -22 }, 2, 0);
    assert_close(product->data, (float[]){ 10, -40 }, 2, 0);
    assert_close(product->data + 4, (float[]){ 250, 360 }, 2, 0);
    assert_true(isnan(difference->data[2]) && isnan(difference->data[3]));
    assert_true(isnan(product->data[2]) && isnan(product->data[3]));
    assert_null(difference->saved), assert_null(product->saved);
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
static void sums_reach_every_element(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 },        { 3, 31, 33, 3 }, { 1, 1, QG_BLOCK - 1, 1 },
                                { 1, 1, QG_BLOCK, 1 }, { 63, 9, 65, 1 }, { 3, 1, 1, QG_BLOCK + 1 } };
    for (int s = 0; s < COUNT(shapes); s++) {
        fixture       f = open_fixture(shapes[s]), of_b = open_fixture((qg_shape){ 1, 1, 1, shapes[s].c });
        qg_var *y = qg_bias(f.t, qg_parameter(f.t, f.x), qg_parameter(f.t, of_b.x));
        qg_var *z = qg_add(f.t, y, qg_scale(f.t, y, 2));
        qg_var *d = qg_sub(f.t, y, qg_scale(f.t, y, 2)), *m2 = qg_mul(f.t, y, y);
        assert_true(z && d && m2);
        for (size_t i = 0, m = qg_count(shapes[s]); i < m; i++) {
            const float want = f.x->value[i] + of_b.x->value[i % (size_t)shapes[s].c];
            if (y->data[i] != want || z->data[i] != want + 2 * want) fail_msg("shape %d at %zu", s, i);
            if (d->data[i] != -want || m2->data[i] != want * want) fail_msg("shape %d at %zu", s, i);
        }
        close_fixture(&f);
        close_fixture(&of_b);
    }
}

static qg_var *build_add(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    return qg_add(t, qg_add(t, v, v), qg_parameter(t, p->item[1]));
}

/* x - x and x x are in them, and x is read before and after. */
static qg_var *build_sub(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2), *z = qg_parameter(t, p->item[1]);
    return qg_sub(t, qg_sub(t, z, v), qg_sub(t, qg_sub(t, v, v), v));
}

static qg_var *build_mul(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2), *z = qg_parameter(t, p->item[1]);
    return qg_add(t, qg_mul(t, qg_mul(t, v, v), z), v);
}

/* Each way by which a gradient may arrive: fresh, twice from one op, and on top of another. */
static qg_var *build_all(qg_tape *t, const qg_params *p, void *context)
{
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
    qg_var *v = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    return qg_bias(t, v, v);
}

static void gradients_of_sums(void **state)
{
    static const struct {
        const char *name;
        qg_var   *(*build)(qg_tape *t, const qg_params *p, void *context);
        qg_shape    x, other;       /* other.n 0: a single operand */
    } sums[] = {
        { "add", build_add, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "add", build_add, { 3, 3, 1, 31 }, { 3, 3, 1, 31 } },
        { "add", build_add, { 2, 31, 33, 65 }, { 2, 31, 33, 65 } },
        { "sub", build_sub, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "sub", build_sub, { 2, 31, 33, 65 }, { 2, 31, 33, 65 } },
        { "mul", build_mul, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "mul", build_mul, { 3, 3, 1, 31 }, { 3, 3, 1, 31 } },
        { "mul", build_mul, { 2, 31, 33, 65 }, { 2, 31, 33, 65 } },
        { "all", build_all, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "all", build_all, { 3, 3, 1, 31 }, { 1, 1, 1, 31 } },
        { "all", build_all, { 2, 31, 33, 65 }, { 1, 1, 1, 65 } },
        { "self", build_self, { 1, 1, 1, 33 }, { 0, 0, 0, 0 } },
    };
    for (int k = 0; k < COUNT(sums); k++) {
        qg_params p = { 0 };
        declare(&p, "x", sums[k].x);
        if (sums[k].other.n) declare(&p, "other", sums[k].other);
        allocate_apart(&p, sums[k].build == build_add ? 7 : sums[k].build == build_all ? 8 : 9);
        assert_gradcheck((qg_gradcheck_spec){ .name = sums[k].name, .params = &p, .build = sums[k].build });
        qg_params_release(&p);
    }
}

/* --- dropout ------------------------------------------------------------------------------ */

enum { M = 100 * 1000 };    /* several blocks */

static int set_up(void **state)
{
    static fixture f;
    f = open_fixture((qg_shape){ 100, 1, 1, 1000 });
    for (size_t i = 0; i < M; i++) f.x->value[i] = 1;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    close_fixture(*state);
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
    assert_ok(qg_backward(f->t, total(f->t, y)));
    assert_close(f->x->grad, y->data, M, 5e-7);     /* x = 1, so y is its slope; near 3, 2 ulps */
    int alive = 0;
    for (size_t i = 0; i < M; i++) alive += y->data[i] != 0;
    assert_in_range(alive, M / 4, M / 2);
}

static qg_var *build_dropout(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *x = qg_parameter(t, p->item[0]);
    return qg_add(t, qg_dropout(t, x, 0.5f), qg_dropout(t, qg_scale(t, x, 2), 0.25f));
}

static void gradients_of_dropout(void **state)
{
    const qg_shape shapes[] = { { 1, 1, 1, 1 }, { 3, 1, 31, 33 }, { 1, 65, 63, 5 } };
    for (int s = 0; s < 3; s++) {
        fixture f = open_fixture(shapes[s]);
        assert_gradcheck((qg_gradcheck_spec){ .name = "dropout", .params = &f.p, .build = build_dropout });
        close_fixture(&f);
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
        cmocka_unit_test(bounds_by_hand),
        cmocka_unit_test(bounds_keep_nan_and_save_nothing_in_evaluation),
        cmocka_unit_test(gradients_of_bounds),
        cmocka_unit_test(bounds_reach_every_element),
        cmocka_unit_test(curves_by_formula),
        cmocka_unit_test(curves_end_in_their_limits_and_keep_nan),
        cmocka_unit_test(gradients_of_curves),
        cmocka_unit_test(sums_by_hand),
        cmocka_unit_test(sums_reach_every_element),
        cmocka_unit_test(gradients_of_sums),
        cmocka_unit_test(gradients_of_dropout),
        CASE(elements_are_dropped_at_the_rate_and_the_rest_grows),
        CASE(the_same_key_and_step_drop_the_same),
        CASE(the_gradient_has_the_same_mask),
        CASE(evaluation_and_rate_0_leave_x_alone),
        CASE(nan_survives_being_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
