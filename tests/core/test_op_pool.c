#include "tests/support/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/ops.h"
#include "core/rng.h"

/* --- the definition, one element at a time ------------------------------------------------ */

typedef struct window {
    size_t at[81];      /* of its elements in x, in order */
    int    n;
} window;

static window window_of(qg_shape x, int size, int n, int i, int j, int k)
{
    window w = { .n = 0 };
    for (int p = 0; p < size; p++)
        for (int q = 0; q < size; q++)
            w.at[w.n++] = (((size_t)n * (size_t)x.h + (size_t)(i * size + p)) * (size_t)x.w +
                           (size_t)(j * size + q)) * (size_t)x.c + (size_t)k;
    return w;
}

/* y, and dx for a gradient of 1 everywhere. */
static void pool_ref(bool max, qg_shape s, int size, const float *x, float *y, float *dx)
{
    memset(dx, 0, qg_count(s) * sizeof *dx);
    for (int n = 0; n < s.n; n++)
        for (int i = 0; i < s.h / size; i++)
            for (int j = 0; j < s.w / size; j++)
                for (int k = 0; k < s.c; k++, y++) {
                    const window w    = window_of(s, size, n, i, j, k);
                    size_t       best = w.at[0];
                    double       sum  = 0;
                    for (int e = 0; e < w.n; e++) {
                        if (x[w.at[e]] > x[best]) best = w.at[e];
                        sum += (double)x[w.at[e]];
                        if (!max) dx[w.at[e]] = 1.0f / (float)w.n;
                    }
                    *y = max ? x[best] : (float)(sum / w.n);
                    if (max) dx[best] = 1;
                }
}

static const struct { qg_shape x; int size; } cases[] = {
    { { 1, 1, 1, 1 }, 1 },  { { 3, 3, 3, 1 }, 3 },  { { 1, 5, 7, 3 }, 2 },   { { 2, 7, 5, 31 }, 3 },
    { { 3, 9, 9, 33 }, 9 }, { { 1, 4, 63, 2 }, 4 }, { { 2, 10, 65, 1 }, 2 }, { { 9, 8, 6, 63 }, 2 },
};
enum { CASES = sizeof cases / sizeof *cases };

/* Both ways a gradient arrives: fresh is false for a parameter, true for the op after one. */
static void check_pool(bool max, bool fresh, qg_shape s, int size)
{
    const size_t m = qg_count(s);
    qg_params    p = { 0 };
    qg_param    *x = declare(&p, "x", s);
    float       *y = malloc(2 * m * sizeof *y), *dx = y + m;
    qg_tape     *t = qg_tape_new();
    assert_non_null(y);
    assert_ok(qg_params_allocate(&p));
    /* Seven values, so that ties abound. */
    for (size_t i = 0; i < m; i++) x->value[i] = (float)((i * i + 3 * i) % 7) - 3;
    pool_ref(max, s, size, x->value, y, dx);
    qg_tape_begin(t, QG_TRAIN, 1, 0);
    qg_var *v = qg_parameter(t, x);
    if (fresh) v = qg_scale(t, v, 1);
    v = max ? qg_maxpool(t, v, size) : qg_avgpool(t, v, size);
    assert_ok(qg_backward(t, total(t, v)));
    assert_true(qg_shape_equal(v->shape, (qg_shape){ s.n, s.h / size, s.w / size, s.c }));
    /* A mean of up to 81 values below 4: 81 roundings of 4e-7 before the division. */
    assert_close(v->data, y, qg_count(v->shape), max ? 0 : 1e-6);
    assert_close(x->grad, dx, m, max ? 0 : 1e-7);
    qg_tape_free(t);
    qg_params_release(&p);
    free(y);
}

static void pools_are_their_definition(void **state)
{
    for (int i = 0; i < CASES; i++)
        for (int way = 0; way < 4; way++) check_pool(way & 1, way & 2, cases[i].x, cases[i].size);
}

/* --- by hand ------------------------------------------------------------------------------ */

static void values_by_hand(void **state)
{
    /* Two channels of 3 x 5; the last row and column belong to no window of 2. */
    float x[] = { 1, -1, 2, -2, 3, -3, 4, -4, 99, 99,
                  5, -5, 6, -6, 9, -9, 8, -8, 99, 99,
                  99, 99, 99, 99, 99, 99, 99, 99, 99, 99 };
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *v   = qg_input(t, (qg_tensor){ { 1, 3, 5, 2 }, x });
    qg_var *max = qg_maxpool(t, v, 2), *mean = qg_avgpool(t, v, 2), *all = qg_global_avgpool(t, v);
    assert_non_null(max), assert_non_null(mean), assert_non_null(all);
    assert_close(max->data, (float[]){ 6, -1, 9, -3 }, 4, 0);
    assert_close(mean->data, (float[]){ 3.5f, -3.5f, 6, -6 }, 4, 0);
    /* 38 or -38, and seven times 99, of 15: sums are exact, one division rounds. */
    assert_close(all->data, (float[]){ 731.0f / 15, 655.0f / 15 }, 2, 0);
    assert_null(max->saved), assert_null(mean->saved), assert_null(all->saved);
    qg_tape_free(t);
}

