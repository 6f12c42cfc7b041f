/* Batch norm's gradients, and what it does on the way: pooling, relu, an activation. */
#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/kernels/parallel.h"
#include "core/rng.h"
#include "tests/support/environment.h"
#include "tests/support/nets.h"

/* --- an activation with two learned values ------------------------------------------------- */

/* f(x) = s x / sqrt(1 + x^2) + o,  f' = s / sqrt(1 + x^2)^3,  df/ds = x / sqrt(1 + x^2),  df/do = 1.
 * The sum of ds is half of it, and the gain 2. */
static void squash_forward(const qg_activation *f, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = f->k[0] * (x[i] / sqrtf(1 + x[i] * x[i])) + f->k[1];
}

static void squash_backward(const qg_activation *f, size_t n, const float *x, const float *dy, float *dx,
                            double *dk)
{
    for (size_t i = 0; i < n; i++) {
        const float root = sqrtf(1 + x[i] * x[i]);
        if (dk) dk[0] += 0.5 * (double)(dy[i] * x[i] / root), dk[1] += (double)dy[i];
        dx[i] = dy[i] * f->k[0] / (root * root * root);
    }
}

static qg_activation squash(qg_var *scale, qg_var *offset)
{
    return (qg_activation){ .forward = squash_forward, .backward = squash_backward,
                            .k = { scale ? scale->data[0] : 1, offset ? offset->data[0] : 0 },
                            .n_learned = scale || offset ? 2 : 0, .learned = { scale, offset }, .gain = { 2 } };
}

/* --- a net of one batch norm --------------------------------------------------------------- */

typedef struct way {
    qg_shape x;
    int      pool;
    bool     relu, act;
    bool     frozen, no_gamma, no_beta;
    bool     derived;       /* every operand is the result of an op, and x is read twice */
    bool     apart;         /* pooling, relu and activation are ops of their own */
    bool     fixed_scale;   /* the activation learns nothing */
    bool     add, add_x;    /* a shortcut: a parameter, or x itself */
} way;

enum { X, GAMMA, BETA, SCALE, OFFSET, ADD, MEAN, VAR, ITEMS };

static qg_params operands(const way *v)
{
    static const char *const names[] = { "x", "gamma", "beta", "scale", "offset", "add", "mean", "var" };
    qg_params p = { 0 };
    for (int i = 0; i < ITEMS; i++)
        assert_non_null(qg_params_declare(&p, (qg_param){
            .name  = names[i],
            .shape = i == X || i == ADD ? v->x : (qg_shape){ 1, 1, 1, i == SCALE || i == OFFSET ? 1 : v->x.c },
            .group = i >= MEAN ? QG_TRACKED : QG_WEIGHTS }));
    assert_ok(qg_params_allocate(&p));
    for (int i = 0; i < ITEMS; i++)
        fill_uniform(p.item[i]->value, qg_count(p.item[i]->shape), i == X || i == BETA || i == MEAN ? -1 : 0.5f,
                     1.5f, 10 + (uint64_t)i);
    return p;
}

/* An op of its own for the activation, to hold the fused one against. */
static void act_backward(qg_tape *t, qg_var *y)
{
    const qg_activation *f = y->saved;
    const size_t         n = qg_count(y->shape);
    double               dk[3] = { 0 };
    squash_backward(f, n, y->in[0]->data, y->grad, y->grad, dk);
    for (size_t i = 0; i < n; i++) y->in[0]->grad[i] += y->grad[i];
    for (int j = 0; j < f->n_learned; j++) y->in[1 + j]->grad[0] += (float)(j == 0 ? 2 * dk[0] : dk[j]);
}

static const qg_op act_op = { "squash", act_backward, .assigns = false };

static qg_var *act(qg_tape *t, qg_var *x, qg_activation f)
{
    qg_var *y = x ? qg_record(t, &act_op, x->shape, x, f.learned[0], f.learned[1]) : NULL;
    qg_activation *kept = y ? qg_save(t, y, sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept = f;
    squash_forward(&f, qg_count(x->shape), x->data, y->data);
    return y;
}

static qg_var *operand(qg_tape *t, const qg_params *p, int i, const way *v)
{
    qg_var *x = qg_parameter(t, p->item[i]);
    return v->derived ? qg_scale(t, x, 1) : x;
}

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const way *v = context;
    qg_var *x = operand(t, p, X, v), *gamma = v->no_gamma ? NULL : operand(t, p, GAMMA, v);
    qg_var *beta = v->no_beta ? NULL : operand(t, p, BETA, v);
    const bool learns = v->act && !v->fixed_scale;
    const qg_activation f = squash(learns ? operand(t, p, SCALE, v) : NULL,
                                   learns ? operand(t, p, OFFSET, v) : NULL);
    qg_var      *add  = v->add_x ? x : v->add ? operand(t, p, ADD, v) : NULL;
    const qg_norm_spec spec = { .mean = p->item[MEAN]->value, .var = p->item[VAR]->value, .frozen = v->frozen };
    if (!v->apart) {
        qg_norm_fusion with = { .pool = v->pool, .relu = v->relu, .add = add };
        if (v->act) with.act = f;
        qg_var *y = qg_norm_fused(t, x, gamma, beta, spec, with);
        return v->derived ? qg_add(t, y, qg_norm_fused(t, x, gamma, beta, spec, with)) : y;
    }
    qg_var *y = qg_norm(t, x, gamma, beta, spec);
    if (add) y = qg_add(t, y, add);
    if (v->pool) y = qg_maxpool(t, y, v->pool);
    if (v->relu) y = qg_relu(t, y);
    if (v->act) y = act(t, y, f);
    return v->derived ? qg_add(t, y, y) : y;
}

/* --- against differences ------------------------------------------------------------------- */

static void gradients(void **state)
{
    static const qg_shape shapes[] = { { 2, 5, 4, 3 }, { 9, 1, 1, 5 }, { 3, 1, 1, 2 }, { 1, 3, 3, 17 } };
    for (int i = 0; i < COUNT(shapes); i++)
        for (int k = 0; k < 24; k++) {
            way v = { .x = shapes[i], .act = k & 1, .frozen = k & 2, .no_gamma = k >> 2 == 1,
                      .no_beta = k >> 2 == 2, .derived = k >> 2 == 3 || k >> 2 == 5,
                      .add = k >> 2 == 3 || k >> 2 == 4, .add_x = k >> 2 == 5 };
            qg_params p = operands(&v);
            assert_gradcheck((qg_gradcheck_spec){ .name = "norm", .params = &p, .build = build, .context = &v,
                .tolerance = 3e-3f, .reason = "few numbers in a batch curve the statistics" });
            qg_params_release(&p);
        }
}

/* The elements of each window 2 / ranks apart, so that no step of 2h changes which is largest, and
 * all but two of their magnitudes far from where z = 0. */
static void spread(qg_param *x, int pool)
{
    const qg_shape s     = x->shape;
    const int      ranks = pool * pool;
    float         *v     = x->value;
    for (int i = 0; i < s.n * s.h; i++)
        for (int j = 0; j < s.w; j++)
            for (int k = 0; k < s.c; k++) {
                const int row = i % s.h, place = ((i - row + row / pool) * s.w + j / pool) * s.c + k;
                const int first = (int)(qg_bits(17, (uint64_t)place) % (uint64_t)ranks);
                const int rank  = (row % pool * pool + j % pool + first) % ranks;
                *v++ = (place & 1 ? 2.0f : 0.0f) + ((float)rank + 0.5f) * 2.0f / (float)ranks;
            }
}

static void gradients_of_pools_and_relu(void **state)
{
    static const qg_shape shapes[] = { { 2, 5, 7, 3 }, { 1, 6, 6, 17 }, { 3, 4, 3, 2 }, { 9, 3, 3, 1 } };
    for (int i = 0; i < COUNT(shapes); i++)
        for (int pool = 2; pool <= 3; pool++)
            for (int k = 0; k < 8; k++) {
                way v = { .x = shapes[i], .pool = pool, .act = k & 1, .frozen = k & 2, .derived = k & 4,
                          .relu = true };
                qg_params p = operands(&v);
                spread(p.item[X], pool);
                /* gamma > 0.5 keeps the order; beta puts half the windows' maxima well above 0. */
                for (int c = 0; c < v.x.c; c++) p.item[BETA]->value[c] = c & 1 ? 0.3f : -0.2f;
                /* With the weights of key 0 the terms of scale's gradient cancel to 0.18 of 30 in one of these. */
                assert_gradcheck((qg_gradcheck_spec){ .name = "norm-pool", .params = &p, .build = build,
                                                      .context = &v, .h = 1.0f / 512, .key = 1,
                                                      .tolerance = 5e-3f,
                                                      .reason = "a step of 1/512 magnifies rounding" });
                qg_params_release(&p);
            }
}

/* --- against ops of their own --------------------------------------------------------------- */

typedef struct result {
    float *y, *grad;
    size_t n;
} result;

static result run(way v, bool apart)
{
    v.apart     = apart;
    qg_params p = operands(&v);
    qg_tape  *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *y = build(t, &p, &v);
    assert_non_null(y);
    result r = { .n = qg_count(y->shape) };
    float *dy = malloc(r.n * sizeof *dy);
    r.y = malloc(r.n * sizeof *r.y), r.grad = malloc(p.length * sizeof *r.grad);
    assert_true(dy && r.y && r.grad);
    fill_uniform(dy, r.n, -1, 1, 3);
    memcpy(r.y, y->data, r.n * sizeof *r.y);
    assert_ok(qg_backward(t, weighed(t, y, dy)));
    memcpy(r.grad, p.grad, p.length * sizeof *r.grad);
    free(dy);
    qg_tape_free(t);
    qg_params_release(&p);
    return r;
}