/* In one float the sum of 2^18 tenths would be 0.25 % too small. */
static void a_large_window_is_summed_in_parts(void **state)
{
    enum { SIDE = 512, C = 3 };
    float *x = malloc(SIDE * SIDE * C * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < SIDE * SIDE * C; i++) x[i] = 0.1f * (float)(1 + i % C);
    qg_tape *t = qg_tape_new();
    qg_tape_begin(t, QG_EVAL, 1, 0);
    qg_var *y = qg_global_avgpool(t, qg_input(t, (qg_tensor){ { 1, SIDE, SIDE, C }, x }));
    assert_non_null(y);
    /* Two chains, of 1024 and of 256: at most as many halves of an ulp each, all in one direction. */
    for (int k = 0; k < C; k++) assert_true(fabsf(y->data[k] - x[k]) < 1280 * 0x1p-24f * x[k]);
    qg_tape_free(t);
    free(x);
}

static void nan_survives_wherever_it_stands(void **state)
{
    qg_tape *t = qg_tape_new();
    for (int at = 0; at < 4; at++) {
        float x[] = { 1, 2, 3, 2 };
        x[at]     = NAN;
        qg_tape_begin(t, QG_EVAL, 1, 0);
        qg_var *v = qg_input(t, (qg_tensor){ { 1, 2, 2, 1 }, x });
        assert_true(isnan(qg_maxpool(t, v, 2)->data[0]));
        assert_true(isnan(qg_avgpool(t, v, 2)->data[0]));
        assert_true(isnan(qg_global_avgpool(t, v)->data[0]));
    }
    qg_tape_free(t);
}

/* --- gradients ---------------------------------------------------------------------------- */

static qg_var *build(qg_tape *t, const qg_params *p, void *context)
{
    const int *size = context;
    qg_var    *v    = qg_scale(t, qg_parameter(t, p->item[0]), 2);
    qg_var    *both = qg_add(t, qg_maxpool(t, v, *size), qg_scale(t, qg_avgpool(t, v, *size), 3));
    return qg_bias(t, both, qg_bias(t, qg_parameter(t, p->item[1]), qg_parameter(t, p->item[1])));
}

static qg_var *build_global(qg_tape *t, const qg_params *p, void *context)
{
    qg_var *v = qg_parameter(t, p->item[0]);
    return qg_add(t, qg_global_avgpool(t, qg_scale(t, v, 2)), qg_global_avgpool(t, v));
}

/* The elements of each window: size^2 values 2 / size^2 apart, begun at a keyed place. */
static void spread(qg_param *x, int size)
{
    const qg_shape s     = x->shape;
    const int      ranks = size * size;
    float         *v     = x->value;
    for (int i = 0; i < s.n * s.h; i++)
        for (int j = 0; j < s.w; j++)
            for (int k = 0; k < s.c; k++) {
                const int row   = i % s.h, corner = i - row + row / size;
                const int place = (corner * s.w + j / size) * s.c + k;
                const int first = (int)(qg_bits(17, (uint64_t)place) % (uint64_t)ranks);
                const int rank  = (row % size * size + j % size + first) % ranks;
                *v++             = -1.0f + ((float)rank + 0.5f) * 2.0f / (float)ranks;
            }
}

static void gradients(void **state)
{
    for (int i = 0; i < CASES; i++) {
        int       size = cases[i].size;
        qg_params p    = { 0 };
        declare(&p, "x", cases[i].x);
        declare(&p, "b", (qg_shape){ 1, 1, 1, cases[i].x.c });
        allocate_apart(&p, 13);
        spread(p.item[0], size);
        /* Two values move by 2h towards each other: 4h < 2 / size^2. */
        assert_gradcheck((qg_gradcheck_spec){ .name = "pool", .params = &p, .build = build,
                                              .context = &size, .h = 0.2f / (float)(size * size) });
        p.item[1]->frozen = true;
        assert_gradcheck((qg_gradcheck_spec){ .name   = "global", .params = &p,
                                              .build = build_global });
        qg_params_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_are_their_definition),
        cmocka_unit_test(values_by_hand),
        cmocka_unit_test(a_large_window_is_summed_in_parts),
        cmocka_unit_test(nan_survives_wherever_it_stands),
        cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