static void result_free(result r) { free(r.y), free(r.grad); }

static const way ways[] = {
    { .x = { 3, 6, 6, 33 }, .pool = 2 },
    { .x = { 9, 7, 5, 3 }, .pool = 2, .relu = true },
    { .x = { 2, 11, 8, 16 }, .pool = 3, .relu = true, .act = true },
    { .x = { 2, 10, 10, 65 }, .relu = true },
    { .x = { 2, 5, 5, 31 }, .act = true },
    { .x = { 7, 1, 1, 65 }, .relu = true, .act = true },
    { .x = { 1, 1, 1, 17 }, .relu = true },
    { .x = { 19, 1, 1, 33 }, .act = true, .fixed_scale = true },
    { .x = { 4, 6, 9, 5 }, .pool = 3, .act = true, .fixed_scale = true, .frozen = true },
    { .x = { 2, 15, 31, 2 }, .pool = 15, .relu = true },
    { .x = { 9, 5, 7, 33 }, .add = true, .relu = true },
    { .x = { 11, 1, 1, 31 }, .add = true, .act = true },
    { .x = { 3, 4, 4, 65 }, .add_x = true, .relu = true, .act = true },
    { .x = { 3, 4, 5, 16 }, .add_x = true, .derived = true },
};

static void fused_is_the_ops_one_by_one(void **state)
{
    for (int path = 0; path < PATHS; path++) {
        use_path(path);
        for (int i = 0; i < COUNT(ways); i++) {
            const result fused = run(ways[i], false), apart = run(ways[i], true);
            assert_int_equal(fused.n, apart.n);
            assert_memory_equal(fused.y, apart.y, fused.n * sizeof *fused.y);
            /* Sums of up to 300 numbers below 3, in another order: 900 2^-24 = 5e-5. */
            const qg_params p = operands(&ways[i]);
            assert_close(fused.grad, apart.grad, p.length, 5e-5);
            qg_params_release((qg_params *)&p);
            result_free(fused), result_free(apart);
        }
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    for (int i = 0; i < COUNT(ways); i++) {
        qg_set_threads(1);
        const result one = run(ways[i], false);
        const qg_params p = operands(&ways[i]);
        for (int threads = 2; threads <= 3; threads++) {
            qg_set_threads(threads);
            const result more = run(ways[i], false);
            assert_memory_equal(one.y, more.y, one.n * sizeof *one.y);
            assert_memory_equal(one.grad, more.grad, p.length * sizeof *one.grad);
            result_free(more);
        }
        qg_params_release((qg_params *)&p);
        result_free(one);
    }
    qg_set_threads(0);
}

/* The first of equal maxima gets the gradient, as in qg_maxpool. */
static void ties_go_to_the_first(void **state)
{
    const way v = { .x = { 1, 4, 4, 1 }, .pool = 2, .frozen = true };
    qg_params p = operands(&v);
    const float x[] = { 1, 1, 0, 3, 1, 1, 3, 3, -2, 0, 5, 5, 0, 0, 5, 7 };
    const float dx[] = { 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1 };
    memcpy(p.item[X]->value, x, sizeof x);
    p.item[VAR]->value[0] = 1, p.item[GAMMA]->value[0] = sqrtf(1 + 1e-5f);
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    assert_ok(qg_backward(t, total(t, build(t, &p, (void *)&v))));
    assert_close(p.item[X]->grad, dx, 16, 1e-6);        /* gamma / sqrt(var + eps) rounds twice */
    qg_tape_free(t);
    qg_params_release(&p);
}

static void what_needs_no_gradient_gets_none(void **state)
{
    for (int frozen = X; frozen <= ADD; frozen++) {
        way       v = { .x = { 2, 5, 8, 17 }, .relu = true, .act = true, .add = true };
        qg_params p = operands(&v);
        p.item[frozen]->frozen = true;
        qg_tape *t = qg_tape_new();
        qg_tape_begin(t, QG_TRAIN, 1, 0);
        assert_ok(qg_backward(t, total(t, build(t, &p, &v))));
        for (int i = X; i <= ADD; i++) {
            double length = 0;
            for (size_t k = 0; k < qg_count(p.item[i]->shape); k++) length += fabs((double)p.item[i]->grad[k]);
            assert_true((length == 0) == (i == frozen));
        }
        qg_tape_free(t);
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_of_pools_and_relu),
        cmocka_unit_test_teardown(fused_is_the_ops_one_by_one, restore_variables),
        cmocka_unit_test(same_bits_for_any_number_of_threads),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(what_needs_no_gradient_gets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
